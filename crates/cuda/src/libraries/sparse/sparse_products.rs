//! Products of two sparse matrices. The host gets the size of the result between two steps, so that these are done when they are called.

use std::ffi::c_int;
use std::sync::Arc;

use super::algebra::{Compressed, Operation, combined, sparse_product};
use super::call::{
    Call, Scalar, buffer_size, expect, functions, functions_with_handle, operation, used_factor,
};
use super::matrix::{Format, SparseMatrix};
use super::memory::{Array, Name, Number, Type, no_such_types, put_numbers};
use super::objects::{SparseProduct, change, get};
use super::products::stored_whole;
use super::{Answer, Failure};
use crate::program::pointers::Out;
use crate::status::{self, Status};

/// Two matrices and the one of their product.
#[derive(Debug, Clone, Copy)]
struct Problem {
    a: SparseMatrix,
    b: SparseMatrix,
    c: SparseMatrix,
}

impl Problem {
    fn new(call: &Call, operations: [u32; 2], [a, b, c]: [u64; 3]) -> Result<Self, Failure> {
        let [a, b, c] = [stored_whole(call, a)?, stored_whole(call, b)?, stored_whole(call, c)?];
        for number in operations {
            if operation(number)? != Operation::None {
                return Err(
                    call.unsupported("a transposed matrix, as by cuSPARSE itself; transpose it before")
                );
            }
        }
        expect(a.columns == b.rows && [a.rows, b.columns] == [c.rows, c.columns])?;
        if [a, b, c].iter().any(|matrix| matrix.format != Format::Rows || matrix.batch.count > 1) {
            return Err(call.unsupported("another format than CSR, as by cuSPARSE itself, or a batch"));
        }
        if a.ty != b.ty || a.ty != c.ty || [Type::I8, Type::I32].contains(&a.ty) {
            return Err(no_such_types(&[a.ty, b.ty, c.ty]));
        }
        Ok(Self { a, b, c })
    }

    /// Checks the type of the computation.
    fn in_type(self, by: u32) -> Result<(Self, Type), Failure> {
        let (ty, by) = (self.a.ty, Type::from_number(by)?);
        if by == ty || by == ty.computed_in() {
            Ok((self, by))
        } else {
            Err(no_such_types(&[ty, ty, ty, by]))
        }
    }

    /// The product, with values by a factor.
    fn product(&self, alpha: Number) -> Result<(Compressed, usize), Status> {
        self.a.expect_offsets("A")?;
        self.b.expect_offsets("B")?;
        let (mut result, count) = sparse_product(&self.a.read(0, "A")?, &self.b.read(0, "B")?);
        result.values.iter_mut().for_each(|value| *value = combined(alpha, *value, None));
        Ok((result, count))
    }

    /// The product without values, which need not be there yet.
    fn structure(&self) -> Result<(Compressed, usize), Status> {
        self.a.expect_offsets("A")?;
        self.b.expect_offsets("B")?;
        let none = |matrix: &SparseMatrix| vec![Number::default(); matrix.stored];
        let (a, b) = (self.a.pattern(0, "A")?, self.b.pattern(0, "B")?);
        Ok(sparse_product(&a.with(&none(&self.a)), &b.with(&none(&self.b))))
    }

    /// Adds what the result has already, with its factor.
    fn add_before(&self, values: &mut [Number], beta: &Scalar) -> status::Answer {
        let Some(beta) = used_factor(beta)? else { return Ok(()) };
        let array = Array::new(self.c.values, values.len(), Name("values", "C"));
        for (sum, before) in values.iter_mut().zip(array.numbers(self.c.ty, |_| true)?) {
            *sum = combined(Number::new(1.0, 0.0), *sum, Some((beta, before)));
        }
        Ok(())
    }
}

/// Tells the size of a buffer, if the program asks for it by passing none.
fn asks_for_size(problem: &Problem, size: Out<usize>, buffer: u64) -> Result<bool, Failure> {
    if buffer == 0 {
        size.set(buffer_size(problem.a.rows))?;
    }
    Ok(buffer == 0)
}

/// Counts the products of elements.
fn estimate(call: &Call, problem: Problem, descriptor: u64) -> Answer {
    let (_, count) = call.at_once(|| problem.structure())?;
    change(descriptor, |held: &mut SparseProduct| held.products = Some(count))
}

/// Keeps the result of a product, and gives the descriptor of the matrix its size.
fn keep(descriptor: u64, c: u64, result: Compressed) -> Answer {
    change(c, |matrix: &mut SparseMatrix| matrix.stored = result.columns.len())?;
    change(descriptor, |held: &mut SparseProduct| held.result = Some(Arc::new(result)))
}

/// The result that is kept.
fn kept(descriptor: u64) -> Result<Arc<Compressed>, Failure> {
    get::<SparseProduct>(descriptor)?.result.ok_or(Failure::INVALID_VALUE)
}

functions! { WITHOUT_HANDLE;
    cusparseSpGEMM_getNumProducts(descriptor: u64, count: Out<i64>) {
        let products = get::<SparseProduct>(descriptor)?.products.ok_or(Failure::INVALID_VALUE)?;
        Ok(count.set(products as i64)?)
    };
}

functions_with_handle! { WITH_HANDLE, Failure::INVALID_VALUE;
    cusparseSpGEMM_workEstimation(
        call, of_a: u32, of_b: u32, _alpha: u64, a: u64, b: u64, _beta: u64, c: u64, by: u32, _algorithm: c_int, descriptor: u64, size: Out<usize>,
        buffer: u64,
    ) {
        get::<SparseProduct>(descriptor)?;
        let (problem, _) = Problem::new(call, [of_a, of_b], [a, b, c])?.in_type(by)?;
        if asks_for_size(&problem, size, buffer)? { Ok(()) } else { estimate(call, problem, descriptor) }
    };
    cusparseSpGEMM_estimateMemory(
        call, of_a: u32, of_b: u32, _alpha: u64, a: u64, b: u64, _beta: u64, c: u64, by: u32, algorithm: c_int, descriptor: u64, _fraction: f32,
        size: Out<usize>, buffer: u64, of_computation: Out<usize>,
    ) {
        // `CUSPARSE_SPGEMM_ALG2` and `CUSPARSE_SPGEMM_ALG3`, which compute in parts.
        expect([4, 5].contains(&algorithm))?;
        get::<SparseProduct>(descriptor)?;
        let (problem, _) = Problem::new(call, [of_a, of_b], [a, b, c])?.in_type(by)?;
        if asks_for_size(&problem, size, buffer)? {
            return Ok(());
        }
        Ok(of_computation.set(buffer_size(problem.a.rows))?)
    };
    cusparseSpGEMM_compute(
        call, of_a: u32, of_b: u32, alpha: u64, a: u64, b: u64, _beta: u64, c: u64, by: u32, _algorithm: c_int, descriptor: u64, size: Out<usize>,
        buffer: u64,
    ) {
        get::<SparseProduct>(descriptor)?;
        let (problem, by) = Problem::new(call, [of_a, of_b], [a, b, c])?.in_type(by)?;
        if asks_for_size(&problem, size, buffer)? {
            return Ok(());
        }
        let alpha = call.scalar(alpha, by, "alpha")?;
        let (result, _) = call.at_once(|| problem.product(alpha.value()?))?;
        keep(descriptor, c, result)
    };
    cusparseSpGEMM_copy(
        call, of_a: u32, of_b: u32, _alpha: u64, a: u64, b: u64, beta: u64, c: u64, by: u32, _algorithm: c_int, descriptor: u64,
    ) {
        let (problem, by) = Problem::new(call, [of_a, of_b], [a, b, c])?.in_type(by)?;
        let (beta, result) = (call.scalar(beta, by, "beta")?, kept(descriptor)?);
        expect(problem.c.stored == result.columns.len())?;
        call.submit(move || {
            let mut result = result.as_ref().clone();
            problem.add_before(&mut result.values, &beta)?;
            problem.c.put(&result)
        })
    };
    cusparseSpGEMMreuse_workEstimation(
        call, of_a: u32, of_b: u32, a: u64, b: u64, c: u64, _algorithm: c_int, descriptor: u64, size: Out<usize>, buffer: u64,
    ) {
        get::<SparseProduct>(descriptor)?;
        let problem = Problem::new(call, [of_a, of_b], [a, b, c])?;
        if asks_for_size(&problem, size, buffer)? { Ok(()) } else { estimate(call, problem, descriptor) }
    };
    cusparseSpGEMMreuse_nnz(
        call, of_a: u32, of_b: u32, a: u64, b: u64, c: u64, _algorithm: c_int, descriptor: u64, size: Out<usize>, buffer: u64, third: Out<usize>,
        _of_third: u64, fourth: Out<usize>, _of_fourth: u64,
    ) {
        get::<SparseProduct>(descriptor)?;
        let problem = Problem::new(call, [of_a, of_b], [a, b, c])?;
        if asks_for_size(&problem, size, buffer)? {
            third.set(buffer_size(problem.a.rows))?;
            return Ok(fourth.set(buffer_size(problem.a.rows))?);
        }
        keep(descriptor, c, call.at_once(|| problem.structure())?.0)
    };
    cusparseSpGEMMreuse_copy(
        call, of_a: u32, of_b: u32, a: u64, b: u64, c: u64, _algorithm: c_int, descriptor: u64, size: Out<usize>, buffer: u64,
    ) {
        let (problem, result) = (Problem::new(call, [of_a, of_b], [a, b, c])?, kept(descriptor)?);
        if asks_for_size(&problem, size, buffer)? {
            return Ok(());
        }
        expect(problem.c.stored == result.columns.len())?;
        call.submit(move || problem.c.put_structure(&result))
    };
    cusparseSpGEMMreuse_compute(
        call, of_a: u32, of_b: u32, alpha: u64, a: u64, b: u64, beta: u64, c: u64, by: u32, _algorithm: c_int, descriptor: u64,
    ) {
        let (problem, by) = Problem::new(call, [of_a, of_b], [a, b, c])?.in_type(by)?;
        let (alpha, beta) = (call.scalar(alpha, by, "alpha")?, call.scalar(beta, by, "beta")?);
        expect(problem.c.stored == kept(descriptor)?.columns.len())?;
        call.submit(move || {
            let (mut result, _) = problem.product(alpha.value()?)?;
            problem.add_before(&mut result.values, &beta)?;
            put_numbers(problem.c.values, problem.c.ty, &result.values)
        })
    };
}

/// The names of all functions of this file.
pub(super) const NAMES: &[&[&str]] = &[WITHOUT_HANDLE, WITH_HANDLE];
