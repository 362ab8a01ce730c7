//! Dumps without some tensors: no fault passes because of what is missing, and what is missing is named.

use std::collections::BTreeMap;

use numerics::scale_layout::ScaleLayout;
use numerics::tensor_core::Model;
use pipeline::frame::effort::Effort;
use pipeline::kernel::MmaPath;
use pipeline::moe::case::{self, FormatPair};
use pipeline::moe::tensors::{self, Dump};
use pipeline::moe::{
    Array, Contract, Judgement, KOrder, MoeError, Problem, Stage, Tensors, judge_dump, problem::generate,
};
use record::Verdict;

use crate::device::{NATIVE, bf16, run, to_bf16};
use crate::pairs::Unit;

/// The names of the results that take a tensor away or change it.
type Change = (&'static str, fn(&mut Tensors));

/// A problem, its contract with sums in any order, and all tensors of a run.
fn stored(name: &str) -> (Contract, Tensors) {
    let mut problem: Problem = generate(&case::find(name).unwrap(), 0).unwrap();
    problem.injected_a2 = None;
    let mut contract = Contract::native(problem.dims, problem.settings);
    let tensors = match problem.settings.pair {
        FormatPair::Mxfp8Mxfp4 => run(&problem, NATIVE),
        pair => {
            let unit = Unit { pair, path: MmaPath::Native, model: Model::Sm120 };
            (contract.fc1, contract.fc2) = (unit.accumulation(), unit.accumulation());
            run(&problem, unit)
        }
    };
    (contract.fc1.order, contract.fc2.order) = (KOrder::Any, KOrder::Any);
    (contract, tensors)
}

fn judged(contract: &Contract, tensors: &Tensors) -> Judgement {
    judge_dump(contract, &Dump { tensors: tensors.clone(), metadata: BTreeMap::new() }, Effort::Every)
        .unwrap()
}

fn verdict(judgement: &Judgement, stage: Stage) -> Verdict {
    judgement.results.iter().find(|r| r.stage == stage).unwrap().verdict
}

/// Leaves inputs and output.
fn black_box(all: &Tensors) -> Tensors {
    Tensors {
        topk_ids: None,
        topk_weights: None,
        row_token: None,
        row_expert: None,
        a1_codes: None,
        a1_scales: None,
        a1_token_scale: None,
        fc1_out: None,
        a2_codes: None,
        a2_scales: None,
        a2_token_scale: None,
        fc2_out: None,
        ..all.clone()
    }
}

fn inverted(globals: &mut Option<Array<f32>>) {
    globals.iter_mut().flat_map(|g| &mut g.data).for_each(|g| *g = 1.0 / *g);
}

/// Reads scales in the 128x4 layout as if they were linear.
fn swizzled(scales: &mut Option<Array<u8>>) {
    let Some(scales) = scales else { return };
    let [experts, rows, columns]: [usize; 3] = scales.shape.as_slice().try_into().unwrap();
    let layout = ScaleLayout::Tile128x4;
    for expert in scales.data.chunks_mut(rows * columns).take(experts) {
        let mut laid_out = vec![0; layout.size(rows, columns.next_multiple_of(4))];
        for row in 0..rows {
            for column in 0..columns {
                laid_out[layout.offset(row, column, columns.next_multiple_of(4))] =
                    expert[row * columns + column];
            }
        }
        expert.copy_from_slice(&laid_out[..rows * columns]);
    }
}

fn nibbles(codes: &mut Option<Array<u8>>) {
    codes.iter_mut().flat_map(|c| &mut c.data).for_each(|c| *c = c.rotate_left(4));
}

fn scaled(output: &mut Option<Array<u16>>, by: f32) {
    output.iter_mut().flat_map(|o| &mut o.data).for_each(|x| *x = to_bf16(bf16(*x) * by));
}

#[test]
fn gross_faults_of_a_black_box_fail_or_stay_undecided() {
    let faults: [Change; 12] = [
        ("zeroed output", |t| scaled(&mut t.output, 0.0)),
        ("doubled output", |t| scaled(&mut t.output, 2.0)),
        ("halved output", |t| scaled(&mut t.output, 0.5)),
        ("negated output", |t| scaled(&mut t.output, -1.0)),
        ("tokens exchanged", |t| t.output.as_mut().unwrap().data.rotate_left(64)),
        ("global scale of w2 inverted", |t| inverted(&mut t.w2_global)),
        ("global scales of weights inverted", |t| {
            inverted(&mut t.w13_global);
            inverted(&mut t.w2_global);
        }),
        ("global scales of activations inverted", |t| {
            inverted(&mut t.a1_global);
            inverted(&mut t.a2_global);
        }),
        ("all global scales inverted", |t| {
            for globals in [&mut t.a1_global, &mut t.a2_global, &mut t.w13_global, &mut t.w2_global] {
                inverted(globals);
            }
        }),
        ("swizzled scales", |t| {
            swizzled(&mut t.w13_scales);
            swizzled(&mut t.w2_scales);
        }),
        ("swapped nibbles of w13", |t| nibbles(&mut t.w13_blocks)),
        ("swapped nibbles of w2", |t| nibbles(&mut t.w2_blocks)),
    ];
    for name in ["tiny-real", "nvfp4-real"] {
        let (contract, all) = stored(name);
        let right = black_box(&all);
        let judgement = judged(&contract, &right);
        assert_eq!(verdict(&judgement, Stage::Finalize), Verdict::Pass, "{name}: {judgement:#?}");
        assert_eq!(judgement.gaps, [], "{name}");
        for (what, plant) in faults {
            let mut wrong = right.clone();
            plant(&mut wrong);
            if wrong == right {
                // The format has no global scales.
                continue;
            }
            let judgement = judged(&contract, &wrong);
            match verdict(&judgement, Stage::Finalize) {
                Verdict::Fail => {}
                Verdict::Undetermined => {
                    let [gap] = &judgement.gaps[..] else { panic!("{what}: {judgement:#?}") };
                    assert!(
                        gap.results == ["output"]
                            && gap.add.contains(&"fc2_out")
                            && gap.add.contains(&"fc1_out")
                    );
                }
                other => panic!("{name}, {what}: {other:?}"),
            }
        }
    }
    // The bounds of a NVFP4 layer under inverted scales contain nearly every number.
    let (contract, all) = stored("nvfp4-real");
    let mut wrong = black_box(&all);
    inverted(&mut wrong.w13_global);
    inverted(&mut wrong.w2_global);
    let judgement = judged(&contract, &wrong);
    assert_eq!(verdict(&judgement, Stage::Finalize), Verdict::Undetermined);
    assert!(!judgement.is_of_something());
}

/// Keeps some results of a run, and none of the others.
fn only(all: &Tensors, kept: &[&str]) -> Tensors {
    let mut few = black_box(all);
    few.output = None;
    macro_rules! keep {
        ($($name:ident),*) => {$(
            if kept.contains(&stringify!($name)) {
                few.$name.clone_from(&all.$name);
            }
        )*};
    }
    keep!(
        topk_ids,
        topk_weights,
        row_token,
        row_expert,
        a1_codes,
        a1_scales,
        a1_token_scale,
        fc1_out,
        a2_codes,
        a2_scales,
        a2_token_scale,
        fc2_out,
        output
    );
    few
}

#[test]
fn a_stored_result_is_judged_whatever_is_missing_before_it() {
    /// The tensors that are left out, the stage that fails, and the fault.
    type Fault = (&'static [&'static str], Stage, fn(&mut Tensors));
    let faults: [Fault; 8] = [
        (&["topk_weights"], Stage::Route, |t| t.topk_weights.as_mut().unwrap().data.rotate_left(1)),
        (&["row_token"], Stage::Permute, |t| t.row_token.as_mut().unwrap().data.rotate_left(1)),
        (&["row_expert"], Stage::Permute, |t| t.row_expert.as_mut().unwrap().data.rotate_left(1)),
        (&["fc1_out"], Stage::Fc1, |t| t.fc1_out.as_mut().unwrap().data.rotate_left(32)),
        (&["a2_codes", "a2_scales", "a2_token_scale"], Stage::Activation, |t| {
            t.a2_codes.as_mut().unwrap().data.rotate_left(64);
        }),
        (&["fc2_out"], Stage::Fc2, |t| t.fc2_out.as_mut().unwrap().data.rotate_left(32)),
        (&["fc2_out", "output"], Stage::Fc2, |t| {
            // The output follows from a wrong result of the second GEMM.
            scaled(&mut t.fc2_out, 2.0);
            scaled(&mut t.output, 2.0);
        }),
        (&["fc1_out", "output"], Stage::Finalize, |t| t.output.as_mut().unwrap().data.rotate_left(32)),
    ];
    for name in ["tiny-real", "nvfp4-real"] {
        let (contract, all) = stored(name);
        for (kept, stage, plant) in faults {
            let mut few = only(&all, kept);
            let judgement = judged(&contract, &few);
            assert_eq!(verdict(&judgement, stage), Verdict::Pass, "{name} {kept:?}: {judgement:#?}");
            assert_eq!(judgement.gaps, [], "{name} {kept:?}");
            plant(&mut few);
            let judgement = judged(&contract, &few);
            assert_eq!(verdict(&judgement, stage), Verdict::Fail, "{name} {kept:?}: {judgement:#?}");
        }
    }
    // With a global scale for each token, too little is known of some rows; a fault is found all the same.
    let (contract, all) = stored("nvfp4-token-real");
    for (kept, stage, plant) in faults.into_iter().filter(|(kept, ..)| *kept == ["fc2_out"]) {
        let mut few = only(&all, kept);
        let judgement = judged(&contract, &few);
        let right = verdict(&judgement, stage);
        assert!(matches!(right, Verdict::Pass | Verdict::Undetermined), "{kept:?}: {judgement:#?}");
        assert_eq!(judgement.gaps.is_empty(), right == Verdict::Pass, "{kept:?}: {judgement:#?}");
        plant(&mut few);
        let judgement = judged(&contract, &few);
        assert_eq!(verdict(&judgement, stage), Verdict::Fail, "{kept:?}: {judgement:#?}");
    }
}

#[test]
fn what_cannot_be_judged_is_a_gap_with_the_tensors_that_would_decide() {
    let (contract, all) = stored("nvfp4-real");
    /// What is not decided, the tensors that would decide, and what is left out.
    type Gap = (&'static [&'static str], &'static [&'static str], fn(&mut Tensors));
    let faults: [Gap; 9] = [
        (&["output"], &["w2_blocks", "w2_scales"], |t| (t.w2_blocks, t.w2_scales) = (None, None)),
        (&["output"], &["w13_blocks"], |t| t.w13_blocks = None),
        (&["output"], &["w2_global", "a2_global"], |t| (t.w2_global, t.a2_global) = (None, None)),
        (&["output"], &["hidden_states"], |t| t.hidden_states = None),
        (&["output"], &["router_logits"], |t| t.router_logits = None),
        (&["topk_ids", "topk_weights"], &["router_logits"], |t| t.router_logits = None),
        (&["a1_codes", "a1_scales"], &["hidden_states"], |t| t.hidden_states = None),
        (&["fc1_out"], &["w13_scales"], |t| t.w13_scales = None),
        (&["a2_codes", "a2_scales"], &["w13_blocks"], |t| t.w13_blocks = None),
    ];
    for (kept, add, take) in faults {
        let mut few = only(&all, kept);
        take(&mut few);
        let judgement = judged(&contract, &few);
        let [gap] = &judgement.gaps[..] else { panic!("{kept:?}: {judgement:#?}") };
        assert_eq!((&gap.results[..], &gap.add[..]), (kept, add), "{gap}");
        assert!(gap.why.contains("missing"), "{gap}");
        assert!(!judgement.is_of_something(), "{judgement:#?}");
    }
    // Codes without their scales are not judged, and the next result is judged from before them.
    let few = only(&all, &["a2_codes", "output"]);
    let judgement = judged(&contract, &few);
    assert_eq!(judgement.gaps.iter().map(|gap| &gap.results[..]).collect::<Vec<_>>(), [["a2_codes"]]);
    assert_eq!(verdict(&judgement, Stage::Finalize), Verdict::Pass);
}

#[test]
fn metadata_supply_the_choices_and_declare_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let (contract, all) = stored("tiny-real");
    let read = |tensors: &Tensors, changes: &[(&str, &str)]| -> Result<Judgement, MoeError> {
        let mut metadata = contract.metadata();
        metadata.remove("top_k");
        metadata.extend(changes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        tensors::write(&path, tensors, &metadata)?;
        let dump = tensors::read(&path)?;
        judge_dump(&Contract::of_dump(&dump.tensors, &dump.metadata)?, &dump, Effort::Every)
    };
    let few = black_box(&all);
    let top_k = contract.dims.top_k.to_string();
    let judgement = read(&few, &[("top_k", &top_k)]).unwrap();
    assert_eq!(verdict(&judgement, Stage::Finalize), Verdict::Pass, "{judgement:#?}");
    let judgement = read(&few, &[]).unwrap();
    assert!(judgement.gaps[0].why.contains("the metadata `top_k` is missing"), "{}", judgement.gaps[0]);
    let error = read(&all, &[("top_k", "99")]).unwrap_err().to_string();
    assert!(error.contains(&format!("the tensors have {top_k} experts per token")), "{error}");
    let error = read(&few, &[("top_k", "999")]).unwrap_err().to_string();
    assert!(error.contains("a token chooses 999 of 4 experts"), "{error}");
    // Choices of the caller.
    let mut chosen = all.clone();
    chosen.router_logits = None;
    assert_eq!(read(&chosen, &[]).unwrap().gaps[0].add, ["router_logits"]);
    let judgement = read(&chosen, &[("given", "topk_ids, topk_weights")]).unwrap();
    assert_eq!((judgement.gaps.len(), verdict(&judgement, Stage::Route)), (0, Verdict::Skipped));
    assert_eq!(read(&chosen, &[("given", "topk_ids")]).unwrap().gaps.len(), 1);
    for (key, value) in [("given", "output"), ("topk", "4"), ("limits", "7")] {
        let error = read(&all, &[(key, value)]).unwrap_err().to_string();
        assert!(error.contains(&format!("metadata `{key}`")) && error.contains("top"), "{error}");
    }
}

#[test]
fn messages_have_words_instead_of_types() {
    let (contract, all) = stored("tiny-real");
    let mut errors = Vec::new();
    let mut wrong = all.clone();
    wrong.fc1_out.as_mut().unwrap().shape = vec![1, 2, 4];
    errors.push(wrong.dims(FormatPair::default()).unwrap_err().to_string());
    let mut wrong = all.clone();
    wrong.output.as_mut().unwrap().shape.swap(0, 1);
    errors.push(wrong.dims(FormatPair::default()).unwrap_err().to_string());
    let mut wrong = contract;
    wrong.dims.shared = 99;
    errors.push(wrong.check().unwrap_err().to_string());
    let mut wrong = all;
    wrong.a2_codes.as_mut().unwrap().data.rotate_left(64);
    errors.extend(judged(&contract, &wrong).results.into_iter().map(|r| r.note));
    for error in errors {
        let type_names = ["Dims", "Within", "Interval", "Tokens", "Hidden", "Fc1Cols", " {", "Some("];
        assert!(type_names.iter().all(|name| !error.contains(name)), "{error}");
    }
}
