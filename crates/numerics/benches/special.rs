//! Throughput of special functions on one core. Target: 200 million `ex2.approx.ftz.f32` per second.

use std::hint::black_box;

use divan::Bencher;
use divan::counter::ItemsCount;
use numerics::float::{
    div_full_f32, ex2_approx_f32, lg2_approx_f32, rcp_approx_f32, rsqrt_approx_f32, sin_approx_f32,
    sqrt_approx_f32, tanh_approx_f32,
};

fn main() {
    divan::main();
}

/// Lanes per measured iteration.
const LANES: u32 = 4096;

/// Numbers from 2^-7 to 16 of either sign.
fn inputs() -> Vec<u32> {
    let input = |n: u32| {
        let bits = n.wrapping_mul(0x9E37_79B1);
        bits & 0x8000_0000 | (0x3C00_0000 + bits % 0x0580_0000)
    };
    (0..LANES).map(input).collect()
}

/// Benchmarks `function`, one lane at a time.
fn lanes(bencher: Bencher, function: impl Fn(u32) -> u32 + Sync) {
    let inputs = inputs();
    let mut outputs = vec![0; inputs.len()];
    bencher.counter(ItemsCount::new(LANES)).bench_local(|| {
        for (output, input) in outputs.iter_mut().zip(black_box(&inputs)) {
            *output = function(*input);
        }
        black_box(&mut outputs);
    });
}

#[divan::bench]
fn ex2_ftz(bencher: Bencher) {
    lanes(bencher, |a| ex2_approx_f32(a, true));
}

#[divan::bench]
fn ex2(bencher: Bencher) {
    lanes(bencher, |a| ex2_approx_f32(a, false));
}

#[divan::bench]
fn lg2_ftz(bencher: Bencher) {
    lanes(bencher, |a| lg2_approx_f32(a, true));
}

#[divan::bench]
fn rcp_ftz(bencher: Bencher) {
    lanes(bencher, |a| rcp_approx_f32(a, true));
}

#[divan::bench]
fn rsqrt_ftz(bencher: Bencher) {
    lanes(bencher, |a| rsqrt_approx_f32(a & !(1 << 31), true));
}

#[divan::bench]
fn sqrt_ftz(bencher: Bencher) {
    lanes(bencher, |a| sqrt_approx_f32(a & !(1 << 31), true));
}

#[divan::bench]
fn sin(bencher: Bencher) {
    lanes(bencher, sin_approx_f32);
}

#[divan::bench]
fn tanh(bencher: Bencher) {
    lanes(bencher, tanh_approx_f32);
}

#[divan::bench]
fn div_full(bencher: Bencher) {
    lanes(bencher, |a| div_full_f32(0x3F80_0000, a, false));
}
