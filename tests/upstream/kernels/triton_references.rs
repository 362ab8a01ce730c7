//! References in f64 for the kernels of `programs/triton_kernels.py`.

use safetensors::Dtype;

use super::{e2m1, product, rounded};
use crate::attention_dump::{judged, made, tensor};
use crate::bounds::{BF16, F16, F32, equal, within};
use crate::replay::{Buffers, Element};

pub(super) fn vector_add(b: &Buffers) -> Result<f64, String> {
    let (x, y) = (b.before("x", Element::F32), b.before("y", Element::F32));
    let wanted: Vec<_> = x.iter().zip(&y).map(|(x, y)| (x + y, (x + y).abs() * F32)).collect();
    within(&b.after("o", Element::F32), &wanted)
}

/// The exponentials of a row divided by their sum, and the relative error of each.
fn weights(row: &[f64]) -> (Vec<f64>, f64) {
    let most = row.iter().copied().fold(f64::MIN, f64::max);
    let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
    let range = row.iter().map(|x| (x - most).abs()).fold(0.0, f64::max);
    let relative = (row.len() as f64 + 20.0 + 6.0 * (range + most.abs())) * F32;
    (row.iter().map(|x| (x - most).exp() / sum).collect(), relative)
}

pub(super) fn softmax(b: &Buffers) -> Result<f64, String> {
    let mut wanted = Vec::new();
    for row in b.before("x", Element::F16).chunks(300) {
        let (weights, relative) = weights(row);
        wanted.extend(weights.into_iter().map(|y| rounded((y, y * relative), F16)));
    }
    within(&b.after("o", Element::F16), &wanted)
}

pub(super) fn layer_norm(b: &Buffers) -> Result<f64, String> {
    let (w, beta) = (b.before("w", Element::F32), b.before("b", Element::F32));
    let mut wanted = Vec::new();
    for row in b.before("x", Element::F16).chunks(400) {
        let n = row.len() as f64;
        let mean = row.iter().sum::<f64>() / n;
        let scale = 1.0 / (row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n + 1e-5).sqrt();
        let u = (n + 16.0) * F32;
        for ((x, w), beta) in row.iter().zip(&w).zip(&beta) {
            let bound = u * scale * w.abs() * (x.abs() + 2.0) + u * beta.abs();
            wanted.push(rounded(((x - mean) * scale * w + beta, bound), F16));
        }
    }
    within(&b.after("o", Element::F16), &wanted)
}

/// Products of four rows in two groups; integers.
pub(super) fn layer_norm_backward(b: &Buffers) -> Result<f64, String> {
    let (dy, xh) = (b.before("dy", Element::F32), b.before("xh", Element::F32));
    let mut wanted = vec![0.0; 400];
    for (n, (dy, xh)) in dy.iter().zip(&xh).enumerate() {
        wanted[n / 200 % 2 * 200 + n % 200] += dy * xh;
    }
    equal(&b.after("dw", Element::F32), &wanted)
}

pub(super) fn sum_of_products(b: &Buffers) -> Result<f64, String> {
    let (x, y) = (b.before("x", Element::F32), b.before("y", Element::F32));
    let row = |(x, y): (&[f64], &[f64])| {
        let sum = |size: fn(f64) -> f64| x.iter().zip(y).map(|(x, y)| size(x * y)).sum::<f64>();
        (sum(|p| p), sum(f64::abs) * 130.0 * F32)
    };
    let wanted: Vec<_> = x.chunks(128).zip(y.chunks(128)).map(row).collect();
    within(&b.after("o", Element::F32), &wanted)
}

/// Type, columns of A, columns of B.
fn matmul(
    b: &Buffers,
    element: Element,
    [k, n]: [usize; 2],
    (out, unit): (Element, f64),
) -> Result<f64, String> {
    let wanted = product(&b.before("a", element), &b.before("b", element), k, n, 0.0);
    let wanted: Vec<_> = wanted.into_iter().map(|y| rounded(y, unit)).collect();
    within(&b.after("c", out), &wanted)
}

pub(super) fn matmul_f16(b: &Buffers) -> Result<f64, String> {
    matmul(b, Element::F16, [112, 80], (Element::F16, F16))
}

pub(super) fn matmul_wide(b: &Buffers) -> Result<f64, String> {
    matmul(b, Element::F16, [96, 144], (Element::F16, F16))
}

pub(super) fn matmul_bf16(b: &Buffers) -> Result<f64, String> {
    matmul(b, Element::Bf16, [96, 144], (Element::Bf16, BF16))
}

pub(super) fn matmul_fp8(b: &Buffers) -> Result<f64, String> {
    matmul(b, Element::E4m3, [224, 80], (Element::F32, F32))
}

/// B has its 224 columns in rows.
pub(super) fn matmul_transposed_fp8(b: &Buffers) -> Result<f64, String> {
    let columns = b.before("b", Element::E4m3);
    let transposed: Vec<f64> = (0..columns.len()).map(|i| columns[i % 80 * 224 + i / 80]).collect();
    let wanted = product(&b.before("a", Element::E4m3), &transposed, 224, 80, 0.0);
    within(&b.after("c", Element::F32), &wanted)
}

pub(super) fn matmul_split_k(b: &Buffers) -> Result<f64, String> {
    matmul(b, Element::F16, [256, 64], (Element::F32, F32))
}

pub(super) fn matmul_tf32(b: &Buffers) -> Result<f64, String> {
    // Each input is truncated to 10 bits.
    let input = 2.0f64.powi(-9);
    let wanted = product(&b.before("a", Element::F32), &b.before("b", Element::F32), 112, 80, input);
    within(&b.after("c", Element::F32), &wanted)
}

pub(super) fn matmul_int8(b: &Buffers) -> Result<f64, String> {
    let wanted = product(&b.before("a", Element::I8), &b.before("b", Element::I8), 112, 80, 0.0);
    equal(&b.after("c", Element::I32), &wanted.into_iter().map(|(y, _)| y).collect::<Vec<_>>())
}

pub(super) fn grouped_matmul(b: &Buffers) -> Result<f64, String> {
    let mut largest = 0.0f64;
    for (g, [n, k]) in [[64, 64], [32, 96], [32, 32]].into_iter().enumerate() {
        let of = |letter: &str| b.before(&format!("{letter}{g}"), Element::F16);
        let wanted: Vec<_> =
            product(&of("a"), &of("b"), k, n, 0.0).into_iter().map(|y| rounded(y, F16)).collect();
        largest = largest.max(within(&b.after(&format!("c{g}"), Element::F16), &wanted)?);
    }
    Ok(largest)
}

/// Causal attention of heads of `t` rows of `d` elements, one after the other: each is a request of one head.
fn attention(b: &Buffers, [t, d]: [usize; 2], element: Dtype) -> Result<f64, String> {
    let heads = b.bytes_before("q").len() / (2 * t * d);
    let rows = || vec![heads * t, 1, d];
    let bounds: Vec<u8> = (0..=heads).flat_map(|head| ((head * t) as i32).to_le_bytes()).collect();
    let mut tensors = ["q", "k", "v", "o"].map(|name| tensor(name, element, rows())).to_vec();
    for name in ["qo_indptr", "kv_indptr"] {
        tensors.push(made(name, Dtype::I32, vec![heads + 1], bounds.clone()));
    }
    let said = [
        ("causal", "true"),
        ("sm_scale", "0.125"),
        ("kernel", "triton"),
        ("partials", "none"),
        ("tile", "32"),
    ];
    judged(b, &tensors, &said)
}

pub(super) fn attention_f16(b: &Buffers) -> Result<f64, String> {
    attention(b, [80, 64], Dtype::F16)
}

pub(super) fn attention_bf16(b: &Buffers) -> Result<f64, String> {
    attention(b, [80, 128], Dtype::BF16)
}

pub(super) fn attention_described(b: &Buffers) -> Result<f64, String> {
    attention(b, [128, 64], Dtype::F16)
}

pub(super) fn attention_wide(b: &Buffers) -> Result<f64, String> {
    attention(b, [128, 128], Dtype::F16)
}

/// Rows of 256 elements times their scales, one per `vector` elements.
fn scaled(b: &Buffers, name: &str, packed: bool, vector: usize) -> Vec<f64> {
    let values: Vec<f64> = match packed {
        true => b.before(name, Element::U8).iter().flat_map(|pair| e2m1(*pair as u8)).collect(),
        false => b.before(name, Element::E4m3),
    };
    let scales = format!("s{name}");
    let scales: Vec<f64> = match vector {
        16 => b.before(&scales, Element::E4m3),
        _ => b.before(&scales, Element::U8).iter().map(|code| (code - 127.0).exp2()).collect(),
    };
    values.iter().enumerate().map(|(n, value)| value * scales[n / vector]).collect()
}

/// Whether A and B are packed, and elements per scale.
fn dot_scaled(b: &Buffers, [first, second]: [bool; 2], vector: usize) -> Result<f64, String> {
    let (rows, columns) = (scaled(b, "a", first, vector), scaled(b, "b", second, vector));
    let (k, n) = (256, columns.len() / 256);
    let transposed: Vec<f64> = (0..k * n).map(|i| columns[i % n * k + i / n]).collect();
    within(&b.after("c", Element::F32), &product(&rows, &transposed, k, n, 0.0))
}

pub(super) fn mxfp8(b: &Buffers) -> Result<f64, String> {
    dot_scaled(b, [false, false], 32)
}

pub(super) fn mxfp8_mxfp4(b: &Buffers) -> Result<f64, String> {
    dot_scaled(b, [false, true], 32)
}

pub(super) fn mxfp4(b: &Buffers) -> Result<f64, String> {
    dot_scaled(b, [true, true], 32)
}

pub(super) fn nvfp4(b: &Buffers) -> Result<f64, String> {
    dot_scaled(b, [true, true], 16)
}

pub(super) fn reductions(b: &Buffers) -> Result<f64, String> {
    let x = b.before("x", Element::F32);
    let column = |n: usize| x.iter().skip(n).step_by(64).copied();
    let most: Vec<f64> = (0..64).map(|n| column(n).fold(f64::MIN, f64::max)).collect();
    let least =
        |n: usize| column(n).enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0.0, |a| a.0 as f64);
    equal(&b.after("most", Element::F32), &most)?;
    equal(&b.after("where", Element::I32), &(0..64).map(least).collect::<Vec<_>>())?;
    let sum = |row: &[f64]| (row.iter().sum(), row.iter().map(|x| x.abs()).sum::<f64>() * 64.0 * F32);
    within(&b.after("sums", Element::F32), &x.chunks(64).map(sum).collect::<Vec<_>>())
}

/// Sums along rows from the right; and along columns, each number times the previous result plus one of `y`.
pub(super) fn scans(b: &Buffers) -> Result<f64, String> {
    let (x, y) = (b.before("x", Element::F32), b.before("y", Element::F32));
    let (mut sums, mut last) = (vec![(0.0, 0.0); x.len()], vec![(0.0, 0.0); x.len()]);
    for (n, row) in x.chunks(64).enumerate() {
        let magnitude = row.iter().map(|x| x.abs()).sum::<f64>();
        for i in 0..64 {
            sums[n * 64 + i] = (row[i..].iter().sum(), magnitude * 64.0 * F32);
        }
    }
    let mut magnitudes = vec![0.0; x.len()];
    for n in 0..x.len() {
        let (before, magnitude) = if n < 64 { (0.0, 0.0) } else { (last[n - 64].0, magnitudes[n - 64]) };
        magnitudes[n] = magnitude * x[n].abs() + y[n].abs();
        last[n] = (before * x[n] + y[n], magnitudes[n] * 48.0 * F32);
    }
    let one = within(&b.after("sums", Element::F32), &sums)?;
    Ok(one.max(within(&b.after("last", Element::F32), &last)?))
}

pub(super) fn sort(b: &Buffers) -> Result<f64, String> {
    let mut rows: Vec<Vec<f64>> = b.before("x", Element::I32).chunks(64).map(<[f64]>::to_vec).collect();
    rows.iter_mut().for_each(|row| row.sort_by(f64::total_cmp));
    let most: Vec<f64> = rows.iter().flat_map(|row| row.iter().rev().take(8).copied()).collect();
    equal(&b.after("most", Element::I32), &most)?;
    equal(&b.after("o", Element::I32), &rows.concat())
}

pub(super) fn histogram(b: &Buffers) -> Result<f64, String> {
    let mut wanted = vec![0.0; 64];
    b.before("x", Element::I32).iter().for_each(|x| wanted[(*x as i32 & 63) as usize] += 1.0);
    equal(&b.after("o", Element::I32), &wanted)
}

pub(super) fn atomics(b: &Buffers) -> Result<f64, String> {
    let (mut sums, mut most) = (vec![0.0; 64], vec![0.0f64; 64]);
    for (n, x) in b.before("x", Element::I32).iter().enumerate() {
        let x = f64::from(*x as i32 & 1023);
        sums[n % 64] += x;
        most[n % 64] = most[n % 64].max(x);
    }
    equal(&b.after("sums", Element::I32), &sums)?;
    equal(&b.after("most", Element::I32), &most)?;
    equal(&b.after("locked", Element::I32), &[sums.iter().sum()])
}

pub(super) fn cross_entropy(b: &Buffers) -> Result<f64, String> {
    let mut wanted = Vec::new();
    for (row, target) in b.before("x", Element::F32).chunks(300).zip(b.before("target", Element::I32)) {
        let total = row.iter().map(|x| x.exp()).sum::<f64>().ln();
        let (x, most) = (row[target as usize], row.iter().copied().fold(f64::MIN, f64::max));
        // The logarithm turns the relative error of the sum into an absolute error.
        wanted.push((total - x, (500.0 + 8.0 * (total.abs() + x.abs() + most.abs())) * F32));
    }
    within(&b.after("loss", Element::F32), &wanted)
}

pub(super) fn transpose(b: &Buffers) -> Result<f64, String> {
    let x = b.before("x", Element::F32);
    let wanted: Vec<f64> = (0..x.len()).map(|n| x[n % 72 * 50 + n / 72]).collect();
    equal(&b.after("o", Element::F32), &wanted)
}

/// Groups of 32 with a common scale, in e4m3.
pub(super) fn quantize(b: &Buffers) -> Result<f64, String> {
    let (mut scales, mut codes) = (Vec::new(), Vec::new());
    for group in b.before("x", Element::F16).chunks(32) {
        let scale = group.iter().map(|x| x.abs()).fold(0.0, f64::max) / 448.0;
        scales.push((scale, scale * 4.0 * F32));
        codes.extend(group.iter().map(|x| x / scale).map(|y| (y, 1.001 * (y.abs() / 16.0 + 1.0 / 1024.0))));
    }
    within(&b.after("s", Element::F32), &scales)?;
    within(&b.after("q", Element::E4m3), &codes)
}
