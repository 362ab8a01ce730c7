//! Unordered stores of the same value to the same bytes by several warps.
//!
//! The PTX memory model calls them a data race, but a read that races still returns what one of the stores wrote (PTX ISA 8.10), so
//! every outcome is the same. Compilers rely on it for replicated layouts, and compute-sanitizer's racecheck ranks such a hazard as
//! information. It is therefore a remark here. A thread that reads the bytes must be ordered after one of the stores; a store of
//! another value must be ordered after all of them.
//!
//! This is checked only after the detector has found a conflict: ordered accesses cost nothing.

use rustc_hash::FxHashMap;
use std::cell::Cell;

use super::accesses::{Accesses, Mark};
use super::clock::WARPS;
use super::global::{GlobalAccess, GlobalRaces, Who};
use super::{Epoch, Races, SharedOrder};
use crate::work;

/// All stores of one value at a place.
///
/// A whole grid may store the same value to one flag, so adding a store and finding those of a warp must not search. Of each warp
/// the first store suffices: whoever is ordered after a later one is ordered after the first.
#[derive(Debug)]
struct Stores<T> {
    /// As in the shadow.
    last: T,
    first: FxHashMap<(u32, u32), T>,
    copies: Vec<T>,
}

impl<T: Mark> Stores<T> {
    fn new(store: T) -> Self {
        let mut all = Self { last: store, first: FxHashMap::default(), copies: Vec::new() };
        all.add(store);
        all
    }

    fn add(&mut self, store: T) {
        work::count(1);
        if !store.copied() {
            self.first.entry(store.thread()).or_insert(store);
        } else if !self.copies.contains(&store) {
            self.copies.push(store);
        }
        self.last = store;
    }

    /// Whether a warp is among those that stored.
    fn has(&self, cta: u32, warp: u32) -> bool {
        self.first.contains_key(&(cta, warp))
    }

    fn any(&self, mut ordered: impl FnMut(&T) -> bool) -> bool {
        self.copies.iter().chain(self.first.values()).inspect(|_| work::count(1)).any(&mut ordered)
    }
}

/// The stores of the same value, by place.
#[derive(Debug)]
pub(super) struct Same<T>(FxHashMap<u64, Stores<T>>);

impl<T> Default for Same<T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<T: Mark> Same<T> {
    /// Adds a store of the value that `last` has stored.
    fn add(&mut self, place: u64, last: T, by: T) {
        let stores = self.0.entry(place).or_insert_with(|| Stores::new(last));
        if stores.last != last {
            *stores = Stores::new(last);
        }
        stores.add(by);
    }

    /// The stores of the value that `last` has stored.
    fn stores(&self, place: u64, last: T) -> Option<&Stores<T>> {
        self.0.get(&place).filter(|stores| stores.last == last)
    }
}

/// The bytes in memory, and those of a store to them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) old: &'a [u8],
    pub(crate) new: &'a [u8],
}

impl Values<'_> {
    fn same(self, n: usize) -> bool {
        self.old.get(n) == self.new.get(n)
    }
}

impl Races {
    /// Whether a weak store to shared memory that is in conflict changes nothing; it is then remembered.
    #[cold]
    pub(crate) fn stores_same(&mut self, at: usize, values: Values<'_>, warp: u32) -> bool {
        if let Some(stored) = self.in_memory_of_cluster(
            |races, all, address, who| all.stores_same(races, who, address(at), values),
            warp,
        ) {
            return stored;
        }
        let (clock, chains) = (&self.clocks[warp as usize], &self.chains);
        let by = Epoch::new(warp, clock[warp as usize], false);
        for n in 0..values.new.len() {
            let seen = Cell::new(Accesses::default());
            work::count(1);
            let observed = |write| chains.orders((at + n) as u64, write, |read| !read.unknown(warp, clock));
            let order = SharedOrder { by, clock, modifies: false, observed, own_warp: &self.own_warp };
            let step = |kept: &mut Accesses<Epoch>| {
                seen.set(*kept);
                kept.step(true, &order)
            };
            let Err((_, (other, wrote))) = self.shared.update(at + n, 1, step) else { continue };
            let Accesses { write: last, reads } = seen.get();
            let place = (at + n) as u64;
            let read_own = || {
                last.warp() == other.warp()
                    || self.same.stores(place, last).is_some_and(|all| all.has(0, other.warp() as u32))
            };
            if !values.same(n) || !(wrote || read_own()) {
                return false;
            }
            self.same.add(place, last, by);
            // The warp's own store is included with the previous one.
            let earlier = if last.warp() == warp as usize { reads[0] } else { last.as_earlier() };
            self.shared.set(at + n, 1, Accesses { write: by, reads: [earlier, Epoch(0)] });
        }
        true
    }

    /// Whether a weak read of shared memory that is in conflict is ordered after one of the stores of the present value.
    #[cold]
    pub(crate) fn reads_same(&mut self, at: usize, len: usize, warp: u32) -> bool {
        if let Some(reads) = self.in_memory_of_cluster(
            |races, all, address, who| all.reads_same(races, who, address(at), len),
            warp,
        ) {
            return reads;
        }
        let (clock, chains) = (&self.clocks[warp as usize], &self.chains);
        let by = Epoch::new(warp, clock[warp as usize], false);
        (0..len).all(|n| {
            let seen = Cell::new(Accesses::default());
            let observed = |write| chains.orders((at + n) as u64, write, |read| !read.unknown(warp, clock));
            let order = SharedOrder { by, clock, modifies: false, observed, own_warp: &self.own_warp };
            let step = |kept: &mut Accesses<Epoch>| {
                seen.set(*kept);
                kept.step(false, &order)
            };
            let Err((_, (_, wrote))) = self.shared.update(at + n, 1, step) else { return true };
            let last = seen.get().write;
            let stores = self.same.stores((at + n) as u64, last);
            wrote && stores.is_some_and(|all| all.any(|store| !store.unknown(warp, clock)))
        })
    }

    /// Whether a weak store to global memory writes what unordered threads have stored there.
    #[cold]
    pub(crate) fn stores_same_global(
        &self,
        address: u64,
        values: Values<'_>,
        warp: u32,
        world: &mut GlobalRaces,
    ) -> bool {
        world.stores_same(self, self.who(warp), address, values)
    }

    /// Whether a weak read of global memory that is in conflict is ordered after one of the stores of the present value.
    #[cold]
    pub(crate) fn reads_same_global(
        &self,
        address: u64,
        len: usize,
        warp: u32,
        world: &mut GlobalRaces,
    ) -> bool {
        world.reads_same(self, self.who(warp), address, len)
    }
}

impl GlobalRaces {
    /// Whether a weak store by `who` writes what unordered threads have stored there; then it joins them.
    pub(crate) fn stores_same(&mut self, cta: &Races, who: Who, address: u64, values: Values<'_>) -> bool {
        // Another lane of the warp has just stored the value: nothing changes.
        let just_stored = |kept: &mut Accesses<Who>| {
            if kept.write == who && kept.reads[0].wrote() { Ok(()) } else { Err(()) }
        };
        if values.old == values.new && self.all(address, values.new.len(), just_stored) {
            return true;
        }
        for n in 0..values.new.len() {
            let at = address + n as u64;
            work::count(1);
            let access = GlobalAccess { address: at, len: 1, write: true };
            let Err((_, other, wrote)) = self.find(cta, who, access) else { continue };
            let Accesses { write: last, reads: [read, _] } = self.shadow(at);
            let thread = |who: &Who| (who.cta(), who.warp());
            let read_own = || {
                thread(&last) == thread(&other)
                    || self.same.stores(at, last).is_some_and(|all| {
                        all.has(other.cta(), other.warp())
                            || all.copies.iter().any(|copy| thread(copy) == thread(&other))
                    })
            };
            // What a copy in flight stores is not in memory yet.
            let same = match self.copies.carried(last, at) {
                Some(old) => values.new.get(n) == Some(&old),
                None => values.same(n),
            };
            if !same || !cta.grid.contains(&other.cta()) || !(wrote || read_own()) {
                return false;
            }
            self.same.add(at, last, who);
            let own = thread(&last) == thread(&who) && !last.is_copy();
            let earlier = if own { read } else { last.as_earlier() };
            self.put(at, 1, Accesses { write: who, reads: [earlier, Who::default()] });
        }
        true
    }

    /// Whether a weak read by `who` that is in conflict is ordered after one of the stores of the present value.
    pub(crate) fn reads_same(&mut self, cta: &Races, who: Who, address: u64, len: usize) -> bool {
        (0..len as u64).all(|n| {
            let at = address + n;
            let access = GlobalAccess { address: at, len: 1, write: false };
            let Err((_, _, wrote)) = self.find(cta, who, access) else { return true };
            let last = self.shadow(at).write;
            let Some(stores) = self.same.stores(at, last).filter(|_| wrote) else { return false };
            let known = |store: &Who| {
                cta.knows(*store, who.warp()) || store.is_copy() && self.copies.known(*store, cta, who.warp())
            };
            // Mostly a warp of this CTA is among them, or nothing is known of other CTAs: the others need not be searched.
            let here = || (0..WARPS as u32).filter_map(|warp| stores.first.get(&(cta.id, warp)));
            here().any(known)
                || stores.copies.iter().any(known)
                || cta.knows_others(who.warp()) && stores.any(known)
        })
    }

    /// What a byte remembers.
    fn shadow(&mut self, address: u64) -> Accesses<Who> {
        let seen = Cell::new(Accesses::default());
        self.look(address, |shadow| seen.set(*shadow));
        seen.get()
    }
}
