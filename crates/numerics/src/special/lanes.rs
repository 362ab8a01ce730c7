//! Vectorised `MUFU.EX2` of a warp, bit-identical to [`super::ex2`].
//!
//! Each loop applies one operation to an array, so that the compiler vectorises it; an overflow check would prevent this.
//! The interpolation sum is an integer below 2^40, which a double holds exactly.

use pulp::NullaryFnOnce;

use super::tables::EX2;
use super::{IMPLICIT, INFINITY, NAN, SIGN, fraction, is_nan};
use crate::dispatch;
use crate::float::canonical_f32;

/// Lanes of a warp.
pub const WARP: usize = 32;

/// `[f(0), f(1), …]` as a plain loop: a closure may be compiled separately, without the features that `dispatch` enables.
macro_rules! each {
    ($n:ident => $value:expr) => {{
        let mut out = [Default::default(); WARP];
        for $n in 0..WARP {
            out[$n] = $value;
        }
        out
    }};
}

/// The rows of the table as doubles; the constant includes the rounding term.
static ROWS: [[f64; 3]; 64] = {
    let mut rows = [[0.0; 3]; 64];
    let mut n = 0;
    while n < rows.len() {
        let [constant, linear, quadratic] = EX2[n];
        rows[n] = [(((constant as i64) << 13) + 0x17E2) as f64, linear as f64, quadratic as f64];
        n += 1;
    }
    rows
};

/// Computes `ex2.approx{.ftz}.f32` for every lane.
#[must_use]
pub fn ex2_approx_f32_lanes(a: &[u32; WARP], ftz: bool) -> [u32; WARP] {
    dispatch(Ex2 { a, ftz })
}

struct Ex2<'a> {
    a: &'a [u32; WARP],
    ftz: bool,
}

impl NullaryFnOnce for Ex2<'_> {
    type Output = [u32; WARP];

    #[inline(always)]
    fn call(self) -> [u32; WARP] {
        /// 2^7.
        const OVERFLOW: u32 = 0x4300_0000;
        let Self { a, ftz } = self;
        // Without `.ftz`, a subnormal result is the square of the result for half the operand.
        let halved: [bool; WARP] = each!(n => !ftz & (f32::from_bits(a[n]) < -126.0));
        let a: [u32; WARP] =
            each!(n => if halved[n] { (f32::from_bits(a[n]) * 0.5).to_bits() } else { a[n] });
        let inside: [bool; WARP] = each!(n => a[n] & !SIGN < OVERFLOW);
        let magnitude: [f32; WARP] =
            each!(n => f32::from_bits(if inside[n] { a[n] & !SIGN } else { 0 }) * IMPLICIT as f32);
        let magnitude: [u32; WARP] = each!(n => (magnitude[n] as i32).cast_unsigned());
        let fixed: [u32; WARP] = each!(n => {
            let negative = 0_u32.wrapping_sub(a[n] >> 31);
            let carry = negative & u32::from(fraction(magnitude[n]) == 0);
            (magnitude[n] ^ negative).wrapping_add(carry)
        });
        // The sum of rows of the truncated square, which `square` reads from tables.
        let mut square = [0_u32; WARP];
        for bit in 0..17 {
            for n in 0..WARP {
                let x = fixed[n] & 0x1_FFFF;
                square[n] = square[n].wrapping_add(0_u32.wrapping_sub(x >> bit & 1) & x >> (18 - bit));
            }
        }
        let row: [&[f64; 3]; WARP] = {
            let mut row = [&ROWS[0]; WARP];
            for n in 0..WARP {
                row[n] = &ROWS[(fraction(fixed[n]) >> 17) as usize];
            }
            row
        };
        let constant: [f64; WARP] = each!(n => row[n][0]);
        let linear: [f64; WARP] = each!(n => row[n][1]);
        let quadratic: [f64; WARP] = each!(n => row[n][2]);
        let sum: [f64; WARP] = each!(n => {
            let x = f64::from((fixed[n] & 0x1_FFFF).cast_signed());
            let square = f64::from((square[n] >> 1).cast_signed());
            (constant[n] + linear[n] * x + quadratic[n] * square) * (1.0 / 32768.0)
        });
        let significand: [i32; WARP] = each!(n => sum[n] as i32);
        let result: [u32; WARP] = each!(n => {
            let exponent = (fixed[n].cast_signed() >> 23).wrapping_add(127);
            let bits = (exponent << 23).wrapping_add(significand[n]).wrapping_sub(IMPLICIT.cast_signed());
            if bits < IMPLICIT.cast_signed() { 0 } else { bits.cast_unsigned() }
        });
        let result: [u32; WARP] = each!(n => {
            let beyond = if is_nan(a[n]) { NAN } else if a[n] & SIGN != 0 { 0 } else { INFINITY };
            if inside[n] { result[n] } else { beyond }
        });
        each!(n => {
            let root = f32::from_bits(result[n]);
            if halved[n] { canonical_f32((root * root).to_bits()) } else { result[n] }
        })
    }
}
