//! Macros that are defined under architecture tests, and constants, for the files of a tree that use them.

use std::collections::HashMap;
use std::sync::Arc;

use ptx::arch::Target;

/// Where a macro is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) file: String,
    pub(super) line: usize,
}

/// Whether a macro is defined for a target, and its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum State {
    /// No definition is reached.
    Undefined,
    /// A definition is reached; its value, if it is a number.
    Defined(Option<f64>),
    /// Whether a definition is reached cannot be determined.
    Unknown,
}

/// A macro whose definitions depend on the architecture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Derived {
    pub(super) name: String,
    /// Its first definition under an architecture test.
    pub(super) origin: Origin,
    pub(super) states: Vec<(Target, State)>,
}

impl Derived {
    fn state(&self, target: Target) -> State {
        self.states.iter().find(|(t, _)| *t == target).map_or(State::Unknown, |(_, state)| *state)
    }

    /// Whether the macro is defined for a target; `None` if unknown.
    pub(super) fn is_defined(&self, target: Target) -> Option<bool> {
        match self.state(target) {
            State::Undefined => Some(false),
            State::Defined(_) => Some(true),
            State::Unknown => None,
        }
    }

    /// Returns its value in `#if`; `None` if unknown.
    pub(super) fn value(&self, target: Target) -> Option<f64> {
        match self.state(target) {
            State::Undefined => Some(0.0),
            State::Defined(value) => value,
            State::Unknown => None,
        }
    }
}

/// The macros and constants of all files of a tree. What files define differently is left out.
#[derive(Debug, Default)]
pub(super) struct Tree {
    derived: HashMap<String, Option<Arc<Derived>>>,
    constants: HashMap<String, Option<f64>>,
}

impl Tree {
    /// Adds the macros of a file.
    pub(super) fn add(&mut self, derived: impl Iterator<Item = Arc<Derived>>) {
        for one in derived {
            let known = self.derived.entry(one.name.clone()).or_insert_with(|| Some(Arc::clone(&one)));
            if known.as_ref().is_some_and(|other| other.states != one.states) {
                *known = None;
            }
        }
    }

    /// Adds the constants of a file.
    pub(super) fn add_constants<'a>(&mut self, constants: impl Iterator<Item = (&'a str, f64)>) {
        for (name, value) in constants {
            let known = self.constants.entry(name.to_owned()).or_insert(Some(value));
            if *known != Some(value) {
                *known = None;
            }
        }
    }

    pub(super) fn derived(&self, name: &str) -> Option<Arc<Derived>> {
        self.derived.get(name).cloned().flatten()
    }

    pub(super) fn constant(&self, name: &str) -> Option<f64> {
        self.constants.get(name).copied().flatten()
    }

    /// Whether a preprocessor condition of a text names one of the macros.
    pub(super) fn is_used_by(&self, text: &str) -> bool {
        let word = |c: char| !(c.is_alphanumeric() || c == '_');
        let conditions = text.lines().filter(|line| line.trim_start().starts_with('#'));
        !self.derived.is_empty()
            && conditions.flat_map(|line| line.split(word)).any(|name| self.derived.contains_key(name))
    }
}
