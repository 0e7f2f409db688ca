//! What a replay makes of rows.

use foretoken_des_kernel::RngStreams;
use foretoken_workload::trace::{
    Place, Prefix, Row, TraceError, TraceReplay, TraceSpec, TraceTime,
};
use foretoken_workload::{
    BlockHash, BlockHasher, ContentId, Request, RequestId, Segment, SessionId, Workload,
    WorkloadSpec,
};

use crate::{Scratch, row, sample, text};

fn replay(rows: Vec<Row>, spec: &TraceSpec) -> Result<Vec<Request>, TraceError> {
    let mut load = TraceReplay::of_rows(rows.into_iter().map(Ok), spec)?;
    assert!(load.total().is_some());
    Ok(core::iter::from_fn(|| load.next()).collect())
}

fn plain() -> TraceSpec {
    TraceSpec::new("unused")
}

fn at(sent: i64, input: u64, output: u64) -> Row {
    row(Place::Line(9), sent, input, output)
}

/// Hashes of the blocks of 16 tokens of a request, answer included.
fn chain(request: &Request) -> Vec<BlockHash> {
    let mut chain = Vec::new();
    let tokens = request.prompt.tokens() + request.output_tokens();
    let hasher = BlockHasher::new(&request.prompt, request.output_content, 16);
    hasher.extend(BlockHash::root(0), tokens, &mut chain);
    chain
}

/// Blocks of 16 tokens that two requests share.
fn shared(one: &Request, other: &Request) -> usize {
    let pairs = chain(one).into_iter().zip(chain(other));
    pairs.take_while(|(one, other)| one == other).count()
}

#[test]
fn times_begin_at_zero_and_can_be_scaled_or_replaced() {
    let rows = vec![at(-500, 1, 1), at(0, 1, 1), at(1_000, 1, 1)];
    let arrivals = |spec: &TraceSpec| -> Vec<u64> {
        let requests = replay(rows.clone(), spec).unwrap();
        requests
            .iter()
            .map(|request| request.arrival.as_nanos())
            .collect()
    };
    assert_eq!(arrivals(&plain()), [0, 500, 1_500]);
    let mut faster = plain();
    faster.rate_factor = 2.0.try_into().unwrap();
    assert_eq!(arrivals(&faster), [0, 250, 750]);
    let mut steady = plain();
    steady.rate_rps = Some(4.0.try_into().unwrap());
    assert_eq!(arrivals(&steady), [0, 250_000_000, 500_000_000]);
    steady.requests = Some(2);
    assert_eq!(arrivals(&steady).len(), 2);
}

#[test]
fn arrivals_beyond_half_of_all_time_are_refused() {
    let mut slow = plain();
    slow.rate_factor = 1e-15.try_into().unwrap();
    let error = replay(vec![at(0, 1, 1), at(1_000_000_000, 1, 1)], &slow).unwrap_err();
    let allowed = "allowed is at most 2^62 ns (146 years), in the pace that is asked for \
                   (rate-factor, rate-rps)";
    assert_eq!(
        error.to_string(),
        format!("line 9, sent is \"1e15 s after the start\": {allowed}")
    );
    let mut rare = plain();
    rare.rate_rps = Some(1e-15.try_into().unwrap());
    let error = replay(vec![at(0, 1, 1), at(0, 1, 1)], &rare).unwrap_err();
    assert!(error.to_string().contains("sent is \"1e15 s"), "{error}");
    let ends = |last: i64| {
        let mut rows = vec![at(0, 1, 1), at(0, 1, 1)];
        rows[0].sent = Some(TraceTime::from_nanos(-(1 << 61)));
        rows[1].sent = Some(TraceTime::from_nanos(last));
        replay(rows, &plain())
    };
    assert_eq!(ends(1 << 61).unwrap()[1].arrival.as_nanos(), 1 << 62);
    assert!(ends(i64::MAX).is_err());
}

#[test]
fn rows_without_times_need_a_rate() {
    let rows = vec![Row::new(Place::Row(4), 1, 1)];
    let error = replay(rows.clone(), &plain()).unwrap_err().to_string();
    assert_eq!(
        error,
        "row 4, sent is \"missing\": allowed is a time, or a given rate (rate-rps)"
    );
    let mut steady = plain();
    steady.rate_rps = Some(4.0.try_into().unwrap());
    assert_eq!(replay(rows, &steady).unwrap().len(), 1);
}

#[test]
fn a_rate_and_a_factor_are_not_given_together() {
    let mut both = plain();
    both.rate_factor = 2.0.try_into().unwrap();
    both.rate_rps = Some(3.0.try_into().unwrap());
    let error = replay(vec![at(0, 1, 1)], &both).unwrap_err().to_string();
    assert!(
        error.starts_with("rate-factor is given with rate-rps: allowed is one of both"),
        "{error}"
    );
    both.path = sample("azure-2023.csv");
    let error = both.build(&RngStreams::new(0, 0)).unwrap_err().to_string();
    assert!(
        error.contains("azure-2023.csv: rate-factor is given"),
        "{error}"
    );
    both.rate_factor = 1.0.try_into().unwrap();
    assert!(both.build(&RngStreams::new(0, 0)).is_ok());
}

#[test]
fn a_description_draws_by_default_what_seed_0_replays() {
    let path = sample("serve-gen");
    let rows = crate::open(&path, None).unwrap().into_rows();
    let drawn = TraceReplay::of_rows(rows, &plain()).unwrap();
    let replayed = TraceSpec::new(path).build(&RngStreams::new(0, 0)).unwrap();
    let all = |mut load: TraceReplay| -> Vec<_> { core::iter::from_fn(|| load.next()).collect() };
    let (drawn, replayed) = (all(drawn), all(replayed));
    assert!(drawn.len() > 100);
    assert_eq!(drawn, replayed);
}

#[test]
fn what_cleaning_mends_is_refused_and_says_so() {
    let refused = |rows| replay(rows, &plain()).unwrap_err().to_string();
    assert_eq!(
        refused(vec![at(5, 1, 1), at(4, 1, 1)]),
        "line 9, sent is \"4 ns\": allowed is a time not before that of the row in front \
         (foretoken workload clean --sort puts rows in order)"
    );
    let lengths = "allowed is 1 to 4294967295 \
         (foretoken workload clean --drop-impossible-lengths drops such rows)";
    assert_eq!(
        refused(vec![at(0, 0, 1)]),
        format!("line 9, input-tokens is \"0\": {lengths}")
    );
    assert_eq!(
        refused(vec![at(0, 1, 0)]),
        format!("line 9, output-tokens is \"0\": {lengths}")
    );
    assert_eq!(
        refused(vec![at(0, 1 << 32, 1)]),
        format!("line 9, input-tokens is \"4294967296\": {lengths}")
    );
}

#[test]
fn limits_and_names_become_those_of_requests() {
    let mut first = at(0, 5, 7);
    (first.max_tokens, first.model, first.tenant) = (Some(9), text("base"), text("acme"));
    (first.session, first.stage, first.priority) = (text("talk"), Some(2), Some(-4));
    let mut second = at(0, 5, 7);
    (second.max_tokens, second.tenant, second.session) = (Some(3), text("other"), text("7"));
    let mut third = at(0, 5, 7);
    third.max_tokens = Some(7);
    let requests = replay(vec![first.clone(), second, third, first.clone()], &plain()).unwrap();
    let about = |request: &Request| {
        (
            request.max_tokens,
            request.output_tokens(),
            request.stop_after(),
        )
    };
    assert_eq!(about(&requests[0]), (9, 7, Some(7)));
    assert_eq!(about(&requests[1]), (3, 3, Some(7)));
    assert_eq!(about(&requests[2]), (7, 7, None));
    let flows: Vec<_> = requests.iter().map(|request| request.flow.get()).collect();
    assert_eq!(flows, [1, 2, 0, 1]);
    let sessions: Vec<_> = requests
        .iter()
        .map(|it| it.session.map(SessionId::get))
        .collect();
    assert_eq!(sessions, [Some(0), Some(1), None, Some(0)]);
    assert_eq!(
        (requests[0].stage.get(), requests[0].priority.get()),
        (2, -4)
    );
    assert_eq!(requests[0].model, None);
    let adapters: TraceSpec =
        serde_json::from_str(r#"{"path": "x", "models": "adapters"}"#).unwrap();
    assert_eq!(
        replay(vec![first], &adapters).unwrap()[0].model,
        text("base")
    );
}

#[test]
fn blocks_are_shared_as_far_as_their_ids_are_equal() {
    let blocks = |input: u64, ids: &[u64]| {
        let mut row = at(0, input, 20);
        row.prefix = Prefix::Blocks {
            ids: ids.to_vec(),
            block_tokens: 64,
        };
        row
    };
    let far = 1 << 60;
    let rows = vec![
        blocks(180, &[0, 1, 2]),
        blocks(192, &[0, 1, 2]),
        blocks(130, &[0, far]),
        blocks(200, &[0, far, 1]),
        blocks(100, &[1, 0]),
    ];
    let requests = replay(rows, &plain()).unwrap();
    let lengths: Vec<_> = requests
        .iter()
        .map(|request| request.prompt.tokens())
        .collect();
    assert_eq!(lengths, [180, 192, 130, 200, 100]);
    // 180 tokens are 11 blocks of 16 and a part of one.
    assert_eq!(shared(&requests[0], &requests[1]), 11);
    assert_eq!(shared(&requests[0], &requests[2]), 4);
    assert_eq!(shared(&requests[2], &requests[3]), 8);
    assert_eq!(shared(&requests[0], &requests[4]), 0);
    assert_eq!(requests[0].repeatable_tokens(), 180);
}

#[test]
fn groups_share_their_text_and_nothing_else() {
    let group = |name: &str, input: u64| {
        let mut row = at(0, input, 20);
        row.prefix = Prefix::Group {
            group: name.into(),
            tokens: 64,
        };
        row
    };
    let rows = vec![
        group("a", 200),
        group("a", 300),
        group("b", 200),
        group("a", 40),
    ];
    let requests = replay(rows, &plain()).unwrap();
    assert_eq!(shared(&requests[0], &requests[1]), 4);
    assert_eq!(shared(&requests[0], &requests[2]), 0);
    assert_eq!(shared(&requests[0], &requests[3]), 2);
    assert_eq!(requests[0].repeatable_tokens(), 64);
}

#[test]
fn a_conversation_repeats_what_was_said_answers_included() {
    let turn = |session: &str, input: u64, output: u64| {
        let mut row = at(0, input, output);
        (row.session, row.prefix) = (text(session), Prefix::History);
        row
    };
    let rows = vec![
        turn("a", 64, 32),
        turn("b", 64, 32),
        turn("a", 160, 16),
        turn("a", 208, 16),
        // What was said is longer than this: the conversation was cut.
        turn("a", 128, 16),
    ];
    let requests = replay(rows, &plain()).unwrap();
    assert_eq!(shared(&requests[0], &requests[2]), 6);
    assert_eq!(shared(&requests[2], &requests[3]), 11);
    assert_eq!(shared(&requests[2], &requests[4]), 8);
    assert_eq!(shared(&requests[0], &requests[1]), 0);
    let of = |request: &Request| request.prompt.segments().to_vec();
    assert_eq!(
        of(&requests[2])[1],
        Segment::new(ContentId::output_of(RequestId::new(0)), 32)
    );
    assert_eq!(
        of(&requests[4])
            .iter()
            .map(|segment| segment.len)
            .sum::<u32>(),
        128
    );
}

#[test]
fn answers_are_found_again_where_rows_were_dropped() {
    let said = |id: &str, of: u32| {
        let mut row = at(0, 20, 16);
        row.id = text(id);
        let answer = Segment::new(ContentId::output_of(RequestId::new(of)), 10);
        row.prefix = Prefix::Segments(vec![Segment::new(ContentId::new(5), 10), answer]);
        row
    };
    // Request 1 is gone, so that 2 is number 1 now; 3 quotes both.
    let requests = replay(
        vec![said("0", 9), said("2", 0), said("3", 2), said("4", 1)],
        &plain(),
    )
    .unwrap();
    let quoted = |index: usize| requests[index].prompt.segments()[1].content.as_output();
    assert_eq!(quoted(1), Some(RequestId::new(0)));
    assert_eq!(quoted(2), Some(RequestId::new(1)));
    assert_eq!(quoted(3), None);
}

#[test]
fn segments_are_in_all_rows_or_in_none_and_sum_to_the_prompt() {
    let mut exact = at(0, 10, 1);
    exact.prefix = Prefix::Segments(vec![Segment::new(ContentId::new(5), 10)]);
    let error = replay(vec![exact.clone(), at(0, 10, 1)], &plain())
        .unwrap_err()
        .to_string();
    assert!(error.contains("segments in all rows or in none"), "{error}");
    exact.input_tokens = 11;
    let error = replay(vec![exact], &plain()).unwrap_err().to_string();
    assert!(error.contains("the sum of its segments, 10"), "{error}");
}

#[test]
fn a_trace_is_one_of_the_workloads_of_a_configuration() {
    let config = r#"{"mix": [
        {"trace": {"path": "mooncake.jsonl"}},
        {"trace": {"path": "mooncake.jsonl", "rate-factor": 2, "format": "mooncake"}}
    ]}"#;
    let mut spec: WorkloadSpec = serde_json::from_str(config).unwrap();
    assert!(spec.build(&RngStreams::new(1, 0)).is_err());
    spec.rebase(sample("").as_path());
    assert_eq!(spec.stages(), 2);
    let mut load = spec.build(&RngStreams::new(1, 0)).unwrap();
    assert_eq!(load.total(), Some(6));
    let requests: Vec<_> = core::iter::from_fn(|| load.next()).collect();
    let arrivals: Vec<_> = requests
        .iter()
        .map(|it| it.arrival.as_nanos() / 1_000_000)
        .collect();
    assert_eq!(arrivals, [0, 0, 0, 0, 1_526, 3_052]);
    assert_eq!(shared(&requests[0], &requests[1]), 64);
    // Two sources share no text.
    assert_eq!(shared(&requests[0], &requests[2]), 0);
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<WorkloadSpec>(&text).unwrap(), spec);
}

#[test]
fn a_trace_that_cannot_be_replayed_says_file_and_row() {
    let file = Scratch::new("t.csv", "sent,input-tokens,output-tokens\n1,1,1\n0,1,1\n");
    let error = WorkloadSpec::from(TraceSpec::new(&file.path)).build(&RngStreams::new(1, 0));
    let error = error.err().unwrap().to_string();
    assert!(error.contains("t.csv: line 3, sent is"), "{error}");
}
