//! Which scales and codes are right.
//!
//! Everything is decided in exact arithmetic: a bf16 has 8 significant bits, a code at most 2, a midpoint between codes 3, a ue4m3 4 and
//! the scale of the tensor 24, so that every product below has at most 39 bits and is exact in f64. Nothing here is shared with the
//! emulator.
//!
//! A writer divides in f32. It may round up to four times on the way to a scale, and on the way to a code: a product with 6 or with
//! the scale, a reciprocal, a product, and one more for the scale of the tensor. Each rounding is within 2^-24 of its result, so that the
//! quotient is within [`SLACK`] = 4 · 2^-24 = 2^-22 of the exact one, and the bounds below enclose second-order terms with 2^-40 more. If
//! the divisor is a power of two, none of these operations rounds, whichever way is taken, and one code is right: that of round to
//! nearest even.

use record::{Place, StageResult, Verdict};

use super::configuration::Scales;
use super::problem::{BEFORE, BLOCK, Data, Side};
use crate::frame::stream::Stored;

/// The magnitudes of e2m1 codes.
pub(super) const CODES: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// The magnitudes halfway between them.
pub(super) const MIDPOINTS: [f64; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];

/// The largest number that a scale holds.
const LARGEST_SCALE: u8 = 0x7E;

/// How far a quotient of f32 operations may be from the exact one, relative to it.
const SLACK: f64 = 1.0 / (1 << 22) as f64 + 1.0 / (1_u64 << 40) as f64;

/// The value of a ue4m3, other than the NaN 0x7F.
pub(super) fn value_of_scale(code: u8) -> f64 {
    let (exponent, mantissa) = (code >> 3 & 15, f64::from(code & 7));
    match exponent {
        0 => mantissa / 512.0,
        _ => (8.0 + mantissa) * f64::from(exponent).exp2() / 1024.0,
    }
}

/// The nearest of ascending values to `x`, at most the last, ties to the even index.
fn nearest(count: u8, value: impl Fn(u8) -> f64, x: f64) -> u8 {
    let mut code = 0;
    while code + 1 < count {
        let middle = f64::midpoint(value(code), value(code + 1));
        let up = if code % 2 == 0 { x > middle } else { x >= middle };
        if !up {
            break;
        }
        code += 1;
    }
    code
}

fn nearest_scale(x: f64) -> u8 {
    nearest(LARGEST_SCALE + 1, value_of_scale, x)
}

fn nearest_code(x: f64) -> u8 {
    nearest(8, |code| CODES[usize::from(code)], x)
}

/// The largest finite magnitude of e5m2; that of e4m3 is the largest scale.
const LARGEST_E5M2: u8 = 0x7B;

/// The value of a magnitude of e5m2.
fn value_of_e5m2(code: u8) -> f64 {
    let (exponent, mantissa) = (code >> 2, f64::from(code & 3));
    match exponent {
        0 => mantissa / 65_536.0,
        _ => (4.0 + mantissa) * f64::from(exponent).exp2() / 131_072.0,
    }
}

/// The nearest magnitude of e4m3, which a ue4m3 is.
fn nearest_e4m3(x: f64) -> u8 {
    nearest_scale(x)
}

fn nearest_e5m2(x: f64) -> u8 {
    nearest(LARGEST_E5M2 + 1, value_of_e5m2, x)
}

/// A magnitude of an eight-bit type that these bits choose, or the number halfway to the next one; not zero.
pub(super) fn fp8_number(scales: Scales, bits: u64, halfway: bool) -> f64 {
    let (value, largest): (fn(u8) -> f64, u8) = match scales {
        Scales::E5m2 => (value_of_e5m2, LARGEST_E5M2),
        _ => (value_of_scale, LARGEST_SCALE),
    };
    let code = 1 + (bits % u64::from(largest - 1)) as u8;
    if halfway { f64::midpoint(value(code), value(code + 1)) } else { value(code) }
}

/// Whether a number is an f32.
fn is_f32(x: f64) -> bool {
    f64::from(x as f32) == x
}

/// The codes allowed for the exact quotient of two numbers: from the least to the greatest.
fn allowed(numerator: f64, denominator: f64, nearest: fn(f64) -> u8) -> (u8, u8) {
    let quotient = numerator / denominator;
    // Divided by a power of two, an f32 is exact, and so is its product with the reciprocal.
    let is_power_of_two = denominator.to_bits() << 12 == 0;
    let exact = is_power_of_two && is_f32(quotient);
    if exact {
        let code = nearest(quotient);
        return (code, code);
    }
    (nearest(quotient * (1.0 - SLACK)), nearest(quotient * (1.0 + SLACK)))
}

/// The value of a bf16.
fn bf16(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// What is wrong, with its place in the output: token, head and element.
struct Wrong {
    at: (usize, usize, usize),
    note: String,
}

/// The verdict on keys or values.
pub(super) fn stage(data: &Data, side: Side, stored: &Stored) -> StageResult {
    let [_, _, codes, scales] = side.buffers();
    let (Some(codes), Some(scales)) = (stored.get(codes), stored.get(scales)) else {
        return StageResult::skipped(side.stage(), "nothing was stored");
    };
    let mut checked = Checked { wrong: None, mismatches: 0 };
    let width = data.configuration.scales.bytes(data.configuration.head);
    let mut written = vec![false; scales.len()];
    let mut rows = vec![false; data.rows()];
    for (token, slot) in data.slots.iter().enumerate() {
        let Ok(slot) = usize::try_from(*slot) else { continue };
        for head in 0..data.case.heads {
            let row = data.row(slot, head);
            rows[row] = true;
            if data.configuration.scales.is_fp8() {
                checked.fp8(data, side, (token, head), &codes[row * width..]);
                continue;
            }
            for block in 0..data.blocks() {
                let at = data.scale_at(side, slot, head, block);
                written[at] = true;
                checked.block(data, side, (token, head, block), scales[at], &codes[row * width..]);
            }
        }
    }
    // What no token owns stays as it was.
    let stray = |bytes: &[u8], owned: &dyn Fn(usize) -> bool| {
        bytes.iter().enumerate().position(|(n, byte)| *byte != BEFORE && !owned(n))
    };
    for (name, found) in
        [("codes", stray(codes, &|n| rows[n / width])), ("scales", stray(scales, &|n| written[n]))]
    {
        if let Some(byte) = found {
            checked.add((usize::MAX, 0, 0), || {
                format!("byte {byte} of the {name} belongs to no token, but was written")
            });
        }
    }
    checked.result(side)
}

struct Checked {
    wrong: Option<Wrong>,
    mismatches: u64,
}

impl Checked {
    fn add(&mut self, at: (usize, usize, usize), note: impl FnOnce() -> String) {
        self.mismatches += 1;
        if self.wrong.as_ref().is_none_or(|wrong| at < wrong.at) {
            self.wrong = Some(Wrong { at, note: note() });
        }
    }

    /// Judges the elements of eight bits of a head of a token: x / scale, rounded, at most the largest magnitude.
    fn fp8(&mut self, data: &Data, side: Side, (token, head): (usize, usize), row: &[u8]) {
        let source = &data.sources[side as usize];
        let first = (token * data.case.heads + head) * data.configuration.head;
        let nearest = if data.configuration.scales == Scales::E5m2 { nearest_e5m2 } else { nearest_e4m3 };
        for d in 0..data.configuration.head {
            let x = bf16(source.elements[first + d]);
            let code = row[d];
            let (least, greatest) = allowed(x.abs(), f64::from(source.global), nearest);
            // A zero has either sign.
            let signed = code & 0x7F == 0 || (code & 0x80 != 0) == (x < 0.0);
            if !(least..=greatest).contains(&(code & 0x7F)) || !signed {
                self.add((token, head, d), || {
                    let sign = if x < 0.0 { 0x80 } else { 0 };
                    format!("code {code:#04x} instead of {:#04x} to {:#04x}", least | sign, greatest | sign)
                });
            }
        }
    }

    /// Judges the scale of a block, and its codes on the scale that was stored.
    fn block(
        &mut self,
        data: &Data,
        side: Side,
        (token, head, block): (usize, usize, usize),
        scale: u8,
        row: &[u8],
    ) {
        let source = &data.sources[side as usize];
        let first = (token * data.case.heads + head) * data.configuration.head + block * BLOCK;
        let elements: Vec<f64> =
            source.elements[first..first + BLOCK].iter().map(|bits| bf16(*bits)).collect();
        let global = f64::from(source.global);
        let most = elements.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let (least, greatest) = allowed(most, 6.0 * global, nearest_scale);
        if !(least..=greatest).contains(&scale) {
            let want = if least == greatest {
                format!("{least:#04x}")
            } else {
                format!("{least:#04x} to {greatest:#04x}")
            };
            self.add((token, head, block * BLOCK), || format!("scale {scale:#04x} instead of {want}"));
            // Codes of a wrong scale are judged on it all the same, unless it is a NaN.
            if scale > LARGEST_SCALE {
                return;
            }
        }
        let unit = value_of_scale(scale) * global;
        for (i, x) in elements.iter().enumerate() {
            let at = block * BLOCK + i;
            let code = row[at / 2] >> (at % 2 * 4) & 15;
            let (least, greatest) = if unit == 0.0 { (0, 0) } else { allowed(x.abs(), unit, nearest_code) };
            let magnitude = code & 7;
            // A zero has either sign.
            let signed = magnitude == 0 || (code & 8 != 0) == (*x < 0.0);
            if !(least..=greatest).contains(&magnitude) || !signed {
                self.add((token, head, at), || {
                    let sign = if *x < 0.0 { 8 } else { 0 };
                    let (least, greatest) = (least | sign, greatest | sign);
                    let want = if least == greatest {
                        format!("{least:#x}")
                    } else {
                        format!("{least:#x} or {greatest:#x}")
                    };
                    format!("code {code:#x} instead of {want}, on the stored scale {scale:#04x}")
                });
            }
        }
    }

    fn result(self, side: Side) -> StageResult {
        let Some(Wrong { at: (token, head, d), note }) = self.wrong else {
            return StageResult { verdict: Verdict::Pass, ..StageResult::skipped(side.stage(), "") };
        };
        let place = (token != usize::MAX).then(|| Place::at(&[("token", token), ("head", head), ("d", d)]));
        StageResult {
            stage: side.stage().into(),
            verdict: Verdict::Fail,
            // A byte is right or wrong.
            worst_over_bound: f64::INFINITY,
            mismatches: self.mismatches,
            place,
            note,
        }
    }
}

#[cfg(test)]
mod tests {
    use numerics::convert::f32_to;
    use numerics::{Format, Rounding};

    use super::*;

    #[test]
    fn codes_round_to_nearest_even() {
        for (n, middle) in MIDPOINTS.into_iter().enumerate() {
            let (below, above) = (n as u8, n as u8 + 1);
            assert_eq!(nearest_code(middle), if below % 2 == 0 { below } else { above }, "{middle}");
            assert_eq!((nearest_code(middle * 0.999), nearest_code(middle * 1.001)), (below, above));
        }
        assert_eq!((nearest_code(0.0), nearest_code(1e9)), (0, 7));
        for code in 0..=LARGEST_SCALE {
            assert_eq!(nearest_scale(value_of_scale(code)), code);
        }
        assert_eq!((nearest_scale(1e9), nearest_scale(f64::midpoint(0.0, 1.0 / 512.0))), (LARGEST_SCALE, 0));
    }

    #[test]
    fn eight_bit_types_agree_with_conversions() {
        for (nearest, format) in [(nearest_e4m3 as fn(f64) -> u8, Format::E4m3), (nearest_e5m2, Format::E5m2)]
        {
            for n in 0..100_000_u64 {
                let bits = numerics::random::at(3, n);
                let x = f64::from_bits((1023 - 20 + (bits >> 52) % 40) << 52 | bits & ((1 << 52) - 1)) as f32;
                let code = f32_to(format, x, Rounding::NearestEven, true, false) as u8;
                assert_eq!(nearest(f64::from(x)), code, "{format:?} {x:e}");
            }
        }
    }

    #[test]
    fn a_divisor_that_is_no_power_of_two_leaves_two_codes_at_a_midpoint() {
        assert_eq!(allowed(2.5, 1.0, nearest_code), (4, 4));
        // A reciprocal of 3 rounds, so that a product with it may be on either side of a midpoint.
        assert_eq!(allowed(7.5, 3.0, nearest_code), (4, 5));
        assert_eq!(allowed(2.6, 1.0, nearest_code), (5, 5));
    }
}
