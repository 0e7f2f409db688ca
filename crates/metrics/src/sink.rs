//! Where a running simulation pours what happens: [`MetricSink`].

use foretoken_des_kernel::SimTime;
use foretoken_workload::{DecodeRun, Occurrence, Request, TokenRun};

/// The accelerator's work on one step of an engine.
///
/// It is told once the work has ended. Steps of one instance do not overlap on the accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepRecord {
    /// The engine, counted from 0.
    pub instance: u32,
    /// When the accelerator began.
    pub start: SimTime,
    /// When it was done; not before `start`.
    pub end: SimTime,
    /// Tokens computed: prefill chunks and decodes.
    pub tokens: u32,
    /// Sequences in the batch.
    pub sequences: u32,
}

/// Consecutive steps of one engine in each of which the same sequences decode a token, and nothing else is
/// computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeSteps<'a> {
    /// The engine, counted from 0.
    pub instance: u32,
    /// Sequences in the batch of each step, which are as many as the tokens that it computes.
    pub sequences: u32,
    /// When the accelerator began each of them.
    pub starts: &'a [SimTime],
    /// When it was done with each.
    pub ends: &'a [SimTime],
}

impl<'a> DecodeSteps<'a> {
    /// Step by step.
    pub fn records(self) -> impl Iterator<Item = StepRecord> + 'a {
        let times = self.starts.iter().zip(self.ends);
        times.map(move |(&start, &end)| StepRecord {
            instance: self.instance,
            start,
            end,
            tokens: self.sequences,
            sequences: self.sequences,
        })
    }
}

/// How full one engine is from an instant on, until the next such record of the same engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelRecord {
    /// The engine, counted from 0.
    pub instance: u32,
    /// Sequences in the running batch.
    pub running: u32,
    /// Requests in the waiting queue.
    pub waiting: u32,
    /// KV blocks held by sequences.
    pub kv_blocks_used: u32,
    /// KV blocks that there are.
    pub kv_blocks_total: u32,
}

/// Receives what happens in a run.
///
/// *The host guarantees:* a request arrives before anything else is told of it; what a client
/// sees of one request comes in the order of its times, and so does what its engine does; levels come
/// in the order of time. *Unspecified:* the order of occurrences of different requests, whose times are
/// the client's and may run ahead of those of levels and steps; the order of steps of different engines;
/// and how long after their time levels and steps of decodes are told, but not after the end of the run.
///
/// All methods do nothing unless written. A simulation is generic in its sink, so that what nobody
/// listens to costs nothing: `()` is the sink that ignores everything. Several sinks listen together
/// as a tuple, or as a `Vec<Box<dyn MetricSink>>` where they are chosen at run time.
///
/// ```
/// use foretoken_des_kernel::SimTime;
/// use foretoken_metrics::MetricSink;
/// use foretoken_workload::{Lifecycle, Occurrence, RequestId};
///
/// /// Counts preemptions.
/// #[derive(Default)]
/// struct Preemptions(u64);
///
/// impl MetricSink for Preemptions {
///     fn on_occurrence(&mut self, occurrence: &Occurrence) {
///         self.0 += u64::from(occurrence.what == Lifecycle::Preempted);
///     }
/// }
///
/// let mut sinks = (Preemptions::default(), ());
/// let at = SimTime::from_nanos(5);
/// sinks.on_occurrence(&Occurrence::new(at, RequestId::new(0), Lifecycle::Preempted));
/// assert_eq!(sinks.0.0, 1);
/// ```
pub trait MetricSink {
    /// A client sent `request`.
    fn on_arrival(&mut self, request: &Request) {
        let _ = request;
    }

    /// Something happened to a request.
    fn on_occurrence(&mut self, occurrence: &Occurrence) {
        let _ = occurrence;
    }

    /// Several requests get tokens at several times. Unless written, each token is told as an
    /// [occurrence](Self::on_occurrence) of its own, in the order of their times.
    fn on_tokens(&mut self, run: &TokenRun<'_>) {
        for occurrence in run.occurrences() {
            self.on_occurrence(&occurrence);
        }
    }

    /// The decodes of an engine, counted from 0, go on. Who gets a token in any other way than this has
    /// left them by that, and joins if it decodes again. Unless written, the run's
    /// [tokens](DecodeRun::tokens) are told.
    fn on_decodes(&mut self, instance: u32, run: &DecodeRun<'_>) {
        let _ = instance;
        self.on_tokens(&run.tokens);
    }

    /// An accelerator finished a step.
    fn on_step(&mut self, step: &StepRecord) {
        let _ = step;
    }

    /// An accelerator finished several steps of decodes. Unless written, each is told as a
    /// [step](Self::on_step).
    fn on_decode_steps(&mut self, steps: &DecodeSteps<'_>) {
        for step in steps.records() {
            self.on_step(&step);
        }
    }

    /// From `at` on an engine is as full as `level` says.
    fn on_level(&mut self, at: SimTime, level: &LevelRecord) {
        let _ = (at, level);
    }

    /// From several instants on an engine has other numbers of KV blocks in use, the last of which `level`
    /// has; nothing else about it changes meanwhile. Unless written, each is told as a
    /// [level](Self::on_level).
    fn on_kv_levels(&mut self, level: &LevelRecord, used: &[(SimTime, u32)]) {
        for &(at, kv_blocks_used) in used {
            let level = LevelRecord {
                kv_blocks_used,
                ..*level
            };
            self.on_level(at, &level);
        }
    }

    /// Whether it has seen enough. A run ends as soon as one of its listeners has, with requests in flight;
    /// unless written, never.
    fn is_satisfied(&self) -> bool {
        false
    }
}

/// Implements all methods by telling each of the listed listeners in turn.
macro_rules! tell {
    ($self:ident => $($each:expr),+) => {
        fn on_arrival(&mut $self, request: &Request) {
            $($each.on_arrival(request);)+
        }
        fn on_occurrence(&mut $self, occurrence: &Occurrence) {
            $($each.on_occurrence(occurrence);)+
        }
        fn on_tokens(&mut $self, run: &TokenRun<'_>) {
            $($each.on_tokens(run);)+
        }
        fn on_decodes(&mut $self, instance: u32, run: &DecodeRun<'_>) {
            $($each.on_decodes(instance, run);)+
        }
        fn on_step(&mut $self, step: &StepRecord) {
            $($each.on_step(step);)+
        }
        fn on_decode_steps(&mut $self, steps: &DecodeSteps<'_>) {
            $($each.on_decode_steps(steps);)+
        }
        fn on_level(&mut $self, at: SimTime, level: &LevelRecord) {
            $($each.on_level(at, level);)+
        }
        fn on_kv_levels(&mut $self, level: &LevelRecord, used: &[(SimTime, u32)]) {
            $($each.on_kv_levels(level, used);)+
        }
        fn is_satisfied(&$self) -> bool {
            false $(|| $each.is_satisfied())+
        }
    };
}

/// Implements all methods by telling every listener in a slice.
macro_rules! tell_all {
    () => {
        fn on_arrival(&mut self, request: &Request) {
            for sink in self.as_mut_slice() {
                sink.on_arrival(request);
            }
        }
        fn on_occurrence(&mut self, occurrence: &Occurrence) {
            for sink in self.as_mut_slice() {
                sink.on_occurrence(occurrence);
            }
        }
        fn on_tokens(&mut self, run: &TokenRun<'_>) {
            for sink in self.as_mut_slice() {
                sink.on_tokens(run);
            }
        }
        fn on_decodes(&mut self, instance: u32, run: &DecodeRun<'_>) {
            for sink in self.as_mut_slice() {
                sink.on_decodes(instance, run);
            }
        }
        fn on_step(&mut self, step: &StepRecord) {
            for sink in self.as_mut_slice() {
                sink.on_step(step);
            }
        }
        fn on_decode_steps(&mut self, steps: &DecodeSteps<'_>) {
            for sink in self.as_mut_slice() {
                sink.on_decode_steps(steps);
            }
        }
        fn on_level(&mut self, at: SimTime, level: &LevelRecord) {
            for sink in self.as_mut_slice() {
                sink.on_level(at, level);
            }
        }
        fn on_kv_levels(&mut self, level: &LevelRecord, used: &[(SimTime, u32)]) {
            for sink in self.as_mut_slice() {
                sink.on_kv_levels(level, used);
            }
        }
        fn is_satisfied(&self) -> bool {
            self.as_slice().iter().any(MetricSink::is_satisfied)
        }
    };
}

/// Ignores everything.
impl MetricSink for () {
    fn on_tokens(&mut self, _: &TokenRun<'_>) {}
    fn on_decode_steps(&mut self, _: &DecodeSteps<'_>) {}
    fn on_kv_levels(&mut self, _: &LevelRecord, _: &[(SimTime, u32)]) {}
}

impl<S: MetricSink + ?Sized> MetricSink for &mut S {
    tell!(self => (**self));
}

impl<S: MetricSink + ?Sized> MetricSink for Box<S> {
    tell!(self => (**self));
}

impl<S: MetricSink> MetricSink for Option<S> {
    tell_all!();
}

impl<S: MetricSink> MetricSink for Vec<S> {
    tell_all!();
}

impl<A: MetricSink> MetricSink for (A,) {
    tell!(self => self.0);
}

impl<A: MetricSink, B: MetricSink> MetricSink for (A, B) {
    tell!(self => self.0, self.1);
}

impl<A: MetricSink, B: MetricSink, C: MetricSink> MetricSink for (A, B, C) {
    tell!(self => self.0, self.1, self.2);
}

impl<A: MetricSink, B: MetricSink, C: MetricSink, D: MetricSink> MetricSink for (A, B, C, D) {
    tell!(self => self.0, self.1, self.2, self.3);
}

#[cfg(test)]
mod tests {
    use foretoken_workload::{ContentId, Lifecycle, Prompt, RequestId, Segment};

    use super::*;

    /// Counts the calls of each method.
    #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
    struct Calls([u32; 8]);

    impl MetricSink for Calls {
        fn on_arrival(&mut self, _: &Request) {
            self.0[0] += 1;
        }
        fn on_occurrence(&mut self, _: &Occurrence) {
            self.0[1] += 1;
        }
        fn on_tokens(&mut self, _: &TokenRun<'_>) {
            self.0[2] += 1;
        }
        fn on_decodes(&mut self, _: u32, _: &DecodeRun<'_>) {
            self.0[3] += 1;
        }
        fn on_step(&mut self, _: &StepRecord) {
            self.0[4] += 1;
        }
        fn on_decode_steps(&mut self, _: &DecodeSteps<'_>) {
            self.0[5] += 1;
        }
        fn on_level(&mut self, _: SimTime, _: &LevelRecord) {
            self.0[6] += 1;
        }
        fn on_kv_levels(&mut self, _: &LevelRecord, _: &[(SimTime, u32)]) {
            self.0[7] += 1;
        }
    }

    /// Counts what is told one by one.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Single([u32; 4]);

    impl MetricSink for Single {
        fn on_arrival(&mut self, _: &Request) {
            self.0[0] += 1;
        }
        fn on_occurrence(&mut self, _: &Occurrence) {
            self.0[1] += 1;
        }
        fn on_step(&mut self, _: &StepRecord) {
            self.0[2] += 1;
        }
        fn on_level(&mut self, _: SimTime, _: &LevelRecord) {
            self.0[3] += 1;
        }
    }

    /// Tells one of each, and of what may be told together two.
    fn call_each(mut sink: impl MetricSink) {
        let prompt = Prompt::new([Segment::new(ContentId::new(1), 3)]).expect("it has tokens");
        let times = [1, 2, 3].map(SimTime::from_nanos);
        let (at, id) = (times[0], RequestId::new(0));
        sink.on_arrival(&Request::new(id, at, prompt, 1));
        sink.on_occurrence(&Occurrence::new(at, id, Lifecycle::Preempted));
        let requests = [id];
        let tokens = TokenRun::new(&requests, &times[..2]);
        sink.on_tokens(&tokens);
        sink.on_decodes(0, &DecodeRun::new(tokens));
        let steps = DecodeSteps {
            instance: 0,
            sequences: 1,
            starts: &times[..2],
            ends: &times[1..],
        };
        sink.on_step(&steps.records().next().expect("there are two"));
        sink.on_decode_steps(&steps);
        let level = LevelRecord {
            instance: 0,
            running: 1,
            waiting: 0,
            kv_blocks_used: 1,
            kv_blocks_total: 2,
        };
        sink.on_level(at, &level);
        sink.on_kv_levels(&level, &[(times[1], 2), (times[2], 1)]);
    }

    const EACH_ONCE: Calls = Calls([1; 8]);

    #[test]
    fn what_is_told_together_is_told_one_by_one_unless_written() {
        let mut single = Single::default();
        call_each(&mut single);
        assert_eq!(single, Single([1, 1 + 2 + 2, 1 + 2, 1 + 2]));
    }

    #[test]
    fn every_member_of_a_tuple_hears_everything() {
        let mut four = <(Calls, Calls, (Calls,), (Calls, (), Calls))>::default();
        call_each(&mut four);
        assert_eq!(
            four,
            (
                EACH_ONCE,
                EACH_ONCE,
                (EACH_ONCE,),
                (EACH_ONCE, (), EACH_ONCE)
            )
        );
    }

    #[test]
    fn optional_and_listed_sinks_hear_everything() {
        let (mut some, mut none) = (Some(Calls::default()), None::<Calls>);
        call_each((&mut some, &mut none));
        assert_eq!((some, none), (Some(EACH_ONCE), None));
        let mut listed = vec![Calls::default(); 2];
        call_each(&mut listed);
        assert_eq!(listed, [EACH_ONCE; 2]);
    }

    #[test]
    fn the_trait_is_object_safe() {
        let (mut first, mut second) = (Calls::default(), Calls::default());
        let boxed: Vec<Box<dyn MetricSink + '_>> =
            vec![Box::new(&mut first), Box::new(&mut second)];
        call_each(boxed);
        assert_eq!((first, second), (EACH_ONCE, EACH_ONCE));
    }
}
