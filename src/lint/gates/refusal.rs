//! Tests that refuse every SM12x device: an assertion, or a condition whose only consequence is an error.

use std::ops::Range;

use ptx::arch::{Suffix, Target};

use super::condition::Condition;
use super::token::{Kind, Token};

/// The architectures that such a test may admit instead.
const OTHERS: [u16; 8] = [75, 80, 86, 89, 90, 100, 103, 110];

/// Functions and macros that fail unless their argument is true.
const CHECKS: [&str; 12] = [
    "assert",
    "static_assert",
    "TORCH_CHECK",
    "TORCH_INTERNAL_ASSERT",
    "NVTE_CHECK",
    "TLLM_CHECK",
    "TLLM_CHECK_WITH_INFO",
    "FLASHINFER_CHECK",
    "GGML_ASSERT",
    "CHECK",
    "DG_HOST_ASSERT",
    "TVM_FFI_ICHECK",
];

/// A test that refuses SM12x.
pub(super) struct Refusal {
    /// The architectures that it admits.
    pub(super) admits: Vec<u16>,
}

/// Returns the refusal of a test, if it certainly refuses 12.0 and 12.1, and admits two major versions, of which one is that of another
/// Blackwell: a list that stops before SM12x. A test for one architecture alone is meant for its instructions.
pub(super) fn refusal(tokens: &[Token<'_>], range: &Range<usize>, condition: &Condition) -> Option<Refusal> {
    let fails_on = fails_on(tokens, range)?;
    let refuses = |number: u16| condition.on(Target { number, suffix: Suffix::Base }) == Some(fails_on);
    let passes = |number: u16| condition.on(Target { number, suffix: Suffix::Base }) == Some(!fails_on);
    let admits: Vec<u16> = OTHERS.into_iter().filter(|number| passes(*number)).collect();
    let mut majors: Vec<u16> = admits.iter().map(|number| number / 10).collect();
    majors.dedup();
    let stops_short = majors.len() > 1 && majors.iter().any(|major| matches!(major, 10 | 11));
    (refuses(120) && refuses(121) && stops_short).then_some(Refusal { admits })
}

/// Returns the value of a test with which the program fails.
fn fails_on(tokens: &[Token<'_>], range: &Range<usize>) -> Option<bool> {
    let before = |n: usize| range.start.checked_sub(n).and_then(|n| tokens.get(n));
    if before(1).is_some_and(|t| t.is("assert")) {
        return Some(false);
    }
    let checks = |t: &Token<'_>| CHECKS.iter().any(|name| t.is(name));
    if before(1).is_some_and(|t| t.is("(")) && before(2).is_some_and(checks) {
        return Some(false);
    }
    // `if test:` / `if (test) {`, and then an error.
    let asks = before(1).is_some_and(|t| t.is("if") || t.is("elif"))
        || (before(1).is_some_and(|t| t.is("(")) && before(2).is_some_and(|t| t.is("if")));
    let opens = |t: &&Token<'_>| t.kind == Kind::End || [")", ":", "{"].iter().any(|sign| t.is(sign));
    let next = tokens.get(range.end..)?.iter().find(|t| !opens(t))?;
    (asks && (next.is("raise") || next.is("throw"))).then_some(true)
}
