//! Architecture tests in sources, for the terminal, as Markdown, JSON, CSV and findings.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ptx::arch::{Suffix, Target};
use serde_json::json;

use super::super::csv::table;
use super::super::markup::{Align, code, head, plain, row};
use super::super::phrase::{clean, counted, names};
use super::super::sarif;
use crate::lint::{GateLint, GateRow, GateRule, need};
use crate::record::{Finding, Ground};

/// What to do about a result.
const HELP: &str = "The message names the test to write instead; docs/lint.md has the table of rules.";

/// What is wrong with a test, in one sentence.
fn message(row: &GateRow) -> String {
    match &row.through {
        Some(through) => format!("{}; {through} is defined under an architecture test", of_rule(row)),
        None => of_rule(row),
    }
}

fn of_rule(row: &GateRow) -> String {
    let (admits, shut) = (names(&row.admits), names(&row.shuts_out));
    let held = row.instructions.first().map_or("", String::as_str);
    match row.rule {
        GateRule::OneDevice => {
            format!("true on {admits}, false on {shut}; 12.0 and 12.1 accept the same instructions")
        }
        GateRule::NoFamily => {
            format!(
                "true on {admits}, false on {shut}; no known instruction of the guarded code needs the suffix `a`"
            )
        }
        GateRule::NeedsSuffix => {
            let lack = |t: &&Target| need(held).is_some_and(|need| !need.is_met_by(**t));
            let lacking = names(row.admits.iter().filter(lack));
            format!("true on {lacking}, for which ptxas rejects {held} of the guarded code")
        }
        GateRule::Absent if held.starts_with("sm_") => {
            format!("lets {admits} in, but code for {held} loads on no SM12x device")
        }
        GateRule::Absent if !held.contains('.') || is_of_host(row) => {
            format!("lets {admits} in, but no SM12x target has {held}, which the text beside the test needs")
        }
        GateRule::Absent => format!("true on {admits}, but no SM12x target has {held} of the guarded code"),
        GateRule::ShutOut => {
            format!("false on every SM12x target, although SM12x has {held} of the guarded code")
        }
        GateRule::Refuses => {
            format!(
                "admits {admits} and refuses every SM12x device; whether the code needs that is not known"
            )
        }
        GateRule::PtxOnly => {
            format!(
                "of this list SM12x can use the PTX of {admits} alone, which the driver compiles when it is loaded: without FP4, block scaling and what else needs a target of its own"
            )
        }
        GateRule::OneBuild => {
            format!("builds for {admits} alone; its code does not load on {}", device(&row.shuts_out))
        }
    }
}

fn device(targets: &[Target]) -> String {
    let each = targets.iter().map(|t| format!("{}.{}", t.number / 10, t.number % 10));
    each.collect::<Vec<_>>().join(", ")
}

/// Whether a test is in the code of a host, which sees no suffix.
fn is_of_host(row: &GateRow) -> bool {
    row.admits.iter().chain(&row.shuts_out).all(|t| t.suffix == Suffix::Base)
}

/// What to write instead.
fn remedy(row: &GateRow) -> &'static str {
    let in_preprocessor = row.admits.iter().chain(&row.shuts_out).any(|t| t.suffix != Suffix::Base);
    match row.rule {
        GateRule::OneDevice if in_preprocessor => {
            "write `__CUDA_ARCH__ >= 1200 && __CUDA_ARCH__ < 1300` with the suffix test, or SM12X_HAS(...) of `sm121probe predicates --lang c`"
        }
        GateRule::OneDevice if row.text.contains("__CUDA_ARCH__") => "write `__CUDA_ARCH__ / 100 == 12`",
        GateRule::OneDevice => {
            "compare the major version alone (`major == 12`, `sm / 10 == 12`), or name 12.0 and 12.1"
        }
        GateRule::NoFamily => {
            "admit `__CUDA_ARCH_FAMILY_SPECIFIC__`, too, or write SM12X_HAS(...) of `sm121probe predicates --lang c`"
        }
        GateRule::NeedsSuffix => {
            "require `__CUDA_ARCH_FAMILY_SPECIFIC__` or `__CUDA_ARCH_SPECIFIC__` for SM12x, or write SM12X_HAS(...) of `sm121probe predicates --lang c`"
        }
        GateRule::Absent if is_of_host(row) => {
            "bound the test from above, such as `major < 12`, or name the architectures that have it"
        }
        GateRule::PtxOnly => {
            "add 12.0 (or 12.0a and 12.1a, for code that needs the suffix), whose machine code needs no compilation"
        }
        GateRule::Absent => {
            "bound the test from above, such as `__CUDA_ARCH__ < 1200`, or name the architectures that have it"
        }
        GateRule::ShutOut => {
            "admit SM12x with `__CUDA_ARCH_FAMILY_SPECIFIC__` or `__CUDA_ARCH_SPECIFIC__`, or write SM12X_HAS(...) of `sm121probe predicates --lang c`"
        }
        GateRule::Refuses => {
            "if the code needs neither tcgen05 nor wgmma, admit 12, too; `sm121probe audit` shows what its kernels contain"
        }
        GateRule::OneBuild => match row.admits.first().map(|t| t.suffix) {
            Some(Suffix::Base) => "build for sm_120, whose code loads on both",
            Some(Suffix::Family) => "build for sm_120f, whose code loads on both",
            _ => "build for sm_120f (CUDA 12.9 or newer), or for sm_120a and sm_121a",
        },
    }
}

fn summary(result: &GateLint) -> String {
    let mut rules: BTreeMap<GateRule, usize> = BTreeMap::new();
    for row in &result.rows {
        *rules.entry(row.rule).or_default() += 1;
    }
    let words = |notes: bool| {
        let of = rules.iter().filter(|(rule, _)| rule.is_note() == notes);
        of.map(|(rule, n)| format!("{n} {}", rule.word())).collect::<Vec<_>>().join(", ")
    };
    let (wrong, notes) = (words(false), words(true));
    let wrong = if wrong.is_empty() { "none wrong".to_owned() } else { format!("wrong: {wrong}") };
    let notes = if notes.is_empty() { notes } else { format!("; notes: {notes}") };
    let tests = counted(result.tests.len() + result.builds, "architecture test");
    format!("{}, {tests}; {wrong}{notes}", counted(result.files, "file"))
}

/// A paragraph for each wrong test, then the counts.
#[must_use]
pub fn gates_text(result: &GateLint) -> String {
    let mut out = String::new();
    for row in &result.rows {
        _ = writeln!(
            out,
            "{}:{}:{}: {}\n  {}\n  {}\n  instead: {}",
            clean(&row.file),
            row.line,
            row.column,
            row.rule.word(),
            clean(&row.text),
            message(row),
            remedy(row)
        );
    }
    out + &summary(result) + "\n"
}

/// The counts, then a row for each wrong test.
#[must_use]
pub fn gates_markdown(result: &GateLint) -> String {
    let mut out = format!("## Architecture tests\n\n{}.\n", summary(result));
    if !result.rows.is_empty() {
        out.push('\n');
        out.push_str(&head(&["place", "rule", "test", "what is wrong", "instead"], Align::Left));
    }
    for r in &result.rows {
        let place = format!("{}:{}", r.file, r.line);
        out.push_str(&row(&[
            plain(&place),
            plain(r.rule.word()),
            code(&r.text),
            plain(&message(r)),
            plain(remedy(r)),
        ]));
    }
    out
}

/// A row for each wrong test.
#[must_use]
pub fn gates_csv(result: &GateLint) -> String {
    let head = [
        "file",
        "line",
        "column",
        "rule",
        "test",
        "admits",
        "shuts_out",
        "instructions",
        "message",
        "instead",
    ];
    let rows = result.rows.iter().map(|r| {
        vec![
            r.file.clone(),
            r.line.to_string(),
            r.column.to_string(),
            r.rule.word().to_owned(),
            r.text.clone(),
            names(&r.admits),
            names(&r.shuts_out),
            r.instructions.join(" "),
            message(r),
            remedy(r).to_owned(),
        ]
    });
    table(std::iter::once(head.map(str::to_owned).to_vec()).chain(rows))
}

/// Everything as JSON.
///
/// # Errors
/// Only if serialisation itself fails.
pub fn gates_json(result: &GateLint) -> serde_json::Result<String> {
    let words = |targets: &[Target]| targets.iter().map(ToString::to_string).collect::<Vec<_>>();
    let rows = result.rows.iter().map(|r| {
        json!({
            "file": r.file, "line": r.line, "column": r.column, "rule": r.rule.word(), "test": r.text,
            "admits": words(&r.admits), "shuts_out": words(&r.shuts_out), "instructions": r.instructions,
            "message": message(r), "instead": remedy(r), "through": r.through,
            "level": if r.rule.is_note() { "note" } else { "error" },
        })
    });
    let tests = result.tests.iter().map(|t| {
        json!({
            "file": t.file, "line": t.line, "column": t.column, "test": t.text, "admits": words(&t.admits),
            "shuts_out": words(&t.shuts_out),
        })
    });
    let all = json!({
        "files": result.files, "tests": result.tests.len() + result.builds, "findings": rows.collect::<Vec<_>>(),
        "unusable": result.unusable, "all": tests.collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

/// Each wrong test as SARIF 2.1.0.
///
/// # Errors
/// Only if serialisation itself fails.
pub fn gates_sarif(result: &GateLint) -> serde_json::Result<String> {
    let all = [
        (GateRule::OneDevice, "A test is true on one of 12.0 and 12.1, which accept the same instructions."),
        (
            GateRule::NoFamily,
            "A test admits the suffix `a` and excludes `f`, although nothing that it guards needs `a`.",
        ),
        (
            GateRule::NeedsSuffix,
            "A test admits a target without the suffix that a guarded instruction needs.",
        ),
        (GateRule::Absent, "A test lets SM12x reach an instruction that SM12x lacks."),
        (GateRule::ShutOut, "A test excludes every SM12x target from instructions that SM12x has."),
        (GateRule::OneBuild, "Options build code that loads on one of 12.0 and 12.1 alone."),
        (GateRule::Refuses, "A test refuses every SM12x device."),
        (GateRule::PtxOnly, "A list of architectures leaves SM12x the PTX of an older one alone."),
    ];
    let rules = all.iter().map(|(rule, text)| sarif::rule(rule.word(), text, HELP)).collect();
    let mut seen: BTreeMap<[&str; 3], usize> = BTreeMap::new();
    let mut results = Vec::new();
    for row in &result.rows {
        let name = [row.file.as_str(), row.rule.word(), row.text.as_str()];
        let again = seen.entry(name).and_modify(|n| *n += 1).or_default().to_string();
        let text = format!("`{}`: {}; {}", clean(&row.text), message(row), remedy(row));
        results.push(json!({
            "ruleId": row.rule.word(),
            "ruleIndex": all.iter().position(|(rule, _)| *rule == row.rule),
            "level": if row.rule.is_note() { "note" } else { "error" },
            "message": {"text": text},
            "locations": [{"physicalLocation": {
                "artifactLocation": sarif::artifact(&row.file),
                "region": {"startLine": row.line, "startColumn": row.column},
            }}],
            "partialFingerprints": {"sm121probe/v1": sarif::fingerprint(&[name[0], name[1], name[2], &again])},
        }));
    }
    sarif::document(rules, results)
}

/// Each wrong test, for annotations; no notes.
#[must_use]
pub fn gates_findings(result: &GateLint) -> Vec<Finding> {
    let of = |row: &GateRow| {
        let text = format!("`{}`: {}; {}", clean(&row.text), message(row), remedy(row));
        let mut finding = Finding::new(Ground::Wrong, row.rule.word().to_owned(), text);
        finding.place = Some((row.file.clone(), row.line));
        finding
    };
    result.rows.iter().filter(|row| !row.rule.is_note()).map(of).collect()
}
