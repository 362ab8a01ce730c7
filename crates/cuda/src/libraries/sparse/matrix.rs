//! What descriptors of vectors and matrices say, and how the arrays that they name become the forms of `algebra.rs`, and these arrays again.

use emulator::Rule;
use emulator::events::ViolationRecord;

use super::algebra::{Compressed, Dense, Element, Operation, Sparse};
use super::memory::{Array, Base, IndexType, Name, Number, Type, put_indices, put_numbers, put_some_numbers};
use crate::device::state::device;
use crate::program::caller::called_function;
use crate::status::{Answer, Status};

/// Reports an index or an offset that leads out of its matrix.
fn out_of_matrix(what: String) -> Status {
    match device() {
        Ok(mut device) => {
            let record = ViolationRecord::of_call(called_function(), Rule::OutOfBounds, what);
            device.results.violated(vec![record]);
            Status::LAUNCH_FAILED
        }
        Err(status) => status,
    }
}

/// Indices counted from 0, each of which must be below a bound.
fn counted(
    indices: Vec<i64>,
    base: Base,
    (bound, of_what): (usize, &str),
    name: Name,
    first: usize,
) -> Result<Vec<usize>, Status> {
    let count = |(n, index): (usize, i64)| {
        let counted = index.checked_sub(base as i64).and_then(|index| usize::try_from(index).ok());
        counted.filter(|index| *index < bound).ok_or_else(|| {
            let (place, from) = (first + n, base as i64);
            out_of_matrix(format!(
                "element {place} of {name} is {index}, but there are {bound} {of_what}, counted from {from}"
            ))
        })
    };
    indices.into_iter().enumerate().map(count).collect()
}

/// The rows of elements, counted from 0.
pub(super) fn rows_of_elements(
    at: u64,
    stored: usize,
    base: Base,
    rows: usize,
) -> Result<Vec<usize>, Status> {
    let name = Name("row indices", "A");
    counted(Array::new(at, stored, name).indices(IndexType::I32)?, base, (rows, "rows"), name, 0)
}

/// A sparse vector.
#[derive(Debug, Clone, Copy)]
pub(super) struct SparseVector {
    pub(super) size: usize,
    pub(super) stored: usize,
    pub(super) indices: u64,
    pub(super) values: u64,
    pub(super) of_indices: IndexType,
    pub(super) base: Base,
    pub(super) ty: Type,
}

impl SparseVector {
    /// Where its elements are in a dense vector.
    pub(super) fn places(&self, vector: &'static str) -> Result<Vec<usize>, Status> {
        let name = Name("indices", vector);
        let indices = Array::new(self.indices, self.stored, name).indices(self.of_indices)?;
        counted(indices, self.base, (self.size, "elements"), name, 0)
    }

    pub(super) const fn values(&self, vector: &'static str) -> Array {
        Array::new(self.values, self.stored, Name("values", vector))
    }
}

/// The format of a sparse matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// By rows, of which each has an offset.
    Rows = 1,
    /// By columns, of which each has an offset.
    Columns = 2,
    /// Elements with their rows and columns.
    Elements = 3,
}

/// Matrices of a descriptor that lie at equal distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    pub(super) count: usize,
    /// Between the offsets of matrices.
    pub(super) of_lines: usize,
    /// Between their elements.
    pub(super) of_elements: usize,
}

impl Batch {
    pub(super) const ONE: Self = Self { count: 1, of_lines: 0, of_elements: 0 };
}

/// A sparse matrix.
#[derive(Debug, Clone, Copy)]
pub(super) struct SparseMatrix {
    pub(super) format: Format,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) stored: usize,
    /// The offsets of rows or columns, or the rows of elements.
    pub(super) lines: u64,
    /// The columns or rows of elements.
    pub(super) others: u64,
    pub(super) values: u64,
    pub(super) of_lines: IndexType,
    pub(super) of_others: IndexType,
    pub(super) base: Base,
    pub(super) ty: Type,
    /// What the program sets by number (`cusparseSpMatAttribute_t`).
    pub(super) attributes: [i32; 4],
    pub(super) batch: Batch,
}

/// Where the elements of a sparse matrix are: row, column, and place in the arrays, in the order of the arrays.
#[derive(Debug, Default)]
pub(super) struct Pattern {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) at: Vec<[usize; 2]>,
    /// The place of the first of them.
    pub(super) first: usize,
}

impl Pattern {
    /// Which columns, after an operation, have an element.
    pub(super) fn columns_met(&self, operation: Operation) -> Vec<bool> {
        let [_, columns] = operation.swapped([self.rows, self.columns]);
        let mut met = vec![false; columns];
        for at in &self.at {
            let [_, column] = operation.swapped(*at);
            met[column] = true;
        }
        met
    }

    /// The matrix with values by their places.
    pub(super) fn with(&self, values: &[Number]) -> Sparse {
        let element = |(n, at): (usize, &[usize; 2])| Element {
            row: at[0],
            column: at[1],
            value: values[self.first + n],
        };
        let elements = self.at.iter().enumerate().map(element).collect();
        Sparse { rows: self.rows, columns: self.columns, elements }
    }
}

impl SparseMatrix {
    /// The number of rows that have offsets, or of columns.
    pub(super) const fn line_count(&self) -> usize {
        if matches!(self.format, Format::Columns) { self.columns } else { self.rows }
    }

    /// The addresses of offsets, other indices and values of a matrix of the batch.
    fn places(&self, batch: usize) -> [u64; 3] {
        let at = |first: u64, distance: usize, size: usize| {
            first.wrapping_add((batch.wrapping_mul(distance).wrapping_mul(size)) as u64)
        };
        let Batch { of_lines, of_elements, .. } = self.batch;
        let of_lines = if self.format == Format::Elements { of_elements } else { of_lines };
        [
            at(self.lines, of_lines, self.of_lines.size()),
            at(self.others, of_elements, self.of_others.size()),
            at(self.values, of_elements, self.ty.size()),
        ]
    }

    /// Where the elements of a matrix of the batch are.
    pub(super) fn pattern(&self, batch: usize, matrix: &'static str) -> Result<Pattern, Status> {
        let Self { rows, columns, stored, base, .. } = *self;
        let empty = Pattern { rows, columns, ..Pattern::default() };
        if stored == 0 {
            return Ok(empty);
        }
        let [lines, others, _] = self.places(batch);
        let [of_rows, of_columns] = [Name("row indices", matrix), Name("column indices", matrix)];
        if self.format == Format::Elements {
            let read = |at, ty, name| Array::new(at, stored, name).indices(ty);
            let of_row = counted(read(lines, self.of_lines, of_rows)?, base, (rows, "rows"), of_rows, 0)?;
            let of_column = read(others, self.of_others, of_columns)?;
            let of_column = counted(of_column, base, (columns, "columns"), of_columns, 0)?;
            if !of_row.is_sorted() {
                let what = "the rows of elements of a COO matrix are not in order, which cuSPARSE demands";
                device()?.results.remark(format!("{}: {what} ({matrix})", called_function()));
            }
            let at = of_row.into_iter().zip(of_column).map(|(row, column)| [row, column]).collect();
            return Ok(Pattern { at, ..empty });
        }
        let (count, ends) = (self.line_count(), self.ends(batch, matrix)?);
        let (first, last) = (ends[0], ends[count]);
        let is_by_columns = self.format == Format::Columns;
        let (name, bound) =
            if is_by_columns { (of_rows, (rows, "rows")) } else { (of_columns, (columns, "columns")) };
        let from = others.wrapping_add((first * self.of_others.size()) as u64);
        let indices = Array::new(from, last - first, name).indices(self.of_others)?;
        let indices = counted(indices, base, bound, name, first)?;
        let of_line = |line: usize| (ends[line] - first..ends[line + 1] - first).map(move |n| (line, n));
        let place = |(line, n): (usize, usize)| {
            if is_by_columns { [indices[n], line] } else { [line, indices[n]] }
        };
        let at = (0..count).flat_map(of_line).map(place).collect();
        Ok(Pattern { at, first, ..empty })
    }

    /// Checks that the offsets of the matrix are there.
    pub(super) fn expect_offsets(&self, matrix: &'static str) -> Answer {
        let name = Name("offsets", matrix);
        Array::new(self.lines, self.line_count().saturating_add(1), name).expect_there(self.of_lines.size())
    }

    /// The offsets of a matrix of the batch, counted from 0, which ascend and stay within the elements.
    pub(super) fn ends(&self, batch: usize, matrix: &'static str) -> Result<Vec<usize>, Status> {
        let ([at, ..], base) = (self.places(batch), self.base as i64);
        let offsets = Array::new(at, self.line_count().saturating_add(1), Name("offsets", matrix))
            .indices(self.of_lines)?;
        let mut checked = Vec::with_capacity(offsets.len());
        let mut before = 0;
        for (line, offset) in offsets.iter().enumerate() {
            let counted = offset.checked_sub(base).and_then(|offset| usize::try_from(offset).ok());
            let Some(counted) = counted.filter(|counted| (before..=self.stored).contains(counted)) else {
                let stored = self.stored;
                return Err(out_of_matrix(format!(
                    "offset {line} of {matrix} is {offset}, but offsets ascend, and there are {stored} elements, counted from {base}"
                )));
            };
            checked.push(counted);
            before = counted;
        }
        Ok(checked)
    }

    /// The values of the elements of a pattern, by place, of which those that `is_used` takes must be defined.
    pub(super) fn values_of(
        &self,
        batch: usize,
        pattern: &Pattern,
        matrix: &'static str,
        is_used: impl Fn([usize; 2]) -> bool,
    ) -> Result<Vec<Number>, Status> {
        let [_, _, values] = self.places(batch);
        let array = Array::new(values, self.stored, Name("values", matrix));
        array.numbers(self.ty, |place| {
            place.checked_sub(pattern.first).and_then(|n| pattern.at.get(n)).is_some_and(|at| is_used(*at))
        })
    }

    /// A matrix of the batch with all its elements.
    pub(super) fn read(&self, batch: usize, matrix: &'static str) -> Result<Sparse, Status> {
        let pattern = self.pattern(batch, matrix)?;
        Ok(pattern.with(&self.values_of(batch, &pattern, matrix, |_| true)?))
    }

    /// Writes values for the elements of a pattern.
    pub(super) fn put_values(&self, batch: usize, pattern: &Pattern, values: &[Number]) -> Answer {
        let [_, _, at] = self.places(batch);
        put_numbers(at.wrapping_add((pattern.first * self.ty.size()) as u64), self.ty, values)
    }

    /// Writes offsets, or for a COO matrix the lines of elements.
    pub(super) fn put_lines(&self, ends: &[usize]) -> Answer {
        if self.format == Format::Elements {
            let of = |line: usize| std::iter::repeat_n(line, ends[line + 1] - ends[line]);
            let lines: Vec<_> = (0..ends.len().saturating_sub(1)).flat_map(of).collect();
            return put_indices(self.lines, self.of_lines, self.base, &lines);
        }
        put_indices(self.lines, self.of_lines, self.base, ends)
    }

    /// Writes where the elements of a matrix are. There are as many as the descriptor says, and its lines are those of the format.
    pub(super) fn put_structure(&self, matrix: &Compressed) -> Answer {
        self.put_lines(&matrix.offsets)?;
        put_indices(self.others, self.of_others, self.base, &matrix.columns)
    }

    /// Writes a matrix, as [`Self::put_structure`].
    pub(super) fn put(&self, matrix: &Compressed) -> Answer {
        self.put_structure(matrix)?;
        put_numbers(self.values, self.ty, &matrix.values)
    }
}

/// A dense matrix; a vector is one with one column.
#[derive(Debug, Clone, Copy)]
pub(super) struct DenseMatrix {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// The distance between columns, or between rows.
    pub(super) leading: usize,
    pub(super) values: u64,
    pub(super) ty: Type,
    pub(super) is_by_rows: bool,
    /// How many there are, and the distance between them in elements.
    pub(super) batch: (usize, usize),
}

impl DenseMatrix {
    pub(super) const fn vector(size: usize, values: u64, ty: Type) -> Self {
        Self { rows: size, columns: 1, leading: size, values, ty, is_by_rows: false, batch: (1, 0) }
    }

    /// The number of lines and their length.
    const fn lines(&self) -> [usize; 2] {
        if self.is_by_rows { [self.rows, self.columns] } else { [self.columns, self.rows] }
    }

    /// The lines of a matrix of the batch: how many there are, as one where there are no gaps, and their length.
    const fn runs(&self) -> (usize, usize) {
        let [count, len] = self.lines();
        match (count, len) {
            (0, _) | (_, 0) => (0, 0),
            _ if len == self.leading => (1, count.saturating_mul(len)),
            _ => (count, len),
        }
    }

    /// A line of a matrix of the batch.
    fn run(&self, batch: usize, run: usize, name: Name) -> Array {
        let before = batch.wrapping_mul(self.batch.1).wrapping_add(run.wrapping_mul(self.leading));
        let at = self.values.wrapping_add(before.wrapping_mul(self.ty.size()) as u64);
        Array::new(at, self.runs().1, name)
    }

    /// The row and the column of an element of a line.
    const fn place(&self, run: usize, n: usize) -> [usize; 2] {
        let [_, len] = self.lines();
        let (line, n) = if self.runs().0 == 1 && len > 0 { (n / len, n % len) } else { (run, n) };
        if self.is_by_rows { [line, n] } else { [n, line] }
    }

    /// Checks that a matrix of the batch that is to be read is there.
    pub(super) fn expect_there(&self, batch: usize, matrix: &'static str) -> Answer {
        let name = Name("values", matrix);
        (0..self.runs().0).try_for_each(|run| self.run(batch, run, name).expect_there(self.ty.size()))
    }

    /// Checks that there is room for a matrix of the batch.
    pub(super) fn expect_room(&self, batch: usize) -> Answer {
        let name = Name("values", "the result");
        (0..self.runs().0).try_for_each(|run| self.run(batch, run, name).expect_room(self.ty.size()))
    }

    /// A matrix of the batch after an operation. The elements that `is_used` takes by row and column, after the operation, must be defined.
    pub(super) fn read(
        &self,
        batch: usize,
        operation: Operation,
        matrix: &'static str,
        is_used: impl Fn([usize; 2]) -> bool,
    ) -> Result<Dense, Status> {
        let (count, _) = self.runs();
        let place = |run: usize, n: usize| operation.swapped(self.place(run, n));
        let read = |run: usize| {
            let array = self.run(batch, run, Name("values", matrix));
            array.numbers(self.ty, |n| is_used(place(run, n)))
        };
        let lines = (0..count).map(read).collect::<Result<Vec<_>, _>>()?;
        let [rows, columns] = operation.swapped([self.rows, self.columns]);
        let mut all = Dense::zero(rows, columns);
        for (run, numbers) in lines.into_iter().enumerate() {
            for (n, number) in numbers.into_iter().enumerate() {
                let [row, column] = place(run, n);
                all.set(row, column, operation.on_number(number));
            }
        }
        Ok(all)
    }

    /// Writes a matrix of the batch.
    pub(super) fn put(&self, batch: usize, matrix: &Dense) -> Answer {
        for run in 0..self.runs().0 {
            let line = self.run(batch, run, Name("values", "the result"));
            let number = |n: usize| {
                let [row, column] = self.place(run, n);
                matrix.at(row, column)
            };
            put_numbers(line.at, self.ty, &(0..line.count).map(number).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Writes elements of a vector; others stay as they are.
    pub(super) fn put_some(&self, numbers: impl IntoIterator<Item = (usize, Number)>) -> Answer {
        put_some_numbers(self.values, self.ty, numbers)
    }
}
