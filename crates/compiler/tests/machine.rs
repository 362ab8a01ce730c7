//! Structures of machine code, in listings that nvdisasm 13.5.37 printed of what ptxas wrote of the reduced kernels and of their rewritings.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use compiler::known::by_name;
use compiler::machine::{Structure, functions, structures};

fn listing(name: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/listings").join(name)).unwrap()
}

#[test]
fn each_structure_names_known_miscompiles() {
    for structure in Structure::ALL {
        for name in structure.miscompiles() {
            assert!(by_name(name).is_some(), "{name}");
        }
    }
}

#[test]
fn wrong_code_has_its_structure_and_right_code_has_none() {
    for structure in Structure::ALL {
        for name in structure.miscompiles() {
            for arch in ["sm_120", "sm_90"] {
                let found = structures(&listing(&format!("{name}.{arch}.txt")));
                let words: BTreeSet<&str> = found.iter().map(|place| place.structure.word()).collect();
                assert_eq!(words, BTreeSet::from([structure.word()]), "{name} {arch}: {found:?}");
                let right = structures(&listing(&format!("{name}.rewritten.{arch}.txt")));
                assert_eq!(right, [], "{name} {arch}");
            }
        }
    }
}

#[test]
fn a_kernel_with_barriers_is_read_as_others_are() {
    // ptxas 12.9.86 -O1; nvdisasm prints `.sectionflags` behind its section.
    let listing = listing("shared_atomic_loop.barrier.sm_90.txt");
    assert!(listing.contains(".sectionflags"));
    let found: Vec<Structure> = structures(&listing).iter().map(|place| place.structure).collect();
    assert_eq!(found, [Structure::SharedCounter]);
}

#[test]
fn listings_are_read_as_they_are_printed() {
    let all = functions(&listing("movmatrix_uniform.sm_120.txt"));
    assert_eq!(all.len(), 1);
    let line = all[0].code.iter().find(|line| line.opcode == "BRA").unwrap();
    assert_eq!((line.guard.as_deref(), all[0].name.as_str()), (Some("!P0"), "k"));
    assert_eq!(functions("no listing"), []);
}
