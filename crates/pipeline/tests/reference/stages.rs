//! Every checker is shown to fail on a planted fault, and the stage at fault is the first that is named.

use std::collections::BTreeMap;

use pipeline::moe::case;
use pipeline::moe::case::GateUp;
use pipeline::moe::reference::activation::{Value, swiglu};
use pipeline::moe::suspicion::Clamp;
use pipeline::moe::{
    Accumulation, Contract, ExpBound, FinalizeOrder, MoeError, Problem, Stage, Tensors, judge,
    problem::generate,
};
use record::{StageResult, Verdict};

use crate::device::{NATIVE, bf16, run};
use crate::{all_pass, case as from};

fn contract(problem: &Problem) -> Contract {
    Contract::native(problem.dims, problem.settings)
}

fn stage(result: &StageResult) -> Stage {
    Stage::from_name(&result.stage).unwrap()
}

fn failing(results: &[StageResult]) -> Vec<Stage> {
    results.iter().filter(|r| r.verdict == Verdict::Fail).map(stage).collect()
}

/// A fault: what is exchanged in the stored tensors, and the stages that have to fail, the first first.
type Fault<'a> = (&'a str, &'a str, &'a dyn Fn(&Problem, &mut Tensors), &'a [Stage]);

fn problem(name: &str) -> Problem {
    let case = case::find(name).unwrap();
    generate(&case, case.seed).unwrap()
}

/// What the device would store were the problem another.
fn other(problem: &Problem, change: impl Fn(&mut Problem)) -> Tensors {
    let mut changed = problem.clone();
    change(&mut changed);
    run(&changed, NATIVE)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn planted_faults_are_found_in_their_stage() {
    use Stage::{Activation, Fc1, Fc2, Finalize, Permute, Quantize, Requantize, Route};
    let faults: [Fault<'_>; 21] = [
        (
            "the second choice first",
            "tiny-exact",
            &|_, t| t.topk_ids.as_mut().unwrap().data.swap(0, 1),
            &[Route],
        ),
        ("a choice out of range", "tiny-exact", &|_, t| t.topk_ids.as_mut().unwrap().data[5] = 99, &[Route]),
        (
            "weights not renormalised",
            "ties",
            &|_, t| {
                t.topk_weights.as_mut().unwrap().data.iter_mut().for_each(|w| *w *= 0.9);
            },
            &[Route],
        ),
        (
            "a NaN logit ignored",
            "tiny-special",
            &|_, t| {
                t.topk_weights
                    .as_mut()
                    .unwrap()
                    .data
                    .iter_mut()
                    .filter(|w| w.is_nan())
                    .for_each(|w| *w = 0.5);
            },
            &[Route],
        ),
        (
            "rows out of order",
            "rows-ragged",
            &|_, t| t.row_token.as_mut().unwrap().data.swap(3, 4),
            &[Permute],
        ),
        (
            "an expert's offset off by one",
            "rows-ragged",
            &|_, t| t.row_expert.as_mut().unwrap().data[1] = 1,
            &[Permute],
        ),
        (
            "the neighbour's scale",
            "tiny-exact",
            &|_, t| t.a1_scales.as_mut().unwrap().data.swap(0, 1),
            &[Quantize],
        ),
        ("one code", "tiny-real", &|_, t| t.a1_codes.as_mut().unwrap().data[77] ^= 1, &[Quantize]),
        (
            "-0 becomes +0",
            "tiny-special",
            &|_, t| {
                t.a1_codes.as_mut().unwrap().data.iter_mut().filter(|c| **c == 0x80).for_each(|c| *c = 0);
            },
            &[Quantize],
        ),
        (
            "NaN swallowed by amax",
            "tiny-special",
            &|_, t| {
                t.a1_scales.as_mut().unwrap().data.iter_mut().filter(|s| **s == 0xFF).for_each(|s| *s = 0x70);
            },
            &[Quantize],
        ),
        (
            "bias forgotten",
            "tiny-exact",
            &|p, t| {
                t.fc1_out = other(p, |p| p.inputs.w13_bias.as_mut().unwrap().data.fill(0.0)).fc1_out;
            },
            &[Fc1],
        ),
        (
            "one unit in the last place",
            "tiny-exact",
            &|_, t| t.fc1_out.as_mut().unwrap().data[1000] += 1,
            &[Fc1],
        ),
        (
            "a NaN scale read as a number",
            "tiny-special",
            &|_, t| {
                t.fc1_out
                    .as_mut()
                    .unwrap()
                    .data
                    .iter_mut()
                    .filter(|x| bf16(**x).is_nan())
                    .for_each(|x| *x = 0);
            },
            &[Fc1],
        ),
        (
            "no clamp",
            "k2880-real",
            &|p, t| {
                let free = other(p, |p| p.settings.limit = f32::INFINITY);
                (t.a2_codes, t.a2_scales) = (free.a2_codes, free.a2_scales);
            },
            &[Activation, Requantize],
        ),
        (
            "gate and up exchanged",
            "flashinfer-real",
            &|p, t| {
                let swapped = other(p, |p| p.settings.gate_up = GateUp::GateFirst);
                (t.a2_codes, t.a2_scales) = (swapped.a2_codes, swapped.a2_scales);
            },
            &[Activation, Requantize],
        ),
        ("one code of a2", "tiny-real", &|_, t| t.a2_codes.as_mut().unwrap().data[200] ^= 4, &[Activation]),
        (
            "NaN swallowed by fminf",
            "tiny-special",
            &|_, t| {
                t.a2_scales.as_mut().unwrap().data.iter_mut().filter(|s| **s == 0xFF).for_each(|s| *s = 0x70);
                t.a2_codes.as_mut().unwrap().data.iter_mut().filter(|c| **c == 0x7F).for_each(|c| *c = 0x7E);
            },
            &[Activation, Requantize],
        ),
        ("one scale of a2", "tiny-exact", &|_, t| t.a2_scales.as_mut().unwrap().data[3] += 1, &[Requantize]),
        (
            "bias twice",
            "tiny-exact",
            &|p, t| {
                let twice = |p: &mut Problem| {
                    p.inputs.w2_bias.as_mut().unwrap().data.iter_mut().for_each(|b| *b *= 2.0)
                };
                t.fc2_out = other(p, twice).fc2_out;
            },
            &[Fc2],
        ),
        (
            "the slots' weights exchanged",
            "tiny-real",
            &|_, t| {
                let mut wrong = t.output.clone().unwrap();
                wrong.data.swap(0, 1);
                t.output = Some(wrong);
            },
            &[Finalize],
        ),
        ("output two steps off", "tiny-real", &|_, t| t.output.as_mut().unwrap().data[9] += 2, &[Finalize]),
    ];
    for (what, name, plant, stages) in faults {
        let problem = problem(name);
        let right = run(&problem, NATIVE);
        all_pass(&judge(&contract(&problem), &right).unwrap(), name);
        let mut wrong = right.clone();
        plant(&problem, &mut wrong);
        assert_ne!(format!("{right:?}"), format!("{wrong:?}"), "{what} changes nothing in {name}");
        let results = judge(&contract(&problem), &wrong).unwrap();
        let found = failing(&results);
        assert_eq!(found.get(..stages.len()), Some(stages), "{what}: {results:#?}");
        let first = results.iter().find(|r| r.verdict == Verdict::Fail).unwrap();
        assert!(
            first.mismatches > 0 && first.worst_over_bound > 1.0 && first.place.is_some(),
            "{what}: {first:?}"
        );
        assert!(!first.note.is_empty(), "{what}");
        if [Requantize, Finalize].contains(&stages[0]) {
            assert!(!found.contains(&Activation), "{what}: {results:#?}");
        }
    }
}

#[test]
fn special_values_reach_where_the_laws_send_them_and_nothing_else() {
    let problem = problem("tiny-special");
    let stored = run(&problem, NATIVE);
    all_pass(&judge(&contract(&problem), &stored).unwrap(), "special");
    let output = stored.output.unwrap();
    let nan = |t: usize| output.row(t).iter().all(|x| bf16(*x).is_nan());
    let finite = |t: usize| output.row(t).iter().all(|x| bf16(*x).is_finite());
    // Token 1 holds a NaN, the last one's logits do; expert 0, whose weights hold a NaN, is every second token's.
    assert!(nan(1) && nan(15) && nan(0) && nan(4));
    assert!((0..16).any(finite), "no token is finite");
}

#[test]
fn what_is_missing_is_skipped_with_its_reason_and_never_passes() {
    let problem = problem("tiny-real");
    let contract = contract(&problem);
    let results = judge(&contract, &problem.inputs).unwrap();
    assert!(results.iter().all(|r| r.verdict == Verdict::Skipped && !r.note.is_empty()), "{results:?}");
    let mut stored = run(&problem, NATIVE);
    // Rows follow from the choices where a dump does not say them.
    (stored.row_token, stored.row_expert) = (None, None);
    let results = judge(&contract, &stored).unwrap();
    let skipped: Vec<Stage> = results.iter().filter(|r| r.verdict == Verdict::Skipped).map(stage).collect();
    assert_eq!((skipped, failing(&results)), (vec![Stage::Permute], vec![]));
    stored.expert_ids.as_mut().unwrap().data[1] = 0;
    assert!(matches!(judge(&contract, &stored), Err(MoeError::Invalid(m)) if m.contains("twice")));
    let mut stored = run(&problem, NATIVE);
    stored.fc1_out.as_mut().unwrap().shape = vec![2, 4096];
    assert!(matches!(judge(&contract, &stored), Err(MoeError::Shape { name, .. }) if name == "fc1_out"));
}

#[test]
fn impossible_contracts_are_refused() {
    let problem = problem("tiny-real");
    let good = contract(&problem);
    let sum = |chunk, fraction| Accumulation { chunk, fraction, ..Accumulation::NATIVE };
    for bad in [
        Contract { fc1: sum(24, 25), ..good },
        Contract { fc2: sum(32, 13), ..good },
        Contract { exp: ExpBound { relative: 1.0, per_argument: 0.0 }, ..good },
    ] {
        assert!(matches!(judge(&bad, &problem.inputs), Err(MoeError::Invalid(_))));
    }
    let words: BTreeMap<String, String> = [("gate_up".to_owned(), "sideways".to_owned())].into();
    let error = Contract::of_dump(&problem.inputs, &words).unwrap_err().to_string();
    assert!(error.contains("sideways") && error.contains("up_first"), "{error}");
}

#[test]
fn atomics_in_any_order_pass_under_their_bound_and_fail_under_the_other() {
    let case = from("about: x\ntokens: 8\nhidden: 256\ninter: 64\nexperts: 8\ntop_k: 8\nregime: real\n");
    let problem = generate(&case, 3).unwrap();
    let mut stored = run(&problem, NATIVE);
    // Slots last to first, each rounded to bf16.
    let (rows, weights) = (stored.fc2_out.clone().unwrap(), stored.topk_weights.clone().unwrap());
    let (tokens, experts) = (stored.row_token.clone().unwrap(), stored.row_expert.clone().unwrap());
    let ids = stored.topk_ids.clone().unwrap();
    let output = stored.output.as_mut().unwrap();
    for token in 0..8 {
        for col in 0..256 {
            let mut sum = 0_u16;
            for slot in (0..8).rev() {
                let row = (0..64)
                    .find(|r| tokens.data[*r] == token as i32 && experts.data[*r] == ids.row(token)[slot])
                    .unwrap();
                let product = weights.row(token)[slot] * bf16(rows.row(row)[col]);
                sum = crate::device::to_bf16(bf16(sum) + bf16(crate::device::to_bf16(product)));
            }
            output.data[token * 256 + col] = sum;
        }
    }
    let atomic = Contract { finalize: FinalizeOrder::AtomicBf16, deterministic: false, ..contract(&problem) };
    all_pass(&judge(&atomic, &stored).unwrap(), "atomics");
    assert_eq!(failing(&judge(&contract(&problem), &stored).unwrap()), [Stage::Finalize]);
}

#[test]
fn the_interval_of_the_activation_holds_what_f32_gives_and_little_more() {
    let problem = problem("tiny-real");
    let s = problem.settings;
    let mut widest = 0.0_f64;
    for i in 0..200_000_u32 {
        let r = crate::device::mix(i.into());
        let (g, u) = (bf16((r & 0xFFFF) as u16), bf16((r >> 16 & 0xFFFF) as u16));
        let value = swiglu(&s, Clamp::Declared, &ExpBound::FMA, g.into(), u.into());
        let (gate, up) = (g.min(s.limit), u.clamp(-s.limit, s.limit));
        let found = f64::from(gate * (1.0 / (1.0 + (-(s.alpha * gate)).exp())) * (up + s.beta));
        match value {
            Value::Nan => assert!(g.is_nan() || u.is_nan() || g == f32::NEG_INFINITY, "{g:e} {u:e}"),
            Value::Open => {}
            Value::Within(x) => {
                assert!(x.lo <= found && found <= x.hi, "{g:e} {u:e}: {found:e} not in {x:?}");
                if found.abs() > 1e-30 && gate.abs() < 20.0 {
                    widest = widest.max((x.hi - x.lo) / found.abs());
                }
            }
        }
    }
    assert!(widest < 2e-5, "{widest:e}");
}
