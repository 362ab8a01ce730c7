//! Registers as the decoder numbers them, and what an instruction does with them.

use ptx::Type;

/// A register bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Bank {
    P,
    W,
    D,
    /// Two slots of the 64-bit bank, low half first.
    Q,
}

impl std::fmt::Display for Bank {
    /// What a register of the bank holds.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::P => "a predicate",
            Self::W => "up to 32 bits",
            Self::D => "64 bits",
            Self::Q => "128 bits",
        })
    }
}

impl Bank {
    /// The bank of the registers of a type.
    pub(crate) fn holding(ty: Type) -> Self {
        match (ty, ty.bytes()) {
            (Type::Pred, _) => Self::P,
            (_, 8) => Self::D,
            (_, 16) => Self::Q,
            _ => Self::W,
        }
    }
}

/// A register: bank and slot.
pub(crate) type Place = (Bank, u32);

/// One instruction, as seen by data-flow analysis.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Its rows.
    pub(crate) rows: std::ops::Range<usize>,
    pub(crate) reads: Vec<Place>,
    pub(crate) writes: Vec<Place>,
    /// The registers among `writes` that are narrower than their slots, with their bits.
    pub(crate) narrow: Vec<(u32, u32)>,
    /// The registers among `reads` that are narrower than their slots, with their bits.
    pub(crate) narrow_sources: Vec<(u32, u32)>,
    /// The addresses it uses, as slot and offset.
    pub(crate) addresses: Vec<(u32, i64)>,
    /// Whether it copies one register to another: an unwritten value may be copied, but not used.
    pub(crate) copies: bool,
    /// Whether what it reads serves nothing but what it writes, so that its sources are unused if its results are.
    pub(crate) forwards: bool,
    /// The slot of its guard.
    pub(crate) guard: Option<u32>,
    /// Temporaries of earlier steps that it reads.
    pub(crate) reuses: Vec<Place>,
    /// The registers among `reads` that are bases of addresses.
    pub(crate) bases: Vec<Place>,
}
