//! Mutants: a mutant is one changed line of a kernel's file, with the operator that changed it.

use std::ops::Range;

use crate::record::words;

words! {
    /// A mutation operator: a kind of planted fault.
    #[derive(PartialOrd, Ord)]
    Operator {
        /// An integer constant is increased by one.
        ConstantUp "constant_up",
        /// An integer constant is decreased by one.
        ConstantDown "constant_down",
        /// `<` and `<=`, `>` and `>=`, or `==` and `!=` are exchanged.
        Comparison "comparison",
        /// The operands of an operator or the arguments of a call are exchanged.
        Swap "swap",
        /// A barrier is removed.
        Barrier "barrier",
        /// A fence is removed.
        Fence "fence",
        /// A wait is removed.
        Wait "wait",
        /// A memory order is weakened.
        Order "order",
        /// A scope is narrowed.
        Scope "scope",
        /// An index uses another axis.
        Axis "axis",
        /// A shift is removed.
        Shift "shift",
        /// A sign is changed.
        Sign "sign",
        /// Saturation, or a bound of a minimum or maximum, is removed.
        Saturation "saturation",
        /// Only one side of `&&` or `||` is kept.
        Condition "condition",
        /// One arm of `?:` is always taken.
        Arm "arm",
        /// A cast to 64 bits is removed.
        Cast "cast",
    }
}

/// A word that is not the name of an operator.
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

/// A byte range of a text and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) operator: Operator,
    pub(super) at: Range<usize>,
    pub(super) new: String,
}

/// A file with one line changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The operator that changed it.
    pub operator: Operator,
    /// The original line, trimmed.
    pub before: String,
    /// The mutated line, trimmed.
    pub after: String,
    /// The whole text of the mutant's file.
    pub text: String,
}

impl Mutant {
    /// Applies an edit; `None` if it spans several lines or changes nothing.
    pub(super) fn from_edit(file: &str, text: &str, edit: &Edit) -> Option<Self> {
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
