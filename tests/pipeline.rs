//! The pipeline as tests: the default set of trials, and planted faults that must be caught at the right stage.
//!
//! `SM121PROBE_ALL=1` runs every case with every tile, a thousand seeds spread over cases, tiles, loads and paths, and a
//! thousand seeds of every kind of attention.
//! Without NVRTC the trials are ignored with the reason;
//! `SM121PROBE_REQUIRE=nvrtc` makes that a failure. Trials on a GPU, one after the other, with every check, are
//! ignored if there is none; `SM121PROBE_REQUIRE=gpu` makes that a failure.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

#[path = "pipeline/attention_seeds.rs"]
mod attention_seeds;
#[path = "pipeline/checks.rs"]
mod checks;
#[path = "pipeline/faults.rs"]
mod faults;
#[path = "pipeline/gpu.rs"]
mod gpu;
#[path = "pipeline/gpu_faults.rs"]
mod gpu_faults;
#[path = "pipeline/sanitizer.rs"]
mod sanitizer;
#[path = "pipeline/suffixes.rs"]
mod suffixes;
#[path = "pipeline/timing.rs"]
mod timing;
#[path = "pipeline/twins.rs"]
mod twins;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed};
use ptx::arch::Target;
use sm121probe::frame::runner::Runner;
use sm121probe::kernel::Library;
use sm121probe::moe::case::{self, Case, KnownFailure};
use sm121probe::moe::configuration::Configuration;
use sm121probe::moe::plan::{self, Candidate, LOADS, PATHS, Trial};
use sm121probe::moe::trial::Outcome;
use sm121probe::moe::{Stage, family};
use sm121probe::record::{TrialRow, Verdict};
use sm121probe::store::Store;
use sm121probe::toolkit::{self, Environment, Nvrtc};

/// Number of seeds, and of the trials that they are spread over.
const SEEDS: usize = 1000;
const GROUPS: usize = 20;

/// What every trial needs.
struct Shared {
    store: Option<Store>,
    nvrtc: Nvrtc,
    library: Library,
    cases: Vec<Case>,
    target: Target,
}

fn tool() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_sm121probe"))
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(2);
    let store = Store::open(None).ok();
    let found = toolkit::nvrtcs(store.as_ref(), &Environment::of_process());
    let cases = case::library();
    assert!(cases.problems.is_empty(), "{:?}", cases.problems);
    let Ok(nvrtc) = toolkit::select_nvrtc(&found, None) else {
        return libtest_mimic::run(&arguments, without_nvrtc(&cases.cases)).exit_code();
    };
    let shared = Arc::new(Shared {
        nvrtc: nvrtc.clone(),
        store,
        library: Library::embedded().unwrap(),
        cases: cases.cases,
        target: "sm_121a".parse().unwrap(),
    });
    let mut trials = Vec::new();
    for (n, name) in selected(&shared.cases).iter().map(name).enumerate() {
        let shared = Arc::clone(&shared);
        trials.push(libtest_mimic::Trial::test(name, move || shared.trial(n)));
    }
    if everything() {
        let wide = (0..SEEDS).filter(|n| shared.seeded(*n).0.hidden >= 512).count();
        assert!(wide >= 200, "{wide} seeds are wide");
        for group in 0..GROUPS {
            let shared = Arc::clone(&shared);
            trials.push(libtest_mimic::Trial::test(format!("seeds.{group:02}"), move || shared.seeds(group)));
        }
        trials.extend(attention_seeds::trials(&shared));
    }
    for fault in faults::all() {
        let shared = Arc::clone(&shared);
        let name = format!("fault.{}", fault.name.replace(' ', "_"));
        trials.push(libtest_mimic::Trial::test(name, move || shared.fault(&fault)));
    }
    for change in faults::legal() {
        let shared = Arc::clone(&shared);
        let name = format!("legal.{}", change.name.replace(' ', "_"));
        trials.push(libtest_mimic::Trial::test(name, move || shared.legal(&change)));
    }
    let known = Arc::clone(&shared);
    trials.push(libtest_mimic::Trial::test("known_failures.both_ways", move || known.known_failures()));
    trials.extend(checks::trials(&shared));
    trials.extend(timing::trials(&shared));
    trials.extend(suffixes::trials(&shared));
    trials.extend(twins::trials(&shared));
    trials.extend(gpu::trials(&shared));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn everything() -> bool {
    std::env::var_os("SM121PROBE_ALL").is_some_and(|v| v == "1")
}

/// The trials of this run whose configuration is admitted.
fn selected(cases: &[Case]) -> Vec<Trial> {
    let all: Vec<&Case> = cases.iter().collect();
    let set = if everything() {
        all.iter().flat_map(|c| plan::trials(c, &plan::tiles_of(c, &[], true), &LOADS, &PATHS)).collect()
    } else {
        plan::default_set(&all)
    };
    set.into_iter().filter(|t| t.config.is_ok()).collect()
}

fn name(t: &Trial) -> String {
    format!("{}/emulator", without_device(t))
}

fn without_device(t: &Trial) -> String {
    let swap = if t.swap_ab { ",swap_ab" } else { "" };
    let (load, path) = (t.load.word(), t.path.word());
    format!("moe.{}/tile={}{swap},load={load},path={path}", t.case.name, t.tile)
}

/// The trials of a machine without NVRTC, ignored while listing, so that runners that judge by exit status show them as skipped.
fn without_nvrtc(cases: &[Case]) -> Vec<libtest_mimic::Trial> {
    let reason = "no NVRTC here: sm121probe toolkit install nvrtc";
    let asked: Vec<_> = ["nvrtc", "gpu"].into_iter().filter(|what| required(what)).collect();
    if !asked.is_empty() {
        let fails = |what: &str| {
            let text = format!("SM121PROBE_REQUIRE asks for {what}; {reason}");
            libtest_mimic::Trial::test(format!("required.{what}"), move || Err(Failed::from(text)))
        };
        return asked.into_iter().map(fails).collect();
    }
    let ignored =
        |name: String| libtest_mimic::Trial::test(name, || Ok(())).with_kind(reason).with_ignored_flag(true);
    selected(cases).iter().map(|t| ignored(name(t))).collect()
}

/// Whether `SM121PROBE_REQUIRE` names `what`.
fn required(what: &str) -> bool {
    std::env::var("SM121PROBE_REQUIRE").unwrap_or_default().split(',').any(|r| r.trim() == what)
}

/// Fails unless the trial ran and everything conforms.
fn green(row: &TrialRow) -> Result<(), Failed> {
    match row.first_wrong() {
        Some(wrong) => {
            Err(format!("{}: {:?} at {:?}: {}", wrong.stage, wrong.verdict, wrong.place, wrong.note).into())
        }
        None if matches!(row.verdict(), Verdict::Pass | Verdict::KnownFail) => Ok(()),
        None => Err(format!("nothing passed: {:?}", row.results).into()),
    }
}

impl Shared {
    fn trial(&self, n: usize) -> Result<(), Failed> {
        let trial = &selected(&self.cases)[n];
        let runner = Runner::new(&self.library, &self.nvrtc, self.store.as_ref(), tool().to_owned());
        green(&runner.run(trial, self.target).map_err(|e| e.to_string())?)
    }

    /// The case and the configuration of a seed: all cases and all admitted configurations in turn, every fourth case wide. The layers of
    /// real models have four seeds each.
    fn seeded(&self, n: usize) -> (&Case, Candidate) {
        let of = |wanted: &dyn Fn(&&Case) -> bool, at: usize| {
            let cases: Vec<&Case> = self.cases.iter().filter(wanted).collect();
            cases[at % cases.len()]
        };
        let case = match n {
            0..12 => of(&|c| c.model.is_some(), n),
            _ if n.is_multiple_of(4) => of(&|c| c.model.is_none() && c.hidden >= 512, n / 4),
            _ => of(&|c| c.model.is_none(), n),
        };
        let ways: Vec<Candidate> = plan::candidates().into_iter().filter(|c| c.config.is_ok()).collect();
        // The stride is a prime that does not divide their number, so all are reached.
        (case, ways[n * 389 % ways.len()].clone())
    }

    /// Every seed of a group conforms.
    fn seeds(&self, group: usize) -> Result<(), Failed> {
        for n in (group..SEEDS).step_by(GROUPS) {
            let (case, Candidate { tile, swap_ab, load, path, config }) = self.seeded(n);
            let trial =
                Trial::new(Arc::new(case.clone()), Configuration { tile, swap_ab, path, load }, config);
            let mut runner = Runner::new(&self.library, &self.nvrtc, self.store.as_ref(), tool().to_owned());
            runner.seed = Some(n as u64);
            let row = runner.run(&trial, self.target).map_err(|e| e.to_string())?;
            green(&row)
                .map_err(|e| format!("seed {n}, {}: {}", name(&trial), e.message().unwrap_or_default()))?;
        }
        Ok(())
    }

    /// Runs a trial with a changed kernel.
    fn changed(&self, fault: &faults::Fault) -> Result<Outcome, Failed> {
        let mut library = self.library.clone();
        fault.plant(&mut library)?;
        let case = self.cases.iter().find(|c| c.name == fault.case).ok_or("there is no such case")?;
        let tile = fault.tile.parse().map_err(|e| format!("{e}"))?;
        let trials = plan::trials(case, &[tile], &[fault.load], &[fault.path]);
        let trial = trials.first().ok_or("there is no trial")?;
        trial.config.clone().map_err(|blocked| blocked.0)?;
        let runner = Runner::new(&library, &self.nvrtc, self.store.as_ref(), tool().to_owned());
        Ok(family::outcome(&runner, trial, self.target).map_err(|e| e.to_string())?)
    }

    /// A legal change must conform.
    fn legal(&self, change: &faults::Fault) -> Result<(), Failed> {
        match self.changed(change)?.first_wrong() {
            Some(wrong) => Err(format!("{} {}: {}", wrong.stage, wrong.verdict.word(), wrong.note).into()),
            None => Ok(()),
        }
    }

    /// A kernel with a fault must be caught at the expected stage.
    fn fault(&self, fault: &faults::Fault) -> Result<(), Failed> {
        match self.changed(fault)?.first_wrong() {
            None => Err("nobody noticed".into()),
            Some(wrong) if wrong.stage != fault.stage || wrong.verdict != Verdict::Fail => {
                Err(format!("{} {}: {}", wrong.stage, wrong.verdict.word(), wrong.note).into())
            }
            Some(wrong) if !wrong.note.contains(fault.says) => Err(format!("it says: {}", wrong.note).into()),
            Some(_) => Ok(()),
        }
    }

    /// A planted fault that the case lists as known conforms as `known_fail`; without the fault, the same list does not conform.
    fn known_failures(&self) -> Result<(), Failed> {
        let fault = faults::all().into_iter().find(|f| f.stage == Stage::Fc1).ok_or("no fault of FC1")?;
        let mut case = self.cases.iter().find(|c| c.name == fault.case).ok_or("no such case")?.clone();
        let (url, tile) = ("https://example.invalid/1".to_owned(), fault.tile.parse().ok());
        case.known_failures = vec![KnownFailure { url: url.clone(), stage: fault.stage, device: None, tile }];
        let tile = fault.tile.parse().map_err(|e| format!("{e}"))?;
        let trials = plan::trials(&case, &[tile], &[fault.load], &[fault.path]);
        let mut wrong = self.library.clone();
        fault.plant(&mut wrong)?;
        for (library, wanted) in [(&wrong, Verdict::KnownFail), (&self.library, Verdict::UnexpectedPass)] {
            let runner = Runner::new(library, &self.nvrtc, self.store.as_ref(), tool().to_owned());
            let row = runner.run(&trials[0], self.target).map_err(|e| e.to_string())?;
            let result = row.results.iter().find(|r| r.stage == fault.stage).ok_or("no such stage")?;
            if row.verdict() != wanted || result.verdict != wanted || !result.note.contains(&url) {
                return Err(
                    format!("{} where {}: {}", result.verdict.word(), wanted.word(), result.note).into()
                );
            }
            if green(&row).is_ok() != (wanted == Verdict::KnownFail) {
                return Err("what conforms is not green, or what does not is".into());
            }
            let text = sm121probe::report::trials_text(&[row]);
            if !text.contains(&url) || !text.contains(wanted.word()) {
                return Err(format!("the report does not say it: {text}").into());
            }
        }
        Ok(())
    }
}
