//! PTX text to the tree and back: everything the snippets, the examples and NVRTC write, and what is refused.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use sm121probe::ptx::{self, Module};
use sm121probe::snippet::Library;

/// Reads a text, prints it, reads that.
fn round_trip(text: &str, what: &str) -> Module {
    let first = ptx::parse(text).unwrap_or_else(|e| panic!("{what}: {e}\n{text}"));
    let printed = first.to_string();
    let second = ptx::parse(&printed).unwrap_or_else(|e| panic!("{what}, printed: {e}\n{printed}"));
    assert!(ptx::same_meaning(&first, &second), "{what} reads back otherwise:\n{printed}");
    assert_eq!(second.to_string(), printed, "{what}: printing is not stable");
    first
}

#[test]
fn every_variant_of_the_library_reads_and_reads_back() {
    let library = Library::embedded();
    let target = "sm_121a".parse().unwrap();
    let isa = "9.0".parse().unwrap();
    for variant in &library.variants {
        round_trip(&variant.code.standalone(isa, target), &variant.id);
    }
    assert!(library.variants.len() > 1_600, "{}", library.variants.len());
}
