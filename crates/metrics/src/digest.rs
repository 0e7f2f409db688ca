//! The fingerprint of a run as reports carry it.

use core::fmt;
use core::str::FromStr;

use foretoken_des_kernel::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::error::MetricsError;

/// Fingerprint of everything that happened to every request: two runs with the same digest went the
/// same way. Printed, and written as JSON, as 16 hexadecimal digits.
///
/// ```
/// use foretoken_metrics::RunDigest;
///
/// let digest: RunDigest = "00c0ffee00c0ffee".parse()?;
/// assert_eq!(digest.get(), 0x00c0_ffee_00c0_ffee);
/// assert_eq!(digest.to_string(), "00c0ffee00c0ffee");
/// # Ok::<(), foretoken_metrics::MetricsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunDigest(u64);

impl RunDigest {
    /// The digest as an integer.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RunDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<Fingerprint> for RunDigest {
    fn from(fingerprint: Fingerprint) -> Self {
        Self(fingerprint.value())
    }
}

impl FromStr for RunDigest {
    type Err = MetricsError;

    fn from_str(text: &str) -> Result<Self, MetricsError> {
        // A sign would be accepted by the integer's parser.
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(text, 16)
            .ok()
            .filter(|_| digits)
            .map(Self)
            .ok_or_else(|| MetricsError::Digest {
                value: text.to_owned(),
            })
    }
}

impl TryFrom<String> for RunDigest {
    type Error = MetricsError;

    fn try_from(text: String) -> Result<Self, MetricsError> {
        text.parse()
    }
}

impl From<RunDigest> for String {
    fn from(digest: RunDigest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_digest_is_refused_by_its_value() {
        for text in [
            "",
            "12",
            "+123456789abcdef",
            "0x23456789abcdef",
            "123456789abcdefg",
        ] {
            let error = text.parse::<RunDigest>().expect_err("it is no digest");
            assert_eq!(
                error.to_string(),
                format!("digest is {text:?}: allowed are 16 hexadecimal digits")
            );
        }
    }
}
