use foretoken_des_kernel::SimDuration;
use foretoken_workload::{ContentId, FinishReason, FlowId, Prompt, RejectReason, Segment};

use super::*;

const fn at(nanos: u64) -> SimTime {
    SimTime::from_nanos(nanos)
}

fn arrive(recorder: &mut Recorder, id: u32, nanos: u64) {
    let prompt = Prompt::new([Segment::new(ContentId::new(1), 30)]).expect("it has tokens");
    recorder.on_arrival(&Request::new(RequestId::new(id), at(nanos), prompt, 9));
}

fn tell(recorder: &mut Recorder, id: u32, nanos: u64, what: Lifecycle) {
    recorder.on_occurrence(&Occurrence::new(at(nanos), RequestId::new(id), what));
}

const TOKEN: Lifecycle = Lifecycle::Tokens { count: 1 };
const LENGTH: Lifecycle = Lifecycle::Finished {
    reason: FinishReason::Length,
};

#[test]
fn a_lone_request_is_measured_from_its_arrival() {
    let mut recorder = Recorder::new().keeping_gaps();
    arrive(&mut recorder, 0, 100);
    tell(
        &mut recorder,
        0,
        110,
        Lifecycle::Scheduled { cached_tokens: 16 },
    );
    tell(&mut recorder, 0, 150, TOKEN);
    tell(&mut recorder, 0, 157, TOKEN);
    tell(&mut recorder, 0, 160, Lifecycle::Preempted);
    tell(
        &mut recorder,
        0,
        170,
        Lifecycle::Resumed { cached_tokens: 32 },
    );
    tell(&mut recorder, 0, 190, Lifecycle::Tokens { count: 2 });
    tell(&mut recorder, 0, 190, LENGTH);
    let recording = recorder.finish(at(200));

    let span = |nanos| Some(SimDuration::from_nanos(nanos));
    let [record] = recording.records() else {
        panic!("one request arrived")
    };
    assert_eq!(
        (record.queue, record.ttft, record.e2e),
        (span(10), span(50), span(90))
    );
    assert_eq!(
        (
            record.output_tokens,
            record.cached_tokens,
            record.preemptions
        ),
        (4, 16, 1)
    );
    assert_eq!(record.end(), Some(at(190)));
    let gaps = [7, 33, 0].map(SimDuration::from_nanos);
    assert_eq!(record.gaps.list.as_deref(), Some(&gaps[..]));
    assert_eq!(
        recording.gaps().runs().collect::<Vec<_>>(),
        [(0, 1), (7, 1), (33, 1)]
    );
    assert_eq!(recording.end(), at(200));
}

#[test]
fn a_run_of_tokens_equals_its_tokens_one_by_one() {
    let (mut runs, mut tokens) = (
        Recorder::new().keeping_gaps(),
        Recorder::new().keeping_gaps(),
    );
    for recorder in [&mut runs, &mut tokens] {
        for id in 0..3 {
            let prompt = Prompt::new([Segment::new(ContentId::new(1), 30)]).expect("it has");
            let mut request = Request::new(RequestId::new(id), at(u64::from(id)), prompt, 9);
            request.flow = FlowId::new(id / 2);
            recorder.on_arrival(&request);
        }
    }
    let everyone = [0, 1, 2].map(RequestId::new);
    let delay = SimDuration::from_nanos(4);
    for (requests, times) in [
        (&everyone[..2], &[50, 57, 64, 70][..]),
        (&everyone[..], &[90]),
        (&everyone[1..], &[95, 95, 120]),
        (&everyone[..1], &[]),
    ] {
        let times: Vec<SimTime> = times.iter().map(|&time| at(time)).collect();
        let run = TokenRun::new(requests, &times).after(delay);
        runs.on_tokens(&run);
        for occurrence in run.occurrences() {
            tokens.on_occurrence(&occurrence);
        }
    }
    for recorder in [&mut runs, &mut tokens] {
        tell(recorder, 1, 124, LENGTH);
    }
    let (runs, tokens) = (runs.finish(at(200)), tokens.finish(at(200)));
    assert_eq!(runs.records(), tokens.records());
    assert_eq!(runs.fingerprint(), tokens.fingerprint());
    let pairs = runs.groups().iter().zip(tokens.groups());
    for (of_runs, of_tokens) in pairs {
        let [mut of_runs, mut of_tokens] = [of_runs, of_tokens].map(|group| group.gaps().clone());
        assert!(of_runs.runs().eq(of_tokens.runs()));
    }
}

#[test]
fn records_come_by_id_whatever_ended_first() {
    let mut recorder = Recorder::new();
    for id in 0..4 {
        arrive(&mut recorder, id, u64::from(id));
    }
    let shed = Lifecycle::Rejected {
        reason: RejectReason::Shed,
    };
    tell(&mut recorder, 1, 5, shed);
    tell(&mut recorder, 3, 6, TOKEN);
    tell(&mut recorder, 3, 6, LENGTH);
    tell(
        &mut recorder,
        0,
        9,
        Lifecycle::Finished {
            reason: FinishReason::Abort,
        },
    );
    let recording = recorder.finish(at(9));
    let outcomes: Vec<_> = recording
        .records()
        .iter()
        .map(|record| (record.id.get(), record.outcome))
        .collect();
    assert_eq!(
        outcomes,
        [
            (0, Outcome::Finished(FinishReason::Abort)),
            (1, Outcome::Rejected(RejectReason::Shed)),
            (2, Outcome::InFlight),
            (3, Outcome::Finished(FinishReason::Length)),
        ]
    );
}

#[test]
fn what_is_evicted_or_lost_may_have_no_token() {
    let mut recorder = Recorder::new();
    for (id, reason) in [(0, FinishReason::Evicted), (1, FinishReason::EndpointLost)] {
        arrive(&mut recorder, id, 10);
        tell(&mut recorder, id, 40, Lifecycle::Finished { reason });
    }
    let recording = recorder.finish(at(50));
    for record in recording.records() {
        assert_eq!((record.ttft, record.queue), (None, None));
        assert_eq!(record.end(), Some(at(40)));
        assert!(!record.outcome.is_complete());
    }
}

#[test]
fn gaps_are_kept_apart_by_stage_class_and_tenant() {
    let mut recorder = Recorder::new();
    for id in 0..3 {
        let prompt = Prompt::new([Segment::new(ContentId::new(1), 30)]).expect("it has tokens");
        let mut request = Request::new(RequestId::new(id), at(0), prompt, 9);
        request.flow = FlowId::new(id % 2);
        recorder.on_arrival(&request);
    }
    for (nanos, id) in [(5, 0), (5, 1), (5, 2), (12, 0), (12, 1), (12, 2), (20, 1)] {
        tell(&mut recorder, id, nanos, TOKEN);
    }
    let recording = recorder.finish(at(20));
    let gaps = recording.groups.iter().map(|group| {
        let runs = group.gaps().clone().runs().collect();
        (group.key.flow.get(), group.samples().arrived(), runs)
    });
    let expected: [(u32, u64, Vec<_>); 2] = [(0, 2, vec![(7, 2)]), (1, 1, vec![(7, 1), (8, 1)])];
    assert_eq!(gaps.collect::<Vec<_>>(), expected);
}

#[test]
fn a_recording_lasts_until_the_last_thing_that_happened() {
    let mut recorder = Recorder::new();
    arrive(&mut recorder, 0, 70);
    tell(&mut recorder, 0, 90, TOKEN);
    assert_eq!(recorder.finish(at(80)).end(), at(90));
}

#[test]
#[should_panic(expected = "request lifecycle: request #0 has not arrived or has ended")]
fn nothing_happens_to_a_request_that_has_not_arrived() {
    tell(&mut Recorder::new(), 0, 1, TOKEN);
}

#[test]
#[should_panic(expected = "request lifecycle: request #0 has not arrived or has ended")]
fn nothing_happens_to_a_request_that_has_ended() {
    let mut recorder = Recorder::new();
    arrive(&mut recorder, 0, 0);
    arrive(&mut recorder, 1, 0);
    tell(&mut recorder, 0, 1, TOKEN);
    tell(&mut recorder, 0, 1, LENGTH);
    tell(&mut recorder, 0, 2, TOKEN);
}

#[test]
#[should_panic(expected = "request lifecycle: request #0 arrives twice")]
fn a_request_arrives_once() {
    let mut recorder = Recorder::new();
    arrive(&mut recorder, 0, 0);
    arrive(&mut recorder, 0, 1);
}

#[test]
#[should_panic(expected = "its last token came at 1ns")]
fn a_complete_request_ends_with_its_last_token() {
    let mut recorder = Recorder::new();
    arrive(&mut recorder, 0, 0);
    tell(&mut recorder, 0, 1, TOKEN);
    tell(&mut recorder, 0, 2, LENGTH);
}
