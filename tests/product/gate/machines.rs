//! Machine-readable forms: JUnit by Jenkins' schema, SARIF by its own, annotations and the summary of GitHub.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sm121probe::moe::Stage;
use sm121probe::record::{Record, Verdict};
use sm121probe::report;

use super::fixture::{Desk, fail, record, said, set, stdout};

/// For an element of `junit-10.xsd` of Jenkins' xunit plugin: its attributes, the required ones first, and its children.
fn rules() -> BTreeMap<&'static str, (usize, Vec<&'static str>, Vec<&'static str>)> {
    let problem = || (0, vec!["type", "message"], vec![]);
    BTreeMap::from([
        ("testsuites", (0, vec!["name", "time", "tests", "failures", "errors"], vec!["testsuite"])),
        (
            "testsuite",
            (
                4,
                vec![
                    "name",
                    "tests",
                    "failures",
                    "errors",
                    "group",
                    "time",
                    "skipped",
                    "timestamp",
                    "hostname",
                    "id",
                    "package",
                    "file",
                    "log",
                    "url",
                ],
                vec!["testsuite", "properties", "testcase", "system-out", "system-err"],
            ),
        ),
        ("properties", (0, vec![], vec!["property"])),
        ("property", (2, vec!["name", "value"], vec![])),
        (
            "testcase",
            (
                1,
                vec!["name", "time", "classname", "group"],
                vec!["skipped", "error", "failure", "system-out", "system-err"],
            ),
        ),
        ("skipped", problem()),
        ("error", problem()),
        ("failure", problem()),
        ("system-out", (0, vec![], vec![])),
        ("system-err", (0, vec![], vec![])),
    ])
}

/// Violations of the schema, and wrong counts, in a document.
fn faults_of(xml: &str) -> Vec<String> {
    let document = match roxmltree::Document::parse(xml) {
        Ok(document) => document,
        Err(error) => return vec![error.to_string()],
    };
    let rules = rules();
    let mut out = Vec::new();
    if document.root_element().tag_name().name() != "testsuites" {
        out.push("the root is no <testsuites>".to_owned());
    }
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        let Some((required, attributes, children)) = rules.get(name) else {
            out.push(format!("no element <{name}>"));
            continue;
        };
        for attribute in &attributes[..*required] {
            if node.attribute(*attribute).is_none() {
                out.push(format!("<{name}> lacks {attribute}"));
            }
        }
        out.extend(
            node.attributes()
                .filter(|a| !attributes.contains(&a.name()))
                .map(|a| format!("<{name}> has {}", a.name())),
        );
        for child in node.children().filter(roxmltree::Node::is_element) {
            if !children.contains(&child.tag_name().name()) {
                out.push(format!("<{}> in <{name}>", child.tag_name().name()));
            }
        }
        let count = |what: &str| node.descendants().filter(|n| n.has_tag_name(what)).count().to_string();
        if ["testsuite", "testsuites"].contains(&name) {
            for (attribute, what) in
                [("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")]
            {
                if node.attribute(attribute).is_some_and(|n| n != count(what)) {
                    out.push(format!("<{name}> counts {attribute} wrongly"));
                }
            }
        }
    }
    out
}

#[test]
fn junit_is_what_its_readers_expect() {
    let mut run = record();
    set(&mut run, "tcgen05.alloc", ("13.5.37", "sm_121a"), 'A', 'N');
    fail(&mut run.trials[0], Stage::Fc1, Verdict::Fail, "a <scale> & \"more\" \u{1b}[31m");
    fail(&mut run.trials[2], Stage::Fc1, Verdict::Unsupported, "wgmma");
    sm121probe::record::claims::judge(&mut run.matrix);
    let xml = report::junit(&run);
    assert_eq!(faults_of(&xml), Vec::<String>::new(), "{xml}");
    let document = roxmltree::Document::parse(&xml).unwrap();
    let test = |name: &str| document.descendants().find(|n| n.attribute("name") == Some(name)).unwrap();
    let status = |name: &str| {
        test(name)
            .children()
            .find(|n| n.is_element())
            .map(|n| (n.tag_name().name().to_owned(), n.attribute("message").unwrap_or_default().to_owned()))
    };
    assert_eq!(status("griddepcontrol"), None);
    let (kind, words) = status("tcgen05.alloc").unwrap();
    assert!(kind == "failure" && words.contains("PTX ISA, tcgen05 says"), "{kind} {words}");
    let (kind, words) = status("tiny-exact 128x32x128 native cp_async sm_121a on emulator").unwrap();
    assert!(
        kind == "failure"
            && words.contains("expert=2 row=7 col=11")
            && words.contains("a <scale> & \"more\""),
        "{kind} {words}"
    );
    let (kind, words) = status("tiny-exact 128x64x128 native cp_async sm_121a on emulator").unwrap();
    assert!(kind == "skipped" && words.contains("102400 bytes"), "{kind} {words}");
    assert_eq!(status("tiny-empty 128x32x128 native cp_async sm_121a on emulator").unwrap().0, "error");
    let suites: Vec<_> = document.descendants().filter(|n| n.has_tag_name("testsuite")).collect();
    let suites: Vec<&str> = suites.iter().filter_map(|n| n.attribute("name")).collect();
    assert_eq!(suites, ["matrix.mma", "matrix.sync", "matrix.tcgen05", "moe.tiny-empty", "moe.tiny-exact"]);
    assert!(
        document
            .descendants()
            .any(|n| n.has_tag_name("property") && n.attribute("value") == Some("13.0.88 13.1.115 13.5.37"))
    );
}

#[test]
fn junit_of_the_committed_matrix_holds_and_its_checker_notices() {
    let record = Record::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/matrix.json")).unwrap();
    let xml = report::junit(&record);
    assert_eq!(faults_of(&xml), Vec::<String>::new());
    assert_eq!(xml.matches("<testcase ").count(), record.matrix.variants.len());
    for (from, to) in [
        ("<testcase name", "<testcase nome"),
        ("</testsuites>", ""),
        ("tests=\"", "tests=\"1"),
        ("<property ", "<prop "),
    ] {
        assert!(!faults_of(&xml.replacen(from, to, 1)).is_empty(), "{from}");
    }
}

#[test]
fn junit_tells_each_run_of_a_variant_on_a_gpu() {
    let mut record =
        Record::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/h100/run.json")).unwrap();
    assert!(!record.runs.is_empty());
    record.runs[0].checks[0].verdict = Verdict::Fail;
    "lane 3".clone_into(&mut record.runs[0].checks[0].note);
    let xml = report::junit(&record);
    assert_eq!(faults_of(&xml), Vec::<String>::new());
    let parts = [record.matrix.variants.len(), record.runs.len(), record.trials.len(), record.skipped.len()];
    assert_eq!(xml.matches("<testcase ").count(), parts.iter().sum::<usize>());
    let document = roxmltree::Document::parse(&xml).unwrap();
    let of_runs = |n: &roxmltree::Node<'_, '_>| {
        n.has_tag_name("testsuite") && n.attribute("name").unwrap_or_default().starts_with("run.")
    };
    let suites: Vec<_> = document.descendants().filter(of_runs).collect();
    let failures = suites.iter().flat_map(|s| s.descendants()).filter(|n| n.has_tag_name("failure"));
    let words: Vec<_> = failures.filter_map(|n| n.attribute("message")).collect();
    assert!(words.len() == 1 && words[0].ends_with("fail: lane 3"), "{words:?}");
    assert!(suites.iter().all(|s| s.descendants().any(|n| n.attribute("name") == Some("driver"))));
    // A suite is a family, not a variant.
    let names: Vec<_> = suites.iter().filter_map(|s| s.attribute("name")).collect();
    assert_eq!(names.len(), 9, "{names:?}");
    assert!(names.contains(&"run.mma on gpu:0") && names.contains(&"run.cp_async on gpu:0"), "{names:?}");
}

pub(super) fn schema(name: &str) -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas").join(name);
    let schema: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn sarif_fits_its_schema_and_names_file_and_line() {
    let desk = Desk::new();
    let mut run = record();
    fail(&mut run.trials[0], Stage::Fc1, Verdict::Fail, "a scale byte");
    set(&mut run, "griddepcontrol", ("13.5.37", "sm_120"), 'R', '.');
    let (run, baseline) = (desk.record("run.json", &run), desk.record("baseline.json", &record()));
    let output = desk.run(&[
        "gate",
        "--baseline",
        &baseline,
        "--from",
        &run,
        "--sarif",
        "out.sarif",
        "--junit",
        "out.xml",
    ]);
    assert_eq!(output.status.code(), Some(100), "{}", said(&output));
    assert_eq!(faults_of(&fs::read_to_string(desk.path("out.xml")).unwrap()), Vec::<String>::new());
    let text = fs::read_to_string(desk.path("out.sarif")).unwrap();
    let mut sarif: serde_json::Value = serde_json::from_str(&text).unwrap();
    let validator = schema("sarif-2.1.0.json");
    let errors: Vec<String> = validator.iter_errors(&sarif).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let regression = results.iter().find(|r| r["ruleId"] == "baseline_contradicted").unwrap();
    let place = &regression["locations"][0]["physicalLocation"];
    assert_eq!(
        (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
        (&"ptx_snippets/sync/griddepcontrol.ptx".into(), &1.into())
    );
    assert!(results.iter().any(|r| r["ruleId"] == "does_not_conform"));
    // The check detects violations.
    sarif["runs"][0]["results"][0]["level"] = "splendid".into();
    assert!(!validator.is_valid(&sarif));
    let again = desk.run(&["gate", "--baseline", &baseline, "--from", &run, "--format", "sarif"]);
    assert_eq!(stdout(&again), text);
}

#[test]
fn github_gets_annotations_and_a_summary() {
    let desk = Desk::new();
    let mut run = record();
    set(&mut run, "griddepcontrol", ("13.5.37", "sm_120"), 'R', '.');
    let (run, baseline) = (desk.record("run.json", &run), desk.record("baseline.json", &record()));
    fs::write(desk.path("summary.md"), "before\n").unwrap();
    let gate = |github: &str, from: &str| {
        let mut command = desk.command();
        command.env("GITHUB_ACTIONS", github).env("GITHUB_STEP_SUMMARY", desk.path("summary.md"));
        command.args(["gate", "--baseline", &baseline, "--from", from]).output().unwrap()
    };
    assert_eq!(gate("false", &run).status.code(), Some(111));
    assert_eq!(fs::read_to_string(desk.path("summary.md")).unwrap(), "before\n");
    let output = gate("true", &run);
    assert_eq!(output.status.code(), Some(111));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("::error file=ptx_snippets/sync/griddepcontrol.ptx,line=1,title=sm121probe%3A griddepcontrol on sm_120::REGRESSION within a toolkit line: 13.1.115"), "{text}");
    let summary = fs::read_to_string(desk.path("summary.md")).unwrap();
    assert!(
        summary.starts_with("before\n### sm121probe: does not conform: 1 finding;")
            && summary.contains("griddepcontrol.ptx:1"),
        "{summary}"
    );
    assert_eq!(gate("true", &baseline).status.code(), Some(0));
    assert!(
        fs::read_to_string(desk.path("summary.md")).unwrap().contains("### sm121probe: conforms; 36 cells")
    );
}

#[test]
fn tactics_are_allowed_only_where_all_that_was_judged_passed() {
    let desk = Desk::new();
    let mut run = record();
    let mut wrong = super::fixture::trial("tiny-empty", "64x64x128");
    fail(&mut wrong, Stage::Fc2, Verdict::Fail, "a scale byte");
    run.trials.extend([super::fixture::trial("tiny-exact", "64x64x128"), wrong]);
    let file = desk.record("run.json", &run);
    let output = desk.run(&["report", "--from", &file, "--export", "tactics"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let list: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let of = |m: u32, n: u32| {
        let tactic = list.as_array().unwrap().iter().find(|t| t["tile_m"] == m && t["tile_n"] == n).unwrap();
        (
            tactic["allowed"].as_bool().unwrap(),
            tactic["verdict"].as_str().unwrap().to_owned(),
            tactic["reason"].as_str().unwrap().to_owned(),
            tactic["judged"].as_u64().unwrap(),
        )
    };
    assert_eq!(of(128, 32), (true, "pass".to_owned(), String::new(), 2));
    let (allowed, verdict, reason, judged) = of(64, 64);
    assert!(
        !allowed && verdict == "fail" && reason.contains("tiny-empty: fc2 fail") && judged == 2,
        "{reason}"
    );
    let (allowed, verdict, reason, judged) = of(128, 64);
    assert!(!allowed && verdict == "blocked" && reason.contains("102400") && judged == 0, "{reason}");
}
