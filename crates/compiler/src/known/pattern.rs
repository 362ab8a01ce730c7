//! The language of patterns: one instruction by opcode, modifiers and types, and what is known of its operands.

use serde::{Deserialize, Serialize};

/// A pattern for one instruction. Everything stated must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pattern {
    /// One of these opcodes; an empty list is any opcode.
    pub opcode: Vec<String>,
    /// All of these modifiers.
    pub has: Vec<String>,
    /// One word of each list is a modifier.
    pub one_of: Vec<Vec<String>>,
    /// None of these modifiers.
    pub lacks: Vec<String>,
    /// The types among the modifiers, in order: each is one of a list; an empty list is any type, and further types are free.
    pub types: Vec<Vec<String>>,
    /// Whether it has a guard.
    pub guarded: Option<bool>,
    /// How it repeats.
    pub repeats: Option<Repeats>,
    /// What is known of operands.
    pub operands: Vec<OperandPattern>,
}

/// How an instruction repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeats {
    /// It is inside a loop whose last branch depends only on values that all lanes share.
    InUniformLoop,
    /// It is inside some loop.
    InLoop,
    /// It adds the high half of a product that earlier instructions have added to the same sum: a third time if a factor is a constant that
    /// is no power of two, else a fourth time.
    SameHighProduct,
    /// It adds the high half of a product to the same sum in each round of a loop that changes no factor.
    SameHighProductInLoop,
    /// Its guard changes in a loop around it, before which a branch on the guard follows where two paths meet.
    GuardChangesInLoop,
    /// A predicate among its sources changes in a loop around it, by itself or later, and the way into the loop decides its value: a branch on it, at
    /// which two paths have met.
    PredicateChangesInLoop,
}

/// What is known of one operand. Everything stated must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperandPattern {
    /// Its position, from 0.
    pub at: usize,
    /// It is a constant of this kind: a number, or a register whose only definition moves one.
    pub constant: Option<Constant>,
    /// A vector of so many elements, one of which is a constant of this kind.
    pub vector_of_constant: Option<(usize, Constant)>,
    /// All lanes have the same value, as far as data flow shows.
    pub uniform: Option<bool>,
    /// It is a register whose value may exceed this number.
    pub may_exceed: Option<u64>,
    /// One of these parts of a register, as in `r1.h1`.
    pub part: Vec<String>,
    /// It is an f32 that is at least 0 unless it is NaN, by its definition.
    pub nonnegative: bool,
    /// It is an f32 that is above 0 unless it is NaN, by its definition.
    pub positive: bool,
    /// It shares a register with the operand at this position, at another place of the vector.
    pub shifts: Option<usize>,
    /// Its only definition matches; that of some register of it if it is a vector.
    pub defined_by: Option<Box<Pattern>>,
    /// A definition that may reach it matches: one with a guard, too, or on some path. Of a vector that of its last register.
    pub may_be_defined_by: Option<Box<Pattern>>,
    /// It may be a half of 64 bits that instructions compute as a whole: what `mov.b64 {a, b}, d`, a conversion of 64 bits to 32 or a scalar video
    /// instruction gave, unless the halves were put together just before.
    pub half_of_64_bits: bool,
    /// It is a predicate that guards an earlier instruction other than a branch, and a branch jumps over this instruction from behind that one.
    pub guards_before_branch: bool,
    /// It is a predicate that guards an instruction, or selects in one, of a block that a branch with a guard jumps over, behind this instruction: a block
    /// so short, and without access to memory, that ptxas executes it under a predicate.
    pub decides_in_skipped_block: bool,
    /// It is the predicate that guards the instruction, or that one inverted; of `d|p` it is p.
    pub is_guard: bool,
    /// A branch depends on its predicate (`q` of `d|q`, or the operand itself).
    pub predicate_decides_branch: bool,
    /// A branch depends on its value.
    pub decides_branch: bool,
}

/// A kind of constant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Constant {
    /// The bits that count, from the lowest: 32 if left out.
    pub width: Option<u32>,
    /// At least this, unsigned.
    pub least: Option<u64>,
    /// At most this, unsigned.
    pub most: Option<u64>,
    /// This bit is set.
    pub bit: Option<u32>,
    /// Read as f32, it is at most 0 (not NaN).
    pub f32_not_above_zero: bool,
    /// Read as f32, it is below 0.
    pub f32_below_zero: bool,
}

impl Constant {
    /// Whether a number is of this kind.
    #[must_use]
    pub fn admits(&self, bits: u64) -> bool {
        let width = self.width.unwrap_or(32);
        let bits = if width >= 64 { bits } else { bits & ((1 << width) - 1) };
        let float = f32::from_bits(u32::try_from(bits & 0xFFFF_FFFF).unwrap_or_default());
        self.least.is_none_or(|least| bits >= least)
            && self.most.is_none_or(|most| bits <= most)
            && self.bit.is_none_or(|bit| bits.checked_shr(bit).is_some_and(|b| b & 1 == 1))
            && (!self.f32_not_above_zero || float <= 0.0)
            && (!self.f32_below_zero || float < 0.0)
    }
}
