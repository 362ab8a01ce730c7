//! What bytes remember of their accesses, and when another access races with them: one rule for shared, cluster and global memory.
//!
//! Two accesses race if they conflict (they overlap, and one of them is a write), neither happens before the other, and they are not
//! morally strong (PTX ISA 8.7, "Morally strong operations", and 8.10, "Data races"). [`Accesses`] keeps the last write and up to
//! two reads since then. That loses little:
//!
//! * Of the writes, the last one suffices. An earlier one is ordered before it, and then whatever is ordered after the last one is
//!   ordered after both; or the pair was reported; or both are strong, and then the earlier one takes the place of a read
//!   ([`Mark::as_earlier`]) until an access is ordered after it.
//! * A read may be dropped for a later one that is ordered after it and no stronger: a write that is ordered after the later read is
//!   ordered after both, and one that is morally strong with the later read is so with both ([`Order::covers`]).
//! * Of reads without such an order two are kept, by different threads, and if possible of different CTAs. A write by a third thread,
//!   or by one of the two, is then compared with a read of another thread. What is lost is a write that is ordered after both of
//!   these and not after a third one: threads that wait for some readers but not for all. Another schedule, in which the third one
//!   reads last, finds it.
//!
//! The reading half of a read-modify-write takes no other read's place: its writing half follows at once, and is compared with them.
//! It is kept where there is room, because a comparison that fails (`atom.cas`) writes nothing.

use crate::rules::shadow::Memory;

/// One access, as it is remembered; the default is none.
pub(super) trait Mark: Copy + Default + PartialEq {
    /// Marks bytes whose parts differ; it is no access.
    const MIXED: Self;

    /// Whether this is an access.
    fn exists(self) -> bool;

    /// The CTA and the warp.
    fn thread(self) -> (u32, u32);

    /// The clock of the warp.
    fn clock(self) -> u32;

    /// Whether this and another access are strong, with scopes that include each other's thread.
    fn morally_strong(self, other: Self) -> bool;

    /// Whether another access is of the same warp, and not through a copy.
    fn same_warp(self, other: Self) -> bool;

    /// Whether threads of one CTA did both.
    fn same_cta(self, other: Self) -> bool;

    /// 0 for a weak access, 1 for a strong one, 2 for one whose scope includes other CTAs.
    fn strength(self) -> u32;

    /// Whether an asynchronous copy did it.
    fn copied(self) -> bool {
        false
    }

    /// In the place of a read: whether it is an earlier strong write.
    fn wrote(self) -> bool;

    /// A write, to be kept in the place of a read.
    fn as_earlier(self) -> Self;
}

/// What is known of the order of earlier accesses before the present one.
pub(super) trait Order<M: Mark> {
    /// The present access.
    fn by(&self) -> M;

    /// Whether it is half of a read-modify-write.
    fn modifies(&self) -> bool;

    /// Whether another access happens before it by program order and synchronisation.
    fn knows(&self, other: M) -> bool;

    /// Whether an access that [`Order::knows`] does not know is ordered by other means: the present thread has observed it, if it is
    /// a write, or its grid has ended.
    fn follows(&self, other: M, wrote: bool) -> bool;

    /// Called if the present access conflicts with one of its own warp: its lanes may be in conflict.
    fn meets_own_warp(&self);

    /// Whether the present read makes an earlier read superfluous.
    fn covers(&self, read: M) -> bool {
        let by = self.by();
        by.strength() <= read.strength() && (by.same_warp(read) || self.knows(read))
    }
}

/// The accesses that bytes remember: the last write, and two reads since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Accesses<M> {
    pub(super) write: M,
    pub(super) reads: [M; 2],
}

impl<M: Mark> Memory for Accesses<M> {
    const MIXED: Self = Self { write: M::MIXED, reads: [M::MIXED; 2] };

    #[inline]
    fn alike(self, cells: &[Self]) -> bool {
        cells.iter().all(|cell| *cell == self)
    }
}

impl<M: Mark> Accesses<M> {
    /// One write and nothing else.
    pub(super) fn written(by: M) -> Self {
        Self { write: by, reads: [M::default(); 2] }
    }

    /// All accesses, and whether each is a write.
    pub(super) fn all(self) -> [(M, bool); 3] {
        let [one, two] = self.reads;
        [(self.write, true), (one, one.wrote()), (two, two.wrote())]
    }

    /// Records the present access, or returns the access that it races with and whether that is a write.
    #[inline]
    pub(super) fn step(&mut self, write: bool, order: &impl Order<M>) -> Result<(), (M, bool)> {
        let by = order.by();
        for (other, wrote) in self.all() {
            if !(write || wrote) || !other.exists() {
                continue;
            }
            if by.same_warp(other) {
                order.meets_own_warp();
            } else if !by.morally_strong(other) && !order.knows(other) && !order.follows(other, wrote) {
                return Err((other, wrote));
            }
        }
        if write {
            *self = if by.strength() == 0 { Self::written(by) } else { self.written_strongly(order) };
        } else {
            self.read(order);
        }
        Ok(())
    }

    /// What remains after a strong write: earlier strong writes may be unordered.
    fn written_strongly(self, order: &impl Order<M>) -> Self {
        let by = order.by();
        let mut kept = Self::written(by);
        let unknown = |other: M| other.exists() && !by.same_warp(other) && !order.knows(other);
        let last = Some(self.write).filter(|write| unknown(*write)).map(M::as_earlier);
        let before = self.reads.into_iter().filter(|read| read.wrote() && unknown(*read));
        for (slot, write) in kept.reads.iter_mut().zip(last.into_iter().chain(before)) {
            *slot = write;
        }
        kept
    }

    #[inline]
    fn read(&mut self, order: &impl Order<M>) {
        let by = order.by();
        let [one, two] = self.reads;
        let vacant = |slot: M| !slot.exists() || (!slot.wrote() || !by.same_warp(slot)) && order.covers(slot);
        if vacant(one) {
            self.reads[0] = by;
            // Two reads of one thread are no more than the last of them.
            if two.exists() && two.same_warp(by) && order.covers(two) && !two.wrote() {
                self.reads[1] = M::default();
            }
        } else if vacant(two) {
            self.reads[1] = by;
        } else if !order.modifies() {
            // An earlier write, and a copy in flight, stay; then one thread of each of two CTAs.
            let stays = |slot: M| slot.wrote() || slot.copied();
            let replaced = if stays(two) || one.same_cta(by) && !two.same_cta(by) { 0 } else { 1 };
            if !stays(self.reads[replaced]) {
                self.reads[replaced] = by;
            }
        }
    }
}
