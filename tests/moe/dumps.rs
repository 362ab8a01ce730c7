//! The dump format: what is written is read, and damaged files are told apart.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sm121probe::case;
use sm121probe::moe::{Contract, MoeError, Tensors, judge, problem::generate, tensors};

use crate::all_pass;
use crate::device::{NATIVE, run};

fn stored() -> (Contract, Tensors) {
    let case = case::find("rows-ragged").unwrap();
    let problem = generate(&case, 1).unwrap();
    (Contract::native(problem.dims, problem.settings), run(&problem, NATIVE))
}

#[test]
fn a_dump_reads_back_with_its_contract_and_is_judged_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let (contract, stored) = stored();
    tensors::write(&path, &stored, &contract.metadata()).unwrap();
    let dump = tensors::read(&path).unwrap();
    assert_eq!(dump.tensors, stored);
    let read = Contract::of_dump(&dump.tensors, &dump.metadata).unwrap();
    assert_eq!(read, contract);
    all_pass(&judge(&read, &dump.tensors).unwrap(), "read back");

    // Any subset is a dump: dimensions follow from what is there.
    let few =
        Tensors { hidden_states: stored.hidden_states, a1_codes: stored.a1_codes, ..Tensors::default() };
    tensors::write(&path, &few, &BTreeMap::new()).unwrap();
    let dims = tensors::read(&path).unwrap().tensors.dims().unwrap();
    assert_eq!((dims.tokens, dims.hidden, dims.top_k, dims.inter), (17, 128, 2, 0));
}

#[test]
fn damaged_and_foreign_files_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let (contract, stored) = stored();
    tensors::write(&path, &stored, &contract.metadata()).unwrap();
    let bytes = fs::read(&path).unwrap();
    let error = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        tensors::read(&path).unwrap_err()
    };
    // Cut short anywhere, at the header's length, inside it, inside the data.
    for cut in [0, 4, 8, 100, bytes.len() / 2, bytes.len() - 1] {
        let e = error(&bytes[..cut]);
        assert!(matches!(e, MoeError::Format { .. }), "{cut}: {e}");
        assert!(e.to_string().contains("x.safetensors"), "{e}");
    }
    let text = |from: &str, to: &str| {
        let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        let mut changed = bytes.clone();
        changed[at..at + from.len()].copy_from_slice(to.as_bytes());
        changed
    };
    let e = error(&text("\"w2_bias\"", "\"w2_bios\""));
    assert!(matches!(&e, MoeError::Name { name, .. } if name == "w2_bios"), "{e}");
    let e = error(&text("\"dtype\":\"F32\"", "\"dtype\":\"I32\""));
    assert!(matches!(&e, MoeError::Type { wanted: "F32", .. }), "{e}");
    assert!(matches!(error(b"{}"), MoeError::Format { .. }));
    assert!(matches!(tensors::read(Path::new("/nowhere")), Err(MoeError::File { .. })));
}

#[test]
fn tensors_that_contradict_each_other_are_refused() {
    let (_, stored) = stored();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let mut wrong = stored.clone();
    wrong.a1_scales.as_mut().unwrap().shape = vec![17, 8];
    let e = tensors::write(&path, &wrong, &BTreeMap::new()).unwrap_err();
    assert!(matches!(&e, MoeError::Shape { .. }), "{e}");
    let mut wrong = stored;
    wrong.fc1_out.as_mut().unwrap().shape = vec![34 * 256];
    let e = wrong.dims().unwrap_err().to_string();
    assert!(e.contains("`fc1_out`") && e.contains("2 dimensions"), "{e}");
    assert!(!path.exists());
}
