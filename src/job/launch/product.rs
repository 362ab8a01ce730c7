//! Judges a result as a product of two operands by the bound that is derived for it, and explains a wrong one ([`crate::product`]).

use emulator::argument::Element;
use numerics::scale_layout::ScaleLayout;

use super::session::{Buffer, Initial};
use crate::frame::diagnosis::Diagnosis;
use crate::product::{Bound, Matrix, OperandFormat, ResultType, Scaled, Sum, explain};

/// The product that a result must be: `a` [M, K] times `b` [N, K] transposed, both row-major, plus a bias.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    /// The operands. Any order of the sum is allowed.
    problem: crate::product::Product,
    /// Columns N.
    columns: usize,
}

/// An operand as buffers hold it.
#[derive(Debug)]
pub(super) struct Stored {
    /// Its name in the launch file.
    pub(super) name: &'static str,
    /// Its format.
    pub(super) format: OperandFormat,
    /// Its codes: two of e2m1 in a byte.
    pub(super) codes: Vec<u8>,
    /// Its scales, if its format has some.
    pub(super) scales: Option<Vec<u8>>,
    /// The layout of its scales.
    pub(super) layout: ScaleLayout,
    /// The factor of formats that have global scales.
    pub(super) global: f32,
}

/// The judgement of a product.
#[derive(Debug, Clone, PartialEq)]
pub struct ProductResult {
    /// The number of wrong elements.
    pub wrong: usize,
    /// The row and column of the first one, and what is right.
    pub first: Option<([usize; 2], Bound)>,
    /// The largest |found − right| as a multiple of its bound.
    pub largest: f64,
    /// What explains the wrong elements.
    pub diagnosis: Option<Diagnosis>,
}

/// Returns the bytes that a buffer has before the launches, or says what is wrong with it.
///
/// # Errors
/// A message if the launch file does not give its contents as bytes.
pub(super) fn contents(buffer: &Buffer) -> Result<Vec<u8>, String> {
    match &buffer.initial {
        Initial::Bytes(bytes) => Ok(bytes.clone()),
        Initial::Lent(host) => Ok(host.bytes().to_vec()),
        Initial::Unwritten | Initial::Value(_) | Initial::There(_) => Err(format!(
            "buffer `{}` is an operand of a product and has no contents; give it `values`, `file`, `raw` or `random`",
            buffer.name
        )),
    }
}

/// What is wrong with the number of bytes that something has.
fn sized(name: &str, there: usize, wanted: usize, of: &str) -> Result<(), String> {
    if there == wanted {
        return Ok(());
    }
    Err(format!("`{name}` has {there} bytes, not the {wanted} of {of}"))
}

impl Stored {
    const fn bits(&self) -> usize {
        self.format.element().bits() as usize
    }

    /// The operand, of so many rows and elements of K.
    ///
    /// # Errors
    /// A message if codes or scales are not as many.
    fn matrix(self, rows: usize, depth: usize) -> Result<Matrix, String> {
        let (name, element) = (self.name, self.format.element());
        let wanted = rows * depth * self.bits() / 8;
        sized(name, self.codes.len(), wanted, &format!("{rows} rows of {depth} elements"))?;
        let word = self.format.word();
        let (scale, block, scales) = match (self.format.scale(), &self.scales) {
            (None, None) => {
                let words = self.codes.as_chunks().0.iter();
                let value =
                    |bytes: &[u8; 2]| f64::from(element.decode(u32::from(u16::from_le_bytes(*bytes))));
                return Ok(Matrix::Plain { depth, values: words.map(value).collect() });
            }
            (None, Some(_)) => return Err(format!("{word} has no `{name}_scales`")),
            (Some(_), None) => return Err(format!("{word} needs `{name}_scales`")),
            (Some((scale, block)), Some(scales)) => (scale, block, scales),
        };
        let blocks = depth / block;
        let padded = match self.layout {
            ScaleLayout::Linear => String::new(),
            ScaleLayout::Tile128x4 | ScaleLayout::Tile8x4 => {
                let (rows, columns) = self.layout.padded(rows, blocks);
                format!(", padded to {rows} x {columns}")
            }
        };
        let of = format!("{rows} x {blocks} scales{padded}");
        sized(&format!("{name}_scales"), scales.len(), self.layout.size(rows, blocks), &of)?;
        let places = (0..rows).flat_map(|row| (0..blocks).map(move |block| (row, block)));
        let scale_at = |(row, block)| scales.get(self.layout.offset(row, block, blocks)).copied();
        let scales = places.map(|place| scale_at(place).unwrap_or_default()).collect();
        let codes = match self.bits() {
            4 => self.codes.iter().flat_map(|byte| [byte & 15, byte >> 4]).collect(),
            _ => self.codes,
        };
        // Formats of MX have no global scale.
        let global = if self.format == OperandFormat::Nvfp4 { f64::from(self.global) } else { 1.0 };
        Ok(Matrix::Scaled(Scaled { element, depth, codes, scale, block, scales, global }))
    }
}

impl Product {
    /// The product of operands `a` and `b`, with M rows and N columns in this buffer.
    ///
    /// # Errors
    /// A message if they do not fit one another.
    pub(super) fn new(
        [a, b]: [Stored; 2],
        bias: Option<Vec<f64>>,
        [rows, columns]: [usize; 2],
        output: &Buffer,
    ) -> Result<Self, String> {
        let element = output.shape.element;
        let result = match element {
            Element::Bf16 => ResultType::Bf16,
            Element::F16 => ResultType::F16,
            Element::F32 => ResultType::F32,
            _ => {
                return Err(format!(
                    "`product` judges results of bf16, f16 or f32, and buffer `{}` is of {}",
                    output.name,
                    element.name()
                ));
            }
        };
        let bits = a.bits();
        let depth = a.codes.len() * 8 / bits / rows.max(1);
        if depth == 0 || depth * rows * bits != a.codes.len() * 8 || !depth.is_multiple_of(32) {
            return Err(format!(
                "`a` has {} bytes, which are not {rows} rows of a multiple of 32 elements of {bits} bits",
                a.codes.len()
            ));
        }
        if let Some(there) = bias.as_ref().map(Vec::len).filter(|there| *there != columns) {
            return Err(format!("`bias` has {there} elements, not one for each of {columns} columns"));
        }
        let (a, b) = (a.matrix(rows, depth)?, b.matrix(columns, depth)?);
        Ok(Self { problem: crate::product::Product { a, b, bias, sum: Sum::UNKNOWN, result }, columns })
    }

    /// Judges the stored values; the bound allows any order of the sum.
    ///
    /// # Errors
    /// A message if the bounds decide nothing about these operands.
    pub(super) fn judge(&self, element: Element, stored: &[u8]) -> Result<ProductResult, String> {
        let bounds = self.problem.bounds();
        let value = |n: usize| element.code_at(stored, n).map_or(f64::NAN, |code| element.value(code));
        let stored: Vec<f64> = (0..bounds.elements.len()).map(value).collect();
        let (mut decided, mut largest, mut wrong, mut first) = (0, 0.0_f64, 0, None);
        for (n, (bound, found)) in bounds.elements.iter().zip(&stored).enumerate() {
            decided += usize::from(bound.decides());
            if bound.error.is_infinite() {
                continue;
            }
            let off = (found - bound.value).abs();
            let over = if off == 0.0 { 0.0 } else { off / bound.error };
            largest = largest.max(if over.is_nan() { f64::INFINITY } else { over });
            if !bound.admits(*found) {
                wrong += 1;
                first = first.or(Some(([n / self.columns, n % self.columns], *bound)));
            }
        }
        if wrong == 0 && 2 * decided < stored.len() {
            return Err(format!(
                "the bound decides nothing about this product: only {decided} of {} elements are larger than their bounds",
                stored.len()
            ));
        }
        Ok(ProductResult { wrong, first, largest, diagnosis: explain(&self.problem, &bounds, &stored) })
    }
}
