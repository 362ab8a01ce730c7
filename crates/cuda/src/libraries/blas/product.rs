//! Products of matrices, as kernels take them.

use super::handle::{Answer, Call};
use super::kernel::{Arguments, Epilogue, MOST, Operand, Scalar, Type, ctas, launch};

/// The kernel of a general product of two types in a third.
pub(super) const fn general(types: [Type; 3]) -> Option<&'static str> {
    Some(match types {
        [Type::F32, Type::F32, Type::F32] => "gemm_f32",
        [Type::F64, Type::F64, Type::F64] => "gemm_f64",
        [Type::C32, Type::C32, Type::C32] => "gemm_c32",
        [Type::C64, Type::C64, Type::C64] => "gemm_c64",
        [Type::F16, Type::F16, Type::F16] => "gemm_f16",
        [Type::F16, Type::F16, Type::F32] => "gemm_f16_f32",
        [Type::BF16, Type::BF16, Type::BF16] => "gemm_bf16",
        [Type::BF16, Type::BF16, Type::F32] => "gemm_bf16_f32",
        [Type::I8, Type::I8, Type::I32] => "gemm_i8_i32",
        [Type::I8, Type::I8, Type::F32] => "gemm_i8_f32",
        _ => return None,
    })
}

/// A product of matrices: D = epilogue(alpha A B + beta C), `count` times.
pub(super) struct Product<'a> {
    pub(super) kernel: &'a str,
    pub(super) size: [i64; 3],
    pub(super) count: i64,
    pub(super) factors: [Scalar; 2],
    /// A, B and C.
    pub(super) operands: [Operand; 3],
    /// D, where it is not C.
    pub(super) result: Option<Operand>,
    pub(super) epilogue: Epilogue,
    /// Whether operands may have triangles.
    pub(super) is_special: bool,
}

impl Default for Product<'_> {
    fn default() -> Self {
        Self {
            kernel: "",
            size: [0; 3],
            count: 1,
            factors: [Scalar::ONE, Scalar::ZERO],
            operands: [Operand::matrix(0, 0); 3],
            result: None,
            epilogue: Epilogue::NONE,
            is_special: false,
        }
    }
}

impl Product<'_> {
    pub(super) fn run(&self, call: &Call) -> Answer {
        let Self { kernel, size: [m, n, k], count, factors: [alpha, beta], operands: [a, b, c], .. } = *self;
        if m <= 0 || n <= 0 || count <= 0 {
            return Ok(());
        }
        let wide = if self.is_special { 1 } else { 4 };
        let block = if n > wide { [32, 4] } else { [128, 1] };
        let grid = [
            ctas(m, i64::from(block[0]), i64::from(i32::MAX)),
            ctas(n, i64::from(block[1]) * wide, i64::MAX),
            ctas(count, 1, MOST),
        ];
        if i64::from(grid[1]) > MOST {
            return Err(call.unsupported("a product of more than a million columns"));
        }
        let arguments = Arguments::default().long(m).long(n).long(k).long(count);
        let arguments = arguments.scalar(alpha).operand(a).operand(b).scalar(beta).operand(c);
        let arguments = arguments.operand(self.result.unwrap_or(c)).epilogue(self.epilogue);
        launch(call, &format!("cublas_{kernel}"), grid, block, arguments)
    }
}
