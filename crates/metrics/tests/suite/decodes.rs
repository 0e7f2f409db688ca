//! Decodes that are told by who joins and who leaves equal the same tokens told one by one.

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_metrics::{MetricSink, Recorder, Recording, Report};
use foretoken_workload::{
    ContentId, DecodeRun, FinishReason, FlowId, Lifecycle, Occurrence, Prompt, Request, RequestId,
    Segment, StageId, TokenRun,
};
use proptest::prelude::*;

const ENGINES: usize = 2;

/// From an engine to the client.
const DELAY: SimDuration = SimDuration::from_nanos(3);

#[derive(Debug, Clone)]
enum Act {
    /// A request arrives and goes to an engine; it is of one of three groups.
    Arrive {
        engine: usize,
        group: u32,
    },
    /// A request gets tokens by itself.
    Token {
        pick: usize,
        count: u32,
    },
    /// A request leaves the decodes, and joins those of an engine when it is there again.
    Preempt {
        pick: usize,
        engine: usize,
    },
    /// A request that was preempted, or has had its first token, may decode.
    Resume {
        pick: usize,
    },
    Finish {
        pick: usize,
        reason: FinishReason,
    },
    /// All that may decode on an engine do, with these gaps.
    Decode {
        engine: usize,
        gaps: Vec<u64>,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let (engine, pick) = (0..ENGINES, 0_usize..64);
    let gap = prop_oneof![Just(10_u64), Just(12), 0_u64..1_000];
    let reason = prop_oneof![
        Just(FinishReason::Length),
        Just(FinishReason::Abort),
        Just(FinishReason::EndpointLost)
    ];
    prop_oneof![
        2 => (engine.clone(), 0_u32..3).prop_map(|(engine, group)| Act::Arrive { engine, group }),
        3 => (pick.clone(), 1_u32..3).prop_map(|(pick, count)| Act::Token { pick, count }),
        1 => (pick.clone(), engine.clone()).prop_map(|(pick, engine)| Act::Preempt { pick, engine }),
        4 => pick.clone().prop_map(|pick| Act::Resume { pick }),
        1 => (pick, reason).prop_map(|(pick, reason)| Act::Finish { pick, reason }),
        6 => (engine, prop::collection::vec(gap, 0..6))
            .prop_map(|(engine, gaps)| Act::Decode { engine, gaps }),
    ]
}

/// A request that has not ended.
struct Inside {
    id: RequestId,
    engine: usize,
    /// When it last got a token.
    last: Option<SimTime>,
    decodes: bool,
}

/// Tells the same to a recorder that is told runs of decodes, and to one that is told tokens.
struct Host {
    recorders: [Recorder; 2],
    now: SimTime,
    inside: Vec<Inside>,
    arrived: u32,
    /// Who decoded on each engine in its last run, and has not ended.
    decoded: [Vec<RequestId>; ENGINES],
}

impl Host {
    fn new(recorder: &Recorder) -> Self {
        Self {
            recorders: [recorder.clone(), recorder.clone()],
            now: SimTime::ZERO,
            inside: Vec::new(),
            arrived: 0,
            decoded: [const { Vec::new() }; ENGINES],
        }
    }

    fn tell(&mut self, id: RequestId, what: Lifecycle) {
        let occurrence = Occurrence::new(self.now + DELAY, id, what);
        for recorder in &mut self.recorders {
            recorder.on_occurrence(&occurrence);
        }
    }

    fn arrive(&mut self, engine: usize, group: u32) {
        let prompt = Prompt::new([Segment::new(ContentId::new(1), 30)]).expect("it has tokens");
        let id = RequestId::new(self.arrived);
        let mut request = Request::new(id, self.now, prompt, 9);
        request.flow = FlowId::new(group / 2);
        request.stage = StageId::new(group % 2);
        for recorder in &mut self.recorders {
            recorder.on_arrival(&request);
        }
        self.arrived += 1;
        self.inside.push(Inside {
            id,
            engine,
            last: None,
            decodes: false,
        });
    }

    fn act(&mut self, act: Act, horizon: SimTime) {
        self.now += SimDuration::from_nanos(1);
        let picked = |pick: usize, inside: &[Inside]| pick.checked_rem(inside.len());
        match act {
            Act::Arrive { engine, group } => self.arrive(engine, group),
            Act::Token { pick, count } => {
                let Some(place) = picked(pick, &self.inside) else {
                    return;
                };
                let inside = &mut self.inside[place];
                inside.last = Some(self.now);
                let id = inside.id;
                // Who gets a token by itself has left, and is not told to have.
                for decoded in &mut self.decoded {
                    decoded.retain(|&other| other != id);
                }
                self.tell(id, Lifecycle::Tokens { count });
            }
            Act::Preempt { pick, engine } => {
                let Some(place) = picked(pick, &self.inside) else {
                    return;
                };
                let inside = &mut self.inside[place];
                (inside.decodes, inside.engine) = (false, engine);
                let id = inside.id;
                self.tell(id, Lifecycle::Preempted);
            }
            Act::Resume { pick } => {
                if let Some(place) = picked(pick, &self.inside) {
                    let inside = &mut self.inside[place];
                    inside.decodes = inside.last.is_some();
                }
            }
            Act::Finish { pick, reason } => {
                let Some(place) = picked(pick, &self.inside) else {
                    return;
                };
                let Inside { id, last, .. } = self.inside.swap_remove(place);
                for decoded in &mut self.decoded {
                    decoded.retain(|&other| other != id);
                }
                if reason.is_complete() && last != Some(self.now) {
                    // A complete request ends with a token.
                    self.tell(id, Lifecycle::Tokens { count: 1 });
                }
                self.tell(id, Lifecycle::Finished { reason });
            }
            Act::Decode { engine, gaps } => self.decode(engine, &gaps, horizon),
        }
    }

    fn decode(&mut self, engine: usize, gaps: &[u64], horizon: SimTime) {
        let times: Vec<SimTime> = gaps
            .iter()
            .map(|&gap| {
                self.now += SimDuration::from_nanos(gap);
                self.now
            })
            .collect();
        let here = |inside: &&mut Inside| inside.engine == engine && inside.decodes;
        let mut members = Vec::new();
        if !times.is_empty() {
            for inside in self.inside.iter_mut().filter(here) {
                inside.last = times.last().copied();
                members.push(inside.id);
            }
        }
        let before = &self.decoded[engine];
        let not_in = |ids: &[RequestId], id: &RequestId| !ids.contains(id);
        let left: Vec<_> = before
            .iter()
            .copied()
            .filter(|id| not_in(&members, id))
            .collect();
        let joined: Vec<_> = members
            .iter()
            .copied()
            .filter(|id| not_in(before, id))
            .collect();
        let tokens = TokenRun::new(&members, &times).after(DELAY).until(horizon);
        let mut run = DecodeRun::new(tokens);
        (run.left, run.joined) = (&left, &joined);
        let [runs, tokens] = &mut self.recorders;
        let instance = u32::try_from(engine).expect("engines are few");
        runs.on_decodes(instance, &run);
        for occurrence in run.tokens.occurrences() {
            tokens.on_occurrence(&occurrence);
        }
        self.decoded[engine] = members;
    }

    fn finish(self) -> [Recording; 2] {
        let end = self.now + DELAY;
        self.recorders.map(|recorder| recorder.finish(end))
    }
}

proptest! {
    #[test]
    fn decodes_equal_their_tokens_one_by_one(
        acts in prop::collection::vec(act(), 0..120),
        keep in any::<bool>(),
        cut in 0_usize..3,
    ) {
        let recorder = if keep { Recorder::new().keeping_gaps() } else { Recorder::new() };
        let mut host = Host::new(&recorder);
        let last = acts.len().saturating_sub(cut);
        for act in acts[..last].iter().cloned() {
            host.act(act, SimTime::MAX);
        }
        // What reaches clients after the end has not happened.
        let horizon = host.now + SimDuration::from_nanos(20);
        for engine in 0..ENGINES {
            host.act(Act::Decode { engine, gaps: vec![7, 5, 8, 11] }, horizon);
        }
        let [runs, tokens] = host.finish();
        prop_assert_eq!(runs.records(), tokens.records());
        prop_assert_eq!(runs.fingerprint(), tokens.fingerprint());
        prop_assert!(runs.gaps().runs().eq(tokens.gaps().runs()));
        prop_assert_eq!(Report::new(&runs, 1, 2), Report::new(&tokens, 1, 2));
    }
}

/// Steps without end of a batch in which one request follows another.
#[test]
fn what_all_members_have_forgotten_changes_nothing() {
    for recorder in [Recorder::new(), Recorder::new().keeping_gaps()] {
        let mut host = Host::new(&recorder);
        for round in 0..40 {
            host.act(
                Act::Arrive {
                    engine: 0,
                    group: 0,
                },
                SimTime::MAX,
            );
            let pick = host.inside.len() - 1;
            host.act(Act::Token { pick, count: 1 }, SimTime::MAX);
            host.act(Act::Resume { pick }, SimTime::MAX);
            // Ever shorter gaps: each is longer than all after it.
            let gaps = (0..100).map(|step| 100_000 - 100 * round - step).collect();
            host.act(Act::Decode { engine: 0, gaps }, SimTime::MAX);
            if host.inside.len() > 2 {
                let reason = FinishReason::Abort;
                host.act(Act::Finish { pick: 0, reason }, SimTime::MAX);
                host.inside.sort_by_key(|inside| inside.id);
            }
        }
        let [runs, tokens] = host.finish();
        assert_eq!(runs.records(), tokens.records());
        assert_eq!(runs.fingerprint(), tokens.fingerprint());
    }
}

#[test]
#[should_panic(expected = "request lifecycle: request #5 has not arrived or has ended")]
fn who_has_not_arrived_cannot_join() {
    let members = [RequestId::new(5)];
    let times = [SimTime::from_nanos(3)];
    let mut run = DecodeRun::new(TokenRun::new(&members, &times));
    run.joined = &members;
    Recorder::new().on_decodes(0, &run);
}

#[test]
#[should_panic(expected = "decode membership: engine 0 has 1 members, 0 joined and did not leave")]
fn whoever_decodes_has_joined() {
    let members = [RequestId::new(0)];
    let times = [SimTime::from_nanos(3)];
    Recorder::new().on_decodes(0, &DecodeRun::new(TokenRun::new(&members, &times)));
}
