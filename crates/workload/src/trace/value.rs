//! Numbers, times and texts of traces, read exactly.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use super::columns::TimeUnit;
use super::row::{Fate, Prefix, TraceTime};
use crate::client::SloClass;
use crate::prompt::{ContentId, Segment};
use crate::request::RequestId;

/// What a number of tokens may be.
pub(crate) const TOKENS: &str = "a whole number of tokens, from 0";

/// What a whole number may be.
pub(crate) const WHOLE: &str = "a whole number, from 0";

/// What a time or a span may be.
pub(crate) const TIME: &str = "a time that 64-bit nanoseconds can hold";

/// A whole number from 0, also if it is written as a fraction (`12.0`, as pandas does) or with an exponent.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let text = text.trim_ascii();
    let bytes = text.as_bytes();
    if !bytes.is_empty() && bytes.len() <= 19 && bytes.iter().all(u8::is_ascii_digit) {
        return Some(
            bytes
                .iter()
                .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')),
        );
    }
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    if !is_number(bytes) {
        return None;
    }
    whole_of(text.parse().ok()?)
}

/// `number`, if it is whole, not negative and so small that it is exact.
pub(crate) fn whole_of(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and within 53 bits"
    )]
    (number >= 0.0 && number <= EXACT && number.fract() == 0.0).then_some(number as u64)
}

/// A whole number, negative ones too.
pub(crate) fn signed(text: &str) -> Option<i32> {
    text.trim_ascii().parse().ok()
}

/// Whether it consists of what numbers do: no `nan`, `inf` or text.
fn is_number(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'))
}

/// A finite number.
pub(crate) fn number(text: &str) -> Option<f64> {
    let text = text.trim_ascii();
    is_number(text.as_bytes())
        .then(|| text.parse().ok())?
        .filter(|number: &f64| number.is_finite())
}

/// A time: a date, or a number in `unit`.
pub(crate) fn time(text: &str, unit: TimeUnit) -> Option<TraceTime> {
    let text = text.trim_ascii();
    let nanos = if text.as_bytes().get(4) == Some(&b'-') {
        date(text.as_bytes())?
    } else {
        nanos(text, unit)?
    };
    Some(TraceTime::from_nanos(nanos))
}

/// A number of `unit`s in nanoseconds: exact, and digits below a nanosecond are rounded.
pub(crate) fn nanos(text: &str, unit: TimeUnit) -> Option<i64> {
    let text = text.trim_ascii();
    let (negative, digits) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    // Summed up below zero, where there is one number more.
    let mut sum = 0_i64;
    let mut any = false;
    let mut scale = None;
    let mut round = 0;
    for &byte in digits {
        match (byte, &mut scale) {
            (b'0'..=b'9', None) => {
                any = true;
                sum = sum.checked_mul(10)?.checked_sub((byte - b'0').into())?;
            }
            (b'.', None) => {
                sum = sum.checked_mul(unit.nanos().into())?;
                scale = Some(unit.nanos());
            }
            (b'0'..=b'9', Some(scale)) => {
                any = true;
                let digit = i64::from(byte - b'0');
                if *scale == 1 {
                    round = i64::from(digit >= 5);
                }
                *scale /= 10;
                sum = sum.checked_sub(digit * i64::from(*scale))?;
            }
            (b'e' | b'E', _) => return nanos_of(number(text)?, unit),
            _ => return None,
        }
    }
    if scale.is_none() {
        sum = sum.checked_mul(unit.nanos().into())?;
    }
    let sum = sum.checked_sub(round)?;
    any.then_some(if negative { sum } else { sum.checked_neg()? })
}

/// A span of `unit`s in nanoseconds, from 0.
pub(crate) fn span(text: &str, unit: TimeUnit) -> Option<u64> {
    match nanos(text, unit) {
        Some(nanos) => u64::try_from(nanos).ok(),
        // Spans reach twice as far as times do.
        None => {
            let (whole, rest) = text.trim_ascii().split_once('.').unwrap_or((text, ""));
            let rest = nanos(&format!("0.{rest}"), unit)?;
            let whole = self::whole(whole)?.checked_mul(unit.nanos().into())?;
            whole.checked_add(u64::try_from(rest).ok()?)
        }
    }
}

/// A number of `unit`s in nanoseconds.
pub(crate) fn nanos_of(number: f64, unit: TimeUnit) -> Option<i64> {
    const LIMIT: f64 = 9.2e18;
    let nanos = (number * f64::from(unit.nanos())).round();
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    (nanos.abs() <= LIMIT).then_some(nanos as i64)
}

/// A date and time of day, as `YYYY-MM-DD HH:MM:SS[.fraction][Z|±HH:MM]` with a space or a `T` between; without
/// a zone it is UTC. Nanoseconds since 1970; digits below a nanosecond are cut off.
fn date(text: &[u8]) -> Option<i64> {
    let (day, rest) = text.split_at_checked(19)?;
    let two = |at: usize| digits(&day[at..at + 2]);
    let (year, month, date) = (digits(&day[..4])?, two(5)?, two(8)?);
    let (hour, minute, second) = (two(11)?, two(14)?, two(17)?);
    let marks = (day[4], day[7], day[10], day[13], day[16]);
    if !matches!(marks, (b'-', b'-', b' ' | b'T', b':', b':'))
        || !(1..=12).contains(&month)
        || !(1..=days_of(year, month)).contains(&date)
        || hour > 23
        || minute > 59
        || second > 59
    {
        return None;
    }
    let (fraction, zone) = match rest {
        [b'.', rest @ ..] => {
            let end = rest.iter().position(|byte| !byte.is_ascii_digit());
            let (fraction, zone) = rest.split_at(end.unwrap_or(rest.len()));
            if fraction.is_empty() {
                return None;
            }
            let nanos = (0..9).fold(0, |sum, at| {
                sum * 10 + i64::from(fraction.get(at).map_or(0, |digit| digit - b'0'))
            });
            (nanos, zone)
        }
        rest => (0, rest),
    };
    let ahead = offset(zone)?;
    let seconds = days(year, month, date) * 86_400 + hour * 3_600 + minute * 60 + second - ahead;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Seconds that a zone is ahead of UTC: nothing, `Z`, `+HH:MM`, `+HHMM` or `+HH`.
fn offset(zone: &[u8]) -> Option<i64> {
    let (sign, rest) = match zone {
        [] | b"Z" => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest {
        [a, b] => (digits(&[*a, *b])?, 0),
        [a, b, b':', c, d] | [a, b, c, d] => (digits(&[*a, *b])?, digits(&[*c, *d])?),
        _ => return None,
    };
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, of a year from 0 on.
fn days(year: i64, month: i64, date: i64) -> i64 {
    // Years begin in March, so that the day that leap years add is the last one; 400 of them are 146097 days.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + (month * 153 + 2) / 5 + date - 1 - 719_468
}

/// A class of service by its name.
pub(crate) fn class(text: &str) -> Option<SloClass> {
    [
        SloClass::Critical,
        SloClass::Standard,
        SloClass::Sheddable,
        SloClass::Batch,
    ]
    .into_iter()
    .find(|class| class.name() == text)
}

/// Texts that many rows have, kept once.
///
/// Those beyond the first 65536 different ones are not kept: a trace has few models and tenants, and where it has
/// millions of sessions keeping all of them would be what memory goes to.
#[derive(Default)]
pub(crate) struct Texts(HashSet<Arc<str>, FxBuildHasher>);

impl Texts {
    const MANY: usize = 1 << 16;

    /// `text`, or nothing if it is empty.
    pub(crate) fn keep(&mut self, text: &str) -> Option<Arc<str>> {
        if text.is_empty() {
            return None;
        }
        if let Some(kept) = self.0.get(text) {
            return Some(Arc::clone(kept));
        }
        let new: Arc<str> = Arc::from(text);
        if self.0.len() < Self::MANY {
            self.0.insert(Arc::clone(&new));
        }
        Some(new)
    }
}

/// Of the shape `answered`, `timed-out`, `failed` or `failed WHY`; empty if unknown.
impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => Ok(()),
            Self::Answered => f.write_str("answered"),
            Self::TimedOut => f.write_str("timed-out"),
            Self::Failed { why } if why.is_empty() => f.write_str("failed"),
            Self::Failed { why } => write!(f, "failed {why}"),
        }
    }
}

/// What a text that should be a [`Fate`] or a [`Prefix`] is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("allowed is {0}")]
pub struct NotThat(pub(crate) &'static str);

impl FromStr for Fate {
    type Err = NotThat;

    fn from_str(text: &str) -> Result<Self, NotThat> {
        Ok(match text {
            "" => Self::Unknown,
            "answered" => Self::Answered,
            "timed-out" => Self::TimedOut,
            "failed" => Self::Failed { why: Arc::from("") },
            _ => Self::Failed {
                why: Arc::from(
                    text.strip_prefix("failed ")
                        .ok_or(NotThat("answered, timed-out, failed or failed WHY"))?,
                ),
            },
        })
    }
}

/// Of the shape `history`, `group TOKENS NAME`, `blocks TOKENS ID;ID;…` (tokens of each block) or
/// `segments CONTENT:OFFSET:LENGTH;…`, where the content that request `n` generates is `output-n`; empty if
/// unknown.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => Ok(()),
            Self::History => f.write_str("history"),
            Self::Group { group, tokens } => write!(f, "group {tokens} {group}"),
            Self::Blocks { ids, block_tokens } => {
                write!(f, "blocks {block_tokens} ")?;
                for (index, id) in ids.iter().enumerate() {
                    let separator = if index > 0 { ";" } else { "" };
                    write!(f, "{separator}{id}")?;
                }
                Ok(())
            }
            Self::Segments(segments) => {
                f.write_str("segments ")?;
                for (index, segment) in segments.iter().enumerate() {
                    let separator = if index > 0 { ";" } else { "" };
                    let Segment { offset, len, .. } = segment;
                    match segment.content.as_output() {
                        Some(id) => write!(f, "{separator}output-{}:{offset}:{len}", id.get())?,
                        None => {
                            write!(f, "{separator}{}:{offset}:{len}", segment.content.get())?;
                        }
                    }
                }
                Ok(())
            }
        }
    }
}

impl FromStr for Prefix {
    type Err = NotThat;

    fn from_str(text: &str) -> Result<Self, NotThat> {
        let not = NotThat(
            "history, group TOKENS NAME, blocks TOKENS ID;ID;… or segments CONTENT:OFFSET:LENGTH;…",
        );
        if text.is_empty() {
            return Ok(Self::Unknown);
        }
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        match (kind, rest) {
            ("history", "") => Ok(Self::History),
            ("group", rest) => {
                let (tokens, group) = rest.split_once(' ').ok_or(not)?;
                Ok(Self::Group {
                    group: Arc::from(group),
                    tokens: tokens.parse().map_err(|_| not)?,
                })
            }
            ("blocks", rest) => {
                let (tokens, ids) = rest.split_once(' ').unwrap_or((rest, ""));
                Ok(Self::Blocks {
                    ids: listed(ids, |id| id.parse().ok()).ok_or(not)?,
                    block_tokens: tokens.parse().map_err(|_| not)?,
                })
            }
            ("segments", rest) => Ok(Self::Segments(listed(rest, segment).ok_or(not)?)),
            _ => Err(not),
        }
    }
}

/// What is joined by `;`.
fn listed<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(';').map(parse).collect()
}

fn segment(text: &str) -> Option<Segment> {
    let mut parts = text.split(':');
    let (content, offset, len) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let content = match content.strip_prefix("output-") {
        Some(id) => ContentId::output_of(RequestId::new(id.parse().ok()?)),
        None => ContentId::new(content.parse().ok().filter(|&id: &u64| id < 1 << 63)?),
    };
    let (offset, len): (u32, u32) = (offset.parse().ok()?, len.parse().ok()?);
    offset.checked_add(len)?;
    Some(Segment {
        content,
        offset,
        len,
    })
}
