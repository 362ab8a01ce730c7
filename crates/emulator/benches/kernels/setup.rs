//! Launches of the measured kernels: realistic data of the requested size.

#[path = "work.rs"]
mod work;

use numerics::Format;
use numerics::round::Rounding;

use work::Given;
pub(crate) use work::{Numbers, Work};

/// Normally distributed numbers as f16 or bf16.
pub(crate) fn normals(format: Format, count: usize, numbers: &mut Numbers) -> Vec<u8> {
    let code = |x| numerics::convert::f32_to(format, x, Rounding::NearestEven, false, false) as u16;
    (0..count).flat_map(|_| code(numbers.normal()).to_le_bytes()).collect()
}

/// Causal attention with heads of 128 columns: Q, K, V, O.
pub(crate) fn flash_attention(heads: u32, rows: u32) -> Work {
    let mut numbers = Numbers::new(1);
    let len = (heads * rows * 128) as usize;
    let mut given: Vec<Given> =
        (0..3).map(|_| Given::Bytes(normals(Format::F16, len, &mut numbers))).collect();
    // Scores are scaled for powers of two.
    let scale = std::f32::consts::LOG2_E / 128f32.sqrt();
    given.extend([Given::Output(2 * len), Given::Number(rows), Given::Number(scale.to_bits())]);
    Work::new(include_str!("flash_attention.ptx"), [[rows / 64, heads], [128, 1]], 5 * 16384, given)
}

/// C = A Bᵀ of square matrices: A, B, C.
pub(crate) fn matmul_f16(size: u32) -> Work {
    let mut numbers = Numbers::new(2);
    let len = (size * size) as usize;
    let mut given: Vec<Given> =
        (0..2).map(|_| Given::Bytes(normals(Format::F16, len, &mut numbers))).collect();
    given.push(Given::Output(4 * len));
    given.extend([size; 3].map(Given::Number));
    Work::new(include_str!("matmul_f16.ptx"), [[size / 64; 2], [128, 1]], 0, given)
}

/// A block-scaled product of square matrices, e4m3 by e2m1: A, B, their scales, C.
pub(crate) fn matmul_mx(size: u32) -> Work {
    let mut numbers = Numbers::new(3);
    let len = (size * size) as usize;
    let codes = |len, of: &mut dyn FnMut() -> u8| Given::Bytes((0..len).map(|_| of()).collect());
    let mut a = || {
        let x = numbers.normal() * 112.0;
        numerics::convert::f32_to(Format::E4m3, x, Rounding::NearestEven, true, false) as u8
    };
    let a = codes(len, &mut a);
    let mut numbers = Numbers::new(4);
    let b = codes(len / 2, &mut || numbers.word() as u8);
    let mut scale = || 118 + (numbers.word() % 3) as u8;
    let (sfa, sfb) = (codes(len / 32, &mut scale), codes(len / 32, &mut scale));
    let given = vec![a, b, sfa, sfb, Given::Output(4 * len), Given::Number(size), Given::Number(size)];
    Work::new(include_str!("../../tests/kernels/gemm_mx.ptx"), [[size / 32; 2], [128, 1]], 0, given)
}

/// Softmax of rows of 1024 floats.
pub(crate) fn softmax(rows: u32) -> Work {
    let mut numbers = Numbers::new(5);
    let len = (rows * 1024) as usize;
    let values = (0..len).flat_map(|_| (8.0 * numbers.normal()).to_le_bytes()).collect();
    let given = vec![Given::Bytes(values), Given::Output(4 * len), Given::Number(1024)];
    Work::new(include_str!("../../tests/kernels/softmax.ptx"), [[rows, 1], [256, 1]], 4096, given)
}

/// Sorts runs of 1024 keys: keys, and their positions.
pub(crate) fn sort(runs: u32) -> Work {
    let mut numbers = Numbers::new(6);
    let len = (runs * 1024) as usize;
    let keys = (0..len).flat_map(|_| numbers.word().to_le_bytes()).collect();
    let given = vec![Given::Bytes(keys), Given::Output(4 * len)];
    Work::new(include_str!("sort.ptx"), [[runs, 1], [256, 1]], 0, given)
}

/// Instructions per round of [`mma`].
pub(crate) const ROUND: u32 = 32;

/// `mma.m16n8k16` of normal numbers, from registers only; the accumulator is reset after each round.
pub(crate) fn mma(format: Format, rounds: u32) -> Work {
    let ty = if format == Format::F16 { "f16" } else { "bf16" };
    let mut text = String::from(
        ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry kernel(.param .u64 p0, .param .u32 p1)\n{\n\
         .reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .b32 %x<48>;\n.reg .f32 %f<4>;\n.reg .b64 %rd<4>;\n\
         ld.param.u64 %rd1, [p0];\nld.param.u32 %r1, [p1];\nmov.u32 %r2, %laneid;\n\
         mul.wide.u32 %rd2, %r2, 4;\nadd.s64 %rd3, %rd1, %rd2;\nmov.u32 %r3, 0;\n",
    );
    for i in 0..48 {
        text += &format!("ld.global.u32 %x{i}, [%rd3+{}];\n", i * 128);
    }
    text += "LOOP:\n";
    for i in 0..4 {
        text += &format!("mov.f32 %f{i}, 0f00000000;\n");
    }
    for n in 0..ROUND {
        let x = |i: u32| format!("%x{}", n % 8 * 6 + i);
        text += &format!(
            "mma.sync.aligned.m16n8k16.row.col.f32.{ty}.{ty}.f32 {{%f0,%f1,%f2,%f3}}, {{{},{},{},{}}}, {{{},{}}}, \
             {{%f0,%f1,%f2,%f3}};\n",
            x(0),
            x(1),
            x(2),
            x(3),
            x(4),
            x(5)
        );
    }
    text += "add.s32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, %r1;\n@%p1 bra LOOP;\nst.global.f32 [%rd3], %f0;\nret;\n}\n";
    let bytes = normals(format, 48 * 64, &mut Numbers::new(7));
    Work::new(&text, [[1, 1], [32, 1]], 0, vec![Given::Bytes(bytes), Given::Number(rounds)])
}
