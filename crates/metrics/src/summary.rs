//! What a set of requests experienced: [`Summary`].

use foretoken_des_kernel::SimDuration;
use foretoken_des_kernel::stats::Quantiles;
use foretoken_workload::{Request, RequestId};
use serde::{Deserialize, Serialize};

use crate::group::Group;
use crate::outcome::Counts;
use crate::record::RequestRecord;
use crate::round::{per_second, share_of_some, significant};
use crate::window::Window;

/// What a set of requests experienced.
///
/// Latencies other than ITL are those of complete requests, as inference-perf and vLLM's `bench serve`
/// have it; ITL is over every gap between two tokens of any request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// How many, and what became of them.
    pub counts: Counts,
    /// Time in the gateway: from arrival to being sent to an endpoint; `None` if it took no time for
    /// any request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ms: Option<Latency>,
    /// Time for KV blocks to come from the endpoint that computed the prompt, of the requests where
    /// that was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_transfer_ms: Option<Latency>,
    /// Size of these transfers, in megabytes (10^6 bytes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_transfer_mb: Option<Latency>,
    /// From arrival to first being scheduled, time in the gateway included.
    pub queue_ms: Option<Latency>,
    /// Time to first token.
    pub ttft_ms: Option<Latency>,
    /// Inter-token latency: every gap counts once.
    pub itl_ms: Option<Latency>,
    /// Time per output token: every request with at least two tokens counts once.
    pub tpot_ms: Option<Latency>,
    /// End-to-end latency.
    pub e2e_ms: Option<Latency>,
    /// Work done per second.
    pub throughput: Throughput,
    /// Share of prompt tokens found in the prefix cache, over all requests that were scheduled;
    /// `None` if none was.
    pub prefix_hit_rate: Option<f64>,
    /// Prompt tokens of complete requests.
    pub prompt_tokens: u64,
    /// Output tokens of complete requests.
    pub output_tokens: u64,
    /// How often requests lost their KV blocks.
    pub preemptions: u64,
    /// The longest gap between two tokens.
    pub longest_stall: Option<Stall>,
}

/// A distribution of times, in milliseconds, or of sizes, in megabytes.
///
/// Percentiles interpolate linearly between the closest ranks, as `NumPy` does by default and
/// inference-perf and vLLM's `bench serve` with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Latency {
    /// Number of values.
    pub count: u64,
    /// The mean: an exact sum of nanoseconds (bytes), divided once.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The highest value.
    pub max: f64,
}

impl Latency {
    /// The distribution of nanoseconds or bytes; `None` without values.
    pub fn of(values: &mut Quantiles) -> Option<Self> {
        let million = |value: f64| significant(value / 1e6);
        Some(Self {
            count: values.count(),
            mean: million(values.mean()?),
            p50: million(values.quantile(0.5)?),
            p90: million(values.quantile(0.9)?),
            p95: million(values.quantile(0.95)?),
            p99: million(values.quantile(0.99)?),
            max: million(values.quantile(1.0)?),
        })
    }
}

/// Complete requests and their tokens per second, over the time from the first arrival of any
/// request to the end of the last complete one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Throughput {
    /// Length of that time; 0 if no request is complete, and then all rates are 0.
    pub window_s: f64,
    /// Requests.
    pub requests_per_s: f64,
    /// Output tokens.
    pub output_tokens_per_s: f64,
    /// Prompt and output tokens.
    pub total_tokens_per_s: f64,
}

/// A gap between two tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stall {
    /// Its length.
    pub ms: f64,
    /// Whose gap it was; the first request of several with equally long ones.
    pub request: u32,
}

/// Sums and values of some requests, on the way to a [`Summary`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    counts: Counts,
    gateway: Quantiles,
    transfer: Quantiles,
    transfer_bytes: Quantiles,
    queue: Quantiles,
    ttft: Quantiles,
    pub(crate) gaps: Quantiles,
    tpot: Quantiles,
    e2e: Quantiles,
    window: Window,
    prompt_tokens: u64,
    output_tokens: u64,
    demanded_tokens: u64,
    scheduled_tokens: u64,
    cached_tokens: u64,
    preemptions: u64,
    /// The longest gap in nanoseconds, and whose it was.
    longest: Option<(u64, RequestId)>,
}

impl Samples {
    /// Of no requests; with more than `exact` distinct values percentiles are approximate.
    pub(crate) fn new(exact: usize) -> Self {
        let limited = || Quantiles::limited(exact);
        Self {
            gateway: limited(),
            transfer: limited(),
            transfer_bytes: limited(),
            queue: limited(),
            ttft: limited(),
            gaps: limited(),
            tpot: limited(),
            e2e: limited(),
            ..Self::default()
        }
    }

    /// All of several groups.
    pub(crate) fn of<'a>(groups: impl IntoIterator<Item = &'a Group>) -> Self {
        let mut groups = groups.into_iter().map(Group::samples);
        let mut all = groups.next().cloned().unwrap_or_default();
        groups.for_each(|samples| all.merge(samples));
        all
    }

    pub(crate) fn arrive(&mut self, request: &Request) {
        self.counts.arrived += 1;
        self.counts.retries += u64::from(request.attempt > 0);
        self.demanded_tokens +=
            u64::from(request.prompt.tokens()) + u64::from(request.output_tokens());
    }

    #[cfg(test)]
    pub(crate) const fn arrived(&self) -> u64 {
        self.counts.arrived
    }

    /// Whether all percentiles are exact.
    pub(crate) fn is_exact(&mut self) -> bool {
        self.all_values().into_iter().all(Quantiles::is_exact)
    }

    /// Sorts all values, lest those who ask have to do it.
    pub(crate) fn sort(&mut self) {
        for values in self.all_values() {
            values.sort();
        }
    }

    const fn all_values(&mut self) -> [&mut Quantiles; 8] {
        [
            &mut self.gateway,
            &mut self.transfer,
            &mut self.transfer_bytes,
            &mut self.queue,
            &mut self.ttft,
            &mut self.gaps,
            &mut self.tpot,
            &mut self.e2e,
        ]
    }

    pub(crate) fn add(&mut self, record: &RequestRecord) {
        self.counts.add(record.outcome);
        self.window.add(record);
        self.preemptions += u64::from(record.preemptions);
        if record.queue.is_some() {
            self.scheduled_tokens += u64::from(record.prompt_tokens);
            self.cached_tokens += u64::from(record.cached_tokens);
        }
        if record.output_tokens > 1 {
            self.stall(record.gaps.longest.as_nanos(), record.id);
        }
        if record.outcome.is_complete() {
            self.prompt_tokens += u64::from(record.prompt_tokens);
            self.output_tokens += u64::from(record.output_tokens);
            let transfer = record.transfer;
            let latencies = [
                (&mut self.gateway, record.gateway),
                (&mut self.transfer, transfer.map(|transfer| transfer.took)),
                (&mut self.queue, record.queue),
                (&mut self.ttft, record.ttft),
                (&mut self.tpot, record.tpot()),
                (&mut self.e2e, record.e2e),
            ];
            for (values, latency) in latencies {
                values.extend(latency.map(SimDuration::as_nanos));
            }
            let bytes = transfer.map(|transfer| transfer.bytes);
            self.transfer_bytes.extend(bytes);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.window.merge(&other.window);
        let values = [
            (&mut self.gateway, &other.gateway),
            (&mut self.transfer, &other.transfer),
            (&mut self.transfer_bytes, &other.transfer_bytes),
            (&mut self.queue, &other.queue),
            (&mut self.ttft, &other.ttft),
            (&mut self.gaps, &other.gaps),
            (&mut self.tpot, &other.tpot),
            (&mut self.e2e, &other.e2e),
        ];
        for (values, others) in values {
            values.merge(others);
        }
        self.prompt_tokens += other.prompt_tokens;
        self.output_tokens += other.output_tokens;
        self.demanded_tokens += other.demanded_tokens;
        self.scheduled_tokens += other.scheduled_tokens;
        self.cached_tokens += other.cached_tokens;
        self.preemptions += other.preemptions;
        if let Some((nanos, request)) = other.longest {
            self.stall(nanos, request);
        }
    }

    /// Of equally long gaps that of the first request counts.
    fn stall(&mut self, nanos: u64, request: RequestId) {
        let longer = |(longest, first)| longest < nanos || longest == nanos && request < first;
        if self.longest.is_none_or(longer) {
            self.longest = Some((nanos, request));
        }
    }

    /// Prompt and output tokens of complete requests.
    pub(crate) const fn served_tokens(&self) -> u64 {
        self.prompt_tokens + self.output_tokens
    }

    /// Prompt and output tokens that all requests would have had.
    pub(crate) const fn demanded_tokens(&self) -> u64 {
        self.demanded_tokens
    }

    fn throughput(&self) -> Throughput {
        let window = self.window.span();
        Throughput {
            window_s: significant(window.as_secs_f64()),
            requests_per_s: per_second(self.counts.finished, window),
            output_tokens_per_s: per_second(self.output_tokens, window),
            total_tokens_per_s: per_second(self.served_tokens(), window),
        }
    }

    /// Sums it all up.
    ///
    /// # Panics
    /// If the *conservation of requests* is broken.
    pub(crate) fn summary(mut self) -> Summary {
        self.counts.assert_conserved();
        // A gateway that takes no time is not worth a column.
        let waits = self.gateway.tally().max().is_some_and(|nanos| nanos > 0);
        Summary {
            throughput: self.throughput(),
            gateway_ms: Latency::of(&mut self.gateway).filter(|_| waits),
            kv_transfer_ms: Latency::of(&mut self.transfer),
            kv_transfer_mb: Latency::of(&mut self.transfer_bytes),
            queue_ms: Latency::of(&mut self.queue),
            ttft_ms: Latency::of(&mut self.ttft),
            itl_ms: Latency::of(&mut self.gaps),
            tpot_ms: Latency::of(&mut self.tpot),
            e2e_ms: Latency::of(&mut self.e2e),
            counts: self.counts,
            prefix_hit_rate: share_of_some(self.cached_tokens, self.scheduled_tokens),
            prompt_tokens: self.prompt_tokens,
            output_tokens: self.output_tokens,
            preemptions: self.preemptions,
            longest_stall: self.longest.map(|(nanos, request)| Stall {
                ms: significant(nanos as f64 / 1e6),
                request: request.get(),
            }),
        }
    }
}
