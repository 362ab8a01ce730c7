//! The launch file format. `docs/emulator.md` describes it, `docs/launch.schema.json` is its schema.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::path::PathBuf;

use indexmap::IndexMap;
use numerics::scale_layout::ScaleLayout;
use schemars::JsonSchema;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Kernel launches, in order, on the same memory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaunchFile {
    /// The modules by name.
    #[serde(deserialize_with = "unique")]
    #[schemars(with = "BTreeMap<String, ModuleEntry>")]
    pub(super) modules: IndexMap<String, ModuleEntry>,
    /// The buffers by name, in the order of their addresses.
    #[serde(default, deserialize_with = "unique")]
    #[schemars(with = "BTreeMap<String, BufferEntry>")]
    pub(super) buffers: IndexMap<String, BufferEntry>,
    /// Module variables that are set before the first launch.
    #[serde(default)]
    pub(super) variables: Vec<VariableEntry>,
    /// The launches.
    pub(super) launches: Vec<LaunchEntry>,
}

/// A module: a file, or a kernel of Triton's cache. Paths are relative to the folder of the launch file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ModuleEntry {
    /// A .ptx file, a .cu file, which NVRTC compiles, or a fatbin, cubin or library with PTX.
    pub(super) file: Option<PathBuf>,
    /// Further translation units, which are linked to `file`.
    #[serde(default)]
    pub(super) units: Vec<PathBuf>,
    /// The target of a .cu file; sm_121a by default.
    pub(super) target: Option<String>,
    /// The version of NVRTC; the newest by default.
    pub(super) toolkit: Option<String>,
    /// Folders of headers of a .cu file.
    #[serde(default)]
    pub(super) include: Vec<PathBuf>,
    /// Macros of a .cu file: NAME or NAME=VALUE.
    #[serde(default)]
    pub(super) define: Vec<String>,
    /// The standard of C++ of a .cu file, such as c++20; NVRTC's default if absent.
    pub(super) std: Option<String>,
    /// A folder of Triton's cache.
    pub(super) triton: Option<PathBuf>,
    /// The buffers that hold its variables in global memory, in the module's order.
    pub(super) variables: Option<Vec<String>>,
}

impl ModuleEntry {
    /// Whether it has nothing that belongs to a `file`.
    pub(super) fn has_no_file(&self) -> bool {
        let Self { target, toolkit, std, include, define, units, .. } = self;
        [target, toolkit, std].iter().all(|option| option.is_none())
            && [include, units].iter().all(|paths| paths.is_empty())
            && define.is_empty()
    }
}

/// A buffer; uninitialized if no contents are given.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BufferEntry {
    /// The element type, as in `bf16`.
    pub(super) r#type: Option<String>,
    /// Number of elements per dimension, the outermost first.
    pub(super) shape: Option<Dims>,
    /// `zeros`, `iota`, or a value for all elements.
    pub(super) fill: Option<Scalar>,
    /// The seed of random elements.
    pub(super) random: Option<u64>,
    /// The minimum and maximum of random values; by default [-1, 1), and all bits for integers.
    pub(super) range: Option<[f64; 2]>,
    /// The elements.
    pub(super) values: Option<Vec<Scalar>>,
    /// A safetensors file with the tensor `tensor`.
    pub(super) file: Option<PathBuf>,
    /// The tensor's name.
    pub(super) tensor: Option<String>,
    /// A file with the raw bytes.
    pub(super) raw: Option<PathBuf>,
    /// Addresses of buffers; null for a null pointer.
    pub(super) pointers: Option<Vec<Option<String>>>,
    /// Consecutive values, laid out like the fields of a struct.
    pub(super) fields: Option<Vec<ValueEntry>>,
    /// Its address, if a kernel or the contents of a buffer depend on it.
    pub(super) address: Option<u64>,
    /// With `raw`: uninitialized bytes, as the first byte and their number.
    #[serde(default)]
    pub(super) unwritten: Vec<[usize; 2]>,
    /// Whether the contents are temporary: they are neither printed nor compared.
    #[serde(default)]
    pub(super) scratch: bool,
    /// The expected contents after the last launch.
    pub(super) expect: Option<ExpectEntry>,
}

/// The expected contents of a buffer: one of `fill`, `values`, `file` with `tensor`, `raw` and `product`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectEntry {
    /// The type of the expected elements; the buffer's by default.
    pub(super) r#type: Option<String>,
    /// `zeros`, `iota`, or a value for all elements.
    pub(super) fill: Option<Scalar>,
    /// The elements.
    pub(super) values: Option<Vec<Scalar>>,
    /// A safetensors file with the tensor `tensor`.
    pub(super) file: Option<PathBuf>,
    /// The tensor's name; the buffer's by default.
    pub(super) tensor: Option<String>,
    /// A file with the raw bytes.
    pub(super) raw: Option<PathBuf>,
    /// With `raw`: bytes that are not compared, as the first byte and their number.
    #[serde(default)]
    pub(super) unwritten: Vec<[usize; 2]>,
    /// A product of block-scaled matrices, judged by its derived bound; the buffer is a matrix [M, N] of bf16 or f32.
    pub(super) product: Option<ProductEntry>,
    /// The tolerance relative to the expected value.
    #[serde(default)]
    pub(super) rtol: f64,
    /// The absolute tolerance, added to the relative one.
    #[serde(default)]
    pub(super) atol: f64,
    /// Steps between neighbouring numbers of the buffer's floating-point type by which a value may differ.
    #[serde(default)]
    pub(super) ulps: u64,
}

/// Where the scales of an operand are: one byte for each row and block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub(super) enum ScaleLayoutWord {
    /// Row after row.
    #[default]
    #[serde(rename = "linear")]
    Linear,
    /// Tiles of 128 rows and 4 blocks, as CUTLASS has them, both padded.
    #[serde(rename = "128x4")]
    Tile128x4,
    /// Tiles of 8 rows and 4 blocks, both padded.
    #[serde(rename = "8x4")]
    Tile8x4,
}

impl From<ScaleLayoutWord> for ScaleLayout {
    fn from(word: ScaleLayoutWord) -> Self {
        match word {
            ScaleLayoutWord::Linear => Self::Linear,
            ScaleLayoutWord::Tile128x4 => Self::Tile128x4,
            ScaleLayoutWord::Tile8x4 => Self::Tile8x4,
        }
    }
}

/// The product of `a` [M, K] and the transpose of `b` [N, K]. Its operands are buffers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProductEntry {
    /// The formats of `a` and `b`: mxfp8, mxfp4, nvfp4, bf16 or f16, or two of them as in mxfp8xmxfp4.
    pub(super) format: String,
    /// The codes of `a`.
    pub(super) a: String,
    /// The codes of `b`.
    pub(super) b: String,
    /// The scales of `a`, if its format has some.
    pub(super) a_scales: Option<String>,
    /// The scales of `b`, if its format has some.
    pub(super) b_scales: Option<String>,
    /// The layout of the scales of `a`; linear by default.
    #[serde(default)]
    pub(super) a_scale_layout: ScaleLayoutWord,
    /// The layout of the scales of `b`; linear by default.
    #[serde(default)]
    pub(super) b_scale_layout: ScaleLayoutWord,
    /// The factor on `a`, if its format has a global scale; 1 by default.
    pub(super) a_global: Option<f32>,
    /// The factor on `b`, if its format has a global scale; 1 by default.
    pub(super) b_global: Option<f32>,
    /// The bias of each column, of f32.
    pub(super) bias: Option<String>,
}

/// A module variable.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VariableEntry {
    /// Its name in the PTX.
    pub(super) name: String,
    /// The module; required if there are several.
    pub(super) module: Option<String>,
    /// The first byte to set.
    #[serde(default)]
    pub(super) at: usize,
    /// The new value.
    pub(super) value: ValueEntry,
}

/// One launch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LaunchEntry {
    /// The module; required if there are several.
    pub(super) module: Option<String>,
    /// The kernel; required if the module has several.
    pub(super) entry: Option<String>,
    /// CTAs of the grid; 1 by default.
    pub(super) grid: Option<Three>,
    /// Threads of a CTA; by default the kernel's .reqntid, or 32.
    pub(super) block: Option<Three>,
    /// CTAs of a cluster; by default the kernel's .reqnctapercluster, or none.
    pub(super) cluster: Option<Three>,
    /// Dynamic shared memory in bytes.
    pub(super) smem: Option<u32>,
    /// Whether all CTAs are resident at the same time, as in a cooperative launch.
    #[serde(default)]
    pub(super) cooperative: bool,
    /// One value per parameter of the kernel, in order.
    #[serde(default)]
    pub(super) args: Vec<ValueEntry>,
}

/// A value: exactly one of a number named by its type, `buffer`, `map` and `struct`. A list of numbers is an array.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ValueEntry {
    /// The address of a buffer.
    pub(super) buffer: Option<String>,
    /// With `buffer` and `map`: the offset in the buffer in bytes.
    pub(super) offset: Option<u64>,
    /// A tensor map over a buffer.
    pub(super) map: Option<MapEntry>,
    /// A struct: its fields.
    pub(super) r#struct: Option<Vec<ValueEntry>>,
    /// With `struct`: its size in bytes.
    pub(super) size: Option<usize>,
    /// The alignment, if it is not the natural one.
    pub(super) align: Option<usize>,
    /// In a struct: the offset, if it is not the next one with this alignment.
    pub(super) at: Option<usize>,
    pub(super) bool: Option<Numbers>,
    pub(super) u8: Option<Numbers>,
    pub(super) s8: Option<Numbers>,
    pub(super) u16: Option<Numbers>,
    pub(super) s16: Option<Numbers>,
    pub(super) u32: Option<Numbers>,
    pub(super) s32: Option<Numbers>,
    pub(super) u64: Option<Numbers>,
    pub(super) s64: Option<Numbers>,
    pub(super) f16: Option<Numbers>,
    pub(super) bf16: Option<Numbers>,
    pub(super) f32: Option<Numbers>,
    pub(super) f64: Option<Numbers>,
    pub(super) e4m3: Option<Numbers>,
    pub(super) e5m2: Option<Numbers>,
    pub(super) ue8m0: Option<Numbers>,
}

/// A tensor map, with the fields of `cuTensorMapEncodeTiled`, innermost dimension first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MapEntry {
    /// The buffer.
    pub(super) of: String,
    /// The element type, as in `bf16` or `16u4_align8b`.
    pub(super) r#type: String,
    /// Number of elements per dimension.
    pub(super) dims: Vec<u64>,
    /// Number of elements of a box per dimension.
    pub(super) r#box: Vec<u32>,
    /// Strides in bytes of all dimensions except the first; rows without gaps by default.
    pub(super) strides: Option<Vec<u64>>,
    /// Element strides per dimension.
    pub(super) estrides: Option<Vec<u32>>,
    /// none, 32B, 64B, 128B, or an atom form such as 128B_atom_32B.
    pub(super) swizzle: Option<String>,
    /// none, 16B or 32B.
    pub(super) interleave: Option<String>,
    /// The value of elements outside the tensor: zeros or nan.
    pub(super) oob: Option<String>,
    /// none, 64B, 128B or 256B.
    pub(super) l2: Option<String>,
}

/// A number, or a word.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number, such as 1, 0x1F, -2.5 or .inf")]
pub(super) enum Scalar {
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(b) => b.fmt(f),
            Self::Unsigned(n) => n.fmt(f),
            Self::Signed(n) => n.fmt(f),
            Self::Float(x) => x.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// One number, or an array.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number, or a list of numbers")]
pub(super) enum Numbers {
    One(Scalar),
    Many(Vec<Scalar>),
}

/// One dimension, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of elements, or a list of one for each dimension")]
pub(super) enum Dims {
    One(usize),
    Many(Vec<usize>),
}

/// x, or x, y, z.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number, or a list of up to three, as in [4, 2, 1]")]
pub(super) enum Three {
    X(u32),
    Xy([u32; 2]),
    Xyz([u32; 3]),
    Alone([u32; 1]),
}

impl Three {
    pub(super) fn dims(&self) -> [u32; 3] {
        match *self {
            Self::X(x) | Self::Alone([x]) => [x, 1, 1],
            Self::Xy([x, y]) => [x, y, 1],
            Self::Xyz(all) => all,
        }
    }
}

/// Deserializes a map and rejects duplicate keys.
fn unique<'de, D, K, V>(from: D) -> Result<IndexMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Eq + Hash + fmt::Display,
    V: Deserialize<'de>,
{
    struct Unique<K, V>(PhantomData<(K, V)>);
    impl<'de, K: Deserialize<'de> + Eq + Hash + fmt::Display, V: Deserialize<'de>> Visitor<'de> for Unique<K, V> {
        type Value = IndexMap<K, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("entries by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = IndexMap::new();
            while let Some(key) = map.next_key::<K>()? {
                if all.contains_key(&key) {
                    return Err(A::Error::custom(format!("`{key}` occurs twice; rename one of them")));
                }
                all.insert(key, map.next_value()?);
            }
            Ok(all)
        }
    }
    from.deserialize_map(Unique(PhantomData))
}
