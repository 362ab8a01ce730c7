//! The gate on a folder of kernels: whatever a change can affect runs, and a broken kernel is reported on its line.
//! NVRTC compiles the kernels; without it (and unless `SM121PROBE_REQUIRE` has `nvrtc`), the tests that need it report so and pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sm121probe::gate::{Affected, Base};
use sm121probe::kernel::Library;
use sm121probe::store::Store;
use sm121probe::toolkit::{self, Environment};

use super::fixture::{Desk, said};

pub(super) fn has_nvrtc() -> bool {
    let here = !toolkit::nvrtcs(Store::open(None).ok().as_ref(), &Environment::of_process()).is_empty();
    let required =
        std::env::var("SM121PROBE_REQUIRE").is_ok_and(|r| r.split(',').any(|w| w.trim() == "nvrtc"));
    assert!(
        here || !required,
        "SM121PROBE_REQUIRE asks for NVRTC; `sm121probe toolkit install nvrtc` fetches it"
    );
    if !here {
        eprintln!("no NVRTC here: sm121probe toolkit install nvrtc");
    }
    here
}

pub(super) fn ours(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels").join(name)).unwrap()
}

/// The number of the line that contains `what`, from 1.
fn line(text: &str, what: &str) -> usize {
    text.lines().position(|l| l.contains(what)).unwrap() + 1
}

/// A repository with one changed kernel; the gate uses the machine's own cache.
fn gate(desk: &Desk, text: &str) -> Output {
    fs::create_dir_all(desk.path("kernels")).unwrap();
    fs::write(desk.path("kernels/permute.cu"), text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_sm121probe"))
        .args([
            "gate",
            "--kernels",
            "kernels",
            "--case",
            "tiny-exact",
            "--sarif",
            "out.sarif",
            "--changed",
            "kernels/permute.cu",
        ])
        .current_dir(desk.dir.path())
        .env("GITHUB_ACTIONS", "true")
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()
        .unwrap()
}

#[test]
fn a_kernel_that_breaks_is_red_on_its_line() {
    if !has_nvrtc() {
        return;
    }
    let good = ours("permute.cu");
    let entry = line(&good, "permute(const i32* topk_ids");
    let store = "row_of_choice[i] = (i32)to;";
    let cases = [
        ("as it was", good.clone(), 0, 0, "conforms"),
        (
            "does not compile",
            good.replace(store, "row_of_choice[i] = (i32)tow;"),
            100,
            line(&good, store),
            "identifier \"tow\" is undefined",
        ),
        (
            "writes beside its buffer",
            good.replace(store, "row_of_choice[i + (1 << 20)] = (i32)to;"),
            100,
            line(&good, store),
            "out_of_bounds",
        ),
        (
            "computes something else",
            good.replace("row_token[to] = (i32)(i / top_k);", "row_token[to] = (i32)(i / top_k + 1) % 16;"),
            100,
            entry,
            "fail at permute",
        ),
        ("has a header that does not fit", good.replace("tile_m]", "tile_q]"), 100, 1, "tile_q"),
    ];
    for (name, text, code, line, words) in cases {
        let desk = Desk::new();
        let output = gate(&desk, &text);
        let all = said(&output);
        assert_eq!(output.status.code(), Some(code), "{name}: {all}");
        assert!(all.contains(words), "{name}: no `{words}` in {all}");
        assert!(all.contains("kernels/permute.cu: affects permute.cu"), "{name}: {all}");
        let sarif: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(desk.path("out.sarif")).unwrap()).unwrap();
        let results = sarif["runs"][0]["results"].as_array().unwrap();
        assert_eq!(results.is_empty(), code == 0, "{name}");
        if code != 0 {
            assert!(
                all.contains(&format!("::error file=kernels/permute.cu,line={line},")),
                "{name}: not line {line}: {all}"
            );
            let place = &results[0]["locations"][0]["physicalLocation"];
            assert_eq!(
                (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
                (&"kernels/permute.cu".into(), &line.into()),
                "{name}"
            );
        }
    }
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
