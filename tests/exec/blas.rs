//! Programs that call cuBLAS, whose functions lead to kernels of PTX. Every function that is served is called, for each type and with sizes of
//! 32 and 64 bits, and compared with its definition in 64 bits.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::api::{Api, call};
use crate::exec;

/// A complex number.
type Number = [f64; 2];

fn times(a: Number, b: Number) -> Number {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

fn plus(a: Number, b: Number) -> Number {
    [a[0] + b[0], a[1] + b[1]]
}

fn conjugate(a: Number) -> Number {
    [a[0], -a[1]]
}

/// A matrix by columns.
#[derive(Clone)]
struct Matrix {
    rows: usize,
    columns: usize,
    numbers: Vec<Number>,
}

impl Matrix {
    fn from_fn(rows: usize, columns: usize, number: impl Fn(usize, usize) -> Number) -> Self {
        let numbers = (0..columns).flat_map(|c| (0..rows).map(move |r| (r, c)));
        Self { rows, columns, numbers: numbers.map(|(r, c)| number(r, c)).collect() }
    }

    fn at(&self, row: usize, column: usize) -> Number {
        self.numbers[row + column * self.rows]
    }

    /// op(A) of a `cublasOperation_t`.
    fn operated(&self, operation: u64) -> Self {
        match operation {
            0 => self.clone(),
            1 => Self::from_fn(self.columns, self.rows, |r, c| self.at(c, r)),
            _ => Self::from_fn(self.columns, self.rows, |r, c| conjugate(self.at(c, r))),
        }
    }

    fn by(&self, other: &Self) -> Self {
        Self::from_fn(self.rows, other.columns, |r, c| {
            (0..self.columns).fold([0.0; 2], |sum, k| plus(sum, times(self.at(r, k), other.at(k, c))))
        })
    }

    fn scaled(&self, by: Number) -> Self {
        Self::from_fn(self.rows, self.columns, |r, c| times(by, self.at(r, c)))
    }

    fn plus(&self, other: &Self) -> Self {
        Self::from_fn(self.rows, self.columns, |r, c| plus(self.at(r, c), other.at(r, c)))
    }

    /// The matrix of which one triangle is stored here, or the triangle itself.
    fn completed_triangle(&self, is_upper: bool, kind: Kind) -> Self {
        let is_stored = |r: usize, c: usize| r == c || (r < c) == is_upper;
        Self::from_fn(self.rows, self.columns, |r, c| match (kind, is_stored(r, c)) {
            (Kind::Hermitian, true) if r == c => [self.at(r, c)[0], 0.0],
            (Kind::Unit, true) if r == c => [1.0, 0.0],
            (_, true) => self.at(r, c),
            (Kind::Symmetric, _) => self.at(c, r),
            (Kind::Hermitian, _) => conjugate(self.at(c, r)),
            (Kind::Triangle | Kind::Unit, _) => [0.0; 2],
        })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Symmetric,
    Hermitian,
    Triangle,
    Unit,
}

/// cuBLAS with elements of a type.
struct Blas<'a> {
    api: &'a Api,
    handle: u64,
    /// S, D, C or Z.
    letter: char,
    /// What names end in: nothing, or `_64`.
    suffix: &'static str,
    called: &'a RefCell<BTreeSet<String>>,
    seed: RefCell<u64>,
}

impl Blas<'_> {
    /// Calls a function with a handle; arguments that it does not have are ignored.
    fn status(&self, name: &str, arguments: &[u64]) -> i32 {
        self.called.borrow_mut().insert(name.to_owned());
        let mut a = [0u64; 23];
        a[..arguments.len()].copy_from_slice(arguments);
        call!(
            self.api, name, self.handle => u64, a[0] => u64, a[1] => u64, a[2] => u64, a[3] => u64, a[4] => u64, a[5] => u64, a[6] => u64,
            a[7] => u64, a[8] => u64, a[9] => u64, a[10] => u64, a[11] => u64, a[12] => u64, a[13] => u64, a[14] => u64, a[15] => u64,
            a[16] => u64, a[17] => u64, a[18] => u64, a[19] => u64, a[20] => u64, a[21] => u64, a[22] => u64,
        )
    }

    fn run(&self, name: &str, arguments: &[u64]) {
        let name = format!("{name}{}", self.suffix);
        assert_eq!(self.status(&name, arguments), 0, "{name}");
    }

    /// The name of a function with the letter of the type.
    fn named(&self, rest: &str) -> String {
        format!("cublas{}{rest}", self.letter)
    }

    fn is_complex(&self) -> bool {
        matches!(self.letter, 'C' | 'Z')
    }

    fn is_wide(&self) -> bool {
        matches!(self.letter, 'D' | 'Z')
    }

    /// A number of which every type has all bits.
    fn number(&self) -> Number {
        let part = || {
            let mut seed = self.seed.borrow_mut();
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((*seed >> 40) % 129) as f64 / 32.0 - 2.0
        };
        let re = part();
        [re, if self.is_complex() { part() } else { 0.0 }]
    }

    fn matrix(&self, rows: usize, columns: usize) -> Matrix {
        Matrix::from_fn(rows, columns, |_, _| self.number())
    }

    /// The bytes of numbers in the type.
    fn bytes(&self, numbers: &[Number]) -> Vec<u8> {
        let parts = if self.is_complex() { 2 } else { 1 };
        let wide = self.is_wide();
        let of = |x: &f64| if wide { x.to_le_bytes().to_vec() } else { (*x as f32).to_le_bytes().to_vec() };
        numbers.iter().flat_map(|number| number[..parts].iter().flat_map(of)).collect()
    }

    fn up(&self, numbers: &[Number]) -> u64 {
        let bytes = self.bytes(numbers);
        let at = self.api.allocate(bytes.len());
        assert_eq!(
            call!(self.api, "cuMemcpyHtoD_v2", at => u64, bytes.as_ptr() as u64 => u64, bytes.len() => usize),
            0
        );
        at
    }

    fn numbers(&self, words: &[u32]) -> Vec<Number> {
        let reals: Vec<f64> = if self.is_wide() {
            words.chunks(2).map(|w| f64::from_bits(u64::from(w[0]) | u64::from(w[1]) << 32)).collect()
        } else {
            words.iter().map(|w| f64::from(f32::from_bits(*w))).collect()
        };
        if self.is_complex() {
            reals.chunks(2).map(|r| [r[0], r[1]]).collect()
        } else {
            reals.into_iter().map(|r| [r, 0.0]).collect()
        }
    }

    fn down(&self, at: u64, count: usize) -> Vec<Number> {
        let words = self.bytes(&vec![[0.0; 2]; count]).len() / 4;
        self.numbers(&self.api.words(at, words))
    }

    /// Compares with the definition: rounding once for each of the at most 40 terms of these sizes.
    fn same(&self, what: &str, at: u64, wanted: &[Number]) {
        let unit = if self.is_wide() { f64::EPSILON } else { f64::from(f32::EPSILON) };
        for (n, (found, wanted)) in self.down(at, wanted.len()).iter().zip(wanted).enumerate() {
            let off = (found[0] - wanted[0]).hypot(found[1] - wanted[1]);
            let size = wanted[0].hypot(wanted[1]).max(16.0);
            assert!(
                off <= 64.0 * unit * size,
                "{}{what}{}: {n} is {found:?}, not {wanted:?}",
                self.letter,
                self.suffix
            );
        }
    }

    /// A scalar of the host.
    fn scalar(&self, number: Number) -> Vec<u8> {
        self.bytes(&[number])
    }

    fn products(&self) {
        let (m, n, k) = (7, 6, 5);
        let (alpha, beta) = (self.number(), self.number());
        let factors = (self.scalar(alpha), self.scalar(beta));
        let (at_alpha, at_beta) = (factors.0.as_ptr() as u64, factors.1.as_ptr() as u64);
        for (op_a, op_b) in [(0, 0), (1, 0), (0, 1), (2, 2), (1, 2)] {
            let sized = |op: u64, r, c| if op == 0 { self.matrix(r, c) } else { self.matrix(c, r) };
            let (a, b, c) = (sized(op_a, m, k), sized(op_b, k, n), self.matrix(m, n));
            let wanted = a.operated(op_a).by(&b.operated(op_b)).scaled(alpha).plus(&c.scaled(beta));
            let (lda, ldb) = (a.rows as u64, b.rows as u64);
            let size = [op_a, op_b, m as u64, n as u64, k as u64, at_alpha];
            let places = || [self.up(&a.numbers), self.up(&b.numbers), self.up(&c.numbers)];
            let mut names = vec![self.named("gemm_v2")];
            names.extend(self.is_complex().then(|| self.named("gemm3m")));
            for name in names {
                let [a, b, c] = places();
                self.run(&name, &[&size[..], &[a, lda, b, ldb, at_beta, c, m as u64]].concat());
                self.same("gemm", c, &wanted.numbers);
            }
            let twice = |matrix: &Matrix| self.up(&[&matrix.numbers[..], &matrix.numbers[..]].concat());
            let (many_a, many_b, many_c) = (twice(&a), twice(&b), twice(&c));
            let stride = |matrix: &Matrix| matrix.numbers.len() as u64;
            let both = [&wanted.numbers[..], &wanted.numbers[..]].concat();
            self.run(
                &self.named("gemmStridedBatched"),
                &[
                    &size[..],
                    &[
                        many_a,
                        lda,
                        stride(&a),
                        many_b,
                        ldb,
                        stride(&b),
                        at_beta,
                        many_c,
                        m as u64,
                        stride(&c),
                        2,
                    ],
                ]
                .concat(),
            );
            self.same("gemmStridedBatched", many_c, &both);
            let [one, two] = [places(), places()];
            let lists: Vec<u64> = (0..3).map(|n| self.list(&[one[n], two[n]])).collect();
            self.run(
                &self.named("gemmBatched"),
                &[&size[..], &[lists[0], lda, lists[1], ldb, at_beta, lists[2], m as u64, 2]].concat(),
            );
            self.same("gemmBatched", one[2], &wanted.numbers);
            self.same("gemmBatched", two[2], &wanted.numbers);
            let code = if self.is_wide() { 1 } else { 0 } + if self.is_complex() { 4 } else { 0 };
            let [a, b, c] = places();
            let compute = if self.is_wide() { 70 } else { 68 };
            self.run(
                "cublasGemmEx",
                &[&size[..], &[a, code, lda, b, code, ldb, at_beta, c, code, m as u64, compute, 0]].concat(),
            );
            self.same("GemmEx", c, &wanted.numbers);
            if !self.is_wide() {
                let [a, b, c] = places();
                self.run(
                    &self.named("gemmEx"),
                    &[&size[..], &[a, code, lda, b, code, ldb, at_beta, c, code, m as u64]].concat(),
                );
                self.same("gemmEx", c, &wanted.numbers);
            }
        }
    }

    /// A list of addresses in device memory.
    fn list(&self, addresses: &[u64]) -> u64 {
        let at = self.api.allocate(8 * addresses.len());
        let bytes = 8 * addresses.len();
        assert_eq!(
            call!(self.api, "cuMemcpyHtoD_v2", at => u64, addresses.as_ptr() as u64 => u64, bytes => usize),
            0
        );
        at
    }

    fn with_vectors(&self) {
        let (m, n) = (6, 5);
        let (alpha, beta) = (self.number(), self.number());
        let factors = (self.scalar(alpha), self.scalar(beta));
        let (at_alpha, at_beta) = (factors.0.as_ptr() as u64, factors.1.as_ptr() as u64);
        for op in 0..3 {
            let (a, rows, k) =
                (self.matrix(m, n), [m, n][usize::from(op != 0)], [n, m][usize::from(op != 0)]);
            let (x, y) = (self.matrix(k, 1), self.matrix(rows, 1));
            let wanted = a.operated(op).by(&x).scaled(alpha).plus(&y.scaled(beta));
            let size = [op, m as u64, n as u64, at_alpha];
            let places = || [self.up(&a.numbers), self.up(&x.numbers), self.up(&y.numbers)];
            let [at_a, at_x, at_y] = places();
            self.run(
                &self.named("gemv_v2"),
                &[&size[..], &[at_a, m as u64, at_x, 1, at_beta, at_y, 1]].concat(),
            );
            self.same("gemv", at_y, &wanted.numbers);
            let [at_a, at_x, at_y] = places();
            let apart = [at_a, m as u64, 30, at_x, 1, k as u64, at_beta, at_y, 1, rows as u64, 1];
            self.run(&self.named("gemvStridedBatched"), &[&size[..], &apart].concat());
            self.same("gemvStridedBatched", at_y, &wanted.numbers);
            let [at_a, at_x, at_y] = places();
            let lists =
                [self.list(&[at_a]), m as u64, self.list(&[at_x]), 1, at_beta, self.list(&[at_y]), 1, 1];
            self.run(&self.named("gemvBatched"), &[&size[..], &lists].concat());
            self.same("gemvBatched", at_y, &wanted.numbers);
        }
        let mut names = vec![(if self.is_complex() { "geru_v2" } else { "ger_v2" }, 1)];
        names.extend(self.is_complex().then_some(("gerc_v2", 2)));
        for (name, op) in names {
            let (x, y, a) = (self.matrix(m, 1), self.matrix(n, 1), self.matrix(m, n));
            let wanted = x.by(&y.operated(op)).scaled(alpha).plus(&a);
            let at_a = self.up(&a.numbers);
            // The second vector lies backwards.
            let turned: Vec<Number> = y.numbers.iter().rev().copied().collect();
            let places = [self.up(&x.numbers), 1, self.up(&turned), (-1i64) as u64, at_a, m as u64];
            self.run(&self.named(name), &[&[m as u64, n as u64, at_alpha][..], &places].concat());
            self.same(name, at_a, &wanted.numbers);
        }
    }

    fn with_triangles(&self) {
        let (m, n) = (5, 4);
        let (alpha, beta) = (self.number(), self.number());
        let (factors, reals) = ((self.scalar(alpha), self.scalar(beta)), ([alpha[0], 0.0], [beta[0], 0.0]));
        let (at_alpha, at_beta) = (factors.0.as_ptr() as u64, factors.1.as_ptr() as u64);
        let mut kinds = vec![("sy", Kind::Symmetric)];
        kinds.extend(self.is_complex().then_some(("he", Kind::Hermitian)));
        for (upper, (word, kind)) in
            [0, 1].into_iter().flat_map(|upper| kinds.clone().into_iter().map(move |k| (upper, k)))
        {
            for side in 0..2 {
                let order = [m, n][side as usize];
                let (a, b, c) = (self.matrix(order, order), self.matrix(m, n), self.matrix(m, n));
                let whole = a.completed_triangle(upper == 1, kind);
                let product = if side == 0 { whole.by(&b) } else { b.by(&whole) };
                let wanted = product.scaled(alpha).plus(&c.scaled(beta));
                let at_c = self.up(&c.numbers);
                self.run(
                    &self.named(&format!("{word}mm_v2")),
                    &[
                        side,
                        upper,
                        m as u64,
                        n as u64,
                        at_alpha,
                        self.up(&a.numbers),
                        order as u64,
                        self.up(&b.numbers),
                        m as u64,
                        at_beta,
                        at_c,
                        m as u64,
                    ],
                );
                self.same(word, at_c, &wanted.numbers);
            }
            let (a, x, y) = (self.matrix(m, m), self.matrix(m, 1), self.matrix(m, 1));
            let wanted = a.completed_triangle(upper == 1, kind).by(&x).scaled(alpha).plus(&y.scaled(beta));
            let at_y = self.up(&y.numbers);
            self.run(
                &self.named(&format!("{word}mv_v2")),
                &[
                    upper,
                    m as u64,
                    at_alpha,
                    self.up(&a.numbers),
                    m as u64,
                    self.up(&x.numbers),
                    1,
                    at_beta,
                    at_y,
                    1,
                ],
            );
            self.same("mv", at_y, &wanted.numbers);
            let other = if kind == Kind::Hermitian { 2 } else { 1 };
            for op in [0, other] {
                let (a, c) = (if op == 0 { self.matrix(m, n) } else { self.matrix(n, m) }, self.matrix(m, m));
                let wide = a.operated(op);
                let (alpha, beta) = if kind == Kind::Hermitian { reals } else { (alpha, beta) };
                let whole = wide.by(&wide.operated(other)).scaled(alpha).plus(&c.scaled(beta));
                let wanted = Matrix::from_fn(m, m, |r, q| match (r == q, (r < q) == (upper == 1)) {
                    (true, _) if kind == Kind::Hermitian => [whole.at(r, q)[0], 0.0],
                    (true, _) | (_, true) => whole.at(r, q),
                    _ => c.at(r, q),
                });
                let at_c = self.up(&c.numbers);
                self.run(
                    &self.named(&format!("{word}rk_v2")),
                    &[
                        upper,
                        op,
                        m as u64,
                        n as u64,
                        at_alpha,
                        self.up(&a.numbers),
                        a.rows as u64,
                        at_beta,
                        at_c,
                        m as u64,
                    ],
                );
                self.same("rk", at_c, &wanted.numbers);
            }
        }
        self.systems((m, n), alpha, at_alpha);
    }

    /// Triangular products and systems: a system with the product as its right side has the factor as its solution.
    fn systems(&self, (m, n): (usize, usize), alpha: Number, at_alpha: u64) {
        let one = self.scalar([1.0, 0.0]);
        for bits in 0..24u64 {
            let (side, upper, unit, op) = (bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3);
            let order = [m, n][side as usize];
            let kind = if unit == 1 { Kind::Unit } else { Kind::Triangle };
            // Diagonals are far from zero.
            let a = self.matrix(order, order);
            let a = Matrix::from_fn(order, order, |r, c| {
                if r == c { [4.0, 0.0] } else { times([0.25, 0.0], a.at(r, c)) }
            });
            let (b, triangle) = (self.matrix(m, n), a.completed_triangle(upper == 1, kind).operated(op));
            let product = if side == 0 { triangle.by(&b) } else { b.by(&triangle) };
            let (at_a, at_b, at_c) = (self.up(&a.numbers), self.up(&b.numbers), self.up(&b.numbers));
            let head = [side, upper, op, unit, m as u64, n as u64];
            self.run(
                &self.named("trmm_v2"),
                &[&head[..], &[at_alpha, at_a, order as u64, at_b, m as u64, at_c, m as u64]].concat(),
            );
            self.same("trmm", at_c, &product.scaled(alpha).numbers);
            let wanted = b.numbers.clone();
            for batched in [false, true] {
                let at = self.up(&product.numbers);
                let (name, a, b) = if batched {
                    ("trsmBatched", self.list(&[at_a]), self.list(&[at]))
                } else {
                    ("trsm_v2", at_a, at)
                };
                self.run(
                    &self.named(name),
                    &[&head[..], &[one.as_ptr() as u64, a, order as u64, b, m as u64, 1]].concat(),
                );
                self.same(name, at, &wanted);
            }
            if side == 0 {
                let x = self.matrix(m, 1);
                let at = self.up(&triangle.by(&x).numbers);
                self.run(&self.named("trsv_v2"), &[upper, op, unit, m as u64, at_a, m as u64, at, 1]);
                self.same("trsv", at, &x.numbers);
            }
        }
    }

    fn elementwise(&self) {
        let (m, n) = (5, 4);
        let (alpha, beta) = (self.number(), self.number());
        let factors = (self.scalar(alpha), self.scalar(beta));
        let (at_alpha, at_beta) = (factors.0.as_ptr() as u64, factors.1.as_ptr() as u64);
        for (op_a, op_b) in [(0, 1), (2, 0)] {
            let sized = |op: u64| if op == 0 { self.matrix(m, n) } else { self.matrix(n, m) };
            let (a, b, at_c) = (sized(op_a), sized(op_b), self.up(&self.matrix(m, n).numbers));
            let places = [
                at_alpha,
                self.up(&a.numbers),
                a.rows as u64,
                at_beta,
                self.up(&b.numbers),
                b.rows as u64,
                at_c,
                m as u64,
            ];
            self.run(&self.named("geam"), &[&[op_a, op_b, m as u64, n as u64][..], &places].concat());
            self.same(
                "geam",
                at_c,
                &a.operated(op_a).scaled(alpha).plus(&b.operated(op_b).scaled(beta)).numbers,
            );
        }
        for side in 0..2 {
            let (a, x) = (self.matrix(m, n), self.matrix([m, n][side as usize], 1));
            let at_c = self.up(&self.matrix(m, n).numbers);
            self.run(
                &self.named("dgmm"),
                &[
                    side,
                    m as u64,
                    n as u64,
                    self.up(&a.numbers),
                    m as u64,
                    self.up(&x.numbers),
                    1,
                    at_c,
                    m as u64,
                ],
            );
            let wanted =
                Matrix::from_fn(m, n, |r, c| times(a.at(r, c), x.numbers[if side == 0 { r } else { c }]));
            self.same("dgmm", at_c, &wanted.numbers);
        }
    }

    fn vectors(&self) {
        let n = 40;
        let (alpha, x, y) = (self.number(), self.matrix(n, 1), self.matrix(n, 1));
        let (count, at_alpha) = (n as u64, self.scalar(alpha));
        let at_alpha = at_alpha.as_ptr() as u64;
        let (at_x, at_y) = (self.up(&x.numbers), self.up(&y.numbers));
        self.run(&self.named("axpy_v2"), &[count, at_alpha, at_x, 1, at_y, 1]);
        let mut y = x.scaled(alpha).plus(&y);
        self.same("axpy", at_y, &y.numbers);
        self.run(&self.named("swap_v2"), &[count, at_x, 1, at_y, 1]);
        self.same("swap", at_x, &y.numbers);
        self.same("swap", at_y, &x.numbers);
        let x = y.clone();
        self.run(&self.named("copy_v2"), &[count, at_x, 1, at_y, 1]);
        self.same("copy", at_y, &x.numbers);
        self.run(&self.named("scal_v2"), &[count, at_alpha, at_y, 1]);
        y = y.scaled(alpha);
        self.same("scal", at_y, &y.numbers);
        self.rotated((at_x, &x), (at_y, &y));
        let (at_x, at_y) = (self.up(&x.numbers), self.up(&y.numbers));
        let dot = |op| x.operated(op).by(&y).numbers[0];
        let kinds =
            if self.is_complex() { vec![("dotu_v2", 1), ("dotc_v2", 2)] } else { vec![("dot_v2", 1)] };
        for (name, op) in kinds {
            self.run_result(&self.named(name), &[count, at_x, 1, at_y, 1], dot(op));
        }
        let of_real = |wanted: f64| [wanted, 0.0];
        let word = match self.letter {
            'C' => "Sc",
            'Z' => "Dz",
            'S' => "S",
            _ => "D",
        };
        let square: f64 = x.numbers.iter().map(|v| v[0] * v[0] + v[1] * v[1]).sum();
        let size = |v: &Number| v[0].abs() + v[1].abs();
        self.run_real(&format!("cublas{word}nrm2_v2"), &[count, at_x, 1], of_real(square.sqrt()));
        self.run_real(
            &format!("cublas{word}asum_v2"),
            &[count, at_x, 1],
            of_real(x.numbers.iter().map(size).sum()),
        );
        let sizes: Vec<f64> = x.numbers.iter().map(size).collect();
        let place = |wanted: f64| sizes.iter().position(|size| *size == wanted).unwrap() as i64 + 1;
        let letter = self.letter.to_ascii_lowercase();
        for (word, wanted) in [("max", f64::max as fn(f64, f64) -> f64), ("min", f64::min)] {
            let mut found = 0i64;
            let wanted = place(sizes.iter().copied().reduce(wanted).unwrap());
            self.run(&format!("cublasI{letter}a{word}_v2"), &[count, at_x, 1, &raw mut found as u64]);
            assert_eq!(found, wanted);
        }
    }

    fn rotated(&self, (at_x, x): (u64, &Matrix), (at_y, y): (u64, &Matrix)) {
        let real = |value: f64| {
            if self.is_wide() { value.to_le_bytes().to_vec() } else { (value as f32).to_le_bytes().to_vec() }
        };
        let count = x.rows as u64;
        let (c, s) = ([0.5, 0.0], self.number());
        let (at_c, at_s) = (real(c[0]), self.scalar(s));
        self.run(
            &self.named("rot_v2"),
            &[count, at_x, 1, at_y, 1, at_c.as_ptr() as u64, at_s.as_ptr() as u64],
        );
        let turned = |s: Number| {
            (x.scaled(c).plus(&y.scaled(s)), y.scaled(c).plus(&x.scaled(times([-1.0, 0.0], conjugate(s)))))
        };
        let (new_x, new_y) = turned(s);
        self.same("rot", at_x, &new_x.numbers);
        self.same("rot", at_y, &new_y.numbers);
        if !self.is_complex() {
            return;
        }
        let (at_x, at_y, s) = (self.up(&x.numbers), self.up(&y.numbers), [0.25, 0.0]);
        let at_s = real(s[0]);
        let word = if self.is_wide() { "cublasZdrot_v2" } else { "cublasCsrot_v2" };
        self.run(word, &[count, at_x, 1, at_y, 1, at_c.as_ptr() as u64, at_s.as_ptr() as u64]);
        let (new_x, new_y) = turned(s);
        self.same("rot", at_x, &new_x.numbers);
        self.same("rot", at_y, &new_y.numbers);
        let word = if self.is_wide() { "cublasZdscal_v2" } else { "cublasCsscal_v2" };
        self.run(word, &[count, at_s.as_ptr() as u64, at_x, 1]);
        self.same("scal", at_x, &new_x.scaled(s).numbers);
    }

    /// Compares a result of the host, and one of the device.
    fn run_result(&self, name: &str, arguments: &[u64], wanted: Number) {
        let mut place = [0u32; 4];
        self.run(name, &[arguments, &[place.as_mut_ptr() as u64]].concat());
        let at = self.up(&[[0.0; 2]]);
        let len = self.scalar(wanted).len();
        assert_eq!(
            call!(self.api, "cuMemcpyHtoD_v2", at => u64, place.as_ptr() as u64 => u64, len => usize),
            0
        );
        self.same(name, at, &[wanted]);
        let at = self.up(&[[0.0; 2]]);
        assert_eq!(self.status("cublasSetPointerMode_v2", &[1]), 0);
        self.run(name, &[arguments, &[at]].concat());
        assert_eq!(self.status("cublasSetPointerMode_v2", &[0]), 0);
        self.same(name, at, &[wanted]);
    }

    /// [`Blas::run_result`] of a result that is real.
    fn run_real(&self, name: &str, arguments: &[u64], wanted: Number) {
        let letter = if self.is_wide() { 'D' } else { 'S' };
        Blas { letter, seed: RefCell::new(0), ..*self }.run_result(name, arguments, wanted);
    }
}

/// A small integer in binary16: the exponent has another bias, and the fraction loses zeros.
fn half(value: f32) -> u16 {
    if value == 0.0 { 0 } else { ((value.to_bits() >> 13) - (112 << 10)) as u16 }
}

/// Functions for types of 8 and 16 bits, whose small integers are exact.
fn short_types(blas: &Blas<'_>) {
    let (m, n, k) = (4u64, 3u64, 2u64);
    let (f16, bf16) = ([0x0000u16, 0x3C00, 0x4000, 0x4200], [0x0000u16, 0x3F80, 0x4000, 0x4040]);
    let up = |bytes: &[u8]| {
        let at = blas.api.allocate(bytes.len().next_multiple_of(4));
        assert_eq!(
            call!(blas.api, "cuMemcpyHtoD_v2", at => u64, bytes.as_ptr() as u64 => u64, bytes.len() => usize),
            0
        );
        at
    };
    let integers =
        |count: u64, salt: u64| (0..count).map(|n| ((n * 7 + salt) % 4) as usize).collect::<Vec<_>>();
    let (a, b) = (integers(m * k, 1), integers(k * n, 2));
    let product: Vec<usize> = (0..n)
        .flat_map(|c| (0..m).map(move |r| (r, c)))
        .map(|(r, c)| (0..k).map(|l| a[(r + l * m) as usize] * b[(l + c * k) as usize]).sum())
        .collect();
    let shorts =
        |table: [u16; 4], of: &[usize]| of.iter().flat_map(|v| table[*v].to_le_bytes()).collect::<Vec<u8>>();
    let (one, zero, whole) =
        (1f32.to_le_bytes(), 0f32.to_le_bytes(), (1i32.to_le_bytes(), 0i32.to_le_bytes()));
    let halves = ([0x00u8, 0x3C], [0u8, 0]);
    let bytes = |of: &[usize]| of.iter().map(|v| *v as u8).collect::<Vec<u8>>();
    for (code, c, compute, at_a, at_b) in [
        (2, 0, 68, up(&shorts(f16, &a)), up(&shorts(f16, &b))),
        (2, 2, 68, up(&shorts(f16, &a)), up(&shorts(f16, &b))),
        (2, 2, 64, up(&shorts(f16, &a)), up(&shorts(f16, &b))),
        (14, 0, 68, up(&shorts(bf16, &a)), up(&shorts(bf16, &b))),
        (14, 14, 68, up(&shorts(bf16, &a)), up(&shorts(bf16, &b))),
        (3, 10, 72, up(&bytes(&a)), up(&bytes(&b))),
        (3, 0, 68, up(&bytes(&a)), up(&bytes(&b))),
    ] {
        let (alpha, beta) = match compute {
            64 => (halves.0.as_ptr(), halves.1.as_ptr()),
            72 => (whole.0.as_ptr(), whole.1.as_ptr()),
            _ => (one.as_ptr(), zero.as_ptr()),
        };
        let wanted: Vec<u8> = product
            .iter()
            .flat_map(|v| match c {
                0 => (*v as f32).to_le_bytes().to_vec(),
                10 => (*v as i32).to_le_bytes().to_vec(),
                2 => half(*v as f32).to_le_bytes().to_vec(),
                _ => (((*v as f32).to_bits() >> 16) as u16).to_le_bytes().to_vec(),
            })
            .collect();
        let results = [(); 3].map(|()| blas.api.allocate(wanted.len()));
        let head = [0, 0, m, n, k, alpha as u64];
        let tail = [compute, 0];
        blas.run(
            "cublasGemmEx",
            &[&head[..], &[at_a, code, m, at_b, code, k, beta as u64, results[0], c, m], &tail].concat(),
        );
        blas.run(
            "cublasGemmStridedBatchedEx",
            &[&head[..], &[at_a, code, m, 0, at_b, code, k, 0, beta as u64, results[1], c, m, 0, 1], &tail]
                .concat(),
        );
        let lists = [blas.list(&[at_a]), blas.list(&[at_b]), blas.list(&[results[2]])];
        blas.run(
            "cublasGemmBatchedEx",
            &[&head[..], &[lists[0], code, m, lists[1], code, k, beta as u64, lists[2], c, m, 1], &tail]
                .concat(),
        );
        for at in results {
            let found: Vec<u8> =
                blas.api.words(at, wanted.len() / 4).iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(found, wanted, "{code} {c} {compute}");
        }
    }
    let (at_a, at_b) = (up(&shorts(f16, &a)), up(&shorts(f16, &b)));
    let c = blas.api.allocate((2 * m * n) as usize);
    let (alpha, beta) = (halves.0.as_ptr() as u64, halves.1.as_ptr() as u64);
    blas.run("cublasHgemm", &[0, 0, m, n, k, alpha, at_a, m, at_b, k, beta, c, m]);
    blas.run("cublasHgemmStridedBatched", &[0, 0, m, n, k, alpha, at_a, m, 0, at_b, k, 0, beta, c, m, 0, 1]);
    let lists = [blas.list(&[at_a]), blas.list(&[at_b]), blas.list(&[c])];
    blas.run("cublasHgemmBatched", &[0, 0, m, n, k, alpha, lists[0], m, lists[1], k, beta, lists[2], m, 1]);
    // 1 + 4 + 9 of vectors of 16 bits.
    let x = up(&shorts(f16, &[1, 2, 3, 0]));
    for (name, wanted) in [("cublasDotEx", 0x4B00u16), ("cublasDotcEx", 0x4B00)] {
        let mut found = 0u16;
        blas.run(name, &[4, x, 2, 1, x, 2, 1, &raw mut found as u64, 2, 0]);
        assert_eq!(found, wanted, "{name}");
    }
    let mut norm = 0u16;
    blas.run("cublasNrm2Ex", &[2, up(&shorts(f16, &[3, 0])), 2, 1, &raw mut norm as u64, 2, 0]);
    assert_eq!(norm, 0x4200);
    blas.run("cublasScalEx", &[4, one.as_ptr() as u64, 0, x, 2, 1, 0]);
    blas.run("cublasAxpyEx", &[4, one.as_ptr() as u64, 0, x, 2, 1, x, 2, 1, 0]);
    assert_eq!(blas.api.words(x, 2), [0x4400_4000, 0x0000_4600]);
}

/// What has no arithmetic: settings, copies, and what is refused.
fn settings(blas: &Blas<'_>) {
    let mut word = 0i32;
    let at = &raw mut word as u64;
    for (set, get, value) in [
        ("cublasSetPointerMode_v2", "cublasGetPointerMode_v2", 1),
        ("cublasSetPointerMode_v2", "cublasGetPointerMode_v2", 0),
        ("cublasSetMathMode", "cublasGetMathMode", 3),
        ("cublasSetAtomicsMode", "cublasGetAtomicsMode", 1),
        ("cublasSetSmCountTarget", "cublasGetSmCountTarget", 8),
    ] {
        assert_eq!((blas.status(set, &[value]), blas.status(get, &[at])), (0, 0), "{set}");
        assert_eq!(word, value as i32, "{set}");
    }
    assert_eq!(blas.status("cublasSetPointerMode_v2", &[2]), 7);
    let (stream, mut found) = (blas.api.stream(), 0u64);
    assert_eq!(blas.status("cublasSetStream_v2", &[stream]), 0);
    assert_eq!((blas.status("cublasGetStream_v2", &[&raw mut found as u64]), found), (0, stream));
    assert_eq!(blas.status("cublasSetStream_v2", &[0]), 0);
    assert_eq!(
        (blas.status("cublasSetWorkspace_v2", &[0, 0]), blas.status("cublasGetVersion_v2", &[at])),
        (0, 0)
    );
    assert!(word >= 120_000, "{word}");
    // A column of a matrix of three rows, and back.
    let (three, mut back) = ([1u32, 2, 3, 4, 5, 6], [0u32; 6]);
    for (suffix, stream) in [("", false), ("_64", false), ("", true), ("_64", true)] {
        let name = |word: &str| format!("cublas{word}{}{suffix}", if stream { "Async" } else { "" });
        let device = blas.api.allocate(24);
        for (set, get, is_matrix) in [("SetMatrix", "GetMatrix", true), ("SetVector", "GetVector", false)] {
            back = [0; 6];
            let (from, to) = (three.as_ptr() as u64, back.as_mut_ptr() as u64);
            let plain = |name: &str, from: u64, of_from: u64, to: u64, of_to: u64| {
                blas.called.borrow_mut().insert(name.to_owned());
                let code = if is_matrix {
                    call!(blas.api, name, 2 => u64, 2 => u64, 4 => u64, from => u64, of_from => u64, to => u64, of_to => u64, 0 => u64)
                } else {
                    call!(blas.api, name, 2 => u64, 4 => u64, from => u64, of_from => u64, to => u64, of_to => u64, 0 => u64)
                };
                assert_eq!(code, 0, "{name}");
            };
            plain(&name(set), from, 3, device, 2);
            plain(&name(get), device, 2, to, 3);
            assert_eq!(back, if is_matrix { [1, 2, 0, 4, 5, 0] } else { [1, 0, 0, 4, 0, 0] }, "{set}");
        }
    }
    let _ = back;
    for (name, wanted) in [
        ("cublasGetProperty", 0),
        ("cublasLoggerConfigure", 0),
        ("cublasSetLoggerCallback", 0),
        ("cublasGetLoggerCallback", 0),
    ] {
        blas.called.borrow_mut().insert(name.to_owned());
        let code = if name == "cublasGetLoggerCallback" {
            call!(blas.api, name, &raw mut found => *mut u64)
        } else {
            call!(blas.api, name, 0 => u64, at => u64, 0 => u64, 0 => u64)
        };
        assert_eq!(code, wanted, "{name}");
    }
    for name in ["cublasGetStatusName", "cublasGetStatusString"] {
        blas.called.borrow_mut().insert(name.to_owned());
        let text = blas.api.function::<unsafe extern "C" fn(i32) -> *const std::ffi::c_char>(name);
        // SAFETY: the function returns a text that stays.
        let text = unsafe { std::ffi::CStr::from_ptr(text(15)) };
        assert_eq!(text.to_bytes(), b"CUBLAS_STATUS_NOT_SUPPORTED");
    }
    blas.called.borrow_mut().insert("cublasGetCudartVersion".to_owned());
    assert!(call!(blas.api, "cublasGetCudartVersion",) >= 12_000);
    // A negative size, a distance below the number of rows, a null scalar, an operation that is none.
    let one = 1f32.to_le_bytes();
    let scalar = one.as_ptr() as u64;
    let matrix = blas.up(&[[1.0, 0.0]; 16]);
    for arguments in [
        [0, 0, (-1i64) as u64, 4, 4, scalar, matrix, 4, matrix, 4, scalar, matrix, 4],
        [0, 0, 4, 4, 4, scalar, matrix, 3, matrix, 4, scalar, matrix, 4],
        [0, 0, 4, 4, 4, 0, matrix, 4, matrix, 4, scalar, matrix, 4],
        [9, 0, 4, 4, 4, scalar, matrix, 4, matrix, 4, scalar, matrix, 4],
    ] {
        assert_eq!(blas.status("cublasSgemm_v2", &arguments), 7, "{arguments:?}");
    }
}

/// The served names: those that the table lists in brackets, and those without a handle.
fn served() -> BTreeSet<String> {
    let text = include_str!("../../crates/cuda/src/libraries/blas/functions.rs");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !is_word(c)).filter(|word| word.starts_with("cublas") && word.len() > 6);
    words
        .filter(|word| word.as_bytes()[6].is_ascii_uppercase() && !word.ends_with("_t"))
        .map(str::to_owned)
        .collect()
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_calls_cublas() {
    let api = Api::open("libcublas.so.13");
    api.enter();
    let called = RefCell::new(BTreeSet::from(["cublasCreate_v2".to_owned()]));
    let mut handle = 0u64;
    assert_eq!(call!(api, "cublasCreate_v2", &raw mut handle => *mut u64), 0);
    for (letter, suffix) in "SDCZ".chars().flat_map(|letter| [(letter, ""), (letter, "_64")]) {
        let blas =
            Blas { api: &api, handle, letter, suffix, called: &called, seed: RefCell::new(letter as u64) };
        blas.products();
        blas.with_vectors();
        blas.with_triangles();
        blas.elementwise();
        blas.vectors();
        if letter == 'S' {
            short_types(&blas);
            settings(&blas);
        }
    }
    let blas = Blas { api: &api, handle, letter: 'S', suffix: "", called: &called, seed: RefCell::new(1) };
    assert_eq!(blas.status("cublasDestroy_v2", &[]), 0);
    assert_eq!(blas.status("cublasDestroy_v2", &[]), 1, "a handle that is gone");
    let called =
        called.borrow().iter().map(|name| name.trim_end_matches("_none").to_owned()).collect::<BTreeSet<_>>();
    let without: Vec<_> = served().difference(&called).cloned().collect();
    assert!(without.is_empty(), "not called: {without:?}");
}

#[test]
fn cublas_is_served_by_its_definition() {
    let output = exec(&[], "blas::program_that_calls_cublas");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_misuses_cublas() {
    let api = Api::open("libcublas.so.12");
    api.enter();
    let (called, mut handle) = (RefCell::new(BTreeSet::new()), 0u64);
    assert_eq!(call!(api, "cublasCreate_v2", &raw mut handle => *mut u64), 0);
    let blas = Blas { api: &api, handle, letter: 'S', suffix: "", called: &called, seed: RefCell::new(1) };
    let one = 1f32.to_le_bytes();
    let (scalar, matrix) = (one.as_ptr() as u64, blas.up(&[[1.0, 0.0]; 16]));
    // A scalar of the device in the host's mode; an inverse, which is not served; five columns of a matrix of four.
    assert_eq!(blas.status("cublasSscal_v2", &[4, matrix, matrix, 1]), 7);
    assert_eq!(blas.status("cublasSgetriBatched", &[]), 15);
    let result = blas.up(&[[0.0; 2]; 20]);
    blas.status("cublasSgemm_v2", &[0, 0, 4, 5, 4, scalar, matrix, 4, matrix, 4, scalar, result, 4]);
}

#[test]
fn what_a_program_does_wrong_with_cublas_is_found() {
    let output = exec(&[], "blas::program_that_misuses_cublas");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(100), "{text}");
    for part in [
        "the pointer mode is that of the host",
        "cublasSgetriBatched is not supported",
        "byte 64 of an allocation of 64 bytes; kernel cublas_gemm_f32",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
