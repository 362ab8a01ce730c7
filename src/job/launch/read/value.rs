//! Reads the values of a launch file: numbers, addresses, tensor maps, structs.

use emulator::argument::{Element, MapFields};

use super::super::arguments::beyond;
use super::super::file::{MapEntry, Numbers, Scalar, ValueEntry};
use super::super::layout::{Field, lay_out};
use super::super::place::Part;
use super::super::session::Value;
use super::{Fault, Reader, fault, item, with};
use crate::near::nearest;

impl Reader {
    pub(super) fn index(&self, name: &str, path: Vec<Part>) -> Result<usize, Fault> {
        if let Some(n) = self.names.iter().position(|b| b == name) {
            return Ok(n);
        }
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let near =
            nearest(name, names.iter().copied()).map_or_else(String::new, |n| format!("; is it `{n}`?"));
        let all = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        fault(path, format!("there is no buffer `{name}`{near}; the buffers are: {all}"))
    }

    /// Reads a value, with its offset and alignment in a struct.
    pub(super) fn value(&self, entry: &ValueEntry, path: &[Part]) -> Result<Field, Fault> {
        let numbers = entry.numbers();
        let kinds = numbers.len()
            + [entry.buffer.is_some(), entry.map.is_some(), entry.r#struct.is_some()]
                .into_iter()
                .filter(|x| *x)
                .count();
        if kinds != 1 {
            let names = Element::ALL
                .iter()
                .filter(|e| e.bits() >= 8)
                .map(|e| e.name())
                .collect::<Vec<_>>()
                .join(", ");
            return fault(
                path.to_vec(),
                format!(
                    "a value is exactly one of `buffer`, `map`, `struct` and a number by its type ({names})"
                ),
            );
        }
        if entry.offset.is_some() && entry.buffer.is_none() && entry.map.is_none() {
            return fault(with(path, "offset"), "`offset` is for `buffer` and `map`");
        }
        if entry.size.is_some() && entry.r#struct.is_none() {
            return fault(with(path, "size"), "`size` is for `struct`");
        }
        let offset = entry.offset.unwrap_or(0);
        let (value, natural) = if let Some(fields) = &entry.r#struct {
            let place = with(path, "struct");
            let laid = fields.iter().enumerate().map(|(n, f)| self.value(f, &item(&place, n)));
            let laid = laid.collect::<Result<Vec<_>, _>>()?;
            lay_out(laid, entry.size, entry.align).map_err(|(field, why)| {
                Fault::At(field.map_or_else(|| path.to_vec(), |n| item(&place, n)), why)
            })?
        } else if let Some(name) = &entry.buffer {
            let value = Value::Address { buffer: self.index(name, with(path, "buffer"))?, offset };
            let natural = Field::natural(&value);
            (value, natural)
        } else if let Some(map) = &entry.map {
            let place = with(path, "map");
            let buffer = self.index(&map.of, with(&place, "of"))?;
            let map = map.fields().map().map_err(|why| Fault::At(place, why))?.map;
            let value = Value::Map { buffer, offset, map };
            let natural = Field::natural(&value);
            (value, natural)
        } else {
            let Some((element, numbers)) = numbers.first() else { return fault(path.to_vec(), "no value") };
            let place = with(path, element.name());
            let codes = codes(*element, numbers.all()).map_err(|why| Fault::At(place, why))?;
            (Value::Bytes(element.pack(codes)), element.bits() / 8)
        };
        let align = entry.align.unwrap_or(natural);
        if !align.is_power_of_two() {
            return fault(with(path, "align"), format!("`align` is {align}, which is not a power of two"));
        }
        Ok(Field { at: entry.at, align, value })
    }

    /// Checks that tensor maps and addresses are within their buffers.
    pub(super) fn check_maps(&self, entries: &[ValueEntry], path: &[Part]) -> Result<(), Fault> {
        for (n, entry) in entries.iter().enumerate() {
            let place = item(path, n);
            let offset = entry.offset.unwrap_or(0);
            if let Some(name) = &entry.buffer {
                let buffer = &self.buffers[self.index(name, with(&place, "buffer"))?];
                // One past the end is a valid address.
                if offset > buffer.shape.bytes as u64 {
                    let what =
                        format!("`offset` is {offset}, but buffer `{name}` has {} bytes", buffer.shape.bytes);
                    return fault(with(&place, "offset"), what);
                }
            }
            if let Some(map) = &entry.map {
                let place = with(&place, "map");
                let buffer = &self.buffers[self.index(&map.of, with(&place, "of"))?];
                let map = map.fields().map().map_err(|why| Fault::At(place.clone(), why))?;
                if let Some(why) = beyond(&map, offset, buffer) {
                    return fault(place, why);
                }
            }
            self.check_maps(entry.r#struct.as_deref().unwrap_or_default(), &with(&place, "struct"))?;
        }
        Ok(())
    }
}

pub(super) fn codes(element: Element, numbers: &[Scalar]) -> Result<Vec<u64>, String> {
    numbers.iter().map(|n| element.parse(&n.to_string())).collect()
}

/// Returns the element type if a value is a single number.
pub(super) fn scalar(entry: &ValueEntry) -> Option<Element> {
    match entry.numbers().as_slice() {
        [(element, Numbers::One(_))] => Some(*element),
        _ => None,
    }
}

impl Numbers {
    fn all(&self) -> &[Scalar] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl ValueEntry {
    /// Returns the numbers in this entry, with their types.
    fn numbers(&self) -> Vec<(Element, &Numbers)> {
        let all = [
            (Element::Bool, &self.bool),
            (Element::U8, &self.u8),
            (Element::S8, &self.s8),
            (Element::U16, &self.u16),
            (Element::S16, &self.s16),
            (Element::U32, &self.u32),
            (Element::S32, &self.s32),
            (Element::U64, &self.u64),
            (Element::S64, &self.s64),
            (Element::F16, &self.f16),
            (Element::Bf16, &self.bf16),
            (Element::F32, &self.f32),
            (Element::F64, &self.f64),
            (Element::E4m3, &self.e4m3),
            (Element::E5m2, &self.e5m2),
            (Element::Ue8m0, &self.ue8m0),
        ];
        all.into_iter().filter_map(|(element, numbers)| numbers.as_ref().map(|n| (element, n))).collect()
    }
}

impl MapEntry {
    fn fields(&self) -> MapFields<'_> {
        MapFields {
            of: &self.of,
            data_type: &self.r#type,
            dims: &self.dims,
            box_dims: &self.r#box,
            strides: self.strides.as_deref(),
            element_strides: self.estrides.as_deref(),
            swizzle: self.swizzle.as_deref(),
            interleave: self.interleave.as_deref(),
            oob: self.oob.as_deref(),
            l2: self.l2.as_deref(),
        }
    }
}
