//! A CTA that is about to begin: shared memory, warps, and what their registers hold at first.

use super::cta::Cta;
use super::guard::Proxy;
use super::machine::{LANES, Registers, World};
use super::memory::{Region, SHARED_START};
use super::program::{Constant, Kernel, Special};
use super::races::Races;
use super::schedule::Launch;
use super::stream::InStream;
use super::warp::Warp;

/// A CTA that runs.
pub(super) struct Resident {
    pub(super) cta: Cta,
    pub(super) warps: Vec<Warp>,
}

/// The next CTA of a grid.
pub(super) fn resident(
    step: &InStream<'_>,
    globals: &[u64],
    grid: usize,
    world: &World,
    check_races: bool,
) -> Resident {
    let (kernel, launch) = (step.kernel, step.launch);
    let place = &world.stream.grids[grid];
    let id = place.place(place.begun);
    let threads: u32 = launch.block.iter().product();
    // Dynamic shared memory begins on 1024 bytes, the largest alignment that a kernel can rely on.
    let dynamic = kernel.shared_bytes.next_multiple_of(16);
    let dynamic = if launch.shared_bytes > 0 { dynamic.next_multiple_of(1024) } else { dynamic };
    let cta = Cta {
        id,
        grid,
        released: false,
        refused: false,
        shared: Region::unwritten((dynamic + launch.shared_bytes) as usize, 0xCD),
        barriers: std::array::from_fn(|_| super::cta::Barrier::default()),
        mbarriers: Default::default(),
        pending: Vec::new(),
        guarded: Default::default(),
        proxy: kernel.async_reads.then(|| Proxy::new((dynamic + launch.shared_bytes) as usize, threads)),
        acquired: Default::default(),
        awaited: Default::default(),
        races: check_races.then(|| {
            let shared = (dynamic + launch.shared_bytes) as usize;
            Races::new(place.ctas.start + place.begun, threads.div_ceil(32) as usize, shared).in_grid(place)
        }),
        events: 0,
        threads,
        dynamic_at: SHARED_START + dynamic,
        commits: Default::default(),
        arrived_in: 0,
        cluster: (0, 0),
        cluster_phase: Default::default(),
    };
    let warps = (0..threads.div_ceil(32)).map(|w| {
        let left = (threads - w * 32).min(32);
        let live = if left == 32 { !0 } else { (1u32 << left) - 1 };
        Warp::new(w, live, registers(kernel, launch, globals, &cta, w))
    });
    let warps = warps.collect();
    Resident { cta, warps }
}

fn registers(kernel: &Kernel, launch: &Launch, globals: &[u64], cta: &Cta, warp: u32) -> Registers {
    let mut r = Registers {
        w: vec![[0; LANES]; kernel.w_slots],
        d: vec![[0; LANES]; kernel.d_slots],
        p: vec![0; kernel.p_slots],
        carry: 0,
        written: vec![0; kernel.watched],
        local: Region::unwritten(kernel.local_bytes * LANES, 0xCD),
    };
    let value = |constant: Constant| match constant {
        Constant::Bits(bits) => bits,
        Constant::Global { index, offset } => globals[index].wrapping_add_signed(offset),
        Constant::DynamicShared { generic, offset } => {
            let at = u64::from(cta.dynamic_at).wrapping_add_signed(offset);
            if generic { at + super::memory::SHARED_WINDOW } else { at }
        }
    };
    for (slot, constant) in &kernel.constants_w {
        r.w[*slot as usize] = [value(*constant) as u32; LANES];
    }
    for (slot, constant) in &kernel.constants_d {
        r.d[*slot as usize] = [value(*constant); LANES];
    }
    let [bx, by, _] = launch.block;
    let special = |special: Special, lane: usize| -> u64 {
        let thread = warp * 32 + lane as u32;
        let bit = 1u64 << lane;
        u64::from(match special {
            Special::Tid(0) => thread % bx,
            Special::Tid(1) => thread / bx % by,
            Special::Tid(_) => thread / bx / by,
            Special::Ntid(axis) => launch.block[usize::from(axis) % 3],
            Special::Ctaid(axis) => cta.id[usize::from(axis) % 3],
            Special::Nctaid(axis) => launch.grid[usize::from(axis) % 3],
            Special::Laneid => lane as u32,
            Special::Warpid => warp,
            Special::Nwarpid => launch.block.iter().product::<u32>().div_ceil(32),
            Special::Smid | Special::Gridid | Special::Zero => 0,
            Special::Nsmid | Special::One => 1,
            Special::LanemaskEq => bit as u32,
            Special::LanemaskLt => (bit - 1) as u32,
            Special::LanemaskLe => (bit - 1 + bit) as u32,
            Special::LanemaskGt => !((bit - 1 + bit) as u32),
            Special::LanemaskGe => !((bit - 1) as u32),
            Special::DynamicSmemSize => launch.shared_bytes,
            Special::TotalSmemSize | Special::AggrSmemSize => cta.shared.len() as u32,
        })
    };
    for (slot, name) in &kernel.specials_w {
        r.w[*slot as usize] = std::array::from_fn(|lane| special(*name, lane) as u32);
    }
    for (slot, name) in &kernel.specials_d {
        r.d[*slot as usize] = std::array::from_fn(|lane| special(*name, lane));
    }
    r
}
