//! A row of activations or a column of weights, decoded: values, scales, and the known extent of their products.

use super::formats::{bf16, e4m3, exponent};
use super::gemm::dot;
use super::sum::Extent;
use crate::moe::case::Format;
use crate::moe::format::{BlockScale, Element};

/// The scale of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// The scale; 0 if it is NaN, which [`Line::nan`] reports.
    pub value: f64,
    /// The exponent that it counts with: that of the smallest normal number if it is subnormal.
    pub high: i32,
    /// It is a multiple of 2^`low`.
    pub low: i32,
    /// Whether it is a power of two: a product with it then has the sum of the exponents.
    pub is_power: bool,
}

impl Scale {
    const ONE: Self = Self { value: 1.0, high: 0, low: 0, is_power: true };

    fn from_code(scale: BlockScale, code: u8) -> Self {
        if scale.is_nan(code) {
            return Self { value: 0.0, ..Self::ONE };
        }
        let value = scale.value(code);
        match scale {
            BlockScale::Ue8m0 => {
                let power = i32::from(code) - 127;
                Self { value, high: power, low: power, is_power: true }
            }
            BlockScale::Ue4m3 => {
                let (field, mantissa) = (i32::from(code >> 3 & 0xF), i32::from(code & 7));
                let significand = if field == 0 { mantissa } else { 8 + mantissa };
                let low = field.max(1) - 10 + significand.trailing_zeros().min(3) as i32;
                Self { value, high: field.max(1) - 7, low, is_power: significand.count_ones() == 1 }
            }
        }
    }
}

/// A row of activations or a column of weights, decoded.
#[derive(Debug, Clone)]
pub struct Line {
    /// Values without their scales.
    pub values: Vec<f64>,
    /// The scales, by block.
    pub scales: Vec<Scale>,
    /// Elements of a block.
    pub block: usize,
    /// The element type of the values.
    pub element: Element,
    /// Extents without scales, by step or, if groups are terms, by group.
    pub(super) extents: Vec<Extent>,
    /// Whether a scale or an element is NaN.
    pub nan: bool,
    /// Whether an element is infinite: every product with it is infinite or NaN.
    pub infinite: bool,
}

impl Default for Line {
    fn default() -> Self {
        let (values, scales, extents) = (Vec::new(), Vec::new(), Vec::new());
        Self { values, scales, block: 32, element: Element::E2m1, extents, nan: false, infinite: false }
    }
}

/// The contribution of an e2m1 magnitude code to an extent: nominal exponent and lowest bit. Its one subnormal, 0.5, counts as 2^0.
const E2M1_EXTENTS: [(i32, i32); 8] = [(0, 0), (0, -1), (0, 0), (0, -1), (1, 1), (1, 0), (2, 2), (2, 1)];

impl Line {
    /// Reads codes of `format` and their scales, for steps of `chunk` products. Without scales, a line uses ones for
    /// blocks of `block` elements.
    pub fn read(&mut self, format: Format, block: usize, codes: &[u8], scales: &[u8], chunk: usize) {
        (self.nan, self.infinite) = (false, false);
        self.element = format.element();
        self.scales.clear();
        match format.scale() {
            Some(scale) => {
                self.block = scale.block();
                self.scales.extend(scales.iter().map(|code| Scale::from_code(scale, *code)));
                self.nan = scales.iter().any(|code| scale.is_nan(*code));
            }
            None => {
                self.block = block;
                let blocks = codes.len() * 8 / self.element.bits() / block;
                self.scales.resize(blocks, Scale::ONE);
            }
        }
        self.values.clear();
        self.extents.clear();
        match self.element {
            Element::E4m3 => self.read_e4m3(codes, chunk),
            Element::E2m1 => self.read_e2m1(codes, chunk),
            Element::Bf16 => self.read_bf16(codes, chunk),
        }
    }

    /// Reads these codes as scales of the other type.
    pub fn reread_scales(&mut self, scale: BlockScale, codes: &[u8]) {
        let (other, bits) = match scale {
            BlockScale::Ue8m0 => (BlockScale::Ue4m3, 0x7F),
            BlockScale::Ue4m3 => (BlockScale::Ue8m0, 0xFF),
        };
        self.scales.clear();
        self.scales.extend(codes.iter().map(|code| Scale::from_code(other, code & bits)));
        let is_nan = codes.iter().any(|code| other.is_nan(code & bits));
        self.nan = is_nan || self.values.iter().any(|x| x.is_nan());
    }

    fn read_e4m3(&mut self, codes: &[u8], chunk: usize) {
        self.values.extend(codes.iter().map(|c| e4m3(*c)));
        self.nan |= self.values.iter().any(|x| x.is_nan());
        self.extents.extend(codes.chunks(chunk).map(|codes| {
            let mut of = Extent::NOTHING;
            for code in codes.iter().filter(|c| *c & 0x7F != 0) {
                // Subnormals keep the exponent of the smallest normal number (docs/numerics.md, 4.1).
                of.high = of.high.max(exponent(e4m3(*code).abs()).max(-6));
                let (field, mantissa) = (i32::from(code >> 3 & 0xF), i32::from(code & 7));
                let significand = if field == 0 { mantissa } else { 8 + mantissa };
                of.low = of.low.min(field.max(1) - 10 + significand.trailing_zeros() as i32);
                of.count += 1;
            }
            of
        }));
    }

    fn read_e2m1(&mut self, bytes: &[u8], chunk: usize) {
        self.values.extend(bytes.iter().flat_map(|b| PAIRS[usize::from(*b)]));
        if chunk == 1 {
            let codes = bytes.iter().flat_map(|b| [b & 7, b >> 4 & 7]);
            self.extents.extend(codes.map(|c| extent(1 << c, u32::from(c != 0))));
            return;
        }
        self.extents.extend(bytes.chunks(chunk / 2).map(|bytes| {
            let (seen, zeros) = bytes.iter().fold((0, 0), |(seen, zeros), b| {
                let (low, high) = (b & 7, b >> 4 & 7);
                (seen | 1_u32 << low | 1 << high, zeros + u32::from(low == 0) + u32::from(high == 0))
            });
            extent(seen, 2 * bytes.len() as u32 - zeros)
        }));
    }

    fn read_bf16(&mut self, bytes: &[u8], chunk: usize) {
        self.values.extend(bytes.as_chunks::<2>().0.iter().map(|b| bf16(u16::from_le_bytes(*b))));
        self.nan |= self.values.iter().any(|x| x.is_nan());
        self.infinite = self.values.iter().any(|x| x.is_infinite());
        self.extents.extend(self.values.chunks(chunk).map(|values| {
            let mut of = Extent::NOTHING;
            for x in values.iter().filter(|x| **x != 0.0 && x.is_finite()) {
                let e = exponent(x.abs());
                of.high = of.high.max(e.max(-126));
                let fraction = x.to_bits() & ((1 << 52) - 1) | 1 << 52;
                of.low = of.low.min(e - 52 + fraction.trailing_zeros() as i32);
                of.count += 1;
            }
            of
        }));
    }

    /// The sum of the products of block `at`, block scales included; exact.
    #[must_use]
    pub fn block_dot(&self, other: &Self, at: usize) -> f64 {
        self.raw_dot(other, at) * (self.scales[at].value * other.scales[at].value)
    }

    /// The sum of the products of block `at`, without block scales; exact.
    #[must_use]
    pub fn raw_dot(&self, other: &Self, at: usize) -> f64 {
        let of = at * other.block..(at + 1) * other.block;
        dot(&self.values[of.clone()], &other.values[of])
    }
}

/// Every byte of two e2m1, decoded.
const PAIRS: [[f64; 2]; 256] = {
    const MAGNITUDES: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    const fn value(code: usize) -> f64 {
        if code & 8 == 0 { MAGNITUDES[code & 7] } else { -MAGNITUDES[code & 7] }
    }
    let mut table = [[0.0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = [value(byte & 15), value(byte >> 4)];
        byte += 1;
    }
    table
};

/// The extent of magnitude codes, one bit each.
fn extent(seen: u32, count: u32) -> Extent {
    let mut of = Extent { count, ..Extent::NOTHING };
    for (code, (high, low)) in E2M1_EXTENTS.iter().enumerate().skip(1) {
        if seen >> code & 1 == 1 {
            of.high = of.high.max(*high);
            of.low = of.low.min(*low);
        }
    }
    of
}
