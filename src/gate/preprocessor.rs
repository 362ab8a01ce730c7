//! Finds the lines of a file that a compilation keeps, by evaluating preprocessor conditionals for a set of macros.
//!
//! A condition that cannot be evaluated here (function-like macros, names predefined by the compiler) keeps both branches: an extra
//! line costs a trial, a missing line would miss a change.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::condition::{self, Macros};
use crate::kernel::{Kernel, Library};
use crate::mutants::without_comments;

/// The maximum include depth; deeper includes are circular.
const DEEPEST: usize = 32;

/// A cache of the lines of texts without comments, so that each text is processed once for all sets of macros.
#[derive(Default)]
pub(super) struct Plain(RefCell<HashMap<String, Rc<[String]>>>);

impl Plain {
    fn lines(&self, text: &str) -> Rc<[String]> {
        if let Some(known) = self.0.borrow().get(text) {
            return Rc::clone(known);
        }
        let lines: Rc<[String]> =
            without_comments(text).lines().map(|line| line.trim_end().to_owned()).collect();
        self.0.borrow_mut().insert(text.to_owned(), Rc::clone(&lines));
        lines
    }
}

/// Returns the lines of `file`, from 1, that a compilation of `kernel` with these macros keeps; empty if the file is not included.
/// Blank lines, comments and conditional directives are excluded.
pub(super) fn kept(
    plain: &Plain,
    library: &Library,
    kernel: &Kernel,
    defines: &[(String, String)],
    file: &str,
) -> BTreeSet<usize> {
    let mut pass = Pass {
        plain,
        library,
        kernel,
        file,
        macros: Macros::default(),
        once: BTreeSet::new(),
        kept: BTreeSet::new(),
    };
    defines.iter().for_each(|(name, value)| pass.macros.define(name, value));
    kernel.defines.iter().for_each(|(name, value)| pass.macros.define(name, value));
    pass.text(&kernel.file, &kernel.text, 0);
    pass.kept
}

/// The state of an `#if` group.
struct Group {
    /// Whether the enclosing code is kept.
    outer: bool,
    /// Whether this branch is kept.
    live: bool,
    /// Whether the condition of an earlier branch is known to be true.
    taken: bool,
}

struct Pass<'l> {
    plain: &'l Plain,
    library: &'l Library,
    kernel: &'l Kernel,
    file: &'l str,
    macros: Macros,
    once: BTreeSet<String>,
    kept: BTreeSet<usize>,
}

impl Pass<'_> {
    fn text(&mut self, name: &str, text: &str, depth: usize) {
        if depth > DEEPEST || self.once.contains(name) {
            return;
        }
        let code = self.plain.lines(text);
        let mut groups: Vec<Group> = Vec::new();
        let mut lines = code.iter().zip(text.lines()).enumerate();
        while let Some((n, (line, written))) = lines.next() {
            // A trailing backslash joins a line with the next.
            let mut whole = Cow::Borrowed(line.as_str());
            let mut last = n;
            while whole.ends_with('\\')
                && let Some((m, (next, _))) = lines.next()
            {
                whole.to_mut().pop();
                whole.to_mut().push_str(next);
                last = m;
            }
            let live = groups.last().is_none_or(|g| g.live);
            let directive = whole.trim_start().strip_prefix('#').map(|rest| {
                let rest = rest.trim_start();
                rest.split_at(rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len()))
            });
            if let Some((word, rest)) = directive
                && self.conditional(word, rest, &mut groups)
            {
                continue;
            }
            if !live {
                continue;
            }
            if name == self.file {
                // A line of the `//@` header is a comment to the compiler, but determines how the kernel is launched.
                let counts =
                    |at: usize| code.get(at).is_some_and(|l| !l.is_empty()) || written.starts_with("//@");
                self.kept.extend((n..=last).filter(|at| counts(*at)).map(|at| at + 1));
            }
            if let Some((word, rest)) = directive {
                self.directive(name, word, rest.trim(), depth);
            }
        }
    }

    /// Processes a conditional directive. Returns `false` for any other directive.
    fn conditional(&self, word: &str, rest: &str, groups: &mut Vec<Group>) -> bool {
        let outer = groups.last().is_none_or(|g| g.live);
        let value = |outer: bool| match word {
            _ if !outer => Ok(false),
            "ifdef" | "elifdef" => self.macros.is_defined(rest.trim()),
            "ifndef" | "elifndef" => self.macros.is_defined(rest.trim()).map(|d| !d),
            _ => condition::evaluate(rest, &self.macros).map(|v| v != 0),
        };
        match word {
            "if" | "ifdef" | "ifndef" => {
                let value = value(outer);
                let live = outer && value != Ok(false);
                groups.push(Group { outer, live, taken: value == Ok(true) });
            }
            "elif" | "elifdef" | "elifndef" => {
                let Some(group) = groups.last_mut() else { return true };
                let open = group.outer && !group.taken;
                let value = value(open);
                group.live = open && value != Ok(false);
                group.taken |= value == Ok(true);
            }
            "else" => {
                let Some(group) = groups.last_mut() else { return true };
                group.live = group.outer && !group.taken;
                group.taken = true;
            }
            "endif" => {
                groups.pop();
            }
            _ => return false,
        }
        true
    }

    fn directive(&mut self, name: &str, word: &str, rest: &str, depth: usize) {
        match word {
            "define" => {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                let (macro_name, body) = rest.split_at(end);
                if body.starts_with('(') {
                    self.macros.define_function(macro_name);
                } else {
                    self.macros.define(macro_name, body.trim());
                }
            }
            "undef" => self.macros.undefine(rest),
            "pragma" if rest == "once" => {
                self.once.insert(name.to_owned());
            }
            "include" => {
                let included = rest.strip_prefix('"').and_then(|r| r.split('"').next());
                if let Some((included, text)) = included.and_then(|i| self.library.header(self.kernel, i)) {
                    self.text(included, text, depth + 1);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the kept lines of a header that a kernel includes twice.
    fn kept_of(text: &str, defines: &[(&str, &str)]) -> Vec<usize> {
        let mut library = Library::embedded().unwrap();
        library.includes.insert("h.cuh".to_owned(), text.to_owned());
        let mut kernel = library.kernels[0].clone();
        kernel.text = "#define OUTSIDE 3\n#include \"h.cuh\"\n#include \"h.cuh\"\n".to_owned();
        kernel.defines.clear();
        let defines: Vec<(String, String)> =
            defines.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        kept(&Plain::default(), &library, &kernel, &defines, "h.cuh").into_iter().collect()
    }

    #[test]
    fn branches_follow_the_macros() {
        let text = "#pragma once\n#if K == 64\na;\n#elif K < 200 && defined(N)\nb;\n#else\nc;\n#endif\nd; // e\n// f\n\n";
        assert_eq!(kept_of(text, &[("K", "64")]), [1, 3, 9]);
        assert_eq!(kept_of(text, &[("K", "128"), ("N", "1")]), [1, 5, 9]);
        assert_eq!(kept_of(text, &[("K", "128")]), [1, 7, 9]);
        // An undefined name is 0.
        assert_eq!(kept_of("#if K\na;\n#else\nb;\n#endif\n", &[]), [4]);
    }

    #[test]
    fn groups_nest_and_what_is_dead_defines_nothing() {
        let text = "#ifdef A\n#if B\na;\n#else\nb;\n#endif\n#define C 1\n#endif\n#ifndef C\nc;\n#endif\n#if OUTSIDE * 2 == 6\nd;\n#endif\n";
        assert_eq!(kept_of(text, &[]), [10, 13]);
        assert_eq!(kept_of(text, &[("A", "1"), ("B", "0")]), [5, 7, 13]);
    }

    #[test]
    fn macros_of_the_text_are_expanded_and_lines_joined() {
        let text = "#define SLAB (K < 128 ? K : 128)\n#define SLABS (K / SLAB)\n#if SLABS > 1 && \\\n    K >= 0x100\na = \\\n  1;\n#endif\n";
        assert_eq!(kept_of(text, &[("K", "512")]), [1, 2, 5, 6]);
        assert_eq!(kept_of(text, &[("K", "128")]), [1, 2]);
    }

    #[test]
    fn what_is_not_known_here_keeps_both_sides() {
        for condition in
            ["#if F(1)", "#if __CUDA_ARCH__ >= 1200", "#ifdef __CUDACC__", "#if 1 +", "#if 1 / 0"]
        {
            let text = format!("#define F(X) X\n{condition}\na;\n#else\nb;\n#endif\n");
            assert_eq!(kept_of(&text, &[]), [1, 3, 5], "{condition}");
        }
    }
}
