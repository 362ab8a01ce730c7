//! Fault coverage of a run, kernel by kernel: whole where the default set passes, and said not to be where it does not.

use std::fs;
use std::sync::Arc;

use pipeline::frame::family::Family as _;
use pipeline::frame::kept::Kept;
use pipeline::kernel::{Library, Load, MmaPath};
use pipeline::moe::case::{self, Case};
use pipeline::moe::family::MOE;
use pipeline::moe::fit::fit;
use pipeline::moe::plan::{self, Trial};
use pipeline::moe::tile::Config;
use pipeline::moe::witness::witness;
use pipeline::moe::{Accumulation, Stage, coverage, problem};
use record::{CodeBy, Elapsed, StageResult, TrialRow, Verdict};
use toolchain::store::Store;

fn row(trial: &Trial, verdict: Verdict) -> TrialRow {
    TrialRow {
        family: MOE.name().to_owned(),
        case: trial.case.name.clone(),
        configuration: trial.configuration().name(),
        depth: 2,
        target: "sm_121a".into(),
        device: "emulator".to_owned(),
        remark: String::new(),
        results: vec![StageResult { verdict, ..StageResult::skipped(Stage::Fc1, "") }],
        code: CodeBy::Nobody,
        checks: Vec::new(),
        seconds: Elapsed::default(),
    }
}

#[test]
fn the_default_set_leaves_no_kernel_without_a_witness() {
    let (library, cases) = (Library::embedded().unwrap(), case::library().cases);
    let swept: Vec<&Case> = cases.iter().filter(|c| plan::is_swept(c)).collect();
    assert_eq!(swept.len(), 2);
    let trials: Vec<Trial> = plan::default_set(&swept).into_iter().filter(|t| t.config.is_ok()).collect();
    let rows: Vec<TrialRow> = trials.iter().map(|t| row(t, Verdict::Pass)).collect();
    let pairs: Vec<_> = trials.iter().zip(&rows).collect();
    let witness = coverage::of_run(&library, &pairs, None, &Kept::in_store(None)).unwrap();
    assert_eq!(witness.len() * swept.len(), trials.len(), "one row for each kernel");
    let lacking: Vec<_> = witness.iter().filter(|w| !w.is_whole()).collect();
    assert!(lacking.is_empty(), "{} of {}: {lacking:?}", lacking.len(), witness.len());

    // The data of a case that a kernel got wrong are no witness, nor are those of another regime.
    let one: Vec<Trial> = trials.iter().filter(|t| t.tile == trials[0].tile).cloned().collect();
    let rows: Vec<TrialRow> = one
        .iter()
        .map(|t| row(t, if t.case.name == "tiny-exact" { Verdict::Fail } else { Verdict::Pass }))
        .collect();
    let witness =
        coverage::of_run(&library, &one.iter().zip(&rows).collect::<Vec<_>>(), None, &Kept::in_store(None))
            .unwrap();
    assert!(!witness.is_empty());
    for w in &witness {
        assert!(!w.is_whole() && w.exposed > 0 && w.cases == ["tiny-impulse"], "{w:?}");
    }
    let real = cases.iter().find(|c| c.name == "tiny-real").unwrap();
    let real = Arc::new(real.clone());
    let of_real: Vec<Trial> = one.iter().map(|t| Trial { case: Arc::clone(&real), ..t.clone() }).collect();
    let rows: Vec<TrialRow> = of_real.iter().map(|t| row(t, Verdict::Pass)).collect();
    let witness = coverage::of_run(
        &library,
        &of_real.iter().zip(&rows).collect::<Vec<_>>(),
        None,
        &Kept::in_store(None),
    )
    .unwrap();
    assert!(witness.iter().all(|w| w.total == 0 && w.cases.is_empty() && !w.is_whole()), "{witness:?}");
}

#[test]
fn kept_coverage_is_that_of_the_same_data() {
    let (library, cases) = (Library::embedded().unwrap(), case::library().cases);
    let case = cases.iter().find(|c| c.name == "tiny-exact").unwrap();
    let config = Config::new("8x64x128".parse().unwrap(), true, Load::Tma, MmaPath::Native).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Some(folder.path())).unwrap();
    let kept = Kept::in_store(Some(&store));
    let of = |case: &Case, seed: Option<u64>, kept: &Kept<'_>| {
        let (tile, swap_ab, load, path) = (config.tile, config.swap_ab, config.load, config.path);
        let case = Arc::new(case.clone());
        let trial = Trial { case, tile, swap_ab, load, path, config: Ok(config), layer: None };
        let row = row(&trial, Verdict::Pass);
        coverage::of_run(&library, &[(&trial, &row)], seed, kept).unwrap().remove(0)
    };
    let fresh = of(case, None, &Kept::in_store(None));
    assert!(fresh.exposed > 0);
    assert_eq!([of(case, None, &kept), of(case, None, &kept)], [fresh.clone(), fresh]);
    let entries = || fs::read_dir(folder.path().join("entries/coverage-1")).unwrap().count();
    assert_eq!(entries(), 1);
    // Other data under the same name are not the kept ones.
    let larger = Case { tokens: 2 * case.tokens, ..case.clone() };
    for (case, seed) in [(&larger, None), (case, Some(case.seed + 1))] {
        assert_eq!(of(case, seed, &kept), of(case, seed, &Kept::in_store(None)));
    }
    assert_eq!(entries(), 3);
}

#[test]
fn coverage_of_exact_data_does_not_depend_on_how_sums_are_accumulated() {
    let cases = case::library().cases;
    let case = cases.iter().find(|c| c.name == "tiny-exact").unwrap();
    let config = Config::new("8x64x128".parse().unwrap(), true, Load::Tma, MmaPath::Native).unwrap();
    let problem = problem::generate(&fit(&Arc::new(case.clone()), &config), 0).unwrap();
    let native = witness(&problem, Accumulation::NATIVE, Accumulation::NATIVE).unwrap();
    for other in [Accumulation::BF16, Accumulation::partials(4)] {
        assert_eq!(witness(&problem, other, other).unwrap(), native, "{other:?}");
    }
}
