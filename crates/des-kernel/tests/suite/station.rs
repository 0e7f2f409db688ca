//! A station of `servers` equal servers with one line, first come, first served.

use std::collections::VecDeque;

use foretoken_des_kernel::stats::{Level, Tally};
use foretoken_des_kernel::{
    Context, Fingerprint, Kernel, Model, Rank, RngStreams, SimDuration, SimRng, SimTime,
};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Service {
    Exponential,
    Constant,
}

/// Mean times, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) servers: u32,
    pub(crate) service: Service,
    pub(crate) service_mean: u64,
    pub(crate) gap_mean: u64,
    /// How many customers come at all, and how many of them come too early to be counted.
    pub(crate) customers: u32,
    pub(crate) warm_up: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Arrive { customer: u32 },
    Depart { customer: u32, arrived: SimTime },
}

impl Event {
    pub(crate) fn payload(&self) -> u64 {
        let fingerprint = match *self {
            Self::Arrive { customer } => Fingerprint::new().with(0).with(u64::from(customer)),
            Self::Depart { customer, arrived } => Fingerprint::new()
                .with(1)
                .with(u64::from(customer))
                .with(arrived.as_nanos()),
        };
        fingerprint.value()
    }
}

#[derive(Debug)]
pub(crate) struct Station {
    setup: Setup,
    arrivals: SimRng,
    services: SimRng,
    line: VecDeque<(u32, SimTime)>,
    busy: u32,
    /// From arrival to start of service, of the customers counted.
    pub(crate) waits: Tally,
    /// From arrival to departure, of all customers.
    pub(crate) stays: Tally,
    pub(crate) present: Level,
}

impl Station {
    pub(crate) fn kernel(setup: Setup, streams: RngStreams) -> Kernel<Self> {
        let mut kernel = Kernel::new(Self {
            setup,
            arrivals: streams.stream("arrivals", 0),
            services: streams.stream("services", 0),
            line: VecDeque::new(),
            busy: 0,
            waits: Tally::new(),
            stays: Tally::new(),
            present: Level::new(SimTime::ZERO, 0),
        });
        kernel.schedule(SimTime::ZERO, Event::Arrive { customer: 0 });
        kernel
    }

    pub(crate) fn run(setup: Setup, streams: RngStreams) -> Self {
        let mut kernel = Self::kernel(setup, streams);
        kernel.run();
        kernel.into_model()
    }

    /// The state beyond the event: where both streams stand.
    pub(crate) fn chance(&self) -> u64 {
        let [arrivals, services] = [&self.arrivals, &self.services].map(|rng| rng.clone().bits());
        Fingerprint::new().with(arrivals).with(services).value()
    }

    fn start_service(&mut self, cx: &mut Context<'_, Event>) {
        if self.busy == self.setup.servers {
            return;
        }
        let Some((customer, arrived)) = self.line.pop_front() else {
            return;
        };
        self.busy += 1;
        if customer >= self.setup.warm_up {
            self.waits.record((cx.now() - arrived).as_nanos());
        }
        let span = match self.setup.service {
            Service::Exponential => exponential(&mut self.services, self.setup.service_mean),
            Service::Constant => SimDuration::from_nanos(self.setup.service_mean),
        };
        cx.after(span, Event::Depart { customer, arrived });
    }
}

impl Model for Station {
    type Event = Event;

    fn rank(event: &Event) -> Rank {
        match *event {
            Event::Depart { customer, .. } => Rank::new(0, customer),
            Event::Arrive { customer } => Rank::new(1, customer),
        }
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_, Event>) {
        match event {
            Event::Arrive { customer } => {
                self.present.raise(cx.now(), 1);
                self.line.push_back((customer, cx.now()));
                if customer + 1 < self.setup.customers {
                    let gap = exponential(&mut self.arrivals, self.setup.gap_mean);
                    cx.after(
                        gap,
                        Event::Arrive {
                            customer: customer + 1,
                        },
                    );
                }
            }
            Event::Depart { arrived, .. } => {
                self.present.lower(cx.now(), 1);
                self.stays.record((cx.now() - arrived).as_nanos());
                self.busy -= 1;
            }
        }
        self.start_service(cx);
    }
}

fn exponential(rng: &mut SimRng, mean: u64) -> SimDuration {
    let seconds = -libm::log(1.0 - rng.unit()) * mean as f64 / 1e9;
    SimDuration::try_from_secs_f64(seconds).expect("the logarithm of a unit draw is above -37")
}
