//! Finds conditions in code: the expression around a comparison with an architecture.

use std::ops::Range;

use super::define::Definitions;
use super::flag;
use super::name;
use super::token::{Kind, Token};

/// Comparison operators.
const COMPARISONS: [&str; 7] = ["==", "!=", "<", ">", "<=", ">=", "in"];

/// Functions that compare the device's architecture.
const ASKING: [&str; 3] = ["is_device_capability", "has_device_capability", "is_device_capability_family"];

/// Tokens that delimit a condition.
const ENDS: [&str; 17] = [
    ";", "{", "}", "?", ":", "=", ",", "return", "if", "elif", "while", "assert", "else", "lambda", "for",
    "case", "+=",
];

/// Returns the expressions, as token ranges, that compare something with an architecture. They do not overlap.
pub(super) fn expressions<'a>(tokens: &[Token<'a>], names: &Definitions<'a>) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for n in 0..tokens.len() {
        let covered = out.last().is_some_and(|range| range.contains(&n));
        let asks =
            tokens.get(n + 1).is_some_and(|t| t.is("(")) && ASKING.iter().any(|name| tokens[n].is(name));
        if covered || !(asks || COMPARISONS.iter().any(|sign| tokens[n].is(sign))) {
            continue;
        }
        let range = around(tokens, n);
        // `for x in (…)` is not a comparison.
        let loops = range.start.checked_sub(1).is_some_and(|n| tokens[n].is("for"));
        let own = &tokens[range.clone()];
        if !loops
            && (own.iter().any(is_ours)
                || names.any_in_lists(own, is_ours)
                || compares_generation(own)
                || is_in_list(own, names))
        {
            out.push(range);
        }
    }
    out
}

/// Returns the CMake conditions, as token ranges within `if(…)`.
pub(super) fn conditions(tokens: &[Token<'_>]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    for n in 0..tokens.len() {
        let is_if = ["if", "elseif"].iter().any(|word| tokens[n].text.eq_ignore_ascii_case(word));
        let begins = n == 0 || tokens[n - 1].kind == Kind::End;
        if !(is_if && begins && tokens.get(n + 1).is_some_and(|t| t.is("("))) {
            continue;
        }
        let end = tokens[n..].iter().position(|t| t.kind == Kind::End).map_or(tokens.len(), |e| n + e);
        let last = tokens[n..end].iter().rposition(|t| t.is(")")).map_or(end, |l| n + l);
        let range = n + 2..last.max(n + 2);
        out.push(range);
    }
    out
}

/// Removes quotes, references and suffixes from a CMake condition: `"${ARCH}" STREQUAL "120a"` becomes `ARCH STREQUAL 120`.
pub(super) fn plain<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let of = |t: &Token<'a>| {
        let (bare, at) = match t.kind {
            Kind::Text => (t.text.trim_matches(['"', '$', '{', '}']), t.at + 1),
            Kind::Sign if ["$", "{", "}"].contains(&t.text) => return None,
            _ => (t.text, t.at),
        };
        let digits = bare.strip_suffix(['a', 'f']).unwrap_or(bare);
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit()) && digits.parse::<f64>().is_ok();
        let is_name = !bare.is_empty() && bare.chars().all(|c| c.is_alphanumeric() || c == '_');
        Some(match t.kind {
            Kind::Text | Kind::Number if is_number => Token { kind: Kind::Number, text: digits, at },
            Kind::Text if is_name => Token { kind: Kind::Name, text: bare, at },
            _ => *t,
        })
    };
    tokens.iter().filter_map(of).collect()
}

/// Whether a token is a number of SM12x.
pub(super) fn is_ours(token: &Token<'_>) -> bool {
    matches!(token.number(), "120" | "121" | "1200" | "1210" | "12" | "12.0" | "12.1")
        || (token.kind == Kind::Text && matches!(flag::numbered(token.text), Some(120 | 121)))
        || (token.kind == Kind::Name && matches!(name::member(token.text), Some(120 | 121)))
}

/// Whether a test looks something that is called as an architecture is up in a list of architectures: one of another name, or of
/// strings.
fn is_in_list(tokens: &[Token<'_>], names: &Definitions<'_>) -> bool {
    const PARTS: [&str; 6] = ["capab", "sm_version", "_arch", "compute_cap", "device_sm", "major"];
    const WHOLE: [&str; 6] = ["cc", "sm", "arch", "cap", "capability", "f"];
    let Some(at) = tokens.iter().position(|t| t.is("in")) else { return false };
    let named = |t: &Token<'_>| {
        let name = t.text.to_ascii_lowercase();
        t.kind == Kind::Name
            && (WHOLE.contains(&name.as_str()) || PARTS.iter().any(|part| name.contains(part)))
    };
    let (asked, list) = (&tokens[..at], &tokens[at + 1..]);
    let own = || list.iter().any(|t| t.kind == Kind::Text && is_generation(t));
    let defined = || {
        let of = |t: &Token<'_>| {
            names.bodies(t.text).iter().any(|body| body.iter().any(|t| is_ours(t) || is_generation(t)))
        };
        list.iter().any(|t| t.kind == Kind::Name && of(t))
    };
    asked.iter().any(named) && (own() || defined())
}

/// Whether a token is a number as architectures have it.
fn is_generation(token: &Token<'_>) -> bool {
    let number = token.number().parse::<f64>().ok();
    number.is_some_and(|n| (7.0..=12.0).contains(&n) || name::is_architecture(n))
        || (token.kind == Kind::Text
            && (flag::quoted(token.text).is_some() || flag::numbered(token.text).is_some()))
}

/// Whether a test compares something that is called as an architecture is with a number or a constant of another architecture. Such a
/// test has a value for SM12x, too.
fn compares_generation(tokens: &[Token<'_>]) -> bool {
    const WORDS: [&str; 9] = [
        "capab",
        "sm_version",
        "smversion",
        "_arch",
        "compute_cap",
        "device_sm",
        "get_sm",
        "getsm",
        "sm_arch",
    ];
    const WHOLE: [&str; 6] = ["cc", "sm", "arch", "major", "cap", "capability"];
    let named = |t: &Token<'_>| {
        let name = t.text.to_ascii_lowercase();
        t.kind == Kind::Name
            && (WHOLE.contains(&name.as_str()) || WORDS.iter().any(|word| name.contains(word)))
    };
    let generation = |t: &Token<'_>| {
        let number = t.number().parse::<f64>().ok();
        let constant =
            t.kind == Kind::Name && t.text.contains("_CC_") && !t.text.contains(char::is_lowercase);
        constant
            || number.is_some_and(|n| {
                (5.0..=13.0).contains(&n)
                    || ((50.0..=130.0).contains(&n) || (500.0..=1300.0).contains(&n)) && n.fract() == 0.0
            })
    };
    tokens.iter().any(generation) && tokens.iter().any(named)
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

/// Extends a comparison outwards to the whole condition, through parentheses that only group.
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
    // Drop opening parentheses that are not closed within the range.
    while groups > 0 && first < at && tokens[first].is("(") {
        first += 1;
        groups -= 1;
    }
    first..last
}

/// Whether a token is a word operator, after which a parenthesis groups.
fn logical(token: &Token<'_>) -> bool {
    ["and", "or", "not", "in", "is"].iter().any(|word| token.is(word))
}

/// Whether a `:` is part of `::`.
fn name_of_scope(tokens: &[Token<'_>], at: usize) -> bool {
    let colon = |n: Option<usize>| n.and_then(|n| tokens.get(n)).is_some_and(|t| t.is(":"));
    let here = &tokens[at];
    let beside = |n: Option<usize>| colon(n) && n.is_some_and(|n| tokens[n].at.abs_diff(here.at) == 1);
    here.is(":") && (beside(at.checked_sub(1)) || beside(Some(at + 1)))
}
