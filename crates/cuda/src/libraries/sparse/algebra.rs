//! What the functions of cuSPARSE compute, by its definition, on numbers of 64 bits. Results are rounded to their type elsewhere, once.

use std::collections::BTreeMap;

use super::memory::Number;

pub(super) const ZERO: Number = Number::new(0.0, 0.0);

/// A product. An infinite real number stays one, which the formula for complex ones would turn into a NaN.
pub(super) fn times(a: Number, b: Number) -> Number {
    match (a.im == 0.0, b.im == 0.0) {
        (true, true) => Number::new(a.re * b.re, 0.0),
        (true, false) => Number::new(a.re * b.re, a.re * b.im),
        (false, true) => Number::new(a.re * b.re, a.im * b.re),
        (false, false) => a * b,
    }
}

/// A quotient, as [`times`].
fn quotient(a: Number, b: Number) -> Number {
    match (a.im == 0.0, b.im == 0.0) {
        (true, true) => Number::new(a.re / b.re, 0.0),
        (false, true) => Number::new(a.re / b.re, a.im / b.re),
        _ => a / b,
    }
}

/// `alpha * a + beta * b`; what there is no `b` for is 0.
pub(super) fn combined(alpha: Number, a: Number, b: Option<(Number, Number)>) -> Number {
    let first = times(alpha, a);
    b.map_or(first, |(beta, b)| first + times(beta, b))
}

/// What is done to a matrix before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    None,
    Transpose,
    ConjugateTranspose,
}

impl Operation {
    pub(super) const fn is_transposing(self) -> bool {
        !matches!(self, Self::None)
    }

    /// A number and another, in the order of their meaning after the operation.
    pub(super) const fn swapped<T: Copy>(self, [a, b]: [T; 2]) -> [T; 2] {
        if self.is_transposing() { [b, a] } else { [a, b] }
    }

    pub(super) fn on_number(self, number: Number) -> Number {
        // The imaginary part of a real number stays +0.
        if self == Self::ConjugateTranspose && number.im != 0.0 { number.conj() } else { number }
    }
}

/// An element that a sparse matrix stores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Element {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) value: Number,
}

/// A sparse matrix. Elements may have any order; several of one place add up.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Sparse {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) elements: Vec<Element>,
}

impl Sparse {
    /// The matrix after an operation.
    pub(super) fn operated(mut self, operation: Operation) -> Self {
        [self.rows, self.columns] = operation.swapped([self.rows, self.columns]);
        for element in &mut self.elements {
            [element.row, element.column] = operation.swapped([element.row, element.column]);
            element.value = operation.on_number(element.value);
        }
        self
    }

    /// Its elements by rows, in their order.
    fn by_rows(&self) -> Lines {
        Lines::new(self.rows, self.elements.iter().map(|e| (e.row, e.column, e.value)))
    }
}

/// Elements of the rows of a matrix, those of a row next to each other.
#[derive(Debug)]
struct Lines {
    offsets: Vec<usize>,
    /// Columns and values.
    elements: Vec<(usize, Number)>,
}

impl Lines {
    fn new(rows: usize, elements: impl Iterator<Item = (usize, usize, Number)> + Clone) -> Self {
        let offsets = offsets(rows, elements.clone().map(|(row, ..)| row));
        let mut next = offsets.clone();
        let mut sorted = vec![(0, ZERO); offsets.last().copied().unwrap_or_default()];
        for (row, column, value) in elements {
            sorted[next[row]] = (column, value);
            next[row] += 1;
        }
        Self { offsets, elements: sorted }
    }

    fn row(&self, row: usize) -> &[(usize, Number)] {
        &self.elements[self.offsets[row]..self.offsets[row + 1]]
    }
}

/// Where the elements of each of `lines` begin if they are sorted by lines, and where the last ones end.
pub(super) fn offsets(lines: usize, of_elements: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut offsets = vec![0; lines + 1];
    of_elements.for_each(|line| offsets[line + 1] += 1);
    for line in 0..lines {
        offsets[line + 1] += offsets[line];
    }
    offsets
}

/// A dense matrix, by columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Dense {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) numbers: Vec<Number>,
}

impl Dense {
    pub(super) fn zero(rows: usize, columns: usize) -> Self {
        Self { rows, columns, numbers: vec![ZERO; rows * columns] }
    }

    pub(super) fn at(&self, row: usize, column: usize) -> Number {
        self.numbers[row + column * self.rows]
    }

    pub(super) fn set(&mut self, row: usize, column: usize, number: Number) {
        self.numbers[row + column * self.rows] = number;
    }

    /// `alpha` times this matrix, and `beta` times another one if there is one.
    pub(super) fn combined(mut self, alpha: Number, other: Option<(Number, &Self)>) -> Self {
        for (n, number) in self.numbers.iter_mut().enumerate() {
            *number = combined(alpha, *number, other.map(|(beta, other)| (beta, other.numbers[n])));
        }
        self
    }
}

/// The product of a sparse and a dense matrix.
pub(super) fn product(a: &Sparse, b: &Dense) -> Dense {
    let mut sums = Dense::zero(a.rows, b.columns);
    for column in 0..b.columns {
        let (from, to) = (&b.numbers[column * b.rows..], &mut sums.numbers[column * a.rows..]);
        for element in &a.elements {
            to[element.row] += times(element.value, from[element.column]);
        }
    }
    sums
}

/// The elements of a product of dense matrices at some places.
pub(super) fn sampled_product(places: &[[usize; 2]], a: &Dense, b: &Dense) -> Vec<Number> {
    let sum = |[row, column]: &[usize; 2]| {
        (0..a.columns).fold(ZERO, |sum, k| sum + times(a.at(*row, k), b.at(k, *column)))
    };
    places.iter().map(sum).collect()
}

/// Which elements of a matrix a triangular system has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Triangle {
    pub(super) is_upper: bool,
    /// Whether the diagonal is 1, whatever is stored.
    pub(super) is_unit: bool,
}

impl Triangle {
    /// Whether it has an element of a matrix.
    pub(super) const fn has(self, [row, column]: [usize; 2]) -> bool {
        match (self.is_upper, self.is_unit) {
            (false, false) => column <= row,
            (false, true) => column < row,
            (true, false) => column >= row,
            (true, true) => column > row,
        }
    }

    /// The triangle after an operation on its matrix.
    pub(super) const fn operated(self, operation: Operation) -> Self {
        Self { is_upper: self.is_upper != operation.is_transposing(), ..self }
    }
}

/// Solves triangular systems, whose right sides are the columns of `b`. `a` has the elements of the triangle alone.
pub(super) fn solution(a: &Sparse, triangle: Triangle, mut b: Dense) -> Dense {
    let lines = a.by_rows();
    for column in b.numbers.chunks_exact_mut(a.rows.max(1)) {
        for n in 0..a.rows {
            let row = if triangle.is_upper { a.rows - 1 - n } else { n };
            let (mut rest, mut diagonal) = (column[row], ZERO);
            for (at, value) in lines.row(row) {
                if *at == row { diagonal += value } else { rest -= times(*value, column[*at]) }
            }
            column[row] = if triangle.is_unit { rest } else { quotient(rest, diagonal) };
        }
    }
    b
}

/// A sparse matrix by rows, with ascending columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Compressed {
    pub(super) offsets: Vec<usize>,
    pub(super) columns: Vec<usize>,
    pub(super) values: Vec<Number>,
}

/// The sums of a row by their columns.
type Row = BTreeMap<usize, Number>;

impl Compressed {
    fn begun() -> Self {
        Self { offsets: vec![0], ..Self::default() }
    }

    fn push_row(&mut self, row: Row) {
        for (column, value) in row {
            self.columns.push(column);
            self.values.push(value);
        }
        self.offsets.push(self.columns.len());
    }
}

/// The product of sparse matrices, and how many products of elements it is the sum of.
pub(super) fn sparse_product(a: &Sparse, b: &Sparse) -> (Compressed, usize) {
    let (of_a, of_b) = (a.by_rows(), b.by_rows());
    let (mut c, mut count) = (Compressed::begun(), 0);
    for row in 0..a.rows {
        let mut row_of_c = Row::new();
        for (k, left) in of_a.row(row) {
            for (column, right) in of_b.row(*k) {
                *row_of_c.entry(*column).or_default() += times(*left, *right);
                count += 1;
            }
        }
        c.push_row(row_of_c);
    }
    (c, count)
}

/// The sum of sparse matrices, each with its factor. It has an element where one of them has one.
pub(super) fn sum(terms: [(Number, &Sparse); 2]) -> Compressed {
    let lines = terms.map(|(factor, term)| (factor, term.by_rows()));
    let [(_, first), _] = terms;
    let mut all = Compressed::begun();
    for row in 0..first.rows {
        let mut row_of_sum = Row::new();
        for (factor, term) in &lines {
            for (column, value) in term.row(row) {
                *row_of_sum.entry(*column).or_default() += times(*factor, *value);
            }
        }
        all.push_row(row_of_sum);
    }
    all
}

/// A square sparse matrix by rows that is factorized in place.
#[derive(Debug)]
pub(super) struct Factorized {
    pub(super) offsets: Vec<usize>,
    pub(super) columns: Vec<usize>,
    pub(super) values: Vec<Number>,
    /// Where each row has its diagonal element.
    diagonal: Vec<Option<usize>>,
}

/// What replaces a small pivot: where the pivot is at most the first number, the second.
pub(super) type Boost = Option<(f64, Number)>;

impl Factorized {
    pub(super) fn new(offsets: Vec<usize>, columns: Vec<usize>, values: Vec<Number>) -> Self {
        let rows = offsets.len().saturating_sub(1);
        let diagonal =
            (0..rows).map(|row| (offsets[row]..offsets[row + 1]).find(|at| columns[*at] == row)).collect();
        Self { offsets, columns, values, diagonal }
    }

    /// The first row without a diagonal element.
    pub(super) fn structural_zero(&self) -> Option<usize> {
        self.diagonal.iter().position(Option::is_none)
    }

    /// The places of a row whose columns are before the diagonal, by column.
    fn before(&self, row: usize) -> Vec<usize> {
        let mut places: Vec<_> =
            (self.offsets[row]..self.offsets[row + 1]).filter(|at| self.columns[*at] < row).collect();
        places.sort_unstable_by_key(|at| self.columns[*at]);
        places
    }

    fn pivot(&self, row: usize) -> Number {
        self.diagonal[row].map_or(ZERO, |at| self.values[at])
    }

    /// The incomplete factors L and U without fill-in; returns the first row whose pivot is 0.
    pub(super) fn factorize_lu(&mut self, boost: Boost) -> Option<usize> {
        let rows = self.diagonal.len();
        let mut place_of = vec![None; rows];
        let mut zero = None;
        for row in 0..rows {
            let of_row = self.offsets[row]..self.offsets[row + 1];
            of_row.clone().for_each(|at| place_of[self.columns[at]] = Some(at));
            for at in self.before(row) {
                let k = self.columns[at];
                let factor = quotient(self.values[at], self.pivot(k));
                self.values[at] = factor;
                for above in self.offsets[k]..self.offsets[k + 1] {
                    if let Some(to) = place_of[self.columns[above]].filter(|_| self.columns[above] > k) {
                        let term = times(factor, self.values[above]);
                        self.values[to] -= term;
                    }
                }
            }
            of_row.for_each(|at| place_of[self.columns[at]] = None);
            if let (Some((most, value)), Some(at)) = (boost, self.diagonal[row])
                && most >= self.values[at].norm()
            {
                self.values[at] = value;
            }
            if self.pivot(row) == ZERO {
                zero = zero.or(Some(row));
            }
        }
        zero
    }

    /// The incomplete Cholesky factor in the lower triangle, without fill-in; returns the first row whose pivot is not positive.
    pub(super) fn factorize_cholesky(&mut self) -> Option<usize> {
        let rows = self.diagonal.len();
        let mut place_of = vec![None; rows];
        let mut zero = None;
        for row in 0..rows {
            let before = self.before(row);
            before.iter().for_each(|at| place_of[self.columns[*at]] = Some(*at));
            for at in &before {
                let k = self.columns[*at];
                let mut rest = self.values[*at];
                for other in self.offsets[k]..self.offsets[k + 1] {
                    if let Some(own) = place_of[self.columns[other]].filter(|_| self.columns[other] < k) {
                        rest -= times(self.values[own], self.values[other].conj());
                    }
                }
                self.values[*at] = quotient(rest, self.pivot(k));
            }
            let square = before.iter().fold(0.0, |sum, at| sum + self.values[*at].norm_sqr());
            let pivot = self.pivot(row).re - square;
            if pivot <= 0.0 {
                zero = zero.or(Some(row));
            }
            if let Some(at) = self.diagonal[row] {
                self.values[at] = Number::new(pivot.sqrt(), 0.0);
            }
            before.iter().for_each(|at| place_of[self.columns[*at]] = None);
        }
        zero
    }
}

/// A tridiagonal matrix: below, on and above its diagonal. The first number below and the last one above do not count.
#[derive(Debug)]
pub(super) struct Tridiagonal {
    pub(super) below: Vec<Number>,
    pub(super) diagonal: Vec<Number>,
    pub(super) above: Vec<Number>,
}

impl Tridiagonal {
    /// Solves a system for a right side in place, by elimination, with the larger of two pivots if `is_pivoting`.
    pub(super) fn solve(&self, side: &mut [Number], is_pivoting: bool) {
        let rows = self.diagonal.len();
        let [mut diagonal, mut above] = [self.diagonal.clone(), self.above.clone()];
        // The second number above the diagonal, where rows are exchanged.
        let mut second = vec![ZERO; rows];
        for row in 1..rows {
            let mut below = self.below[row];
            if is_pivoting && below.norm() > diagonal[row - 1].norm() {
                side.swap(row - 1, row);
                std::mem::swap(&mut below, &mut diagonal[row - 1]);
                let upper = std::mem::replace(&mut above[row - 1], diagonal[row]);
                diagonal[row] = upper;
                if row + 1 < rows {
                    second[row - 1] = std::mem::replace(&mut above[row], ZERO);
                }
            }
            let factor = quotient(below, diagonal[row - 1]);
            diagonal[row] -= times(factor, above[row - 1]);
            if row + 1 < rows {
                above[row] -= times(factor, second[row - 1]);
            }
            let term = times(factor, side[row - 1]);
            side[row] -= term;
        }
        for row in (0..rows).rev() {
            let mut rest = side[row];
            if row + 1 < rows {
                rest -= times(above[row], side[row + 1]);
            }
            if row + 2 < rows {
                rest -= times(second[row], side[row + 2]);
            }
            side[row] = quotient(rest, diagonal[row]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(number: f64) -> Number {
        Number::new(number, 0.0)
    }

    fn sparse(rows: usize, columns: usize, elements: &[(usize, usize, f64)]) -> Sparse {
        let element = |(row, column, value): &(usize, usize, f64)| Element {
            row: *row,
            column: *column,
            value: real(*value),
        };
        Sparse { rows, columns, elements: elements.iter().map(element).collect() }
    }

    fn dense(rows: usize, columns: usize, numbers: &[f64]) -> Dense {
        Dense { rows, columns, numbers: numbers.iter().copied().map(real).collect() }
    }

    /// Numbers that look random.
    fn numbers(count: usize, mut seed: u64) -> Vec<f64> {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 40) % 65) as f64 / 16.0 - 2.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn full(matrix: &Sparse) -> Dense {
        let mut all = Dense::zero(matrix.rows, matrix.columns);
        for e in &matrix.elements {
            all.set(e.row, e.column, all.at(e.row, e.column) + e.value);
        }
        all
    }

    fn all_of(rows: usize, columns: usize, compressed: &Compressed) -> Dense {
        let mut all = Dense::zero(rows, columns);
        for row in 0..rows {
            let places = compressed.offsets[row]..compressed.offsets[row + 1];
            assert!(compressed.columns[places.clone()].is_sorted_by(|a, b| a < b));
            places.for_each(|at| all.set(row, compressed.columns[at], compressed.values[at]));
        }
        all
    }

    fn dense_product(a: &Dense, b: &Dense) -> Dense {
        let mut c = Dense::zero(a.rows, b.columns);
        let places: Vec<_> =
            (0..b.columns).flat_map(|column| (0..a.rows).map(move |row| [row, column])).collect();
        c.numbers = sampled_product(&places, a, b);
        c
    }

    fn close(a: &Dense, b: &Dense) -> bool {
        a.rows == b.rows && a.numbers.iter().zip(&b.numbers).all(|(a, b)| (a - b).norm() < 1e-10)
    }

    #[test]
    fn products_and_sums_are_those_of_dense_matrices() {
        let a = sparse(3, 4, &[(0, 1, 2.0), (2, 0, -1.0), (0, 3, 4.0), (2, 3, 0.5), (2, 0, 3.0)]);
        let b = sparse(4, 2, &[(3, 1, 1.0), (0, 0, 5.0), (1, 1, -2.0), (3, 0, 7.0)]);
        let wanted = dense_product(&full(&a), &full(&b));
        assert!(close(&product(&a, &full(&b)), &wanted));
        let (c, count) = sparse_product(&a, &b);
        assert!(close(&all_of(3, 2, &c), &wanted));
        assert_eq!((count, c.offsets), (7, vec![0, 2, 2, 4]));
        let other = sparse(3, 4, &[(1, 1, 1.0), (0, 1, 1.0)]);
        let both = sum([(real(2.0), &a), (real(-3.0), &other)]);
        let wanted = full(&a).combined(real(2.0), Some((real(-3.0), &full(&other))));
        assert!(close(&all_of(3, 4, &both), &wanted));
        let turned = a.clone().operated(Operation::Transpose);
        assert_eq!((turned.rows, full(&turned).at(3, 0)), (4, real(4.0)));
    }

    #[test]
    fn numbers_of_one_part_stay_so() {
        let infinite = times(real(f64::INFINITY), real(2.0));
        assert_eq!(infinite, real(f64::INFINITY));
        assert_eq!(times(infinite, Number::new(1.0, 1.0)), Number::new(f64::INFINITY, f64::INFINITY));
        assert_eq!(quotient(real(1.0), ZERO), real(f64::INFINITY));
        assert_eq!(combined(real(2.0), Number::new(0.0, 1.0), None), Number::new(0.0, 2.0));
        assert_eq!(Operation::ConjugateTranspose.on_number(Number::new(1.0, 2.0)), Number::new(1.0, -2.0));
    }

    #[test]
    fn solutions_solve_their_systems() {
        for (is_upper, is_unit) in [(false, false), (false, true), (true, false), (true, true)] {
            let triangle = Triangle { is_upper, is_unit };
            let elements: Vec<_> = (0..25)
                .zip(numbers(25, 7))
                .map(|(n, value)| (n / 5, n % 5, if n % 6 == 0 { value + 5.0 } else { value }))
                .filter(|(row, column, _)| triangle.has([*row, *column]))
                .collect();
            let a = sparse(5, 5, &elements);
            let b = dense(5, 2, &numbers(10, 3));
            let x = solution(&a, triangle, b.clone());
            let mut back = product(&a, &x);
            if is_unit {
                back = back.combined(real(1.0), Some((real(1.0), &x)));
            }
            assert!(close(&back, &b), "{triangle:?}");
            assert_eq!(triangle.operated(Operation::Transpose).is_upper, !is_upper);
        }
    }

    #[test]
    fn factors_of_a_full_pattern_are_complete() {
        let values: Vec<Number> = numbers(16, 11).into_iter().map(real).collect();
        let mut a = Dense { rows: 4, columns: 4, numbers: values };
        (0..4).for_each(|n| a.set(n, n, real(9.0)));
        let columns = || (0..16).map(|n| n % 4).collect::<Vec<_>>();
        let by_rows = |a: &Dense| (0..16).map(|n| a.at(n / 4, n % 4)).collect::<Vec<_>>();
        let mut lu = Factorized::new(vec![0, 4, 8, 12, 16], columns(), by_rows(&a));
        assert_eq!((lu.structural_zero(), lu.factorize_lu(None)), (None, None));
        let part = |values: &[Number], is_kept: &dyn Fn(usize, usize) -> bool| {
            let mut all = Dense::zero(4, 4);
            for n in (0..16).filter(|n| is_kept(n / 4, n % 4)) {
                all.set(n / 4, n % 4, values[n]);
            }
            all
        };
        let mut lower = part(&lu.values, &|row, column| column < row);
        (0..4).for_each(|n| lower.set(n, n, real(1.0)));
        let upper = part(&lu.values, &|row, column| column >= row);
        assert!(close(&dense_product(&lower, &upper), &a));

        // A matrix that is Hermitian and positive definite.
        let turned = |a: &Dense| {
            let mut all = Dense::zero(a.columns, a.rows);
            (0..16).for_each(|n| all.set(n % 4, n / 4, a.at(n / 4, n % 4).conj()));
            all
        };
        let mut root = a.clone();
        root.numbers.iter_mut().enumerate().for_each(|(n, number)| number.im = (n % 3) as f64);
        let positive = dense_product(&root, &turned(&root));
        let mut cholesky = Factorized::new(vec![0, 4, 8, 12, 16], columns(), by_rows(&positive));
        assert_eq!(cholesky.factorize_cholesky(), None);
        let lower = part(&cholesky.values, &|row, column| column <= row);
        assert!(close(&dense_product(&lower, &turned(&lower)), &positive));
        assert_eq!(cholesky.values[1], positive.at(0, 1), "what is above the diagonal stays");
    }

    #[test]
    fn zero_pivots_are_found_and_boosted() {
        let values = || [1.0, 2.0, 2.0, 4.0].map(real).to_vec();
        let matrix = || Factorized::new(vec![0, 2, 4], vec![0, 1, 0, 1], values());
        assert_eq!(matrix().factorize_lu(None), Some(1));
        let mut boosted = matrix();
        assert_eq!(boosted.factorize_lu(Some((1e-3, real(0.5)))), None);
        assert_eq!(boosted.values[3], real(0.5));
        assert_eq!(matrix().factorize_cholesky(), Some(1));
        let without = Factorized::new(vec![0, 1, 2], vec![1, 0], vec![real(1.0); 2]);
        assert_eq!(without.structural_zero(), Some(0));
    }

    #[test]
    fn tridiagonal_systems_are_solved() {
        for rows in [1, 2, 3, 8] {
            for (diagonal, is_pivoting) in [(9.0, false), (9.0, true), (0.0, true)] {
                let [below, above] = [1, 2].map(|seed| numbers(rows, seed).into_iter().map(real).collect());
                let diagonal =
                    numbers(rows, 5).into_iter().map(|number| real(number + diagonal)).collect::<Vec<_>>();
                let matrix = Tridiagonal { below, diagonal, above };
                let side: Vec<_> = numbers(rows, 4).into_iter().map(real).collect();
                let mut x = side.clone();
                matrix.solve(&mut x, is_pivoting);
                for row in 0..rows {
                    let mut sum = times(matrix.diagonal[row], x[row]);
                    if row > 0 {
                        sum += times(matrix.below[row], x[row - 1]);
                    }
                    if row + 1 < rows {
                        sum += times(matrix.above[row], x[row + 1]);
                    }
                    assert!((sum - side[row]).norm() < 1e-9, "{rows} {is_pivoting}: {sum} {}", side[row]);
                }
            }
        }
    }
}
