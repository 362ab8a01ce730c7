//! Order between warps: barriers, release and acquire at a location, fences (PTX ISA 8.7 to 8.10).
//!
//! A release at a location synchronizes with an acquire there if each one's scope includes the other's thread. A relaxed access
//! takes part through a fence: one before a relaxed write releases what came before the fence, one after a relaxed read
//! acquires what was read; the narrower scope counts. A read-modify-write continues a release sequence, and a store begins
//! another. Weak accesses neither release nor acquire, nor do they end a sequence here: that misses reports, but never adds one.
//!
//! A CTA barrier also carries the fences of its threads, and what they have read without a fence so far: if every
//! thread writes and fences, and one thread makes the relaxed access after `bar.sync`, the manual's patterns require another
//! fence of that thread, and kernels rely on the order without it.

use rustc_hash::FxHashMap;

use super::cells::Bounds;
use super::clock::{Clock, Known, Others, join, join_some};
use super::{GlobalRaces, LAST, Races};
use crate::rules::order::{Fence, Strong, Touch};
use crate::run::machine::lanes;

/// The knowledge of a warp in addition to the clocks of its CTA.
#[derive(Debug, Clone, Default)]
pub(super) struct Beside {
    pub(super) others: Others,
    fenced: Fenced,
    /// Its knowledge at its last `fence.proxy.async`.
    proxied: Option<Box<Known>>,
    read: Read,
}

/// The knowledge of a warp at its last fence: of any scope, and of a scope beyond the CTA.
#[derive(Debug, Clone, Default)]
struct Fenced {
    within: Option<Box<Known>>,
    beyond: Option<Box<Known>>,
}

/// What relaxed reads have found released and no fence has acquired yet: by this CTA, and by any.
#[derive(Debug, Clone, Default)]
struct Read {
    within: Option<Box<Known>>,
    beyond: Option<Box<Known>>,
}

impl Beside {
    /// Whether the warp has fenced.
    pub(super) fn has_fenced(&self) -> bool {
        self.fenced.within.is_some() || self.fenced.beyond.is_some()
    }
}

/// What arrivals have brought to a barrier.
#[derive(Debug, Clone, Default)]
pub(super) struct Meeting {
    known: Known,
    fenced: Fenced,
    read: Read,
    /// Per warp, its clock at its arrival at the cluster barrier.
    executed: Clock,
}

/// What a CTA has released at a location, and in which release sequence.
#[derive(Debug, Clone, Default)]
pub(super) struct Released {
    known: Known,
    sequence: u32,
}

/// What was released at a location to all CTAs, and the number of the release sequence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    known: Others,
    sequence: u32,
}

/// The location of all `fence.sc`: no address is that low.
const SEQUENTIAL: u64 = 0;

/// Locations are words; separate parts of a word count as one location.
const WORD: u64 = 4;

fn words(address: u64, len: usize) -> impl Iterator<Item = u64> {
    address / WORD..=(address + len.max(1) as u64 - 1) / WORD
}

/// The kind of a location: in shared memory, or in global memory with the knowledge of all CTAs about it.
pub(crate) enum At<'a> {
    Shared,
    /// In the shared memory of another CTA of the cluster, by rank.
    Peer(u32),
    Global(&'a mut GlobalRaces),
}

impl At<'_> {
    /// The knowledge of all CTAs about a word, created if there is none and `make` is set.
    fn place(&mut self, word: u64, make: bool) -> Option<&mut Place> {
        let Self::Global(world) = self else { return None };
        if make {
            return Some(world.places.entry(word).or_default());
        }
        world.places.get_mut(&word)
    }
}

impl Races {
    /// The complete knowledge of a warp.
    pub(super) fn known(&self, warp: u32) -> Known {
        let warp = warp as usize;
        Known { own: self.clocks[warp], others: self.beside[warp].others.clone() }
    }

    pub(super) fn learn(&mut self, warp: u32, from: &Known) {
        join(&mut self.clocks[warp as usize], &from.own);
        self.beside[warp as usize].others.join(&from.others);
        self.bound(warp as usize);
    }

    /// Called after a warp has learned what others did.
    fn bound(&mut self, warp: usize) {
        self.bounds[warp] = Bounds::of_warp(warp, &self.clocks[warp], self.clocks.len());
    }

    pub(super) fn tick(&mut self, warp: u32) {
        let clock = &mut self.clocks[warp as usize][warp as usize];
        if *clock < LAST {
            *clock += 1;
        } else {
            self.exhausted = Some(warp);
        }
    }

    /// A strong read, or the reading half of a read-modify-write.
    pub(crate) fn observe(&mut self, address: u64, len: usize, warp: u32, strong: Strong, at: At<'_>) {
        if let Some((cluster, location)) = self.location(&at, address) {
            return cluster.with(|all| self.observe(location, len, warp, strong, At::Global(all)));
        }
        for word in words(address, len) {
            self.observe_word(word, warp, strong, &at);
        }
    }

    fn observe_word(&mut self, word: u64, warp: u32, strong: Strong, at: &At<'_>) {
        let place = match at {
            At::Shared | At::Peer(_) => None,
            At::Global(world) => world.places.get(&word),
        };
        let sequence = place.map_or(0, |p| p.sequence);
        let mut within = self.places.get(&word).filter(|own| own.sequence == sequence).map(|own| &own.known);
        let beyond = place.filter(|_| self.leaves_the_cta(strong.order.scope)).map(|place| &place.known);
        if within.is_none() && beyond.is_none() {
            return;
        }
        let id = self.id;
        let mut learned = Known::default();
        if strong.order.acquires {
            if let Some(known) = within.take() {
                learned.join(known);
            }
            if let Some(others) = beyond {
                learned.learn(others, id);
            }
            self.learn(warp, &learned);
            return;
        }
        let read = &mut self.beside[warp as usize].read;
        join_some(&mut read.within, within);
        if let Some(others) = beyond {
            learned.learn(others, id);
            join_some(&mut read.beyond, Some(&learned));
        }
    }

    /// A strong write, or the writing half of a read-modify-write. The access itself has been recorded: a thread that acquires from here
    /// is ordered after it.
    pub(crate) fn publish(&mut self, address: u64, len: usize, warp: u32, strong: Strong, mut at: At<'_>) {
        if let Some((cluster, location)) = self.location(&at, address) {
            return cluster.with(|all| self.publish(location, len, warp, strong, At::Global(all)));
        }
        let (order, fenced) = (strong.order, &self.beside[warp as usize].fenced);
        let (within, beyond) = if order.releases {
            let known = self.known(warp);
            (Some(known.clone()), Some(known))
        } else {
            (fenced.within.as_deref().cloned(), fenced.beyond.as_deref().cloned())
        };
        let beyond = match &at {
            At::Global(_) if self.leaves_the_cta(order.scope) => beyond.map(|known| known.outside(self.id)),
            _ => None,
        };
        // A store of less than a word keeps what was released at the rest of the word.
        let begins = strong.touch == Touch::Store && len >= WORD as usize;
        for word in words(address, len) {
            let mut sequence = 0;
            if let Some(place) = at.place(word, beyond.is_some()) {
                if begins {
                    place.sequence = place.sequence.wrapping_add(1);
                    place.known = Others::default();
                }
                if let Some(others) = &beyond {
                    place.known.join(others);
                }
                sequence = place.sequence;
            }
            match (self.places.get_mut(&word), &within) {
                (None, None) => {}
                (Some(own), known) => {
                    if begins || own.sequence != sequence {
                        *own = Released { known: Known::default(), sequence };
                    }
                    if let Some(known) = known {
                        own.known.join(known);
                    }
                }
                (None, Some(known)) => {
                    self.places.insert(word, Released { known: known.clone(), sequence });
                }
            }
        }
        if order.releases {
            self.tick(warp);
        }
    }

    /// An arrival that waited for copies of its warp takes place: threads that wait for it may read what the copies have written.
    pub(crate) fn copies_arrived(&mut self, address: u64, warp: u32) {
        let clock = self.clocks[warp as usize][warp as usize];
        let address = self.location(&At::Shared, address).map_or(address, |(_, location)| location);
        for word in words(address, 1) {
            let seen = &mut self.places.entry(word).or_default().known.own[warp as usize];
            *seen = clock.max(*seen);
        }
        self.tick(warp);
    }

    /// A fence of some lanes of a warp.
    pub(crate) fn fence(&mut self, warp: u32, fence: Fence, world: &mut GlobalRaces) {
        let beyond = self.leaves_the_cta(fence.order.scope);
        let strong = Strong { order: fence.order, touch: Touch::Modify };
        if fence.order.acquires {
            let read = &mut self.beside[warp as usize].read;
            let learned = [read.within.take(), if beyond { read.beyond.take() } else { None }];
            for known in learned.into_iter().flatten() {
                self.learn(warp, &known);
            }
            if fence.sequential {
                self.observe_word(SEQUENTIAL, warp, strong, &At::Global(world));
            }
        }
        if fence.order.releases {
            let known = Box::new(self.known(warp));
            let fenced = &mut self.beside[warp as usize].fenced;
            if beyond {
                fenced.beyond = Some(known.clone());
            }
            fenced.within = Some(known);
            if fence.sequential {
                self.publish(SEQUENTIAL, 1, warp, strong, At::Global(world));
            } else {
                self.tick(warp);
            }
        }
    }

    /// A `fence.proxy.async` of some lanes of a warp.
    pub(crate) fn proxy_fence(&mut self, warp: u32) {
        self.beside[warp as usize].proxied = Some(Box::new(self.known(warp)));
        self.tick(warp);
    }

    /// Runs `publish`, a `mbarrier.complete_tx` without release, with `fence.proxy.async` treated as a releasing fence: the operation
    /// represents a transaction of the async proxy, and the fence orders what was written before it. Returns whether that made a
    /// difference, since PTX does not call the fence a release.
    pub(crate) fn completing(&mut self, warp: u32, publish: impl FnOnce(&mut Self)) -> bool {
        let beside = &mut self.beside[warp as usize];
        let Some(proxied) = beside.proxied.take() else {
            publish(self);
            return false;
        };
        let fenced = beside.fenced.clone();
        let at = |known: &Known| known.own[warp as usize];
        let differs = fenced.within.as_deref().is_none_or(|fenced| at(fenced) < at(&proxied));
        join_some(&mut beside.fenced.within, Some(&proxied));
        join_some(&mut beside.fenced.beyond, Some(&proxied));
        publish(self);
        let beside = &mut self.beside[warp as usize];
        (beside.fenced, beside.proxied) = (fenced, Some(proxied));
        differs
    }

    /// A warp arrives at a barrier, with or without waiting for it.
    pub(crate) fn arrive(&mut self, barrier: usize, warp: u32, waits: bool) {
        let (own, beside) = (&self.clocks[warp as usize], &self.beside[warp as usize]);
        self.barriers[barrier & 15].bring(own, beside);
        self.used_barriers |= 1 << (barrier & 15);
        if waits {
            self.waiting[barrier & 15] |= 1 << warp;
        }
        self.tick(warp);
    }

    /// A barrier completes: every waiting warp learns what all arrived warps did.
    pub(crate) fn complete(&mut self, barrier: usize) {
        let meeting = std::mem::take(&mut self.barriers[barrier & 15]);
        let waiting = std::mem::take(&mut self.waiting[barrier & 15]);
        for w in lanes(waiting) {
            meeting.teach(&mut self.clocks[w], &mut self.beside[w]);
            self.bound(w);
        }
        if waiting.count_ones() as usize == self.clocks.len() {
            self.epoch += 1;
        }
    }

    /// A warp arrives at a phase of the cluster barrier. It releases all its knowledge or, with `.relaxed`, its knowledge at its
    /// last fence.
    pub(crate) fn cluster_arrive(&mut self, warp: u32, releases: bool, phase: u64) {
        let beside = &self.beside[warp as usize];
        let (known, meeting) = &mut self.meetings[(phase % 2) as usize];
        if *known != phase {
            (*known, *meeting) = (phase, Meeting::default());
        }
        meeting.executed[warp as usize] = self.clocks[warp as usize][warp as usize];
        if releases {
            meeting.bring(&self.clocks[warp as usize], beside);
            self.arrive_outside(warp, Some(&self.known(warp)), phase);
        } else {
            if let Some(fenced) = &beside.fenced.within {
                meeting.known.join(fenced);
            }
            self.arrive_outside(warp, beside.fenced.beyond.as_deref(), phase);
        }
        self.tick(warp);
    }

    /// A warp has waited for a phase.
    pub(crate) fn cluster_wait(&mut self, warp: u32, phase: u64) {
        let (_, meeting) = &self.meetings[(phase % 2) as usize];
        meeting.teach(&mut self.clocks[warp as usize], &mut self.beside[warp as usize]);
        self.bounds[warp as usize] =
            Bounds::of_warp(warp as usize, &self.clocks[warp as usize], self.clocks.len());
        join(&mut self.met, &meeting.executed);
        self.wait_outside(warp, phase);
    }
}

impl Meeting {
    fn bring(&mut self, own: &Clock, beside: &Beside) {
        join(&mut self.known.own, own);
        self.known.others.join(&beside.others);
        join_some(&mut self.fenced.within, beside.fenced.within.as_deref());
        join_some(&mut self.fenced.beyond, beside.fenced.beyond.as_deref());
        join_some(&mut self.read.within, beside.read.within.as_deref());
        join_some(&mut self.read.beyond, beside.read.beyond.as_deref());
    }

    fn teach(&self, own: &mut Clock, beside: &mut Beside) {
        join(own, &self.known.own);
        beside.others.join(&self.known.others);
        join_some(&mut beside.fenced.within, self.fenced.within.as_deref());
        join_some(&mut beside.fenced.beyond, self.fenced.beyond.as_deref());
        join_some(&mut beside.read.within, self.read.within.as_deref());
        join_some(&mut beside.read.beyond, self.read.beyond.as_deref());
    }
}

/// By word of memory.
pub(super) type Places = FxHashMap<u64, Released>;
