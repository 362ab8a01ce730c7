//! Mutants of a folder's kernels: which are detected, which survive, how mutants.yaml is checked, and what a revision of git says to have
//! changed. NVRTC compiles the kernels.

use std::fs;
use std::process::{Command, Output};

use super::desk::{Desk, both_streams, ours};
use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    (
        "survivors_are_listed_explained_ones_are_not_and_entries_are_held_to_what_they_say",
        &[Need::Nvrtc],
        survivors_are_listed_explained_ones_are_not_and_entries_are_held_to_what_they_say,
    ),
    ("a_sample_and_changed_lines_are_a_part", &[Need::Nvrtc], a_sample_and_changed_lines_are_a_part),
    ("a_base_of_git_says_what_changed", &[Need::Program("git")], a_base_of_git_says_what_changed),
];

/// A repository with one kernel, a finalize; the gate plants faults of three operators into it.
fn survey(desk: &Desk, explained: &str, more: &[&str]) -> Output {
    fs::create_dir_all(desk.path("kernels")).unwrap();
    fs::write(desk.path("kernels/finalize.cu"), ours("finalize.cu")).unwrap();
    if !explained.is_empty() {
        fs::write(desk.path("kernels/mutants.yaml"), explained).unwrap();
    }
    Command::new(env!("CARGO_BIN_EXE_sm121probe"))
        .args(["gate", "--kernels", "kernels", "--mutants", "--case", "tiny-exact", "--case", "n-ragged"])
        .args(["--mutant-operator", "comparison", "--mutant-operator", "cast", "--mutant-operator", "wait"])
        .args(["--sarif", "out.sarif"])
        .args(more)
        .current_dir(desk.dir.path())
        .env_remove("GITHUB_ACTIONS")
        .output()
        .unwrap()
}

/// The last line of standard output.
fn summary(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

fn survivors_are_listed_explained_ones_are_not_and_entries_are_held_to_what_they_say() {
    let desk = Desk::new();
    let output = survey(&desk, "", &[]);
    let all = both_streams(&output);
    assert_eq!(output.status.code(), Some(100), "{all}");
    // Two comparisons, three casts and a wait without overlap: the comparisons are detected; the casts have no effect at this size;
    // and without PDL the wait and the bias are not compiled.
    assert_eq!(
        summary(&output),
        "6 of 6 mutants: 2 killed, 2 survive; 0 explained, 2 with the same PTX, 0 do not build",
        "{all}"
    );
    let cast = "u32 pair = *(const u32*)(fc2_out + (u64)row_of_choice[choice] * hidden + column);";
    assert!(all.contains(&format!("cast survives: `{cast}` becomes")), "{all}");
    let sarif: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(desk.path("out.sarif")).unwrap()).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!((results.len(), &results[0]["ruleId"]), (2, &"mutant_survives".into()));

    let entry = |line: &str, operator: &str| {
        format!("- file: finalize.cu\n  line: '{line}'\n  operator: {operator}\n  reason: rows are few\n")
    };
    let store = "*(u32*)(output + (u64)token * hidden + column) = to_bf16(low) | (u32)to_bf16(high) << 16;";
    let good = entry(cast, "cast") + &entry(store, "cast");
    let desk = Desk::new();
    let output = survey(&desk, &good, &[]);
    let all = both_streams(&output);
    assert_eq!(output.status.code(), Some(0), "{all}");
    assert!(summary(&output).contains("0 survive; 2 explained"), "{all}");

    // An entry for a detected mutant, one for a missing mutant, and an invalid file.
    let desk = Desk::new();
    let bad = good.clone() + &entry("if (column >= hidden)", "comparison") + &entry("gone;", "cast");
    let output = survey(&desk, &bad, &[]);
    let all = both_streams(&output);
    assert_eq!(output.status.code(), Some(100), "{all}");
    assert!(
        all.contains("kernels/mutants.yaml:9: `if (column >= hidden)`: says that nothing detects"),
        "{all}"
    );
    assert!(all.contains("kernels/mutants.yaml:13: `gone;`: explains no mutant of finalize.cu"), "{all}");
    let desk = Desk::new();
    let output = survey(&desk, "- {file: finalize.cu, line: x, operator: cats, reason: r}\n", &[]);
    let all = both_streams(&output);
    assert!(
        output.status.code() == Some(2) && all.contains("mutants.yaml:1:") && all.contains("`cats`"),
        "{all}"
    );
}

fn a_sample_and_changed_lines_are_a_part() {
    let desk = Desk::new();
    let output = survey(&desk, "", &["--sample", "2", "--seed", "3"]);
    assert!(summary(&output).starts_with("2 of 6 mutants: "), "{}", both_streams(&output));
    // Only lines that differ from the built-in kernel get mutants.
    let desk = Desk::new();
    fs::create_dir_all(desk.path("kernels")).unwrap();
    fs::write(
        desk.path("kernels/finalize.cu"),
        ours("finalize.cu").replace("if (column >= hidden)", "if (hidden <= column)"),
    )
    .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sm121probe"))
        .args(["gate", "--kernels", "kernels", "--mutants", "--case", "tiny-exact"])
        .args(["--changed", "kernels/finalize.cu", "--mutant-operator", "comparison"])
        .current_dir(desk.dir.path())
        .env_remove("GITHUB_ACTIONS")
        .output()
        .unwrap();
    assert!(summary(&output).starts_with("1 of 1 mutants: "), "{}", both_streams(&output));
}

fn a_base_of_git_says_what_changed() {
    let desk = Desk::new();
    fs::create_dir(desk.path("kernels")).unwrap();
    fs::write(desk.path("kernels/permute.cu"), ours("permute.cu")).unwrap();
    let git = |arguments: &[&str]| {
        let identity =
            ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "init.defaultBranch=main"];
        let done = Command::new("git").args(identity).args(arguments).current_dir(desk.dir.path()).output();
        done.is_ok_and(|o| o.status.success())
    };
    assert!(git(&["init", "-q"]) && git(&["add", "."]) && git(&["commit", "-q", "-m", "kernels"]));
    fs::write(desk.path("kernels/permute.cu"), ours("permute.cu") + "// a word\n").unwrap();
    let gate = |base: &str| {
        Command::new(env!("CARGO_BIN_EXE_sm121probe"))
            .args(["gate", "--kernels", "kernels", "--changed", "kernels/permute.cu", "--base", base])
            .current_dir(desk.dir.path())
            .env_remove("GITHUB_ACTIONS")
            .output()
            .unwrap()
    };
    let output = gate("HEAD");
    let all = both_streams(&output);
    assert!(output.status.success() && all.contains("no code changed, affects nothing"), "{all}");
    let output = gate("nowhere");
    assert_eq!(output.status.code(), Some(2), "{}", both_streams(&output));
}
