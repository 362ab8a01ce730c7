//! The gate on a folder of kernels: what a change can affect runs, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use sm121probe::gate::{Affected, Base};
use sm121probe::kernel::Library;

use super::fixture::Desk;

pub(super) fn ours(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels").join(name)).unwrap()
}

#[test]
fn a_change_affects_what_holds_it_and_nothing_else() {
    let desk = Desk::new();
    fs::create_dir(desk.path("kernels")).unwrap();
    let folder = desk.path("kernels");
    for name in ["permute.cu", "gemm_tma.cu", "gemm.cuh"] {
        fs::write(folder.join(name), ours(name)).unwrap();
    }
    let library = Library::with_folder(&folder).unwrap();
    let cases = sm121probe::case::library();
    let cases: Vec<_> = cases.cases.iter().collect();
    let by = |changed: &[PathBuf]| Affected::by(&library, &folder, changed, &Base::Ours);
    let of = |name: &str| by(&[folder.join(name)]);
    // A header that several kernels include, built-in ones too, affects all of them.
    let shared = of("gemm.cuh");
    for name in ["gemm_tma.cu", "gemm_cp_async.cu"] {
        assert!(shared.reasons[0].contains(name), "{:?}", shared.reasons);
    }
    assert!(!shared.reasons[0].contains("permute.cu"));
    // One GEMM kernel: only trials of its load. A kernel of another stage: one trial of each case.
    let trials = of("gemm_tma.cu").trials(&library, &cases).unwrap();
    assert!(trials.len() > 100 && trials.iter().all(|t| t.load.word() == "tma"));
    let trials = of("permute.cu").trials(&library, &cases).unwrap();
    assert!((30..=cases.len()).contains(&trials.len()), "{}", trials.len());
    // A file that is no kernel affects nothing; a deleted header does.
    assert!(of("notes.md").is_empty());
    assert!(by(&[PathBuf::from("/elsewhere/permute.cu")]).is_empty());
    assert!(of("new.cuh").reasons[0].contains("was removed") && !of("new.cuh").is_empty());
    assert!(by(&[]).is_empty() && !Affected::all(&library).is_empty());
}
