//! Reductions of asynchronous copies (PTX ISA 9.7.9.27.4.2): an operation on a type, over the elements of a byte range.

use numerics::float::{add_bf16, add_f16, add_f32, add_f64_in_memory, max_bf16, max_f16, min_bf16, min_f16};
use numerics::round::Rounding;
use ptx::Type;

use crate::rules::float_sums::FloatType;

/// The new element from the one in memory and that of the copy.
pub(crate) type Combine = fn(u64, u64) -> u64;

/// An operation on elements of one size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reduce {
    bytes: usize,
    combine: Combine,
    sum: Option<FloatType>,
}

impl Reduce {
    /// The operation `op` on `ty`. Subnormals are kept, as on an H100.
    pub(crate) fn from_op(op: &str, ty: Type) -> Result<Self, String> {
        use Type::{B32, B64, Bf16, F16, F32, F64, S32, S64, U32, U64};
        const RN: Rounding = Rounding::NearestEven;
        let combine: Combine = match (op, ty) {
            ("and", B32 | B64) => |a, b| a & b,
            ("or", B32 | B64) => |a, b| a | b,
            ("xor", B32 | B64) => |a, b| a ^ b,
            ("add", U32 | S32 | U64 | S64) => u64::wrapping_add,
            ("add", F32) => |a, b| u64::from(add_f32(a as u32, b as u32, RN, false, false)),
            ("add", F64) => add_f64_in_memory,
            ("add", F16) => |a, b| u64::from(add_f16(a as u16, b as u16, false, false)),
            ("add", Bf16) => |a, b| u64::from(add_bf16(a as u16, b as u16, false, false)),
            ("min", U32 | U64) => u64::min,
            ("max", U32 | U64) => u64::max,
            ("min", S32) => |a, b| (a as i32).min(b as i32) as u64,
            ("max", S32) => |a, b| (a as i32).max(b as i32) as u64,
            ("min", S64) => |a, b| (a as i64).min(b as i64) as u64,
            ("max", S64) => |a, b| (a as i64).max(b as i64) as u64,
            ("min", F16) => |a, b| u64::from(min_f16(a as u16, b as u16, false, false, false)),
            ("max", F16) => |a, b| u64::from(max_f16(a as u16, b as u16, false, false, false)),
            ("min", Bf16) => |a, b| u64::from(min_bf16(a as u16, b as u16, false, false, false)),
            ("max", Bf16) => |a, b| u64::from(max_bf16(a as u16, b as u16, false, false, false)),
            ("inc", U32) => |a, b| if a >= b { 0 } else { a + 1 },
            ("dec", U32) => |a, b| if a == 0 || a > b { b } else { a - 1 },
            _ => return Err(format!("there is no reduction `{op}` of {ty}")),
        };
        let sum = FloatType::added(ty, false).filter(|_| op == "add");
        Ok(Self { bytes: ty.bytes(), combine, sum })
    }

    /// The sum of `f32` elements with subnormals flushed: tensors whose type has `.ftz`.
    pub(crate) fn flushed_sum() -> Self {
        let combine: Combine =
            |a, b| u64::from(add_f32(a as u32, b as u32, Rounding::NearestEven, true, false));
        Self { bytes: 4, combine, sum: Some(FloatType::F32 { flush: true }) }
    }

    /// The element type if it adds floats: the order of such additions decides their rounding.
    pub(crate) fn sum(self) -> Option<FloatType> {
        self.sum
    }

    /// The new element from the old one and the operand, both in the low bits.
    pub(crate) fn combine(self) -> Combine {
        self.combine
    }

    /// Turns `from`, the bytes of the copy, into the new bytes of a memory that holds `old`.
    pub(crate) fn apply(self, from: &mut [u8], old: &[u8]) {
        for (new, old) in from.chunks_exact_mut(self.bytes).zip(old.chunks_exact(self.bytes)) {
            let word = |bytes: &[u8]| {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            };
            let value = (self.combine)(word(old), word(new));
            new.copy_from_slice(&value.to_le_bytes()[..self.bytes]);
        }
    }
}
