//! [`KvLinks`]: moving KV blocks from the endpoints that compute prompts to those that answer.

use std::collections::BTreeMap;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::RequestId;

use crate::view::EndpointId;

/// What connects the endpoints: each has one interface, full duplex.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkConfig {
    /// From the wish to read until the first byte moves.
    pub latency: SimDuration,
    /// Bytes per second that an interface carries each way; above 0.
    pub bytes_per_s: f64,
}

impl LinkConfig {
    /// 400 Gbit/s for each endpoint, and 200 µs to agree on a transfer.
    pub const fn rdma_400g() -> Self {
        Self {
            latency: SimDuration::from_micros(200),
            bytes_per_s: 50e9,
        }
    }
}

/// A transfer that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transferred {
    /// The request whose blocks were read.
    pub request: RequestId,
    /// Who had them.
    pub from: EndpointId,
    /// Who has them now.
    pub to: EndpointId,
    /// How much was read.
    pub bytes: u64,
    /// From the wish to read until the last byte.
    pub took: SimDuration,
}

#[derive(Debug, Clone, Copy)]
struct Transfer {
    request: RequestId,
    from: EndpointId,
    to: EndpointId,
    bytes: u64,
    asked: SimTime,
    /// When the first byte may move.
    ready: SimTime,
    left: f64,
    /// Bytes per second, as of the last change.
    rate: f64,
}

/// Transfers under way. Those that leave one interface share its rate equally, and so do those that
/// reach one; each goes as fast as the slower of its two shares lets it.
///
/// A component: told the time, it answers when it wants to be called again.
///
/// ```
/// use foretoken_dataplane::EndpointId;
/// use foretoken_dataplane::transfer::{KvLinks, LinkConfig};
/// use foretoken_des_kernel::{SimDuration, SimTime};
/// use foretoken_workload::RequestId;
///
/// // A gigabyte a second.
/// let link = LinkConfig { latency: SimDuration::ZERO, bytes_per_s: 1e9 };
/// let mut links = KvLinks::new(link);
/// let [a, b, c] = [0, 1, 2].map(EndpointId::new);
/// links.start(SimTime::ZERO, RequestId::new(0), a, b, 1_000_000);
/// links.start(SimTime::ZERO, RequestId::new(1), a, c, 1_000_000);
/// // Both leave by the same interface: two megabytes take two milliseconds.
/// let end = links.next_wake().expect("two are under way");
/// assert_eq!(end, SimTime::from_nanos(2_000_000));
/// let mut done = Vec::new();
/// links.advance(end, &mut done);
/// assert_eq!(done.len(), 2);
/// assert_eq!(links.next_wake(), None);
/// ```
#[derive(Debug)]
pub struct KvLinks {
    config: LinkConfig,
    transfers: Vec<Transfer>,
    now: SimTime,
}

impl KvLinks {
    /// Nothing moves.
    pub const fn new(config: LinkConfig) -> Self {
        Self {
            config,
            transfers: Vec::new(),
            now: SimTime::ZERO,
        }
    }

    /// `to` wants to read `bytes` from `from`.
    pub fn start(
        &mut self,
        now: SimTime,
        request: RequestId,
        from: EndpointId,
        to: EndpointId,
        bytes: u64,
    ) {
        self.move_to(now);
        self.transfers.push(Transfer {
            request,
            from,
            to,
            bytes,
            asked: now,
            ready: now + self.config.latency,
            left: bytes as f64,
            rate: 0.0,
        });
        self.share();
    }

    /// Nobody wants these blocks any more.
    pub fn cancel(&mut self, now: SimTime, request: RequestId) {
        self.move_to(now);
        self.transfers
            .retain(|transfer| transfer.request != request);
        self.share();
    }

    /// When something changes next.
    pub fn next_wake(&self) -> Option<SimTime> {
        self.transfers
            .iter()
            .map(|transfer| self.next_change(transfer))
            .min()
    }

    /// Moves bytes up to `now` and reports what ended, in the order in which it was asked for.
    pub fn advance(&mut self, now: SimTime, done: &mut Vec<Transferred>) {
        while let Some(change) = self.next_wake().filter(|&change| change <= now) {
            let ends: Vec<RequestId> = self
                .transfers
                .iter()
                .filter(|transfer| transfer.ready <= change)
                .filter(|transfer| self.end(transfer).is_some_and(|end| end <= change))
                .map(|transfer| transfer.request)
                .collect();
            self.move_to(change);
            self.transfers.retain(|transfer| {
                let ended = ends.contains(&transfer.request);
                if ended {
                    done.push(Transferred {
                        request: transfer.request,
                        from: transfer.from,
                        to: transfer.to,
                        bytes: transfer.bytes,
                        took: change - transfer.asked,
                    });
                }
                !ended
            });
            self.share();
        }
        self.move_to(now);
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.transfers.is_empty()
    }

    /// When its last byte arrives at the rate of now; `None` before its first may move.
    fn end(&self, transfer: &Transfer) -> Option<SimTime> {
        if transfer.left <= 0.0 {
            return Some(self.now.max(transfer.ready));
        }
        if transfer.rate <= 0.0 {
            return None;
        }
        // Rounded up, so that at the end nothing is left.
        let nanos = libm::ceil(transfer.left / transfer.rate * 1e9);
        let left = SimDuration::try_from_secs_f64(nanos / 1e9).unwrap_or(SimDuration::MAX);
        Some(self.now.checked_add(left).unwrap_or(SimTime::MAX))
    }

    fn next_change(&self, transfer: &Transfer) -> SimTime {
        if transfer.ready > self.now {
            return transfer.ready;
        }
        self.end(transfer).unwrap_or(SimTime::MAX)
    }

    /// Moves bytes at the present rates.
    fn move_to(&mut self, now: SimTime) {
        let seconds = now.saturating_since(self.now).as_secs_f64();
        for transfer in &mut self.transfers {
            transfer.left = (transfer.left - transfer.rate * seconds).max(0.0);
        }
        self.now = self.now.max(now);
    }

    /// Divides the interfaces among what moves.
    fn share(&mut self) {
        let (mut leaving, mut arriving) = (BTreeMap::new(), BTreeMap::new());
        for transfer in &self.transfers {
            if transfer.ready <= self.now {
                *leaving.entry(transfer.from).or_insert(0_u32) += 1;
                *arriving.entry(transfer.to).or_insert(0_u32) += 1;
            }
        }
        for transfer in &mut self.transfers {
            transfer.rate = if transfer.ready <= self.now {
                let sharers = leaving[&transfer.from].max(arriving[&transfer.to]);
                self.config.bytes_per_s / f64::from(sharers)
            } else {
                0.0
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: EndpointId = EndpointId::new(0);
    const B: EndpointId = EndpointId::new(1);
    const C: EndpointId = EndpointId::new(2);

    const fn us(micros: u64) -> SimTime {
        SimTime::from_nanos(micros * 1000)
    }

    /// A gigabyte a second after 10 µs.
    fn links() -> KvLinks {
        KvLinks::new(LinkConfig {
            latency: SimDuration::from_micros(10),
            bytes_per_s: 1e9,
        })
    }

    /// Runs to the end: who ended when.
    fn ends(links: &mut KvLinks) -> Vec<(u32, SimTime)> {
        let mut ends = Vec::new();
        while let Some(now) = links.next_wake() {
            let mut done = Vec::new();
            links.advance(now, &mut done);
            ends.extend(done.iter().map(|transfer| (transfer.request.get(), now)));
        }
        ends
    }

    #[test]
    fn a_lone_transfer_takes_latency_and_bytes() {
        let mut links = links();
        links.start(us(5), RequestId::new(0), A, B, 100_000);
        assert_eq!(ends(&mut links), [(0, us(115))]);
        assert!(links.is_idle());
    }

    #[test]
    fn a_transfer_of_nothing_takes_the_latency() {
        let mut links = links();
        links.start(us(5), RequestId::new(0), A, B, 0);
        assert_eq!(ends(&mut links), [(0, us(15))]);
    }

    #[test]
    fn transfers_share_an_interface_and_speed_up_when_one_ends() {
        let mut links = links();
        // 50 and 150 kB leave A: half a gigabyte a second each until 110 µs, then the rest alone.
        links.start(us(0), RequestId::new(0), A, B, 50_000);
        links.start(us(0), RequestId::new(1), A, C, 150_000);
        assert_eq!(ends(&mut links), [(0, us(110)), (1, us(210))]);
    }

    #[test]
    fn what_arrives_at_one_interface_shares_it_too() {
        let mut links = links();
        links.start(us(0), RequestId::new(0), A, C, 50_000);
        links.start(us(0), RequestId::new(1), B, C, 50_000);
        links.start(us(0), RequestId::new(2), C, A, 50_000);
        assert_eq!(ends(&mut links), [(2, us(60)), (0, us(110)), (1, us(110))]);
    }

    #[test]
    fn a_cancelled_transfer_leaves_its_share_to_others() {
        let mut links = links();
        links.start(us(0), RequestId::new(0), A, B, 100_000);
        links.start(us(0), RequestId::new(1), A, C, 100_000);
        let mut done = Vec::new();
        links.advance(us(110), &mut done);
        links.cancel(us(110), RequestId::new(1));
        assert_eq!(ends(&mut links), [(0, us(160))]);
        assert!(done.is_empty());
    }

    #[test]
    fn all_bytes_arrive_whatever_comes_and_goes() {
        let mut links = links();
        for id in 0..20 {
            let (from, to) = ([A, B][id as usize % 2], C);
            let bytes = u64::from(id) * 7_919;
            links.start(us(u64::from(id) * 3), RequestId::new(id), from, to, bytes);
        }
        let mut done = Vec::new();
        links.advance(us(1_000_000), &mut done);
        assert_eq!(done.len(), 20);
        // Everything reaches C by one interface: no faster than all bytes together.
        let bytes: u64 = done.iter().map(|transfer| transfer.bytes).sum();
        let last = done.iter().map(|t| t.took.as_nanos()).max();
        assert!(last.is_some_and(|last| last + 60_000 >= bytes));
    }
}
