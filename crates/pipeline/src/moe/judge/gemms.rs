//! Judges both grouped GEMMs.

use super::tally::{StageJudgement, Tally};
use super::{Inputs, Skip, need};
use crate::frame::effort::Effort;
use crate::moe::case::BiasPlace;
use crate::moe::contract::Accumulation;
use crate::moe::reference::expected::Expected;
use crate::moe::reference::gemm::{Gemm, Operands};
use crate::moe::stage::Stage;
use crate::moe::tensors::Array;

/// Which of the two GEMMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fc {
    /// The first.
    One,
    /// The second.
    Two,
}

impl Inputs<'_> {
    /// Judges the first GEMM.
    pub(super) fn fc1(&self) -> Result<StageJudgement, Skip> {
        let stored = need!(self, fc1_out)?;
        self.sufficient(Stage::Fc1)?;
        if !self.absent_operand(Fc::One).is_empty() {
            return self.sums_from_before(Stage::Fc1, stored, |row| self.fc1_expected(row));
        }
        self.gemm(Stage::Fc1, self.operands(Fc::One)?, self.contract.fc1, stored)
    }

    /// Judges the second GEMM on the activations that it read.
    pub(super) fn fc2(&self) -> Result<StageJudgement, Skip> {
        let stored = need!(self, fc2_out)?;
        let injected = (&self.tensors.injected_a2_codes, &self.tensors.injected_a2_scales);
        self.sufficient(Stage::Fc2)?;
        if injected == (&None, &None) && !self.absent_operand(Fc::Two).is_empty() {
            return self.sums_from_before(Stage::Fc2, stored, |row| self.fc2_expected(row));
        }
        self.gemm(Stage::Fc2, self.operands(Fc::Two)?, self.contract.fc2, stored)
    }

    /// Returns a result of a GEMM that its contract allows; `None` for other stages, and where its inputs do not fit one another.
    pub(super) fn gemm_expected(&self, stage: Stage) -> Option<Vec<u16>> {
        let (fc, sum) = match stage {
            Stage::Fc1 => (Fc::One, self.contract.fc1),
            Stage::Fc2 => (Fc::Two, self.contract.fc2),
            _ => return None,
        };
        let experts = self.row_experts().ok()?;
        let gemm = Gemm::new(self.operands(fc).ok()?, sum, &experts, &self.index).ok()?;
        let gemm = gemm.reading(self.contract.suspicion.other_scales);
        let (cols, factor) = (gemm.cols(), self.contract.suspicion.factor);
        let each = |all: &mut Vec<(usize, u16)>, row: usize, col: usize, expected: &Expected| {
            all.push((row * cols + col, expected.times(factor).stored()));
        };
        let elements = gemm.fold(each, |a: Vec<_>, b| [a, b].concat());
        let mut stored = vec![0; experts.len() * cols];
        elements.into_iter().for_each(|(at, code)| stored[at] = code);
        Some(stored)
    }

    /// Returns what a GEMM reads.
    pub(super) fn operands(&self, fc: Fc) -> Result<Operands<'_>, Skip> {
        let settings = &self.contract.settings;
        let pair = settings.pair;
        let scaled = pair.activation().scale().is_some();
        let injected = (&self.tensors.injected_a2_codes, &self.tensors.injected_a2_scales);
        let (codes, scales) = match (fc, injected) {
            (Fc::One, _) if !scaled => (need!(self, a1_codes)?, None),
            (Fc::One, _) => (need!(self, a1_codes)?, Some(need!(self, a1_scales)?)),
            (Fc::Two, (Some(codes), Some(scales))) => (codes, Some(scales)),
            (Fc::Two, (Some(codes), None)) if !scaled => (codes, None),
            (Fc::Two, (None, None)) if !scaled => (need!(self, a2_codes)?, None),
            (Fc::Two, (None, None)) => (need!(self, a2_codes)?, Some(need!(self, a2_scales)?)),
            _ => return Err("`injected_a2_codes` and `injected_a2_scales` must be given together".to_owned()),
        };
        let (weights, weight_scales, bias) = match fc {
            Fc::One => (
                need!(self, w13_blocks)?,
                need!(self, w13_scales)?,
                epilogue(settings.fc1_bias, self.tensors.w13_bias.as_ref()),
            ),
            Fc::Two => (
                need!(self, w2_blocks)?,
                need!(self, w2_scales)?,
                epilogue(settings.fc2_bias, self.tensors.w2_bias.as_ref()),
            ),
        };
        Ok(Operands {
            pair,
            codes,
            scales,
            weights,
            weight_scales,
            globals: self.globals(fc)?,
            token_scales: self.token_scales(fc)?,
            bias,
        })
    }

    /// Returns the global scales of a GEMM's operands, for formats that have them.
    pub(super) fn globals(&self, fc: Fc) -> Result<[Option<&Array<f32>>; 2], Skip> {
        let pair = self.contract.settings.pair;
        let activation = match (self.contract.settings.has_calibrated_scales(), fc) {
            (false, _) => None,
            (true, Fc::One) => Some(need!(self, a1_global)?),
            (true, Fc::Two) => Some(need!(self, a2_global)?),
        };
        let weight = match (pair.weight().has_global(), fc) {
            (false, _) => None,
            (true, Fc::One) => Some(need!(self, w13_global)?),
            (true, Fc::Two) => Some(need!(self, w2_global)?),
        };
        Ok([activation, weight])
    }

    /// Returns the global scales of the rows that a GEMM reads, if tokens have global scales.
    pub(super) fn token_scales(&self, fc: Fc) -> Result<Option<&Array<f32>>, Skip> {
        if !self.contract.settings.has_token_scales() {
            return Ok(None);
        }
        let t = self.tensors;
        match (fc, &t.injected_a2_codes, &t.injected_a2_token_scale) {
            (Fc::One, ..) => Ok(Some(need!(self, a1_token_scale)?)),
            (Fc::Two, None, None) => Ok(Some(need!(self, a2_token_scale)?)),
            (Fc::Two, Some(_), Some(scales)) => Ok(Some(scales)),
            _ => Err("`injected_a2_codes` and `injected_a2_token_scale` must be given together".to_owned()),
        }
    }

    fn gemm(
        &self,
        stage: Stage,
        operands: Operands<'_>,
        accumulation: Accumulation,
        stored: &Array<u16>,
    ) -> Result<StageJudgement, Skip> {
        let experts = self.row_experts()?;
        let depth = operands.codes.shape.last().copied().unwrap_or(0) * 8
            / operands.pair.activation().element().bits();
        if self.effort == Effort::UntilWrong
            && let Some(wrong) = self.wrong_sample(stage, &experts, depth)
        {
            return Ok(wrong);
        }
        let gemm = Gemm::new(operands, accumulation, &experts, &self.index).map_err(|e| e.to_string())?;
        let gemm = gemm.reading(self.contract.suspicion.other_scales);
        let cols = gemm.cols();
        let factor = self.contract.suspicion.factor;
        let each = |tally: &mut Tally, row: usize, col: usize, expected: &Expected| {
            tally.number(row, col, &expected.times(factor), stored.data[row * cols + col]);
        };
        Ok(gemm.fold(each, Tally::join).result(stage, &[], |row| experts.get(row).copied()))
    }
}

/// Returns the bias if the GEMM adds it.
fn epilogue(place: BiasPlace, bias: Option<&Array<f32>>) -> Option<&Array<f32>> {
    match place {
        BiasPlace::Epilogue => bias,
        BiasPlace::NextStage => None,
    }
}
