//! [`TokenBucket`]: a constant rate with bursts.

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::RequestView;

use super::{Admitter, Verdict};
use crate::view::GatewayContext;

/// What a [`TokenBucket`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metered {
    /// Requests: each costs 1.
    Requests,
    /// Tokens that are declared: the prompt and the limit of output tokens.
    Tokens,
}

/// Admits what a full bucket pays for, whatever the pool's state: the rate limiter of most gateways,
/// as a baseline. Not in llm-d.
///
/// The bucket holds at most `burst`, begins full and gains `amount` every `per`, evenly. A request
/// that costs more than is there is shed and costs nothing; one that costs more than `burst` never
/// passes. Time is counted in integers, so that rates hold exactly over any span.
///
/// ```
/// use foretoken_dataplane::admission::{Metered, TokenBucket};
/// use foretoken_des_kernel::SimDuration;
///
/// // Five requests every two seconds, three at once.
/// let bucket = TokenBucket::new(Metered::Requests, 5, SimDuration::from_secs(2), 3);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBucket {
    metered: Metered,
    amount: u64,
    per: SimDuration,
    burst: u64,
    /// What is in it, in units of 1 / (nanoseconds of `per`): one nanosecond adds `amount`.
    level: u128,
    filled_at: SimTime,
}

impl TokenBucket {
    /// A full bucket that gains `amount` every `per`.
    ///
    /// # Panics
    /// If `per` is zero.
    pub fn new(metered: Metered, amount: u64, per: SimDuration, burst: u64) -> Self {
        assert!(!per.is_zero(), "a rate needs a span of time");
        Self {
            metered,
            amount,
            per,
            burst,
            level: u128::from(burst) * u128::from(per.as_nanos()),
            filled_at: SimTime::ZERO,
        }
    }

    fn fill(&mut self, now: SimTime) {
        let elapsed = now.saturating_since(self.filled_at).as_nanos();
        let gained = u128::from(elapsed) * u128::from(self.amount);
        self.level = (self.level + gained).min(self.scaled(self.burst));
        self.filled_at = now;
    }

    fn scaled(&self, count: u64) -> u128 {
        u128::from(count) * u128::from(self.per.as_nanos())
    }
}

impl Admitter for TokenBucket {
    fn admit(&mut self, request: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Verdict {
        self.fill(cx.now);
        let cost = self.scaled(match self.metered {
            Metered::Requests => 1,
            Metered::Tokens => u64::from(request.prompt_tokens()) + u64::from(request.max_tokens),
        });
        let Some(left) = self.level.checked_sub(cost) else {
            return Verdict::Shed;
        };
        self.level = left;
        Verdict::Admit
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;
    use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};

    use super::*;

    /// Whether each of the requests at these times, in milliseconds, passes.
    fn passes(mut bucket: TokenBucket, times: &[u64]) -> Vec<bool> {
        let prompt = Prompt::new([Segment::new(ContentId::new(0), 40)]).expect("forty tokens");
        let request = Request::new(RequestId::new(0), SimTime::ZERO, prompt, 60);
        let mut rng = RngStreams::new(1, 0).stream("admission", 0);
        let mut pass = |&at: &u64| {
            let now = SimTime::from_nanos(at * 1_000_000);
            let mut cx = GatewayContext::new(now, &[], &mut rng);
            bucket.admit(&request.view(), &mut cx) == Verdict::Admit
        };
        times.iter().map(&mut pass).collect()
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let bucket = TokenBucket::new(Metered::Requests, 1, SimDuration::from_millis(10), 2);
        let expected = [true, true, false, false, true, false, true];
        assert_eq!(passes(bucket, &[0, 0, 0, 9, 10, 19, 20]), expected);
    }

    #[test]
    fn tokens_are_the_prompt_and_the_declared_limit() {
        let bucket = TokenBucket::new(Metered::Tokens, 100, SimDuration::from_secs(1), 100);
        assert_eq!(passes(bucket, &[0, 999, 1000]), [true, false, true]);
    }

    #[test]
    fn a_third_of_a_request_is_not_lost_to_rounding() {
        let bucket = TokenBucket::new(Metered::Requests, 1, SimDuration::from_millis(3), 1);
        let times: Vec<u64> = (0..=300).collect();
        let passed = passes(bucket, &times).iter().filter(|&&pass| pass).count();
        assert_eq!(passed, 101);
    }

    #[test]
    fn what_costs_more_than_the_burst_never_passes() {
        let bucket = TokenBucket::new(Metered::Tokens, 1000, SimDuration::from_secs(1), 99);
        assert_eq!(passes(bucket, &[0, 100_000]), [false, false]);
    }
}
