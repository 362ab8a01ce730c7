//! Wrong stages are explained by the fault that was planted: a device that reads other inputs, follows other rules, or stores elsewhere.

use pipeline::moe::case::{GateUp, ScaleRule, Scores};
use pipeline::moe::problem::{Problem, generate};
use pipeline::moe::{Array, Contract, Tensors, explain, judge};
use record::Verdict;

use crate::case;
use crate::device::{NATIVE, bf16, e2m1, e4m3, quantize, run, to_bf16, to_e4m3};

/// What the faulty device computes with.
type Fault = fn(&mut Problem);

fn problem() -> Problem {
    let case = case(
        "about: x\ntokens: 24\nhidden: 256\ninter: 128\nexperts: 4\ntop_k: 2\nrouting: random\nregime: real\nbias: true\n",
    );
    generate(&case, 3).unwrap()
}

/// The tensors of a device with a fault, beside the inputs as they should be.
fn stored(fault: Fault) -> (Contract, Tensors) {
    let right = problem();
    let mut wrong = problem();
    fault(&mut wrong);
    let mut tensors = run(&wrong, NATIVE);
    tensors.extend(right.inputs.clone());
    (Contract::native(right.dims, right.settings), tensors)
}

fn scales(t: &mut Option<Array<u8>>, from: impl Fn(usize, usize, usize, usize) -> usize) {
    let array = t.as_mut().unwrap();
    let [.., rows, columns] = array.shape[..] else { unreachable!() };
    for matrix in array.data.chunks_mut(rows * columns) {
        let old = matrix.to_vec();
        for (at, x) in matrix.iter_mut().enumerate() {
            *x = old[from(at / columns, at % columns, rows, columns)];
        }
    }
}

/// 128 rows by 4 columns, 512 bytes.
fn tile(row: usize, column: usize, columns: usize) -> usize {
    (row / 128 * columns.div_ceil(4) + column / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4
}

const FAULTS: &[(&str, &str, Fault)] = &[
    ("fc1", "the two codes of each byte of the weights of FC1 are exchanged", |p| {
        p.inputs.w13_blocks.as_mut().unwrap().data.iter_mut().for_each(|x| *x = x.rotate_left(4));
    }),
    ("fc1", "the codes of the weights of FC1 are not shifted by 2 bits", |p| {
        p.inputs.w13_blocks.as_mut().unwrap().data.iter_mut().for_each(|x| *x = *x >> 2 & 0x33);
    }),
    ("fc1", "the scales of the weights of FC1 are stored linear and read 128x4", |p| {
        scales(&mut p.inputs.w13_scales, |r, c, _, columns| tile(r, c, columns));
    }),
    ("fc1", "the scales of the weights of FC1 are stored 128x4 and read as linear", |p| {
        let array = p.inputs.w13_scales.as_mut().unwrap();
        let [.., rows, columns] = array.shape[..] else { unreachable!() };
        for matrix in array.data.chunks_mut(rows * columns) {
            let old = matrix.to_vec();
            for (n, x) in old.iter().enumerate() {
                matrix[tile(n / columns, n % columns, columns)] = *x;
            }
        }
    }),
    ("fc1", "the scale of the neighbouring block, in pairs, is taken, of the weights of FC1", |p| {
        scales(&mut p.inputs.w13_scales, |r, c, _, columns| r * columns + (c ^ 1));
    }),
    ("fc1", "the scale of the next row is taken, of the weights of FC1", |p| {
        scales(&mut p.inputs.w13_scales, |r, c, rows, columns| (r + 1) % rows * columns + c);
    }),
    ("fc1", "the bias of FC1 is left out", |p| p.inputs.w13_bias.as_mut().unwrap().data.fill(0.0)),
    ("fc1", "the bias of FC1 is that of the next expert", |p| {
        let bias = p.inputs.w13_bias.as_mut().unwrap();
        let width = *bias.shape.last().unwrap();
        bias.data.rotate_left(width);
    }),
    ("fc1", "the last 64 of K of FC1 are left out", |p| {
        p.inputs.w13_blocks.as_mut().unwrap().data.chunks_mut(128).for_each(|row| row[96..].fill(0));
    }),
    ("fc2", "the two codes of each byte of the weights of FC2 are exchanged", |p| {
        p.inputs.w2_blocks.as_mut().unwrap().data.iter_mut().for_each(|x| *x = x.rotate_left(4));
    }),
    ("fc2", "the scale of the block before is taken, of the weights of FC2", |p| {
        scales(&mut p.inputs.w2_scales, |r, c, _, columns| r * columns + (c + columns - 1) % columns);
    }),
    ("fc2", "the scales of the weights of FC2 are twice as large", |p| {
        p.inputs.w2_scales.as_mut().unwrap().data.iter_mut().for_each(|x| *x += 1);
    }),
    ("fc2", "the bias of FC2 is added twice", |p| {
        p.inputs.w2_bias.as_mut().unwrap().data.iter_mut().for_each(|x| *x *= 2.0);
    }),
    ("activation", "gate and up are read as gate_first", |p| p.settings.gate_up = GateUp::GateFirst),
    ("activation", "gate and up are read as up_first", |p| p.settings.gate_up = GateUp::UpFirst),
    ("activation", "alpha is 1", |p| p.settings.alpha = 1.0),
    ("activation", "beta is 0", |p| p.settings.beta = 0.0),
    ("activation", "scales are chosen by the rule `floor`", |p| p.settings.scale_rule = ScaleRule::Floor),
    ("route", "scores are those of `softmax_all`", |p| p.settings.router.scores = Scores::SoftmaxAll),
];

/// Faults of the kinds of the table, planted in ways that it does not have: by other constants, other sizes, or in a part of the result alone.
const PLANTED: &[(&str, &str, Fault)] = &[
    ("fc1", "tile 1 of K, of 64 elements, is left out of FC1", |p| {
        p.inputs.w13_blocks.as_mut().unwrap().data.chunks_mut(128).for_each(|row| row[32..64].fill(0));
    }),
    ("fc1", "the first 32 of K of FC1 are left out", |p| {
        p.inputs.w13_blocks.as_mut().unwrap().data.chunks_mut(128).for_each(|row| row[..16].fill(0));
    }),
    ("fc1", "the first half of K of FC1 is left out", |p| {
        p.inputs.w13_blocks.as_mut().unwrap().data.chunks_mut(128).for_each(|row| row[..64].fill(0));
    }),
    ("fc1", "the last 32 of K of FC1 count twice", |p| {
        scales_set(&mut p.inputs.w13_scales, |_, c, columns, x| if c + 1 == columns { x + 1 } else { x });
    }),
    ("fc1", "the scale of the four blocks in reverse is taken, of the weights of FC1", |p| {
        scales(&mut p.inputs.w13_scales, |r, c, _, columns| r * columns + (c / 4 * 4 + 3 - c % 4));
    }),
    ("fc1", "the scale of the next block of each four is taken, of the weights of FC1", |p| {
        scales(&mut p.inputs.w13_scales, |r, c, _, columns| r * columns + c / 4 * 4 + (c + 1) % 4);
    }),
    ("fc1", "the scale of the first block of a row is taken, of the weights of FC1", |p| {
        scales(&mut p.inputs.w13_scales, |r, _, _, columns| r * columns);
    }),
    ("fc1", "the scales of the weights of FC1 are stored linear and read 8x4", |p| {
        scales(&mut p.inputs.w13_scales, |r, c, _, columns| {
            (r / 8 * columns.div_ceil(4) + c / 4) * 32 + r % 8 * 4 + c % 4
        });
    }),
    ("fc1", "the scales of the weights of FC1 are read as [K, rows]", |p| {
        scales(&mut p.inputs.w13_scales, |r, c, rows, _| c * rows + r);
    }),
    ("fc1", "the signs of the weights of FC1 are lost", |p| {
        p.inputs.w13_blocks.as_mut().unwrap().data.iter_mut().for_each(|x| *x &= 0x77);
    }),
    ("fc1", "-6 is read as 6, of the weights of FC1", |p| {
        for x in &mut p.inputs.w13_blocks.as_mut().unwrap().data {
            *x = [*x & 15, *x >> 4]
                .map(|n| if n == 15 { 7 } else { n })
                .into_iter()
                .rev()
                .fold(0, |a, n| a << 4 | n);
        }
    }),
    ("fc1", "the high codes of the weights of FC1 are read twice", |p| {
        p.inputs.w13_blocks.as_mut().unwrap().data.iter_mut().for_each(|x| *x = *x & 0xF0 | *x >> 4);
    }),
    ("fc1", "the codes and scales of the tile before of 64 along K are read, of the weights of FC1", |p| {
        for row in p.inputs.w13_blocks.as_mut().unwrap().data.chunks_mut(128) {
            row.copy_within(..96, 32);
        }
        for row in p.inputs.w13_scales.as_mut().unwrap().data.chunks_mut(8) {
            row.copy_within(..6, 2);
        }
    }),
    ("fc1", "the weights of FC1 of the row 8 apart are read", |p| {
        let array = p.inputs.w13_blocks.as_mut().unwrap();
        rows(&mut array.data, 128, |row| row ^ 8);
        rows(&mut p.inputs.w13_scales.as_mut().unwrap().data, 8, |row| row ^ 8);
    }),
    ("fc1", "the bias of FC1 is halved", |p| {
        p.inputs.w13_bias.as_mut().unwrap().data.iter_mut().for_each(|x| *x *= 0.5);
    }),
    ("fc1", "the bias of FC1 is subtracted", |p| {
        p.inputs.w13_bias.as_mut().unwrap().data.iter_mut().for_each(|x| *x = -*x);
    }),
    ("fc1", "the bias of FC1 is that of the other column of a pair", |p| {
        p.inputs.w13_bias.as_mut().unwrap().data.chunks_mut(2).for_each(|pair| pair.swap(0, 1));
    }),
    ("fc1", "the bias of FC1 is that of the first expert", |p| {
        let bias = p.inputs.w13_bias.as_mut().unwrap();
        let width = *bias.shape.last().unwrap();
        let first = bias.data[..width].to_vec();
        bias.data.chunks_mut(width).for_each(|row| row.copy_from_slice(&first));
    }),
    ("fc1", "the weights of the next expert are read", |p| rotate_experts(p, 1)),
    ("fc1", "the weights of the expert before are read", |p| rotate_experts(p, 3)),
    ("fc2", "the codes of the weights of FC2 are not shifted by 2 bits", |p| {
        p.inputs.w2_blocks.as_mut().unwrap().data.iter_mut().for_each(|x| *x = *x >> 2 & 0x33);
    }),
    ("fc2", "the last 32 of K of FC2 are left out", |p| {
        p.inputs.w2_blocks.as_mut().unwrap().data.chunks_mut(64).for_each(|row| row[48..].fill(0));
    }),
    ("fc2", "tile 1 of K, of 32 elements, is left out of FC2", |p| {
        p.inputs.w2_blocks.as_mut().unwrap().data.chunks_mut(64).for_each(|row| row[16..32].fill(0));
    }),
    ("fc2", "the scales of the weights of FC2 are stored linear and read 128x4", |p| {
        scales(&mut p.inputs.w2_scales, |r, c, _, columns| tile(r, c, columns));
    }),
    ("fc2", "the scales of the weights of FC2 are half as large", |p| {
        p.inputs.w2_scales.as_mut().unwrap().data.iter_mut().for_each(|x| *x -= 1);
    }),
    ("fc2", "the scale of the other row of a pair is taken, of the weights of FC2", |p| {
        scales(&mut p.inputs.w2_scales, |r, c, _, columns| (r ^ 1) * columns + c);
    }),
    ("fc2", "the bias of FC2 is left out", |p| p.inputs.w2_bias.as_mut().unwrap().data.fill(0.0)),
    ("fc2", "the bias of FC2 is that of the next column", |p| {
        let bias = p.inputs.w2_bias.as_mut().unwrap();
        let width = *bias.shape.last().unwrap();
        bias.data.chunks_mut(width).for_each(|row| row.rotate_left(1));
    }),
    ("activation", "SwiGLU without constants: alpha 1, beta 0, no limit", |p| {
        (p.settings.alpha, p.settings.beta, p.settings.limit) = (1.0, 0.0, f32::INFINITY);
    }),
    ("activation", "beta is 0", |p| p.settings.beta = 0.0),
];

fn scales_set(t: &mut Option<Array<u8>>, to: impl Fn(usize, usize, usize, u8) -> u8) {
    let array = t.as_mut().unwrap();
    let columns = *array.shape.last().unwrap();
    for (at, x) in array.data.iter_mut().enumerate() {
        *x = to(at / columns, at % columns, columns, *x);
    }
}

fn rows(data: &mut [u8], width: usize, from: impl Fn(usize) -> usize) {
    let old = data.to_vec();
    for (row, to) in data.chunks_mut(width).enumerate() {
        to.copy_from_slice(&old[from(row) * width..(from(row) + 1) * width]);
    }
}

/// Every expert has the weights of another, of four.
fn rotate_experts(p: &mut Problem, by: usize) {
    for bytes in
        [&mut p.inputs.w13_blocks, &mut p.inputs.w13_scales, &mut p.inputs.w2_blocks, &mut p.inputs.w2_scales]
    {
        let array = bytes.as_mut().unwrap();
        let width = array.data.len() / 4;
        array.data.rotate_left(by * width);
    }
    for floats in [&mut p.inputs.w13_bias, &mut p.inputs.w2_bias] {
        let array = floats.as_mut().unwrap();
        let width = array.data.len() / 4;
        array.data.rotate_left(by * width);
    }
}

/// What a search says of a planted fault.
#[derive(Default)]
struct Said {
    named: usize,
    unexplained: Vec<String>,
    accused: Vec<String>,
}

impl Said {
    fn add(&mut self, what: &str, contract: &Contract, tensors: &Tensors) {
        let results = judge(contract, tensors).unwrap();
        let text = explain(contract, tensors, &results).map(|found| found.text()).unwrap_or_default();
        if text.contains(what) {
            self.named += 1;
        } else if ["unexplained", "not computed"].iter().any(|start| text.starts_with(start))
            || text.is_empty()
        {
            self.unexplained.push(format!("{what}: {text}"));
        } else {
            self.accused.push(format!("{what}: {text}"));
        }
    }
}

#[test]
fn faults_that_are_planted_otherwise_are_named_and_none_is_named_wrongly() {
    let mut said = Said::default();
    let (contract, right) = stored(|_| {});
    let experts = right.row_expert.clone().unwrap();
    for (stage, what, fault) in PLANTED.iter().chain(FAULTS) {
        let (_, wrong) = stored(*fault);
        let results = judge(&contract, &wrong).unwrap();
        let first = results.iter().find(|r| r.verdict == Verdict::Fail).map(|r| r.stage.to_string());
        // A rule of scales is a fault of the first stage that quantizes.
        assert!(
            first.as_deref() == Some(*stage) || *stage == "activation" && first.is_some(),
            "{what}: {first:?}"
        );
        said.add(what, &contract, &wrong);
        // The same in one expert, or in some columns alone.
        let of: fn(&mut Tensors) -> &mut Array<u16> = match *stage {
            "fc1" => |t| t.fc1_out.as_mut().unwrap(),
            "fc2" => |t| t.fc2_out.as_mut().unwrap(),
            _ => continue,
        };
        let parts: [fn(usize, usize) -> bool; 2] =
            [|expert, _| expert == 2, |_, column| (64..128).contains(&column)];
        for is_wrong in parts {
            let mut mixed = right.clone();
            let mut from = wrong.clone();
            let from = of(&mut from);
            let width = *from.shape.last().unwrap();
            for (at, x) in of(&mut mixed).data.iter_mut().enumerate() {
                if is_wrong(usize::try_from(experts.data[at / width]).unwrap(), at % width) {
                    *x = from.data[at];
                }
            }
            said.add(what, &contract, &mixed);
        }
    }
    let all = said.named + said.unexplained.len() + said.accused.len();
    println!("{all} planted faults: {} named, {} unexplained", said.named, said.unexplained.len());
    println!("{}", said.unexplained.join("\n"));
    assert!(said.accused.is_empty(), "{}", said.accused.join("\n"));
    assert!(said.named * 100 >= all * 85, "{} of {all}", said.named);
}

#[test]
fn two_changes_at_once_are_named() {
    let (contract, tensors) = stored(|p| {
        scales(&mut p.inputs.w2_scales, |r, c, _, columns| tile(r, c, columns));
        p.inputs.w2_bias.as_mut().unwrap().data.fill(0.0);
    });
    let results = judge(&contract, &tensors).unwrap();
    let text = explain(&contract, &tensors, &results).unwrap().text();
    assert!(text.contains("read 128x4") && text.contains("the bias of FC2 is left out"), "{text}");
}

#[test]
fn results_that_were_stored_elsewhere_are_put_back() {
    let (contract, tensors) = stored(|_| {});
    assert!(explain(&contract, &tensors, &judge(&contract, &tensors).unwrap()).is_none());
    let found = |change: &dyn Fn(&mut Tensors)| {
        let mut tensors = tensors.clone();
        change(&mut tensors);
        let results = judge(&contract, &tensors).unwrap();
        explain(&contract, &tensors, &results).unwrap().text()
    };
    let text = found(&|t| t.fc1_out.as_mut().unwrap().data.chunks_mut(2).for_each(|pair| pair.swap(0, 1)));
    assert!(
        text.contains("gate and up are exchanged, in pairs") && text.contains("columns of pairs"),
        "{text}"
    );
    let text = found(&|t| {
        let array = t.fc2_out.as_mut().unwrap();
        let width = *array.shape.last().unwrap();
        array.data.rotate_right(width);
    });
    assert!(text.contains("FC2 is stored with every row one too far"), "{text}");
    let text = found(&|t| {
        for x in &mut t.output.as_mut().unwrap().data {
            *x = if *x & 0x7F80 == 0 { *x } else { *x + 0x80 };
        }
    });
    assert!(text.contains("the result has a constant factor: two"), "{text}");
}

#[test]
fn the_arithmetic_of_a_wrong_element_runs() {
    let (contract, mut tensors) = stored(|_| {});
    tensors.fc2_out.as_mut().unwrap().data[5] ^= 0x8000;
    let results = judge(&contract, &tensors).unwrap();
    let program = explain(&contract, &tensors, &results).unwrap().arithmetic.unwrap();
    let ran = std::process::Command::new("python3").args(["-c", &program]).output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["exact", exact, "stored", found] = words[..] else {
        panic!("{text}{}", String::from_utf8_lossy(&ran.stderr));
    };
    let [exact, found] = [exact, found].map(|x| x.parse::<f64>().unwrap());
    // The sign alone is wrong.
    assert!((exact + found).abs() <= exact.abs() / 100.0 && exact != 0.0, "{text}");
}

#[test]
fn garbage_is_unexplained() {
    let (contract, mut tensors) = stored(|_| {});
    let out = &mut tensors.fc1_out.as_mut().unwrap().data;
    for (n, x) in out.iter_mut().enumerate().filter(|(n, _)| n % 5 == 0) {
        *x = 0x3F80 + (n % 128) as u16;
    }
    let results = judge(&contract, &tensors).unwrap();
    let text = explain(&contract, &tensors, &results).unwrap().text();
    assert!(text.starts_with("unexplained"), "{text}");
}

#[test]
fn an_error_in_any_column_is_in_the_sample() {
    let (contract, right) = stored(|_| {});
    for column in [0, 1, 97, 255] {
        let mut tensors = right.clone();
        tensors.fc1_out.as_mut().unwrap().data[5 * 256 + column] ^= 0x4000;
        let results = judge(&contract, &tensors).unwrap();
        assert!(explain(&contract, &tensors, &results).is_some(), "{column}");
    }
}

#[test]
fn an_output_alone_is_explained_from_the_inputs() {
    let (contract, tensors) = stored(|p| {
        p.inputs.w13_blocks.as_mut().unwrap().data.iter_mut().for_each(|x| *x = x.rotate_left(4));
    });
    let inputs = Tensors {
        a1_codes: None,
        a1_scales: None,
        a2_codes: None,
        a2_scales: None,
        fc1_out: None,
        fc2_out: None,
        ..tensors
    };
    let results = judge(&contract, &inputs).unwrap();
    let text = explain(&contract, &inputs, &results).unwrap().text();
    assert!(text.contains("the two codes of each byte of the weights of FC1 are exchanged"), "{text}");
}

/// The first GEMM in doubles: the sum of all products, with the scale that a kernel takes for each weight, and its activation's.
fn fc1(
    tensors: &Tensors,
    of_activation: impl Fn(&[u8], usize) -> f64,
    of_weight: impl Fn(&[u8], usize, usize) -> f64,
) -> Vec<u16> {
    let get = |array: &Option<Array<u8>>| array.clone().unwrap();
    let (a, a_scales) = (get(&tensors.a1_codes), get(&tensors.a1_scales));
    let (w, w_scales) = (get(&tensors.w13_blocks), get(&tensors.w13_scales));
    let [_, columns, _] = w.shape[..] else { unreachable!() };
    let (depth, bias) = (a.shape[1], tensors.w13_bias.clone().unwrap());
    let mut out = Vec::new();
    for (row, expert) in tensors.row_expert.clone().unwrap().data.iter().enumerate() {
        let expert = usize::try_from(*expert).unwrap();
        let per_expert = w_scales.data.len() / 4;
        let scales = &w_scales.data[expert * per_expert..(expert + 1) * per_expert];
        for column in 0..columns {
            let codes = &w.data[(expert * columns + column) * depth / 2..];
            let sum: f64 = (0..depth)
                .map(|k| {
                    let weight = e2m1(codes[k / 2] >> (4 * (k % 2)) & 15).0;
                    let scaled = of_activation(a_scales.row(row), k / 32) * of_weight(scales, column, k);
                    e4m3(a.row(row)[k]).0 * weight * scaled
                })
                .sum();
            out.push(to_bf16((sum + f64::from(bias.data[expert * columns + column])) as f32));
        }
    }
    out
}

fn power(scale: u8) -> f64 {
    2f64.powi(i32::from(scale) - 127)
}

/// The answer to a result of the first GEMM with faults in its scales.
fn explained_fc1(
    of_activation: impl Fn(&[u8], usize) -> f64,
    of_weight: impl Fn(&[u8], usize, usize) -> f64,
) -> String {
    let (contract, mut tensors) = stored(|_| {});
    let out = fc1(&tensors, of_activation, of_weight);
    tensors.fc1_out.as_mut().unwrap().data = out.into();
    let results = judge(&contract, &tensors).unwrap();
    explain(&contract, &tensors, &results).map(|found| found.text()).unwrap_or_default()
}

#[test]
fn scales_that_are_read_as_another_type_are_named() {
    let right = explained_fc1(
        |scales, block| power(scales[block]),
        |scales, column, k| power(scales[column * 8 + k / 32]),
    );
    assert_eq!(right, "", "the sums of this test");
    let other = |scale: u8| e4m3(scale & 0x7F).0;
    let text = explained_fc1(
        |scales, block| power(scales[block]),
        |scales, column, k| other(scales[column * 8 + k / 32]),
    );
    assert!(text.contains("the ue8m0 scales of the weights of FC1 are read as ue4m3"), "{text}");
    let text = explained_fc1(
        |scales, block| other(scales[block]),
        |scales, column, k| power(scales[column * 8 + k / 32]),
    );
    assert!(text.contains("the ue8m0 scales of the activations of FC1 are read as ue4m3"), "{text}");
}

#[test]
fn scales_that_are_read_for_blocks_of_half_the_size_are_named() {
    let text = explained_fc1(
        |scales, block| power(scales[block]),
        |scales, column, k| power(scales[(column * 8 + k / 16) % scales.len()]),
    );
    assert!(
        text.contains("the scales of the weights of FC1 are read for blocks of 16 instead of 32\n"),
        "{text}"
    );
    let text = explained_fc1(
        |scales, block| power(scales[block]),
        |scales, column, k| power(scales[(column * 16 + k / 16) % scales.len()]),
    );
    assert!(
        text.contains("the scales of the weights of FC1 are read for blocks of 16 instead of 32, with rows of as many scales"),
        "{text}"
    );
}

#[test]
fn a_largest_magnitude_over_other_elements_is_named() {
    for (what, from) in [
        ("the other block of a pair", |block: usize| [block ^ 1].to_vec()),
        ("both blocks of a pair", |block| vec![block & !1, block | 1]),
        ("the whole row", |_| (0..8).collect()),
    ] as [(&str, fn(usize) -> Vec<usize>); 3]
    {
        let (contract, mut tensors) = stored(|_| {});
        let hidden = tensors.hidden_states.clone().unwrap();
        let rule = contract.settings.scale_rule;
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for token in &tensors.row_token.clone().unwrap().data {
            let values: Vec<f32> =
                hidden.row(usize::try_from(*token).unwrap()).iter().map(|x| bf16(*x)).collect();
            for block in 0..8 {
                let taken: Vec<f32> =
                    from(block).iter().flat_map(|of| values[of * 32..(of + 1) * 32].to_vec()).collect();
                let scale = quantize(rule, &taken).0;
                let own = values[block * 32..(block + 1) * 32].iter();
                codes.extend(own.map(|x| to_e4m3(f64::from(*x) / power(scale))));
                scales.push(scale);
            }
        }
        tensors.a1_codes.as_mut().unwrap().data = codes.into();
        tensors.a1_scales.as_mut().unwrap().data = scales.into();
        let results = judge(&contract, &tensors).unwrap();
        let text = explain(&contract, &tensors, &results).unwrap().text();
        assert!(text.contains(&format!("follows from the largest magnitude of {what}")), "{text}");
    }
}

#[test]
fn an_input_that_tells_explanations_apart_is_named() {
    // With scales of one half, twice the scales and no scales are the same.
    let (contract, mut tensors) = stored(|p| p.inputs.w13_scales.as_mut().unwrap().data.fill(127));
    tensors.w13_scales.as_mut().unwrap().data.fill(126);
    let results = judge(&contract, &tensors).unwrap();
    let found = explain(&contract, &tensors, &results).unwrap();
    let text = found.text();
    assert!(
        !found.is_unique() && text.contains("are left out") && text.contains("are twice as large"),
        "{text}"
    );
    let question =
        text.lines().find(|line| line.starts_with("to tell “the scales of the weights of FC1")).unwrap();
    assert!(question.ends_with("other values in `w13_scales` make their results differ"), "{text}");
}

#[test]
fn what_a_thin_dump_lacks_is_named_if_nothing_explains_it() {
    let (contract, mut tensors) = stored(|_| {});
    // Every element is another one's, in an order that no table has.
    let output = tensors.output.as_mut().unwrap();
    output.data.rotate_left(77);
    let why = |tensors: &Tensors| {
        let results = judge(&contract, tensors).unwrap();
        explain(&contract, tensors, &results).unwrap()
    };
    assert_eq!(why(&tensors).wanted, [""; 0]);
    (tensors.fc1_out, tensors.fc2_out) = (None, None);
    let diagnosis = why(&tensors);
    assert_eq!(diagnosis.wanted, ["fc2_out"]);
    let text = diagnosis.text();
    assert!(text.contains("unexplained") && text.contains("if they were there: `fc2_out`\n"), "{text}");
}
