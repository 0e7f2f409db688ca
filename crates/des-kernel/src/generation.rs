//! Stale wake-ups, dropped by their owner.

/// Tells the latest wake-up of a component from those it has outlived.
///
/// The queue has no cancellation. A component that changes its mind about when it wants to be woken
/// bumps its generation, stamps the new wake-up with it, and ignores any that carry an older stamp:
///
/// ```
/// use foretoken_des_kernel::{Context, Generation, Kernel, Model, Rank, SimDuration, SimTime};
///
/// /// Rings when nobody has pressed the button for a second.
/// #[derive(Default)]
/// struct Watchdog {
///     generation: Generation,
///     rang_at: Vec<SimTime>,
/// }
///
/// enum Event {
///     Press,
///     Expire(Generation),
/// }
///
/// impl Model for Watchdog {
///     type Event = Event;
///
///     fn rank(_: &Event) -> Rank {
///         Rank::default()
///     }
///
///     fn handle(&mut self, event: Event, cx: &mut Context<'_, Event>) {
///         match event {
///             // The wake-up set before this one is now stale.
///             Event::Press => {
///                 let stamp = self.generation.bump();
///                 cx.after(SimDuration::from_secs(1), Event::Expire(stamp));
///             }
///             Event::Expire(stamp) if self.generation.is_current(stamp) => {
///                 self.rang_at.push(cx.now());
///             }
///             Event::Expire(_) => {}
///         }
///     }
/// }
///
/// let mut kernel = Kernel::new(Watchdog::default());
/// for press in ["0s", "500ms", "3s"] {
///     kernel.schedule(press.parse()?, Event::Press);
/// }
/// kernel.run();
/// assert_eq!(kernel.model().rang_at, ["1.5s".parse()?, "4s".parse()?]);
/// # Ok::<(), foretoken_des_kernel::TimeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Generation(u64);

impl Generation {
    /// Makes all stamps given out so far stale, and returns the one that is current from now on.
    #[must_use = "the new wake-up carries the stamp"]
    pub const fn bump(&mut self) -> Self {
        self.0 += 1;
        *self
    }

    /// `true` if `stamp` is the latest that was given out.
    pub const fn is_current(self, stamp: Self) -> bool {
        self.0 == stamp.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_stamp_is_current() {
        let mut generation = Generation::default();
        let first = generation.bump();
        assert!(generation.is_current(first));
        let second = generation.bump();
        assert!(!generation.is_current(first));
        assert!(generation.is_current(second));
    }
}
