//! What a report says beyond the verdict: the other side of a race.

use std::fs;

use tempfile::TempDir;

use super::{run, tool};

/// A module with line information whose second warp reads what the first one writes, and its source.
fn racy(dir: &TempDir) -> (String, String) {
    let source = dir.path().join("share.cu");
    fs::write(&source, "// The first warp writes, the second reads.\nbox = 9;\ny[0] = box;\n").unwrap();
    let path = dir.path().join("share.ptx");
    let text = format!(
        ".version 9.0\n.target sm_121a\n.address_size 64\n.file 1 \"{}\"\n.visible .entry share(.param .u64 y)\n{{\n\
         .reg .b32 %r<4>;\n.reg .b64 %rd1;\n.reg .pred %p<3>;\n.shared .align 4 .b8 box[4];\nld.param.u64 %rd1, [y];\n\
         mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\nsetp.eq.u32 %p2, %r1, 32;\n.loc 1 2 1\n\
         @%p1 st.shared.u32 [box], 9;\n.loc 1 3 1\n@%p2 ld.shared.u32 %r2, [box];\n@%p2 st.global.u32 [%rd1], %r2;\nret;\n}}\n",
        source.display()
    );
    fs::write(&path, text).unwrap();
    (path.display().to_string(), source.display().to_string())
}

#[test]
fn both_sides_of_a_race_are_shown_with_their_lines() {
    let dir = TempDir::new().unwrap();
    let (file, source) = racy(&dir);
    let call = ["emulate", &file, "--block", "64", "--arg", "out:y=u32[1]"];
    let text = run(100, &call);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "; the other access: kernel share, PTX line 16 `@%p1 st.shared.u32 [box], 9;`",
        "the source lines are",
        &format!("{source}:3 `y[0] = box;` and, of the other access, {source}:2 `box = 9;`"),
    ] {
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&part), "{part}\n{text}");
    }
    let output = tool(&[&call[..], &["--format", "json"]].concat());
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let violation = &results["violations"][0];
    assert_eq!((&violation["line"], &violation["source_text"]), (&18.into(), &"y[0] = box;".into()));
    let other = &violation["other"];
    assert_eq!((&other["line"], &other["wrote"], &other["warp"]), (&16.into(), &true.into(), &0.into()));
    assert_eq!((&other["source"][1], &other["source_text"]), (&2.into(), &"box = 9;".into()));
    // A listed race has both sides, too.
    let text = run(100, &[&call[..], &["--rules", "values", "--schedules", "16"]].concat());
    assert!(text.contains("violation: race") && text.contains("the other access: kernel share"), "{text}");
}

#[test]
fn what_launches_left_out_is_remarked() {
    let dir = TempDir::new().unwrap();
    // Each thread stores one word of four, of the first two rows.
    let body = "ld.param.u64 %rd1, [y];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 16;\nadd.u64 %rd1, %rd1, %rd2;\n\
                st.global.u32 [%rd1], %r1;\nst.global.u32 [%rd1+4], %r1;\n";
    let file = super::kernel(&dir, ".param .u64 sink, .param .u64 y", body);
    let call =
        ["emulate", &file, "--block", "2", "--arg", "buf:sink=random:1:f32[4]", "--arg", "out:y=u32[4,4]"];
    let text = run(0, &call);
    assert!(text.contains("\nremark: `sink` was never read by any launch\n"), "{text}");
    assert!(
        text.contains("remark: of `y`, 12 elements between 2 and 15 were never written by any launch\n"),
        "{text}"
    );
    let whole = body
        .replace("add.u64 %rd1, %rd1, %rd2;\n", "add.u64 %rd1, %rd1, %rd2;\nst.global.u64 [%rd1+8], %rd2;\n");
    let file = super::kernel(&dir, ".param .u64 sink, .param .u64 y", &whole);
    let call =
        ["emulate", &file, "--block", "2", "--arg", "buf:sink=random:1:f32[4]", "--arg", "out:y=u32[4,4]"];
    let text = run(0, &call);
    assert!(text.contains("remark: of `y`, elements 8 to 15, rows 2 to 3 were never written"), "{text}");
    let output = tool(&[&call[..], &["--format", "json"]].concat());
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let omissions = &results["omissions"];
    assert_eq!((&omissions[0]["kind"], &omissions[0]["buffer"]), (&"unread".into(), &"sink".into()));
    assert_eq!(omissions[1]["elements"]["rows"], serde_json::json!([2, 3]));
    // An input that a launch reads, and an output that all of them write, are not mentioned.
    assert!(!run(0, &super::words(super::REDUCTION, &super::OUT)).contains("remark"));
}

#[test]
fn launches_behind_a_stop_and_modules_without_a_launch_are_named() {
    let dir = TempDir::new().unwrap();
    let outside =
        super::kernel(&dir, ".param .u64 y", "ld.param.u64 %rd1, [y];\nst.global.u32 [%rd1+4096], 1;\n");
    let session = format!(
        "modules:\n  used: {{file: '{outside}'}}\n  spare: {{file: '{outside}'}}\nbuffers:\n  y: {{type: u32, shape: 4}}\n\
         launches:\n- {{module: used, args: [{{buffer: y}}]}}\n- {{module: used, args: [{{buffer: y}}]}}\n"
    );
    let path = dir.path().join("launches.yaml");
    fs::write(&path, session).unwrap();
    let text = run(100, &["emulate", &path.display().to_string()]);
    assert!(text.contains("remark: launch 1, `k`, did not run\n"), "{text}");
    assert!(text.contains("remark: no launch is of the module "), "{text}");
}
