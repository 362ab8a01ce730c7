//! The 128 bytes of a tensor map, as `cuTensorMapEncodeTiled` writes them.
//!
//! They are opaque in CUDA; host code that builds them itself reveals the layout. Little endian:
//!
//! | bytes | |
//! |---|---|
//! | 0–7 | address |
//! | 8–11 | bits 0–3: 2 for tiled, 1 for im2col; 4–6: rank − 1; 7–10: element type; 11–12: interleaving; 13–14: swizzle mode;
//! 15–16: swizzle atomicity; 17: NaN fill; 18: 1; 21–22: L2 promotion |
//! | 12–27 | four strides in units of 16 bytes, their low 32 bits |
//! | 28–31 | the bits of the strides above those, 4 of each |
//! | 32–51 | five dimensions, each − 1 |
//! | 52–53 | five element strides, each − 1, 3 bits each |
//! | 55–59 | five box dimensions, each − 1 |
//! | 56–59 | im2col: the lower corner from bit 0, the upper corner from bit 16; 16, 8 or 5 bits per coordinate for rank 3, 4 or 5 |
//! | 60–63 | im2col: pixels − 1 |
//! | 64–67, 72–75 | im2col: the bytes of a copy; eight rows of shared memory, or 16 without swizzle |
//! | 60–127 | tiled: ignored |
//! | 124–127 | a map that a kernel builds from zeros: which fields it has set |
//!
//! Im2col maps have bit 15 for the NaN fill and neither atomicity nor bit 18: this is what an H200's driver 580 writes, except for
//! L2 promotion, which was not examined. In tiled maps, address, rank, strides, dimensions, box, swizzle mode and the types u8,
//! u16, u32, bf16 and both 4-bit ones are where such host code writes them; the positions of the other fields were chosen here. The
//! last row of the table is specific to the emulator; hardware has nothing there.

use crate::copies::tensor_map::{Im2col, MapRule, TENSOR_MAP_BYTES, TensorMap, TensorMapError};
use crate::copies::tensor_type::{Interleave, L2Promotion, OobFill, Swizzle, TensorType};

/// A tiled map; 0 in bytes that were not encoded by the host.
const TILED: u32 = 2;
const ENCODED: u32 = 1 << 18;
/// An im2col map.
const IM2COL: u32 = 1;
/// NaN fill in an im2col map.
const IM2COL_NANS: u32 = 1 << 15;
/// Bits of the word at byte 8 that have no meaning.
const UNUSED: u32 = 0xFF98_0000;

/// Element types in the order of their codes.
const TYPES: [TensorType; 16] = {
    use TensorType::{
        Bf16, F16, F32, F32Ftz, F64, S32, S64, Tf32, Tf32Ftz, U4Align8, U4Align16, U6Align16, U8, U16, U32,
        U64,
    };
    [U8, U16, U32, S32, U64, S64, F16, F32, F32Ftz, F64, Bf16, U4Align8, U4Align16, U6Align16, Tf32, Tf32Ftz]
};

/// Swizzles of 128 bytes in the order of their atomicity.
const ATOMS: [Swizzle; 4] =
    [Swizzle::B128, Swizzle::B128Atom32, Swizzle::B128Atom32Flip8, Swizzle::B128Atom64];

/// A field that a kernel can set, with its index if there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Address,
    Rank,
    Box(usize),
    Dim(usize),
    Stride(usize),
    ElementStride(usize),
    Type,
    Interleave,
    Swizzle,
    Atomicity,
    Fill,
}

impl Field {
    /// The bit that records that the field was set; 0 for fields whose zero is a legal value: rank 1, `.u8`, no interleaving, no
    /// swizzle.
    fn mark(self) -> u32 {
        match self {
            Self::Address => 1,
            Self::Box(n) => 1 << (3 + n),
            Self::Dim(n) => 1 << (8 + n),
            Self::Stride(n) => 1 << (13 + n),
            Self::ElementStride(n) => 1 << (17 + n),
            Self::Rank | Self::Type => 0,
            Self::Interleave | Self::Swizzle | Self::Atomicity | Self::Fill => 0,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Address => ".global_address".to_owned(),
            Self::Rank => ".rank".to_owned(),
            Self::Type => ".elemtype".to_owned(),
            Self::Box(n) => format!(".box_dim {n}"),
            Self::Dim(n) => format!(".global_dim {n}"),
            Self::Stride(n) => format!(".global_stride {n}"),
            Self::ElementStride(n) => format!(".element_stride {n}"),
            Self::Interleave => ".interleave_layout".to_owned(),
            Self::Swizzle => ".swizzle_mode".to_owned(),
            Self::Atomicity => ".swizzle_atomicity".to_owned(),
            Self::Fill => ".fill_mode".to_owned(),
        }
    }
}

type Bytes = [u8; TENSOR_MAP_BYTES];

fn word(bytes: &Bytes, at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn put(bytes: &mut Bytes, at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

impl TensorMap {
    /// Encodes the map in 128 bytes without checking it.
    pub(crate) fn to_bytes(self) -> Bytes {
        let mut bytes = [0; TENSOR_MAP_BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        let ty = TYPES.iter().position(|t| *t == self.data_type).unwrap_or(0) as u32;
        let atom = ATOMS.iter().position(|s| *s == self.swizzle).unwrap_or(0) as u32;
        let mode = if atom > 0 { Swizzle::B128 as u32 } else { self.swizzle as u32 };
        let rank = self.rank.clamp(1, 5) as u32 - 1;
        let flags = TILED | rank << 4 | ty << 7 | (self.interleave as u32) << 11 | mode << 13 | atom << 15;
        let flags = flags | (self.oob_fill as u32) << 17 | ENCODED | (self.l2_promotion as u32) << 21;
        put(&mut bytes, 8, flags);
        let mut high = 0;
        for (n, stride) in self.strides.iter().enumerate() {
            put(&mut bytes, 12 + 4 * n, (stride >> 4) as u32);
            high |= ((stride >> 36) as u32 & 15) << (4 * n);
        }
        put(&mut bytes, 28, high);
        let mut element_strides = 0u16;
        for n in 0..5 {
            put(&mut bytes, 32 + 4 * n, self.dims[n].saturating_sub(1) as u32);
            element_strides |= (self.element_strides[n].saturating_sub(1) as u16 & 7) << (3 * n);
            bytes[55 + n] = self.box_dims[n].saturating_sub(1) as u8;
        }
        bytes[52..54].copy_from_slice(&element_strides.to_le_bytes());
        if let Some(walk) = self.im2col {
            self.put_walk(walk, &mut bytes);
        }
        bytes
    }

    fn put_walk(&self, walk: Im2col, bytes: &mut Bytes) {
        let nans = if self.oob_fill == OobFill::Nan { IM2COL_NANS } else { 0 };
        let flags = word(bytes, 8) & !(15 | ENCODED | 7 << 15);
        put(bytes, 8, flags | IM2COL | nans);
        let bits = Im2col::corner_bits(self.rank);
        let packed = |corner: &[i32; 3]| {
            let parts = corner.iter().take(self.rank.saturating_sub(2)).enumerate();
            parts.fold(0, |all, (i, part)| all | (*part as u32 & ((1 << bits) - 1)) << (bits * i as u32))
        };
        put(bytes, 56, packed(&walk.lower) | packed(&walk.upper) << 16);
        put(bytes, 60, walk.pixels.saturating_sub(1));
        put(bytes, 64, self.transaction_bytes() as u32);
        put(bytes, 72, if self.swizzle == Swizzle::None { 16 } else { 8 * self.swizzle.span() as u32 });
    }

    /// The traversal of an im2col map.
    fn walk(bytes: &Bytes, rank: usize) -> Im2col {
        let bits = Im2col::corner_bits(rank);
        let corner = |from: u32| {
            std::array::from_fn(|i| {
                let from = from + bits * i as u32;
                if i + 2 >= rank || from >= 32 {
                    return 0;
                }
                // The sign is the highest bit.
                (word(bytes, 56) >> from << (32 - bits)).cast_signed() >> (32 - bits)
            })
        };
        Im2col { lower: corner(0), upper: corner(16), pixels: word(bytes, 60).wrapping_add(1) }
    }

    /// Decodes a map from 128 bytes without checking its rules.
    ///
    /// # Errors
    /// The bytes are not a tensor map.
    pub fn decode(bytes: &Bytes) -> Result<Self, TensorMapError> {
        let none = || TensorMapError {
            rule: MapRule::Bytes,
            what: "these 128 bytes are not a tensor map".to_owned(),
        };
        let flags = word(bytes, 8);
        let kind = flags & 15;
        let walks = kind == IM2COL;
        let unused = match kind {
            IM2COL => [68..72, 76..128],
            // Host code that builds maps itself leaves stack contents in the second half, and an H200 ignores them.
            TILED => [0..0, 0..0],
            _ => [60..92, 92..124],
        };
        let rest = unused.into_iter().any(|part| bytes[part].iter().any(|b| *b != 0));
        let rest = rest || bytes[54] != 0 || word(bytes, 28) >> 16 != 0;
        if ![0, IM2COL, TILED].contains(&kind) || flags & UNUSED != 0 || rest {
            return Err(none());
        }
        let field = |from: u32, bits: u32| u64::from(flags >> from & ((1 << bits) - 1));
        let atom = if walks { Swizzle::B128 } else { ATOMS[field(15, 2) as usize] };
        let nans = if walks { field(15, 1) } else { field(17, 1) };
        let rank = field(4, 3) as usize + 1;
        let swizzle = match field(13, 2) {
            3 => atom,
            mode => Swizzle::from_code(mode).ok_or_else(none)?,
        };
        let element_strides = u32::from(bytes[52]) | u32::from(bytes[53]) << 8;
        let mut address = [0; 8];
        address.copy_from_slice(&bytes[..8]);
        Ok(Self {
            data_type: TYPES[field(7, 4) as usize],
            rank,
            interleave: Interleave::from_code(field(11, 2)).ok_or_else(none)?,
            swizzle,
            l2_promotion: L2Promotion::from_code(field(21, 2)).ok_or_else(none)?,
            oob_fill: OobFill::from_code(nans).ok_or_else(none)?,
            address: u64::from_le_bytes(address),
            dims: std::array::from_fn(|n| u64::from(word(bytes, 32 + 4 * n)) + 1),
            strides: std::array::from_fn(|n| {
                let high = u64::from(word(bytes, 28) >> (4 * n) & 15);
                (u64::from(word(bytes, 12 + 4 * n)) | high << 32) << 4
            }),
            box_dims: std::array::from_fn(|n| if walks && n > 0 { 1 } else { u32::from(bytes[55 + n]) + 1 }),
            im2col: walks.then(|| Self::walk(bytes, rank)),
            element_strides: std::array::from_fn(|n| (element_strides >> (3 * n) & 7) + 1),
        })
    }
}

/// The bytes of a map after a kernel has set one field.
pub(crate) fn after_setting(old: &Bytes, map: TensorMap, field: Field) -> Bytes {
    let mut new = map.to_bytes();
    if word(old, 8) & 15 == 0 {
        let flags = word(&new, 8) & !(15 | ENCODED);
        put(&mut new, 8, flags);
        put(&mut new, 124, word(old, 124) | field.mark());
    }
    new
}

/// The first required field that a kernel has not set in a map that it built from zeros.
pub(crate) fn missing(bytes: &Bytes, map: &TensorMap) -> Option<String> {
    if word(bytes, 8) & 15 != 0 {
        return None;
    }
    let rank = map.rank.min(5);
    let each = |n: usize| [Field::Dim(n), Field::Box(n), Field::ElementStride(n)];
    let needed = std::iter::once(Field::Address);
    let needed = needed.chain((0..rank).flat_map(each)).chain((1..rank).map(|n| Field::Stride(n - 1)));
    let marks = word(bytes, 124);
    needed.into_iter().find(|field| marks & field.mark() == 0).map(Field::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps that host code wrote for hardware: type, dimensions, strides, box, swizzle, L2 promotion, and the encoded words.
    type Written = (
        TensorType,
        &'static [u64],
        &'static [u64],
        &'static [u32],
        Swizzle,
        L2Promotion,
        [(usize, u32); 10],
    );

    #[rustfmt::skip]
    const WRITTEN: [Written; 7] = [
        (TensorType::U8, &[512, 60], &[512], &[128, 32], Swizzle::B128, L2Promotion::None,
         [(0, 0), (1, 0x10), (2, 0x0004_6012), (3, 0x20), (4, 0), (8, 0x1FF), (9, 0x3B), (10, 0), (13, 0x7F00_0000), (14, 0x1F)]),
        (TensorType::U4Align16, &[512, 256, 4], &[256, 65536], &[128, 128, 1], Swizzle::B128, L2Promotion::B64,
         [(0, 0x9000), (1, 0x10), (2, 0x0024_6622), (3, 0x10), (4, 0x1000), (8, 0x1FF), (9, 0xFF), (10, 3), (13, 0x7F00_0000), (14, 0x7F)]),
        (TensorType::U32, &[72, 1], &[288], &[32, 1], Swizzle::None, L2Promotion::None,
         [(0, 0x4_A000), (1, 0x10), (2, 0x0004_0112), (3, 0x12), (4, 0), (8, 0x47), (9, 0), (10, 0), (13, 0x1F00_0000), (14, 0)]),
        (TensorType::U32, &[256, 4, 4], &[1024, 4096], &[128, 1, 1], Swizzle::None, L2Promotion::None,
         [(0, 0x4_C000), (1, 0x10), (2, 0x0004_0122), (3, 0x40), (4, 0x100), (8, 0xFF), (9, 3), (10, 3), (13, 0x7F00_0000), (14, 0)]),
        (TensorType::U4Align8, &[512, 128], &[256], &[128, 128], Swizzle::B64, L2Promotion::None,
         [(0, 0), (1, 0x10), (2, 0x0004_4592), (3, 0x10), (4, 0), (8, 0x1FF), (9, 0x7F), (10, 0), (13, 0x7F00_0000), (14, 0x7F)]),
        (TensorType::U16, &[256, 8, 2], &[512, 4096], &[256, 2, 1], Swizzle::None, L2Promotion::None,
         [(0, 0x1_C000), (1, 0x10), (2, 0x0004_00A2), (3, 0x20), (4, 0x100), (8, 0xFF), (9, 7), (10, 1), (13, 0xFF00_0000), (14, 1)]),
        (TensorType::Bf16, &[256, 128], &[512], &[64, 128], Swizzle::B128, L2Promotion::None,
         [(0, 0x1_F000), (1, 0x10), (2, 0x0004_6512), (3, 0x20), (4, 0), (8, 0xFF), (9, 0x7F), (10, 0), (13, 0x3F00_0000), (14, 0x7F)]),
    ];

    #[test]
    fn maps_are_the_bytes_that_host_code_writes_for_hardware() {
        for (ty, dims, strides, boxes, swizzle, promotion, words) in WRITTEN {
            let mut bytes = [0; TENSOR_MAP_BYTES];
            words.iter().for_each(|(n, w)| put(&mut bytes, 4 * n, *w));
            let address = u64::from(words[1].1) << 32 | u64::from(words[0].1);
            let mut map = TensorMap::dense(ty, address, dims, boxes);
            map.strides[..strides.len()].copy_from_slice(strides);
            (map.swizzle, map.l2_promotion) = (swizzle, promotion);
            assert_eq!(map.encode(), Ok(bytes), "{map:?}");
            assert_eq!(TensorMap::decode(&bytes), Ok(map));
        }
    }

    #[test]
    fn every_field_comes_back() {
        for (n, ty) in TYPES.into_iter().enumerate() {
            for swizzle in ATOMS.into_iter().chain([Swizzle::None, Swizzle::B32, Swizzle::B64]) {
                let map = TensorMap {
                    rank: 1 + n % 5,
                    dims: [1 << 32, 1, 7, 65, 1 << 31],
                    strides: [(1 << 40) - 16, 16, 1 << 36, 0],
                    box_dims: [256, 1, 2, 128, 255],
                    element_strides: [1, 8, 2, 7, 3],
                    interleave: [Interleave::None, Interleave::B16, Interleave::B32][n % 3],
                    swizzle,
                    l2_promotion: L2Promotion::B256,
                    oob_fill: [OobFill::Zeros, OobFill::Nan][n % 2],
                    ..TensorMap::dense(ty, 0x7FFF_0000_1230, &[1], &[1])
                };
                assert_eq!(TensorMap::decode(&map.to_bytes()), Ok(map));
            }
        }
        let tiled = TensorMap::dense(TensorType::U8, 16, &[64], &[64]);
        for at in [8, 11, 54] {
            let mut bytes = tiled.to_bytes();
            bytes[at] |= 0x80;
            let known = TensorMap::decode(&bytes);
            assert!(known.is_err() || at == 8, "byte {at}: {known:?}");
        }
        let mut bytes = tiled.to_bytes();
        bytes[60..].fill(0x7F);
        assert_eq!(TensorMap::decode(&bytes), Ok(tiled));
    }
}
