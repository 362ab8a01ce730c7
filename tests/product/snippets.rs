//! The built-in snippets as PTX: each parses, and prints as the same text.

use sm121probe::snippet::Library;

#[test]
fn every_snippet_reads_and_reads_back() {
    let library = Library::embedded();
    let isa = "9.0".parse().unwrap();
    for variant in &library.variants {
        let text = variant.code.standalone(isa, "sm_121a".parse().unwrap());
        let read = |text: &str| ptx::parse(text).unwrap_or_else(|e| panic!("{}: {e}\n{text}", variant.id));
        let first = read(&text);
        let printed = first.to_string();
        let second = read(&printed);
        assert!(ptx::same_meaning(&first, &second), "{} reads back otherwise:\n{printed}", variant.id);
        assert_eq!(second.to_string(), printed, "{}: printing is not stable", variant.id);
    }
    // `tidy` checks that the library is complete; this guards against a test of almost nothing.
    assert!(library.variants.len() > 1_000, "{}", library.variants.len());
}
