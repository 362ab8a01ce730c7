//! `judge` as a command: exit codes and first lines of complete, incomplete and wrong dumps, in every format.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use sm121probe::moe::Array;
use sm121probe::moe::tensors::{self, Tensors};

/// Two tokens of zeros, each with one of two experts: every stage up to quantization.
fn zeros() -> Tensors {
    let ids = || Array { shape: vec![2, 1], data: vec![0, 1].into() };
    let rows = || Some(Array { shape: vec![2], data: vec![0, 1].into() });
    Tensors {
        hidden_states: Some(Array::filled(&[2, 64], 0)),
        router_logits: Some(Array { shape: vec![2, 2], data: vec![1.0, 0.0, 0.0, 1.0].into() }),
        topk_ids: Some(ids()),
        topk_weights: Some(Array::filled(&[2, 1], 1.0)),
        row_token: rows(),
        row_expert: rows(),
        a1_codes: Some(Array::filled(&[2, 64], 0)),
        a1_scales: Some(Array::filled(&[2, 2], 0)),
        ..Tensors::default()
    }
}

fn judge(path: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sm121probe")).arg("judge").arg(path).args(args).output().unwrap()
}

/// Judges these tensors; checks the exit code, and returns the standard output.
fn judged(tensors: &Tensors, args: &[&str], code: i32) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    tensors::write(&path, tensors, &BTreeMap::new()).unwrap();
    let output = judge(&path, args);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_dump_of_some_stages_is_complete_if_each_of_its_results_is_decided() {
    let text = judged(&zeros(), &[], 0);
    assert!(text.starts_with("route pass\npermute pass\nquantize pass\nfc1 skipped: "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&judged(&zeros(), &["--format", "json"], 0)).unwrap();
    assert_eq!(json["incomplete"], serde_json::Value::Null);
}

#[test]
fn a_result_that_nothing_determines_is_incomplete_in_every_format() {
    let tensors = Tensors { output: Some(Array::filled(&[2, 64], 0)), ..zeros() };
    let text = judged(&tensors, &[], 4);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("INCOMPLETE: `output` is not decided: "), "{first}");
    assert!(first.ends_with("; add `w2_blocks`, `w2_scales`, `w13_blocks` and `w13_scales`"), "{first}");
    assert!(text.contains("finalize undetermined"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&judged(&tensors, &["--format", "json"], 4)).unwrap();
    assert_eq!(json["incomplete"]["nothing_checked"], false);
    assert!(json["incomplete"]["reasons"][0].as_str().unwrap().contains("`w2_blocks`"), "{json}");
    assert_eq!(json["results"][7]["verdict"], "undetermined");
    let csv = judged(&tensors, &["--format", "csv"], 4);
    assert!(csv.lines().any(|line| line.contains(",finalize,undetermined,")), "{csv}");
    // Something is wrong as well.
    let mut wrong = tensors;
    wrong.a1_codes.as_mut().unwrap().data[3] = 0x38;
    let text = judged(&wrong, &[], 100);
    assert!(text.starts_with("INCOMPLETE: `output`") && text.contains("quantize fail"), "{text}");
}

#[test]
fn a_dump_without_anything_to_judge_says_so() {
    let inputs = Tensors { hidden_states: Some(Array::filled(&[2, 64], 0)), ..Tensors::default() };
    let text = judged(&inputs, &[], 4);
    assert!(text.starts_with("NOTHING CHECKED: no stage has both its inputs and its output"), "{text}");
    let choices =
        Tensors { router_logits: None, hidden_states: None, a1_codes: None, a1_scales: None, ..zeros() };
    let text = judged(&choices, &[], 4);
    assert!(text.contains("INCOMPLETE: `topk_ids` and `topk_weights` are not decided: "), "{text}");
    assert!(text.lines().next().unwrap().ends_with("add `router_logits`"), "{text}");
}

#[test]
fn an_unknown_key_of_the_metadata_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let metadata = BTreeMap::from([("topk".to_owned(), "1".to_owned())]);
    tensors::write(&path, &zeros(), &metadata).unwrap();
    let output = judge(&path, &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no metadata `topk`") && said.contains("top_k"), "{said}");
}
