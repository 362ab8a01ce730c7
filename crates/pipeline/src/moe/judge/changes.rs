//! The table of changes: what kernels of a fused MoE were seen to do, or nearly did.
//!
//! A change of an input is what the kernel would have read; a change of a stored result undoes what its store did.

mod operands;

use operands::{Gemm, of_operand, parts_of_depth, scales_of_gemm};

use crate::moe::case::{BiasPlace, GateUp, ScaleRule, Scores};
use crate::moe::contract::Contract;
use crate::moe::stage::Stage;
use crate::moe::suspicion::{Amax, Clamp, Rounding};
use crate::moe::tensors::{Array, Tensors};
use crate::product::faults::{BIASES, OF_STORES, STORES};

/// What a change does to the rules and the tensors of a problem.
pub(super) type Apply = Box<dyn Fn(&mut Contract, &mut Tensors)>;

/// A change.
pub(super) struct Change {
    /// What a kernel would do.
    pub(super) what: String,
    /// Where to look.
    pub(super) look: &'static str,
    /// Public examples.
    pub(super) seen: &'static str,
    /// The change itself.
    pub(super) apply: Apply,
}

fn change(
    what: impl Into<String>,
    look: &'static str,
    apply: impl Fn(&mut Contract, &mut Tensors) + 'static,
) -> Change {
    Change { what: what.into(), look, seen: "", apply: Box::new(apply) }
}

/// A field of the tensors.
type Field<T> = fn(&mut Tensors) -> &mut Option<Array<T>>;

/// Every change of a stage, the more frequent first. A stage whose inputs are missing has those of the stages before it, too.
pub(super) fn of_stage(contract: &Contract, tensors: &Tensors, stage: Stage) -> Vec<Change> {
    let pair = contract.settings.pair;
    let (activation, weight) = (pair.activation(), pair.weight());
    let mut all = Vec::new();
    let is_from = |first: Stage| stage >= first;
    let has_fc1 = tensors.fc1_out.is_some() && stage > Stage::Fc1;
    let has_fc2 = tensors.fc2_out.is_some() && stage > Stage::Fc2;
    let has_a2 = tensors.a2_codes.is_some() && stage > Stage::Requantize;
    if stage == Stage::Route || stage == Stage::Finalize && tensors.topk_weights.is_none() {
        all.extend(routes());
    }
    if stage == Stage::Quantize {
        all.extend(rules());
        all.extend(of_rows());
        let stored = of_operand("activations", activation, |t| &mut t.a1_codes, |t| &mut t.a1_scales);
        all.extend(of_results(stored));
        all.extend(globals("activations", |t| &mut t.a1_global));
    }
    if is_from(Stage::Fc1) && !has_fc1 && !has_a2 && !has_fc2 && stage != Stage::Quantize {
        all.extend(of_operand("weights of FC1", weight, |t| &mut t.w13_blocks, |t| &mut t.w13_scales));
        all.extend(parts_of_depth("FC1", weight, |t| &mut t.w13_blocks, |t| &mut t.w13_scales));
        all.extend(of_operand("activations of FC1", activation, |t| &mut t.a1_codes, |t| &mut t.a1_scales));
        if stage == Stage::Fc1 && tensors.a1_codes.is_some() {
            let gemm = &Gemm {
                names: ["activations of FC1", "weights of FC1"],
                codes: [|t| &mut t.a1_codes, |t| &mut t.w13_blocks],
                scales: [|t| &mut t.a1_scales, |t| &mut t.w13_scales],
                depth: |c| &mut c.dims.hidden,
            };
            all.extend(scales_of_gemm(pair, gemm));
        }
        all.extend(globals("weights of FC1", |t| &mut t.w13_global));
        all.extend(globals("activations of FC1", |t| &mut t.a1_global));
        all.extend(globals_of_another("FC1", |t| &mut t.a1_global, |t| &mut t.w13_global));
        all.extend(biases("FC1", |t| &mut t.w13_bias));
        all.extend(experts());
    }
    if stage == Stage::Fc1 {
        all.extend(stores("FC1", |t| &mut t.fc1_out));
        all.extend(halves());
    }
    if is_from(Stage::Activation) && !has_a2 && !has_fc2 {
        all.extend(activations());
        if contract.settings.fc1_bias == BiasPlace::NextStage && has_fc1 {
            all.extend(biases("FC1", |t| &mut t.w13_bias));
        }
    }
    if matches!(stage, Stage::Activation | Stage::Requantize) {
        all.extend(rules());
        let stored = of_operand("activations of FC2", activation, |t| &mut t.a2_codes, |t| &mut t.a2_scales);
        all.extend(of_results(stored));
        all.extend(globals("activations of FC2", |t| &mut t.a2_global));
    }
    if is_from(Stage::Fc2) && !has_fc2 {
        all.extend(of_operand("weights of FC2", weight, |t| &mut t.w2_blocks, |t| &mut t.w2_scales));
        all.extend(parts_of_depth("FC2", weight, |t| &mut t.w2_blocks, |t| &mut t.w2_scales));
        if has_a2 || stage == Stage::Fc2 {
            all.extend(of_operand(
                "activations of FC2",
                activation,
                |t| &mut t.a2_codes,
                |t| &mut t.a2_scales,
            ));
        }
        if stage == Stage::Fc2 && has_a2 {
            let gemm = &Gemm {
                names: ["activations of FC2", "weights of FC2"],
                codes: [|t| &mut t.a2_codes, |t| &mut t.w2_blocks],
                scales: [|t| &mut t.a2_scales, |t| &mut t.w2_scales],
                depth: |c| &mut c.dims.inter,
            };
            all.extend(scales_of_gemm(pair, gemm));
        }
        all.extend(globals("weights of FC2", |t| &mut t.w2_global));
        all.extend(globals("activations of FC2", |t| &mut t.a2_global));
        all.extend(globals_of_another("FC2", |t| &mut t.a2_global, |t| &mut t.w2_global));
        all.extend(biases("FC2", |t| &mut t.w2_bias));
        if has_a2 {
            all.extend(experts());
        }
    }
    if stage == Stage::Fc2 {
        all.extend(stores("FC2", |t| &mut t.fc2_out));
    }
    if stage == Stage::Finalize {
        all.extend(weights());
        if has_fc2 {
            all.extend(summed_rows());
        }
        if contract.settings.fc2_bias == BiasPlace::NextStage && has_fc2 {
            all.extend(biases("FC2", |t| &mut t.w2_bias));
        }
        all.extend(stores("the output", |t| &mut t.output));
    }
    all
}

/// Changes of an operand that the stage has stored: what would be right if it were read so.
fn of_results(changes: Vec<Change>) -> impl Iterator<Item = Change> {
    let named =
        |of: Change| Change { what: format!("what is stored is right if it is read so: {}", of.what), ..of };
    changes.into_iter().map(named)
}

/// The inputs of a stage whose values may tell changes apart, those first that are most often alike.
pub(super) const fn inputs(stage: Stage) -> &'static [&'static str] {
    match stage {
        Stage::Route => &["router_logits", "correction_bias"],
        Stage::Permute => &[],
        Stage::Quantize => &["hidden_states", "a1_global"],
        Stage::Fc1 => {
            &["w13_scales", "a1_scales", "w13_bias", "w13_blocks", "a1_codes", "w13_global", "a1_global"]
        }
        Stage::Activation | Stage::Requantize => &["fc1_out", "w13_bias", "a2_global"],
        Stage::Fc2 => {
            &["w2_scales", "a2_scales", "w2_bias", "w2_blocks", "a2_codes", "w2_global", "a2_global"]
        }
        Stage::Finalize => &["fc2_out", "topk_weights", "w2_bias"],
    }
}

/// Changes of the global scales of an operand.
fn globals(name: &'static str, field: Field<f32>) -> Vec<Change> {
    let look = "the factors that alpha is made of: those of activations and of weights";
    let each = |what: &str, apply: fn(f32) -> f32| {
        change(format!("the global scale of the {name} is {what}"), look, move |_, t| {
            field(t).iter_mut().flat_map(|array| &mut array.data).for_each(|x| *x = apply(*x));
        })
    };
    let mut all = vec![
        each("left out", |_| 1.0),
        each("applied twice", |x| x * x),
        each("inverted", |x| 1.0 / x),
        each("twice as large", |x| 2.0 * x),
        each("half as large", |x| 0.5 * x),
        each("read as the power of two below it", |x| f32::from_bits(x.to_bits() & 0xFF80_0000)),
    ];
    all.push(change(
        format!("the global scale of the {name} is that of the next expert"),
        look,
        move |_, t| {
            if let Some(array) = field(t) {
                let step = 1.min(array.data.len());
                array.data.rotate_left(step);
            }
        },
    ));
    all
}

/// Global scales of one operand that are used for the other as well.
fn globals_of_another(name: &'static str, activations: Field<f32>, weights: Field<f32>) -> Vec<Change> {
    let look = "the factors that alpha is made of: those of activations and of weights";
    let of = |what: &str, from: Field<f32>, to: Field<f32>| {
        change(format!("the global scales of {name} are those of {what} alone"), look, move |_, t| {
            let known = from(t).clone();
            if known.is_some() {
                *to(t) = known;
            }
        })
    };
    let both = change(format!("the global scales of {name} are both left out"), look, move |_, t| {
        for field in [activations, weights] {
            field(t).iter_mut().flat_map(|array| &mut array.data).for_each(|x| *x = 1.0);
        }
    });
    vec![of("the weights", weights, activations), of("the activations", activations, weights), both]
}

/// Changes of a bias: [experts, columns].
fn biases(name: &'static str, field: Field<f32>) -> Vec<Change> {
    let look = "the bias: its index, its expert, and where it is added";
    let each = |what: &str, apply: fn(&mut [f32], usize)| {
        change(format!("the bias of {name} is {what}"), look, move |_, t| {
            if let Some(array) = field(t)
                && let Some(width) = array.shape.last().copied().filter(|width| *width > 0)
            {
                apply(&mut array.data, width);
            }
        })
    };
    let of_columns = BIASES.into_iter().map(|(what, apply)| {
        change(format!("the bias of {name} is {what}"), look, move |_, t| {
            let Some(array) = field(t) else { return };
            let width = array.shape.last().copied().unwrap_or(0).max(1);
            for row in array.data.chunks_mut(width) {
                let mut values: Vec<f64> = row.iter().copied().map(f64::from).collect();
                apply(&mut values);
                row.iter_mut().zip(values).for_each(|(x, value)| *x = value as f32);
            }
        })
    });
    let left_out = change(format!("the bias of {name} is left out"), look, move |_, t| *field(t) = None);
    let of_experts = [
        each("that of the next expert", |all, width| all.rotate_left(width.min(all.len()))),
        each("that of the expert before", |all, width| all.rotate_right(width.min(all.len()))),
        each("that of the first expert", |all, width| {
            let first = all.get(..width).unwrap_or_default().to_vec();
            all.chunks_mut(width).for_each(|row| row.copy_from_slice(&first));
        }),
    ];
    [left_out].into_iter().chain(of_columns).chain(of_experts).collect()
}

/// Other experts' weights.
fn experts() -> Vec<Change> {
    let look = "the map from rows to experts, and the stride of an expert's weights";
    /// The expert whose weights an expert has, of so many.
    type Other = fn(usize, usize) -> usize;
    fn read<T: Clone>(array: &mut Option<Array<T>>, from: Other) {
        let Some(array) = array else { return };
        let count = array.shape.first().copied().unwrap_or(0).max(1);
        let (width, old) = (array.data.len() / count, array.data.to_vec());
        let of = |expert: usize| old[from(expert, count) * width..][..width].iter().cloned();
        array.data = (0..count).flat_map(of).collect::<Vec<T>>().into();
    }
    let of = |what: &str, from: Other, with_bias: bool| {
        let bias = if with_bias { "" } else { ", with the right expert's bias" };
        change(format!("the weights of {what} are read{bias}"), look, move |_, t| {
            for bytes in [&mut t.w13_blocks, &mut t.w13_scales, &mut t.w2_blocks, &mut t.w2_scales] {
                read(bytes, from);
            }
            for floats in [&mut t.w13_global, &mut t.w2_global] {
                read(floats, from);
            }
            for floats in [&mut t.w13_bias, &mut t.w2_bias].into_iter().filter(|_| with_bias) {
                read(floats, from);
            }
        })
    };
    let others: [(&str, Other); 3] = [
        ("the next expert", |expert, count| (expert + 1) % count),
        ("the expert before", |expert, count| (expert + count - 1) % count),
        ("the first expert", |_, _| 0),
    ];
    let both = others.into_iter().flat_map(|(what, from)| [of(what, from, true), of(what, from, false)]);
    let mut all: Vec<Change> = both.collect();
    for (what, from) in others {
        all.push(change(format!("the scales of the weights are those of {what}"), look, move |_, t| {
            read(&mut t.w13_scales, from);
            read(&mut t.w2_scales, from);
        }));
    }
    let look = "the offsets of the experts' rows, and tiles that hold rows of two experts";
    /// The row whose expert a row has, of so many.
    type From = fn(usize, usize) -> usize;
    let rows: [(&str, From); 10] = [
        ("the row before", |row, _| row.saturating_sub(1)),
        ("the next row", |row, rows| (row + 1).min(rows - 1)),
        ("the first row", |_, _| 0),
        ("the first row of its 8", |row, _| row / 8 * 8),
        ("the first row of its 16", |row, _| row / 16 * 16),
        ("the first row of its 32", |row, _| row / 32 * 32),
        ("the first row of its 64", |row, _| row / 64 * 64),
        ("the first row of its 128", |row, _| row / 128 * 128),
        ("the last row of its 16", |row, rows| (row | 15).min(rows - 1)),
        ("the last row of its 64", |row, rows| (row | 63).min(rows - 1)),
    ];
    for (what, from) in rows {
        all.push(change(format!("a row has the expert of {what}"), look, move |_, t| {
            if let Some(array) = &mut t.row_expert {
                let old = array.data.to_vec();
                for (row, expert) in array.data.iter_mut().enumerate() {
                    *expert = old[from(row, old.len())];
                }
            }
        }));
    }
    all
}

/// Stores that went elsewhere: the stored result is put back.
fn stores(name: &'static str, field: Field<u16>) -> Vec<Change> {
    STORES
        .into_iter()
        .map(|(what, from)| {
            change(format!("{name} is stored with {what}"), OF_STORES, move |_, t| {
                let Some(array) = field(t) else { return };
                let [rows, columns] = array.shape[..] else { return };
                let old = array.data.clone();
                for (at, x) in array.data.iter_mut().enumerate() {
                    let (row, column) = from(at / columns, at % columns, rows, columns);
                    if row < rows && column < columns {
                        *x = old[row * columns + column];
                    }
                }
            })
        })
        .collect()
}

/// Gate and up in other columns of the first GEMM's result.
fn halves() -> Vec<Change> {
    let look = "the order of gate and up among the columns of the weights: interleaved, or halves";
    /// The column that holds what belongs to a column, of twice so many.
    type From = fn(usize, usize) -> usize;
    let from: [(&str, From); 4] = [
        ("exchanged, in pairs", |c, _| c ^ 1),
        ("exchanged, in halves", |c, half| (c + half) % (2 * half)),
        ("in halves instead of interleaved", |c, half| c % 2 * half + c / 2),
        ("interleaved instead of in halves", |c, half| c % half * 2 + c / half),
    ];
    from.into_iter()
        .map(|(what, from)| {
            change(format!("gate and up are {what} in the result of FC1"), look, move |_, t| {
                let Some(array) = &mut t.fc1_out else { return };
                let Some(width) = array.shape.last().copied().filter(|width| *width > 1) else { return };
                for row in array.data.chunks_mut(width) {
                    let old = row.to_vec();
                    row.iter_mut().enumerate().for_each(|(c, x)| *x = old[from(c, width / 2)]);
                }
            })
        })
        .collect()
}

/// Other rules of the activation.
fn activations() -> Vec<Change> {
    let look = "the constants and the order of the activation: gate, up, alpha, beta, limit";
    let mut all: Vec<Change> = GateUp::ALL
        .iter()
        .map(|order| {
            let what = format!("gate and up are read as {}", order.word());
            change(what, look, move |c, _| c.settings.gate_up = *order)
        })
        .collect();
    all.push(change("gate and up are exchanged, in pairs", look, |_, t| {
        if let Some(array) = &mut t.fc1_out {
            let mut all = array.data.to_vec();
            all.as_chunks_mut::<2>().0.iter_mut().for_each(|pair| pair.swap(0, 1));
            array.data = all.into();
        }
    }));
    for alpha in [1.0, 1.702] {
        all.push(change(format!("alpha is {alpha}"), look, move |c, _| c.settings.alpha = alpha));
    }
    for beta in [0.0, 1.0] {
        all.push(change(format!("beta is {beta}"), look, move |c, _| c.settings.beta = beta));
    }
    for limit in [7.0, 10.0, f32::INFINITY] {
        all.push(change(format!("the limit is {limit}"), look, move |c, _| c.settings.limit = limit));
    }
    for clamp in Clamp::ALL.iter().filter(|clamp| **clamp != Clamp::Declared) {
        let what = format!("the limit clamps {}", clamp.word());
        all.push(change(what, look, move |c, _| c.suspicion.clamp = *clamp));
    }
    all.push(change("SwiGLU without constants: alpha 1, beta 0, no limit", look, |c, _| {
        (c.settings.alpha, c.settings.beta, c.settings.limit) = (1.0, 0.0, f32::INFINITY);
    }));
    all.push(change("SwiGLU of gpt-oss: alpha 1.702, beta 1, limit 7", look, |c, _| {
        (c.settings.alpha, c.settings.beta, c.settings.limit) = (1.702, 1.0, 7.0);
    }));
    all
}

/// Other rules of quantization.
fn rules() -> Vec<Change> {
    let look = "how the scale of a block follows from its largest magnitude";
    let of = |rule: &ScaleRule| {
        let rule = *rule;
        change(format!("scales are chosen by the rule `{}`", rule.word()), look, move |c, _| {
            c.settings.scale_rule = rule;
        })
    };
    let mut all: Vec<Change> = ScaleRule::ALL.iter().map(of).collect();
    for rounding in Rounding::ALL.iter().filter(|of| **of != Rounding::NearestEven) {
        let look = "the rounding of the conversion to codes";
        let what = format!("codes are rounded {}", rounding.word());
        all.push(change(what, look, move |c, _| c.suspicion.rounding = *rounding));
    }
    for amax in Amax::ALL.iter().filter(|of| **of != Amax::Block) {
        let look = "the lanes over which the largest magnitude of a block is reduced";
        let what = format!("the scale of a block follows from the largest magnitude of {}", amax.word());
        all.push(change(what, look, move |c, _| c.suspicion.amax = *amax));
    }
    all
}

/// Other tokens' hidden states.
fn of_rows() -> Vec<Change> {
    let look = "the permutation of tokens into rows";
    let moved = |what: &str, by: fn(usize, usize) -> usize| {
        change(format!("the hidden states of {what} are quantized"), look, move |c, t| {
            let tokens = c.dims.tokens.max(1);
            for token in t.row_token.iter_mut().flat_map(|array| &mut array.data) {
                let at = usize::try_from(*token).unwrap_or(0);
                *token = i32::try_from(by(at, tokens)).unwrap_or(i32::MAX);
            }
        })
    };
    vec![
        moved("the next token", |token, tokens| (token + 1) % tokens),
        moved("the token before", |token, tokens| (token + tokens - 1) % tokens),
        moved("the first token", |_, _| 0),
    ]
}

/// Other rules of the router.
fn routes() -> Vec<Change> {
    let look = "how logits become scores, choices and weights";
    let of_scores = |scores: &Scores| {
        let (scores, what) = (*scores, format!("scores are those of `{}`", scores.word()));
        let undivided = format!("{what}, and weights are not divided by their sum");
        [
            change(what, look, move |c, _| c.settings.router.scores = scores),
            change(undivided, look, move |c, _| {
                (c.settings.router.scores, c.settings.router.renormalise) = (scores, false);
            }),
        ]
    };
    let mut all: Vec<Change> = Scores::ALL.iter().flat_map(of_scores).collect();
    all.extend([
        change("weights are not divided by their sum", look, |c, _| c.settings.router.renormalise = false),
        change("weights are divided by their sum", look, |c, _| c.settings.router.renormalise = true),
        change("the factor of the weights is left out", look, |c, _| c.settings.router.scaling = 1.0),
        change("the factor of the weights is applied twice", look, |c, _| {
            c.settings.router.scaling *= c.settings.router.scaling;
        }),
        change("the correction is left out of the choice", look, |c, t| {
            c.settings.router.correction_bias = false;
            t.correction_bias = None;
        }),
        change("groups are ignored", look, |c, _| c.settings.router.groups = None),
        change("the last expert is never chosen", "the loop over experts", |_, t| {
            if let Some(logits) = &mut t.router_logits {
                let width = logits.shape.last().copied().unwrap_or(1).max(1);
                logits.data.chunks_mut(width).for_each(|row| row[width - 1] = f32::NEG_INFINITY);
            }
        }),
    ]);
    all
}

/// Other weights of the sum of a token's rows.
fn weights() -> Vec<Change> {
    let look = "the weights of the experts in the last sum";
    let each = |what: &str, apply: fn(&mut [f32])| {
        change(what, look, move |_, t| {
            if let Some(array) = &mut t.topk_weights {
                let width = array.shape.last().copied().unwrap_or(1).max(1);
                array.data.chunks_mut(width).for_each(apply);
            }
        })
    };
    vec![
        each("the weights of the experts are left out", |row| row.fill(1.0)),
        each("the weights of the experts are divided by their sum", |row| {
            let sum: f32 = row.iter().sum();
            row.iter_mut().for_each(|x| *x /= sum);
        }),
        each("the last expert of each token is lost", |row| {
            row.iter_mut().last().into_iter().for_each(|x| *x = 0.0)
        }),
        each("the first expert of each token is lost", |row| row.iter_mut().take(1).for_each(|x| *x = 0.0)),
        each("the weights of a token's experts are in reverse", |row| row.reverse()),
        each("every expert has the weight of the first", |row| {
            let first = row.first().copied().unwrap_or(1.0);
            row.fill(first);
        }),
        each("the weights of the experts count twice", |row| row.iter_mut().for_each(|x| *x *= *x)),
        each("every expert of a token has the same weight", |row| {
            let mean = row.iter().sum::<f32>() / row.len().max(1) as f32;
            row.fill(mean);
        }),
        change("the weights are those of the next token", look, |_, t| {
            if let Some(array) = &mut t.topk_weights {
                let width = array.shape.last().copied().unwrap_or(1).min(array.data.len());
                array.data.rotate_left(width);
            }
        }),
        change("the weights are those of the token before", look, |_, t| {
            if let Some(array) = &mut t.topk_weights {
                let width = array.shape.last().copied().unwrap_or(1).min(array.data.len());
                array.data.rotate_right(width);
            }
        }),
    ]
}

/// Other rows of the second GEMM's result in a token's sum.
fn summed_rows() -> Vec<Change> {
    let look = "the map from a token's experts to rows: the inverse of the permutation";
    let read = |what: &str, from: fn(usize, usize) -> usize| {
        change(format!("the rows that are summed are {what}"), look, move |_, t| {
            let Some(array) = &mut t.fc2_out else { return };
            let [rows, columns] = array.shape[..] else { return };
            let old = array.data.to_vec();
            for (at, x) in array.data.iter_mut().enumerate() {
                *x = old[from(at / columns, rows) * columns + at % columns];
            }
        })
    };
    vec![
        read("the next ones", |row, rows| (row + 1) % rows),
        read("those before", |row, rows| (row + rows - 1) % rows),
        read("exchanged in pairs", |row, rows| if row ^ 1 < rows { row ^ 1 } else { row }),
        read("in reverse", |row, rows| rows - 1 - row),
        read("the first one for all", |_, _| 0),
    ]
}
