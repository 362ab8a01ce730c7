//! JUnit XML, in the form that Jenkins' schema (`junit-10.xsd`), GitLab and the usual actions of GitHub read.
//!
//! A suite is a family of variants, assembled or run on a device, or a case of a family of kernels; a test is a variant or a trial. Skipped tests have
//! a reason. Trials, variants on a device and the kernels of a program have times; cells of the matrix, most of which come from the cache, have none.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use super::claims::{measured, says};
use super::trials::{check_sentence, name, sentence};
use super::view::{Answer, View, speaks_of};
use crate::record::{CheckResult, Incomplete, Record, TrialRow, VariantRow, VariantRun, Verdict};

/// The result of a test.
pub(super) enum Status {
    /// Nothing contradicts the expectation.
    Passed,
    /// Something contradicts it: the kind and the message.
    Failed(&'static str, String),
    /// It could not be judged.
    Error(&'static str, String),
    /// It was not judged, or it is not supposed to pass.
    Skipped(String),
}

pub(super) struct Test {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) status: Status,
    pub(super) out: String,
    /// How long it took, in seconds, if that is known.
    pub(super) seconds: Option<f64>,
}

/// Its name, its properties, its tests.
pub(super) type Suite = (String, Vec<(String, String)>, Vec<Test>);

/// The record as JUnit XML. What is incomplete is an error.
#[must_use]
pub fn junit(record: &Record) -> String {
    junit_of(record, record.incomplete().as_ref())
}

/// The record of a run as JUnit XML, with what its command did not check.
#[must_use]
pub fn junit_of(record: &Record, incomplete: Option<&Incomplete>) -> String {
    let mut suites: Vec<Suite> = Vec::new();
    let view = View::new(&record.matrix);
    let mut families: BTreeMap<&str, Vec<Test>> = BTreeMap::new();
    for variant in &record.matrix.variants {
        families.entry(view.family(variant)).or_default().push(of_variant(&view, variant));
    }
    let listed = |items: Vec<String>| items.join(" ");
    let asked = vec![
        ("tool".to_owned(), record.tool.clone()),
        ("toolkits".to_owned(), listed(view.toolkits.iter().map(ToString::to_string).collect())),
        ("targets".to_owned(), listed(view.targets.iter().map(ToString::to_string).collect())),
    ];
    suites.extend(
        families.into_iter().map(|(family, tests)| (format!("matrix.{family}"), asked.clone(), tests)),
    );
    suites.extend(runs(record, &view));
    let mut cases: BTreeMap<(&str, &str), Vec<&TrialRow>> = BTreeMap::new();
    for trial in &record.trials {
        cases.entry((&trial.family, &trial.case)).or_default().push(trial);
    }
    for ((family, case), trials) in cases {
        let mut devices: Vec<&str> = trials.iter().map(|t| t.device.as_str()).collect();
        devices.sort_unstable();
        devices.dedup();
        let properties =
            vec![("tool".to_owned(), record.tool.clone()), ("devices".to_owned(), devices.join(", "))];
        suites.push((format!("{family}.{case}"), properties, trials.into_iter().map(of_trial).collect()));
    }
    if !record.skipped.is_empty() {
        let of = |s: &crate::record::SkippedRow| Test {
            name: s.part.clone(),
            class: "skipped".to_owned(),
            status: Status::Skipped(s.reason.clone()),
            out: String::new(),
            seconds: None,
        };
        suites.push(("skipped".to_owned(), Vec::new(), record.skipped.iter().map(of).collect()));
    }
    suites.extend(incomplete.map(incomplete_suite));
    document(&suites)
}

/// A suite of one test, which could not be judged.
pub(super) fn incomplete_suite(incomplete: &Incomplete) -> Suite {
    let test = Test {
        name: Incomplete::WORD.to_owned(),
        class: Incomplete::WORD.to_owned(),
        status: Status::Error(Incomplete::WORD, incomplete.to_string()),
        out: String::new(),
        seconds: None,
    };
    (Incomplete::WORD.to_owned(), Vec::new(), vec![test])
}

fn of_variant(view: &View<'_>, variant: &VariantRow) -> Test {
    let findings: Vec<String> = view
        .matrix
        .claims
        .iter()
        .filter(|c| c.is_finding() && speaks_of(c, variant))
        .map(|c| format!("{} says {}: {}", c.source, says(c), measured(c)))
        .collect();
    let mut answers = Vec::new();
    let mut out = String::new();
    for target in &view.targets {
        let history = view.history(variant, *target);
        _ = writeln!(out, "{target}: {}", history.summary(view, ""));
        answers.extend(history.said().map(|(_, a)| a));
    }
    let status = if let Some(first) = findings.first() {
        Status::Failed(
            "claim_contradicted",
            if findings.len() == 1 { first.clone() } else { findings.join("\n") },
        )
    } else if answers.contains(&Answer::Crashed) {
        Status::Error("crashed", "ptxas crashed".to_owned())
    } else if answers.contains(&Answer::TimedOut) {
        Status::Error("timed_out", "ptxas timed out".to_owned())
    } else if answers.is_empty() {
        Status::Skipped("no queried toolkit knows the target or the PTX version".to_owned())
    } else if answers.iter().all(|a| *a == Answer::Absent) {
        Status::Skipped("absent by design, and rejected".to_owned())
    } else {
        Status::Passed
    };
    Test {
        name: variant.id.clone(),
        class: format!("matrix.{}", view.family(variant)),
        status,
        out,
        seconds: None,
    }
}

/// One suite per family and device.
fn runs<'a>(record: &'a Record, view: &View<'a>) -> impl Iterator<Item = Suite> + use<'a> {
    let of_variant: HashMap<&str, &str> =
        record.matrix.variants.iter().map(|v| (v.id.as_str(), view.family(v))).collect();
    // A record without the matrix: an id usually begins with the name of its family.
    let family = |run: &'a VariantRun| {
        let first = || run.variant.split('.').next().unwrap_or_default();
        of_variant.get(run.variant.as_str()).copied().unwrap_or_else(first)
    };
    let mut suites: BTreeMap<(&str, &str), Vec<&VariantRun>> = BTreeMap::new();
    for run in &record.runs {
        suites.entry((family(run), &run.device)).or_default().push(run);
    }
    suites.into_iter().map(|((family, device), runs)| {
        let mut properties =
            vec![("tool".to_owned(), record.tool.clone()), ("device".to_owned(), device.to_owned())];
        if let Some(row) = record.devices.iter().find(|row| row.device == device) {
            properties.push(("gpu".to_owned(), format!("{}, {}", row.name, row.architecture)));
            properties.push(("driver".to_owned(), row.driver.clone()));
        }
        (
            format!("run.{family} on {device}"),
            properties,
            runs.into_iter().map(|run| of_run(run, family)).collect(),
        )
    })
}

fn of_run(run: &VariantRun, family: &str) -> Test {
    let sentence = |r: &CheckResult| format!("{}: {}: {}", r.check.word(), r.verdict.word(), r.note);
    let status = match run.first_wrong() {
        Some(wrong) if wrong.verdict == Verdict::Fail => {
            Status::Failed(wrong.verdict.word(), sentence(wrong))
        }
        Some(wrong) => Status::Error(wrong.verdict.word(), sentence(wrong)),
        None if run.checks.iter().any(|r| r.verdict == Verdict::Pass) => Status::Passed,
        None => Status::Skipped(run.checks.first().map_or_else(String::new, sentence)),
    };
    let out = run.checks.iter().map(|r| sentence(r) + "\n").collect();
    let code = if run.code.is_nobody() { String::new() } else { format!(", {}", run.code) };
    Test {
        name: format!("{} [{}, {}{code}]", run.variant, run.target, run.device),
        class: format!("run.{family}"),
        status,
        out,
        seconds: run.seconds.seconds(),
    }
}

fn of_trial(trial: &TrialRow) -> Test {
    let wrong = trial.first_wrong().map(|r| (r.verdict, sentence(r)));
    let wrong = wrong.or_else(|| trial.wrong_check().map(|r| (r.verdict, check_sentence(r))));
    let first = || trial.results.first().map_or_else(String::new, sentence);
    let status = match (wrong, trial.verdict()) {
        (Some((verdict @ (Verdict::Fail | Verdict::UnexpectedPass), text)), _) => {
            Status::Failed(verdict.word(), text)
        }
        (Some((verdict, text)), _) => Status::Error(verdict.word(), text),
        (None, Verdict::Pass) => Status::Passed,
        (None, Verdict::KnownFail) => {
            let known = trial.results.iter().find(|r| r.verdict == Verdict::KnownFail);
            Status::Skipped(known.map_or_else(String::new, sentence))
        }
        (None, _) => Status::Skipped(first()),
    };
    let mut out: String = trial.results.iter().map(|r| sentence(r) + "\n").collect();
    for check in &trial.checks {
        _ = writeln!(out, "{}: {}: {}", check.check.word(), check.verdict.word(), check.note);
    }
    Test {
        name: name(trial),
        class: format!("{}.{}", trial.family, trial.case),
        status,
        out,
        seconds: trial.seconds.seconds(),
    }
}

pub(super) fn document(suites: &[Suite]) -> String {
    let all = || suites.iter().flat_map(|(_, _, tests)| tests);
    let (failures, errors) = (count(all(), is_failed), count(all(), is_error));
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"sm121probe\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\"{}>\n",
        all().count(),
        time(all())
    );
    for (name, properties, tests) in suites {
        _ = writeln!(
            out,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"{}>",
            escaped(name),
            tests.len(),
            count(tests.iter(), is_failed),
            count(tests.iter(), is_error),
            count(tests.iter(), |s| matches!(s, Status::Skipped(_))),
            time(tests.iter())
        );
        if !properties.is_empty() {
            out.push_str("    <properties>\n");
            for (name, value) in properties {
                _ = writeln!(
                    out,
                    "      <property name=\"{}\" value=\"{}\"/>",
                    escaped(name),
                    escaped(value)
                );
            }
            out.push_str("    </properties>\n");
        }
        tests.iter().for_each(|test| write_test(&mut out, test));
        out.push_str("  </testsuite>\n");
    }
    out + "</testsuites>\n"
}

/// The attribute with the time of tests, if any has one.
fn time<'a>(tests: impl Iterator<Item = &'a Test>) -> String {
    let known: Vec<f64> = tests.filter_map(|test| test.seconds).collect();
    if known.is_empty() { String::new() } else { format!(" time=\"{:.3}\"", known.iter().sum::<f64>()) }
}

fn write_test(out: &mut String, test: &Test) {
    let head = format!(
        "    <testcase name=\"{}\" classname=\"{}\"{}",
        escaped(&test.name),
        escaped(&test.class),
        time(std::iter::once(test))
    );
    let (kind, word, text) = match &test.status {
        Status::Passed => {
            _ = writeln!(out, "{head}/>");
            return;
        }
        Status::Failed(word, text) => ("failure", *word, text),
        Status::Error(word, text) => ("error", *word, text),
        Status::Skipped(text) => ("skipped", "", text),
    };
    let line = text.lines().next().unwrap_or_default();
    let word = if word.is_empty() { String::new() } else { format!(" type=\"{word}\"") };
    _ = writeln!(
        out,
        "{head}>\n      <{kind}{word} message=\"{}\">{}</{kind}>",
        escaped(line),
        escaped(text)
    );
    if !matches!(test.status, Status::Skipped(_)) {
        _ = writeln!(out, "      <system-out>{}</system-out>", escaped(&test.out));
    }
    out.push_str("    </testcase>\n");
}

fn is_failed(status: &Status) -> bool {
    matches!(status, Status::Failed(..))
}

fn is_error(status: &Status) -> bool {
    matches!(status, Status::Error(..))
}

fn count<'a>(tests: impl Iterator<Item = &'a Test>, wanted: fn(&Status) -> bool) -> usize {
    tests.filter(|t| wanted(&t.status)).count()
}

/// Text that is legal in an element or an attribute. XML 1.0 excludes most control characters.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
