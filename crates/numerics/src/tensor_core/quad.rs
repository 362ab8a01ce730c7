//! Volta's `mma.m8n8k4` on `f16`, which no later tensor core has.
//!
//! For sm_80 and later, ptxas emulates it with shuffles and single-precision arithmetic (read from its code for sm_90, and
//! equal to results of an H100): products along K are summed, then C is added. With a binary16 accumulator, each half of K
//! is added to C in turn, and the result is rounded once.

use super::MmaForm;
use crate::convert::f32_to;
use crate::float::{add_f32, fma_f32, mul_f32};
use crate::format::Format;
use crate::round::Rounding;

const RN: Rounding = Rounding::NearestEven;

/// Computes `D = A·B + C` for one of the four products; the matrices have the layout of [`super::mma`].
pub fn mma_quad(form: &MmaForm, a: &[u32], b: &[u32], c: &[u32], d: &mut [u32]) {
    let single = |code: u32| Format::F16.decode(code).to_bits();
    let fma = |x: u32, y: u32, sum: u32| fma_f32(x, y, sum, RN, false, false);
    let add = |x: u32, y: u32| add_f32(x, y, RN, false, false);
    let (a_rows, _) = a.as_chunks::<4>();
    let (b_columns, _) = b.as_chunks::<4>();
    let places = a_rows.iter().flat_map(|x| b_columns.iter().map(move |y| (x, y)));
    for (((x, y), c), slot) in places.zip(c).zip(d) {
        let (x, y) = (x.map(single), y.map(single));
        *slot = if form.accumulator == Format::F16 {
            let half = |k: usize| fma(x[k + 1], y[k + 1], mul_f32(x[k], y[k], RN, false, false));
            let sum = add(add(single(*c), half(0)), half(2));
            f32_to(Format::F16, f32::from_bits(sum), RN, false, false)
        } else {
            add(*c, (0..4).fold(0, |sum, k| fma(x[k], y[k], sum)))
        };
    }
}
