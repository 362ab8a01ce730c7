//! Where conditions lie in code: the expression around a comparison with an architecture.

use std::ops::Range;

use super::token::{Kind, Token};

/// Signs of comparisons.
const COMPARISONS: [&str; 7] = ["==", "!=", "<", ">", "<=", ">=", "in"];

/// What a condition does not go beyond.
const ENDS: [&str; 17] = [
    ";", "{", "}", "?", ":", "=", ",", "return", "if", "elif", "while", "assert", "else", "lambda", "for",
    "case", "+=",
];

/// The expressions, as ranges of tokens, that hold a comparison with a number an architecture may have. None holds another.
pub(super) fn expressions(tokens: &[Token<'_>]) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for n in 0..tokens.len() {
        let covered = out.last().is_some_and(|range| range.contains(&n));
        if covered || !COMPARISONS.iter().any(|sign| tokens[n].is(sign)) {
            continue;
        }
        let range = around(tokens, n);
        // `for x in (…)` compares nothing.
        let loops = range.start.checked_sub(1).is_some_and(|n| tokens[n].is("for"));
        if !loops && tokens[range.clone()].iter().any(is_ours) {
            out.push(range);
        }
    }
    out
}

/// Numbers of SM12x.
fn is_ours(token: &Token<'_>) -> bool {
    token.kind == Kind::Number
        && matches!(token.text, "120" | "121" | "1200" | "1210" | "12" | "12.0" | "12.1")
}

fn ends(token: &Token<'_>) -> bool {
    matches!(token.kind, Kind::End | Kind::Directive) || ENDS.iter().any(|end| token.is(end))
}

fn opens(token: &Token<'_>) -> bool {
    token.is("(") || token.is("[")
}

fn closes(token: &Token<'_>) -> bool {
    token.is(")") || token.is("]")
}

/// From a comparison outwards, through brackets that only group.
fn around(tokens: &[Token<'_>], at: usize) -> Range<usize> {
    let (mut first, mut depth, mut groups) = (at, 0_usize, 0_usize);
    while first > 0 {
        let token = &tokens[first - 1];
        if closes(token) {
            depth += 1;
        } else if opens(token) {
            if depth > 0 {
                depth -= 1;
            } else {
                let before = first.checked_sub(2).map(|n| &tokens[n]);
                let called = before.is_some_and(|t| (t.kind == Kind::Name && !logical(t)) || closes(t));
                if token.is("[") || called {
                    break;
                }
                groups += 1;
            }
        } else if depth == 0 && (ends(token) && !name_of_scope(tokens, first - 1)) {
            break;
        }
        first -= 1;
    }
    let (mut last, mut depth) = (at + 1, 0_usize);
    while last < tokens.len() {
        let token = &tokens[last];
        if opens(token) || (token.is("{") && tokens[last - 1].is("in")) {
            depth += 1;
        } else if closes(token) || (token.is("}") && depth > 0) {
            if depth > 0 {
                depth -= 1;
            } else if groups > 0 {
                groups -= 1;
            } else {
                break;
            }
        } else if depth == 0 && ends(token) && !name_of_scope(tokens, last) {
            break;
        }
        last += 1;
    }
    // Groups that were opened in front and are not closed within.
    while groups > 0 && first < at && tokens[first].is("(") {
        first += 1;
        groups -= 1;
    }
    first..last
}

/// `and`, `or`, `not`, `in`: a bracket behind them groups.
fn logical(token: &Token<'_>) -> bool {
    ["and", "or", "not", "in", "is"].iter().any(|word| token.is(word))
}

/// Whether a `:` is one of `::`.
fn name_of_scope(tokens: &[Token<'_>], at: usize) -> bool {
    let colon = |n: Option<usize>| n.and_then(|n| tokens.get(n)).is_some_and(|t| t.is(":"));
    let here = &tokens[at];
    let beside = |n: Option<usize>| colon(n) && n.is_some_and(|n| tokens[n].at.abs_diff(here.at) == 1);
    here.is(":") && (beside(at.checked_sub(1)) || beside(Some(at + 1)))
}
