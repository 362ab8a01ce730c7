//! Double-precision `mma`: sequential fused multiply-adds along K.

use super::MmaShape;
use crate::float::fma_f64;
use crate::round::Rounding;

/// Computes `D = A·B + C` on doubles; the matrices have the layout of [`super::mma`].
pub fn mma_f64(shape: MmaShape, a: &[u64], b: &[u64], c: &[u64], d: &mut [u64], rounding: Rounding) {
    for (row, x) in a.chunks(shape.k).take(shape.m).enumerate() {
        for (column, y) in b.chunks(shape.k).take(shape.n).enumerate() {
            let at = row * shape.n + column;
            let (Some(slot), Some(addend)) = (d.get_mut(at), c.get(at)) else { return };
            *slot = x.iter().zip(y).fold(*addend, |sum, (x, y)| fma_f64(*x, *y, sum, rounding));
        }
    }
}
