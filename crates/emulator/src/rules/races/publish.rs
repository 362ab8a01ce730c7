//! Publication of tensor maps in global memory to the tensormap proxy (PTX ISA 8.11, 9.7.13.4): a release of what was written
//! through the generic proxy, then an acquire that it happens before, each with a scope that includes the other's thread.

use std::collections::{HashMap, VecDeque};

use super::clock::{Known, WARPS};
use super::global::Who;
use super::{GlobalRaces, Races};
use crate::rules::order::{Fence, Order, Scope};
use crate::run::stream::Stream;
use crate::work;

/// A release to the tensormap proxy.
#[derive(Debug, Clone)]
struct Release {
    by: Who,
    scope: Scope,
    /// The knowledge of its warp: these writes are released.
    covers: Known,
}

impl Release {
    fn covers(&self, write: Who) -> bool {
        let seen = if write.cta() == self.by.cta() {
            self.covers.own[write.warp() as usize]
        } else {
            self.covers.others.clock(write.cta(), write.warp())
        };
        write.clock() <= seen
    }
}

/// The number of a warp's fences that are remembered.
const KEPT: usize = 8;

/// All releases of a launch.
#[derive(Debug, Clone, Default)]
pub(super) struct Releases {
    /// The last `tensormap.cp_fenceproxy` to an address.
    copies: HashMap<u64, Release>,
    /// The last fences of each warp.
    fences: HashMap<(u32, u32), VecDeque<Release>>,
}

impl Races {
    /// A warp releases its knowledge to the tensormap proxy: by a copy to a map, or by a fence.
    pub(crate) fn release_map(
        &mut self,
        warp: u32,
        scope: Scope,
        copied_to: Option<u64>,
        world: &mut GlobalRaces,
    ) {
        let release = Release { by: self.who(warp), scope, covers: self.known(warp) };
        match copied_to {
            Some(map) => {
                world.releases.copies.insert(map, release);
            }
            None => {
                let kept = world.releases.fences.entry((self.id, warp)).or_default();
                if kept.len() == KEPT {
                    kept.pop_front();
                }
                kept.push_back(release);
            }
        }
        // It is also a fence of the generic proxy: a relaxed write after it releases.
        self.fence(warp, Fence { order: Order::release(scope), sequential: false }, world);
    }

    /// A warp acquires `len` bytes of a map for the tensormap proxy; returns what is missing for the writes to be visible.
    pub(crate) fn acquire_map(
        &mut self,
        warp: u32,
        scope: Scope,
        (address, len): (u64, usize),
        world: &mut GlobalRaces,
        stream: &Stream,
    ) -> Option<String> {
        self.fence(warp, Fence { order: Order::acquire(scope), sequential: false }, world);
        let writers = world.writers(address, len);
        writers.into_iter().find_map(|write| self.lacks(write, warp, scope, address, world, stream))
    }

    fn lacks(
        &self,
        write: Who,
        warp: u32,
        scope: Scope,
        address: u64,
        world: &GlobalRaces,
        stream: &Stream,
    ) -> Option<String> {
        // The end of a grid releases everything that it did.
        if !self.grid.contains(&write.cta()) && self.knows_end(write.cta(), warp, &world.waited) {
            return None;
        }
        let them = |who: Who| {
            let (_, first) = stream.grid_of(who.cta());
            format!("warp {} of CTA number {}", who.warp(), who.cta() - first)
        };
        let releases = &world.releases;
        let reaches = |release: &Release| {
            release.by.cta() == self.id || self.leaves_the_cta(release.scope) && self.leaves_the_cta(scope)
        };
        // Mostly the writer's CTA or this one has released: the releases of all others need not be searched.
        let near = [write.cta(), self.id].into_iter().flat_map(|cta| {
            (0..WARPS as u32).filter_map(move |warp| releases.fences.get(&(cta, warp))).flatten()
        });
        let settles = |release: &Release| {
            work::count(1);
            release.covers(write) && self.knows(release.by, warp) && reaches(release)
        };
        if releases.copies.get(&address).into_iter().chain(near).any(settles) {
            return None;
        }
        let all = releases.copies.get(&address).into_iter().chain(releases.fences.values().flatten());
        let covering: Vec<&Release> =
            all.inspect(|_| work::count(1)).filter(|release| release.covers(write)).collect();
        let Some(some) = covering.first() else {
            return Some(format!(
                "what {} wrote there was not released to the tensormap proxy (`tensormap.cp_fenceproxy` or \
                 `fence.proxy.tensormap::generic.release`)",
                them(write)
            ));
        };
        let ordered: Vec<&&Release> =
            covering.iter().filter(|release| self.knows(release.by, warp)).collect();
        match ordered.first() {
            None => Some(format!("nothing orders the release by {} before the acquire", them(some.by))),
            Some(_) if ordered.iter().any(|release| reaches(release)) => None,
            Some(narrow) => Some(format!(
                "the scopes of the release by {} and of the acquire do not include each other's thread",
                them(narrow.by)
            )),
        }
    }

    /// Whether a warp knows what another one of its CTA did at a clock.
    pub(crate) fn knows_warp(&self, other: u32, clock: u32, warp: u32) -> bool {
        other == warp || clock <= self.clocks[warp as usize][other as usize]
    }

    /// A warp's own clock.
    pub(crate) fn clock(&self, warp: u32) -> u32 {
        self.clocks[warp as usize][warp as usize]
    }
}
