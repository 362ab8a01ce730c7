//! Arguments of a kernel as words, in the order of its parameters: those of `emulate --arg` and of test headers.
//!
//! ```text
//! u32:7  s32:-1  f32:1.5  u64:0x10          a value
//! buf:x=zeros:f32[64,64]                    a buffer of zeros
//! buf:x=iota:u32[64]                        0, 1, 2 and so on
//! buf:x=random:7:bf16[128]                  seeded: floats in [-1, 1), integers of all bits
//! buf:x=@in.safetensors#x                   a tensor of a file
//! out:y=f32[64]                             a buffer that nobody has written
//! tmap:m=of:x,type:bf16,dims:64x8,box:64x8  a tensor map over a buffer
//! ```

use std::path::PathBuf;

use numerics::{Format, Rounding, convert};

use super::tensor_argument;
pub use super::tensor_argument::MapOf;

/// An element type, by its PTX name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the PTX type of its name")]
pub enum Element {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    F64,
    E4m3,
    E5m2,
}

impl Element {
    const ALL: [Self; 14] = [
        Self::U8,
        Self::S8,
        Self::U16,
        Self::S16,
        Self::U32,
        Self::S32,
        Self::U64,
        Self::S64,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
        Self::E4m3,
        Self::E5m2,
    ];

    /// The PTX name, as in `bf16`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::S8 => "s8",
            Self::U16 => "u16",
            Self::S16 => "s16",
            Self::U32 => "u32",
            Self::S32 => "s32",
            Self::U64 => "u64",
            Self::S64 => "s64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
        }
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::S8 | Self::E4m3 | Self::E5m2 => 1,
            Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
            Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    /// Whether its values are floating-point numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64 | Self::E4m3 | Self::E5m2)
    }

    const fn format(self) -> Option<Format> {
        match self {
            Self::F16 => Some(Format::F16),
            Self::Bf16 => Some(Format::Bf16),
            Self::E4m3 => Some(Format::E4m3),
            Self::E5m2 => Some(Format::E5m2),
            _ => None,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|element| element.name() == name)
    }

    /// One element, little endian, as a decimal number.
    #[must_use]
    pub fn show(self, bytes: &[u8]) -> String {
        let mut word = [0; 8];
        let n = bytes.len().min(8);
        word[..n].copy_from_slice(&bytes[..n]);
        let bits = u64::from_le_bytes(word);
        let low = bits as u32;
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => bits.to_string(),
            Self::S8 => (bits as i8).to_string(),
            Self::S16 => (bits as i16).to_string(),
            Self::S32 => (bits as i32).to_string(),
            Self::S64 => (bits as i64).to_string(),
            Self::F32 => f32::from_bits(low).to_string(),
            Self::F64 => f64::from_bits(bits).to_string(),
            Self::F16 | Self::Bf16 | Self::E4m3 | Self::E5m2 => {
                self.format().map_or(0.0, |format| format.decode(low)).to_string()
            }
        }
    }
}

/// Element type and dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Type of an element.
    pub element: Element,
    /// Elements of each dimension, the outermost first.
    pub dims: Vec<usize>,
    /// All elements, in bytes.
    pub bytes: usize,
}

/// What a buffer holds at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Zeros.
    Zeros(Shape),
    /// 0, 1, 2 and so on, see [`iota`].
    Iota(Shape),
    /// Seeded random values, see [`random`].
    Random(u64, Shape),
    /// A tensor of a safetensors file.
    File {
        /// The file.
        path: PathBuf,
        /// The tensor's name in it.
        tensor: String,
    },
    /// Memory that nobody has written.
    Unwritten(Shape),
}

/// An argument of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// A value.
    Value {
        /// Its type.
        element: Element,
        /// Its bytes, little endian.
        bytes: Vec<u8>,
    },
    /// The address of a buffer.
    Buffer {
        /// The buffer's name.
        name: String,
        /// What it holds at first.
        content: Content,
    },
    /// A tensor map over a buffer.
    Map(MapOf),
}

/// Why a text is no argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an argument: {why}")]
pub struct BadArgument {
    text: String,
    why: String,
}

/// Reads one argument.
///
/// # Errors
/// [`BadArgument`] with the reason.
pub fn parse(text: &str) -> Result<Argument, BadArgument> {
    argument(text).map_err(|why| BadArgument { text: text.to_owned(), why })
}

/// Reads a buffer that is no argument: `NAME=CONTENT`, where `out:TYPE[N]` is memory that nobody has written.
///
/// # Errors
/// [`BadArgument`] with the reason.
pub fn parse_buffer(text: &str) -> Result<(String, Content), BadArgument> {
    let read = || {
        let (name, what) = named(text)?;
        let content = match what.strip_prefix("out:") {
            Some(what) => Content::Unwritten(shape(what)?),
            None => content(&what)?,
        };
        Ok((name, content))
    };
    read().map_err(|why| BadArgument { text: text.to_owned(), why })
}

fn named(text: &str) -> Result<(String, String), String> {
    let (name, what) = text.split_once('=').ok_or("a buffer needs a name, as in `out:y=f32[64]`")?;
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    if !plain {
        return Err(format!("`{name}` is not a name of letters, digits, `_`, `.` and `-`"));
    }
    Ok((name.to_owned(), what.to_owned()))
}

fn argument(text: &str) -> Result<Argument, String> {
    let (kind, rest) =
        text.split_once(':').ok_or("it must begin with a type, `buf:`, `out:` or `tmap:`, as in `u32:7`")?;
    match kind {
        "out" => {
            let (name, what) = named(rest)?;
            Ok(Argument::Buffer { name, content: Content::Unwritten(shape(&what)?) })
        }
        "buf" => {
            let (name, what) = named(rest)?;
            Ok(Argument::Buffer { name, content: content(&what)? })
        }
        "tmap" => Ok(Argument::Map(tensor_argument::parse(&named(rest)?.1)?)),
        _ => {
            let element = Element::named(kind).ok_or_else(|| {
                let names: Vec<&str> = Element::ALL.iter().map(|e| e.name()).collect();
                format!("`{kind}` is not one of {}, buf, out, tmap", names.join(", "))
            })?;
            Ok(Argument::Value { element, bytes: value(element, rest)? })
        }
    }
}

fn content(text: &str) -> Result<Content, String> {
    if let Some(file) = text.strip_prefix('@') {
        let (path, tensor) =
            file.rsplit_once('#').ok_or("name the file's tensor after `#`, as in `@in.safetensors#x`")?;
        if path.is_empty() || tensor.is_empty() {
            return Err("name both the file and its tensor, as in `@in.safetensors#x`".to_owned());
        }
        return Ok(Content::File { path: path.into(), tensor: tensor.to_owned() });
    }
    match text.split_once(':') {
        Some(("zeros", rest)) => Ok(Content::Zeros(shape(rest)?)),
        Some(("iota", rest)) => Ok(Content::Iota(shape(rest)?)),
        Some(("random", rest)) => {
            let (seed, rest) = rest.split_once(':').ok_or("random needs a seed, as in `random:7:f32[64]`")?;
            let seed = seed.parse().map_err(|_| format!("`{seed}` is not a seed"))?;
            Ok(Content::Random(seed, shape(rest)?))
        }
        _ => {
            Err("a buffer is `zeros:TYPE[N]`, `iota:TYPE[N]`, `random:SEED:TYPE[N]` or `@FILE#TENSOR`"
                .to_owned())
        }
    }
}

fn shape(text: &str) -> Result<Shape, String> {
    let inside = text.strip_suffix(']').and_then(|text| text.split_once('['));
    let (name, dims) =
        inside.ok_or_else(|| format!("`{text}` is not a type with dimensions, as in `f32[64,64]`"))?;
    let element = Element::named(name).ok_or_else(|| {
        let names: Vec<&str> = Element::ALL.iter().map(|e| e.name()).collect();
        format!("`{name}` is not one of {}", names.join(", "))
    })?;
    let dims = dims
        .split(',')
        .map(|n| n.trim().parse::<usize>().map_err(|_| format!("`{n}` is not a number of elements")))
        .collect::<Result<Vec<_>, _>>()?;
    let bytes = dims.iter().try_fold(element.bytes(), |all, n| all.checked_mul(*n));
    let bytes = bytes.filter(|n| *n <= isize::MAX as usize).ok_or("it is larger than any memory")?;
    if bytes == 0 {
        return Err("a buffer needs at least one element".to_owned());
    }
    Ok(Shape { element, dims, bytes })
}

/// Reads a number as the bytes of an element, little endian: decimal, and hexadecimal with `0x` for integers.
///
/// # Errors
/// What is wrong with the number, in words.
pub fn value(element: Element, text: &str) -> Result<Vec<u8>, String> {
    let bad = || format!("`{text}` is not of type {}", element.name());
    let bits: u64 = match element {
        Element::F64 => text.parse::<f64>().map_err(|_| bad())?.to_bits(),
        Element::F32 => u64::from(text.parse::<f32>().map_err(|_| bad())?.to_bits()),
        _ if let Some(format) = element.format() => {
            let value = text.parse::<f64>().map_err(|_| bad())?;
            u64::from(convert::f64_to(format, value, Rounding::NearestEven, false, false))
        }
        _ => {
            let number = match text.strip_prefix("0x") {
                Some(digits) => i128::from_str_radix(digits, 16).map_err(|_| bad())?,
                None => text.parse::<i128>().map_err(|_| bad())?,
            };
            let size = 8 * element.bytes() as u32;
            let signed = matches!(element, Element::S8 | Element::S16 | Element::S32 | Element::S64);
            let range = if signed { -(1i128 << (size - 1))..1i128 << (size - 1) } else { 0..1i128 << size };
            if !range.contains(&number) {
                return Err(format!("{text} does not fit {}", element.name()));
            }
            number as u64
        }
    };
    Ok(bits.to_le_bytes()[..element.bytes()].to_vec())
}

/// The bytes of a buffer of 0, 1, 2 and so on: integers wrap, floats are rounded to nearest even and saturate.
#[must_use]
pub fn iota(shape: &Shape) -> Vec<u8> {
    let element = shape.element;
    let mut bytes = Vec::with_capacity(shape.bytes);
    for n in 0..(shape.bytes / element.bytes()) as u64 {
        let bits = match element {
            Element::F64 => (n as f64).to_bits(),
            Element::F32 => u64::from((n as f32).to_bits()),
            _ => element.format().map_or(n, |format| {
                u64::from(convert::f64_to(format, n as f64, Rounding::NearestEven, true, false))
            }),
        };
        bytes.extend_from_slice(&bits.to_le_bytes()[..element.bytes()]);
    }
    bytes
}

/// The bytes of a random buffer: SplitMix64 by element; floats in [-1, 1), integers of all bits.
#[must_use]
pub fn random(seed: u64, shape: &Shape) -> Vec<u8> {
    let element = shape.element;
    let mut state = seed;
    let mut bytes = Vec::with_capacity(shape.bytes);
    for _ in 0..shape.bytes / element.bytes() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        // 53 random bits in [0, 1), then in [-1, 1).
        let uniform = (z >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        let bits = match element {
            Element::F64 => uniform.to_bits(),
            Element::F32 => u64::from((uniform as f32).to_bits()),
            _ => match element.format() {
                Some(format) => {
                    u64::from(convert::f64_to(format, uniform, Rounding::NearestEven, true, false))
                }
                None => z,
            },
        };
        bytes.extend_from_slice(&bits.to_le_bytes()[..element.bytes()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn why(text: &str) -> String {
        parse(text).unwrap_err().why
    }

    #[test]
    fn values_have_the_bits_of_their_type() {
        let bytes = |text: &str| match parse(text).unwrap() {
            Argument::Value { bytes, .. } => bytes,
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes("u32:7"), [7, 0, 0, 0]);
        assert_eq!(bytes("s32:-1"), [255; 4]);
        assert_eq!(bytes("u64:0x1234"), [0x34, 0x12, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes("f32:1.5"), 1.5f32.to_le_bytes());
        assert_eq!(bytes("f64:-inf"), f64::NEG_INFINITY.to_le_bytes());
        assert_eq!(bytes("bf16:1"), [0x80, 0x3F]);
        assert_eq!(bytes("e4m3:448"), [0x7E]);
        assert_eq!(bytes("u64:18446744073709551615"), [255; 8]);
    }

    #[test]
    fn buffers_have_names_contents_and_shapes() {
        let shape = Shape { element: Element::F32, dims: vec![64, 2], bytes: 512 };
        for (text, content) in [
            ("buf:x=zeros:f32[64,2]", Content::Zeros(shape.clone())),
            ("buf:x=iota:f32[64,2]", Content::Iota(shape.clone())),
            ("buf:x=random:7:f32[64,2]", Content::Random(7, shape.clone())),
            ("out:x=f32[64,2]", Content::Unwritten(shape.clone())),
            (
                "buf:x=@a/b.safetensors#t",
                Content::File { path: "a/b.safetensors".into(), tensor: "t".into() },
            ),
        ] {
            assert_eq!(parse(text), Ok(Argument::Buffer { name: "x".into(), content }), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(why("7").contains("as in `u32:7`"));
        assert!(why("u32:-1").contains("does not fit u32"));
        assert!(why("s8:128").contains("does not fit s8"));
        assert!(why("f32:one").contains("`one` is not of type f32"));
        assert!(why("i32:1").contains("`i32` is not one of u8, s8"));
        assert!(why("out:y").contains("needs a name"));
        assert!(why("out:=f32[1]").contains("is not a name"));
        assert!(why("out:y=f32").contains("as in `f32[64,64]`"));
        assert!(why("out:y=f32[0]").contains("at least one"));
        assert!(why("out:y=f32[99999999999,99999999999]").contains("larger than any memory"));
        assert!(why("buf:y=f32[4]").contains("zeros:TYPE[N]"));
        assert!(why("buf:y=@file").contains("#"));
        assert!(why("buf:y=random:f32[4]").contains("seed"));
    }

    #[test]
    fn iota_counts_in_the_type_of_the_buffer() {
        let bytes = |text: &str| match parse(text).unwrap() {
            Argument::Buffer { content: Content::Iota(shape), .. } => iota(&shape),
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes("buf:x=iota:u16[3]"), [0, 0, 1, 0, 2, 0]);
        assert_eq!(bytes("buf:x=iota:u8[258]")[254..], [254, 255, 0, 1]);
        assert_eq!(bytes("buf:x=iota:bf16[2,2]"), [0, 0, 0x80, 0x3F, 0, 0x40, 0x40, 0x40]);
    }

    #[test]
    fn random_numbers_stay_in_their_range_and_repeat() {
        let Ok(Argument::Buffer { content: Content::Random(seed, shape), .. }) =
            parse("buf:x=random:3:f32[1000]")
        else {
            panic!("no buffer")
        };
        let bytes = random(seed, &shape);
        assert_eq!(bytes, random(seed, &shape));
        let values: Vec<f32> =
            bytes.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        assert!(values.iter().all(|x| (-1.0..=1.0).contains(x)));
        assert!(values.iter().any(|x| *x < -0.9) && values.iter().any(|x| *x > 0.9));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = parse(&text);
        }

        #[test]
        fn nothing_that_looks_like_an_argument_panics(
            text in "(buf|out|u8|s64|f16|e4m3|bf16)?:?[a-z]{0,3}[=:]?(zeros|random|@)?[:=]?[0-9]{0,30}:?(f32|u8|e5m2)?\\[?[0-9,]{0,40}\\]?(#x)?"
        ) {
            if let Ok(Argument::Buffer { content: Content::Zeros(shape) | Content::Unwritten(shape), .. }) = parse(&text) {
                prop_assert_eq!(shape.dims.iter().product::<usize>() * shape.element.bytes(), shape.bytes);
            }
        }
    }
}
