//! How [`Prefix`] and [`Fate`] are written: as one text, in any table.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use super::row::{Fate, Prefix};
use crate::prompt::{ContentId, Segment};
use crate::request::RequestId;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_fates_are_what_they_print_as() {
        for text in [
            "",
            "history",
            "group 5 a b",
            "blocks 16 1;2",
            "blocks 16 ",
            "segments 0:0:1;output-3:2:4",
            "segments ",
        ] {
            assert_eq!(
                text.parse::<Prefix>().map(|it| it.to_string()).as_deref(),
                Ok(text)
            );
        }
        for text in [
            "group x a",
            "blocks 1 a",
            "blocks x",
            "segments 1:2",
            "segments 1:2:3:4",
            "history 1",
            "segments 1:4294967295:1",
            "segments 9223372036854775808:0:1",
            "segments output-4294967296:0:1",
            "x",
        ] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
        for text in [
            "",
            "answered",
            "timed-out",
            "failed",
            "failed for no reason",
        ] {
            assert_eq!(
                text.parse::<Fate>().map(|it| it.to_string()).as_deref(),
                Ok(text)
            );
        }
        assert!("fail".parse::<Fate>().is_err());
    }
}
