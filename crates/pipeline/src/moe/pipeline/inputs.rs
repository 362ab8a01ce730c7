//! The host's data: the inputs in the kernels' layouts, experts by slot, and whether the device still holds them unchanged.

use emulator::device::Failure;

use super::{Run, need};
use crate::frame::RunError;
use crate::moe::case::{BiasPlace, Format, Slots};
use crate::moe::format::BlockScale;
use crate::moe::layout::{self, padded};
use crate::moe::slots;

/// Bytes of an input buffer.
enum Content {
    /// All of them, contiguous.
    Whole(Vec<u8>),
    /// One expert after another, in the slots of the run; the slots in between hold nothing.
    BySlot(Vec<u8>),
}

/// A name and its content.
type Input = (&'static str, Content);

pub(super) fn bytes_of<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|v| bytes(*v)).collect()
}

impl Run<'_> {
    /// Copies every input to the device's memory.
    pub(super) fn fill(&mut self) -> Result<(), RunError> {
        for input in self.drawable()?.into_iter().chain(self.given()?) {
            self.put(input)?;
        }
        Ok(())
    }

    /// Hidden states and weights, which may be generated instead.
    fn drawable(&self) -> Result<[Input; 5], RunError> {
        let (dims, setup) = (self.dims, self.setup);
        let inputs = &self.problem.inputs;
        let (h, i, n) = (dims.hidden, dims.inter, dims.fc1_cols());
        let format = self.problem.settings.pair.weight();
        let codes = |packed: &[u8], k| Content::BySlot(layout::pad_codes(format, packed, k, setup.k_pad));
        let scales = |s: &[u8], rows, k| {
            Content::BySlot(layout::weight_scales(format, s, rows, k, setup.scales, setup.k_pad))
        };
        let hidden = bytes_of(need(&inputs.hidden_states, "hidden_states")?, u16::to_le_bytes);
        Ok([
            ("hidden_states", Content::Whole(hidden)),
            ("w13_codes", codes(need(&inputs.w13_blocks, "w13_blocks")?, h)),
            ("w13_scales", scales(need(&inputs.w13_scales, "w13_scales")?, n, h)),
            ("w2_codes", codes(need(&inputs.w2_blocks, "w2_blocks")?, i)),
            ("w2_scales", scales(need(&inputs.w2_scales, "w2_scales")?, h, i)),
        ])
    }

    /// Everything else that the host supplies.
    fn given(&self) -> Result<[Input; 11], RunError> {
        let inputs = &self.problem.inputs;
        let experts = need(&inputs.expert_ids, "expert_ids")?;
        let mut slot_of = vec![-1i32; self.dims.experts];
        for (slot, expert) in self.slots()?.into_iter().zip(experts) {
            let place = usize::try_from(*expert).ok().and_then(|e| slot_of.get_mut(e));
            *place.ok_or(RunError::Input("expert_ids"))? = i32::try_from(slot).unwrap_or(-1);
        }
        // The GEMM does not add a bias that belongs to the next stage.
        let w13_bias = need(&inputs.w13_bias, "w13_bias")?;
        let w2_bias = need(&inputs.w2_bias, "w2_bias")?;
        let of_gemm = |bias: &[f32], place| {
            Content::BySlot(match place {
                BiasPlace::Epilogue => bytes_of(bias, f32::to_le_bytes),
                BiasPlace::NextStage => vec![0; 4 * bias.len()],
            })
        };
        let s = &self.problem.settings;
        let zeros = || vec![0.0; self.dims.routed()];
        let correction = inputs.correction_bias.as_ref().map_or_else(zeros, |bias| bias.data.to_vec());
        let pair = s.pair;
        let ones = vec![1.0; experts.len()];
        let global = |of: Format, tensor, name| match of.has_global() {
            true => need(tensor, name),
            false => Ok(ones.as_slice()),
        };
        // A row's own scale is computed by an earlier stage.
        let calibrated = |tensor, name| match s.has_token_scales() {
            true => Ok(ones.as_slice()),
            false => global(pair.activation(), tensor, name),
        };
        let a1 = calibrated(&inputs.a1_global, "a1_global")?;
        let a2 = calibrated(&inputs.a2_global, "a2_global")?;
        let w13 = global(pair.weight(), &inputs.w13_global, "w13_global")?;
        let w2 = global(pair.weight(), &inputs.w2_global, "w2_global")?;
        let slots = |values: &[f32]| Content::BySlot(bytes_of(values, f32::to_le_bytes));
        // The factor by which the GEMM multiplies its sums.
        let product = |a: &[f32], w: &[f32]| a.iter().zip(w).map(|(a, w)| a * w).collect::<Vec<f32>>();
        let logits = bytes_of(need(&inputs.router_logits, "router_logits")?, f32::to_le_bytes);
        Ok([
            ("router_logits", Content::Whole(logits)),
            ("correction_bias", Content::Whole(bytes_of(&correction, f32::to_le_bytes))),
            ("expert_slot", Content::Whole(bytes_of(&slot_of, i32::to_le_bytes))),
            ("w13_bias", Content::BySlot(bytes_of(w13_bias, f32::to_le_bytes))),
            ("w13_gemm_bias", of_gemm(w13_bias, s.fc1_bias)),
            ("w2_bias", Content::BySlot(bytes_of(w2_bias, f32::to_le_bytes))),
            ("w2_gemm_bias", of_gemm(w2_bias, s.fc2_bias)),
            ("a1_global", slots(a1)),
            ("a2_global", slots(a2)),
            ("w13_factor", slots(&product(a1, w13))),
            ("w2_factor", slots(&product(a2, w2))),
        ])
    }

    /// Random hidden states and weights in the sizes that the kernels read, for timing: any codes, with magnitudes like a model's, so that
    /// nothing overflows.
    pub(super) fn draw(&mut self) -> Result<(), RunError> {
        /// Both bytes of a bf16: positive numbers below 2, never NaN.
        const BF16: (u8, u8) = (0x38, 0x3F);
        /// Exponents of scales: 2^-9 to 2^-5.
        const SCALES: (u8, u8) = (118, 122);
        /// Scales of ue4m3, 8 to 30: together with a global scale they are as small.
        const UE4M3: (u8, u8) = (0x50, 0x5F);
        const CODES: (u8, u8) = (0, 255);
        let d = self.dims;
        let (h, i, n) = (padded(d.hidden), padded(d.inter), d.fc1_cols());
        let experts = slots::count(&self.slots()?);
        let layout = self.setup.scales;
        let format = self.problem.settings.pair.weight();
        let scales = if format.scale() == Some(BlockScale::Ue4m3) { UE4M3 } else { SCALES };
        let sizes = [
            ("hidden_states", 2 * d.tokens * d.hidden, BF16),
            ("w13_codes", experts * n * format.bytes(h), CODES),
            ("w13_scales", experts * layout.size(n, format.scales(h)), scales),
            ("w2_codes", experts * d.hidden * format.bytes(i), CODES),
            ("w2_scales", experts * layout.size(d.hidden, format.scales(i)), scales),
        ];
        for (n, (name, len, (least, most))) in sizes.into_iter().enumerate() {
            let seed = self.problem.seed.wrapping_add(n as u64);
            let buffer = self.device.allocate_random(len, seed, least, most)?;
            self.buffers.insert(name, buffer);
        }
        for input in self.given()? {
            self.put(input)?;
        }
        Ok(())
    }

    /// The slots of the routed experts, in expert order.
    pub(super) fn slots(&self) -> Result<Vec<usize>, RunError> {
        let routed = need(&self.problem.inputs.expert_ids, "expert_ids")?.len();
        Ok(slots::places(self.setup.slots, self.dims, routed))
    }

    fn put(&mut self, (name, content): Input) -> Result<(), RunError> {
        let buffer = match content {
            Content::BySlot(bytes) if self.setup.slots != Slots::Packed => {
                let places = self.slots()?;
                let each = bytes.len() / places.len().max(1);
                let buffer = self.device.allocate_sparse(each * slots::count(&places))?;
                for (slot, expert) in places.iter().zip(bytes.chunks_exact(each.max(1))) {
                    self.device.write_at(buffer, slot * each, expert)?;
                }
                buffer
            }
            Content::Whole(bytes) | Content::BySlot(bytes) => self.device.allocate(bytes)?,
        };
        self.buffers.insert(name, buffer);
        Ok(())
    }

    /// The pieces of every input, with the offset of each in its buffer.
    fn pieces(
        &self,
        mut of: impl FnMut(&'static str, usize, &[u8]) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let places = self.slots()?;
        for (name, content) in self.drawable()?.into_iter().chain(self.given()?) {
            match content {
                Content::BySlot(bytes) if self.setup.slots != Slots::Packed => {
                    let each = bytes.len() / places.len().max(1);
                    for (slot, expert) in places.iter().zip(bytes.chunks_exact(each.max(1))) {
                        of(name, slot * each, expert)?;
                    }
                }
                Content::Whole(bytes) | Content::BySlot(bytes) => of(name, 0, &bytes)?,
            }
        }
        Ok(())
    }

    /// The first input that differs from the host's data, and the byte in its buffer.
    pub(super) fn changed(&self) -> Result<Option<(&'static str, usize)>, RunError> {
        let mut found = None;
        self.pieces(|name, at, bytes| {
            if let (None, Some(buffer)) = (found, self.buffers.get(name)) {
                found = self.device.differs(*buffer, at, bytes)?.map(|byte| (name, byte));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Copies every input again.
    pub(super) fn restore(&mut self) -> Result<(), RunError> {
        let mut writes = Vec::new();
        self.pieces(|name, at, bytes| {
            writes.extend(self.buffers.get(name).map(|buffer| (*buffer, at, bytes.to_vec())));
            Ok(())
        })?;
        let write = |(buffer, at, bytes): (_, usize, Vec<u8>)| self.device.write_at(buffer, at, &bytes);
        writes.into_iter().try_for_each(write).map_err(|failure: Failure| failure.into())
    }
}
