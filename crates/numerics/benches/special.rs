//! Throughput of special functions on one core. Target: 200 million `ex2.approx.ftz.f32` per second.

use std::hint::black_box;

use divan::Bencher;
use divan::counter::ItemsCount;
use numerics::Path;
use numerics::float::{
    div_full_f32_lanes, ex2_approx_f32_lanes, lg2_approx_f32_lanes, rcp_approx_f32_lanes,
    rsqrt_approx_f32_lanes, sin_approx_f32_lanes, sqrt_approx_f32_lanes, tanh_approx_f32_lanes,
};
use pulp::NullaryFnOnce;

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

/// A function of a warp.
struct OfWarp<F>(F);

impl<F: FnOnce() -> [u32; 32]> NullaryFnOnce for OfWarp<F> {
    type Output = [u32; 32];

    #[inline(always)]
    fn call(self) -> [u32; 32] {
        (self.0)()
    }
}

/// Benchmarks `function`, warp by warp, on the vector instructions of the machine.
fn lanes(bencher: Bencher, function: impl Fn(&[u32; 32]) -> [u32; 32] + Sync) {
    let inputs = inputs();
    let mut outputs = vec![0; inputs.len()];
    let path = Path::current();
    bencher.counter(ItemsCount::new(LANES)).bench_local(|| {
        let (warps, _) = black_box(&inputs).as_chunks();
        for (output, input) in outputs.as_chunks_mut().0.iter_mut().zip(warps) {
            *output = path.run(OfWarp(|| function(input)));
        }
        black_box(&mut outputs);
    });
}

#[divan::bench]
fn ex2_ftz(bencher: Bencher) {
    lanes(bencher, |a| ex2_approx_f32_lanes(a, true));
}

#[divan::bench]
fn ex2(bencher: Bencher) {
    lanes(bencher, |a| ex2_approx_f32_lanes(a, false));
}

#[divan::bench]
fn lg2_ftz(bencher: Bencher) {
    lanes(bencher, |a| lg2_approx_f32_lanes(a, true));
}

#[divan::bench]
fn rcp_ftz(bencher: Bencher) {
    lanes(bencher, |a| rcp_approx_f32_lanes(a, true));
}

#[divan::bench]
fn rsqrt_ftz(bencher: Bencher) {
    lanes(bencher, |a| rsqrt_approx_f32_lanes(&a.map(|bits| bits & !(1 << 31)), true));
}

#[divan::bench]
fn sqrt_ftz(bencher: Bencher) {
    lanes(bencher, |a| sqrt_approx_f32_lanes(&a.map(|bits| bits & !(1 << 31)), true));
}

#[divan::bench]
fn sin(bencher: Bencher) {
    lanes(bencher, sin_approx_f32_lanes);
}

#[divan::bench]
fn tanh(bencher: Bencher) {
    lanes(bencher, tanh_approx_f32_lanes);
}

#[divan::bench]
fn div_full(bencher: Bencher) {
    lanes(bencher, |a| div_full_f32_lanes(&[0x3F80_0000; 32], a, false));
}
