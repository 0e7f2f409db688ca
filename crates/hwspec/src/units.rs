//! Quantities of hardware as types, so that bytes never meet FLOPs by accident.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, Mul, Sub};

use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// `gib` times 2^30 bytes, rounded down to whole bytes; negative and NaN become zero.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, which is what a memory size should do"
    )]
    pub fn from_gib(gib: f64) -> Self {
        Self((gib * 1_073_741_824.0) as u64)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of bytes as a float, for physics.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// In units of 2^30 bytes.
    pub fn as_gib(self) -> f64 {
        self.0 as f64 / 1_073_741_824.0
    }

    /// This less `other`, or `None` if `other` is more.
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(bytes) => Some(Self(bytes)),
            None => None,
        }
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0 * factor)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} GiB", self.as_gib())
    }
}

/// Bytes per second: memory or link bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BytesPerSecond(f64);

impl BytesPerSecond {
    /// `gb` times 10^9 bytes a second.
    pub const fn from_gb(gb: f64) -> Self {
        Self(gb * 1e9)
    }

    /// Bytes a second.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// Floating-point (or integer) operations per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlopsPerSecond(f64);

impl FlopsPerSecond {
    /// `tera` times 10^12 operations a second.
    pub const fn from_tera(tera: f64) -> Self {
        Self(tera * 1e12)
    }

    /// Operations a second.
    pub const fn get(self) -> f64 {
        self.0
    }
}
