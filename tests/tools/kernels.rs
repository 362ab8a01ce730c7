//! The gate on a folder of kernels: a broken kernel is reported on its line. NVRTC compiles the kernels.

use std::fs;
use std::process::{Command, Output};

use super::desk::{Desk, both_streams, ours};
use super::need::{Need, Test};

pub(super) const TESTS: &[Test] =
    &[("a_kernel_that_breaks_is_red_on_its_line", &[Need::Nvrtc], a_kernel_that_breaks_is_red_on_its_line)];

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

fn a_kernel_that_breaks_is_red_on_its_line() {
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
        let all = both_streams(&output);
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
