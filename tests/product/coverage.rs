//! Counts which instruction forms of CCCL and CUTLASS the snippets contain; `NOT_COVERED.md` lists the missing ones.
//!
//! A form is an opcode with its qualifiers in order, and its operands with every name replaced by `x`.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sm121probe::snippet::{Code, Library};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The forms in a data file, with their group.
fn forms(name: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(root().join("tests/coverage").join(name)).unwrap();
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|l| l.split_once(' ').unwrap())
        .map(|(group, form)| (unbraced(form), group.to_owned()))
        .collect()
}

/// A vector of one element counts as the element.
fn unbraced(form: &str) -> String {
    form.replace("{x}", "x")
}

/// The forms in the text of one variant. A special register counts as a name of its own and as a plain operand.
fn forms_of(text: &str, out: &mut BTreeSet<String>) {
    let without_comments: String =
        text.lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join(" ");
    // Only statements end with `;`; braces of blocks are at the ends of lines.
    for statement in without_comments.split(';') {
        let mut statement = statement.trim();
        while let Some(rest) = statement.strip_prefix(['{', '}']) {
            statement = rest.trim();
        }
        // Labels and guards.
        if let Some(rest) = statement.strip_prefix('@') {
            statement = rest.split_once(char::is_whitespace).map_or("", |(_, r)| r.trim());
        }
        // The last statement of a block does not include the brace.
        let (opcode, operands) = statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
        let compact: String = operands.chars().filter(|c| !c.is_whitespace()).collect();
        for keep_special in [false, true] {
            let mut form = format!("{opcode} ");
            let mut word = String::new();
            for c in compact.chars().chain([',']) {
                if "[]{},|".contains(c) {
                    if !word.is_empty() {
                        form.push_str(if keep_special && word.starts_with('%') { &word } else { "x" });
                        word.clear();
                    }
                    form.push(c);
                } else {
                    word.push(c);
                }
            }
            form.pop();
            out.insert(unbraced(form.trim_end()));
        }
    }
}

fn rendered() -> BTreeSet<String> {
    let library = Library::embedded();
    let mut out = BTreeSet::new();
    for v in &library.variants {
        match &v.code {
            // The text after the entry's name; the parameters end at the first brace.
            Code::Entry { after, .. } => {
                forms_of(after.split_once('{').map_or("", |(_, body)| body), &mut out)
            }
            Code::Module { text, .. } => forms_of(text, &mut out),
        }
    }
    out
}

#[test]
fn every_form_is_covered_or_listed_with_a_reason() {
    let rendered = rendered();
    let note = fs::read_to_string(root().join("ptx_snippets/NOT_COVERED.md")).unwrap();
    let listed: BTreeMap<String, String> = note
        .lines()
        .filter_map(|l| l.strip_prefix("- `")?.split_once("`: "))
        .map(|(form, reason)| (form.to_owned(), reason.to_owned()))
        .collect();
    assert!(listed.values().all(|reason| reason.len() > 10), "a form in NOT_COVERED.md has no reason");
    let mut missing = BTreeSet::new();
    for file in ["cccl.forms", "cutlass_sm120.forms"] {
        let forms = forms(file);
        let absent: Vec<&String> = forms.keys().filter(|f| !rendered.contains(*f)).collect();
        let line = format!("{file}: {} of {} forms covered", forms.len() - absent.len(), forms.len());
        println!("{line}");
        assert!(note.contains(&line), "NOT_COVERED.md must say `{line}`");
        missing.extend(absent.into_iter().cloned());
    }
    let listed: BTreeSet<String> = listed.into_keys().collect();
    let unlisted: Vec<_> = missing.difference(&listed).collect();
    assert!(unlisted.is_empty(), "{} forms neither covered nor listed: {unlisted:#?}", unlisted.len());
    let stale: Vec<_> = listed.difference(&missing).collect();
    assert!(stale.is_empty(), "listed in NOT_COVERED.md, yet covered: {stale:#?}");
}

#[test]
fn the_variants_are_many_and_no_family_rules() {
    let library = Library::embedded();
    let total = library.variants.len();
    assert!(total >= 1000, "{total} variants");
    let mut families: BTreeMap<&str, usize> = BTreeMap::new();
    for v in &library.variants {
        *families.entry(&library.snippets[v.snippet].family).or_default() += 1;
    }
    println!("{total} variants: {families:?}");
    for (family, n) in families {
        assert!(n * 10 <= total * 3, "{family} has {n} of {total} variants");
    }
}

#[test]
fn a_removed_snippet_would_be_missed() {
    let mut one = BTreeSet::new();
    forms_of("{ @p add.s32 r1, r2, [%tid.x+4]; } // mul.s32 a, b;", &mut one);
    assert!(one.contains("add.s32 x,x,[x]") && one.contains("add.s32 x,x,[%tid.x+4]"), "{one:?}");
    assert!(!one.iter().any(|f| f.starts_with("mul")));
}
