//! Sums by float atomics under several schedules: differences by rounding are accepted, all others are errors.

use std::fs;

use tempfile::TempDir;

use super::{kernel, run};

/// A kernel in which each thread adds its element of `x` to `y` with `add`, after the instructions in `more`.
fn sums(dir: &TempDir, bytes: u32, more: &str, add: &str) -> String {
    let body = format!(
        ".reg .b16 %h<4>;\n.reg .f32 %f<8>;\n.reg .f64 %g<4>;\nld.param.u64 %rd1, [x];\nld.param.u64 %rd2, [y];\n\
         mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd3, %r1, {bytes};\nadd.u64 %rd3, %rd1, %rd3;\n{more}\n{add}\n"
    );
    kernel(dir, ".param .u64 x, .param .u64 y", &body)
}

fn call(file: &str, element: &str, code: i32, more: &[&str]) -> String {
    let (x, y) = (format!("buf:x=random:5:{element}[512]"), format!("buf:y=zeros:{element}[8]"));
    let args = ["emulate", file, "--block", "256", "--arg", &x, "--arg", &y, "--schedules", "8"];
    run(code, &[&args[..], more].concat())
}

#[test]
fn the_order_of_rounding_is_no_disagreement() {
    let dir = TempDir::new().unwrap();
    for (element, bytes, add) in [
        ("f32", 4, "ld.global.f32 %f1, [%rd3];\nred.global.add.f32 [%rd2], %f1;"),
        ("f32", 4, "ld.global.f32 %f1, [%rd3];\natom.global.add.f32 %f2, [%rd2], %f1;"),
        ("f32", 8, "ld.global.v2.f32 {%f1, %f2}, [%rd3];\nred.global.add.v2.f32 [%rd2], {%f1, %f2};"),
        ("f64", 8, "ld.global.f64 %g1, [%rd3];\nred.global.add.f64 [%rd2], %g1;"),
        ("f16", 2, "ld.global.b16 %h1, [%rd3];\nred.global.add.noftz.f16 [%rd2], %h1;"),
        ("bf16", 4, "ld.global.b32 %r2, [%rd3];\nred.global.add.noftz.bf16x2 [%rd2], %r2;"),
    ] {
        let text = call(&sums(&dir, bytes, "", add), element, 0, &[]);
        assert!(text.contains("float atomics: the rounding of "), "{add}: {text}");
        assert!(text.contains("differences between schedules, of "), "{add}: {text}");
    }
    // Integer sums are equal, so nothing is reported.
    let add = "ld.global.u32 %r2, [%rd3];\nred.global.add.u32 [%rd2], %r2;";
    let text = call(&sums(&dir, 4, "", add), "u32", 0, &[]);
    assert!(!text.contains("float atomics"), "{text}");
    // A single schedule has nothing to compare with.
    let add = "ld.global.f32 %f1, [%rd3];\nred.global.add.f32 [%rd2], %f1;";
    let file = sums(&dir, 4, "", add);
    let text = run(
        0,
        &[
            "emulate",
            &file,
            "--block",
            "256",
            "--arg",
            "buf:x=random:5:f32[512]",
            "--arg",
            "buf:y=zeros:f32[8]",
        ],
    );
    assert!(!text.contains("float atomics"), "{text}");
}

#[test]
fn what_the_order_of_adds_does_not_explain_is_a_disagreement() {
    let dir = TempDir::new().unwrap();
    // Each thread adds its number times its ticket: the addends depend on the order.
    let ticket = "atom.global.add.u32 %r2, [%rd2+16], 1;\ncvt.rn.f32.u32 %f2, %r2;\nld.global.f32 %f1, [%rd3];\n\
                  mul.rn.f32 %f1, %f1, %f2;";
    let text =
        call(&sums(&dir, 4, ticket, "red.global.add.f32 [%rd2], %f1;"), "f32", 100, &["--require-equal"]);
    assert!(text.contains("element 0 of buffer `y`, a sum of 256 numbers by float atomics"), "{text}");
    assert!(text.contains("the order of the adds explains a difference of "), "{text}");
    // A stored return value of an atomic is not a sum.
    let add = "ld.global.f32 %f1, [%rd3];\natom.global.add.f32 %f2, [%rd2], %f1;\n@%p1 st.global.f32 [%rd2+16], %f2;";
    let first = "setp.eq.u32 %p1, %r1, 255;";
    let text = call(&sums(&dir, 4, first, add), "f32", 100, &["--require-equal"]);
    assert!(text.contains("schedules disagree: buffer `y` differs") && text.contains("at byte 16"), "{text}");
    // An exchanged value is exact: no sum excuses a difference in its place.
    let add = "atom.global.exch.b32 %r3, [%rd2], %r1;";
    let text = call(
        &sums(&dir, 4, "ld.global.f32 %f1, [%rd3];\nred.global.add.f32 [%rd2], %f1;", add),
        "f32",
        100,
        &["--require-equal"],
    );
    assert!(text.contains("schedules disagree"), "{text}");
}

#[test]
fn sums_of_bulk_reductions_count_too() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("bulk.ptx");
    // Each CTA adds 4 numbers to y.
    let text = ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y) .reqntid 32\n{\n\
                .reg .b64 a, b; .reg .b32 i, t; .reg .pred q;\n.reg .b32 v<4>;\n.shared .align 16 .b8 box[16];\n\
                ld.param.u64 a, [x];\nld.param.u64 b, [y];\nmov.u32 i, %ctaid.x;\nmov.u32 t, %tid.x;\nsetp.ne.u32 q, t, 0;\n@q ret;\n\
                mad.wide.u32 a, i, 16, a;\nld.global.v4.b32 {v0, v1, v2, v3}, [a];\nst.shared.v4.b32 [box], {v0, v1, v2, v3};\n\
                fence.proxy.async.shared::cta;\ncp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [b], [box], 16;\n\
                cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;\n}\n";
    fs::write(&path, text).unwrap();
    let args = [
        "--grid",
        "64",
        "--arg",
        "buf:x=random:5:f32[256]",
        "--arg",
        "buf:y=zeros:f32[4]",
        "--schedules",
        "8",
    ];
    let text = run(0, &[&["emulate", path.to_str().unwrap()], &args[..]].concat());
    assert!(text.contains("float atomics: the rounding of 4 elements"), "{text}");
    assert!(text.contains("differences between schedules"), "{text}");
}
