//! A decoded module: rows of function pointers with resolved operands.

use std::collections::HashMap;
use std::sync::Arc;

use ptx::Type;

use super::machine::{Flow, Machine};
use super::undefined::effect::Effect;
use super::undefined::hammock::Hammock;

/// Executes one row for the lanes of the machine's mask.
pub(super) type Exec = fn(&mut Machine<'_>, &Row) -> Flow;

/// No guard.
pub(super) const UNGUARDED: u32 = u32::MAX;

/// One step of an instruction. Operands are slots of the register banks; immediates and special registers have slots too.
pub(super) struct Row {
    pub(super) exec: Exec,
    /// Slot of the guard predicate, or [`UNGUARDED`].
    pub(super) guard: u32,
    /// Mask that is xored with the guard: all ones for `@!p`.
    pub(super) negate: u32,
    pub(super) d: u32,
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) c: u32,
    /// Data for the row's function: an offset, a flag word, a target.
    pub(super) imm: u64,
    /// Slots of vector operands.
    pub(super) list: Box<[u32]>,
    pub(super) extra: Option<Box<dyn Extra>>,
}

/// Data of a row that does not fit in its slots.
pub(super) trait Extra: Send + Sync + std::any::Any {
    fn as_any(&self) -> &dyn std::any::Any;
}

impl<T: Send + Sync + 'static> Extra for T {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl Row {
    pub(super) fn new(exec: Exec) -> Self {
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
    pub(super) fn extra<T: 'static>(&self) -> Option<&T> {
        (**self.extra.as_ref()?).as_any().downcast_ref()
    }
}

/// The source of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    /// Byte range in the text.
    pub(super) start: u32,
    pub(super) end: u32,
    /// File and line from `.loc`; 0 if there is none.
    pub(super) file: u32,
    pub(super) line: u32,
    /// Whether it is the first row of its instruction.
    pub(super) first: bool,
    /// Whether it is the last row of its instruction.
    pub(super) last: bool,
    /// Index of its instruction in [`Kernel::effects`]; [`NO_STEP`] if it belongs to none.
    pub(super) step: u32,
    /// On an instruction's last row, the addresses that it uses, as slot and offset; [`NO_SLOT`] if unused.
    pub(super) addresses: [(u32, i64); 2],
}

pub(super) const NO_STEP: u32 = u32::MAX;

pub(super) const NO_SLOT: u32 = u32::MAX;

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
    pub(super) fn beside(self) -> Self {
        Self { first: false, last: false, step: NO_STEP, addresses: [(NO_SLOT, 0); 2], ..self }
    }
}

/// The value of a constant slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Constant {
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
pub(super) enum Special {
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

/// A decoded kernel.
pub struct Kernel {
    /// Its name.
    pub name: String,
    pub(super) rows: Vec<Row>,
    pub(super) origins: Vec<Origin>,
    /// How its instructions propagate undefined bits.
    pub(super) effects: Vec<Effect>,
    /// Its branches around purely arithmetic code, by row.
    pub(super) hammocks: HashMap<u32, Hammock>,
    pub(super) w_slots: usize,
    pub(super) d_slots: usize,
    pub(super) p_slots: usize,
    pub(super) constants_w: Vec<(u32, Constant)>,
    pub(super) constants_d: Vec<(u32, Constant)>,
    pub(super) specials_w: Vec<(u32, Special)>,
    pub(super) specials_d: Vec<(u32, Special)>,
    /// Number of registers that are tracked per lane because some path may read them unwritten.
    pub(super) watched: usize,
    /// Whether it has copies that access shared memory through the async proxy.
    pub(super) async_copies: bool,
    /// Whether it uses reserved shared memory.
    pub(super) reserved: bool,
    /// The state spaces in which it modifies tensor maps.
    pub(super) map_edits: super::drafts::Watch,
    /// Its parameters.
    pub params: Vec<Parameter>,
    /// Size of all parameters in bytes.
    pub param_bytes: usize,
    /// Static shared memory, bytes.
    pub shared_bytes: u32,
    /// The alignment that it declares for dynamic shared memory.
    pub(super) dynamic_align: u32,
    /// Local memory of one thread, bytes.
    pub(super) local_bytes: usize,
    /// `.reqntid`, if present.
    pub required_threads: Option<[u32; 3]>,
    /// The product of `.maxntid`, if present.
    pub max_threads: Option<u64>,
    /// Its directives about clusters.
    pub(super) cluster: super::cluster::Directives,
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
        super::machine::LANES * (4 * self.w_slots + 8 * self.d_slots) + 4 * self.p_slots
    }
}

/// A module variable in global or constant memory.
#[derive(Debug, Clone)]
pub(super) struct Static {
    pub(super) bytes: Vec<u8>,
    /// Addresses to fill in: offset in `bytes`, variable, addend.
    pub(super) relocations: Vec<(usize, usize, i64)>,
}

/// The location of a module variable.
#[derive(Debug, Clone, Copy)]
pub(super) enum VariablePlace {
    /// Index in [`Program::globals`].
    Global(usize),
    /// Byte offset in [`Program::constants`].
    Const(usize),
}

/// A module variable that a host can set.
#[derive(Debug, Clone)]
pub(super) struct ModuleVariable {
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) place: VariablePlace,
}

/// A decoded module.
pub struct Program {
    /// The PTX text.
    pub(super) text: Arc<str>,
    pub(super) files: HashMap<u32, String>,
    /// The loaded kernels.
    pub kernels: Vec<Kernel>,
    /// The names of all entries in the text, in order.
    pub entries: Vec<String>,
    pub(super) globals: Vec<Static>,
    pub(super) constants: Vec<u8>,
    pub(super) variables: Vec<ModuleVariable>,
    /// The target's architecture number: 121 for `sm_121a`.
    pub(super) arch: u32,
    /// Whether products and sums were contracted into FMAs.
    pub(super) contracted: bool,
}

impl Program {
    /// Returns the kernel with this name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}
