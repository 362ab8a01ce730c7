//! The older functions for matrices by rows: sums, numbers of elements, incomplete factorizations, and tridiagonal systems.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use super::algebra::{Compressed, Factorized, Operation, Sparse, Tridiagonal, ZERO, sum};
use super::call::{
    Call, Scalar, buffer_size, expect, functions_of_types, functions_with_handle, used_factor,
};
use super::conversions::{by_rows, count, expect_arrays};
use super::matrix::{DenseMatrix, SparseMatrix};
use super::memory::{Array, Base, IndexType, Name, Number, Type, put_indices, put_numbers, put_some_numbers};
use super::objects::{BoostPlaces, Cholesky, Factorization, Kind, MatrixDescriptor, Pivots, change, get};
use super::{Answer, Failure};
use crate::program::pointers::Out;
use crate::status::{self, Status};

/// The index base of a descriptor, whose matrix must be a general one.
fn base_of(descriptor: u64) -> Result<Base, Failure> {
    let MatrixDescriptor { kind, base, .. } = get(descriptor)?;
    if kind == 0 { Ok(base) } else { Err(Failure::MATRIX_TYPE_NOT_SUPPORTED) }
}

/// Counts the elements of a dense matrix that are not 0, in its rows or columns and in all.
fn count_elements(
    call: &Call,
    is_by_columns: bool,
    (matrix, descriptor): (DenseMatrix, u64),
    of_lines: u64,
    all: u64,
) -> Answer {
    base_of(descriptor)?;
    let result = call.result(all)?;
    let operation = if is_by_columns { Operation::Transpose } else { Operation::None };
    call.submit(move || {
        let dense = matrix.read(0, operation, "A", |_| true)?;
        let of_line =
            |line: usize| (0..dense.columns).filter(|column| dense.at(line, *column) != ZERO).count();
        let counts: Vec<_> = (0..dense.rows).map(of_line).collect();
        put_indices(of_lines, IndexType::I32, Base::Zero, &counts)?;
        result.put(&(counts.iter().sum::<usize>() as i32).to_le_bytes())
    })
}

/// Two matrices that are added, and the one of the sum.
#[derive(Debug, Clone, Copy)]
struct Sum {
    terms: [SparseMatrix; 2],
    result: SparseMatrix,
}

/// A matrix of a sum: its descriptor, number of elements, and arrays.
type Given = (u64, c_int, [u64; 3]);

impl Sum {
    fn new(
        [m, n]: [c_int; 2],
        ty: Type,
        terms: [Given; 2],
        result: (u64, [u64; 3]),
    ) -> Result<Self, Failure> {
        let (m, n) = (count(m)?, count(n)?);
        let term = |(descriptor, stored, arrays): Given| {
            Ok::<_, Failure>(by_rows([m, n, count(stored)?], arrays, base_of(descriptor)?, ty))
        };
        let [a, b] = terms;
        let (descriptor, arrays) = result;
        let result = by_rows([m, n, 0], arrays, base_of(descriptor)?, ty);
        Ok(Self { terms: [term(a)?, term(b)?], result })
    }

    /// A term with its factor, which is read unless that is 0.
    fn term(&self, n: usize, factor: &Scalar) -> Result<(Number, Sparse), Status> {
        let (matrix, name) = (&self.terms[n], ["A", "B"][n]);
        matrix.expect_offsets(name)?;
        let pattern = matrix.pattern(0, name)?;
        let factor = used_factor(factor)?;
        let values = match factor {
            Some(_) => matrix.values_of(0, &pattern, name, |_| true)?,
            None => vec![ZERO; matrix.stored],
        };
        Ok((factor.unwrap_or_default(), pattern.with(&values)))
    }

    fn sum(&self, factors: &[Scalar; 2]) -> Result<Compressed, Status> {
        let [a, b] = [self.term(0, &factors[0])?, self.term(1, &factors[1])?];
        Ok(sum([(a.0, &a.1), (b.0, &b.1)]))
    }
}

/// An incomplete factorization of a matrix by rows.
#[derive(Debug, Clone)]
struct Problem {
    matrix: SparseMatrix,
    pivots: Arc<Mutex<Pivots>>,
    boost: Option<[Scalar; 2]>,
    is_cholesky: bool,
}

impl Problem {
    fn new(
        [m, stored]: [c_int; 2],
        descriptor: u64,
        arrays: [u64; 3],
        ty: Type,
        (info, is_cholesky): (Factorization, bool),
    ) -> Result<Self, Failure> {
        let [m, stored] = [count(m)?, count(stored)?];
        let [values, offsets, indices] = arrays;
        expect_arrays(m, &[offsets])?;
        expect_arrays(stored, &[values, indices])?;
        let matrix = by_rows([m, m, stored], [offsets, indices, values], base_of(descriptor)?, ty);
        Ok(Self { matrix, pivots: info.pivots, boost: None, is_cholesky })
    }

    /// With what replaces small pivots.
    fn boosted(self, call: &Call, boost: Option<BoostPlaces>) -> Result<Self, Failure> {
        let Some(BoostPlaces { bound, value }) = boost else { return Ok(self) };
        let bound = call.scalar(bound, Type::F64, "the bound of pivots")?;
        let value = call.scalar(value, self.matrix.ty, "the value of pivots")?;
        Ok(Self { boost: Some([bound, value]), ..self })
    }

    fn set_pivots(&self, set: impl FnOnce(&mut Pivots)) {
        set(&mut self.pivots.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The matrix by rows, with its values or without.
    fn factorized(&self, has_values: bool) -> Result<(Factorized, usize), Status> {
        self.matrix.expect_offsets("A")?;
        let pattern = self.matrix.pattern(0, "A")?;
        let is_used = |[row, column]: [usize; 2]| !self.is_cholesky || column <= row;
        let values = if has_values {
            self.matrix.values_of(0, &pattern, "A", is_used)?
        } else {
            vec![ZERO; self.matrix.stored]
        };
        let first = pattern.first;
        let rows = pattern.at.iter().map(|at| at[0]);
        let offsets = super::algebra::offsets(self.matrix.rows, rows);
        let columns = pattern.at.iter().map(|at| at[1]).collect();
        let values = values[first..first + pattern.at.len()].to_vec();
        Ok((Factorized::new(offsets, columns, values), first))
    }

    fn analyse(self, call: &Call) -> Answer {
        call.submit(move || {
            let (matrix, _) = self.factorized(false)?;
            let (structural, base) = (matrix.structural_zero(), self.matrix.base);
            self.set_pivots(|pivots| *pivots = Pivots { structural, numerical: None, base });
            Ok(())
        })
    }

    fn solve(self, call: &Call) -> Answer {
        call.submit(move || {
            let (mut matrix, first) = self.factorized(true)?;
            let boost = match &self.boost {
                Some([bound, value]) => Some((bound.value()?.re, value.value()?)),
                None => None,
            };
            let zero =
                if self.is_cholesky { matrix.factorize_cholesky() } else { matrix.factorize_lu(boost) };
            let base = self.matrix.base;
            self.set_pivots(|pivots| *pivots = Pivots { numerical: zero, base, ..*pivots });
            // A Cholesky factor leaves what is above the diagonal as it is.
            let row_of = |n: usize| matrix.offsets.partition_point(|end| *end <= n) - 1;
            let is_result = |n: &usize| !self.is_cholesky || matrix.columns[*n] <= row_of(*n);
            let values = (0..matrix.values.len()).filter(is_result).map(|n| (first + n, matrix.values[n]));
            put_some_numbers(self.matrix.values, self.matrix.ty, values)
        })
    }
}

/// The description of a Cholesky factorization.
fn cholesky(info: u64) -> Result<(Factorization, bool), Failure> {
    Ok((get::<Cholesky>(info)?.0, true))
}

fn lu(info: u64) -> Result<(Factorization, bool), Failure> {
    Ok((get::<Factorization>(info)?, false))
}

/// Tells the first zero pivot, or -1.
fn zero_pivot(call: &Call, info: &Factorization, position: u64) -> Answer {
    let result = call.result(position)?;
    let position = call.at_once(|| {
        let Pivots { structural, numerical, base } =
            *info.pivots.lock().unwrap_or_else(PoisonError::into_inner);
        let position = structural.or(numerical).map_or(-1, |row| row as i32 + base as i32);
        result.put(&position.to_le_bytes())?;
        Ok(position)
    })?;
    if position < 0 { Ok(()) } else { Err(Failure::ZERO_PIVOT) }
}

/// Sets what replaces small pivots.
fn boost(info: u64, is_on: c_int, bound: u64, value: u64) -> Answer {
    let places = (is_on != 0).then_some(BoostPlaces { bound, value });
    expect(is_on == 0 || bound != 0 && value != 0)?;
    change(info, |info: &mut Factorization| info.boost = places)
}

/// The bytes of a buffer, as an `int` or a `size_t`.
fn buffer<T: TryFrom<usize>>(lines: c_int, size: Out<T>) -> Answer {
    let bytes = T::try_from(buffer_size(count(lines)?)).map_err(|_| Failure::NOT_SUPPORTED)?;
    Ok(size.set(bytes)?)
}

/// Checks that a description is there, and tells the bytes of its buffer.
fn buffer_of<K: Kind, T: TryFrom<usize>>(info: u64, lines: c_int, size: Out<T>) -> Answer {
    get::<K>(info)?;
    buffer(lines, size)
}

/// Tridiagonal systems.
#[derive(Debug, Clone, Copy)]
struct Systems {
    rows: usize,
    /// The addresses of the numbers below, on and above the diagonal, and of the right sides.
    arrays: [u64; 4],
    /// How many right sides there are, and the distance between them.
    sides: (usize, usize),
    /// Whether each right side has a matrix of its own, at the same distance.
    is_batch: bool,
    is_pivoting: bool,
    ty: Type,
}

impl Systems {
    fn new(
        ty: Type,
        [rows, sides, distance]: [c_int; 3],
        arrays: [u64; 4],
        [is_batch, is_pivoting]: [bool; 2],
    ) -> Result<Self, Failure> {
        let [rows, sides, distance] = [count(rows)?, count(sides)?, count(distance)?];
        expect(rows >= 3 && distance >= rows)?;
        expect_arrays(sides, &arrays)?;
        Ok(Self { rows, arrays, sides: (sides, distance), is_batch, is_pivoting, ty })
    }

    /// Numbers of one of the arrays, of which all but one are used.
    fn numbers(&self, array: usize, system: usize, unused: Option<usize>) -> Result<Vec<Number>, Status> {
        let of = |n: usize| (n * self.sides.1 * self.ty.size()) as u64;
        let at = self.arrays[array].wrapping_add(of(system));
        let part = ["numbers below", "numbers on", "numbers above", "right sides"][array];
        let name = Name(part, if array == 3 { "the systems" } else { "the diagonal" });
        Array::new(at, self.rows, name).numbers(self.ty, |n| Some(n) != unused)
    }

    fn matrix(&self, system: usize) -> Result<Tridiagonal, Status> {
        Ok(Tridiagonal {
            below: self.numbers(0, system, Some(0))?,
            diagonal: self.numbers(1, system, None)?,
            above: self.numbers(2, system, Some(self.rows - 1))?,
        })
    }

    fn solve(&self) -> status::Answer {
        let mut matrix = None;
        for system in 0..self.sides.0 {
            let of_system = match matrix.take() {
                Some(matrix) if !self.is_batch => matrix,
                _ => self.matrix(system)?,
            };
            let mut side = self.numbers(3, system, None)?;
            of_system.solve(&mut side, self.is_pivoting);
            matrix = Some(of_system);
            let before = (system * self.sides.1 * self.ty.size()) as u64;
            put_numbers(self.arrays[3].wrapping_add(before), self.ty, &side)?;
        }
        Ok(())
    }

    fn submit(self, call: &Call) -> Answer {
        call.submit(move || self.solve())
    }
}

functions_with_handle! { OF_ALL_TYPES, Failure::NOT_INITIALIZED;
    cusparseXcsrilu02_zeroPivot(call, info: u64, position: u64) zero_pivot(call, &lu(info)?.0, position);
    cusparseXcsric02_zeroPivot(call, info: u64, position: u64) zero_pivot(call, &cholesky(info)?.0, position);
    cusparseXcsrgeam2Nnz(
        call, m: c_int, n: c_int, of_a: u64, in_a: c_int, offsets_a: u64, indices_a: u64, of_b: u64, in_b: c_int, offsets_b: u64, indices_b: u64,
        of_c: u64, offsets_c: u64, all: u64, _buffer: u64,
    ) {
        let terms = [(of_a, in_a, [offsets_a, indices_a, 0]), (of_b, in_b, [offsets_b, indices_b, 0])];
        let given = Sum::new([m, n], Type::F32, terms, (of_c, [offsets_c, 0, 0]))?;
        let result = call.result(all)?;
        call.submit(move || {
            let structure = given.sum(&[Scalar::Host(ZERO); 2])?;
            given.result.put_lines(&structure.offsets)?;
            result.put(&(structure.columns.len() as i32).to_le_bytes())
        })
    };
}

functions_of_types! { OF_TYPES;
    [cusparseSnnz cusparseDnnz cusparseCnnz cusparseZnnz](
        call, ty, direction: u32, m: c_int, n: c_int, descriptor: u64, a: u64, leading: c_int, of_lines: u64, all: u64,
    ) {
        let [rows, columns, leading] = [count(m)?, count(n)?, count(leading)?];
        expect(leading >= rows && direction <= 1)?;
        let matrix = DenseMatrix { rows, columns, leading, ..DenseMatrix::vector(0, a, ty) };
        count_elements(call, direction == 1, (matrix, descriptor), of_lines, all)
    }
    [cusparseScsrgeam2_bufferSizeExt cusparseDcsrgeam2_bufferSizeExt cusparseCcsrgeam2_bufferSizeExt cusparseZcsrgeam2_bufferSizeExt](
        _call, ty, m: c_int, n: c_int, _alpha: u64, of_a: u64, in_a: c_int, values_a: u64, offsets_a: u64, indices_a: u64, _beta: u64, of_b: u64,
        in_b: c_int, values_b: u64, offsets_b: u64, indices_b: u64, of_c: u64, values_c: u64, offsets_c: u64, indices_c: u64, size: Out<usize>,
    ) {
        let terms = [(of_a, in_a, [offsets_a, indices_a, values_a]), (of_b, in_b, [offsets_b, indices_b, values_b])];
        Sum::new([m, n], ty, terms, (of_c, [offsets_c, indices_c, values_c]))?;
        buffer(m, size)
    }
    [cusparseScsrgeam2 cusparseDcsrgeam2 cusparseCcsrgeam2 cusparseZcsrgeam2](
        call, ty, m: c_int, n: c_int, alpha: u64, of_a: u64, in_a: c_int, values_a: u64, offsets_a: u64, indices_a: u64, beta: u64, of_b: u64,
        in_b: c_int, values_b: u64, offsets_b: u64, indices_b: u64, of_c: u64, values_c: u64, offsets_c: u64, indices_c: u64, _buffer: u64,
    ) {
        let terms = [(of_a, in_a, [offsets_a, indices_a, values_a]), (of_b, in_b, [offsets_b, indices_b, values_b])];
        let given = Sum::new([m, n], ty, terms, (of_c, [offsets_c, indices_c, values_c]))?;
        let factors = [call.scalar(alpha, ty, "alpha")?, call.scalar(beta, ty, "beta")?];
        call.submit(move || given.result.put(&given.sum(&factors)?))
    }
    [cusparseScsrilu02_numericBoost cusparseDcsrilu02_numericBoost cusparseCcsrilu02_numericBoost cusparseZcsrilu02_numericBoost](
        _call, _ty, info: u64, is_on: c_int, bound: u64, value: u64,
    ) { boost(info, is_on, bound, value) }
    [cusparseScsrilu02_bufferSize cusparseDcsrilu02_bufferSize cusparseCcsrilu02_bufferSize cusparseZcsrilu02_bufferSize](
        _call, _ty, m: c_int, _stored: c_int, _descriptor: u64, _values: u64, _offsets: u64, _indices: u64, info: u64, size: Out<c_int>,
    ) { buffer_of::<Factorization, _>(info, m, size) }
    [cusparseScsrilu02_bufferSizeExt cusparseDcsrilu02_bufferSizeExt cusparseCcsrilu02_bufferSizeExt cusparseZcsrilu02_bufferSizeExt](
        _call, _ty, m: c_int, _stored: c_int, _descriptor: u64, _values: u64, _offsets: u64, _indices: u64, info: u64, size: Out<usize>,
    ) { buffer_of::<Factorization, _>(info, m, size) }
    [cusparseScsrilu02_analysis cusparseDcsrilu02_analysis cusparseCcsrilu02_analysis cusparseZcsrilu02_analysis](
        call, ty, m: c_int, stored: c_int, descriptor: u64, values: u64, offsets: u64, indices: u64, info: u64, _policy: u32, _buffer: u64,
    ) { Problem::new([m, stored], descriptor, [values, offsets, indices], ty, lu(info)?)?.analyse(call) }
    [cusparseScsrilu02 cusparseDcsrilu02 cusparseCcsrilu02 cusparseZcsrilu02](
        call, ty, m: c_int, stored: c_int, descriptor: u64, values: u64, offsets: u64, indices: u64, info: u64, _policy: u32, _buffer: u64,
    ) {
        let info = lu(info)?;
        let boost = info.0.boost;
        Problem::new([m, stored], descriptor, [values, offsets, indices], ty, info)?.boosted(call, boost)?.solve(call)
    }
    [cusparseScsric02_bufferSize cusparseDcsric02_bufferSize cusparseCcsric02_bufferSize cusparseZcsric02_bufferSize](
        _call, _ty, m: c_int, _stored: c_int, _descriptor: u64, _values: u64, _offsets: u64, _indices: u64, info: u64, size: Out<c_int>,
    ) { buffer_of::<Cholesky, _>(info, m, size) }
    [cusparseScsric02_bufferSizeExt cusparseDcsric02_bufferSizeExt cusparseCcsric02_bufferSizeExt cusparseZcsric02_bufferSizeExt](
        _call, _ty, m: c_int, _stored: c_int, _descriptor: u64, _values: u64, _offsets: u64, _indices: u64, info: u64, size: Out<usize>,
    ) { buffer_of::<Cholesky, _>(info, m, size) }
    [cusparseScsric02_analysis cusparseDcsric02_analysis cusparseCcsric02_analysis cusparseZcsric02_analysis](
        call, ty, m: c_int, stored: c_int, descriptor: u64, values: u64, offsets: u64, indices: u64, info: u64, _policy: u32, _buffer: u64,
    ) { Problem::new([m, stored], descriptor, [values, offsets, indices], ty, cholesky(info)?)?.analyse(call) }
    [cusparseScsric02 cusparseDcsric02 cusparseCcsric02 cusparseZcsric02](
        call, ty, m: c_int, stored: c_int, descriptor: u64, values: u64, offsets: u64, indices: u64, info: u64, _policy: u32, _buffer: u64,
    ) { Problem::new([m, stored], descriptor, [values, offsets, indices], ty, cholesky(info)?)?.solve(call) }
    [cusparseSgtsv2_bufferSizeExt cusparseDgtsv2_bufferSizeExt cusparseCgtsv2_bufferSizeExt cusparseZgtsv2_bufferSizeExt](
        _call, ty, m: c_int, n: c_int, below: u64, diagonal: u64, above: u64, sides: u64, leading: c_int, size: Out<usize>,
    ) {
        Systems::new(ty, [m, n, leading], [below, diagonal, above, sides], [false, true])?;
        buffer(m, size)
    }
    [cusparseSgtsv2 cusparseDgtsv2 cusparseCgtsv2 cusparseZgtsv2](
        call, ty, m: c_int, n: c_int, below: u64, diagonal: u64, above: u64, sides: u64, leading: c_int, _buffer: u64,
    ) { Systems::new(ty, [m, n, leading], [below, diagonal, above, sides], [false, true])?.submit(call) }
    [cusparseSgtsv2_nopivot_bufferSizeExt cusparseDgtsv2_nopivot_bufferSizeExt cusparseCgtsv2_nopivot_bufferSizeExt cusparseZgtsv2_nopivot_bufferSizeExt](
        _call, ty, m: c_int, n: c_int, below: u64, diagonal: u64, above: u64, sides: u64, leading: c_int, size: Out<usize>,
    ) {
        Systems::new(ty, [m, n, leading], [below, diagonal, above, sides], [false, false])?;
        buffer(m, size)
    }
    [cusparseSgtsv2_nopivot cusparseDgtsv2_nopivot cusparseCgtsv2_nopivot cusparseZgtsv2_nopivot](
        call, ty, m: c_int, n: c_int, below: u64, diagonal: u64, above: u64, sides: u64, leading: c_int, _buffer: u64,
    ) { Systems::new(ty, [m, n, leading], [below, diagonal, above, sides], [false, false])?.submit(call) }
    [cusparseSgtsv2StridedBatch_bufferSizeExt cusparseDgtsv2StridedBatch_bufferSizeExt cusparseCgtsv2StridedBatch_bufferSizeExt
        cusparseZgtsv2StridedBatch_bufferSizeExt](
        _call, ty, m: c_int, below: u64, diagonal: u64, above: u64, sides: u64, batch: c_int, distance: c_int, size: Out<usize>,
    ) {
        Systems::new(ty, [m, batch, distance], [below, diagonal, above, sides], [true, false])?;
        buffer(m, size)
    }
    [cusparseSgtsv2StridedBatch cusparseDgtsv2StridedBatch cusparseCgtsv2StridedBatch cusparseZgtsv2StridedBatch](
        call, ty, m: c_int, below: u64, diagonal: u64, above: u64, sides: u64, batch: c_int, distance: c_int, _buffer: u64,
    ) { Systems::new(ty, [m, batch, distance], [below, diagonal, above, sides], [true, false])?.submit(call) }
}

/// The names of all functions of this file.
pub(super) const NAMES: &[&[&str]] = &[OF_ALL_TYPES, OF_TYPES];
