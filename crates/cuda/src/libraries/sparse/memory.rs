//! Arrays of the program: the types of their elements, how they are read as numbers of 64 bits, and how they are written. Each access is checked as
//! those of a copy are.

use std::fmt;

use numerics::{Format, Rounding, convert};
use rustfft::num_complex::Complex;

use super::Failure;
use crate::device::state::device;
use crate::libraries::answer::refused;
use crate::program::caller::called_function;
use crate::program::pointers::host_bytes;
use crate::status::{self, Status};

/// A number of any type of cuSPARSE; real ones have no imaginary part.
pub(super) type Number = Complex<f64>;

/// The type of a real number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Real {
    I8,
    I32,
    F16,
    BF16,
    F32,
    F64,
}

impl Real {
    const fn size(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// The number that bytes encode; 0 if they are fewer than its size.
    fn decode(self, bytes: &[u8]) -> f64 {
        let mut word = [0; 8];
        word.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
        let word = u64::from_le_bytes(word);
        match self {
            Self::I8 => f64::from((word as u8).cast_signed()),
            Self::I32 => f64::from((word as u32).cast_signed()),
            Self::F16 => f64::from(Format::F16.decode(word as u32)),
            Self::BF16 => f64::from(Format::Bf16.decode(word as u32)),
            Self::F32 => f64::from(f32::from_bits(word as u32)),
            Self::F64 => f64::from_bits(word),
        }
    }

    /// Appends the bytes of the nearest number of this type.
    fn encode(self, number: f64, bytes: &mut Vec<u8>) {
        let short = |format| convert::f64_to(format, number, Rounding::NearestEven, false, false) as u16;
        match self {
            // Sums of integers wrap around, as those of a GPU do.
            Self::I8 => bytes.push(number as i64 as u8),
            Self::I32 => bytes.extend_from_slice(&(number as i64 as i32).to_le_bytes()),
            Self::F16 => bytes.extend_from_slice(&short(Format::F16).to_le_bytes()),
            Self::BF16 => bytes.extend_from_slice(&short(Format::Bf16).to_le_bytes()),
            Self::F32 => bytes.extend_from_slice(&(number as f32).to_le_bytes()),
            Self::F64 => bytes.extend_from_slice(&number.to_le_bytes()),
        }
    }
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Type {
    real: Real,
    is_complex: bool,
}

impl Type {
    pub(super) const I8: Self = Self::real(Real::I8);
    pub(super) const I32: Self = Self::real(Real::I32);
    pub(super) const F16: Self = Self::real(Real::F16);
    pub(super) const BF16: Self = Self::real(Real::BF16);
    pub(super) const F32: Self = Self::real(Real::F32);
    pub(super) const F64: Self = Self::real(Real::F64);
    pub(super) const C16: Self = Self::complex(Real::F16);
    pub(super) const CB16: Self = Self::complex(Real::BF16);
    pub(super) const C32: Self = Self::complex(Real::F32);
    pub(super) const C64: Self = Self::complex(Real::F64);

    /// The types with their numbers of `cudaDataType`: those that a descriptor may have.
    const NUMBERS: [(u32, Self); 10] = [
        (0, Self::F32),
        (1, Self::F64),
        (2, Self::F16),
        (3, Self::I8),
        (4, Self::C32),
        (5, Self::C64),
        (6, Self::C16),
        (10, Self::I32),
        (14, Self::BF16),
        (15, Self::CB16),
    ];

    const fn real(real: Real) -> Self {
        Self { real, is_complex: false }
    }

    const fn complex(real: Real) -> Self {
        Self { real, is_complex: true }
    }

    pub(super) const fn is_complex(self) -> bool {
        self.is_complex
    }

    pub(super) fn from_number(number: u32) -> Result<Self, Failure> {
        let found = Self::NUMBERS.iter().find(|(known, _)| *known == number);
        found.map(|(_, ty)| *ty).ok_or(Failure::INVALID_VALUE)
    }

    pub(super) fn number(self) -> u32 {
        Self::NUMBERS.iter().find(|(_, ty)| *ty == self).map_or(0, |(number, _)| *number)
    }

    pub(super) const fn size(self) -> usize {
        self.real.size() * if self.is_complex { 2 } else { 1 }
    }

    /// Whether it is a type of 32 or 64 bits that is its own type of computation.
    pub(super) const fn is_plain(self) -> bool {
        matches!(self.real, Real::F32 | Real::F64)
    }

    /// The type in which numbers of this type are computed if a function is not told one.
    pub(super) const fn computed_in(self) -> Self {
        match self.real {
            Real::F16 | Real::BF16 => Self { real: Real::F32, ..self },
            _ => self,
        }
    }

    /// The word for it in messages.
    pub(super) const fn word(self) -> &'static str {
        match (self.real, self.is_complex) {
            (Real::I8, _) => "i8",
            (Real::I32, _) => "i32",
            (Real::F16, false) => "f16",
            (Real::F16, true) => "complex f16",
            (Real::BF16, false) => "bf16",
            (Real::BF16, true) => "complex bf16",
            (Real::F32, false) => "f32",
            (Real::F32, true) => "complex f32",
            (Real::F64, false) => "f64",
            (Real::F64, true) => "complex f64",
        }
    }

    fn decode(self, bytes: &[u8]) -> Number {
        let (re, im) = bytes.split_at(self.real.size().min(bytes.len()));
        Number::new(self.real.decode(re), if self.is_complex { self.real.decode(im) } else { 0.0 })
    }

    fn encode(self, number: Number, bytes: &mut Vec<u8>) {
        self.real.encode(number.re, bytes);
        if self.is_complex {
            self.real.encode(number.im, bytes);
        }
    }
}

/// The type of indices and offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexType {
    U16 = 1,
    I32 = 2,
    I64 = 3,
}

impl IndexType {
    pub(super) const fn from_number(number: u32) -> Result<Self, Failure> {
        match number {
            1 => Ok(Self::U16),
            2 => Ok(Self::I32),
            3 => Ok(Self::I64),
            _ => Err(Failure::INVALID_VALUE),
        }
    }

    pub(super) const fn size(self) -> usize {
        match self {
            Self::U16 => 2,
            Self::I32 => 4,
            Self::I64 => 8,
        }
    }
}

/// The index of a first row, column or element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Base {
    #[default]
    Zero = 0,
    One = 1,
}

impl Base {
    pub(super) const fn from_number(number: u32) -> Result<Self, Failure> {
        match number {
            0 => Ok(Self::Zero),
            1 => Ok(Self::One),
            _ => Err(Failure::INVALID_VALUE),
        }
    }
}

/// What an array is, in messages: a part of an operand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name(pub(super) &'static str, pub(super) &'static str);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} of {}", self.0, self.1)
    }
}

/// The bytes of an element of any type, followed by zeros.
pub(super) type Raw = [u8; 16];

/// Elements next to each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Array {
    pub(super) at: u64,
    pub(super) count: usize,
    pub(super) name: Name,
}

impl Array {
    pub(super) const fn new(at: u64, count: usize, name: Name) -> Self {
        Self { at, count, name }
    }

    fn read(&self, size: usize, is_used: impl Fn(usize) -> bool) -> Result<Vec<u8>, Status> {
        let (len, name) = (self.count.saturating_mul(size), self.name.to_string());
        // SAFETY: what a program passes as an array is memory that it has, or is reported.
        unsafe { device()?.read_operand(self.at, len, &name, |offset| is_used(offset / size)) }
    }

    /// Its elements as numbers. One that is used must be defined.
    pub(super) fn numbers(&self, ty: Type, is_used: impl Fn(usize) -> bool) -> Result<Vec<Number>, Status> {
        Ok(self.read(ty.size(), is_used)?.chunks_exact(ty.size()).map(|bytes| ty.decode(bytes)).collect())
    }

    /// Its elements as integers, all of which are used.
    pub(super) fn indices(&self, ty: IndexType) -> Result<Vec<i64>, Status> {
        let bytes = self.read(ty.size(), |_| true)?;
        let index = |bytes: &[u8]| {
            let mut word = [0; 8];
            word.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
            match ty {
                IndexType::U16 | IndexType::I64 => i64::from_le_bytes(word),
                IndexType::I32 => i64::from(u64::from_le_bytes(word) as i32),
            }
        };
        Ok(bytes.chunks_exact(ty.size()).map(index).collect())
    }

    /// Its elements as they are, of which those that are used must be defined.
    pub(super) fn raw(&self, size: usize, is_used: impl Fn(usize) -> bool) -> Result<Vec<Raw>, Status> {
        let raw = |bytes: &[u8]| {
            let mut raw = Raw::default();
            raw.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
            raw
        };
        Ok(self.read(size, is_used)?.chunks_exact(size).map(raw).collect())
    }

    /// The number at the address of memory of the host.
    pub(super) fn of_host(&self, ty: Type) -> Result<Number, Status> {
        // SAFETY: the header demands that the address is that of a number of this type.
        Ok(ty.decode(unsafe { host_bytes(self.at, ty.size()) }?))
    }

    /// Checks that elements of a size that are to be read are there, before anything is as large as they are.
    pub(super) fn expect_there(&self, size: usize) -> status::Answer {
        device()?.expect_memory(self.at, self.count.saturating_mul(size), "reads")
    }

    /// Checks that there is room for elements of a size.
    pub(super) fn expect_room(&self, size: usize) -> status::Answer {
        device()?.expect_memory(self.at, self.count.saturating_mul(size), "writes")
    }
}

/// The bytes of a number.
pub(super) fn encoded(ty: Type, number: Number) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ty.size());
    ty.encode(number, &mut bytes);
    bytes
}

/// Writes bytes to memory of the device.
pub(super) fn put(to: u64, bytes: &[u8]) -> status::Answer {
    // SAFETY: what a program passes as an array is memory that it has, or is reported.
    unsafe { device()?.write_result(to, bytes) }
}

/// Writes numbers next to each other.
pub(super) fn put_numbers(to: u64, ty: Type, numbers: &[Number]) -> status::Answer {
    let mut bytes = Vec::with_capacity(numbers.len().saturating_mul(ty.size()));
    numbers.iter().for_each(|number| ty.encode(*number, &mut bytes));
    put(to, &bytes)
}

/// Writes indices next to each other, counted from a base.
pub(super) fn put_indices(to: u64, ty: IndexType, base: Base, indices: &[usize]) -> status::Answer {
    let of = |index: &usize| (*index as u64 + base as u64).to_le_bytes()[..ty.size()].to_vec();
    put(to, &indices.iter().flat_map(of).collect::<Vec<_>>())
}

/// Writes elements of a size next to each other.
pub(super) fn put_raw(to: u64, size: usize, elements: &[Raw]) -> status::Answer {
    put(to, &elements.iter().flat_map(|raw| &raw[..size]).copied().collect::<Vec<_>>())
}

/// Writes elements of a size to their places in an array, neighbours at once. Other elements stay as they are; of several for one place, the last one
/// counts.
pub(super) fn put_some(to: u64, size: usize, mut elements: Vec<(usize, Raw)>) -> status::Answer {
    elements.sort_by_key(|(place, _)| *place);
    let mut runs: Vec<(usize, Vec<Raw>)> = Vec::new();
    for (place, raw) in elements {
        match runs.last_mut() {
            Some((first, run)) if *first + run.len() == place => run.push(raw),
            Some((first, run)) if *first + run.len() == place + 1 => {
                run.pop();
                run.push(raw);
            }
            _ => runs.push((place, vec![raw])),
        }
    }
    runs.iter().try_for_each(|(first, run)| put_raw(to.wrapping_add((first * size) as u64), size, run))
}

/// Writes numbers to their places in an array, as [`put_some`].
pub(super) fn put_some_numbers(
    to: u64,
    ty: Type,
    numbers: impl IntoIterator<Item = (usize, Number)>,
) -> status::Answer {
    let raw = |(place, number)| {
        let (bytes, mut raw) = (encoded(ty, number), Raw::default());
        raw[..bytes.len()].copy_from_slice(&bytes);
        (place, raw)
    };
    put_some(to, ty.size(), numbers.into_iter().map(raw).collect())
}

/// What the types of a product are not.
pub(super) fn no_such_types(types: &[Type]) -> Failure {
    let words: Vec<_> = types.iter().map(|ty| ty.word()).collect();
    refused(called_function(), &format!("there is no such function of the types {}", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_bytes_of_their_type() {
        for (_, ty) in Type::NUMBERS {
            let number = Number::new(-3.0, if ty.is_complex { 2.5 } else { 0.0 });
            assert_eq!(ty.decode(&encoded(ty, number)), number, "{ty:?}");
            assert_eq!(Type::from_number(ty.number()).ok(), Some(ty));
        }
        assert_eq!(encoded(Type::F32, Number::new(0.1, 0.0)), 0.1f32.to_le_bytes());
        assert_eq!(encoded(Type::I32, Number::new(4_294_967_298.0, 0.0)), 2i32.to_le_bytes());
        assert!(Type::from_number(7).is_err());
    }
}
