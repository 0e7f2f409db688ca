//! [`Explanation`]: where the time of one step goes.

use core::fmt;

use crate::fine::Fine;
use crate::provenance::{Band, Source};

/// What limits a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bound {
    /// Matrix throughput.
    Compute,
    /// Memory bandwidth.
    Memory,
    /// Link bandwidth or latency.
    Network,
    /// Launches, the host, fixed costs.
    Overhead,
    /// Not known.
    Unknown,
}

/// One term of a step's time.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Term {
    /// Its name, e.g. `attention (decode)`.
    pub name: &'static str,
    /// Its time.
    pub time: Fine,
    /// What limits it.
    pub bound: Bound,
    /// Share of the limiting peak (FLOP/s or bandwidth) that it reaches, if it has one.
    pub efficiency: Option<f64>,
    /// Where the numbers behind it come from, if the model knows.
    pub source: Option<Source>,
}

impl Term {
    /// A term without a stated efficiency.
    pub const fn new(name: &'static str, time: Fine, bound: Bound) -> Self {
        Self {
            name,
            time,
            bound,
            efficiency: None,
            source: None,
        }
    }

    /// The same with the share of the limiting peak that it reaches.
    #[must_use]
    pub const fn with_efficiency(mut self, share: f64) -> Self {
        self.efficiency = Some(share);
        self
    }

    /// The same with where its numbers come from.
    #[must_use]
    pub fn with_source(mut self, source: Source) -> Self {
        self.source = Some(source);
        self
    }
}

/// The terms of one step; they sum to its time exactly.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Explanation {
    terms: Vec<Term>,
    band: Option<Band>,
}

impl Explanation {
    /// An explanation of these terms.
    pub const fn new(terms: Vec<Term>) -> Self {
        Self { terms, band: None }
    }

    /// The same with how far the step may be off.
    #[must_use]
    pub const fn with_band(mut self, band: Band) -> Self {
        self.band = Some(band);
        self
    }

    /// How far the step may be off, as factors, if the model says so.
    pub const fn band(&self) -> Option<Band> {
        self.band
    }

    /// The terms, in the order of execution.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The time of the step.
    pub fn total(&self) -> Fine {
        self.terms.iter().map(|term| term.time).sum()
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Overhead => "overhead",
            Self::Unknown => "-",
        })
    }
}

/// A table: term, time, share of the step, bound, efficiency, and source where there is one; below it
/// the band, if there is one.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total().as_micros_f64();
        let sourced = self.terms.iter().any(|term| term.source.is_some());
        writeln!(
            f,
            "{:<22} {:>12} {:>7}  {:<8} {:>10}{}",
            "term",
            "us",
            "share",
            "bound",
            "efficiency",
            if sourced { "  source" } else { "" }
        )?;
        for Term {
            name,
            time,
            bound,
            efficiency,
            source,
        } in &self.terms
        {
            let time = time.as_micros_f64();
            let share = if total > 0.0 {
                100.0 * time / total
            } else {
                0.0
            };
            write!(f, "{name:<22} {time:>12.1} {share:>6.1}%  {bound:<8}")?;
            match efficiency {
                Some(efficiency) => write!(f, " {:>9.1}%", 100.0 * efficiency)?,
                None => write!(f, " {:>10}", "-")?,
            }
            match source {
                Some(source) => writeln!(f, "  {source}")?,
                None => writeln!(f)?,
            }
        }
        let all = if self.terms.is_empty() { 0.0 } else { 100.0 };
        write!(f, "{:<22} {total:>12.1} {all:>6.1}%", "step")?;
        match self.band {
            Some(band) => write!(
                f,
                "\nnine times of ten {:.1} to {:.1} us ({band})",
                band.low * total,
                band.high * total
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(name: &'static str, micros: f64, bound: Bound) -> Term {
        Term::new(
            name,
            Fine::from_nanos_f64(micros * 1e3).expect("a span"),
            bound,
        )
    }

    #[test]
    fn the_total_is_the_sum_of_the_terms() {
        let (a, b) = (
            term("a", 0.1, Bound::Memory),
            term("b", 0.2, Bound::Compute),
        );
        let sum = a.time + b.time;
        assert_eq!(Explanation::new(vec![a, b]).total(), sum);
        assert_eq!(Explanation::default().total(), Fine::ZERO);
    }

    #[test]
    fn it_prints_a_table() {
        let terms = vec![
            term("weights", 750.0, Bound::Memory).with_efficiency(0.8),
            term("gaps", 250.0, Bound::Overhead),
        ];
        let expected = "\
term                             us   share  bound    efficiency
weights                       750.0   75.0%  memory        80.0%
gaps                          250.0   25.0%  overhead          -
step                         1000.0  100.0%";
        assert_eq!(Explanation::new(terms).to_string(), expected);
    }
}
