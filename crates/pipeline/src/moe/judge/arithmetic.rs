//! The arithmetic of one wrong element of a GEMM, as a Python program that needs nothing else.

use numerics::format::Format;

use super::gemms::Fc;
use super::{Inputs, Skip};
use crate::moe::format::{BlockScale, Element};
use crate::moe::reference::formats::bf16;
use crate::moe::reference::gemm::Operands;
use crate::moe::stage::Stage;
use crate::product::arithmetic::{self, Row};

/// The format of the codes; `None` for values that are multiplied as they are.
const fn coded(element: Element) -> Option<Format> {
    match element {
        Element::E2m1 => Some(Format::E2m1),
        Element::E4m3 => Some(Format::E4m3),
        Element::Bf16 => None,
    }
}

const fn scale_format(scale: BlockScale) -> Format {
    match scale {
        BlockScale::Ue8m0 => Format::Ue8m0,
        BlockScale::Ue4m3 => Format::Ue4m3,
    }
}

impl Inputs<'_> {
    /// The program that computes an element of a GEMM exactly; `None` for other stages, or if K is long.
    pub(super) fn arithmetic(&self, stage: Stage, row: usize, column: usize) -> Option<String> {
        let (fc, stored) = match stage {
            Stage::Fc1 => (Fc::One, &self.tensors.fc1_out),
            Stage::Fc2 => (Fc::Two, &self.tensors.fc2_out),
            _ => return None,
        };
        let found = stored.as_ref()?.row(row).get(column).copied()?;
        let expert = *self.row_experts().ok()?.get(row)?;
        self.program(fc, (row, expert, column), found).ok().flatten()
    }

    fn program(
        &self,
        fc: Fc,
        (row, expert, column): (usize, usize, usize),
        found: u16,
    ) -> Result<Option<String>, Skip> {
        let Operands { pair, codes, scales, weights, weight_scales, globals, token_scales, bias } =
            self.operands(fc)?;
        let at = *self.weights_of(row, expert)?;
        let columns = weights.shape.get(1).copied().unwrap_or_default();
        let weight_row = at * columns + column;
        let sides = [
            ("a", pair.activation(), codes.row(row), scales.map(|scales| scales.row(row))),
            ("w", pair.weight(), weights.row(weight_row), Some(weight_scales.row(weight_row))),
        ];
        let rows = sides.map(|(name, format, bytes, scales)| {
            let element = format.element();
            let codes = element.codes(bytes);
            let row = match (coded(element), format.scale(), scales) {
                (Some(of), Some(scale), Some(scales)) => Row::Scaled {
                    element: of,
                    codes: codes.into_iter().map(|code| code as u8).collect(),
                    scale: scale_format(scale),
                    block: format.block(),
                    scales,
                },
                _ => Row::Plain(codes.into_iter().map(|code| element.value(code)).collect()),
            };
            (name, row)
        });
        let single = |array: Option<&crate::moe::tensors::Array<f32>>, at: usize| {
            array.and_then(|array| array.data.get(at).copied()).map(f64::from)
        };
        let factors = [single(globals[0], at), single(globals[1], at), single(token_scales, row)];
        let factors = factors.into_iter().flatten().collect();
        let bias = single(bias, weight_row);
        Ok(arithmetic::Element { rows, factors, bias, stored: bf16(found) }.program())
    }
}
