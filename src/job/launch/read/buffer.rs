//! Reads the buffers of a launch file and their expected contents.

use std::ops::Range;

use emulator::argument::{self, Element, Shape};

use super::super::expect::{self, Tolerance};
use super::super::file::{BufferEntry, Dims, ExpectEntry, ProductEntry, Scalar};
use super::super::layout::{Field, lay_out};
use super::super::place::Part;
use super::super::product::{self, Product, Stored};
use super::super::session::{Buffer, Expectation, Initial, Value, Wanted, check_memory};
use super::value::codes;
use super::{Fault, Reader, fault, item, with};
use crate::product::OperandFormat;

impl Reader {
    pub(super) fn buffer(&mut self, name: &str, entry: &BufferEntry, path: &[Part]) -> Result<Buffer, Fault> {
        let given = [
            ("fill", entry.fill.is_some()),
            ("random", entry.random.is_some()),
            ("values", entry.values.is_some()),
            ("file", entry.file.is_some()),
            ("raw", entry.raw.is_some()),
            ("pointers", entry.pointers.is_some()),
            ("fields", entry.fields.is_some()),
        ];
        let given: Vec<&str> = given.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect();
        if let [first, second, ..] = given.as_slice() {
            return fault(
                with(path, second),
                format!("both `{first}` and `{second}` say what the buffer holds; remove one"),
            );
        }
        for (key, there, needs) in
            [("range", entry.range.is_some(), "random"), ("tensor", entry.tensor.is_some(), "file")]
        {
            if there && given != [needs] {
                return fault(with(path, key), format!("`{key}` is for `{needs}`"));
            }
        }
        let element = entry.r#type.as_deref().map(|name| element(name, with(path, "type"))).transpose()?;
        let dims = entry.shape.as_ref().map(Dims::all);
        let fields = match (&entry.fields, &entry.pointers) {
            (Some(fields), _) => {
                let place = with(path, "fields");
                let laid = fields.iter().enumerate().map(|(n, f)| self.value(f, &item(&place, n)));
                Some(laid.collect::<Result<Vec<_>, _>>()?)
            }
            (None, Some(pointers)) => {
                let place = with(path, "pointers");
                let one = |(n, name): (usize, &Option<String>)| {
                    let value = match name {
                        Some(name) => {
                            Value::Address { buffer: self.index(name, item(&place, n))?, offset: 0 }
                        }
                        None => Value::Bytes(vec![0; 8]),
                    };
                    Ok::<_, Fault>(Field { at: None, align: 8, value })
                };
                Some(pointers.iter().enumerate().map(one).collect::<Result<Vec<_>, _>>()?)
            }
            (None, None) => None,
        };
        let (shape, initial) = if let Some(fields) = fields {
            let (value, _) = lay_out(fields, None, None).map_err(|(field, why)| {
                let place = with(path, given[0]);
                Fault::At(field.map_or_else(|| place.clone(), |n| item(&place, n)), why)
            })?;
            let default = if entry.pointers.is_some() { Element::U64 } else { Element::U8 };
            let shape = reshaped(element.unwrap_or(default), dims, value.size(), path)?;
            (shape, Initial::Value(value))
        } else if let Some(file) = &entry.file {
            let Some(tensor) = &entry.tensor else {
                return fault(with(path, "file"), "`file` needs the name of a `tensor` in it");
            };
            let (shape, bytes) = self.files.tensor(&self.folder.join(file), tensor)?;
            let shape = match (element, dims) {
                (None, None) => shape,
                (element, dims) => {
                    let dims = dims.or_else(|| element.is_none().then(|| shape.dims.clone()));
                    reshaped(element.unwrap_or(shape.element), dims, bytes.len(), path)?
                }
            };
            (shape, Initial::Bytes(bytes))
        } else if let Some(raw) = &entry.raw {
            let bytes = self.files.bytes(&self.folder.join(raw))?.to_vec();
            (reshaped(element.unwrap_or(Element::U8), dims, bytes.len(), path)?, Initial::Bytes(bytes))
        } else {
            let Some(element) = element else {
                return fault(path.to_vec(), "the buffer needs a `type`, as in `bf16`");
            };
            let dims = match (dims, &entry.values) {
                (Some(dims), _) => dims,
                (None, Some(values)) => vec![values.len()],
                (None, None) => return fault(path.to_vec(), "the buffer needs a `shape`, as in [64, 64]"),
            };
            let shape = Shape::new(element, dims).map_err(|why| Fault::At(with(path, "shape"), why))?;
            check_memory(&self.buffers, shape.bytes)?;
            let initial = if given.is_empty() {
                Initial::Unwritten
            } else if let Some(seed) = entry.random {
                Initial::Bytes(random(seed, entry.range, &shape, path)?)
            } else {
                let made = made(&shape, entry.fill.as_ref(), entry.values.as_deref());
                Initial::Bytes(made.map_err(|(key, why)| Fault::At(with(path, key), why))?)
            };
            (shape, initial)
        };
        check_memory(&self.buffers, shape.bytes)?;
        if !entry.unwritten.is_empty() && entry.raw.is_none() {
            return fault(with(path, "unwritten"), "`unwritten` is for `raw`");
        }
        let unwritten = runs(&entry.unwritten, shape.bytes, path)?;
        let (address, scratch) = (entry.address, entry.scratch);
        Ok(Buffer { name: name.to_owned(), shape, initial, address, unwritten, scratch })
    }

    pub(super) fn expectation(
        &mut self,
        n: usize,
        entry: &ExpectEntry,
        path: &[Part],
    ) -> Result<Expectation, Fault> {
        let buffer = &self.buffers[n];
        let given = [
            ("fill", entry.fill.is_some()),
            ("values", entry.values.is_some()),
            ("file", entry.file.is_some()),
            ("raw", entry.raw.is_some()),
            ("product", entry.product.is_some()),
        ];
        if given.iter().filter(|(_, there)| *there).count() != 1 {
            let what =
                "`expect` needs exactly one of `fill`, `values`, `file` with `tensor`, `raw` and `product`";
            return fault(path.to_vec(), what);
        }
        if let Some(product) = &entry.product {
            if entry.rtol != 0.0 || entry.atol != 0.0 || entry.ulps != 0 {
                let what = "a `product` is judged by its derived bound; remove `rtol`, `atol` and `ulps`";
                return fault(path.to_vec(), what);
            }
            let product = self.product(n, product, &with(path, "product"))?;
            return Ok(Expectation { buffer: n, wanted: Wanted::Product(Box::new(product)) });
        }
        for (key, value) in [("rtol", entry.rtol), ("atol", entry.atol)] {
            if !(value >= 0.0 && value.is_finite()) {
                return fault(
                    with(path, key),
                    format!("`{key}` is {value}; it must be 0 or a positive number"),
                );
            }
        }
        let element = entry.r#type.as_deref().map(|name| element(name, with(path, "type"))).transpose()?;
        let (element, bytes) = if let Some(file) = &entry.file {
            let tensor = entry.tensor.as_deref().unwrap_or(&buffer.name);
            let (shape, bytes) = self.files.tensor(&self.folder.join(file), tensor)?;
            (element.unwrap_or(shape.element), bytes)
        } else if let Some(raw) = &entry.raw {
            let bytes = self.files.bytes(&self.folder.join(raw))?.to_vec();
            (element.unwrap_or(buffer.shape.element), bytes)
        } else {
            let element = element.unwrap_or(buffer.shape.element);
            let count = entry.values.as_ref().map_or(buffer.shape.count(), Vec::len);
            let shape = Shape::new(element, vec![count]).map_err(|why| Fault::At(path.to_vec(), why))?;
            let made = made(&shape, entry.fill.as_ref(), entry.values.as_deref());
            (element, made.map_err(|(key, why)| Fault::At(with(path, key), why))?)
        };
        let tolerance = Tolerance { relative: entry.rtol, absolute: entry.atol, ulps: entry.ulps };
        if !entry.unwritten.is_empty() && entry.raw.is_none() {
            return fault(with(path, "unwritten"), "`unwritten` is for `raw`");
        }
        let unwritten = runs(&entry.unwritten, bytes.len(), path)?;
        let made = expect::expectation(n, &self.buffers[n], (element, bytes), unwritten, tolerance);
        made.map_err(|why| Fault::At(path.to_vec(), why))
    }

    /// The product that a buffer must be, of the contents that other buffers have before the launches.
    fn product(&self, n: usize, entry: &ProductEntry, path: &[Part]) -> Result<Product, Fault> {
        let output = &self.buffers[n];
        let Some([of_a, of_b]) = OperandFormat::parse_pair(&entry.format) else {
            let all: Vec<&str> = OperandFormat::ALL.iter().map(|format| format.word()).collect();
            let what = format!(
                "`{}` is none of the formats {}, and no two of them as in `mxfp8xmxfp4`",
                entry.format,
                all.join(", ")
            );
            return fault(with(path, "format"), what);
        };
        let [rows, columns] = output.shape.dims[..] else {
            let what = format!("buffer `{}` must have the shape [M, N] to be a product", output.name);
            return fault(path.to_vec(), what);
        };
        let of = |key: &str, name: &String| {
            let place = with(path, key);
            let buffer = &self.buffers[self.index(name, place.clone())?];
            let bytes = product::contents(buffer).map_err(|why| Fault::At(place, why))?;
            Ok::<_, Fault>((buffer.shape.element, bytes))
        };
        let codes = |key: &str, name: &String| of(key, name).map(|(_, bytes)| bytes);
        let scales =
            |key: &str, name: &Option<String>| name.as_ref().map(|name| codes(key, name)).transpose();
        let bias = match &entry.bias {
            Some(name) => match of("bias", name)? {
                (Element::F32, bytes) => Some(
                    bytes.as_chunks().0.iter().map(|word| f64::from(f32::from_le_bytes(*word))).collect(),
                ),
                (other, _) => {
                    return fault(with(path, "bias"), format!("the bias is of {}, not of f32", other.name()));
                }
            },
            None => None,
        };
        let a = Stored {
            name: "a",
            format: of_a,
            codes: codes("a", &entry.a)?,
            scales: scales("a_scales", &entry.a_scales)?,
            layout: entry.a_scale_layout.into(),
            global: entry.a_global.unwrap_or(1.0),
        };
        let b = Stored {
            name: "b",
            format: of_b,
            codes: codes("b", &entry.b)?,
            scales: scales("b_scales", &entry.b_scales)?,
            layout: entry.b_scale_layout.into(),
            global: entry.b_global.unwrap_or(1.0),
        };
        let made = Product::new([a, b], bias, [rows, columns], output);
        made.map_err(|why| Fault::At(path.to_vec(), why))
    }
}

/// Converts `[first, length]` pairs to ranges and checks that they are within a buffer of `bytes` bytes.
fn runs(given: &[[usize; 2]], bytes: usize, path: &[Part]) -> Result<Vec<Range<usize>>, Fault> {
    let run = |[at, len]: &[usize; 2]| {
        let end = at.checked_add(*len).filter(|end| *end <= bytes);
        end.map(|end| *at..end).ok_or_else(|| {
            let what = format!("{len} bytes from byte {at} are not in a buffer of {bytes} bytes");
            Fault::At(with(path, "unwritten"), what)
        })
    };
    given.iter().map(run).collect()
}

fn element(name: &str, path: Vec<Part>) -> Result<Element, Fault> {
    Element::named(name)
        .ok_or_else(|| Fault::At(path, format!("`{name}` is not one of {}", Element::names())))
}

/// Returns the shape for `bytes` bytes, of these dimensions or one-dimensional; fails if the sizes differ.
fn reshaped(element: Element, dims: Option<Vec<usize>>, bytes: usize, path: &[Part]) -> Result<Shape, Fault> {
    let dims = dims.unwrap_or_else(|| vec![element.count_in(bytes)]);
    let shape = Shape::new(element, dims).map_err(|why| Fault::At(with(path, "shape"), why))?;
    match shape.bytes == bytes {
        true => Ok(shape),
        false => fault(
            path.to_vec(),
            format!("`type` and `shape` are {} bytes, but the contents are {bytes}", shape.bytes),
        ),
    }
}

fn random(seed: u64, range: Option<[f64; 2]>, shape: &Shape, path: &[Part]) -> Result<Vec<u8>, Fault> {
    match range {
        None => Ok(argument::random(seed, shape)),
        Some([least, most]) if least <= most && (most - least).is_finite() => {
            Ok(argument::random_between(seed, shape, least, most))
        }
        Some([least, most]) => fault(
            with(path, "range"),
            format!("`range` goes from {least} to {most}; the minimum must come first"),
        ),
    }
}

/// Returns the bytes for `fill` or `values`, or the invalid key and what is wrong with it.
fn made(
    shape: &Shape,
    fill: Option<&Scalar>,
    values: Option<&[Scalar]>,
) -> Result<Vec<u8>, (&'static str, String)> {
    let element = shape.element;
    if let Some(values) = values {
        let codes = codes(element, values).map_err(|why| ("values", why))?;
        if codes.len() != shape.count() {
            let what = format!("`values` has {} elements, but `shape` has {}", codes.len(), shape.count());
            return Err(("values", what));
        }
        return Ok(element.pack(codes));
    }
    match fill {
        Some(Scalar::Text(word)) if word == "zeros" => Ok(vec![0; shape.bytes]),
        Some(Scalar::Text(word)) if word == "iota" => Ok(argument::iota(shape)),
        Some(value) => {
            let code = element.parse(&value.to_string());
            let code = code.map_err(|why| ("fill", format!("{why}; `fill` is zeros, iota or a value")))?;
            Ok(element.pack(std::iter::repeat_n(code, shape.count())))
        }
        None => Ok(vec![0; shape.bytes]),
    }
}

impl Dims {
    fn all(&self) -> Vec<usize> {
        match self {
            Self::One(one) => vec![*one],
            Self::Many(many) => many.clone(),
        }
    }
}
