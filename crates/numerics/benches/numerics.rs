//! Throughput of tensor-core instructions and scalar operations on one core. Targets: half a million block-scaled
//! m16n8k32 per second, ideally a million.

use std::hint::black_box;

use divan::Bencher;
use divan::counter::ItemsCount;
use numerics::convert::f32_to;
use numerics::float::{add_f32, fma_f32};
use numerics::tensor_core::{MmaForm, MmaShape, Model, mma, mma_exact};
use numerics::{Format, Rounding};

/// Instructions per measured iteration: a kernel issues them back to back, with warm caches.
const BATCH: u32 = 256;

fn main() {
    divan::main();
}

/// Operands of one instruction.
struct Case {
    form: MmaForm,
    a: Vec<u32>,
    b: Vec<u32>,
    c: Vec<u32>,
    sfa: Vec<u32>,
    sfb: Vec<u32>,
}

/// A fixed sequence of numbers (xorshift).
fn numbers(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32 % below
    }
}

fn case(k: usize, [a, b]: [Format; 2], scale: Option<(Format, u32)>) -> Case {
    let shape = MmaShape { m: 16, n: 8, k };
    let form = MmaForm { shape, a, b, accumulator: Format::F32, scale };
    let mut next = numbers(k as u64 * 77 + u64::from(a.bits()));
    let mut codes = |format: Format, count: usize| {
        let mut code = || match format {
            // Magnitudes from one half to two.
            Format::Bf16 => 0x3F00 | next(0x100) | next(2) << 15,
            Format::F16 => 0x3800 | next(0x800) | next(2) << 15,
            _ => loop {
                let code = next(1 << format.bits());
                if !format.is_nan(code) && !format.is_infinite(code) {
                    break code;
                }
            },
        };
        (0..count).map(|_| code()).collect::<Vec<_>>()
    };
    let (a, b) = (codes(a, 16 * k), codes(b, 8 * k));
    let chunks = scale.map_or(0, |(_, chunks)| chunks as usize);
    let mut next = numbers(5);
    // Around one in either format, never NaN.
    let first = if matches!(scale, Some((Format::Ue4m3, _))) { 0x34 } else { 0x78 };
    let mut scales = |rows: usize| (0..rows * chunks).map(|_| first + next(8)).collect();
    let (sfa, sfb) = (scales(16), scales(8));
    let mut case = Case { form, a, b, c: vec![0; 128], sfa, sfb };
    // A realistic accumulator, as after some steps along K.
    for _ in 0..8 {
        let mut d = vec![0; 128];
        case.run(mma, &mut d);
        case.c = d;
    }
    case
}

type Mma = fn(Model, &MmaForm, &[u32], &[u32], &[u32], &[u32], &[u32], &mut [u32]);

impl Case {
    fn run(&self, compute: Mma, d: &mut [u32]) {
        compute(Model::Sm120, &self.form, &self.a, &self.b, &self.c, &self.sfa, &self.sfb, d);
    }

    fn bench(&self, bencher: Bencher, compute: Mma) {
        let mut d = vec![0; 128];
        bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
            for _ in 0..BATCH {
                black_box(self).run(compute, &mut d);
            }
            d[0]
        });
    }

    /// Replaces the accumulator by one whose lowest bits are far below the products.
    fn with_fine_accumulator(mut self) -> Self {
        let mut next = numbers(9);
        self.c = (0..128).map(|_| 0x3F80_0000 | next(1 << 23)).collect();
        self
    }

    /// Replaces the accumulator by one that pushes the lowest bits of the products out of the window.
    fn with_large_accumulator(mut self) -> Self {
        let mut next = numbers(9);
        self.c = (0..128).map(|_| 0x4D80_0000 | next(1 << 23)).collect();
        self
    }
}

const E4M3_E2M1: [Format; 2] = [Format::E4m3, Format::E2m1];
const MX: Option<(Format, u32)> = Some((Format::Ue8m0, 1));

#[divan::bench]
fn mxf8f6f4_e4m3_e2m1(bencher: Bencher) {
    case(32, E4M3_E2M1, MX).bench(bencher, mma);
}

#[divan::bench]
fn mxf8f6f4_fine_accumulator(bencher: Bencher) {
    case(32, E4M3_E2M1, MX).with_fine_accumulator().bench(bencher, mma);
}

#[divan::bench]
fn mxf8f6f4_large_accumulator(bencher: Bencher) {
    case(32, E4M3_E2M1, MX).with_large_accumulator().bench(bencher, mma);
}

#[divan::bench]
fn mxf8f6f4_by_definition(bencher: Bencher) {
    case(32, E4M3_E2M1, MX).bench(bencher, mma_exact);
}

#[divan::bench]
fn f8f6f4_e5m2_e5m2(bencher: Bencher) {
    case(32, [Format::E5m2; 2], None).bench(bencher, mma);
}

#[divan::bench]
fn mxf4_k64(bencher: Bencher) {
    case(64, [Format::E2m1; 2], Some((Format::Ue8m0, 2))).bench(bencher, mma);
}

#[divan::bench]
fn nvf4_k64(bencher: Bencher) {
    case(64, [Format::E2m1; 2], Some((Format::Ue4m3, 4))).bench(bencher, mma);
}

#[divan::bench]
fn bf16_k16(bencher: Bencher) {
    case(16, [Format::Bf16; 2], None).bench(bencher, mma);
}

/// Normally distributed data, as in attention: exponents differ by ten or more, so that products are truncated.
fn normal_k16(format: Format) -> Case {
    let mut case = case(16, [format; 2], None);
    let mut next = numbers(11);
    let mut code = || {
        // The sum of twelve uniform numbers, minus its mean.
        let sum: f32 = (0..12).map(|_| next(1 << 20) as f32 / (1 << 20) as f32).sum::<f32>() - 6.0;
        f32_to(format, sum, Rounding::NearestEven, false, false)
    };
    (case.a, case.b) = ((0..256).map(|_| code()).collect(), (0..128).map(|_| code()).collect());
    case
}

#[divan::bench]
fn f16_k16_normal(bencher: Bencher) {
    normal_k16(Format::F16).bench(bencher, mma);
}

#[divan::bench]
fn bf16_k16_normal(bencher: Bencher) {
    normal_k16(Format::Bf16).bench(bencher, mma);
}

/// `fma.rn.f32` for one warp.
#[divan::bench]
fn fma_f32_32_lanes(bencher: Bencher) {
    let mut next = numbers(3);
    let lanes: Vec<[u32; 3]> = (0..32).map(|_| [0; 3].map(|_: u32| 0x3F00_0000 + next(1 << 24))).collect();
    bencher.counter(ItemsCount::new(32u32)).bench(|| {
        black_box(&lanes)
            .iter()
            .fold(0, |sum, [a, b, c]| sum ^ fma_f32(*a, *b, *c, Rounding::NearestEven, false, false))
    });
}

/// `add.rz.f32` for one warp; no host instruction computes it.
#[divan::bench]
fn add_rz_f32_32_lanes(bencher: Bencher) {
    let mut next = numbers(4);
    let lanes: Vec<[u32; 2]> = (0..32).map(|_| [0; 2].map(|_: u32| 0x3F00_0000 + next(1 << 24))).collect();
    bencher.counter(ItemsCount::new(32u32)).bench(|| {
        black_box(&lanes).iter().fold(0, |sum, [a, b]| sum ^ add_f32(*a, *b, Rounding::Zero, false, false))
    });
}
