//! Functions and calls of a decoded kernel.

use crate::api::trap::Unsupported;
use crate::front::registers::Place;

/// A parameter of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Formal {
    /// In its frame.
    Frame {
        at: u32,
        bytes: u32,
    },
    Register(Place),
}

impl Formal {
    /// Whether a value for one parameter can be passed as another.
    pub(crate) fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Frame { bytes, .. }, Self::Frame { bytes: others, .. }) => bytes == others,
            (Self::Register((bank, _)), Self::Register((other, _))) => bank == other,
            _ => false,
        }
    }
}

/// What a call passes, or where it takes a result.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Actual {
    /// A variable in the caller's frame.
    Frame(u32),
    /// A parameter of the entry.
    Param(u64),
    /// A register or a constant.
    Register(Place),
}

/// The function that a call reaches.
#[derive(Debug)]
pub(crate) enum Target {
    /// By its number in the kernel.
    Function(u32),
    /// The one whose address a slot of the 64-bit bank holds. Its parameters are like these; if `among` is given, it is one of these.
    Pointer { slot: u32, params: Vec<Formal>, returns: Vec<Formal>, among: Option<Vec<u64>> },
}

/// A call.
#[derive(Debug)]
pub(crate) struct CallSite {
    pub(crate) target: Target,
    pub(crate) arguments: Vec<Actual>,
    pub(crate) results: Vec<Actual>,
    /// The caller by its number in the kernel; `None` for the entry.
    pub(crate) caller: Option<u32>,
}

/// A decoded function of a kernel.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) address: Option<u64>,
    /// Its first row.
    pub(crate) entry: u32,
    /// The slot of the 64-bit bank that holds the start of its frame.
    pub(crate) frame: u32,
    pub(crate) frame_bytes: usize,
    /// The alignment of its frame.
    pub(crate) align: u64,
    /// Bytes of stack that a frame takes in any compilation: its variables and the return address.
    pub(crate) stack_bytes: u64,
    pub(crate) params: Vec<Formal>,
    pub(crate) returns: Vec<Formal>,
    /// If it can be active twice in a thread: its slots of the 32-bit, the 64-bit and the predicate bank.
    pub(crate) saved: Option<[Vec<u32>; 3]>,
    /// Its tracked registers.
    pub(crate) watched: Vec<u32>,
    /// Why it cannot be called: only pointers reach it, so a kernel that never calls it runs.
    pub(crate) refused: Option<Unsupported>,
}
