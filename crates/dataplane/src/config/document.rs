//! YAML as a tree whose every node knows its line, and typed reading of it.

use core::fmt;
use std::collections::BTreeMap;

use foretoken_des_kernel::SimDuration;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// A configuration that cannot be read or makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is not YAML.
    #[error("not valid YAML: {problem}")]
    Syntax {
        /// What the parser says, with the place.
        problem: String,
    },
    /// A field or its value is wrong.
    #[error("line {line}: {path}: {problem}")]
    Field {
        /// Line in the file, from 1.
        line: u64,
        /// Path to the field, as `plugins[2].parameters.threshold`.
        path: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// A node of the tree.
#[derive(Debug, Clone)]
enum Node {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl Node {
    /// What it is, for messages.
    fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Text(text) => format!("{text:?}"),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a mapping".to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        Ok(Node::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}

/// A value with its place: line and path.
#[derive(Debug, Clone)]
pub(super) struct Value {
    node: Node,
    line: u64,
    path: String,
}

impl Value {
    /// Reads a document.
    pub(super) fn parse(text: &str) -> Result<Self, ConfigError> {
        // Deep documents would exhaust the stack, since each level of the tree takes several calls, and
        // aliases of aliases the memory.
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_depth: 24, max_nodes: 20_000 },
        };
        let root: Spanned<Node> =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| {
                ConfigError::Syntax {
                    problem: error.to_string(),
                }
            })?;
        Ok(Self {
            line: root.referenced.line().max(1),
            node: root.value,
            path: String::new(),
        })
    }

    /// A mapping without entries, where a file leaves one out.
    pub(super) fn absent(line: u64, path: String) -> Self {
        Self {
            node: Node::Null,
            line,
            path,
        }
    }

    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    /// An error at this place.
    pub(super) fn error(&self, problem: impl Into<String>) -> ConfigError {
        ConfigError::Field {
            line: self.line,
            path: if self.path.is_empty() {
                "the document".to_owned()
            } else {
                self.path.clone()
            },
            problem: problem.into(),
        }
    }

    fn expected(&self, what: &str) -> ConfigError {
        self.error(format!("is {}: expected {what}", self.node.describe()))
    }

    /// Its entries; nothing counts as an empty mapping.
    pub(super) fn entries(self) -> Result<BTreeMap<String, Self>, ConfigError> {
        let entries = match self.node {
            Node::Null => Vec::new(),
            Node::Map(entries) => entries,
            _ => return Err(self.expected("a mapping")),
        };
        let dot = if self.path.is_empty() { "" } else { "." };
        let entry = |(key, node): (Spanned<String>, Spanned<Node>)| {
            let value = Self {
                line: key.referenced.line(),
                path: format!("{}{dot}{}", self.path, key.value),
                node: node.value,
            };
            (key.value, value)
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    /// The same, to be taken one by one.
    pub(super) fn fields(self) -> Result<Fields, ConfigError> {
        let (line, path) = (self.line, self.path.clone());
        Ok(Fields {
            left: self.entries()?,
            asked: Vec::new(),
            line,
            path,
        })
    }

    /// Its items; nothing counts as an empty list.
    pub(super) fn items(self) -> Result<Vec<Self>, ConfigError> {
        match self.node {
            Node::Null => Ok(Vec::new()),
            Node::List(items) => Ok((0_usize..)
                .zip(items)
                .map(|(index, item)| Self {
                    line: item.referenced.line(),
                    path: format!("{}[{index}]", self.path),
                    node: item.value,
                })
                .collect()),
            _ => Err(self.expected("a list")),
        }
    }

    pub(super) fn text(&self) -> Result<String, ConfigError> {
        match &self.node {
            Node::Text(text) => Ok(text.clone()),
            // A plain scalar that looks like something else is still a fine name.
            Node::Int(value) => Ok(value.to_string()),
            Node::Bool(value) => Ok(value.to_string()),
            Node::Float(value) => Ok(value.to_string()),
            _ => Err(self.expected("text")),
        }
    }

    pub(super) fn bool(&self) -> Result<bool, ConfigError> {
        match self.node {
            Node::Bool(value) => Ok(value),
            _ => Err(self.expected("true or false")),
        }
    }

    pub(super) fn f64(&self) -> Result<f64, ConfigError> {
        match self.node {
            Node::Float(value) if value.is_finite() => Ok(value),
            Node::Int(value) => Ok(value as f64),
            _ => Err(self.expected("a number")),
        }
    }

    /// A whole number of any sign.
    pub(super) fn i64(&self) -> Result<i64, ConfigError> {
        match self.node {
            Node::Int(value) => i64::try_from(value).map_err(|_| self.expected("a whole number")),
            _ => Err(self.expected("a whole number")),
        }
    }

    /// A whole number from 0 on that fits into `T`.
    pub(super) fn unsigned<T: TryFrom<u64>>(&self) -> Result<T, ConfigError> {
        self.i64()
            .ok()
            .and_then(|value| u64::try_from(value).ok())
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| self.expected("a whole number, 0 or more"))
    }

    /// A number of anything as Kubernetes writes it: `1000`, `4k`, `10Gi`.
    pub(super) fn quantity(&self) -> Result<u64, ConfigError> {
        const ALLOWED: &str = "a quantity, as 1000, 4k or 10Gi";
        let text = self.text()?;
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let factor: u64 = match &text[digits.len()..] {
            "" => 1,
            "k" => 1000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            "T" => 1_000_000_000_000,
            "Ki" => 1 << 10,
            "Mi" => 1 << 20,
            "Gi" => 1 << 30,
            "Ti" => 1 << 40,
            _ => return Err(self.expected(ALLOWED)),
        };
        let whole = digits.parse::<u64>().ok();
        whole
            .and_then(|number| number.checked_mul(factor))
            .ok_or_else(|| self.expected(ALLOWED))
    }

    /// A span of time as Go writes it: `200ms`, `1m30s`; a bare 0 too.
    pub(super) fn duration(&self) -> Result<SimDuration, ConfigError> {
        const ALLOWED: &str = "a duration, as 200ms or 1m30s";
        let text = self.text()?;
        parse_duration(&text).ok_or_else(|| self.expected(ALLOWED))
    }
}

/// Go's form of a duration: numbers with units, one after the other.
pub(super) fn parse_duration(text: &str) -> Option<SimDuration> {
    if text == "0" {
        return Some(SimDuration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let tail = &rest[digits..];
        let unit = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        seconds += number
            * match &tail[..unit] {
                "ns" => 1e-9,
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &tail[unit..];
    }
    (!text.is_empty())
        .then(|| SimDuration::try_from_secs_f64(seconds).ok())
        .flatten()
}

/// The entries of a mapping, taken one by one; what is left at the end is unknown.
#[derive(Debug)]
pub(super) struct Fields {
    left: BTreeMap<String, Value>,
    asked: Vec<&'static str>,
    line: u64,
    path: String,
}

impl Fields {
    /// The value of `key`, if it is there and not empty.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Value> {
        self.asked.push(key);
        self.left
            .remove(key)
            .filter(|value| !matches!(value.node, Node::Null))
    }

    /// The value of `key`, which has to be there.
    pub(super) fn need(&mut self, key: &'static str) -> Result<Value, ConfigError> {
        self.take(key)
            .ok_or_else(|| self.here().error(format!("{key} is missing")))
    }

    /// The mapping under `key`, without entries where it is left out.
    pub(super) fn section(&mut self, key: &'static str) -> Result<Self, ConfigError> {
        self.take(key).unwrap_or_else(|| self.here()).fields()
    }

    /// The value of `key` read by `read`, else `default`.
    pub(super) fn or<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Value) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        self.take(key).map_or(Ok(default), |value| read(&value))
    }

    /// The value of `key` read by `read`, if it is there.
    pub(super) fn maybe<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Value) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        self.take(key).as_ref().map(read).transpose()
    }

    /// Takes `key` and forgets it: accepted, without effect.
    pub(super) fn ignore(&mut self, key: &'static str) {
        let _ = self.take(key);
    }

    /// The place of the mapping itself.
    pub(super) fn here(&self) -> Value {
        Value::absent(self.line, self.path.clone())
    }

    /// Refuses what nobody asked for.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        let Some((key, value)) = self.left.into_iter().next() else {
            return Ok(());
        };
        Err(value.error(if self.asked.is_empty() {
            format!("unknown field {key}: no fields are allowed here")
        } else {
            format!("unknown field {key}: allowed are {}", self.asked.join(", "))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_line_and_path() {
        let mut fields = Value::parse("a: 1\nb:\n- c: x\n- c: 2.5\n")
            .and_then(Value::fields)
            .expect("it is a mapping");
        let items = fields.need("b").and_then(Value::items).expect("a list");
        let mut second = items[1].clone().fields().expect("a mapping");
        let error = second
            .need("c")
            .and_then(|c| c.unsigned::<u32>())
            .expect_err("no whole number");
        assert_eq!(
            error.to_string(),
            "line 4: b[1].c: is 2.5: expected a whole number, 0 or more"
        );
        let error = fields.finish().expect_err("a is left");
        assert_eq!(
            error.to_string(),
            "line 1: a: unknown field a: allowed are b"
        );
    }

    #[test]
    fn durations_are_written_as_in_go() {
        for (text, nanos) in [
            ("200ms", 200_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5s", 1_500_000_000),
            ("2h", 7_200_000_000_000),
            ("0", 0),
        ] {
            let duration = parse_duration(text).map(SimDuration::as_nanos);
            assert_eq!(duration, Some(nanos), "{text}");
        }
        for wrong in ["", "5", "ms", "3 s", "-1s", "1d"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn quantities_are_written_as_in_kubernetes() {
        let quantity = |text: &str| Value::parse(text).and_then(|value| value.quantity()).ok();
        assert_eq!(quantity("10Gi"), Some(10 << 30));
        assert_eq!(quantity("4k"), Some(4000));
        assert_eq!(quantity("1000"), Some(1000));
        for wrong in ["k", "4x", "-1", "1.5", "[]"] {
            assert_eq!(quantity(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_yaml_is_an_error_with_its_place() {
        let error = Value::parse("a: [1\nb: 2").expect_err("the list never ends");
        assert!(matches!(error, ConfigError::Syntax { .. }));
    }
}
