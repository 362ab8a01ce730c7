//! Lower bounds without an upper one in the code of a host, around what sm_90a and sm_100a alone have: `wgmma`, `tcgen05`, code that is
//! compiled for these targets, and functions that are named after 10.0 or 10.3. Such a bound lets SM12x in.

use std::ops::Range;

use ptx::arch::{Suffix, Target};

use super::around;
use super::condition::Condition;
use super::need::{Need, instructions, need};
use super::refusal::{Text, consequence, fails_on};
use super::token::{Kind, Language, Token};

/// The number of bytes behind a test in which a mention of SM12x counts.
const BEHIND: usize = 1500;

/// The number of lines before a test outside of every function that count as its surroundings.
const BEFORE: usize = 30;

/// A test in the code of a host, by its tokens.
pub(super) struct Test {
    pub(super) range: Range<usize>,
    pub(super) condition: Condition,
}

impl Test {
    fn on(&self, number: u16) -> Option<bool> {
        self.condition.on(Target { number, suffix: Suffix::Base })
    }

    /// Whether SM12x, and 9.0 or 10.0, certainly have the value, and 8.0 has the other.
    fn bounds(&self, value: bool) -> bool {
        [120, 121].iter().all(|n| self.on(*n) == Some(value))
            && [90, 100].iter().any(|n| self.on(*n) == Some(value))
            && self.on(80) == Some(!value)
    }
}

/// Returns what SM12x lacks of the code that a test guards; `before` are the tests of the file before it.
pub(super) fn lacking(file: &Text<'_>, test: &Test, before: &[Test]) -> Option<String> {
    let (Text { tokens, text, language }, range) = (*file, &test.range);
    let skips = skips_on(tokens, range);
    let fails = fails_on(tokens, range).or(skips);
    let is_message = fails.is_some_and(|value| test.bounds(!value));
    let guards = fails.is_none() && test.bounds(true);
    if !(is_message || guards) {
        return None;
    }
    let function = around::function(tokens, text, range.start, language);
    let found = if is_message {
        let behind = || skips.and_then(|_| of_code(&tokens[decorated(tokens, text, range.end)?]));
        message(tokens, text, range, language).or_else(behind)
    } else {
        guarded(tokens, text, range, language, function.as_ref().map(|(name, _)| *name))
    };
    let found = found?;
    let begin = function.map_or_else(|| lines_before(tokens, text, range.start), |(_, own)| own.start);
    let known = is_known(text, tokens[begin].at, tokens[range.end - 1].end(), language);
    (!known && !is_turned_away(tokens, text, range, begin, before)).then_some(found)
}

/// Returns the value of a test with which a test of pytest or unittest is skipped.
fn skips_on(tokens: &[Token<'_>], range: &Range<usize>) -> Option<bool> {
    let before = |n: usize| range.start.checked_sub(n).and_then(|n| tokens.get(n));
    if before(1).is_some_and(|t| t.is("(")) {
        match before(2)?.text {
            "skipif" | "skipIf" => return Some(true),
            "skipUnless" => return Some(false),
            _ => {}
        }
    }
    let next = consequence(tokens, range)?;
    let call: Vec<&str> = tokens[next..].iter().take(4).map(|t| t.text).collect();
    matches!(call.as_slice(), ["pytest", ".", "skip", "("] | ["self", ".", "skipTest", "("]).then_some(true)
}

/// Returns the function of Python behind a decorator that has a token.
fn decorated(tokens: &[Token<'_>], text: &str, at: usize) -> Option<Range<usize>> {
    let is_definition = |n: &usize| tokens[*n].is("def") || tokens[*n].is("class");
    let start = (at..tokens.len()).find(is_definition)?;
    let margin = around::column(text, tokens[around::first(tokens, start)].at);
    let next = |n: &usize| is_definition(n) && around::column(text, tokens[*n].at) <= margin;
    let end = (start + 1..tokens.len()).find(next).unwrap_or(tokens.len());
    Some(start..end)
}

/// Returns the first token of the lines before a test outside of every function.
fn lines_before(tokens: &[Token<'_>], text: &str, at: usize) -> usize {
    let begin = text[..tokens[at].at].rmatch_indices('\n').nth(BEFORE).map_or(0, |(n, _)| n);
    tokens.partition_point(|t| t.at < begin)
}

/// Whether an earlier test of the function keeps SM12x from this one. A test around it must let SM12x in, and one beside it must not.
fn is_turned_away(
    tokens: &[Token<'_>],
    text: &str,
    range: &Range<usize>,
    begin: usize,
    before: &[Test],
) -> bool {
    let margin = |at: usize| around::column(text, tokens[around::first(tokens, at)].at);
    let own = margin(range.start);
    before.iter().filter(|other| other.range.start >= begin).any(|other| {
        let wanted = margin(other.range.start) < own;
        let on = |number| match fails_on(tokens, &other.range) {
            // SM12x goes on behind an assertion that it passes.
            Some(value) => other.on(number).map(|is| if wanted { is != value } else { is == value }),
            None => other.on(number),
        };
        [120, 121].into_iter().any(|number| on(number) != Some(wanted))
    })
}

/// Whether the function mentions SM12x: its author has thought of it.
fn is_known(text: &str, begin: usize, end: usize, language: Language) -> bool {
    let mut last = (end + BEHIND).min(text.len());
    while !text.is_char_boundary(last) {
        last -= 1;
    }
    // The next function is another matter.
    let next = match language {
        Language::Python => text[end..last].find("\ndef ").or_else(|| text[end..last].find("\n    def ")),
        _ => text[end..last].find("\n}"),
    };
    let around = text[begin..next.map_or(last, |n| end + n)].to_ascii_lowercase();
    let number = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    let names = |word: &str| {
        matches!(word.trim_matches(['.', '_']), "12" | "120" | "121" | "1200" | "1210" | "12.0" | "12.1")
            || word.contains("sm12")
            || word.contains("sm_12")
    };
    ["gb10", "spark", "geforce", "consumer", "rtx"].iter().any(|word| around.contains(word))
        || around.split(|c| !number(c)).any(names)
}

/// What the message of a refusal says that the code behind it needs.
fn message(tokens: &[Token<'_>], text: &str, range: &Range<usize>, language: Language) -> Option<String> {
    let behind = around::body(tokens, text, range, language).unwrap_or_else(|| {
        let ends = |t: &Token<'_>| t.kind == Kind::End || t.is(";");
        range.end..tokens[range.end..].iter().position(ends).map_or(tokens.len(), |n| range.end + n)
    });
    let texts = tokens[behind].iter().filter(|t| t.kind == Kind::Text);
    texts.map(|t| t.text.to_ascii_lowercase()).find_map(|words| {
        let features = ["wgmma", "tcgen05", "sm100", "sm_100", "sm103", "sm_103"];
        let feature = features.into_iter().find(|feature| words.contains(feature))?;
        // "no wgmma: falls back", "wgmma or mma", "SM100 or newer", "SM100+".
        let others = [" or ", "fall", "+", "newer", "later", "above", "higher", "least", ">="];
        (!others.iter().any(|word| words.contains(word))).then(|| feature.to_owned())
    })
}

/// What the guarded code, or the name of the test, shows to be needed.
fn guarded(
    tokens: &[Token<'_>],
    text: &str,
    range: &Range<usize>,
    language: Language,
    function: Option<&str>,
) -> Option<String> {
    let before = |n: usize| range.start.checked_sub(n).and_then(|n| tokens.get(n));
    let named = match before(1)? {
        t if t.is("=") => before(2).filter(|t| t.kind == Kind::Name).map(|t| t.text),
        t if t.is("return") => function,
        _ => None,
    };
    if let Some(found) = named.and_then(of_name) {
        return Some(found.to_owned());
    }
    if let Some(body) = around::body(tokens, text, range, language) {
        return of_code(&tokens[body]);
    }
    // `"sm_90a" if cc >= 90 else "sm_80"`, `cc >= 90 ? "sm_90a" : "sm_80"`
    let value = if before(1)?.is("if") && language == Language::Python {
        before(2)
    } else if tokens.get(range.end)?.is("?") {
        tokens.get(range.end + 1)
    } else {
        None
    };
    value.and_then(of_text)
}

/// What a piece of code needs that SM12x lacks.
fn of_code(tokens: &[Token<'_>]) -> Option<String> {
    let is = |n: Option<usize>, signs: &[&str]| {
        n.and_then(|n| tokens.get(n)).is_some_and(|t| signs.iter().any(|s| t.is(s)))
    };
    let of = |(n, token): (usize, &Token<'_>)| match token.kind {
        Kind::Text => of_text(token),
        Kind::Name => {
            let lower = token.text.to_ascii_lowercase();
            // Another test, or a value that turns it off.
            let asks = ["is_", "has_", "supports", "check", "can_"].iter().any(|w| lower.starts_with(w))
                || lower.contains("supported");
            let is_off = is(Some(n + 1), &["="])
                && is(Some(n + 2), &["False", "false", "None", "nullptr", "not"])
                || is(n.checked_sub(1), &["not", "!"]);
            let of_call = || if is(Some(n + 1), &["("]) { of_function(token.text) } else { None };
            of_name(token.text).or_else(of_call).filter(|_| !asks && !is_off).map(str::to_owned)
        }
        _ => None,
    };
    // Code that tests again decides for itself.
    let tests = ["<", "<=", "==", "if", "elif", "in"];
    let ends = tokens.iter().position(|t| tests.iter().any(|s| t.is(s))).unwrap_or(tokens.len());
    tokens.iter().enumerate().take(ends).find_map(of)
}

/// What names contain that say that the feature is not needed, or not alone.
const OTHERWISE: [&str; 16] = [
    "no_", "not_", "disable", "without", "skip", "non_", "emulat", "fallback", "_or_", "plus", "later",
    "newer", "above", "up_to", "before", "pre_",
];

/// What the name of a function that is called shows to be needed: `sm100_cutlass_mla_decode`. Kernels for 10.0 and 10.3 use `tcgen05`;
/// those for 9.0 may use TMA alone, which SM12x has.
fn of_function(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let part = lower.split('_').find_map(|part| match part {
        "sm100" | "sm100a" | "sm100f" => Some("sm_100a"),
        "sm103" | "sm103a" => Some("sm_103a"),
        _ => None,
    });
    part.filter(|_| !OTHERWISE.iter().any(|word| lower.contains(word)) && !lower.contains("sm12"))
}

/// What the name of a function, a variable or a macro shows to be needed.
pub(super) fn of_name(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let features = [
        ("wgmma", "wgmma"),
        ("tcgen05", "tcgen05"),
        ("sm90a", "sm_90a"),
        ("sm_90a", "sm_90a"),
        ("compute_90a", "sm_90a"),
        ("sm100a", "sm_100a"),
        ("sm_100a", "sm_100a"),
        ("compute_100a", "sm_100a"),
        ("sm103a", "sm_103a"),
        ("sm_103a", "sm_103a"),
    ];
    let (_, feature) = features.iter().find(|(part, _)| lower.contains(part))?;
    (!OTHERWISE.iter().any(|word| lower.contains(word))).then_some(*feature)
}

/// What a string needs: a compiler option for a target, or inline PTX.
fn of_text(token: &Token<'_>) -> Option<String> {
    if token.kind != Kind::Text {
        return None;
    }
    let bare = token.text.trim_matches(['"', '\'']);
    let targets = ["90a", "100a", "103a", "100f", "103f"];
    let is_option = ["-", "sm_", "compute_", "arch="].iter().any(|start| bare.starts_with(start))
        && !bare.trim().contains(' ');
    let named = |target: &str| {
        bare == target
            || is_option && ["sm_", "compute_"].iter().any(|p| bare.contains(&format!("{p}{target}")))
    };
    if let Some(target) = targets.into_iter().find(|target| named(target)) {
        return Some(format!("sm_{target}"));
    }
    let found = if bare.contains(';') { instructions(bare) } else { Vec::new() };
    found.into_iter().find(|instruction| need(instruction) == Some(Need::Absent))
}
