//! `fence.proxy.async` for global memory: between writes through the generic proxy and copies that use the bytes through the async proxy.
//!
//! The fence may be executed by the writer, by any thread ordered in between, or by the thread that issues the copy.

use std::collections::{HashMap, VecDeque};

use super::clock::{Known, WARPS};
use super::global::{GlobalAccess, Who};
use super::{GlobalRaces, Races};
use crate::run::stream::Stream;
use crate::work;

/// The number of a warp's fences whose knowledge is remembered.
const KEPT: usize = 8;

/// The fences of a warp.
#[derive(Debug, Default)]
struct Fences {
    /// The clock of each, ascending: it covers the warp's own writes up to then.
    own: Vec<u32>,
    /// The last ones, with the warp's knowledge at that time.
    last: VecDeque<(Who, Known)>,
}

/// The fences of a launch, by CTA and warp.
#[derive(Debug, Default)]
pub(super) struct ProxyFences(HashMap<(u32, u32), Fences>);

impl ProxyFences {
    /// Whether a fence covers a write, and is ordered before what a warp does now.
    fn cover(&self, write: Who, cta: &Races, warp: u32) -> bool {
        let own = self.0.get(&(write.cta(), write.warp())).and_then(|fences| {
            let first = fences.own.partition_point(|clock| *clock < write.clock());
            fences.own.get(first)
        });
        let by = |clock: &u32| Who([write.cta(), *clock, write.warp()]);
        let covers = |(by, known): &(Who, Known)| {
            work::count(1);
            let seen = if write.cta() == by.cta() {
                known.own[write.warp() as usize]
            } else {
                known.others.clock(write.cta(), write.warp())
            };
            write.clock() <= seen && cta.knows(*by, warp)
        };
        // The CTA that issues the copy mostly fences itself: fences of all others need not be searched.
        let here = || (0..WARPS as u32).filter_map(|warp| self.0.get(&(cta.id, warp)));
        own.is_some_and(|clock| cta.knows(by(clock), warp))
            || here().flat_map(|fences| &fences.last).any(covers)
            || self.0.values().flat_map(|fences| &fences.last).any(covers)
    }
}

impl Races {
    /// A `fence.proxy.async` that includes global memory, of some lanes of a warp.
    pub(crate) fn global_proxy_fence(&mut self, warp: u32, world: &mut GlobalRaces) {
        let (who, known) = (self.who(warp), self.known(warp));
        let fences = world.proxy_fences.0.entry((self.id, warp)).or_default();
        fences.own.push(who.clock());
        if fences.last.len() == KEPT {
            fences.last.pop_front();
        }
        fences.last.push_back((who, known));
        self.tick(warp);
    }
}

impl GlobalRaces {
    /// The error of a copy of a warp that uses bytes through the async proxy: a thread of this grid wrote them through the generic
    /// one, with no proxy fence since.
    pub(crate) fn unfenced(
        &mut self,
        cta: &Races,
        access: GlobalAccess,
        warp: u32,
        stream: &Stream,
    ) -> Option<String> {
        let GlobalAccess { address, len, .. } = access;
        let writers = self.writers(address, len);
        let lacks = |write: &Who| {
            !write.is_copy() && cta.grid.contains(&write.cta()) && !self.proxy_fences.cover(*write, cta, warp)
        };
        let write = writers.into_iter().find(lacks)?;
        let (_, first) = stream.grid_of(write.cta());
        Some(format!(
            "no proxy fence: the async proxy uses global memory from {address:#x} on, which warp {} of CTA number {} wrote through \
             the generic proxy without `fence.proxy.async` since",
            write.warp(),
            write.cta() - first
        ))
    }
}
