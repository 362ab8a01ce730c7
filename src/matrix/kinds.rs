//! Kinds of ptxas message: what each is a sign of, and what to do about it.
//!
//! A kind is one row. The first row whose pattern matches decides, so special rows stand before general ones. A test
//! demands that the committed matrix has no message without a kind.

use std::sync::LazyLock;

use regex::RegexSet;

use crate::record::{KindRow, Outcome};

/// One kind.
struct Kind {
    name: &'static str,
    pattern: &'static str,
    outcome: Outcome,
    cause: &'static str,
    remedy: &'static str,
}

const fn kind(name: &'static str, pattern: &'static str, cause: &'static str, remedy: &'static str) -> Kind {
    Kind { name, pattern, outcome: Outcome::Rejected, cause, remedy }
}

const KINDS: &[Kind] = &[
    Kind {
        name: "unknown_arch",
        pattern: r"^Value '.*' is not defined for option 'gpu-name'",
        outcome: Outcome::UnknownTarget,
        cause: "This ptxas is older than the target: sm_121 and the `f` targets need CUDA 12.9.",
        remedy: "Use a newer toolkit; `sm121probe toolkit list` shows which targets each one knows.",
    },
    Kind {
        name: "unknown_target",
        pattern: r"^Unsupported \.target",
        outcome: Outcome::UnknownTarget,
        cause: "This ptxas does not know the PTX `.target`.",
        remedy: "Use a newer toolkit, or write the PTX for a target it knows.",
    },
    Kind {
        name: "unsupported_isa",
        pattern: r"^Unsupported \.version",
        outcome: Outcome::UnsupportedIsa,
        cause: "The PTX `.version` is newer than this ptxas.",
        remedy: "Use a newer toolkit, or lower `.version` if the instruction allows it.",
    },
    Kind {
        name: "target_needs_newer_isa",
        pattern: r"requires PTX ISA (version )?.* (or later )?for \.target|PTX ISA .* is required for \.target|\.target '.*' requires PTX",
        outcome: Outcome::UnsupportedIsa,
        cause: "The PTX `.version` is older than the target.",
        remedy: "Raise `.version`: sm_120 and sm_120a need 8.7; sm_120f, sm_121, sm_121a and sm_121f need 8.8.",
    },
];

static PATTERNS: LazyLock<RegexSet> = LazyLock::new(|| {
    // A row that is no regular expression matches nothing, and a test says so.
    RegexSet::new(KINDS.iter().map(|k| k.pattern)).unwrap_or_else(|_| RegexSet::empty())
});

/// The message without the line that our own rendering may have put in front.
fn words(message: &str) -> &str {
    match message.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((number, rest)) if number.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => message,
    }
}

/// The index into [`rows`] of a message's kind; `None` when no kind is known for it.
#[must_use]
pub fn classify(message: &str) -> Option<usize> {
    PATTERNS.matches(words(message)).iter().next()
}

/// Every kind, as the record lists them.
pub(super) fn rows() -> Vec<KindRow> {
    KINDS
        .iter()
        .map(|k| KindRow { name: k.name.to_owned(), cause: k.cause.to_owned(), remedy: k.remedy.to_owned() })
        .collect()
}

/// The outcome that an error with this text is.
pub(super) fn outcome_of(text: &str) -> Outcome {
    classify(text).map_or(Outcome::Rejected, |i| KINDS[i].outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_pattern_compiles_and_every_row_speaks_in_sentences() {
        assert_eq!(PATTERNS.len(), KINDS.len());
        let names: BTreeSet<&str> = KINDS.iter().map(|k| k.name).collect();
        assert_eq!(names.len(), KINDS.len());
        for k in KINDS {
            assert!(k.cause.ends_with('.') && k.remedy.ends_with('.'), "{}", k.name);
        }
    }

    #[test]
    fn a_line_in_front_does_not_hide_the_kind() {
        let text = "Value 'sm_999' is not defined for option 'gpu-name'";
        assert_eq!(classify(&format!("line 12: {text}")), classify(text));
        assert_eq!(outcome_of(text), Outcome::UnknownTarget);
        assert_eq!(classify("something nobody has seen"), None);
        assert_eq!(outcome_of("something nobody has seen"), Outcome::Rejected);
    }
}
