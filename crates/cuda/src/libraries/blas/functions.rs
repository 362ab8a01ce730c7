//! The functions of cuBLAS that are served. Matrices are stored by columns. Each function stands here once for all types of elements, above it
//! its names: with sizes of 32 bits, and with those of 64 (`_64`).

use std::ffi::{c_char, c_int};

use super::handle::{self, Answer, Call, Failure, answered, answered_with};
use super::kernel::{Arguments, Batch, MOST, Operand, Scalar, Type, ctas, flags, launch};
use super::product::{Product, general};
use crate::device::submit::submit;
use crate::device::work::{CopyWork, Memory, Work};
use crate::program::caller::runtime_is_12;
use crate::program::pointers::Out;

/// Defines functions with a handle. `int` is the size of the name: `i32`, or `i64` for names that end in `_64`.
macro_rules! functions {
    ($($list:ident: [$($ty:ident: $name:ident $($wide:ident)?),+ $(,)?] fn $arguments:tt $body:block)*) => {
        $($(
            function! { $name i32 false $ty $arguments $body }
            $(function! { $wide i64 true $ty $arguments $body })?
        )+)*
        $(const $list: &[&str] = &[$(stringify!($name), $(stringify!($wide),)?)+];)*

        /// The names of all functions of this file.
        pub(super) const NAMES: &[&[&str]] = &[WITHOUT_HANDLE, $($list),*];
    };
}

macro_rules! function {
    ($name:ident $int:ident $is_wide:literal $of:ident ($call:ident, $ty:ident $(, $arg:ident: $kind:ident)* $(,)?) $body:block) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(handle: u64 $(, $arg: argument!($kind $int))*) -> c_int {
            answered_with(stringify!($name), handle, $is_wide, |$call| {
                let $ty = Type::$of;
                $(let $arg = widened!($kind $arg);)*
                $body
            })
        }
    };
}

macro_rules! argument {
    (int $int:ident) => { $int };
    (place $int:ident) => { Out<$int> };
    ($kind:ident $int:ident) => { $kind };
}

macro_rules! widened {
    (int $arg:ident) => {
        i64::from($arg)
    };
    ($kind:ident $arg:ident) => {
        $arg
    };
}

/// Checks that sizes are not negative.
fn sizes<const N: usize>(sizes: [i64; N]) -> Answer {
    if sizes.iter().all(|size| *size >= 0) { Ok(()) } else { Err(Failure::INVALID_VALUE) }
}

/// Checks that the distance between columns of a matrix is at least its number of rows.
fn leading(rows: i64, leading: i64) -> Answer {
    if leading >= rows.max(1) { Ok(()) } else { Err(Failure::INVALID_VALUE) }
}

/// The scalar at an address that the program passes as one.
fn scalar(call: &Call, address: u64, ty: Type) -> Result<Scalar, Failure> {
    // SAFETY: the header demands that the address is that of a number of this type.
    unsafe { Scalar::read(call, address, ty) }
}

/// Launches a kernel for each of `n` elements of a vector.
fn each(call: &Call, kernel: &str, ty: Type, n: i64, arguments: Arguments) -> Answer {
    if n <= 0 {
        return Ok(());
    }
    launch(call, &format!("cublas_{kernel}_{}", ty.word()), [ctas(n, 256, 4096), 1, 1], [256, 1], arguments)
}

/// Launches a kernel of one CTA that reduces a vector, for a result of a type.
fn reduced(
    call: &Call,
    kernel: &str,
    ty: Type,
    (result, len): (u64, usize),
    arguments: impl FnOnce(u64) -> Arguments,
) -> Answer {
    // SAFETY: the header demands room for the result.
    unsafe {
        call.result(result, len, |at| {
            launch(call, &format!("cublas_{kernel}_{}", ty.word()), [1; 3], [256, 1], arguments(at))
        })
    }
}

/// The arguments that all forms of a general product have.
struct Gemm {
    operations: [u32; 2],
    size: [i64; 3],
    /// Address and distance between columns of A, B and C.
    matrices: [(u64, i64); 3],
    batches: [Batch; 3],
    count: i64,
}

/// A general product with elements of these types, and factors of another.
fn gemm(
    call: &Call,
    [a, b, c]: [Type; 3],
    of_factors: Type,
    (alpha, beta): (u64, u64),
    given: &Gemm,
) -> Answer {
    let Gemm { operations, size: [m, n, k], matrices, batches, count } = *given;
    let kernel = general([a, b, c]).ok_or_else(|| {
        let [a, b, c] = [a, b, c].map(Type::word);
        call.unsupported(&format!("there is no product of {a} and {b} in {c} here"))
    })?;
    sizes([m, n, k, count])?;
    let rows = [[m, k][usize::from(operations[0] != 0)], [k, n][usize::from(operations[1] != 0)], m];
    for (rows, (_, ld)) in rows.iter().zip(matrices) {
        leading(*rows, ld)?;
    }
    let operand = |n: usize| Operand::matrix(matrices[n].0, matrices[n].1).batched(batches[n]);
    let operands = [operand(0).operated(operations[0])?, operand(1).operated(operations[1])?, operand(2)];
    if m == 0 || n == 0 || count == 0 {
        return Ok(());
    }
    let factors = [scalar(call, alpha, of_factors)?, scalar(call, beta, of_factors)?];
    Product { kernel, size: [m, n, k], count, factors, operands, ..Product::default() }.run(call)
}

/// The types of a product that numbers name, and that of its factors by the type of the computation (`cublasComputeType_t`, or a
/// `cudaDataType` as CUDA 10 has it).
fn types(call: &Call, numbers: [u32; 3], compute: u32) -> Result<([Type; 3], Type), Failure> {
    let [a, b, c] = numbers.map(Type::from_number);
    let all = a.zip(b).zip(c).map(|((a, b), c)| [a, b, c]);
    let all =
        all.ok_or_else(|| call.unsupported(&format!("elements of the types {numbers:?} of cudaDataType")))?;
    let factors = match (compute, all[2]) {
        (_, complex @ (Type::C32 | Type::C64)) => complex,
        (2 | 64 | 65, _) => Type::F16,
        (0 | 68 | 69 | 74..=78, _) => Type::F32,
        (1 | 70 | 71 | 79, _) => Type::F64,
        (10 | 72 | 73, _) => Type::I32,
        _ => return Err(call.unsupported(&format!("the type {compute} of a computation"))),
    };
    Ok((all, factors))
}

/// The type of vectors of an `Ex` function, which must be the same.
fn type_of(call: &Call, numbers: &[u32]) -> Result<Type, Failure> {
    let first =
        numbers.first().copied().and_then(Type::from_number).filter(|ty| !matches!(ty, Type::I8 | Type::I32));
    first
        .filter(|ty| numbers.iter().all(|number| *number == *ty as u32))
        .ok_or_else(|| call.unsupported(&format!("vectors of the types {numbers:?} of cudaDataType")))
}

/// A triangle by its `cublasFillMode_t`.
const fn triangle(fill: u32) -> Result<i32, Failure> {
    match fill {
        0 => Ok(flags::LOWER),
        1 => Ok(flags::UPPER),
        _ => Err(Failure::INVALID_VALUE),
    }
}

/// The flag of a `cublasDiagType_t`.
const fn diagonal(unit: u32) -> Result<i32, Failure> {
    match unit {
        0 => Ok(0),
        1 => Ok(flags::UNIT),
        _ => Err(Failure::INVALID_VALUE),
    }
}

/// A product of a matrix of which a triangle is stored.
fn special(call: &Call, ty: Type, size: [i64; 3], factors: [Scalar; 2], operands: [Operand; 3]) -> Answer {
    let kernel = format!("special_{}", ty.word());
    Product { kernel: &kernel, size, factors, operands, is_special: true, ..Product::default() }.run(call)
}

/// What mirrors a triangle.
const fn mirror(is_hermitian: bool) -> i32 {
    if is_hermitian { flags::HERMITIAN } else { flags::MIRRORED }
}

/// The arguments of a symmetric product: the side of the symmetric matrix, its triangle, and the sizes of the result.
struct Symmetric {
    side: u32,
    fill: u32,
    size: [i64; 2],
    matrices: [(u64, i64); 3],
    is_hermitian: bool,
}

fn symm(call: &Call, ty: Type, (alpha, beta): (u64, u64), given: &Symmetric) -> Answer {
    let Symmetric { side, fill, size: [m, n], matrices: [a, b, c], is_hermitian } = *given;
    sizes([m, n])?;
    let order = if side == 0 { m } else { n };
    leading(order, a.1)?;
    leading(m, b.1)?;
    leading(m, c.1)?;
    let factors = [scalar(call, alpha, ty)?, scalar(call, beta, ty)?];
    let symmetric = Operand::matrix(a.0, a.1).with(triangle(fill)? | mirror(is_hermitian));
    let (other, result) = (Operand::matrix(b.0, b.1), Operand::matrix(c.0, c.1));
    let operands = if side == 0 { [symmetric, other, result] } else { [other, symmetric, result] };
    special(call, ty, [m, n, order], factors, operands)
}

/// The arguments of an update of a triangle: alpha op(A) op(A)' + beta C.
struct Update {
    fill: u32,
    operation: u32,
    size: [i64; 2],
    a: (u64, i64),
    c: (u64, i64),
    is_hermitian: bool,
}

fn syrk(call: &Call, ty: Type, (alpha, beta): (u64, u64), given: &Update) -> Answer {
    let Update { fill, operation, size: [n, k], a, c, is_hermitian } = *given;
    sizes([n, k])?;
    leading(if operation == 0 { n } else { k }, a.1)?;
    leading(n, c.1)?;
    let of_factors = if is_hermitian { ty.real() } else { ty };
    let factors = [scalar(call, alpha, of_factors)?, scalar(call, beta, of_factors)?];
    let a = Operand::matrix(a.0, a.1).operated(operation)?;
    let other = if is_hermitian { a.transposed().conjugated() } else { a.transposed() };
    let hermitian = if is_hermitian { flags::HERMITIAN } else { 0 };
    let c = Operand::matrix(c.0, c.1).with(triangle(fill)? | hermitian);
    special(call, ty, [n, n, k], factors, [a, other, c])
}

/// The arguments of a product with a general matrix and a vector.
struct Gemv {
    operation: u32,
    size: [i64; 2],
    a: (u64, i64),
    x: (u64, i64),
    y: (u64, i64),
    batches: [Batch; 3],
    count: i64,
}

fn gemv(call: &Call, ty: Type, (alpha, beta): (u64, u64), given: &Gemv) -> Answer {
    let Gemv { operation, size: [m, n], a, x, y, batches, count } = *given;
    sizes([m, n, count])?;
    leading(m, a.1)?;
    if x.1 == 0 || y.1 == 0 {
        return Err(Failure::INVALID_VALUE);
    }
    if matches!(batches[1], Batch::List) && (x.1 < 0 || y.1 < 0) {
        return Err(call.unsupported("lists of vectors with negative distances"));
    }
    let [rows, k] = if operation == 0 { [m, n] } else { [n, m] };
    if rows == 0 || count == 0 {
        return Ok(());
    }
    let factors = [scalar(call, alpha, ty)?, scalar(call, beta, ty)?];
    let operands = [
        Operand::matrix(a.0, a.1).operated(operation)?.batched(batches[0]),
        Operand::vector(x.0, k, x.1, ty).batched(batches[1]),
        Operand::vector(y.0, rows, y.1, ty).batched(batches[2]),
    ];
    let kernel = format!("gemm_{}", ty.word());
    Product { kernel: &kernel, size: [rows, 1, k], count, factors, operands, ..Product::default() }.run(call)
}

/// A = alpha x y' + A.
fn ger(
    call: &Call,
    ty: Type,
    alpha: u64,
    [m, n]: [i64; 2],
    [x, y, a]: [(u64, i64); 3],
    is_conjugated: bool,
) -> Answer {
    sizes([m, n])?;
    leading(m, a.1)?;
    let y = Operand::vector(y.0, n, y.1, ty).transposed();
    let y = if is_conjugated { y.conjugated() } else { y };
    let operands = [Operand::vector(x.0, m, x.1, ty), y, Operand::matrix(a.0, a.1)];
    let factors = [scalar(call, alpha, ty)?, Scalar::ONE];
    let kernel = format!("gemm_{}", ty.word());
    Product { kernel: &kernel, size: [m, n, 1], factors, operands, ..Product::default() }.run(call)
}

/// The arguments of triangular systems.
struct Systems {
    side: u32,
    fill: u32,
    operation: u32,
    unit: u32,
    size: [i64; 2],
    a: (u64, i64),
    b: (u64, i64),
    batch: Batch,
    count: i64,
}

fn trsm(call: &Call, ty: Type, alpha: Scalar, given: &Systems) -> Answer {
    let Systems { side, fill, operation, unit, size: [m, n], a, b, batch, count } = *given;
    sizes([m, n, count])?;
    leading(if side == 0 { m } else { n }, a.1)?;
    leading(m, b.1)?;
    let a = Operand::matrix(a.0, a.1).with(triangle(fill)? | diagonal(unit)?).batched(batch);
    let (a, b) = (a.operated(operation)?, Operand::matrix(b.0, b.1).batched(batch));
    // X op(A) = alpha B is op(A)' X' = alpha B'.
    let ([m, n], a, b) = if side == 0 { ([m, n], a, b) } else { ([n, m], a.transposed(), b.transposed()) };
    solve(call, ty, [m, n, count], alpha, [a, b])
}

fn solve(call: &Call, ty: Type, [m, n, count]: [i64; 3], alpha: Scalar, [a, b]: [Operand; 2]) -> Answer {
    if m == 0 || n == 0 || count == 0 {
        return Ok(());
    }
    let arguments = Arguments::default().long(m).long(n).long(count).scalar(alpha).operand(a).operand(b);
    let grid = [ctas(n, 64, MOST), 1, ctas(count, 1, MOST)];
    launch(call, &format!("cublas_solve_{}", ty.word()), grid, [64, 1], arguments)
}

/// A copy of a matrix or a vector between the host and the device, at once or in a stream.
fn transfer(
    stream: u64,
    to: (u64, i64),
    from: (u64, i64),
    width: i64,
    height: i64,
    is_to_device: bool,
) -> Answer {
    sizes([width, height, to.1, from.1])?;
    if width == 0 || height == 0 {
        return Ok(());
    }
    let (to, from) = ((to.0, to.1 as usize), (from.0, from.1 as usize));
    let copy = CopyWork::rows(to, from, width as usize, height as usize);
    let copy = if is_to_device {
        copy.between(Memory::Device, Memory::Any)
    } else {
        copy.between(Memory::Any, Memory::Device)
    };
    // SAFETY: the header demands memory of these sizes.
    Ok(unsafe { submit(stream, Work::Copy(copy)) }?)
}

/// Defines functions that copy vectors or matrices, which have no handle.
macro_rules! transfers {
    ($($list:ident $body:ident: $($name:ident $int:ident $is_to_device:literal $($stream:ident)?),+;)*) => {
        $($(transfers! { @one $body $name $int $is_to_device $($stream)? })+)*
        /// The names of functions without a handle.
        const WITHOUT_HANDLE: &[&str] = &[$($(stringify!($name),)+)* "cublasCreate_v2", "cublasGetProperty", "cublasGetCudartVersion",
            "cublasGetStatusName", "cublasGetStatusString", "cublasLoggerConfigure", "cublasSetLoggerCallback", "cublasGetLoggerCallback"];
    };
    (@one vector $name:ident $int:ident $is_to_device:literal $($stream:ident)?) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(n: $int, size: $int, from: u64, of_from: $int, to: u64, of_to: $int $(, $stream: u64)?) -> c_int {
            let [n, size, of_from, of_to] = [n, size, of_from, of_to].map(i64::from);
            let of = 0 $(| $stream)?;
            answered(stringify!($name), || transfer(of, (to, of_to * size), (from, of_from * size), size, n, $is_to_device))
        }
    };
    (@one matrix $name:ident $int:ident $is_to_device:literal $($stream:ident)?) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(rows: $int, columns: $int, size: $int, from: u64, of_from: $int, to: u64, of_to: $int $(, $stream: u64)?) -> c_int {
            let [rows, columns, size, of_from, of_to] = [rows, columns, size, of_from, of_to].map(i64::from);
            let of = 0 $(| $stream)?;
            answered(stringify!($name), || transfer(of, (to, of_to * size), (from, of_from * size), rows * size, columns, $is_to_device))
        }
    };
}

transfers! {
    VECTORS vector: cublasSetVector i32 true, cublasSetVector_64 i64 true, cublasGetVector i32 false, cublasGetVector_64 i64 false,
        cublasSetVectorAsync i32 true stream, cublasSetVectorAsync_64 i64 true stream, cublasGetVectorAsync i32 false stream,
        cublasGetVectorAsync_64 i64 false stream;
    MATRICES matrix: cublasSetMatrix i32 true, cublasSetMatrix_64 i64 true, cublasGetMatrix i32 false, cublasGetMatrix_64 i64 false,
        cublasSetMatrixAsync i32 true stream, cublasSetMatrixAsync_64 i64 true stream, cublasGetMatrixAsync i32 false stream,
        cublasGetMatrixAsync_64 i64 false stream;
}

/// The version of the library that a program finds.
pub(super) fn version() -> c_int {
    if runtime_is_12() { 120_900 } else { 130_500 }
}

#[unsafe(no_mangle)]
extern "C" fn cublasCreate_v2(handle: Out<u64>) -> c_int {
    answered("cublasCreate_v2", || handle::create(handle))
}

/// A part of the version by its `libraryPropertyType`.
pub(super) fn property(property: c_int, value: Out<c_int>) -> Answer {
    let part = match property {
        0 => version() / 10_000,
        1 => version() / 100 % 100,
        2 => version() % 100,
        _ => return Err(Failure::INVALID_VALUE),
    };
    Ok(value.set(part)?)
}

#[unsafe(no_mangle)]
extern "C" fn cublasGetProperty(part: c_int, value: Out<c_int>) -> c_int {
    answered("cublasGetProperty", || property(part, value))
}

#[unsafe(no_mangle)]
extern "C" fn cublasGetCudartVersion() -> usize {
    version() as usize / 100 * 10
}

/// The name of a status.
pub(super) const fn status_name(status: c_int) -> &'static std::ffi::CStr {
    match status {
        0 => c"CUBLAS_STATUS_SUCCESS",
        1 => c"CUBLAS_STATUS_NOT_INITIALIZED",
        3 => c"CUBLAS_STATUS_ALLOC_FAILED",
        7 => c"CUBLAS_STATUS_INVALID_VALUE",
        8 => c"CUBLAS_STATUS_ARCH_MISMATCH",
        11 => c"CUBLAS_STATUS_MAPPING_ERROR",
        13 => c"CUBLAS_STATUS_EXECUTION_FAILED",
        14 => c"CUBLAS_STATUS_INTERNAL_ERROR",
        15 => c"CUBLAS_STATUS_NOT_SUPPORTED",
        16 => c"CUBLAS_STATUS_LICENSE_ERROR",
        _ => c"CUBLAS_STATUS_UNKNOWN",
    }
}

#[unsafe(no_mangle)]
extern "C" fn cublasGetStatusName(status: c_int) -> *const c_char {
    status_name(status).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cublasGetStatusString(status: c_int) -> *const c_char {
    status_name(status).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cublasLoggerConfigure(_is_on: c_int, _out: c_int, _err: c_int, _file: *const c_char) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cublasSetLoggerCallback(_callback: u64) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cublasGetLoggerCallback(callback: Out<u64>) -> c_int {
    answered("cublasGetLoggerCallback", || Ok(callback.set(0)?))
}

functions! {
    DESTROY: [F32: cublasDestroy_v2]
    fn (call, _ty) { handle::destroy(call.handle) }
    VERSION: [F32: cublasGetVersion_v2]
    fn (_call, _ty, value: place) { Ok(value.set(version())?) }
    SET_STREAM: [F32: cublasSetStream_v2]
    fn (call, _ty, stream: u64) { call.set(|settings| settings.stream = stream) }
    GET_STREAM: [F32: cublasGetStream_v2]
    fn (call, _ty, at: u64) {
        // SAFETY: the header demands a place for a stream.
        Ok(unsafe { Out::at(at) }.set(call.settings.stream)?)
    }
    SET_POINTER_MODE: [F32: cublasSetPointerMode_v2]
    fn (call, _ty, mode: u32) {
        if mode > 1 {
            return Err(Failure::INVALID_VALUE);
        }
        call.set(|settings| settings.on_device = mode == 1)
    }
    GET_POINTER_MODE: [F32: cublasGetPointerMode_v2]
    fn (call, _ty, mode: place) { Ok(mode.set(c_int::from(call.settings.on_device))?) }
    SET_MATH_MODE: [F32: cublasSetMathMode]
    fn (call, _ty, mode: i32) { call.set(|settings| settings.math = mode) }
    GET_MATH_MODE: [F32: cublasGetMathMode]
    fn (call, _ty, mode: place) { Ok(mode.set(call.settings.math)?) }
    SET_ATOMICS: [F32: cublasSetAtomicsMode]
    fn (call, _ty, mode: i32) { call.set(|settings| settings.atomics = mode) }
    GET_ATOMICS: [F32: cublasGetAtomicsMode]
    fn (call, _ty, mode: place) { Ok(mode.set(call.settings.atomics)?) }
    SET_MULTIPROCESSORS: [F32: cublasSetSmCountTarget]
    fn (call, _ty, count: i32) { call.set(|settings| settings.multiprocessors = count) }
    GET_MULTIPROCESSORS: [F32: cublasGetSmCountTarget]
    fn (call, _ty, count: place) { Ok(count.set(call.settings.multiprocessors)?) }
    // No kernel here needs a workspace.
    SET_WORKSPACE: [F32: cublasSetWorkspace_v2]
    fn (_call, _ty, _at: u64, _len: usize) { Ok(()) }

    AXPY: [
        F32: cublasSaxpy_v2 cublasSaxpy_v2_64, F64: cublasDaxpy_v2 cublasDaxpy_v2_64, C32: cublasCaxpy_v2 cublasCaxpy_v2_64,
        C64: cublasZaxpy_v2 cublasZaxpy_v2_64,
    ]
    fn (call, ty, n: int, alpha: u64, x: u64, of_x: int, y: u64, of_y: int) {
        let alpha = scalar(call, alpha, ty)?;
        each(call, "axpy", ty, n, Arguments::default().long(n).scalar(alpha).vector(x, n, of_x, ty).vector(y, n, of_y, ty))
    }
    AXPY_EX: [F32: cublasAxpyEx cublasAxpyEx_64]
    fn (call, _ty, n: int, alpha: u64, of_alpha: u32, x: u64, type_x: u32, of_x: int, y: u64, type_y: u32, of_y: int, _execution: u32) {
        let (ty, of_alpha) = (type_of(call, &[type_x, type_y])?, Type::from_number(of_alpha).ok_or(Failure::INVALID_VALUE)?);
        let alpha = scalar(call, alpha, of_alpha)?;
        each(call, "axpy", ty, n, Arguments::default().long(n).scalar(alpha).vector(x, n, of_x, ty).vector(y, n, of_y, ty))
    }
    SCAL: [
        F32: cublasSscal_v2 cublasSscal_v2_64, F64: cublasDscal_v2 cublasDscal_v2_64, C32: cublasCscal_v2 cublasCscal_v2_64,
        C64: cublasZscal_v2 cublasZscal_v2_64,
    ]
    fn (call, ty, n: int, alpha: u64, x: u64, of_x: int) {
        let alpha = scalar(call, alpha, ty)?;
        each(call, "scal", ty, n, Arguments::default().long(n).scalar(alpha).vector(x, n, of_x, ty))
    }
    SCAL_BY_REAL: [C32: cublasCsscal_v2 cublasCsscal_v2_64, C64: cublasZdscal_v2 cublasZdscal_v2_64]
    fn (call, ty, n: int, alpha: u64, x: u64, of_x: int) {
        let alpha = scalar(call, alpha, ty.real())?;
        each(call, "scal", ty, n, Arguments::default().long(n).scalar(alpha).vector(x, n, of_x, ty))
    }
    SCAL_EX: [F32: cublasScalEx cublasScalEx_64]
    fn (call, _ty, n: int, alpha: u64, of_alpha: u32, x: u64, type_x: u32, of_x: int, _execution: u32) {
        let (ty, of_alpha) = (type_of(call, &[type_x])?, Type::from_number(of_alpha).ok_or(Failure::INVALID_VALUE)?);
        let alpha = scalar(call, alpha, of_alpha)?;
        each(call, "scal", ty, n, Arguments::default().long(n).scalar(alpha).vector(x, n, of_x, ty))
    }
    COPY: [
        F32: cublasScopy_v2 cublasScopy_v2_64, F64: cublasDcopy_v2 cublasDcopy_v2_64, C32: cublasCcopy_v2 cublasCcopy_v2_64,
        C64: cublasZcopy_v2 cublasZcopy_v2_64,
    ]
    fn (call, ty, n: int, x: u64, of_x: int, y: u64, of_y: int) {
        each(call, "copy", ty, n, Arguments::default().long(n).vector(x, n, of_x, ty).vector(y, n, of_y, ty))
    }
    SWAP: [
        F32: cublasSswap_v2 cublasSswap_v2_64, F64: cublasDswap_v2 cublasDswap_v2_64, C32: cublasCswap_v2 cublasCswap_v2_64,
        C64: cublasZswap_v2 cublasZswap_v2_64,
    ]
    fn (call, ty, n: int, x: u64, of_x: int, y: u64, of_y: int) {
        each(call, "swap", ty, n, Arguments::default().long(n).vector(x, n, of_x, ty).vector(y, n, of_y, ty))
    }
    ROT: [F32: cublasSrot_v2 cublasSrot_v2_64, F64: cublasDrot_v2 cublasDrot_v2_64]
    fn (call, ty, n: int, x: u64, of_x: int, y: u64, of_y: int, c: u64, s: u64) {
        let (c, s) = (scalar(call, c, ty)?, scalar(call, s, ty)?);
        each(call, "rot", ty, n, Arguments::default().long(n).vector(x, n, of_x, ty).vector(y, n, of_y, ty).scalar(c).scalar(s))
    }
    ROT_COMPLEX: [C32: cublasCrot_v2 cublasCrot_v2_64, C64: cublasZrot_v2 cublasZrot_v2_64]
    fn (call, ty, n: int, x: u64, of_x: int, y: u64, of_y: int, c: u64, s: u64) {
        let (c, s) = (scalar(call, c, ty.real())?, scalar(call, s, ty)?);
        each(call, "rot", ty, n, Arguments::default().long(n).vector(x, n, of_x, ty).vector(y, n, of_y, ty).scalar(c).scalar(s))
    }
    ROT_BY_REAL: [C32: cublasCsrot_v2 cublasCsrot_v2_64, C64: cublasZdrot_v2 cublasZdrot_v2_64]
    fn (call, ty, n: int, x: u64, of_x: int, y: u64, of_y: int, c: u64, s: u64) {
        let (c, s) = (scalar(call, c, ty.real())?, scalar(call, s, ty.real())?);
        each(call, "rot", ty, n, Arguments::default().long(n).vector(x, n, of_x, ty).vector(y, n, of_y, ty).scalar(c).scalar(s))
    }
    DOT: [
        F32: cublasSdot_v2 cublasSdot_v2_64, F64: cublasDdot_v2 cublasDdot_v2_64, C32: cublasCdotu_v2 cublasCdotu_v2_64,
        C64: cublasZdotu_v2 cublasZdotu_v2_64,
    ]
    fn (call, ty, n: int, x: u64, of_x: int, y: u64, of_y: int, result: u64) {
        reduced(call, "dot", ty, (result, ty.size()), |at| {
            Arguments::default().long(n).vector(x, n, of_x, ty).vector(y, n, of_y, ty).word(0).address(at)
        })
    }
    DOT_CONJUGATED: [C32: cublasCdotc_v2 cublasCdotc_v2_64, C64: cublasZdotc_v2 cublasZdotc_v2_64]
    fn (call, ty, n: int, x: u64, of_x: int, y: u64, of_y: int, result: u64) {
        reduced(call, "dot", ty, (result, ty.size()), |at| {
            Arguments::default().long(n).vector(x, n, of_x, ty).vector(y, n, of_y, ty).word(1).address(at)
        })
    }
    DOT_EX: [F32: cublasDotEx cublasDotEx_64]
    fn (
        call, _ty, n: int, x: u64, type_x: u32, of_x: int, y: u64, type_y: u32, of_y: int, result: u64, type_result: u32, _execution: u32,
    ) {
        let ty = type_of(call, &[type_x, type_y, type_result])?;
        reduced(call, "dot", ty, (result, ty.size()), |at| {
            Arguments::default().long(n).vector(x, n, of_x, ty).vector(y, n, of_y, ty).word(0).address(at)
        })
    }
    DOT_CONJUGATED_EX: [F32: cublasDotcEx cublasDotcEx_64]
    fn (
        call, _ty, n: int, x: u64, type_x: u32, of_x: int, y: u64, type_y: u32, of_y: int, result: u64, type_result: u32, _execution: u32,
    ) {
        let ty = type_of(call, &[type_x, type_y, type_result])?;
        reduced(call, "dot", ty, (result, ty.size()), |at| {
            Arguments::default().long(n).vector(x, n, of_x, ty).vector(y, n, of_y, ty).word(1).address(at)
        })
    }
    NRM2: [
        F32: cublasSnrm2_v2 cublasSnrm2_v2_64, F64: cublasDnrm2_v2 cublasDnrm2_v2_64, C32: cublasScnrm2_v2 cublasScnrm2_v2_64,
        C64: cublasDznrm2_v2 cublasDznrm2_v2_64,
    ]
    fn (call, ty, n: int, x: u64, of_x: int, result: u64) {
        reduced(call, "nrm2", ty, (result, ty.real().size()), |at| Arguments::default().long(n).vector(x, n, of_x, ty).address(at))
    }
    NRM2_EX: [F32: cublasNrm2Ex cublasNrm2Ex_64]
    fn (call, _ty, n: int, x: u64, type_x: u32, of_x: int, result: u64, type_result: u32, _execution: u32) {
        let ty = type_of(call, &[type_x])?;
        type_of(call, &[ty.real() as u32, type_result])?;
        reduced(call, "nrm2", ty, (result, ty.real().size()), |at| Arguments::default().long(n).vector(x, n, of_x, ty).address(at))
    }
    ASUM: [
        F32: cublasSasum_v2 cublasSasum_v2_64, F64: cublasDasum_v2 cublasDasum_v2_64, C32: cublasScasum_v2 cublasScasum_v2_64,
        C64: cublasDzasum_v2 cublasDzasum_v2_64,
    ]
    fn (call, ty, n: int, x: u64, of_x: int, result: u64) {
        reduced(call, "asum", ty, (result, ty.real().size()), |at| Arguments::default().long(n).vector(x, n, of_x, ty).address(at))
    }
    AMAX: [
        F32: cublasIsamax_v2 cublasIsamax_v2_64, F64: cublasIdamax_v2 cublasIdamax_v2_64, C32: cublasIcamax_v2 cublasIcamax_v2_64,
        C64: cublasIzamax_v2 cublasIzamax_v2_64,
    ]
    fn (call, ty, n: int, x: u64, of_x: int, result: u64) { extreme(call, ty, (n, x, of_x), 0, result) }
    AMIN: [
        F32: cublasIsamin_v2 cublasIsamin_v2_64, F64: cublasIdamin_v2 cublasIdamin_v2_64, C32: cublasIcamin_v2 cublasIcamin_v2_64,
        C64: cublasIzamin_v2 cublasIzamin_v2_64,
    ]
    fn (call, ty, n: int, x: u64, of_x: int, result: u64) { extreme(call, ty, (n, x, of_x), 1, result) }

    GEMV: [
        F32: cublasSgemv_v2 cublasSgemv_v2_64, F64: cublasDgemv_v2 cublasDgemv_v2_64, C32: cublasCgemv_v2 cublasCgemv_v2_64,
        C64: cublasZgemv_v2 cublasZgemv_v2_64,
    ]
    fn (
        call, ty, operation: u32, m: int, n: int, alpha: u64, a: u64, lda: int, x: u64, of_x: int, beta: u64, y: u64, of_y: int,
    ) {
        let batches = [Batch::One; 3];
        gemv(call, ty, (alpha, beta), &Gemv { operation, size: [m, n], a: (a, lda), x: (x, of_x), y: (y, of_y), batches, count: 1 })
    }
    GEMV_BATCHED: [
        F32: cublasSgemvBatched cublasSgemvBatched_64, F64: cublasDgemvBatched cublasDgemvBatched_64,
        C32: cublasCgemvBatched cublasCgemvBatched_64, C64: cublasZgemvBatched cublasZgemvBatched_64,
    ]
    fn (
        call, ty, operation: u32, m: int, n: int, alpha: u64, a: u64, lda: int, x: u64, of_x: int, beta: u64, y: u64, of_y: int, count: int,
    ) {
        let batches = [Batch::List; 3];
        gemv(call, ty, (alpha, beta), &Gemv { operation, size: [m, n], a: (a, lda), x: (x, of_x), y: (y, of_y), batches, count })
    }
    GEMV_STRIDED: [
        F32: cublasSgemvStridedBatched cublasSgemvStridedBatched_64, F64: cublasDgemvStridedBatched cublasDgemvStridedBatched_64,
        C32: cublasCgemvStridedBatched cublasCgemvStridedBatched_64, C64: cublasZgemvStridedBatched cublasZgemvStridedBatched_64,
    ]
    fn (
        call, ty, operation: u32, m: int, n: int, alpha: u64, a: u64, lda: int, next_a: i64, x: u64, of_x: int, next_x: i64, beta: u64,
        y: u64, of_y: int, next_y: i64, count: int,
    ) {
        let batches = [next_a, next_x, next_y].map(Batch::Apart);
        gemv(call, ty, (alpha, beta), &Gemv { operation, size: [m, n], a: (a, lda), x: (x, of_x), y: (y, of_y), batches, count })
    }
    GER: [
        F32: cublasSger_v2 cublasSger_v2_64, F64: cublasDger_v2 cublasDger_v2_64, C32: cublasCgeru_v2 cublasCgeru_v2_64,
        C64: cublasZgeru_v2 cublasZgeru_v2_64,
    ]
    fn (call, ty, m: int, n: int, alpha: u64, x: u64, of_x: int, y: u64, of_y: int, a: u64, lda: int) {
        ger(call, ty, alpha, [m, n], [(x, of_x), (y, of_y), (a, lda)], false)
    }
    GER_CONJUGATED: [C32: cublasCgerc_v2 cublasCgerc_v2_64, C64: cublasZgerc_v2 cublasZgerc_v2_64]
    fn (call, ty, m: int, n: int, alpha: u64, x: u64, of_x: int, y: u64, of_y: int, a: u64, lda: int) {
        ger(call, ty, alpha, [m, n], [(x, of_x), (y, of_y), (a, lda)], true)
    }
    SYMV: [
        F32: cublasSsymv_v2 cublasSsymv_v2_64, F64: cublasDsymv_v2 cublasDsymv_v2_64, C32: cublasCsymv_v2 cublasCsymv_v2_64,
        C64: cublasZsymv_v2 cublasZsymv_v2_64,
    ]
    fn (call, ty, fill: u32, n: int, alpha: u64, a: u64, lda: int, x: u64, of_x: int, beta: u64, y: u64, of_y: int) {
        symv(call, ty, (alpha, beta), (fill, n, false), [(a, lda), (x, of_x), (y, of_y)])
    }
    HEMV: [C32: cublasChemv_v2 cublasChemv_v2_64, C64: cublasZhemv_v2 cublasZhemv_v2_64]
    fn (call, ty, fill: u32, n: int, alpha: u64, a: u64, lda: int, x: u64, of_x: int, beta: u64, y: u64, of_y: int) {
        symv(call, ty, (alpha, beta), (fill, n, true), [(a, lda), (x, of_x), (y, of_y)])
    }
    TRSV: [
        F32: cublasStrsv_v2 cublasStrsv_v2_64, F64: cublasDtrsv_v2 cublasDtrsv_v2_64, C32: cublasCtrsv_v2 cublasCtrsv_v2_64,
        C64: cublasZtrsv_v2 cublasZtrsv_v2_64,
    ]
    fn (call, ty, fill: u32, operation: u32, unit: u32, n: int, a: u64, lda: int, x: u64, of_x: int) {
        sizes([n])?;
        leading(n, lda)?;
        let a = Operand::matrix(a, lda).with(triangle(fill)? | diagonal(unit)?).operated(operation)?;
        solve(call, ty, [n, 1, 1], Scalar::ONE, [a, Operand::vector(x, n, of_x, ty)])
    }

    GEMM: [
        F32: cublasSgemm_v2 cublasSgemm_v2_64, F64: cublasDgemm_v2 cublasDgemm_v2_64, C32: cublasCgemm_v2 cublasCgemm_v2_64,
        C64: cublasZgemm_v2 cublasZgemm_v2_64, F16: cublasHgemm cublasHgemm_64,
    ]
    fn (
        call, ty, op_a: u32, op_b: u32, m: int, n: int, k: int, alpha: u64, a: u64, lda: int, b: u64, ldb: int, beta: u64, c: u64, ldc: int,
    ) {
        let matrices = [(a, lda), (b, ldb), (c, ldc)];
        let given = Gemm { operations: [op_a, op_b], size: [m, n, k], matrices, batches: [Batch::One; 3], count: 1 };
        gemm(call, [ty; 3], ty, (alpha, beta), &given)
    }
    GEMM_3M: [C32: cublasCgemm3m cublasCgemm3m_64, C64: cublasZgemm3m cublasZgemm3m_64]
    fn (
        call, ty, op_a: u32, op_b: u32, m: int, n: int, k: int, alpha: u64, a: u64, lda: int, b: u64, ldb: int, beta: u64, c: u64, ldc: int,
    ) {
        let matrices = [(a, lda), (b, ldb), (c, ldc)];
        let given = Gemm { operations: [op_a, op_b], size: [m, n, k], matrices, batches: [Batch::One; 3], count: 1 };
        gemm(call, [ty; 3], ty, (alpha, beta), &given)
    }
    GEMM_BATCHED: [
        F32: cublasSgemmBatched cublasSgemmBatched_64, F64: cublasDgemmBatched cublasDgemmBatched_64,
        C32: cublasCgemmBatched cublasCgemmBatched_64, C64: cublasZgemmBatched cublasZgemmBatched_64,
        F16: cublasHgemmBatched cublasHgemmBatched_64,
    ]
    fn (
        call, ty, op_a: u32, op_b: u32, m: int, n: int, k: int, alpha: u64, a: u64, lda: int, b: u64, ldb: int, beta: u64, c: u64, ldc: int,
        count: int,
    ) {
        let matrices = [(a, lda), (b, ldb), (c, ldc)];
        let given = Gemm { operations: [op_a, op_b], size: [m, n, k], matrices, batches: [Batch::List; 3], count };
        gemm(call, [ty; 3], ty, (alpha, beta), &given)
    }
    GEMM_STRIDED: [
        F32: cublasSgemmStridedBatched cublasSgemmStridedBatched_64, F64: cublasDgemmStridedBatched cublasDgemmStridedBatched_64,
        C32: cublasCgemmStridedBatched cublasCgemmStridedBatched_64, C64: cublasZgemmStridedBatched cublasZgemmStridedBatched_64,
        F16: cublasHgemmStridedBatched cublasHgemmStridedBatched_64,
    ]
    fn (
        call, ty, op_a: u32, op_b: u32, m: int, n: int, k: int, alpha: u64, a: u64, lda: int, next_a: i64, b: u64, ldb: int, next_b: i64,
        beta: u64, c: u64, ldc: int, next_c: i64, count: int,
    ) {
        let matrices = [(a, lda), (b, ldb), (c, ldc)];
        let batches = [next_a, next_b, next_c].map(Batch::Apart);
        gemm(call, [ty; 3], ty, (alpha, beta), &Gemm { operations: [op_a, op_b], size: [m, n, k], matrices, batches, count })
    }
    GEMM_EX: [F32: cublasGemmEx cublasGemmEx_64]
    fn (
        call, _ty, op_a: u32, op_b: u32, m: int, n: int, k: int, alpha: u64, a: u64, type_a: u32, lda: int, b: u64, type_b: u32, ldb: int,
        beta: u64, c: u64, type_c: u32, ldc: int, compute: u32, _algorithm: i32,
    ) {
        let (all, factors) = types(call, [type_a, type_b, type_c], compute)?;
        let matrices = [(a, lda), (b, ldb), (c, ldc)];
        let given = Gemm { operations: [op_a, op_b], size: [m, n, k], matrices, batches: [Batch::One; 3], count: 1 };
        gemm(call, all, factors, (alpha, beta), &given)
    }
    GEMM_EX_OF: [F32: cublasSgemmEx cublasSgemmEx_64, C32: cublasCgemmEx cublasCgemmEx_64]
    fn (
        call, ty, op_a: u32, op_b: u32, m: int, n: int, k: int, alpha: u64, a: u64, type_a: u32, lda: int, b: u64, type_b: u32, ldb: int,
        beta: u64, c: u64, type_c: u32, ldc: int,
    ) {
        let (all, _) = types(call, [type_a, type_b, type_c], 0)?;
        let matrices = [(a, lda), (b, ldb), (c, ldc)];
        let given = Gemm { operations: [op_a, op_b], size: [m, n, k], matrices, batches: [Batch::One; 3], count: 1 };
        gemm(call, all, ty, (alpha, beta), &given)
    }
    GEMM_BATCHED_EX: [F32: cublasGemmBatchedEx cublasGemmBatchedEx_64]
    fn (
        call, _ty, op_a: u32, op_b: u32, m: int, n: int, k: int, alpha: u64, a: u64, type_a: u32, lda: int, b: u64, type_b: u32, ldb: int,
        beta: u64, c: u64, type_c: u32, ldc: int, count: int, compute: u32, _algorithm: i32,
    ) {
        let (all, factors) = types(call, [type_a, type_b, type_c], compute)?;
        let matrices = [(a, lda), (b, ldb), (c, ldc)];
        let given = Gemm { operations: [op_a, op_b], size: [m, n, k], matrices, batches: [Batch::List; 3], count };
        gemm(call, all, factors, (alpha, beta), &given)
    }
    GEMM_STRIDED_EX: [F32: cublasGemmStridedBatchedEx cublasGemmStridedBatchedEx_64]
    fn (
        call, _ty, op_a: u32, op_b: u32, m: int, n: int, k: int, alpha: u64, a: u64, type_a: u32, lda: int, next_a: i64, b: u64,
        type_b: u32, ldb: int, next_b: i64, beta: u64, c: u64, type_c: u32, ldc: int, next_c: i64, count: int, compute: u32,
        _algorithm: i32,
    ) {
        let (all, factors) = types(call, [type_a, type_b, type_c], compute)?;
        let matrices = [(a, lda), (b, ldb), (c, ldc)];
        let batches = [next_a, next_b, next_c].map(Batch::Apart);
        gemm(call, all, factors, (alpha, beta), &Gemm { operations: [op_a, op_b], size: [m, n, k], matrices, batches, count })
    }
    SYMM: [
        F32: cublasSsymm_v2 cublasSsymm_v2_64, F64: cublasDsymm_v2 cublasDsymm_v2_64, C32: cublasCsymm_v2 cublasCsymm_v2_64,
        C64: cublasZsymm_v2 cublasZsymm_v2_64,
    ]
    fn (
        call, ty, side: u32, fill: u32, m: int, n: int, alpha: u64, a: u64, lda: int, b: u64, ldb: int, beta: u64, c: u64, ldc: int,
    ) {
        let matrices = [(a, lda), (b, ldb), (c, ldc)];
        symm(call, ty, (alpha, beta), &Symmetric { side, fill, size: [m, n], matrices, is_hermitian: false })
    }
    HEMM: [C32: cublasChemm_v2 cublasChemm_v2_64, C64: cublasZhemm_v2 cublasZhemm_v2_64]
    fn (
        call, ty, side: u32, fill: u32, m: int, n: int, alpha: u64, a: u64, lda: int, b: u64, ldb: int, beta: u64, c: u64, ldc: int,
    ) {
        let matrices = [(a, lda), (b, ldb), (c, ldc)];
        symm(call, ty, (alpha, beta), &Symmetric { side, fill, size: [m, n], matrices, is_hermitian: true })
    }
    SYRK: [
        F32: cublasSsyrk_v2 cublasSsyrk_v2_64, F64: cublasDsyrk_v2 cublasDsyrk_v2_64, C32: cublasCsyrk_v2 cublasCsyrk_v2_64,
        C64: cublasZsyrk_v2 cublasZsyrk_v2_64,
    ]
    fn (call, ty, fill: u32, operation: u32, n: int, k: int, alpha: u64, a: u64, lda: int, beta: u64, c: u64, ldc: int) {
        syrk(call, ty, (alpha, beta), &Update { fill, operation, size: [n, k], a: (a, lda), c: (c, ldc), is_hermitian: false })
    }
    HERK: [C32: cublasCherk_v2 cublasCherk_v2_64, C64: cublasZherk_v2 cublasZherk_v2_64]
    fn (call, ty, fill: u32, operation: u32, n: int, k: int, alpha: u64, a: u64, lda: int, beta: u64, c: u64, ldc: int) {
        syrk(call, ty, (alpha, beta), &Update { fill, operation, size: [n, k], a: (a, lda), c: (c, ldc), is_hermitian: true })
    }
    TRMM: [
        F32: cublasStrmm_v2 cublasStrmm_v2_64, F64: cublasDtrmm_v2 cublasDtrmm_v2_64, C32: cublasCtrmm_v2 cublasCtrmm_v2_64,
        C64: cublasZtrmm_v2 cublasZtrmm_v2_64,
    ]
    fn (
        call, ty, side: u32, fill: u32, operation: u32, unit: u32, m: int, n: int, alpha: u64, a: u64, lda: int, b: u64, ldb: int, c: u64,
        ldc: int,
    ) {
        sizes([m, n])?;
        let order = if side == 0 { m } else { n };
        leading(order, lda)?;
        leading(m, ldb)?;
        leading(m, ldc)?;
        if b == c {
            return Err(call.unsupported("a triangular product in place; name another matrix for the result"));
        }
        let a = Operand::matrix(a, lda).with(triangle(fill)? | diagonal(unit)?).operated(operation)?;
        let (b, c) = (Operand::matrix(b, ldb), Operand::matrix(c, ldc));
        let operands = if side == 0 { [a, b, c] } else { [b, a, c] };
        special(call, ty, [m, n, order], [scalar(call, alpha, ty)?, Scalar::ZERO], operands)
    }
    TRSM: [
        F32: cublasStrsm_v2 cublasStrsm_v2_64, F64: cublasDtrsm_v2 cublasDtrsm_v2_64, C32: cublasCtrsm_v2 cublasCtrsm_v2_64,
        C64: cublasZtrsm_v2 cublasZtrsm_v2_64,
    ]
    fn (
        call, ty, side: u32, fill: u32, operation: u32, unit: u32, m: int, n: int, alpha: u64, a: u64, lda: int, b: u64, ldb: int,
    ) {
        let (a, b, batch) = ((a, lda), (b, ldb), Batch::One);
        trsm(call, ty, scalar(call, alpha, ty)?, &Systems { side, fill, operation, unit, size: [m, n], a, b, batch, count: 1 })
    }
    TRSM_BATCHED: [
        F32: cublasStrsmBatched cublasStrsmBatched_64, F64: cublasDtrsmBatched cublasDtrsmBatched_64,
        C32: cublasCtrsmBatched cublasCtrsmBatched_64, C64: cublasZtrsmBatched cublasZtrsmBatched_64,
    ]
    fn (
        call, ty, side: u32, fill: u32, operation: u32, unit: u32, m: int, n: int, alpha: u64, a: u64, lda: int, b: u64, ldb: int,
        count: int,
    ) {
        let (a, b, batch) = ((a, lda), (b, ldb), Batch::List);
        trsm(call, ty, scalar(call, alpha, ty)?, &Systems { side, fill, operation, unit, size: [m, n], a, b, batch, count })
    }
    GEAM: [
        F32: cublasSgeam cublasSgeam_64, F64: cublasDgeam cublasDgeam_64, C32: cublasCgeam cublasCgeam_64, C64: cublasZgeam cublasZgeam_64,
    ]
    fn (
        call, ty, op_a: u32, op_b: u32, m: int, n: int, alpha: u64, a: u64, lda: int, beta: u64, b: u64, ldb: int, c: u64, ldc: int,
    ) {
        sizes([m, n])?;
        leading(if op_a == 0 { m } else { n }, lda)?;
        leading(if op_b == 0 { m } else { n }, ldb)?;
        leading(m, ldc)?;
        let (alpha, beta) = (scalar(call, alpha, ty)?, scalar(call, beta, ty)?);
        let (a, b) = (Operand::matrix(a, lda).operated(op_a)?, Operand::matrix(b, ldb).operated(op_b)?);
        let arguments = Arguments::default().long(m).long(n).scalar(alpha).operand(a).scalar(beta).operand(b);
        each(call, "geam", ty, m.saturating_mul(n), arguments.operand(Operand::matrix(c, ldc)))
    }
    DGMM: [
        F32: cublasSdgmm cublasSdgmm_64, F64: cublasDdgmm cublasDdgmm_64, C32: cublasCdgmm cublasCdgmm_64, C64: cublasZdgmm cublasZdgmm_64,
    ]
    fn (call, ty, side: u32, m: int, n: int, a: u64, lda: int, x: u64, of_x: int, c: u64, ldc: int) {
        sizes([m, n])?;
        leading(m, lda)?;
        leading(m, ldc)?;
        let long = if side == 0 { m } else { n };
        let arguments = Arguments::default().long(m).long(n).word(i32::from(side == 0)).operand(Operand::matrix(a, lda));
        each(call, "dgmm", ty, m.saturating_mul(n), arguments.vector(x, long, of_x, ty).operand(Operand::matrix(c, ldc)))
    }
}

/// The place of the greatest or smallest element, counted from 1.
fn extreme(call: &Call, ty: Type, (n, x, of_x): (i64, u64, i64), least: i32, result: u64) -> Answer {
    let len = if call.is_wide { 8 } else { 4 };
    reduced(call, "extreme", ty, (result, len), |at| {
        let vector = Arguments::default().long(n).vector(x, n, of_x, ty);
        vector.word(least).word(i32::from(call.is_wide)).address(at)
    })
}

fn symv(
    call: &Call,
    ty: Type,
    (alpha, beta): (u64, u64),
    (fill, n, is_hermitian): (u32, i64, bool),
    [a, x, y]: [(u64, i64); 3],
) -> Answer {
    sizes([n])?;
    leading(n, a.1)?;
    let operands = [
        Operand::matrix(a.0, a.1).with(triangle(fill)? | mirror(is_hermitian)),
        Operand::vector(x.0, n, x.1, ty),
        Operand::vector(y.0, n, y.1, ty),
    ];
    special(call, ty, [n, 1, n], [scalar(call, alpha, ty)?, scalar(call, beta, ty)?], operands)
}
