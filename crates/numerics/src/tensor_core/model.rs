//! The parameters of each architecture's fused sums.

use super::MmaForm;
use crate::format::Format;

/// An architecture whose arithmetic is modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Model {
    /// Ampere.
    Sm80,
    /// Ada.
    Sm89,
    /// Hopper, `mma.sync`.
    Sm90,
    /// Data-centre Blackwell.
    Sm100,
    /// RTX Blackwell and GB10.
    Sm120,
}

/// How the terms of a fused sum are formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Kind {
    /// Each product is a term; block scales shift its exponent.
    Products,
    /// The exact sum of this many products is a term, aligned only by the exponents of the scales.
    Groups(usize),
    /// Operands are widened to binary16 and accumulated onto zero in two halves; a separate `add.rn` then adds C.
    ///
    /// Taken from the code that ptxas generates for `mma.sync` with 8-bit floats on sm_90: `F2FP.UNPACK_B` of each
    /// register's lower and upper half, two `HMMA` onto `RZ`, one `FADD` or `HADD2`. The first half has K mod 4 below 2.
    Widened,
}

/// How a sum is converted to the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Output {
    /// binary32, toward zero; overflow is infinity.
    Single,
    /// binary32 with 13 fraction bits, toward zero.
    Single13,
    /// binary16, to nearest even.
    Half,
}

/// The accumulation parameters of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Rule {
    /// How terms are formed.
    pub kind: Kind,
    /// Products in one fused sum; a longer K is a chain of sums, where each result is C of the next.
    pub depth: usize,
    /// Bits kept below the largest exponent.
    pub fraction: i32,
    /// The nominal exponent of a zero term.
    pub zero_exponent: i32,
    /// The final conversion.
    pub output: Output,
}

impl Model {
    /// Every model.
    pub const ALL: [Self; 5] = [Self::Sm80, Self::Sm89, Self::Sm90, Self::Sm100, Self::Sm120];

    /// The name of the architecture, such as `sm_90`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm80 => "sm_80",
            Self::Sm89 => "sm_89",
            Self::Sm90 => "sm_90",
            Self::Sm100 => "sm_100",
            Self::Sm120 => "sm_120",
        }
    }

    /// Parses the name of an architecture.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// Returns the parameters of `form` (from MMA-Sim's table; for Hopper's 8-bit operands see [`Kind::Widened`]).
    ///
    /// A form that the architecture lacks gets parameters too: with scales and K = 64 those of Blackwell, otherwise the
    /// precision of the architecture's 16-bit forms.
    #[must_use]
    pub fn rule(self, form: &MmaForm) -> Rule {
        let half = form.accumulator == Format::F16;
        let output = if half { Output::Half } else { Output::Single };
        if form.scale.is_some() && form.shape.k == 64 {
            return Rule {
                kind: Kind::Groups(16),
                depth: 64,
                fraction: 35,
                zero_exponent: -139,
                output: Output::Single,
            };
        }
        let narrow = form.a.bits() <= 8;
        let (fraction, zero_exponent, bytes) = match self {
            Self::Sm80 | Self::Sm89 => (24, -132, 16),
            Self::Sm90 | Self::Sm100 | Self::Sm120 => (25, -133, 32),
        };
        // The exponent of zero is equally far below the minimum exponent of either accumulator format.
        let zero_exponent = if half { zero_exponent + 112 } else { zero_exponent };
        let depth = match form.a.bits() {
            32 => bytes / 4,
            16 => bytes / 2,
            _ => bytes,
        };
        let rule = Rule { kind: Kind::Products, depth, fraction, zero_exponent, output };
        match self {
            Self::Sm89 if narrow => {
                let output = if half { Output::Half } else { Output::Single13 };
                Rule { fraction: 13, output, ..rule }
            }
            Self::Sm90 if narrow => Rule { kind: Kind::Widened, depth: form.shape.k.div_ceil(2), ..rule },
            _ => rule,
        }
    }
}
