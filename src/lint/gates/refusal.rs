//! Tests that refuse every SM12x device: an assertion, a condition whose only consequence is an error, and lists of the architectures
//! that are supported.

use std::ops::Range;

use ptx::arch::{Suffix, Target};

use super::around;
use super::bound;
use super::condition::Condition;
use super::define::Definitions;
use super::name;
use super::token::{Kind, Language, Token};

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

/// The text of a file, for the code around a test.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) tokens: &'a [Token<'a>],
    pub(super) text: &'a str,
    pub(super) language: Language,
}

/// A test that refuses SM12x.
pub(super) struct Refusal {
    /// The architectures that it admits.
    pub(super) admits: Vec<u16>,
}

/// Returns the refusal of a test, if it certainly refuses 12.0 and 12.1, and admits two major versions: a list of architectures, or a
/// range that reaches another Blackwell and stops before SM12x. A test for one architecture alone is meant for its instructions.
pub(super) fn refusal(
    file: &Text<'_>,
    range: &Range<usize>,
    condition: &Condition,
    names: &Definitions<'_>,
) -> Option<Refusal> {
    // Who names SM12x excludes it on purpose.
    let listed =
        condition.lists_architectures() && !file.tokens[range.clone()].iter().any(super::place::is_ours);
    let fails = fails_on(file.tokens, range);
    let fails_on = fails.or_else(|| if listed { unsupported_on(file, range) } else { None })?;
    let refuses = |number: u16| condition.on(Target { number, suffix: Suffix::Base }) == Some(fails_on);
    let passes = |number: u16| condition.on(Target { number, suffix: Suffix::Base }) == Some(!fails_on);
    let admits: Vec<u16> = OTHERS.into_iter().filter(|number| passes(*number)).collect();
    let mut majors: Vec<u16> = admits.iter().map(|number| number / 10).collect();
    majors.dedup();
    let stops_short = fails.is_some() && majors.iter().any(|major| matches!(major, 10 | 11));
    let refuses = refuses(120) && refuses(121) && majors.len() > 1 && (stops_short || listed);
    // What grows later may hold SM12x then.
    let is_sure = || {
        let grows = |t: &Token<'_>| t.kind == Kind::Name && grows(file.tokens, t.text, names);
        is_of_device(file, range) && !file.tokens[range.clone()].iter().any(grows)
    };
    (refuses && (stops_short || is_sure())).then_some(Refusal { admits })
}

/// Returns the value of a test with which the program fails.
pub(super) fn fails_on(tokens: &[Token<'_>], range: &Range<usize>) -> Option<bool> {
    let before = |n: usize| range.start.checked_sub(n).and_then(|n| tokens.get(n));
    if before(1).is_some_and(|t| t.is("assert")) {
        return Some(false);
    }
    let checks = |t: &Token<'_>| CHECKS.iter().any(|name| t.is(name));
    if before(1).is_some_and(|t| t.is("(")) && before(2).is_some_and(checks) {
        return Some(false);
    }
    // `if test:` / `if (test) {`, and then an error.
    let next = consequence(tokens, range)?;
    (tokens[next].is("raise") || tokens[next].is("throw")).then_some(true)
}

/// Returns the first token of what follows from the condition of an `if`.
pub(super) fn consequence(tokens: &[Token<'_>], range: &Range<usize>) -> Option<usize> {
    let before = |n: usize| range.start.checked_sub(n).and_then(|n| tokens.get(n));
    let asks = before(1).is_some_and(|t| t.is("if") || t.is("elif"))
        || (before(1).is_some_and(|t| t.is("(")) && before(2).is_some_and(|t| t.is("if")));
    let opens = |t: &Token<'_>| t.kind == Kind::End || [")", ":", "{"].iter().any(|sign| t.is(sign));
    let next = (range.end..tokens.len()).find(|n| !opens(&tokens[*n]))?;
    asks.then_some(next)
}

/// Returns the value of a test with which something is not supported, by the name of the function or of the variable that takes it.
fn unsupported_on(file: &Text<'_>, range: &Range<usize>) -> Option<bool> {
    let Text { tokens, text, language } = file;
    let before = |n: usize| range.start.checked_sub(n).and_then(|n| tokens.get(n));
    // What only 9.0 or 10.0 have may be for them alone.
    let says = |name: &str| {
        let lower = name.to_ascii_lowercase();
        let others = ["sm90", "sm_90", "sm100", "sm_100", "hopper", "tmem", "umma", "gmma"];
        name::says_supported(name)
            && bound::of_name(name).is_none()
            && !others.iter().any(|w| lower.contains(w))
    };
    let function = || around::function(tokens, text, range.start, *language).map(|(name, _)| name);
    match before(1)? {
        t if t.is("=") => before(2).filter(|t| t.kind == Kind::Name && says(t.text)).map(|_| false),
        t if t.is("return") => function().filter(|name| says(name)).map(|_| false),
        _ => {
            let next = consequence(tokens, range)?;
            let value = tokens.get(next + 1)?;
            let refuses = tokens[next].is("return") && (value.is("False") || value.is("false"));
            refuses.then(function).flatten().filter(|name| says(name)).map(|_| true)
        }
    }
}

/// Whether what a test compares is the architecture of a device: a bare `major` may be of something else.
fn is_of_device(file: &Text<'_>, range: &Range<usize>) -> bool {
    const WORDS: [&str; 6] = ["capab", "deviceprop", "device_prop", "devprop", "compute_cap", "sm_version"];
    let own = &file.tokens[range.clone()];
    let names = own.iter().filter(|t| t.kind == Kind::Name).map(|t| t.text.to_ascii_lowercase());
    let is_bare = |name: &String| name == "major" || name.ends_with("_major") || name.ends_with("_minor");
    let of_others = ["python", "py_", "torch", "onnx", "opset", "cudnn", "trt", "tensorrt", "gcc", "driver"];
    let mut bare = names.filter(is_bare).peekable();
    if bare.peek().is_none() {
        return true;
    }
    let text = file.text.to_ascii_lowercase();
    !bare.any(|name| of_others.iter().any(|other| name.contains(other)))
        && WORDS.iter().any(|word| text.contains(word))
}

/// Whether a file adds to a list that it defines.
fn grows(tokens: &[Token<'_>], name: &str, names: &Definitions<'_>) -> bool {
    const METHODS: [&str; 6] = ["append", "extend", "add", "update", "insert", "push_back"];
    if names.bodies(name).is_empty() {
        return false;
    }
    let next = |n: usize, signs: &[&str]| tokens.get(n).is_some_and(|t| signs.iter().any(|s| t.is(s)));
    (0..tokens.len()).filter(|n| tokens[*n].is(name)).any(|n| {
        next(n + 1, &["+="])
            || next(n + 1, &["|"]) && next(n + 2, &["="])
            || next(n + 1, &["."]) && next(n + 2, &METHODS)
    })
}

/// A list that names the architectures that are supported, none of which is SM12x.
pub(super) struct Whitelist {
    /// The tokens from its name on.
    pub(super) range: Range<usize>,
    pub(super) admits: Vec<u16>,
}

/// Returns the lists of a Python file whose names say that they are of supported architectures: `SUPPORTED_ARCHS = ["80", "90"]`.
pub(super) fn whitelists(file: &Text<'_>, names: &Definitions<'_>) -> Vec<Whitelist> {
    if file.language != Language::Python {
        return Vec::new();
    }
    let tokens = file.tokens;
    let named = |name: &str| {
        let lower = name.to_ascii_lowercase();
        name::says_supported(name)
            && ["arch", "capab", "_cc", "_sm", "sms"].iter().any(|word| lower.contains(word))
    };
    let mut out = Vec::new();
    for n in 0..tokens.len() {
        let begins = n == 0 || tokens[n - 1].kind == Kind::End;
        let defines = tokens.get(n + 1).is_some_and(|t| t.is("="));
        if !(begins && defines && named(tokens[n].text)) {
            continue;
        }
        let [body] = names.bodies(tokens[n].text) else { continue };
        if grows(tokens, tokens[n].text, names) {
            continue;
        }
        let condition = Condition::among(body, names);
        let on = |number: u16| condition.on(Target { number, suffix: Suffix::Base });
        let admits: Vec<u16> = OTHERS.into_iter().filter(|number| on(*number) == Some(true)).collect();
        let mut majors: Vec<u16> = admits.iter().map(|number| number / 10).collect();
        majors.dedup();
        let refuses = [120, 121].into_iter().all(|number| on(number) == Some(false));
        if condition.lists_architectures() && refuses && majors.len() > 1 {
            out.push(Whitelist { range: n..n + 2 + body.len(), admits });
        }
    }
    out
}
