//! Queues whose answer is known. Seeds are fixed: a test that passes once passes always.

use foretoken_des_kernel::RngStreams;
use foretoken_des_kernel::stats::Tally;

use crate::station::{Service, Setup, Station};

const REPLICATIONS: u64 = 20;

/// Of a service of one millisecond on average, at the given load of each server.
fn setup(servers: u32, service: Service, load: f64) -> Setup {
    let service_mean = 1_000_000;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number of nanoseconds"
    )]
    let gap_mean = (service_mean as f64 / (load * f64::from(servers))) as u64;
    Setup {
        servers,
        service,
        service_mean,
        gap_mean,
        customers: 22_000,
        warm_up: 2_000,
    }
}

/// Holds the mean wait over independent replications against `expected`, in mean services.
#[track_caller]
fn assert_mean_wait(setup: Setup, expected: f64) {
    let means: Tally = (0..REPLICATIONS)
        .map(|replication| {
            let station = Station::run(setup, RngStreams::new(2_026, replication));
            let mean = station.waits.mean().expect("customers were served");
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a mean of times is a time"
            )]
            let mean = mean as u64;
            mean
        })
        .collect();
    let scale = setup.service_mean as f64;
    let mean = means.mean().expect("there are replications") / scale;
    let error = means.std_error().expect("there are several replications") / scale;
    // Student's t with 19 degrees of freedom is below 3.88 with probability 0.9995.
    assert!(
        (mean - expected).abs() < 3.88 * error,
        "mean wait {mean} with standard error {error}; theory says {expected}"
    );
    // The interval is narrow enough to mean something.
    assert!(
        error < 0.03 * expected,
        "standard error {error} of {expected}"
    );
}

#[test]
fn mm1_waits_as_theory_says() {
    for load in [0.3, 0.7] {
        assert_mean_wait(setup(1, Service::Exponential, load), load / (1.0 - load));
    }
}

#[test]
fn md1_waits_half_as_long_as_mm1() {
    for load in [0.3, 0.7] {
        assert_mean_wait(
            setup(1, Service::Constant, load),
            load / (2.0 * (1.0 - load)),
        );
    }
}

#[test]
fn mmc_waits_as_erlang_says() {
    for (servers, load) in [(2, 0.7), (5, 0.8)] {
        let offered = load * f64::from(servers);
        let wait = erlang_c(servers, offered) / (f64::from(servers) - offered);
        assert_mean_wait(setup(servers, Service::Exponential, load), wait);
    }
}

#[test]
fn erlang_c_equals_tabulated_values() {
    // One server waits with probability rho; two servers with 2 rho^2 / (1 + rho).
    assert!((erlang_c(1, 0.6) - 0.6).abs() < 1e-12);
    assert!((erlang_c(2, 1.4) - 2.0 * 0.49 / 1.7).abs() < 1e-12);
}

#[test]
fn littles_law_holds_to_the_nanosecond() {
    // Over a time that starts and ends empty, both sides count the same customer-nanoseconds.
    for service in [Service::Exponential, Service::Constant] {
        let mut kernel = Station::kernel(setup(3, service, 0.9), RngStreams::new(5, 0));
        kernel.run();
        let station = kernel.model();
        assert_eq!(station.present.value(), 0);
        assert_eq!(station.stays.count(), 22_000);
        assert_eq!(station.present.integral(kernel.now()), station.stays.sum());
    }
}

/// The probability of having to wait (Erlang C), from the recursion of Erlang B.
fn erlang_c(servers: u32, offered: f64) -> f64 {
    let blocked = (1..=servers).fold(1.0, |blocked, server| {
        offered * blocked / (f64::from(server) + offered * blocked)
    });
    let load = offered / f64::from(servers);
    blocked / (1.0 - load * (1.0 - blocked))
}
