//! The results of the stages as logical tensors; also checks the contract of the padding.

use emulator::device::Failure;

use super::Run;
use crate::moe::layout::{self, padded};
use crate::moe::stage::Stage;
use crate::moe::tensors::Array;

impl Run<'_> {
    fn read(&self, name: &str) -> Result<Vec<u8>, Failure> {
        self.buffers.get(name).map_or_else(|| Ok(Vec::new()), |b| self.device.read(*b))
    }

    pub(super) fn read_i32(&self, name: &str) -> Result<Vec<i32>, Failure> {
        let bytes = self.read(name)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect())
    }

    fn read_u16(&self, name: &str) -> Result<Vec<u16>, Failure> {
        let bytes = self.read(name)?;
        Ok(bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b)).collect())
    }

    fn read_f32(&self, name: &str) -> Result<Vec<f32>, Failure> {
        let bytes = self.read(name)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }

    /// The global scales of the rows, if tokens have some.
    fn token_scales(&self, name: &str) -> Result<Option<Array<f32>>, Failure> {
        if !self.problem.settings.has_token_scales() {
            return Ok(None);
        }
        Ok(Some(Array { shape: vec![self.dims.rows()], data: self.read_f32(name)?.into() }))
    }

    /// Reads the results of a stage.
    pub(super) fn collect(&mut self, stage: Stage) -> Result<(), Failure> {
        let d = self.dims;
        let (t, k, r) = (d.tokens, d.top_k, d.rows());
        let array_u16 = |run: &Self, name, shape: &[usize]| {
            Ok::<_, Failure>(Some(Array { shape: shape.to_vec(), data: run.read_u16(name)?.into() }))
        };
        let array_i32 = |run: &Self, name, shape: &[usize]| {
            Ok::<_, Failure>(Some(Array { shape: shape.to_vec(), data: run.read_i32(name)?.into() }))
        };
        match stage {
            Stage::Route => {
                self.tensors.topk_ids = array_i32(self, "topk_ids", &[t, k])?;
                let data = self.read_f32("topk_weights")?.into();
                self.tensors.topk_weights = Some(Array { shape: vec![t, k], data });
            }
            Stage::Permute => {
                self.tensors.row_token = array_i32(self, "row_token", &[r])?;
                self.tensors.row_expert = array_i32(self, "row_expert", &[r])?;
                let wrong = self.wrong_list()?;
                self.broken.extend(wrong.map(|text| (Stage::Permute, text)));
            }
            Stage::Quantize => {
                let (codes, scales) = self.quantized(Stage::Quantize, "a1_codes", "a1_scales", d.hidden)?;
                (self.tensors.a1_codes, self.tensors.a1_scales) = (Some(codes), scales);
                self.tensors.a1_token_scale = self.token_scales("a1_token_scale")?;
            }
            Stage::Fc1 => self.tensors.fc1_out = array_u16(self, "fc1_out", &[r, d.fc1_cols()])?,
            Stage::Activation | Stage::Requantize => {
                let (codes, scales) = self.quantized(Stage::Requantize, "a2_codes", "a2_scales", d.inter)?;
                (self.tensors.a2_codes, self.tensors.a2_scales) = (Some(codes), scales);
                self.tensors.a2_token_scale = self.token_scales("a2_token_scale")?;
            }
            Stage::Fc2 => self.tensors.fc2_out = array_u16(self, "fc2_out", &[r, d.hidden])?,
            Stage::Finalize => self.tensors.output = array_u16(self, "output", &[t, d.hidden])?,
        }
        Ok(())
    }

    /// The byte offset of the scale of a block of a permuted row, according to the device's own row data.
    fn scale_place(
        &self,
        row: usize,
        block: usize,
        columns: usize,
        offsets: &[i32],
        experts: &[i32],
    ) -> usize {
        let expert = experts.get(row).and_then(|e| usize::try_from(*e).ok()).unwrap_or(0);
        let first = offsets.get(expert).and_then(|o| usize::try_from(*o).ok()).unwrap_or(0).min(row);
        let at = layout::scale_row_of_expert(first, expert) + row - first;
        self.setup.scales.offset(at, block, columns)
    }

    /// Codes and scales as logical matrices; also checks the content of the padding.
    fn quantized(
        &mut self,
        stage: Stage,
        codes: &str,
        scales: &str,
        k: usize,
    ) -> Result<(Array<u8>, Option<Array<u8>>), Failure> {
        let rows = self.dims.rows();
        let format = self.problem.settings.pair.activation();
        let (width, bytes) = (format.bytes(padded(k)), format.bytes(k));
        let (columns, blocks) = (format.scales(padded(k)), format.scales(k));
        let (stored, stored_scales) = (self.read(codes)?, self.read(scales)?);
        let (offsets, experts) = (self.read_i32("expert_offset")?, self.read_i32("row_expert")?);
        let mut out = Vec::with_capacity(rows * bytes);
        let mut out_scales = Vec::with_capacity(rows * blocks);
        let mut broken = None;
        for (row, from) in stored.chunks_exact(width).enumerate() {
            out.extend_from_slice(&from[..bytes]);
            // -0 is zero too.
            let element = format.element();
            if let Some((at, code)) = (k..padded(k))
                .map(|at| (at, element.code(from, at)))
                .find(|(_, code)| element.value(*code) != 0.0)
            {
                let text =
                    || format!("row={row} col={at}: the code in the padding is 0x{code:02X}, not zero");
                broken.get_or_insert_with(text);
            }
            for block in 0..columns {
                let place = self.scale_place(row, block, columns, &offsets, &experts);
                let scale = stored_scales.get(place).copied().unwrap_or(layout::POISON);
                if block < blocks {
                    out_scales.push(scale);
                } else if format.scale().is_some_and(|of| of.is_nan(scale)) {
                    broken.get_or_insert_with(|| {
                        format!("row={row} block={block}: the scale in the padding is NaN")
                    });
                }
            }
        }
        self.broken.extend(broken.map(|text| (stage, text)));
        let scales = Array { shape: vec![rows, blocks], data: out_scales.into() };
        Ok((Array { shape: vec![rows, bytes], data: out.into() }, format.scale().map(|_| scales)))
    }

    /// Writes the problem's own a2 over the activation's results.
    pub(super) fn inject(&mut self) -> Result<(), Failure> {
        let Some(a2) = &self.problem.injected_a2 else { return Ok(()) };
        let k = self.dims.inter;
        let format = self.problem.settings.pair.activation();
        let (width, bytes) = (format.bytes(padded(k)), format.bytes(k));
        let (columns, blocks) = (format.scales(padded(k)), format.scales(k));
        let (offsets, experts) = (self.read_i32("expert_offset")?, self.read_i32("row_expert")?);
        let (mut codes, mut scales) = (self.read("a2_codes")?, self.read("a2_scales")?);
        for row in 0..self.dims.rows() {
            if let (Some(to), from) = (codes.get_mut(row * width..row * width + bytes), a2.codes.row(row)) {
                to.copy_from_slice(from);
            }
            for (block, scale) in a2.scales.row(row).iter().enumerate().take(blocks) {
                let place = self.scale_place(row, block, columns, &offsets, &experts);
                if let Some(to) = scales.get_mut(place) {
                    *to = *scale;
                }
            }
        }
        let mut writes = vec![("a2_codes", codes), ("a2_scales", scales)];
        let rows = a2.token_scales.iter().flat_map(|scales| &scales.data);
        let token_scales: Vec<u8> = rows.flat_map(|scale| scale.to_le_bytes()).collect();
        if !token_scales.is_empty() {
            writes.push(("a2_token_scale", token_scales));
        }
        for (name, bytes) in writes {
            if let Some(buffer) = self.buffers.get(name) {
                self.device.write(*buffer, &bytes)?;
            }
        }
        self.tensors.injected_a2_codes = Some(a2.codes.clone());
        self.tensors.injected_a2_scales = format.scale().map(|_| a2.scales.clone());
        self.tensors.injected_a2_token_scale = a2.token_scales.clone();
        Ok(())
    }
}
