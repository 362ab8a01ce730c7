//! The built-in cases, and what is said of case files that are wrong.

use std::collections::BTreeSet;
use std::path::Path;

use pipeline::moe::case::{self, Library, Regime, Routing, ScaleRule};
use pipeline::moe::reference::{formats, route};
use pipeline::moe::{Accumulation, Contract, ExpBound, MoeError, judge, problem::generate, witness::witness};
use record::Verdict;

use crate::device::{NATIVE, run};
use crate::{all_pass, case as from};

#[test]
fn the_built_in_cases_cover_what_the_pipeline_promises() {
    let library = case::library();
    assert!(library.problems.is_empty(), "{:?}", library.problems);
    let some = |what: &dyn Fn(&case::Case) -> bool| library.cases.iter().any(what);
    assert!(Regime::ALL.iter().all(|r| some(&|c| c.regime == *r)));
    assert!(Routing::ALL.iter().all(|r| some(&|c| c.routing == *r)));
    assert!(ScaleRule::ALL.iter().all(|r| some(&|c| c.scale_rule == *r)));
    assert!(some(&|c| c.expert_rows.contains(&0) && c.expert_rows.contains(&1)));
    assert!(some(&|c| c.tokens >= 320) && some(&|c| c.hidden % 128 != 0) && some(&|c| c.hidden == 2880));
    assert_eq!(case::find("tiny-exact").unwrap().hidden, 128);
    let error = case::find("tiny-exakt").unwrap_err().to_string();
    assert!(error.contains("tiny-exact"), "{error}");
}

#[test]
fn the_binary_carries_the_cases_on_disk() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // A family has its cases in the folder itself or in a folder of its own.
    let (mut folders, mut on_disk) = (vec!["cases".to_owned()], BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap().map(Result::unwrap) {
            let name = format!("{folder}/{}", entry.file_name().display());
            if entry.path().is_dir() {
                folders.push(name);
            } else {
                on_disk.insert(name);
            }
        }
    }
    let embedded: Vec<&str> = data::CASES.files().map(|(path, _)| path).collect();
    assert_eq!(
        (on_disk.len(), on_disk),
        (embedded.len(), embedded.iter().map(|p| (*p).to_owned()).collect())
    );
    for (path, text) in data::CASES.files() {
        assert_eq!(std::fs::read_to_string(root.join(path)).unwrap(), text);
    }
}

#[test]
fn cases_route_as_they_say() {
    let counts = |name: &str| {
        let case = case::find(name).unwrap();
        let problem = generate(&case, case.seed).unwrap();
        let logits = problem.inputs.router_logits.unwrap();
        let choices: Vec<_> = (0..case.tokens).map(|t| route::top_k(logits.row(t), case.top_k)).collect();
        let mut counts = vec![0; case.experts];
        choices.iter().flatten().for_each(|e| counts[*e] += 1);
        let tied = (0..case.tokens)
            .filter(|t| {
                let row = logits.row(*t);
                let last = row[*choices[*t].last().unwrap()];
                row.iter().enumerate().any(|(e, l)| *l == last && !choices[*t].contains(&e))
            })
            .count();
        (counts, tied)
    };
    assert_eq!(counts("rows-ragged").0, [0, 1, 17, 3, 0, 8, 5, 0]);
    assert_eq!(counts("rows-one-expert").0, [33, 0, 0, 0]);
    assert_eq!(counts("tiny-exact").0, [8; 4]);
    assert!(counts("ties").1 > 16, "few tokens of `ties` have ties at the last choice");
}

#[test]
fn data_are_a_function_of_seed_and_place_alone() {
    let case = case::find("tiny-real").unwrap();
    let (a, b) = (generate(&case, 1).unwrap(), generate(&case, 1).unwrap());
    assert_eq!(a, b);
    assert_ne!(a.inputs, generate(&case, 2).unwrap().inputs);
    // The same experts have the same weights whoever chooses them.
    let few = from(
        "about: x\ntokens: 16\nhidden: 128\ninter: 128\nexperts: 4\ntop_k: 1\nrouting: same\nregime: real\n",
    );
    let few = generate(&few, 1).unwrap().inputs;
    assert_eq!(*few.expert_ids.unwrap().data, [0]);
    let (all, one) = (a.inputs.w13_blocks.unwrap(), few.w13_blocks.unwrap());
    assert_eq!(all.data[..one.data.len()], one.data[..]);
}

/// The greatest magnitude of each block of hidden states, and the others as multiples of its scale.
fn blocks_of(name: &str) -> Vec<(f64, Vec<f64>)> {
    let case = case::find(name).unwrap();
    let (format, problem) = (case.pair.activation(), generate(&case, case.seed).unwrap());
    let hidden = problem.inputs.hidden_states.unwrap();
    let values: Vec<f64> = hidden.data.iter().map(|x| formats::bf16(*x)).collect();
    let of = |block: &[f64]| {
        let amax = block.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
        let (scale, _) = format.quantize(case.scale_rule, 1.0, block);
        let unit = format.scale().unwrap().value(scale);
        (amax, block.iter().map(|x| x / unit).collect())
    };
    values.chunks(format.block()).map(of).collect()
}

#[test]
fn special_data_hold_every_tie_of_e2m1_and_every_threshold_of_a_scale_rule() {
    let ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
    for name in ["mxfp4-special", "mxfp4-even", "mxfp4-nearest", "mxfp4-rz"] {
        let blocks = blocks_of(name);
        for tie in ties.into_iter().flat_map(|t| [t, -t]) {
            assert!(blocks.iter().any(|(_, quotients)| quotients.contains(&tie)), "{name}: {tie}");
        }
    }
    for (name, threshold) in [
        ("mxfp4-special", 1.5),
        ("mxfp4-even", 1.75),
        ("mxfp4-nearest", 1.125),
        ("mxfp4-rz", 1.5),
        ("scale-ceil", 1.75),
        ("scale-even", 1.9375),
        ("scale-nearest", 1.3125),
        ("scale-rz", 1.75),
    ] {
        let blocks = blocks_of(name);
        for mantissa in [-1.0, 0.0, 1.0].map(|step| threshold + step / 128.0) {
            let has =
                |(amax, _): &(f64, Vec<f64>)| amax / formats::exp2(formats::exponent(*amax)) == mantissa;
            assert!(blocks.iter().any(has), "{name}: {mantissa}");
        }
    }
    // 448 exactly, by what is calibrated and by the row.
    let case = case::find("nvfp4-special").unwrap();
    let inputs = generate(&case, case.seed).unwrap().inputs;
    let full = 6.0 * 448.0 * inputs.a1_global.unwrap().data[0];
    for name in ["nvfp4-special", "nvfp4-token-special"] {
        assert!(blocks_of(name).iter().any(|(amax, _)| *amax == f64::from(full)), "{name}");
    }
}

/// Tokens of a case, and those for which rounding decides.
fn undecided(name: &str) -> (usize, usize) {
    let case = case::find(name).unwrap();
    let problem = generate(&case, case.seed).unwrap();
    let (logits, d) = (problem.inputs.router_logits.unwrap(), problem.dims);
    let bias = problem.inputs.correction_bias.map_or_else(Vec::new, |b| b.data.to_vec());
    let open = |t: &usize| {
        let choice = route::Choice::new(&case.router, logits.row(*t), &bias, &ExpBound::EX2_APPROX);
        choice.possible(d.chosen()).len() > d.chosen()
    };
    (d.tokens, (0..d.tokens).filter(open).count())
}

#[test]
fn rounding_decides_where_a_case_is_about_that_and_nowhere_else() {
    for name in [
        "router-sigmoid-groups",
        "router-sigmoid-raw",
        "router-softmax-all",
        "router-softmax-groups",
        "router-softmax-raw",
        "shared-experts",
        "deepseek-v3-decode",
        "qwen3-30b-a3b-decode",
    ] {
        assert_eq!(undecided(name).1, 0, "{name}");
    }
    let (tokens, open) = undecided("router-ties");
    assert!(open > 0 && open < tokens, "{open} of {tokens}");
}

#[test]
fn a_dump_tells_its_router_and_shared_experts() {
    for name in ["router-sigmoid-groups", "router-softmax-groups", "shared-experts"] {
        let case = case::find(name).unwrap();
        let problem = generate(&case, case.seed).unwrap();
        let stored = run(&problem, NATIVE);
        let contract = Contract::native(problem.dims, problem.settings);
        let told = Contract::of_dump(&stored, &contract.metadata()).unwrap();
        assert_eq!(told, contract, "{name}");
        all_pass(&judge(&told, &stored).unwrap(), name);
        // From end to end, by the router's rule.
        let mut few = stored.clone();
        (few.topk_ids, few.topk_weights, few.fc2_out) = (None, None, None);
        let last = judge(&contract, &few).unwrap().pop().unwrap();
        assert_eq!(last.verdict, Verdict::Pass, "{name}: {}", last.note);
    }
}

#[test]
fn exact_and_impulse_cases_leave_no_byte_without_a_witness() {
    for pair in ["tiny", "wide", "deep"] {
        let sums = [Accumulation::NATIVE, Accumulation::BF16];
        // The longest K is told by one of them.
        for sum in sums.into_iter().take(if pair == "deep" { 1 } else { 2 }) {
            let coverage = |regime: &str| {
                let case = case::find(&format!("{pair}-{regime}")).unwrap();
                let (first, second) = witness(&generate(&case, case.seed).unwrap(), sum, sum).unwrap();
                [first, second.unwrap()]
            };
            let impulse = coverage("impulse");
            for (mut all, more) in coverage("exact").into_iter().zip(&impulse) {
                for (what, share) in all.shares() {
                    println!("{pair}-exact alone: {what} {share}");
                }
                all.join(more).unwrap();
                assert!(all.is_whole(), "{pair}: {:?}", all.shares());
            }
        }
    }
}

#[test]
fn coverage_is_shown_to_miss_what_nothing_can_see() {
    let mut case =
        from("about: x\ntokens: 4\nhidden: 64\ninter: 64\nexperts: 2\ntop_k: 1\nregime: impulse\n");
    case.routing = Routing::Same;
    let mut problem = generate(&case, 0).unwrap();
    problem.inputs.hidden_states.as_mut().unwrap().data.fill(0);
    let (first, second) = witness(&problem, Accumulation::NATIVE, Accumulation::NATIVE).unwrap();
    assert_eq!(first.shares().map(|(_, share)| share.witnessed)[..2], [0, 0]);
    let other = from("about: x\ntokens: 4\nhidden: 96\ninter: 64\nexperts: 2\ntop_k: 1\nregime: exact\n");
    let (mut other, _) =
        witness(&generate(&other, 0).unwrap(), Accumulation::NATIVE, Accumulation::NATIVE).unwrap();
    assert!(!first.is_whole() && second.is_some());
    assert!(matches!(other.join(&first), Err(MoeError::Invalid(_))));
}

#[test]
fn wrong_case_files_are_told_with_line_and_remedy() {
    const GOOD: &str = "about: x\ntokens: 4\nhidden: 64\ninter: 64\nexperts: 4\ntop_k: 2\nregime: exact\n";
    let mut seen = BTreeSet::new();
    for (from, to, line, words) in [
        ("hidden: 64", "hidden: 65", 3, "use 96"),
        ("inter: 64", "inter: 0", 4, "no output"),
        ("top_k: 2", "top_k: 5", 6, "there are only 4 experts"),
        ("tokens: 4", "tokens: 400000000", 2, "i32"),
        ("tokens: 4", "tokens: 18446744073709551615", 2, "i32"),
        ("tokens: 4", "tokens: -1", 2, "invalid type"),
        ("hidden: 64", "model: gpt-oss-7b", 3, "gpt-oss-120b"),
        ("inter: 64", "", 1, "`inter` is missing"),
        ("regime: exact", "regime: exakt", 7, "unknown variant"),
        ("regime: exact", "regime: exact\nregimes: x", 8, "unknown field"),
        ("about: x", "about: ''", 1, "is empty"),
        ("top_k: 2", "top_k: 2\nrouter: {scores: sigmoid, groups: {count: 3, kept: 1}}", 7, "do not divide"),
        ("top_k: 2", "top_k: 2\nrouter: {correction_bias: true}", 7, "use `scores: softmax_all`"),
        ("top_k: 2", "top_k: 2\nrouter: {score: sigmoid}", 7, "unknown field"),
        ("top_k: 2", "top_k: 2\nshared_experts: 31", 6, "at most 32"),
        ("top_k: 2", "top_k: 2\nexpert_rows: [1, 2, 3, 2]", 7, "`routing: rows`"),
        ("top_k: 2", "top_k: 2\nrouting: rows\nexpert_rows: [1, 2, 3]", 8, "3 entries"),
        ("top_k: 2", "top_k: 2\nrouting: rows\nexpert_rows: [1, 2, 3, 3]", 8, "add up to 9"),
        ("top_k: 2", "top_k: 2\nrouting: rows\nexpert_rows: [5, 1, 1, 1]", 8, "5 rows of 4 tokens"),
        ("top_k: 2", "top_k: 2\nlimit: 0", 7, "above 0"),
        ("top_k: 2", "top_k: 2\nalpha: .nan", 7, "finite"),
        ("top_k: 2", "top_k: 2\ntiles: [128x64]", 7, "MxNxK"),
        ("top_k: 2", "top_k: 2\nknown_failures: [{url: nowhere, stage: fc1}]", 7, "not a URL"),
    ] {
        let text = GOOD.replace(from, to);
        let mut library = Library::default();
        library.add(Path::new("cases/bad.yaml"), &text);
        let [problem] = &library.problems[..] else { panic!("{to}: {:?}", library.cases) };
        let message = problem.to_string();
        assert!(message.starts_with(&format!("cases/bad.yaml:{line}:")), "{to}: {message}");
        assert!(message.contains(words), "{to}: {message}");
        seen.insert(message);
    }
    assert_eq!(seen.len(), 23);
    let mut library = Library::default();
    library.add(Path::new("a/good.yaml"), GOOD);
    library.add(Path::new("b/good.yaml"), GOOD);
    assert!(library.problems[0].to_string().contains("rename one"), "{:?}", library.problems);
    assert!(Library::load(Path::new("/nowhere")).unwrap_err().to_string().contains("--cases"));
}

#[test]
fn a_folder_of_cases_is_loaded_and_an_empty_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Library::load(folder.path()).unwrap_err().to_string().contains("no .yaml"));
    std::fs::write(
        folder.path().join("mine.yaml"),
        "about: x\nmodel: gpt-oss-20b\ntokens: 1\nregime: real\n",
    )
    .unwrap();
    std::fs::write(folder.path().join("bad.yaml"), "about: [\n").unwrap();
    let library = Library::load(folder.path()).unwrap();
    assert_eq!((library.cases.len(), library.problems.len()), (1, 1));
    let case = library.find("mine").unwrap();
    assert_eq!((case.hidden, case.experts, case.top_k), (2880, 32, 4));
}

#[test]
fn a_problem_beyond_memory_is_refused_before_it_is_made() {
    let case = from("about: x\nmodel: gpt-oss-120b\ntokens: 60000\nregime: real\nrouting: balanced\n");
    let error = generate(&case, 0).unwrap_err();
    assert!(error.to_string().contains("limit is 4096 MB"), "{error}");
}
