//! What `cublasLtMatmul` and `cublasLtMatrixTransform` are asked for, and whether kernels have it.

use super::super::handle::{Answer, Call, Failure};
use super::super::kernel::{Arguments, Batch, Epilogue, Operand, Scalar, Type, ctas, launch};
use super::super::product::{Product, general};
use super::objects::{ALGORITHM, LAYOUT, MATMUL, Object, TRANSFORM, layout, matmul};

/// A matrix by its layout.
#[derive(Clone, Copy, PartialEq)]
struct Matrix {
    ty: u32,
    size: [i64; 2],
    /// The distances between rows and between columns.
    apart: [i64; 2],
    count: i64,
    stride: i64,
    is_list: bool,
}

impl Matrix {
    fn from_layout(call: &Call, address: u64) -> Result<Self, Failure> {
        let object = Object::of_kind(&LAYOUT, address)?;
        let size = [object.long(layout::ROWS)?, object.long(layout::COLUMNS)?];
        let [rows, columns] = size.map(i64::try_from);
        let (rows, columns) = rows.ok().zip(columns.ok()).ok_or(Failure::INVALID_VALUE)?;
        let leading = object.long(layout::LEADING)?.cast_signed();
        let (least, apart) = match object.word(layout::ORDER)? {
            0 => (rows, [1, leading]),
            1 => (columns, [leading, 1]),
            order => {
                return Err(call.unsupported(&format!(
                    "the order {order} of cublasLtOrder_t; CUBLASLT_ORDER_COL and CUBLASLT_ORDER_ROW are served"
                )));
            }
        };
        let count = i64::from(object.word(layout::BATCH_COUNT)?.cast_signed());
        if leading < least.max(1) || count < 0 {
            return Err(Failure::INVALID_VALUE);
        }
        if object.long(layout::PLANE_OFFSET)? != 0 {
            return Err(
                call.unsupported("planes of real and imaginary parts; store both parts of a number together")
            );
        }
        let is_list = match object.word(layout::BATCH_MODE)? {
            0 => false,
            1 => true,
            2 => return Err(call.unsupported("grouped matrices; call it for each group")),
            _ => return Err(Failure::INVALID_VALUE),
        };
        let stride = object.long(layout::BATCH_STRIDE)?.cast_signed();
        Ok(Self { ty: object.word(layout::TYPE)?, size: [rows, columns], apart, count, stride, is_list })
    }

    /// The size of op(A).
    const fn operated(&self, operation: u32) -> [i64; 2] {
        let [rows, columns] = self.size;
        if matches!(operation, 1 | 2) { [columns, rows] } else { [rows, columns] }
    }

    /// The matrices at an address.
    const fn at(&self, address: u64) -> Operand {
        let batch = if self.is_list { Batch::List } else { Batch::Apart(self.stride) };
        let [rows, columns] = self.apart;
        Operand { rows, columns, ..Operand::matrix(address, 1) }.batched(batch)
    }

    /// Whether the elements lie as those of another.
    fn lies_as(&self, other: &Self) -> bool {
        self.apart == other.apart && self.stride == other.stride && self.is_list == other.is_list
    }
}

/// The kernel for types of `cudaDataType`, a `cublasComputeType_t` and the type of factors, and the latter.
pub(super) fn kernel(
    call: &Call,
    compute: u32,
    scale: u32,
    types: [u32; 4],
) -> Result<(&'static str, Type, Type), Failure> {
    let served = || {
        let [a, b, c, d] = types.map(Type::from_number);
        let (a, b, c, d) = (a?, b?, c?, d?);
        let factors = match (compute, d) {
            (64 | 65, Type::F16) => Type::F16,
            (68 | 69 | 74 | 75 | 77 | 78, Type::F32 | Type::F16 | Type::BF16) => Type::F32,
            (68 | 69 | 74 | 75 | 77 | 78, Type::C32) => Type::C32,
            (70 | 71 | 79, Type::F64 | Type::C64) | (72 | 73, Type::I32) => d,
            _ => return None,
        };
        let is_whole = c == d && factors as u32 == scale;
        is_whole.then_some((general([a, b, d])?, factors, d))
    };
    served().ok_or_else(|| {
        call.unsupported(&format!(
            "matrices of the types {types:?} of cudaDataType with the type {compute} of a computation and {scale} of its factors; \
             f32, f64, complex, f16, bf16 and i8 are served: convert operands of 8 bits and less to f16 or bf16 by a kernel of the program"
        ))
    })
}

/// Attributes of a product that have to be 0, and what they are.
const UNSERVED: [(u32, &str); 14] = [
    (17, "A_SCALE_POINTER"),
    (18, "B_SCALE_POINTER"),
    (19, "C_SCALE_POINTER"),
    (20, "D_SCALE_POINTER"),
    (21, "AMAX_D_POINTER"),
    (23, "EPILOGUE_AUX_SCALE_POINTER"),
    (24, "EPILOGUE_AUX_AMAX_POINTER"),
    (29, "ATOMIC_SYNC_IN_COUNTERS_POINTER"),
    (30, "ATOMIC_SYNC_OUT_COUNTERS_POINTER"),
    (36, "D_OUT_SCALE_POINTER"),
    (38, "EMULATION_DESCRIPTOR"),
    (39, "ALPHA_BATCH_STRIDE"),
    (40, "BETA_BATCH_STRIDE"),
    (matmul::OPERATION_C, "TRANSC"),
];

/// A product that kernels have, without the addresses of its matrices.
pub(super) struct Plan {
    kernel: &'static str,
    factors: Type,
    is_on_device: bool,
    operations: [u32; 2],
    matrices: [Matrix; 4],
    size: [i64; 3],
    has_bias: bool,
    epilogue: Epilogue,
}

impl Plan {
    /// The product by its descriptor and the layouts of A, B, C and D.
    pub(super) fn from_descriptors(call: &Call, descriptor: u64, layouts: [u64; 4]) -> Result<Self, Failure> {
        let object = Object::of_kind(&MATMUL, descriptor)?;
        let [a, b, c, d] = layouts.map(|at| Matrix::from_layout(call, at));
        let matrices @ [a, b, c, d] = [a?, b?, c?, d?];
        let compute = object.word(matmul::COMPUTE)?;
        let types = matrices.map(|matrix| matrix.ty);
        let (kernel, factors, result) = kernel(call, compute, object.word(matmul::SCALE)?, types)?;
        for (number, name) in UNSERVED {
            if object.long(number)? != 0 {
                return Err(call.unsupported(&format!(
                    "the attribute CUBLASLT_MATMUL_DESC_{name}; scale by alpha and beta, or by a kernel of the program"
                )));
            }
        }
        if object.word(matmul::FILL)? != matmul::FULL {
            return Err(call.unsupported("a triangle of the result; call cublasSsyrk or compute all of it"));
        }
        let is_on_device = pointer_mode(call, object.word(matmul::POINTER_MODE)?)?;
        let [op_a, op_b] = matmul::OPERATIONS.map(|number| object.word(number));
        let operations @ [op_a, op_b] = [op_a?, op_b?];
        let ([m, k], [of_b, n]) = (a.operated(op_a), b.operated(op_b));
        let are_batches = matrices.iter().all(|other| other.count == d.count && other.is_list == d.is_list);
        if of_b != k || c.size != [m, n] || d.size != [m, n] || !are_batches {
            return Err(Failure::INVALID_VALUE);
        }
        let (has_bias, epilogue) = epilogue(call, &object, result)?;
        let size = [m, n, k];
        Ok(Self { kernel, factors, is_on_device, operations, matrices, size, has_bias, epilogue })
    }

    /// Computes it with factors and matrices at these addresses.
    pub(super) fn run(
        &self,
        call: &Call,
        stream: u64,
        [alpha, beta]: [u64; 2],
        addresses: [u64; 4],
    ) -> Answer {
        let [a, b, c, d] = addresses;
        let call = &placed(call, stream, self.is_on_device);
        let of = |n: usize| self.matrices[n].at(addresses[n]);
        let operands = [of(0).operated(self.operations[0])?, of(1).operated(self.operations[1])?, of(2)];
        let Self { kernel, size, .. } = *self;
        let count = self.matrices[3].count;
        if size[0] == 0 || size[1] == 0 || count == 0 {
            return Ok(());
        }
        // SAFETY: the header demands that the addresses are those of numbers of this type.
        let [alpha, beta] =
            unsafe { [Scalar::read(call, alpha, self.factors)?, Scalar::read(call, beta, self.factors)?] };
        let reads_c = !beta.is_known_zero();
        let is_missing = a == 0 || b == 0 || d == 0 || reads_c && !self.is_on_device && c == 0;
        // In place, an element is read and written by one thread.
        let is_mixed = reads_c && c == d && !self.matrices[2].lies_as(&self.matrices[3]);
        if is_missing || is_mixed || self.has_bias && self.epilogue.bias == 0 {
            return Err(Failure::INVALID_VALUE);
        }
        let (factors, epilogue, result) = ([alpha, beta], self.epilogue, Some(of(3)));
        Product { kernel, size, count, factors, operands, result, epilogue, is_special: false }.run(call)
    }
}

/// Checks an algorithm, unless it is null.
pub(super) fn algorithm(address: u64) -> Answer {
    if address == 0 { Ok(()) } else { Object::of_kind(&ALGORITHM, address).map(|_| ()) }
}

/// A call in a stream with a pointer mode.
fn placed(call: &Call, stream: u64, is_on_device: bool) -> Call {
    let mut settings = call.settings;
    settings.stream = stream;
    settings.on_device = is_on_device;
    Call { settings, ..*call }
}

/// Whether factors are in memory of the device, by a `cublasLtPointerMode_t`.
fn pointer_mode(call: &Call, mode: u32) -> Result<bool, Failure> {
    match mode {
        0 => Ok(false),
        1 => Ok(true),
        2..=4 => Err(call.unsupported(
            "vectors of factors; CUBLASLT_POINTER_MODE_HOST and CUBLASLT_POINTER_MODE_DEVICE are served",
        )),
        _ => Err(Failure::INVALID_VALUE),
    }
}

/// Whether a product has a bias, and what follows it.
fn epilogue(call: &Call, object: &Object<'_>, result: Type) -> Result<(bool, Epilogue), Failure> {
    let number = object.word(matmul::EPILOGUE)?;
    if number == 1 {
        return Ok((false, Epilogue::NONE));
    }
    if !matches!(number, 2 | 4 | 6 | 32 | 36) {
        return Err(call.unsupported(&format!(
            "the epilogue {number} of cublasLtEpilogue_t; DEFAULT, RELU, BIAS, RELU_BIAS, GELU and GELU_BIAS are served: compute the rest by \
             a kernel of the program"
        )));
    }
    if matches!(result, Type::C32 | Type::C64 | Type::I32) {
        return Err(call.unsupported(
            "an epilogue of complex numbers or integers; compute it by a kernel of the program",
        ));
    }
    let has_bias = number & 4 != 0;
    if !has_bias {
        return Ok((false, Epilogue { kind: number, ..Epilogue::NONE }));
    }
    let ty = match object.word(matmul::BIAS_TYPE)? {
        u32::MAX => Some(result),
        ty => Type::from_number(ty),
    };
    let is_wide = result == Type::F64;
    let is_served = |ty: &Type| match ty {
        Type::F64 => is_wide,
        Type::F32 | Type::F16 | Type::BF16 => !is_wide,
        _ => false,
    };
    let ty = ty.filter(is_served).ok_or_else(|| {
        call.unsupported("a bias of this type (BIAS_DATA_TYPE); store it in the type of the result")
    })?;
    let bias = object.long(matmul::BIAS)?;
    let batch = object.long(matmul::BIAS_STRIDE)?.cast_signed();
    Ok((true, Epilogue { bias, batch, ty, kind: number & !4 }))
}

/// C = alpha op(A) + beta op(B), for types of 4 bytes and more.
pub(super) fn transform(
    call: &Call,
    descriptor: u64,
    stream: u64,
    factors: [u64; 2],
    [a, b, c]: [(u64, u64); 3],
) -> Answer {
    let object = Object::of_kind(&TRANSFORM, descriptor)?;
    let call = &placed(call, stream, pointer_mode(call, object.word(1)?)?);
    let result = Matrix::from_layout(call, c.1)?;
    let (scale, [m, n]) = (object.word(0)?, result.size);
    let ty = Type::from_number(scale)
        .filter(|_| scale == result.ty)
        .filter(|ty| matches!(ty, Type::F32 | Type::F64 | Type::C32 | Type::C64));
    let unsupported = || {
        call.unsupported(
            "a conversion of types, types of 16 bits and less, and batches; matrices of one type of f32, f64 or complex numbers are served",
        )
    };
    let ty = ty.filter(|_| result.count == 1 && !result.is_list).ok_or_else(unsupported)?;
    let mut terms = Vec::new();
    for (n_th, (address, layout)) in [a, b].into_iter().enumerate() {
        if address == 0 {
            terms.push((Scalar::ZERO, Operand::matrix(0, 1)));
            continue;
        }
        let (matrix, operation) = (Matrix::from_layout(call, layout)?, object.word(2 + n_th as u32)?);
        if matrix.ty != scale || matrix.count != 1 || matrix.is_list {
            return Err(unsupported());
        }
        let operand = matrix.at(address).operated(operation)?;
        let is_mixed = address == c.0 && [operand.rows, operand.columns] != result.apart;
        if matrix.operated(operation) != [m, n] || is_mixed {
            return Err(Failure::INVALID_VALUE);
        }
        // SAFETY: the header demands that the address is that of a number of this type.
        terms.push((unsafe { Scalar::read(call, factors[n_th], ty) }?, operand));
    }
    if c.0 == 0 {
        return Err(Failure::INVALID_VALUE);
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    let arguments = terms.into_iter().fold(Arguments::default().long(m).long(n), |all, (factor, operand)| {
        all.scalar(factor).operand(operand)
    });
    let grid = [ctas(m.saturating_mul(n), 256, 4096), 1, 1];
    let name = format!("cublas_geam_{}", ty.word());
    launch(call, &name, grid, [256, 1], arguments.operand(result.at(c.0)))
}
