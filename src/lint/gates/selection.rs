//! Finds the cases of `switch` and of Python's `match` that select by architecture.

use std::ops::Range;

use super::condition::Condition;
use super::define::Definitions;
use super::token::{Kind, Language, Token};

/// Cases that lead to the same code.
pub(super) struct Selection {
    /// The tokens of the first label.
    pub(super) range: Range<usize>,
    pub(super) condition: Condition,
}

/// The limit of labels of one `switch`; those of generated tables have more.
const LABELS: usize = 200;

/// Returns the cases of every selection whose value is an architecture.
pub(super) fn selections(
    tokens: &[Token<'_>],
    language: Language,
    text: &str,
    names: &Definitions<'_>,
) -> Vec<Selection> {
    let mut out = Vec::new();
    for n in 0..tokens.len() {
        let (value, cases) = match language {
            Language::C if tokens[n].is("switch") => {
                let Some(value) = bracket(tokens, n + 1) else { continue };
                (value.clone(), switch_cases(tokens, value.end + 1))
            }
            Language::Python if tokens[n].is("match") && (n == 0 || tokens[n - 1].kind == Kind::End) => {
                let Some(colon) = colon(tokens, n + 1) else { continue };
                (n + 1..colon, match_cases(tokens, n, colon + 1, text))
            }
            _ => continue,
        };
        for labels in cases {
            let own: Vec<&[Token<'_>]> = labels.iter().map(|label| &tokens[label.clone()]).collect();
            let condition = Condition::case(&tokens[value.clone()], &own, names);
            let Some(first) = labels.first() else { continue };
            if condition.tests_architecture() {
                // A finding points at the label that names SM12x.
                let ours = labels.iter().find(|l| tokens[(*l).clone()].iter().any(super::place::is_ours));
                out.push(Selection { range: ours.unwrap_or(first).clone(), condition });
            }
        }
    }
    out
}

/// Returns the tokens within the bracket that opens at `open`.
fn bracket(tokens: &[Token<'_>], open: usize) -> Option<Range<usize>> {
    tokens.get(open).filter(|t| t.is("("))?;
    let mut depth = 0_usize;
    for (n, token) in tokens.iter().enumerate().skip(open) {
        depth += usize::from(token.is("("));
        depth -= usize::from(token.is(")"));
        if depth == 0 {
            return Some(open + 1..n);
        }
    }
    None
}

/// Returns the colon that ends a statement head.
fn colon(tokens: &[Token<'_>], from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (n, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            ":" if depth == 0 => return Some(n),
            _ if token.kind == Kind::End => return None,
            _ => {}
        }
    }
    None
}

/// Returns the labels of each group of cases of a `switch` whose brace opens at `open`.
fn switch_cases(tokens: &[Token<'_>], open: usize) -> Vec<Vec<Range<usize>>> {
    let mut out: Vec<Vec<Range<usize>>> = Vec::new();
    let (mut depth, mut falls, mut count) = (0_usize, false, 0);
    let mut n = open;
    while let Some(token) = tokens.get(n).filter(|_| count < LABELS) {
        match token.text {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
            "case" if depth == 1 => {
                let ends = |n: &usize| {
                    let scope = |at: usize| tokens.get(at).is_some_and(|t| t.is(":"));
                    scope(*n) && !scope(n + 1) && !scope(n - 1)
                };
                let Some(end) = (n + 1..tokens.len()).find(ends) else { break };
                match out.last_mut().filter(|_| falls) {
                    Some(labels) => labels.push(n + 1..end),
                    None => out.push(std::iter::once(n + 1..end).collect()),
                }
                (falls, count, n) = (true, count + 1, end + 1);
                continue;
            }
            _ => falls = false,
        }
        n += 1;
    }
    out
}

/// Returns the alternatives of each case of a `match` at `start`.
fn match_cases(tokens: &[Token<'_>], start: usize, from: usize, text: &str) -> Vec<Vec<Range<usize>>> {
    let column = |n: usize| {
        let at = tokens[n].at;
        at - text[..at].rfind('\n').map_or(0, |line| line + 1)
    };
    let mut out = Vec::new();
    for n in from..tokens.len() {
        if tokens[n].kind == Kind::End || tokens[n - 1].kind != Kind::End {
            continue;
        }
        if column(n) <= column(start) {
            break;
        }
        if !tokens[n].is("case") {
            continue;
        }
        let Some(end) = colon(tokens, n + 1) else { continue };
        let guard = (n + 1..end).find(|at| tokens[*at].is("if")).unwrap_or(end);
        let mut labels = Vec::new();
        let mut begin = n + 1;
        for at in n + 1..=guard {
            if at == guard || tokens[at].is("|") {
                labels.push(begin..at);
                begin = at + 1;
            }
        }
        // `case _` and a case with a guard have no value of their own.
        if guard == end && !labels.iter().any(|l| tokens[l.clone()].iter().any(|t| t.is("_"))) {
            out.push(labels);
        }
    }
    out
}
