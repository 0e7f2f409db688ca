//! Single JSON values that a format takes apart: [`Object`] and what its values are.
//!
//! Values stay text until a format says what they are: numbers are then read exactly, and an error can repeat what is
//! there.

use core::fmt;
use std::borrow::Cow;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::TraceError;
use super::row::Place;
use super::value;

/// The values of some keys of a JSON object; those of other keys are checked and dropped.
pub(crate) struct Object<'a, const N: usize> {
    keys: &'static [&'static str; N],
    values: [Option<&'a RawValue>; N],
    place: Place,
}

impl<'a, const N: usize> Object<'a, N> {
    /// The object that is `text`.
    ///
    /// # Errors
    /// [`TraceError::BadRow`] if it is none.
    pub(crate) fn parse(
        text: &'a str,
        keys: &'static [&'static str; N],
        place: Place,
    ) -> Result<Self, TraceError> {
        let mut values = [None; N];
        each(text, place, |key, value| {
            if let Some(index) = keys.iter().position(|wanted| *wanted == key)
                && value.get() != "null"
            {
                values[index] = Some(value);
            }
            Ok(())
        })?;
        Ok(Self {
            keys,
            values,
            place,
        })
    }

    /// Where the object is.
    pub(crate) const fn place(&self) -> Place {
        self.place
    }

    /// The JSON text of the value of key `index`; nothing if it is missing or null.
    pub(crate) fn raw(&self, index: usize) -> Option<&'a str> {
        self.values.get(index)?.map(RawValue::get)
    }

    /// Like [`raw`](Self::raw), of the first of several names of one thing that is there.
    pub(crate) fn first(&self, indices: &[usize]) -> Option<usize> {
        let there = |index: &&usize| self.raw(**index).is_some();
        indices.iter().find(there).copied()
    }

    /// What `parse` makes of the JSON text of a value, if it is there.
    pub(crate) fn optional<T>(
        &self,
        index: usize,
        allowed: &str,
        parse: impl FnOnce(&'a str) -> Option<T>,
    ) -> Result<Option<T>, TraceError> {
        let Some(raw) = self.raw(index) else {
            return Ok(None);
        };
        match parse(raw) {
            Some(value) => Ok(Some(value)),
            None => Err(self.bad(index, allowed)),
        }
    }

    /// Like [`optional`](Self::optional), of a value that must be there.
    pub(crate) fn needed<T>(
        &self,
        index: usize,
        allowed: &str,
        parse: impl FnOnce(&'a str) -> Option<T>,
    ) -> Result<T, TraceError> {
        let value = self.optional(index, allowed, parse)?;
        value.ok_or_else(|| self.bad(index, allowed))
    }

    /// A number of tokens that must be there.
    pub(crate) fn tokens(&self, index: usize) -> Result<u64, TraceError> {
        self.needed(index, value::TOKENS, value::whole)
    }

    /// A text, or nothing; numbers are taken as they are written.
    pub(crate) fn text(&self, index: usize) -> Result<Option<Cow<'a, str>>, TraceError> {
        self.optional(index, "text", text)
    }

    /// The value of key `index` is none of the `allowed`.
    pub(crate) fn bad(&self, index: usize, allowed: &str) -> TraceError {
        let key = self.keys.get(index).copied().unwrap_or_default();
        let value = self.raw(index).unwrap_or("missing");
        TraceError::bad(self.place, key, value, allowed)
    }
}

/// The text that `raw` JSON is: of a string what it says, of a number how it is written.
pub(crate) fn text(raw: &str) -> Option<Cow<'_, str>> {
    match raw.as_bytes().first()? {
        b'"' => serde_json::Deserializer::from_str(raw)
            .deserialize_str(Key)
            .ok(),
        b'[' | b'{' => None,
        _ => Some(Cow::Borrowed(raw)),
    }
}

/// The text of `raw` JSON as numbers have it: that of a string without its quotes.
pub(crate) fn bare(raw: &str) -> &str {
    raw.strip_prefix('"')
        .and_then(|raw| raw.strip_suffix('"'))
        .unwrap_or(raw)
}

/// Reads a key without a copy, unless it has escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

/// Calls `visit` for each key of the JSON object `text`, and its value.
///
/// # Errors
/// [`TraceError::BadRow`] if it is none, or what `visit` gives.
pub(crate) fn each<'a>(
    text: &'a str,
    place: Place,
    visit: impl FnMut(&str, &'a RawValue) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    struct Each<F>(F);

    impl<'de, F: FnMut(&str, &'de RawValue) -> Result<(), TraceError>> Visitor<'de> for Each<F> {
        type Value = Result<(), TraceError>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut result = Ok(());
            while let Some(key) = map.next_key_seed(Key)? {
                if result.is_ok() {
                    result = (self.0)(&key, map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(result)
        }
    }

    let mut json = serde_json::Deserializer::from_str(text);
    let visited = json
        .deserialize_map(Each(visit))
        .and_then(|result| json.end().map(|()| result));
    visited.unwrap_or_else(|error| {
        let allowed = format!("a JSON object ({error})");
        Err(TraceError::bad(place, "the row", text, &allowed))
    })
}
