//! Functions of sparse vectors, and products of a sparse matrix with a dense vector or matrix, or of dense matrices where a sparse one has elements.

use std::ffi::c_int;

use super::algebra::{Dense, Operation, ZERO, combined, product, sampled_product, times};
use super::call::{Call, Scalar, buffer_size, expect, functions_with_handle, operation_on, used_factor};
use super::matrix::{DenseMatrix, Format, SparseMatrix, SparseVector};
use super::memory::{Array, Name, Number, Type, no_such_types, put_numbers, put_raw, put_some};
use super::objects::{DenseVector, get};
use super::{Answer, Failure};
use crate::program::pointers::Out;
use crate::status::{self, Status};

/// Whether a sparse matrix or vector is multiplied with a dense one of these types, for a result of the third, in the fourth.
fn has_product(types: [Type; 4]) -> bool {
    let [a, b, c, by] = types;
    match by {
        Type::I32 => [a, b, c] == [Type::I8, Type::I8, Type::I32],
        Type::F32 => match a {
            Type::F32 => [b, c] == [by; 2],
            Type::I8 => [b, c] == [a, by],
            Type::F16 | Type::BF16 => b == a && [a, by].contains(&c),
            _ => false,
        },
        Type::F64 => [Type::F32, by].contains(&a) && [b, c] == [by; 2],
        Type::C32 => match a {
            Type::F32 | Type::C32 => [b, c] == [by; 2],
            Type::C16 | Type::CB16 => [b, c] == [a; 2],
            _ => false,
        },
        Type::C64 => [Type::F64, by].contains(&a) && [b, c] == [by; 2],
        _ => false,
    }
}

/// Checks that a function has a product of these types.
fn expect_product(types: [Type; 4]) -> Answer {
    if has_product(types) { Ok(()) } else { Err(no_such_types(&types)) }
}

/// The matrix of a descriptor, of which all elements are stored.
pub(super) fn stored_whole(call: &Call, matrix: u64) -> Result<SparseMatrix, Failure> {
    let m = get::<SparseMatrix>(matrix)?;
    if m.attributes[2..] == [0; 2] {
        return Ok(m);
    }
    Err(call.unsupported(
        "a matrix of which one triangle is stored (CUSPARSE_SPMAT_STORAGE, …_SYMMETRY_TYPE); store all elements",
    ))
}

/// Checks that matrices of a batch are one or as many as those of the result.
fn expect_batches(of_result: usize, of_operands: &[usize]) -> Answer {
    expect(of_operands.iter().all(|count| *count == 1 || *count == of_result))
}

/// A product of a sparse and a dense matrix that is added to another one.
#[derive(Debug, Clone, Copy)]
struct Product {
    operations: [Operation; 2],
    a: SparseMatrix,
    b: DenseMatrix,
    c: DenseMatrix,
    by: Type,
}

impl Product {
    fn new(
        call: &Call,
        operations: [u32; 2],
        (a, b, c): (u64, DenseMatrix, DenseMatrix),
        by: u32,
    ) -> Result<Self, Failure> {
        let (a, by) = (stored_whole(call, a)?, Type::from_number(by)?);
        let operations = [operation_on(operations[0], a.ty)?, operation_on(operations[1], b.ty)?];
        let [rows, inner] = operations[0].swapped([a.rows, a.columns]);
        let [also_inner, columns] = operations[1].swapped([b.rows, b.columns]);
        expect(inner == also_inner && [rows, columns] == [c.rows, c.columns])?;
        expect_batches(c.batch.0, &[a.batch.count, b.batch.0])?;
        expect_product([a.ty, b.ty, c.ty, by])?;
        Ok(Self { operations, a, b, c, by })
    }

    fn buffer_size(&self, size: Out<usize>) -> Answer {
        Ok(size.set(buffer_size(self.a.line_count()))?)
    }

    fn submit(self, call: &Call, alpha: u64, beta: u64) -> Answer {
        let alpha = call.scalar(alpha, self.by, "alpha")?;
        let beta = call.scalar(beta, self.by, "beta")?;
        call.submit(move || (0..self.c.batch.0).try_for_each(|batch| self.run(batch, alpha, beta)))
    }

    fn run(&self, batch: usize, alpha: Scalar, beta: Scalar) -> status::Answer {
        let Self { operations: [of_a, of_b], a, b, c, .. } = self;
        let of = |count: usize| if count == 1 { 0 } else { batch };
        c.expect_room(batch)?;
        b.expect_there(of(b.batch.0), "the dense operand")?;
        let pattern = a.pattern(of(a.batch.count), "A")?;
        let met = pattern.columns_met(*of_a);
        let values = a.values_of(of(a.batch.count), &pattern, "A", |_| true)?;
        let matrix = pattern.with(&values).operated(*of_a);
        let dense = b.read(of(b.batch.0), *of_b, "the dense operand", |[row, _]| met[row])?;
        let (alpha, beta) = (alpha.value()?, used_factor(&beta)?);
        let before = match beta {
            Some(beta) => Some((beta, c.read(batch, Operation::None, "the result", |_| true)?)),
            None => None,
        };
        let sums = product(&matrix, &dense);
        c.put(batch, &sums.combined(alpha, before.as_ref().map(|(beta, before)| (*beta, before))))
    }
}

/// A product with a vector.
fn vector_product(call: &Call, of_a: u32, a: u64, [x, y]: [u64; 2], by: u32) -> Result<Product, Failure> {
    let (DenseVector(x), DenseVector(y)) = (get(x)?, get(y)?);
    let product = Product::new(call, [of_a, 0], (a, x, y), by)?;
    expect(product.a.batch.count == 1)?;
    Ok(product)
}

/// A product with a matrix.
fn matrix_product(
    call: &Call,
    operations: [u32; 2],
    a: u64,
    [b, c]: [u64; 2],
    by: u32,
) -> Result<Product, Failure> {
    Product::new(call, operations, (a, get(b)?, get(c)?), by)
}

/// A product of dense matrices at the places of a sparse one.
#[derive(Debug, Clone, Copy)]
struct SampledProduct {
    operations: [Operation; 2],
    a: DenseMatrix,
    b: DenseMatrix,
    c: SparseMatrix,
    by: Type,
}

impl SampledProduct {
    fn new(call: &Call, operations: [u32; 2], [a, b]: [u64; 2], c: u64, by: u32) -> Result<Self, Failure> {
        let (a, b) = (get::<DenseMatrix>(a)?, get::<DenseMatrix>(b)?);
        let operations = [operation_on(operations[0], a.ty)?, operation_on(operations[1], b.ty)?];
        let (c, by) = (stored_whole(call, c)?, Type::from_number(by)?);
        if c.format != Format::Rows {
            return Err(call.unsupported("a result that is not stored by rows (CSR)"));
        }
        let [rows, inner] = operations[0].swapped([a.rows, a.columns]);
        let [also_inner, columns] = operations[1].swapped([b.rows, b.columns]);
        expect(inner == also_inner && [rows, columns] == [c.rows, c.columns])?;
        expect_batches(c.batch.count, &[a.batch.0, b.batch.0])?;
        let types = [a.ty, b.ty, c.ty, by];
        let is_short =
            a.ty == Type::F16 && b.ty == a.ty && by == Type::F32 && [Type::F16, by].contains(&c.ty);
        if !(is_short || by.is_plain() && types == [by; 4]) {
            return Err(no_such_types(&types));
        }
        Ok(Self { operations, a, b, c, by })
    }

    fn run(&self, batch: usize, alpha: Scalar, beta: Scalar) -> status::Answer {
        let Self { operations: [of_a, of_b], a, b, c, .. } = self;
        let of = |count: usize| if count == 1 { 0 } else { batch };
        a.expect_there(of(a.batch.0), "A")?;
        b.expect_there(of(b.batch.0), "B")?;
        let pattern = c.pattern(batch, "C")?;
        let (mut rows, columns) = (vec![false; c.rows], pattern.columns_met(Operation::None));
        pattern.at.iter().for_each(|[row, _]| rows[*row] = true);
        let left = a.read(of(a.batch.0), *of_a, "A", |[row, _]| rows[row])?;
        let right = b.read(of(b.batch.0), *of_b, "B", |[_, column]| columns[column])?;
        let (alpha, beta) = (alpha.value()?, used_factor(&beta)?);
        let before = match beta {
            Some(_) => c.values_of(batch, &pattern, "C", |_| true)?,
            None => Vec::new(),
        };
        let sums = sampled_product(&pattern.at, &left, &right);
        let results = sums
            .into_iter()
            .enumerate()
            .map(|(n, sum)| combined(alpha, sum, beta.map(|beta| (beta, before[pattern.first + n]))));
        c.put_values(batch, &pattern, &results.collect::<Vec<_>>())
    }
}

/// Where the elements of a sparse vector are in a dense one, and which of those it meets.
fn met(x: &SparseVector, y: &DenseMatrix) -> Result<(Vec<usize>, Vec<bool>), Status> {
    y.expect_there(0, "y")?;
    let (places, mut is_met) = (x.places("x")?, vec![false; y.rows]);
    places.iter().for_each(|place| is_met[*place] = true);
    Ok((places, is_met))
}

/// `y = alpha * x + beta * y` for a sparse vector. Without a factor of its own, an element of `y` that `x` does not have is not used.
fn add(call: &Call, alpha: u64, x: u64, beta: u64, y: u64) -> Answer {
    let (x, DenseVector(y)) = (get::<SparseVector>(x)?, get(y)?);
    expect(x.size == y.rows)?;
    if x.ty != y.ty || [Type::I8, Type::I32].contains(&x.ty) {
        return Err(no_such_types(&[x.ty, y.ty]));
    }
    let by = x.ty.computed_in();
    let (alpha, beta) = (call.scalar(alpha, by, "alpha")?, call.scalar(beta, by, "beta")?);
    call.submit(move || {
        let (places, is_met) = met(&x, &y)?;
        let values = x.values("x").numbers(x.ty, |_| true)?;
        let (alpha, beta) = (alpha.value()?, beta.value()?);
        let (is_zero, is_one) = (beta == ZERO, beta == Number::new(1.0, 0.0));
        let is_used = |place: usize| !is_zero && (!is_one || is_met[place]);
        let mut sums = if is_zero {
            Dense::zero(y.rows, 1)
        } else {
            y.read(0, Operation::None, "y", |[place, _]| is_used(place))?
        };
        sums.numbers.iter_mut().for_each(|number| *number = times(beta, *number));
        for (place, value) in places.iter().zip(values) {
            sums.numbers[*place] += times(alpha, value);
        }
        let numbers = sums.numbers.into_iter().enumerate();
        y.put_some(numbers.filter(|(place, _)| !is_one || is_met[*place]))
    })
}

/// Takes the elements of a dense vector that a sparse one has.
fn gather(call: &Call, y: u64, x: u64) -> Answer {
    let (x, DenseVector(y)) = (get::<SparseVector>(x)?, get(y)?);
    expect(x.size == y.rows)?;
    if x.ty != y.ty {
        return Err(no_such_types(&[y.ty, x.ty]));
    }
    call.submit(move || {
        let (places, is_used) = met(&x, &y)?;
        let values = Array::new(y.values, y.rows, Name("values", "y")).raw(y.ty.size(), |n| is_used[n])?;
        put_raw(x.values, x.ty.size(), &places.iter().map(|place| values[*place]).collect::<Vec<_>>())
    })
}

/// Sets the elements of a dense vector that a sparse one has.
fn scatter(call: &Call, x: u64, y: u64) -> Answer {
    let (x, DenseVector(y)) = (get::<SparseVector>(x)?, get(y)?);
    expect(x.size == y.rows)?;
    if x.ty != y.ty {
        return Err(no_such_types(&[x.ty, y.ty]));
    }
    call.submit(move || {
        let values = x.values("x").raw(x.ty.size(), |_| true)?;
        put_some(y.values, y.ty.size(), x.places("x")?.into_iter().zip(values).collect())
    })
}

/// Rotates pairs of elements of a sparse and a dense vector.
fn rotate(call: &Call, [c, s]: [u64; 2], x: u64, y: u64) -> Answer {
    let (x, DenseVector(y)) = (get::<SparseVector>(x)?, get(y)?);
    expect(x.size == y.rows)?;
    if x.ty != y.ty || [Type::I8, Type::I32].contains(&x.ty) {
        return Err(no_such_types(&[x.ty, y.ty]));
    }
    let by = x.ty.computed_in();
    let (c, s) = (call.scalar(c, by, "c")?, call.scalar(s, by, "s")?);
    call.submit(move || {
        let (places, is_used) = met(&x, &y)?;
        let first = x.values("x").numbers(x.ty, |_| true)?;
        let second = y.read(0, Operation::None, "y", |[place, _]| is_used[place])?;
        let (c, s) = (c.value()?, s.value()?);
        let pairs = places.iter().zip(&first).map(|(place, x)| (*place, *x, second.numbers[*place]));
        let of_x: Vec<_> = pairs.clone().map(|(_, x, y)| combined(c, x, Some((s, y)))).collect();
        let of_y = pairs.map(|(place, x, y)| (place, combined(c, y, Some((-s, x)))));
        y.put_some(of_y)?;
        put_numbers(x.values, x.ty, &of_x)
    })
}

/// The sparse and the dense vector of a scalar product, and the type of its result.
fn scalar_product(of_x: u32, x: u64, y: u64, by: u32) -> Result<(SparseVector, DenseMatrix, Type), Failure> {
    let (x, DenseVector(y)) = (get::<SparseVector>(x)?, get(y)?);
    let by = Type::from_number(by)?;
    expect(x.size == y.rows && operation_on(of_x, x.ty)? != Operation::Transpose)?;
    // The result has the type of the computation.
    let is_mixed = x.ty == Type::I8 && [Type::I32, Type::F32].contains(&by);
    if x.ty != y.ty || !(is_mixed || x.ty.computed_in() == by && x.ty != Type::I32) {
        return Err(no_such_types(&[x.ty, y.ty, by]));
    }
    Ok((x, y, by))
}

functions_with_handle! { WITH_HANDLE, Failure::INVALID_VALUE;
    cusparseAxpby(call, alpha: u64, x: u64, beta: u64, y: u64) add(call, alpha, x, beta, y);
    cusparseGather(call, y: u64, x: u64) gather(call, y, x);
    cusparseScatter(call, x: u64, y: u64) scatter(call, x, y);
    cusparseRot(call, c: u64, s: u64, x: u64, y: u64) rotate(call, [c, s], x, y);
    cusparseSpVV_bufferSize(_call, of_x: u32, x: u64, y: u64, _result: u64, by: u32, size: Out<usize>) {
        scalar_product(of_x, x, y, by)?;
        Ok(size.set(buffer_size(0))?)
    };
    cusparseSpVV(call, of_x: u32, x: u64, y: u64, result: u64, by: u32, buffer: u64) {
        let (x, y, by) = scalar_product(of_x, x, y, by)?;
        expect(buffer != 0)?;
        let (of_x, result) = (operation_on(of_x, x.ty)?, call.result(result)?);
        call.submit(move || {
            let (places, is_used) = met(&x, &y)?;
            let values = x.values("x").numbers(x.ty, |_| true)?;
            let dense = y.read(0, Operation::None, "y", |[place, _]| is_used[place])?;
            let term = |(place, value): (&usize, &_)| times(of_x.on_number(*value), dense.numbers[*place]);
            let sum = places.iter().zip(&values).map(term).fold(ZERO, |sum, term| sum + term);
            result.put_number(by, sum)
        })
    };
    cusparseSpMV_bufferSize(
        call, of_a: u32, _alpha: u64, a: u64, x: u64, _beta: u64, y: u64, by: u32, _algorithm: c_int, size: Out<usize>,
    ) vector_product(call, of_a, a, [x, y], by)?.buffer_size(size);
    cusparseSpMV_preprocess(
        call, of_a: u32, _alpha: u64, a: u64, x: u64, _beta: u64, y: u64, by: u32, _algorithm: c_int, _buffer: u64,
    ) vector_product(call, of_a, a, [x, y], by).map(|_| ());
    cusparseSpMV(call, of_a: u32, alpha: u64, a: u64, x: u64, beta: u64, y: u64, by: u32, _algorithm: c_int, buffer: u64) {
        let product = vector_product(call, of_a, a, [x, y], by)?;
        expect(buffer != 0)?;
        product.submit(call, alpha, beta)
    };
    cusparseSpMM_bufferSize(
        call, of_a: u32, of_b: u32, _alpha: u64, a: u64, b: u64, _beta: u64, c: u64, by: u32, _algorithm: c_int, size: Out<usize>,
    ) matrix_product(call, [of_a, of_b], a, [b, c], by)?.buffer_size(size);
    cusparseSpMM_preprocess(
        call, of_a: u32, of_b: u32, _alpha: u64, a: u64, b: u64, _beta: u64, c: u64, by: u32, _algorithm: c_int, _buffer: u64,
    ) matrix_product(call, [of_a, of_b], a, [b, c], by).map(|_| ());
    cusparseSpMM(
        call, of_a: u32, of_b: u32, alpha: u64, a: u64, b: u64, beta: u64, c: u64, by: u32, _algorithm: c_int, _buffer: u64,
    ) matrix_product(call, [of_a, of_b], a, [b, c], by)?.submit(call, alpha, beta);
    cusparseSDDMM_bufferSize(
        call, of_a: u32, of_b: u32, _alpha: u64, a: u64, b: u64, _beta: u64, c: u64, by: u32, _algorithm: c_int, size: Out<usize>,
    ) {
        let product = SampledProduct::new(call, [of_a, of_b], [a, b], c, by)?;
        Ok(size.set(buffer_size(product.c.line_count()))?)
    };
    cusparseSDDMM_preprocess(
        call, of_a: u32, of_b: u32, _alpha: u64, a: u64, b: u64, _beta: u64, c: u64, by: u32, _algorithm: c_int, _buffer: u64,
    ) SampledProduct::new(call, [of_a, of_b], [a, b], c, by).map(|_| ());
    cusparseSDDMM(
        call, of_a: u32, of_b: u32, alpha: u64, a: u64, b: u64, beta: u64, c: u64, by: u32, _algorithm: c_int, _buffer: u64,
    ) {
        let product = SampledProduct::new(call, [of_a, of_b], [a, b], c, by)?;
        let (alpha, beta) = (call.scalar(alpha, product.by, "alpha")?, call.scalar(beta, product.by, "beta")?);
        call.submit(move || (0..product.c.batch.count).try_for_each(|batch| product.run(batch, alpha, beta)))
    };
}

/// The names of all functions of this file.
pub(super) const NAMES: &[&[&str]] = &[WITH_HANDLE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_products_are_those_of_the_documentation() {
        let all = [
            Type::I8,
            Type::I32,
            Type::F16,
            Type::BF16,
            Type::F32,
            Type::F64,
            Type::C16,
            Type::CB16,
            Type::C32,
            Type::C64,
        ];
        let of = |n: usize| [all[n / 1000], all[n / 100 % 10], all[n / 10 % 10], all[n % 10]];
        assert_eq!((0..10_000).filter(|n| has_product(of(*n))).count(), 15);
        assert!(has_product([Type::F16, Type::F16, Type::F32, Type::F32]));
        assert!(!has_product([Type::F64, Type::F32, Type::F64, Type::F64]));
    }
}
