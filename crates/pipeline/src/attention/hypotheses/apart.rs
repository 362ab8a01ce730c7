//! What would tell two hypotheses apart that explain a dump equally well: an input whose values are alike where they differ.

use std::sync::Arc;

use numerics::random::mix;

use super::{WrongDump, candidates, table};
use crate::attention::dump::Dump;
use crate::attention::element::Element;
use crate::attention::judge::{Pair, Subject};
use crate::frame::search::Cause;

/// An input of a dump.
pub(super) struct Input {
    /// What it is.
    pub(super) name: &'static str,
    /// Fills it with numbers of ordinary size; returns `false` if it is absent.
    fill: fn(&mut Dump) -> bool,
}

/// The inputs, those first that are most often alike.
pub(super) const INPUTS: [Input; 8] = [
    Input { name: "the scales of keys", fill: |dump| fill_scales(dump, 0) },
    Input { name: "the scales of values", fill: |dump| fill_scales(dump, 1) },
    Input { name: "the factors of keys", fill: |dump| fill_factors(dump, 0) },
    Input { name: "the factors of values", fill: |dump| fill_factors(dump, 1) },
    Input { name: "the sinks", fill: |dump| fill_floats(&mut dump.sinks) },
    Input { name: "the values", fill: |dump| fill_elements(dump, 1) },
    Input { name: "the keys", fill: |dump| fill_elements(dump, 0) },
    Input { name: "the queries", fill: |dump| fill_floats(Arc::make_mut(&mut dump.queries).as_mut_slice()) },
];

impl WrongDump<'_> {
    /// Whether two hypotheses expect different outputs of these pairs if an input holds other values.
    pub(super) fn differ_with(&self, input: &Input, variants: [Cause<'_, Dump>; 2], pairs: &[Pair]) -> bool {
        let mut dump = self.dump.clone();
        if !(input.fill)(&mut dump) {
            return false;
        }
        let rows = table::ALL.iter();
        let all = rows.flat_map(|of| candidates([of.name, of.look, of.seen], (of.variants)(&dump)));
        let mut found = [None, None];
        for candidate in all {
            let Some(at) = variants.iter().position(|(name, _)| *name == candidate.what) else { continue };
            found[at] = Some((candidate.variant)());
        }
        let [Some(one), Some(other)] = found else { return false };
        let element = self.dump.output.as_ref().map_or(Element::F32, |output| output.element);
        let expected = |dump: &Dump| -> Option<Vec<_>> {
            let subject = Subject::of_pairs(dump, pairs).ok()?;
            Some(pairs.iter().filter_map(|pair| subject.expected(*pair)).flatten().collect())
        };
        let (Some(one), Some(other)) = (expected(&one), expected(&other)) else { return false };
        let stored = |range: Option<(f64, f64)>| range.map(|(least, _)| least);
        one.iter().zip(&other).any(|(one, other)| {
            stored(one.range(element)).is_some_and(|found| !other.accepts(found, element))
        })
    }
}

/// A number between 1/4 and 9/4, of either sign.
fn number(n: usize) -> f32 {
    let bits = mix(n as u64 ^ 0x5EED);
    let magnitude = 0.25 + (bits % 1024) as f32 / 512.0;
    if bits >> 32 & 1 == 0 { magnitude } else { -magnitude }
}

fn fill_floats(all: &mut [f32]) -> bool {
    all.iter_mut().enumerate().for_each(|(n, x)| *x = number(n));
    !all.is_empty()
}

/// Block scales between 1/4 and 3.5.
fn fill_scales(dump: &mut Dump, side: usize) -> bool {
    let Some(scales) = &mut dump.cache.planes[side].scales else { return false };
    let bytes = Arc::make_mut(&mut scales.bytes);
    bytes.iter_mut().enumerate().for_each(|(n, x)| *x = 0x28 + (mix(n as u64) % 0x1E) as u8);
    true
}

fn fill_factors(dump: &mut Dump, side: usize) -> bool {
    let Some(factors) = &mut dump.cache.planes[side].factors else { return false };
    let (words, _) = Arc::make_mut(&mut factors.bytes).as_chunks_mut::<4>();
    words.iter_mut().enumerate().for_each(|(n, word)| *word = number(n).abs().to_le_bytes());
    true
}

/// Elements of ordinary size; those of records, which hold scales too, stay.
fn fill_elements(dump: &mut Dump, side: usize) -> bool {
    let plane = &mut dump.cache.planes[side];
    if plane.record.is_some() {
        return false;
    }
    let bytes = Arc::make_mut(&mut plane.bytes);
    let bits = |n: usize| mix(n as u64 ^ 0xC0DE);
    match plane.element {
        Element::Nvfp4 => bytes.iter_mut().enumerate().for_each(|(n, x)| *x = bits(n) as u8),
        // Exponents about that of one, below NaN and infinity.
        Element::E4m3 => bytes.iter_mut().enumerate().for_each(|(n, x)| *x = byte(bits(n), 0x28)),
        Element::E5m2 => bytes.iter_mut().enumerate().for_each(|(n, x)| *x = byte(bits(n), 0x30)),
        Element::Bf16 | Element::F16 => {
            let (words, _) = bytes.as_chunks_mut::<2>();
            let high = if plane.element == Element::Bf16 { 0x3F } else { 0x38 };
            for (n, word) in words.iter_mut().enumerate() {
                *word = [bits(n) as u8, high | (bits(n) >> 40) as u8 & 0x80];
            }
        }
        Element::F32 => {
            let (words, _) = bytes.as_chunks_mut::<4>();
            words.iter_mut().enumerate().for_each(|(n, word)| *word = number(n).to_le_bytes());
        }
    }
    true
}

/// A code of eight bits with one of 16 magnitudes from `least` on, of either sign.
const fn byte(bits: u64, least: u8) -> u8 {
    (bits >> 8 & 0x80) as u8 | (least + (bits & 15) as u8)
}
