//! Tensor maps (PTX ISA 5.5; driver API `cuTensorMapEncodeTiled`): the description of a tensor that a tensor copy uses.

use std::fmt;

use crate::copies::tensor_type::{Interleave, L2Promotion, OobFill, Swizzle, TensorType};

/// Size of a tensor map in bytes.
pub const TENSOR_MAP_BYTES: usize = 128;

/// A tensor map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorMap {
    /// Element type.
    pub data_type: TensorType,
    /// Number of dimensions, 1 to 5.
    pub rank: usize,
    /// Address of the tensor in global memory.
    pub address: u64,
    /// Elements per dimension, the contiguous one first; packed types count single elements.
    pub dims: [u64; 5],
    /// Strides in bytes of the second, third, … dimension.
    pub strides: [u64; 4],
    /// Elements of a box, per dimension.
    pub box_dims: [u32; 5],
    /// Traversal stride per dimension, in elements.
    pub element_strides: [u32; 5],
    /// Interleaving of the first dimension.
    pub interleave: Interleave,
    /// Layout of a box in shared memory.
    pub swizzle: Swizzle,
    /// Cache promotion.
    pub l2_promotion: L2Promotion,
    /// Values that loads read outside the tensor.
    pub oob_fill: OobFill,
    /// The im2col traversal; `None` for a tiled map. The channels per pixel are the first dimension of the box.
    pub im2col: Option<Im2col>,
}

/// The traversal of an im2col copy through the pixels of images: dimension 1 fastest, the last dimension (the image) slowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Im2col {
    /// First pixel of the bounding box, in dimensions 1, 2 and 3.
    pub lower: [i32; 3],
    /// Last pixel of the bounding box, relative to the last pixel of the image.
    pub upper: [i32; 3],
    /// Pixels per copy.
    pub pixels: u32,
}

impl Im2col {
    /// First and last index of the bounding box in dimension `i` (from 1), which has `size` elements.
    #[must_use]
    pub fn bounds(&self, i: usize, size: u64) -> (i64, i64) {
        (i64::from(self.lower[i - 1]), size as i64 - 1 + i64::from(self.upper[i - 1]))
    }

    /// Bits of each corner coordinate in a map of this rank.
    pub(crate) const fn corner_bits(rank: usize) -> u32 {
        match rank {
            3 => 16,
            4 => 8,
            _ => 5,
        }
    }
}

/// A violation of a rule for tensor maps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct TensorMapError {
    /// The violated rule.
    pub rule: MapRule,
    /// A description, with numbers.
    pub what: String,
}

/// The rules of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is about the field of its name")]
pub enum MapRule {
    Bytes,
    Rank,
    Address,
    Dim,
    Stride,
    Box,
    BoxBytes,
    ElementStride,
    Interleave,
    Swizzle,
    Span,
    Fill,
    Corner,
    Pixels,
}

impl fmt::Display for MapRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Maximum size of a box in bytes: 228 KiB, measured with an H100's driver.
const MOST_BYTES: u64 = 233_472;

impl TensorMap {
    /// A dense tiled map: rows without gaps, no swizzle, no interleaving, and zeros outside.
    #[must_use]
    pub fn dense(data_type: TensorType, address: u64, dims: &[u64], box_dims: &[u32]) -> Self {
        let mut map = Self {
            data_type,
            rank: dims.len(),
            address,
            dims: [1; 5],
            strides: [0; 4],
            box_dims: [1; 5],
            element_strides: [1; 5],
            interleave: Interleave::None,
            swizzle: Swizzle::None,
            l2_promotion: L2Promotion::None,
            oob_fill: OobFill::Zeros,
            im2col: None,
        };
        for (to, from) in map.dims.iter_mut().zip(dims) {
            *to = *from;
        }
        for (to, from) in map.box_dims.iter_mut().zip(box_dims) {
            *to = *from;
        }
        let mut stride = map.dims[0].saturating_mul(data_type.bits()) / 8;
        for i in 0..dims.len().min(5).saturating_sub(1) {
            map.strides[i] = stride;
            stride = stride.saturating_mul(map.dims[i + 1]);
        }
        map
    }

    /// Elements of a box that are copied, per dimension: element strides skip some, except in the first dimension. With
    /// interleaving, elements are pieces of 16 or 32 bytes, and the strides apply to the first dimension too.
    #[must_use]
    pub fn taken(&self) -> [u64; 5] {
        if let Some(walk) = &self.im2col {
            return [u64::from(self.box_dims[0]), u64::from(walk.pixels), 1, 1, 1];
        }
        std::array::from_fn(|i| {
            let size = u64::from(self.box_dims[i]);
            match i {
                // One slice at a time, regardless of the box (measured on an H100).
                i if self.interleave != Interleave::None && i + 2 == self.rank => 1,
                0 if self.interleave == Interleave::None => size,
                i if i < self.rank => size.div_ceil(u64::from(self.element_strides[i].max(1))),
                _ => 1,
            }
        })
    }

    /// Bytes that a load of one box reports to its mbarrier (the tx-count).
    ///
    /// The size in global memory (without the padding of shared memory), including elements outside the tensor. For the padded
    /// types this is an assumption: CUTLASS counts this way, but we have not confirmed it on hardware.
    #[must_use]
    pub fn transaction_bytes(&self) -> u64 {
        let count = self.taken().iter().product::<u64>();
        match self.interleave.bytes() {
            0 => count * self.data_type.bits() / 8,
            piece => count * piece,
        }
    }

    /// Bytes of one row of a box in shared memory, and the pitch between rows.
    #[must_use]
    pub fn row_bytes(&self) -> (u64, u64) {
        let inner = u64::from(self.box_dims[0]) * self.data_type.shared_bits() / 8;
        (inner, if self.swizzle == Swizzle::None { inner } else { self.swizzle.span() })
    }

    /// Encodes the map in 128 bytes.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn encode(&self) -> Result<[u8; TENSOR_MAP_BYTES], TensorMapError> {
        self.check()?;
        Ok(self.to_bytes())
    }

    /// Checks the rules that apply to im2col only, as an H100's driver enforces them.
    fn check_walk(&self, walk: &Im2col) -> Result<(), TensorMapError> {
        let broken = |rule: MapRule, what: String| Err(TensorMapError { rule, what });
        if !(3..=5).contains(&self.rank) {
            return broken(MapRule::Rank, format!("rank {} with im2col; the rank must be 3 to 5", self.rank));
        }
        if self.interleave != Interleave::None {
            return broken(MapRule::Interleave, "im2col of an interleaved tensor is not emulated".to_owned());
        }
        if !matches!(self.swizzle, Swizzle::None | Swizzle::B32 | Swizzle::B64 | Swizzle::B128) {
            let what = format!("swizzling {} with im2col is not emulated", self.swizzle);
            return broken(MapRule::Swizzle, what);
        }
        if walk.pixels == 0 || walk.pixels > 1024 {
            return broken(MapRule::Pixels, format!("{} pixels; a copy takes 1 to 1024", walk.pixels));
        }
        let most = 1i32 << (Im2col::corner_bits(self.rank) - 1);
        for i in 1..self.rank - 1 {
            for corner in [walk.lower[i - 1], walk.upper[i - 1]] {
                if !(-most..most).contains(&corner) {
                    let what = format!(
                        "a corner at {corner} in dimension {i}; with rank {} it must be {} to {}",
                        self.rank,
                        -most,
                        most - 1
                    );
                    return broken(MapRule::Corner, what);
                }
            }
            let (first, last) = walk.bounds(i, self.dims[i]);
            if first > last {
                let what = format!("the bounding box is empty in dimension {i}: {first} to {last}");
                return broken(MapRule::Corner, what);
            }
        }
        Ok(())
    }

    /// Checks every rule of `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col`.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn check(&self) -> Result<(), TensorMapError> {
        let broken = |rule: MapRule, what: String| Err(TensorMapError { rule, what });
        let (ty, rank) = (self.data_type, self.rank);
        let interleaved = self.interleave != Interleave::None;
        if let Some(walk) = &self.im2col {
            self.check_walk(walk)?;
        }
        if rank == 0 || rank > 5 || interleaved && rank < 3 {
            return broken(
                MapRule::Rank,
                format!("rank {rank}; the rank must be 1 to 5, with interleaving 3 to 5"),
            );
        }
        let unit = if ty.unpacks() || self.interleave == Interleave::B32 { 32 } else { 16 };
        if !self.address.is_multiple_of(unit) {
            let what = format!("address {:#x} is not a multiple of {unit}", self.address);
            return broken(MapRule::Address, what);
        }
        for (i, dim) in self.dims[..rank].iter().enumerate() {
            if *dim == 0 || *dim > 1 << 32 {
                return broken(
                    MapRule::Dim,
                    format!("dimension {i} of {dim} elements; it must have 1 to 2^32"),
                );
            }
        }
        let multiple = match ty {
            TensorType::U4Align8 => 2,
            _ if ty.unpacks() => 128,
            _ => 1,
        };
        if !self.dims[0].is_multiple_of(multiple) {
            let what =
                format!("dimension 0 of {} elements of {ty}, not a multiple of {multiple}", self.dims[0]);
            return broken(MapRule::Dim, what);
        }
        for (i, stride) in self.strides[..rank - 1].iter().enumerate() {
            if !stride.is_multiple_of(unit) || *stride >= 1 << 40 {
                let what =
                    format!("stride {i} of {stride} bytes; it must be a multiple of {unit} below 2^40");
                return broken(MapRule::Stride, what);
            }
        }
        for (i, size) in self.box_dims[..rank].iter().enumerate() {
            if *size == 0 || *size > 256 {
                return broken(
                    MapRule::Box,
                    format!("box dimension {i} of {size} elements; it must have 1 to 256"),
                );
            }
        }
        let (inner, pitch) = self.row_bytes();
        if ty.unpacks() && self.box_dims[0] != 128 {
            let what = format!("box dimension 0 of {} elements of {ty}; it must have 128", self.box_dims[0]);
            return broken(MapRule::Box, what);
        }
        if !(u64::from(self.box_dims[0]) * ty.shared_bits()).is_multiple_of(128) {
            return broken(MapRule::BoxBytes, format!("box rows of {inner} bytes, not a multiple of 16"));
        }
        for (i, stride) in self.element_strides[..rank].iter().enumerate() {
            if *stride == 0 || *stride > 8 {
                return broken(
                    MapRule::ElementStride,
                    format!("element stride {i} of {stride}; it must be 1 to 8"),
                );
            }
        }
        if interleaved && ty.unpacks() {
            return broken(MapRule::Interleave, format!("interleaving of {ty}"));
        }
        if self.interleave == Interleave::B32 && self.swizzle != Swizzle::B32 {
            return broken(MapRule::Swizzle, "32-byte interleaving without 32-byte swizzling".to_owned());
        }
        let allowed = match ty {
            TensorType::U4Align16 => {
                matches!(self.swizzle, Swizzle::None | Swizzle::B128 | Swizzle::B128Atom32)
            }
            TensorType::U6Align16 => {
                !matches!(self.swizzle, Swizzle::B32 | Swizzle::B64 | Swizzle::B128Atom32Flip8)
            }
            _ => true,
        };
        if !allowed {
            return broken(MapRule::Swizzle, format!("swizzling {} of {ty}", self.swizzle));
        }
        if !interleaved && inner > pitch {
            return broken(MapRule::Span, format!("box rows of {inner} bytes, swizzled within {pitch}"));
        }
        if self.oob_fill == OobFill::Nan && !ty.is_float() {
            return broken(MapRule::Fill, format!("NaNs outside a tensor of {ty}"));
        }
        let bytes = self.taken().iter().product::<u64>().saturating_mul(ty.shared_bits()) / 8;
        if bytes > MOST_BYTES {
            return broken(MapRule::BoxBytes, format!("a box of {bytes} bytes; the maximum is {MOST_BYTES}"));
        }
        Ok(())
    }
}
