//! Replications: repetitions with other draws, by numbers in a row.

use crate::error::SearchError;

/// So many at most.
const MAX: u64 = 1_000;

/// Refuses none, too many, and numbers beyond the last one; `field` is the key of the first number.
pub(crate) fn check(count: u64, field: &str, first: u64) -> Result<(), SearchError> {
    if !(1..=MAX).contains(&count) {
        let allowed = format!("1 to {MAX}");
        return Err(SearchError::out_of_range("replications", &count, allowed));
    }
    let last = u64::MAX - (count - 1);
    if first > last {
        let allowed = format!("at most {last} with {count} replications");
        return Err(SearchError::out_of_range(field, &first, allowed));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_one_that_there_is() {
        let problem = |count, first| {
            let checked = check(count, "replication", first);
            checked.map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(problem(1, u64::MAX), "");
        assert_eq!(problem(1_000, u64::MAX - 999), "");
        assert_eq!(
            problem(2, u64::MAX),
            "replication is 18446744073709551615: allowed is at most 18446744073709551614 with 2 replications"
        );
        for count in [0, 1_001] {
            let expected = format!("replications is {count}: allowed is 1 to 1000");
            assert_eq!(problem(count, 0), expected);
        }
    }
}
