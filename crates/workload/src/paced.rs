//! [`Paced`]: a closed loop before a server that is always equally fast.

use core::fmt;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foretoken_des_kernel::{SimDuration, SimTime};

use crate::lifecycle::Ended;
use crate::request::{Request, RequestId};
use crate::source::{Lookahead, Workload};

/// A closed loop as an open one: every request is answered at a given pace, however many there are.
///
/// This is what a closed loop asks of a server with room to spare; it makes a list of requests of it that can be
/// written down and looked at. Open loops are passed on as they are.
///
/// ```
/// use foretoken_des_kernel::{RngStreams, SimDuration};
/// use foretoken_workload::{ClosedLoopSpec, LengthSpec, Paced, Workload};
///
/// let spec = ClosedLoopSpec::new(1, 3, LengthSpec::constant(9), LengthSpec::constant(11));
/// let load = spec.build(&RngStreams::new(1, 0))?;
/// let (ttft, itl) = (SimDuration::from_millis(100), SimDuration::from_millis(10));
/// let mut paced = Paced::new(Box::new(load), ttft, itl);
/// let arrivals = core::iter::from_fn(|| paced.next()).map(|request| request.arrival.as_secs_f64());
/// assert_eq!(arrivals.collect::<Vec<_>>(), [0.0, 0.2, 0.4]);
/// # Ok::<(), foretoken_workload::WorkloadError>(())
/// ```
pub struct Paced {
    load: Lookahead,
    ttft: SimDuration,
    itl: SimDuration,
    /// Ends of requests in flight, and the lengths of their answers.
    ends: BinaryHeap<Reverse<(SimTime, RequestId, u32)>>,
}

impl Paced {
    /// The first token comes `ttft` after a request, each further one `itl` after the one before.
    pub fn new(workload: Box<dyn Workload>, ttft: SimDuration, itl: SimDuration) -> Self {
        Self {
            load: Lookahead::new(workload),
            ttft,
            itl,
            ends: BinaryHeap::new(),
        }
    }

    /// Whether answers make a difference.
    pub const fn reacts(&self) -> bool {
        self.load.reacts()
    }
}

impl Workload for Paced {
    fn next(&mut self) -> Option<Request> {
        loop {
            let arrival = self.load.arrival();
            match self.ends.peek() {
                // At the same instant the answer comes first: it may be what the next request waits for.
                Some(&Reverse((at, request, tokens)))
                    if arrival.is_none_or(|arrival| at <= arrival) =>
                {
                    self.ends.pop();
                    self.load.ended(&Ended::answered(request, at, tokens));
                }
                _ => break,
            }
        }
        let request = self.load.draw()?;
        if self.load.reacts() {
            let tokens = request.output_tokens();
            let gaps = u64::from(tokens.saturating_sub(1));
            let took = self.itl.as_nanos().saturating_mul(gaps);
            let took = self.ttft.as_nanos().saturating_add(took);
            let at = request
                .arrival
                .checked_add(SimDuration::from_nanos(took))
                .unwrap_or(SimTime::MAX);
            self.ends.push(Reverse((at, request.id, tokens)));
        }
        Some(request)
    }

    fn total(&self) -> Option<u64> {
        self.load.total()
    }
}

impl fmt::Debug for Paced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced")
            .field("ttft", &self.ttft)
            .field("itl", &self.itl)
            .field("in_flight", &self.ends.len())
            .finish_non_exhaustive()
    }
}
