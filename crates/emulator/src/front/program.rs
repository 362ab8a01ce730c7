//! A decoded module: rows of function pointers with resolved operands.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use ptx::{Instruction, Type};

use crate::isa::operations::Operations;
use crate::memory::window::SHARED_START;
use crate::rules::undefined::effect::Effect;
use crate::rules::undefined::hammock::Hammock;
use crate::run::device_launch::Launchable;
use crate::run::machine::{Flow, Machine};

/// Executes one row for the lanes of the machine's mask.
pub(crate) type Exec = fn(&mut Machine<'_>, &Row) -> Flow;

/// No guard.
pub(crate) const UNGUARDED: u32 = u32::MAX;

/// One step of an instruction. Operands are slots of the register banks; immediates and special registers have slots too.
pub(crate) struct Row {
    pub(crate) exec: Exec,
    /// Slot of the guard predicate, or [`UNGUARDED`].
    pub(crate) guard: u32,
    /// Mask that is xored with the guard: all ones for `@!p`.
    pub(crate) negate: u32,
    pub(crate) d: u32,
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) c: u32,
    /// Data for the row's function: an offset, a flag word, a target.
    pub(crate) imm: u64,
    /// Slots of vector operands.
    pub(crate) list: Box<[u32]>,
    pub(crate) extra: Option<Box<dyn Extra>>,
}

/// Data of a row that does not fit in its slots.
pub(crate) trait Extra: Send + Sync + std::any::Any {
    fn as_any(&self) -> &dyn std::any::Any;
}

impl<T: Send + Sync + 'static> Extra for T {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl Row {
    pub(crate) fn new(exec: Exec) -> Self {
        Self {
            exec,
            guard: UNGUARDED,
            negate: 0,
            d: 0,
            a: 0,
            b: 0,
            c: 0,
            imm: 0,
            list: Box::default(),
            extra: None,
        }
    }

    /// The extra data as its concrete type. The module that creates a row also runs it, so the type matches.
    pub(crate) fn extra<T: 'static>(&self) -> Option<&T> {
        (**self.extra.as_ref()?).as_any().downcast_ref()
    }
}

/// The source of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// Byte range in the text.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// File and line from `.loc`; 0 if there is none.
    pub(crate) file: u32,
    pub(crate) line: u32,
    /// Whether it is the first row of its instruction.
    pub(crate) first: bool,
    /// Whether it is the last row of its instruction.
    pub(crate) last: bool,
    /// Index of its instruction in [`Kernel::effects`]; [`NO_STEP`] if it belongs to none.
    pub(crate) step: u32,
    /// On an instruction's last row, the addresses that it uses, as slot and offset; [`NO_SLOT`] if unused.
    pub(crate) addresses: [(u32, i64); 2],
}

pub(crate) const NO_STEP: u32 = u32::MAX;

pub(crate) const NO_SLOT: u32 = u32::MAX;

impl Default for Origin {
    fn default() -> Self {
        Self {
            start: 0,
            end: 0,
            file: 0,
            line: 0,
            first: false,
            last: false,
            step: NO_STEP,
            addresses: [(NO_SLOT, 0); 2],
        }
    }
}

impl Origin {
    /// The origin of a row that was inserted next to a row of this origin.
    pub(crate) fn inserted_row(self) -> Self {
        Self { first: false, last: false, step: NO_STEP, addresses: [(NO_SLOT, 0); 2], ..self }
    }
}

/// The value of a constant slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Bits(u64),
    /// The address of a module variable in global memory.
    Global {
        index: usize,
        offset: i64,
    },
    /// An address in the CTA's static shared memory, as a shared or a generic address.
    Shared {
        generic: bool,
        at: u32,
    },
    /// The start of dynamic shared memory, as a shared or a generic address.
    DynamicShared {
        generic: bool,
        offset: i64,
    },
}

/// A special register that is constant during a thread's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Laneid,
    Warpid,
    Nwarpid,
    Smid,
    Nsmid,
    Gridid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    DynamicSmemSize,
    TotalSmemSize,
    AggrSmemSize,
    ClusterId(u8),
    NclusterId(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    /// Half of the address of the workspace of a cooperative launch.
    GridWorkspace {
        high: bool,
    },
    /// A size or place of reserved shared memory.
    Reserved(u32),
    /// An address in reserved shared memory.
    ReservedAddress(u32),
    Zero,
}

impl Special {
    /// The special register with a name; `mov` reads clocks and the like itself.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let axis = |rest: &str| match rest {
            ".x" => Some(0u8),
            ".y" => Some(1),
            ".z" => Some(2),
            _ => None,
        };
        for (prefix, make) in [
            ("%tid", Special::Tid as fn(u8) -> Special),
            ("%ntid", Special::Ntid),
            ("%ctaid", Special::Ctaid),
            ("%nctaid", Special::Nctaid),
            ("%clusterid", Special::ClusterId),
            ("%nclusterid", Special::NclusterId),
            ("%cluster_ctaid", Special::ClusterCtaid),
            ("%cluster_nctaid", Special::ClusterNctaid),
        ] {
            if let Some(axis) = name.strip_prefix(prefix).and_then(axis) {
                return Some(make(axis));
            }
        }
        Some(match name {
            "%laneid" => Special::Laneid,
            "%warpid" => Special::Warpid,
            "%nwarpid" => Special::Nwarpid,
            "%smid" => Special::Smid,
            "%nsmid" => Special::Nsmid,
            "%gridid" => Special::Gridid,
            "%lanemask_eq" => Special::LanemaskEq,
            "%lanemask_le" => Special::LanemaskLe,
            "%lanemask_lt" => Special::LanemaskLt,
            "%lanemask_ge" => Special::LanemaskGe,
            "%lanemask_gt" => Special::LanemaskGt,
            "%dynamic_smem_size" => Special::DynamicSmemSize,
            "%total_smem_size" => Special::TotalSmemSize,
            "%aggr_smem_size" => Special::AggrSmemSize,
            "%cluster_ctarank" => Special::ClusterCtarank,
            "%cluster_nctarank" => Special::ClusterNctarank,
            "%envreg1" => Special::GridWorkspace { high: true },
            "%envreg2" => Special::GridWorkspace { high: false },
            // As ptxas 13.5 defines them for sm_121; the driver knows the position of `_1`, which is in between here.
            "%reserved_smem_offset_begin" => Special::Reserved(0),
            "%reserved_smem_offset_end" | "%reserved_smem_offset_cap" => Special::Reserved(SHARED_START),
            "%reserved_smem_offset_0" => Special::ReservedAddress(0x40),
            "%reserved_smem_offset_1" => Special::ReservedAddress(0x80),
            // Set by the driver: their values without one are unspecified.
            _ if name.strip_prefix("%envreg").and_then(|n| n.parse::<u8>().ok()).is_some_and(|n| n < 32) => {
                Special::Zero
            }
            _ => return None,
        })
    }
}

/// A kernel parameter.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Offset in the parameter bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// Its element type.
    pub ty: Type,
    /// The alignment in bytes of the memory it points to, from `.ptr .align`; 1 if none is declared.
    pub align: u64,
}

/// How a kernel uses global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GlobalUse {
    /// By weak loads and stores, texture fetches and loads from surfaces alone, which nothing but a barrier of the CTA orders.
    Plain,
    /// By relaxed atomics, too.
    Atomics,
    /// In other ways, too: strong loads and stores, asynchronous copies, stores to surfaces.
    Other,
    /// It may allocate and free memory.
    Allocates,
}

impl GlobalUse {
    /// How an instruction that is no call uses it.
    pub(crate) fn of_instruction(i: &Instruction) -> Self {
        let orders = i.has("acquire") || i.has("release") || i.has("acq_rel");
        let strong = orders || i.has("volatile") || i.has("relaxed") || i.has("mmio");
        let elsewhere = i.modifiers.iter().any(|space| {
            matches!(space.as_str(), "shared" | "shared::cta" | "local" | "const" | "param" | "param::entry")
        });
        let other = match i.opcode.as_str() {
            _ if i.has("async") => true,
            "ld" | "st" => strong && !elsewhere,
            "atom" | "red" if !orders => {
                return if elsewhere { Self::Plain } else { Self::Atomics };
            }
            "atom" | "red" => !elsewhere,
            "cp"
            | "multimem"
            | "tensormap"
            | "sust"
            | "sured"
            | "griddepcontrol"
            | "clusterlaunchcontrol" => true,
            _ => false,
        };
        if other { Self::Other } else { Self::Plain }
    }
}

/// Whether the clusters of a kernel could run apart, launch by launch. Where they could not, the attempt is waste.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failures: AtomicU32,
    /// Launches for which no attempt is made.
    skipped: AtomicU32,
}

impl Attempts {
    /// Whether an attempt is worthwhile: not after failures, but for every second, fourth and so on launch up to every 64th.
    pub(crate) fn tries(&self) -> bool {
        let step = |left: u32| left.checked_sub(1);
        self.skipped.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).is_err()
    }

    /// Records how an attempt ended.
    pub(crate) fn ended(&self, well: bool) {
        if well {
            self.failures.store(0, Ordering::Relaxed);
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        self.skipped.store((1 << failures.min(6)) - 1, Ordering::Relaxed);
    }
}

/// A decoded kernel.
pub struct Kernel {
    /// Its name.
    pub name: String,
    pub(crate) rows: Vec<Row>,
    /// The operations of its rows.
    pub(crate) operations: Operations,
    pub(crate) origins: Vec<Origin>,
    /// How its instructions propagate undefined bits.
    pub(crate) effects: Vec<Effect>,
    /// Its branches around purely arithmetic code, by row.
    pub(crate) hammocks: HashMap<u32, Hammock>,
    pub(crate) w_slots: usize,
    pub(crate) d_slots: usize,
    pub(crate) p_slots: usize,
    pub(crate) constants_w: Vec<(u32, Constant)>,
    pub(crate) constants_d: Vec<(u32, Constant)>,
    pub(crate) specials_w: Vec<(u32, Special)>,
    pub(crate) specials_d: Vec<(u32, Special)>,
    /// Number of registers that are tracked per lane because some path may read them unwritten.
    pub(crate) watched: usize,
    /// Whether it has copies that access shared memory through the async proxy.
    pub(crate) async_copies: bool,
    /// Whether it requests the work of CTAs that have not begun (`clusterlaunchcontrol`).
    pub(crate) takes_work: bool,
    /// How it uses global memory.
    pub(crate) global_use: GlobalUse,
    /// Whether its clusters could run apart so far.
    pub(crate) attempts: Attempts,
    /// Whether it uses reserved shared memory.
    pub(crate) reserved: bool,
    /// The state spaces in which it modifies tensor maps.
    pub(crate) map_edits: crate::rules::drafts::Watch,
    /// Its parameters.
    pub params: Vec<Parameter>,
    /// Size of all parameters in bytes.
    pub param_bytes: usize,
    /// Static shared memory, bytes.
    pub shared_bytes: u32,
    /// The alignment that it declares for dynamic shared memory.
    pub(crate) dynamic_align: u32,
    /// Bytes of the entry's frame in the local memory of one thread.
    pub local_bytes: usize,
    /// Local memory with which a thread begins: enough for all frames if no function calls itself.
    pub(crate) stack_bytes: usize,
    /// The functions that it calls, by number in [`CallSite`](crate::front::calls::CallSite).
    pub(crate) functions: Vec<crate::front::calls::Function>,
    /// `.reqntid`, if present.
    pub required_threads: Option<[u32; 3]>,
    /// The product of `.maxntid`, if present.
    pub max_threads: Option<u64>,
    /// Its directives about clusters.
    pub(crate) cluster: crate::run::cluster::Directives,
}

impl Kernel {
    /// Whether a row only computes registers from registers, lane by lane.
    pub(crate) fn is_pure(&self, pc: u32) -> bool {
        let effect = self.origins.get(pc as usize).and_then(|origin| self.effects.get(origin.step as usize));
        effect.is_some_and(|effect| effect.pure)
    }
}

impl Kernel {
    /// Slots per warp of the 32-bit, the 64-bit and the predicate bank.
    #[must_use]
    pub fn register_slots(&self) -> [usize; 3] {
        [self.w_slots, self.d_slots, self.p_slots]
    }

    /// Size of a warp's registers in bytes.
    #[must_use]
    pub fn register_bytes(&self) -> usize {
        crate::run::machine::LANES * (4 * self.w_slots + 8 * self.d_slots) + 4 * self.p_slots
    }
}

/// A module variable in global or constant memory.
#[derive(Debug, Clone)]
pub(crate) struct Static {
    pub(crate) bytes: Vec<u8>,
    /// Addresses to fill in: offset in `bytes`, variable, addend.
    pub(crate) relocations: Vec<(usize, usize, i64)>,
}

/// The location of a module variable.
#[derive(Debug, Clone, Copy)]
pub(crate) enum VariablePlace {
    /// Index in [`Program::globals`].
    Global(usize),
    /// Byte offset in [`Program::constants`].
    Const(usize),
}

/// A module variable that a host can set.
#[derive(Debug, Clone)]
pub(crate) struct ModuleVariable {
    pub(crate) name: String,
    pub(crate) size: usize,
    pub(crate) place: VariablePlace,
}

/// A decoded module.
pub struct Program {
    /// The PTX text.
    pub(crate) text: Arc<str>,
    pub(crate) files: HashMap<u32, String>,
    /// The texts of sources, by their names in `.file`.
    pub(crate) sources: HashMap<String, Arc<str>>,
    /// The loaded kernels.
    pub kernels: Vec<Kernel>,
    /// The names of all entries in the text, in order.
    pub entries: Vec<String>,
    /// The kernels that kernels may launch, by address.
    pub(crate) launchable: HashMap<u64, Launchable>,
    pub(crate) globals: Vec<Static>,
    pub(crate) constants: Vec<u8>,
    pub(crate) variables: Vec<ModuleVariable>,
    /// The target's architecture number: 121 for `sm_121a`.
    pub(crate) arch: u32,
    /// Whether products and sums were contracted into FMAs.
    pub(crate) contracted: bool,
    /// Where the lines of the text end, once asked for.
    pub(crate) line_ends: OnceLock<Vec<usize>>,
}

impl Program {
    /// The architecture number of its `.target`: 121 for `sm_121a`.
    #[must_use]
    pub fn arch(&self) -> u32 {
        self.arch
    }

    /// The bytes of its constant memory.
    #[must_use]
    pub const fn constant_bytes(&self) -> usize {
        self.constants.len()
    }

    /// The line of the text, from 1, in which a byte is.
    pub(crate) fn line(&self, at: usize) -> usize {
        let ends = self.line_ends.get_or_init(|| self.text.match_indices('\n').map(|(end, _)| end).collect());
        ends.partition_point(|end| *end < at) + 1
    }

    /// Makes the text of a source known, by its name in `.file`, so that messages show its lines.
    pub fn know_source(&mut self, name: &str, text: &str) {
        self.sources.insert(name.to_owned(), text.into());
    }

    /// The text of a line of a source that is known, with single spaces.
    pub(crate) fn source_line(&self, name: &str, line: u32) -> Option<String> {
        let row = self.sources.get(name)?.lines().nth((line as usize).checked_sub(1)?)?;
        Some(row.split_whitespace().collect::<Vec<_>>().join(" ")).filter(|row| !row.is_empty())
    }

    /// Returns the kernel with this name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}
