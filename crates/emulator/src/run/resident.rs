//! Start of a CTA: shared memory, warps, and initial register values.

use crate::front::program::{Constant, Kernel, Special};
use crate::memory::global::Region;
use crate::memory::window::SHARED_START;
use crate::rules::drafts::{Drafts, Watch};
use crate::rules::guard::Proxy;
use crate::rules::races::{ClusterRaces, Races};
use crate::run::cluster::Member;
use crate::run::cta::Cta;
use crate::run::frames;
use crate::run::launch::{Launch, Options};
use crate::run::machine::{LANES, Registers, World};
use crate::run::random::Random;
use crate::run::schedule::chance;
use crate::run::stream::InStream;
use crate::run::warp::Warp;

/// A resident CTA.
pub(crate) struct Resident {
    pub(crate) cta: Cta,
    pub(crate) warps: Vec<Warp>,
    /// Whether its end has been processed; it stays resident until its whole cluster has ended.
    pub(crate) ended: bool,
    /// Turns since one of its copies last completed.
    pub(crate) copies_wait: u32,
    /// For rank 0: the random numbers that choose turns in its cluster, under a random schedule.
    pub(crate) random: Random,
}

/// Initial state shared by the CTAs of a cluster.
pub(crate) struct Together {
    /// Position of the next CTA.
    pub(crate) member: Member,
    /// Their shared memory accesses; `None` for clusters of one.
    pub(crate) races: Option<ClusterRaces>,
}

impl Together {
    /// The state for the next cluster of a grid.
    pub(crate) fn for_cluster(step: &InStream<'_>, shape: [u32; 3], options: &Options) -> Self {
        let threads = step.launch.block.iter().product();
        let explicit = step.cluster.is_some() || step.kernel.cluster.required.is_some();
        let member = Member::first(shape, explicit, threads);
        let races = (member.size() > 1 && options.check_races).then(ClusterRaces::default);
        Self { member, races }
    }

    /// Advances to the next CTA.
    pub(crate) fn advance(&mut self) {
        self.member = self.member.next();
    }
}

/// Shared memory and its tracking state, and the warps, whose registers hold the constants of the kernel.
struct Memory {
    shared: Region,
    races: Option<Box<Races>>,
    proxy: Option<Proxy>,
    warps: Vec<Warp>,
}

/// Memory of ended CTAs for reuse: allocating it takes longer than a small CTA runs.
#[derive(Default)]
pub(crate) struct Spares {
    /// The grid of those CTAs; all CTAs of a grid need the same amount.
    grid: usize,
    left: Vec<Memory>,
}

impl Spares {
    /// Keeps the memory of a CTA that has ended.
    pub(crate) fn leave(&mut self, ended: Resident) {
        let Cta { grid, shared, races, proxy, .. } = ended.cta;
        if grid != self.grid {
            *self = Self { grid, left: Vec::new() };
        }
        self.left.push(Memory { shared, races, proxy, warps: ended.warps });
    }

    fn take(&mut self, grid: usize, poison: u8) -> Option<Memory> {
        let mut memory = self.left.pop_if(|_| grid == self.grid)?;
        memory.shared.clear(poison);
        if let Some(races) = &mut memory.races {
            races.clear();
        }
        if let Some(proxy) = &mut memory.proxy {
            proxy.clear();
        }
        Some(memory)
    }
}

/// Removes clusters whose CTAs have all ended.
pub(crate) fn remove_ended(residents: &mut Vec<Resident>, spares: &mut Spares) {
    let (mut first, mut kept) = (0, 0);
    while let Some(resident) = residents.get(first) {
        let size = resident.cta.member.size() as usize;
        let cluster = residents.get(first..first + size);
        if cluster.is_none_or(|cluster| cluster.iter().any(|r| !r.ended)) {
            // Remaining CTAs move to the front.
            for at in first..(first + size).min(residents.len()) {
                if kept != at {
                    residents.swap(kept, at);
                }
                kept += 1;
            }
        }
        first += size;
    }
    residents.drain(kept..).for_each(|r| spares.leave(r));
}

/// Creates the next CTA of a grid.
pub(crate) fn resident(
    step: &InStream<'_>,
    globals: &[u64],
    grid: usize,
    world: &World,
    options: &Options,
    (cluster, spares): (&Together, &mut Spares),
) -> Resident {
    let check_races = options.check_races;
    let (kernel, launch) = (step.kernel, step.launch);
    let place = &world.stream.grids[grid];
    let id = place.place(place.begun);
    let threads: u32 = launch.block.iter().product();
    let dynamic = dynamic_at(kernel, launch, if options.shift_shared { options.seed } else { 0 });
    let gap = kernel.shared_bytes..dynamic;
    let shared_end = (dynamic + launch.shared_bytes) as usize;
    // Reserved shared memory is stored after the rest.
    let reserved = if kernel.reserved { SHARED_START as usize } else { 0 };
    let bytes = shared_end + reserved;
    let member = cluster.member.clone();
    let mut memory = spares.take(grid, options.poison).unwrap_or_else(|| Memory {
        shared: Region::unwritten(bytes, options.poison),
        races: check_races.then(|| Box::new(Races::new(threads.div_ceil(32) as usize, bytes))),
        proxy: kernel.async_copies.then(|| Proxy::new(bytes, threads)),
        warps: Vec::new(),
    });
    if let Some(races) = &mut memory.races {
        races.enter_grid(place, place.ctas.start + place.begun);
        races.enter_cluster(member.rank, &cluster.races);
    }
    memory.shared.put_zeros(shared_end, reserved);
    let cta = Cta {
        id,
        grid,
        shared_end,
        released: false,
        refused: false,
        shared: memory.shared,
        barriers: std::array::from_fn(|_| crate::run::cta::Barrier::default()),
        mbarriers: Default::default(),
        unseen: Default::default(),
        pending: Vec::new(),
        guarded: Default::default(),
        proxy: memory.proxy,
        drafts: Drafts::watching(if check_races { kernel.map_edits } else { Watch::Nothing }),
        acquired: Default::default(),
        awaited: Default::default(),
        races: memory.races,
        events: 0,
        size: threads,
        threads,
        dynamic_at: SHARED_START + dynamic,
        gap: gap.start as usize..gap.end as usize,
        commits: Default::default(),
        arrived_in: 0,
        member,
    };
    let live = |w: u32| {
        let left = (threads - w * 32).min(32);
        if left == 32 { !0 } else { (1u32 << left) - 1 }
    };
    let start = Start { kernel, launch, globals, poison: options.poison, workspace: place.workspace };
    let mut warps = memory.warps;
    // A warp takes the place of that of the same number, so that what depends on the number alone remains.
    for (w, warp) in (0..).zip(&mut warps) {
        start.again(&mut warp.registers, &cta, w);
        warp.again(live(w));
    }
    for w in warps.len() as u32..threads.div_ceil(32) {
        warps.push(Warp::new(w, live(w), start.registers(&cta, w)));
    }
    let random = chance(options.seed, u64::from(place.ctas.start + place.begun) << 16);
    Resident { cta, warps, ended: false, copies_wait: 0, random }
}

/// Number of 16-byte steps by which a seed may shift dynamic shared memory.
const SHIFTS: usize = 64;

/// Offset of dynamic shared memory: directly after the static variables, aligned to 16 bytes or to the alignment that the kernel
/// declares. Kernels may rely on no more, so a seed shifts it (`Options::shift_shared`), by the same amount for all CTAs of a grid.
fn dynamic_at(kernel: &Kernel, launch: &Launch, seed: u64) -> u32 {
    let shift =
        if seed == 0 || launch.shared_bytes == 0 { 0 } else { Random(!seed).below(SHIFTS) as u32 * 16 };
    (kernel.shared_bytes.next_multiple_of(16) + shift).next_multiple_of(kernel.dynamic_align.max(16))
}

/// What determines the registers of a warp at the start.
struct Start<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch,
    globals: &'a [u64],
    poison: u8,
    workspace: u64,
}

impl Start<'_> {
    /// Local memory of a lane.
    fn local_bytes(&self) -> usize {
        let Self { kernel, launch, .. } = self;
        if kernel.functions.is_empty() {
            kernel.local_bytes
        } else {
            kernel.stack_bytes.min(frames::most_local(launch)).max(kernel.local_bytes).next_multiple_of(64)
        }
    }

    /// The registers of a warp, with constants and special registers.
    fn registers(&self, cta: &Cta, warp: u32) -> Registers {
        let (kernel, local_bytes) = (self.kernel, self.local_bytes());
        let mut r = Registers {
            w: vec![[0; LANES]; kernel.w_slots],
            d: vec![[0; LANES]; kernel.d_slots],
            p: vec![0; kernel.p_slots],
            carry: 0,
            written: vec![0; kernel.watched],
            shadow: None,
            local: Region::unwritten(local_bytes * LANES, self.poison),
            local_bytes,
            most_local: frames::most_local(self.launch),
        };
        self.fill(&mut r, cta, warp, true);
        r
    }

    /// Makes the registers of a warp of this kernel that has ended those of the warp of the same number of another CTA.
    ///
    /// What they hold is not cleared, because nobody sees it. Where a lane may read a register that it has not written, extra rows
    /// replace what it reads ([`assignment`](crate::front::assignment)). Lanes that do not execute a row may compute with it, but keep
    /// what they hold, and instructions that read other lanes refuse those that do not take part. No row writes a constant.
    fn again(&self, r: &mut Registers, cta: &Cta, warp: u32) {
        let local_bytes = self.local_bytes();
        // Short, and often empty: a call of `memset` takes longer.
        r.p.iter_mut().chain(&mut r.written).for_each(|mask| *mask = 0);
        if r.local_bytes == local_bytes {
            // Every store to local memory leaves a mark, so that what has none holds the poison.
            if r.local.is_touched() {
                r.local.clear(self.poison);
            }
        } else {
            r.local = Region::unwritten(local_bytes * LANES, self.poison);
        }
        (r.carry, r.shadow, r.local_bytes) = (0, None, local_bytes);
        self.fill(r, cta, warp, cta.member.size() > 1);
    }

    /// Writes constants and special registers; if not `all`, those that differ between CTAs of a grid without clusters.
    fn fill(&self, r: &mut Registers, cta: &Cta, warp: u32, all: bool) {
        let Self { kernel, launch, globals, workspace, .. } = *self;
        let changes = |special: Special| all || matches!(special, Special::Ctaid(_) | Special::ClusterId(_));
        if all {
            fill_constants(r, kernel, globals, cta);
        }
        for (slot, name) in kernel.specials_w.iter().filter(|(_, name)| changes(*name)) {
            r.w[*slot as usize] =
                special((launch, kernel, workspace), cta, warp, *name).map(|value| value as u32);
        }
        for (slot, name) in kernel.specials_d.iter().filter(|(_, name)| changes(*name)) {
            r.d[*slot as usize] = special((launch, kernel, workspace), cta, warp, *name);
        }
    }
}

fn fill_constants(r: &mut Registers, kernel: &Kernel, globals: &[u64], cta: &Cta) {
    let value = |constant: Constant| match constant {
        Constant::Bits(bits) => bits,
        Constant::Global { index, offset } => globals[index].wrapping_add_signed(offset),
        Constant::Shared { generic, at } => {
            let at = u64::from(at) + cta.member.base();
            if generic { at + crate::memory::window::SHARED_WINDOW } else { at }
        }
        Constant::DynamicShared { generic, offset } => {
            let at = u64::from(cta.dynamic_at).wrapping_add_signed(offset) + cta.member.base();
            if generic { at + crate::memory::window::SHARED_WINDOW } else { at }
        }
    };
    for (slot, constant) in &kernel.constants_w {
        r.w[*slot as usize] = [value(*constant) as u32; LANES];
    }
    for (slot, constant) in &kernel.constants_d {
        r.d[*slot as usize] = [value(*constant); LANES];
    }
}

/// A special register of the lanes of a warp.
fn special(
    (launch, kernel, workspace): (&Launch, &Kernel, u64),
    cta: &Cta,
    warp: u32,
    special: Special,
) -> [u64; LANES] {
    let [bx, by, _] = launch.block;
    // What the lanes of a warp have in common.
    let common = |special: Special| -> u64 {
        u64::from(match special {
            Special::Ntid(axis) => launch.block[usize::from(axis) % 3],
            Special::Ctaid(axis) => cta.id[usize::from(axis) % 3],
            Special::Nctaid(axis) => launch.grid[usize::from(axis) % 3],
            Special::Warpid => warp,
            Special::Nwarpid => launch.block.iter().product::<u32>().div_ceil(32),
            Special::ClusterId(axis) => {
                cta.id[usize::from(axis) % 3] / cta.member.shape[usize::from(axis) % 3]
            }
            Special::NclusterId(axis) => {
                launch.grid[usize::from(axis) % 3] / cta.member.shape[usize::from(axis) % 3]
            }
            Special::ClusterCtaid(axis) => cta.member.place()[usize::from(axis) % 3],
            Special::ClusterNctaid(axis) => cta.member.shape[usize::from(axis) % 3],
            Special::ClusterCtarank => cta.member.rank,
            Special::ClusterNctarank => cta.member.size(),
            Special::IsExplicitCluster => u32::from(cta.member.explicit),
            Special::Smid | Special::Gridid | Special::Zero => 0,
            Special::Tid(_) | Special::Laneid => 0,
            Special::LanemaskEq | Special::LanemaskLt | Special::LanemaskLe => 0,
            Special::LanemaskGt | Special::LanemaskGe => 0,
            Special::GridWorkspace { high } => (workspace >> if high { 32 } else { 0 }) as u32,
            Special::Reserved(bytes) => bytes,
            Special::ReservedAddress(at) => at + cta.member.base() as u32,
            Special::Nsmid => 1,
            Special::DynamicSmemSize => launch.shared_bytes,
            // The requested size, without a seed's shift.
            Special::TotalSmemSize | Special::AggrSmemSize => {
                dynamic_at(kernel, launch, 0) + launch.shared_bytes
            }
        })
    };
    match special {
        Special::Tid(axis) => {
            // The first thread's place, and from there thread by thread.
            let first = warp * 32;
            let mut at = [first % bx, first / bx % by, first / bx / by];
            std::array::from_fn(|_| {
                let own = at[usize::from(axis).min(2)];
                at[0] += 1;
                if at[0] == bx {
                    (at[0], at[1]) = (0, at[1] + 1);
                }
                if at[1] == by {
                    (at[1], at[2]) = (0, at[2] + 1);
                }
                own.into()
            })
        }
        Special::Laneid => std::array::from_fn(|lane| lane as u64),
        Special::LanemaskEq => masks(|bit| bit),
        Special::LanemaskLt => masks(|bit| bit - 1),
        Special::LanemaskLe => masks(|bit| (bit - 1) | bit),
        Special::LanemaskGt => masks(|bit| !((bit - 1) | bit)),
        Special::LanemaskGe => masks(|bit| !(bit - 1)),
        other => [common(other); LANES],
    }
}

/// A mask of 32 bits for each lane, by the lane's bit.
fn masks(of: impl Fn(u32) -> u32) -> [u64; LANES] {
    std::array::from_fn(|lane| u64::from(of(1 << lane)))
}

#[cfg(test)]
mod tests {
    use crate::run::launch::{Launch, Options, launch};
    use crate::run::schedule::RESIDENT;
    use crate::{GlobalMemory, load};

    /// Runs more CTAs than are resident at once; each thread stores a word, which its body computes in `%r`.
    fn stored(body: &str) -> Vec<u32> {
        let text = format!(
            ".version 8.8\n.target sm_120\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n\
             .reg .pred %p;\n.reg .b32 %c, %t, %r, %q;\n.reg .b64 %out, %a;\nld.param.u64 %out, [p];\nmov.u32 %c, %ctaid.x;\n\
             mov.u32 %t, %tid.x;\nsetp.lt.u32 %p, %t, 7;\n{body}\nmad.lo.u32 %q, %c, 32, %t;\nmul.wide.u32 %a, %q, 4;\n\
             add.u64 %a, %a, %out;\nst.global.u32 [%a], %r;\nret;\n}}"
        );
        let program = load(&text).unwrap();
        let ctas = 3 * RESIDENT as u32;
        let mut memory = GlobalMemory::default();
        let out = memory.allocate(ctas as usize * 128);
        let params = out.to_le_bytes().to_vec();
        let how = Launch { grid: [ctas, 1, 1], block: [32, 1, 1], shared_bytes: 0, params };
        launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &Options::default()).unwrap();
        let (words, _) = memory.bytes(out).unwrap().as_chunks();
        words.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }

    #[test]
    fn a_register_that_nothing_has_written_is_undefined_in_every_cta() {
        let undefined = u32::from_le_bytes([Options::default().poison; 4]);
        let all = stored("@%p add.u32 %r, %c, 1;");
        for (n, word) in all.iter().enumerate() {
            assert_eq!(*word, if n % 32 < 7 { n as u32 / 32 + 1 } else { undefined }, "{n}");
        }
    }

    #[test]
    fn registers_of_ended_warps_change_no_result() {
        let all = stored("mov.u32 %r, 5;\n@%p add.u32 %r, %c, 1;\n@!%p shl.b32 %r, %r, %c;");
        for (n, word) in all.iter().enumerate() {
            let cta = n as u32 / 32;
            assert_eq!(*word, if n % 32 < 7 { cta + 1 } else { 5u32.checked_shl(cta).unwrap_or(0) }, "{n}");
        }
    }
}
