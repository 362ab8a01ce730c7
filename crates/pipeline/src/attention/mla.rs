//! Records of latent attention (MLA): a row of a token holds codes, scales and the part with rotary embedding, in the order of a library.
//!
//! Keys are all elements of a record, values the first of them, so that one fault in a record shows in both.

use super::element::Element;

record::words! {
    /// The layout of a token's record, by the name of its cache type.
    Layout {
        /// DeepSeek V3.2, GLM: 512 e4m3, 4 f32 scales for 128 elements each, 64 bf16 of the rotary part; 656 bytes.
        Fp8 "fp8_ds_mla",
        /// GLM-5.3 without a rotary part: 512 e4m3, 4 f32 scales; 528 bytes.
        Fp8Nope "fp8_nope",
        /// DeepSeek V4: 448 e4m3 and 64 bf16 a token, then 8 bytes a token behind the page: 7 ue8m0 for 64 elements each, and padding.
        V4 "dsv4",
        /// DeepSeek V4.1: 512 e4m3 a token, then 16 ue8m0 a token behind the page, for 32 elements each.
        V41 "dsv4_1",
        /// The same with the scales of a token behind its elements.
        V41Interleaved "dsv4_1_interleaved",
        /// DeepSeek V4 in NVFP4: 448 e2m1 and 64 bf16 a token, then 32 bytes a token behind the page: 28 ue4m3 for 16 elements each, and padding.
        V4Nvfp4 "dsv4_nvfp4",
        /// vLLM: 512 e2m1, 64 e4m3 without scale, 32 ue4m3, that of block s at 8·(s mod 4) + s / 4.
        Nvfp4 "nvfp4_ds_mla",
    }
}

/// The type of a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    F32,
    Ue8m0,
    Ue4m3,
}

/// Where the scales of a token are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In its row, from this byte on.
    Row(usize),
    /// Behind the rows of the page, so many bytes a token.
    Footer(usize),
}

/// A record, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    /// The type of the codes, and how many there are.
    codes: Element,
    latent: usize,
    scale: Scale,
    /// Codes that share a scale.
    block: usize,
    scales: Place,
    /// The type of the rotary part, its elements and its first byte.
    rotary: Element,
    rotary_width: usize,
    rotary_at: usize,
    /// Bytes of a row.
    row: usize,
}

/// Where the fields of a record with scales in its row are, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields {
    /// Elements with codes, and those of them that share a scale.
    pub(super) latent: usize,
    pub(super) block: usize,
    /// The first scale.
    pub(super) scales_at: usize,
    /// The first element of the rotary part.
    pub(super) rotary_at: usize,
}

impl Layout {
    /// Where the fields of its records are; scales behind a page count from its rows' end.
    pub(super) const fn fields(self) -> Fields {
        let Parts { latent, block, scales, rotary_at, row, .. } = self.parts();
        let scales_at = match scales {
            Place::Row(at) => at,
            Place::Footer(_) => row,
        };
        Fields { latent, block, scales_at, rotary_at }
    }

    const fn parts(self) -> Parts {
        let fp8 = Parts {
            codes: Element::E4m3,
            latent: 512,
            scale: Scale::F32,
            block: 128,
            scales: Place::Row(512),
            rotary: Element::Bf16,
            rotary_width: 64,
            rotary_at: 528,
            row: 656,
        };
        match self {
            Self::Fp8 => fp8,
            Self::Fp8Nope => Parts { rotary_width: 0, row: 528, ..fp8 },
            Self::V4 => Parts {
                latent: 448,
                scale: Scale::Ue8m0,
                block: 64,
                scales: Place::Footer(8),
                rotary_at: 448,
                row: 576,
                ..fp8
            },
            Self::V41 => Parts {
                scale: Scale::Ue8m0,
                block: 32,
                scales: Place::Footer(16),
                rotary_width: 0,
                row: 512,
                ..fp8
            },
            Self::V41Interleaved => Parts {
                scale: Scale::Ue8m0,
                block: 32,
                scales: Place::Row(512),
                rotary_width: 0,
                row: 528,
                ..fp8
            },
            Self::V4Nvfp4 => Parts {
                codes: Element::Nvfp4,
                latent: 448,
                scale: Scale::Ue4m3,
                block: 16,
                scales: Place::Footer(32),
                rotary_at: 224,
                row: 352,
                ..fp8
            },
            Self::Nvfp4 => Parts {
                codes: Element::Nvfp4,
                scale: Scale::Ue4m3,
                block: 16,
                scales: Place::Row(320),
                rotary: Element::E4m3,
                rotary_at: 256,
                row: 352,
                ..fp8
            },
        }
    }

    /// Elements of a key.
    pub(super) const fn width(self) -> usize {
        self.parts().latent + self.parts().rotary_width
    }

    /// Elements of a value, unless a file declares others.
    pub(super) const fn value_width(self) -> usize {
        match self {
            // Their values have the rotary part, too.
            Self::V4 | Self::V4Nvfp4 => self.width(),
            _ => self.parts().latent,
        }
    }

    /// Bytes of a token's row, those behind the page left out.
    pub(super) const fn row(self) -> usize {
        self.parts().row
    }

    /// Bytes of a page of so many slots, without padding.
    pub(super) const fn page(self, slots: usize) -> usize {
        let footer = match self.parts().scales {
            Place::Row(_) => 0,
            Place::Footer(bytes) => bytes,
        };
        slots * (self.parts().row + footer)
    }

    /// The element `d` of a slot: `row` is the first byte of its row, `page` that of its page. `None` beyond the end.
    pub(super) fn value(
        self,
        bytes: &[u8],
        (page, row): (usize, usize),
        (slot, slots): (usize, usize),
        d: usize,
        reading: Reading,
    ) -> Option<f32> {
        let parts = self.parts();
        if d >= parts.latent {
            if reading.without_rotary {
                return Some(0.0);
            }
            return parts.rotary.value(bytes.get(row + parts.rotary_at..)?, d - parts.latent);
        }
        let code = parts.codes.value(bytes.get(row..)?, d)?;
        let scale = self.scale(bytes, (page, row), (slot, slots), d / parts.block, reading)?;
        Some(if reading.scale == ScaleOf::Nothing { code } else { code * scale })
    }

    /// The scale of a block of elements, as [`Self::value`] has it.
    pub(super) fn scale(
        self,
        bytes: &[u8],
        (page, row): (usize, usize),
        (slot, slots): (usize, usize),
        block: usize,
        reading: Reading,
    ) -> Option<f32> {
        let parts = self.parts();
        let blocks = parts.latent / parts.block;
        let block = match reading.scale {
            ScaleOf::Block | ScaleOf::Nothing => block,
            ScaleOf::Next => (block + 1) % blocks,
            ScaleOf::Previous => (block + blocks - 1) % blocks,
            ScaleOf::First => 0,
        };
        let index = match (self, reading.is_linear) {
            (Self::Nvfp4, false) => 8 * (block % 4) + block / 4,
            _ => block,
        };
        let size = if parts.scale == Scale::F32 { 4 } else { 1 };
        let first = match parts.scales {
            Place::Row(at) => row + at,
            Place::Footer(each) => page + slots * parts.row + slot * each,
        };
        let scale = bytes.get(first + index * size..)?;
        let scale = match parts.scale {
            Scale::F32 => Element::F32.value(scale, 0)?,
            Scale::Ue8m0 => numerics::Format::Ue8m0.decode(u32::from(*scale.first()?)),
            Scale::Ue4m3 => numerics::Format::Ue4m3.decode(u32::from(*scale.first()?)),
        };
        Some(if reading.is_power { f32::from_bits(scale.to_bits() & 0xFF80_0000) } else { scale })
    }

    /// Whether weights can be multiplied by the scales of its values: elements are e4m3.
    pub(super) const fn has_fp8(self) -> bool {
        matches!(self.parts().codes, Element::E4m3)
    }

    /// Whether every product of a code and its scale is exact in 16 bits.
    pub(super) const fn is_exact(self) -> bool {
        !matches!(self.parts().scale, Scale::F32)
    }
}

/// How a kernel reads the scales of records: as they are, unless it has a fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Scales of [`Layout::Nvfp4`] in the order of their blocks.
    pub(super) is_linear: bool,
    /// Scales of 32 bits as the power of two below them.
    pub(super) is_power: bool,
    /// Which scale an element gets.
    pub(super) scale: ScaleOf,
    /// Whether the rotary part counts as zeros.
    pub(super) without_rotary: bool,
}

/// Which scale of a record an element gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ScaleOf {
    /// That of its block.
    #[default]
    Block,
    /// That of the next block; of the first for the last one.
    Next,
    /// That of the block before; of the last for the first one.
    Previous,
    /// That of the first block.
    First,
    /// None.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_bytes_of_their_libraries() {
        let sizes: Vec<(usize, usize)> = Layout::ALL.iter().map(|of| (of.width(), of.page(1))).collect();
        assert_eq!(
            sizes,
            [(576, 656), (512, 528), (512, 584), (512, 528), (512, 528), (512, 384), (576, 352)]
        );
    }

    #[test]
    fn the_scale_of_each_block_is_another_byte() {
        for layout in Layout::ALL {
            let parts = layout.parts();
            let slots = 4;
            let bytes = layout.page(slots);
            for d in (0..parts.latent).step_by(parts.block) {
                // With every byte zero but its code, only those of its scale change the element.
                let mut counted = 0;
                for at in 0..bytes {
                    let mut page = vec![0_u8; bytes];
                    let row = parts.row;
                    page[row + d * parts.codes.bits() / 8] = 0x11;
                    let zero = layout.value(&page, (0, row), (1, slots), d, Reading::default());
                    page[at] ^= 0x40;
                    let changed = layout.value(&page, (0, row), (1, slots), d, Reading::default());
                    counted += usize::from(zero != changed && at != row + d * parts.codes.bits() / 8);
                }
                let bytes_of_scale = if parts.scale == Scale::F32 { 4 } else { 1 };
                assert_eq!(counted, bytes_of_scale, "{layout:?} {d}");
            }
        }
    }
}
