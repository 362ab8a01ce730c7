//! The pipeline's reference: formats, rules and bounds against definitions; no false alarm, no fault missed.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod cases;
mod checkpoint;
mod coverage;
mod device;
mod dumps;
mod explained;
mod faults;
mod formats;
mod gaps;
mod nvfp4_checkpoint;
mod orders;
mod pairs;
mod stages;
mod whole;

use std::path::Path;

use pipeline::moe::case::{Case, Library};
use record::{StageResult, Verdict};

/// A case from YAML.
fn case(yaml: &str) -> Case {
    let mut library = Library::default();
    library.add(Path::new("test.yaml"), yaml);
    assert!(library.problems.is_empty(), "{:?}", library.problems);
    library.cases.remove(0)
}

/// Asserts that every stage passes.
fn all_pass(results: &[StageResult], what: &str) {
    for r in results {
        assert_eq!(r.verdict, Verdict::Pass, "{what}: {r:?}");
        assert!(r.worst_over_bound <= 1.0, "{what}: {r:?}");
    }
    assert_eq!(results.len(), 8, "{what}");
}
