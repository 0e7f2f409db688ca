//! Mooncake's traces (kvcache-ai/Mooncake): one JSON object per line.
//!
//! | Key | Becomes |
//! |---|---|
//! | `timestamp` | `sent`, from milliseconds since the trace's start |
//! | `input_length` | `input-tokens` |
//! | `output_length` | `output-tokens` |
//! | `hash_ids` | `prefix`: blocks of 512 tokens, the last one perhaps partial; may be missing |
//!
//! Other keys are ignored.

use super::super::columns::TimeUnit;
use super::super::json::{Object, bare};
use super::super::row::Prefix;
use super::super::value::{self, TIME};
use super::{LineRows, Row, Rows, Text};

const KEYS: &[&str; 4] = &["timestamp", "input_length", "output_length", "hash_ids"];
const TIMESTAMP: usize = 0;
const INPUT: usize = 1;
const OUTPUT: usize = 2;
const HASH_IDS: usize = 3;

/// Tokens of the block that an id stands for.
const BLOCK_TOKENS: u32 = 512;

pub(super) fn rows(text: Text) -> Box<dyn Rows> {
    LineRows::boxed(text, |line, place, _| {
        let object = Object::parse(line, KEYS, place)?;
        let time = |raw| value::time(bare(raw), TimeUnit::Milliseconds);
        let ids = |raw| serde_json::from_str(raw).ok();
        let mut row = Row::new(place, object.tokens(INPUT)?, object.tokens(OUTPUT)?);
        row.sent = Some(object.needed(TIMESTAMP, TIME, time)?);
        if let Some(ids) = object.optional(HASH_IDS, "a list of whole numbers, from 0", ids)? {
            row.prefix = Prefix::Blocks {
                ids,
                block_tokens: BLOCK_TOKENS,
            };
        }
        Ok(row)
    })
}
