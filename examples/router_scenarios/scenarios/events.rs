//! A precise index that is not told everything.

use foretoken::cluster::PoolChange;
use foretoken::dataplane::producer::PrecisePrefix;
use foretoken::dataplane::signals::PRECISE_PREFIX;
use foretoken::dataplane::{DataProducer, KvEvent, Signals};
use foretoken::prelude::*;

use super::index::{PROMISED_AND_FOUND, about, promised_and_found};
use super::setting::{at, draws, engines, llama, refreshed_every};
use super::table::Table;

/// A precise index that does not hear everything.
struct Deaf {
    index: PrecisePrefix,
    misses: Misses,
    rng: SimRng,
}

#[derive(Clone, Copy)]
enum Misses {
    /// This share of the events.
    Share(f64),
    /// All of endpoint 0's from 20 s to 40 s.
    Connection,
    /// That the engine behind endpoint 0's address is another one from 30 s on, with an empty cache.
    Restart,
    /// Not that one either: the blocks of the old engine are cleared.
    NothingOfARestart,
}

/// The engine that takes the place of engine 0.
const SUCCESSOR: u32 = 4;

impl Misses {
    const fn restarts(self) -> bool {
        matches!(self, Self::Restart | Self::NothingOfARestart)
    }
}

/// The address of an endpoint: a restarted engine has that of its predecessor.
const fn address(endpoint: EndpointId) -> EndpointId {
    match endpoint.get() {
        SUCCESSOR => EndpointId::new(0),
        _ => endpoint,
    }
}

impl DataProducer for Deaf {
    fn produce(
        &mut self,
        request: Option<&RequestView<'_>>,
        endpoints: &[EndpointView],
        now: SimTime,
        signals: &mut Signals,
    ) {
        let mut known = endpoints.to_vec();
        for endpoint in &mut known {
            endpoint.id = address(endpoint.id);
        }
        self.index.produce(request, &known, now, signals);
    }

    fn wants_kv_events(&self) -> bool {
        true
    }

    fn kv_event(&mut self, endpoint: EndpointId, event: &KvEvent, now: SimTime) {
        let lost = match self.misses {
            Misses::Share(share) => self.rng.unit() < share,
            Misses::Connection => endpoint.get() == 0 && (at(20.0)..at(40.0)).contains(&now),
            Misses::Restart | Misses::NothingOfARestart => false,
        };
        if !lost {
            self.index.kv_event(address(endpoint), event, now);
        }
    }

    fn removed(&mut self, endpoint: EndpointId, now: SimTime) {
        // The successor is not there at the start, which tells nothing of endpoint 0.
        if endpoint.get() != SUCCESSOR && !matches!(self.misses, Misses::Restart) {
            self.index.removed(endpoint, now);
        }
    }
}

/// 21.
pub(crate) fn lost_events() -> Result<Table, Error> {
    let engine = llama(|engine| engine.num_gpu_blocks_override = Some(4096))?;
    // Texts that fit into the caches together, and texts that push each other out.
    let (fitting, crowding) = (about(60, 3000, 20.0), about(120, 3000, 20.0));
    let cases = [
        ("60 texts, all events", (&fitting, Misses::Share(0.0))),
        ("60 texts, 1 % lost", (&fitting, Misses::Share(0.01))),
        ("60 texts, 10 % lost", (&fitting, Misses::Share(0.1))),
        (
            "60 texts, restart, cleared",
            (&fitting, Misses::NothingOfARestart),
        ),
        (
            "60 texts, restart, not cleared",
            (&fitting, Misses::Restart),
        ),
        ("120 texts, all events", (&crowding, Misses::Share(0.0))),
        ("120 texts, 1 % lost", (&crowding, Misses::Share(0.01))),
        (
            "120 texts, endpoint 0 unheard for 20 s",
            (&crowding, Misses::Connection),
        ),
        (
            "120 texts, restart, cleared",
            (&crowding, Misses::NothingOfARestart),
        ),
        (
            "120 texts, restart, not cleared",
            (&crowding, Misses::Restart),
        ),
    ];
    Ok(Table::new(
        "KV events lost, or an engine restarted: a precise index before 4 engines that hold 20 texts each",
        "the index points at blocks that are gone: regret against an index that hears everything.",
        PROMISED_AND_FOUND,
    )
    .measure(&cases, |&(asks, misses)| {
        let index = Deaf {
            index: PrecisePrefix::default(),
            misses,
            rng: draws("events"),
        };
        let mut wiring = refreshed_every(50);
        let mut pool = engines(4, &engine);
        if misses.restarts() {
            pool.push(engine.instance());
            wiring.changes = vec![
                PoolChange { at: at(0.0), engine: 4, up: false },
                PoolChange { at: at(30.0), engine: 0, up: false },
                PoolChange { at: at(30.0), engine: 4, up: true },
            ];
        }
        promised_and_found(Box::new(index), PRECISE_PREFIX, pool, wiring, asks.clone())
    })?
    .conclude_in_part(
        |table| {
            let found = |row| table.at(row, "found, %");
            let gap = |row| table.at(row, "promised, %") - table.at(row, "found, %");
            found("60 texts, 1 % lost") < found("60 texts, all events") - 1.0
                && gap("120 texts, restart, not cleared") > gap("120 texts, restart, cleared") + 1.0
        },
        "a lost removal is one block too many, while a lost store hides the rest of its text and weighs more; \
         a restart costs little, for each text that is missed is stored again",
    ))
}
