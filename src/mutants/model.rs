//! A mutant: one changed line of a kernel's file, and the operator that changed it.

use std::ops::Range;

use crate::record::words;

words! {
    /// A kind of fault that is planted.
    #[derive(PartialOrd, Ord)]
    Operator {
        /// An integer constant, one greater.
        ConstantUp "constant_up",
        /// An integer constant, one smaller.
        ConstantDown "constant_down",
        /// `<` for `<=`, `>` for `>=`, `==` for `!=`, and the reverse.
        Comparison "comparison",
        /// Operands of an operator or arguments of a call in the other order.
        Swap "swap",
        /// No barrier.
        Barrier "barrier",
        /// No fence.
        Fence "fence",
        /// No wait.
        Wait "wait",
        /// A weaker memory order.
        Order "order",
        /// A narrower scope.
        Scope "scope",
        /// The index of another axis.
        Axis "axis",
        /// No shift.
        Shift "shift",
        /// Another sign.
        Sign "sign",
        /// No saturation, no bound of a minimum or maximum.
        Saturation "saturation",
        /// One side of `&&` or `||` only.
        Condition "condition",
        /// One arm of `?:`, always.
        Arm "arm",
        /// No cast to 64 bits.
        Cast "cast",
    }
}

/// Words that name no operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a mutation operator; use one of {known}", known = Operator::known())]
pub struct UnknownOperator(String);

impl Operator {
    fn known() -> String {
        Self::ALL.iter().map(|o| o.word()).collect::<Vec<_>>().join(" ")
    }
}

impl std::str::FromStr for Operator {
    type Err = UnknownOperator;

    fn from_str(word: &str) -> Result<Self, UnknownOperator> {
        Self::from_word(word).ok_or_else(|| UnknownOperator(word.to_owned()))
    }
}

/// Bytes of a text and what takes their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) operator: Operator,
    pub(super) at: Range<usize>,
    pub(super) new: String,
}

/// A file with one line changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What changed it.
    pub operator: Operator,
    /// The line as it is, without the space around it.
    pub before: String,
    /// The line of the mutant.
    pub after: String,
    /// The whole text of the mutant's file.
    pub text: String,
}

impl Mutant {
    /// The mutant that an edit of one line makes; none where it spans lines or changes nothing.
    pub(super) fn of(file: &str, text: &str, edit: &Edit) -> Option<Self> {
        if text[edit.at.clone()].contains('\n') || text[edit.at.clone()] == edit.new {
            return None;
        }
        let begin = text[..edit.at.start].rfind('\n').map_or(0, |n| n + 1);
        let end = text[edit.at.end..].find('\n').map_or(text.len(), |n| edit.at.end + n);
        let changed = format!("{}{}{}", &text[begin..edit.at.start], edit.new, &text[edit.at.end..end]);
        Some(Self {
            file: file.to_owned(),
            line: text[..begin].matches('\n').count() + 1,
            operator: edit.operator,
            before: text[begin..end].trim().to_owned(),
            after: changed.trim().to_owned(),
            text: format!("{}{changed}{}", &text[..begin], &text[end..]),
        })
    }
}
