//! The kernels of `kernels.cu`: their arguments, and how they are launched.

use super::super::kernels::Kernels;
pub(super) use super::super::kernels::{Arguments, MOST, ctas};
use super::handle::{Answer, Call, Failure};

static KERNELS: Kernels = Kernels::new(include_str!("kernels.ptx"));

/// The type of an element, a scalar or a result (`cudaDataType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    F32 = 0,
    F64 = 1,
    F16 = 2,
    I8 = 3,
    C32 = 4,
    C64 = 5,
    I32 = 10,
    BF16 = 14,
}

impl Type {
    /// The type with a number of `cudaDataType`, if kernels have it.
    pub(super) fn from_number(number: u32) -> Option<Self> {
        let all = [Self::F32, Self::F64, Self::F16, Self::I8, Self::C32, Self::C64, Self::I32, Self::BF16];
        all.into_iter().find(|ty| *ty as u32 == number)
    }

    /// The word for it in the names of kernels.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::I8 => "i8",
            Self::C32 => "c32",
            Self::C64 => "c64",
            Self::I32 => "i32",
            Self::BF16 => "bf16",
        }
    }

    /// Its bytes.
    pub(super) const fn size(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::F16 | Self::BF16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::C32 => 8,
            Self::C64 => 16,
        }
    }

    /// The type of an absolute value.
    pub(super) const fn real(self) -> Self {
        match self {
            Self::C32 => Self::F32,
            Self::C64 => Self::F64,
            other => other,
        }
    }
}

/// A factor: a number of the host, or an address of the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scalar {
    at: u64,
    re: f64,
    im: f64,
    ty: Type,
}

impl Scalar {
    pub(super) const ONE: Self = Self { at: 0, re: 1.0, im: 0.0, ty: Type::F64 };
    pub(super) const ZERO: Self = Self { at: 0, re: 0.0, im: 0.0, ty: Type::F64 };

    /// Whether it is zero, as far as the host knows.
    pub(super) fn is_known_zero(&self) -> bool {
        self.at == 0 && self.re == 0.0 && self.im == 0.0
    }

    /// The scalar at an address of the program.
    ///
    /// # Safety
    /// In the host's pointer mode, the address is null or that of a number of this type.
    pub(super) unsafe fn read(call: &Call, address: u64, ty: Type) -> Result<Self, Failure> {
        if address == 0 {
            return Err(Failure::INVALID_VALUE);
        }
        if call.settings.on_device {
            return Ok(Self { at: address, re: 0.0, im: 0.0, ty });
        }
        // SAFETY: as promised by the caller.
        let (re, im) = unsafe {
            match ty {
                Type::F32 => (f64::from(call.of_host::<f32>(address)?), 0.0),
                Type::F64 => (call.of_host::<f64>(address)?, 0.0),
                Type::C32 => {
                    let [re, im] = call.of_host::<[f32; 2]>(address)?;
                    (f64::from(re), f64::from(im))
                }
                Type::C64 => {
                    let [re, im] = call.of_host::<[f64; 2]>(address)?;
                    (re, im)
                }
                Type::F16 => {
                    (f64::from(numerics::Format::F16.decode(u32::from(call.of_host::<u16>(address)?))), 0.0)
                }
                Type::BF16 => {
                    (f64::from(f32::from_bits(u32::from(call.of_host::<u16>(address)?) << 16)), 0.0)
                }
                Type::I32 => (f64::from(call.of_host::<i32>(address)?), 0.0),
                Type::I8 => (f64::from(call.of_host::<i8>(address)?), 0.0),
            }
        };
        Ok(Self { at: 0, re, im, ty })
    }
}

/// What an operand is; the bits of `kernels.cu`.
pub(super) mod flags {
    pub(in super::super) const CONJUGATE: i32 = 1;
    pub(in super::super) const LIST: i32 = 2;
    pub(in super::super) const LOWER: i32 = 4;
    pub(in super::super) const UPPER: i32 = 8;
    pub(in super::super) const MIRRORED: i32 = 16;
    pub(in super::super) const HERMITIAN: i32 = 32;
    pub(in super::super) const UNIT: i32 = 64;
}

/// A matrix or a vector: the address of its first element, and the distances in elements between rows, columns and matrices of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operand {
    pub(super) at: u64,
    pub(super) rows: i64,
    pub(super) columns: i64,
    pub(super) batch: i64,
    pub(super) flags: i32,
}

impl Operand {
    /// A matrix in the order of columns.
    pub(super) const fn matrix(at: u64, leading: i64) -> Self {
        Self { at, rows: 1, columns: leading, batch: 0, flags: 0 }
    }

    /// A vector of `n` elements as a column. With a negative distance its first element is the last in memory.
    pub(super) const fn vector(at: u64, n: i64, step: i64, ty: Type) -> Self {
        Self { at: first(at, n, step, ty), rows: step, columns: 0, batch: 0, flags: 0 }
    }

    /// The transposed matrix. A stored triangle becomes the other one.
    pub(super) const fn transposed(self) -> Self {
        let triangle = self.flags & (flags::LOWER | flags::UPPER);
        let turned = if triangle == flags::LOWER || triangle == flags::UPPER {
            triangle ^ (flags::LOWER | flags::UPPER)
        } else {
            triangle
        };
        Self { rows: self.columns, columns: self.rows, flags: self.flags & !triangle | turned, ..self }
    }

    /// With more flags.
    pub(super) const fn with(self, flags: i32) -> Self {
        Self { flags: self.flags | flags, ..self }
    }

    /// The conjugated matrix.
    pub(super) const fn conjugated(self) -> Self {
        Self { flags: self.flags ^ flags::CONJUGATE, ..self }
    }

    /// op(A) of a `cublasOperation_t`.
    pub(super) const fn operated(self, operation: u32) -> Result<Self, Failure> {
        match operation {
            0 => Ok(self),
            1 => Ok(self.transposed()),
            2 => Ok(self.transposed().conjugated()),
            3 => Ok(self.conjugated()),
            _ => Err(Failure::INVALID_VALUE),
        }
    }

    /// The operand as matrices at a distance from one another, or as those of a list of addresses.
    pub(super) const fn batched(self, batch: Batch) -> Self {
        match batch {
            Batch::One => self,
            Batch::Apart(batch) => Self { batch, ..self },
            Batch::List => self.with(flags::LIST),
        }
    }
}

/// The address of the first of `n` elements.
pub(super) const fn first(at: u64, n: i64, step: i64, ty: Type) -> u64 {
    let back = if step < 0 { (1 - n).wrapping_mul(step) } else { 0 };
    at.wrapping_add((back as u64).wrapping_mul(ty.size() as u64))
}

/// How the matrices of a batch lie.
#[derive(Debug, Clone, Copy)]
pub(super) enum Batch {
    One,
    /// At this distance, in elements.
    Apart(i64),
    /// Anywhere: the operand is a list of addresses.
    List,
}

/// What follows a product: a bias for each row of the result, and a function of each element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epilogue {
    /// The address of the bias; 0 if there is none.
    pub(super) bias: u64,
    /// The distance in elements between the biases of a batch.
    pub(super) batch: i64,
    pub(super) ty: Type,
    /// The bits of `cublasLtEpilogue_t` that name a function.
    pub(super) kind: u32,
}

impl Epilogue {
    pub(super) const NONE: Self = Self { bias: 0, batch: 0, ty: Type::F32, kind: 0 };
}

impl Arguments {
    /// A vector: its address and distance.
    pub(super) fn vector(self, at: u64, n: i64, step: i64, ty: Type) -> Self {
        self.address(first(at, n, step, ty)).long(step)
    }

    pub(super) fn scalar(self, scalar: Scalar) -> Self {
        let Scalar { at, re, im, ty } = scalar;
        let numbers = self.address(at).put(&re.to_le_bytes()).put(&im.to_le_bytes());
        numbers.word(ty as i32).word(0)
    }

    pub(super) fn operand(self, operand: Operand) -> Self {
        let Operand { at, rows, columns, batch, flags } = operand;
        self.address(at).long(rows).long(columns).long(batch).word(flags).word(0)
    }

    pub(super) fn epilogue(self, epilogue: Epilogue) -> Self {
        let Epilogue { bias, batch, ty, kind } = epilogue;
        let size = ty.size() as i64;
        self.address(bias).long(size).long(batch.wrapping_mul(size)).word(ty as i32).word(kind.cast_signed())
    }
}

/// Launches a kernel in the stream of a call.
pub(super) fn launch(
    call: &Call,
    kernel: &str,
    grid: [u32; 3],
    block: [u32; 2],
    arguments: Arguments,
) -> Answer {
    Ok(KERNELS.launch(call.settings.stream, kernel, grid, block, arguments)?)
}
