//! Kernels similar to those of models, with all checks, on one thread and on two: seconds, and instructions per second.
//!
//! `kernels/*.cu` are the sources. `nvcc -ptx -arch=compute_121a -lineinfo`, or NVRTC with the same options, produces the `.ptx`.

#[path = "kernels/setup.rs"]
mod setup;

use divan::Bencher;
use divan::counter::ItemsCount;
use numerics::Format;
use setup::Work;

fn main() {
    divan::main();
}

/// Without `--bench`, everything runs once and briefly, for `cargo test`.
fn size(measured: u32, brief: u32) -> u32 {
    if std::env::args().any(|arg| arg == "--bench") { measured } else { brief }
}

fn measure(bencher: Bencher<'_, '_>, work: &Work, threads: usize) {
    let (mut memory, mut by_one) = (work.memory.clone(), work.memory.clone());
    let instructions = work.run(&mut memory, threads);
    if threads > 1 {
        assert_eq!(work.run(&mut by_one, 1), instructions);
        assert!(work.contents(&by_one) == work.contents(&memory));
    }
    bencher
        .counter(ItemsCount::new(instructions))
        .with_inputs(|| work.memory.clone())
        .bench_values(|mut memory| work.run(&mut memory, threads));
}

#[divan::bench(args = [1, 2], sample_count = 3)]
fn flash_attention(bencher: Bencher<'_, '_>, threads: usize) {
    measure(bencher, &setup::flash_attention(size(8, 1), size(1024, 64)), threads);
}

#[divan::bench(args = [1, 2], sample_count = 3)]
fn matmul_f16(bencher: Bencher<'_, '_>, threads: usize) {
    measure(bencher, &setup::matmul_f16(size(512, 64)), threads);
}

#[divan::bench(args = [1, 2], sample_count = 3)]
fn matmul_mx(bencher: Bencher<'_, '_>, threads: usize) {
    measure(bencher, &setup::matmul_mx(size(256, 64)), threads);
}

#[divan::bench(args = [1, 2], sample_count = 3)]
fn softmax(bencher: Bencher<'_, '_>, threads: usize) {
    measure(bencher, &setup::softmax(size(512, 2)), threads);
}

#[divan::bench(args = [1, 2], sample_count = 3)]
fn sort(bencher: Bencher<'_, '_>, threads: usize) {
    measure(bencher, &setup::sort(size(64, 2)), threads);
}

fn mma_of(bencher: Bencher<'_, '_>, format: Format) {
    let rounds = size(50, 1);
    let work = setup::mma(format, rounds);
    bencher
        .counter(ItemsCount::new(rounds * setup::ROUND))
        .with_inputs(|| work.memory.clone())
        .bench_values(|mut memory| work.run(&mut memory, 1));
}

#[divan::bench(sample_count = 200)]
fn mma_f16(bencher: Bencher<'_, '_>) {
    mma_of(bencher, Format::F16);
}

#[divan::bench(sample_count = 200)]
fn mma_bf16(bencher: Bencher<'_, '_>) {
    mma_of(bencher, Format::Bf16);
}
