//! Closed loops: conversations react to answers, and to nothing else.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use foretoken_des_kernel::{Fingerprint, RngStreams, SimDuration, SimTime};
use foretoken_workload::{
    AgentsSpec, ArrivalSpec, ClientSpec, ClosedLoopSpec, ContentId, CountSpec, DelaySpec, Ended,
    Ending, FinishReason, LengthSpec, Lookahead, Prompt, Rate, Replay, Request, RequestId,
    RetrySpec, Segment, SessionId, SessionsSpec, StartSpec, SubAgentsSpec, TurnByTurn, Upcoming,
    Workload, WorkloadSpec,
};
use proptest::prelude::*;

/// A request, and when and how it ended.
struct Served {
    request: Request,
    ended: Ended,
}

/// Serves every request for as long as `latency` says, or fails it.
fn serve(
    spec: &WorkloadSpec,
    latency: impl FnMut(&Request) -> Result<SimDuration, SimDuration>,
) -> Vec<Served> {
    let workload = spec.build(&RngStreams::new(7, 0));
    serve_load(workload.expect("a valid load"), latency)
}

fn serve_load(
    workload: Box<dyn Workload>,
    mut latency: impl FnMut(&Request) -> Result<SimDuration, SimDuration>,
) -> Vec<Served> {
    let mut load = Lookahead::new(workload);
    let mut ends = BinaryHeap::new();
    let mut served: Vec<Served> = Vec::new();
    loop {
        let (arrival, end) = (load.arrival(), ends.peek().map(|&Reverse((at, _))| at));
        match (arrival, end) {
            (None, None) => return served,
            (Some(arrival), end) if end.is_none_or(|end| arrival < end) => {
                let request = load.draw().expect("it was announced");
                assert_eq!(request.arrival, arrival);
                assert_eq!(request.id.index(), served.len());
                let (took, ending) = match latency(&request) {
                    Ok(took) => (took, None),
                    Err(took) => (took, Some(Ending::Finished(FinishReason::Abort))),
                };
                let at = arrival + took;
                let ended = match ending {
                    None => Ended::answered(request.id, at, request.output_tokens()),
                    Some(ending) => Ended::without_answer(request.id, at, ending),
                };
                ends.push(Reverse((at, request.id)));
                served.push(Served { request, ended });
            }
            _ => {
                let Reverse((_, id)) = ends.pop().expect("one was seen");
                let ended = served[id.index()].ended;
                load.ended(&ended);
            }
        }
    }
}

fn seconds(seconds: u64) -> SimDuration {
    SimDuration::from_secs(seconds)
}

fn sessions() -> SessionsSpec {
    let arrivals = ArrivalSpec::Poisson {
        rate: Rate::new(0.5).expect("positive"),
    };
    SessionsSpec {
        system_prompt_tokens: 50,
        think: DelaySpec::Exponential { mean_s: 4.0 },
        ..SessionsSpec::new(
            StartSpec::arrivals(arrivals, 40),
            CountSpec::Geometric { mean: 3.0, max: 12 },
            LengthSpec::uniform(5, 60),
            LengthSpec::uniform(1, 90),
        )
    }
}

fn agents() -> AgentsSpec {
    AgentsSpec {
        start: StartSpec {
            users: Some(40),
            sessions: Some(40),
            ..StartSpec::default()
        },
        system_prompt_tokens: 100,
        task_tokens: LengthSpec::uniform(10, 50),
        steps: CountSpec::Uniform { min: 1, max: 6 },
        output_tokens: LengthSpec::uniform(1, 30),
        max_tokens: None,
        tool_calls: CountSpec::Uniform { min: 1, max: 3 },
        tool_result_tokens: LengthSpec::uniform(1, 40),
        tool_time: DelaySpec::Uniform {
            min_s: 0.0,
            max_s: 2.0,
        },
        sub_agents: Some(SubAgentsSpec {
            probability: 0.4,
            count: CountSpec::Uniform { min: 1, max: 3 },
            steps: CountSpec::Uniform { min: 1, max: 3 },
            task_tokens: LengthSpec::uniform(5, 20),
        }),
        thinking_share: 0.0,
        max_context_tokens: None,
        client: ClientSpec::default(),
    }
}

/// Latencies that differ from request to request, and from server to server.
fn fickle(server: u64) -> impl FnMut(&Request) -> Result<SimDuration, SimDuration> {
    let streams = RngStreams::new(server, 0);
    move |request| {
        let mut rng = streams.stream("latency", request.id.get().into());
        Ok(SimDuration::from_nanos(rng.below(20_000_000_000)))
    }
}

fn by_session(served: &[Served]) -> BTreeMap<u64, Vec<&Served>> {
    let mut sessions: BTreeMap<u64, Vec<&Served>> = BTreeMap::new();
    for one in served {
        let session = one.request.session.expect("conversations are sessions");
        sessions.entry(session.get()).or_default().push(one);
    }
    sessions
}

#[test]
fn a_turn_repeats_all_that_was_said_and_waits_for_the_answer() {
    let served = serve(&sessions().into(), fickle(1));
    let sessions = by_session(&served);
    assert_eq!(sessions.len(), 40);
    assert!(sessions.values().any(|turns| turns.len() > 3));
    for turns in sessions.values() {
        for pair in turns.windows(2) {
            let (before, after) = (&pair[0].request, &pair[1].request);
            assert!(after.arrival >= pair[0].ended.at);
            let said = before.prompt.segments();
            let answer = Segment::new(before.output_content, before.output_tokens());
            let repeated = after.prompt.segments();
            assert_eq!(repeated[..said.len()], *said);
            assert_eq!(repeated[said.len()], answer);
            assert_eq!(repeated.len(), said.len() + 2);
        }
    }
}

/// The texts of a prompt with their lengths, and the length of the answer.
type Said = (Vec<(Option<ContentId>, u32)>, u32);

/// What was asked, without the numbers that depend on the order in which it was.
fn script(served: &[Served]) -> BTreeMap<u64, Vec<Said>> {
    let text = |segment: &Segment| {
        let content = segment.content;
        (
            content.as_output().is_none().then_some(content),
            segment.len,
        )
    };
    let said = |one: &&Served| {
        let segments = one.request.prompt.segments();
        (
            segments.iter().map(text).collect(),
            one.request.output_tokens(),
        )
    };
    by_session(served)
        .into_iter()
        .map(|(session, turns)| {
            let mut turns: Vec<_> = turns.iter().map(said).collect();
            turns.sort();
            (session, turns)
        })
        .collect()
}

#[test]
fn what_is_asked_does_not_depend_on_who_answers_first() {
    let chats = WorkloadSpec::from(sessions());
    let [first, second] = [1, 2].map(|server| script(&serve(&chats, fickle(server))));
    assert!(first == second, "another order");
    let users = WorkloadSpec::from(SessionsSpec {
        start: StartSpec {
            users: Some(4),
            sessions: None,
            ..StartSpec::users(4, 500)
        },
        ..sessions()
    });
    let (first, second) = (serve(&users, fickle(1)), serve(&users, fickle(2)));
    let (first, second) = (script(&first), script(&second));
    // The last conversations are cut short at different turns.
    let whole = |session: &u64| *session < 80;
    let mut common = first.iter().filter(|(session, _)| whole(session));
    assert!(common.all(|(session, turns)| second.get(session) == Some(turns)));
}

#[test]
fn agents_go_on_with_the_last_answers_of_their_sub_agents() {
    let served = serve(&agents().into(), fickle(3));
    let answers: BTreeMap<ContentId, &Served> = served
        .iter()
        .map(|one| (one.request.output_content, one))
        .collect();
    let mut joined = 0;
    for one in &served {
        let segments = one.request.prompt.segments();
        let quoted = segments.iter().filter_map(|it| answers.get(&it.content));
        let mut own_line = 0;
        for answer in quoted {
            assert!(one.request.arrival >= answer.ended.at, "causality");
            let said = answer.request.prompt.segments();
            if segments.starts_with(said) {
                own_line += 1;
            } else {
                joined += 1;
            }
        }
        assert!(own_line <= 6);
    }
    assert!(joined > 10, "{joined}");
    assert_eq!(by_session(&served).len(), 40);
    let elsewhere = serve(&agents().into(), fickle(4));
    assert!(script(&served) == script(&elsewhere), "another order");
}

#[test]
fn a_user_has_one_request_at_a_time() {
    let spec = ClosedLoopSpec {
        ramp_up_s: Some(4.0.try_into().expect("positive")),
        ..ClosedLoopSpec::new(4, 400, LengthSpec::constant(9), LengthSpec::constant(5))
    };
    let served = serve(&spec.into(), |_| Ok(seconds(10)));
    assert_eq!(served.len(), 400);
    let first: Vec<_> = served[..4].iter().map(|it| it.request.arrival).collect();
    assert_eq!(first, [0, 1, 2, 3].map(|s| SimTime::ZERO + seconds(s)));
    for (index, one) in served.iter().enumerate().skip(4) {
        assert_eq!(one.request.arrival, served[index - 4].ended.at);
        assert_eq!(one.request.repeatable_tokens(), 0);
    }
}

#[test]
fn users_come_when_they_are_due_whoever_comes_again_before() {
    let mut spec = agents();
    spec.start = StartSpec {
        ramp_up_s: Some(100.0.try_into().expect("positive")),
        sessions: Some(60),
        ..StartSpec::users(50, 2_000)
    };
    let served = serve(&spec.into(), fickle(5));
    let sessions = by_session(&served);
    // The first ones have come again before the last ones come, whose conversations are theirs nevertheless.
    assert_eq!(sessions.len(), 60);
    for user in 0..50 {
        let first = sessions[&user][0].request.arrival;
        assert_eq!(first, SimTime::ZERO + seconds(2 * user));
    }
    assert!(sessions.values().any(|it| {
        it[0].request.arrival < SimTime::ZERO + seconds(98)
            && it[0]
                .request
                .session
                .is_some_and(|session| session.get() >= 50)
    }));
    let digest = served.iter().fold(Fingerprint::new(), |digest, one| {
        let session = one.request.session.map_or(0, SessionId::get);
        let digest = digest.with(one.request.arrival.as_nanos()).with(session);
        let tokens = one.request.prompt.tokens();
        digest
            .with(tokens.into())
            .with(one.request.output_tokens().into())
    });
    // That of a list of all users from the start on.
    assert_eq!(
        (served.len(), digest.value()),
        (487, 12_383_859_525_409_132_583)
    );
}

#[test]
fn a_million_users_cost_nothing_before_they_come() {
    let spec = ClosedLoopSpec {
        ramp_up_s: Some(2_000_000.0.try_into().expect("positive")),
        ..ClosedLoopSpec::new(
            1 << 20,
            9_000,
            LengthSpec::constant(9),
            LengthSpec::constant(5),
        )
    };
    let mut load = spec.build(&RngStreams::new(1, 0)).expect("allowed");
    let mut last = SimTime::ZERO;
    while let Upcoming::At(at) = load.upcoming() {
        let request = load.next().expect("it was announced");
        assert_eq!(request.arrival, at);
        last = at;
    }
    assert_eq!(
        last.as_nanos(),
        2_000_000_000_000_000_u64 * 8_999 / (1 << 20)
    );
    let many = ClosedLoopSpec {
        users: (1 << 20) + 1,
        ..spec
    };
    let error = many.build(&RngStreams::new(1, 0)).expect_err("too many");
    assert_eq!(
        error.to_string(),
        "users is 1048577: allowed is 1 to 1048576"
    );
}

#[test]
fn thinking_is_not_repeated_and_a_full_context_ends_a_session() {
    let spec = SessionsSpec {
        thinking_share: 0.6,
        max_context_tokens: Some(200),
        ..SessionsSpec::new(
            StartSpec::users(1, 100),
            CountSpec::Constant { count: 50 },
            LengthSpec::constant(10),
            LengthSpec::constant(40),
        )
    };
    let served = serve(&spec.into(), |_| Ok(seconds(1)));
    // 10 + 40 the first time, and 26 more each time: 10 new tokens and 16 that are not thinking.
    let prompts: Vec<_> = served.iter().map(|it| it.request.prompt.tokens()).collect();
    assert_eq!(prompts[..7], [10, 36, 62, 88, 114, 140, 10]);
    let answer = served[1].request.prompt.segments()[1];
    assert_eq!((answer.offset, answer.len), (24, 16));
}

#[test]
fn a_first_request_is_shortened_to_fit() {
    let spec = SessionsSpec {
        system_prompt_tokens: 50,
        max_context_tokens: Some(100),
        ..SessionsSpec::new(
            StartSpec::users(2, 10),
            CountSpec::Constant { count: 2 },
            LengthSpec::constant(400),
            LengthSpec::constant(40),
        )
    };
    for one in serve(&spec.into(), |_| Ok(seconds(1))) {
        assert_eq!(
            one.request.prompt.tokens() + one.request.output_tokens(),
            100
        );
    }
}

#[test]
fn a_session_goes_on_after_a_retry_and_ends_after_the_last() {
    let client = ClientSpec {
        retry: Some(RetrySpec::new(1)),
        ..ClientSpec::default()
    };
    let chats = SessionsSpec {
        client,
        ..sessions()
    };
    let fails_once = serve(&chats.clone().into(), |request| match request.attempt {
        0 => Err(seconds(1)),
        _ => Ok(seconds(1)),
    });
    let alone = serve(&sessions().into(), |_| Ok(seconds(1)));
    assert_eq!(fails_once.len(), 2 * alone.len());
    let answered: Vec<_> = fails_once
        .into_iter()
        .filter(|one| one.request.attempt == 1)
        .collect();
    assert!(script(&answered) == script(&alone), "other requests");
    for one in &answered {
        for segment in one.request.prompt.segments() {
            if let Some(quoted) = segment.content.as_output() {
                let is_retry = |it: &&Served| it.request.id == quoted;
                assert!(answered.iter().find(is_retry).is_some(), "quotes a failure");
            }
        }
    }
    let always = serve(&chats.into(), |_| Err(seconds(1)));
    assert_eq!(always.len(), 2 * 40);
}

#[test]
fn closed_and_open_loops_mix() {
    let open = SessionsSpec {
        start: StartSpec::arrivals(
            ArrivalSpec::Constant {
                rate: Rate::new(1.0).expect("positive"),
            },
            20,
        ),
        ..sessions()
    };
    let closed = ClosedLoopSpec::new(2, 30, LengthSpec::constant(9), LengthSpec::constant(5));
    let open_alone = serve(&open.clone().into(), |_| Ok(seconds(3)));
    let closed_alone = serve(&closed.clone().into(), |_| Ok(seconds(3)));
    let mix = WorkloadSpec::Mix(vec![open.into(), closed.into()]);
    let both = serve(&mix, |_| Ok(seconds(3)));
    assert_eq!(both.len(), open_alone.len() + closed_alone.len());
    let first: Vec<_> = both
        .iter()
        .filter(|it| it.request.stage.get() == 0)
        .collect();
    for (mixed, alone) in first.iter().zip(&open_alone) {
        assert_eq!(mixed.request.arrival, alone.request.arrival);
        let quotes = |one: &Served| {
            let segments = one.request.prompt.segments().to_vec();
            segments.into_iter().filter_map(|it| it.content.as_output())
        };
        for (quoted, original) in quotes(mixed).zip(quotes(alone)) {
            let of = |id: RequestId, served: &[Served]| served[id.index()].request.arrival;
            assert_eq!(of(quoted, &both), of(original, &open_alone));
        }
    }
}

/// Turns of two sessions as (session, second); each quotes the turn before it.
fn recorded(turns: &[(u64, u64)]) -> Box<dyn Workload> {
    let mut last = BTreeMap::new();
    let requests = (0..).zip(turns).map(|(id, &(session, second))| {
        let id = RequestId::new(id);
        let own = Segment::new(ContentId::new(id.get().into()), 9);
        let before = last.insert(session, id);
        let quoted = before.map(|id| Segment::new(ContentId::output_of(id), 1));
        let prompt = Prompt::new([own].into_iter().chain(quoted)).expect("it has tokens");
        let mut request = Request::new(id, SimTime::ZERO + seconds(second), prompt, 1);
        request.session = Some(SessionId::new(session));
        request
    });
    let replay = Replay::new(requests.collect()).expect("in order");
    Box::new(TurnByTurn::new(Box::new(replay)))
}

#[test]
fn recorded_turns_wait_for_answers_and_are_late_from_then_on() {
    let turns = [(7, 0), (7, 2), (8, 3), (7, 4), (8, 5), (7, 20)];
    let sent = |took: u64| -> Vec<_> {
        serve_load(recorded(&turns), |_| Ok(seconds(took)))
            .iter()
            .map(|one| {
                let nanos = (one.request.arrival - SimTime::ZERO).as_nanos();
                let session = one.request.session.expect("it has one").get();
                (session, nanos / 1_000_000_000)
            })
            .collect()
    };
    assert_eq!(sent(1), turns);
    // Session 7 is a second late, and then two: its last turn comes at 22.
    assert_eq!(sent(3), [(7, 0), (7, 3), (8, 3), (7, 6), (8, 6), (7, 22)]);
    assert_eq!(
        sent(30),
        [(7, 0), (8, 3), (7, 30), (8, 33), (7, 60), (7, 90)]
    );
}

#[test]
fn recorded_turns_quote_what_was_answered() {
    let turns = [(7, 0), (8, 0), (7, 1), (8, 1), (7, 2), (8, 2)];
    for server in 0..20 {
        let served = serve_load(recorded(&turns), fickle(server));
        assert_eq!(served.len(), turns.len());
        let mut last: BTreeMap<SessionId, ContentId> = BTreeMap::new();
        for one in &served {
            let session = one.request.session.expect("it has one");
            let quoted = one.request.prompt.segments().get(1).map(|it| it.content);
            assert_eq!(quoted, last.insert(session, one.request.output_content));
        }
    }
}

#[test]
fn wrong_conversations_are_refused_by_name() {
    let chats = sessions();
    let wrong = [
        (
            SessionsSpec {
                start: StartSpec::default(),
                ..chats.clone()
            },
            "sessions.start.arrivals is missing or empty: needed is either arrivals or users",
        ),
        (
            SessionsSpec {
                start: StartSpec {
                    sessions: None,
                    ..chats.start.clone()
                },
                ..chats.clone()
            },
            "sessions.start.sessions is missing or empty",
        ),
        (
            SessionsSpec {
                turns: CountSpec::Constant { count: 1001 },
                ..chats.clone()
            },
            "sessions.turns.count is 1001: allowed is at most 1000",
        ),
        (
            SessionsSpec {
                thinking_share: 1.5,
                ..chats.clone()
            },
            "sessions.thinking-share is 1.5",
        ),
        (
            SessionsSpec {
                max_context_tokens: Some(51),
                ..chats.clone()
            },
            "sessions.max-context-tokens is 51",
        ),
        (
            SessionsSpec {
                client: ClientSpec {
                    retry: Some(RetrySpec::new(0)),
                    ..ClientSpec::default()
                },
                ..chats
            },
            "sessions.client.retry.max-retries is 0",
        ),
    ];
    for (spec, problem) in wrong {
        let result = WorkloadSpec::from(spec).build(&RngStreams::new(1, 0));
        let error = result.err().expect("wrong").to_string();
        assert!(error.contains(problem), "{error}");
    }
    // Arrivals that are reported in stages need not end.
    for (after, ends) in [("hold", false), ("repeat", false), ("end", true)] {
        let arrivals = format!(
            r#"{{"piecewise": {{"pieces": [{{"rate-rps": 1, "duration-s": 5}}], "after": "{after}"}}}}"#
        );
        let mut spec = sessions();
        spec.start.arrivals = Some(serde_json::from_str(&arrivals).expect("well-formed"));
        spec.start.sessions = None;
        let problem = spec.build(&RngStreams::new(1, 0)).err();
        let needed = "start.sessions is missing or empty: \
                      needed is sessions, requests, duration-s or arrivals that end";
        let wanted = (!ends).then_some(needed);
        assert_eq!(problem.map(|it| it.to_string()).as_deref(), wanted);
    }
    let none = ClosedLoopSpec::new(0, 1, LengthSpec::constant(1), LengthSpec::constant(1));
    let error = none.build(&RngStreams::new(1, 0)).expect_err("nobody");
    assert!(error.to_string().starts_with("users is 0"), "{error}");
    let mut many = agents();
    many.steps = CountSpec::Constant { count: 1000 };
    if let Some(subs) = &mut many.sub_agents {
        subs.count = CountSpec::Constant { count: 100 };
        subs.steps = CountSpec::Constant { count: 100 };
    }
    let error = many.build(&RngStreams::new(1, 0)).expect_err("too many");
    assert!(
        error.to_string().contains("sub-agents.steps.count is 100"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn conversations_keep_the_promises_of_a_workload(
        server in any::<u64>(), failing in 0_u64..4, users in 1_u32..6,
        retries in prop::option::of(1_u32..3), limit in 1_u32..120,
    ) {
        let mut spec = agents();
        spec.start = StartSpec { sessions: Some(15), ..StartSpec::users(users, limit) };
        spec.client.retry = retries.map(RetrySpec::new);
        let mut latency = fickle(server);
        let served = serve(&spec.into(), move |request| {
            let took = latency(request)?;
            let fails = failing > 0 && u64::from(request.id.get()) % (failing + 1) == 0;
            if fails { Err(took) } else { Ok(took) }
        });
        prop_assert!(served.is_sorted_by_key(|one| one.request.arrival));
        let fresh = served.iter().filter(|one| one.request.attempt == 0).count();
        prop_assert!(fresh <= limit as usize);
        if failing == 0 {
            prop_assert_eq!(fresh, served.len());
        }
    }
}
