//! The kernels that `benches/kernels.rs` measures compute what they should.

#[path = "../../benches/kernels/setup.rs"]
mod setup;

use numerics::Format;
use setup::Work;

/// The buffers at the end, by two threads.
fn end(work: &Work) -> Vec<Vec<u8>> {
    let mut memory = work.memory.clone();
    let instructions = work.run(&mut memory, 2);
    let mut again = work.memory.clone();
    assert_eq!(work.run(&mut again, 1), instructions);
    let contents = work.contents(&memory);
    assert!(work.contents(&again) == contents);
    contents
}

fn halves(bytes: &[u8]) -> Vec<f64> {
    let value = |b: &[u8]| Format::F16.decode(u32::from(b[0]) | u32::from(b[1]) << 8);
    bytes.chunks(2).map(|b| f64::from(value(b))).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
}

#[test]
fn attention_is_a_weighted_mean() {
    let (heads, rows) = (2, 128);
    let buffers = end(&setup::flash_attention(heads, rows));
    let [q, k, v, o] = [0, 1, 2, 3].map(|n| halves(&buffers[n]));
    let rows = rows as usize;
    for row in 0..heads as usize * rows {
        let first = row / rows * rows;
        let dot = |key: usize| (0..128).map(|i| q[row * 128 + i] * k[key * 128 + i]).sum::<f64>();
        let weights: Vec<f64> = (first..=row).map(|key| (dot(key) / 128f64.sqrt()).exp()).collect();
        let total: f64 = weights.iter().sum();
        for i in 0..128 {
            let mean = weights.iter().zip(first..).map(|(w, key)| w * v[key * 128 + i]).sum::<f64>() / total;
            assert!((o[row * 128 + i] - mean).abs() < 4e-3, "row {row}, column {i}");
        }
    }
}

#[test]
fn a_product_of_halves_is_one() {
    let size = 64;
    let buffers = end(&setup::matmul_f16(size));
    let (a, b, size) = (halves(&buffers[0]), halves(&buffers[1]), size as usize);
    for (at, bits) in words(&buffers[2]).into_iter().enumerate() {
        let of = |i: usize| a[at / size * size + i] * b[at % size * size + i];
        let sum: f64 = (0..size).map(of).sum();
        assert!((f64::from(f32::from_bits(bits)) - sum).abs() < 1e-4, "element {at}");
    }
}

#[test]
fn keys_are_sorted_with_their_places() {
    let work = setup::sort(2);
    let before = words(&work.contents(&work.memory)[0]);
    let buffers = end(&work);
    let (keys, places) = (words(&buffers[0]), words(&buffers[1]));
    for run in 0..2 {
        let run = run * 1024..(run + 1) * 1024;
        assert!(keys[run.clone()].is_sorted());
        assert!(run.clone().all(|i| before[run.start + places[i] as usize] == keys[i]));
    }
}

#[test]
fn rows_sum_to_one_and_others_end() {
    let rows = words(&end(&setup::softmax(2))[1]);
    for row in rows.chunks(1024) {
        assert!((row.iter().map(|bits| f64::from(f32::from_bits(*bits))).sum::<f64>() - 1.0).abs() < 1e-5);
    }
    assert!(words(&end(&setup::matmul_mx(128))[4]).iter().all(|bits| f32::from_bits(*bits).is_finite()));
    for format in [Format::F16, Format::Bf16] {
        let all = u64::from(setup::ROUND);
        assert!(setup::mma(format, 2).run(&mut setup::mma(format, 2).memory.clone(), 1) > 2 * all);
    }
}
