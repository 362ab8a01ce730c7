//! Mutants of a folder's kernels: which are detected, which survive, how mutants.yaml is checked, and what changed lines select.
//! NVRTC compiles the kernels; without it, the tests that need it report so and pass.

use std::fs;
use std::process::{Command, Output};

use sm121probe::gate::{Affected, Base};
use sm121probe::kernel::Library;

use super::fixture::{Desk, said};
use super::kernels::{has_nvrtc, ours};

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

#[test]
fn survivors_are_listed_explained_ones_are_not_and_entries_are_held_to_what_they_say() {
    if !has_nvrtc() {
        return;
    }
    let desk = Desk::new();
    let output = survey(&desk, "", &[]);
    let all = said(&output);
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
    let all = said(&output);
    assert_eq!(output.status.code(), Some(0), "{all}");
    assert!(summary(&output).contains("0 survive; 2 explained"), "{all}");

    // An entry for a detected mutant, one for a missing mutant, and an invalid file.
    let desk = Desk::new();
    let bad = good.clone() + &entry("if (column >= hidden)", "comparison") + &entry("gone;", "cast");
    let output = survey(&desk, &bad, &[]);
    let all = said(&output);
    assert_eq!(output.status.code(), Some(100), "{all}");
    assert!(
        all.contains("kernels/mutants.yaml:9: `if (column >= hidden)`: says that nothing detects"),
        "{all}"
    );
    assert!(all.contains("kernels/mutants.yaml:13: `gone;`: explains no mutant of finalize.cu"), "{all}");
    let desk = Desk::new();
    let output = survey(&desk, "- {file: finalize.cu, line: x, operator: cats, reason: r}\n", &[]);
    let all = said(&output);
    assert!(
        output.status.code() == Some(2) && all.contains("mutants.yaml:1:") && all.contains("`cats`"),
        "{all}"
    );
}

#[test]
fn a_sample_and_changed_lines_are_a_part() {
    if !has_nvrtc() {
        return;
    }
    let desk = Desk::new();
    let output = survey(&desk, "", &["--sample", "2", "--seed", "3"]);
    assert!(summary(&output).starts_with("2 of 6 mutants: "), "{}", said(&output));
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
    assert!(summary(&output).starts_with("1 of 1 mutants: "), "{}", said(&output));
}

#[test]
fn a_line_under_a_condition_selects_what_it_is_compiled_for() {
    let desk = Desk::new();
    let folder = desk.path("kernels");
    fs::create_dir(&folder).unwrap();
    let cases = sm121probe::case::library();
    let cases: Vec<_> = cases.cases.iter().collect();
    let select = |name: &str, text: &str, base: &Base| {
        fs::write(folder.join(name), text).unwrap();
        let library = Library::with_folder(&folder).unwrap();
        let affected = Affected::by(&library, &folder, &[folder.join(name)], base);
        let selected = affected.select(&library, &cases).unwrap();
        fs::remove_file(folder.join(name)).unwrap();
        let found: Vec<_> =
            selected.trials.iter().map(|t| (t.case.name.clone(), t.configuration())).collect();
        (found, affected.reasons, selected.reasons)
    };
    let gemm = ours("gemm.cuh");
    let marker = "u32 slab = part * PART_K / SLAB_K, chunk";
    assert!(gemm.contains(marker), "the line is another");
    let under = |condition: &str| {
        gemm.replacen(marker, &format!("#if {condition}\nlane += 0;\n#endif\n        {marker}"), 1)
    };
    // A line for K tile 256 of the native path.
    let (found, _, reasons) = select("gemm.cuh", &under("TILE_K == 256"), &Base::Ours);
    assert!(
        !found.is_empty() && found.iter().all(|(_, w)| w.tile.k == 256 && w.path.word() == "native"),
        "{found:?}"
    );
    assert!(
        reasons[0].contains("changed, active for K tile 256") && reasons[0].contains("path native"),
        "{reasons:?}"
    );
    // Macros that the file itself defines count, too.
    let (found, _, reasons) = select("gemm.cuh", &under("SLABS == 4 && SWAP_AB && A_BITS == 8"), &Base::Ours);
    assert!(!found.is_empty() && found.iter().all(|(_, w)| w.tile.k == 512 && w.swap_ab), "{reasons:?}");
    // The condition itself: what it includes or excludes.
    let old = Base::Texts([(folder.join("gemm.cuh"), under("TILE_K > 256"))].into_iter().collect());
    let (found, _, _) = select("gemm.cuh", &under("TILE_K >= 256"), &old);
    assert!(!found.is_empty() && found.iter().all(|(_, w)| w.tile.k == 256), "{found:?}");
    // A line that no tile compiles; a comment; and a line of every configuration.
    assert!(select("gemm.cuh", &under("TILE_K == 1024"), &Base::Ours).0.is_empty());
    let comment = gemm.replacen("// Element e of a lane", "// The element e of a lane", 1) + "\n\n// done\n";
    let (found, reasons, _) = select("gemm.cuh", &comment, &Base::Ours);
    assert!(found.is_empty() && reasons[0].contains("no code changed, affects nothing"), "{reasons:?}");
    let (found, _, reasons) = select("gemm.cuh", &gemm.replacen("u32 x0 =", "u32 x0 = 0 +", 1), &Base::Ours);
    assert!(
        found.len() > 24 && reasons[0].contains("active in every configuration of the GEMM"),
        "{reasons:?}"
    );
    // A rule of another stage: only the cases that depend on it.
    let rule = "mantissa >= CARRIES";
    let mx = ours("mx.cuh");
    assert!(mx.contains(rule), "the rule is another");
    let (found, _, reasons) = select("mx.cuh", &mx.replace(rule, "mantissa > CARRIES"), &Base::Ours);
    assert_eq!(found.iter().map(|(case, _)| case.as_str()).collect::<Vec<_>>(), ["mxfp4-even", "scale-even"]);
    assert!(reasons[0].contains("active in mxfp4-even and scale-even (2 of "), "{reasons:?}");
}

#[test]
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
    if !(git(&["init", "-q"]) && git(&["add", "."]) && git(&["commit", "-q", "-m", "kernels"])) {
        eprintln!("no git here");
        return;
    }
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
    let all = said(&output);
    assert!(output.status.success() && all.contains("no code changed, affects nothing"), "{all}");
    let output = gate("nowhere");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn mutants_need_a_folder_and_a_known_operator() {
    let desk = Desk::new();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sm121probe"))
            .arg("gate")
            .args(arguments)
            .current_dir(desk.dir.path())
            .output()
            .unwrap();
        (output.status.code(), said(&output))
    };
    assert_eq!(run(&["--mutants"]).0, Some(2));
    let (code, words) = run(&["--kernels", ".", "--mutants", "--mutant-operator", "shuffle"]);
    assert!(
        code == Some(2) && words.contains("is not a mutation operator; use one of constant_up"),
        "{words}"
    );
}
