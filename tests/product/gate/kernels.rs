//! The gate on a folder of kernels: what a change can affect runs, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use sm121probe::frame::family::SharedTrial;
use sm121probe::gate::{Affected, Base, Cases, Named};
use sm121probe::kernel::Library;
use sm121probe::moe::configuration::Configuration;
use sm121probe::moe::family::MOE;

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
    let library = Library::with_folder(&folder, sm121probe::families::check_kernel).unwrap();
    let cases = Cases::all();
    let number: usize = cases.iter().map(|of| of.names.len()).sum();
    let by = |changed: &[PathBuf]| Affected::by(&library, &folder, changed, &Base::Ours);
    let of = |name: &str| by(&[folder.join(name)]);
    // A header of the folder affects the folder's kernels that include it, and no built-in one.
    let shared = of("gemm.cuh");
    assert!(shared.reasons[0].ends_with("affects gemm_tma.cu"), "{:?}", shared.reasons);
    // One GEMM kernel: only trials of its load. A kernel of another stage: one trial of each case.
    let trials = of("gemm_tma.cu").trials(&library, &cases).unwrap();
    assert!(trials.len() > 100 && trials.iter().all(|t| t.configuration().has("tma")));
    let trials = of("permute.cu").trials(&library, &cases).unwrap();
    assert!((30..=number).contains(&trials.len()), "{}", trials.len());
    // A file that is no kernel affects nothing; a deleted header does.
    assert!(of("notes.md").is_empty());
    assert!(by(&[PathBuf::from("/elsewhere/permute.cu")]).is_empty());
    assert!(of("new.cuh").reasons[0].contains("was removed") && !of("new.cuh").is_empty());
    assert!(by(&[]).is_empty() && !Affected::all(&library).is_empty());
    // Without kernels of its own, a folder's header replaces the built-in one of all kernels.
    fs::remove_file(folder.join("gemm_tma.cu")).unwrap();
    fs::remove_file(folder.join("permute.cu")).unwrap();
    let library = Library::with_folder(&folder, sm121probe::families::check_kernel).unwrap();
    let shared = Affected::by(&library, &folder, &[folder.join("gemm.cuh")], &Base::Ours);
    for name in ["gemm_tma.cu", "gemm_cp_async.cu"] {
        assert!(shared.reasons[0].contains(name), "{:?}", shared.reasons);
    }
    assert!(!shared.reasons[0].contains("permute.cu"));
}

/// The words of a trial's configuration that say its tile and its path.
fn tile_and_path(trial: &SharedTrial) -> (String, String) {
    let of = Configuration::from_name(&trial.configuration()).unwrap();
    (of.tile.to_string(), of.path.word().to_owned())
}

#[test]
fn a_named_case_and_tile_run_whatever_the_default_set_is() {
    let desk = Desk::new();
    fs::create_dir(desk.path("kernels")).unwrap();
    let folder = desk.path("kernels");
    fs::write(folder.join("gemv.cu"), ours("gemv.cu").replace("float sum = sums", "float sum = 0 + sums"))
        .unwrap();
    let library = Library::with_folder(&folder, sm121probe::families::check_kernel).unwrap();
    let case = Cases { family: &MOE, names: vec!["flashinfer-real".to_owned()] };
    let changed = Affected::by(&library, &folder, &[folder.join("gemv.cu")], &Base::Ours);
    let select = |affected: &Affected, cases: bool, tiles: &[&str]| -> Vec<(String, String)> {
        let configurations: Vec<String> = tiles.iter().map(|tile| (*tile).to_owned()).collect();
        let named = Named { cases, configurations: &configurations };
        let found = affected.select(&library, std::slice::from_ref(&case), named).unwrap().trials;
        found.iter().map(tile_and_path).collect()
    };
    // The policy's tile of the case has no GEMV, so the default set has no trial.
    assert!(select(&changed, false, &[]).is_empty());
    let gemv = |tile: &str| (tile.to_owned(), "gemv".to_owned());
    assert_eq!(select(&changed, true, &["8x64x128"]), [gemv("8x64x128")]);
    let of_case = select(&changed, true, &[]);
    assert!(!of_case.is_empty() && of_case.iter().all(|(_, path)| path == "gemv"), "{of_case:?}");
    assert_eq!(select(&Affected::all(&library), true, &["8x32x128"]), [gemv("8x32x128")]);
    assert!(select(&changed, true, &["128x64x128"]).is_empty());
    // A kernel beside the GEMM runs once for each case, on the named tile.
    let finalize = ours("finalize.cu").replace("float low = 0.0f", "float low = -0.0f");
    fs::write(folder.join("finalize.cu"), finalize).unwrap();
    let library = Library::with_folder(&folder, sm121probe::families::check_kernel).unwrap();
    let changed = Affected::by(&library, &folder, &[folder.join("finalize.cu")], &Base::Ours);
    let configurations = ["64x64x128".to_owned()];
    let named = Named { cases: true, configurations: &configurations };
    let found = changed.select(&library, &[case], named).unwrap().trials;
    assert_eq!(found.iter().map(|t| tile_and_path(t).0).collect::<Vec<_>>(), ["64x64x128"]);
}
