//! Launch files: structs, tables of pointers, module variables, several launches, expectations, and errors in a file.

use std::fs;

use tempfile::TempDir;

use super::run;

/// `gather` stores x * scale + bias for each buffer x of the table; `twice` multiplies by `step[1]`.
const KERNELS: &str = "\
.version 9.0
.target sm_121a
.address_size 64
.visible .global .align 4 .f32 bias;
.visible .const .align 4 .b32 step[2];
.visible .entry gather(.param .align 8 .b8 p[24]) .reqntid 8
{
.reg .b64 table, a, out, o;
.reg .b32 n, i, k;
.reg .f32 s, x, b;
.reg .pred q;
ld.param.u64 table, [p];
ld.param.u32 n, [p+8];
ld.param.f32 s, [p+12];
ld.param.u64 out, [p+16];
mov.u32 i, %tid.x;
setp.ge.u32 q, i, n;
@q ret;
and.b32 k, i, 1;
mul.wide.u32 o, k, 8;
add.u64 table, table, o;
ld.global.u64 a, [table];
mul.wide.u32 o, i, 4;
add.u64 a, a, o;
ld.global.f32 x, [a];
ld.global.f32 b, [bias];
fma.rn.f32 x, x, s, b;
add.u64 out, out, o;
st.global.f32 [out], x;
ret;
}
.visible .entry twice(.param .u64 y)
{
.reg .b64 y1, o;
.reg .b32 i, k;
.reg .f32 x, s;
mov.u32 i, %tid.y;
mov.u32 k, %tid.x;
mad.lo.u32 i, i, 4, k;
ld.param.u64 y1, [y];
mul.wide.u32 o, i, 4;
add.u64 y1, y1, o;
ld.global.f32 x, [y1];
ld.const.u32 k, [step+4];
cvt.rn.f32.u32 s, k;
mul.rn.f32 x, x, s;
st.global.f32 [y1], x;
ret;
}
";

const FILE: &str = "\
modules:
  m: {file: k.ptx}
buffers:
  a: {type: f32, shape: [2, 4], fill: iota}
  table: {pointers: [a, ones]}
  ones: {type: f32, shape: 8, fill: 1}
  y:
    type: f32
    shape: [2, 4]
    expect: {values: [1.5, 7.5, 13.5, 7.5, 25.5, 7.5, 37.5, 7.5]}
variables:
- {name: bias, value: {f32: 0.5}}
- {name: step, at: 4, value: {u32: 3}}
launches:
- entry: gather
  args:
  - struct:
    - {buffer: table}
    - {u32: 8}
    - {f32: 2}
    - {buffer: y}
- entry: twice
  block: [4, 2]
  args: [{buffer: y}]
";

/// Runs `emulate` on a launch file and its kernels.
fn launch(text: &str, code: i32, more: &[&str]) -> String {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("k.ptx"), KERNELS).unwrap();
    let path = dir.path().join("l.yaml");
    fs::write(&path, text).unwrap();
    run(code, &[&["emulate", path.to_str().unwrap()], more].concat())
}

#[test]
fn launches_run_in_order_on_the_same_memory() {
    let text = launch(FILE, 0, &["--schedules", "3"]);
    assert!(text.contains("gather: ") && text.contains("twice: 12 warp instructions"), "{text}");
    assert!(text.contains("3 schedules, equal outputs"), "{text}");
    assert!(text.contains("y f32[2,4]\n  1.5 7.5 13.5 7.5 25.5 7.5 37.5 7.5\n"), "{text}");
    assert!(
        text.contains("y: 8 elements as expected (rtol 0e0, atol 0e0; largest difference 0e0)"),
        "{text}"
    );
    // Buffers that are only read are not printed.
    assert!(!text.contains("ones f32") && !text.contains("table u64"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&launch(FILE, 0, &["--format", "json"])).unwrap();
    assert_eq!(json["launches"][1]["kernel"], "twice");
    assert_eq!(json["launches"][1]["block"], serde_json::json!([4, 2, 1]));
    assert_eq!(json["buffers"][3]["changed"], true);
    assert_eq!(json["expectations"][0]["wrong"], 0);
    let text = launch(FILE, 2, &["--format", "json", "--profile"]);
    assert!(text.contains("this command has no format json; it has text"), "{text}");
}

#[test]
fn what_is_not_as_expected_is_named() {
    let wrong = FILE.replace("25.5, 7.5", "25, 7.5");
    let text = launch(&wrong, 100, &[]);
    assert!(text.contains("y: 1 of 8 elements are not as expected"), "{text}");
    assert!(text.contains("the first is y[1,0]: 25.5, expected 25"), "{text}");
    assert!(text.contains("1 of the compared buffers differ from the expected values"), "{text}");
    launch(&wrong.replace("37.5, 7.5]", "37.5, 7.5], rtol: 0.02"), 0, &[]);
    launch(&wrong.replace("37.5, 7.5]", "37.5, 7.5], rtol: 0.019"), 100, &[]);
    launch(&wrong.replace("37.5, 7.5]", "37.5, 7.5], atol: 0.5"), 0, &[]);
    // Elements of another type, and integers, are compared by value.
    launch(&FILE.replace("expect: {", "expect: {type: f64, "), 0, &[]);
    // Each of these changes an input of the kernels.
    for (from, to) in [
        ("{f32: 0.5}", "{f32: 0.25}"),
        ("at: 4, value: {u32: 3}", "at: 0, value: {u32: 3}"),
        ("{f32: 2}", "{f32: 3}"),
        ("pointers: [a, ones]", "pointers: [ones, a]"),
        ("- {buffer: y}", "- {buffer: y, offset: 4}"),
        ("fill: 1}", "random: 1}"),
    ] {
        assert!(FILE.contains(from), "{from}");
        let text = launch(&FILE.replace(from, to), 100, &[]);
        assert!(text.contains("expected") || text.contains("out_of_bounds"), "{from}: {text}");
    }
    // Unwritten elements never equal the expectation, whatever memory contains.
    let text = launch(
        &FILE
            .replace("- {u32: 8}", "- {u32: 7}")
            .replace("- entry: twice\n  block: [4, 2]\n  args: [{buffer: y}]\n", ""),
        100,
        &[],
    );
    assert!(text.contains("y: 8 of 8 elements are not as expected"), "{text}");
    let only = "y:\n    type: u8\n    shape: 4\n    expect: {fill: 0xCD}";
    let at = FILE.find("  y:").unwrap();
    let text = format!("{}  z:{}", &FILE[..at], &only[2..]) + &FILE[at..].replacen("  y:", "\n  y:", 1);
    let text = launch(&text, 100, &[]);
    assert!(text.contains("z[0]: unwritten, expected 205"), "{text}");
}

#[test]
fn a_violation_names_the_launch_and_the_buffer() {
    let text = launch(&FILE.replace("block: [4, 2]", "block: [4, 3]"), 100, &[]);
    assert!(text.contains("out_of_bounds") && text.contains("kernel twice"), "{text}");
    assert!(text.contains("(buffer `y`, byte 32 of 32)"), "{text}");
    // A table that is too short.
    let text = launch(&FILE.replace("pointers: [a, ones]", "pointers: [a]"), 100, &[]);
    assert!(text.contains("(buffer `table`, byte 8 of 8)") && text.contains("kernel gather"), "{text}");
    // A null pointer.
    let text = launch(&FILE.replace("pointers: [a, ones]", "pointers: [a, null]"), 100, &[]);
    assert!(
        text.contains("out_of_bounds: 4 bytes at global address 0x4, where nothing is allocated"),
        "{text}"
    );
    // The second launch is reported, as it left the data undefined.
    let twice =
        FILE.replace("{buffer: y}]", "{buffer: z}]").replace("  y:\n", "  z: {type: f32, shape: 8}\n  y:\n");
    let twice = twice.replace("    expect: {values: [1.5, 7.5, 13.5, 7.5, 25.5, 7.5, 37.5, 7.5]}\n", "");
    let text = launch(&twice, 100, &[]);
    assert!(text.contains("uninitialised") && text.contains("kernel twice"), "{text}");
    // In scratch memory, that is accepted.
    launch(&twice.replace("z: {", "z: {scratch: true, "), 0, &[]);
}

#[test]
fn a_file_is_refused_with_its_line_and_a_remedy() {
    for (from, to, line, says) in [
        ("fill: iota", "fil: iota", 4, "unknown field `fil`"),
        ("shape: [2, 4], fill", "shape: [2, x], fill", 4, "a number of elements, or a list"),
        ("fill: iota", "fill: many", 4, "`many` is not of type f32; `fill` is zeros, iota or a value"),
        ("fill: iota", "fill: iota, random: 3", 4, "both `fill` and `random`"),
        ("fill: iota", "fill: iota, range: [1, 2]", 4, "`range` is for `random`"),
        ("fill: iota", "random: 1, range: [2, 1]", 4, "the minimum must come first"),
        ("type: f32, shape: 8", "type: f31, shape: 8", 6, "`f31` is not one of u8, s8"),
        ("{type: f32, shape: 8, fill: 1}", "{type: f32, fill: 1}", 6, "needs a `shape`"),
        ("{type: f32, shape: 8, fill: 1}", "{shape: 8, fill: 1}", 6, "needs a `type`"),
        ("fill: 1}", "values: [1, 2]}", 6, "`values` has 2 elements, but `shape` has 8"),
        ("fill: 1}", "raw: k.ptx}", 6, "`type` and `shape` are 32 bytes, but the contents are"),
        ("fill: 1}", "file: k.ptx}", 6, "needs the name of a `tensor`"),
        ("[a, ones]", "[a, one]", 5, "there is no buffer `one`; is it `ones`?; the buffers are: a, table"),
        (
            "expect: {values: [1.5, ",
            "expect: {values: [",
            10,
            "buffer `y` has 8 elements, but 7 are expected",
        ),
        ("expect: {", "expect: {rtol: -1, ", 10, "`rtol` is -1; it must be 0 or a positive number"),
        ("expect: {", "expect: {fill: 0, ", 10, "exactly one of `fill`, `values`"),
        ("- {u32: 8}", "- {u32: 8, at: 4}", 19, "overlap field 0, from byte 0"),
        ("- {u32: 8}", "- {u32: 8, f32: 1}", 19, "exactly one of `buffer`, `map`"),
        ("- {u32: 8}", "- {u32: -8}", 19, "-8 does not fit u32"),
        ("- {u32: 8}", "- {u32: 8, offset: 4}", 19, "`offset` is for `buffer` and `map`"),
        ("- {u32: 8}", "- {u33: 8}", 19, "unknown field `u33`"),
        ("    - {f32: 2}\n    - {buffer: y}\n", "", 17, "argument 1 of gather is 16 bytes"),
        (
            "    - {f32: 2}\n",
            "    - {f64: 2}\n",
            17,
            "argument 1 of gather is 32 bytes, but parameter `p` is 24 bytes of .b8",
        ),
        ("- {buffer: y}", "- {buffer: y, offset: 33}", 21, "`offset` is 33, but buffer `y` has 32 bytes"),
        ("entry: twice", "entry: thrice", 22, "has no kernel `thrice`; it has gather, twice"),
        ("- entry: gather", "- grid: 1", 15, "has 2 kernels: choose `entry` gather or `entry` twice"),
        ("- entry: gather", "- module: n\n  entry: gather", 15, "there is no module `n`; the modules are: m"),
        ("args: [{buffer: y}]", "args: []", 22, "twice takes 1 argument, not 0"),
        ("args: [{buffer: y}]", "args: [{u32: 1}]", 24, "argument 1 of twice is 4 bytes of u32"),
        ("block: [4, 2]", "block: [4, 2, 1, 1]", 22, "a list of up to three"),
        ("m: {file: k.ptx}", "m: {}", 2, "a module is a `file`"),
        ("m: {file: k.ptx}", "m: {file: k.ptx, target: sm_90}", 2, "`target` is for .cu files"),
        ("- {u32: 8}", "- {u32: 8, at: 2000000000000}", 17, "more than a struct may have"),
        ("  ones:", "  a:", 4, "`a` occurs twice"),
    ] {
        assert!(FILE.contains(from), "{from}");
        let text = launch(&FILE.replacen(from, to, 1), 2, &[]);
        assert!(text.contains(&format!("l.yaml:{line}:")), "{to}\nwants line {line}\ngot: {text}");
        assert!(text.contains(says), "{to}\nwants: {says}\ngot: {text}");
    }
    let text = launch(&FILE.replace("name: bias", "name: base"), 2, &[]);
    assert!(text.contains("the module has no variable `base`; its variables are: bias, step"), "{text}");
    let text = launch(&FILE.replace("at: 4, value", "at: 5, value"), 2, &[]);
    assert!(text.contains("variable `step` has 8 bytes; 4 do not fit at byte 5"), "{text}");
    let text = launch(FILE, 2, &["--grid", "2"]);
    assert!(text.contains("--grid cannot be used with a launch file"), "{text}");
    let text = launch("modules: {}\nlaunches: []\n", 2, &[]);
    assert!(text.contains("there is no launch"), "{text}");
}

#[test]
fn maps_and_structs_in_memory_are_what_the_command_line_gives() {
    let dir = TempDir::new().unwrap();
    let kernel =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/emulator/tests/kernels/gemm_tma.ptx");
    let file = format!(
        "modules:\n  m: {{file: {}}}\nbuffers:\n  a: {{type: bf16, shape: [64, 320], random: 1}}\n  \
         b: {{type: bf16, shape: [128, 320], random: 2}}\n  c: {{type: f32, shape: [64, 128]}}\nlaunches:\n\
         - grid: [2]\n  block: 160\n  smem: 49152\n  args:\n  \
         - map: {{of: a, type: bf16, dims: [320, 64], strides: [640], box: [64, 64], swizzle: 128B}}\n  \
         - map: {{of: b, type: bf16, dims: [320, 128], box: [64, 64], swizzle: 128B}}\n  \
         - {{buffer: c}}\n  - {{u32: 128}}\n  - {{u32: 320}}\n",
        kernel.display()
    );
    let path = dir.path().join("l.yaml").display().to_string();
    fs::write(&path, &file).unwrap();
    let sha = |text: &str| text.lines().find(|l| l.contains("sha256")).map(str::to_owned);
    let got = run(0, &["emulate", &path]);
    let same = run(
        0,
        &super::words(
            super::TMA,
            &[
                "--arg",
                super::MAP_A,
                "--arg",
                super::MAP_B,
                "--arg",
                "out:c=f32[64,128]",
                "--arg",
                "u32:128",
                "--arg",
                "u32:320",
            ],
        ),
    );
    assert_eq!(sha(&got), sha(&same));
    assert!(sha(&got).is_some());
    for (from, to, says) in [
        ("[320, 64]", "[320, 65]", "spans 41600 bytes of buffer `a`, which has only 40960"),
        ("swizzle: 128B}\n  - map: {of: b", "swizzle: 96B}\n  - map: {of: b", "`96B` is not a swizzle"),
        ("{of: a,", "{of: a, boxes: 1,", "unknown field `boxes`"),
        ("{of: a,", "{of: z,", "there is no buffer `z`"),
    ] {
        fs::write(&path, file.replacen(from, to, 1)).unwrap();
        let text = run(2, &["emulate", &path]);
        assert!(text.contains("l.yaml:12:") && text.contains(says), "{to}: {text}");
    }
}

#[test]
fn a_launch_has_clusters_and_shared_memory() {
    let dir = TempDir::new().unwrap();
    let kernel = "\
.version 9.0
.target sm_121a
.address_size 64
.visible .entry k(.param .u64 y)
{
.reg .b64 p, o;
.reg .b32 r, n;
ld.param.u64 p, [y];
mov.u32 n, %ctaid.y;
mul.wide.u32 o, n, 4;
add.u64 p, p, o;
mov.u32 r, %cluster_ctarank;
mov.u32 n, %dynamic_smem_size;
add.u32 r, r, n;
st.global.u32 [p], r;
ret;
}
";
    fs::write(dir.path().join("k.ptx"), kernel).unwrap();
    let path = dir.path().join("l.yaml");
    let file = "modules: {m: {file: k.ptx}}\nbuffers: {y: {type: u32, shape: 4, expect: {values: [100, 101, 100, 101]}}}\n\
                launches:\n- {grid: [1, 4], block: 1, cluster: [1, 2], smem: 100, args: [{buffer: y}]}\n";
    fs::write(&path, file).unwrap();
    run(0, &["emulate", path.to_str().unwrap()]);
    fs::write(&path, file.replace("cluster: [1, 2], ", "")).unwrap();
    assert!(run(100, &["emulate", path.to_str().unwrap()]).contains("the first is y[1]: 100, expected 101"));
    fs::write(&path, file.replace("cluster: [1, 2]", "cluster: [1, 3]")).unwrap();
    assert!(run(2, &["emulate", path.to_str().unwrap()]).contains("cluster"));
}

#[test]
fn tensors_of_small_types_go_through_files() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    fs::write(at("k.ptx"), ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k() { ret; }\n")
        .unwrap();
    let buffers = "  flags: {type: bool, values: [true, false, 1]}
  scales: {type: ue8m0, values: [1, 2, 0.5]}
  codes: {type: e2m1, values: [1, -6, 0.5, 3]}
";
    let file =
        |buffers: &str| format!("modules: {{m: {{file: k.ptx}}}}\nbuffers:\n{buffers}launches: [{{}}]\n");
    fs::write(at("write.yaml"), file(buffers)).unwrap();
    run(0, &["emulate", &at("write.yaml"), "--dump", &at("t.safetensors")]);
    let bytes = fs::read(at("t.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let codes = tensors.tensor("codes").unwrap();
    assert_eq!(
        (codes.dtype(), codes.shape(), codes.data()),
        (safetensors::Dtype::F4, &[4][..], &[0xF2, 0x51][..])
    );
    assert_eq!(tensors.tensor("flags").unwrap().dtype(), safetensors::Dtype::BOOL);
    assert_eq!(tensors.tensor("scales").unwrap().data(), [127, 128, 126]);
    let read = |want: &str| {
        format!(
            "  c: {{file: t.safetensors, tensor: codes, expect: {{type: f32, values: [{want}]}}}}\n  \
             s: {{file: t.safetensors, tensor: scales, expect: {{file: t.safetensors, tensor: scales}}}}\n  \
             f: {{type: u8, file: t.safetensors, tensor: flags, expect: {{values: [1, 0, 1]}}}}\n"
        )
    };
    fs::write(at("read.yaml"), file(&read("1, -6, 0.5, 3"))).unwrap();
    let text = run(0, &["emulate", &at("read.yaml")]);
    assert!(text.contains("c: 4 elements as expected"), "{text}");
    fs::write(at("read.yaml"), file(&read("1, -6, 0.5, 4"))).unwrap();
    let text = run(100, &["emulate", &at("read.yaml")]);
    assert!(text.contains("c[3]: 3, expected 4"), "{text}");
}

#[test]
fn a_call_is_compared_with_a_file() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("t.safetensors").display().to_string();
    let line = super::words(super::REDUCTION, &super::OUT);
    run(0, &[&line[..], &["--dump", &file]].concat());
    let text = run(0, &[&line[..], &["--expect", &file]].concat());
    assert!(
        text.contains("x: 5,000 elements as expected") && text.contains("y: 4 elements as expected"),
        "{text}"
    );
    let other: Vec<&str> = line.iter().map(|w| if *w == "u32:5000" { "u32:4999" } else { w }).collect();
    let text = run(100, &[&other[..], &["--expect", &file]].concat());
    assert!(
        text.contains("y: 1 of 4 elements are not as expected") && text.contains("the first is y["),
        "{text}"
    );
    run(0, &[&other[..], &["--expect", &file, "--atol", "1"]].concat());
    let text = run(
        2,
        &super::words(
            "emulate crates/emulator/tests/kernels/reduction.ptx --block 256 --arg buf:p=zeros:f32[4] --arg out:q=f32[1] --arg u32:4",
            &["--expect", &file],
        ),
    );
    assert!(text.contains("no buffer is named like one of its tensors (x, y)"), "{text}");
    let text = run(2, &[&line[..], &["--expect", &file, "--rtol=-1"]].concat());
    assert!(text.contains("`-1` is not 0 or a positive number"), "{text}");
    let shorter = super::REDUCTION.replace("[5000]", "[4999]");
    let text =
        run(2, &super::words(&shorter, &["--arg", "out:y=f32[4]", "--arg", "u32:4999", "--expect", &file]));
    assert!(text.contains("buffer `x` has 4999 elements, but 5000 are expected"), "{text}");
}

#[test]
fn a_file_of_expected_tensors_that_fits_in_part_is_an_error_or_says_so() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let body = "ld.param.u64 %rd1, [y];\nld.param.u64 %rd2, [z];\nst.global.u32 [%rd1], 7;\nst.global.u32 [%rd2], 8;\n";
    let file = super::kernel(&dir, ".param .u64 x, .param .u64 y, .param .u64 z", body);
    let call = |line: &str, more: &[&str], code: i32| {
        let args = super::words(line, &["--block", "1"]);
        run(code, &[&["emulate", file.as_str()], &args[..], more].concat())
    };
    let all = "--arg buf:x=iota:u32[2] --arg out:y=u32[1] --arg out:z=u32[1]";
    let expect = at("all.safetensors");
    call(all, &["--dump", &expect], 0);
    let text = call(all, &["--expect", &expect], 0);
    assert!(!text.contains("not compared"), "{text}");
    // Two of three names are tensors.
    let text = call(&all.replace(":z", ":w"), &["--expect", &expect], 2);
    assert!(text.contains("no buffer is named like tensor `z`; the buffers are: x, y, w"), "{text}");
    let named = |names: &[&str]| {
        let tensor = |name: &str| if name == "x" { vec![0u32, 1] } else { vec![7] };
        let data: Vec<(&str, Vec<u8>)> = names
            .iter()
            .map(|name| (*name, tensor(name).iter().flat_map(|x| x.to_le_bytes()).collect()))
            .collect();
        let views = data.iter().map(|(name, bytes)| {
            let view =
                safetensors::tensor::TensorView::new(safetensors::Dtype::U32, vec![bytes.len() / 4], bytes);
            (*name, view.unwrap())
        });
        let path = at(&format!("{}.safetensors", names.concat()));
        fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
        path
    };
    let text = call(all, &["--expect", &named(&["x"])], 2);
    assert!(text.contains("no tensor for any result of the kernel (y, z)"), "{text}");
    // An output without an expectation is named.
    let path = named(&["x", "y"]);
    let text = call(all, &["--expect", &path], 0);
    assert!(text.contains("z: not compared\n") && text.contains("z: not compared, "), "{text}");
    let text = call(all, &["--expect", &path, "--format", "json"], 0);
    assert!(text.contains("\"not_compared\": [\n    \"z\"\n  ]"), "{text}");
    // Without outputs, buffers that are changed in place count.
    let in_place = all.replace("out:y=", "buf:y=zeros:").replace("out:z=", "buf:z=zeros:");
    let text = call(&in_place, &["--expect", &path], 0);
    assert!(text.contains("y: 1 element as expected") && text.contains("z: not compared\n"), "{text}");
    let text = call(&in_place, &["--expect", &named(&["x"])], 2);
    assert!(text.contains("no tensor for any result of the kernel (y, z)"), "{text}");
}

#[test]
fn the_documented_file_and_the_schema_are_those_of_the_tree() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let read = |name: &str| fs::read_to_string(docs.join(name)).unwrap();
    let block = format!("```yaml\n{}```", read("launch.yaml"));
    assert!(read("emulator.md").contains(&block), "docs/emulator.md quotes docs/launch.yaml");
    let schema = schemars::schema_for!(sm121probe::job::launch::LaunchFile);
    let schema = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    snapbox::assert_data_eq!(schema, snapbox::Data::read_from(&docs.join("launch.schema.json"), None).raw());
}
