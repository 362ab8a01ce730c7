//! Kernels in folders with the layout of Triton's cache.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::run;

/// y = x + the block size, with the hidden parameters of Triton 3.5; writes to the first hidden one if it is not null.
const PTX: &str = "\
.version 9.0
.target sm_120a
.address_size 64
.visible .entry add(.param .u64 .ptr .global .align 1 x, .param .u64 .ptr .global .align 1 y, .param .u64 .ptr .global .align 1 s, .param .u64 .ptr .global .align 1 t)
.reqntid 64
{
.reg .b64 a, b, c; .reg .b32 i, j, k; .reg .pred q;
.extern .shared .align 16 .b8 box[];
ld.param.u64 a, [x];
ld.param.u64 b, [y];
ld.param.u64 c, [s];
mov.u32 i, %tid.x;
mov.u32 j, %ctaid.x;
mad.lo.u32 i, j, 64, i;
mul.wide.u32 c, i, 4;
add.u64 a, a, c;
add.u64 b, b, c;
ld.global.u32 k, [a];
mov.u32 j, %dynamic_smem_size;
add.u32 k, k, j;
st.global.u32 [b], k;
ld.param.u64 c, [s];
setp.eq.u64 q, c, 0;
@q ret;
mov.u32 j, %ctaid.x;
mul.wide.u32 b, j, 128;
add.u64 c, c, b;
mov.u32 i, %tid.x;
setp.ne.u32 q, i, 0;
@q ret;
st.global.u32 [c+124], k;
ret;
}
";

fn metadata(name: &str, scratch: u32) -> String {
    format!(
        "{{\"hash\": \"f00\", \"target\": {{\"backend\": \"cuda\", \"arch\": 120, \"warp_size\": 32}}, \"num_warps\": 2, \"num_ctas\": 1, \
         \"num_stages\": 3, \"warp_size\": 32, \"launch_cooperative_grid\": false, \"shared\": 256, \"tmem_size\": 0, \
         \"global_scratch_size\": {scratch}, \"global_scratch_align\": 128, \"profile_scratch_size\": 0, \
         \"profile_scratch_align\": 1, \"name\": \"{name}\"}}"
    )
}

fn cached(folder: &Path, name: &str, scratch: u32) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(format!("{name}.ptx")), PTX.replace("entry add", &format!("entry {name}")))
        .unwrap();
    fs::write(folder.join(format!("{name}.json")), metadata(name, scratch)).unwrap();
    fs::write(folder.join(format!("__grp__{name}.json")), "{\"child_paths\": {}}").unwrap();
}

const ARGS: [&str; 6] = ["--grid", "2", "--arg", "buf:x=iota:u32[128]", "--arg", "out:y=u32[128]"];

#[test]
fn metadata_gives_block_shared_memory_and_hidden_parameters() {
    let dir = TempDir::new().unwrap();
    let one = dir.path().join("A");
    for scratch in [0, 128] {
        cached(&one, "add", scratch);
        let text = run(0, &[&["emulate", "--triton", one.to_str().unwrap()], &ARGS[..]].concat());
        assert!(text.contains("y u32[128]\n  256 257 258") && !text.contains("scratch"), "{text}");
    }
    // Shared memory begins where a GPU places it, in all schedules: Triton's tensor maps rely on that.
    let ptx = fs::read_to_string(one.join("add.ptx")).unwrap();
    let relies = "mov.u32 j, box;\nand.b32 j, j, 127;\nadd.u32 k, k, j;\nst.global.u32 [b], k;";
    fs::write(one.join("add.ptx"), ptx.replace("st.global.u32 [b], k;", relies)).unwrap();
    let several = ["--schedules", "4"];
    let text = run(0, &[&["emulate", "--triton", one.to_str().unwrap()], &ARGS[..], &several].concat());
    assert!(text.contains("y u32[128]\n  256 257 258"), "{text}");
    let file = one.join("add.ptx").display().to_string();
    let by_hand = ["--smem", "256", "--arg", "u64:0", "--arg", "u64:0"];
    let text = run(100, &[&["emulate", &file], &ARGS[..], &several, &by_hand].concat());
    assert!(text.contains("schedules disagree"), "{text}");
    run(0, &[&["emulate", &file], &ARGS[..], &several, &by_hand, &["--judge", "values"]].concat());
    // Too little scratch memory is reported.
    cached(&one, "add", 64);
    let text = run(100, &[&["emulate", "--triton", one.to_str().unwrap()], &ARGS[..]].concat());
    assert!(
        text.contains("out_of_bounds") && text.contains("(buffer `global_scratch`, byte 252 of 128)"),
        "{text}"
    );
    // The whole cache while it contains one kernel; then by name.
    cached(&one, "add", 0);
    let root = dir.path().to_str().unwrap();
    run(0, &[&["emulate", "--triton", root], &ARGS[..]].concat());
    cached(&dir.path().join("B"), "sub", 0);
    let text = run(2, &[&["emulate", "--triton", root], &ARGS[..]].concat());
    assert!(text.contains("several kernels here") && text.contains("add in A, sub in B"), "{text}");
    run(0, &[&["emulate", "--triton", root, "--entry", "sub"], &ARGS[..]].concat());
    let text = run(2, &[&["emulate", "--triton", root, "--entry", "mul"], &ARGS[..]].concat());
    assert!(text.contains("no such kernel here; available: add in A, sub in B"), "{text}");
    let text = run(2, &["emulate", "--triton", root, "--entry", "sub", "--arg", "u32:1"]);
    assert!(text.contains("sub takes 2 arguments, not 1: x (.u64, 8 bytes), y"), "{text}");
    let empty = dir.path().join("C");
    fs::create_dir_all(&empty).unwrap();
    let text = run(2, &["emulate", "--triton", empty.to_str().unwrap()]);
    assert!(text.contains("no kernel here") && text.contains("TRITON_CACHE_DIR"), "{text}");
    fs::write(one.join("add.json"), "{\"name\": \"add\"}").unwrap();
    let text = run(2, &["emulate", "--triton", one.to_str().unwrap()]);
    assert!(
        text.contains("not the metadata of a CUDA kernel of Triton: missing field `num_warps`"),
        "{text}"
    );
    // A block size that the kernel does not allow is an error of the call.
    cached(&one, "add", 0);
    let text =
        run(2, &[&["emulate", "--triton", one.to_str().unwrap(), "--block", "32"], &ARGS[..]].concat());
    assert!(text.contains("requires .reqntid [64, 1, 1]"), "{text}");
}

#[test]
fn a_launch_file_takes_kernels_of_the_cache() {
    let dir = TempDir::new().unwrap();
    cached(&dir.path().join("cache/A"), "add", 128);
    let path = dir.path().join("l.yaml");
    let text = "modules: {m: {triton: cache/A}}\nbuffers:\n  x: {type: u32, shape: 128, fill: iota}\n  y: {type: u32, shape: 128}\n\
                launches:\n- {grid: 2, args: [{buffer: x}, {buffer: y}]}\n- {args: [{buffer: y}, {buffer: x}]}\n";
    fs::write(&path, text).unwrap();
    let text = run(0, &["emulate", path.to_str().unwrap()]);
    assert!(text.contains("x u32[128]\n  512 513") && text.contains("y u32[128]\n  256 257"), "{text}");
}
