//! What a report says beyond the verdict: the other side of a race, what launches left out, where a wrong element comes from, and
//! what a result is compared with.

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

#[test]
fn the_first_wrong_element_is_traced_to_its_instruction_and_its_inputs() {
    let dir = TempDir::new().unwrap();
    // Twice each number is right; the kernel adds 1 in the fourth thread.
    let body = "ld.param.u64 %rd1, [x];\nld.param.u64 %rd2, [y];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd3, %r1, 4;\n\
                add.u64 %rd1, %rd1, %rd3;\nadd.u64 %rd2, %rd2, %rd3;\nld.global.u32 %r2, [%rd1];\nadd.u32 %r3, %r2, %r2;\n\
                setp.eq.u32 %p1, %r1, 3;\n@%p1 add.u32 %r3, %r2, 1;\nst.global.u32 [%rd2], %r3;\n";
    let file = super::kernel(&dir, ".param .u64 x, .param .u64 y", body);
    let session = format!(
        "modules:\n  k: {{file: '{file}'}}\nbuffers:\n  x: {{type: u32, shape: [2, 4], fill: iota}}\n  y:\n    type: u32\n    shape: [2, 4]\n\
         \x20   expect: {{values: [0, 2, 4, 6, 8, 10, 12, 14]}}\nlaunches:\n- block: 8\n  args: [{{buffer: x}}, {{buffer: y}}]\n"
    );
    let path = dir.path().join("launches.yaml");
    fs::write(&path, session).unwrap();
    let path = path.display().to_string();
    let text = run(100, &["emulate", &path]);
    for part in [
        "the first is y[0,3]: 4, expected 6",
        "  y[0,3] was last written in launch 0: kernel k, PTX line 19 `st.global.u32 [%rd2], %r3;`, CTA (0,0,0), warp 0, lane 3\n",
        "  `st.global.u32 [%rd2], %r3;` at line 19 uses %r3 = 4\n",
        "    `@%p1 add.u32 %r3, %r2, 1;` at line 18 uses %r2 = 3\n",
        "      `ld.global.u32 %r2, [%rd1];` at line 15 loads x[0,3]\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let output = tool(&["emulate", &path, "--format", "json"]);
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let origin = &results["origin"];
    assert_eq!((&origin["index"], &origin["launch"]), (&serde_json::json!([0, 3]), &0.into()));
    assert_eq!(origin["instructions"][1]["operands"][0]["value"], "3");
    assert_eq!(origin["instructions"][2]["loaded"], "x[0,3]");
    // An element that nothing wrote.
    let session = fs::read_to_string(&path).unwrap().replace("block: 8", "block: 7");
    let session = session.replace("[0, 2, 4, 6, 8,", "[0, 2, 4, 4, 8,");
    fs::write(&path, session).unwrap();
    let text = run(100, &["emulate", &path]);
    assert!(text.contains("  y[1,3] was not written by any launch\n"), "{text}");
    assert!(text.contains("remark: of `y`, element 7, column 3 of row 1 was never written"), "{text}");
}

/// A kernel that copies 16-bit elements: what it is given is its result.
fn copy(dir: &TempDir) -> String {
    let body = "ld.param.u64 %rd1, [x];\nld.param.u64 %rd2, [y];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd3, %r1, 2;\n\
                add.u64 %rd1, %rd1, %rd3;\nadd.u64 %rd2, %rd2, %rd3;\nld.global.u16 %r2, [%rd1];\nst.global.u16 [%rd2], %r2;\n";
    super::kernel(
        dir,
        ".param .u64 x, .param .u64 y",
        &body.replace("%r2", "%h2").replace("ld.param.u64 %rd1", ".reg .b16 %h2;\nld.param.u64 %rd1"),
    )
}

/// Rows of ones, of which each has another scale, times ones: row r of the product is 32 * 2^r.
fn product(dir: &TempDir, rows: [u32; 4], product: &str) -> String {
    let values: Vec<String> = rows.iter().flat_map(|row| vec![row.to_string(); 32]).collect();
    let session = format!(
        "modules:\n  k: {{file: '{}'}}\nbuffers:\n  a: {{type: e4m3, shape: [4, 32], fill: 1}}\n\
         \x20 a_scales: {{type: ue8m0, shape: [4, 1], values: [1, 2, 4, 8]}}\n  b: {{type: e2m1, shape: [32, 32], fill: 1}}\n\
         \x20 b_scales: {{type: ue8m0, shape: [32, 1], fill: 1}}\n  given: {{type: bf16, shape: [4, 32], values: [{}]}}\n\
         \x20 y:\n    type: bf16\n    shape: [4, 32]\n    expect: {{product: {{{product}}}}}\n\
         launches:\n- block: 128\n  args: [{{buffer: given}}, {{buffer: y}}]\n",
        copy(dir),
        values.join(", ")
    );
    let path = dir.path().join("product.yaml");
    fs::write(&path, session).unwrap();
    path.display().to_string()
}

#[test]
fn a_product_is_judged_by_its_bound_and_explained() {
    let dir = TempDir::new().unwrap();
    let of = "format: mxfp8xmxfp4, a: a, a_scales: a_scales, b: b, b_scales: b_scales";
    let text = run(0, &["emulate", &product(&dir, [32, 64, 128, 256], of)]);
    assert!(
        text.contains("y: 128 elements as expected (derived bound; largest difference 0.000 of it)"),
        "{text}"
    );
    // The kernel forgets the scales of `a`: the rows 1 to 3 are wrong.
    let wrong = product(&dir, [32; 4], of);
    let text = run(100, &["emulate", &wrong]);
    assert!(text.contains("y: 96 of 128 elements are not as expected (derived bound"), "{text}");
    assert!(text.contains("the first is y[1,0]: 32, "), "{text}");
    assert!(text.contains("the scales of the operand `a` are left out"), "{text}");
    assert!(text.contains("y[1,0] was last written in launch 0"), "{text}");
    let output = tool(&["emulate", &wrong, "--format", "json"]);
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expectation = &results["expectations"][0];
    assert_eq!((&expectation["judged_by"], &expectation["wrong"]), (&"derived_bound".into(), &96.into()));
    assert!(expectation["diagnosis"]["explanations"][0]["what"].as_str().unwrap().contains("operand `a`"));
    for (of, why) in [
        (
            "format: fp3, a: a, b: b, b_scales: b_scales",
            "`fp3` is none of the formats mxfp8, mxfp4, nvfp4, bf16, f16",
        ),
        (
            "format: mxfp8, a: a, a_scales: a_scales, b: b, b_scales: b_scales",
            "`b` has 512 bytes, not the 1024 of 32 rows of 32 elements",
        ),
        ("format: mxfp8xmxfp4, a: a, b: b, b_scales: b_scales", "mxfp8 needs `a_scales`"),
        (
            "format: mxfp8xmxfp4, a: y, a_scales: a_scales, b: b, b_scales: b_scales",
            "buffer `y` is an operand of a product and has no",
        ),
        (
            "format: mxfp8xmxfp4, a: a, a_scales: b, b: b, b_scales: b_scales",
            "`a_scales` has 512 bytes, not the 4 of 4 x 1 scales",
        ),
    ] {
        let text = run(2, &["emulate", &product(&dir, [32; 4], of)]);
        assert!(text.contains(why) && text.contains("product.yaml:"), "{why}\n{text}");
    }
}

#[test]
fn a_product_of_values_without_scales_is_judged_and_explained() {
    let dir = TempDir::new().unwrap();
    // Row r of `a` is the number 1 + r / 4, `b` is 1 in its first half of K and 2 in the other: a product is 96 + 24 r.
    let session = |given: [u32; 4]| {
        let repeated = |numbers: &[String], each: usize| -> String {
            numbers.iter().flat_map(|n| vec![n.as_str(); each]).collect::<Vec<_>>().join(", ")
        };
        let a: Vec<String> = (0..4).map(|row| (1.0 + f64::from(row) / 4.0).to_string()).collect();
        let b: Vec<String> = (0..64).map(|half| (1 + half % 2).to_string()).collect();
        let given: Vec<String> = given.iter().map(u32::to_string).collect();
        let text = format!(
            "modules:\n  k: {{file: '{}'}}\nbuffers:\n  a: {{type: bf16, shape: [4, 64], values: [{}]}}\n\
             \x20 b: {{type: f16, shape: [32, 64], values: [{}]}}\n  given: {{type: f16, shape: [4, 32], values: [{}]}}\n\
             \x20 y:\n    type: f16\n    shape: [4, 32]\n    expect: {{product: {{format: bf16xf16, a: a, b: b}}}}\n\
             launches:\n- block: 128\n  args: [{{buffer: given}}, {{buffer: y}}]\n",
            copy(&dir),
            repeated(&a, 64),
            repeated(&b, 32),
            repeated(&given, 32)
        );
        let path = dir.path().join("values.yaml");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let text = run(0, &["emulate", &session([96, 120, 144, 168])]);
    assert!(text.contains("y: 128 elements as expected (derived bound"), "{text}");
    // The second half of K is missing: rows of 32 + 8 r.
    let text = run(100, &["emulate", &session([32, 40, 48, 56])]);
    assert!(text.contains("the first is y[0,0]: 32, expected 96 ± 0"), "{text}");
    assert!(text.contains("the last 32 of K are left out"), "{text}");
}

#[test]
fn scales_of_a_product_are_read_in_their_layout() {
    let dir = TempDir::new().unwrap();
    let of = "format: mxfp8xmxfp4, a: a, a_scales: a_scales, a_scale_layout: 8x4, b: b, b_scales: b_scales";
    // The scale of each row is the first of four in its row of the tile.
    let tiled = |rows: [u32; 4], of: &str| {
        let path = product(&dir, rows, of);
        let scales: Vec<&str> =
            ["1", "2", "4", "8"].iter().flat_map(|scale| [*scale, "16", "16", "16"]).collect();
        let scales = format!("shape: [8, 4], values: [{}, {}]", scales.join(", "), ["16"; 16].join(", "));
        let session = fs::read_to_string(&path).unwrap();
        fs::write(&path, session.replace("shape: [4, 1], values: [1, 2, 4, 8]", &scales)).unwrap();
        path
    };
    let text = run(0, &["emulate", &tiled([32, 64, 128, 256], of)]);
    assert!(text.contains("y: 128 elements as expected (derived bound"), "{text}");
    let text = run(100, &["emulate", &tiled([32, 64, 128, 512], of)]);
    assert!(text.contains("y: 32 of 128 elements are not as expected") && text.contains("y[3,0]"), "{text}");
    let text = run(2, &["emulate", &product(&dir, [32, 64, 128, 256], of)]);
    assert!(text.contains("`a_scales` has 4 bytes, not the 32 of 4 x 1 scales, padded to 8 x 4"), "{text}");
    let of = of.replace("8x4", "4x4");
    let text = run(2, &["emulate", &tiled([32, 64, 128, 256], &of)]);
    assert!(text.contains("4x4") && text.contains("linear") && text.contains("128x4"), "{text}");
}

#[test]
fn a_buffer_is_compared_with_a_file_of_any_kind() {
    let dir = TempDir::new().unwrap();
    let file = copy(&dir);
    let at = |name: &str| dir.path().join(name).display().to_string();
    let ones = 0x3C00_u16.to_le_bytes().repeat(4);
    fs::write(at("raw.bin"), &ones).unwrap();
    let header = format!("{:<117}\n", "{'descr': '<f2', 'fortran_order': False, 'shape': (4,), }");
    let array = |data: &[u8]| [b"\x93NUMPY\x01\x00\x76\x00".as_slice(), header.as_bytes(), data].concat();
    fs::write(at("ones.npy"), array(&ones)).unwrap();
    // One step above 1 in the last element.
    let near = [&ones[..6], &0x3C01_u16.to_le_bytes()].concat();
    fs::write(at("near.npy"), array(&near)).unwrap();
    let call = |code: i32, more: &[&str]| {
        let call = ["emulate", &file, "--block", "4", "--arg", "buf:x=@", "--arg", "out:y=f16[4]"];
        let x = format!("buf:x=@{}#x", at("x.safetensors"));
        let call: Vec<&str> =
            call.iter().map(|arg| if *arg == "buf:x=@" { x.as_str() } else { arg }).collect();
        run(code, &[&call[..], more].concat())
    };
    let tensor = r#"{"x":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}}"#;
    let tensors = [&(tensor.len() as u64).to_le_bytes()[..], tensor.as_bytes(), &ones].concat();
    fs::write(at("x.safetensors"), tensors).unwrap();
    for expected in ["raw.bin", "ones.npy", "x.safetensors#x"] {
        let text = call(0, &["--expect", &format!("y={}", at(expected))]);
        assert!(text.contains("y: 4 elements as expected"), "{text}");
    }
    let near = format!("y={}", at("near.npy"));
    let text = call(100, &["--expect", &near]);
    assert!(
        text.contains("y: 1 of 4 elements are not as expected") && text.contains("y[3] was last written"),
        "{text}"
    );
    assert!(call(0, &["--expect", &near, "--ulps", "1"]).contains("ulps 1"), "{text}");
    assert!(call(2, &["--expect", &format!("z={}", at("ones.npy"))]).contains("the buffers are: x, y"));
    assert!(
        call(2, &["--expect", &format!("y={}", at("x.safetensors#w"))]).contains("there is no tensor `w`")
    );
    fs::write(at("short.npy"), &ones).unwrap();
    assert!(
        call(2, &["--expect", &format!("y={}", at("short.npy"))]).contains("does not begin like a .npy file")
    );
}

#[test]
fn a_comparison_of_nothing_is_not_a_pass() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("want.bin"), [0; 4]).unwrap();
    let session = format!(
        "modules:\n  k: {{file: '{}'}}\nbuffers:\n  x: {{type: u16, shape: 2, fill: 7}}\n  y:\n    type: u16\n    shape: 2\n\
         \x20   expect: {{raw: want.bin, unwritten: [[0, 4]]}}\nlaunches:\n- block: 2\n  args: [{{buffer: x}}, {{buffer: y}}]\n",
        copy(&dir)
    );
    let path = dir.path().join("launches.yaml");
    fs::write(&path, session).unwrap();
    let text = run(4, &["emulate", &path.display().to_string()]);
    assert!(
        text.starts_with("NOTHING CHECKED: y: nothing was compared: none of its elements is compared\n"),
        "{text}"
    );
    let output = tool(&["emulate", &path.display().to_string(), "--format", "json"]);
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &results["incomplete"]["nothing_checked"]), (Some(4), &true.into()));
}
