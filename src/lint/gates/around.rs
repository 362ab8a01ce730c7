//! The code around a test: the function that it is in, and the code that it guards.

use std::ops::Range;

use super::token::{Kind, Language, Token};

/// Returns the name of the function around a token, and the tokens of the function up to it.
pub(super) fn function<'a>(
    tokens: &[Token<'a>],
    text: &str,
    at: usize,
    language: Language,
) -> Option<(&'a str, Range<usize>)> {
    match language {
        Language::C => function_of_c(tokens, at),
        Language::Python => {
            let own = column(text, tokens.get(first(tokens, at))?.at);
            let defines = |n: &usize| {
                tokens[*n].is("def")
                    && (*n == 0 || tokens[n - 1].kind == Kind::End || tokens[n - 1].is("async"))
                    && column(text, tokens[*n].at) < own
            };
            let n = (0..at).rev().find(defines)?;
            Some((tokens.get(n + 1)?.text, n..at))
        }
        _ => None,
    }
}

/// The brace that is open at `at` and follows a parameter list.
fn function_of_c<'a>(tokens: &[Token<'a>], at: usize) -> Option<(&'a str, Range<usize>)> {
    const OTHERS: [&str; 5] = ["if", "for", "while", "switch", "catch"];
    let mut depth = 0_usize;
    for n in (0..at).rev() {
        match tokens[n].text {
            "}" => depth += 1,
            "{" if depth > 0 => depth -= 1,
            "{" => {
                // Between the parameters and the brace: `const`, `noexcept`, a trailing type.
                let near = n.saturating_sub(8)..n;
                let sign = |m: &usize| [")", ";", "{", "}"].iter().any(|s| tokens[*m].is(s));
                let Some(close) = near.rev().find(sign).filter(|m| tokens[*m].is(")")) else { continue };
                let Some(open) = opening(tokens, close) else { continue };
                let Some(name) = open.checked_sub(1).map(|m| &tokens[m]) else { continue };
                if name.kind == Kind::Name && !OTHERS.contains(&name.text) {
                    return Some((name.text, open - 1..at));
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the token that opens the bracket that `close` closes.
fn opening(tokens: &[Token<'_>], close: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for n in (0..=close).rev() {
        depth += usize::from(tokens[n].is(")"));
        if tokens[n].is("(") {
            depth -= 1;
            if depth == 0 {
                return Some(n);
            }
        }
    }
    None
}

/// Returns the first token of the statement of a token.
pub(super) fn first(tokens: &[Token<'_>], at: usize) -> usize {
    let ends = |t: &Token<'_>| t.kind == Kind::End || [";", "{", "}"].iter().any(|s| t.is(s));
    tokens[..at].iter().rposition(ends).map_or(0, |n| n + 1)
}

/// Returns the code that runs where the condition of an `if` is true; `None` if the test is no such condition.
pub(super) fn body(
    tokens: &[Token<'_>],
    text: &str,
    range: &Range<usize>,
    language: Language,
) -> Option<Range<usize>> {
    let before = |n: usize| range.start.checked_sub(n).and_then(|n| tokens.get(n));
    let within = before(1).is_some_and(|t| t.is("("));
    let asks = before(if within { 2 } else { 1 })?;
    if !(asks.is("if") || asks.is("elif")) {
        return None;
    }
    let behind = range.end + usize::from(within && tokens.get(range.end).is_some_and(|t| t.is(")")));
    match language {
        Language::C if within => {
            let braced = tokens.get(behind)?.is("{");
            let mut depth = 0_usize;
            for (n, token) in tokens.iter().enumerate().skip(behind) {
                depth += usize::from(token.is("{"));
                if token.is("}") {
                    depth = depth.saturating_sub(1);
                }
                let ends = if braced { token.is("}") } else { token.is(";") };
                if ends && depth == 0 {
                    return Some(behind..n);
                }
            }
            None
        }
        Language::Python => {
            let own = first(tokens, range.start);
            if !(tokens[own].is("if") || tokens[own].is("elif")) || !tokens.get(behind)?.is(":") {
                return None;
            }
            let (start, margin) = (behind + 1, column(text, tokens[own].at));
            let is_block = tokens.get(start).is_some_and(|t| t.kind == Kind::End);
            let ends = |n: &usize| {
                tokens[*n].kind == Kind::End
                    && (!is_block
                        || tokens[*n..]
                            .iter()
                            .find(|t| t.kind != Kind::End)
                            .is_none_or(|t| column(text, t.at) <= margin))
            };
            let last = (start..tokens.len()).find(ends).unwrap_or(tokens.len());
            Some(start..last)
        }
        _ => None,
    }
}

/// Returns the column of a byte offset, from 0.
pub(super) fn column(text: &str, at: usize) -> usize {
    at - text[..at].rfind('\n').map_or(0, |line| line + 1)
}
