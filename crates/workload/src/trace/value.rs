//! Numbers, times and texts of traces, read exactly.

use std::sync::Arc;

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use super::columns::TimeUnit;
use super::row::TraceTime;
use crate::client::SloClass;

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
    ((0.0..=EXACT).contains(&number) && number.fract() == 0.0).then_some(number as u64)
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
        [b'+', rest @ ..] | rest => (false, rest),
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
    if let Some(nanos) = nanos(text, unit) {
        return u64::try_from(nanos).ok();
    }
    // Spans reach twice as far as times do.
    let (units, rest) = text.trim_ascii().split_once('.').unwrap_or((text, ""));
    let rest = nanos(&format!("0.{rest}"), unit)?;
    let units = whole(units)?.checked_mul(unit.nanos().into())?;
    units.checked_add(u64::try_from(rest).ok()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_tokens_are_whole_and_not_negative() {
        let good = [
            ("0", 0),
            (" 12 ", 12),
            ("12.0", 12),
            ("1.5e3", 1500),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, number) in good {
            assert_eq!(whole(text), Some(number), "{text}");
        }
        let bad = [
            "",
            " ",
            "-1",
            "-0.5",
            "1.5",
            "1e30",
            "NaN",
            "inf",
            "0x10",
            "1_000",
            "1 2",
            "ten",
            "18446744073709551616",
        ];
        for text in bad {
            assert_eq!(whole(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_become_nanoseconds_exactly() {
        let seconds = |text| nanos(text, TimeUnit::Seconds);
        assert_eq!(
            seconds("1700000000.123456789"),
            Some(1_700_000_000_123_456_789)
        );
        assert_eq!(seconds("0.0000000005"), Some(1));
        assert_eq!(seconds("0.0000000004999"), Some(0));
        assert_eq!(seconds("-1.5"), Some(-1_500_000_000));
        assert_eq!(seconds("-9223372036.854775808"), Some(i64::MIN));
        assert_eq!(seconds("9223372036.854775807"), Some(i64::MAX));
        assert_eq!(seconds("9223372036.854775808"), None);
        assert_eq!(seconds("1e-3"), Some(1_000_000));
        assert_eq!(seconds(".5"), Some(500_000_000));
        assert_eq!(nanos("1.5", TimeUnit::Nanoseconds), Some(2));
        assert_eq!(nanos("1.2345", TimeUnit::Microseconds), Some(1_235));
        for text in ["", ".", "-", "1.2.3", "1-2", "NaN", "1e400", "e5", "--1"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn spans_reach_as_far_as_64_bits() {
        let seconds = |text| span(text, TimeUnit::Seconds);
        assert_eq!(seconds("18446744073.709551615"), Some(u64::MAX));
        assert_eq!(seconds("18446744073.709551616"), None);
        assert_eq!(seconds("-1"), None);
        assert_eq!(seconds("1.5"), Some(1_500_000_000));
    }

    #[test]
    fn dates_are_nanoseconds_since_1970() {
        let at = |text| time(text, TimeUnit::Seconds).map(TraceTime::as_nanos);
        let second = 1_000_000_000;
        assert_eq!(at("1970-01-01 00:00:00"), Some(0));
        assert_eq!(at("1969-12-31T23:59:59.5Z"), Some(-second / 2));
        assert_eq!(at("2000-02-29 12:00:00"), Some(951_825_600 * second));
        assert_eq!(
            at("2024-05-10 00:00:00.009930+00:00"),
            Some(1_715_299_200_009_930_000)
        );
        assert_eq!(
            at("2023-11-16 18:15:46.6805900"),
            Some(1_700_158_546_680_590_000)
        );
        let noon = at("2024-05-10 12:00:00");
        for text in [
            "2024-05-10 14:00:00+02:00",
            "2024-05-10T06:30:00-0530",
            "2024-05-10 13:00:00.0000000000+01",
        ] {
            assert_eq!(at(text), noon, "{text}");
        }
        let bad = [
            "2023-02-29 00:00:00",
            "1900-02-29 00:00:00",
            "2024-13-01 00:00:00",
            "2024-00-01 00:00:00",
            "2024-04-31 00:00:00",
            "2024-01-01 24:00:00",
            "2024-01-01 00:60:00",
            "2024-01-01 00:00:60",
            "2024-01-01 00:00:00.",
            "2024-01-01 00:00:00+1",
            "2024-01-01 00:00:00+25:00",
            "2024-01-01 00:00:00 UTC",
            "2024-01-01",
            "2024-01-01 00-00-00",
            "9999-01-01 00:00:00",
            "2024-0é-01 00:00:00",
        ];
        for text in bad {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn few_texts_are_kept_once() {
        let mut texts = Texts::default();
        let [one, other] = [texts.keep("a"), texts.keep("a")].map(Option::unwrap_or_default);
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(texts.keep(""), None);
        for number in 0..Texts::MANY {
            texts.keep(&number.to_string());
        }
        assert_eq!(texts.0.len(), Texts::MANY);
        assert_eq!(texts.keep("one more").as_deref(), Some("one more"));
    }
}
