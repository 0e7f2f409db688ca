//! [`Slab`] and [`Recency`]: what was used least recently, without an allocation for each entry.

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Values at numbered slots that are used again once they are free. Each slot may be in one
/// [`Recency`].
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// The first of the free slots; `newer` leads to the next.
    free: u32,
}

#[derive(Debug)]
struct Slot<T> {
    value: T,
    older: u32,
    newer: u32,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
        }
    }

    /// Puts a value into a free slot.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let slot = Slot {
            value,
            older: NONE,
            newer: NONE,
        };
        if self.free == NONE {
            let number = u32::try_from(self.slots.len()).ok();
            let number = number.filter(|&number| number != NONE);
            self.slots.push(slot);
            return number.expect("fewer than 2^32 blocks are remembered at a time");
        }
        let number = self.free;
        let place = &mut self.slots[number as usize];
        self.free = place.newer;
        *place = slot;
        number
    }

    /// Frees a slot that is in no list; its value stays until the slot is used again.
    pub(super) fn free(&mut self, number: u32) {
        self.slots[number as usize].newer = self.free;
        self.free = number;
    }

    pub(super) fn get(&self, number: u32) -> &T {
        &self.slots[number as usize].value
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.slots[number as usize].value
    }
}

/// A list of slots, the least recently used first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recency {
    oldest: u32,
    newest: u32,
    len: usize,
}

impl Recency {
    pub(super) const fn new() -> Self {
        Self {
            oldest: NONE,
            newest: NONE,
            len: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The slot that was used least recently.
    pub(super) fn oldest(&self) -> Option<u32> {
        Some(self.oldest).filter(|&oldest| oldest != NONE)
    }

    /// Appends a slot that is in no list.
    pub(super) fn push<T>(&mut self, slab: &mut Slab<T>, number: u32) {
        let slot = &mut slab.slots[number as usize];
        slot.older = self.newest;
        slot.newer = NONE;
        match self.newest {
            NONE => self.oldest = number,
            newest => slab.slots[newest as usize].newer = number,
        }
        self.newest = number;
        self.len += 1;
    }

    /// Takes a slot of this list out of it.
    pub(super) fn remove<T>(&mut self, slab: &mut Slab<T>, number: u32) {
        let &Slot { older, newer, .. } = &slab.slots[number as usize];
        match older {
            NONE => self.oldest = newer,
            older => slab.slots[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => slab.slots[newer as usize].older = older,
        }
        self.len -= 1;
    }

    /// Puts a slot that is in no list right after one that is in this.
    pub(super) fn insert_after<T>(&mut self, slab: &mut Slab<T>, place: u32, number: u32) {
        match slab.slots[place as usize].newer {
            NONE => self.push(slab, number),
            newer => self.insert_before(slab, newer, number),
        }
    }

    /// Puts a slot that is in no list right before one that is in this.
    pub(super) fn insert_before<T>(&mut self, slab: &mut Slab<T>, place: u32, number: u32) {
        let older = core::mem::replace(&mut slab.slots[place as usize].older, number);
        match older {
            NONE => self.oldest = number,
            older => slab.slots[older as usize].newer = number,
        }
        let slot = &mut slab.slots[number as usize];
        slot.older = older;
        slot.newer = place;
        self.len += 1;
    }

    /// A slot of this list was used just now.
    pub(super) fn touch<T>(&mut self, slab: &mut Slab<T>, number: u32) {
        if number != self.newest {
            self.remove(slab, number);
            self.push(slab, number);
        }
    }

    /// Takes out the slot that was used least recently.
    pub(super) fn pop<T>(&mut self, slab: &mut Slab<T>) -> Option<u32> {
        let oldest = self.oldest()?;
        self.remove(slab, oldest);
        Some(oldest)
    }

    /// The slots, the least recently used first.
    pub(super) fn iter<'a, T>(&self, slab: &'a Slab<T>) -> impl Iterator<Item = u32> + use<'a, T> {
        let some = |number: u32| Some(number).filter(|&number| number != NONE);
        core::iter::successors(some(self.oldest), move |&number| {
            some(slab.slots[number as usize].newer)
        })
    }
}
