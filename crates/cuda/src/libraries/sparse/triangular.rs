//! Triangular systems of a sparse matrix, with one vector or several.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use super::algebra::{Dense, Operation, Triangle, solution};
use super::call::{Call, Scalar, buffer_size, expect, functions_with_handle, operation_on};
use super::matrix::{DenseMatrix, Format, SparseMatrix};
use super::memory::{Array, Name, Type, no_such_types};
use super::objects::{self, DenseVector, Kind, MatrixSystem, NewValues, System, get};
use super::products::stored_whole;
use super::{Answer, Failure};
use crate::program::pointers::Out;
use crate::status;

/// A system `op(A) C = alpha op(B)`.
#[derive(Debug, Clone)]
struct Problem {
    operations: [Operation; 2],
    a: SparseMatrix,
    b: DenseMatrix,
    c: DenseMatrix,
    by: Type,
}

impl Problem {
    fn new(
        call: &Call,
        operations: [u32; 2],
        (a, b, c): (u64, DenseMatrix, DenseMatrix),
        by: u32,
    ) -> Result<Self, Failure> {
        let (a, by) = (stored_whole(call, a)?, Type::from_number(by)?);
        let operations = [operation_on(operations[0], a.ty)?, operation_on(operations[1], b.ty)?];
        if a.format == Format::Columns {
            return Err(call.unsupported("a matrix that is stored by columns (CSC)"));
        }
        let [rows, columns] = operations[1].swapped([b.rows, b.columns]);
        expect(a.rows == a.columns && a.rows == c.rows && [rows, columns] == [c.rows, c.columns])?;
        let types = [a.ty, b.ty, c.ty, by];
        if !by.is_plain() || types != [by; 4] {
            return Err(no_such_types(&types));
        }
        if a.batch.count > 1 || b.batch.0 > 1 || c.batch.0 > 1 {
            return Err(call.unsupported("a batch of systems; solve one after the other"));
        }
        Ok(Self { operations, a, b, c, by })
    }

    fn of_vectors(call: &Call, of_a: u32, a: u64, [x, y]: [u64; 2], by: u32) -> Result<Self, Failure> {
        let (DenseVector(x), DenseVector(y)) = (get(x)?, get(y)?);
        Self::new(call, [of_a, 0], (a, x, y), by)
    }

    fn triangle(&self) -> Triangle {
        let [fill, diagonal, ..] = self.a.attributes;
        Triangle { is_upper: fill == 1, is_unit: diagonal == 1 }
    }

    /// Checks the matrix, as the analysis of its structure needs it.
    fn analyse(&self, call: &Call, values: Arc<Mutex<NewValues>>) -> Answer {
        let a = self.a;
        call.submit(move || {
            *values.lock().unwrap_or_else(PoisonError::into_inner) = NewValues::default();
            a.pattern(0, "A").map(|_| ())
        })
    }

    fn solve(self, call: &Call, alpha: u64, values: Arc<Mutex<NewValues>>) -> Answer {
        let alpha = call.scalar(alpha, self.by, "alpha")?;
        call.submit(move || self.run(alpha, &values.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn run(&self, alpha: Scalar, new: &NewValues) -> status::Answer {
        let Self { operations: [of_a, of_b], a, b, c, .. } = self;
        c.expect_room(0)?;
        let mut triangle = self.triangle();
        // As on an H200, a new diagonal counts, also where the matrix was said to have ones there.
        triangle.is_unit &= new.diagonal.is_none();
        let pattern = a.pattern(0, "A")?;
        let is_replaced = |[row, column]: [usize; 2]| row == column && new.diagonal.is_some();
        let mut values = match &new.all {
            Some(values) => values.clone(),
            None => a.values_of(0, &pattern, "A", |at| triangle.has(at) && !is_replaced(at))?,
        };
        if let Some(diagonal) = &new.diagonal {
            for (n, [row, _]) in pattern.at.iter().enumerate().filter(|(_, at)| at[0] == at[1]) {
                values[pattern.first + n] = diagonal[*row];
            }
        }
        let mut matrix = pattern.with(&values);
        matrix.elements.retain(|element| triangle.has([element.row, element.column]));
        let sides = b.read(0, *of_b, "the right side", |_| true)?.combined(alpha.value()?, None);
        let solved: Dense = solution(&matrix.operated(*of_a), triangle.operated(*of_a), sides);
        c.put(0, &solved)
    }
}

/// Remembers which matrix of a system was analysed.
fn analysed<T: Kind>(
    descriptor: u64,
    matrix: SparseMatrix,
    of: impl Fn(&mut T) -> &mut System,
) -> Result<Arc<Mutex<NewValues>>, Failure> {
    objects::change(descriptor, |held: &mut T| {
        let system = of(held);
        system.matrix = Some(matrix);
        Arc::clone(&system.values)
    })
}

/// The values of a system that was analysed.
fn values_of(system: &System) -> Result<Arc<Mutex<NewValues>>, Failure> {
    expect(system.matrix.is_some())?;
    Ok(Arc::clone(&system.values))
}

/// Replaces all values of the matrix that was analysed, or those of its diagonal.
fn update(call: &Call, system: &System, values: u64, part: u32) -> Answer {
    expect(values != 0 && part <= 1)?;
    let (held, a) = (values_of(system)?, system.matrix.ok_or(Failure::INVALID_VALUE)?);
    call.submit(move || {
        let count = if part == 0 { a.stored } else { a.rows };
        let numbers = Array::new(values, count, Name("new values", "A")).numbers(a.ty, |_| true)?;
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        if part == 0 {
            *held = NewValues { all: Some(numbers), diagonal: None };
        } else {
            held.diagonal = Some(numbers);
        }
        Ok(())
    })
}

functions_with_handle! { WITH_HANDLE, Failure::INVALID_VALUE;
    cusparseSpSV_bufferSize(
        call, of_a: u32, _alpha: u64, a: u64, x: u64, y: u64, by: u32, _algorithm: c_int, system: u64, size: Out<usize>,
    ) {
        get::<System>(system)?;
        Ok(size.set(buffer_size(Problem::of_vectors(call, of_a, a, [x, y], by)?.a.rows))?)
    };
    cusparseSpSV_analysis(
        call, of_a: u32, _alpha: u64, a: u64, x: u64, y: u64, by: u32, _algorithm: c_int, system: u64, _buffer: u64,
    ) {
        let problem = Problem::of_vectors(call, of_a, a, [x, y], by)?;
        problem.analyse(call, analysed(system, problem.a, |system: &mut System| system)?)
    };
    cusparseSpSV_solve(call, of_a: u32, alpha: u64, a: u64, x: u64, y: u64, by: u32, _algorithm: c_int, system: u64)
        Problem::of_vectors(call, of_a, a, [x, y], by)?.solve(call, alpha, values_of(&get::<System>(system)?)?);
    cusparseSpSV_updateMatrix(call, system: u64, values: u64, part: u32) update(call, &get::<System>(system)?, values, part);
    cusparseSpSM_bufferSize(
        call, of_a: u32, of_b: u32, _alpha: u64, a: u64, b: u64, c: u64, by: u32, _algorithm: c_int, system: u64, size: Out<usize>,
    ) {
        get::<MatrixSystem>(system)?;
        Ok(size.set(buffer_size(Problem::new(call, [of_a, of_b], (a, get(b)?, get(c)?), by)?.a.rows))?)
    };
    cusparseSpSM_analysis(
        call, of_a: u32, of_b: u32, _alpha: u64, a: u64, b: u64, c: u64, by: u32, _algorithm: c_int, system: u64, _buffer: u64,
    ) {
        let problem = Problem::new(call, [of_a, of_b], (a, get(b)?, get(c)?), by)?;
        problem.analyse(call, analysed(system, problem.a, |system: &mut MatrixSystem| &mut system.0)?)
    };
    cusparseSpSM_solve(
        call, of_a: u32, of_b: u32, alpha: u64, a: u64, b: u64, c: u64, by: u32, _algorithm: c_int, system: u64,
    ) Problem::new(call, [of_a, of_b], (a, get(b)?, get(c)?), by)?.solve(call, alpha, values_of(&get::<MatrixSystem>(system)?.0)?);
    cusparseSpSM_updateMatrix(call, system: u64, values: u64, part: u32) update(call, &get::<MatrixSystem>(system)?.0, values, part);
}

/// The names of all functions of this file.
pub(super) const NAMES: &[&[&str]] = &[WITH_HANDLE];
