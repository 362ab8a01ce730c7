//! Queries in NVFP4: codes and scales as a quantizer stores them, and whether it did. Also what a quotient may become in a narrow type.
//!
//! A scale is ue4m3(largest / (6·factor)), a code e2m1(x / (scale·factor)), both rounded to nearest, ties to even, at most the largest of
//! the type. Codes are judged on the scale that is stored.

use super::dump::is_power_of_two;
use super::element::{BLOCK, Element};
use super::judge::{Pair, Tally};

/// How far a quotient of binary32 operations may be from the exact one, relative to it: also a product with a reciprocal, which
/// `rcp.approx` may compute.
const SLACK: f64 = 1.0 / 2_097_152.0;

/// The least and the greatest number of a type that a quotient may become.
pub(super) fn quotient(x: f64, divisor: f64, element: Element) -> (f64, f64) {
    let slack = if is_power_of_two(divisor.abs()) { 0.0 } else { SLACK };
    let most = if element.bits() < 16 { element.largest() } else { f64::INFINITY };
    let exact = x / divisor;
    let round = |x: f64| element.nearest(x).clamp(-most, most);
    let (a, b) = (round(exact * (1.0 - slack)), round(exact * (1.0 + slack)));
    (a.min(b), a.max(b))
}

/// Codes and block scales of queries: [rows, heads, elements] in both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Quantized {
    /// Two codes in a byte, the even element in the low nibble.
    pub(super) codes: Vec<u8>,
    /// ue4m3.
    pub(super) scales: Vec<u8>,
}

/// Rounds queries to e4m3 as kernels of latent records do: in each block of the latent part its elements become codes of a power of two,
/// the first one of which the largest is at most 448 times. `fl(largest / 448)` and the power above it are those of binary32.
pub(super) fn round_queries(queries: &mut [f32], width: usize, (latent, block): (usize, usize)) {
    for query in queries.chunks_mut(width.max(1)) {
        for block in query.get_mut(..latent).unwrap_or_default().chunks_mut(block.max(1)) {
            let largest = block.iter().fold(1e-4_f32, |most, x| most.max(x.abs()));
            let bits = (largest / 448.0).to_bits();
            let above = if bits & 0x7F_FFFF == 0 { bits } else { (bits + 0x80_0000) & 0x7F80_0000 };
            let scale = f64::from(f32::from_bits(above));
            for x in block {
                // The largest rounds to 448 at most.
                *x = (Element::E4m3.nearest(f64::from(*x) / scale).clamp(-448.0, 448.0) * scale) as f32;
            }
        }
    }
}

fn scale_value(code: u8) -> f64 {
    f64::from(numerics::Format::Ue4m3.decode(code.into()))
}

fn largest(block: &[f32]) -> f64 {
    block.iter().fold(0.0, |most: f64, x| most.max(f64::from(x.abs())))
}

impl Quantized {
    /// Quantizes queries without any slack.
    pub(super) fn from_queries(queries: &[f32], factor: f32) -> Self {
        let code = |format, x: f64| {
            numerics::convert::f64_to(format, x, numerics::Rounding::NearestEven, true, false) as u8
        };
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for block in queries.chunks(BLOCK) {
            let scale = code(numerics::Format::Ue4m3, largest(block) / (6.0 * f64::from(factor)));
            let unit = scale_value(scale) * f64::from(factor);
            let of = |x: &f32| match unit {
                0.0 => 0,
                unit => code(numerics::Format::E2m1, f64::from(*x) / unit),
            };
            codes.extend(block.chunks(2).map(|two| two.iter().rev().fold(0, |byte, x| byte << 4 | of(x))));
            scales.push(scale);
        }
        Self { codes, scales }
    }

    /// The elements with their block scales, without the factor: exact in binary32.
    pub(super) fn values(&self) -> Vec<f32> {
        let value = |(n, scale): (usize, &u8)| {
            let scale = scale_value(*scale) as f32;
            let of = move |d| self.code(n * BLOCK + d) as f32 * scale;
            (0..BLOCK).map(of)
        };
        self.scales.iter().enumerate().flat_map(value).collect()
    }

    fn code(&self, n: usize) -> f64 {
        f64::from(Element::Nvfp4.value(&self.codes, n).unwrap_or(f32::NAN))
    }

    /// Judges a head of a row, element by element; `line` is its number among all of them. A scale counts as the first element of its block.
    pub(super) fn judge(&self, queries: &[f32], factor: f32, (pair, line): (Pair, usize)) -> Tally {
        let mut tally = Tally::default();
        for (n, block) in queries.chunks(BLOCK).enumerate() {
            let at = line * queries.len() + n * BLOCK;
            let scale = self.scales.get(at / BLOCK).copied().map_or(f64::NAN, scale_value);
            let allowed = quotient(largest(block), 6.0 * f64::from(factor), Element::E4m3);
            tally.add_within((pair, n * BLOCK), allowed, scale, "scale");
            let unit = scale * f64::from(factor);
            for (d, x) in block.iter().enumerate() {
                let allowed =
                    if unit == 0.0 { (0.0, 0.0) } else { quotient(f64::from(*x), unit, Element::Nvfp4) };
                tally.add_within((pair, n * BLOCK + d), allowed, self.code(at + d), "code");
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Pair = Pair { request: 0, row: 0, head: 0 };

    #[test]
    fn what_is_quantized_is_right_and_every_other_code_and_scale_is_wrong() {
        // Odd multiples of a scale of 1/64: no code lies at a tie.
        let queries: Vec<f32> = (0..64).map(|n| (n * 37 % 65) as f32 * 0.11 - 3.0).collect();
        for factor in [1.0, 0.25, 0.0031_f32] {
            let right = Quantized::from_queries(&queries, factor);
            assert_eq!(right.judge(&queries, factor, (PAIR, 0)).mismatches, 0);
            for (n, x) in right.values().iter().enumerate() {
                let step = f64::from(factor) * scale_value(right.scales[n / BLOCK]);
                assert!((f64::from(*x) * f64::from(factor) - f64::from(queries[n])).abs() <= step * 1.001);
            }
            for bit in 0..right.codes.len() * 8 {
                let mut wrong = right.clone();
                wrong.codes[bit / 8] ^= 1 << (bit % 8);
                let of_zero = right.code(bit / 4) == 0.0 && bit % 4 == 3;
                assert_eq!(wrong.judge(&queries, factor, (PAIR, 0)).mismatches, u64::from(!of_zero), "{bit}");
            }
            for n in 0..right.scales.len() {
                let mut wrong = right.clone();
                wrong.scales[n] ^= 1;
                assert!(wrong.judge(&queries, factor, (PAIR, 0)).mismatches > 0, "{n}");
            }
        }
    }

    #[test]
    fn a_code_beyond_the_largest_is_the_largest() {
        // The scale of 1.4 · 2^-9 / 6 is 0: all codes are 0. That of 1.4 · 2^-9 is 2^-9, of which the element is more than 6.
        let one = |x: f32| Quantized::from_queries(&[x; BLOCK], 1.0);
        assert_eq!(one(1.4 / 512.0).scales, [0]);
        assert_eq!(one(1.4 / 512.0).codes, [0; 8]);
        let saturated = one(6.0 * 1.4 / 512.0);
        assert_eq!((saturated.scales[0], saturated.codes[0]), (1, 0x77));
        assert_eq!(saturated.judge(&[6.0 * 1.4 / 512.0; BLOCK], 1.0, (PAIR, 0)).mismatches, 0);
    }
}
