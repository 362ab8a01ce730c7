//! Results of a program on a simulated GPU.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::junit::{Status, Test, document, incomplete_suite};
use super::markup::{Align, code, head, plain, row};
use super::phrase::{clean, counted, grouped};
use super::sarif;
use crate::job::{DifferingResults, ExecViolation, Executed};
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
    for trap in of.expected_traps.iter().flatten() {
        _ = writeln!(out, "expected: {}", sentence(trap));
    }
    for remark in &of.remarks {
        _ = writeln!(out, "remark: {}", clean(remark));
    }
    for violation in &of.listed {
        _ = writeln!(out, "listed, the results decide: {}", sentence(violation));
    }
    for difference in &of.differing {
        _ = writeln!(out, "{}", differing(difference));
    }
    for note in notes(of) {
        _ = writeln!(out, "{note}");
    }
    let failing = of.differing.iter().any(|difference| difference.is_failure);
    let verdict = match (of.violations.is_empty() && !failing, of.launches()) {
        (true, 1..) if of.incomplete.is_some() && !of.lacks_trap() => {
            "no violation in what was checked: incomplete"
        }
        (true, _) if of.lacks_trap() => "does not conform: no kernel trapped (--expect-trap)",
        (true, 0) => "nothing checked",
        (true, _) => "no violation",
        (false, _) => "does not conform",
    };
    let mut launches = counted(of.launches() as usize, "launch");
    if let Some(schedules) = of.schedules.filter(|schedules| *schedules > 1 && of.launches() > 0) {
        launches += &format!(" under {schedules} schedules each");
    }
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
    let expected: Vec<String> = of.expected_traps.iter().flatten().map(sentence).collect();
    for (title, lines) in [("Expected traps", &expected), ("Remarks", &of.remarks)] {
        if !lines.is_empty() {
            _ = writeln!(out, "\n## {title}\n");
            lines.iter().for_each(|line| _ = writeln!(out, "* {}", plain(line)));
        }
    }
    if of.lacks_trap() {
        out += "\n**No kernel trapped, as --expect-trap expects.**\n";
    }
    if !of.listed.is_empty() || !of.differing.is_empty() {
        out += "\n## Results\n\n";
        of.listed
            .iter()
            .for_each(|v| _ = writeln!(out, "* listed, the results decide: {}", plain(&sentence(v))));
        of.differing.iter().for_each(|d| _ = writeln!(out, "* {}", plain(&differing(d))));
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
        let failing = |d: &&DifferingResults| d.kernel == *kernel && d.is_failure;
        let open: Vec<String> = of.differing.iter().filter(failing).map(differing).collect();
        let status = match (mine.first(), open.first()) {
            (Some(_), _) => Status::Failed("violation", lines.join("\n")),
            (None, Some(_)) => Status::Failed("results", open.join("\n")),
            (None, None) => Status::Passed,
        };
        let out = format!(
            "{}, {}",
            counted(ran.launches as usize, "launch"),
            counted(ran.instructions as usize, "warp instruction")
        );
        let seconds = Some(ran.nanoseconds as f64 / 1e9);
        tests.push(Test { name: kernel.clone(), class: "exec".to_owned(), status, out, seconds });
    }
    let call = |v: &&ExecViolation| v.kernel.is_empty();
    for violation in of.violations.iter().filter(call) {
        let name = violation.call.clone().unwrap_or_default();
        let status = Status::Failed("violation", sentence(violation));
        tests.push(Test { name, class: "exec.calls".to_owned(), status, out: String::new(), seconds: None });
    }
    if let Some(traps) = &of.expected_traps {
        let status = if traps.is_empty() {
            Status::Failed("violation", "no kernel trapped, as --expect-trap expects".to_owned())
        } else {
            Status::Passed
        };
        let out = traps.iter().map(sentence).collect::<Vec<_>>().join("\n");
        tests.push(Test {
            name: "--expect-trap".to_owned(),
            class: "exec".to_owned(),
            status,
            out,
            seconds: None,
        });
    }
    if !of.remarks.is_empty() {
        let (name, class) = ("remarks".to_owned(), "exec".to_owned());
        tests.push(Test { name, class, status: Status::Passed, out: of.remarks.join("\n"), seconds: None });
    }
    for (kernel, why) in &of.refused {
        let status = Status::Error("refused", why.clone());
        tests.push(Test {
            name: kernel.clone(),
            class: "exec.refused".to_owned(),
            status,
            out: String::new(),
            seconds: None,
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
    let mut rules: Vec<Value> = names.iter().map(|name| sarif::rule(name, meaning(name), HELP)).collect();
    let mut results: Vec<Value> = of.violations.iter().map(|v| result(v, &names)).collect();
    if of.lacks_trap() {
        results.push(statement(
            "expect_trap",
            rules.len(),
            "error",
            "no kernel trapped, as --expect-trap expects",
        ));
        rules.push(sarif::rule("expect_trap", "A kernel traps, as --expect-trap expects.", HELP));
    }
    if !of.remarks.is_empty() {
        results.extend(of.remarks.iter().map(|remark| statement("remark", rules.len(), "note", remark)));
        rules.push(sarif::rule("remark", "Something deserves attention and violates no rule.", HELP));
    }
    if !of.differing.is_empty() {
        results.extend(of.differing.iter().map(|d| differing_result(d, rules.len())));
        rules.push(sarif::rule(
            "undetermined_results",
            "Results of a kernel differ between trials although no rule is violated.",
            HELP,
        ));
    }
    if let Some(incomplete) = &of.incomplete {
        results.push(sarif::incomplete(incomplete, rules.len()));
        rules.push(sarif::rule(Incomplete::WORD, Incomplete::SENTENCE, HELP));
    }
    sarif::document(rules, results)
}

/// What to do about a result.
const HELP: &str = "The message names the kernel, the line and the thread. `sm121probe exec --record DIR` writes the launch, which \
    `sm121probe emulate` repeats; docs/emulator.md explains each rule.";

/// What a rule of the emulator says.
fn meaning(rule: &str) -> &'static str {
    match rule {
        "out_of_bounds" => "An access is outside every allocation, or across the end of one.",
        "misaligned" => "An address is no multiple of the access size.",
        "wrong_space" => "An address belongs to another state space.",
        "use_after_free" => "Freed memory is accessed.",
        "uninitialised" => "A value that was never written decides something or leaves the grid.",
        "race" => "Two accesses to the same bytes are unordered, and at least one of them writes.",
        "divergent" => "Not all lanes of a warp reach a barrier or an .aligned instruction together.",
        "deadlock" => "No warp can make progress.",
        "fuel" => "A launch executes more instructions than its limit.",
        "barrier" => "A barrier object is used against its rules: count, phase, tx-count.",
        "tensor_map" => "A tensor map or a tensor instruction violates its rules.",
        "dependency" => "Data of the primary grid are accessed before griddepcontrol.wait.",
        "trap" => "A kernel traps, or an assertion in it fails.",
        "operand" => "An operand has a value for which PTX leaves the behaviour undefined.",
        _ => "A rule of PTX or of the CUDA API is violated.",
    }
}

/// A result without a place in a file.
fn statement(rule: &str, index: usize, level: &str, text: &str) -> Value {
    json!({
        "ruleId": rule,
        "ruleIndex": index,
        "level": level,
        "message": {"text": clean(text)},
        "partialFingerprints": {"sm121probe/v1": sarif::fingerprint(&[rule, text])},
    })
}

fn result(violation: &ExecViolation, rules: &[&str]) -> Value {
    let line = violation.ptx_line.to_string();
    // A violation that no call makes visible keeps the fingerprint that it has had.
    let mut parts = vec![violation.rule.as_str(), &violation.kernel, &line];
    parts.extend(violation.call.as_deref());
    let mut out = json!({
        "ruleId": violation.rule,
        "ruleIndex": rules.iter().position(|rule| *rule == violation.rule),
        "level": "error",
        "message": {"text": clean(&sentence(violation))},
        "partialFingerprints": {"sm121probe/v1": sarif::fingerprint(&parts)},
    });
    if let Some((file, line)) = &violation.source {
        out["locations"] = json!([sarif::location(file, *line as usize, violation.source_text.as_deref())]);
    } else {
        // PTX without lines of a source: the kernel is all that is known of the place.
        out["locations"] =
            json!([{"logicalLocations": [{"fullyQualifiedName": violation.kernel, "kind": "function"}]}]);
    }
    if let Some(other) = violation.other.as_ref().map(|other| &other.place)
        && let Some((file, line)) = &other.source
    {
        let place = sarif::location(file, *line as usize, other.source_text.as_deref());
        out["relatedLocations"] = sarif::related(place, "the other access");
    }
    out
}

fn differing_result(found: &DifferingResults, rule: usize) -> Value {
    json!({
        "ruleId": "undetermined_results",
        "ruleIndex": rule,
        "level": if found.is_failure { "error" } else { "note" },
        "message": {"text": clean(&differing(found))},
        "partialFingerprints": {"sm121probe/v1": sarif::fingerprint(&["undetermined_results", &found.kernel])},
    })
}

fn sentence(violation: &ExecViolation) -> String {
    let times = if violation.times > 1 { format!(" ({} times)", violation.times) } else { String::new() };
    format!("{}{times}", violation.message)
}

/// What differs between trials, with the kernel.
fn differing(found: &DifferingResults) -> String {
    format!("{}: {}", clean(&readable_kernel(&found.kernel)), found.what.replace('\n', ";"))
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
        notes.push(format!(
            "{} of {} crashed or {} killed",
            of.cut_short,
            counted(of.processes, "process"),
            if of.cut_short == 1 { "was" } else { "were" }
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sarif_has_both_sides_of_a_race_with_their_text() {
        let place = json!({"kernel": "k", "line": 9, "instruction": "st", "source": ["/src/k.cu", 2], "source_text": "box = 9;",
            "cta": [0, 0, 0], "warp": 0, "lane": null, "wrote": true});
        let violation = json!({"rule": "race", "what": "", "message": "", "kernel": "k", "ptx_line": 11, "instruction": "ld",
            "source": ["/src/k.cu", 3], "source_text": "y[0] = box;", "other": place, "cta": [0, 0, 0], "warp": 1, "lane": 0,
            "times": 1});
        let result = result(&serde_json::from_value(violation).unwrap(), &["race"]);
        let region = |of: &Value| of[0]["physicalLocation"]["region"].clone();
        assert_eq!(region(&result["locations"]), json!({"startLine": 3, "snippet": {"text": "y[0] = box;"}}));
        let other = &result["relatedLocations"];
        assert_eq!(region(other), json!({"startLine": 2, "snippet": {"text": "box = 9;"}}));
        assert_eq!(other[0]["message"]["text"], "the other access");
    }
}
