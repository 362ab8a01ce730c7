//! Preprocessor conditionals: their conditions, and the code that each branch guards.

use std::collections::HashMap;
use std::ops::Range;

use ptx::arch::Target;

use super::condition::Condition;
use super::define::Definitions;
use super::derived::State;
use super::need::{Need, instructions, need};
use super::token::{Kind, Token};

/// A branch of a preprocessor conditional and the code that it guards.
pub(super) struct Block<'a> {
    /// The kind of branch.
    pub(super) branch: Branch,
    /// The tokens of the condition.
    pub(super) range: Range<usize>,
    /// For each target, whether the branch is reached.
    pub(super) reached: Vec<Option<bool>>,
    /// Instructions in the branch, each with the targets that certainly reach it.
    pub(super) holds: Vec<(String, Vec<Target>)>,
    /// Names that the branch defines or mentions.
    pub(super) names: Vec<&'a str>,
    /// The macro and the place of its definition, if the condition tests one that is defined under an architecture test.
    pub(super) through: Option<String>,
}

/// The kind of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Branch {
    /// `#if`, `#ifdef` or `#ifndef`.
    If,
    /// `#elif`, `#elifdef` or `#elifndef`.
    Elif,
    /// `#else`; its tokens are those of a condition before it, which is not true.
    Else,
}

/// The preprocessor conditionals of a file.
#[derive(Default)]
pub(super) struct Blocks<'a> {
    /// The branches whose conditions test the architecture.
    pub(super) blocks: Vec<Block<'a>>,
    /// Token ranges of conditional directives, and of code in `#if 0`.
    pub(super) apart: Vec<Range<usize>>,
    /// Whether code outside of the branches has an instruction that SM12x lacks: such a file is not compiled for SM12x.
    pub(super) lacking: bool,
    /// The macros that are defined under architecture tests.
    pub(super) derived: HashMap<&'a str, Defined>,
}

/// The definitions of a macro, in the order of the file.
pub(super) struct Defined {
    /// The token of its first definition under an architecture test; `None` if no definition is.
    pub(super) first: Option<usize>,
    /// For each target, its state after the definitions so far.
    pub(super) states: Vec<State>,
}

/// An open `#if`: the block of its branch, and for each target whether the branch is reached.
struct Open {
    block: Option<usize>,
    reached: Vec<Option<bool>>,
    /// Whether an earlier branch was taken.
    taken: Vec<Option<bool>>,
    /// The last condition that tests the architecture, of the branches so far.
    tested: Option<Range<usize>>,
    /// The start of its code if it is never compiled (`#if 0`).
    dead: Option<usize>,
    /// The name of an `#ifndef` that its next line defines.
    guards: Option<String>,
}

/// The maximum number of names recorded for a branch.
const NAMES: usize = 400;

/// Returns the blocks of a C, C++ or CUDA file.
pub(super) fn blocks<'a>(tokens: &[Token<'a>], targets: &[Target], names: &Definitions<'_>) -> Blocks<'a> {
    let mut out = Blocks::default();
    let mut open: Vec<Open> = Vec::new();
    let mut n = 0;
    while n < tokens.len() {
        if tokens[n].kind != Kind::Directive {
            n = out.note(tokens, n, &open, targets);
            continue;
        }
        let end = tokens[n..].iter().position(|t| t.kind == Kind::End).map_or(tokens.len(), |e| n + e);
        let word = tokens.get(n + 1).map_or("", |t| t.text);
        let range = n + 2..end.max(n + 2).min(tokens.len());
        let own = tokens.get(range.clone()).unwrap_or_default();
        match word {
            "if" | "ifdef" | "ifndef" | "elif" | "elifdef" | "elifndef" => {
                let before = if word.starts_with("el") { open.pop() } else { None };
                let named = own.first().map_or("", |t| t.text);
                let condition = match word {
                    "if" | "elif" => Condition::parse(own, names),
                    _ => Condition::defined(named, !word.ends_with("ndef"), names),
                };
                let condition = match defined_behind(tokens, end) {
                    Some(name) if own.iter().any(|t| t.text == name) => condition.before(name),
                    _ => condition,
                };
                let guards = word == "ifndef" && is_defined_behind(tokens, end, named);
                let answer = |t: &Target| if guards { Some(true) } else { condition.on(*t) };
                let own_answers: Vec<Option<bool>> = targets.iter().map(answer).collect();
                let (taken, mut tested) = before.map_or_else(
                    || (vec![Some(false); targets.len()], None),
                    |open| {
                        out.apart.extend(open.dead.map(|begin| begin..n));
                        (open.taken, open.tested)
                    },
                );
                let reached: Vec<Option<bool>> = own_answers
                    .iter()
                    .zip(&taken)
                    .map(|(own, taken)| both(*own, taken.map(|t| !t)))
                    .collect();
                let after = own_answers.iter().zip(&taken).map(|(own, taken)| either(*own, *taken)).collect();
                let tests =
                    condition.tests_architecture() && !(word.ends_with("def") && named == "__CUDA_ARCH__");
                let block = tests.then(|| {
                    tested = Some(range.clone());
                    let branch = if word.starts_with("el") { Branch::Elif } else { Branch::If };
                    let through = condition.through().map(|derived| {
                        let (name, origin) = (&derived.name, &derived.origin);
                        format!("`{name}` of {}:{}", origin.file, origin.line)
                    });
                    out.open(branch, range, within(&open, &reached), through)
                });
                let dead = (own.len() == 1 && own[0].number() == "0").then_some(end);
                let guards = guards.then(|| named.to_owned());
                open.push(Open { block, reached, taken: after, tested, dead, guards });
                out.apart.push(n..end);
            }
            "else" => {
                if let Some(mut last) = open.pop() {
                    out.apart.extend(last.dead.take().map(|begin| begin..n));
                    last.reached = last.taken.iter().map(|t| t.map(|t| !t)).collect();
                    let around = within(&open, &last.reached);
                    last.block = last.tested.clone().map(|range| out.open(Branch::Else, range, around, None));
                    open.push(last);
                }
            }
            "endif" => {
                let dead = open.pop().and_then(|last| last.dead);
                out.apart.extend(dead.map(|begin| begin..n));
            }
            _ => {
                if word == "define" || word == "undef" {
                    out.define(own, range.start, word == "define", &open, targets.len());
                }
                let mut n = range.start;
                while n < range.end {
                    n = out.note(&tokens[..range.end], n, &open, targets);
                }
            }
        }
        n = end + 1;
    }
    out.derived.retain(|_, macros| macros.first.is_some());
    out
}

impl<'a> Blocks<'a> {
    fn open(
        &mut self,
        branch: Branch,
        range: Range<usize>,
        reached: Vec<Option<bool>>,
        through: Option<String>,
    ) -> usize {
        self.blocks.push(Block { branch, range, reached, holds: Vec::new(), names: Vec::new(), through });
        self.blocks.len() - 1
    }

    /// Records a `#define` or `#undef` whose tokens are `own`.
    fn define(&mut self, own: &[Token<'a>], at: usize, defines: bool, open: &[Open], targets: usize) {
        let of_project = |t: &&Token<'_>| t.kind == Kind::Name && !t.text.starts_with("__");
        let Some(name) = own.first().filter(of_project) else { return };
        let under = open.iter().any(|o| o.block.is_some());
        let guarded = open.last().is_some_and(|o| o.guards.as_deref() == Some(name.text));
        let value = match own {
            [_, number] => number.number().parse().ok(),
            _ => None,
        };
        let new = if defines { State::Defined(value) } else { State::Undefined };
        let fresh = || Defined { first: None, states: vec![State::Undefined; targets] };
        let known = self.derived.entry(name.text).or_insert_with(fresh);
        if under && known.first.is_none() {
            known.first = Some(at);
        }
        for (n, state) in known.states.iter_mut().enumerate() {
            let around = open.iter().filter_map(|o| o.reached.get(n)).copied();
            let reached = around.reduce(both).unwrap_or(Some(true));
            *state = match (reached, *state) {
                (Some(false), state) => state,
                // `#ifndef NAME` / `#define NAME`: a default.
                (_, State::Defined(value)) if guarded => State::Defined(value),
                (Some(true), State::Unknown) if guarded => State::Defined(None),
                (Some(true), _) => new,
                (None, state) if state == new => state,
                (None, _) => State::Unknown,
            };
        }
    }

    /// Records a token in the innermost block that tests the architecture; returns the index of the next token.
    fn note(&mut self, tokens: &[Token<'a>], at: usize, open: &[Open], targets: &[Target]) -> usize {
        let texts = tokens[at..].iter().take_while(|t| t.kind == Kind::Text).count();
        let behind = at + texts.max(1);
        let block = open.iter().rev().find_map(|o| o.block).and_then(|n| self.blocks.get_mut(n));
        match tokens[at].kind {
            Kind::Text => {
                // The compiler concatenates adjacent string literals.
                let joined: String = tokens[at..behind].iter().map(|t| t.text.trim_matches('"')).collect();
                let found = if is_message(tokens, at) { Vec::new() } else { instructions(&joined) };
                let Some(block) = block else {
                    self.lacking |= found.iter().any(|i| need(i) == Some(Need::Absent));
                    return behind;
                };
                for instruction in found {
                    let certain =
                        |place: usize| open.iter().all(|o| o.reached.get(place) == Some(&Some(true)));
                    let some = (0..targets.len()).filter(|n| certain(*n)).map(|n| targets[n]).collect();
                    block.holds.push((instruction, some));
                }
            }
            Kind::Name => {
                if let Some(block) = block.filter(|b| b.names.len() < NAMES) {
                    block.names.push(tokens[at].text);
                }
            }
            _ => {}
        }
        behind
    }
}

/// Returns, for each target, whether a branch nested in the open ones is reached.
fn within(open: &[Open], reached: &[Option<bool>]) -> Vec<Option<bool>> {
    let around = |n: usize| open.iter().filter_map(|o| o.reached.get(n)).fold(reached[n], |a, b| both(a, *b));
    (0..reached.len()).map(around).collect()
}

/// Whether a string is the argument of a function or macro that reports an error.
fn is_message(tokens: &[Token<'_>], at: usize) -> bool {
    const WORDS: [&str; 9] =
        ["INVALID", "PRINT", "ASSERT", "ERROR", "CHECK", "THROW", "WARN", "LOG", "UNREACHABLE"];
    let called =
        at.checked_sub(2).filter(|_| tokens[at - 1].is("(")).map(|n| tokens[n].text.to_ascii_uppercase());
    called.is_some_and(|name| WORDS.iter().any(|word| name.contains(word)))
}

/// Returns the macro that the next directive defines.
fn defined_behind<'a>(tokens: &[Token<'a>], end: usize) -> Option<&'a str> {
    let next = tokens.get(end + 1..end + 4)?;
    (next[0].kind == Kind::Directive && next[1].is("define")).then_some(next[2].text)
}

/// Whether the next directive defines the name, as in an include guard.
fn is_defined_behind(tokens: &[Token<'_>], end: usize, name: &str) -> bool {
    !name.is_empty() && defined_behind(tokens, end) == Some(name)
}

const fn both(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

const fn either(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}
