//! The dump format: what is written is read, and damaged files are told apart.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pipeline::moe::case::{self, FormatPair};
use pipeline::moe::{Contract, MoeError, Tensors, judge, problem::generate, tensors};

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
    let dims = tensors::read(&path).unwrap().tensors.dims(FormatPair::default()).unwrap();
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
    let e = wrong.dims(FormatPair::default()).unwrap_err().to_string();
    assert!(e.contains("`fc1_out`") && e.contains("2 dimensions"), "{e}");
    assert!(!path.exists());
}

/// `SM121PROBE_FUZZ_SECONDS` says for how long.
#[test]
fn damaged_dumps_are_survived() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let (contract, tensors) = stored();
    tensors::write(&path, &tensors, &contract.metadata()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let header = 8 + usize::try_from(u64::from_le_bytes(whole[..8].try_into().unwrap())).unwrap();
    let seconds = std::env::var("SM121PROBE_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let mut state = 0x5EED_0013_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) as usize % limit.max(1)
    };
    let (mut rounds, mut refused) = (0_usize, 0_usize);
    while rounds < 50 || std::time::Instant::now() < end {
        let mut bytes = whole.clone();
        for _ in 0..=below(3) {
            // Most of the damage is in the header: its length, names, types, shapes and places.
            let at = if below(4) == 0 { below(bytes.len()) } else { below(header.min(bytes.len())) };
            match below(4) {
                0 => bytes[at] = b"0123456789\"{}[],:-FUI"[below(21)],
                1 => bytes[at] ^= 1 << below(8),
                2 => bytes.truncate(at.max(1)),
                _ => _ = bytes.remove(at),
            }
            if bytes.is_empty() {
                break;
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        match tensors::read(&path) {
            // What is read may still contradict itself, which the contract tells.
            Ok(dump) => _ = Contract::of_dump(&dump.tensors, &dump.metadata),
            Err(_) => refused += 1,
        }
        rounds += 1;
    }
    println!("{rounds} rounds, {refused} refused");
    assert!(refused * 2 > rounds, "{refused} of {rounds}");
}
