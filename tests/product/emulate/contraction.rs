//! `--contract`: the readings that PTX allows, the one that ptxas chooses, and the judge that compares them.

use std::fs;

use tempfile::TempDir;

use super::run;

/// A rotation by an angle, as compilers emit it: PTX leaves open which products are rounded.
const ROTATION: &str = ".version 8.8\n.target sm_121a\n.address_size 64\n\
.visible .entry rotate(.param .u64 x, .param .u64 y)\n{\n\
.reg .b32 %r<4>;\n.reg .b64 %rd<6>;\n.reg .f32 %f<12>;\n\
ld.param.u64 %rd0, [x];\nld.param.u64 %rd1, [y];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 16;\n\
add.s64 %rd0, %rd0, %rd2;\nmul.wide.u32 %rd2, %r0, 8;\nadd.s64 %rd1, %rd1, %rd2;\n\
ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd0];\n\
mul.f32 %f4, %f0, %f2;\nmul.f32 %f5, %f1, %f3;\nsub.f32 %f6, %f4, %f5;\n\
mul.f32 %f7, %f0, %f3;\nmul.f32 %f8, %f1, %f2;\nadd.f32 %f9, %f7, %f8;\n\
st.global.v2.f32 [%rd1], {%f6, %f9};\nret;\n}\n";

fn emulate(dir: &TempDir, ptx: &str, more: &[&str]) -> String {
    let path = dir.path().join("k.ptx");
    fs::write(&path, ptx).unwrap();
    let path = path.display().to_string();
    let call =
        ["emulate", &path, "--block", "64", "--arg", "buf:x=random:1:f32[64,4]", "--arg", "out:y=f32[64,2]"];
    run(0, &[&call, more].concat())
}

fn digest(text: &str) -> &str {
    text.lines().find_map(|line| line.trim().strip_prefix("sha256 ")).unwrap()
}

/// The text with all products and sums rounded, or with these changes.
fn explicit(changes: &[(&str, &str)]) -> String {
    let mut text = ROTATION.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    for opcode in ["mul", "add", "sub"] {
        text = text.replace(&format!("{opcode}.f32"), &format!("{opcode}.rn.f32"));
    }
    text
}

#[test]
fn off_and_on_are_two_readings_of_one_text() {
    let dir = TempDir::new().unwrap();
    let off = emulate(&dir, ROTATION, &["--contract", "off"]);
    assert_eq!(off, emulate(&dir, ROTATION, &[]));
    assert_eq!(digest(&off), digest(&emulate(&dir, &explicit(&[]), &[])));
    let on = emulate(&dir, ROTATION, &["--contract", "on"]);
    let fused = explicit(&[
        ("sub.f32 %f6, %f4, %f5", "neg.f32 %f10, %f5;\nfma.rn.f32 %f6, %f0, %f2, %f10"),
        ("add.f32 %f9, %f7, %f8", "fma.rn.f32 %f9, %f0, %f3, %f8"),
    ]);
    assert_eq!(digest(&on), digest(&emulate(&dir, &fused, &[])));
    assert_ne!(digest(&off), digest(&on));
}

#[test]
fn the_judge_of_values_names_what_ptx_leaves_open() {
    let dir = TempDir::new().unwrap();
    let text = emulate(&dir, ROTATION, &["--judge", "values"]);
    let line = text.lines().find(|line| line.starts_with("undetermined by PTX: ")).unwrap();
    assert!(line.contains(" of 128 elements of y depend on whether mul and add round once"), "{line}");
    let text = emulate(&dir, ROTATION, &["--judge", "values", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let found = &json["undetermined"][0];
    assert_eq!(found["buffer"], "y");
    assert!(found["differing"].as_u64().unwrap() > 0 && found["separate"] != found["contracted"], "{found}");
}

#[test]
fn a_constant_divisor_is_a_factor_as_ptxas_computes_it() {
    let dir = TempDir::new().unwrap();
    let by = |line: &str| {
        let text = explicit(&[]).replace("mul.rn.f32 %f4, %f0, %f2;", line);
        digest(&emulate(&dir, &text, &[])).to_owned()
    };
    // The approximate reciprocal of 33 by the special-function unit is 3CF83E0F.
    let factor = by("mul.rn.f32 %f4, %f0, 0f3CF83E10;");
    assert_eq!(by("div.full.f32 %f4, %f0, 0f42040000;"), factor);
    assert_eq!(by("mov.b32 %f10, 0f42040000;\ndiv.approx.f32 %f4, %f0, %f10;"), factor);
    assert_eq!(by("rcp.approx.ftz.f32 %f10, 0f42040000;\nmul.rn.f32 %f4, %f0, %f10;"), factor);
    let computed = by("add.rn.f32 %f10, 0f42000000, 0f3F800000;\ndiv.full.f32 %f4, %f0, %f10;");
    assert_eq!(computed, by("mul.rn.f32 %f4, %f0, 0f3CF83E0F;"));
    assert_ne!(computed, factor);
}

#[test]
fn what_is_determined_is_not_named() {
    let dir = TempDir::new().unwrap();
    // No pairs; a chosen reading; a pair that changes no value.
    assert!(!emulate(&dir, &explicit(&[]), &["--judge", "values"]).contains("undetermined"));
    assert!(!emulate(&dir, ROTATION, &["--judge", "values", "--contract", "on"]).contains("undetermined"));
    let exact = ROTATION
        .replace("mul.f32 %f4, %f0, %f2", "mul.f32 %f4, %f0, 0f40000000")
        .replace("mul.f32 %f7, %f0, %f3", "mul.f32 %f7, %f0, 0f40000000");
    let exact = exact
        .replace("mul.f32 %f5, %f1, %f3", "mov.f32 %f5, %f1")
        .replace("mul.f32 %f8, %f1, %f2", "mov.f32 %f8, %f1");
    let text = emulate(&dir, &exact, &["--judge", "values", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["undetermined"], serde_json::json!([]));
}
