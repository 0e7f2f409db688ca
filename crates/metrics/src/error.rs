//! What can be wrong with input to this crate.

/// Input that this crate cannot accept.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// A fingerprint in a report is not what [`RunDigest`](crate::RunDigest) prints.
    #[error("digest is {value:?}: allowed are 16 hexadecimal digits")]
    Digest {
        /// The offending text.
        value: String,
    },
    /// A limit of an [`Slo`](crate::Slo) is not a time.
    #[error("{field} is {value}: allowed are finite values from 0 to 1.8e13 ms")]
    Limit {
        /// The key of the limit.
        field: &'static str,
        /// The offending value, in milliseconds.
        value: f64,
    },
}
