//! Programs that call cublasLt, whose products lead to the kernels of cuBLAS. Every function that is served is called, and products are
//! compared with their definition in 64 bits for each type, order, epilogue and batch.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};

use crate::api::{Api, call};
use crate::exec;

type Number = [f64; 2];

// Numbers of `cudaDataType`.
const F32: u32 = 0;
const F64: u32 = 1;
const F16: u32 = 2;
const I8: u32 = 3;
const C32: u32 = 4;
const C64: u32 = 5;
const I32: u32 = 10;
const BF16: u32 = 14;

const INVALID_VALUE: i32 = 7;
const NOT_SUPPORTED: i32 = 15;

fn times(a: Number, b: Number) -> Number {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

fn plus(a: Number, b: Number) -> Number {
    [a[0] + b[0], a[1] + b[1]]
}

const fn is_complex(ty: u32) -> bool {
    matches!(ty, C32 | C64)
}

/// The bytes of a number, which the type has exactly.
fn encoded(ty: u32, [re, im]: Number) -> Vec<u8> {
    match ty {
        F32 => (re as f32).to_le_bytes().to_vec(),
        F64 => re.to_le_bytes().to_vec(),
        F16 => {
            let bits = (re as f32).to_bits();
            let size = if re == 0.0 { 0 } else { (((bits << 1) >> 14) - (112 << 10)) as u16 };
            (size | ((bits >> 16) as u16 & 0x8000)).to_le_bytes().to_vec()
        }
        I8 => vec![(re as i8).cast_unsigned()],
        C32 => [encoded(F32, [re, 0.0]), encoded(F32, [im, 0.0])].concat(),
        C64 => [encoded(F64, [re, 0.0]), encoded(F64, [im, 0.0])].concat(),
        I32 => (re as i32).to_le_bytes().to_vec(),
        _ => (((re as f32).to_bits() >> 16) as u16).to_le_bytes().to_vec(),
    }
}

fn size(ty: u32) -> usize {
    encoded(ty, [0.0; 2]).len()
}

fn decoded(ty: u32, bytes: &[u8]) -> Number {
    let four = || <[u8; 4]>::try_from(bytes).unwrap();
    let two = || u32::from(u16::from_le_bytes(bytes.try_into().unwrap()));
    let re = match ty {
        F32 => f64::from(f32::from_le_bytes(four())),
        F64 => f64::from_le_bytes(bytes.try_into().unwrap()),
        F16 => f64::from(numerics::Format::F16.decode(two())),
        I32 => f64::from(i32::from_le_bytes(four())),
        BF16 => f64::from(f32::from_bits(two() << 16)),
        C32 | C64 => {
            let (real, half) = (ty - C32, bytes.len() / 2);
            return [decoded(real, &bytes[..half])[0], decoded(real, &bytes[half..])[0]];
        }
        _ => f64::from(bytes[0].cast_signed()),
    };
    [re, 0.0]
}

/// How far a result may be off: half a unit of the type where it is short, so that it is rounded once.
fn unit(ty: u32) -> f64 {
    match ty {
        F32 | C32 => 4e-6,
        F64 | C64 => 1e-14,
        F16 => 4.91e-4,
        BF16 => 3.93e-3,
        _ => 0.0,
    }
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x.powi(3))).tanh())
}

/// A batch of matrices in memory of the device, with bytes that are none of theirs between columns (or rows) and matrices.
struct Matrix {
    ty: u32,
    rows: usize,
    columns: usize,
    by_rows: bool,
    numbers: Vec<Vec<Number>>,
    at: u64,
}

const FILL: u8 = 0x33;

impl Matrix {
    fn leading(&self) -> usize {
        1 + if self.by_rows { self.columns } else { self.rows }
    }

    fn stride(&self) -> usize {
        self.leading() * if self.by_rows { self.rows } else { self.columns } + 3
    }

    fn place(&self, batch: usize, row: usize, column: usize) -> usize {
        let (far, near) = if self.by_rows { (row, column) } else { (column, row) };
        size(self.ty) * (batch * self.stride() + far * self.leading() + near)
    }

    fn number(&self, batch: usize, row: usize, column: usize) -> Number {
        self.numbers[batch][row + column * self.rows]
    }

    /// op(A) of a `cublasOperation_t`.
    fn operated(&self, operation: u32, batch: usize, row: usize, column: usize) -> Number {
        match operation {
            0 => self.number(batch, row, column),
            1 => self.number(batch, column, row),
            _ => {
                let [re, im] = self.number(batch, column, row);
                [re, -im]
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let len = size(self.ty) * self.stride() * self.numbers.len();
        let mut bytes = vec![FILL; len.next_multiple_of(4)];
        for (batch, numbers) in self.numbers.iter().enumerate() {
            for (n, number) in numbers.iter().enumerate() {
                let at = self.place(batch, n % self.rows, n / self.rows);
                bytes[at..at + size(self.ty)].copy_from_slice(&encoded(self.ty, *number));
            }
        }
        bytes
    }
}

/// One product.
#[derive(Debug, Clone, Copy)]
struct Case {
    types: [u32; 3],
    compute: u32,
    scale: u32,
    operations: [u32; 2],
    by_rows: [bool; 4],
    epilogue: u32,
    bias: u32,
    batches: usize,
    is_list: bool,
    in_place: bool,
    is_on_device: bool,
}

struct Lt<'a> {
    api: &'a Api,
    handle: u64,
    called: &'a RefCell<BTreeSet<String>>,
    seed: Cell<u64>,
}

impl Lt<'_> {
    /// Calls a function; arguments that it does not have are ignored.
    fn status(&self, name: &str, arguments: &[u64]) -> i32 {
        let name = format!("cublasLt{name}");
        self.called.borrow_mut().insert(name.clone());
        let mut a = [0u64; 16];
        a[..arguments.len()].copy_from_slice(arguments);
        call!(
            self.api, &name, a[0] => u64, a[1] => u64, a[2] => u64, a[3] => u64, a[4] => u64, a[5] => u64, a[6] => u64, a[7] => u64,
            a[8] => u64, a[9] => u64, a[10] => u64, a[11] => u64, a[12] => u64, a[13] => u64, a[14] => u64, a[15] => u64,
        )
    }

    fn run(&self, name: &str, arguments: &[u64]) {
        assert_eq!(self.status(name, arguments), 0, "{name}");
    }

    fn up(&self, bytes: &[u8]) -> u64 {
        let at = self.api.allocate(bytes.len());
        let copied =
            call!(self.api, "cuMemcpyHtoD_v2", at => u64, bytes.as_ptr() as u64 => u64, bytes.len() => usize);
        assert_eq!(copied, 0);
        at
    }

    /// A multiple of 1/4 from -2 to 2, or of 1 where the type has no fractions.
    fn number(&self, ty: u32) -> Number {
        let part = || {
            let seed = self
                .seed
                .get()
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            self.seed.set(seed);
            ((seed >> 40) % 17) as f64 / 4.0 - 2.0
        };
        let re = part();
        let im = if is_complex(ty) { part() } else { 0.0 };
        if matches!(ty, I8 | I32) { [re * 4.0, 0.0] } else { [re, im] }
    }

    fn matrix(&self, ty: u32, [rows, columns]: [usize; 2], by_rows: bool, batches: usize) -> Matrix {
        let one = |_| (0..rows * columns).map(|_| self.number(ty)).collect();
        let mut matrix =
            Matrix { ty, rows, columns, by_rows, numbers: (0..batches).map(one).collect(), at: 0 };
        matrix.at = self.up(&matrix.bytes());
        matrix
    }

    /// A descriptor that `Create` makes.
    fn created(&self, kind: &str, arguments: &[u64]) -> u64 {
        let mut object = 0u64;
        self.run(&format!("{kind}Create"), &[&[&raw mut object as u64], arguments].concat());
        object
    }

    fn set(&self, kind: &str, object: u64, attribute: u64, value: &[u8]) {
        let arguments = [object, attribute, value.as_ptr() as u64, value.len() as u64];
        self.run(&format!("{kind}SetAttribute"), &arguments);
    }

    fn layout(&self, matrix: &Matrix, is_list: bool) -> u64 {
        let (ty, leading) = (u64::from(matrix.ty), matrix.leading() as u64);
        let made = self.created("MatrixLayout", &[ty, matrix.rows as u64, matrix.columns as u64, leading]);
        self.set("MatrixLayout", made, 1, &u32::from(matrix.by_rows).to_le_bytes());
        self.set("MatrixLayout", made, 5, &(matrix.numbers.len() as u32).to_le_bytes());
        self.set("MatrixLayout", made, 6, &(matrix.stride() as u64).to_le_bytes());
        self.set("MatrixLayout", made, 8, &u32::from(is_list).to_le_bytes());
        made
    }

    /// The address of matrices, or of a list of their addresses.
    fn place(&self, matrix: &Matrix, is_list: bool) -> u64 {
        if !is_list {
            return matrix.at;
        }
        let apart = (size(matrix.ty) * matrix.stride()) as u64;
        let list = (0..matrix.numbers.len() as u64).flat_map(|n| (matrix.at + n * apart).to_le_bytes());
        self.up(&list.collect::<Vec<u8>>())
    }

    /// Computes a product and compares it with its definition.
    fn product(&self, case: &Case) {
        let Case { types: [a, b, d], operations: [op_a, op_b], batches, .. } = *case;
        let (m, n, k) = (5, 6, 4);
        let turned = |op: u32, [r, c]: [usize; 2]| if op == 0 { [r, c] } else { [c, r] };
        let a = self.matrix(a, turned(op_a, [m, k]), case.by_rows[0], batches);
        let b = self.matrix(b, turned(op_b, [k, n]), case.by_rows[1], batches);
        let by_rows = if case.in_place { case.by_rows[3] } else { case.by_rows[2] };
        let c = self.matrix(d, [m, n], by_rows, batches);
        let mut result = self.matrix(d, [m, n], case.by_rows[3], batches);
        if case.in_place {
            result.at = c.at;
        }
        let bias: Vec<Number> = (0..m * batches).map(|_| self.number(case.bias)).collect();
        let factors = if case.scale == I32 {
            [[2.0, 0.0], [-3.0, 0.0]]
        } else {
            [[0.5, 0.25], [-1.5, 0.5]].map(|[re, im]| [re, if is_complex(d) { im } else { 0.0 }])
        };
        self.call(case, [&a, &b, &c, &result], &bias, factors);
        result.numbers = (0..batches)
            .map(|batch| {
                let places = (0..n).flat_map(|column| (0..m).map(move |row| (row, column)));
                let of = |(row, column)| {
                    let product = (0..k).fold([0.0; 2], |sum, l| {
                        let x = a.operated(op_a, batch, row, l);
                        plus(sum, times(x, b.operated(op_b, batch, l, column)))
                    });
                    let old = times(factors[1], c.number(batch, row, column));
                    let mut v = plus(times(factors[0], product), old);
                    if case.epilogue & 4 != 0 {
                        v = plus(v, bias[batch * m + row]);
                    }
                    match case.epilogue & !4 {
                        2 => [v[0].max(0.0), 0.0],
                        32 => [gelu(v[0]), 0.0],
                        _ => v,
                    }
                };
                places.map(of).collect()
            })
            .collect();
        self.same(&result, case);
    }

    /// Compares all bytes of matrices: those between them have to be as they were.
    fn same(&self, matrix: &Matrix, case: &Case) {
        let len = (size(matrix.ty) * matrix.stride() * matrix.numbers.len()).next_multiple_of(4);
        let mut bytes: Vec<u8> =
            self.api.words(matrix.at, len / 4).iter().flat_map(|word| word.to_le_bytes()).collect();
        for (batch, numbers) in matrix.numbers.iter().enumerate() {
            for (n, wanted) in numbers.iter().enumerate() {
                let at = matrix.place(batch, n % matrix.rows, n / matrix.rows);
                let here = at..at + size(matrix.ty);
                let found = decoded(matrix.ty, &bytes[here.clone()]);
                let off = (found[0] - wanted[0]).hypot(found[1] - wanted[1]);
                let most = unit(matrix.ty) * wanted[0].hypot(wanted[1]).max(0.25);
                assert!(off <= most, "{case:?}: {n} of {batch} is {found:?}, not {wanted:?}");
                bytes[here].fill(FILL);
            }
        }
        assert!(bytes.iter().all(|byte| *byte == FILL), "{case:?}: bytes that are no element were written");
    }

    /// Calls `cublasLtMatmul` with descriptors of either origin.
    fn call(&self, case: &Case, matrices: [&Matrix; 4], bias: &[Number], factors: [Number; 2]) {
        let mut own = [0u64; 32];
        let types = [u64::from(case.compute), u64::from(case.scale)];
        let descriptor = if case.in_place {
            let place = own.as_mut_ptr() as u64;
            self.run("MatmulDescInit_internal", &[&[place, 256], &types[..]].concat());
            place
        } else {
            self.created("MatmulDesc", &types)
        };
        for (attribute, value) in [
            (2, u32::from(case.is_on_device)),
            (3, case.operations[0]),
            (4, case.operations[1]),
            (7, case.epilogue),
        ] {
            self.set("MatmulDesc", descriptor, attribute, &value.to_le_bytes());
        }
        if case.epilogue & 4 != 0 {
            let bytes: Vec<u8> = bias.iter().flat_map(|number| encoded(case.bias, *number)).collect();
            let at = self.up(&[&bytes[..], &[0; 3]].concat()[..bytes.len().next_multiple_of(4)]);
            self.set("MatmulDesc", descriptor, 8, &at.to_le_bytes());
            self.set("MatmulDesc", descriptor, 10, &(matrices[3].rows as u64).to_le_bytes());
            if case.bias != case.types[2] {
                self.set("MatmulDesc", descriptor, 26, &case.bias.to_le_bytes());
            }
        }
        let layouts = matrices.map(|matrix| self.layout(matrix, case.is_list));
        let preference = self.created("MatmulPreference", &[]);
        let (mut result, mut count) = ([u64::MAX; 12], 0i32);
        let head = [&[self.handle, descriptor][..], &layouts].concat();
        let tail = [preference, 1, result.as_mut_ptr() as u64, &raw mut count as u64];
        self.run("MatmulAlgoGetHeuristic", &[&head[..], &tail].concat());
        // One result without a workspace, which succeeds.
        assert_eq!((count, result[8], result[9] as u32), (1, 0, 0));
        let [a, b, c, d] = matrices.map(|matrix| self.place(matrix, case.is_list));
        let factors = factors.map(|factor| encoded(case.scale, factor));
        let [alpha, beta] = if case.is_on_device {
            factors.each_ref().map(|bytes| self.up(&[&bytes[..], &[0; 2]].concat()))
        } else {
            factors.each_ref().map(|bytes| bytes.as_ptr() as u64)
        };
        let [of_a, of_b, of_c, of_d] = layouts;
        let algorithm = if case.batches == 1 { 0 } else { result.as_ptr() as u64 };
        self.run(
            "Matmul",
            &[self.handle, descriptor, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d, algorithm, 0, 0, 0],
        );
        layouts.iter().for_each(|layout| self.run("MatrixLayoutDestroy", &[*layout]));
        self.run("MatmulPreferenceDestroy", &[preference]);
        if !case.in_place {
            self.run("MatmulDescDestroy", &[descriptor]);
        }
    }

    /// Every type with every operation and epilogue, and the rest of a case in turns.
    fn products(&self) {
        let mut turn = 0usize;
        for (types, compute, scale) in [
            ([F32; 3], 68, F32),
            ([F32; 3], 77, F32),
            ([F64; 3], 70, F64),
            ([C32; 3], 68, C32),
            ([C64; 3], 70, C64),
            ([F16; 3], 68, F32),
            ([F16; 3], 64, F16),
            ([F16, F16, F32], 68, F32),
            ([BF16; 3], 68, F32),
            ([BF16, BF16, F32], 68, F32),
            ([I8, I8, I32], 72, I32),
            ([I8, I8, F32], 68, F32),
        ] {
            let has_epilogues = !is_complex(types[2]) && types[2] != I32;
            let epilogues = if has_epilogues { vec![1, 2, 4, 6, 32, 36] } else { vec![1] };
            for epilogue in epilogues {
                for operations in [[0, 0], [1, 0], [0, 1], [2, 1]] {
                    turn += 1;
                    let bit = |n: usize| (turn * 0x9E37) >> n & 1 == 1;
                    let bias = if types[2] == F16 && bit(9) { F32 } else { types[2] };
                    self.product(&Case {
                        types,
                        compute,
                        scale,
                        operations,
                        by_rows: [bit(0), bit(1), bit(2), bit(3)],
                        epilogue,
                        bias,
                        batches: 1 + turn % 3,
                        is_list: bit(4),
                        in_place: bit(5),
                        is_on_device: bit(6),
                    });
                }
            }
        }
    }

    /// Descriptors in memory of the program, their attributes, and what is wrong with them.
    fn attributes(&self) {
        for (kind, words, arguments, (attribute, first)) in [
            ("MatmulDesc", 32, &[68, 0][..], (7, 1u64)),
            ("MatrixLayout", 8, &[0, 4, 3, 5], (4, 5)),
            ("MatmulPreference", 8, &[], (12, u64::MAX)),
            ("MatrixTransformDesc", 8, &[0], (1, 0)),
        ] {
            let name = |what: &str| format!("{kind}{what}");
            let mut own = [u64::MAX; 40];
            let place = own.as_mut_ptr() as u64;
            let init =
                |place, len: u64| self.status(&name("Init_internal"), &[&[place, len], arguments].concat());
            assert_eq!((init(0, 8 * words), init(place, 8)), (INVALID_VALUE, 3), "{kind}");
            assert_eq!(own, [u64::MAX; 40]);
            assert_eq!(init(place, 8 * words), 0, "{kind}");
            assert!(own[words as usize..].iter().all(|word| *word == u64::MAX), "{kind}");
            let made = self.created(kind, arguments);
            for object in [place, made] {
                let (mut value, mut len) = (0u64, 0u64);
                let (buffer, written) = (&raw mut value as u64, &raw mut len as u64);
                let get = |size, written| {
                    self.status(&name("GetAttribute"), &[object, attribute, buffer, size, written])
                };
                assert_eq!((get(0, 0), get(0, written)), (INVALID_VALUE, 0), "{kind}");
                assert_eq!((get(len, 0), value), (0, first), "{kind}");
                assert_eq!((get(len - 1, 0), get(len + 1, 0)), (INVALID_VALUE, INVALID_VALUE), "{kind}");
                let set = |attribute, buffer, size| {
                    self.status(&name("SetAttribute"), &[object, attribute, buffer, size])
                };
                assert_eq!(set(attribute, 0, len), INVALID_VALUE, "{kind}");
                assert_eq!(set(attribute, buffer, len - 1), INVALID_VALUE, "{kind}");
                assert_eq!(set(99, buffer, len), INVALID_VALUE, "{kind}");
                let nine = 9u64;
                assert_eq!(set(attribute, &raw const nine as u64, len), 0, "{kind}");
                value = 0;
                assert_eq!((get(len, written), value, len), (0, 9, len), "{kind}");
            }
            // Objects of the program are not on the heap; a descriptor is destroyed once.
            assert_eq!(self.status(&name("Destroy"), &[place]), INVALID_VALUE, "{kind}");
            self.run(&name("Destroy"), &[made]);
            assert_eq!(self.status(&name("Destroy"), &[made]), INVALID_VALUE, "{kind}");
            assert_eq!(self.status(&name("Create"), &[&[0], arguments].concat()), INVALID_VALUE, "{kind}");
            assert_eq!(self.status(&name("SetAttribute"), &[0, attribute, place, 4]), INVALID_VALUE);
        }
    }

    fn algorithms(&self) {
        let types = [68, 0, 0, 0, 0, 0];
        let (mut ids, mut count) = ([7i32; 4], 0i32);
        let (at_ids, at_count) = (ids.as_mut_ptr() as u64, &raw mut count as u64);
        let of_ids = |wanted| [&[self.handle][..], &types, &[wanted, at_ids, at_count]].concat();
        assert_eq!(self.status("MatmulAlgoGetIds", &of_ids(0)), INVALID_VALUE);
        self.run("MatmulAlgoGetIds", &of_ids(4));
        assert_eq!((count, ids), (1, [0, 7, 7, 7]));
        let mut algorithm = [u64::MAX; 9];
        let at = algorithm.as_mut_ptr() as u64;
        let init = |id, at| [&[self.handle][..], &types, &[id, at]].concat();
        assert_eq!(self.status("MatmulAlgoInit", &init(1, at)), INVALID_VALUE);
        assert_eq!(self.status("MatmulAlgoInit", &init(0, 0)), INVALID_VALUE);
        self.run("MatmulAlgoInit", &init(0, at));
        assert_eq!(algorithm[8], u64::MAX);
        let mut value = 20u32;
        let buffer = &raw mut value as u64;
        self.run("MatmulAlgoConfigSetAttribute", &[at, 1, buffer, 4]);
        assert_eq!(self.status("MatmulAlgoConfigSetAttribute", &[at, 0, buffer, 4]), INVALID_VALUE);
        value = 0;
        self.run("MatmulAlgoConfigGetAttribute", &[at, 1, buffer, 4, 0]);
        assert_eq!(value, 20);
        for (capability, wanted) in [(3, 1), (11, 3), (12, 39), (16, 1), (5, 0)] {
            self.run("MatmulAlgoCapGetAttribute", &[at, capability, buffer, 4, 0]);
            assert_eq!(value, wanted, "{capability}");
        }
        let mut tiles = [9u32; 8];
        self.run("MatmulAlgoCapGetAttribute", &[at, 6, tiles.as_mut_ptr() as u64, 32, 0]);
        assert_eq!(tiles, [0, 9, 9, 9, 9, 9, 9, 9]);
        assert_eq!(self.status("MatmulAlgoCapGetAttribute", &[at, 99, buffer, 4, 0]), INVALID_VALUE);
        assert_eq!(self.status("MatmulAlgoCapGetAttribute", &[at, 3, buffer, 8, 0]), INVALID_VALUE);

        let (descriptor, layout) =
            (self.created("MatmulDesc", &[68, 0]), self.created("MatrixLayout", &[0, 4, 4, 4]));
        let preference = self.created("MatmulPreference", &[]);
        let head = [self.handle, descriptor, layout, layout, layout, layout];
        let mut result = [u64::MAX; 12];
        let to = result.as_mut_ptr() as u64;
        for name in ["MatmulAlgoCheck", "MatmulAlgoCheckForStream"] {
            self.run(name, &[&head[..], &[at, to, 0]].concat());
            assert_eq!(self.status(name, &[&head[..], &[0, to, 0]].concat()), INVALID_VALUE);
            assert_eq!((result[0], result[8], result[9] as u32), (u64::MAX, 0, 0));
        }
        self.run("MatmulAlgoGetHeuristicForStream", &[&head[..], &[preference, 1, to, at_count, 0]].concat());
        for (wanted, of) in [(0, preference), (1, 0)] {
            let arguments = [&head[..], &[of, wanted, to, at_count]].concat();
            assert_eq!(self.status("MatmulAlgoGetHeuristic", &arguments), INVALID_VALUE);
        }
    }

    /// C = alpha op(A) + beta op(B), from columns to rows.
    fn transforms(&self) {
        for (ty, operation) in [(F32, 0u32), (F64, 1), (C32, 2), (C64, 0)] {
            let turned = if operation == 0 { [3, 4] } else { [4, 3] };
            let (a, b) = (self.matrix(ty, turned, false, 1), self.matrix(ty, [3, 4], true, 1));
            let mut c = self.matrix(ty, [3, 4], true, 1);
            let descriptor = self.created("MatrixTransformDesc", &[u64::from(ty)]);
            self.set("MatrixTransformDesc", descriptor, 2, &operation.to_le_bytes());
            let factors = [self.number(ty), self.number(ty)];
            let bytes = factors.map(|factor| encoded(ty, factor));
            let [alpha, beta] = bytes.each_ref().map(|bytes| bytes.as_ptr() as u64);
            let [of_a, of_b, of_c] = [&a, &b, &c].map(|matrix| self.layout(matrix, false));
            let arguments =
                |b, of_b| [self.handle, descriptor, alpha, a.at, of_a, beta, b, of_b, c.at, of_c, 0];
            let whole = arguments(b.at, of_b);
            let alone = arguments(0, 0);
            let case = Case {
                types: [ty; 3],
                compute: 0,
                scale: ty,
                operations: [operation, 0],
                by_rows: [true; 4],
                epilogue: 1,
                bias: 0,
                batches: 1,
                is_list: false,
                in_place: false,
                is_on_device: false,
            };
            for (arguments, beta) in [(whole, factors[1]), (alone, [0.0; 2])] {
                self.run("MatrixTransform", &arguments);
                let of = |n: usize| {
                    let (row, column) = (n % 3, n / 3);
                    let first = times(factors[0], a.operated(operation, 0, row, column));
                    plus(first, times(beta, b.number(0, row, column)))
                };
                c.numbers = vec![(0..12).map(of).collect()];
                self.same(&c, &case);
            }
            self.run("MatrixTransformDescDestroy", &[descriptor]);
        }
    }

    fn settings(&self) {
        for name in ["cublasLtGetVersion", "cublasLtGetCudartVersion"] {
            self.called.borrow_mut().insert(name.to_owned());
            assert!(call!(self.api, name,) >= 12_000, "{name}");
        }
        for name in ["cublasLtGetStatusName", "cublasLtGetStatusString"] {
            self.called.borrow_mut().insert(name.to_owned());
            let text = self.api.function::<unsafe extern "C" fn(i32) -> *const c_char>(name);
            // SAFETY: the function returns a text that stays.
            let text = unsafe { CStr::from_ptr(text(15)) };
            assert_eq!(text.to_bytes(), b"CUBLAS_STATUS_NOT_SUPPORTED");
        }
        let (mut part, mut capacity) = (0u32, 0u64);
        self.run("GetProperty", &[0, &raw mut part as u64]);
        assert!(part >= 12);
        assert_eq!(self.status("GetProperty", &[3, &raw mut part as u64]), INVALID_VALUE);
        self.run("HeuristicsCacheSetCapacity", &[77]);
        self.run("HeuristicsCacheGetCapacity", &[&raw mut capacity as u64]);
        assert_eq!(capacity, 77);
        for name in ["SetCallback", "SetFile", "OpenFile", "SetLevel", "SetMask", "ForceDisable"] {
            self.run(&format!("Logger{name}"), &[0]);
        }
        assert_eq!(self.status("LoggerSetLevel", &[6]), INVALID_VALUE);
        // A handle serves both libraries.
        assert_eq!(call!(self.api, "cublasGetVersion_v2", self.handle => u64, &raw mut part => *mut u32), 0);
    }

    /// The arguments of a product of matrices of 4 rows and columns, of which some are wrong.
    fn plain(&self) -> ([u64; 16], Vec<u8>) {
        let (descriptor, layout) =
            (self.created("MatmulDesc", &[68, 0]), self.created("MatrixLayout", &[0, 4, 4, 4]));
        let (matrix, one) = (self.up(&[0; 64]), 1f32.to_le_bytes().to_vec());
        let (scalar, matrices) = (one.as_ptr() as u64, [matrix, layout]);
        let [at, of] = matrices;
        ([self.handle, descriptor, scalar, at, of, at, of, scalar, at, of, at, of, 0, 0, 0, 0], one)
    }

    fn bad_products(&self) {
        let (good, _one) = self.plain();
        self.run("Matmul", &good);
        let with = |changes: &[(usize, u64)]| {
            let mut arguments = good;
            changes.iter().for_each(|(n, value)| arguments[*n] = *value);
            self.status("Matmul", &arguments)
        };
        assert_eq!(with(&[(0, 1)]), 1, "no handle");
        for n in 1..=11 {
            assert_eq!(with(&[(n, 0)]), INVALID_VALUE, "null for {n}");
        }
        // A layout is no descriptor of a product, nor an algorithm.
        assert_eq!((with(&[(1, good[4])]), with(&[(12, good[4])])), (INVALID_VALUE, INVALID_VALUE));
        for size in [[3, 4, 4], [4, 5, 4], [4, 4, 3]] {
            let other = self.created("MatrixLayout", &[0, size[0], size[1], size[2]]);
            for n in [4, 6, 9, 11] {
                assert_eq!(with(&[(n, other)]), INVALID_VALUE, "{size:?} {n}");
            }
        }
        let batch = self.created("MatrixLayout", &[0, 4, 4, 4]);
        self.set("MatrixLayout", batch, 5, &2u32.to_le_bytes());
        assert_eq!(with(&[(4, batch)]), INVALID_VALUE, "a batch of one matrix");
        let rows = self.created("MatrixLayout", &[0, 4, 4, 4]);
        self.set("MatrixLayout", rows, 1, &1u32.to_le_bytes());
        assert_eq!(with(&[(11, rows)]), INVALID_VALUE, "C and D at one address in two orders");
        // Without a bias at an address; C is not read for a factor of zero.
        self.set("MatmulDesc", good[1], 7, &4u32.to_le_bytes());
        assert_eq!(with(&[]), INVALID_VALUE);
        self.set("MatmulDesc", good[1], 7, &1u32.to_le_bytes());
        let zero = 0f32.to_le_bytes();
        assert_eq!(with(&[(7, zero.as_ptr() as u64), (8, 0)]), 0);
    }
}

/// The served names.
fn served() -> BTreeSet<String> {
    let text = include_str!("../../crates/cuda/src/libraries/blas/lt/mod.rs");
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let words = words.filter(|word| word.starts_with("cublasLt") && word.len() > 8 && !word.ends_with("_t"));
    words.map(str::to_owned).collect()
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_calls_cublas_lt() {
    let api = Api::open("libcublasLt.so.13");
    api.enter();
    let called = RefCell::new(BTreeSet::new());
    let mut handle = 0u64;
    assert_eq!(call!(api, "cublasCreate_v2", &raw mut handle => *mut u64), 0);
    let of_cublas = Lt { api: &api, handle, called: &called, seed: Cell::new(1) };
    of_cublas.bad_products();
    of_cublas.run("Create", &[&raw mut handle as u64]);
    let lt = Lt { handle, seed: Cell::new(2), ..of_cublas };
    lt.products();
    lt.attributes();
    lt.algorithms();
    lt.transforms();
    lt.settings();
    lt.run("Destroy", &[handle]);
    assert_eq!(lt.status("Destroy", &[handle]), 1, "a handle that is gone");
    let without: Vec<_> = served().difference(&called.borrow()).cloned().collect();
    assert!(without.is_empty(), "not called: {without:?}");
}

#[test]
fn cublas_lt_is_served_by_its_definition() {
    let output = exec(&[], "blas_lt::program_that_calls_cublas_lt");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_asks_too_much_of_cublas_lt() {
    let api = Api::open("libcublasLt.so.12");
    api.enter();
    let (called, mut handle) = (RefCell::new(BTreeSet::new()), 0u64);
    assert_eq!(call!(api, "cublasLtCreate", &raw mut handle => *mut u64), 0);
    let lt = Lt { api: &api, handle, called: &called, seed: Cell::new(1) };
    assert_eq!(lt.status("HeuristicsCacheCreate", &[]), NOT_SUPPORTED);
    let (good, _one) = lt.plain();
    let with = |changes: &[(usize, u64)]| {
        let mut arguments = good;
        changes.iter().for_each(|(n, value)| arguments[*n] = *value);
        lt.status("Matmul", &arguments)
    };
    // FP8, a tile order, an epilogue with a gradient, a factor for A.
    let short = lt.created("MatrixLayout", &[28, 4, 4, 4]);
    assert_eq!(with(&[(4, short), (6, short)]), NOT_SUPPORTED);
    let (mut results, mut count) = ([0u64; 12], 5i32);
    let tail = [lt.created("MatmulPreference", &[]), 1, results.as_mut_ptr() as u64, &raw mut count as u64];
    let head = [handle, good[1], short, short, good[9], good[11]];
    assert_eq!(lt.status("MatmulAlgoGetHeuristic", &[&head[..], &tail].concat()), NOT_SUPPORTED);
    assert_eq!(count, 0);
    let tiles = lt.created("MatrixLayout", &[0, 4, 4, 128]);
    lt.set("MatrixLayout", tiles, 1, &2u32.to_le_bytes());
    assert_eq!(with(&[(4, tiles)]), NOT_SUPPORTED);
    for (attribute, value, plain) in
        [(7, &136u32.to_le_bytes()[..], &1u32.to_le_bytes()[..]), (17, &[1; 8], &[0; 8])]
    {
        lt.set("MatmulDesc", good[1], attribute, value);
        assert_eq!(with(&[]), NOT_SUPPORTED);
        lt.set("MatmulDesc", good[1], attribute, plain);
    }
    let grouped = [tiles, 9, tail[2], 8];
    assert_eq!(lt.status("MatrixLayoutSetAttribute", &grouped), NOT_SUPPORTED);
    // A factor of the device in the host's mode, a bias of three rows.
    assert_eq!(with(&[(2, good[3])]), INVALID_VALUE);
    let bias = lt.up(&[0; 12]);
    lt.set("MatmulDesc", good[1], 8, &bias.to_le_bytes());
    lt.set("MatmulDesc", good[1], 7, &4u32.to_le_bytes());
    with(&[]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_a_small_result_of_cublas_lt() {
    let api = Api::open("libcublasLt.so.11");
    api.enter();
    let (called, mut handle) = (RefCell::new(BTreeSet::new()), 0u64);
    assert_eq!(call!(api, "cublasLtCreate", &raw mut handle => *mut u64), 0);
    let lt = Lt { api: &api, handle, called: &called, seed: Cell::new(1) };
    let (mut arguments, _one) = lt.plain();
    arguments[10] = lt.up(&[0; 48]);
    lt.status("Matmul", &arguments);
}

#[test]
fn what_a_program_does_wrong_with_cublas_lt_is_found() {
    for (program, parts) in [
        (
            "program_that_asks_too_much_of_cublas_lt",
            &[
                "cublasLtHeuristicsCacheCreate is not supported",
                "matrices of the types [28, 28, 0, 0]",
                "the order 2 of cublasLtOrder_t",
                "the epilogue 136",
                "CUBLASLT_MATMUL_DESC_A_SCALE_POINTER",
                "grouped matrices",
                "the attribute POINTER_MODE of its descriptor",
                "byte 12 of an allocation of 12 bytes, called by `cublas_gemm_f32`",
            ][..],
        ),
        (
            "program_with_a_small_result_of_cublas_lt",
            &["byte 48 of an allocation of 48 bytes; kernel cublas_gemm_f32"],
        ),
    ] {
        let output = exec(&[], &format!("blas_lt::{program}"));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(100), "{text}");
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
