//! A family that this build does not have, in a record: every report, the gate and the merge show it in the record's own words.

use std::path::Path;

use sm121probe::gate::{self, Disagreement, Merger};
use sm121probe::record::{
    CodeBy, Count, Elapsed, ExerciseRow, Exposed, FamilyRow, FaultCoverageRow, FaultRow, Matrix, Place,
    Record, StageResult, StageRow, TileRow, TrialRow, Verdict,
};
use sm121probe::report::{self, Styles};

use super::page;
use crate::report::fixture;

const TITLE: &str = "Winograd convolutions";

fn result(stage: &'static str, verdict: Verdict) -> StageResult {
    let wrong = verdict == Verdict::Fail;
    StageResult {
        verdict,
        worst_over_bound: if wrong { 2.5 } else { 0.5 },
        mismatches: u64::from(wrong),
        place: wrong.then(|| Place::at(&[("image", 1), ("y", 7), ("x", 3)])),
        note: if wrong { "0.5 instead of 0.25".to_owned() } else { String::new() },
        ..StageResult::skipped(stage, "")
    }
}

fn trial(configuration: &'static str, verdict: Verdict) -> TrialRow {
    TrialRow {
        family: "winograd".to_owned(),
        case: "border".to_owned(),
        configuration: configuration.into(),
        depth: 2,
        target: "sm_121a".into(),
        device: "emulator".to_owned(),
        remark: String::new(),
        results: vec![result("transform", Verdict::Pass), result("multiply", verdict)],
        code: CodeBy::Nobody,
        checks: Vec::new(),
        seconds: Elapsed::default(),
    }
}

fn record(verdict: Verdict) -> Record {
    let stage = |name: &'static str| StageRow { name: name.into(), about: String::new() };
    Record {
        families: vec![FamilyRow {
            name: "winograd".to_owned(),
            title: TITLE.to_owned(),
            leading: "window".to_owned(),
            stages: vec![stage("transform"), stage("multiply")],
            all: "make all".to_owned(),
        }],
        trials: vec![trial("4x4 nhwc", Verdict::Pass), trial("6x6 nchw", verdict)],
        exercised: vec![ExerciseRow {
            family: "winograd".to_owned(),
            configuration: "4x4 nhwc".into(),
            target: "sm_121a".into(),
            device: "emulator".to_owned(),
            counts: vec![Count { what: "window row".to_owned(), count: 9 }],
            met: vec!["a ragged border".to_owned()],
            missing: Vec::new(),
        }],
        fault_coverage: vec![FaultCoverageRow {
            family: "winograd".to_owned(),
            configuration: "4x4 nhwc".into(),
            target: "sm_121a".into(),
            device: "emulator".to_owned(),
            cases: vec!["border".to_owned()],
            exposed: 3,
            total: 4,
        }],
        faults: vec![FaultRow {
            family: "winograd".to_owned(),
            dimensions: "one image".to_owned(),
            faults: 10,
            exposed: vec![Exposed { by: "random images".to_owned(), faults: 9 }],
        }],
        ..fixture()
    }
}

#[test]
fn every_report_shows_a_family_in_the_words_of_the_record() {
    let mut of = record(Verdict::Fail);
    of.tiles.rows.push(TileRow {
        family: "winograd".to_owned(),
        configuration: "8x8 nhwc".into(),
        target: "sm_121a".into(),
        toolkit: None,
        depth: None,
        shared: None,
        shared_limit: 1,
        registers: None,
        spills: None,
        blocked: None,
        remark: String::new(),
    });
    let text = report::terminal(&of, &Styles::plain());
    let md = report::markdown(&of);
    for report in [&text, &md] {
        for words in
            [TITLE, "does not conform", "image=1 y=7 x=3", "9 window rows and a ragged border", "make all"]
        {
            assert!(report.contains(words), "{words}: {report}");
        }
        assert!(
            report.contains("random images expose 90.0 %") && report.contains("for 0 of 1 kernel"),
            "{report}"
        );
    }
    assert!(
        md.contains("|case|windows|pass|") && md.contains("### What each window was tested with"),
        "{md}"
    );
    let junit = report::junit(&of);
    assert!(junit.contains("<testsuite name=\"winograd.border\" tests=\"2\" failures=\"1\""), "{junit}");
    assert!(junit.contains("multiply fail at image=1 y=7 x=3"), "{junit}");
    let csv = report::trials_csv(&of.trials);
    assert!(
        csv.contains("winograd,border,6x6 nchw,2,sm_121a,emulator,multiply,fail,2.500,1,image=1 y=7 x=3"),
        "{csv}"
    );
    let shown = page::data(&page::page(&of));
    let tabs = shown["tabs"].as_array().unwrap();
    let tab = tabs.iter().find(|tab| tab["id"] == "winograd").unwrap();
    assert!(tab["title"] == TITLE && tab["tables"].to_string().contains("6x6 nchw"), "{tab}");
    let tiles = tabs.iter().find(|tab| tab["id"] == "tiles").unwrap();
    assert!(tiles["tables"].to_string().contains("8x8 nhwc"), "{tiles}");
    let again = Record::parse(Path::new("run.json"), &report::json(&of).unwrap()).unwrap();
    assert_eq!(again, of);
}

#[test]
fn the_gate_and_the_merge_know_a_family_by_its_words() {
    let (good, bad) = (record(Verdict::Pass), record(Verdict::Fail));
    let diff = gate::diff(&good, &bad);
    let [change] = diff.facts.as_slice() else { panic!("{:?}", diff.facts) };
    assert_eq!(change.subject.to_string(), "border 6x6 nchw sm_121a on emulator");
    assert_eq!(change.new.as_ref().map(gate::Fact::words), Some("fail at multiply".to_owned()));
    let text = "expectations:\n  - scope: {configuration: 6x6 n*, case: border}\n    verdict: fail\n    reason: known\n    \
                url: https://example.invalid/1\n    expires: 2999-01-01\n";
    let expected = gate::parse_expectations(Path::new("e.yaml"), text).unwrap();
    assert!(expected[0].speaks_of(&change.subject));
    let other = text.replace("6x6 n*", "4x4");
    assert!(!gate::parse_expectations(Path::new("e.yaml"), &other).unwrap()[0].speaks_of(&change.subject));
    // A record that skipped the family, and one that ran it.
    let skipped = Record {
        skipped: vec![sm121probe::record::SkippedRow {
            part: TITLE.to_owned(),
            reason: "no compiler".to_owned(),
            needed: true,
        }],
        ..Record::of_matrix("t".to_owned(), Matrix::default())
    };
    let mut merger = Merger::new(Disagreement::Shown);
    merger.add("one", skipped);
    merger.add("two", good.clone());
    let merged = merger.finish();
    assert_eq!((merged.families.len(), merged.trials.len(), merged.skipped.len()), (1, 2, 0));
    // A run without the family does not answer for it.
    let lanes = gate::diff(&good, &fixture()).not_asked_again;
    assert!(lanes.iter().any(|lane| lane.to_string() == "family winograd"), "{lanes:?}");
}
