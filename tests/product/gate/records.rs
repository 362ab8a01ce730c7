//! Comparison of two records, and merging of many.

use sm121probe::gate::{self, Direction};
use sm121probe::moe::Stage;
use sm121probe::record::{DeviceRow, Record, Verdict};
use sm121probe::report;

use super::fixture::{Desk, record, said, set, stdout};

/// The fixture without its newest toolkit.
fn without_newest() -> Record {
    let mut out = record();
    out.matrix.pairs.truncate(6);
    out.matrix.toolkits.truncate(2);
    for v in &mut out.matrix.variants {
        v.outcomes.truncate(6);
        v.native = v.native.chars().take(6).collect::<String>().trim_end_matches('.').to_owned();
        v.messages.clear();
    }
    out
}

#[test]
fn equal_records_do_not_differ() {
    let desk = Desk::new();
    let (a, b) = (desk.record("a.json", &record()), desk.record("b.json", &record()));
    let output = desk.run(&["diff", &a, &b]);
    assert_eq!(
        (output.status.code(), stdout(&output).trim()),
        (Some(0), "nothing changed"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_new_toolkit_is_compared_with_the_one_before_it() {
    let (old, mut new) = (without_newest(), record());
    set(&mut new, "mma.mxf4.4X", ("13.5.37", "sm_120"), 'A', 'N');
    let diff = gate::diff(&old, &new);
    assert_eq!(diff.worse(), 0);
    let groups = gate::groups(&diff);
    let lines: Vec<String> = groups
        .iter()
        .map(|g| format!("{}: {} {}: {}", g.places.join(" "), g.count(), g.when(), g.names.join(" ")))
        .collect();
    // Targets with the same answers share a line; 13.1 is in both records, so its gains are no change.
    assert!(lines.contains(&"sm_120: +1 form since 13.5: mma.mxf4.4X".to_owned()), "{lines:#?}");
    let newest = gate::Lane::Toolkit("13.5.37".parse().unwrap());
    assert!(diff.asked_anew.contains(&newest) && diff.not_asked_again.is_empty());
    // In reverse, nothing is worse: the toolkit was not queried, which is reported.
    let back = gate::diff(&new, &old);
    assert!(back.cells.is_empty() && back.not_asked_again.contains(&newest), "{:?}", back.cells);
}

#[test]
fn a_refusal_after_an_acceptance_is_loud() {
    let (old, mut new) = (without_newest(), record());
    for target in ["sm_121a", "sm_121f"] {
        set(&mut new, "mma.mxf4.2X", ("13.5.37", target), 'R', '.');
    }
    let desk = Desk::new();
    let (a, b) = (desk.record("a.json", &old), desk.record("b.json", &new));
    for (form, words) in [
        (
            "text",
            "REGRESSION within a toolkit line: accepted earlier, rejected later mma.mxf4.2X: 13.1.115 accepts it, \
            13.5.37 rejects it: sm_121a, sm_121f",
        ),
        ("md", "- `mma.mxf4.2X`: 13.1.115 accepts it, 13.5.37 rejects it: sm_121a, sm_121f"),
        ("json", "\"refused\": \"13.5.37\""),
    ] {
        let output = desk.run(&["diff", &a, &b, "--format", form]);
        assert_eq!(output.status.code(), Some(111), "{}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
    }
    // It was there before: known, and not reported again.
    assert!(gate::diff(&new, &new).regressions.is_empty());
    assert_eq!(gate::regressions_of(&new.matrix).len(), 2);
}

#[test]
fn an_unknown_toolkit_is_answered_with_the_command_that_blesses_it() {
    let (old, mut new) = (without_newest(), record());
    set(&mut new, "mma.mxf4.4X", ("13.5.37", "sm_120"), 'A', 'N');
    let version = "13.5.37".parse().unwrap();
    let found = report::newcomer(&old, "reports/matrix.json", &new, version).unwrap();
    assert_eq!(found.regressions, []);
    for words in [
        "toolkit 13.5.37 is not in reports/matrix.json",
        "sm_120: +1 form since 13.5",
        "--baseline reports/matrix.json --toolkit 13.5.37 --bless",
    ] {
        assert!(found.answer.contains(words), "no `{words}` in {}", found.answer);
    }
    set(&mut new, "griddepcontrol", ("13.5.37", "sm_121f"), 'R', '.');
    let found = report::newcomer(&old, "reports/matrix.json", &new, version).unwrap();
    assert_eq!(found.regressions.len(), 1);
    assert!(
        found.regressions[0].1.contains("griddepcontrol on sm_121f: 13.1.115 accepts it, 13.5.37 rejects it")
    );
    // A toolkit that the baseline contains is not new.
    assert_eq!(report::newcomer(&new, "reports/matrix.json", &new, version), None);
}

#[test]
fn an_unknown_driver_is_named_and_what_it_changes_is_the_answer() {
    let desk = Desk::new();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/h100/run.json");
    let mut run = Record::read(&path).unwrap();
    let baseline = desk.record("baseline.json", &run);
    "999.1".clone_into(&mut run.devices[0].driver);
    let note = "note: driver 999.1 of NVIDIA H100 80GB HBM3 is not in the baseline, which has 580.159.04";
    let same = desk.run(&["gate", "--baseline", &baseline, "--from", &desk.record("same.json", &run)]);
    assert_eq!(same.status.code(), Some(0), "{}", said(&same));
    assert!(said(&same).contains(note) && said(&same).contains("gate --bless"), "{}", said(&same));
    let wrong = run.runs[0].checks.iter_mut().find(|r| r.verdict == Verdict::Pass).unwrap();
    (wrong.verdict, wrong.note) = (Verdict::Fail, "lane 3".to_owned());
    let worse = desk.run(&["gate", "--baseline", &baseline, "--from", &desk.record("worse.json", &run)]);
    assert_eq!(worse.status.code(), Some(100), "{}", said(&worse));
    assert!(said(&worse).contains(note) && said(&worse).contains("fail: lane 3"), "{}", said(&worse));
    // The first run of another GPU.
    "NVIDIA GB10".clone_into(&mut run.devices[0].name);
    let other = desk.run(&["gate", "--baseline", &baseline, "--from", &desk.record("other.json", &run)]);
    assert!(
        said(&other).contains("NVIDIA GB10 is not in the baseline, which has NVIDIA H100"),
        "{}",
        said(&other)
    );
}

#[test]
fn json_holds_every_group() {
    let (old, mut new) = (record(), record());
    set(&mut new, "griddepcontrol", ("13.0.88", "sm_120"), 'R', '.');
    set(&mut new, "mma.mxf4.4X", ("13.0.88", "sm_121f"), 'A', 'N');
    let diff = gate::diff(&old, &new);
    assert_eq!((diff.count(|d| d == Direction::Worse), diff.count(|d| d == Direction::Better)), (1, 1));
    let json: serde_json::Value = serde_json::from_str(&report::diff_json(&diff).unwrap()).unwrap();
    assert_eq!(json["worse"], 1);
    let groups = json["cells"].as_array().unwrap();
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[0]["variants"][0], "griddepcontrol");
    assert_eq!(groups[0]["change"], "accepted (native) → rejected");
}

#[test]
fn equal_records_merge_into_themselves() {
    let desk = Desk::new();
    let (a, b) = (desk.record("a.json", &record()), desk.record("b.json", &record()));
    let output = desk.run(&["merge", &a, &b, "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let merged = Record::parse(std::path::Path::new("merged"), &stdout(&output)).unwrap();
    assert!(gate::diff(&record(), &merged).is_empty());
    assert_eq!(merged.matrix.claims.len(), 1);
    assert_eq!(merged.trials.len(), 3);
}

#[test]
fn halves_merge_into_the_whole() {
    let desk = Desk::new();
    let (mut left, mut right) = (record(), record());
    left.matrix.variants.retain(|v| v.id.starts_with("mma"));
    left.trials.truncate(1);
    left.tiles.rows.truncate(1);
    left.matrix.claims.clear();
    right.matrix.variants.retain(|v| !v.id.starts_with("mma"));
    right.trials.drain(0..1);
    right.tiles.rows.drain(0..1);
    // Pairs in another order: cells are matched by name.
    right.matrix.pairs.reverse();
    for v in &mut right.matrix.variants {
        let reversed = |s: &str| format!("{s:.<9}").chars().rev().collect::<String>();
        (v.outcomes, v.native) = (reversed(&v.outcomes), reversed(&v.native));
        v.messages.clear();
    }
    std::fs::create_dir(desk.path("shards")).unwrap();
    desk.record("shards/1.json", &left);
    desk.record("shards/2.json", &right);
    let output = desk.run(&["merge", desk.path("shards").to_str().unwrap(), "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let merged = Record::parse(std::path::Path::new("merged"), &stdout(&output)).unwrap();
    let whole = record();
    let diff = gate::diff(&whole, &merged);
    assert!(diff.is_empty(), "{}", report::diff_text(&diff));
    for row in &whole.matrix.variants {
        let found = merged.matrix.variants.iter().find(|v| v.id == row.id).unwrap();
        for (n, pair) in whole.matrix.pairs.iter().enumerate() {
            let at = merged.matrix.pair(pair.toolkit, pair.target, pair.arch).unwrap();
            let (a, b) = (whole.matrix.cell(row, n).unwrap(), merged.matrix.cell(found, at).unwrap());
            assert_eq!((a.outcome, a.native), (b.outcome, b.native), "{} {pair:?}", row.id);
        }
    }
}

#[test]
fn records_that_disagree_are_shown_and_not_averaged() {
    let desk = Desk::new();
    let mut other = record();
    set(&mut other, "griddepcontrol", ("13.0.88", "sm_120"), 'R', '.');
    super::fixture::fail(&mut other.trials[0], Stage::Fc2, sm121probe::record::Verdict::Fail, "x");
    let (a, b, c) =
        (desk.record("a.json", &record()), desk.record("b.json", &other), desk.record("c.json", &record()));
    let output = desk.run(&["merge", &a, &b, &c]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(100), "{text}");
    for words in [
        "2 conflicts",
        "griddepcontrol with 13.0.88 on sm_120",
        "a.json",
        "c.json",
        "fail at fc2",
        "the records disagree about 2 answers",
    ] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
    assert!(text.contains(&format!("accepted (native): {a}, {c} rejected: {b}")), "{text}");
    let merged = desk.path("merged.json").display().to_string();
    let output = desk.run(&["merge", &a, &b, &c, "--format", "json", "-o", &merged]);
    assert_eq!(output.status.code(), Some(100));
    let record = Record::read(&desk.path("merged.json")).unwrap();
    // It contains neither answer, and the gate does not accept it as conforming.
    let row = record.matrix.variants.iter().find(|v| v.id == "griddepcontrol").unwrap();
    assert_eq!(&row.outcomes[..1], ".");
    assert_eq!(record.trials.len(), 2);
    let output = desk.run(&["gate", "--baseline", &a, "--from", &merged]);
    assert_eq!(output.status.code(), Some(100), "{}", said(&output));
    assert!(said(&output).contains("records disagree"), "{}", said(&output));
}

#[test]
fn a_folder_without_records_is_named() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("empty")).unwrap();
    let output = desk.run(&["merge", "empty"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("empty: no record found"), "{}", said(&output));
}

#[test]
fn community_records_fit_the_schema_and_name_nobody() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("reports");
    let schema: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(root.join("record.schema.json")).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let check = |path: &std::path::Path| -> Result<(), String> {
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let mut value: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        if value["schema"] == 1 {
            // What an earlier tool wrote is held to the schema in the form that this one reads it as.
            let read = gate::read(path).map_err(|e| e.to_string())?.to_json().map_err(|e| e.to_string())?;
            value = serde_json::from_str(&read).map_err(|e| e.to_string())?;
        }
        if let Some(error) = validator.iter_errors(&value).next() {
            return Err(format!("{}: {error}", error.instance_path()));
        }
        let record = gate::read(path).map_err(|e| e.to_string())?;
        let left = gate::private(&record, &gate::Names::default()).map_err(|e| e.to_string())?;
        if left == record {
            Ok(())
        } else {
            Err("it names a folder or a GPU: --private leaves that out".to_owned())
        }
    };
    for entry in std::fs::read_dir(root.join("community")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            assert_eq!(check(&path), Ok(()), "{}", path.display());
        }
    }
    assert_eq!(check(&root.join("matrix.json")), Ok(()));
    // The check detects it.
    let desk = Desk::new();
    let good = record();
    desk.record("good.json", &good);
    assert_eq!(check(&desk.path("good.json")), Ok(()));
    let mut named = record();
    named.skipped.push(sm121probe::record::SkippedRow {
        part: "x".to_owned(),
        reason: "GPU-12345678-abcd-abcd-abcd-0123456789ab in /home/alice/x.json".to_owned(),
        needed: false,
    });
    let named = desk.record("named.json", &named);
    assert!(check(&desk.path("named.json")).unwrap_err().contains("--private"));
    let output = desk.run(&["report", "--from", &named, "--private", "-o", "private.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(check(&desk.path("private.json")), Ok(()));
    desk.write("other.json", &good.to_json().unwrap().replacen("\"family\"", "\"familie\"", 1));
    assert!(check(&desk.path("other.json")).is_err());
}

#[test]
fn devices_are_counted_and_not_reports() {
    let desk = Desk::new();
    let of = |id: &str, verdict: Verdict| {
        let mut out = record();
        out.devices.push(DeviceRow {
            device: "gpu:0".to_owned(),
            name: "NVIDIA GB10".to_owned(),
            architecture: "sm_121".to_owned(),
            driver: "580.95.05".to_owned(),
            cuda: "13.0".to_owned(),
            multiprocessors: 48,
            memory: 1 << 37,
            l2: 24 << 20,
            id: id.to_owned(),
        });
        let mut row = super::fixture::on_gpu(out.trials[0].clone());
        if verdict != Verdict::Pass {
            super::fixture::fail(&mut row, Stage::Fc2, verdict, "x");
        }
        out.trials.push(row);
        out
    };
    // Three reports of two devices.
    let files: Vec<String> = [("a.json", "1"), ("b.json", "2"), ("c.json", "1")]
        .iter()
        .map(|(name, id)| desk.record(name, &of(id, Verdict::Pass)))
        .collect();
    let merge = |more: &[&str]| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        desk.run(&[&["merge"][..], &files, more].concat())
    };
    let output = merge(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let words = "NVIDIA GB10; driver 580.95.05; code by 13.5.37; 2 devices; 3 records; trials: 3 pass";
    assert!(said(&output).contains(words), "{}", said(&output));
    let output = merge(&["--format", "json"]);
    let merged = Record::parse(std::path::Path::new("merged"), &stdout(&output)).unwrap();
    assert_eq!((merged.devices.len(), merged.trials.len()), (2, 4));
    // A device with another result is a conflict, named by its model.
    let other = desk.record("d.json", &of("3", Verdict::Fail));
    let output = merge(&[&other]);
    assert_eq!(output.status.code(), Some(100), "{}", said(&output));
    assert!(said(&output).contains("on NVIDIA GB10, driver 580.95.05"), "{}", said(&output));
}
