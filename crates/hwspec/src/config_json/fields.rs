//! Typed access to the fields of a JSON object, with errors that name the field's path.

use serde_json::{Map, Value};

use crate::error::HwspecError;

/// Bounds of what a configuration may ask for: an order of magnitude beyond any model, and small
/// enough that no product of them overflows 64 bits.
pub(super) mod limit {
    pub(in crate::config_json) const WIDTH: u32 = 1 << 17;
    pub(in crate::config_json) const INNER_WIDTH: u32 = 1 << 20;
    pub(in crate::config_json) const VOCABULARY: u32 = 1 << 24;
    pub(in crate::config_json) const DEPTH: u32 = 1 << 10;
    pub(in crate::config_json) const HEADS: u32 = 1 << 12;
    pub(in crate::config_json) const HEAD_WIDTH: u32 = 1 << 12;
    pub(in crate::config_json) const EXPERTS: u32 = 1 << 12;
    pub(in crate::config_json) const POSITIONS: u32 = 1 << 30;
}

/// A JSON object and the path that led to it.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    model: &'a str,
    path: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(model: &'a str, path: &'a str, map: &'a Map<String, Value>) -> Self {
        Self { model, path, map }
    }

    pub(super) fn model(&self) -> &'a str {
        self.model
    }

    fn full_path(&self, field: &str) -> String {
        if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.path)
        }
    }

    /// An error about the value of `field`.
    pub(super) fn invalid(&self, field: &str, allowed: impl Into<String>) -> HwspecError {
        HwspecError::InvalidField {
            source_name: self.model.to_owned(),
            field: self.full_path(field),
            value: self
                .map
                .get(field)
                .map_or_else(|| "nothing".to_owned(), shorten),
            allowed: allowed.into(),
        }
    }

    pub(super) fn unsupported(
        &self,
        field: &str,
        value: impl Into<String>,
        supported: Vec<&'static str>,
    ) -> HwspecError {
        HwspecError::Unsupported {
            model: self.model.to_owned(),
            field: self.full_path(field),
            value: value.into(),
            supported,
        }
    }

    /// The value, if it is there and not null.
    pub(super) fn value(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    /// Whether the key is there at all, if only as null.
    pub(super) fn mentions(&self, field: &str) -> bool {
        self.map.contains_key(field)
    }

    /// A whole number from `least` to `most`, if present.
    fn whole(&self, field: &str, least: u32, most: u32) -> Result<Option<u32>, HwspecError> {
        let Some(value) = self.value(field) else {
            return Ok(None);
        };
        value
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| (least..=most).contains(number))
            .map(Some)
            .ok_or_else(|| self.invalid(field, format!("a whole number from {least} to {most}")))
    }

    /// A positive number, if present.
    pub(super) fn optional(&self, field: &str, most: u32) -> Result<Option<u32>, HwspecError> {
        self.whole(field, 1, most)
    }

    /// A number that may be zero, or `default`.
    pub(super) fn count_or(
        &self,
        field: &str,
        default: u32,
        most: u32,
    ) -> Result<u32, HwspecError> {
        Ok(self.whole(field, 0, most)?.unwrap_or(default))
    }

    /// A positive number without a default.
    pub(super) fn required(&self, field: &str, most: u32) -> Result<u32, HwspecError> {
        self.optional(field, most)?
            .ok_or_else(|| self.missing(field))
    }

    /// A positive number under the first of several names that is present.
    pub(super) fn required_any(&self, names: &[&str], most: u32) -> Result<u32, HwspecError> {
        for name in names {
            if let Some(number) = self.optional(name, most)? {
                return Ok(number);
            }
        }
        Err(self.missing(&names.join("` or `")))
    }

    pub(super) fn missing(&self, field: &str) -> HwspecError {
        HwspecError::MissingField {
            source_name: self.model.to_owned(),
            field: self.full_path(field),
        }
    }

    pub(super) fn flag(&self, field: &str) -> Result<Option<bool>, HwspecError> {
        match self.value(field) {
            None => Ok(None),
            Some(value) => value
                .as_bool()
                .map(Some)
                .ok_or_else(|| self.invalid(field, "true or false")),
        }
    }

    pub(super) fn text(&self, field: &str) -> Result<Option<&'a str>, HwspecError> {
        match self.value(field) {
            None => Ok(None),
            Some(value) => value
                .as_str()
                .map(Some)
                .ok_or_else(|| self.invalid(field, "a string")),
        }
    }

    pub(super) fn list(&self, field: &str) -> Result<Option<&'a [Value]>, HwspecError> {
        match self.value(field) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(self.invalid(field, "a list")),
        }
    }

    /// A list of strings, empty if absent.
    pub(super) fn texts(&self, field: &str) -> Result<Vec<&'a str>, HwspecError> {
        self.list(field)?
            .unwrap_or_default()
            .iter()
            .map(|item| {
                item.as_str()
                    .ok_or_else(|| self.invalid(field, "a list of strings"))
            })
            .collect()
    }

    /// A nested object; its errors carry `path`.
    pub(super) fn object(
        &self,
        field: &str,
        path: &'a str,
    ) -> Result<Option<Fields<'a>>, HwspecError> {
        match self.value(field) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields {
                model: self.model,
                path,
                map,
            })),
            Some(_) => Err(self.invalid(field, "an object")),
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        self.map.iter().map(|(key, value)| (key.as_str(), value))
    }
}

/// The value as it is written, cut to a length that fits into a message.
fn shorten(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    let head: String = text.chars().take(LONGEST).collect();
    format!("{head}...")
}
