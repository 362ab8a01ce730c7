//! Programs that call cuFFT, whose functions gather and scatter by kernels of PTX. Every function that is served is called, and transforms of each
//! type, rank and placement are compared with their definition in 64 bits.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::f64::consts::TAU;

use numerics::{Format, Rounding, convert};

use crate::api::{Api, call};
use crate::exec;

/// A complex number.
type Number = [f64; 2];

fn times(a: Number, b: Number) -> Number {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// The transform of one array of these sizes by its definition. `sign` is that of the exponent.
fn defined(size: &[usize], numbers: &[Number], sign: f64) -> Vec<Number> {
    let index = |mut n: usize| {
        let mut of = vec![0; size.len()];
        for (at, size) in of.iter_mut().zip(size).rev() {
            (*at, n) = (n % size, n / size);
        }
        of
    };
    let result = |k: usize| {
        let k = index(k);
        numbers.iter().enumerate().fold([0.0; 2], |sum, (n, number)| {
            let turns = index(n)
                .into_iter()
                .zip(&k)
                .zip(size)
                .map(|((n, k), size)| (n * k % size) as f64 / *size as f64);
            let angle = sign * TAU * turns.sum::<f64>();
            let term = times(*number, [angle.cos(), angle.sin()]);
            [sum[0] + term[0], sum[1] + term[1]]
        })
    };
    (0..numbers.len()).map(result).collect()
}

/// Numbers of the types that plans have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Width {
    F16,
    BF16,
    F32,
    F64,
}

fn short(format: Format, x: f64) -> Vec<u8> {
    (convert::f64_to(format, x, Rounding::NearestEven, false, false) as u16).to_le_bytes().to_vec()
}

impl Width {
    pub(crate) fn bytes(self, numbers: &[f64]) -> Vec<u8> {
        let of = |x: &f64| match self {
            Self::F16 => short(Format::F16, *x).to_vec(),
            Self::BF16 => short(Format::Bf16, *x).to_vec(),
            Self::F32 => (*x as f32).to_le_bytes().to_vec(),
            Self::F64 => x.to_le_bytes().to_vec(),
        };
        numbers.iter().flat_map(of).collect()
    }

    pub(crate) fn numbers(self, bytes: &[u8]) -> Vec<f64> {
        let of = |b: &[u8]| match self {
            Self::F16 => f64::from(Format::F16.decode(u16::from_le_bytes([b[0], b[1]]).into())),
            Self::BF16 => f64::from(Format::Bf16.decode(u16::from_le_bytes([b[0], b[1]]).into())),
            Self::F32 => f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            Self::F64 => f64::from_le_bytes(b.try_into().unwrap()),
        };
        bytes.chunks_exact(self.size()).map(of).collect()
    }

    pub(crate) const fn size(self) -> usize {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    pub(crate) const fn unit(self) -> f64 {
        match self {
            Self::F16 => 1.0 / 1024.0,
            Self::BF16 => 1.0 / 128.0,
            Self::F32 => f32::EPSILON as f64,
            Self::F64 => f64::EPSILON,
        }
    }
}

/// Where the elements of a side lie.
#[derive(Clone)]
struct Place {
    around: Vec<usize>,
    stride: usize,
    distance: usize,
}

impl Place {
    fn new(around: &[usize], stride: usize, distance: usize) -> Self {
        Self { around: around.to_vec(), stride, distance }
    }

    /// Elements without gaps.
    fn dense(size: &[usize]) -> Self {
        Self::new(size, 1, size.iter().product())
    }

    /// The place of element `n` of an array of these sizes, in elements.
    fn at(&self, size: &[usize], transform: usize, mut n: usize) -> usize {
        let (mut at, mut step) = (transform * self.distance, self.stride);
        for (size, around) in size.iter().zip(&self.around).rev() {
            at += n % size * step;
            n /= size;
            step *= around;
        }
        at
    }
}

struct Fft<'a> {
    api: &'a Api,
    called: RefCell<BTreeSet<String>>,
    seed: RefCell<u64>,
}

/// Calls a function with a name and notes it.
macro_rules! fft {
    ($fft:expr, $name:expr $(, $arg:expr => $ty:ty)* $(,)?) => {{
        $fft.called.borrow_mut().insert($name.to_owned());
        call!($fft.api, $name $(, $arg => $ty)*)
    }};
}

impl Fft<'_> {
    /// A number of which every type has all bits.
    fn number(&self) -> f64 {
        let mut seed = self.seed.borrow_mut();
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((*seed >> 40) % 65) as f64 / 16.0 - 2.0
    }

    fn up(&self, bytes: &[u8]) -> u64 {
        let at = self.api.allocate(bytes.len());
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

    fn create(&self) -> i32 {
        let mut plan = 0;
        assert_eq!(fft!(self, "cufftCreate", &raw mut plan => *mut i32), 0);
        plan
    }

    fn destroy(&self, plan: i32) {
        assert_eq!(fft!(self, "cufftDestroy", plan => i32), 0);
    }

    /// Runs a plan and compares with the definition. `kind` is C, R (real to complex) or I (complex to real); what `execute` calls is given the
    /// addresses of input and output.
    fn compare(
        &self,
        what: &str,
        (kind, width): (char, Width),
        (size, batch): (&[usize], usize),
        places: [&Place; 2],
        (is_in_place, sign): (bool, f64),
        execute: impl Fn(u64, u64) -> i32,
    ) {
        let halved = {
            let mut size = size.to_vec();
            *size.last_mut().unwrap() = size[size.len() - 1] / 2 + 1;
            size
        };
        let [of_input, of_output] = match kind {
            'C' => [size, size],
            'R' => [size, &halved],
            _ => [&halved, size],
        };
        let parts = [if kind == 'R' { 1 } else { 2 }, if kind == 'I' { 1 } else { 2 }];
        let numbers = |side: usize, sizes: &[usize]| {
            let one: usize = sizes.iter().product();
            let last = |transform| (0..one).map(|n| places[side].at(sizes, transform, n)).max().unwrap() + 1;
            (0..batch).map(last).max().unwrap() * parts[side]
        };
        let (in_len, out_len) = (numbers(0, of_input), numbers(1, of_output));
        let len = if is_in_place { in_len.max(out_len) } else { in_len };
        // The numbers around those of the plan stay as they are.
        let mut input = vec![7.0; len];
        let whole: usize = size.iter().product();
        let mut wanted = Vec::new();
        for transform in 0..batch {
            let mut full: Vec<Number> = (0..whole).map(|_| [self.number(), self.number()]).collect();
            if kind == 'R' {
                full.iter_mut().for_each(|number| number[1] = 0.0);
            }
            if kind == 'I' {
                // The input is the transform of real numbers, of which each type holds its rounding.
                full.iter_mut().for_each(|number| number[1] = 0.0);
                full = defined(size, &full, -1.0);
                let round = |x: f64| width.numbers(&width.bytes(&[x]))[0];
                full.iter_mut().for_each(|number| *number = [round(number[0]), round(number[1])]);
            }
            wanted.push(defined(size, &full, sign));
            let columns = of_input[size.len() - 1];
            let row = size[size.len() - 1];
            for n in 0..of_input.iter().product() {
                let number = full[n / columns * row + n % columns];
                let at = places[0].at(of_input, transform, n) * parts[0];
                input[at..at + parts[0]].copy_from_slice(&number[..parts[0]]);
            }
        }
        let from = self.up(&width.bytes(&input));
        let to = if is_in_place { from } else { self.up(&width.bytes(&vec![7.0; out_len])) };
        assert_eq!(execute(from, to), 0, "{what}");
        let found = width.numbers(&self.down(to, out_len * width.size()));
        let mut is_of_plan = vec![false; out_len];
        let largest = wanted.iter().flatten().map(|w| w[0].hypot(w[1])).fold(0.0, f64::max);
        for (transform, wanted) in wanted.iter().enumerate() {
            let (columns, row) = (of_output[size.len() - 1], size[size.len() - 1]);
            for n in 0..of_output.iter().product() {
                let number = wanted[n / columns * row + n % columns];
                let at = places[1].at(of_output, transform, n) * parts[1];
                for part in 0..parts[1] {
                    is_of_plan[at + part] = true;
                    let off = (found[at + part] - number[part]).abs();
                    // Inputs are exact or, of an inverse, rounded once; results are rounded once, after sums of 64 bits of at most 400 terms.
                    let bound = width.unit() * number[part].abs() + 1e-12 * largest;
                    assert!(
                        off <= bound,
                        "{what} {width:?} {kind}: {n} of {transform} is {}, not {}",
                        found[at + part],
                        number[part]
                    );
                }
            }
        }
        if !is_in_place {
            let kept = found.iter().zip(&is_of_plan).all(|(number, of_plan)| *of_plan || *number == 7.0);
            assert!(kept, "{what}: numbers between those of the plan changed");
        }
    }

    /// The plan functions without placements, and every function that runs one.
    fn dense(&self) {
        let sizes: [&[usize]; 9] = [&[1], &[8], &[7], &[12], &[4, 6], &[3, 5], &[2, 3, 4], &[4, 2, 5], &[97]];
        for size in sizes {
            for (number, kind, width) in [
                (0x29, 'C', Width::F32),
                (0x2A, 'R', Width::F32),
                (0x2C, 'I', Width::F32),
                (0x69, 'C', Width::F64),
                (0x6A, 'R', Width::F64),
                (0x6C, 'I', Width::F64),
            ] {
                let n: Vec<i32> = size.iter().map(|size| *size as i32).collect();
                let batch = if size.len() == 1 { 3 } else { 1 };
                let (mut plan, mut work) = (0, [0usize; 3]);
                let made = match *n {
                    [n] => {
                        assert_eq!(
                            fft!(self, "cufftEstimate1d", n => i32, number => i32, batch => i32, &raw mut work[0] => *mut usize),
                            0
                        );
                        fft!(self, "cufftPlan1d", &raw mut plan => *mut i32, n => i32, number => i32, batch => i32)
                    }
                    [n, m] => {
                        assert_eq!(
                            fft!(self, "cufftEstimate2d", n => i32, m => i32, number => i32, &raw mut work[0] => *mut usize),
                            0
                        );
                        fft!(self, "cufftPlan2d", &raw mut plan => *mut i32, n => i32, m => i32, number => i32)
                    }
                    _ => {
                        let [n, m, l] = [n[0], n[1], n[2]];
                        assert_eq!(
                            fft!(self, "cufftEstimate3d", n => i32, m => i32, l => i32, number => i32, &raw mut work[0] => *mut usize),
                            0
                        );
                        fft!(self, "cufftPlan3d", &raw mut plan => *mut i32, n => i32, m => i32, l => i32, number => i32)
                    }
                };
                assert_eq!(made, 0, "{size:?}");
                let again = self.create();
                let stated = match *n {
                    [n] => {
                        assert_eq!(
                            fft!(self, "cufftMakePlan1d", again => i32, n => i32, number => i32, batch => i32, &raw mut work[1] => *mut usize),
                            0
                        );
                        fft!(self, "cufftGetSize1d", again => i32, n => i32, number => i32, batch => i32, &raw mut work[2] => *mut usize)
                    }
                    [n, m] => {
                        assert_eq!(
                            fft!(self, "cufftMakePlan2d", again => i32, n => i32, m => i32, number => i32, &raw mut work[1] => *mut usize),
                            0
                        );
                        fft!(self, "cufftGetSize2d", again => i32, n => i32, m => i32, number => i32, &raw mut work[2] => *mut usize)
                    }
                    _ => {
                        let [n, m, l] = [n[0], n[1], n[2]];
                        let made = fft!(
                            self, "cufftMakePlan3d", again => i32, n => i32, m => i32, l => i32, number => i32,
                            &raw mut work[1] => *mut usize,
                        );
                        assert_eq!(made, 0);
                        fft!(self, "cufftGetSize3d", again => i32, n => i32, m => i32, l => i32, number => i32, &raw mut work[2] => *mut usize)
                    }
                };
                assert_eq!(stated, 0);
                assert!(work[0] > 0 && work == [work[0]; 3], "{work:?}");
                let mut size_of = 0usize;
                assert_eq!(fft!(self, "cufftGetSize", again => i32, &raw mut size_of => *mut usize), 0);
                assert_eq!(size_of, work[0]);
                self.destroy(again);
                self.execute(plan, (kind, width), (size, batch as usize));
                self.destroy(plan);
            }
        }
    }

    /// Runs a plan without placements out of place and in place, by the function for its type.
    fn execute(&self, plan: i32, (kind, width): (char, Width), (size, batch): (&[usize], usize)) {
        let last = size[size.len() - 1];
        let with_last = |last: usize| {
            let mut size = size.to_vec();
            *size.last_mut().unwrap() = last;
            size
        };
        let half = last / 2 + 1;
        for is_in_place in [false, true] {
            let real = Place::dense(&with_last(if is_in_place { 2 * half } else { last }));
            let complex = Place::dense(&with_last(if kind == 'C' { last } else { half }));
            let places = match kind {
                'C' => [&complex, &complex],
                'R' => [&real, &complex],
                _ => [&complex, &real],
            };
            let signs: &[i32] = if kind == 'C' {
                &[-1, 1]
            } else if kind == 'R' {
                &[-1]
            } else {
                &[1]
            };
            for sign in signs {
                self.compare(
                    "dense",
                    (kind, width),
                    (size, batch),
                    places,
                    (is_in_place, f64::from(*sign)),
                    |from, to| {
                        let name = match (kind, width) {
                            ('C', Width::F32) => "cufftExecC2C",
                            ('C', _) => "cufftExecZ2Z",
                            ('R', Width::F32) => "cufftExecR2C",
                            ('R', _) => "cufftExecD2Z",
                            (_, Width::F32) => "cufftExecC2R",
                            _ => "cufftExecZ2D",
                        };
                        if kind == 'C' {
                            fft!(self, name, plan => i32, from => u64, to => u64, *sign => i32)
                        } else {
                            fft!(self, name, plan => i32, from => u64, to => u64)
                        }
                    },
                );
            }
        }
    }

    /// Plans with placements, in sizes of 32 and of 64 bits, and of types of 16 bits.
    fn placed(&self) {
        let places: [(&[usize], Place, Place); 4] = [
            (&[8], Place::new(&[8], 2, 17), Place::new(&[8], 3, 30)),
            // Columns of a matrix.
            (&[6], Place::new(&[6], 5, 1), Place::new(&[6], 5, 1)),
            (&[4, 6], Place::new(&[5, 7], 1, 40), Place::new(&[9, 8], 2, 90)),
            (&[2, 3, 4], Place::new(&[2, 4, 5], 2, 90), Place::new(&[9, 5, 6], 1, 101)),
        ];
        for (size, input, output) in &places {
            let rank = size.len() as i32;
            let ints = |list: &[usize]| list.iter().map(|n| *n as i32).collect::<Vec<_>>();
            let longs = |list: &[usize]| list.iter().map(|n| *n as i64).collect::<Vec<_>>();
            for (number, kind) in [(0x29, 'C'), (0x2A, 'R'), (0x2C, 'I')] {
                let (n, i, o) = (ints(size), ints(&input.around), ints(&output.around));
                let (mut plan, mut work) = (0, [0usize; 4]);
                let [si, di, so, d_o] =
                    [input.stride, input.distance, output.stride, output.distance].map(|n| n as i32);
                let made = fft!(
                    self, "cufftPlanMany", &raw mut plan => *mut i32, rank => i32, n.as_ptr() => *const i32, i.as_ptr() => *const i32,
                    si => i32, di => i32, o.as_ptr() => *const i32, so => i32, d_o => i32, number => i32, 2 => i32,
                );
                assert_eq!(made, 0);
                let second = self.create();
                let many = fft!(
                    self, "cufftMakePlanMany", second => i32, rank => i32, n.as_ptr() => *const i32, i.as_ptr() => *const i32, si => i32,
                    di => i32, o.as_ptr() => *const i32, so => i32, d_o => i32, number => i32, 2 => i32, &raw mut work[0] => *mut usize,
                );
                assert_eq!(many, 0);
                let sized = fft!(
                    self, "cufftGetSizeMany", second => i32, rank => i32, n.as_ptr() => *const i32, i.as_ptr() => *const i32, si => i32,
                    di => i32, o.as_ptr() => *const i32, so => i32, d_o => i32, number => i32, 2 => i32, &raw mut work[1] => *mut usize,
                );
                assert_eq!(sized, 0);
                let estimated = fft!(
                    self, "cufftEstimateMany", rank => i32, n.as_ptr() => *const i32, i.as_ptr() => *const i32, si => i32, di => i32,
                    o.as_ptr() => *const i32, so => i32, d_o => i32, number => i32, 2 => i32, &raw mut work[2] => *mut usize,
                );
                assert_eq!(estimated, 0);
                let (n, i, o) = (longs(size), longs(&input.around), longs(&output.around));
                let [si, di, so, d_o] = [si, di, so, d_o].map(i64::from);
                let third = self.create();
                let wide = fft!(
                    self, "cufftMakePlanMany64", third => i32, rank => i32, n.as_ptr() => *const i64, i.as_ptr() => *const i64, si => i64,
                    di => i64, o.as_ptr() => *const i64, so => i64, d_o => i64, number => i32, 2 => i64, &raw mut work[3] => *mut usize,
                );
                assert_eq!(wide, 0);
                assert!(work[0] > 0 && work == [work[0]; 4], "{work:?}");
                let sized = fft!(
                    self, "cufftGetSizeMany64", third => i32, rank => i32, n.as_ptr() => *const i64, i.as_ptr() => *const i64, si => i64,
                    di => i64, o.as_ptr() => *const i64, so => i64, d_o => i64, number => i32, 2 => i64, &raw mut work[3] => *mut usize,
                );
                assert_eq!(sized, 0);
                assert_eq!(work[3], work[0]);
                let sign = if kind == 'I' { 1 } else { -1 };
                for plan in [plan, second, third] {
                    self.compare("placed", (kind, Width::F32), (size, 2), [input, output], (false, f64::from(sign)), |from, to| {
                        fft!(self, "cufftXtExec", plan => i32, from => u64, to => u64, sign => i32)
                    });
                    self.destroy(plan);
                }
            }
        }
        // Types of 16 bits, for which cuFFT has powers of two.
        for (real, complex, width) in
            [(2u32, 6u32, Width::F16), (14, 15, Width::BF16), (0, 4, Width::F32), (1, 5, Width::F64)]
        {
            for kind in ['C', 'R', 'I'] {
                let (size, n) = ([8usize, 4], [8i64, 4]);
                let input = if kind == 'R' { real } else { complex };
                let output = if kind == 'I' { real } else { complex };
                let (plan, mut work, null) = (self.create(), [0usize; 2], std::ptr::null::<i64>());
                for (name, at) in
                    [("cufftXtGetSizeMany", &raw mut work[1]), ("cufftXtMakePlanMany", &raw mut work[0])]
                {
                    let made = fft!(
                        self, name, plan => i32, 2 => i32, n.as_ptr() => *const i64, null => *const i64, 1 => i64, 1 => i64, input => u32,
                        null => *const i64, 1 => i64, 1 => i64, output => u32, 3 => i64, at => *mut usize, complex => u32,
                    );
                    assert_eq!(made, 0, "{name} {width:?} {kind}");
                }
                assert_eq!(work[0], work[1]);
                let half = Place::dense(&[8, 3]);
                let dense = Place::dense(&size);
                let places =
                    [if kind == 'I' { &half } else { &dense }, if kind == 'R' { &half } else { &dense }];
                let sign = if kind == 'I' { 1 } else { -1 };
                self.compare(
                    "types",
                    (kind, width),
                    (&size, 3),
                    places,
                    (false, f64::from(sign)),
                    |from, to| fft!(self, "cufftXtExec", plan => i32, from => u64, to => u64, sign => i32),
                );
                self.destroy(plan);
            }
        }
    }

    /// Streams, captures, work areas, properties, and what is refused.
    fn settings(&self) {
        let (mut version, mut part) = (0, 0);
        assert_eq!(fft!(self, "cufftGetVersion", &raw mut version => *mut i32), 0);
        for (number, wanted) in [(0, version / 1000), (1, version / 100 % 10), (2, version % 100)] {
            assert_eq!(fft!(self, "cufftGetProperty", number => i32, &raw mut part => *mut i32), 0);
            assert_eq!(part, wanted);
        }
        let (plan, stream, mut work) = (self.create(), self.api.stream(), 0usize);
        assert_eq!(fft!(self, "cufftSetAutoAllocation", plan => i32, 0 => i32), 0);
        assert_eq!(
            fft!(self, "cufftMakePlan1d", plan => i32, 16 => i32, 0x29 => i32, 1 => i32, &raw mut work => *mut usize),
            0
        );
        let again = fft!(self, "cufftMakePlan1d", plan => i32, 16 => i32, 0x29 => i32, 1 => i32, &raw mut work => *mut usize);
        assert_eq!(again, 1, "a plan is made once");
        let area = self.api.allocate(work);
        assert_eq!(fft!(self, "cufftSetWorkArea", plan => i32, area => u64), 0);
        assert_eq!(
            fft!(self, "cufftXtSetWorkAreaPolicy", plan => i32, 0 => i32, &raw mut work => *mut usize),
            0
        );
        assert_eq!(fft!(self, "cufftSetStream", plan => i32, stream => u64), 0);
        let mut value = 0i64;
        assert_eq!(fft!(self, "cufftSetPlanPropertyInt64", plan => i32, 1 => i32, 5 => i64), 0);
        assert_eq!(
            fft!(self, "cufftGetPlanPropertyInt64", plan => i32, 1 => i32, &raw mut value => *mut i64),
            0
        );
        assert_eq!(value, 5);
        assert_eq!(fft!(self, "cufftResetPlanProperty", plan => i32, 1 => i32), 0);
        assert_eq!(
            fft!(self, "cufftGetPlanPropertyInt64", plan => i32, 1 => i32, &raw mut value => *mut i64),
            0
        );
        assert_eq!(value, 0);
        // A capture runs nothing; its graph does, as often as it is launched: a transform forth and back.
        let dense = Place::dense(&[16]);
        self.compare("captured", ('C', Width::F32), (&[16], 1), [&dense, &dense], (true, -1.0), |at, _| {
            let (mut graph, mut instance) = (0u64, 0u64);
            assert_eq!(call!(self.api, "cuStreamBeginCapture_v2", stream => u64, 0 => u32), 0);
            assert_eq!(fft!(self, "cufftExecC2C", plan => i32, at => u64, at => u64, -1 => i32), 0);
            assert_eq!(call!(self.api, "cuStreamEndCapture", stream => u64, &raw mut graph => *mut u64), 0);
            assert_eq!(call!(self.api, "cuGraphInstantiateWithFlags", &raw mut instance => *mut u64, graph => u64, 0 => u64), 0);
            let before = self.down(at, 128);
            assert_eq!(call!(self.api, "cuGraphLaunch", instance => u64, stream => u64), 0);
            assert_ne!(before, self.down(at, 128));
            // Three more: four transforms are sixteen squared times the numbers.
            for _ in 0..3 {
                assert_eq!(call!(self.api, "cuGraphLaunch", instance => u64, stream => u64), 0);
            }
            let scale = |bytes: &[u8], by: f64| Width::F32.numbers(bytes).iter().map(|x| x * by).collect::<Vec<_>>();
            let back = scale(&self.down(at, 128), 1.0 / 256.0);
            let close = back.iter().zip(scale(&before, 1.0)).all(|(a, b)| (a - b).abs() < 1e-5);
            assert!(close, "{back:?}");
            assert_eq!(call!(self.api, "cuMemcpyHtoD_v2", at => u64, before.as_ptr() as u64 => u64, 128usize => usize), 0);
            call!(self.api, "cuGraphLaunch", instance => u64, stream => u64)
        });
        let at = self.up(&[0; 256]);
        for (input, direction, code) in [(at, 0, 4), (at, 2, 4), (at + 4, -1, 4)] {
            let status = fft!(self, "cufftExecC2C", plan => i32, input => u64, at => u64, direction => i32);
            assert_eq!(status, code, "{input} {direction}");
        }
        self.destroy(plan);
        assert_eq!(fft!(self, "cufftDestroy", plan => i32), 1);
        let mut plan = 0;
        for (n, ty, batch, code) in [(-4, 0x29, 1, 8), (8, 0x29, 0, 8), (8, 0x99, 1, 3)] {
            let status =
                fft!(self, "cufftPlan1d", &raw mut plan => *mut i32, n => i32, ty => i32, batch => i32);
            assert_eq!(status, code, "{n} {ty} {batch}");
        }
        let plan = self.create();
        assert_eq!(fft!(self, "cufftExecC2C", plan => i32, at => u64, at => u64, -1 => i32), 1);
        let half = [7i64];
        let null = std::ptr::null::<i64>();
        let status = fft!(
            self, "cufftXtMakePlanMany", plan => i32, 1 => i32, half.as_ptr() => *const i64, null => *const i64, 1 => i64, 1 => i64, 6 => u32,
            null => *const i64, 1 => i64, 1 => i64, 6 => u32, 1 => i64, &raw mut work => *mut usize, 6 => u32,
        );
        assert_eq!(status, 16, "of 16 bits, powers of two alone");
        // A list of one side alone.
        let (n, around) = ([8i32], [8i32]);
        let status = fft!(
            self, "cufftMakePlanMany", plan => i32, 1 => i32, n.as_ptr() => *const i32, around.as_ptr() => *const i32, 1 => i32, 8 => i32,
            std::ptr::null() => *const i32, 1 => i32, 8 => i32, 0x29 => i32, 1 => i32, &raw mut work => *mut usize,
        );
        assert_eq!(status, 4);
    }
}

/// The served names: those that are defined with a body.
fn served() -> BTreeSet<String> {
    let text = include_str!("../../crates/cuda/src/libraries/fft/functions.rs");
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("cufft"));
    lines.filter_map(|line| line.split_once('(').map(|(name, _)| format!("cufft{name}"))).collect()
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_calls_cufft() {
    let api = Api::open("libcufft.so.12");
    api.enter();
    let fft = Fft { api: &api, called: RefCell::default(), seed: RefCell::new(1) };
    fft.dense();
    fft.placed();
    fft.settings();
    let served = served();
    assert!(served.len() > 30, "{served:?}");
    let without: Vec<_> = served.difference(&fft.called.borrow()).cloned().collect();
    assert!(without.is_empty(), "not called: {without:?}");
}

#[test]
fn cufft_is_served_by_its_definition() {
    let output = exec(&[], "fft::program_that_calls_cufft");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_misuses_cufft() {
    let api = Api::open("libcufft.so.11");
    api.enter();
    let (mut plan, mut out) = (0, 0);
    assert_eq!(call!(api, "cufftPlan1d", &raw mut plan => *mut i32, 16 => i32, 0x29 => i32, 1 => i32), 0);
    assert_eq!(call!(api, "cufftXtSetCallback", plan => i32, 0 => u64, 0 => i32, 0 => u64), 16);
    // Numbers that nothing wrote.
    let unwritten = api.allocate(128);
    let result = api.allocate(128);
    call!(api, "cufftExecC2C", plan => i32, unwritten => u64, result => u64, -1 => i32);
    // A plan of another type, and a result without room.
    assert_eq!(call!(api, "cufftPlan1d", &raw mut out => *mut i32, 16 => i32, 0x2A => i32, 1 => i32), 0);
    let written = api.allocate(64);
    assert_eq!(call!(api, "cuMemsetD8_v2", written => u64, 0 => u8, 64usize => usize), 0);
    let small = api.allocate(64);
    call!(api, "cufftExecC2R", out => i32, written => u64, small => u64);
}

#[test]
fn what_a_program_does_wrong_with_cufft_is_found() {
    let output = exec(&["--keep-going"], "fft::program_that_misuses_cufft");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(100), "{text}");
    for part in [
        "cufftXtSetCallback is not supported",
        "cufftExecC2C",
        "undefined",
        "cufftExecC2R is called with a plan of another type",
        "byte 64 of an allocation of 64 bytes; kernel cufft_scatter_f32",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
