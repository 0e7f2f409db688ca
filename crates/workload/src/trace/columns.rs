//! [`Columns`]: which column of a table is which field of a [`Row`](super::Row).

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::TraceError;

/// Unit of times and spans that are given as numbers. Times that are written as dates need none.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TimeUnit {
    /// Seconds, with any fraction; the default.
    #[default]
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl TimeUnit {
    const ALL: [Self; 4] = [
        Self::Seconds,
        Self::Milliseconds,
        Self::Microseconds,
        Self::Nanoseconds,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }

    /// Nanoseconds of one.
    pub const fn nanos(self) -> u32 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Milliseconds => 1_000_000,
            Self::Microseconds => 1_000,
            Self::Nanoseconds => 1,
        }
    }
}

/// Declares [`Field`] with the name of each variant.
macro_rules! fields {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A field of a [`Row`](super::Row) as a table has it: its name is that of its column, unless
        /// [`Columns`] give it another.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Field {
            $($(#[$doc])* $variant,)*
        }

        impl Field {
            /// All of them, in the order in which they are written.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name, in kebab-case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

fields! {
    /// Text.
    Id = "id",
    /// A time: a number in the [unit](Columns::time_unit), or a date and time of day.
    Sent = "sent",
    /// A whole number of tokens; needed.
    InputTokens = "input-tokens",
    /// A whole number of tokens; needed.
    OutputTokens = "output-tokens",
    /// A whole number of tokens.
    MaxTokens = "max-tokens",
    /// Text.
    Model = "model",
    /// Text.
    Tenant = "tenant",
    /// Text.
    Session = "session",
    /// A whole number, from 0.
    Turn = "turn",
    /// `critical`, `standard`, `sheddable` or `batch`.
    Class = "class",
    /// A whole number; smaller is more urgent.
    Priority = "priority",
    /// A whole number; larger is more important.
    Objective = "objective",
    /// A span, in the unit of times.
    Timeout = "timeout",
    /// A span, in the unit of times.
    FirstTokenTimeout = "first-token-timeout",
    /// `streamed` or `whole`.
    Delivery = "delivery",
    /// A whole number, from 0.
    Stage = "stage",
    /// A whole number, from 0.
    CacheSalt = "cache-salt",
    /// A JSON object of texts.
    Headers = "headers",
    /// What [`Prefix`](super::Prefix) prints as.
    Prefix = "prefix",
    /// What [`Fate`](super::Fate) prints as.
    Fate = "fate",
    /// A time.
    FirstToken = "first-token",
    /// A time.
    Finished = "finished",
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const TIME_UNIT: &str = "time-unit";

/// Names of the columns of a table (CSV, JSONL, Parquet), and the unit of its times.
///
/// A field without a name here is looked for under its own, in kebab-case or `snake_case`. In
/// configurations this is a map; from command lines, `field=column` joined by commas.
///
/// ```
/// use foretoken_workload::trace::{Columns, Field, TimeUnit};
///
/// let columns: Columns = serde_json::from_str(
///     r#"{ "sent": "t", "input-tokens": "prompt_len", "time-unit": "milliseconds" }"#,
/// )?;
/// assert_eq!(columns.name(Field::InputTokens), Some("prompt_len"));
/// assert_eq!(columns.time_unit(), TimeUnit::Milliseconds);
/// assert_eq!("sent=t,input-tokens=prompt_len,time-unit=milliseconds".parse(), Ok(columns));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    try_from = "BTreeMap<String, String>",
    into = "BTreeMap<String, String>"
)]
pub struct Columns {
    names: BTreeMap<Field, String>,
    time_unit: TimeUnit,
}

impl Columns {
    /// The name given to the column of `field`, if one was given.
    pub fn name(&self, field: Field) -> Option<&str> {
        self.names.get(&field).map(String::as_str)
    }

    /// The unit of times and spans.
    pub const fn time_unit(&self) -> TimeUnit {
        self.time_unit
    }

    /// Says that the column of `field` is called `name`.
    #[must_use]
    pub fn with(mut self, field: Field, name: impl Into<String>) -> Self {
        self.names.insert(field, name.into());
        self
    }

    /// Says in what unit times and spans are.
    #[must_use]
    pub const fn in_unit(mut self, unit: TimeUnit) -> Self {
        self.time_unit = unit;
        self
    }

    /// The field whose column is called `column`.
    pub(crate) fn field(&self, column: &str) -> Option<Field> {
        if let Some((&field, _)) = self.names.iter().find(|(_, name)| *name == column) {
            return Some(field);
        }
        Field::ALL
            .iter()
            .copied()
            .find(|&field| !self.names.contains_key(&field) && is_name_of(field, column))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), TraceError> {
        if key == TIME_UNIT {
            let unit = TimeUnit::ALL.iter().find(|unit| unit.name() == value);
            let known = TimeUnit::ALL.map(TimeUnit::name).join(", ");
            self.time_unit = *unit.ok_or_else(|| TraceError::Format {
                problem: format!("time-unit is {value:?}: allowed is one of {known}"),
            })?;
            return Ok(());
        }
        let field = Field::ALL.iter().find(|field| is_name_of(**field, key));
        let field = *field.ok_or_else(|| {
            let known: Vec<_> = Field::ALL.iter().map(|field| field.name()).collect();
            let known = known.join(", ");
            TraceError::Format {
                problem: format!("a column of {key:?}: allowed is {TIME_UNIT}, or one of {known}"),
            }
        })?;
        self.names.insert(field, value.to_owned());
        Ok(())
    }
}

/// Whether `column` is the name of `field`, in kebab-case or `snake_case`.
fn is_name_of(field: Field, column: &str) -> bool {
    let name = field.name().bytes();
    name.len() == column.len()
        && name
            .zip(column.bytes())
            .all(|(own, other)| own == other || (own == b'-' && other == b'_'))
}

impl TryFrom<BTreeMap<String, String>> for Columns {
    type Error = TraceError;

    fn try_from(map: BTreeMap<String, String>) -> Result<Self, TraceError> {
        let mut columns = Self::default();
        for (key, value) in &map {
            columns.set(key, value)?;
        }
        Ok(columns)
    }
}

impl From<Columns> for BTreeMap<String, String> {
    fn from(columns: Columns) -> Self {
        let names = columns.names.into_iter();
        let mut map: Self = names
            .map(|(field, name)| (field.name().to_owned(), name))
            .collect();
        if columns.time_unit != TimeUnit::default() {
            map.insert(TIME_UNIT.to_owned(), columns.time_unit.name().to_owned());
        }
        map
    }
}

impl FromStr for Columns {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut columns = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| TraceError::Format {
                problem: format!("columns have {pair:?}: allowed is field=column"),
            })?;
            columns.set(key, value)?;
        }
        Ok(columns)
    }
}
