//! Blocks of the preprocessor: their conditions, and what each line of code is guarded by.

use std::ops::Range;

use ptx::arch::Target;

use super::condition::Condition;
use super::need::instructions;
use super::token::{Kind, Token};

/// A condition of `#if` or `#elif`, and what it guards.
pub(super) struct Block<'a> {
    /// The tokens of the condition.
    pub(super) range: Range<usize>,
    /// For each target, whether the branch is reached.
    pub(super) reached: Vec<Option<bool>>,
    /// Instructions of its branch, each with the targets that certainly reach it.
    pub(super) holds: Vec<(&'a str, Vec<Target>)>,
    /// Names that the branch defines or mentions.
    pub(super) names: Vec<&'a str>,
}

/// An open `#if`: the block of its branch, and for each target whether the branch is reached.
struct Open {
    block: Option<usize>,
    reached: Vec<Option<bool>>,
    /// Whether an earlier branch was taken.
    taken: Vec<Option<bool>>,
}

/// Names that are kept of a branch.
const NAMES: usize = 400;

/// The blocks of a file of C, and the tokens that belong to directives with conditions.
pub(super) fn blocks<'a>(tokens: &[Token<'a>], targets: &[Target]) -> (Vec<Block<'a>>, Vec<Range<usize>>) {
    let (mut blocks, mut directives, mut open): (Vec<Block<'a>>, Vec<Range<usize>>, Vec<Open>) =
        Default::default();
    let mut n = 0;
    while n < tokens.len() {
        let token = &tokens[n];
        if token.kind != Kind::Directive {
            note(token, &mut blocks, &open, targets);
            n += 1;
            continue;
        }
        let end = tokens[n..].iter().position(|t| t.kind == Kind::End).map_or(tokens.len(), |e| n + e);
        let word = tokens.get(n + 1).map_or("", |t| t.text);
        let range = n + 2..end.max(n + 2).min(tokens.len());
        match word {
            "if" | "ifdef" | "ifndef" | "elif" => {
                let before = if word == "elif" { open.pop() } else { None };
                let condition = Condition::parse(tokens.get(range.clone()).unwrap_or_default());
                let own: Vec<Option<bool>> = match word {
                    "if" | "elif" => targets.iter().map(|t| condition.on(*t)).collect(),
                    _ => vec![None; targets.len()],
                };
                let taken = before.map_or_else(|| vec![Some(false); targets.len()], |open| open.taken);
                let reached: Vec<Option<bool>> =
                    own.iter().zip(&taken).map(|(own, taken)| both(*own, taken.map(|t| !t))).collect();
                let around = |n: usize| {
                    open.iter().filter_map(|o| o.reached.get(n)).fold(reached[n], |a, b| both(a, *b))
                };
                let within = (0..targets.len()).map(around).collect();
                let after = own.iter().zip(&taken).map(|(own, taken)| either(*own, *taken)).collect();
                let tests = matches!(word, "if" | "elif") && condition.tests_architecture();
                let block = tests.then(|| {
                    let (holds, names) = (Vec::new(), Vec::new());
                    blocks.push(Block { range: range.clone(), reached: within, holds, names });
                    blocks.len() - 1
                });
                open.push(Open { block, reached, taken: after });
                directives.push(n..end);
            }
            "else" => {
                if let Some(last) = open.last_mut() {
                    last.block = None;
                    last.reached = last.taken.iter().map(|t| t.map(|t| !t)).collect();
                }
            }
            "endif" => _ = open.pop(),
            _ => {
                for token in tokens.get(range).unwrap_or_default() {
                    note(token, &mut blocks, &open, targets);
                }
            }
        }
        n = end + 1;
    }
    (blocks, directives)
}

/// Adds what a token says to the innermost block that tests the architecture.
fn note<'a>(token: &Token<'a>, blocks: &mut [Block<'a>], open: &[Open], targets: &[Target]) {
    let Some(block) = open.iter().rev().find_map(|o| o.block).and_then(|n| blocks.get_mut(n)) else { return };
    match token.kind {
        Kind::Text => {
            for instruction in instructions(token.text) {
                let certain = |place: usize| open.iter().all(|o| o.reached.get(place) == Some(&Some(true)));
                let some = (0..targets.len()).filter(|n| certain(*n)).map(|n| targets[n]).collect();
                block.holds.push((instruction, some));
            }
        }
        Kind::Name if block.names.len() < NAMES => block.names.push(token.text),
        _ => {}
    }
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
