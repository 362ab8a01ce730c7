//! The values of e2m1, e4m3, ue8m0, ue4m3 and bf16 codes, and rounding to them; written for this reference alone.

/// e2m1 magnitudes by code (OCP MX 1.0, table 5).
const E2M1: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// The largest finite e4m3.
pub const E4M3_MAX: f64 = 448.0;

/// 2^`e`, exact for every exponent of a double, subnormals included.
#[must_use]
pub fn exp2(e: i32) -> f64 {
    if (-1022..=1023).contains(&e) {
        f64::from_bits(((e + 1023) as u64) << 52)
    } else if (-1074..-1022).contains(&e) {
        f64::from_bits(1 << (e + 1074))
    } else if e > 0 {
        f64::INFINITY
    } else {
        0.0
    }
}

/// The value of an e2m1 code; bits above the lower four are ignored.
#[must_use]
pub fn e2m1(code: u8) -> f64 {
    let magnitude = E2M1[usize::from(code & 7)];
    if code & 8 == 0 { magnitude } else { -magnitude }
}

/// The value of an e4m3 code: 1-4-3, bias 7, all ones is NaN, no infinity.
#[must_use]
pub fn e4m3(code: u8) -> f64 {
    let (exponent, mantissa) = (i32::from(code >> 3 & 0xF), f64::from(code & 7));
    let magnitude = match (exponent, code & 7) {
        (15, 7) => f64::NAN,
        (0, _) => mantissa * exp2(-9),
        _ => (8.0 + mantissa) * exp2(exponent - 10),
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// The value of a ue8m0 code: 2^(code − 127), 0xFF is NaN.
#[must_use]
pub fn ue8m0(code: u8) -> f64 {
    if code == 0xFF { f64::NAN } else { exp2(i32::from(code) - 127) }
}

/// The value of a ue4m3 code: e4m3 without its sign, which is ignored.
#[must_use]
pub fn ue4m3(code: u8) -> f64 {
    e4m3(code & 0x7F)
}

/// The value of bf16 bits.
#[must_use]
pub fn bf16(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// Rounds to an integer, ties to even.
fn round(x: f64) -> f64 {
    x.round_ties_even()
}

/// The bf16 nearest to `x`, ties to even; overflow is infinite, NaN is 0x7FFF.
#[must_use]
pub fn to_bf16(x: f64) -> u16 {
    if x.is_nan() {
        return 0x7FFF;
    }
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = x.abs();
    if magnitude == f64::INFINITY {
        return sign | 0x7F80;
    }
    // The position of the lowest bit: seven below the leading one, or that of the subnormals.
    let unit = exponent(magnitude).max(-126) - 7;
    let steps = round(magnitude * exp2(-unit)) as u64;
    // A binade is its 128 steps starting at 128, so that exponent field and steps add up, including carries into the next one.
    let bits = ((unit + 133) as u64) * 128 + steps;
    sign | bits.min(0x7F80) as u16
}

/// ⌊log2 x⌋ of a positive finite number.
#[must_use]
pub fn exponent(x: f64) -> i32 {
    let field = (x.to_bits() >> 52 & 0x7FF) as i32;
    if field == 0 {
        // Subnormal doubles: by the leading one of the fraction; 0 counts as the smallest.
        return -1011 - (x.to_bits() | 1).leading_zeros() as i32;
    }
    field - 1023
}

/// The e4m3 code nearest to `x`, ties to even, overflow is ±448 (PTX `cvt.rn.satfinite`); NaN is 0x7F.
#[must_use]
pub fn to_e4m3(x: f64) -> u8 {
    if x.is_nan() {
        return 0x7F;
    }
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = x.abs().min(E4M3_MAX);
    let unit = exponent(magnitude.max(exp2(-6))) - 3;
    let steps = round(magnitude * exp2(-unit)) as u8;
    // Codes of a binade are its eight steps above the codes below; 16 steps are the next binade's first.
    let binade = (unit + 9) as u8;
    sign | (binade * 8 + steps).min(0x7E)
}

/// The e2m1 code nearest to `x`, ties to even, overflow is ±6; NaN is 6 (PTX `cvt.rn.satfinite`).
#[must_use]
pub fn to_e2m1(x: f64) -> u8 {
    if x.is_nan() {
        return 0x7;
    }
    let sign = if x.is_sign_negative() { 0x8 } else { 0 };
    let magnitude = x.abs().min(6.0);
    let unit = exponent(magnitude.max(1.0)) - 1;
    let steps = round(magnitude * exp2(-unit)) as u8;
    // Codes of a binade are its two steps above the codes below.
    sign | ((unit + 1) as u8 * 2 + steps).min(0x7)
}

/// The next bf16 bits towards +∞ or −∞ in value; NaN and the infinity on that side stay.
#[must_use]
pub fn bf16_neighbour(bits: u16, up: bool) -> u16 {
    let order = bf16_order(bits);
    if order.unsigned_abs() > 0x7F80 || (order == 0x7F80 && up) || (order == -0x7F80 && !up) {
        return bits;
    }
    bf16_of_order(if up { order + 1 } else { order - 1 })
}

/// The rank of bits in value order; ±0 are both 0.
#[must_use]
pub fn bf16_order(bits: u16) -> i32 {
    let magnitude = i32::from(bits & 0x7FFF);
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

fn bf16_of_order(order: i32) -> u16 {
    if order < 0 { 0x8000 | order.unsigned_abs() as u16 } else { order as u16 }
}
