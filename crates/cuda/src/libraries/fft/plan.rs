//! What a plan says: the sizes of its transforms, the types of their elements, and where these lie.

use super::Failure;

/// The most elements of one side of a plan: kernels count them in 32 bits.
const MOST_ELEMENTS: i64 = i32::MAX as i64;

/// The type of a real number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    F16,
    BF16,
    F32,
    F64,
}

impl Number {
    /// The word for it in the names of kernels.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Its bytes.
    pub(super) const fn size(self) -> u64 {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// What a transform takes and returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Complex,
    RealToComplex,
    ComplexToReal,
}

/// The type of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) kind: Kind,
    pub(super) number: Number,
}

impl Type {
    pub(super) const fn new(kind: Kind, number: Number) -> Self {
        Self { kind, number }
    }

    /// The type with a number of `cufftType`.
    pub(super) const fn from_number(number: i32) -> Result<Self, Failure> {
        let (kind, number) = match number {
            0x29 => (Kind::Complex, Number::F32),
            0x2A => (Kind::RealToComplex, Number::F32),
            0x2C => (Kind::ComplexToReal, Number::F32),
            0x69 => (Kind::Complex, Number::F64),
            0x6A => (Kind::RealToComplex, Number::F64),
            0x6C => (Kind::ComplexToReal, Number::F64),
            _ => return Err(Failure::INVALID_TYPE),
        };
        Ok(Self { kind, number })
    }

    /// The type of input, output and computation by their numbers of `cudaDataType`.
    pub(super) fn from_data_types(input: u32, output: u32, computation: u32) -> Result<Self, Failure> {
        let part = |number| match number {
            0 => Ok((Number::F32, false)),
            1 => Ok((Number::F64, false)),
            2 => Ok((Number::F16, false)),
            4 => Ok((Number::F32, true)),
            5 => Ok((Number::F64, true)),
            6 => Ok((Number::F16, true)),
            14 => Ok((Number::BF16, false)),
            15 => Ok((Number::BF16, true)),
            _ => Err(Failure::INVALID_TYPE),
        };
        let ((number, input), (to, output), (by, _)) = (part(input)?, part(output)?, part(computation)?);
        if number != to || number != by {
            return Err(Failure::INVALID_TYPE);
        }
        let kind = match (input, output) {
            (true, true) => Kind::Complex,
            (false, true) => Kind::RealToComplex,
            (true, false) => Kind::ComplexToReal,
            (false, false) => return Err(Failure::INVALID_TYPE),
        };
        Ok(Self { kind, number })
    }
}

/// Where a program says that the elements of one side lie: the sizes of the array around the transform (`inembed`), and the distances in
/// elements between neighbours and between transforms.
#[derive(Debug, Clone)]
pub(super) struct Placement {
    pub(super) around: Vec<i64>,
    pub(super) stride: i64,
    pub(super) distance: i64,
}

/// A plan.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) ty: Type,
    /// The sizes in numbers of the real side, slowest first; 1 where there are fewer than three.
    pub(super) size: [i64; 3],
    pub(super) batch: i64,
    /// Where input and output lie, if the program says so.
    placements: Option<[Placement; 2]>,
}

/// The elements of one side of a plan: their number in each direction, and the distances between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Elements {
    pub(super) size: [i64; 3],
    pub(super) step: [i64; 3],
    /// The distance between transforms.
    pub(super) distance: i64,
    /// The numbers of an element: 2 if it is complex.
    pub(super) parts: i64,
}

impl Elements {
    /// The number of elements of one transform.
    pub(super) fn of_one(&self) -> i64 {
        self.size.iter().product()
    }

    /// Whether elements lie in the order of their indices, without gaps.
    pub(super) fn are_dense(&self) -> bool {
        let [_, rows, columns] = self.size;
        self.step == [rows * columns, columns, 1] && self.distance == self.of_one()
    }
}

/// The sides of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Input = 0,
    Output = 1,
}

impl Plan {
    /// Checks what a program says. `placements` are those of input and output, if the program gives both.
    pub(super) fn new(
        size: &[i64],
        ty: Type,
        batch: i64,
        placements: Option<[Placement; 2]>,
    ) -> Result<Self, Failure> {
        if !(1..=3).contains(&size.len()) {
            return Err(Failure::INVALID_VALUE);
        }
        if batch < 1 || size.iter().any(|size| *size < 1) {
            return Err(Failure::INVALID_SIZE);
        }
        if placements.iter().flatten().any(|at| at.stride < 1 || at.distance < 1) {
            return Err(Failure::INVALID_VALUE);
        }
        // cuFFT has transforms of 16 bits for powers of two alone.
        if matches!(ty.number, Number::F16 | Number::BF16) && size.iter().any(|size| size & (size - 1) != 0) {
            return Err(Failure::NOT_SUPPORTED);
        }
        let total = size.iter().try_fold(batch, |all, size| all.checked_mul(*size));
        if total.is_none_or(|total| total > MOST_ELEMENTS) {
            return Err(Failure::INVALID_SIZE);
        }
        let mut three = [1; 3];
        three[3 - size.len()..].copy_from_slice(size);
        Ok(Self { ty, size: three, batch, placements })
    }

    /// The elements of a side. Without placements they are dense, but the rows of real numbers have room for those of the result where the
    /// result takes their place.
    pub(super) fn elements(&self, side: Side, is_in_place: bool) -> Elements {
        let [slow, middle, fast] = self.size;
        let is_real = match self.ty.kind {
            Kind::Complex => false,
            Kind::RealToComplex => side == Side::Input,
            Kind::ComplexToReal => side == Side::Output,
        };
        let half = fast / 2 + 1;
        let columns = if is_real || self.ty.kind == Kind::Complex { fast } else { half };
        let parts = if is_real { 1 } else { 2 };
        let size = [slow, middle, columns];
        let Some(placements) = &self.placements else {
            let row = if is_real && is_in_place { 2 * half } else { columns };
            return Elements { size, step: [middle * row, row, 1], distance: slow * middle * row, parts };
        };
        let Placement { around, stride, distance } = &placements[side as usize];
        let inner =
            |n: usize| around.len().checked_sub(n).and_then(|at| around.get(at)).copied().unwrap_or(1);
        let row = stride.wrapping_mul(inner(1));
        Elements { size, step: [row.wrapping_mul(inner(2)), row, *stride], distance: *distance, parts }
    }

    /// The bytes of the work area: the numbers of the larger side, in 64 bits each.
    pub(super) fn work_size(&self) -> u64 {
        let numbers = |side| {
            let elements = self.elements(side, false);
            (elements.of_one() * elements.parts * self.batch) as u64
        };
        8 * numbers(Side::Input).max(numbers(Side::Output))
    }
}
