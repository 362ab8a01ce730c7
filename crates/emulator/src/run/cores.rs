//! Runs a grid on several cores: each thread runs clusters on its own view of global memory.
//!
//! The result is the scheduler's, or none: if clusters communicate, or one of them stops, everything that the threads did is
//! discarded ([`crate::run::apart`]) and the scheduler runs the grid.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::api::observe::Nobody;
use crate::memory::global::GlobalMemory;
use crate::rules::lanes::LaneRaces;
use crate::rules::remarks::{Remarks, earlier};
use crate::rules::undefined::stores::Stores;
use crate::run::apart::{Apart, Together};
use crate::run::launch::Options;
use crate::run::machine::{Tolerated, World};
use crate::run::schedule::{Own, Stage, run};
use crate::run::stream::{InStream, Stream};

/// The results of one thread.
struct Done {
    memory: GlobalMemory,
    /// Runs of bytes that it wrote.
    written: Vec<(u64, usize)>,
    instructions: u64,
    clock: u64,
    remarks: Remarks,
    overlaps: Remarks,
    lane_races: LaneRaces,
    tolerated: Tolerated,
    undefined: Stores,
}

/// Limit in bytes for the views of all threads together; above it fewer threads run.
const MOST_COPIED: usize = 4 << 30;

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
    let clusters = place.total() / place.together();
    let fit = MOST_COPIED / world.global.held_bytes().max(1);
    let threads = options.threads.min(clusters as usize).min(fit);
    let alone = launches[grid].cooperative
        || world.apart.is_some()
        || world.stream.overlaps()
        || launches[grid].kernel.takes_work;
    if threads < 2 || alone || options.directed.is_some() || options.watchpoints.is_some() {
        return None;
    }
    world.global.share();
    let together = Arc::new(Together::default());
    let (global, stream) = (&world.global, &world.stream);
    let work = || {
        let thread =
            AssertUnwindSafe(|| run_clusters(launches, grid, own, (global, stream), options, &together));
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
    let done: Option<Vec<Done>> = done.into_iter().collect();
    let done = done.filter(|_| !together.failed());
    let instructions = done.as_ref().map(|done| done.iter().map(|d| d.instructions).sum::<u64>());
    let done = done.filter(|_| instructions.is_some_and(|all| all <= options.fuel));
    let parts: Vec<_> = done.into_iter().flatten().map(|done| keep(done, world)).collect();
    world.global.own_all();
    if parts.is_empty() {
        return None;
    }
    for (memory, written) in parts {
        world.global.adopt(&memory, &written);
    }
    let place = &mut world.stream.grids[grid];
    (place.begun, place.released, place.ended) = (place.total(), place.total(), place.total());
    world.events += 1;
    instructions
}

/// Merges the results of a thread into the world; returns its memory and what it wrote there.
fn keep(done: Done, world: &mut World) -> (GlobalMemory, Vec<(u64, usize)>) {
    let Done { mut memory, written, clock, remarks, overlaps, lane_races, tolerated, undefined, .. } = done;
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
    world.global.adopt_uses(&memory);
    memory.drop_shared();
    (memory, written)
}

/// Runs clusters until none is left, or until one of them needs the scheduler.
fn run_clusters(
    launches: &[InStream<'_>],
    grid: usize,
    own: &Own,
    (global, stream): (&GlobalMemory, &Stream),
    options: &Options,
    together: &Arc<Together>,
) -> Option<Done> {
    let mut world = World::new(global.clone(), stream.clone(), options);
    world.apart = Some(Box::new(Apart::new(together)));
    let mut stage = Stage::of_grid(grid, own.clone());
    let place = &stream.grids[grid];
    let (count, size) = (place.total() / place.together(), place.together());
    let mut instructions = 0;
    while let Some(cluster) = together.take(count) {
        let place = &mut world.stream.grids[grid];
        (place.begun, place.until) = (cluster * size, (cluster + 1) * size);
        let counts = run(launches, &mut stage, &mut world, options, &mut Nobody).ok()?;
        instructions += counts.warp_instructions;
        if !world.apart.as_mut()?.end(counts.warp_instructions) {
            return None;
        }
    }
    Some(Done {
        memory: world.global,
        written: world.apart?.written(),
        instructions,
        clock: world.clock,
        remarks: world.remarks,
        overlaps: world.overlaps,
        lane_races: world.lane_races,
        tolerated: world.tolerated,
        undefined: world.undefined,
    })
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
        let options = Options { threads: 3, ..Options::default() };
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
            "red.global.add.u32 [%a], 1;",
            "ld.volatile.global.u32 %r, [%out];",
            "mov.u32 %r, %clock;",
            "st.global.u32 [%a+2], %c;",
            "ld.global.u32 %r, [%a+4096];",
        ] {
            assert_eq!(runs(body), None, "{body}");
        }
    }
}
