//! The table of forms for programs that write instructions, such as generators of kernels.

use super::{FORMS, Order};

/// A form of PTX: a line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedForm {
    /// The opcode.
    pub opcode: &'static str,
    /// The words after it that belong to its name.
    pub name: Vec<&'static str>,
    /// The version of PTX that introduced it.
    pub since: (u32, u32),
    /// The groups of modifiers, in an order that ptxas accepts.
    pub groups: Vec<ListedWords>,
    /// The operands.
    pub operands: Vec<ListedOperand>,
}

/// Words of which an instruction has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedWords {
    /// The words, with the versions of PTX that introduced them.
    pub words: Vec<(&'static str, (u32, u32))>,
    /// Whether it may have none.
    pub optional: bool,
    /// Whether operands refer to it by its position among such groups.
    pub is_type: bool,
}

/// An operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedOperand {
    /// The modifier with which it is there.
    pub with: Option<&'static str>,
    /// Whether it may be missing.
    pub optional: bool,
    /// Its kinds, in the notation of the table: `r1`, `v:u32(0..255)`, `p/p|p`.
    pub kinds: &'static str,
}

/// Every form of the table, sorted by opcode.
#[must_use]
pub fn listed_forms() -> Vec<ListedForm> {
    let mut opcodes: Vec<&'static str> = FORMS.keys().copied().collect();
    opcodes.sort_unstable();
    let of = |opcode: &'static str| {
        FORMS[opcode].iter().map(move |form| ListedForm {
            opcode,
            name: form.name.clone(),
            since: form.since,
            groups: form
                .groups
                .iter()
                .map(|group| ListedWords {
                    words: group.words.clone(),
                    optional: group.optional,
                    is_type: group.order == Order::Types,
                })
                .collect(),
            operands: form.operands.iter().map(super::operand::Slot::listed).collect(),
        })
    };
    opcodes.into_iter().flat_map(of).collect()
}
