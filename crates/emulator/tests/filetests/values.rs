//! The values that a test expects in a buffer, and how they are written.

use emulator::argument::{self, Element, Shape};

use super::section::RawValues;

/// Equal or evenly spaced elements that are written as one item.
const RUN: usize = 4;

/// Wrong elements that a failure lists.
const TOLD: usize = 4;

/// Characters of a decimal number beyond which its bits are shorter.
const LONG: usize = 20;

/// A range of elements of a buffer, with the values expected there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Values {
    /// Line of the file, from 1.
    pub(crate) line: usize,
    /// The buffer.
    pub(crate) buffer: String,
    element: Element,
    first: usize,
    count: usize,
    bytes: Vec<u8>,
    /// Whether integers are written in hexadecimal.
    hex: bool,
}

impl Values {
    /// Reads a list such as `1, 7 x 32, 0..64, 100..40 by -20, 0x1F`.
    pub(crate) fn read(raw: &RawValues, shape: &Shape) -> Result<Self, String> {
        let element = shape.element;
        let total = shape.bytes / size_of(element);
        let mut bytes = Vec::new();
        // An empty list is for blessing: all elements.
        for item in raw.list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            if item.contains("..") {
                for n in range(item)? {
                    bytes.extend(number(element, &n.to_string())?);
                }
            } else if let Some((one, times)) = item.split_once(" x ") {
                let times: usize =
                    times.trim().parse().map_err(|_| format!("`{item}` is not a value and how often"))?;
                bytes.extend(number(element, one.trim())?.repeat(times));
            } else {
                bytes.extend(number(element, item)?);
            }
        }
        let listed = bytes.len() / size_of(element);
        let count = if listed == 0 { total.saturating_sub(raw.first) } else { listed };
        if raw.first + count > total || count == 0 {
            return Err(format!("`{}` has {total} elements, not {}", raw.buffer, raw.first + count));
        }
        Ok(Self {
            line: raw.line,
            buffer: raw.buffer.clone(),
            element,
            first: raw.first,
            count,
            bytes,
            hex: raw.list.contains("0x"),
        })
    }

    fn part<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        let size = size_of(self.element);
        buffer.get(self.first * size..(self.first + self.count) * size).unwrap_or_default()
    }

    /// What is wrong with a buffer, if anything.
    pub(crate) fn compare(&self, buffer: &[u8]) -> Result<(), String> {
        let size = size_of(self.element);
        let got = self.part(buffer);
        if got == self.bytes {
            return Ok(());
        }
        let (got, want) =
            (got.chunks(size), self.bytes.chunks(size).map(Some).chain(std::iter::repeat(None)));
        let wrong: Vec<String> = got
            .zip(want)
            .enumerate()
            .filter(|(_, (got, want))| Some(*got) != *want)
            .map(|(n, (got, want))| {
                let want = want.map_or_else(|| "no value".to_owned(), |want| self.show(want));
                format!("{}[{}] is {}, expected {want}", self.buffer, self.first + n, self.show(got))
            })
            .collect();
        let more = wrong.len().saturating_sub(TOLD);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        Err(format!("{}{more}", wrong[..wrong.len().min(TOLD)].join("; ")))
    }

    /// The list that describes a buffer as it is.
    pub(crate) fn list(&self, buffer: &[u8]) -> String {
        let size = size_of(self.element);
        let all: Vec<&[u8]> = self.part(buffer).chunks(size).collect();
        let whole = |bytes: &[u8]| {
            self.element.show(self.element.code_at(bytes, 0).unwrap_or_default()).parse::<i64>().ok()
        };
        let mut items = Vec::new();
        let mut rest = all.as_slice();
        while let Some(first) = rest.first() {
            let equal = rest.iter().take_while(|other| *other == first).count();
            let steps = match (whole(first), rest.get(1).and_then(|second| whole(second))) {
                (Some(first), Some(second)) if !self.hex => {
                    second.checked_sub(first).map(|step| (first, step))
                }
                _ => None,
            };
            let counting = steps.map_or(0, |(first, step)| {
                let next = |n: &i64| n.checked_add(step);
                let counted = std::iter::successors(Some(first), next).zip(rest);
                counted.take_while(|(n, bytes)| whole(bytes) == Some(*n)).count()
            });
            let taken = if equal >= RUN {
                items.push(format!("{} x {equal}", self.show(first)));
                equal
            } else if let Some((first, step)) = steps.filter(|_| counting >= RUN) {
                let end = first.saturating_add(step.saturating_mul(counting as i64));
                let by = if step == 1 { String::new() } else { format!(" by {step}") };
                items.push(format!("{first}..{end}{by}"));
                counting
            } else {
                items.push(self.show(first));
                1
            };
            rest = &rest[taken..];
        }
        items.join(", ")
    }

    fn show(&self, bytes: &[u8]) -> String {
        let text = self.element.show(self.element.code_at(bytes, 0).unwrap_or_default());
        let bits = || {
            let hex: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
            format!("0x{hex}")
        };
        // A NaN has many codes; a decimal number must have this one.
        let exact = number(self.element, &text).is_ok_and(|same| same == bytes);
        if self.hex || !exact || text.len() > LONG { bits() } else { text }
    }
}

/// The numbers of `A..B` or `A..B by STEP`, without B.
fn range(item: &str) -> Result<impl Iterator<Item = i64>, String> {
    let bad = || format!("`{item}` is not a range of whole numbers, as in `0..64` or `0..64 by 2`");
    let (bounds, step) = item.split_once(" by ").unwrap_or((item, "1"));
    let (from, to) = bounds.split_once("..").ok_or_else(bad)?;
    let whole = |text: &str| text.trim().parse::<i64>().map_err(|_| bad());
    let (from, to, step) = (whole(from)?, whole(to)?, whole(step)?);
    if step == 0 || from.abs_diff(to) > 1 << 24 {
        return Err(bad());
    }
    let within = move |n: &i64| if step > 0 { *n < to } else { *n > to };
    Ok(std::iter::successors(Some(from), move |n| n.checked_add(step)).take_while(within))
}

/// A number, or the bits of any type with `0x`.
fn number(element: Element, text: &str) -> Result<Vec<u8>, String> {
    match text.strip_prefix("0x") {
        Some(digits) => {
            let bits = u64::from_str_radix(digits, 16).map_err(|_| format!("`{text}` is not a number"))?;
            let bytes = bits.to_le_bytes();
            let (low, high) = bytes.split_at(size_of(element));
            if high.iter().any(|byte| *byte != 0) {
                return Err(format!("`{text}` does not fit {}", element.name()));
            }
            Ok(low.to_vec())
        }
        None => argument::value(element, text),
    }
}

/// Bytes that an item of a list takes; two elements of 4 bits are one.
fn size_of(element: Element) -> usize {
    element.bits().div_ceil(8)
}
