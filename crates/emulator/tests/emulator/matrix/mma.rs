//! `mma` against the recorded answers of MMA-Sim's sm_120, selectors, containers and sparsity.

use emulator::Options;
use numerics::Format;
use numerics::convert::fast::f32_to_f16;
use numerics::tensor_core::{MmaForm, MmaShape, Model, mma};
use vectors::{MatrixCase, MatrixOp, Op, builtin};

use super::harness::{Inputs, LANES, Random, try_warps, warp};

/// Bits that an element of `form` takes in a register.
fn place_bits(form: &MmaForm) -> usize {
    match (form.a.bits(), form.shape.k) {
        (4, 64) => 4,
        (..=8, _) => 8,
        (bits, _) => bits as usize,
    }
}

/// Code into container: what PTX's "packing" says of `kind::f8f6f4`. The bits that count for nothing are noise.
fn contain(format: Format, code: u32, bits: usize, noise: u32) -> u32 {
    match (format, bits) {
        (Format::E2m1, 8) => (code & 15) << 2 | noise & 0xC3,
        (Format::E2m3 | Format::E3m2, 8) => code & 63 | noise & 0xC0,
        _ => code,
    }
}

/// Registers of A (16 rows) or B (8 columns): lane `4·g + t`, neighbours along K in one register.
fn operand(format: Format, codes: &[u32], rows: usize, k: usize, bits: usize, noise: &mut Random) -> Inputs {
    let width = 32 / bits;
    let mut out = vec![[0u32; LANES]; rows * k / width / LANES];
    for (reg, lanes) in out.iter_mut().enumerate() {
        for (lane, word) in lanes.iter_mut().enumerate() {
            let (g, t) = (lane / 4, lane % 4);
            let (upper, step) = if rows == 16 { (reg % 2, reg / 2) } else { (0, reg) };
            for i in 0..width {
                let at = (g + 8 * upper) * k + (t + 4 * step) * width + i;
                let code = contain(format, codes[at], bits, noise.word());
                *word |= (u64::from(code) << (bits * i)) as u32;
            }
        }
    }
    out
}

/// Registers of C, and the same places read back for D.
fn accumulator(codes: &[u32], half: bool) -> Inputs {
    let at = |lane: usize, i: usize| (lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2;
    match half {
        true => (0..2)
            .map(|r| std::array::from_fn(|l| codes[at(l, 2 * r)] | codes[at(l, 2 * r + 1)] << 16))
            .collect(),
        false => (0..4).map(|i| std::array::from_fn(|l| codes[at(l, i)])).collect(),
    }
}

/// Scale registers: the scales at the selected bytes and lanes, noise elsewhere.
fn scales(
    codes: &[u32],
    chunks: usize,
    [byte, thread]: [usize; 2],
    a: bool,
    noise: &mut Random,
) -> [u32; LANES] {
    let mut out = noise.register();
    let rows = if a { 16 } else { 8 };
    for row in 0..rows {
        let lane = if a { 4 * (row % 8) + 2 * thread + row / 8 } else { 4 * row + thread };
        for chunk in 0..chunks {
            let shift = 8 * (byte + chunk);
            out[lane] = out[lane] & !(0xFF << shift) | codes[row * chunks + chunk] << shift;
        }
    }
    out
}

/// `{o0,…}`.
fn group(letter: char, from: usize, count: usize) -> String {
    let names: Vec<String> = (from..from + count).map(|i| format!("{letter}{i}")).collect();
    format!("{{{}}}", names.join(","))
}

/// The instruction, its inputs and its outputs. Selectors are those of A and of B.
fn instruction(op: &MatrixOp, kind_first: bool, selectors: [[usize; 2]; 2]) -> (String, usize) {
    let form = &op.form;
    let MmaShape { m, n, k } = form.shape;
    let bits = place_bits(form);
    let (na, nb) = (m * k * bits / 32 / LANES, n * k * bits / 32 / LANES);
    let nc = if form.accumulator == Format::F16 { 2 } else { 4 };
    let kind =
        op.name.split('.').find(|w| w.starts_with("kind::")).map(|w| format!(".{w}")).unwrap_or_default();
    let (scale, tail) = match form.scale {
        None => (String::new(), String::new()),
        Some((format, chunks)) => {
            let [[ba, ta], [bb, tb]] = selectors;
            let at = na + nb + nc;
            (
                format!(".block_scale.scale_vec::{chunks}X"),
                format!(".{}|,i{at},{{{ba},{ta}}},{{i{}}},{{{bb},{tb}}}", format.name(), at + 1),
            )
        }
    };
    let (stype, operands) = tail.split_once('|').unwrap_or_default();
    let shape = format!(".m{m}n{n}k{k}.row.col");
    let head = if kind_first { format!("{kind}{scale}{shape}") } else { format!("{shape}{kind}{scale}") };
    let (c, a, b) = (form.accumulator.name(), form.a.name(), form.b.name());
    let text = format!(
        "mma.sync.aligned{head}.{c}.{a}.{b}.{c}{stype} {},{},{},{}{operands};",
        group('o', 0, nc),
        group('i', 0, na),
        group('i', na, nb),
        group('i', na + nb, nc),
    );
    (text, nc)
}

fn inputs(form: &MmaForm, case: &MatrixCase, selectors: [[usize; 2]; 2], noise: &mut Random) -> Inputs {
    let MmaShape { m, n, k } = form.shape;
    let bits = place_bits(form);
    let mut out = operand(form.a, &case.a, m, k, bits, noise);
    out.extend(operand(form.b, &case.b, n, k, bits, noise));
    out.extend(accumulator(&case.c, form.accumulator == Format::F16));
    if let Some((_, chunks)) = form.scale {
        out.push(scales(&case.sfa, chunks as usize, selectors[0], true, noise));
        out.push(scales(&case.sfb, chunks as usize, selectors[1], false, noise));
    }
    out
}

/// Every legal pair of selectors.
fn all_selectors(chunks: u32) -> Vec<[[usize; 2]; 2]> {
    let bytes: &[usize] = match chunks {
        1 => &[0, 1, 2, 3],
        2 => &[0, 2],
        _ => &[0],
    };
    let mut out = Vec::new();
    for (a, b) in bytes.iter().flat_map(|a| bytes.iter().map(move |b| (*a, *b))) {
        for thread in 0..8 {
            out.push([[a, thread % 2], [b, thread / 2]]);
        }
    }
    out
}

fn check(op: &MatrixOp, kind_first: bool, selectors: [[usize; 2]; 2]) {
    let mut noise = Random(7);
    let (text, n_out) = instruction(op, kind_first, selectors);
    let cases: Vec<Inputs> =
        op.cases.iter().map(|case| inputs(&op.form, case, selectors, &mut noise)).collect();
    let got = try_warps("sm_120a", &text, &cases, n_out, &Options::default());
    let got = got.unwrap_or_else(|e| panic!("{text}\n{e}"));
    for (n, (case, got)) in op.cases.iter().zip(got).enumerate() {
        let want = accumulator(&case.d, op.form.accumulator == Format::F16);
        assert_eq!(got, want, "case {n} of {text}");
    }
}

fn recorded() -> Vec<MatrixOp> {
    let recordings = builtin().unwrap();
    let ops = recordings.into_iter().flat_map(|r| r.ops);
    ops.filter_map(|op| if let Op::Matrix(op) = op { Some(op) } else { None }).collect()
}

#[test]
fn sm120_as_recorded() {
    let ops = recorded();
    assert_eq!(ops.len(), 70);
    for (n, op) in ops.iter().enumerate() {
        let selectors = op.form.scale.map_or(vec![[[0; 2]; 2]], |(_, chunks)| all_selectors(chunks));
        check(op, n % 2 == 1, selectors[n % selectors.len()]);
    }
}

#[test]
fn every_selector() {
    let ops = recorded();
    for chunks in [1, 2, 4] {
        let op = ops.iter().find(|op| op.form.scale.is_some_and(|(_, c)| c == chunks)).unwrap();
        for selectors in all_selectors(chunks) {
            check(op, false, selectors);
        }
    }
}

const MX: &str = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0 \
                  {o0,o1,o2,o3},{i0,i1,i2,i3},{i4,i5},{i6,i7,i8,i9},i10,";

/// CCCL passes selectors in registers.
#[test]
fn selectors_in_registers() {
    let by_register = format!("mov.b16 h0, 1;\n{MX}{{h0,z}},{{i11}},{{z,h0}};");
    let by_number = format!("{MX}{{1,0}},{{i11}},{{0,1}};");
    let mut random = Random(3);
    let inputs: Inputs = (0..12).map(|_| random.register().map(|w| w & 0x7777_7777)).collect();
    assert_eq!(warp(&by_register, &inputs, 4), warp(&by_number, &inputs, 4));
}

/// A sparse product equals the dense one of half the depth whose B holds what the metadata name, row by row.
#[test]
fn sparse_is_dense_on_what_is_kept() {
    let mut random = Random(11);
    // Any two of four, ordered: indices of a pair from low bits on.
    let pairs = [0b0100u32, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110];
    for k in [16usize, 32] {
        let shape = MmaShape { m: 16, n: 8, k };
        let kept = k / 2;
        let a: Vec<u32> = (0..16 * kept).map(|_| random.word() & 0xBFFF).collect();
        let b: Vec<u32> = (0..8 * k).map(|_| random.word() & 0xBFFF).collect();
        let c = vec![0u32; 128];
        let nibbles: Vec<u32> = (0..16 * k / 4).map(|_| pairs[random.next() as usize % 6]).collect();
        for selector in 0..if k == 16 { 4usize } else { 2 } {
            // A lane of the selected ones holds the metadata of rows g (low half) and g + 8.
            let mut e = random.register();
            for (g, row_pair) in (0..8).map(|g| (g, [g, g + 8])) {
                for part in 0..k / 16 {
                    let mut word = 0;
                    for (half, row) in row_pair.into_iter().enumerate() {
                        for i in 0..4 {
                            word |= nibbles[row * k / 4 + part * 4 + i] << (16 * half + 4 * i);
                        }
                    }
                    e[4 * g + selector * (k / 16) + part] = word;
                }
            }
            let (na, nb) = (kept / 4, k / 8);
            let mut inputs = operand(Format::F16, &a, 16, kept, 16, &mut random);
            inputs.extend(operand(Format::F16, &b, 8, k, 16, &mut random));
            inputs.extend(accumulator(&c, false));
            inputs.push(e);
            let text = format!(
                "mma.sp::ordered_metadata.sync.aligned.m16n8k{k}.row.col.f32.f16.f16.f32 {},{},{},{},i{},{selector};",
                group('o', 0, 4),
                group('i', 0, na),
                group('i', na, nb),
                group('i', na + nb, 4),
                na + nb + 4
            );
            let got = warp(&text, &inputs, 4);
            let mut want = vec![0u32; 128];
            for row in 0..16 {
                let position = |i: usize| {
                    let nibble = nibbles[row * k / 4 + i / 2];
                    i / 2 * 4 + (nibble >> (2 * (i % 2)) & 3) as usize
                };
                let chosen: Vec<u32> = (0..8)
                    .flat_map(|n| (0..kept).map(move |i| (n, i)))
                    .map(|(n, i)| b[n * k + position(i)])
                    .collect();
                let form = MmaForm {
                    shape: MmaShape { m: 1, n: 8, k: kept },
                    a: Format::F16,
                    b: Format::F16,
                    accumulator: Format::F32,
                    scale: None,
                };
                let d = &mut want[row * 8..row * 8 + 8];
                mma(Model::Sm120, &form, &a[row * kept..(row + 1) * kept], &chosen, &[0; 8], &[], &[], d);
            }
            assert_eq!(got, accumulator(&want, false), "k{} selector {selector}", shape.k);
        }
    }
}

/// Volta's shape may add a C of halves in single precision: small whole numbers against a plain product, by the manual's
/// places.
#[test]
fn quads_add_halves_in_single_precision() {
    let mut random = Random(8);
    let mut numbers = |n: usize| -> Vec<f32> { (0..n).map(|_| (random.word() % 17) as f32 - 8.0).collect() };
    // Four products: A by rows, B by columns.
    let (a, b, c) = (numbers(4 * 32), numbers(4 * 32), numbers(4 * 64));
    let half = |x: f32| u32::from(f32_to_f16(x.to_bits()));
    let (quad, upper) = (|lane: usize| lane / 4 % 4, |lane: usize| lane / 16 * 4);
    let pack = |codes: &dyn Fn(usize, usize) -> f32, register: usize| -> [u32; LANES] {
        std::array::from_fn(|lane| {
            half(codes(lane, 2 * register)) | half(codes(lane, 2 * register + 1)) << 16
        })
    };
    let row_of = |m: &[f32], width: usize, lane: usize, i: usize| {
        m[(quad(lane) * 8 + lane % 4 + upper(lane)) * width + i]
    };
    let mut inputs: Inputs = (0..2).map(|r| pack(&|lane, i| row_of(&a, 4, lane, i), r)).collect();
    inputs.extend((0..2).map(|r| pack(&|lane, i| row_of(&b, 4, lane, i), r)));
    inputs.extend((0..4).map(|r| pack(&|lane, i| row_of(&c, 8, lane, i), r)));
    let text = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16 {o0,o1,o2,o3,o4,o5,o6,o7},{i0,i1},{i2,i3},{i4,i5,i6,i7};";
    let got = warp(text, &inputs, 8);
    for lane in 0..LANES {
        for (i, register) in got.iter().enumerate() {
            let row = (lane & 1) + (i & 2) + upper(lane);
            let column = (i & 4) + (lane & 2) + (i & 1);
            let (row, column) = (quad(lane) * 8 + row, quad(lane) * 8 + column);
            let product: f32 = (0..4).map(|k| a[row * 4 + k] * b[column * 4 + k]).sum();
            let want = product + c[row * 8 + column % 8];
            assert_eq!(register[lane], want.to_bits(), "lane {lane} register {i}");
        }
    }
}
