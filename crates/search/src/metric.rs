//! [`Metric`]: a number of a run by its name.

use core::fmt;
use core::str::FromStr;

use foretoken::metrics::{Latency, Report, Summary};
use foretoken::{Energy, Fleet, Prediction, Scenario};
use serde::{Deserialize, Serialize};

use crate::environment::Measured;
use crate::error::SearchError;

/// A number of a run by its name: what constraints limit, objectives move and comparisons compare.
///
/// ```
/// use foretoken_search::{LatencyKind, Metric, Statistic};
///
/// let metric: Metric = "ttft-p99-ms".parse()?;
/// assert_eq!(metric, Metric::Latency(LatencyKind::Ttft, Statistic::P99));
/// assert_eq!(metric.to_string(), "ttft-p99-ms");
/// assert!("ttft-p98-ms".parse::<Metric>().is_err());
/// # Ok::<(), foretoken_search::SearchError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Metric {
    /// A latency of all requests, in ms: `ttft-mean-ms`, `itl-p99-ms`, …
    Latency(LatencyKind, Statistic),
    /// Complete requests per second.
    RequestsPerS,
    /// Output tokens per second.
    OutputTokensPerS,
    /// Output tokens per second and accelerator.
    OutputTokensPerSPerGpu,
    /// Share of all requests that were answered in full.
    CompletedShare,
    /// The lowest share of any class of service that met its objectives.
    SloAttainment,
    /// Share of prompt tokens found in prefix caches.
    PrefixHitRate,
    /// How often requests lost their KV blocks.
    Preemptions,
    /// The highest share of KV blocks, of all engines together, that sequences held at once.
    KvOccupancyMax,
    /// Accelerators.
    Gpus,
    /// Price of the accelerators, in US dollars per hour.
    UsdPerHour,
    /// Price of the accelerators for a million output tokens, in US dollars.
    UsdPerMillionOutputTokens,
    /// Output tokens per second that one user gets: 1000 through the mean TPOT in ms.
    TokensPerSPerUser,
    /// Energy of the accelerators while steps run for each output token, in joules.
    JoulesPerOutputToken,
}

/// Which latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LatencyKind {
    /// Time to first token.
    Ttft,
    /// Inter-token latency: every gap counts once.
    Itl,
    /// Time per output token: every request counts once.
    Tpot,
    /// End-to-end latency.
    E2e,
    /// From arrival to being scheduled.
    Queue,
}

/// Which number of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 95th percentile.
    P95,
    /// The 99th percentile.
    P99,
    /// The highest value.
    Max,
}

/// Which way of a number is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Less: of latencies, costs.
    Minimise,
    /// More: of throughputs, shares of what went well.
    Maximise,
}

impl LatencyKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ttft, Self::Itl, Self::Tpot, Self::E2e, Self::Queue];

    const fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Itl => "itl",
            Self::Tpot => "tpot",
            Self::E2e => "e2e",
            Self::Queue => "queue",
        }
    }

    /// Its distribution, if there were any such times.
    pub const fn of(self, summary: &Summary) -> Option<Latency> {
        match self {
            Self::Ttft => summary.ttft_ms,
            Self::Itl => summary.itl_ms,
            Self::Tpot => summary.tpot_ms,
            Self::E2e => summary.e2e_ms,
            Self::Queue => summary.queue_ms,
        }
    }
}

impl Statistic {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Mean,
        Self::P50,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::Max,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }

    /// That number of a distribution.
    pub const fn of(self, latency: &Latency) -> f64 {
        match self {
            Self::Mean => latency.mean,
            Self::P50 => latency.p50,
            Self::P90 => latency.p90,
            Self::P95 => latency.p95,
            Self::P99 => latency.p99,
            Self::Max => latency.max,
        }
    }
}

impl Metric {
    /// Those that are no latency, by name.
    const OTHERS: [(&'static str, Self); 13] = [
        ("requests-per-s", Self::RequestsPerS),
        ("output-tokens-per-s", Self::OutputTokensPerS),
        ("output-tokens-per-s-per-gpu", Self::OutputTokensPerSPerGpu),
        ("completed-share", Self::CompletedShare),
        ("slo-attainment", Self::SloAttainment),
        ("prefix-hit-rate", Self::PrefixHitRate),
        ("preemptions", Self::Preemptions),
        ("kv-occupancy-max", Self::KvOccupancyMax),
        ("gpus", Self::Gpus),
        ("usd-per-hour", Self::UsdPerHour),
        (
            "usd-per-million-output-tokens",
            Self::UsdPerMillionOutputTokens,
        ),
        ("tokens-per-s-per-user", Self::TokensPerSPerUser),
        ("joules-per-output-token", Self::JoulesPerOutputToken),
    ];

    /// Checks that a scenario has what the number is taken from.
    ///
    /// # Errors
    /// [`SearchError::OutOfRange`] names `field`.
    pub(crate) fn check(self, field: &str, scenario: &Scenario) -> Result<(), SearchError> {
        if self == Self::SloAttainment && scenario.slos.is_empty() {
            let allowed = "another metric, or `slos` in the scenario";
            return Err(SearchError::out_of_range(field, &self, allowed));
        }
        Ok(())
    }

    /// Which way is better.
    pub const fn direction(self) -> Direction {
        match self {
            Self::Latency(..)
            | Self::Preemptions
            | Self::KvOccupancyMax
            | Self::Gpus
            | Self::UsdPerHour
            | Self::UsdPerMillionOutputTokens
            | Self::JoulesPerOutputToken => Direction::Minimise,
            Self::RequestsPerS
            | Self::OutputTokensPerS
            | Self::OutputTokensPerSPerGpu
            | Self::CompletedShare
            | Self::SloAttainment
            | Self::PrefixHitRate
            | Self::TokensPerSPerUser => Direction::Maximise,
        }
    }

    /// The number; `None` if the run has none: a latency that no request had, a price that is not
    /// known, a share of nothing.
    pub fn of(self, measured: &Measured) -> Option<f64> {
        let Prediction { report, energy, .. } = &measured.prediction;
        self.read(report, Some(&measured.fleet), energy.as_ref())
    }

    /// The same of a report whose accelerators and energy may not be known.
    pub(crate) fn read(
        self,
        report: &Report,
        fleet: Option<&Fleet>,
        energy: Option<&Energy>,
    ) -> Option<f64> {
        let overall = &report.overall;
        match self {
            Self::Latency(kind, statistic) => {
                kind.of(overall).map(|latency| statistic.of(&latency))
            }
            Self::RequestsPerS => Some(overall.throughput.requests_per_s),
            Self::OutputTokensPerS => Some(overall.throughput.output_tokens_per_s),
            Self::OutputTokensPerSPerGpu => {
                Some(overall.throughput.output_tokens_per_s / f64::from(fleet?.gpus))
            }
            Self::CompletedShare => {
                let counts = &overall.counts;
                (counts.arrived > 0).then(|| counts.finished as f64 / counts.arrived as f64)
            }
            Self::SloAttainment => {
                let shares = report.slo.iter().filter_map(|class| class.goodput.share);
                shares.reduce(f64::min)
            }
            Self::PrefixHitRate => overall.prefix_hit_rate,
            Self::Preemptions => Some(overall.preemptions as f64),
            Self::KvOccupancyMax => Some(report.load.kv_occupancy.max),
            Self::Gpus => Some(fleet?.gpus.into()),
            Self::UsdPerHour => fleet?.usd_per_hour,
            Self::UsdPerMillionOutputTokens => {
                let cost = fleet?.cost(&overall.throughput)?;
                cost.usd_per_million_output_tokens
            }
            Self::TokensPerSPerUser => {
                let tpot = overall.tpot_ms.map(|tpot| tpot.mean)?;
                (tpot > 0.0).then(|| 1000.0 / tpot)
            }
            Self::JoulesPerOutputToken => energy?.joules_per_output_token,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Latency(kind, statistic) = self {
            return write!(f, "{}-{}-ms", kind.name(), statistic.name());
        }
        let named = Self::OTHERS.iter().find(|(_, metric)| metric == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl FromStr for Metric {
    type Err = SearchError;

    fn from_str(text: &str) -> Result<Self, SearchError> {
        let latencies = LatencyKind::ALL
            .into_iter()
            .flat_map(|kind| Statistic::ALL.map(|statistic| Self::Latency(kind, statistic)));
        let others = Self::OTHERS.into_iter().map(|(_, metric)| metric);
        let mut all = latencies.chain(others);
        all.find(|metric| metric.to_string() == text).ok_or_else(|| {
            let others: Vec<&str> = Self::OTHERS.iter().map(|(name, _)| *name).collect();
            let allowed = format!(
                "ttft, itl, tpot, e2e or queue with mean, p50, p90, p95, p99 or max, as `ttft-p99-ms`; or {}",
                others.join(", ")
            );
            SearchError::out_of_range("metric", &text, allowed)
        })
    }
}

impl TryFrom<String> for Metric {
    type Error = SearchError;

    fn try_from(text: String) -> Result<Self, SearchError> {
        text.parse()
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> Self {
        metric.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_read_by_the_name_that_it_prints() {
        let others = Metric::OTHERS.map(|(_, metric)| metric);
        for metric in others
            .into_iter()
            .chain([Metric::Latency(LatencyKind::Queue, Statistic::Max)])
        {
            assert_eq!(metric.to_string().parse::<Metric>().ok(), Some(metric));
        }
    }

    #[test]
    fn an_unknown_metric_is_told_what_there_is() {
        let error = "latency".parse::<Metric>().expect_err("there is none");
        let message = error.to_string();
        assert!(
            message.contains("usd-per-hour") && message.contains("ttft-p99-ms"),
            "{message}"
        );
    }
}
