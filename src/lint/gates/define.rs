//! Definitions of names in a file: macros, constants and variables.

use std::collections::HashMap;
use std::sync::Arc;

use super::derived::{Derived, Tree};
use super::token::{Kind, Language, Token};

/// The length limit of a definition in tokens; architectures and lists of them are shorter.
const LENGTH: usize = 200;

/// The limit of definitions of one name; with more it is unknown which one applies.
const MOST: usize = 3;

/// The definitions of a file.
#[derive(Debug, Default)]
pub(super) struct Definitions<'a> {
    names: HashMap<&'a str, Vec<&'a [Token<'a>]>>,
    /// The definitions that are lists.
    lists: HashMap<&'a str, &'a [Token<'a>]>,
    /// Whether `/` is true division, as in Python.
    pub(super) divides_really: bool,
    /// The macros of this file, and of the other files of the tree, that are defined under architecture tests.
    derived: HashMap<&'a str, Arc<Derived>>,
    tree: Option<&'a Tree>,
}

impl<'a> Definitions<'a> {
    pub(super) fn new(tokens: &'a [Token<'a>], language: Language, tree: Option<&'a Tree>) -> Self {
        let mut out = Self {
            names: HashMap::new(),
            lists: HashMap::new(),
            divides_really: matches!(language, Language::Python | Language::Bazel),
            derived: HashMap::new(),
            tree,
        };
        for n in 1..tokens.len() {
            if tokens[n].kind != Kind::Name {
                continue;
            }
            let begin = if tokens[n - 1].is("define") && n > 1 && tokens[n - 2].kind == Kind::Directive {
                // A function-like macro is not a value.
                let called = tokens.get(n + 1).is_some_and(|t| t.is("(") && t.at == tokens[n].end());
                (!called).then_some(n + 1)
            } else {
                let before = &tokens[n - 1];
                let begins = match language {
                    Language::C => before.kind == Kind::Name || [";", "{", "}"].iter().any(|s| before.is(s)),
                    _ => before.kind == Kind::End,
                };
                (begins && tokens.get(n + 1).is_some_and(|t| t.is("="))).then_some(n + 2)
            };
            if let Some(begin) = begin {
                out.add(tokens[n].text, &tokens[begin..]);
            }
        }
        for n in 0..tokens.len() {
            // set(NAME 120 121)
            let sets = language == Language::Cmake && tokens[n].text.eq_ignore_ascii_case("set");
            if sets && tokens.get(n + 1).is_some_and(|t| t.is("(")) && n + 3 < tokens.len() {
                let end = tokens[n..].iter().position(|t| t.is(")")).map_or(tokens.len(), |e| n + e);
                out.add(tokens[n + 2].text, &tokens[(n + 3).min(end)..end]);
            }
        }
        if let (Some(first), true) = (tokens.first(), tokens.get(1).is_some_and(|t| t.is("="))) {
            out.add(first.text, &tokens[2..]);
        }
        for (name, all) in &out.names {
            let found = all.iter().filter(|_| all.len() <= MOST).find(|d| is_list(d));
            out.lists.extend(found.map(|list| (*name, *list)));
        }
        out
    }

    fn add(&mut self, name: &'a str, behind: &'a [Token<'a>]) {
        let ends = |t: &Token<'_>| matches!(t.kind, Kind::End | Kind::Directive) || t.is(";");
        let length = behind.iter().position(ends).unwrap_or(behind.len());
        self.names.entry(name).or_default().push(if length <= LENGTH { &behind[..length] } else { &[] });
    }

    /// Adds the macros that this file defines under architecture tests.
    /// Returns whether they are others than before.
    pub(super) fn derive(&mut self, derived: HashMap<&'a str, Arc<Derived>>) -> bool {
        let changed = self.derived != derived;
        self.derived = derived;
        changed
    }

    /// Returns the macros that this file defines under architecture tests.
    pub(super) fn all_derived(&self) -> impl Iterator<Item = Arc<Derived>> {
        self.derived.values().cloned()
    }

    /// Returns a macro that is defined under architecture tests, in this file or in one other of the tree.
    pub(super) fn derived(&self, name: &str) -> Option<Arc<Derived>> {
        let own = || self.names.contains_key(name);
        let other = || self.tree.filter(|_| !own()).and_then(|tree| tree.derived(name));
        self.derived.get(name).cloned().or_else(other)
    }

    /// Returns the value of a constant that one other file of the tree defines.
    pub(super) fn constant(&self, name: &str) -> Option<f64> {
        self.tree.filter(|_| !self.names.contains_key(name)).and_then(|tree| tree.constant(name))
    }

    /// Returns the constants of this file: macros of one number.
    pub(super) fn constants(&self) -> impl Iterator<Item = (&'a str, f64)> {
        self.names.iter().filter_map(|(name, all)| match all.as_slice() {
            // The compiler's own macros have other values elsewhere.
            [[number]] if !name.starts_with("__") => Some((*name, number.number().parse().ok()?)),
            _ => None,
        })
    }

    /// Returns the definitions of a name; none if it has more than [`MOST`].
    pub(super) fn bodies(&self, name: &str) -> &[&'a [Token<'a>]] {
        self.names.get(name).filter(|all| all.len() <= MOST).map_or(&[], Vec::as_slice)
    }

    /// Returns the tokens of a test, and of the lists that it names.
    pub(super) fn with_lists(&self, tokens: &[Token<'a>]) -> Vec<Token<'a>> {
        let of = |t: &Token<'a>| self.lists.get(t.text).copied().unwrap_or_default();
        tokens.iter().flat_map(|t| std::iter::once(t).chain(of(t))).copied().collect()
    }

    /// Whether any token of a list that a test names satisfies `is`.
    pub(super) fn any_in_lists(&self, tokens: &[Token<'_>], is: impl Fn(&Token<'_>) -> bool) -> bool {
        !self.lists.is_empty()
            && tokens.iter().filter_map(|t| self.lists.get(t.text)).flat_map(|l| *l).any(is)
    }
}

/// Whether a definition is a list of values.
fn is_list(tokens: &[Token<'_>]) -> bool {
    let any = |signs: &[&str], t: &Token<'_>| signs.iter().any(|s| t.is(s));
    tokens.first().is_some_and(|t| any(&["[", "(", "{"], t))
        && !tokens.iter().any(|t| any(&["==", "!=", "<", ">", "<=", ">="], t))
}
