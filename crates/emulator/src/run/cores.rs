//! Runs the clusters of a grid apart from each other: one by one on memory itself, then on several threads, each on its own view of it.
//!
//! The result is the scheduler's, or none: if clusters communicate, or one of them stops, everything that has been done is
//! discarded ([`crate::run::apart`]) and the scheduler runs the grid. Clusters that only load and store have a check of their own, and a far
//! cheaper one than the race detector ([`Touched`]); so this pays on one thread, too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::api::observe::Nobody;
use crate::front::program::GlobalUse;
use crate::memory::global::GlobalMemory;
use crate::rules::lanes::LaneRaces;
use crate::rules::remarks::{Remarks, earlier};
use crate::rules::undefined::stores::Stores;
use crate::run::apart::{Apart, Check, Together};
use crate::run::journal::Journal;
use crate::run::launch::Options;
use crate::run::machine::{Tolerated, World};
use crate::run::schedule::{Own, Stage, run};
use crate::run::stream::{InStream, Stream};
use crate::run::touched::Touched;

/// What one thread found, beside memory.
struct Found {
    instructions: u64,
    clock: u64,
    remarks: Remarks,
    overlaps: Remarks,
    lane_races: LaneRaces,
    tolerated: Tolerated,
    undefined: Stores,
}

/// The results of one thread that ran on a view.
struct Done {
    memory: GlobalMemory,
    touched: Touched,
    found: Found,
}

/// Limit in bytes for the views of all threads together; above it fewer threads run.
const MOST_COPIED: usize = 4 << 30;

/// A grid that runs apart.
#[derive(Clone, Copy)]
struct Job<'a> {
    launches: &'a [InStream<'a>],
    grid: usize,
    own: &'a Own,
    options: &'a Options,
    check: Check,
    clusters: u32,
    /// CTAs of a cluster.
    size: u32,
}

/// Runs a grid that is about to begin and before which all grids have ended. Returns its instruction count, or `None` if the
/// scheduler must run it.
pub(crate) fn run_grid(
    launches: &[InStream<'_>],
    grid: usize,
    own: &Own,
    world: &mut World,
    options: &Options,
) -> Option<u64> {
    let place = &world.stream.grids[grid];
    let kernel = launches[grid].kernel;
    let (clusters, size) = (place.total() / place.together(), place.together());
    let plain = kernel.global_use <= GlobalUse::Atomics && size == 1 && options.check_races;
    let alone = launches[grid].cooperative
        || world.apart.is_some()
        || world.stream.overlaps()
        || kernel.takes_work
        || kernel.global_use == GlobalUse::Allocates;
    let pays = plain || options.threads > 1 && clusters > 1;
    if alone
        || !pays
        || options.directed.is_some()
        || options.watchpoints.is_some()
        || !kernel.attempts.tries()
    {
        return None;
    }
    let check = if plain { Check::All } else { Check::Clusters };
    let instructions = Job { launches, grid, own, options, check, clusters, size }.run(world);
    kernel.attempts.ended(instructions.is_some());
    if instructions.is_none()
        && let Some(progress) = &options.progress
    {
        progress.discard_apart();
    }
    let place = &mut world.stream.grids[grid];
    if instructions.is_some() {
        (place.begun, place.released, place.ended) = (place.total(), place.total(), place.total());
        world.events += 1;
    }
    instructions
}

impl Job<'_> {
    /// Runs all clusters, or none.
    fn run(self, world: &mut World) -> Option<u64> {
        let together = Arc::new(Together::default());
        let mut in_place = World::new(std::mem::take(&mut world.global), world.stream.clone(), self.options);
        let sums = in_place.global.sums.tracked().then(|| in_place.global.sums.clone());
        in_place.apart = Some(Box::new(Apart::new(&together, self.check, Some(Journal::default()))));
        // Atomics are ordered as the scheduler would: in place, one CTA after another.
        let atomics = self.launches[self.grid].kernel.global_use == GlobalUse::Atomics;
        let threads = if atomics { 1 } else { self.threads(&in_place.global) };
        let joins = threads > 1;
        let limit = joins.then_some(self.options.alone);
        let thread = AssertUnwindSafe(|| self.run_clusters(&mut in_place, &together, limit));
        let ran = catch_unwind(thread).ok().flatten();
        world.global = std::mem::take(&mut in_place.global);
        let (touched, journal) = in_place.apart.take()?.into_parts();
        let mut parts = Vec::new();
        let done = ran.and_then(|first| {
            let left = !together.all_taken(self.clusters);
            let others =
                if left { self.run_on_threads(world, &together, (&touched, threads))? } else { Vec::new() };
            let all = first + others.iter().map(|done| done.found.instructions).sum::<u64>();
            parts = others;
            (all <= self.options.fuel).then_some(all)
        });
        let Some(instructions) = done else {
            // No view shares what is restored.
            drop(parts);
            world.global.own_all();
            if let Some(journal) = journal {
                journal.restore(&mut world.global);
            }
            if let Some(sums) = sums {
                world.global.sums = sums;
            }
            return None;
        };
        keep(found(in_place, instructions), world);
        let parts: Vec<_> = parts.into_iter().map(|done| adopted(done, world)).collect();
        world.global.own_all();
        for (memory, written) in parts {
            world.global.adopt(&memory, &written);
        }
        Some(instructions)
    }

    /// The number of threads whose views of memory fit; without two of them, all clusters run in place.
    fn threads(&self, memory: &GlobalMemory) -> usize {
        let most = self.options.threads.min(self.clusters as usize);
        if most > 1 { most.min(MOST_COPIED / memory.held_bytes().max(1)) } else { most }
    }

    /// Runs the clusters that are left on several threads; `None` if one of them, or what has been touched so far, conflicts with another.
    fn run_on_threads(
        self,
        world: &mut World,
        together: &Arc<Together>,
        (touched, threads): (&Touched, usize),
    ) -> Option<Vec<Done>> {
        world.global.share();
        let (global, stream) = (&world.global, &world.stream);
        let work = || {
            let thread = AssertUnwindSafe(|| self.run_on_view((global, stream), together));
            let done = catch_unwind(thread).ok().flatten();
            if done.is_none() {
                together.give_up();
            }
            done
        };
        let done: Vec<Option<Done>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let first = work();
            others.into_iter().map(|other| other.join().ok().flatten()).chain([first]).collect()
        });
        let done: Vec<Done> = done.into_iter().collect::<Option<_>>()?;
        let all: Vec<&Touched> = done.iter().map(|done| &done.touched).chain([touched]).collect();
        if together.failed() || Touched::conflict(&all) {
            return None;
        }
        Some(done)
    }

    /// Runs clusters on a view until none is left, or until one of them needs the scheduler.
    fn run_on_view(
        self,
        (global, stream): (&GlobalMemory, &Stream),
        together: &Arc<Together>,
    ) -> Option<Done> {
        let mut world = World::new(global.clone(), stream.clone(), self.options);
        world.apart = Some(Box::new(Apart::new(together, self.check, None)));
        let instructions = self.run_clusters(&mut world, together, None)?;
        let (touched, _) = world.apart.take()?.into_parts();
        let memory = std::mem::take(&mut world.global);
        Some(Done { memory, touched, found: found(world, instructions) })
    }

    /// Runs clusters until none is left or, with a limit, that many instructions have run; `None` if one of them needs the scheduler.
    fn run_clusters(self, world: &mut World, together: &Together, limit: Option<u64>) -> Option<u64> {
        let mut stage = Stage::of_grid(self.grid, self.own.clone());
        let mut instructions = 0;
        while limit.is_none_or(|limit| instructions < limit)
            && let Some(cluster) = together.take(self.clusters)
        {
            let place = &mut world.stream.grids[self.grid];
            (place.begun, place.until) = (cluster * self.size, (cluster + 1) * self.size);
            let counts = run(self.launches, &mut stage, world, self.options, &mut Nobody).ok()?;
            instructions += counts.warp_instructions;
            if let Some(progress) = &self.options.progress {
                progress.end_apart(self.size);
            }
            if !world.apart.as_mut()?.end(counts.warp_instructions) {
                return None;
            }
        }
        Some(instructions)
    }
}

/// What a thread has found, beside memory.
fn found(world: World, instructions: u64) -> Found {
    let World { clock, remarks, overlaps, lane_races, tolerated, undefined, .. } = world;
    Found { instructions, clock, remarks, overlaps, lane_races, tolerated, undefined }
}

/// Merges what a thread has found into the world.
fn keep(found: Found, world: &mut World) {
    let Found { clock, remarks, overlaps, lane_races, tolerated, undefined, .. } = found;
    world.clock += clock;
    for (place, said) in remarks {
        world.remarks.add(place, said);
    }
    for (place, store) in overlaps {
        world.overlaps.add(place, store);
    }
    world.lane_races.join(lane_races);
    for (place, (fault, cta, warp, times)) in tolerated {
        let all = world.tolerated.entry(place).or_insert_with(|| (fault.clone(), cta, warp, 0));
        let times = all.3 + times;
        if earlier(cta, all.1) {
            (all.0, all.1, all.2) = (fault, cta, warp);
        }
        all.3 = times;
    }
    for (place, stored) in undefined {
        match world.undefined.entry(place) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(stored);
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => entry.get_mut().join(stored),
        }
    }
}

/// Merges the results of a thread that ran on a view; returns its memory and the runs of bytes that it wrote there.
fn adopted(done: Done, world: &mut World) -> (GlobalMemory, Vec<(u64, usize)>) {
    let Done { mut memory, touched, found } = done;
    keep(found, world);
    world.global.adopt_uses(&memory);
    let mut written = Vec::new();
    touched.each_written(|allocation, at, len| {
        written.push((memory.allocations[allocation].base + at as u64, len))
    });
    memory.drop_shared();
    (memory, written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use crate::run::launch::Launch;

    /// Runs 16 CTAs with this body on three threads; each CTA has a word at `%a`, and all share one at `%out`.
    fn runs(body: &str) -> Option<u64> {
        let text = format!(
            ".version 8.8\n.target sm_120\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n\
             .reg .pred %p;\n.reg .b32 %c, %r;\n.reg .b64 %out, %a;\nld.param.u64 %out, [p];\nmov.u32 %c, %ctaid.x;\n\
             mul.wide.u32 %a, %c, 4;\nadd.u64 %a, %a, %out;\nadd.u64 %a, %a, 64;\n{body}\nret;\n}}"
        );
        let program = load(&text).unwrap();
        let mut memory = GlobalMemory::default();
        let out = memory.allocate_with(vec![1; 256]);
        let params = out.to_le_bytes().to_vec();
        let launch = Launch { grid: [16, 1, 1], block: [1, 1, 1], shared_bytes: 0, params };
        let step = InStream::new(&program, &program.kernels[0], &launch);
        let options = Options { threads: 3, alone: 24, ..Options::default() };
        let own = Own::for_launch(&step, &mut memory, &options);
        let stream = Stream::new(&[step], &[[1; 3]]);
        let mut world = World::new(memory, stream, &options);
        let ran = run_grid(&[step], 0, &own, &mut world, &options);
        let bytes = world.global.bytes(out).unwrap();
        assert_eq!(bytes[64..128] != [1; 64], ran.is_some() && body.contains("[%a]"), "{body}");
        assert_eq!(bytes[..64], [1; 64]);
        ran
    }

    #[test]
    fn threads_run_what_communicates_with_nobody() {
        // Five instructions before the body, and `ret` after it.
        assert_eq!(runs("ld.global.u32 %r, [%out];\nst.global.u32 [%a], %c;"), Some(16 * 8));
        assert_eq!(runs(""), Some(16 * 6));
        for body in [
            "st.global.u32 [%out], %c;",
            "st.global.u32 [%out], 5;",
            "ld.global.u32 %r, [%out+64];\nst.global.u32 [%a], %r;",
            "atom.acquire.gpu.global.add.u32 %r, [%a], 1;",
            "ld.volatile.global.u32 %r, [%out];",
            "mov.u32 %r, %clock;",
            "st.global.u32 [%a+2], %c;",
            "ld.global.u32 %r, [%a+4096];",
        ] {
            assert_eq!(runs(body), None, "{body}");
        }
    }
}
