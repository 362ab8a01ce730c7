//! Handles and descriptors: what makes, sets, tells and destroys them.

use std::ffi::{CStr, c_char, c_int};

use super::call::{functions, functions_with_handle};
use super::matrix::{Batch, DenseMatrix, Format, SparseMatrix, SparseVector};
use super::memory::{Base, IndexType, Type};
use super::objects::{
    self, Cholesky, DenseVector, Factorization, MatrixDescriptor, MatrixSystem, Settings, SparseProduct,
    System, change, destroy, get, make,
};
use super::{Answer, Failure};
use crate::program::caller::runtime_is_12;
use crate::program::pointers::{In, Out};

/// The version of the library that a program finds.
fn version() -> c_int {
    if runtime_is_12() { 12_508 } else { 12_904 }
}

/// A part of the version by its `libraryPropertyType`.
fn property(part: c_int, value: Out<c_int>) -> Answer {
    let part = match part {
        0 => version() / 1000,
        1 => version() / 100 % 10,
        2 => version() % 100,
        _ => return Err(Failure::INVALID_VALUE),
    };
    Ok(value.set(part)?)
}

/// A size, which is not negative.
fn size(size: i64) -> Result<usize, Failure> {
    usize::try_from(size).map_err(|_| Failure::INVALID_VALUE)
}

/// A number that is one of the first of an enumeration.
const fn one_of(number: u32, count: u32) -> Result<u32, Failure> {
    if number < count { Ok(number) } else { Err(Failure::INVALID_VALUE) }
}

/// Checks that a place for a result is there.
fn expect<T>(place: &Out<T>) -> Answer {
    if place.is_null() { Err(Failure::INVALID_VALUE) } else { Ok(()) }
}

/// Changes a descriptor of the older functions; no descriptor has a status of its own.
fn set_old(descriptor: u64, set: impl FnOnce(&mut MatrixDescriptor)) -> Answer {
    if descriptor == 0 {
        return Err(Failure::NOT_INITIALIZED);
    }
    change(descriptor, set)
}

/// What a descriptor of the older functions says; -1 without one.
fn old(descriptor: u64, value: impl FnOnce(&MatrixDescriptor) -> u32) -> c_int {
    get::<MatrixDescriptor>(descriptor).map_or(-1, |descriptor| value(&descriptor).cast_signed())
}

/// Defines functions that return what a descriptor of the older functions says.
macro_rules! told_by_descriptors {
    ($($name:ident $value:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(descriptor: u64) -> c_int {
                old(descriptor, $value)
            }
        )*

        const TOLD: &[&str] = &[$(stringify!($name)),*];
    };
}

told_by_descriptors! {
    cusparseGetMatType |descriptor| descriptor.kind;
    cusparseGetMatFillMode |descriptor| descriptor.fill;
    cusparseGetMatDiagType |descriptor| descriptor.diagonal;
    cusparseGetMatIndexBase |descriptor| descriptor.base as u32;
}

/// The names of statuses, and what they mean.
const STATUSES: [[&CStr; 2]; 12] = [
    [c"CUSPARSE_STATUS_SUCCESS", c"success"],
    [c"CUSPARSE_STATUS_NOT_INITIALIZED", c"initialization error"],
    [c"CUSPARSE_STATUS_ALLOC_FAILED", c"out of memory"],
    [c"CUSPARSE_STATUS_INVALID_VALUE", c"invalid value"],
    [c"CUSPARSE_STATUS_ARCH_MISMATCH", c"architecture mismatch"],
    [c"CUSPARSE_STATUS_MAPPING_ERROR", c"texture memory mapping error"],
    [c"CUSPARSE_STATUS_EXECUTION_FAILED", c"kernel launch failure"],
    [c"CUSPARSE_STATUS_INTERNAL_ERROR", c"internal error"],
    [c"CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED", c"matrix type not supported"],
    [c"CUSPARSE_STATUS_ZERO_PIVOT", c"zero pivot"],
    [c"CUSPARSE_STATUS_NOT_SUPPORTED", c"operation not supported"],
    [c"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", c"insufficient resources"],
];

fn text(status: c_int, part: usize) -> *const c_char {
    let texts = usize::try_from(status).ok().and_then(|status| STATUSES.get(status));
    texts.map_or(c"unrecognized error code", |texts| texts[part]).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cusparseGetErrorName(status: c_int) -> *const c_char {
    text(status, 0)
}

#[unsafe(no_mangle)]
extern "C" fn cusparseGetErrorString(status: c_int) -> *const c_char {
    text(status, 1)
}

const TEXTS: &[&str] = &["cusparseGetErrorName", "cusparseGetErrorString"];

functions! { OF_LIBRARY;
    cusparseCreate(handle: Out<u64>) make(handle, Settings::default());
    cusparseDestroy(handle: u64) destroy::<Settings>(handle);
    cusparseGetProperty(part: c_int, value: Out<c_int>) property(part, value);
    cusparseLoggerSetCallback(_callback: u64) Ok(());
    cusparseLoggerSetFile(_file: u64) Ok(());
    cusparseLoggerOpenFile(_file: u64) Ok(());
    cusparseLoggerSetLevel(_level: c_int) Ok(());
    cusparseLoggerSetMask(_mask: c_int) Ok(());
    cusparseLoggerForceDisable() Ok(());
    cusparseCreateMatDescr(descriptor: Out<u64>) make(descriptor, MatrixDescriptor::default());
    cusparseDestroyMatDescr(descriptor: u64) destroy::<MatrixDescriptor>(descriptor);
    cusparseSetMatType(descriptor: u64, kind: u32) {
        let kind = one_of(kind, 4)?;
        set_old(descriptor, |descriptor| descriptor.kind = kind)
    };
    cusparseSetMatFillMode(descriptor: u64, fill: u32) {
        let fill = one_of(fill, 2)?;
        set_old(descriptor, |descriptor| descriptor.fill = fill)
    };
    cusparseSetMatDiagType(descriptor: u64, diagonal: u32) {
        let diagonal = one_of(diagonal, 2)?;
        set_old(descriptor, |descriptor| descriptor.diagonal = diagonal)
    };
    cusparseSetMatIndexBase(descriptor: u64, base: u32) {
        let base = Base::from_number(base)?;
        set_old(descriptor, |descriptor| descriptor.base = base)
    };
    cusparseCreateCsrilu02Info(info: Out<u64>) make(info, Factorization::default());
    cusparseDestroyCsrilu02Info(info: u64) destroy::<Factorization>(info);
    cusparseCreateCsric02Info(info: Out<u64>) make(info, Cholesky::default());
    cusparseDestroyCsric02Info(info: u64) destroy::<Cholesky>(info);
    cusparseSpSV_createDescr(descriptor: Out<u64>) make(descriptor, System::default());
    cusparseSpSV_destroyDescr(descriptor: u64) destroy::<System>(descriptor);
    cusparseSpSM_createDescr(descriptor: Out<u64>) make(descriptor, MatrixSystem::default());
    cusparseSpSM_destroyDescr(descriptor: u64) destroy::<MatrixSystem>(descriptor);
    cusparseSpGEMM_createDescr(descriptor: Out<u64>) make(descriptor, SparseProduct::default());
    cusparseSpGEMM_destroyDescr(descriptor: u64) destroy::<SparseProduct>(descriptor);
}

functions_with_handle! { OF_HANDLE, Failure::INVALID_VALUE;
    cusparseGetVersion(_call, value: Out<c_int>) Ok(value.set(version())?);
    cusparseSetStream(call, stream: u64) objects::change(call.handle, |settings: &mut Settings| settings.stream = stream);
    cusparseGetStream(call, stream: Out<u64>) Ok(stream.set(call.settings.stream)?);
    cusparseSetPointerMode(call, mode: u32) {
        let on_device = one_of(mode, 2)? == 1;
        objects::change(call.handle, |settings: &mut Settings| settings.on_device = on_device)
    };
    cusparseGetPointerMode(call, mode: Out<u32>) Ok(mode.set(u32::from(call.settings.on_device))?);
}

/// A sparse vector as a program describes it.
fn sparse_vector(
    [all, stored]: [i64; 2],
    [indices, values]: [u64; 2],
    [of_indices, base, ty]: [u32; 3],
) -> Result<SparseVector, Failure> {
    let (all, stored) = (size(all)?, size(stored)?);
    if stored > all {
        return Err(Failure::INVALID_VALUE);
    }
    let (of_indices, base) = (IndexType::from_number(of_indices)?, Base::from_number(base)?);
    Ok(SparseVector { size: all, stored, indices, values, of_indices, base, ty: Type::from_number(ty)? })
}

/// The places for what a sparse vector is.
type VectorPlaces = ([Out<i64>; 2], [Out<u64>; 2], [Out<u32>; 3]);

fn tell_sparse_vector(vector: u64, (sizes, places, kinds): VectorPlaces) -> Answer {
    let v = get::<SparseVector>(vector)?;
    set_all(sizes, [v.size as i64, v.stored as i64])?;
    set_all(places, [v.indices, v.values])?;
    set_all(kinds, [v.of_indices as u32, v.base as u32, v.ty.number()])
}

/// Tells several values, if there is a place for each.
fn set_all<T, const N: usize>(places: [Out<T>; N], values: [T; N]) -> Answer {
    places.iter().try_for_each(expect)?;
    places.into_iter().zip(values).try_for_each(|(place, value)| Ok(place.set(value)?))
}

/// A sparse matrix as a program describes it.
fn sparse_matrix(
    format: Format,
    [rows, columns, stored]: [i64; 3],
    [lines, others, values]: [u64; 3],
    [of_lines, of_others, base, ty]: [u32; 4],
) -> Result<SparseMatrix, Failure> {
    let [rows, columns, stored] = [size(rows)?, size(columns)?, size(stored)?];
    if rows.checked_mul(columns).is_some_and(|all| stored > all) {
        return Err(Failure::INVALID_VALUE);
    }
    let (of_lines, of_others) = (IndexType::from_number(of_lines)?, IndexType::from_number(of_others)?);
    let (base, ty) = (Base::from_number(base)?, Type::from_number(ty)?);
    let (attributes, batch) = ([0; 4], Batch::ONE);
    Ok(SparseMatrix {
        format,
        rows,
        columns,
        stored,
        lines,
        others,
        values,
        of_lines,
        of_others,
        base,
        ty,
        attributes,
        batch,
    })
}

/// The places for what a sparse matrix is.
type MatrixPlaces<const N: usize> = ([Out<i64>; 3], [Out<u64>; 3], [Out<u32>; N]);

fn of_format(matrix: u64, format: Format) -> Result<SparseMatrix, Failure> {
    get::<SparseMatrix>(matrix)
        .and_then(|m| if m.format == format { Ok(m) } else { Err(Failure::INVALID_VALUE) })
}

fn tell_sparse_matrix(matrix: u64, format: Format, (sizes, places, kinds): MatrixPlaces<4>) -> Answer {
    let m = of_format(matrix, format)?;
    set_all(sizes, [m.rows, m.columns, m.stored].map(|size| size as i64))?;
    set_all(places, [m.lines, m.others, m.values])?;
    set_all(kinds, [m.of_lines as u32, m.of_others as u32, m.base as u32, m.ty.number()])
}

fn tell_coordinates(matrix: u64, (sizes, places, kinds): MatrixPlaces<3>) -> Answer {
    let m = of_format(matrix, Format::Elements)?;
    set_all(sizes, [m.rows, m.columns, m.stored].map(|size| size as i64))?;
    set_all(places, [m.lines, m.others, m.values])?;
    set_all(kinds, [m.of_lines as u32, m.base as u32, m.ty.number()])
}

/// Gives a matrix of a format other arrays.
fn set_arrays(matrix: u64, format: Format, [lines, others, values]: [u64; 3]) -> Answer {
    of_format(matrix, format)?;
    change(matrix, |m: &mut SparseMatrix| (m.lines, m.others, m.values) = (lines, others, values))
}

/// Makes a matrix several ones at equal distances.
fn batch_of(matrix: u64, is_by_elements: bool, count: c_int, of_lines: i64, of_elements: i64) -> Answer {
    let m = get::<SparseMatrix>(matrix)?;
    let count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Failure::INVALID_VALUE)?;
    let (of_lines, of_elements) = (size(of_lines)?, size(of_elements)?);
    let is_enough = |distance: usize, needed: usize| distance == 0 || distance >= needed;
    let lines_fit = is_by_elements || is_enough(of_lines, m.line_count() + 1);
    if (m.format == Format::Elements) != is_by_elements || !lines_fit || !is_enough(of_elements, m.stored) {
        return Err(Failure::INVALID_VALUE);
    }
    change(matrix, |m: &mut SparseMatrix| m.batch = Batch { count, of_lines, of_elements })
}

/// The place of an attribute of sparse matrices, which is 4 bytes long.
fn attribute(number: u32, len: usize) -> Result<usize, Failure> {
    let number = one_of(number, 4)?;
    if len == 4 { Ok(number as usize) } else { Err(Failure::INVALID_VALUE) }
}

/// A dense matrix as a program describes it.
fn dense_matrix(
    [rows, columns, leading]: [i64; 3],
    values: u64,
    ty: u32,
    order: u32,
) -> Result<DenseMatrix, Failure> {
    let [rows, columns, leading] = [size(rows)?, size(columns)?, size(leading)?];
    let is_by_rows = match order {
        1 => false,
        2 => true,
        _ => return Err(Failure::INVALID_VALUE),
    };
    if leading < if is_by_rows { columns } else { rows } {
        return Err(Failure::INVALID_VALUE);
    }
    Ok(DenseMatrix { rows, columns, leading, values, ty: Type::from_number(ty)?, is_by_rows, batch: (1, 0) })
}

fn tell_dense_matrix(matrix: u64, sizes: [Out<i64>; 3], values: Out<u64>, kinds: [Out<u32>; 2]) -> Answer {
    let m = get::<DenseMatrix>(matrix)?;
    set_all(sizes, [m.rows, m.columns, m.leading].map(|size| size as i64))?;
    set_all([values], [m.values])?;
    set_all(kinds, [m.ty.number(), if m.is_by_rows { 2 } else { 1 }])
}

fn dense_vector(elements: i64, values: u64, ty: u32) -> Result<DenseVector, Failure> {
    Ok(DenseVector(DenseMatrix::vector(size(elements)?, values, Type::from_number(ty)?)))
}

fn tell_dense_vector(vector: u64, elements: Out<i64>, values: Out<u64>, ty: Out<u32>) -> Answer {
    let DenseVector(v) = get(vector)?;
    set_all([elements], [v.rows as i64])?;
    set_all([values], [v.values])?;
    set_all([ty], [v.ty.number()])
}

/// Makes dense matrices of one.
fn dense_batch(matrix: u64, count: c_int, distance: i64) -> Answer {
    let count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Failure::INVALID_VALUE)?;
    let (distance, m) = (size(distance)?, get::<DenseMatrix>(matrix)?);
    let lines = if m.is_by_rows { m.rows } else { m.columns };
    if count > 1 && distance != 0 && distance < m.leading.saturating_mul(lines) {
        return Err(Failure::INVALID_VALUE);
    }
    change(matrix, |m: &mut DenseMatrix| m.batch = (count, distance))
}

functions! { OF_VECTORS;
    cusparseCreateSpVec(vector: Out<u64>, all: i64, stored: i64, indices: u64, values: u64, of_indices: u32, base: u32, ty: u32)
        make(vector, sparse_vector([all, stored], [indices, values], [of_indices, base, ty])?);
    cusparseCreateConstSpVec(vector: Out<u64>, all: i64, stored: i64, indices: u64, values: u64, of_indices: u32, base: u32, ty: u32)
        make(vector, sparse_vector([all, stored], [indices, values], [of_indices, base, ty])?);
    cusparseDestroySpVec(vector: u64) destroy::<SparseVector>(vector);
    cusparseSpVecGet(
        vector: u64, all: Out<i64>, stored: Out<i64>, indices: Out<u64>, values: Out<u64>, of_indices: Out<u32>, base: Out<u32>, ty: Out<u32>,
    ) tell_sparse_vector(vector, ([all, stored], [indices, values], [of_indices, base, ty]));
    cusparseConstSpVecGet(
        vector: u64, all: Out<i64>, stored: Out<i64>, indices: Out<u64>, values: Out<u64>, of_indices: Out<u32>, base: Out<u32>, ty: Out<u32>,
    ) tell_sparse_vector(vector, ([all, stored], [indices, values], [of_indices, base, ty]));
    cusparseSpVecGetIndexBase(vector: u64, base: Out<u32>) Ok(base.set(get::<SparseVector>(vector)?.base as u32)?);
    cusparseSpVecGetValues(vector: u64, values: Out<u64>) Ok(values.set(get::<SparseVector>(vector)?.values)?);
    cusparseConstSpVecGetValues(vector: u64, values: Out<u64>) Ok(values.set(get::<SparseVector>(vector)?.values)?);
    cusparseSpVecSetValues(vector: u64, values: u64) change(vector, |v: &mut SparseVector| v.values = values);
    cusparseCreateDnVec(vector: Out<u64>, elements: i64, values: u64, ty: u32) make(vector, dense_vector(elements, values, ty)?);
    cusparseCreateConstDnVec(vector: Out<u64>, elements: i64, values: u64, ty: u32) make(vector, dense_vector(elements, values, ty)?);
    cusparseDestroyDnVec(vector: u64) destroy::<DenseVector>(vector);
    cusparseDnVecGet(vector: u64, elements: Out<i64>, values: Out<u64>, ty: Out<u32>) tell_dense_vector(vector, elements, values, ty);
    cusparseConstDnVecGet(vector: u64, elements: Out<i64>, values: Out<u64>, ty: Out<u32>) tell_dense_vector(vector, elements, values, ty);
    cusparseDnVecGetValues(vector: u64, values: Out<u64>) Ok(values.set(get::<DenseVector>(vector)?.0.values)?);
    cusparseConstDnVecGetValues(vector: u64, values: Out<u64>) Ok(values.set(get::<DenseVector>(vector)?.0.values)?);
    cusparseDnVecSetValues(vector: u64, values: u64) change(vector, |v: &mut DenseVector| v.0.values = values);
}

functions! { OF_SPARSE_MATRICES;
    cusparseCreateCsr(
        matrix: Out<u64>, rows: i64, columns: i64, stored: i64, offsets: u64, indices: u64, values: u64, of_offsets: u32, of_indices: u32, base: u32,
        ty: u32,
    ) make(matrix, sparse_matrix(Format::Rows, [rows, columns, stored], [offsets, indices, values], [of_offsets, of_indices, base, ty])?);
    cusparseCreateConstCsr(
        matrix: Out<u64>, rows: i64, columns: i64, stored: i64, offsets: u64, indices: u64, values: u64, of_offsets: u32, of_indices: u32, base: u32,
        ty: u32,
    ) make(matrix, sparse_matrix(Format::Rows, [rows, columns, stored], [offsets, indices, values], [of_offsets, of_indices, base, ty])?);
    cusparseCreateCsc(
        matrix: Out<u64>, rows: i64, columns: i64, stored: i64, offsets: u64, indices: u64, values: u64, of_offsets: u32, of_indices: u32, base: u32,
        ty: u32,
    ) make(matrix, sparse_matrix(Format::Columns, [rows, columns, stored], [offsets, indices, values], [of_offsets, of_indices, base, ty])?);
    cusparseCreateConstCsc(
        matrix: Out<u64>, rows: i64, columns: i64, stored: i64, offsets: u64, indices: u64, values: u64, of_offsets: u32, of_indices: u32, base: u32,
        ty: u32,
    ) make(matrix, sparse_matrix(Format::Columns, [rows, columns, stored], [offsets, indices, values], [of_offsets, of_indices, base, ty])?);
    cusparseCreateCoo(
        matrix: Out<u64>, rows: i64, columns: i64, stored: i64, of_row: u64, of_column: u64, values: u64, of_indices: u32, base: u32, ty: u32,
    ) make(matrix, sparse_matrix(Format::Elements, [rows, columns, stored], [of_row, of_column, values], [of_indices, of_indices, base, ty])?);
    cusparseCreateConstCoo(
        matrix: Out<u64>, rows: i64, columns: i64, stored: i64, of_row: u64, of_column: u64, values: u64, of_indices: u32, base: u32, ty: u32,
    ) make(matrix, sparse_matrix(Format::Elements, [rows, columns, stored], [of_row, of_column, values], [of_indices, of_indices, base, ty])?);
    cusparseDestroySpMat(matrix: u64) destroy::<SparseMatrix>(matrix);
    cusparseCsrGet(
        matrix: u64, rows: Out<i64>, columns: Out<i64>, stored: Out<i64>, offsets: Out<u64>, indices: Out<u64>, values: Out<u64>, of_offsets: Out<u32>,
        of_indices: Out<u32>, base: Out<u32>, ty: Out<u32>,
    ) tell_sparse_matrix(matrix, Format::Rows, ([rows, columns, stored], [offsets, indices, values], [of_offsets, of_indices, base, ty]));
    cusparseConstCsrGet(
        matrix: u64, rows: Out<i64>, columns: Out<i64>, stored: Out<i64>, offsets: Out<u64>, indices: Out<u64>, values: Out<u64>, of_offsets: Out<u32>,
        of_indices: Out<u32>, base: Out<u32>, ty: Out<u32>,
    ) tell_sparse_matrix(matrix, Format::Rows, ([rows, columns, stored], [offsets, indices, values], [of_offsets, of_indices, base, ty]));
    cusparseCscGet(
        matrix: u64, rows: Out<i64>, columns: Out<i64>, stored: Out<i64>, offsets: Out<u64>, indices: Out<u64>, values: Out<u64>, of_offsets: Out<u32>,
        of_indices: Out<u32>, base: Out<u32>, ty: Out<u32>,
    ) tell_sparse_matrix(matrix, Format::Columns, ([rows, columns, stored], [offsets, indices, values], [of_offsets, of_indices, base, ty]));
    cusparseConstCscGet(
        matrix: u64, rows: Out<i64>, columns: Out<i64>, stored: Out<i64>, offsets: Out<u64>, indices: Out<u64>, values: Out<u64>, of_offsets: Out<u32>,
        of_indices: Out<u32>, base: Out<u32>, ty: Out<u32>,
    ) tell_sparse_matrix(matrix, Format::Columns, ([rows, columns, stored], [offsets, indices, values], [of_offsets, of_indices, base, ty]));
    cusparseCooGet(
        matrix: u64, rows: Out<i64>, columns: Out<i64>, stored: Out<i64>, of_row: Out<u64>, of_column: Out<u64>, values: Out<u64>, of_indices: Out<u32>,
        base: Out<u32>, ty: Out<u32>,
    ) tell_coordinates(matrix, ([rows, columns, stored], [of_row, of_column, values], [of_indices, base, ty]));
    cusparseConstCooGet(
        matrix: u64, rows: Out<i64>, columns: Out<i64>, stored: Out<i64>, of_row: Out<u64>, of_column: Out<u64>, values: Out<u64>, of_indices: Out<u32>,
        base: Out<u32>, ty: Out<u32>,
    ) tell_coordinates(matrix, ([rows, columns, stored], [of_row, of_column, values], [of_indices, base, ty]));
    cusparseCsrSetPointers(matrix: u64, offsets: u64, indices: u64, values: u64) set_arrays(matrix, Format::Rows, [offsets, indices, values]);
    cusparseCscSetPointers(matrix: u64, offsets: u64, indices: u64, values: u64) set_arrays(matrix, Format::Columns, [offsets, indices, values]);
    cusparseCooSetPointers(matrix: u64, of_row: u64, of_column: u64, values: u64) set_arrays(matrix, Format::Elements, [of_row, of_column, values]);
    cusparseSpMatGetFormat(matrix: u64, format: Out<u32>) Ok(format.set(get::<SparseMatrix>(matrix)?.format as u32)?);
    cusparseSpMatGetIndexBase(matrix: u64, base: Out<u32>) Ok(base.set(get::<SparseMatrix>(matrix)?.base as u32)?);
    cusparseSpMatGetValues(matrix: u64, values: Out<u64>) Ok(values.set(get::<SparseMatrix>(matrix)?.values)?);
    cusparseConstSpMatGetValues(matrix: u64, values: Out<u64>) Ok(values.set(get::<SparseMatrix>(matrix)?.values)?);
    cusparseSpMatSetValues(matrix: u64, values: u64) change(matrix, |m: &mut SparseMatrix| m.values = values);
    cusparseSpMatGetSize(matrix: u64, rows: Out<i64>, columns: Out<i64>, stored: Out<i64>) {
        let m = get::<SparseMatrix>(matrix)?;
        set_all([rows, columns, stored], [m.rows, m.columns, m.stored].map(|size| size as i64))
    };
    cusparseSpMatGetStridedBatch(matrix: u64, count: Out<c_int>) Ok(count.set(get::<SparseMatrix>(matrix)?.batch.count as c_int)?);
    cusparseCooSetStridedBatch(matrix: u64, count: c_int, distance: i64) batch_of(matrix, true, count, 0, distance);
    cusparseCsrSetStridedBatch(matrix: u64, count: c_int, of_offsets: i64, of_elements: i64) batch_of(matrix, false, count, of_offsets, of_elements);
    cusparseSpMatGetAttribute(matrix: u64, number: u32, value: Out<i32>, len: usize) {
        let at = attribute(number, len)?;
        Ok(value.set(get::<SparseMatrix>(matrix)?.attributes[at])?)
    };
    cusparseSpMatSetAttribute(matrix: u64, number: u32, value: In<i32>, len: usize) {
        let (at, value) = (attribute(number, len)?, value.get()?);
        change(matrix, |m: &mut SparseMatrix| m.attributes[at] = value)
    };
}

functions! { OF_DENSE_MATRICES;
    cusparseCreateDnMat(matrix: Out<u64>, rows: i64, columns: i64, leading: i64, values: u64, ty: u32, order: u32)
        make(matrix, dense_matrix([rows, columns, leading], values, ty, order)?);
    cusparseCreateConstDnMat(matrix: Out<u64>, rows: i64, columns: i64, leading: i64, values: u64, ty: u32, order: u32)
        make(matrix, dense_matrix([rows, columns, leading], values, ty, order)?);
    cusparseDestroyDnMat(matrix: u64) destroy::<DenseMatrix>(matrix);
    cusparseDnMatGet(
        matrix: u64, rows: Out<i64>, columns: Out<i64>, leading: Out<i64>, values: Out<u64>, ty: Out<u32>, order: Out<u32>,
    ) tell_dense_matrix(matrix, [rows, columns, leading], values, [ty, order]);
    cusparseConstDnMatGet(
        matrix: u64, rows: Out<i64>, columns: Out<i64>, leading: Out<i64>, values: Out<u64>, ty: Out<u32>, order: Out<u32>,
    ) tell_dense_matrix(matrix, [rows, columns, leading], values, [ty, order]);
    cusparseDnMatGetValues(matrix: u64, values: Out<u64>) Ok(values.set(get::<DenseMatrix>(matrix)?.values)?);
    cusparseConstDnMatGetValues(matrix: u64, values: Out<u64>) Ok(values.set(get::<DenseMatrix>(matrix)?.values)?);
    cusparseDnMatSetValues(matrix: u64, values: u64) change(matrix, |m: &mut DenseMatrix| m.values = values);
    cusparseDnMatSetStridedBatch(matrix: u64, count: c_int, distance: i64) dense_batch(matrix, count, distance);
    cusparseDnMatGetStridedBatch(matrix: u64, count: Out<c_int>, distance: Out<i64>) {
        let (held, between) = get::<DenseMatrix>(matrix)?.batch;
        set_all([count], [held as c_int])?;
        set_all([distance], [between as i64])
    };
}

/// The names of all functions of this file.
pub(super) const NAMES: &[&[&str]] =
    &[TOLD, TEXTS, OF_LIBRARY, OF_HANDLE, OF_VECTORS, OF_SPARSE_MATRICES, OF_DENSE_MATRICES];
