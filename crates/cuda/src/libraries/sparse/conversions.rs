//! Conversions between sparse and dense matrices and between their formats, and the order of elements.

use std::ffi::c_int;

use super::algebra::{Compressed, Dense, Operation, ZERO, offsets};
use super::call::{Call, buffer_size, expect, functions_with_handle};
use super::matrix::{Batch, DenseMatrix, Format, SparseMatrix, rows_of_elements};
use super::memory::{Array, Base, IndexType, Name, Type, put, put_indices, put_raw};
use super::objects::{MatrixDescriptor, change, get};
use super::products::stored_whole;
use super::{Answer, Failure};
use crate::program::pointers::Out;
use crate::status::{self, Status};

/// A sparse and a dense matrix of the same size and type.
fn pair(call: &Call, sparse: u64, dense: u64) -> Result<(SparseMatrix, DenseMatrix), Failure> {
    let (sparse, dense) = (stored_whole(call, sparse)?, get::<DenseMatrix>(dense)?);
    expect([sparse.rows, sparse.columns] == [dense.rows, dense.columns] && sparse.ty == dense.ty)?;
    if sparse.batch.count > 1 || dense.batch.0 > 1 {
        return Err(call.unsupported("a batch of conversions; convert one matrix after the other"));
    }
    Ok((sparse, dense))
}

/// Writes all elements of a sparse matrix to a dense one.
fn to_dense(call: &Call, from: u64, to: u64) -> Answer {
    let (from, to) = pair(call, from, to)?;
    call.submit(move || {
        to.expect_room(0)?;
        let matrix = from.read(0, "A")?;
        let mut all = Dense::zero(to.rows, to.columns);
        matrix.elements.iter().for_each(|element| all.set(element.row, element.column, element.value));
        to.put(0, &all)
    })
}

/// The elements of a dense matrix that are not 0, in the order of a format.
fn elements(dense: &DenseMatrix, format: Format) -> Result<Compressed, Status> {
    let is_by_columns = format == Format::Columns;
    let operation = if is_by_columns { Operation::Transpose } else { Operation::None };
    // The lines of the format are the rows of this.
    let all = dense.read(0, operation, "the dense matrix", |_| true)?;
    let mut found = Compressed { offsets: vec![0], ..Compressed::default() };
    for line in 0..all.rows {
        for column in (0..all.columns).filter(|column| all.at(line, *column) != ZERO) {
            found.columns.push(column);
            found.values.push(all.at(line, column));
        }
        found.offsets.push(found.columns.len());
    }
    Ok(found)
}

/// Counts the elements of a dense matrix that are not 0 for a sparse one, and writes its offsets.
fn count_elements(call: &Call, from: u64, to: u64) -> Answer {
    let (sparse, dense) = pair(call, to, from)?;
    let count = call.at_once(|| {
        let found = elements(&dense, sparse.format)?;
        if sparse.format != Format::Elements && sparse.lines != 0 {
            sparse.put_lines(&found.offsets)?;
        }
        Ok(found.columns.len())
    })?;
    change(to, |matrix: &mut SparseMatrix| matrix.stored = count)
}

/// Writes the elements of a dense matrix that are not 0 to a sparse one, which has room for so many.
fn to_sparse(call: &Call, from: u64, to: u64) -> Answer {
    let (sparse, dense) = pair(call, to, from)?;
    call.submit(move || {
        let found = elements(&dense, sparse.format)?;
        sparse.put(&found)
    })
}

/// A number of elements or lines of the older functions.
pub(super) fn count(number: c_int) -> Result<usize, Failure> {
    usize::try_from(number).map_err(|_| Failure::INVALID_VALUE)
}

/// Checks that arrays are there for so many elements.
pub(super) fn expect_arrays(count: usize, arrays: &[u64]) -> Answer {
    expect(count == 0 || !arrays.contains(&0))
}

/// Indices of the older functions as they are.
fn read_indices(at: u64, count: usize, name: &'static str) -> Result<Vec<i64>, Status> {
    Array::new(at, count, Name("indices", name)).indices(IndexType::I32)
}

/// Writes indices of the older functions as they are.
fn write_indices(at: u64, indices: impl Iterator<Item = i64>) -> status::Answer {
    let bytes: Vec<u8> = indices.flat_map(|index| (index as i32).to_le_bytes()).collect();
    put(at, &bytes)
}

/// Checks that there is room for indices of the older functions, before anything is as large as they are.
fn expect_index_room(at: u64, count: usize) -> status::Answer {
    Array::new(at, count, Name("indices", "the result")).expect_room(IndexType::I32.size())
}

/// A matrix by rows that becomes one by columns.
struct Turned {
    matrix: SparseMatrix,
    to: SparseMatrix,
    has_values: bool,
}

impl Turned {
    fn run(&self) -> status::Answer {
        expect_index_room(self.to.lines, self.to.columns + 1)?;
        let pattern = self.matrix.pattern(0, "A")?;
        let mut order: Vec<usize> = (0..pattern.at.len()).collect();
        // Elements of a column keep the order of their rows.
        order.sort_by_key(|n| pattern.at[*n][1]);
        self.to.put_lines(&offsets(pattern.columns, pattern.at.iter().map(|at| at[1])))?;
        let rows: Vec<_> = order.iter().map(|n| pattern.at[*n][0]).collect();
        put_indices(self.to.others, IndexType::I32, self.to.base, &rows)?;
        if !self.has_values {
            return Ok(());
        }
        let size = self.matrix.ty.size();
        let first = self.matrix.values.wrapping_add((pattern.first * size) as u64);
        let values = Array::new(first, order.len(), Name("values", "A")).raw(size, |_| true)?;
        put_raw(self.to.values, size, &order.iter().map(|n| values[*n]).collect::<Vec<_>>())
    }
}

/// What a matrix by rows of the older functions is.
pub(super) fn by_rows(
    [rows, columns, stored]: [usize; 3],
    [offsets, indices, values]: [u64; 3],
    base: Base,
    ty: Type,
) -> SparseMatrix {
    let of = IndexType::I32;
    SparseMatrix {
        format: Format::Rows,
        rows,
        columns,
        stored,
        lines: offsets,
        others: indices,
        values,
        of_lines: of,
        of_others: of,
        base,
        ty,
        attributes: [0; 4],
        batch: Batch::ONE,
    }
}

/// Sorts elements by keys, of which there are `lists`, and a permutation with them.
fn sort(
    lists: [u64; 2],
    stored: usize,
    permutation: u64,
    key: impl Fn([i64; 2], usize) -> [i64; 2],
) -> status::Answer {
    let read = |at: u64, name| if at == 0 { Ok(vec![0; stored]) } else { read_indices(at, stored, name) };
    let (first, second) = (read(lists[0], "the rows")?, read(lists[1], "the columns")?);
    let mut order: Vec<usize> = (0..stored).collect();
    order.sort_by_key(|n| key([first[*n], second[*n]], *n));
    let mut all = vec![(lists[0], first), (lists[1], second)];
    if permutation != 0 {
        all.push((permutation, read_indices(permutation, stored, "the permutation")?));
    }
    all.into_iter()
        .filter(|(at, _)| *at != 0)
        .try_for_each(|(at, list)| write_indices(at, order.iter().map(|n| list[*n])))
}

/// Sorts the elements of each line of a matrix.
fn sort_lines(
    call: &Call,
    [lines, others, stored]: [c_int; 3],
    descriptor: u64,
    [offsets, indices, permutation]: [u64; 3],
) -> Answer {
    let [lines, others, stored] = [count(lines)?, count(others)?, count(stored)?];
    let base = get::<MatrixDescriptor>(descriptor)?.base;
    expect_arrays(stored, &[offsets, indices])?;
    let matrix = by_rows([lines, others, stored], [offsets, indices, 0], base, Type::F32);
    call.submit(move || {
        if stored == 0 {
            return Ok(());
        }
        let ends = matrix.ends(0, "A")?;
        // Elements of no line stay where they are.
        let line_of = |n: usize| ends.partition_point(|end| *end <= n) as i64;
        let is_of_line = |n: usize| (ends[0]..ends[lines]).contains(&n);
        sort([0, indices], stored, permutation, |[_, other], n| {
            [line_of(n), if is_of_line(n) { other } else { 0 }]
        })
    })
}

/// Sorts elements with their rows and columns, by the first of the keys and then by the other.
fn sort_elements(
    call: &Call,
    sizes: [c_int; 3],
    [rows, columns, permutation]: [u64; 3],
    is_by_columns: bool,
) -> Answer {
    let [_, _, stored] = [count(sizes[0])?, count(sizes[1])?, count(sizes[2])?];
    expect_arrays(stored, &[rows, columns])?;
    call.submit(move || {
        sort(
            [rows, columns],
            stored,
            permutation,
            |[row, column], _| {
                if is_by_columns { [column, row] } else { [row, column] }
            },
        )
    })
}

/// Tells the size of a buffer for elements to sort.
fn sort_buffer(sizes: [c_int; 3], size: Out<usize>) -> Answer {
    let [_, _, stored] = [count(sizes[0])?, count(sizes[1])?, count(sizes[2])?];
    Ok(size.set(buffer_size(stored))?)
}

/// The type of values that only move.
fn moved_type(ty: u32, base: u32) -> Result<(Type, Base), Failure> {
    Ok((Type::from_number(ty)?, Base::from_number(base)?))
}

functions_with_handle! { GENERIC, Failure::INVALID_VALUE;
    cusparseSparseToDense_bufferSize(call, from: u64, to: u64, _algorithm: c_int, size: Out<usize>)
        Ok(size.set(buffer_size(pair(call, from, to)?.0.line_count()))?);
    cusparseSparseToDense(call, from: u64, to: u64, _algorithm: c_int, _buffer: u64) to_dense(call, from, to);
    cusparseDenseToSparse_bufferSize(call, from: u64, to: u64, _algorithm: c_int, size: Out<usize>)
        Ok(size.set(buffer_size(pair(call, to, from)?.0.line_count()))?);
    cusparseDenseToSparse_analysis(call, from: u64, to: u64, _algorithm: c_int, _buffer: u64) count_elements(call, from, to);
    cusparseDenseToSparse_convert(call, from: u64, to: u64, _algorithm: c_int, _buffer: u64) to_sparse(call, from, to);
    cusparseCsr2cscEx2_bufferSize(
        _call, m: c_int, n: c_int, stored: c_int, _values: u64, _offsets: u64, _indices: u64, _to_values: u64, _to_offsets: u64, _to_indices: u64,
        ty: u32, _action: u32, base: u32, _algorithm: c_int, size: Out<usize>,
    ) {
        let [_, n, _] = [count(m)?, count(n)?, count(stored)?];
        moved_type(ty, base)?;
        Ok(size.set(buffer_size(n))?)
    };
    cusparseCsr2cscEx2(
        call, m: c_int, n: c_int, stored: c_int, values: u64, offsets: u64, indices: u64, to_values: u64, to_offsets: u64, to_indices: u64, ty: u32,
        action: u32, base: u32, _algorithm: c_int, _buffer: u64,
    ) {
        let [m, n, stored] = [count(m)?, count(n)?, count(stored)?];
        let (ty, base) = moved_type(ty, base)?;
        expect(action <= 1)?;
        let matrix = by_rows([m, n, stored], [offsets, indices, values], base, ty);
        let to = SparseMatrix { format: Format::Columns, lines: to_offsets, others: to_indices, values: to_values, ..matrix };
        let turned = Turned { matrix, to, has_values: action == 1 };
        call.submit(move || turned.run())
    };
}

functions_with_handle! { OLDER, Failure::NOT_INITIALIZED;
    cusparseCreateIdentityPermutation(call, n: c_int, to: u64) {
        let n = count(n)?;
        expect_arrays(n, &[to])?;
        call.submit(move || {
            expect_index_room(to, n)?;
            write_indices(to, 0..n as i64)
        })
    };
    cusparseXcoo2csr(call, rows_of: u64, stored: c_int, m: c_int, to: u64, base: u32) {
        let ([stored, m], base) = ([count(stored)?, count(m)?], Base::from_number(base)?);
        expect_arrays(stored, &[rows_of])?;
        expect(to != 0)?;
        call.submit(move || {
            expect_index_room(to, m + 1)?;
            let rows = rows_of_elements(rows_of, stored, base, m)?;
            put_indices(to, IndexType::I32, base, &offsets(m, rows.into_iter()))
        })
    };
    cusparseXcsr2coo(call, from: u64, stored: c_int, m: c_int, to: u64, base: u32) {
        let ([stored, m], base) = ([count(stored)?, count(m)?], Base::from_number(base)?);
        expect_arrays(stored, &[from, to])?;
        let matrix = by_rows([m, 0, stored], [from, 0, 0], base, Type::F32);
        call.submit(move || {
            if stored == 0 {
                return Ok(());
            }
            expect_index_room(to, stored)?;
            let ends = matrix.ends(0, "A")?;
            let of = |row: usize| std::iter::repeat_n(row, ends[row + 1] - ends[row]);
            let rows: Vec<_> = (0..m).flat_map(of).collect();
            put_indices(to.wrapping_add(4 * ends[0] as u64), IndexType::I32, base, &rows)
        })
    };
    cusparseXcsrsort_bufferSizeExt(_call, m: c_int, n: c_int, stored: c_int, _offsets: u64, _indices: u64, size: Out<usize>)
        sort_buffer([m, n, stored], size);
    cusparseXcsrsort(call, m: c_int, n: c_int, stored: c_int, descriptor: u64, offsets: u64, indices: u64, permutation: u64, _buffer: u64)
        sort_lines(call, [m, n, stored], descriptor, [offsets, indices, permutation]);
    cusparseXcscsort_bufferSizeExt(_call, m: c_int, n: c_int, stored: c_int, _offsets: u64, _indices: u64, size: Out<usize>)
        sort_buffer([m, n, stored], size);
    cusparseXcscsort(call, m: c_int, n: c_int, stored: c_int, descriptor: u64, offsets: u64, indices: u64, permutation: u64, _buffer: u64)
        sort_lines(call, [n, m, stored], descriptor, [offsets, indices, permutation]);
    cusparseXcoosort_bufferSizeExt(_call, m: c_int, n: c_int, stored: c_int, _rows: u64, _columns: u64, size: Out<usize>)
        sort_buffer([m, n, stored], size);
    cusparseXcoosortByRow(call, m: c_int, n: c_int, stored: c_int, rows: u64, columns: u64, permutation: u64, _buffer: u64)
        sort_elements(call, [m, n, stored], [rows, columns, permutation], false);
    cusparseXcoosortByColumn(call, m: c_int, n: c_int, stored: c_int, rows: u64, columns: u64, permutation: u64, _buffer: u64)
        sort_elements(call, [m, n, stored], [rows, columns, permutation], true);
}

/// The names of all functions of this file.
pub(super) const NAMES: &[&[&str]] = &[GENERIC, OLDER];
