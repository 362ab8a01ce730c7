//! Results of a program on a simulated GPU.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::junit::{Status, Test, document, incomplete_suite};
use super::markup::{Align, code, head, plain, row};
use super::phrase::{clean, counted, grouped};
use super::sarif;
use crate::job::{ExecViolation, Executed};
use crate::record::{Incomplete, first_line, readable_kernel};

/// For the terminal.
#[must_use]
pub fn exec_text(of: &Executed) -> String {
    let mut out = first_line(of.incomplete.as_ref());
    for (kernel, ran) in &of.kernels {
        _ = writeln!(
            out,
            "{}: {}, {}{}",
            clean(&readable_kernel(kernel)),
            counted(ran.launches as usize, "launch"),
            counted(ran.instructions as usize, "warp instruction"),
            match ran.violations {
                0 => String::new(),
                count => format!(", {}", counted(count as usize, "violation")),
            }
        );
    }
    for violation in &of.violations {
        _ = writeln!(out, "violation: {}", sentence(violation));
    }
    for note in notes(of) {
        _ = writeln!(out, "{note}");
    }
    let verdict = match (of.violations.is_empty(), of.launches()) {
        (true, 0) => "nothing checked",
        (true, _) => "no violation",
        (false, _) => "does not conform",
    };
    let launches = counted(of.launches() as usize, "launch");
    _ = writeln!(out, "exec on {}: {launches}, {verdict}; the program ended with {}", of.gpu, of.code);
    out
}

/// As Markdown.
#[must_use]
pub fn exec_markdown(of: &Executed) -> String {
    let mut out = format!("## Launches on {}\n\n", plain(&of.gpu));
    if let Some(incomplete) = &of.incomplete {
        _ = writeln!(out, "**{}**\n", plain(&incomplete.to_string()));
    }
    out += &head(&["Kernel", "Launches", "Warp instructions", "Violations"], Align::Right);
    for (kernel, ran) in &of.kernels {
        out += &row(&[
            code(&readable_kernel(kernel)),
            grouped(ran.launches as usize),
            grouped(ran.instructions as usize),
            ran.violations.to_string(),
        ]);
    }
    if !of.violations.is_empty() {
        out += "\n## Violations\n\n";
        of.violations.iter().for_each(|v| _ = writeln!(out, "* {}", plain(&sentence(v))));
    }
    let notes = notes(of);
    if !notes.is_empty() {
        out += "\n## Notes\n\n";
        notes.iter().for_each(|note| _ = writeln!(out, "* {}", plain(note)));
    }
    _ = writeln!(out, "\nThe program ended with exit code {}.", of.code);
    out
}

/// As JUnit XML: a test for each kernel.
#[must_use]
pub fn exec_junit(of: &Executed) -> String {
    let mut tests = Vec::new();
    for (kernel, ran) in &of.kernels {
        let mine: Vec<&ExecViolation> = of.violations.iter().filter(|v| v.kernel == *kernel).collect();
        let lines: Vec<String> = mine.iter().map(|v| sentence(v)).collect();
        let status = match mine.first() {
            Some(_) => Status::Failed("violation", lines.join("\n")),
            None => Status::Passed,
        };
        let out = format!(
            "{}, {}",
            counted(ran.launches as usize, "launch"),
            counted(ran.instructions as usize, "warp instruction")
        );
        tests.push(Test { name: kernel.clone(), class: "exec".to_owned(), status, out });
    }
    for (kernel, why) in &of.refused {
        let status = Status::Error("refused", why.clone());
        tests.push(Test {
            name: kernel.clone(),
            class: "exec.refused".to_owned(),
            status,
            out: String::new(),
        });
    }
    let properties = vec![("gpu".to_owned(), of.gpu.clone()), ("exit_code".to_owned(), of.code.to_string())];
    let mut suites = vec![("exec".to_owned(), properties, tests)];
    suites.extend(of.incomplete.as_ref().map(incomplete_suite));
    document(&suites)
}

/// As SARIF 2.1.0: a rule for each violated rule, a result for each violation.
///
/// # Errors
/// Only if serialisation itself fails.
pub fn exec_sarif(of: &Executed) -> serde_json::Result<String> {
    let mut names: Vec<&str> = of.violations.iter().map(|v| v.rule.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut rules: Vec<Value> =
        names.iter().map(|name| sarif::rule(name, &format!("A kernel violates the rule {name}."))).collect();
    let mut results: Vec<Value> = of.violations.iter().map(|v| result(v, &names)).collect();
    if let Some(incomplete) = &of.incomplete {
        results.push(sarif::incomplete(incomplete, rules.len()));
        rules.push(sarif::rule(Incomplete::WORD, Incomplete::SENTENCE));
    }
    sarif::document(rules, results)
}

fn result(violation: &ExecViolation, rules: &[&str]) -> Value {
    let line = violation.ptx_line.to_string();
    let mut out = json!({
        "ruleId": violation.rule,
        "ruleIndex": rules.iter().position(|rule| *rule == violation.rule),
        "level": "error",
        "message": {"text": clean(&sentence(violation))},
        "partialFingerprints": {"sm121probe/v1": sarif::fingerprint(&[&violation.rule, &violation.kernel, &line])},
    });
    if let Some((file, line)) = &violation.source {
        out["locations"] = json!([{
            "physicalLocation": {"artifactLocation": {"uri": sarif::uri(file)}, "region": {"startLine": line}},
        }]);
    }
    out
}

fn sentence(violation: &ExecViolation) -> String {
    let times = if violation.times > 1 { format!(" ({} times)", violation.times) } else { String::new() };
    format!("{}{times}", violation.message)
}

/// Remarks that are no violations.
fn notes(of: &Executed) -> Vec<String> {
    let mut notes = Vec::new();
    // The first line names a single kernel and all that is not supported.
    if of.refused.len() > 1 {
        notes.extend(of.refused.iter().map(|(kernel, why)| format!("kernel {kernel} did not run: {why}")));
    }
    if of.unchecked.len() > 1 {
        notes.extend(of.unchecked.iter().cloned());
    }
    if let Some(model) = &of.model {
        notes.push(format!("tensor cores and special functions are those of {model} (--model)"));
    }
    if of.contracted {
        notes.push("an unqualified product and the sum that uses it rounded once (--contract on)".to_owned());
    }
    let (count, bytes) = of.leaks;
    if count > 0 {
        let allocations = counted(count, "allocation");
        let were = if count == 1 { "was" } else { "were" };
        notes.push(format!("{allocations} of {} bytes in all {were} not freed", grouped(bytes as usize)));
    }
    if of.cut_short > 0 {
        notes.push(format!("{} of {} processes crashed or were killed", of.cut_short, of.processes));
    }
    notes
}
