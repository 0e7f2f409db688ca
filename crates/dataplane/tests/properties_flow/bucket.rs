//! Properties of the token bucket.

use foretoken_dataplane::admission::{Metered, TokenBucket};
use foretoken_dataplane::{Admitter, GatewayContext, Verdict};
use foretoken_des_kernel::{RngStreams, SimDuration, SimTime};
use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};
use proptest::prelude::*;

use crate::cases;

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn no_window_admits_more_than_the_burst_and_the_rate(
        gaps in prop::collection::vec(0u64..3_000_000, 1..60),
        (amount, per, burst) in (1u64..10, 1u64..5_000_000, 1u64..5),
    ) {
        let per = SimDuration::from_nanos(per);
        let mut bucket = TokenBucket::new(Metered::Requests, amount, per, burst);
        let prompt = Prompt::new([Segment::new(ContentId::new(0), 4)]).expect("four tokens");
        let request = Request::new(RequestId::new(0), SimTime::ZERO, prompt, 1);
        let mut rng = RngStreams::new(1, 0).stream("admission", 0);
        let mut admitted: Vec<u64> = Vec::new();
        let mut now = 0;
        for gap in gaps {
            now += gap;
            let mut cx = GatewayContext::new(SimTime::from_nanos(now), &[], &mut rng);
            if bucket.admit(&request.view(), &mut cx) == Verdict::Admit {
                admitted.push(now);
            }
        }
        prop_assert!(!admitted.is_empty(), "the first finds a full bucket");
        for (first, &start) in admitted.iter().enumerate() {
            for (last, &end) in admitted.iter().enumerate().skip(first) {
                let count = (last - first + 1) as u64;
                let allowed = burst + (end - start) * amount / per.as_nanos();
                prop_assert!(count <= allowed, "{count} in {} ns", end - start);
            }
        }
    }
}
