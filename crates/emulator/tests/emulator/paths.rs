//! Rows of lanes give the same bits with every set of vector instructions that the machine has, for whole warps and for some lanes.

use emulator::{GlobalMemory, Launch, Options, launch, load};
use numerics::Path;

/// Instructions with a result in `%r8` or `%q8` and sources in `%r0` to `%r2` or `%q0` to `%q2`, by the registers that they take.
const WORDS: &[&str] = &[
    "add.s32 %r8, %r0, %r1;",
    "add.sat.s32 %r8, %r0, %r1;",
    "mad.lo.s32 %r8, %r0, %r1, %r2;",
    "mad.hi.u32 %r8, %r0, %r1, %r2;",
    "mul24.hi.s32 %r8, %r0, %r1;",
    "sad.s32 %r8, %r0, %r1, %r2;",
    "min.s32 %r8, %r0, %r1;",
    "shl.b32 %r8, %r0, %r1;",
    "shr.s32 %r8, %r0, %r1;",
    "shf.l.wrap.b32 %r8, %r0, %r1, %r2;",
    "lop3.b32 %r8, %r0, %r1, %r2, 0xD8;",
    "prmt.b32 %r8, %r0, %r1, 0x9C31;",
    "bfe.s32 %r8, %r0, %r1, %r2;",
    "brev.b32 %r8, %r0;",
    "popc.b32 %r8, %r0;",
    "dp4a.s32.u32 %r8, %r0, %r1, %r2;",
    "add.f32 %r8, %r0, %r1;",
    "sub.ftz.f32 %r8, %r0, %r1;",
    "add.sat.f32 %r8, %r0, %r1;",
    "mul.rn.f32 %r8, %r0, %r1;",
    "mul.ftz.f32 %r8, %r0, %r1;",
    "mul.ftz.sat.f32 %r8, %r0, %r1;",
    "fma.rn.f32 %r8, %r0, %r1, %r2;",
    "fma.rn.ftz.f32 %r8, %r0, %r1, %r2;",
    "fma.rz.f32 %r8, %r0, %r1, %r2;",
    "min.f32 %r8, %r0, %r1;",
    "max.NaN.f32 %r8, %r0, %r1;",
    "max.ftz.f32 %r8, %r0, %r1;",
    "add.rn.f16x2 %r8, %r0, %r1;",
    "mul.rn.bf16x2 %r8, %r0, %r1;",
    "fma.rn.f16x2 %r8, %r0, %r1, %r2;",
    "fma.rn.relu.bf16x2 %r8, %r0, %r1, %r2;",
    "fma.rn.bf16x2 %r8, %r0, %r1, %r2;",
    "max.f16x2 %r8, %r0, %r1;",
    "min.NaN.bf16x2 %r8, %r0, %r1;",
    "abs.f16x2 %r8, %r0;",
    "cvt.rn.f16x2.f32 %r8, %r0, %r1;",
    "cvt.rn.bf16x2.f32 %r8, %r0, %r1;",
    "cvt.rzi.s32.f32 %r8, %r0;",
    "cvt.rn.f32.u32 %r8, %r0;",
    "ex2.approx.f32 %r8, %r0;",
    "ex2.approx.ftz.f32 %r8, %r0;",
    "lg2.approx.f32 %r8, %r0;",
    "rcp.approx.f32 %r8, %r0;",
    "rsqrt.approx.f32 %r8, %r0;",
    "sqrt.approx.ftz.f32 %r8, %r0;",
    "sin.approx.f32 %r8, %r0;",
    "tanh.approx.f32 %r8, %r0;",
    "div.approx.f32 %r8, %r0, %r1;",
    "div.approx.ftz.f32 %r8, %r0, %r1;",
    "div.full.ftz.f32 %r8, %r0, %r1;",
    "lg2.approx.ftz.f32 %r8, %r0;",
    "rcp.approx.ftz.f32 %r8, %r0;",
    "rsqrt.approx.ftz.f32 %r8, %r0;",
    "cos.approx.f32 %r8, %r0;",
    "tanh.approx.bf16x2 %r8, %r0;",
];

const DOUBLE_WORDS: &[&str] = &[
    "add.s64 %q8, %q0, %q1;",
    "mad.lo.s64 %q8, %q0, %q1, %q2;",
    "mul.hi.u64 %q8, %q0, %q1;",
    "min.s64 %q8, %q0, %q1;",
    "shl.b64 %q8, %q0, %r1;",
    "mul.wide.s32 %q8, %r0, %r1;",
    "mad.wide.u32 %q8, %r0, %r1, %q2;",
    "mov.b64 %q8, {%r0, %r1};",
    "cvt.s64.s32 %q8, %r0;",
    "cvt.f64.f32 %q8, %r0;",
    "add.f64 %q8, %q0, %q1;",
    "mul.f64 %q8, %q0, %q1;",
    "fma.rn.f64 %q8, %q0, %q1, %q2;",
    "min.f64 %q8, %q0, %q1;",
    "add.rn.f32x2 %q8, %q0, %q1;",
    "mul.rn.ftz.f32x2 %q8, %q0, %q1;",
    "fma.rn.ftz.f32x2 %q8, %q0, %q1, %q2;",
];

/// Threads: each has sources of its own.
const THREADS: u32 = 4096;

/// A kernel that writes the result of each instruction to a part of the output of its own. In every other warp, some lanes are masked,
/// and keep the source `%r1` or `%q1`.
fn kernel() -> String {
    let mut text = String::from(
        ".version 9.0\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 from, .param .u64 to)\n{\n\
         .reg .pred %p<2>;\n.reg .b32 %r<12>;\n.reg .b64 %q<12>;\n\
         ld.param.u64 %q9, [from];\nld.param.u64 %q10, [to];\n\
         mov.u32 %r10, %tid.x;\nmov.u32 %r11, %ctaid.x;\nmad.lo.u32 %r10, %r11, 128, %r10;\n\
         mul.wide.u32 %q8, %r10, 24;\nadd.s64 %q9, %q9, %q8;\nmul.wide.u32 %q8, %r10, 8;\nadd.s64 %q10, %q10, %q8;\n\
         ld.global.u64 %q0, [%q9];\nld.global.u64 %q1, [%q9+8];\nld.global.u64 %q2, [%q9+16];\n\
         ld.global.u32 %r0, [%q9];\nld.global.u32 %r1, [%q9+8];\nld.global.u32 %r2, [%q9+16];\n\
         and.b32 %r11, %r10, 0x26;\nsetp.ne.u32 %p1, %r11, 0x22;\n",
    );
    for (instructions, wide) in [(WORDS, false), (DOUBLE_WORDS, true)] {
        for instruction in instructions {
            text += if wide { "mov.b64 %q8, %q1;\n" } else { "mov.b32 %r8, %r1;\n" };
            text += &format!("@%p1 {instruction}\n");
            text += if wide { "st.global.u64 [%q10], %q8;\n" } else { "st.global.u32 [%q10], %r8;\n" };
            text += &format!("add.s64 %q10, %q10, {};\n", 8 * THREADS);
        }
    }
    text + "ret;\n}\n"
}

/// Three sources for each thread: numbers at every turn, and any bits.
fn sources() -> Vec<u8> {
    let turns: [u64; 16] = [
        0,
        1,
        0x8000_0000_8000_0000,
        0x007F_FFFF_0080_0000,
        0x3F80_0000_3F80_0001,
        0x7F7F_FFFF_7F80_0000,
        0xFFC0_0000_FF80_0001,
        0x0010_0000_0000_0000,
        0x7FF0_0000_0000_0000,
        0x7FF8_0000_0000_0001,
        0x3FF0_0000_0000_0000,
        0x3C00_7BFF_0400_8400,
        0x7C00_FC01_03FF_3BFF,
        0x4248_C248_4049_C049,
        0x0000_001F_0000_0020,
        u64::MAX,
    ];
    let mut state = 7u64;
    let mut any = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let one = |n: u32| {
        (0..3)
            .map(|k| if n < THREADS / 2 { turns[(n >> (4 * k)) as usize % 16] } else { any() })
            .collect::<Vec<_>>()
    };
    (0..THREADS).flat_map(one).flat_map(u64::to_le_bytes).collect()
}

#[test]
fn every_set_of_vector_instructions_gives_the_same_bits() {
    let program = load(&kernel()).unwrap();
    let kernel = program.kernel("k").unwrap();
    let results = |path: Path| {
        let mut memory = GlobalMemory::default();
        let from = memory.allocate_with(sources());
        let to = memory.allocate(8 * (THREADS as usize) * (WORDS.len() + DOUBLE_WORDS.len()));
        let params = [from, to].into_iter().flat_map(u64::to_le_bytes).collect();
        let how = Launch { grid: [THREADS / 128, 1, 1], block: [128, 1, 1], shared_bytes: 0, params };
        path.force(|| {
            launch(&program, kernel, &how, &mut memory, &Options { check_widths: true, ..Options::default() })
        })
        .unwrap();
        memory.bytes(to).unwrap().to_vec()
    };
    let paths = Path::available();
    let scalar = results(paths[0]);
    for path in &paths[1..] {
        let other = results(*path);
        let part = 8 * THREADS as usize;
        for (n, instruction) in WORDS.iter().chain(DOUBLE_WORDS).enumerate() {
            let of = n * part..(n + 1) * part;
            assert!(scalar[of.clone()] == other[of], "{instruction} on {}", path.name());
        }
    }
}
