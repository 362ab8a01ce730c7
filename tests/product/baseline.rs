//! The committed matrix is complete and classified, and agrees with the reports beside it.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ptx::arch::Target;
use sm121probe::record::{Outcome, Record, Standing};
use sm121probe::report;
use sm121probe::snippet::Library;
use sm121probe::toolkit::{Pins, Tool};

fn reports() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("reports")
}

fn committed() -> Record {
    Record::read(&reports().join("matrix.json")).unwrap()
}

#[test]
fn it_holds_every_pinned_toolkit_every_target_and_every_variant() {
    let matrix = committed().matrix;
    let pins = Pins::built_in().unwrap();
    let pinned: BTreeSet<_> =
        pins.all().iter().filter(|p| p.tool == Tool::Ptxas).map(|p| p.version).collect();
    assert_eq!(matrix.toolkits.iter().map(|t| t.version).collect::<BTreeSet<_>>(), pinned);
    assert_eq!(matrix.targets(), Target::all_set());
    let library = Library::embedded();
    let ours: BTreeSet<&str> = library.variants.iter().map(|v| v.id.as_str()).collect();
    assert_eq!(matrix.variants.iter().map(|v| v.id.as_str()).collect::<BTreeSet<_>>(), ours);
    for v in &matrix.variants {
        for (p, pair) in matrix.pairs.iter().enumerate().filter(|(_, p)| p.target == p.arch) {
            assert!(
                matrix.cell(v, p).is_some(),
                "{} was not asked of {} {}",
                v.id,
                pair.toolkit,
                pair.target
            );
        }
    }
}

#[test]
fn every_message_has_a_kind() {
    let matrix = committed().matrix;
    let unclassified: Vec<&str> =
        matrix.messages.iter().filter(|m| m.kind.is_none()).map(|m| m.text.as_str()).collect();
    assert!(unclassified.is_empty(), "a row in crates/toolchain/src/matrix/kinds.rs each: {unclassified:#?}");
    // The rows of this build agree with the record.
    for m in &matrix.messages {
        assert_eq!(sm121probe::matrix::classify(&m.text), m.kind, "{}", m.text);
    }
}

#[test]
fn nothing_crashed_and_nothing_hung() {
    let matrix = committed().matrix;
    for v in &matrix.variants {
        let bad = [Outcome::Crashed.letter(), Outcome::TimedOut.letter()];
        assert!(!v.outcomes.contains(bad), "{}: {}", v.id, v.outcomes);
    }
}

#[test]
fn every_variant_that_names_opcodes_shows_one_where_it_is_accepted() {
    let matrix = committed().matrix;
    let mut silent = Vec::new();
    for v in matrix.variants.iter().filter(|v| !v.expects.is_empty()) {
        // Only the opcode itself: a cell whose code is unknown shows nothing.
        let is_proof = |opcode: &str| {
            v.expects
                .iter()
                .any(|e| opcode.strip_prefix(e.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('.')))
        };
        let cells = (0..matrix.pairs.len()).filter_map(|p| matrix.cell(v, p));
        let accepted: Vec<_> = cells.filter(|c| c.outcome == Outcome::Accepted).collect();
        if !accepted.is_empty() && !accepted.iter().any(|c| c.sass.split(' ').any(is_proof)) {
            silent.push(format!("{} expects {:?}", v.id, v.expects));
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn every_claim_stands_as_recorded() {
    let matrix = committed().matrix;
    let findings: Vec<_> = matrix
        .claims
        .iter()
        .filter(|c| c.is_finding())
        .map(|c| {
            let (now, recorded) = (c.standing.word(), c.recorded.word());
            format!("{} is {now}, recorded {recorded} ({:?})", c.source, c.example)
        })
        .collect();
    assert!(findings.is_empty(), "{findings:#?}");
    let count = |s: Standing| matrix.claims.iter().filter(|c| c.standing == s).count();
    assert!(count(Standing::Confirmed) > 100 && count(Standing::Refuted) > 10);
}

#[test]
fn the_markdown_is_rendered_from_the_record() {
    let md = std::fs::read_to_string(reports().join("matrix.md")).unwrap();
    assert!(md == report::markdown(&committed()), "`.ci/reports` renders reports/matrix.md anew");
}

#[test]
fn the_schema_is_published() {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(Record)).unwrap();
    snapbox::assert_data_eq!(
        schema + "\n",
        snapbox::Data::read_from(&reports().join("record.schema.json"), None).raw()
    );
}

#[test]
fn a_written_record_reads_back_the_same() {
    let record = committed();
    let text = record.to_json().unwrap();
    assert!(Record::parse(Path::new("again"), &text).unwrap() == record);
    // A field of a later version is ignored.
    let newer = text.replacen("\"tool\"", "\"colour\": \"red\",\n\"tool\"", 1);
    assert!(Record::parse(Path::new("newer"), &newer).unwrap() == record);
}
