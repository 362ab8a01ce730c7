//! An output without the tensors between is judged from end to end: never a false alarm, and what is grossly wrong is found.

use numerics::tensor_core::Model;
use pipeline::kernel::MmaPath;
use pipeline::moe::case::{self, BiasPlace, FormatPair};
use pipeline::moe::{Contract, FinalizeOrder, KOrder, Problem, Stage, Tensors, judge, problem::generate};
use record::{StageResult, Verdict};

use crate::device::{Core, NATIVE, run};
use crate::pairs::Unit;

/// What a stack that shows nothing of itself leaves: its inputs and its output.
fn black_box(all: &Tensors) -> Tensors {
    let t = all.clone();
    Tensors {
        hidden_states: t.hidden_states,
        router_logits: t.router_logits,
        expert_ids: t.expert_ids,
        w13_blocks: t.w13_blocks,
        w13_scales: t.w13_scales,
        w13_bias: t.w13_bias,
        w2_blocks: t.w2_blocks,
        w2_scales: t.w2_scales,
        w2_bias: t.w2_bias,
        output: t.output,
        ..Tensors::default()
    }
}

/// A problem whose second GEMM reads what the activation stored.
fn problem(name: &str, seed: u64) -> Problem {
    let mut problem = generate(&case::find(name).unwrap(), seed).unwrap();
    problem.injected_a2 = None;
    problem
}

/// A contract that promises no order, as of a stack that says nothing.
fn contract(problem: &Problem) -> Contract {
    let mut contract = Contract::native(problem.dims, problem.settings);
    (contract.fc1.order, contract.fc2.order) = (KOrder::Any, KOrder::Any);
    contract
}

fn finalize(contract: &Contract, tensors: &Tensors) -> StageResult {
    let results = judge(contract, tensors).unwrap();
    let (mut last, rest): (Vec<_>, Vec<_>) = results.into_iter().partition(|r| r.stage == Stage::Finalize);
    let some = tensors.fc1_out.is_some() || tensors.topk_ids.is_some();
    assert!(rest.iter().all(|r| r.verdict == Verdict::Skipped || some), "{rest:?}");
    last.remove(0)
}

#[test]
fn right_outputs_are_never_accused() {
    let cases =
        ["tiny-real", "tiny-clamp", "flashinfer-real", "halves-gate-first", "silu", "scale-rz", "tiny-exact"];
    for (n, name) in cases.into_iter().enumerate() {
        for seed in 0..3 {
            let problem = problem(name, seed);
            let shuffle = (seed % 2 == 1).then_some((seed, 1 + n % 3));
            let all = run(&problem, Core { shuffle, ..NATIVE });
            let result = finalize(&contract(&problem), &black_box(&all));
            // Under this rule values saturate, and sums may overflow.
            let right = if name == "scale-rz" { Verdict::Undetermined } else { Verdict::Pass };
            assert_eq!(result.verdict, right, "{name} {seed}: {result:?}");
            let absent = "judged from earlier tensors, because `topk_ids`, `topk_weights`, `fc2_out`, ";
            assert!(result.note.starts_with(absent), "{}", result.note);
            // Every tensor that is there makes it tighter, and none makes it wrong.
            let mut more = black_box(&all);
            (more.topk_ids, more.topk_weights) = (all.topk_ids.clone(), all.topk_weights.clone());
            (more.fc1_out, more.a1_codes) = (all.fc1_out.clone(), all.a1_codes.clone());
            let tighter = finalize(&contract(&problem), &more);
            assert_eq!(tighter.verdict, right, "{name} {seed}: {tighter:?}");
            let loose = |r: &StageResult| {
                let words: Vec<&str> = r.note.split("; ").collect();
                words[1].split(' ').next().unwrap().parse::<f64>().unwrap()
            };
            assert!(loose(&tighter) <= loose(&result), "{} / {}", tighter.note, result.note);
        }
    }
    // In any order of finalize, too.
    let problem = problem("tiny-real", 3);
    let mut atomic = contract(&problem);
    atomic.finalize = FinalizeOrder::AtomicBf16;
    assert_eq!(finalize(&atomic, &black_box(&run(&problem, NATIVE))).verdict, Verdict::Pass);
}

#[test]
fn right_nvfp4_outputs_are_never_accused_and_garbage_is_found() {
    let unit = Unit { pair: FormatPair::Nvfp4, path: MmaPath::Native, model: Model::Sm120 };
    for name in ["nvfp4-real", "nvfp4-token-real", "nvfp4-four-over-six", "nvfp4-four-over-six-token"] {
        let problem = problem(name, 1);
        let sum = unit.accumulation();
        let contract = Contract { fc1: sum, fc2: sum, ..Contract::native(problem.dims, problem.settings) };
        let black_box = |all: Tensors| Tensors {
            w13_global: all.w13_global.clone(),
            w2_global: all.w2_global.clone(),
            a1_global: all.a1_global.clone(),
            a2_global: all.a2_global.clone(),
            ..black_box(&all)
        };
        let mut seen = black_box(run(&problem, unit));
        let result = finalize(&contract, &seen);
        // With a scale for each token or two candidates for a block, the bounds decide too little of some rows.
        let loose = name.contains("token") || name.contains("six");
        let right = if loose { Verdict::Undetermined } else { Verdict::Pass };
        assert_eq!(result.verdict, right, "{name}: {result:?}");
        let mut wrong = problem.clone();
        wrong.inputs.w13_scales.as_mut().unwrap().data.rotate_left(4);
        seen.output = run(&wrong, unit).output;
        let result = finalize(&contract, &seen);
        assert_eq!(result.verdict, Verdict::Fail, "{name}: {result:?}");
    }
}

#[test]
fn garbage_is_found() {
    type Fault = (&'static str, fn(&mut Problem));
    let faults: [Fault; 7] = [
        ("nibbles swapped", |p| {
            p.inputs.w13_blocks.as_mut().unwrap().data.iter_mut().for_each(|b| *b = b.rotate_left(4));
        }),
        ("scales of the next row", |p| p.inputs.w2_scales.as_mut().unwrap().data.rotate_left(4)),
        ("every scale twice too large", |p| {
            p.inputs.w2_scales.as_mut().unwrap().data.iter_mut().for_each(|s| *s += 1);
        }),
        ("no bias", |p| p.inputs.w13_bias.as_mut().unwrap().data.fill(0.0)),
        ("no clamp", |p| p.settings.limit = f32::INFINITY),
        ("up without one", |p| p.settings.beta = 0.0),
        ("bias twice", |p| p.inputs.w2_bias.as_mut().unwrap().data.iter_mut().for_each(|b| *b *= 2.0)),
    ];
    for (what, plant) in faults {
        let problem = problem("tiny-real", 1);
        let mut wrong = problem.clone();
        plant(&mut wrong);
        let mut seen = black_box(&run(&problem, NATIVE));
        seen.output = run(&wrong, NATIVE).output;
        let result = finalize(&contract(&problem), &seen);
        assert_eq!(result.verdict, Verdict::Fail, "{what}: {result:?}");
        assert!(result.place.is_some() && result.note.contains("bf16 0x"), "{what}: {}", result.note);
    }
    // One output that is another.
    let problem = problem("tiny-real", 1);
    let mut seen = black_box(&run(&problem, NATIVE));
    seen.output.as_mut().unwrap().data[77] ^= 0x8000;
    let result = finalize(&contract(&problem), &seen);
    assert_eq!((result.verdict, result.mismatches), (Verdict::Fail, 1), "{result:?}");
}

#[test]
fn nan_is_judged_and_what_is_missing_is_named() {
    let problem = problem("tiny-special", 0);
    let seen = black_box(&run(&problem, NATIVE));
    // More than half of the tokens may have any value.
    assert_eq!(finalize(&contract(&problem), &seen).verdict, Verdict::Undetermined);
    for (name, take) in [
        ("w2_scales", (|t| t.w2_scales = None) as fn(&mut Tensors)),
        ("w13_blocks", |t| t.w13_blocks = None),
        ("hidden_states", |t| t.hidden_states = None),
        ("router_logits", |t| t.router_logits = None),
    ] {
        let mut few = seen.clone();
        take(&mut few);
        let mut contract = contract(&problem);
        contract.settings.fc1_bias = BiasPlace::Epilogue;
        let result = finalize(&contract, &few);
        assert_eq!(result.verdict, Verdict::Skipped, "{name}");
        assert!(result.note.contains(&format!("`{name}` is missing")), "{}", result.note);
    }
}
