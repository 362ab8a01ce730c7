//! The gate on a family of kernels that it does not know by name: planted faults of the KV-cache writer, each found at its stage, in every
//! format of the gate. NVRTC compiles the kernels.

use std::fs;
use std::process::{Command, Output};

use super::desk::{Desk, both_streams, ours};
use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    ("planted_faults_are_found_at_their_stage", &[Need::Nvrtc], planted_faults_are_found_at_their_stage),
    (
        "a_finding_names_the_family_s_words_and_the_line",
        &[Need::Nvrtc],
        a_finding_names_the_words_and_the_line,
    ),
    ("configurations_and_cases_narrow_the_run", &[Need::Nvrtc], configurations_and_cases_narrow_the_run),
    ("a_header_s_mistake_names_its_line", &[], a_headers_mistake_names_its_line),
];

/// A one-line change of the writer, the first wrong stage, and words of the message.
type Fault = (&'static str, &'static str, &'static str, &'static str);

const FAULTS: &[Fault] = &[
    // Layouts.
    (
        "u64 row = ((u64)of_page * heads + head) * page + at;",
        "u64 row = ((u64)of_page * page + at) * heads + head;",
        "keys",
        "hnd",
    ),
    ("4 * BLOCKS * (at / 4) + 4 * block + at % 4", "BLOCKS * at + block", "values", "swizzled"),
    ("packed[i / 8] |= code << (i % 8 * 4);", "packed[i / 8] |= code << ((i ^ 1) % 8 * 4);", "keys", "code"),
    ("block * BLOCK;\n        float x", "block * (BLOCK / 2);\n        float x", "keys", "scale"),
    // Arithmetic.
    ("__fmul_rn(6.0f, factor)", "__fmul_rn(7.0f, factor)", "keys", "scale"),
    ("float factor = *global;", "float factor = 1.0f;", "keys", "scale"),
    ("(x >= 0.75f)", "(x > 0.75f)", "keys", "code"),
    ("code |= x[i] < 0.0f ? 8 : 0;", "", "keys", "code"),
    // The cache of eight-bit elements.
    ("fp8(__fdiv_rn(x[i], factor))", "fp8(__fmul_rn(x[i], factor))", "keys", "e4m3"),
    ("<< (i % 4 * 8);", "<< ((i ^ 1) % 4 * 8);", "keys", "e4m3"),
    ("codes + row * HEAD + block * BLOCK", "codes + row * HEAD + (block ^ 1) * BLOCK", "keys", "e4m3"),
    (
        "cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\" : \"=h\"(both) : \"f\"(0.0f), \"f\"(x)",
        "cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;\" : \"=h\"(both) : \"f\"(0.0f), \"f\"(x)",
        "keys",
        "e4m3",
    ),
    ("most = fmaxf(most, fabsf(x[i]));", "most = fmaxf(most, x[i]);", "keys", ""),
    // What the rules of PTX find.
    ("    if (slot < 0)\n        return;\n", "", "keys", "out_of_bounds"),
    ("scales[scale_at] = (u8)scale;", "scales[scale_at / 2] = (u8)scale;", "keys", "race"),
    ("scales[scale_at] = (u8)scale;", "((u16*)source)[0] = 0; scales[scale_at] = (u8)scale;", "keys", ""),
    ("scales[scale_at] = (u8)scale;", "scales[scale_at] = (u8)scale; codes[0] = 1;", "keys", ""),
];

fn gate(desk: &Desk, text: &str, more: &[&str]) -> Output {
    fs::create_dir_all(desk.path("kernels")).unwrap();
    fs::write(desk.path("kernels/write.cu"), text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_sm121probe"))
        .args(["gate", "--kernels", "kernels"])
        .args(more)
        .current_dir(desk.dir.path())
        .env_remove("GITHUB_ACTIONS")
        .output()
        .unwrap()
}

fn planted_faults_are_found_at_their_stage() {
    let kernel = ours("kv_cache/write.cu");
    let clean = gate(&Desk::new(), &kernel, &[]);
    assert_eq!(clean.status.code(), Some(0), "{}", both_streams(&clean));
    for (line, fault, stage, words) in FAULTS {
        assert!(kernel.contains(line), "{line}");
        let output = gate(&Desk::new(), &kernel.replace(line, fault), &[]);
        let all = both_streams(&output);
        assert_eq!(output.status.code(), Some(100), "{line} -> {fault}: {all}");
        let at_stage = format!("fail at {stage}");
        assert!(all.contains(&at_stage) && all.contains(words), "{line} -> {fault}: {all}");
    }
}

fn a_finding_names_the_words_and_the_line() {
    let desk = Desk::new();
    let kernel = ours("kv_cache/write.cu").replace("(x > 5.0f)", "(x >= 5.0f)");
    let case = ["--case", "kv-ties", "--sarif", "out.sarif", "--junit", "out.xml"];
    let output = gate(&desk, &kernel, &case);
    let all = both_streams(&output);
    assert_eq!(output.status.code(), Some(100), "{all}");
    assert!(all.contains("trial kv-ties hnd d128 linear sm_121a on emulator: fail at keys: token="), "{all}");
    let sarif: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(desk.path("out.sarif")).unwrap()).unwrap();
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "kernels/write.cu");
    let entry = kernel.lines().position(|line| line.starts_with("kv_cache_write(")).unwrap() + 1;
    assert_eq!(place["region"]["startLine"], entry);
    let junit = fs::read_to_string(desk.path("out.xml")).unwrap();
    assert!(junit.contains("kv-ties hnd d128 linear"), "{junit}");
}

fn configurations_and_cases_narrow_the_run() {
    let kernel = ours("kv_cache/write.cu");
    let run = |more: &[&str]| {
        let output = gate(&Desk::new(), &kernel, more);
        (output.status.code(), both_streams(&output))
    };
    let (code, all) = run(&["--case", "kv-real", "--configuration", "hnd d64"]);
    assert!(code == Some(0) && all.contains("4 trials run this code"), "{all}");
    let (code, all) = run(&["--configuration", "nhd swizzled", "--case", "kv-real"]);
    assert!(code == Some(4) && all.contains("nhd swizzled cannot run: the swizzle exchanges slots"), "{all}");
    let (code, all) = run(&["--case", "kv-rael"]);
    assert!(code == Some(2) && all.contains("no case `kv-rael`; did you mean kv-real"), "{all}");
}

fn a_headers_mistake_names_its_line() {
    let kernel = ours("kv_cache/write.cu");
    for (from, to, words) in [
        ("stage: write", "stage: read", "write.cu:3: unknown stage `read`; the stage of kv_cache is write"),
        (
            "family: kv_cache",
            "family: kv",
            "there is no family `kv`; the families are moe, attention, kv_cache",
        ),
    ] {
        let output = gate(&Desk::new(), &kernel.replace(from, to), &[]);
        let all = both_streams(&output);
        assert!(output.status.code() == Some(2) && all.contains(words), "{all}");
    }
}
