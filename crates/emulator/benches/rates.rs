//! Nanoseconds of CPU time for one instruction of a warp of 32 lanes, by class, with every rule on one thread.
//!
//! `cargo bench -p sm121probe-emulator --bench rates -- [TEXT...]` measures the classes whose instruction has one of these texts in it.
//! Each class is a loop of 32 such instructions in 8 warps; three instructions more make the loop. Without `--bench`, each runs once and
//! briefly, for `cargo test`.

#![expect(clippy::unwrap_used, reason = "a measurement that fails has no result")]

use emulator::{GlobalMemory, Launch, Options, launch, load};

/// Instructions in a loop.
const UNROLLED: u32 = 32;
const WARPS: u32 = 8;

/// Instructions, in the order of a class's four lines. `%r0` to `%r3`, `%f0` to `%f3`, `%h0` to `%h3`, `%g0` to `%g3` and `%q0` to
/// `%q3` are sources that no line writes.
const CLASSES: &[&str] = &[
    "mov.u32 %r8, %r0;",
    "add.s32 %r8, %r0, %r1;",
    "add.s64 %q8, %q0, %q1;",
    "mad.lo.s32 %r8, %r0, %r1, %r2;",
    "mul.wide.s32 %q8, %r0, %r1;",
    "shl.b32 %r8, %r0, %r1;",
    "div.s32 %r8, %r0, %r1;",
    "add.f32 %f8, %f0, %f1;",
    "mul.f32 %f8, %f0, %f1;",
    "fma.rn.f32 %f8, %f0, %f1, %f2;",
    "add.ftz.f32 %f8, %f0, %f1;",
    "fma.rn.ftz.f32 %f8, %f0, %f1, %f2;",
    "max.f32 %f8, %f0, %f1;",
    "div.rn.f32 %f8, %f0, %f1;",
    "sqrt.rn.f32 %f8, %f0;",
    "div.rn.f64 %g8, %g0, %g1;",
    "add.f64 %g8, %g0, %g1;",
    "fma.rn.f64 %g8, %g0, %g1, %g2;",
    "add.rn.f32x2 %q8, %q0, %q1;",
    "fma.rn.f32x2 %q8, %q0, %q1, %q2;",
    "add.rn.f16x2 %r8, %h0, %h1;",
    "fma.rn.f16x2 %r8, %h0, %h1, %h2;",
    "fma.rn.bf16x2 %r8, %h0, %h1, %h2;",
    "max.f16x2 %r8, %h0, %h1;",
    "cvt.rn.f32.s32 %f8, %r0;",
    "cvt.rzi.s32.f32 %r8, %f0;",
    "cvt.rni.f32.f32 %f8, %f0;",
    "cvt.rn.f32.s64 %f8, %q0;",
    "cvt.rzi.s64.f64 %q8, %g0;",
    "cvt.rn.f16.f32 %s8, %f0;",
    "cvt.f32.f16 %f8, %s0;",
    "cvt.rn.bf16x2.f32 %r8, %f0, %f1;",
    "cvt.rn.f16x2.f32 %r8, %f0, %f1;",
    "cvt.rn.satfinite.e4m3x2.f32 %s8, %f0, %f1;",
    "cvt.u64.u32 %q8, %r0;",
    "ex2.approx.f32 %f8, %f0;",
    "lg2.approx.f32 %f8, %f0;",
    "rsqrt.approx.f32 %f8, %f0;",
    "rcp.approx.ftz.f32 %f8, %f0;",
    "sin.approx.f32 %f8, %f0;",
    "tanh.approx.f32 %f8, %f0;",
    "setp.lt.s32 %p2, %r0, %r1;",
    "setp.lt.f32 %p2, %f0, %f1;",
    "selp.b32 %r8, %r0, %r1, %p1;",
    "lop3.b32 %r8, %r0, %r1, %r2, 0x96;",
    "prmt.b32 %r8, %r0, %r1, 0x5140;",
    "mov.b64 %q8, {%r0, %r1};",
    "mov.b64 {%r8, %r9}, %q0;",
    "@%p1 add.s32 %r8, %r0, %r1;",
    "shfl.sync.bfly.b32 %r8, %r0, 1, 0x1f, 0xffffffff;",
    "vote.sync.ballot.b32 %r8, %p1, 0xffffffff;",
    "redux.sync.add.s32 %r8, %r0, 0xffffffff;",
    "ld.shared.u32 %r8, [%s4];",
    "ld.shared.u32 %r8, [%s0];",
    "ld.shared.u32 %r8, [%s4x2];",
    "ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%s4x4];",
    "ld.shared.u8 %r8, [%s4x2];",
    "ld.shared.u16 %r8, [%s4x2];",
    "st.shared.u8 [%s4x2], %r0;",
    "st.shared.u16 [%s4x2], %r0;",
    "st.shared.u32 [%s4], %r0;",
    "st.shared.u32 [%s4x2], %r0;",
    "ld.global.u32 %r8, [%a4];",
    "ld.global.u32 %r8, [%a0];",
    "ld.global.u32 %r8, [%a4x2];",
    "ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%a4x4];",
    "st.global.u32 [%a4], %r0;",
    "atom.shared.add.u32 %r8, [%s4], %r0;",
    "red.global.add.u32 [%a4], %r0;",
    "red.global.add.u32 [%a0], %r0;",
    "bar.sync 0;",
    "bar.warp.sync 0xffffffff;",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f8, %f9, %f10, %f11}, {%h0, %h1, %h2, %h3}, {%h0, %h1}, {%f0, %f1, %f2, %f3};",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r8, %r9, %r10, %r11}, [%s16];",
];

/// A kernel that runs an instruction `n` times.
fn kernel(instruction: &str) -> String {
    let mut text = String::from(
        ".version 9.0\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n)\n{\n\
         .reg .pred %p<4>;\n.reg .b32 %r<12>;\n.reg .b32 %h<4>;\n.reg .b16 %s<9>;\n.reg .f32 %f<12>;\n.reg .f64 %g<9>;\n\
         .reg .b64 %q<9>;\n.reg .b32 %i, %n, %t, %at0, %at4, %at8, %at16;\n.reg .b64 %a0, %a4, %a8, %a16;\n\
         .shared .align 16 .b8 tile[8192];\n\
         ld.param.u64 %a0, [p];\nld.param.u32 %n, [n];\nmov.u32 %t, %tid.x;\nmov.u32 %at0, tile;\nmov.u32 %i, 0;\n\
         setp.eq.u32 %p1, %t, 3;\n",
    );
    for width in [4, 8, 16] {
        text += &format!(
            "mad.lo.u32 %at{width}, %t, {width}, %at0;\nmul.wide.u32 %a{width}, %t, {width};\nadd.s64 %a{width}, %a{width}, %a0;\n\
             st.shared.u32 [%at{width}], %t;\nst.global.u32 [%a{width}], %t;\nbar.sync 0;\n"
        );
    }
    text += "mov.u32 %r4, 0;\nst.shared.v4.u32 [%at16], {%t, %r4, %r4, %t};\nst.global.v4.u32 [%a16], {%t, %r4, %r4, %t};\n";
    for n in 0..4 {
        text += &format!(
            "add.u32 %r{n}, %t, {n};\ncvt.rn.f32.u32 %f{n}, %r{n};\nadd.f32 %f{n}, %f{n}, 0f3F100000;\n\
             cvt.f64.f32 %g{n}, %f{n};\nmov.b64 %q{n}, {{%f{n}, %f{n}}};\ncvt.rn.f16x2.f32 %h{n}, %f{n}, %f{n};\n\
             cvt.rn.f16.f32 %s{n}, %f{n};\n"
        );
    }
    text += "bar.sync 0;\nLOOP:\n";
    // Names of addresses in a class are by the distance of lanes.
    let line = instruction
        .replace("%s4x4", "%at16")
        .replace("[%s16]", "[%at16]")
        .replace("%s4x2", "%at8")
        .replace("[%s4]", "[%at4]")
        .replace("[%s0]", "[%at0]")
        .replace("%a4x4", "%a16")
        .replace("%a4x2", "%a8");
    for _ in 0..UNROLLED {
        text += &line;
        text.push('\n');
    }
    text += "add.u32 %i, %i, 1;\nsetp.lt.u32 %p3, %i, %n;\n@%p3 bra LOOP;\nret;\n}\n";
    text
}

/// CPU time of this thread in seconds, independent of the load of the machine.
fn seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The shortest of some runs with `rounds` loops, in seconds.
fn time(ptx: &str, rounds: u32, runs: usize) -> f64 {
    let program = load(ptx).unwrap();
    let kernel = program.kernel("k").unwrap();
    let mut memory = GlobalMemory::default();
    let mut params = memory.allocate(8192).to_le_bytes().to_vec();
    params.extend(rounds.to_le_bytes());
    let how = Launch { grid: [1; 3], block: [32 * WARPS, 1, 1], shared_bytes: 0, params };
    let one = |memory: &mut GlobalMemory| {
        let before = seconds();
        launch(&program, kernel, &how, memory, &Options::default()).unwrap();
        seconds() - before
    };
    (0..runs).map(|_| one(&mut memory)).fold(f64::INFINITY, f64::min)
}

fn main() {
    let bench = std::env::args().any(|arg| arg == "--bench");
    let texts: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    for class in
        CLASSES.iter().filter(|class| texts.is_empty() || texts.iter().any(|t| class.contains(t.as_str())))
    {
        let ptx = kernel(class);
        if !bench {
            time(&ptx, 1, 1);
            continue;
        }
        let (few, many) = (20, 220);
        let difference = time(&ptx, many, 5) - time(&ptx, few, 5);
        println!("{:9.1} ns  {class}", difference / f64::from((many - few) * UNROLLED * WARPS) * 1e9);
    }
}
