//! Programs that call cuSPARSE, whose functions this library computes on the host. Every function that is served is called, and results are compared
//! with their definition in 64 bits, in several types, formats, index bases and operations.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::CStr;

use crate::api::{Api, call};
use crate::exec;
use crate::fft::Width;

/// A complex number.
type Number = [f64; 2];

const ZERO: Number = [0.0, 0.0];
const ONE: Number = [1.0, 0.0];

fn plus(a: Number, b: Number) -> Number {
    [a[0] + b[0], a[1] + b[1]]
}

fn times(a: Number, b: Number) -> Number {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// A type of values, by its number of `cudaDataType`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Type {
    number: u32,
    width: Width,
    is_complex: bool,
}

const F32: Type = Type { number: 0, width: Width::F32, is_complex: false };
const F64: Type = Type { number: 1, width: Width::F64, is_complex: false };
const F16: Type = Type { number: 2, width: Width::F16, is_complex: false };
const BF16: Type = Type { number: 14, width: Width::BF16, is_complex: false };
const C32: Type = Type { number: 4, width: Width::F32, is_complex: true };
const C64: Type = Type { number: 5, width: Width::F64, is_complex: true };
const C16: Type = Type { number: 6, width: Width::F16, is_complex: true };

/// The types that the older functions have, with the letters of their names.
const LETTERS: [(char, Type); 4] = [('S', F32), ('D', F64), ('C', C32), ('Z', C64)];

impl Type {
    /// Whether there is no such operation on numbers of the type: a conjugate transpose of real ones.
    fn has_no(self, operation: u32) -> bool {
        operation == 2 && !self.is_complex
    }
}

impl Type {
    fn bytes(self, numbers: &[Number]) -> Vec<u8> {
        let parts = if self.is_complex { 2 } else { 1 };
        numbers.iter().flat_map(|number| self.width.bytes(&number[..parts])).collect()
    }

    fn numbers(self, bytes: &[u8]) -> Vec<Number> {
        let parts = self.width.numbers(bytes);
        match self.is_complex {
            true => parts.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect(),
            false => parts.into_iter().map(|part| [part, 0.0]).collect(),
        }
    }

    const fn size(self) -> usize {
        self.width.size() * if self.is_complex { 2 } else { 1 }
    }

    /// Whether a number is another one, rounded once from sums that differ in their order.
    fn is_close(self, found: Number, wanted: Number) -> bool {
        let largest = wanted[0].abs().max(wanted[1].abs()).max(1.0);
        (0..2).all(|part| (found[part] - wanted[part]).abs() <= self.width.unit() * largest)
    }
}

/// A matrix of which some elements are stored, by rows.
#[derive(Clone, Debug)]
struct Grid {
    rows: usize,
    columns: usize,
    at: Vec<Option<Number>>,
}

impl Grid {
    fn get(&self, row: usize, column: usize) -> Number {
        self.at[row * self.columns + column].unwrap_or(ZERO)
    }

    /// Its elements in the order of a format: row, column and value.
    fn elements(&self, is_by_columns: bool) -> Vec<(usize, usize, Number)> {
        let stored =
            (0..self.at.len()).filter_map(|n| Some((n / self.columns, n % self.columns, self.at[n]?)));
        let mut all: Vec<_> = stored.collect();
        if is_by_columns {
            all.sort_by_key(|(row, column, _)| (*column, *row));
        }
        all
    }

    /// The matrix after an operation by its number.
    fn operated(&self, operation: u32) -> Self {
        if operation == 0 {
            return self.clone();
        }
        let sign = if operation == 2 { -1.0 } else { 1.0 };
        let at = |n: usize| {
            self.at[n % self.rows * self.columns + n / self.rows].map(|number| [number[0], sign * number[1]])
        };
        Self { rows: self.columns, columns: self.rows, at: (0..self.at.len()).map(at).collect() }
    }

    fn product(&self, other: &Self) -> Self {
        assert_eq!(self.columns, other.rows);
        let sum = |n: usize| {
            let (row, column) = (n / other.columns, n % other.columns);
            (0..self.columns).fold(ZERO, |sum, k| plus(sum, times(self.get(row, k), other.get(k, column))))
        };
        let at = (0..self.rows * other.columns).map(|n| Some(sum(n))).collect();
        Self { rows: self.rows, columns: other.columns, at }
    }

    /// `alpha` times this and `beta` times another one.
    fn combined(&self, alpha: Number, beta: Number, other: &Self) -> Self {
        let at = (0..self.at.len()).map(|n| {
            let [a, b] = [self, other].map(|grid| grid.at[n].unwrap_or(ZERO));
            Some(plus(times(alpha, a), times(beta, b)))
        });
        Self { at: at.collect(), ..*self }
    }

    /// The part that a triangle has.
    fn triangle(&self, is_upper: bool, is_unit: bool) -> Self {
        let at = |n: usize| {
            let (row, column) = (n / self.columns, n % self.columns);
            match column.cmp(&row) {
                std::cmp::Ordering::Equal if is_unit => Some(ONE),
                std::cmp::Ordering::Equal => self.at[n],
                order => self.at[n].filter(|_| (order == std::cmp::Ordering::Greater) == is_upper),
            }
        };
        Self { at: (0..self.at.len()).map(at).collect(), ..*self }
    }
}

/// The formats by their numbers of `cusparseFormat_t`.
const CSR: u32 = 1;
const CSC: u32 = 2;
const COO: u32 = 3;

/// How a matrix is stored.
#[derive(Clone, Copy, Debug)]
struct Storage {
    format: u32,
    /// 2 for indices of 32 bits, 3 for those of 64.
    index: u32,
    base: u32,
}

const PLAIN: Storage = Storage { format: CSR, index: 2, base: 0 };

/// A matrix in memory of the device.
#[derive(Clone, Copy, Debug)]
struct Stored {
    descriptor: u64,
    lines: u64,
    others: u64,
    values: u64,
    count: usize,
}

struct Sparse<'a> {
    api: &'a Api,
    handle: u64,
    called: RefCell<BTreeSet<String>>,
    seed: RefCell<u64>,
    /// Memory for functions that want a buffer: more than any says that it needs.
    buffer: u64,
}

/// Bytes of a buffer.
const BUFFER: usize = 1 << 20;

/// Calls a function with a name and notes it.
macro_rules! sparse {
    ($sparse:expr, $name:expr $(, $arg:expr => $ty:ty)* $(,)?) => {{
        $sparse.called.borrow_mut().insert($name.to_string());
        call!($sparse.api, &$name $(, $arg => $ty)*)
    }};
}

/// The status of a triangular system.
fn system_status(ty: Type, storage: Storage, operation: u32) -> i32 {
    match storage.format {
        _ if ty.has_no(operation) => 3,
        CSC => 10,
        _ => 0,
    }
}

impl<'a> Sparse<'a> {
    /// A buffer that is no other's.
    fn part(&self, n: u64) -> u64 {
        self.buffer + n * (BUFFER as u64 / 8)
    }

    fn new(api: &'a Api, handle: u64) -> Self {
        let buffer = api.allocate(BUFFER);
        Self { api, handle, called: RefCell::default(), seed: RefCell::new(1), buffer }
    }
}

impl Sparse<'_> {
    fn random(&self) -> u64 {
        let mut seed = self.seed.borrow_mut();
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 40
    }

    /// A number of which every type has all bits.
    fn number(&self, ty: Type) -> Number {
        let part = || (self.random() % 65) as f64 / 16.0 - 2.0;
        [part(), if ty.is_complex { part() } else { 0.0 }]
    }

    fn numbers(&self, ty: Type, count: usize) -> Vec<Number> {
        (0..count).map(|_| self.number(ty)).collect()
    }

    /// A matrix of which about a half is stored.
    fn grid(&self, ty: Type, rows: usize, columns: usize) -> Grid {
        let at = (0..rows * columns).map(|_| self.random().is_multiple_of(2).then(|| self.number(ty)));
        Grid { rows, columns, at: at.collect() }
    }

    /// A matrix of which all is stored.
    fn full(&self, ty: Type, rows: usize, columns: usize) -> Grid {
        Grid { rows, columns, at: self.numbers(ty, rows * columns).into_iter().map(Some).collect() }
    }

    /// A matrix with a large diagonal.
    fn square(&self, ty: Type, rows: usize) -> Grid {
        let mut grid = self.grid(ty, rows, rows);
        (0..rows).for_each(|n| grid.at[n * rows + n] = Some(plus(self.number(ty), [8.0, 0.0])));
        grid
    }

    fn up(&self, bytes: &[u8]) -> u64 {
        let at = self.api.allocate(bytes.len().max(1));
        let from = bytes.as_ptr() as u64;
        assert_eq!(call!(self.api, "cuMemcpyHtoD_v2", at => u64, from => u64, bytes.len() => usize), 0);
        at
    }

    fn down(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; len];
        let to = bytes.as_mut_ptr() as u64;
        assert_eq!(call!(self.api, "cuMemcpyDtoH_v2", to => u64, at => u64, len => usize), 0);
        bytes
    }

    fn up_numbers(&self, ty: Type, numbers: &[Number]) -> u64 {
        self.up(&ty.bytes(numbers))
    }

    fn down_numbers(&self, ty: Type, at: u64, count: usize) -> Vec<Number> {
        ty.numbers(&self.down(at, count * ty.size()))
    }

    fn up_indices(&self, storage: Storage, indices: &[usize]) -> u64 {
        let of = |index: &usize| {
            let word = (*index as u64 + u64::from(storage.base)).to_le_bytes();
            word[..if storage.index == 2 { 4 } else { 8 }].to_vec()
        };
        self.up(&indices.iter().flat_map(of).collect::<Vec<_>>())
    }

    fn down_indices(&self, storage: Storage, at: u64, count: usize) -> Vec<usize> {
        let size = if storage.index == 2 { 4 } else { 8 };
        let of = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            (u64::from_le_bytes(word) - u64::from(storage.base)) as usize
        };
        self.down(at, count * size).chunks_exact(size).map(of).collect()
    }

    /// Describes a matrix with arrays that are there.
    fn describe(
        &self,
        storage: Storage,
        ty: Type,
        grid: &Grid,
        count: usize,
        arrays: [u64; 3],
        is_const: bool,
    ) -> u64 {
        let Storage { format, index, base } = storage;
        let name = match format {
            CSR => "Csr",
            CSC => "Csc",
            _ => "Coo",
        };
        let name = format!("cusparseCreate{}{name}", if is_const { "Const" } else { "" });
        let (mut matrix, [lines, others, values]) = (0u64, arrays);
        let [rows, columns, stored] = [grid.rows, grid.columns, count].map(|size| size as i64);
        let made = if format == COO {
            sparse!(
                self, name, &raw mut matrix => *mut u64, rows => i64, columns => i64, stored => i64, lines => u64, others => u64, values => u64,
                index => u32, base => u32, ty.number => u32,
            )
        } else {
            sparse!(
                self, name, &raw mut matrix => *mut u64, rows => i64, columns => i64, stored => i64, lines => u64, others => u64, values => u64,
                index => u32, index => u32, base => u32, ty.number => u32,
            )
        };
        assert_eq!(made, 0);
        matrix
    }

    /// Stores a matrix and describes it.
    fn store(&self, storage: Storage, ty: Type, grid: &Grid) -> Stored {
        let is_by_columns = storage.format == CSC;
        let elements = grid.elements(is_by_columns);
        let line = |e: &(usize, usize, Number)| if is_by_columns { e.1 } else { e.0 };
        let other = |e: &(usize, usize, Number)| if is_by_columns { e.0 } else { e.1 };
        let count = if is_by_columns { grid.columns } else { grid.rows };
        let lines: Vec<usize> = if storage.format == COO {
            elements.iter().map(line).collect()
        } else {
            (0..=count).map(|n| elements.iter().filter(|e| line(e) < n).count()).collect()
        };
        let lines = self.up_indices(storage, &lines);
        let others = self.up_indices(storage, &elements.iter().map(other).collect::<Vec<_>>());
        let values = self.up_numbers(ty, &elements.iter().map(|e| e.2).collect::<Vec<_>>());
        let arrays = [lines, others, values];
        let descriptor =
            self.describe(storage, ty, grid, elements.len(), arrays, self.random().is_multiple_of(2));
        Stored { descriptor, lines, others, values, count: elements.len() }
    }

    /// A matrix by rows that a product or a conversion has stored.
    fn stored_grid(&self, storage: Storage, ty: Type, [rows, columns]: [usize; 2], stored: &Stored) -> Grid {
        let ends = self.down_indices(storage, stored.lines, rows + 1);
        let of = self.down_indices(storage, stored.others, stored.count);
        let values = self.down_numbers(ty, stored.values, stored.count);
        let mut grid = Grid { rows, columns, at: vec![None; rows * columns] };
        assert_eq!((ends[0], ends[rows]), (0, stored.count));
        for row in 0..rows {
            for n in ends[row]..ends[row + 1] {
                assert!(grid.at[row * columns + of[n]].replace(values[n]).is_none());
            }
        }
        grid
    }

    /// Stores a dense matrix with gaps and describes it.
    fn store_dense(&self, ty: Type, grid: &Grid, is_by_rows: bool) -> (u64, u64, usize) {
        let (len, count) = if is_by_rows { (grid.columns, grid.rows) } else { (grid.rows, grid.columns) };
        let leading = len + (self.random() % 2) as usize * 2;
        let mut numbers = vec![[7.0, 0.0]; leading * count];
        for row in 0..grid.rows {
            for column in 0..grid.columns {
                let at = if is_by_rows { row * leading + column } else { column * leading + row };
                numbers[at] = grid.get(row, column);
            }
        }
        let values = self.up_numbers(ty, &numbers);
        (self.describe_dense(ty, grid, leading, values, is_by_rows), values, leading)
    }

    fn describe_dense(&self, ty: Type, grid: &Grid, leading: usize, values: u64, is_by_rows: bool) -> u64 {
        let mut matrix = 0u64;
        let name = ["cusparseCreateDnMat", "cusparseCreateConstDnMat"][(self.random() % 2) as usize];
        let [rows, columns, leading] = [grid.rows, grid.columns, leading].map(|size| size as i64);
        let made = sparse!(
            self, name, &raw mut matrix => *mut u64, rows => i64, columns => i64, leading => i64, values => u64, ty.number => u32,
            1 + u32::from(is_by_rows) => u32,
        );
        assert_eq!(made, 0);
        matrix
    }

    /// Compares a dense matrix in memory with one, and what is between its lines.
    fn compare(&self, what: &str, ty: Type, wanted: &Grid, (at, leading): (u64, usize), is_by_rows: bool) {
        let (len, count) =
            if is_by_rows { (wanted.columns, wanted.rows) } else { (wanted.rows, wanted.columns) };
        let found = self.down_numbers(ty, at, leading * count);
        for (n, found) in found.into_iter().enumerate() {
            let (line, at) = (n / leading, n % leading);
            let wanted = match (at < len, is_by_rows) {
                (false, _) => [7.0, 0.0],
                (true, true) => wanted.get(line, at),
                (true, false) => wanted.get(at, line),
            };
            assert!(ty.is_close(found, wanted), "{what} {ty:?}: {line}, {at} is {found:?}, not {wanted:?}");
        }
    }

    fn vector(&self, ty: Type, numbers: &[Number]) -> (u64, u64) {
        let values = self.up_numbers(ty, numbers);
        (self.describe_vector(ty, numbers.len(), values), values)
    }

    fn describe_vector(&self, ty: Type, size: usize, values: u64) -> u64 {
        let mut vector = 0u64;
        let name = ["cusparseCreateDnVec", "cusparseCreateConstDnVec"][(self.random() % 2) as usize];
        let made = sparse!(self, name, &raw mut vector => *mut u64, size as i64 => i64, values => u64, ty.number => u32);
        assert_eq!(made, 0);
        vector
    }

    fn sparse_vector(
        &self,
        storage: Storage,
        ty: Type,
        size: usize,
        indices: &[usize],
        numbers: &[Number],
    ) -> (u64, u64) {
        let (mut vector, values) = (0u64, self.up_numbers(ty, numbers));
        let at = self.up_indices(storage, indices);
        let name = ["cusparseCreateSpVec", "cusparseCreateConstSpVec"][(self.random() % 2) as usize];
        let made = sparse!(
            self, name, &raw mut vector => *mut u64, size as i64 => i64, indices.len() as i64 => i64, at => u64, values => u64,
            storage.index => u32, storage.base => u32, ty.number => u32,
        );
        assert_eq!(made, 0);
        (vector, values)
    }

    /// A factor where the pointer mode says: its bytes, which the caller keeps, and its address.
    fn factor(&self, ty: Type, number: Number, on_device: bool) -> (Vec<u8>, u64) {
        let bytes = ty.bytes(&[number]);
        let at = if on_device { self.up(&bytes) } else { bytes.as_ptr() as u64 };
        (bytes, at)
    }

    fn set_mode(&self, on_device: bool) {
        assert_eq!(
            sparse!(self, "cusparseSetPointerMode", self.handle => u64, u32::from(on_device) => u32),
            0
        );
    }

    /// A description that a function makes.
    fn made(&self, name: &str) -> u64 {
        let mut made = 0u64;
        assert_eq!(sparse!(self, name, &raw mut made => *mut u64), 0);
        made
    }

    /// A descriptor of the older functions.
    fn old_descriptor(&self, base: u32) -> u64 {
        let made = self.made("cusparseCreateMatDescr");
        assert_eq!(sparse!(self, "cusparseSetMatIndexBase", made => u64, base => u32), 0);
        made
    }
}

/// All formats, with indices of both sizes and both bases.
const STORAGES: [Storage; 5] = [
    PLAIN,
    Storage { format: CSR, index: 3, base: 1 },
    Storage { format: CSC, index: 2, base: 1 },
    Storage { format: COO, index: 3, base: 0 },
    Storage { format: COO, index: 2, base: 1 },
];

/// The solution of a system by elimination; the diagonal is large.
fn solution(a: &Grid, b: &Grid) -> Grid {
    let quotient = |a: Number, b: Number| {
        let square = b[0] * b[0] + b[1] * b[1];
        let turned = times(a, [b[0], -b[1]]);
        [turned[0] / square, turned[1] / square]
    };
    let (mut a, mut b) = (a.clone(), b.clone());
    let minus = |grid: &mut Grid, row: usize, from: usize, factor: Number| {
        for column in 0..grid.columns {
            let term = times(factor, grid.get(from, column));
            grid.at[row * grid.columns + column] = Some(plus(grid.get(row, column), [-term[0], -term[1]]));
        }
    };
    for n in 0..a.rows {
        for row in (0..a.rows).filter(|row| *row != n) {
            let factor = quotient(a.get(row, n), a.get(n, n));
            minus(&mut a, row, n, factor);
            minus(&mut b, row, n, factor);
        }
    }
    for n in 0..b.at.len() {
        let row = n / b.columns;
        b.at[n] = Some(quotient(b.at[n].unwrap_or(ZERO), a.get(row, row)));
    }
    b
}

impl Sparse<'_> {
    fn vectors(&self) {
        let (size, indices) = (9usize, [5usize, 1, 8, 4]);
        for (ty, by) in [(F32, F32), (F64, F64), (C32, C32), (C64, C64), (F16, F32), (BF16, F32), (C16, C32)]
        {
            for (index, base, on_device) in [(2, 0, false), (3, 1, true)] {
                let storage = Storage { format: COO, index, base };
                self.set_mode(on_device);
                let (x, y) = (self.numbers(ty, 4), self.numbers(ty, size));
                let (of_x, values_x) = self.sparse_vector(storage, ty, size, &indices, &x);
                for beta in [ZERO, ONE, self.number(by)] {
                    let (of_y, values_y) = self.vector(ty, &y);
                    let alpha = self.number(by);
                    let (held, at) = self.factor(by, alpha, on_device);
                    let (also_held, beta_at) = self.factor(by, beta, on_device);
                    let added = sparse!(self, "cusparseAxpby", self.handle => u64, at => u64, of_x => u64, beta_at => u64, of_y => u64);
                    assert_eq!((added, held.len(), also_held.len()), (0, by.size(), by.size()));
                    let found = self.down_numbers(ty, values_y, size);
                    for n in 0..size {
                        let own = indices.iter().position(|index| *index == n).map_or(ZERO, |at| x[at]);
                        let wanted = plus(times(alpha, own), times(beta, y[n]));
                        assert!(ty.is_close(found[n], wanted), "{ty:?} {n}: {found:?}, not {wanted:?}");
                    }
                }
                let (of_y, values_y) = self.vector(ty, &y);
                if ty == by {
                    let (c, s) = (self.number(by), self.number(by));
                    let ((held, c_at), (also_held, s_at)) =
                        (self.factor(by, c, on_device), self.factor(by, s, on_device));
                    let turned = sparse!(self, "cusparseRot", self.handle => u64, c_at => u64, s_at => u64, of_x => u64, of_y => u64);
                    assert_eq!((turned, held.len(), also_held.len()), (0, by.size(), by.size()));
                    let (found_x, found_y) =
                        (self.down_numbers(ty, values_x, 4), self.down_numbers(ty, values_y, size));
                    for (n, at) in indices.into_iter().enumerate() {
                        assert!(ty.is_close(found_x[n], plus(times(c, x[n]), times(s, y[at]))));
                        assert!(ty.is_close(found_y[at], plus(times(c, y[at]), times([-s[0], -s[1]], x[n]))));
                    }
                    assert_eq!(found_y[0], y[0]);
                }
                let (x, y) = (self.numbers(ty, 4), self.numbers(ty, size));
                let ((of_x, values_x), (of_y, values_y)) =
                    (self.sparse_vector(storage, ty, size, &indices, &x), self.vector(ty, &y));
                for operation in [0u32, 2] {
                    let (mut bytes, mut len) = (vec![0u8; by.size()], 0usize);
                    let at = if on_device { self.up(&bytes) } else { bytes.as_mut_ptr() as u64 };
                    let sized = sparse!(
                        self, "cusparseSpVV_bufferSize", self.handle => u64, operation => u32, of_x => u64, of_y => u64, at => u64,
                        by.number => u32, &raw mut len => *mut usize,
                    );
                    let done = sparse!(
                        self, "cusparseSpVV", self.handle => u64, operation => u32, of_x => u64, of_y => u64, at => u64, by.number => u32,
                        self.buffer => u64,
                    );
                    if ty.has_no(operation) {
                        assert_eq!((sized, done), (3, 3));
                        continue;
                    }
                    assert!(sized == 0 && done == 0);
                    let found = if on_device { self.down(at, by.size()) } else { bytes };
                    let sign = if operation == 2 { -1.0 } else { 1.0 };
                    let terms = (0..4).map(|n| times([x[n][0], sign * x[n][1]], y[indices[n]]));
                    assert!(by.is_close(by.numbers(&found)[0], terms.fold(ZERO, plus)), "{ty:?} {operation}");
                }
                assert_eq!(sparse!(self, "cusparseScatter", self.handle => u64, of_x => u64, of_y => u64), 0);
                let found = self.down_numbers(ty, values_y, size);
                assert!((0..4).all(|n| found[indices[n]] == x[n]) && found[0] == y[0] && found[7] == y[7]);
                assert_eq!(
                    call!(self.api, "cuMemsetD8_v2", values_x => u64, 0 => u8, 4 * ty.size() => usize),
                    0
                );
                assert_eq!(sparse!(self, "cusparseGather", self.handle => u64, of_y => u64, of_x => u64), 0);
                assert_eq!(self.down_numbers(ty, values_x, 4), x);
                assert_eq!(sparse!(self, "cusparseDestroySpVec", of_x => u64), 0);
                assert_eq!(sparse!(self, "cusparseDestroyDnVec", of_y => u64), 0);
            }
        }
        self.set_mode(false);
    }

    /// Products with a vector.
    fn vector_product(&self, [a, x, y, by]: [Type; 4], storage: Storage, operation: u32, beta: Number) {
        let grid = self.grid(a, 4, 5);
        let stored = self.store(storage, a, &grid);
        let operated = grid.operated(operation);
        let (of_x, of_y) = (self.full(x, operated.columns, 1), self.full(y, operated.rows, 1));
        let numbers = |grid: &Grid| (0..grid.rows).map(|n| grid.get(n, 0)).collect::<Vec<_>>();
        let (vector_x, _) = self.vector(x, &numbers(&of_x));
        let (vector_y, values_y) = self.vector(y, &numbers(&of_y));
        let alpha = self.number(by);
        let ((held, alpha_at), (also_held, beta_at)) =
            (self.factor(by, alpha, false), self.factor(by, beta, false));
        let mut len = 0usize;
        let sized = sparse!(
            self, "cusparseSpMV_bufferSize", self.handle => u64, operation => u32, alpha_at => u64, stored.descriptor => u64, vector_x => u64,
            beta_at => u64, vector_y => u64, by.number => u32, 0 => i32, &raw mut len => *mut usize,
        );
        let expected = if a.has_no(operation) { 3 } else { 0 };
        assert_eq!(sized, expected, "{a:?} {storage:?}");
        for name in ["cusparseSpMV_preprocess", "cusparseSpMV"] {
            let done = sparse!(
                self, name, self.handle => u64, operation => u32, alpha_at => u64, stored.descriptor => u64, vector_x => u64, beta_at => u64,
                vector_y => u64, by.number => u32, 0 => i32, self.buffer => u64,
            );
            assert_eq!((done, held.len(), also_held.len()), (expected, by.size(), by.size()), "{name} {a:?}");
        }
        if expected != 0 {
            return;
        }
        let wanted = operated.product(&of_x).combined(alpha, beta, &of_y);
        self.compare("SpMV", y, &wanted, (values_y, wanted.rows), false);
        assert_eq!(sparse!(self, "cusparseDestroySpMat", stored.descriptor => u64), 0);
    }

    /// Products with a matrix.
    fn matrix_product(
        &self,
        [a, b, c, by]: [Type; 4],
        storage: Storage,
        operations: [u32; 2],
        orders: [bool; 2],
    ) {
        let grid = self.grid(a, 4, 5);
        let stored = self.store(storage, a, &grid);
        let operated = grid.operated(operations[0]);
        let (inner, columns) = (operated.columns, 3);
        let of_b =
            if operations[1] == 0 { self.full(b, inner, columns) } else { self.full(b, columns, inner) };
        let of_c = self.full(c, operated.rows, columns);
        let (dense_b, _, _) = self.store_dense(b, &of_b, orders[0]);
        let (dense_c, at, leading) = self.store_dense(c, &of_c, orders[1]);
        let (alpha, beta) = (self.number(by), self.number(by));
        let ((held, alpha_at), (also_held, beta_at)) =
            (self.factor(by, alpha, false), self.factor(by, beta, false));
        let mut len = 0usize;
        let sized = sparse!(
            self, "cusparseSpMM_bufferSize", self.handle => u64, operations[0] => u32, operations[1] => u32, alpha_at => u64,
            stored.descriptor => u64, dense_b => u64, beta_at => u64, dense_c => u64, by.number => u32, 0 => i32, &raw mut len => *mut usize,
        );
        let expected = if a.has_no(operations[0]) { 3 } else { 0 };
        assert_eq!(sized, expected, "{a:?} {storage:?}");
        for name in ["cusparseSpMM_preprocess", "cusparseSpMM"] {
            let done = sparse!(
                self, name, self.handle => u64, operations[0] => u32, operations[1] => u32, alpha_at => u64, stored.descriptor => u64,
                dense_b => u64, beta_at => u64, dense_c => u64, by.number => u32, 0 => i32, self.buffer => u64,
            );
            assert_eq!((done, held.len(), also_held.len()), (expected, by.size(), by.size()), "{name} {a:?}");
        }
        if expected != 0 {
            return;
        }
        let wanted = operated.product(&of_b.operated(operations[1])).combined(alpha, beta, &of_c);
        self.compare("SpMM", c, &wanted, (at, leading), orders[1]);
        assert_eq!(sparse!(self, "cusparseDestroyDnMat", dense_b => u64), 0);
    }

    fn products(&self) {
        let types = [
            [F32; 4],
            [F64; 4],
            [C32; 4],
            [C64; 4],
            [F16, F16, F32, F32],
            [F16, F16, F16, F32],
            [BF16, BF16, BF16, F32],
            [C16, C16, C16, C32],
            [F32, C32, C32, C32],
        ];
        for (n, types) in types.into_iter().enumerate() {
            for (at, storage) in STORAGES.into_iter().enumerate() {
                for operation in 0..3 {
                    let beta = if (n + at) % 2 == 0 { ZERO } else { self.number(types[3]) };
                    self.vector_product(types, storage, operation, beta);
                    let orders = [(n + at) % 2 == 0, operation == 1];
                    self.matrix_product(types, storage, [operation, (at % 2) as u32], orders);
                }
            }
        }
        // Integers of 8 bits.
        let (x, y) = (self.up(&[3, 0xFE, 5]), self.up(&[0; 8]));
        let grid = Grid { rows: 2, columns: 3, at: vec![Some(ONE), None, Some(ONE), None, Some(ONE), None] };
        let stored = self.store(PLAIN, F32, &grid);
        let values = self.up(&[0x80, 2, 7]);
        let small = |number| Type { number, ..F32 };
        let a = self.describe(PLAIN, small(3), &grid, 3, [stored.lines, stored.others, values], true);
        let (x, vector_y) = (self.describe_vector(small(3), 3, x), self.describe_vector(small(10), 2, y));
        let (alpha, beta) = (2i32, 0i32);
        let done = sparse!(
            self, "cusparseSpMV", self.handle => u64, 0 => u32, &raw const alpha => *const i32, a => u64, x => u64, &raw const beta => *const i32,
            vector_y => u64, 10 => u32, 0 => i32, self.buffer => u64,
        );
        assert_eq!(
            (done, self.api.words(y, 2)),
            (0, vec![(2 * (3 * -128 + 5 * 2)) as u32, (2 * 7 * -2) as u32])
        );
    }

    /// Two products at once: matrices and dense operands at equal distances, the pattern the same.
    fn batches(&self) {
        let (first, other) = (self.grid(F32, 4, 5), self.numbers(F32, 20));
        let second = Grid { at: (0..20).map(|n| first.at[n].map(|_| other[n])).collect(), ..first.clone() };
        for format in [CSR, COO] {
            let storage = Storage { format, ..PLAIN };
            let [stored, of_second] = [&first, &second].map(|grid| self.store(storage, F32, grid));
            let both = |at: fn(&Stored) -> u64| {
                let [a, b] = [&stored, &of_second].map(|stored| self.down(at(stored), stored.count * 4));
                self.up(&[a, b].concat())
            };
            let (others, values) = (both(|stored| stored.others), both(|stored| stored.values));
            let lines = if format == COO { both(|stored| stored.lines) } else { stored.lines };
            let a = self.describe(storage, F32, &first, stored.count, [lines, others, values], false);
            let distance = stored.count as i64;
            let set = if format == COO {
                sparse!(self, "cusparseCooSetStridedBatch", a => u64, 2 => i32, distance => i64)
            } else {
                sparse!(self, "cusparseCsrSetStridedBatch", a => u64, 2 => i32, 0 => i64, distance => i64)
            };
            let mut count = 0;
            assert_eq!(
                (set, sparse!(self, "cusparseSpMatGetStridedBatch", a => u64, &raw mut count => *mut i32)),
                (0, 0)
            );
            assert_eq!(count, 2);
            let of_b = [self.full(F32, 5, 3), self.full(F32, 5, 3)];
            let column = |grid: &Grid| (0..15).map(|n| grid.get(n % 5, n / 5)).collect::<Vec<_>>();
            let b = self.up_numbers(F32, &of_b.iter().flat_map(column).collect::<Vec<_>>());
            let c = self.up(&[0; 2 * 12 * 4]);
            let (dense_b, dense_c) = (
                self.describe_dense(F32, &of_b[0], 5, b, false),
                self.describe_dense(F32, &self.full(F32, 4, 3), 4, c, false),
            );
            for (matrix, distance) in [(dense_b, 15i64), (dense_c, 12)] {
                let (mut count, mut between) = (0, 0i64);
                assert_eq!(
                    sparse!(self, "cusparseDnMatSetStridedBatch", matrix => u64, 2 => i32, distance => i64),
                    0
                );
                let told = sparse!(
                    self, "cusparseDnMatGetStridedBatch", matrix => u64, &raw mut count => *mut i32, &raw mut between => *mut i64,
                );
                assert_eq!((told, count, between), (0, 2, distance));
            }
            let (alpha, beta) = (1f32, 0f32);
            let done = sparse!(
                self, "cusparseSpMM", self.handle => u64, 0 => u32, 0 => u32, &raw const alpha => *const f32, a => u64, dense_b => u64,
                &raw const beta => *const f32, dense_c => u64, 0 => u32, 0 => i32, self.buffer => u64,
            );
            assert_eq!(done, 0);
            self.compare("batch", F32, &first.product(&of_b[0]), (c, 4), false);
            self.compare("batch", F32, &second.product(&of_b[1]), (c + 48, 4), false);
        }
    }

    fn sampled(&self) {
        for (ty, result, by) in [
            (F32, F32, F32),
            (F64, F64, F64),
            (C32, C32, C32),
            (C64, C64, C64),
            (F16, F32, F32),
            (F16, F16, F32),
        ] {
            for storage in STORAGES {
                for operations in [[0u32, 0], [1, 0], [0, 1], [2, 2]] {
                    let side = |rows, columns, operation| match operation {
                        0 => self.full(ty, rows, columns),
                        _ => self.full(ty, columns, rows),
                    };
                    let (a, b) = (side(4, 3, operations[0]), side(3, 5, operations[1]));
                    let (dense_a, ..) = self.store_dense(ty, &a, true);
                    let (dense_b, ..) = self.store_dense(ty, &b, false);
                    let c = self.grid(result, 4, 5);
                    let stored = self.store(storage, result, &c);
                    let (alpha, beta) = (self.number(by), self.number(by));
                    let ((held, alpha_at), (also_held, beta_at)) =
                        (self.factor(by, alpha, false), self.factor(by, beta, false));
                    let mut len = 0usize;
                    let sized = sparse!(
                        self, "cusparseSDDMM_bufferSize", self.handle => u64, operations[0] => u32, operations[1] => u32, alpha_at => u64,
                        dense_a => u64, dense_b => u64, beta_at => u64, stored.descriptor => u64, by.number => u32, 0 => i32,
                        &raw mut len => *mut usize,
                    );
                    let expected = match storage.format {
                        _ if ty.has_no(operations[0]) => 3,
                        CSR => 0,
                        _ => 10,
                    };
                    assert_eq!(sized, expected);
                    for name in ["cusparseSDDMM_preprocess", "cusparseSDDMM"] {
                        let done = sparse!(
                            self, name, self.handle => u64, operations[0] => u32, operations[1] => u32, alpha_at => u64, dense_a => u64,
                            dense_b => u64, beta_at => u64, stored.descriptor => u64, by.number => u32, 0 => i32, self.buffer => u64,
                        );
                        assert_eq!((done, held.len(), also_held.len()), (expected, by.size(), by.size()));
                    }
                    if expected != 0 {
                        continue;
                    }
                    let all = a.operated(operations[0]).product(&b.operated(operations[1]));
                    let wanted = all.combined(alpha, beta, &c);
                    let found = self.down_numbers(result, stored.values, stored.count);
                    for ((row, column, _), found) in c.elements(storage.format == CSC).into_iter().zip(found)
                    {
                        assert!(result.is_close(found, wanted.get(row, column)), "{ty:?} {storage:?}");
                    }
                }
            }
        }
    }

    fn set_attributes(&self, matrix: u64, [fill, diagonal]: [i32; 2]) {
        for (number, value) in [(0u32, fill), (1, diagonal)] {
            let mut told = 7i32;
            let set = sparse!(
                self, "cusparseSpMatSetAttribute", matrix => u64, number => u32, &raw const value => *const i32, 4usize => usize,
            );
            let got = sparse!(
                self, "cusparseSpMatGetAttribute", matrix => u64, number => u32, &raw mut told => *mut i32, 4usize => usize,
            );
            assert_eq!((set, got, told), (0, 0, value));
        }
    }

    /// Triangular systems with a vector, and with new values of the matrix.
    fn vector_system(&self, ty: Type, storage: Storage, operation: u32, [is_upper, is_unit]: [bool; 2]) {
        let grid = self.square(ty, 5);
        let stored = self.store(storage, ty, &grid);
        self.set_attributes(stored.descriptor, [i32::from(is_upper), i32::from(is_unit)]);
        let side = self.full(ty, 5, 1);
        let numbers: Vec<_> = (0..5).map(|n| side.get(n, 0)).collect();
        let ((x, _), (y, at)) = (self.vector(ty, &numbers), self.vector(ty, &[ZERO; 5]));
        let alpha = self.number(ty);
        let (held, alpha_at) = self.factor(ty, alpha, false);
        let (system, mut len) = (self.made("cusparseSpSV_createDescr"), 0usize);
        let solve = || {
            sparse!(
                self, "cusparseSpSV_solve", self.handle => u64, operation => u32, alpha_at => u64, stored.descriptor => u64, x => u64, y => u64,
                ty.number => u32, 0 => i32, system => u64,
            )
        };
        assert_ne!(solve(), 0, "it is not analysed");
        let sized = sparse!(
            self, "cusparseSpSV_bufferSize", self.handle => u64, operation => u32, alpha_at => u64, stored.descriptor => u64, x => u64, y => u64,
            ty.number => u32, 0 => i32, system => u64, &raw mut len => *mut usize,
        );
        let analysed = sparse!(
            self, "cusparseSpSV_analysis", self.handle => u64, operation => u32, alpha_at => u64, stored.descriptor => u64, x => u64, y => u64,
            ty.number => u32, 0 => i32, system => u64, self.buffer => u64,
        );
        let expected = system_status(ty, storage, operation);
        assert_eq!((sized, analysed, solve(), held.len()), (expected, expected, expected, ty.size()));
        if expected != 0 {
            return;
        }
        let right = side.combined(alpha, ZERO, &side);
        let check = |grid: &Grid, is_unit: bool| {
            let wanted = solution(&grid.triangle(is_upper, is_unit).operated(operation), &right);
            self.compare("SpSV", ty, &wanted, (at, 5), false);
        };
        check(&grid, is_unit);
        // New values: all of them, then those of the diagonal.
        let mut new = grid.clone();
        new.at.iter_mut().flatten().for_each(|number| *number = times(*number, [2.0, 0.0]));
        let values: Vec<_> = new.elements(storage.format == CSC).into_iter().map(|e| e.2).collect();
        let diagonal: Vec<_> = (0..5).map(|n| plus(new.get(n, n), ONE)).collect();
        for (part, values) in [(0u32, values), (1, diagonal.clone())] {
            let place = self.up_numbers(ty, &values);
            let updated = sparse!(self, "cusparseSpSV_updateMatrix", self.handle => u64, system => u64, place => u64, part => u32);
            assert_eq!((updated, call!(self.api, "cuMemFree_v2", place => u64), solve()), (0, 0, 0));
            if part == 1 {
                (0..5).for_each(|n| new.at[n * 5 + n] = Some(diagonal[n]));
            }
            // A new diagonal counts.
            check(&new, is_unit && part == 0);
        }
        assert_eq!(sparse!(self, "cusparseSpSV_destroyDescr", system => u64), 0);
    }

    /// Triangular systems with a matrix.
    fn matrix_system(
        &self,
        ty: Type,
        storage: Storage,
        operations: [u32; 2],
        [is_upper, is_unit]: [bool; 2],
    ) {
        let grid = self.square(ty, 5);
        let stored = self.store(storage, ty, &grid);
        self.set_attributes(stored.descriptor, [i32::from(is_upper), i32::from(is_unit)]);
        let sides = if operations[1] == 0 { self.full(ty, 5, 2) } else { self.full(ty, 2, 5) };
        let (b, ..) = self.store_dense(ty, &sides, is_upper);
        let (c, at, leading) = self.store_dense(ty, &self.full(ty, 5, 2), is_unit);
        let alpha = self.number(ty);
        let (held, alpha_at) = self.factor(ty, alpha, false);
        let (system, mut len) = (self.made("cusparseSpSM_createDescr"), 0usize);
        let sized = sparse!(
            self, "cusparseSpSM_bufferSize", self.handle => u64, operations[0] => u32, operations[1] => u32, alpha_at => u64,
            stored.descriptor => u64, b => u64, c => u64, ty.number => u32, 0 => i32, system => u64, &raw mut len => *mut usize,
        );
        let analysed = sparse!(
            self, "cusparseSpSM_analysis", self.handle => u64, operations[0] => u32, operations[1] => u32, alpha_at => u64,
            stored.descriptor => u64, b => u64, c => u64, ty.number => u32, 0 => i32, system => u64, self.buffer => u64,
        );
        let values = grid.elements(storage.format == CSC).into_iter().map(|e| e.2).collect::<Vec<_>>();
        let values = self.up_numbers(ty, &values);
        let updated = sparse!(self, "cusparseSpSM_updateMatrix", self.handle => u64, system => u64, values => u64, 0 => u32);
        let solved = sparse!(
            self, "cusparseSpSM_solve", self.handle => u64, operations[0] => u32, operations[1] => u32, alpha_at => u64,
            stored.descriptor => u64, b => u64, c => u64, ty.number => u32, 0 => i32, system => u64,
        );
        let expected = system_status(ty, storage, operations[0]);
        assert_eq!((sized, analysed, solved, held.len()), (expected, expected, expected, ty.size()));
        if expected != 0 {
            return;
        }
        assert_eq!(updated, 0);
        let right = sides.operated(operations[1]);
        let right = right.combined(alpha, ZERO, &right);
        let wanted = solution(&grid.triangle(is_upper, is_unit).operated(operations[0]), &right);
        self.compare("SpSM", ty, &wanted, (at, leading), is_unit);
        assert_eq!(sparse!(self, "cusparseSpSM_destroyDescr", system => u64), 0);
    }

    fn systems(&self) {
        for (_, ty) in LETTERS {
            for (n, storage) in STORAGES.into_iter().enumerate() {
                for operation in 0..3u32 {
                    for (is_upper, is_unit) in [(false, false), (true, false), (false, true), (true, true)] {
                        self.vector_system(ty, storage, operation, [is_upper, is_unit]);
                        self.matrix_system(ty, storage, [operation, (n % 2) as u32], [is_upper, is_unit]);
                    }
                }
            }
        }
    }
}

/// Two sparse matrices, and the factors of their product and of what is there before.
struct Pair {
    ty: Type,
    storage: Storage,
    a: Grid,
    b: Grid,
    of_a: Stored,
    of_b: Stored,
    beta: Number,
    /// The product with its factor.
    product: Grid,
    /// The bytes of alpha, beta and 0.
    factors: [Vec<u8>; 3],
}

impl Pair {
    /// The addresses of alpha, beta and 0.
    fn factors(&self) -> [u64; 3] {
        [0, 1, 2].map(|n| self.factors[n].as_ptr() as u64)
    }

    /// Whether the product has an element, which is one where a product of elements is.
    fn has(&self, n: usize) -> bool {
        (0..5).any(|k| self.a.at[n / 6 * 5 + k].is_some() && self.b.at[k * 6 + n % 6].is_some())
    }

    /// Compares a product; those of several steps are rounded in each.
    fn compare(&self, found: &Grid, wanted: &Grid) {
        for (n, (found, wanted)) in found.at.iter().zip(&wanted.at).enumerate() {
            assert_eq!(found.is_some(), self.has(n));
            let (Some(x), Some(y)) = (found, wanted) else { continue };
            let off = (x[0] - y[0]).hypot(x[1] - y[1]);
            assert!(off <= 4.0 * self.ty.width.unit() * (1.0 + y[0].hypot(y[1])), "{x:?}, not {y:?}");
        }
    }
}

impl Sparse<'_> {
    fn pair(&self, ty: Type, storage: Storage) -> Pair {
        let (a, b) = (self.grid(ty, 4, 5), self.grid(ty, 5, 6));
        let (of_a, of_b) = (self.store(storage, ty, &a), self.store(storage, ty, &b));
        let (alpha, beta) = (self.number(ty), self.number(ty));
        let product = a.product(&b);
        let product = product.combined(alpha, ZERO, &product);
        let factors = [alpha, beta, ZERO].map(|factor| ty.bytes(&[factor]));
        Pair { ty, storage, a, b, of_a, of_b, beta, product, factors }
    }

    /// A matrix for a product, without elements yet.
    fn result(&self, pair: &Pair) -> Stored {
        let empty = Grid { rows: 4, columns: 6, at: Vec::new() };
        let lines = self.api.allocate(40);
        let descriptor = self.describe(pair.storage, pair.ty, &empty, 0, [lines, 0, 0], false);
        Stored { descriptor, lines, others: 0, values: 0, count: 0 }
    }

    /// Gives a matrix arrays for the elements that it has now.
    fn grow(&self, pair: &Pair, result: &mut Stored) {
        let (mut rows, mut columns, mut stored) = (0i64, 0i64, 0i64);
        let told = sparse!(
            self, "cusparseSpMatGetSize", result.descriptor => u64, &raw mut rows => *mut i64, &raw mut columns => *mut i64,
            &raw mut stored => *mut i64,
        );
        assert_eq!((told, rows, columns, stored), (0, 4, 6, (0..24).filter(|n| pair.has(*n)).count() as i64));
        if result.values == 0 {
            result.count = stored as usize;
            result.others = self.api.allocate(result.count * 8);
            result.values = self.api.allocate(result.count * pair.ty.size());
            let set = sparse!(
                self, "cusparseCsrSetPointers", result.descriptor => u64, result.lines => u64, result.others => u64, result.values => u64,
            );
            assert_eq!(set, 0);
        }
    }

    /// The product in its steps.
    fn multiply(&self, pair: &Pair, beta: u64, result: &mut Stored) -> Grid {
        let ([alpha, ..], number) = (pair.factors(), pair.ty.number);
        let [a, b, c] = [pair.of_a.descriptor, pair.of_b.descriptor, result.descriptor];
        let descriptor = self.made("cusparseSpGEMM_createDescr");
        for name in ["cusparseSpGEMM_workEstimation", "cusparseSpGEMM_compute"] {
            let mut len = 0usize;
            for is_size in [true, false] {
                let buffer = if is_size { 0 } else { self.api.allocate(len) };
                let done = sparse!(
                    self, name, self.handle => u64, 0 => u32, 0 => u32, alpha => u64, a => u64, b => u64, beta => u64, c => u64, number => u32,
                    0 => i32, descriptor => u64, &raw mut len => *mut usize, buffer => u64,
                );
                assert!(done == 0 && len > 0, "{name}");
            }
        }
        let (mut products, mut len, mut second) = (0i64, 0usize, 0usize);
        let told =
            sparse!(self, "cusparseSpGEMM_getNumProducts", descriptor => u64, &raw mut products => *mut i64);
        let of_b = pair.b.elements(false);
        let of_row = |e: &(usize, usize, Number)| of_b.iter().filter(|f| f.0 == e.1).count();
        assert_eq!((told, products), (0, pair.a.elements(false).iter().map(of_row).sum::<usize>() as i64));
        for (buffer, algorithm, expected) in [(0u64, 0, 3), (0, 4, 0), (self.buffer, 5, 0)] {
            let estimated = sparse!(
                self, "cusparseSpGEMM_estimateMemory", self.handle => u64, 0 => u32, 0 => u32, alpha => u64, a => u64, b => u64, beta => u64,
                c => u64, number => u32, algorithm => i32, descriptor => u64, 0.5 => f32, &raw mut len => *mut usize, buffer => u64,
                &raw mut second => *mut usize,
            );
            assert_eq!(estimated, expected);
        }
        self.grow(pair, result);
        let copied = sparse!(
            self, "cusparseSpGEMM_copy", self.handle => u64, 0 => u32, 0 => u32, alpha => u64, a => u64, b => u64, beta => u64, c => u64,
            number => u32, 0 => i32, descriptor => u64,
        );
        assert_eq!((copied, sparse!(self, "cusparseSpGEMM_destroyDescr", descriptor => u64)), (0, 0));
        self.stored_grid(pair.storage, pair.ty, [4, 6], result)
    }

    /// A product whose structure is kept while values are computed twice.
    fn multiply_again(&self, pair: &Pair) {
        let ([alpha, beta, none], mut result) = (pair.factors(), self.result(pair));
        let [a, b, c] = [pair.of_a.descriptor, pair.of_b.descriptor, result.descriptor];
        let descriptor = self.made("cusparseSpGEMM_createDescr");
        let mut sizes = [0usize; 3];
        let [first, third, fourth] = [0, 1, 2].map(|n| &raw mut sizes[n]);
        for buffer in [0u64, self.part(1)] {
            let estimated = sparse!(
                self, "cusparseSpGEMMreuse_workEstimation", self.handle => u64, 0 => u32, 0 => u32, a => u64, b => u64, c => u64, 0 => i32,
                descriptor => u64, first => *mut usize, buffer => u64,
            );
            assert_eq!(estimated, 0);
        }
        for buffers in [[0u64; 3], [self.part(2), self.part(3), self.part(4)]] {
            let counted = sparse!(
                self, "cusparseSpGEMMreuse_nnz", self.handle => u64, 0 => u32, 0 => u32, a => u64, b => u64, c => u64, 0 => i32,
                descriptor => u64, first => *mut usize, buffers[0] => u64, third => *mut usize, buffers[1] => u64, fourth => *mut usize,
                buffers[2] => u64,
            );
            assert_eq!(counted, 0);
        }
        self.grow(pair, &mut result);
        for buffer in [0u64, self.part(5)] {
            let copied = sparse!(
                self, "cusparseSpGEMMreuse_copy", self.handle => u64, 0 => u32, 0 => u32, a => u64, b => u64, c => u64, 0 => i32,
                descriptor => u64, first => *mut usize, buffer => u64,
            );
            assert_eq!(copied, 0);
        }
        let both = pair.product.combined(ONE, pair.beta, &pair.product);
        for (beta, wanted) in [(none, &pair.product), (beta, &both)] {
            let done = sparse!(
                self, "cusparseSpGEMMreuse_compute", self.handle => u64, 0 => u32, 0 => u32, alpha => u64, a => u64, b => u64, beta => u64,
                c => u64, pair.ty.number => u32, 0 => i32, descriptor => u64,
            );
            assert_eq!(done, 0);
            pair.compare(&self.stored_grid(pair.storage, pair.ty, [4, 6], &result), wanted);
        }
    }

    fn sparse_products(&self) {
        for (ty, storage) in [(F32, PLAIN), (F64, STORAGES[1]), (C32, STORAGES[1]), (C64, PLAIN)] {
            let pair = self.pair(ty, storage);
            let ([_, beta, none], mut result) = (pair.factors(), self.result(&pair));
            let first = self.multiply(&pair, none, &mut result);
            pair.compare(&first, &pair.product);
            // What is there is added with its factor.
            let second = self.multiply(&pair, beta, &mut result);
            pair.compare(&second, &pair.product.combined(ONE, pair.beta, &first));
            self.multiply_again(&pair);
        }
    }
}

impl Sparse<'_> {
    fn conversions(&self) {
        for (n, ty) in [F32, F64, C32, C64, F16, BF16].into_iter().enumerate() {
            for storage in STORAGES {
                let mut grid = self.grid(ty, 4, 5);
                // What is stored may be 0, which a dense matrix does not tell.
                grid.at.iter_mut().flatten().for_each(|x| *x = if x[0] == 0.0 { ONE } else { *x });
                let (stored, is_by_rows) = (self.store(storage, ty, &grid), n % 2 == 0);
                let (dense, at, leading) = self.store_dense(ty, &self.full(ty, 4, 5), is_by_rows);
                let mut len = 0usize;
                let sized = sparse!(
                    self, "cusparseSparseToDense_bufferSize", self.handle => u64, stored.descriptor => u64, dense => u64, 0 => i32,
                    &raw mut len => *mut usize,
                );
                let done = sparse!(
                    self, "cusparseSparseToDense", self.handle => u64, stored.descriptor => u64, dense => u64, 0 => i32, self.buffer => u64,
                );
                assert!(sized == 0 && done == 0 && len > 0);
                self.compare("to dense", ty, &grid, (at, leading), is_by_rows);

                // And back, into arrays of which the host learns the size.
                let index = if storage.index == 2 { 4 } else { 8 };
                let lines = self.api.allocate(8 * index);
                let given = if storage.format == COO { 0 } else { lines };
                let empty = Grid { at: vec![None; 20], ..grid.clone() };
                let matrix = self.describe(storage, ty, &empty, 0, [given, 0, 0], false);
                let sized = sparse!(
                    self, "cusparseDenseToSparse_bufferSize", self.handle => u64, dense => u64, matrix => u64, 0 => i32, &raw mut len => *mut usize,
                );
                let analysed = sparse!(self, "cusparseDenseToSparse_analysis", self.handle => u64, dense => u64, matrix => u64, 0 => i32, self.buffer => u64);
                let (mut rows, mut columns, mut count) = (0i64, 0i64, 0i64);
                let told = sparse!(
                    self, "cusparseSpMatGetSize", matrix => u64, &raw mut rows => *mut i64, &raw mut columns => *mut i64,
                    &raw mut count => *mut i64,
                );
                assert_eq!((sized, analysed, told, count as usize), (0, 0, 0, stored.count));
                let lines =
                    if storage.format == COO { self.api.allocate(stored.count * index) } else { lines };
                let others = self.api.allocate(stored.count * index);
                let values = self.api.allocate(stored.count * ty.size());
                let name = match storage.format {
                    CSR => "cusparseCsrSetPointers",
                    CSC => "cusparseCscSetPointers",
                    _ => "cusparseCooSetPointers",
                };
                assert_eq!(sparse!(self, name, matrix => u64, lines => u64, others => u64, values => u64), 0);
                let converted = sparse!(self, "cusparseDenseToSparse_convert", self.handle => u64, dense => u64, matrix => u64, 0 => i32, self.buffer => u64);
                assert_eq!(converted, 0);
                let count =
                    if storage.format == COO { stored.count } else { 5 + usize::from(storage.format == CSC) };
                for (new, known, len) in [
                    (lines, stored.lines, count * index),
                    (others, stored.others, stored.count * index),
                    (values, stored.values, stored.count * ty.size()),
                ] {
                    assert_eq!(self.down(new, len), self.down(known, len), "{ty:?} {storage:?}");
                }
                assert_eq!(sparse!(self, "cusparseDestroyDnMat", dense => u64), 0);
            }
            for base in [0, 1] {
                self.turned(ty, base);
            }
        }
    }

    /// A matrix by rows that becomes one by columns.
    fn turned(&self, ty: Type, base: u32) {
        let storage = Storage { base, ..PLAIN };
        let grid = self.grid(ty, 4, 5);
        let (from, wanted) =
            (self.store(storage, ty, &grid), self.store(Storage { format: CSC, ..storage }, ty, &grid));
        let count = from.count as i32;
        let to = [
            self.api.allocate(from.count * ty.size()),
            self.api.allocate(24),
            self.api.allocate(from.count * 4),
        ];
        let mut len = 0usize;
        let sized = sparse!(
            self, "cusparseCsr2cscEx2_bufferSize", self.handle => u64, 4 => i32, 5 => i32, count => i32, from.values => u64, from.lines => u64,
            from.others => u64, to[0] => u64, to[1] => u64, to[2] => u64, ty.number => u32, 1 => u32, base => u32, 1 => i32,
            &raw mut len => *mut usize,
        );
        for action in [0u32, 1] {
            let done = sparse!(
                self, "cusparseCsr2cscEx2", self.handle => u64, 4 => i32, 5 => i32, count => i32, from.values => u64, from.lines => u64,
                from.others => u64, to[0] => u64, to[1] => u64, to[2] => u64, ty.number => u32, action => u32, base => u32, 1 => i32, self.buffer => u64,
            );
            assert!(sized == 0 && done == 0 && len > 0);
            assert_eq!(self.down(to[1], 24), self.down(wanted.lines, 24));
            assert_eq!(self.down(to[2], from.count * 4), self.down(wanted.others, from.count * 4));
        }
        assert_eq!(
            self.down_numbers(ty, to[0], from.count),
            self.down_numbers(ty, wanted.values, from.count)
        );
    }

    /// The order of elements, and compressed rows.
    fn orders(&self) {
        let storage = Storage { base: 1, ..PLAIN };
        let descriptor = self.old_descriptor(1);
        // Rows of which the elements are not in order; one is empty.
        let (ends, columns) = ([0usize, 3, 3, 5], [4usize, 0, 2, 3, 1]);
        let (lines, others) = (self.up_indices(storage, &ends), self.up_indices(storage, &columns));
        let identity = |count: i32| {
            let at = self.api.allocate(count as usize * 4);
            assert_eq!(
                sparse!(self, "cusparseCreateIdentityPermutation", self.handle => u64, count => i32, at => u64),
                0
            );
            assert_eq!(self.api.words(at, count as usize), (0..count as u32).collect::<Vec<_>>());
            at
        };
        for (name, sizes) in [("cusparseXcsrsort", [3, 5]), ("cusparseXcscsort", [5, 3])] {
            let (at, order) = (self.up_indices(storage, &columns), identity(5));
            let mut len = 0usize;
            let sized = sparse!(
                self, format!("{name}_bufferSizeExt"), self.handle => u64, sizes[0] => i32, sizes[1] => i32, 5 => i32, lines => u64, at => u64,
                &raw mut len => *mut usize,
            );
            let sorted = sparse!(
                self, name, self.handle => u64, sizes[0] => i32, sizes[1] => i32, 5 => i32, descriptor => u64, lines => u64, at => u64,
                order => u64, self.buffer => u64,
            );
            assert!(sized == 0 && sorted == 0 && len > 0);
            assert_eq!(self.down_indices(storage, at, 5), [0, 2, 4, 1, 3]);
            assert_eq!(self.api.words(order, 5), [1, 2, 0, 4, 3]);
        }
        let (rows, mut len) = (self.up_indices(storage, &[2, 0, 1, 0, 2]), 0usize);
        let sized = sparse!(
            self, "cusparseXcoosort_bufferSizeExt", self.handle => u64, 3 => i32, 5 => i32, 5 => i32, rows => u64, others => u64,
            &raw mut len => *mut usize,
        );
        assert!(sized == 0 && len > 0);
        for (name, wanted) in
            [("cusparseXcoosortByRow", [1, 3, 2, 4, 0]), ("cusparseXcoosortByColumn", [1, 4, 2, 3, 0])]
        {
            let of_rows = [2usize, 0, 1, 0, 2];
            let (rows, at, order) =
                (self.up_indices(storage, &of_rows), self.up_indices(storage, &columns), identity(5));
            let sorted = sparse!(
                self, name, self.handle => u64, 3 => i32, 5 => i32, 5 => i32, rows => u64, at => u64, order => u64, self.buffer => u64,
            );
            assert_eq!((sorted, self.api.words(order, 5)), (0, wanted.to_vec()), "{name}");
            assert_eq!(self.down_indices(storage, at, 5), wanted.map(|n| columns[n as usize]));
            assert_eq!(self.down_indices(storage, rows, 5), wanted.map(|n| of_rows[n as usize]));
        }
        let (rows, ends) = (self.api.allocate(20), self.api.allocate(16));
        let spread = sparse!(self, "cusparseXcsr2coo", self.handle => u64, lines => u64, 5 => i32, 3 => i32, rows => u64, 1 => u32);
        let back = sparse!(self, "cusparseXcoo2csr", self.handle => u64, rows => u64, 5 => i32, 3 => i32, ends => u64, 1 => u32);
        assert_eq!((spread, back, self.down_indices(storage, rows, 5)), (0, 0, vec![0, 0, 0, 2, 2]));
        assert_eq!(self.down(ends, 16), self.down(lines, 16));
    }

    /// The older functions with the letter of a type.
    fn older(&self, letter: char, ty: Type) {
        let name = |rest: &str| format!("cusparse{letter}{rest}");
        for base in [0, 1] {
            let (storage, descriptor) = (Storage { base, ..PLAIN }, self.old_descriptor(base));
            // Elements of a dense matrix that are not 0.
            let grid = self.grid(ty, 4, 5);
            let mut dense = vec![[7.0, 0.0]; 30];
            (0..20).for_each(|n| dense[n % 5 * 6 + n / 5] = grid.at[n].unwrap_or(ZERO));
            let dense = self.up_numbers(ty, &dense);
            let is_there = |n: usize| u32::from(grid.at[n].is_some_and(|number| number != ZERO));
            for (direction, count) in [(0u32, 4usize), (1, 5)] {
                let (lines, mut all) = (self.api.allocate(20), 0i32);
                let counted = sparse!(
                    self, name("nnz"), self.handle => u64, direction => u32, 4 => i32, 5 => i32, descriptor => u64, dense => u64, 6 => i32,
                    lines => u64, &raw mut all => *mut i32,
                );
                let of_line = |line: usize| {
                    (0..20)
                        .filter(|n| if direction == 0 { n / 5 == line } else { n % 5 == line })
                        .map(is_there)
                        .sum::<u32>()
                };
                let wanted: Vec<_> = (0..count).map(of_line).collect();
                assert_eq!(
                    (counted, self.api.words(lines, count), all as u32),
                    (0, wanted.clone(), wanted.iter().sum())
                );
            }
            self.sum(&name, ty, storage, descriptor);
            self.factors(&name, ty, storage, descriptor);
        }
        self.tridiagonal(&name, ty);
    }

    /// A sum of matrices with a base each.
    fn sum(&self, name: &dyn Fn(&str) -> String, ty: Type, storage: Storage, descriptor: u64) {
        let (a, b) = (self.grid(ty, 4, 5), self.grid(ty, 4, 5));
        let other = Storage { base: 1 - storage.base, ..storage };
        let (of_a, of_b) = (self.store(storage, ty, &a), self.store(other, ty, &b));
        let other = self.old_descriptor(other.base);
        let (alpha, beta) = (self.number(ty), self.number(ty));
        let ((held, alpha_at), (also_held, beta_at)) =
            (self.factor(ty, alpha, false), self.factor(ty, beta, false));
        let (ends, mut all, mut len) = (self.api.allocate(20), 0i32, 0usize);
        let [in_a, in_b] = [of_a.count as i32, of_b.count as i32];
        let sized = sparse!(
            self, name("csrgeam2_bufferSizeExt"), self.handle => u64, 4 => i32, 5 => i32, alpha_at => u64, descriptor => u64, in_a => i32,
            of_a.values => u64, of_a.lines => u64, of_a.others => u64, beta_at => u64, other => u64, in_b => i32, of_b.values => u64,
            of_b.lines => u64, of_b.others => u64, descriptor => u64, 0 => u64, ends => u64, 0 => u64, &raw mut len => *mut usize,
        );
        let counted = sparse!(
            self, "cusparseXcsrgeam2Nnz", self.handle => u64, 4 => i32, 5 => i32, descriptor => u64, in_a => i32, of_a.lines => u64,
            of_a.others => u64, other => u64, in_b => i32, of_b.lines => u64, of_b.others => u64, descriptor => u64, ends => u64,
            &raw mut all => *mut i32, self.buffer => u64,
        );
        assert!(sized == 0 && counted == 0 && len > 0);
        let result = Stored {
            descriptor: 0,
            lines: ends,
            others: self.api.allocate(all as usize * 4),
            values: self.api.allocate(all as usize * ty.size()),
            count: all as usize,
        };
        let added = sparse!(
            self, name("csrgeam2"), self.handle => u64, 4 => i32, 5 => i32, alpha_at => u64, descriptor => u64, in_a => i32, of_a.values => u64,
            of_a.lines => u64, of_a.others => u64, beta_at => u64, other => u64, in_b => i32, of_b.values => u64, of_b.lines => u64,
            of_b.others => u64, descriptor => u64, result.values => u64, ends => u64, result.others => u64, self.buffer => u64,
        );
        assert_eq!((added, held.len(), also_held.len()), (0, ty.size(), ty.size()));
        let (found, wanted) = (self.stored_grid(storage, ty, [4, 5], &result), a.combined(alpha, beta, &b));
        for n in 0..20 {
            assert_eq!(found.at[n].is_some(), a.at[n].is_some() || b.at[n].is_some());
            assert!(found.at[n].is_none_or(|number| ty.is_close(number, wanted.at[n].unwrap())), "{ty:?}");
        }
    }

    /// Incomplete factorizations, and their zero pivots.
    fn factors(&self, name: &dyn Fn(&str) -> String, ty: Type, storage: Storage, descriptor: u64) {
        let lower = |grid: &Grid| grid.triangle(false, false);
        // A Hermitian matrix: its lower triangle and that one turned.
        let hermitian = |grid: &Grid| {
            let (mut below, n) = (lower(grid), grid.rows);
            (0..n).for_each(|at| below.at[at * n + at] = Some([20.0, 0.0]));
            let turned = below.operated(2);
            Grid { at: (0..n * n).map(|at| below.at[at].or(turned.at[at])).collect(), ..below }
        };
        for (kind, is_cholesky) in [("csrilu02", false), ("csric02", true)] {
            let create = if is_cholesky { "cusparseCreateCsric02Info" } else { "cusparseCreateCsrilu02Info" };
            let run = |rest: &str, info: u64, stored: &Stored, rows: i32, extra: &[u64]| {
                let function = name(&format!("{kind}{rest}"));
                let count = stored.count as i32;
                match *extra {
                    [size] => sparse!(
                        self, function, self.handle => u64, rows => i32, count => i32, descriptor => u64, stored.values => u64,
                        stored.lines => u64, stored.others => u64, info => u64, size => u64,
                    ),
                    _ => sparse!(
                        self, function, self.handle => u64, rows => i32, count => i32, descriptor => u64, stored.values => u64,
                        stored.lines => u64, stored.others => u64, info => u64, 0 => u32, self.buffer => u64,
                    ),
                }
            };
            let pivot = |info: u64| {
                let mut position = 7i32;
                let status = sparse!(
                    self, format!("cusparseX{kind}_zeroPivot"), self.handle => u64, info => u64, &raw mut position => *mut i32,
                );
                (status, position)
            };
            let info = self.made(create);
            let grid = self.square(ty, 5);
            let grid = if is_cholesky { hermitian(&grid) } else { grid };
            let stored = self.store(storage, ty, &grid);
            let (mut short, mut long) = (0i32, 0usize);
            assert_eq!(run("_bufferSize", info, &stored, 5, &[&raw mut short as u64]), 0);
            assert_eq!(run("_bufferSizeExt", info, &stored, 5, &[&raw mut long as u64]), 0);
            assert!(short > 0 && long == short as usize);
            assert_eq!((run("_analysis", info, &stored, 5, &[]), pivot(info)), (0, (0, -1)));
            assert_eq!((run("", info, &stored, 5, &[]), pivot(info)), (0, (0, -1)));
            let found = self.stored_grid(storage, ty, [5, 5], &stored);
            let (first, second) = if is_cholesky {
                (lower(&found), lower(&found).operated(2))
            } else {
                let mut first = lower(&found);
                (0..5).for_each(|n| first.at[n * 6] = Some(ONE));
                (first, found.triangle(true, false))
            };
            let back = first.product(&second);
            for n in (0..25).filter(|n| grid.at[*n].is_some() && (!is_cholesky || n % 5 <= n / 5)) {
                let (a, b) = (back.at[n].unwrap(), grid.at[n].unwrap());
                let off = (a[0] - b[0]).hypot(a[1] - b[1]);
                assert!(off <= 64.0 * ty.width.unit() * 20.0, "{kind} {ty:?} {n}: {a:?}, not {b:?}");
            }
            // What is above the diagonal is not of a Cholesky factor.
            assert!(!is_cholesky || (0..25).all(|n| n % 5 <= n / 5 || found.at[n] == grid.at[n]));
            // A diagonal element is missing; another one becomes 0.
            let without = Grid { rows: 2, columns: 2, at: vec![Some(ONE), Some(ONE), Some(ONE), None] };
            let stored = self.store(storage, ty, &without);
            assert_eq!(
                (run("_analysis", info, &stored, 2, &[]), pivot(info)),
                (0, (9, 1 + storage.base as i32))
            );
            let singular = Grid { at: vec![Some(ONE); 4], ..without };
            let stored = self.store(storage, ty, &singular);
            assert_eq!((run("_analysis", info, &stored, 2, &[]), pivot(info)), (0, (0, -1)));
            assert_eq!((run("", info, &stored, 2, &[]), pivot(info)), (0, (9, 1 + storage.base as i32)));
            if !is_cholesky {
                let (bound, value) = (1e-3f64, ty.bytes(&[[0.5, 0.0]]));
                let set = sparse!(
                    self, name("csrilu02_numericBoost"), self.handle => u64, info => u64, 1 => i32, &raw const bound => *const f64,
                    value.as_ptr() as u64 => u64,
                );
                let stored = self.store(storage, ty, &singular);
                assert_eq!((set, run("", info, &stored, 2, &[]), pivot(info)), (0, 0, (0, -1)));
                assert_eq!(self.down_numbers(ty, stored.values, 4)[3], [0.5, 0.0]);
            }
            let destroy = create.replace("Create", "Destroy");
            assert_eq!((sparse!(self, destroy, info => u64), pivot(info).0), (0, 3));
        }
    }

    fn tridiagonal(&self, name: &dyn Fn(&str) -> String, ty: Type) {
        let (rows, sides, distance) = (5usize, 3usize, 6usize);
        for (function, is_batch) in [("gtsv2", false), ("gtsv2_nopivot", false), ("gtsv2StridedBatch", true)]
        {
            let systems = if is_batch { sides } else { 1 };
            let of_all = |first: f64| {
                let numbers = self.numbers(ty, systems * distance);
                numbers.into_iter().map(|number| plus(number, [first, 0.0])).collect::<Vec<_>>()
            };
            let [below, diagonal, above] = [of_all(0.0), of_all(8.0), of_all(0.0)];
            let right = self.numbers(ty, sides * distance);
            let places = [&below, &diagonal, &above, &right].map(|numbers| self.up_numbers(ty, numbers));
            let [dl, d, du, x] = places;
            let (sizes, mut len) = ([rows as i32, sides as i32, distance as i32], 0usize);
            let [m, n, ld] = sizes;
            let buffer = name(&format!("{function}_bufferSizeExt"));
            let (sized, solved) = if is_batch {
                (
                    sparse!(
                        self, buffer, self.handle => u64, m => i32, dl => u64, d => u64, du => u64, x => u64, n => i32, ld => i32,
                        &raw mut len => *mut usize,
                    ),
                    sparse!(
                        self, name(function), self.handle => u64, m => i32, dl => u64, d => u64, du => u64, x => u64, n => i32, ld => i32,
                        self.buffer => u64,
                    ),
                )
            } else {
                (
                    sparse!(
                        self, buffer, self.handle => u64, m => i32, n => i32, dl => u64, d => u64, du => u64, x => u64, ld => i32,
                        &raw mut len => *mut usize,
                    ),
                    sparse!(
                        self, name(function), self.handle => u64, m => i32, n => i32, dl => u64, d => u64, du => u64, x => u64, ld => i32,
                        self.buffer => u64,
                    ),
                )
            };
            assert!(sized == 0 && solved == 0 && len > 0, "{function}");
            let found = self.down_numbers(ty, x, sides * distance);
            for side in 0..sides {
                let first = if is_batch { side * distance } else { 0 };
                let mut matrix = Grid { rows, columns: rows, at: vec![None; rows * rows] };
                for row in 0..rows {
                    matrix.at[row * rows + row] = Some(diagonal[first + row]);
                    if row > 0 {
                        matrix.at[row * rows + row - 1] = Some(below[first + row]);
                    }
                    if row + 1 < rows {
                        matrix.at[row * rows + row + 1] = Some(above[first + row]);
                    }
                }
                let at = side * distance;
                let vector =
                    Grid { rows, columns: 1, at: right[at..at + rows].iter().copied().map(Some).collect() };
                let wanted = solution(&matrix, &vector);
                for row in 0..rows {
                    assert!(ty.is_close(found[at + row], wanted.get(row, 0)), "{function} {ty:?}");
                }
                assert_eq!(found[at + rows], right[at + rows]);
            }
        }
    }

    /// A graph computes when it is launched, with what memory holds then.
    fn captured(&self) {
        let stream = self.api.stream();
        let grid = self.grid(F32, 4, 5);
        let stored = self.store(PLAIN, F32, &grid);
        let x = self.full(F32, 5, 1);
        let (of_x, values_x) = self.vector(F32, &(0..5).map(|n| x.get(n, 0)).collect::<Vec<_>>());
        let (of_y, values_y) = self.vector(F32, &[ZERO; 4]);
        let (alpha, beta) = (self.up(&1f32.to_le_bytes()), self.up(&0f32.to_le_bytes()));
        let mut got = 0u64;
        assert_eq!(sparse!(self, "cusparseSetStream", self.handle => u64, stream => u64), 0);
        assert_eq!(sparse!(self, "cusparseGetStream", self.handle => u64, &raw mut got => *mut u64), 0);
        assert_eq!(got, stream);
        self.set_mode(true);
        let (mut graph, mut instance) = (0u64, 0u64);
        assert_eq!(call!(self.api, "cuStreamBeginCapture_v2", stream => u64, 0 => u32), 0);
        let captured = sparse!(
            self, "cusparseSpMV", self.handle => u64, 0 => u32, alpha => u64, stored.descriptor => u64, of_x => u64, beta => u64, of_y => u64,
            0 => u32, 0 => i32, self.buffer => u64,
        );
        assert_eq!(call!(self.api, "cuStreamEndCapture", stream => u64, &raw mut graph => *mut u64), 0);
        let made = call!(self.api, "cuGraphInstantiateWithFlags", &raw mut instance => *mut u64, graph => u64, 0 => u64);
        assert_eq!((captured, made, self.down_numbers(F32, values_y, 4)), (0, 0, vec![ZERO; 4]));
        for factor in [1f32, -2.0] {
            let bytes = factor.to_le_bytes();
            assert_eq!(
                call!(self.api, "cuMemcpyHtoD_v2", alpha => u64, bytes.as_ptr() as u64 => u64, 4usize => usize),
                0
            );
            let x = self.full(F32, 5, 1);
            let bytes = F32.bytes(&(0..5).map(|n| x.get(n, 0)).collect::<Vec<_>>());
            assert_eq!(
                call!(self.api, "cuMemcpyHtoD_v2", values_x => u64, bytes.as_ptr() as u64 => u64, 20usize => usize),
                0
            );
            assert_eq!(call!(self.api, "cuGraphLaunch", instance => u64, stream => u64), 0);
            let product = grid.product(&x);
            self.compare(
                "graph",
                F32,
                &product.combined([f64::from(factor), 0.0], ZERO, &product),
                (values_y, 4),
                false,
            );
        }
        // What the host waits for cannot be captured.
        self.set_mode(false);
        let (of_sparse, _) = self.sparse_vector(PLAIN, F32, 5, &[1], &[ONE]);
        assert_eq!(call!(self.api, "cuStreamBeginCapture_v2", stream => u64, 0 => u32), 0);
        let mut result = 0f32;
        let status = sparse!(
            self, "cusparseSpVV", self.handle => u64, 0 => u32, of_sparse => u64, of_x => u64, &raw mut result => *mut f32, 0 => u32, self.buffer => u64,
        );
        assert_eq!(status, 6);
        call!(self.api, "cuStreamEndCapture", stream => u64, &raw mut graph => *mut u64);
        assert_eq!(sparse!(self, "cusparseSetStream", self.handle => u64, 0 => u64), 0);
        // Managed memory is read and written in place.
        let mut managed = 0u64;
        assert_eq!(
            call!(self.api, "cuMemAllocManaged", &raw mut managed => *mut u64, 16usize => usize, 1 => u32),
            0
        );
        let of_y = self.describe_vector(F32, 4, managed);
        let (alpha, beta) = (1f32, 0f32);
        let done = sparse!(
            self, "cusparseSpMV", self.handle => u64, 0 => u32, &raw const alpha => *const f32, stored.descriptor => u64, of_x => u64,
            &raw const beta => *const f32, of_y => u64, 0 => u32, 0 => i32, self.buffer => u64,
        );
        // SAFETY: the host has managed memory at the same address.
        let found = unsafe { std::slice::from_raw_parts(managed as *const u8, 16) };
        let now = self.down_numbers(F32, values_x, 5);
        let x = Grid { rows: 5, columns: 1, at: now.into_iter().map(Some).collect() };
        let wanted = grid.product(&x);
        assert_eq!((done, F32.numbers(found)), (0, (0..4).map(|n| wanted.get(n, 0)).collect()));
    }
}

impl Sparse<'_> {
    /// What descriptors tell, in both forms of the functions.
    fn descriptors(&self) {
        let (mut sizes, mut places, mut kinds) = ([0i64; 3], [0u64; 3], [0u32; 4]);
        for form in ["", "Const"] {
            let mut vector = 0u64;
            let made = sparse!(
                self, format!("cusparseCreate{form}SpVec"), &raw mut vector => *mut u64, 9 => i64, 2 => i64, 0x10 => u64, 0x20 => u64, 3 => u32,
                1 => u32, 4 => u32,
            );
            let told = sparse!(
                self, format!("cusparse{form}SpVecGet"), vector => u64, &raw mut sizes[0] => *mut i64, &raw mut sizes[1] => *mut i64,
                &raw mut places[0] => *mut u64, &raw mut places[1] => *mut u64, &raw mut kinds[0] => *mut u32, &raw mut kinds[1] => *mut u32,
                &raw mut kinds[2] => *mut u32,
            );
            assert_eq!(
                (made, told, &sizes[..2], &places[..2], &kinds[..3]),
                (0, 0, &[9, 2][..], &[0x10, 0x20][..], &[3, 1, 4][..])
            );
            assert_eq!(sparse!(self, "cusparseSpVecSetValues", vector => u64, 0x30 => u64), 0);
            assert_eq!(
                sparse!(self, format!("cusparse{form}SpVecGetValues"), vector => u64, &raw mut places[0] => *mut u64),
                0
            );
            assert_eq!(
                sparse!(self, "cusparseSpVecGetIndexBase", vector => u64, &raw mut kinds[0] => *mut u32),
                0
            );
            assert_eq!((places[0], kinds[0]), (0x30, 1));

            let vector = self.describe_vector(F64, 7, 0x10);
            let told = sparse!(
                self, format!("cusparse{form}DnVecGet"), vector => u64, &raw mut sizes[0] => *mut i64, &raw mut places[0] => *mut u64,
                &raw mut kinds[0] => *mut u32,
            );
            assert_eq!((told, sizes[0], places[0], kinds[0]), (0, 7, 0x10, 1));
            assert_eq!(sparse!(self, "cusparseDnVecSetValues", vector => u64, 0x20 => u64), 0);
            assert_eq!(
                sparse!(self, format!("cusparse{form}DnVecGetValues"), vector => u64, &raw mut places[0] => *mut u64),
                0
            );
            assert_eq!(places[0], 0x20);

            let grid = Grid { rows: 3, columns: 4, at: vec![None; 12] };
            let matrix = self.describe_dense(F32, &grid, 5, 0x10, true);
            let told = sparse!(
                self, format!("cusparse{form}DnMatGet"), matrix => u64, &raw mut sizes[0] => *mut i64, &raw mut sizes[1] => *mut i64,
                &raw mut sizes[2] => *mut i64, &raw mut places[0] => *mut u64, &raw mut kinds[0] => *mut u32, &raw mut kinds[1] => *mut u32,
            );
            assert_eq!((told, sizes, places[0], &kinds[..2]), (0, [3, 4, 5], 0x10, &[0, 2][..]));
            assert_eq!(sparse!(self, "cusparseDnMatSetValues", matrix => u64, 0x20 => u64), 0);
            assert_eq!(
                sparse!(self, format!("cusparse{form}DnMatGetValues"), matrix => u64, &raw mut places[0] => *mut u64),
                0
            );
            assert_eq!(places[0], 0x20);

            for (format, name) in [(CSR, "Csr"), (CSC, "Csc"), (COO, "Coo")] {
                let storage = Storage { format, index: 3, base: 1 };
                let matrix = self.describe(storage, C64, &grid, 2, [0x10, 0x20, 0x30], form == "Const");
                let [rows, columns, stored] = [0, 1, 2].map(|n| &raw mut sizes[n]);
                let [lines, others, values] = [0, 1, 2].map(|n| &raw mut places[n]);
                let [first, second, third, fourth] = [0, 1, 2, 3].map(|n| &raw mut kinds[n]);
                let name = format!("cusparse{form}{name}Get");
                let told = if format == COO {
                    sparse!(
                        self, name, matrix => u64, rows => *mut i64, columns => *mut i64, stored => *mut i64, lines => *mut u64, others => *mut u64,
                        values => *mut u64, second => *mut u32, third => *mut u32, fourth => *mut u32,
                    )
                } else {
                    sparse!(
                        self, name, matrix => u64, rows => *mut i64, columns => *mut i64, stored => *mut i64, lines => *mut u64, others => *mut u64,
                        values => *mut u64, first => *mut u32, second => *mut u32, third => *mut u32, fourth => *mut u32,
                    )
                };
                assert_eq!(
                    (told, sizes, places, &kinds[1..]),
                    (0, [3, 4, 2], [0x10, 0x20, 0x30], &[3, 1, 5][..]),
                    "{name}"
                );
                assert_eq!(sparse!(self, "cusparseSpMatSetValues", matrix => u64, 0x40 => u64), 0);
                assert_eq!(
                    sparse!(self, format!("cusparse{form}SpMatGetValues"), matrix => u64, values => *mut u64),
                    0
                );
                assert_eq!(sparse!(self, "cusparseSpMatGetFormat", matrix => u64, first => *mut u32), 0);
                assert_eq!(sparse!(self, "cusparseSpMatGetIndexBase", matrix => u64, second => *mut u32), 0);
                assert_eq!((places[2], kinds[0], kinds[1]), (0x40, format, 1));
            }
        }
        let old = self.old_descriptor(1);
        for (name, value) in [("MatType", 3u32), ("MatFillMode", 1), ("MatDiagType", 1), ("MatIndexBase", 1)]
        {
            assert_eq!(sparse!(self, format!("cusparseSet{name}"), old => u64, value => u32), 0);
            assert_eq!(sparse!(self, format!("cusparseGet{name}"), old => u64), value as i32);
            assert_eq!(sparse!(self, format!("cusparseSet{name}"), old => u64, 4 => u32), 3);
            assert_eq!(
                (
                    sparse!(self, format!("cusparseSet{name}"), 0 => u64, 0 => u32),
                    sparse!(self, format!("cusparseGet{name}"), 0 => u64)
                ),
                (1, -1)
            );
        }
        assert_eq!(sparse!(self, "cusparseDestroyMatDescr", old => u64), 0);
    }

    /// The library, and statuses as those of NVIDIA's own.
    fn statuses(&self) {
        let (mut version, mut part, mut mode) = (0, 0, 7u32);
        assert_eq!(sparse!(self, "cusparseGetVersion", self.handle => u64, &raw mut version => *mut i32), 0);
        for (number, wanted) in [(0, version / 1000), (1, version / 100 % 10), (2, version % 100)] {
            assert_eq!(sparse!(self, "cusparseGetProperty", number => i32, &raw mut part => *mut i32), 0);
            assert_eq!(part, wanted);
        }
        assert_eq!(sparse!(self, "cusparseGetPointerMode", self.handle => u64, &raw mut mode => *mut u32), 0);
        assert_eq!((mode, sparse!(self, "cusparseGetProperty", 3 => i32, &raw mut part => *mut i32)), (0, 3));
        assert_eq!(sparse!(self, "cusparseGetVersion", 0 => u64, &raw mut version => *mut i32), 3);
        for (name, wanted) in
            [("cusparseGetErrorName", "CUSPARSE_STATUS_ZERO_PIVOT"), ("cusparseGetErrorString", "zero pivot")]
        {
            self.called.borrow_mut().insert(name.to_owned());
            let function = self.api.function::<unsafe extern "C" fn(i32) -> *const std::ffi::c_char>(name);
            // SAFETY: the function returns a string for every number.
            let [known, unknown] = [9, 12].map(|status| unsafe { CStr::from_ptr(function(status)) });
            assert_eq!((known.to_str(), unknown.to_str()), (Ok(wanted), Ok("unrecognized error code")));
        }
        for name in ["SetCallback", "SetFile", "OpenFile", "SetLevel", "SetMask", "ForceDisable"] {
            assert_eq!(sparse!(self, format!("cusparseLogger{name}"), 0 => u64), 0);
        }
        let mut made = 0u64;
        let mut csr = |rows: i64, stored: i64, index: u32, base: u32, ty: u32| {
            sparse!(
                self, "cusparseCreateCsr", &raw mut made => *mut u64, rows => i64, 3 => i64, stored => i64, 0 => u64, 0 => u64, 0 => u64,
                index => u32, 2 => u32, base => u32, ty => u32,
            )
        };
        let all = [
            csr(3, 9, 2, 0, 0),
            csr(3, 10, 2, 0, 0),
            csr(-1, 1, 2, 0, 0),
            csr(3, 1, 0, 0, 0),
            csr(3, 1, 2, 2, 0),
            csr(3, 1, 2, 0, 7),
        ];
        assert_eq!(all, [0, 3, 3, 3, 3, 3]);
        let mut dense = |leading: i64, order: u32| {
            sparse!(
                self, "cusparseCreateDnMat", &raw mut made => *mut u64, 3 => i64, 4 => i64, leading => i64, 0 => u64, 0 => u32, order => u32,
            )
        };
        assert_eq!([dense(3, 1), dense(2, 1), dense(3, 2), dense(4, 2), dense(4, 0)], [0, 3, 3, 0, 3]);
        for (size, stored, code) in [(4i64, 4i64, 0), (4, 5, 3), (-1, 0, 3)] {
            let status = sparse!(
                self, "cusparseCreateSpVec", &raw mut made => *mut u64, size => i64, stored => i64, 0 => u64, 0 => u64, 2 => u32, 0 => u32,
                0 => u32,
            );
            assert_eq!(status, code);
        }
        let grid = self.grid(F32, 4, 5);
        let stored = self.store(PLAIN, F32, &grid);
        let ((five, _), (four, _), (wide, _)) =
            (self.vector(F32, &[ONE; 5]), self.vector(F32, &[ONE; 4]), self.vector(F64, &[ONE; 4]));
        let factor = 1f32;
        let at = &raw const factor as u64;
        let product = |handle: u64, alpha: u64, a: u64, x: u64, y: u64, operation: u32| {
            sparse!(
                self, "cusparseSpMV", handle => u64, operation => u32, alpha => u64, a => u64, x => u64, at => u64, y => u64, 0 => u32, 0 => i32,
                self.buffer => u64,
            )
        };
        let (handle, a) = (self.handle, stored.descriptor);
        for (status, code) in [
            (product(handle, at, a, five, four, 0), 0),
            (product(0, at, a, five, four, 0), 3),
            (product(12, at, a, five, four, 0), 3),
            (product(handle, 0, a, five, four, 0), 3),
            (product(handle, at, 0, five, four, 0), 3),
            (product(handle, at, five, five, four, 0), 3),
            (product(handle, at, a, four, five, 0), 3),
            (product(handle, at, a, four, five, 1), 0),
            (product(handle, at, a, five, four, 3), 3),
            (product(handle, at, a, five, wide, 0), 10),
        ] {
            assert_eq!(status, code);
        }
        assert_eq!(
            sparse!(self, "cusparseXcoo2csr", 0 => u64, 0 => u64, 1 => i32, 1 => i32, 0 => u64, 0 => u32),
            1
        );
        assert_eq!(
            sparse!(self, "cusparseXcoo2csr", handle => u64, 0 => u64, 1 => i32, 1 => i32, 0 => u64, 0 => u32),
            3
        );
        assert_eq!(sparse!(self, "cusparseDestroySpMat", a => u64), 0);
        assert_eq!(
            (
                sparse!(self, "cusparseDestroySpMat", a => u64),
                sparse!(self, "cusparseDestroySpMat", 0 => u64)
            ),
            (3, 0)
        );
        assert_eq!(product(handle, at, a, five, four, 0), 3);
        // A general matrix is wanted.
        let symmetric = self.old_descriptor(0);
        assert_eq!(sparse!(self, "cusparseSetMatType", symmetric => u64, 1 => u32), 0);
        let status = sparse!(
            self, "cusparseSnnz", handle => u64, 0 => u32, 1 => i32, 1 => i32, symmetric => u64, at => u64, 1 => i32, at => u64, at => u64,
        );
        assert_eq!(status, 8);
    }
}

/// The served names: all words that begin so in the files with functions, but types.
fn served() -> BTreeSet<String> {
    let files = [
        include_str!("../../crates/cuda/src/libraries/sparse/descriptors.rs"),
        include_str!("../../crates/cuda/src/libraries/sparse/products.rs"),
        include_str!("../../crates/cuda/src/libraries/sparse/triangular.rs"),
        include_str!("../../crates/cuda/src/libraries/sparse/sparse_products.rs"),
        include_str!("../../crates/cuda/src/libraries/sparse/conversions.rs"),
        include_str!("../../crates/cuda/src/libraries/sparse/older.rs"),
    ];
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = files.iter().flat_map(|text| text.split(|c| !is_word(c)));
    words.filter(|word| word.starts_with("cusparse") && !word.ends_with("_t")).map(str::to_owned).collect()
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_calls_cusparse() {
    let api = Api::open("libcusparse.so.12");
    api.enter();
    let mut handle = 0u64;
    assert_eq!(call!(api, "cusparseCreate", &raw mut handle => *mut u64), 0);
    let called = BTreeSet::from(["cusparseCreate".to_owned()]);
    let sparse = Sparse {
        api: &api,
        handle,
        called: RefCell::new(called),
        seed: RefCell::new(1),
        buffer: api.allocate(BUFFER),
    };
    sparse.descriptors();
    sparse.vectors();
    sparse.products();
    sparse.batches();
    sparse.sampled();
    sparse.systems();
    sparse.sparse_products();
    sparse.conversions();
    sparse.orders();
    for (letter, ty) in LETTERS {
        sparse.older(letter, ty);
    }
    sparse.captured();
    sparse.statuses();
    assert_eq!(sparse!(sparse, "cusparseDestroy", handle => u64), 0);
    let served = served();
    assert!(served.len() > 200, "{served:?}");
    let without: Vec<_> = served.difference(&sparse.called.borrow()).cloned().collect();
    assert!(without.is_empty(), "not called: {without:?}");
}

#[test]
fn cusparse_is_served_by_its_definition() {
    let output = exec(&[], "sparse::program_that_calls_cusparse");
    let text = String::from_utf8_lossy(&output.stderr);
    let own = String::from_utf8_lossy(&output.stdout);
    assert!(own.contains("test result: ok. 1 passed"), "{text}{own}");
    assert!(!text.contains("violation: "), "{text}");
    // What no function does is said by name, and the run is incomplete.
    assert!(
        text.contains("cusparseSpMV: there is no such function of the types f32, f32, f64, f32"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(4), "{text}");
}

/// A program of two products whose second one reads an element of x that nothing wrote, if the matrix has one in its column.
fn product_of_a_part(api: &Api, columns: [u32; 2]) {
    let mut handle = 0u64;
    assert_eq!(call!(api, "cusparseCreate", &raw mut handle => *mut u64), 0);
    let sparse = Sparse::new(api, handle);
    let grid = Grid { rows: 2, columns: 4, at: vec![None; 8] };
    let words =
        |words: &[u32]| sparse.up(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
    let (lines, others) = (words(&[0, 1, 2]), words(&columns));
    let values = sparse.up_numbers(F32, &[ONE; 2]);
    let a = sparse.describe(PLAIN, F32, &grid, 2, [lines, others, values], false);
    // The last two of four elements are never written, and neither is y.
    let (x, y) = (api.allocate(16), api.allocate(8));
    assert_eq!(call!(api, "cuMemsetD8_v2", x => u64, 0 => u8, 8usize => usize), 0);
    let (of_x, of_y) = (sparse.describe_vector(F32, 4, x), sparse.describe_vector(F32, 2, y));
    let (alpha, beta) = (1f32, 0f32);
    call!(
        api, "cusparseSpMV", handle => u64, 0 => u32, &raw const alpha => *const f32, a => u64, of_x => u64, &raw const beta => *const f32,
        of_y => u64, 0 => u32, 0 => i32, sparse.buffer => u64,
    );
    assert_eq!(api.words(y, 2).len(), 2);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_uses_a_part_of_a_vector() {
    let api = Api::open("libcusparse.so.12");
    api.enter();
    product_of_a_part(&api, [0, 1]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_uses_an_undefined_element_of_a_vector() {
    let api = Api::open("libcusparse.so.11");
    api.enter();
    product_of_a_part(&api, [0, 3]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_misuses_cusparse() {
    let api = Api::open("libcusparse.so.12");
    api.enter();
    // A function that is not served, and a column that the matrix does not have.
    assert_eq!(call!(api, "cusparseCreateBsr", 0 => u64), 10);
    product_of_a_part(&api, [0, 4]);
    let mut handle = 0u64;
    assert_eq!(call!(api, "cusparseCreate", &raw mut handle => *mut u64), 0);
    let sparse = Sparse::new(&api, handle);
    // Values that nothing wrote, and a dense matrix without room.
    let grid = Grid { rows: 3, columns: 3, at: vec![Some(ONE); 9] };
    let stored = sparse.store(PLAIN, F32, &grid);
    let unwritten = api.allocate(36);
    assert_eq!(call!(api, "cuMemsetD8_v2", unwritten => u64, 0 => u8, 24usize => usize), 0);
    let a = sparse.describe(PLAIN, F32, &grid, 9, [stored.lines, stored.others, unwritten], false);
    let (room, small) = (api.allocate(36), api.allocate(32));
    let dense = [room, small].map(|at| sparse.describe_dense(F32, &grid, 3, at, false));
    call!(api, "cusparseSparseToDense", handle => u64, a => u64, dense[0] => u64, 0 => i32, sparse.buffer => u64);
    let status = call!(api, "cusparseSparseToDense", handle => u64, stored.descriptor => u64, dense[1] => u64, 0 => i32, sparse.buffer => u64);
    assert_eq!(status, 3);
    // Offsets of more elements than there are, in an array that is too short and in freed memory.
    let lines = sparse.up(&[0, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 10, 0, 0, 0]);
    let status = call!(api, "cusparseXcsr2coo", handle => u64, lines => u64, 9 => i32, 3 => i32, room => u64, 0 => u32);
    assert_eq!(status, 6);
    let (rows, ends) = (sparse.up(&[0; 8]), api.allocate(16));
    call!(api, "cusparseXcoo2csr", handle => u64, rows => u64, 3 => i32, 2 => i32, ends => u64, 0 => u32);
    assert_eq!(call!(api, "cuMemFree_v2", stored.values => u64), 0);
    let mut turned = Stored { values: api.allocate(36), ..stored };
    turned.others = api.allocate(36);
    call!(
        api, "cusparseCsr2cscEx2", handle => u64, 3 => i32, 3 => i32, 9 => i32, stored.values => u64, stored.lines => u64, stored.others => u64,
        turned.values => u64, ends => u64, turned.others => u64, 0 => u32, 1 => u32, 0 => u32, 1 => i32, sparse.buffer => u64,
    );
    // A matrix that says to be larger than all memory, and elements that are not in order.
    let large = Grid { rows: 2, columns: 1 << 40, at: Vec::new() };
    let (zeros, factor) = (sparse.up(&[0; 8]), 1f32);
    let coordinates = Storage { format: COO, ..PLAIN };
    let a = sparse.describe(coordinates, F32, &large, 2, [zeros, zeros, zeros], true);
    let x = sparse.describe_dense(
        F32,
        &Grid { rows: 1 << 40, columns: 1, at: Vec::new() },
        1 << 40,
        zeros,
        false,
    );
    let y = sparse.describe_dense(F32, &Grid { rows: 2, columns: 1, at: Vec::new() }, 2, zeros, false);
    let status = call!(
        api, "cusparseSpMM", handle => u64, 0 => u32, 0 => u32, &raw const factor => *const f32, a => u64, x => u64,
        &raw const factor => *const f32, y => u64, 0 => u32, 0 => i32, sparse.buffer => u64,
    );
    assert_eq!(status, 3);
    let backwards = sparse.up(&[1, 0, 0, 0, 0, 0, 0, 0]);
    let a = sparse.describe(coordinates, F32, &grid, 2, [backwards, zeros, zeros], true);
    assert_eq!(
        call!(api, "cusparseSparseToDense", handle => u64, a => u64, dense[0] => u64, 0 => i32, sparse.buffer => u64),
        0
    );
    // A scalar of the device with the pointer mode of the host.
    let (x, _) = sparse.vector(F32, &[ONE; 3]);
    let (of_sparse, _) = sparse.sparse_vector(PLAIN, F32, 3, &[1], &[ONE]);
    assert_eq!(
        call!(api, "cusparseAxpby", handle => u64, room => u64, of_sparse => u64, room => u64, x => u64),
        3
    );
}

#[test]
fn what_a_program_does_wrong_with_cusparse_is_found() {
    let output = exec(&[], "sparse::program_that_uses_a_part_of_a_vector");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(0) && text.contains("cusparseSpMV: 1 launch"), "{text}");
    let output = exec(&[], "sparse::program_that_uses_an_undefined_element_of_a_vector");
    let text = String::from_utf8_lossy(&output.stderr);
    let wanted = "it reads 4 bytes of the values of the dense operand that nothing has written, between bytes 12 and 15 of an allocation of 16 \
                  bytes";
    assert!(output.status.code() == Some(100) && text.contains(wanted), "{text}");
    let output = exec(&["--keep-going"], "sparse::program_that_misuses_cusparse");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(100), "{text}");
    for part in [
        "cusparseCreateBsr is not supported",
        "element 1 of the column indices of A is 4, but there are 4 columns, counted from 0",
        "it reads 12 bytes of the values of A that nothing has written, between bytes 24 and 35 of an allocation of 36 bytes",
        "it writes memory that is not there: 36 bytes",
        "offset 3 of A is 10, but offsets ascend, and there are 9 elements, counted from 0",
        "cusparseXcoo2csr: it reads memory that is not there: 12 bytes",
        "cusparseCsr2cscEx2: it reads memory that is not there: 36 bytes",
        "cusparseSpMM: it reads memory that is not there: 4398046511104 bytes",
        "cusparseSparseToDense: the rows of elements of a COO matrix are not in order",
        "the pointer mode is that of the host (cusparseSetPointerMode)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
