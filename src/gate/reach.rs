//! Determines whether changed lines alter a kernel compiled with given macros.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::lines::{self, Changed};
use super::preprocessor::{Plain, kept};
use crate::frame::compile::KernelSource;
use crate::kernel::Library;

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) file: String,
    /// The previous text; `None` if unknown, in which case every line counts as changed.
    pub(super) old: Option<String>,
    pub(super) lines: Changed,
}

/// Lines of code and their numbers.
type Code = Vec<(usize, String)>;

/// A kernel and the macros that it is compiled with.
type Compiled = (String, Vec<(String, String)>);

/// Determines the effect of changes on compiled kernels.
pub(super) struct Reach<'l> {
    now: &'l Library,
    before: Library,
    changes: &'l [Change],
    /// Whether each change alters the kernel, by kernel and macros.
    known: RefCell<BTreeMap<Compiled, Vec<bool>>>,
    plain: Plain,
    /// The code of each text.
    code: RefCell<HashMap<String, Rc<Code>>>,
}

impl<'l> Reach<'l> {
    pub(super) fn new(now: &'l Library, changes: &'l [Change]) -> Self {
        let mut before = now.clone();
        for change in changes {
            let Some(old) = &change.old else { continue };
            before.replace(&change.file, old);
        }
        Self {
            now,
            before,
            changes,
            known: RefCell::default(),
            plain: Plain::default(),
            code: RefCell::default(),
        }
    }

    /// Returns, for each change, whether it alters the code of `source` compiled with its macros.
    pub(super) fn alters(&self, source: &KernelSource<'_>) -> Vec<bool> {
        let kernel = source.kernel;
        let key = (format!("{} {}", kernel.file, kernel.own), source.defines.clone());
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        let before = self.before.kernels.iter().find(|k| (&k.file, k.own) == (&kernel.file, kernel.own));
        let of = |change: &Change| {
            let new = kept(&self.plain, self.now, kernel, &source.defines, &change.file);
            let (Some(old_text), Some(before)) = (&change.old, before) else { return !new.is_empty() };
            let old = kept(&self.plain, &self.before, before, &source.defines, &change.file);
            let new_text = self
                .now
                .header_text(&change.file)
                .filter(|_| kernel.file != change.file)
                .map_or(kernel.text.as_str(), String::as_str);
            let (old_code, new_code) = (self.code(old_text), self.code(new_text));
            !lines_of(&old_code, &old).eq(lines_of(&new_code, &new))
        };
        let found: Vec<bool> = self.changes.iter().map(of).collect();
        self.known.borrow_mut().insert(key, found.clone());
        found
    }

    /// Returns the code of a text, which is cached for all configurations.
    fn code(&self, text: &str) -> Rc<Code> {
        if let Some(known) = self.code.borrow().get(text) {
            return Rc::clone(known);
        }
        let code = Rc::new(lines::code(text));
        self.code.borrow_mut().insert(text.to_owned(), Rc::clone(&code));
        code
    }
}

/// Iterates over the kept lines of code.
fn lines_of<'a>(code: &'a Code, kept: &'a BTreeSet<usize>) -> impl Iterator<Item = &'a str> {
    code.iter().filter(|(n, _)| kept.contains(n)).map(|(_, line)| line.as_str())
}
