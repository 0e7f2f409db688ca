//! A small deterministic discrete-event kernel: time, order and chance, nothing else.
//!
//! A [`Model`] is a state and what events do to it. The [`Kernel`] takes events from its queue in
//! the order of (time, [`Rank`], insertion), advances the clock, and hands them to the model, which
//! schedules what follows through its [`Context`]. Time is integer nanoseconds ([`time`]), chance
//! comes from named streams ([`rng`]), results are collected in integers ([`stats`]), and a
//! [`digest`] proves that two runs are the same or names the first event in which they differ.
//!
//! Same model, same seed: same events in the same order, on every platform.
//!
//! # A queue in forty lines
//!
//! One server, Poisson arrivals, exponential service. Theory (M/M/1) says that with arrivals at
//! 0.5 times the rate of service, a customer waits as long as a service takes on average.
//!
//! ```
//! use foretoken_des_kernel::stats::Tally;
//! use foretoken_des_kernel::{Context, Kernel, Model, Rank, RngStreams, SimDuration, SimRng, SimTime};
//! use std::collections::VecDeque;
//!
//! enum Event { Arrive, Depart }
//!
//! struct Counter { chance: SimRng, line: VecDeque<SimTime>, busy: bool, waits: Tally }
//!
//! impl Counter {
//!     fn exponential(&mut self, mean_s: f64) -> SimDuration {
//!         let seconds = -mean_s * libm::log(1.0 - self.chance.unit());
//!         SimDuration::try_from_secs_f64(seconds).expect("a logarithm of a unit draw is small")
//!     }
//!
//!     fn serve_next(&mut self, cx: &mut Context<'_, Event>) {
//!         let next = self.line.pop_front();
//!         self.busy = next.is_some();
//!         if let Some(arrived) = next {
//!             self.waits.record((cx.now() - arrived).as_nanos());
//!             cx.after(self.exponential(1.0), Event::Depart);
//!         }
//!     }
//! }
//!
//! impl Model for Counter {
//!     type Event = Event;
//!
//!     fn rank(event: &Event) -> Rank {
//!         // Who leaves at an instant makes room for who comes then.
//!         Rank::new(match event { Event::Depart => 0, Event::Arrive => 1 }, 0)
//!     }
//!
//!     fn handle(&mut self, event: Event, cx: &mut Context<'_, Event>) {
//!         if let Event::Arrive = event {
//!             self.line.push_back(cx.now());
//!             cx.after(self.exponential(2.0), Event::Arrive);
//!         }
//!         if matches!(event, Event::Depart) || !self.busy {
//!             self.serve_next(cx);
//!         }
//!     }
//! }
//!
//! let chance = RngStreams::new(1, 0).stream("counter", 0);
//! let counter = Counter { chance, line: VecDeque::new(), busy: false, waits: Tally::new() };
//! let mut kernel = Kernel::new(counter);
//! kernel.schedule(SimTime::ZERO, Event::Arrive);
//! kernel.run_until(SimTime::ZERO + SimDuration::from_secs(200_000));
//!
//! let mean_wait_s = kernel.model().waits.mean().expect("customers came") / 1e9;
//! assert!((mean_wait_s - 1.0).abs() < 0.05, "mean wait {mean_wait_s} s");
//! ```

pub mod digest;
pub mod rng;
pub mod stats;
pub mod time;

mod digits;
mod generation;
mod heap;
mod kernel;
mod mix;
mod observer;
mod queue;
mod rank;
mod stop;

pub use digest::{Digest, EventDigest, Fingerprint};
pub use digits::sort_by_digits;
pub use generation::Generation;
pub use kernel::{Context, Kernel, Model};
pub use observer::Observer;
pub use queue::{EventQueue, Scheduled};
pub use rank::Rank;
pub use rng::{RngStreams, SimRng};
pub use stop::{Condition, Stop, StopReason};
pub use time::{SimDuration, SimTime, TimeError};
