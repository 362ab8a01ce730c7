//! What would tell two changes apart that explain a stage equally well: an input whose values are alike where the changes differ.
//!
//! Each input is filled with other values, one at a time. If the two changes then lead to different results, a run with other values there
//! decides between them.

use numerics::random::mix;

use super::super::Inputs;
use super::super::changes::inputs;
use super::super::sample::Part;
use super::{Changes, WrongStage};
use crate::moe::case::{Format, FormatPair};
use crate::moe::format::{BlockScale, Element};
use crate::moe::stage::Stage;
use crate::moe::tensors::Tensors;

impl WrongStage {
    /// The first input of the stage that makes the results of two changes differ once it holds other values.
    pub(super) fn telling_input(&self, changes: [&Changes; 2]) -> Option<&'static str> {
        let sampled = &self.parts[0];
        let differ = |name: &&&'static str| {
            let mut part = sampled.part.clone();
            let pair = part.0.settings.pair;
            if !fill(&mut part.1, name, pair) {
                return false;
            }
            let [one, other] =
                changes.map(|changes| sampled.problem(self.stage, &self.experts, &changes.made(&part)?));
            match (one, other) {
                (Some(one), Some(other)) => self.results_differ(&one, other),
                (None, None) => false,
                _ => true,
            }
        };
        inputs(self.stage).iter().find(differ).copied()
    }

    /// Whether two samples, each with a change, have different results: of a GEMM, an element that one expects is wrong by the other. Any other
    /// stage reads other inputs.
    fn results_differ(&self, one: &Part, mut other: Part) -> bool {
        let expected = Inputs::new(&one.0, &one.1).ok().and_then(|inputs| inputs.gemm_expected(self.stage));
        let Some(expected) = expected.filter(|_| !self.is_from_afar) else { return *one != other };
        let stored = match self.stage {
            Stage::Fc1 => &mut other.1.fc1_out,
            _ => &mut other.1.fc2_out,
        };
        stored.iter_mut().for_each(|array| array.data = expected.clone().into());
        let judged = Inputs::new(&other.0, &other.1).ok().and_then(|inputs| inputs.of_stage(self.stage));
        judged.is_some_and(|judgement| !judgement.wrong.is_empty())
    }
}

/// Fills a tensor with numbers of ordinary size; returns `false` if it is absent.
fn fill(tensors: &mut Tensors, name: &str, pair: FormatPair) -> bool {
    let found = tensors.shapes().into_iter().find(|(form, _)| form.name == name);
    let Some((dtype, shape)) = found.map(|(form, shape)| (form.dtype, shape.to_vec())) else { return false };
    let format = if name.starts_with('w') { pair.weight() } else { pair.activation() };
    let count: usize = shape.iter().product();
    let each = (0..count).map(|n| mix(n as u64 ^ 0x5EED));
    let bytes: Vec<u8> = match dtype {
        safetensors::Dtype::U8 if name.ends_with("scales") => each.map(|bits| scale(format, bits)).collect(),
        safetensors::Dtype::U8 => each.enumerate().map(|(n, bits)| code(format, n, bits)).collect(),
        safetensors::Dtype::BF16 => each.flat_map(|bits| bf16(bits).to_le_bytes()).collect(),
        _ => {
            // Factors are positive.
            let is_factor = name.ends_with("global") || name.ends_with("weights");
            let sign = |bits: u64| if is_factor || bits >> 32 & 1 == 0 { 1.0 } else { -1.0 };
            let number = |bits: u64| sign(bits) * (0.25 + (bits % 1024) as f32 / 512.0);
            each.flat_map(|bits| number(bits).to_le_bytes()).collect()
        }
    };
    tensors.set(name, shape, &bytes)
}

/// A block scale between 1/128 and 64.
fn scale(format: Format, bits: u64) -> u8 {
    let of = |least: u8, count: u64| least + (bits % count) as u8;
    match format.scale() {
        Some(BlockScale::Ue4m3) => of(0x28, 0x20),
        Some(BlockScale::Ue8m0) | None => of(120, 14),
    }
}

/// Byte `n` of a row of elements, none of which is NaN or infinite.
fn code(format: Format, n: usize, bits: u64) -> u8 {
    match format.element() {
        Element::E2m1 => bits as u8,
        Element::E4m3 => bits as u8 & 0x80 | (0x20 + (bits >> 8) % 0x28) as u8,
        Element::Bf16 => bf16(bits).to_le_bytes()[n % 2],
    }
}

/// A bf16 between 1/4 and 2, of either sign.
const fn bf16(bits: u64) -> u16 {
    (bits >> 20 & 0x8000) as u16 | (0x3E80 + bits % 0x180) as u16
}
