//! Text form of tensor map arguments, `tmap:…`: the fields of `cuTensorMapEncodeTiled`, innermost dimension first.
//!
//! ```text
//! tmap:NAME=of:BUFFER,type:bf16,dims:320x64,strides:640,box:64x64,swizzle:128B
//! ```
//!
//! `strides` are in bytes, one fewer than the dimensions; without them rows are dense. `estrides`, `swizzle`, `interleave`, `oob`
//! and `l2` are optional too.

use std::fmt;

use crate::copies::tensor_map::TensorMap;
use crate::copies::tensor_type::{Interleave, L2Promotion, OobFill, Swizzle, TensorType};

/// A tensor map over a buffer of the launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapOf {
    /// The buffer's name.
    pub of: String,
    /// The map, with address 0.
    pub map: TensorMap,
}

const TYPES: &[(&str, TensorType)] = &[
    ("u8", TensorType::U8),
    ("u16", TensorType::U16),
    ("u32", TensorType::U32),
    ("s32", TensorType::S32),
    ("u64", TensorType::U64),
    ("s64", TensorType::S64),
    ("f16", TensorType::F16),
    ("f32", TensorType::F32),
    ("f64", TensorType::F64),
    ("bf16", TensorType::Bf16),
    ("f32_ftz", TensorType::F32Ftz),
    ("tf32", TensorType::Tf32),
    ("tf32_ftz", TensorType::Tf32Ftz),
    ("16u4_align8b", TensorType::U4Align8),
    ("16u4_align16b", TensorType::U4Align16),
    ("16u6_align16b", TensorType::U6Align16),
];

const SWIZZLES: &[(&str, Swizzle)] = &[
    ("none", Swizzle::None),
    ("32b", Swizzle::B32),
    ("64b", Swizzle::B64),
    ("128b", Swizzle::B128),
    ("128b_atom_32b", Swizzle::B128Atom32),
    ("128b_atom_32b_flip_8b", Swizzle::B128Atom32Flip8),
    ("128b_atom_64b", Swizzle::B128Atom64),
];

impl fmt::Display for TensorType {
    /// Its name in an argument: `bf16`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TYPES.iter().find(|(_, ty)| ty == self).map_or("", |(name, _)| name))
    }
}

impl fmt::Display for Swizzle {
    /// Its name in an argument: `128b`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SWIZZLES.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name))
    }
}

const INTERLEAVES: &[(&str, Interleave)] =
    &[("none", Interleave::None), ("16b", Interleave::B16), ("32b", Interleave::B32)];

const FILLS: &[(&str, OobFill)] =
    &[("none", OobFill::Zeros), ("zeros", OobFill::Zeros), ("nan", OobFill::Nan)];

const PROMOTIONS: &[(&str, L2Promotion)] = &[
    ("none", L2Promotion::None),
    ("64b", L2Promotion::B64),
    ("128b", L2Promotion::B128),
    ("256b", L2Promotion::B256),
];

const FIELDS: [&str; 10] =
    ["of", "type", "dims", "strides", "box", "estrides", "swizzle", "interleave", "oob", "l2"];

/// Parses the text after `tmap:NAME=`.
pub(crate) fn parse(text: &str) -> Result<MapOf, String> {
    let mut given: [Option<&str>; 10] = [None; 10];
    for field in text.split(',') {
        let (name, value) = field.split_once(':').ok_or_else(|| {
            format!(
                "`{field}` is not a field of a tensor map, as in `of:BUFFER,type:bf16,dims:320x64,box:64x64`"
            )
        })?;
        let place = FIELDS.iter().position(|f| *f == name).ok_or_else(|| {
            format!("a tensor map has no field `{name}`; its fields are {}", FIELDS.join(", "))
        })?;
        if given[place].replace(value).is_some() {
            return Err(format!("the field `{name}` is given twice"));
        }
    }
    let optional = |name: &str| FIELDS.iter().position(|f| *f == name).and_then(|n| given[n]);
    let needed = |name: &str| optional(name).ok_or_else(|| format!("a tensor map needs the field `{name}`"));
    let dims: Vec<u64> = numbers("dims", needed("dims")?)?;
    let box_dims: Vec<u32> = numbers("box", needed("box")?)?;
    let strides = match optional("strides") {
        Some("") => Some(Vec::new()),
        Some(strides) => Some(numbers("strides", strides)?),
        None => None,
    };
    MapFields {
        of: needed("of")?,
        data_type: needed("type")?,
        dims: &dims,
        box_dims: &box_dims,
        strides: strides.as_deref(),
        element_strides: optional("estrides").map(|n| numbers("estrides", n)).transpose()?.as_deref(),
        swizzle: optional("swizzle"),
        interleave: optional("interleave"),
        oob: optional("oob"),
        l2: optional("l2"),
    }
    .map()
}

/// The fields of a tensor map as text, in the order of `cuTensorMapEncodeTiled`: innermost dimension first.
#[derive(Debug, Clone, Copy)]
pub struct MapFields<'a> {
    /// The buffer's name.
    pub of: &'a str,
    /// The element type, such as `bf16` or `16u4_align8b`.
    pub data_type: &'a str,
    /// Elements per dimension.
    pub dims: &'a [u64],
    /// Elements of a box, per dimension.
    pub box_dims: &'a [u32],
    /// Strides in bytes of all dimensions but the first; `None` for dense rows.
    pub strides: Option<&'a [u64]>,
    /// Traversal stride per dimension, in elements; 1 by default.
    pub element_strides: Option<&'a [u32]>,
    /// `none`, `32B`, `64B`, `128B` or an atom form.
    pub swizzle: Option<&'a str>,
    /// `none`, `16B` or `32B`.
    pub interleave: Option<&'a str>,
    /// Fill value outside the tensor: `zeros` or `nan`.
    pub oob: Option<&'a str>,
    /// `none`, `64B`, `128B` or `256B`.
    pub l2: Option<&'a str>,
}

impl MapFields<'_> {
    /// Builds the tensor map.
    ///
    /// # Errors
    /// A message that names the invalid field, or the reason why the map cannot be encoded.
    pub fn map(&self) -> Result<MapOf, String> {
        let dims = self.dims;
        let data_type = word("type", self.data_type, TYPES)?;
        if dims.is_empty() || dims.len() > 5 {
            return Err(format!("`dims` has {} dimensions; a tensor map has 1 to 5", dims.len()));
        }
        same_length("box", self.box_dims.len(), dims.len())?;
        let mut map = TensorMap::dense(data_type, 0, dims, self.box_dims);
        if let Some(choice) = self.interleave {
            map.interleave = word("interleave", choice, INTERLEAVES)?;
        }
        if let Some(strides) = self.strides {
            same_length("strides", strides.len(), dims.len() - 1)?;
            map.strides[..strides.len()].copy_from_slice(strides);
        } else if map.interleave != Interleave::None {
            return Err("an interleaved tensor map needs the field `strides`".to_owned());
        }
        if let Some(strides) = self.element_strides {
            same_length("estrides", strides.len(), dims.len())?;
            map.element_strides[..strides.len()].copy_from_slice(strides);
        }
        if let Some(choice) = self.swizzle {
            map.swizzle = word("swizzle", choice, SWIZZLES)?;
        }
        if let Some(choice) = self.oob {
            map.oob_fill = word("oob", choice, FILLS)?;
        }
        if let Some(choice) = self.l2 {
            map.l2_promotion = word("l2", choice, PROMOTIONS)?;
        }
        // Buffers are aligned for every kind of map.
        map.check().map_err(|error| format!("this tensor map cannot be encoded: {error}"))?;
        Ok(MapOf { of: self.of.to_owned(), map })
    }
}

impl MapOf {
    /// Distance in bytes from the first element to the end of the last one.
    #[must_use]
    pub fn span(&self) -> u64 {
        let map = &self.map;
        let row = match map.interleave.bytes() {
            0 => map.dims[0].saturating_mul(map.data_type.bits()).div_ceil(8),
            piece => map.dims[0].saturating_mul(piece),
        };
        (1..map.rank)
            .fold(row, |sum, i| sum.saturating_add((map.dims[i] - 1).saturating_mul(map.strides[i - 1])))
    }
}

fn same_length(name: &str, got: usize, wanted: usize) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("`{name}` has {got} numbers, not {wanted}")) }
}

fn word<T: Copy>(field: &str, text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is not a {field} of a tensor map; use one of {}", names.join(", "))
    })
}

fn numbers<T: std::str::FromStr>(field: &str, text: &str) -> Result<Vec<T>, String> {
    let number = |n: &str| {
        n.parse().map_err(|_| format!("`{n}` in `{field}` is not a number; write it as in `{field}:64x8`"))
    };
    text.split('x').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_become_a_map() {
        let got =
            parse("of:x,type:BF16,dims:320x64,strides:640,box:64x64,swizzle:128B,l2:256B,oob:nan").unwrap();
        let mut want = TensorMap::dense(TensorType::Bf16, 0, &[320, 64], &[64, 64]);
        want.swizzle = Swizzle::B128;
        want.l2_promotion = L2Promotion::B256;
        want.oob_fill = OobFill::Nan;
        assert_eq!(got, MapOf { of: "x".to_owned(), map: want });
        assert_eq!(got.span(), 320 * 64 * 2);
        assert_eq!(parse("of:x,type:u8,dims:64,box:64,strides:").unwrap().span(), 64);
        let got = parse("of:x,type:u16,dims:4x2x3,strides:64x128,box:8x1x1,interleave:16B").unwrap();
        assert_eq!((got.map.interleave, got.span()), (Interleave::B16, 64 + 64 + 256));
        assert_eq!(parse("of:x,type:16U4_ALIGN16B,dims:256x4,box:128x4").unwrap().span(), 512);
    }

    #[test]
    fn what_is_wrong_with_a_map_is_said() {
        for (text, says) in [
            ("bf16", "`bf16` is not a field"),
            ("of:x,kind:3", "no field `kind`; its fields are of, type"),
            ("of:x,of:y", "`of` is given twice"),
            ("type:u8,dims:4,box:4", "needs the field `of`"),
            ("of:x,type:u8,dims:4", "needs the field `box`"),
            ("of:x,type:u9,dims:16,box:16", "`u9` is not a type of a tensor map; use one of u8, u16"),
            ("of:x,type:u8,dims:16xa,box:16x1", "`a` in `dims` is not a number"),
            ("of:x,type:u8,dims:16x2,box:16", "`box` has 1 numbers, not 2"),
            ("of:x,type:u8,dims:16x2,box:16x1,strides:16x32", "`strides` has 2 numbers, not 1"),
            ("of:x,type:u8,dims:1x1x1x1x1x1,box:1x1x1x1x1x1", "6 dimensions"),
            (
                "of:x,type:u8,dims:16x2,box:16x1,strides:17",
                "this tensor map cannot be encoded: stride 0 of 17",
            ),
            ("of:x,type:u8,dims:16x2,box:8x1", "not a multiple of 16"),
            ("of:x,type:u16,dims:4x2x3,box:8x1x1,interleave:16B", "needs the field `strides`"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(of:x,)?(type:(u8|f32|16u4_align16b),)?(dims:[0-9x]{0,30},)?(box:[0-9x]{0,20},)?(strides:[0-9x]{0,60}|interleave:32b)?") {
            if let Ok(map) = parse(&text) {
                let _ = map.span();
            }
        }
    }
}
