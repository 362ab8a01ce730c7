//! Kernel arguments as text, in the order of the parameters: used by `emulate --arg` and by test headers.
//!
//! ```text
//! u32:7  s32:-1  f32:1.5  u64:0x10          a value
//! buf:x=zeros:f32[64,64]                    a buffer of zeros
//! buf:x=iota:u32[64]                        0, 1, 2 and so on
//! buf:x=random:7:bf16[128]                  seeded: floats in [-1, 1), integers of all bits
//! buf:x=@in.safetensors#x                   a tensor of a file
//! out:y=f32[64]                             an unwritten buffer
//! tmap:m=of:x,type:bf16,dims:64x8,box:64x8  a tensor map over a buffer
//! ```

use std::path::PathBuf;

pub use crate::api::element::Element;
use crate::api::tensor_argument;
pub use crate::api::tensor_argument::{MapFields, MapOf};

/// Element type and dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The element type.
    pub element: Element,
    /// Elements per dimension, outermost first.
    pub dims: Vec<usize>,
    /// Total size in bytes.
    pub bytes: usize,
}

impl Shape {
    /// Creates a shape.
    ///
    /// # Errors
    /// A message: there are no elements, more than fit in memory, or the last byte is only half used.
    pub fn new(element: Element, dims: Vec<usize>) -> Result<Self, String> {
        let count = dims.iter().try_fold(1usize, |all, n| all.checked_mul(*n));
        let large = "it is larger than any memory";
        let count = count.filter(|n| *n <= isize::MAX as usize / element.bits().div_ceil(8)).ok_or(large)?;
        if count == 0 {
            return Err("a buffer needs at least one element".to_owned());
        }
        let bytes = element
            .bytes_of(count)
            .ok_or_else(|| format!("{count} elements of {} leave half a byte at the end", element.name()))?;
        Ok(Self { element, dims, bytes })
    }

    /// Number of elements.
    #[must_use]
    pub fn count(&self) -> usize {
        self.element.count_in(self.bytes)
    }
}

/// Initial content of a buffer.
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
    /// Unwritten memory.
    Unwritten(Shape),
}

/// A kernel argument.
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
        /// Its initial content.
        content: Content,
    },
    /// A tensor map over a buffer.
    Map(MapOf),
}

/// The reason why a text is not an argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an argument: {why}")]
pub struct BadArgument {
    text: String,
    why: String,
}

/// Parses one argument.
///
/// # Errors
/// [`BadArgument`] with the reason.
pub fn parse(text: &str) -> Result<Argument, BadArgument> {
    argument(text).map_err(|why| BadArgument { text: text.to_owned(), why })
}

/// Parses a buffer that is not an argument: `NAME=CONTENT`, where `out:TYPE[N]` is unwritten memory.
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
            let element = Element::named(kind)
                .ok_or_else(|| format!("`{kind}` is not one of {}, buf, out, tmap", Element::names()))?;
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
    let element =
        Element::named(name).ok_or_else(|| format!("`{name}` is not one of {}", Element::names()))?;
    let dims = dims
        .split(',')
        .map(|n| n.trim().parse::<usize>().map_err(|_| format!("`{n}` is not a number of elements")))
        .collect::<Result<Vec<_>, _>>()?;
    Shape::new(element, dims)
}

/// Parses a number into the little-endian bytes of an element: decimal, or hexadecimal with `0x` for integers.
///
/// # Errors
/// A message about the number.
pub fn value(element: Element, text: &str) -> Result<Vec<u8>, String> {
    if element.bits() < 8 {
        return Err(format!("a value of {} is half a byte; only buffers have such elements", element.name()));
    }
    Ok(element.pack([element.parse(text)?]))
}

/// The bytes of a buffer of 0, 1, 2 and so on: integers wrap; floats round to nearest even and saturate; `ue8m0` counts codes.
#[must_use]
pub fn iota(shape: &Shape) -> Vec<u8> {
    let element = shape.element;
    let code = |n: u64| match element {
        Element::Ue8m0 => n & 0xFF,
        Element::Bool => n & 1,
        _ if element.is_float() => element.nearest(n as f64, true),
        _ => n,
    };
    element.pack((0..shape.count() as u64).map(code))
}

/// The bytes of a random buffer (SplitMix64 per element): floats in [-1, 1); integers over all bits; `ue8m0` from 2^-4 to 2^3.
#[must_use]
pub fn random(seed: u64, shape: &Shape) -> Vec<u8> {
    let element = shape.element;
    let code = |(z, uniform): (u64, f64)| match element {
        Element::Ue8m0 => element.nearest(((z >> 61) as f64 - 4.0).exp2(), true),
        Element::Bool => z & 1,
        _ if element.is_float() => element.nearest(uniform, true),
        _ => z,
    };
    element.pack(uniforms(seed).take(shape.count()).map(code))
}

/// The bytes of a random buffer with values from `least` to `most`: floats are rounded to nearest, integers down.
#[must_use]
pub fn random_between(seed: u64, shape: &Shape, least: f64, most: f64) -> Vec<u8> {
    let element = shape.element;
    // The largest integer is as likely as the others.
    let width = most - least + if element.is_float() { 0.0 } else { 1.0 };
    let code = |(_, uniform): (u64, f64)| {
        let value = least + (uniform + 1.0) / 2.0 * width;
        element.nearest(if element.is_float() { value } else { value.floor().min(most) }, true)
    };
    element.pack(uniforms(seed).take(shape.count()).map(code))
}

/// SplitMix64: 64 random bits each, and their upper 53 as a number in [-1, 1).
fn uniforms(seed: u64) -> impl Iterator<Item = (u64, f64)> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z, (z >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    })
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
        assert_eq!(bytes("buf:x=iota:e2m1[6]"), [0x20, 0x54, 0x66]);
        assert_eq!(bytes("buf:x=iota:ue8m0[3]"), [0, 1, 2]);
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
        let of = |element| Shape::new(element, vec![1000]).unwrap();
        let digits = random_between(3, &of(Element::U8), 2.0, 5.0);
        assert!((2..=5).all(|n| digits.contains(&n)) && digits.iter().all(|n| (2..=5).contains(n)));
        assert!(random(3, &of(Element::Bool)).iter().all(|n| *n < 2));
        let scales = random(3, &of(Element::Ue8m0));
        assert!(
            scales.contains(&123) && scales.contains(&130) && scales.iter().all(|n| (123..=130).contains(n))
        );
        assert!(Shape::new(Element::E2m1, vec![3]).unwrap_err().contains("half a byte"));
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
                prop_assert_eq!(shape.element.bytes_of(shape.dims.iter().product()), Some(shape.bytes));
            }
        }
    }
}
