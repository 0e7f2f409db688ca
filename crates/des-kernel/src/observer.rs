//! Looking over the kernel's shoulder.

use crate::kernel::Model;
use crate::rank::Rank;
use crate::time::SimTime;

/// Sees each event before the model handles it.
///
/// An observer is a type parameter of the run, so that `()` costs nothing. Several are combined in
/// a tuple and called from left to right. What an observer sees cannot be changed by it: a run is
/// the same with and without.
///
/// ```
/// use foretoken_des_kernel::{Context, Kernel, Model, Observer, Rank, SimDuration, SimTime, Stop};
///
/// struct Countdown;
///
/// impl Model for Countdown {
///     type Event = u32;
///     fn rank(_: &u32) -> Rank {
///         Rank::default()
///     }
///     fn handle(&mut self, left: u32, cx: &mut Context<'_, u32>) {
///         if left > 0 {
///             cx.after(SimDuration::from_secs(1), left - 1);
///         }
///     }
/// }
///
/// struct Log(Vec<String>);
///
/// impl Observer<Countdown> for Log {
///     fn observe(&mut self, time: SimTime, _: Rank, left: &u32, _: &Countdown) {
///         self.0.push(format!("{time}: {left}"));
///     }
/// }
///
/// let mut kernel = Kernel::new(Countdown);
/// kernel.schedule(SimTime::ZERO, 2);
/// let mut log = Log(Vec::new());
/// kernel.run_with(Stop::never(), &mut log);
/// assert_eq!(log.0, ["0ns: 2", "1.000s: 1", "2.000s: 0"]);
/// ```
pub trait Observer<M: Model> {
    /// `event`, of rank `rank`, is about to be handled at `time` by `model`.
    fn observe(&mut self, time: SimTime, rank: Rank, event: &M::Event, model: &M);
}

impl<M: Model> Observer<M> for () {
    fn observe(&mut self, _: SimTime, _: Rank, _: &M::Event, _: &M) {}
}

impl<M: Model, O: Observer<M> + ?Sized> Observer<M> for &mut O {
    fn observe(&mut self, time: SimTime, rank: Rank, event: &M::Event, model: &M) {
        (**self).observe(time, rank, event, model);
    }
}

impl<M: Model, O: Observer<M>> Observer<M> for Option<O> {
    fn observe(&mut self, time: SimTime, rank: Rank, event: &M::Event, model: &M) {
        if let Some(observer) = self {
            observer.observe(time, rank, event, model);
        }
    }
}

macro_rules! observe_in_tuples {
    ($($name:ident)+) => {
        impl<M: Model, $($name: Observer<M>),+> Observer<M> for ($($name,)+) {
            fn observe(&mut self, time: SimTime, rank: Rank, event: &M::Event, model: &M) {
                #[expect(non_snake_case, reason = "one identifier names both type and value")]
                let ($($name,)+) = self;
                $($name.observe(time, rank, event, model);)+
            }
        }
    };
}

observe_in_tuples!(A);
observe_in_tuples!(A B);
observe_in_tuples!(A B C);
observe_in_tuples!(A B C D);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Context, Kernel};
    use crate::stop::Stop;

    struct Idle;

    impl Model for Idle {
        type Event = u64;
        fn rank(&event: &u64) -> Rank {
            Rank::new(u8::try_from(event % 3).expect("a remainder of three"), 0)
        }
        fn handle(&mut self, _: u64, _: &mut Context<'_, u64>) {}
    }

    #[derive(Default)]
    struct Seen(Vec<(SimTime, Rank, u64)>);

    impl Observer<Idle> for Seen {
        fn observe(&mut self, time: SimTime, rank: Rank, &event: &u64, _: &Idle) {
            self.0.push((time, rank, event));
        }
    }

    #[test]
    fn every_part_of_a_tuple_sees_every_event() {
        let mut kernel = Kernel::new(Idle);
        kernel.schedule(SimTime::from_nanos(4), 5);
        kernel.schedule(SimTime::from_nanos(4), 4);
        let (mut first, mut none) = (Seen::default(), None::<Seen>);
        let mut third = Seen::default();
        {
            let erased: &mut dyn Observer<Idle> = &mut third;
            kernel.run_with(Stop::never(), &mut (&mut first, &mut none, erased, ()));
        }
        let at = SimTime::from_nanos(4);
        assert_eq!(
            first.0,
            [(at, Rank::new(1, 0), 4), (at, Rank::new(2, 0), 5)]
        );
        assert_eq!(third.0, first.0);
    }
}
