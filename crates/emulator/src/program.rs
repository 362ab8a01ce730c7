//! A decoded module: rows of function pointers with resolved operands, ready to run.

use std::collections::HashMap;
use std::sync::Arc;

use ptx::Type;

use super::machine::{Flow, Machine};
use super::undefined::effect::Effect;
use super::undefined::hammock::Hammock;

/// Runs one row for the lanes of the machine's mask.
pub(super) type Exec = fn(&mut Machine<'_>, &Row) -> Flow;

/// No guard.
pub(super) const UNGUARDED: u32 = u32::MAX;

/// One instruction. Operands are slots of the register banks; immediates and special registers have slots too.
pub(super) struct Row {
    pub(super) exec: Exec,
    /// Slot of the guard predicate, or [`UNGUARDED`].
    pub(super) guard: u32,
    /// What the guard is xored with: all ones for `@!p`.
    pub(super) negate: u32,
    pub(super) d: u32,
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) c: u32,
    /// Whatever the row's function wants: an offset, a flag word, a target.
    pub(super) imm: u64,
    /// Slots of vector operands.
    pub(super) list: Box<[u32]>,
    pub(super) extra: Option<Box<dyn Extra>>,
}

/// What a row needs beyond its slots.
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

    /// The extra of a known type; rows are made and run by the same file, so it is there.
    pub(super) fn extra<T: 'static>(&self) -> Option<&T> {
        (**self.extra.as_ref()?).as_any().downcast_ref()
    }
}

/// Where a row comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    /// Bytes of the text.
    pub(super) start: u32,
    pub(super) end: u32,
    /// `.loc`: file and line; 0 when there is none.
    pub(super) file: u32,
    pub(super) line: u32,
    /// Whether it is the first row of its instruction.
    pub(super) first: bool,
    /// Whether it is the last.
    pub(super) last: bool,
    /// Its instruction's number, an index of [`Kernel::effects`]; [`NO_STEP`] where it belongs to none.
    pub(super) step: u32,
    /// The addresses that the instruction uses, as slot and offset, with its last row; [`NO_SLOT`] where there is none.
    pub(super) addresses: [(u32, i64); 2],
}

/// No instruction.
pub(super) const NO_STEP: u32 = u32::MAX;

/// No slot.
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
    /// Of a row that was put beside one of this origin.
    pub(super) fn beside(self) -> Self {
        Self { first: false, last: false, step: NO_STEP, addresses: [(NO_SLOT, 0); 2], ..self }
    }
}

/// What a constant slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Constant {
    Bits(u64),
    /// The address of a module variable in global memory.
    Global {
        index: usize,
        offset: i64,
    },
    /// A place in the CTA's static shared memory: a shared address, or a generic one.
    Shared {
        generic: bool,
        at: u32,
    },
    /// Where dynamic shared memory begins: a shared address, or a generic one.
    DynamicShared {
        generic: bool,
        offset: i64,
    },
}

/// A special register that is the same for a thread's life.
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
    /// A place there that is used as an address.
    ReservedAddress(u32),
    Zero,
}

/// A kernel parameter.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Where it lies in the parameter bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// Its element type.
    pub ty: Type,
    /// The alignment in bytes that it promises of what it points at (`.ptr .align`); 1 where it promises none.
    pub align: u64,
}

/// A decoded kernel.
pub struct Kernel {
    /// Its name.
    pub name: String,
    pub(super) rows: Vec<Row>,
    pub(super) origins: Vec<Origin>,
    /// What its instructions do with undefined bits.
    pub(super) effects: Vec<Effect>,
    /// Its branches around nothing but arithmetic, by row.
    pub(super) hammocks: HashMap<u32, Hammock>,
    pub(super) w_slots: usize,
    pub(super) d_slots: usize,
    pub(super) p_slots: usize,
    pub(super) constants_w: Vec<(u32, Constant)>,
    pub(super) constants_d: Vec<(u32, Constant)>,
    pub(super) specials_w: Vec<(u32, Special)>,
    pub(super) specials_d: Vec<(u32, Special)>,
    /// Registers whose lanes are watched, because flow leaves open whether they were written.
    pub(super) watched: usize,
    /// Whether it has copies that use shared memory through the async proxy.
    pub(super) async_copies: bool,
    /// Whether it asks for reserved shared memory.
    pub(super) reserved: bool,
    /// Where it changes tensor maps.
    pub(super) map_edits: super::drafts::Watch,
    /// Its parameters.
    pub params: Vec<Parameter>,
    /// Bytes of all parameters.
    pub param_bytes: usize,
    /// Static shared memory, bytes.
    pub shared_bytes: u32,
    /// The alignment that it asks for where dynamic shared memory begins.
    pub(super) dynamic_align: u32,
    /// Local memory of one thread, bytes.
    pub(super) local_bytes: usize,
    /// `.reqntid`, when there.
    pub required_threads: Option<[u32; 3]>,
    /// `.maxntid` as a product, when there.
    pub max_threads: Option<u64>,
    /// What its directives say of clusters.
    pub(super) cluster: super::cluster::Directives,
}

impl Kernel {
    /// Slots of the 32-bit, the 64-bit and the predicate bank that a warp has for it.
    #[must_use]
    pub fn register_slots(&self) -> [usize; 3] {
        [self.w_slots, self.d_slots, self.p_slots]
    }

    /// Bytes of a warp's registers.
    #[must_use]
    pub fn register_bytes(&self) -> usize {
        super::machine::LANES * (4 * self.w_slots + 8 * self.d_slots) + 4 * self.p_slots
    }
}

/// A module variable in global or constant memory.
#[derive(Debug, Clone)]
pub(super) struct Static {
    pub(super) bytes: Vec<u8>,
    /// Addresses to be filled in: offset in `bytes`, variable, addend.
    pub(super) relocations: Vec<(usize, usize, i64)>,
}

/// Where a module variable lies.
#[derive(Debug, Clone, Copy)]
pub(super) enum VariablePlace {
    /// A number of [`Program::globals`].
    Global(usize),
    /// A byte of [`Program::constants`].
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
    /// The text it was made of.
    pub(super) text: Arc<str>,
    pub(super) files: HashMap<u32, String>,
    /// Its kernels, by name: those that were asked for.
    pub kernels: Vec<Kernel>,
    /// The names of all entries of the text, in its order.
    pub entries: Vec<String>,
    pub(super) globals: Vec<Static>,
    pub(super) constants: Vec<u8>,
    pub(super) variables: Vec<ModuleVariable>,
    /// The target's architecture number: 121 for `sm_121a`.
    pub(super) arch: u32,
    /// Whether products and sums were contracted.
    pub(super) contracted: bool,
}

impl Program {
    /// The kernel of this name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}
