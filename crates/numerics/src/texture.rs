//! Coordinates, weights and sums of texture fetches, as an H200 computes them: every bit of 1.2 million fetches agrees.
//!
//! The programming guide ("Texture Fetching") says that a linear filter weighs with fractions of 9 bits, 8 of them behind the point. How
//! they come about, and how a weighted sum is rounded, was derived from what the GPU returns (`docs/numerics.md`, "Textures").

/// Fractional bits of a coordinate and of a weight.
const FRACTION: u32 = 8;
/// The weight of one.
const ONE: i64 = 1 << FRACTION;
/// Fractional bits that remain of a normalised coordinate.
const NORMALISED: f64 = (1u64 << 21) as f64;
/// Bits behind the leading one of the largest value to which all values of a sum are truncated.
const ALIGNED: i32 = 27;

/// A coordinate in texels.
#[must_use]
pub fn position(coordinate: f32, size: u32, normalised: bool) -> f64 {
    let x = f64::from(coordinate);
    if normalised { (x * NORMALISED).floor() / NORMALISED * f64::from(size) } else { x }
}

/// The texel that a coordinate lies in.
#[must_use]
pub fn nearest(position: f64) -> i64 {
    position.floor() as i64
}

/// A coordinate relative to the centres of texels, in 256ths of a texel: the lower texel, and the weight of the next one.
#[must_use]
pub fn between(position: f64) -> (i64, i64) {
    let fixed = (position * ONE as f64 + 0.5).floor() as i64 - ONE / 2;
    (fixed >> FRACTION, fixed & (ONE - 1))
}

fn half_up(product: i64) -> i64 {
    (product + ONE / 2) >> FRACTION
}

/// The weights of the two texels of a line, of the four of a square, or of the eight of a cube; x is the lowest bit of their number. They
/// have 8 bits behind the point and add up to one.
#[must_use]
pub fn weights(fractions: &[i64]) -> Vec<i64> {
    match *fractions {
        [a] => vec![ONE - a, a],
        [a, b] => {
            let both = half_up(a * b);
            vec![ONE - a - b + both, a - both, b - both, both]
        }
        [a, b, c] => {
            let mut all = part_weights(ONE - c, &[a, b]);
            all.extend(part_weights(c, &[a, b]));
            all
        }
        _ => vec![ONE],
    }
}

/// The weights of the texels of a line or a square that have this weight together: those of a slice of a cube, or of a mipmap level.
#[must_use]
pub fn part_weights(weight: i64, fractions: &[i64]) -> Vec<i64> {
    let Some((a, rest)) = fractions.split_first() else { return vec![weight] };
    let right = half_up(weight * a);
    let (left, [b, ..]) = (weight - right, rest) else { return vec![weight - right, right] };
    let (low, high) = (half_up(left * (ONE - b)), half_up(right * b));
    vec![low, right - high, left - low, high]
}

/// The weighted sum of values of 32 bits, or of 16 if `half`: each is truncated to 27 bits behind the leading one of the largest, the exact
/// sum is rounded to nearest, ties away from zero.
#[must_use]
pub fn weighted(values: &[f32], weights: &[i64], half: bool) -> f32 {
    // Subnormal numbers of 32 bits are zeros.
    let values = values.iter().map(|value| if !half && value.is_subnormal() { 0.0 } else { *value });
    let weighed = || values.clone().zip(weights).filter(|(_, weight)| **weight != 0);
    if weighed().any(|(value, _)| !value.is_finite()) {
        let sum: f32 = weighed().filter(|(value, _)| !value.is_finite()).map(|(value, _)| value).sum();
        return if sum.is_nan() { f32::from_bits(0x7FFF_FFFF) } else { sum };
    }
    let exponent = |value: f32| (value != 0.0).then(|| exponent(f64::from(value)));
    let Some(largest) = weighed().filter_map(|(value, _)| exponent(value)).max() else { return 0.0 };
    let unit = 2f64.powi(largest - ALIGNED);
    let sum: i64 = weighed().map(|(value, weight)| (f64::from(value) / unit).trunc() as i64 * weight).sum();
    if sum == 0 {
        return 0.0;
    }
    let magnitude = sum.unsigned_abs();
    // Bits of the result: fewer below the smallest normal number.
    let top = 63 - magnitude.leading_zeros() as i32 + largest - ALIGNED - FRACTION as i32;
    let (digits, least) = if half { (11, -24) } else { (24, -149) };
    let drop = (top - (digits - 1)).max(least) - (largest - ALIGNED - FRACTION as i32);
    let rounded = match u32::try_from(drop) {
        Ok(0) | Err(_) => magnitude,
        Ok(drop) if drop > 62 => 0,
        Ok(drop) => (magnitude + (1 << (drop - 1))) >> drop << drop,
    };
    let value = rounded as f64 * 2f64.powi(largest - ALIGNED - FRACTION as i32);
    let value = (if sum < 0 { -value } else { value }) as f32;
    if !half && value.is_subnormal() { 0.0 } else { value }
}

/// The exponent of the leading bit of a value that is not zero.
fn exponent(value: f64) -> i32 {
    // A 32-bit float is a normal 64-bit one.
    ((value.to_bits() >> 52 & 0x7FF) as i32) - 1023
}

/// The largest number of `bits` (8 or 16) that stands for a fraction: that of one.
#[must_use]
pub fn most(bits: u32, signed: bool) -> i64 {
    (1 << (bits - u32::from(signed))) - 1
}

/// The fraction that a number of `bits` stands for.
#[must_use]
pub fn fraction(value: i64, bits: u32, signed: bool) -> f32 {
    let most = most(bits, signed);
    (value.max(-most) as f64 / most as f64) as f32
}

/// The weighted sum of numbers that stand for fractions. The exact sum is rounded to a fraction of 16 bits, ties up.
#[must_use]
pub fn weighted_fraction(values: &[i64], weights: &[i64], bits: u32, signed: bool) -> f32 {
    let most_of = |bits| most(bits, signed);
    let sum: i64 =
        values.iter().zip(weights).map(|(value, weight)| (*value).max(-most_of(bits)) * weight).sum();
    let (from, to) = (most_of(bits) * ONE, most_of(16));
    fraction((2 * sum * to + from).div_euclid(2 * from), 16, signed)
}

/// A number of 16 bits as one of 32. The payload of a NaN is kept, as an H200 keeps it.
#[must_use]
pub fn half_to_single(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), u32::from(bits & 1023));
    match exponent {
        31 => f32::from_bits(u32::from(bits >> 15) << 31 | 0x7F80_0000 | fraction << 13),
        0 => sign * fraction as f32 * 2f32.powi(-24),
        _ => sign * (1024 + fraction) as f32 * 2f32.powi(exponent - 25),
    }
}

/// A number of 32 bits as one of 16, rounded to nearest even.
#[must_use]
pub fn single_to_half(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16 & 0x8000) as u16;
    let magnitude = f64::from(value.abs());
    if value.is_nan() {
        return 0x7FFF;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7C00;
    }
    // The unit in the last place: 2⁻²⁴ for subnormal numbers.
    let exponent = if magnitude == 0.0 { -14 } else { exponent(magnitude).max(-14) };
    let units = (magnitude * 2f64.powi(10 - exponent)).round_ties_even() as u32;
    // A carry goes on into the exponent.
    let biased = if units < 1024 { 0 } else { (exponent + 14) as u32 };
    sign | (units + (biased << 10)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_one() {
        for a in 0..256 {
            for b in (0..256).step_by(5) {
                assert_eq!(weights(&[a, b]).iter().sum::<i64>(), ONE);
                for c in (0..256).step_by(37) {
                    let all = weights(&[a, b, c]);
                    assert!(
                        all.iter().all(|weight| *weight >= 0) && all.iter().sum::<i64>() == ONE,
                        "{a} {b} {c}"
                    );
                }
            }
        }
        assert_eq!((weights(&[]), weights(&[64])), (vec![256], vec![192, 64]));
        // Where halves meet, an H200 rounds them up on both sides.
        assert_eq!(weights(&[181, 93, 128]), [24, 58, 13, 33, 24, 58, 13, 33]);
    }

    #[test]
    fn coordinates_are_rounded_to_256ths() {
        assert_eq!((between(0.5), between(1.0), between(0.501953125)), ((0, 0), (0, 128), (0, 1)));
        assert_eq!((between(0.25), nearest(-0.25), nearest(3.99)), ((-1, 192), -1, 3));
        // From an H200: the product of the exact coordinate would round up.
        assert_eq!(between(position(0.606_305_84, 7, true)), (3, 190));
    }

    #[test]
    fn sums_are_rounded_as_an_h200_rounds_them() {
        // Ties go away from zero.
        assert_eq!(weighted(&[-0.55381846, -0.9042337], &[248, 8], false), -0.564_768_97);
        // The smaller value is truncated to 27 bits behind the leading one of the larger one.
        let sum = weighted(&[-3.2844162, 17718.357], &[255, 1], false);
        assert_eq!(sum, ((-26905.0 / 8192.0 * 255.0 + 17718.357421875) / 256.0) as f32);
        assert!(weighted(&[f32::INFINITY, 1.0], &[1, 255], false).is_infinite());
        assert_eq!(weighted(&[f32::NAN, 1.0], &[0, 256], false), 1.0);
        assert!(weighted(&[f32::INFINITY, f32::NEG_INFINITY], &[1, 255], false).is_nan());
        // 32-bit and 16-bit results.
        let third = [1.0, 0.333_251_95];
        assert_eq!(
            (weighted(&third, &[127, 129], true), weighted(&third, &[0, 256], true)),
            (0.664_062_5, 0.333_251_95)
        );
    }

    #[test]
    fn halves_convert_both_ways() {
        for bits in 0..=u16::MAX {
            let value = half_to_single(bits);
            let back = single_to_half(value);
            assert!(back == bits || value.is_nan() && back == 0x7FFF, "{bits:#x} {value} {back:#x}");
        }
        assert_eq!(
            (single_to_half(65519.0), single_to_half(65520.0), half_to_single(0x7C01).to_bits()),
            (0x7BFF, 0x7C00, 0x7F80_2000)
        );
        assert_eq!((single_to_half(2f32.powi(-25)), single_to_half(1.5 * 2f32.powi(-25))), (0, 1));
    }

    #[test]
    fn fractions_have_as_many_bits_as_their_numbers() {
        assert_eq!(
            (fraction(255, 8, false), fraction(-128, 8, true), fraction(1, 16, false)),
            (1.0, -1.0, 1.0 / 65535.0)
        );
        // From an H200.
        assert_eq!(weighted_fraction(&[165, 21], &[255, 1], 8, false), 42260.0 / 65535.0);
        assert_eq!(weighted_fraction(&[-91, 21], &[251, 5], 8, true), -22914.0 / 32767.0);
        assert_eq!(weighted_fraction(&[-91, 21], &[256, 0], 8, true), -23479.0 / 32767.0);
        assert_eq!(weighted_fraction(&[61729, 61510], &[255, 1], 16, false), 61728.0 / 65535.0);
    }
}
