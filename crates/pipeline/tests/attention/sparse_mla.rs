//! The roundings of FlashInfer's sparse attention over records: queries in e4m3, weights times the scales of values in e4m3. What a kernel may
//! round is never accused, and a kernel that rounds otherwise than it declares is found.

use numerics::convert::f32_to;
use numerics::random::{at, mix};
use numerics::{Format, Rounding};
use pipeline::attention::{bounds, dump, judge};
use safetensors::Dtype;

use super::kernel::{File, bf16};
use super::right::verdicts;

const LATENT: usize = 512;
const WIDTH: usize = 576;
const BLOCK: usize = 128;
const SLOTS: usize = 256;
const LIST: usize = 200;
const TILE: usize = 64;
const HEADS: usize = 2;

/// What a kernel does.
#[derive(Clone, Copy)]
struct Knobs {
    /// Whether queries are rounded.
    short_queries: bool,
    /// Whether a second number has what the first leaves of a weight.
    residual: bool,
    /// Whether the largest weight times the largest scale becomes 448.
    by_factors: bool,
    /// Whether entries that name no key are left out before tiles are counted.
    packed: bool,
    /// Tiles of a split.
    of_split: usize,
    /// Whether weights are quantized at all.
    quantized: bool,
}

const RIGHT: Knobs = Knobs {
    short_queries: true,
    residual: false,
    by_factors: false,
    packed: false,
    of_split: 2,
    quantized: true,
};

fn e4m3(x: f32) -> f32 {
    Format::E4m3.decode(f32_to(Format::E4m3, x.clamp(-448.0, 448.0), Rounding::NearestEven, true, false))
}

/// Numbers in [−size, size).
fn number(seed: u64, n: usize, size: f32) -> f32 {
    ((at(mix(seed), n as u64) >> 40) as f32 / (1 << 23) as f32 - 1.0) * size
}

/// A record of each slot: codes, scales of four blocks, and the rotary part; with scales that are powers of two or not.
fn records(seed: u64, powers: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for slot in 0..SLOTS {
        let power = |block: usize| (at(mix(seed + 1), (slot * 4 + block) as u64) % 4) as i32 - 6;
        let scale = |block: usize| {
            let mantissa = if powers { 1.0 } else { 1.0 + number(seed + 2, slot * 4 + block, 0.45).abs() };
            mantissa * 2.0_f32.powi(power(block))
        };
        for d in 0..LATENT {
            let x = number(seed + 3, slot * LATENT + d, 2.0) / scale(d / BLOCK);
            bytes.push(f32_to(Format::E4m3, x, Rounding::NearestEven, true, false) as u8);
        }
        (0..4).for_each(|block| bytes.extend(scale(block).to_le_bytes()));
        for d in LATENT..WIDTH {
            let x = bf16(number(seed + 4, slot * 64 + d, 1.0));
            bytes.extend(((x.to_bits() >> 16) as u16).to_le_bytes());
        }
    }
    bytes
}

/// The elements of a record, and its scales.
fn decoded(record: &[u8]) -> (Vec<f32>, Vec<f32>) {
    let scales: Vec<f32> =
        record[LATENT..LATENT + 16].as_chunks().0.iter().map(|scale| f32::from_le_bytes(*scale)).collect();
    let latent = (0..LATENT).map(|d| Format::E4m3.decode(record[d].into()) * scales[d / BLOCK]);
    let rotary = record[LATENT + 16..]
        .as_chunks()
        .0
        .iter()
        .map(|x| f32::from_bits(u32::from(u16::from_le_bytes(*x)) << 16));
    (latent.chain(rotary).collect(), scales)
}

fn rounded_query(query: &[f32]) -> Vec<f32> {
    let mut out = query.to_vec();
    for block in out[..LATENT].chunks_mut(BLOCK) {
        let largest = block.iter().fold(1e-4_f32, |most, x| most.max(x.abs()));
        let scale = (largest / 448.0).log2().ceil().exp2();
        block.iter_mut().for_each(|x| *x = e4m3(*x / scale) * scale);
    }
    out
}

/// A head of a row whose list has these slots: the output, and the logarithm, base 2, of the sum of exponentials.
fn attend(query: &[f32], cache: &[u8], list: &[i32], knobs: Knobs) -> (Vec<f32>, f32) {
    let query = if knobs.short_queries { rounded_query(query) } else { query.to_vec() };
    let list: Vec<i32> = list.iter().copied().filter(|slot| !knobs.packed || *slot >= 0).collect();
    let mut splits: Vec<(Vec<f32>, f32)> = Vec::new();
    for split in list.chunks(TILE * knobs.of_split) {
        let (mut most, mut sum, mut out) = (f32::NEG_INFINITY, 0.0_f32, vec![0.0_f32; LATENT]);
        for tile in split.chunks(TILE) {
            let keys: Vec<_> = tile
                .iter()
                .filter(|slot| **slot >= 0)
                .map(|slot| decoded(&cache[*slot as usize * 656..][..656]))
                .collect();
            let score = |key: &[f32]| {
                let product: f64 = key.iter().zip(&query).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
                product as f32 * (0.0625 * std::f32::consts::LOG2_E)
            };
            let scores: Vec<f32> = keys.iter().map(|(key, _)| score(key)).collect();
            let new = scores.iter().fold(most, |most, score| most.max(*score));
            let before = if most.is_finite() { (most - new).exp2() } else { 0.0 };
            sum *= before;
            out.iter_mut().for_each(|o| *o *= before);
            most = new;
            let weights: Vec<f32> = scores.iter().map(|score| (score - new).exp2()).collect();
            sum += weights.iter().sum::<f32>();
            for block in 0..4 {
                let products: Vec<f32> =
                    keys.iter().zip(&weights).map(|((_, scales), w)| w * scales[block]).collect();
                let largest = |all: &mut dyn Iterator<Item = f32>| all.fold(0.0_f32, f32::max);
                let base = match knobs.by_factors {
                    false => largest(&mut products.iter().copied()).max(1e-10),
                    true => {
                        largest(&mut weights.iter().copied())
                            * largest(&mut keys.iter().map(|(_, s)| s[block]))
                    }
                } / 448.0;
                let code = |product: &f32| {
                    let x = product * (1.0 / base);
                    let first = e4m3(x);
                    match knobs {
                        Knobs { quantized: false, .. } => x,
                        Knobs { residual: true, .. } => first + e4m3(x - first),
                        _ => first,
                    }
                };
                let codes: Vec<f32> = products.iter().map(code).collect();
                for d in block * BLOCK..(block + 1) * BLOCK {
                    let of_key = |((key, scales), code): (&(Vec<f32>, Vec<f32>), &f32)| {
                        f64::from(*code) * f64::from(key[d] / scales[block])
                    };
                    out[d] += keys.iter().zip(&codes).map(of_key).sum::<f64>() as f32 * base;
                }
            }
        }
        splits.push((out.iter().map(|o| bf16(o / sum)).collect(), most + sum.log2()));
    }
    let most = splits.iter().fold(f32::NEG_INFINITY, |most, (_, lse)| most.max(*lse));
    let total: f32 = splits.iter().map(|(_, lse)| (lse - most).exp2()).sum();
    let element =
        |d: usize| splits.iter().map(|(out, lse)| (lse - most).exp2() * out[d]).sum::<f32>() / total;
    ((0..LATENT).map(element).collect(), most + total.log2())
}

fn file(seed: u64, powers: bool, knobs: Knobs) -> File {
    let cache = records(seed, powers);
    let queries: Vec<f32> = (0..HEADS * WIDTH).map(|n| bf16(number(seed + 5, n, 2.0))).collect();
    let list: Vec<i32> =
        (0..LIST).map(|n| if n % 7 == 3 { -1 } else { ((n * 77 + seed as usize) % SLOTS) as i32 }).collect();
    let (mut out, mut lse) = (Vec::new(), Vec::new());
    for query in queries.chunks(WIDTH) {
        let (of_head, of_sum) = attend(query, &cache, &list, knobs);
        out.extend(of_head.iter().map(|x| bf16(*x)));
        lse.extend(of_sum.to_le_bytes());
    }
    let mut file = File::default();
    file.bf16("q", &[1, HEADS, WIDTH], &queries);
    file.bf16("out", &[1, HEADS, LATENT], &out);
    file.put("lse", Dtype::F32, &[1, HEADS], lse);
    file.put(
        "topk_indices",
        Dtype::I32,
        &[1, LIST],
        list.iter().flat_map(|slot| slot.to_le_bytes()).collect(),
    );
    file.put("kv_cache", Dtype::U8, &[SLOTS / 64, 64 * 656], cache);
    for (key, value) in [
        ("record", "fp8_ds_mla"),
        ("page_size", "64"),
        ("sm_scale", "0.0625"),
        ("lse_base", "2"),
        ("queries", "fp8_e4m3"),
    ] {
        file.say(key, value);
    }
    file
}

/// Wrong elements of the output of six seeds, and of the logarithms.
fn wrong(powers: bool, kernel: &str, knobs: Knobs, declared: &[(&str, &str)]) -> [u64; 2] {
    let mut all = [0; 2];
    for seed in 0..6 {
        let mut file = file(16 * seed, powers, knobs);
        file.say("kernel", kernel);
        declared.iter().for_each(|(key, value)| file.say(key, value));
        let verdicts = verdicts(&file);
        all.iter_mut().zip(&verdicts).for_each(|(all, (.., wrong))| *all += wrong);
    }
    all
}

#[test]
fn what_a_kernel_of_records_declares_is_never_accused() {
    let residual = Knobs { residual: true, ..RIGHT };
    let by_factors = Knobs { by_factors: true, ..RIGHT };
    assert_eq!(wrong(true, "sparse_mla", RIGHT, &[]), [0; 2]);
    assert_eq!(wrong(true, "sparse_mla", Knobs { of_split: 9, ..RIGHT }, &[("partials", "none")]), [0; 2]);
    assert_eq!(
        wrong(true, "sparse_mla", Knobs { short_queries: false, ..RIGHT }, &[("queries", "bf16")]),
        [0; 2]
    );
    assert_eq!(wrong(true, "sparse_mla_swapab", by_factors, &[]), [0; 2]);
    assert_eq!(wrong(false, "sparse_mla_residual", residual, &[]), [0; 2]);
}

/// Elements of the output, and logarithms, that are outside of their bounds: without a search for what explains them.
fn outside(powers: bool, kernel: &str, knobs: Knobs, declared: &[(&str, &str)]) -> [usize; 2] {
    let mut file = file(3, powers, knobs);
    file.say("kernel", kernel);
    declared.iter().for_each(|(key, value)| file.say(key, value));
    let dumps = dump::parse(&file.bytes()).unwrap();
    let bounds = bounds(&dumps).unwrap();
    let output = dumps[0].output.as_ref().unwrap().values.iter().zip(&bounds.output);
    // A bf16 is within half a step of what is stored.
    let is_wrong = |(found, (value, bound)): &(&f32, &(f64, f64))| {
        (f64::from(**found) - value).abs() > bound + (value.abs() + bound) / 128.0
    };
    let lse = dumps[0].lse.as_ref().unwrap().values.iter().zip(bounds.lse.chunks(2));
    let is_other = |(found, of): &(&f32, &[(f64, f64)])| (f64::from(**found) - of[1].0).abs() > of[1].1;
    [output.filter(is_wrong).count(), lse.filter(is_other).count()]
}

#[test]
fn a_kernel_of_records_that_rounds_otherwise_is_found() {
    let whole = &[("partials", "none")][..];
    let knobs = Knobs { of_split: 9, ..RIGHT };
    assert_eq!(outside(true, "sparse_mla", knobs, whole), [0; 2]);
    for (what, kernel, knobs) in [
        (
            "the largest weight times the largest scale is 448",
            "sparse_mla",
            Knobs { by_factors: true, ..knobs },
        ),
        ("the largest product is 448", "sparse_mla_swapab", knobs),
        ("tiles are counted without entries that name no key", "sparse_mla", Knobs { packed: true, ..knobs }),
        ("weights are not quantized", "sparse_mla", Knobs { quantized: false, ..knobs }),
        ("there is no second number of a weight", "sparse_mla_residual", knobs),
    ] {
        assert!(outside(true, kernel, knobs, whole)[0] > 0, "{what}");
    }
    let queries = Knobs { short_queries: false, ..knobs };
    assert!(outside(true, "sparse_mla", queries, whole)[1] > 0, "queries are not rounded");
}

#[test]
fn what_a_file_does_not_declare_of_its_queries_is_tried() {
    let mut file = file(3, true, Knobs { short_queries: false, ..RIGHT });
    file.say("kernel", "sparse_mla");
    file.metadata.remove("queries");
    let judgement = judge(&dump::parse(&file.bytes()).unwrap()).unwrap();
    assert!(judgement.results.iter().all(|result| result.mismatches == 0));
    let text = judgement.results.iter().map(|result| result.note.as_str()).collect::<Vec<_>>().join(" ");
    assert!(text.contains("queries"), "{text}");
}
