//! Kinds of ptxas messages: the cause of each and its remedy.
//!
//! A kind is one row. The first row whose pattern matches decides, so specific rows come before general ones. A test
//! requires that every message of the committed matrix has a kind.

use std::sync::LazyLock;

use regex::RegexSet;

use record::{KindRow, MessageRow, Outcome};

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
    kind(
        "target_needs_newer_isa",
        r"PTX (ISA )?version .* (required|or later|or higher)|[Rr]equires PTX ISA|requires \.version",
        "The PTX `.version` is older than the instruction or the target.",
        "Raise `.version`: sm_120 and sm_120a need 8.7; sm_120f, sm_121, sm_121a and sm_121f need 8.8.",
    ),
    kind(
        "target_does_not_fit_arch",
        r"cannot be compiled (for architecture|to (future|different))|^SM version specified by \.target is higher",
        "PTX for an `a` target runs only on that architecture, for an `f` target on later architectures of its \
        family, and no PTX runs on an older architecture.",
        "Write the PTX for a target that this `-arch` accepts: sm_120 and sm_120f suit every SM12x, sm_120a only sm_120a.",
    ),
    kind(
        "absent_tensor_memory",
        r"tcgen05.*not supported on \.target|tensor memory.*not supported",
        "tcgen05 and its tensor memory exist on SM100, SM103 and SM110 only; SM12x has none by design.",
        "Use `mma.sync`, with `.kind::mxf8f6f4`, `.kind::mxf4` or `.kind::mxf4nvf4` where the SM100 kernel scales blocks.",
    ),
    kind(
        "absent_wgmma",
        r"wgmma.*not supported on \.target",
        "wgmma is a feature of sm_90a alone.",
        "Use `mma.sync` on SM12x, or tcgen05 on SM100.",
    ),
    kind(
        "base_target_lacks_it",
        r"not supported on \.target 'sm_\d+'|for arch 'sm_\d+'$",
        "A target without suffix has only what every later architecture keeps.",
        "Build for the target with `f` or `a` (sm_120f or sm_120a, sm_121f or sm_121a), if that one accepts it; a build that drops the suffix shows this message.",
    ),
    kind(
        "target_lacks_it",
        r"not supported on \.target '|for arch 'sm_\d+[af]'|requires \.target sm_\d+|is not supported (on|for) (this )?(architecture|target)|not supported for target",
        "This architecture, or family of architectures, does not have the feature.",
        "Use a form that is accepted on the target.",
    ),
    kind(
        "unknown_word",
        r"^Unknown modifier|^Not a name of any known instruction|^Unknown (option|directive|type)|unknown attribute",
        "This ptxas does not know the word: it is newer than the toolkit, or misspelt.",
        "Use the first toolkit that accepts it; else check the spelling in the PTX manual.",
    ),
    kind(
        "syntax",
        r"^Parsing error",
        "The text does not follow the grammar this ptxas knows: a directive or operand form is newer than the \
        toolkit, or a typing error.",
        "Use a newer toolkit if the form is new to PTX; else check the place that the message names.",
    ),
    kind(
        "modifier_missing",
        r"modifiers? required|^Modifier '.*' requires? |requires '.*' (type|modifier)|^'.*' modifier required|requires? .* modifier|modifier must be specified|^Modifier '.*' required for|' syntax expected|^(Boolean|Reduction) operation is required",
        "The form is incomplete: the instruction needs another modifier.",
        "Add the modifier that the message names.",
    ),
    kind(
        "modifier_illegal",
        r"^(Illegal|Unsupported|Unexpected|Duplicate|Conflicting) modifier|^Unexpected number of (.* modifiers|state spaces)|^Multiple .* modifiers specified|^Multiple (comparisons|instruction post-operation flags) set|^Duplicate \.\w+ modifier|^Comparison qualifier is not allowed|^Modifier .*(does not apply|cannot be (combined|applied|used|specified)|not allowed)|modifiers? (is|are) not allowed|^Only .* modifier supported|^Illegal (rounding|saturation|cache)|cannot be specified (with|together)",
        "The modifiers cannot be combined, by the manual or in this toolkit.",
        "Drop or change the modifier, or use a newer toolkit if one accepts the form.",
    ),
    kind(
        "type_illegal",
        r"type specified for|types? specified for|^Incorrect (type|instruction type)|^Unexpected instruction types?|^Operation .* requires|number of instruction types|^\.[a-d]type must be|^Illegal (type|operand type)|type mismatch|^Type of",
        "The data types do not fit the instruction, its shape or each other.",
        "Use a combination of types from the manual's table for the instruction.",
    ),
    kind(
        "shape_illegal",
        r"^Illegal (matrix shape|[ab]layout|reduction operation|shape|vector size|operation|atomic|dimension)|^Incorrect (shape|vector|operations)|[Ii]llegal vector",
        "The instruction does not have this shape, layout or operation.",
        "Use a shape, layout or operation from the manual's table for the instruction.",
    ),
    kind(
        "state_space_illegal",
        r"[Ss]tate space (incorrect|expected|mismatch)|Incorrect state space",
        "The instruction does not support this state space.",
        "Use the state space that the manual gives for the form.",
    ),
    kind(
        "immediate_illegal",
        r"^Argument \d+ of instruction .*(value|range|constant)|out of range|^Integer constant expression expected|must be a constant|value must be|immediate (value|operand)",
        "The instruction does not allow the value of an immediate operand.",
        "Use a value from the range that the message gives.",
    ),
    kind(
        "operands_illegal",
        r"^Arguments? mismatch|^Sink '|vector size mismatch|^Unexpected (number of )?(arguments|operands)|requires a non-zero|^Operand|number of (arguments|operands)|^Argument \d+ of instruction",
        "The operands do not have the number or the form that the instruction requires.",
        "Compare the operand list with the manual's syntax for exactly these modifiers.",
    ),
    kind(
        "directives_conflict",
        r"^Conflicting directives|directive\(s\) required|^Duplicate .*directive|[Dd]irective .*(not allowed|cannot|conflict|without)",
        "The entry's directives contradict each other, or one is missing.",
        "Give the directives that the message names, once each.",
    ),
    kind(
        "features_conflict",
        r"not allowed|granularity|cannot be used (together|with|in)",
        "Two features of one kernel exclude each other.",
        "Use one of the two throughout the kernel.",
    ),
    kind(
        "resource_exceeded",
        r"uses too much|[Tt]oo many|exceeds|too large|out of memory",
        "The kernel needs more shared memory, registers or parameters than the target has.",
        "Make the tile or the stage count smaller; SM12x has 99 KB of shared memory per block (101376 bytes, opt-in).",
    ),
    kind(
        "symbol_wrong",
        r"^(Unknown symbol|Undefined|Unresolved|Duplicate definition|Label expected|Call target|Multiple|Redefinition|Identifier|Symbol)|[Uu]nresolved extern|not (declared|defined|an entry)|[Dd]uplicate definition",
        "A name is undefined or defined twice.",
        "Declare it once, before its use.",
    ),
    kind(
        "version_missing",
        r"^Missing \.version|\.version directive|\.target directive|^No \.target",
        "A PTX file begins with `.version`, then `.target`.",
        "Add both lines at the top.",
    ),
    Kind {
        name: "assembler_crashed",
        pattern: r"^ptxas (was ended by signal|ended with status)|[Ii]nternal (compiler )?error",
        outcome: Outcome::Crashed,
        cause: "ptxas itself failed: ptxas or the machine is at fault.",
        remedy: "Run it again alone with `--isolated`; if it fails again, report it to NVIDIA with this PTX, else \
            check the memory limits.",
    },
    Kind {
        name: "assembler_timed_out",
        pattern: r"^ptxas did not end within",
        outcome: Outcome::TimedOut,
        cause: "ptxas timed out.",
        remedy: "Raise `--time-limit`, or cut the kernel down.",
    },
    Kind {
        name: "assembler_cannot_be_run",
        pattern: r"^ptxas cannot be run",
        outcome: Outcome::Crashed,
        cause: "The file cannot be started as a program.",
        remedy: "Check that it exists, is executable and is built for this machine; `sm121probe toolkit list` says \
            why files are not usable.",
    },
];

static PATTERNS: LazyLock<RegexSet> = LazyLock::new(|| {
    // A row that is not a valid regular expression would match nothing; a test rejects it.
    RegexSet::new(KINDS.iter().map(|k| k.pattern)).unwrap_or_else(|_| RegexSet::empty())
});

/// Returns the index of a message's kind in the record's kinds; `None` if its kind is unknown.
#[must_use]
pub fn classify(message: &str) -> Option<usize> {
    PATTERNS.matches(MessageRow::split(message).1).iter().next()
}

/// The kind, cause and remedy of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// The kind's name.
    pub kind: &'static str,
    /// Why ptxas prints it, in one sentence.
    pub cause: &'static str,
    /// What to do about it, in one sentence.
    pub remedy: &'static str,
}

/// Returns the meaning of a ptxas message; `None` if its kind is unknown.
#[must_use]
pub fn meaning(message: &str) -> Option<Meaning> {
    let found = &KINDS[classify(message)?];
    Some(Meaning { kind: found.name, cause: found.cause, remedy: found.remedy })
}

/// Every kind, as listed in the record.
pub(super) fn rows() -> Vec<KindRow> {
    KINDS
        .iter()
        .map(|k| KindRow { name: k.name.to_owned(), cause: k.cause.to_owned(), remedy: k.remedy.to_owned() })
        .collect()
}

/// Kinds that concern the file's directives and therefore every variant in it.
const OF_THE_FILE: [&str; 4] =
    ["unknown_arch", "unknown_target", "unsupported_isa", "target_does_not_fit_arch"];

/// Whether an error with this text concerns every variant in the file.
pub(super) fn is_of_the_file(text: &str) -> bool {
    classify(text).is_some_and(|i| OF_THE_FILE.contains(&KINDS[i].name))
}

/// The outcome of an error with this text.
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
        assert!(OF_THE_FILE.iter().all(|name| names.contains(name)));
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

    #[test]
    fn modifiers_too_many_are_no_names_declared_twice() {
        let kind = |text: &str| classify(text).map(|n| KINDS[n].name);
        for text in [
            "Multiple comparisons set",
            "Multiple rounding modifiers specified",
            "Duplicate .ftz modifier",
            "Unexpected number of state spaces specified in instruction 'st'",
            "Comparison qualifier is not allowed for instruction 'mul.lo'",
        ] {
            assert_eq!(kind(text), Some("modifier_illegal"), "{text}");
        }
        assert_eq!(kind("Boolean operation is required for instruction 'set'"), Some("modifier_missing"));
        assert_eq!(kind("Multiple definitions of 'x'"), Some("symbol_wrong"));
    }
}
