//! Tests with this machine's real tools, if installed: `cargo test --test product -- --ignored real`.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use sm121probe::store::Store;
use sm121probe::toolkit::{Discovery, Places, UNKNOWN_OPCODE, assemble, discover};
use sm121probe::worker::Ended;

pub(crate) const LIMIT: Duration = Duration::from_secs(120);

fn found() -> Discovery {
    let store = Store::open(None).unwrap();
    discover(None, &Places::from_environment(Some(store.root())))
}

/// Whether a target has the instructions of a body.
type Has = fn(&str) -> bool;

/// Bodies and their targets.
const BODIES: [(&str, Has); 4] = [
    (
        "setp.gt.f32 q, f0, f1; @q bra D; ex2.approx.f32 f1, f1; bar.sync 0; D:\n\
         mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0,f1,f2,f3}, {r0,r1,r2,r3}, {r4,r5}, {f0,f1,f2,f3};\n\
         fma.rn.f32 f2, f0, f1, f2;",
        |_| true,
    ),
    (
        "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {r0,r1,r2,r3}, [s];\n\
         ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64 {r4,r5}, [s];\n\
         mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m1.f32.ue8m0 \
         {f0,f1,f2,f3}, {r0,r1,r2,r3}, {r4,r5}, {f0,f1,f2,f3}, r6, {0, 0}, r7, {0, 0};",
        |target| ["sm_120a", "sm_120f", "sm_121a", "sm_121f"].contains(&target),
    ),
    (
        "wgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0,f1,f2,f3}, a, a, 1, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        |target| target == "sm_90a",
    ),
    (
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 32; ld.shared.u32 r0, [s];\n\
         tcgen05.mma.cta_group::1.kind::f16 [r0], a, a, r1, q; tcgen05.dealloc.cta_group::1.sync.aligned.b32 r0, 32;",
        |target| ["sm_100a", "sm_103a"].contains(&target),
    ),
];

fn kernel(isa: &str, target: &str, body: &str) -> String {
    format!(
        ".version {isa}\n.target {target}\n.address_size 64\n\
         .visible .entry k(.param .u64 p, .param .f32 x) {{\n\
         .reg .b64 a; .reg .f32 f<4>; .reg .pred q; .reg .b32 r<8>; .shared .align 128 .b8 s[1024];\n\
         ld.param.u64 a, [p]; ld.param.f32 f0, [x]; ld.global.f32 f1, [a];\n{body}\n\
         st.global.f32 [a], f2; st.global.f32 [a+4], f3; ret; }}\n"
    )
}

/// The opcodes that `nvdisasm -c` prints for the whole file, and the file's code.
fn of_whole_file(nvdisasm: &std::path::Path, cubin: &std::path::Path) -> Vec<String> {
    let output = Command::new(nvdisasm).args(["-c", "-json"]).arg(cubin).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let functions = json[1].as_array().unwrap();
    let instructions =
        functions.iter().flat_map(|function| function["sass-instructions"].as_array().unwrap());
    instructions.map(|one| one["opcode"].as_str().unwrap().to_owned()).collect()
}

/// The bytes of the section `.text.k` of a 64-bit little-endian ELF file.
fn code(cubin: &[u8]) -> Vec<u8> {
    let word = |at: usize, size: usize| {
        cubin[at..at + size].iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte))
    };
    let (table, entry, count, names) = (word(40, 8), word(58, 2), word(60, 2), word(62, 2));
    let section = |i: usize| table + i * entry;
    let strings = word(section(names) + 24, 8);
    for i in 0..count {
        let name = strings + word(section(i), 4);
        if cubin[name..].starts_with(b".text.k\0") {
            let (start, size) = (word(section(i) + 24, 8), word(section(i) + 32, 8));
            return cubin[start..start + size].to_vec();
        }
    }
    panic!("no .text.k");
}

#[test]
#[ignore = "needs installed toolkits: `sm121probe toolkit install all`"]
fn real_raw_opcodes_are_those_of_the_whole_file() {
    let found = found();
    let disassembler = found.disassembler.as_ref().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (ptx, cubin) = (dir.path().join("k.ptx"), dir.path().join("k.cubin"));
    let (mut compared, mut named) = (BTreeSet::new(), BTreeSet::new());
    for toolkit in found.select(&[]).unwrap() {
        let targets = toolkit.targets.iter().filter(|target| disassembles(target));
        for (target, (body, has)) in targets.flat_map(|target| BODIES.map(|body| (target, body))) {
            if !has(target) {
                continue;
            }
            fs::write(&ptx, kernel(&toolkit.isa.to_string(), target, body)).unwrap();
            let assembly = assemble(toolkit, target, &ptx, &cubin, None, LIMIT).unwrap();
            assert!(assembly.produced, "{} {target}: {}", toolkit.version, assembly.text);
            let number = target.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse().unwrap();
            let bytes = code(&fs::read(&cubin).unwrap());
            let raw = disassembler.opcodes_of_raw(number, &bytes, dir.path(), LIMIT).unwrap();
            assert_eq!(raw, of_whole_file(&disassembler.path, &cubin), "{} {target}", toolkit.version);
            assert!(!raw.iter().any(|opcode| opcode == UNKNOWN_OPCODE));
            named.extend(raw.into_iter().filter(|opcode| opcode.contains("MMA")));
            compared.insert(target.clone());
        }
    }
    println!("targets {compared:?}, opcodes {named:?}");
    assert!(compared.contains("sm_121a") && compared.contains("sm_80"));
    assert!(named.contains("QMMA.SF.16832.F32.E4M3.E2M1.E8"));
}

/// mma m16n8k16 exists from sm_80; nvdisasm 13 reads from sm_75.
fn disassembles(target: &str) -> bool {
    target
        .trim_start_matches("sm_")
        .trim_end_matches(['a', 'f'])
        .parse::<u32>()
        .is_ok_and(|number| number >= 80)
}

#[test]
#[ignore = "needs installed toolkits: `sm121probe toolkit install all`"]
fn real_unreadable_slots_are_marked() {
    let disassembler = found().disassembler.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let nop = 0x000f_c000_0000_0000_0000_0000_0000_7918_u128.to_le_bytes();
    let code = [nop, [0xff; 16], nop, [0; 16], nop].concat();
    let opcodes = disassembler.opcodes_of_raw(121, &code, dir.path(), LIMIT).unwrap();
    assert_eq!(opcodes, ["NOP", UNKNOWN_OPCODE, "NOP", UNKNOWN_OPCODE, "NOP"]);
}

#[test]
#[ignore = "needs installed toolkits: `sm121probe toolkit install all`"]
fn real_messages_begin_with_ptxas() {
    let found = found();
    let dir = tempfile::tempdir().unwrap();
    let (ptx, cubin) = (dir.path().join("k.ptx"), dir.path().join("k.cubin"));
    fs::write(&ptx, ".version 8.0\n.target sm_90\n.address_size 64\nnonsense;\n").unwrap();
    for toolkit in &found.toolkits {
        let got = assemble(toolkit, "sm_90", &ptx, &cubin, None, LIMIT).unwrap();
        assert!(matches!(got.ended, Ended::Exited(code) if code != 0) && !got.produced);
        assert!(got.text.starts_with("ptxas ") && got.text.contains("line 4"), "{}", got.text);
    }
}
