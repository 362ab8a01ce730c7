//! What changed lines can reach: whether a kernel, compiled with given macros, is another one.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::lines::{self, Changed};
use super::preprocessor::kept;
use crate::kernel::Library;
use crate::moe::sources::KernelSource;

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) file: String,
    /// The text before; none where nobody knows it, and then every line changed.
    pub(super) old: Option<String>,
    pub(super) lines: Changed,
}

/// A kernel's file and the macros that it is compiled with.
type Compiled = (String, Vec<(String, String)>);

/// Configurations of kernels and what the changes do to them.
pub(super) struct Reach<'l> {
    now: &'l Library,
    before: Library,
    changes: &'l [Change],
    /// By kernel and macros: for each change whether it makes another kernel.
    known: RefCell<BTreeMap<Compiled, Vec<bool>>>,
}

impl<'l> Reach<'l> {
    pub(super) fn new(now: &'l Library, changes: &'l [Change]) -> Self {
        let mut before = now.clone();
        for change in changes {
            let Some(old) = &change.old else { continue };
            if let Some(text) = before.includes.get_mut(&change.file) {
                text.clone_from(old);
            }
            for kernel in before.kernels.iter_mut().filter(|k| k.own && k.file == change.file) {
                kernel.text.clone_from(old);
            }
        }
        Self { now, before, changes, known: RefCell::default() }
    }

    /// For each change whether the source, compiled as it is asked, is another one by it.
    pub(super) fn of(&self, source: &KernelSource<'_>) -> Vec<bool> {
        let kernel = source.kernel;
        let key = (format!("{} {}", kernel.file, kernel.own), source.defines.clone());
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        let before = self.before.kernels.iter().find(|k| (&k.file, k.own) == (&kernel.file, kernel.own));
        let of = |change: &Change| {
            let new = kept(self.now, kernel, &source.defines, &change.file);
            let (Some(old_text), Some(before)) = (&change.old, before) else { return !new.is_empty() };
            let old = kept(&self.before, before, &source.defines, &change.file);
            let new_text = self
                .now
                .includes
                .get(&change.file)
                .filter(|_| kernel.file != change.file)
                .map_or(kernel.text.as_str(), String::as_str);
            code(old_text, &old) != code(new_text, &new)
        };
        let found: Vec<bool> = self.changes.iter().map(of).collect();
        self.known.borrow_mut().insert(key, found.clone());
        found
    }
}

/// The kept lines of a text, as code.
fn code(text: &str, kept: &BTreeSet<usize>) -> Vec<String> {
    lines::code(text).into_iter().filter(|(n, _)| kept.contains(n)).map(|(_, line)| line).collect()
}
