//! Judges a result as a product of block-scaled operands by the bound that is derived for it, and explains a wrong one.
//!
//! The product is the second GEMM of an MoE layer with one expert, whose rows are the rows of the matrix: the same reference, bounds and
//! hypotheses judge it ([`crate::moe::judge`]).

use std::collections::BTreeMap;

use emulator::argument::Element;
use numerics::Rounding;
use numerics::convert::f32_to;
use numerics::format::Format;
use numerics::scale_layout::ScaleLayout;
use record::{StageResult, Verdict};

use super::session::{Buffer, Initial};
use crate::frame::diagnosis::Diagnosis;
use crate::moe::case::FormatPair;
use crate::moe::{Array, Contract, Stage, Tensors, explain, judge};

/// The product that a result must be: `a` [M, K] times `b` [N, K] transposed, both row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    /// The formats of `a` and `b`.
    pub pair: FormatPair,
    /// The codes of `a`, and its scales if the format has some.
    pub a: Vec<u8>,
    /// As `a`.
    pub a_scales: Option<Vec<u8>>,
    /// The codes of `b`.
    pub b: Vec<u8>,
    /// The scales of `b`.
    pub b_scales: Vec<u8>,
    /// The layouts of both operands' scales.
    pub layouts: [ScaleLayout; 2],
    /// The factors on `a` and `b`, of formats that have global scales.
    pub globals: [f32; 2],
    /// The bias of each column, if one is added.
    pub bias: Option<Vec<f32>>,
    /// Rows M and columns N.
    pub dims: [usize; 2],
}

/// The judgement of a product.
#[derive(Debug, Clone, PartialEq)]
pub struct ProductResult {
    /// The verdict, the number of wrong elements, the first one, and what was found there.
    pub result: StageResult,
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

impl Product {
    /// The depth K that the codes of `a` have.
    fn depth(&self) -> usize {
        self.a.len() * 8 / self.pair.activation().element().bits() / self.dims[0].max(1)
    }

    /// Checks that the operands are as large as the result requires; returns what is wrong.
    pub(super) fn misfit(&self, output: &Buffer) -> Option<String> {
        let [rows, columns] = self.dims;
        if !matches!(output.shape.element, Element::Bf16 | Element::F32) {
            let name = output.shape.element.name();
            return Some(format!(
                "`product` judges results of bf16 or f32, and buffer `{}` is of {name}",
                output.name
            ));
        }
        let (a_bits, b_bits) = (self.pair.activation().element().bits(), self.pair.weight().element().bits());
        let depth = self.depth();
        let block = self.pair.block();
        if depth == 0 || depth * rows * a_bits != self.a.len() * 8 || !depth.is_multiple_of(32) {
            return Some(format!(
                "`a` has {} bytes, which are not {rows} rows of a multiple of 32 elements of {a_bits} bits",
                self.a.len()
            ));
        }
        let fits = |name: &str, there: usize, wanted: usize, of: String| {
            (there != wanted).then(|| format!("`{name}` has {there} bytes, not the {wanted} of {of}"))
        };
        let scale = |name: &str, there: Option<usize>, layout: ScaleLayout, lines: usize, has: bool| match (
            there, has,
        ) {
            (Some(there), true) => {
                let (blocks, wanted) = (depth / block, layout.size(lines, depth / block));
                let padded = match layout {
                    ScaleLayout::Linear => String::new(),
                    ScaleLayout::Tile128x4 | ScaleLayout::Tile8x4 => {
                        let (rows, columns) = layout.padded(lines, blocks);
                        format!(", padded to {rows} x {columns}")
                    }
                };
                fits(name, there, wanted, format!("{lines} x {blocks} scales{padded}"))
            }
            (None, false) => None,
            (None, true) => Some(format!("{} needs `{name}`", self.pair.word())),
            (Some(_), false) => Some(format!("{} has no `{name}`", self.pair.word())),
        };
        fits("b", self.b.len(), columns * depth * b_bits / 8, format!("{columns} rows of {depth} elements"))
            .or_else(|| {
                let scaled = self.pair.activation().scale().is_some();
                scale("a_scales", self.a_scales.as_ref().map(Vec::len), self.layouts[0], rows, scaled)
            })
            .or_else(|| scale("b_scales", Some(self.b_scales.len()), self.layouts[1], columns, true))
            .or_else(|| {
                let there = self.bias.as_ref()?.len();
                (there != columns)
                    .then(|| format!("`bias` has {there} elements, not one for each of {columns} columns"))
            })
    }

    /// The product as the tensors of an MoE layer, with these bf16 results.
    fn tensors(&self, stored: Vec<u16>) -> Tensors {
        let [rows, columns] = self.dims;
        let matrix = |data: &[u8], lines: usize| Array {
            shape: vec![lines, data.len() / lines.max(1)],
            data: data.to_vec().into(),
        };
        let weights = |data: &[u8]| Array {
            shape: vec![1, columns, data.len() / columns.max(1)],
            data: data.to_vec().into(),
        };
        let [a_layout, b_layout] = self.layouts;
        let blocks = self.depth() / self.pair.block();
        let one = |value: f32| Array { shape: vec![1], data: vec![value].into() };
        let [a_global, b_global] = self.globals;
        let tokens = (0..rows).map(|row| i32::try_from(row).unwrap_or(i32::MAX)).collect();
        Tensors {
            row_token: Some(Array { shape: vec![rows], data: tokens }),
            row_expert: Some(Array { shape: vec![rows], data: vec![0; rows].into() }),
            a2_codes: Some(matrix(&self.a, rows)),
            a2_scales: self
                .a_scales
                .as_ref()
                .map(|scales| matrix(&linear(scales, a_layout, rows, blocks), rows)),
            a2_global: self.pair.activation().has_global().then(|| one(a_global)),
            w2_blocks: Some(weights(&self.b)),
            w2_scales: Some(weights(&linear(&self.b_scales, b_layout, columns, blocks))),
            w2_global: self.pair.weight().has_global().then(|| one(b_global)),
            w2_bias: self
                .bias
                .as_ref()
                .map(|bias| Array { shape: vec![1, columns], data: bias.clone().into() }),
            fc2_out: Some(Array { shape: vec![rows, columns], data: stored.into() }),
            ..Tensors::default()
        }
    }

    /// Judges the stored values; the bound allows any order of the sum. Values of f32 are rounded to bf16 first, as a kernel that stores
    /// bf16 does: what is right stays right.
    ///
    /// # Errors
    /// A message if no bound can be derived for these operands.
    pub(super) fn judge(&self, element: Element, stored: &[u8]) -> Result<ProductResult, String> {
        let words = match element {
            Element::F32 => {
                stored.as_chunks().0.iter().map(|bytes| bf16(f32::from_le_bytes(*bytes))).collect()
            }
            _ => stored.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect(),
        };
        let tensors = self.tensors(words);
        let metadata: BTreeMap<String, String> = [("format", self.pair.word()), ("top_k", "1")]
            .map(|(key, word)| (key.to_owned(), word.to_owned()))
            .into();
        let contract = Contract::of_dump(&tensors, &metadata).map_err(|error| error.to_string())?;
        let results = judge(&contract, &tensors).map_err(|error| error.to_string())?;
        let found = results.iter().find(|result| result.stage == *Stage::Fc2.word());
        let Some(result) = found.filter(|result| matches!(result.verdict, Verdict::Pass | Verdict::Fail))
        else {
            let why = found.map_or_else(String::new, |result| format!(": {}", result.note));
            return Err(format!("the bound decides nothing about this product{why}"));
        };
        let diagnosis = explain(&contract, &tensors, std::slice::from_ref(result)).map(in_own_words);
        Ok(ProductResult { result: result.clone(), diagnosis })
    }
}

/// The scales of a matrix, one row after the other, without padding; [`Product::misfit`] has checked that all are there.
fn linear(scales: &[u8], layout: ScaleLayout, rows: usize, blocks: usize) -> Vec<u8> {
    let places = (0..rows).flat_map(|row| (0..blocks).map(move |block| layout.offset(row, block, blocks)));
    places.map(|at| scales.get(at).copied().unwrap_or_default()).collect()
}

/// A number rounded to the nearest bf16.
fn bf16(value: f32) -> u16 {
    f32_to(Format::Bf16, value, Rounding::NearestEven, false, false) as u16
}

/// Names the operands of a product as a launch file does.
fn in_own_words(mut diagnosis: Diagnosis) -> Diagnosis {
    let own = |text: &mut String| {
        *text = text.replace("activations of FC2", "operand `a`").replace("weights of FC2", "operand `b`");
    };
    for explanation in &mut diagnosis.explanations {
        own(&mut explanation.what);
        own(&mut explanation.cause);
        explanation.same.iter_mut().for_each(own);
    }
    diagnosis.next.iter_mut().for_each(|(what, _)| own(what));
    if let Some(question) = &mut diagnosis.question {
        own(question);
        let names =
            [("w2_scales", "b_scales"), ("w2_bias", "bias"), ("w2_blocks", "b"), ("w2_global", "b_global")];
        let of_a = [("a2_scales", "a_scales"), ("a2_codes", "a"), ("a2_global", "a_global")];
        for (name, own) in names.into_iter().chain(of_a) {
            *question = question.replace(&format!("`{name}`"), &format!("`{own}`"));
        }
    }
    diagnosis.extent = diagnosis.extent.replace("stage fc2, first at", "first at");
    diagnosis
}
