//! The decodes of one engine: what its members have in common is kept once.

use foretoken_des_kernel::{SimDuration, SimTime};

use crate::group::Group;
use crate::record::LaterGaps;
use crate::timeline::Timeline;

/// Gaps are not worth forgetting below this number.
const SHORT: usize = 1_024;

/// Consecutive steps of one engine's decodes, in each of which every member gets a token.
///
/// A member has the gaps since it joined. They follow from what the stream was then and what it is when
/// the member leaves, so that a step does not look at its members, and leaving does not look at steps.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    /// Gaps that were told since there was a member.
    steps: u64,
    /// When the members got their last token.
    last: SimTime,
    /// Of all gaps.
    timeline: Timeline,
    /// The longest gap of each run that is longer than all in later runs, by the number of the run's last gap: the
    /// longest since any run is the first of them after it.
    peaks: Vec<(u64, SimDuration)>,
    /// All gaps from number `first` on, if they are kept.
    gaps: Option<Vec<SimDuration>>,
    first: u64,
    /// How many members each group has whose gaps count for it.
    groups: Vec<(u32, u64)>,
    members: u64,
    /// At this length what is older than all members is forgotten.
    long: usize,
}

/// What a stream was when a request joined it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// The number of the engine.
    pub(super) instance: u32,
    /// Gaps before it joined.
    since: u64,
    joined: SimTime,
    timeline: Timeline,
}

impl Member {
    /// Gaps before it joined.
    pub(super) const fn since(&self) -> u64 {
        self.since
    }
}

impl Stream {
    /// Without members.
    pub(super) fn new(keep_gaps: bool) -> Self {
        Self {
            steps: 0,
            last: SimTime::ZERO,
            timeline: Timeline::default(),
            peaks: Vec::new(),
            gaps: keep_gaps.then(Vec::new),
            first: 0,
            groups: Vec::new(),
            members: 0,
            long: SHORT,
        }
    }

    /// When the members got their last token.
    pub(super) const fn last(&self) -> SimTime {
        self.last
    }

    /// How many there are.
    pub(super) const fn members(&self) -> u64 {
        self.members
    }

    /// All members get a token after each of `gaps`, the last at `end`, and nobody joins or leaves meanwhile.
    pub(super) fn steps(&mut self, gaps: &[SimDuration], end: SimTime, groups: &mut [Group]) {
        self.last = end;
        if self.members == 0 {
            // Nobody is there who could have a gap, nor anybody who had one.
            self.forget_before(None);
            return;
        }
        self.steps += gaps.len() as u64;
        let mut longest = SimDuration::ZERO;
        for &gap in gaps {
            self.timeline.push(gap);
            longest = longest.max(gap);
        }
        // Whoever has one of these gaps has all of them.
        while self.peaks.pop_if(|(_, peak)| *peak <= longest).is_some() {}
        self.peaks.push((self.steps, longest));
        if let Some(kept) = &mut self.gaps {
            kept.extend_from_slice(gaps);
        }
        for &(group, members) in &self.groups {
            groups[group as usize].add_run(gaps, members);
        }
    }

    /// A request got its token of the last step, and gets those of the steps from now on. Its gaps count for
    /// `group`, if they do for any.
    pub(super) fn join(&mut self, instance: u32, group: Option<u32>) -> Member {
        self.members += 1;
        if let Some(group) = group {
            match self.groups.iter_mut().find(|each| each.0 == group) {
                Some((_, members)) => *members += 1,
                None => self.groups.push((group, 1)),
            }
        }
        Member {
            instance,
            since: self.steps,
            joined: self.last,
            timeline: self.timeline,
        }
    }

    /// A member whose gaps count for `group`, if they do for any, gets no more tokens.
    pub(super) fn leave(&mut self, group: Option<u32>) {
        self.members -= 1;
        let Some(group) = group else {
            return;
        };
        let mut groups = self.groups.iter_mut();
        let place = groups.position(|each| each.0 == group);
        let place = place.expect("a member is counted in its group");
        self.groups[place].1 -= 1;
        if self.groups[place].1 == 0 {
            self.groups.swap_remove(place);
        }
    }

    /// The gaps that a member has had.
    pub(super) fn since(&self, member: &Member) -> LaterGaps<'_> {
        let count = self.steps - member.since;
        let place = self.peaks.partition_point(|peak| peak.0 <= member.since);
        let longest = self.peaks.get(place).map(|peak| peak.1);
        LaterGaps {
            count: u32::try_from(count).expect("a request has fewer than 2^32 tokens"),
            total: self.last - member.joined,
            longest: longest.unwrap_or_default(),
            extension: self.timeline.since(member.timeline, count),
            list: self.gaps.as_ref().map_or(&[], |gaps| {
                let from = usize::try_from(member.since - self.first);
                &gaps[from.expect("kept gaps fit in memory")..]
            }),
        }
    }

    /// Whether there is enough to forget that looking at `others` requests for the oldest member
    /// is nothing beside it.
    pub(super) fn is_long(&self, others: usize) -> bool {
        self.len() >= self.long.max(others)
    }

    /// Forgets what is older than all members, the oldest of which joined after `oldest` gaps.
    pub(super) fn forget_before(&mut self, oldest: Option<u64>) {
        let oldest = oldest.unwrap_or(self.steps);
        let old = self.peaks.partition_point(|peak| peak.0 <= oldest);
        self.peaks.drain(..old);
        if let Some(gaps) = &mut self.gaps {
            let old = usize::try_from(oldest - self.first).expect("kept gaps fit in memory");
            gaps.drain(..old);
        }
        self.first = oldest;
        self.long = SHORT.max(2 * self.len());
    }

    fn len(&self) -> usize {
        let gaps = self.gaps.as_ref().map_or(0, Vec::len);
        gaps.max(self.peaks.len())
    }
}
