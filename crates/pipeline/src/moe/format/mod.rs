//! Operand formats: elements, block scales, and the quantization of values to codes. One file per format.

mod bf16;
mod four_over_six;
mod mxfp4;
mod mxfp8;
mod nvfp4;

use super::reference::formats;
use super::reference::interval::Interval;
use crate::moe::case::{Format, FormatPair, ScaleRule};

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// Four bits, two in a byte, the first in the low nibble.
    E2m1,
    /// A byte.
    E4m3,
    /// Two bytes, the low one first.
    Bf16,
}

/// The type of block scales, one byte each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockScale {
    /// A power of two for each 32 elements.
    Ue8m0,
    /// Four significant bits for each 16 elements.
    Ue4m3,
}

/// Quantizes a block of values under a global scale to its scale and codes.
type Quantize = fn(ScaleRule, f64, &[f64]) -> (u8, Vec<u16>);

/// One operand format.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    /// Its elements.
    pub element: Element,
    /// Its block scales.
    pub scale: Option<BlockScale>,
    /// Scale and codes of one block of values, with the global scale by which codes and scales are multiplied.
    quantize: Quantize,
    /// The scales that a correct quantizer may store for values within these intervals, whose largest magnitude is within the last.
    scales: fn(ScaleRule, f64, &[Interval], Interval) -> Vec<u8>,
    /// The relative error allowed in a quantizer's quotient of value and scales.
    pub slack: f64,
}

impl Element {
    /// Bits of a code.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Self::E2m1 => 4,
            Self::E4m3 => 8,
            Self::Bf16 => 16,
        }
    }

    /// Bytes of `count` elements.
    #[must_use]
    pub const fn bytes(self, count: usize) -> usize {
        count * self.bits() / 8
    }

    /// The value of a code.
    #[must_use]
    pub fn value(self, code: u16) -> f64 {
        match self {
            Self::E2m1 => formats::e2m1(code as u8),
            Self::E4m3 => formats::e4m3(code as u8),
            Self::Bf16 => formats::bf16(code),
        }
    }

    /// Returns the nearest code, ties to even; e2m1 and e4m3 saturate.
    #[must_use]
    pub fn nearest(self, x: f64) -> u16 {
        match self {
            Self::E2m1 => formats::to_e2m1(x).into(),
            Self::E4m3 => formats::to_e4m3(x).into(),
            Self::Bf16 => formats::to_bf16(x),
        }
    }

    /// The largest exponent of a finite element.
    #[must_use]
    pub const fn largest_exponent(self) -> i32 {
        match self {
            Self::E2m1 => 2,
            Self::E4m3 => 8,
            Self::Bf16 => 127,
        }
    }

    /// Returns the code at index `at` of packed bytes.
    #[must_use]
    pub fn code(self, bytes: &[u8], at: usize) -> u16 {
        let byte = |n: usize| u16::from(bytes.get(n).copied().unwrap_or(0));
        match self {
            Self::E2m1 => byte(at / 2) >> (4 * (at % 2)) & 15,
            Self::E4m3 => byte(at),
            Self::Bf16 => byte(2 * at) | byte(2 * at + 1) << 8,
        }
    }

    /// Packs codes into bytes as stored.
    #[must_use]
    pub fn packed(self, codes: &[u16]) -> Vec<u8> {
        match self {
            Self::E2m1 => codes
                .chunks(2)
                .map(|pair| (pair[0] & 15 | pair.get(1).copied().unwrap_or(0) << 4) as u8)
                .collect(),
            Self::E4m3 => codes.iter().map(|code| *code as u8).collect(),
            Self::Bf16 => codes.iter().flat_map(|code| code.to_le_bytes()).collect(),
        }
    }

    /// Unpacks the codes of packed bytes.
    #[must_use]
    pub fn codes(self, bytes: &[u8]) -> Vec<u16> {
        (0..bytes.len() * 8 / self.bits()).map(|at| self.code(bytes, at)).collect()
    }

    /// The code one above or below, within the bits of a code.
    #[must_use]
    pub const fn neighbour(self, code: u16, up: bool) -> u16 {
        let next = if up { code.wrapping_add(1) } else { code.wrapping_sub(1) };
        next & (u16::MAX >> (16 - self.bits()))
    }
}

impl BlockScale {
    /// Elements that share a scale.
    #[must_use]
    pub const fn block(self) -> usize {
        match self {
            Self::Ue8m0 => 32,
            Self::Ue4m3 => 16,
        }
    }

    /// The value of a code.
    #[must_use]
    pub fn value(self, code: u8) -> f64 {
        match self {
            Self::Ue8m0 => formats::ue8m0(code),
            Self::Ue4m3 => formats::ue4m3(code),
        }
    }

    /// The code of 1.0.
    #[must_use]
    pub const fn one(self) -> u8 {
        match self {
            Self::Ue8m0 => 0x7F,
            Self::Ue4m3 => 0x38,
        }
    }

    /// The code of NaN that a quantizer stores.
    #[must_use]
    pub const fn nan(self) -> u8 {
        match self {
            Self::Ue8m0 => 0xFF,
            Self::Ue4m3 => 0x7F,
        }
    }

    /// Whether a code is NaN. The sign bit of ue4m3 is ignored.
    #[must_use]
    pub const fn is_nan(self, code: u8) -> bool {
        match self {
            Self::Ue8m0 => code == 0xFF,
            Self::Ue4m3 => code & 0x7F == 0x7F,
        }
    }

    /// The largest finite code.
    #[must_use]
    pub const fn largest(self) -> u8 {
        self.nan() - 1
    }
}

impl Format {
    /// Its description.
    #[must_use]
    pub const fn description(self) -> &'static Description {
        match self {
            Self::Mxfp8 => &mxfp8::DESCRIPTION,
            Self::Mxfp4 => &mxfp4::DESCRIPTION,
            Self::Nvfp4 => &nvfp4::DESCRIPTION,
            Self::Bf16 => &bf16::DESCRIPTION,
        }
    }

    /// Its elements.
    #[must_use]
    pub const fn element(self) -> Element {
        self.description().element
    }

    /// Its block scales.
    #[must_use]
    pub const fn scale(self) -> Option<BlockScale> {
        self.description().scale
    }

    /// Whether one f32 scale per expert matrix multiplies the block scales.
    #[must_use]
    pub const fn has_global(self) -> bool {
        matches!(self, Self::Nvfp4)
    }

    /// Elements that are quantized together; 32 in formats without scales.
    #[must_use]
    pub const fn block(self) -> usize {
        match self.scale() {
            Some(scale) => scale.block(),
            None => 32,
        }
    }

    /// Scales of `count` elements.
    #[must_use]
    pub const fn scales(self, count: usize) -> usize {
        match self.scale() {
            Some(scale) => count / scale.block(),
            None => 0,
        }
    }

    /// Bytes of `count` elements.
    #[must_use]
    pub const fn bytes(self, count: usize) -> usize {
        self.element().bytes(count)
    }

    /// Quantizes one block; returns its scale and codes.
    #[must_use]
    pub fn quantize(self, rule: ScaleRule, global: f32, values: &[f64]) -> (u8, Vec<u16>) {
        (self.description().quantize)(rule, f64::from(global), values)
    }

    /// Quantizes a row; returns its packed codes and its scales.
    #[must_use]
    pub fn quantize_row(self, rule: ScaleRule, global: f32, values: &[f64]) -> (Vec<u8>, Vec<u8>) {
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for block in values.chunks(self.block()) {
            let (scale, elements) = self.quantize(rule, global, block);
            codes.extend(elements);
            if self.scale().is_some() {
                scales.push(scale);
            }
        }
        (self.element().packed(&codes), scales)
    }

    /// Returns the scales, ascending, that may be stored for values within these intervals, whose largest magnitude is within `amax`.
    #[must_use]
    pub fn allowed_scales(
        self,
        rule: ScaleRule,
        global: f32,
        values: &[Interval],
        amax: Interval,
    ) -> Vec<u8> {
        (self.description().scales)(rule, f64::from(global), values, amax)
    }

    /// Decodes a stored row, with block scales but without the global scale.
    #[must_use]
    pub fn decoded(self, bytes: &[u8], scales: &[u8]) -> Vec<f64> {
        let (element, block) = (self.element(), self.block());
        let of = |at: usize| match self.scale() {
            Some(scale) => scale.value(scales.get(at / block).copied().unwrap_or(scale.nan())),
            None => 1.0,
        };
        (0..bytes.len() * 8 / element.bits())
            .map(|at| element.value(element.code(bytes, at)) * of(at))
            .collect()
    }
}

impl FormatPair {
    /// Elements that share a scale along K: in both operands or, with bf16 activations, in the weights.
    #[must_use]
    pub const fn block(self) -> usize {
        self.weight().block()
    }

    /// Whether a per-expert f32 scale multiplies the sums.
    #[must_use]
    pub const fn has_global(self) -> bool {
        self.activation().has_global() || self.weight().has_global()
    }

    /// Whether both operands are e2m1, which `mma` takes packed, 64 along K at once.
    #[must_use]
    pub const fn is_fp4(self) -> bool {
        matches!((self.activation().element(), self.weight().element()), (Element::E2m1, Element::E2m1))
    }
}
