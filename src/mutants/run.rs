//! Runs mutants: compiled first, emulated only where the PTX is another, until the first trial that does not conform.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use emulator::Options;
use ptx::arch::Target;
use rayon::prelude::*;

use super::model::Mutant;
use crate::kernel::{Kernel, KernelError, Library};
use crate::moe::compile::{Compiler, included};
use crate::moe::pipeline::{Compiled, PipelineError, Setup};
use crate::moe::plan::{self, Trial};
use crate::moe::sources::{self, KernelSource};
use crate::moe::trial::{self, Memo, TrialError};
use crate::moe::{Contract, Dims, Problem, Settings, problem};
use crate::record::{Stage, Verdict};
use crate::store::Store;
use crate::toolkit::{Nvrtc, NvrtcError};

/// How many times the instructions of the unchanged kernels a mutant may execute: what needs more does not end.
const FUEL: u64 = 4;
/// Instructions that even the smallest trial may execute.
const LEAST_FUEL: u64 = 200_000;
/// After so many mutants their decoded programs and verdicts are let go.
const KEPT: usize = 40;

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It does not compile, or the emulator cannot load it.
    Unbuilt(String),
    /// Its PTX is that of the unchanged kernels in every configuration.
    Equivalent,
    /// A trial does not conform.
    Killed {
        /// The trial, in words.
        trial: String,
        /// The first stage that is wrong; none where what was stored cannot even be judged.
        stage: Option<Stage>,
        /// How.
        verdict: Verdict,
    },
    /// Every trial conforms: how many ran another PTX.
    Survived(usize),
}

impl Fate {
    /// What becomes of a mutant that further trials met, too.
    #[must_use]
    pub fn and(self, further: Self) -> Self {
        match (self, further) {
            (Self::Survived(first), Self::Survived(more)) => Self::Survived(first + more),
            (Self::Survived(_), killed @ Self::Killed { .. }) => killed,
            // Other configurations compile it to something else, or not at all.
            (Self::Equivalent, further) => further,
            (fate, _) => fate,
        }
    }
}

/// A trial that the unchanged kernels do not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// The trial, in words.
    pub trial: String,
    /// The first stage that is wrong.
    pub stage: Stage,
    /// How, in words.
    pub note: String,
}

/// Why nothing was run.
#[derive(Debug, thiserror::Error)]
pub enum MutantError {
    /// The unchanged kernels cannot be run.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// A stage has no kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// What mutants are compiled and run with.
pub struct Bench<'a> {
    /// The kernels as they are.
    pub library: &'a Library,
    /// The NVRTC.
    pub nvrtc: &'a Nvrtc,
    /// Where the PTX of the unchanged kernels is kept; that of mutants is not.
    pub store: Option<&'a Store>,
    /// This tool, whose hidden verb compiles.
    pub program: std::path::PathBuf,
    /// What the PTX is for.
    pub target: Target,
}

/// A trial with everything that does not change from mutant to mutant.
pub struct Prepared<'a> {
    /// The trial.
    pub trial: Trial<'a>,
    settings: Settings,
    setup: Setup,
    contract: Contract,
    problem: Arc<Problem>,
    /// The PTX of each kernel.
    ptx: Vec<String>,
    /// The same without what an edit may change though the code is the same.
    plain: Vec<String>,
    fuel: u64,
}

/// A kernel's file and what it is compiled with.
pub type Source = (String, Vec<(String, String)>);

impl Prepared<'_> {
    /// What the trial compiles.
    #[must_use]
    pub fn sources(&self, library: &Library) -> BTreeSet<Source> {
        let used = sources::of_run(library, &self.settings, &self.setup);
        used.into_iter().flatten().map(|s| (s.kernel.file.clone(), s.defines)).collect()
    }

    /// Case and way: `tiny-exact 8x64x128 swap_ab native cp_async`.
    #[must_use]
    pub fn name(&self) -> String {
        name(&self.trial)
    }
}

fn name(t: &Trial<'_>) -> String {
    let side = if t.swap_ab { " swap_ab" } else { "" };
    format!("{} {}{side} {} {}", t.case.name, t.tile, t.path.word(), t.load.word())
}

impl<'a> Bench<'a> {
    fn compiler(&self, store: Option<&'a Store>) -> Compiler<'a> {
        Compiler { nvrtc: self.nvrtc, store, program: self.program.clone(), target: self.target }
    }

    /// Runs the unchanged kernels: the trials that they pass, ready for mutants, and those that they do not.
    ///
    /// # Errors
    /// [`MutantError`].
    pub fn prepare(&self, trials: &[Trial<'a>]) -> Result<(Vec<Prepared<'a>>, Vec<Unfit>), MutantError> {
        let problems: Mutex<BTreeMap<String, Arc<Problem>>> = Mutex::default();
        let memo = Memo::default();
        let all: Vec<Result<Option<Result<Prepared<'a>, Unfit>>, MutantError>> =
            trials.par_iter().map(|t| self.prepare_one(t, &problems, &memo)).collect();
        let (mut fit, mut unfit) = (Vec::new(), Vec::new());
        for one in all {
            match one? {
                Some(Ok(prepared)) => fit.push(prepared),
                Some(Err(trial)) => unfit.push(trial),
                None => {}
            }
        }
        Ok((fit, unfit))
    }

    fn prepare_one(
        &self,
        trial: &Trial<'a>,
        problems: &Mutex<BTreeMap<String, Arc<Problem>>>,
        memo: &Memo,
    ) -> Result<Option<Result<Prepared<'a>, Unfit>>, MutantError> {
        let Ok(config) = trial.config else { return Ok(None) };
        let (settings, setup) = (Settings::of(&trial.case), plan::setup(&trial.case, config));
        let contract = trial::contract(self.library, Dims::of(&trial.case), settings, &setup, None)
            .map_err(TrialError::from)?;
        // A case is as large as its configuration needs it: its name alone does not tell the data.
        let key = format!("{:?}", trial.case);
        let known = problems.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let problem = match known {
            Some(problem) => problem,
            None => Arc::new(problem::generate(&trial.case, trial.case.seed).map_err(TrialError::from)?),
        };
        problems.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&problem));
        let compiler = self.compiler(self.store);
        let used = sources::of_run(self.library, &settings, &setup)?;
        let mut ptx = Vec::new();
        for source in &used {
            let text = compiler.ptx(self.library, source.kernel, &source.defines);
            ptx.push(text.map_err(|e| TrialError::from(PipelineError::from(e)))?);
        }
        let compiled = compiled(&used, &ptx);
        let outcome = trial::on_emulator(memo, &compiled, &contract, &problem, &setup, 0..1)?;
        if let Some(wrong) = outcome.first_wrong() {
            let (stage, note) = (wrong.stage, wrong.note.clone());
            return Ok(Some(Err(Unfit { trial: name(trial), stage, note })));
        }
        let plain = ptx.iter().map(|p| without_places(p)).collect();
        let fuel = outcome.warp_instructions * FUEL + LEAST_FUEL;
        Ok(Some(Ok(Prepared { trial: trial.clone(), settings, setup, contract, problem, ptx, plain, fuel })))
    }

    /// What becomes of each mutant on these trials, in order. `same` are sources whose PTX it is known to leave as it is, and `told` hears of
    /// each as it is known.
    pub fn run(
        &self,
        mutants: &[Mutant],
        trials: &(dyn Fn(&Mutant) -> &'a [Prepared<'a>] + Sync),
        same: &(dyn Fn(&Mutant) -> BTreeSet<Source> + Sync),
        told: &(dyn Fn(usize, &Fate) + Sync),
    ) -> Vec<Fate> {
        let memo = Mutex::new((0, Arc::new(Memo::default())));
        let one = |(n, mutant): (usize, &Mutant)| {
            let memo = {
                let mut held = memo.lock().unwrap_or_else(PoisonError::into_inner);
                held.0 += 1;
                if held.0 % KEPT == 0 {
                    held.1 = Arc::default();
                }
                Arc::clone(&held.1)
            };
            let fate = self.fate(mutant, trials(mutant), &same(mutant), &memo);
            told(n, &fate);
            fate
        };
        // Single mutants are taken in turn: what one costs says nothing of its neighbours.
        mutants.par_iter().enumerate().with_max_len(1).map(one).collect()
    }

    fn fate(
        &self,
        mutant: &Mutant,
        trials: &[Prepared<'a>],
        unchanged: &BTreeSet<Source>,
        memo: &Memo,
    ) -> Fate {
        let library = changed(self.library, mutant);
        let affected: BTreeSet<(&str, bool)> =
            library.kernels.iter().filter(|k| holds(&library, k, &mutant.file)).map(key).collect();
        let compiler = self.compiler(None);
        let mut known: BTreeMap<Source, String> = BTreeMap::new();
        let mut different = 0;
        for prepared in trials {
            let Ok(used) = sources::of_run(&library, &prepared.settings, &prepared.setup) else { continue };
            let mut ptx = prepared.ptx.clone();
            let mut same = true;
            for (n, source) in used.iter().enumerate().filter(|(_, s)| affected.contains(&key(s.kernel))) {
                let key = (source.kernel.file.clone(), source.defines.clone());
                if unchanged.contains(&key) {
                    continue;
                }
                let text = match known.get(&key) {
                    Some(text) => text.clone(),
                    None => match compiler.ptx(&library, source.kernel, &source.defines) {
                        Ok(text) => {
                            known.insert(key, text.clone());
                            text
                        }
                        Err(error) => return Fate::Unbuilt(unbuilt(&error)),
                    },
                };
                same &= without_places(&text) == prepared.plain[n];
                ptx[n] = text;
            }
            if same {
                continue;
            }
            different += 1;
            if let Some(fate) = on(prepared, &compiled(&used, &ptx), memo) {
                return fate;
            }
        }
        if different == 0 { Fate::Equivalent } else { Fate::Survived(different) }
    }
}

/// What a trial says of kernels that are not as they were; nothing where it conforms.
fn on(prepared: &Prepared<'_>, compiled: &Compiled<'_>, memo: &Memo) -> Option<Fate> {
    let killed = |stage, verdict| Some(Fate::Killed { trial: prepared.name(), stage, verdict });
    let options = Options { fuel: prepared.fuel, ..Options::default() };
    let (contract, problem, setup) = (&prepared.contract, &prepared.problem, &prepared.setup);
    let schedules = 0..prepared.trial.case.schedules.max(trial::LAUNCHES);
    match trial::on_emulator_with(memo, compiled, contract, problem, setup, schedules, options) {
        Ok(outcome) => {
            let wrong = outcome.first_wrong()?;
            match wrong.verdict {
                // An instruction that does not exist is no fault of arithmetic.
                Verdict::Unsupported => Some(Fate::Unbuilt(wrong.note.clone())),
                verdict => killed(Some(wrong.stage), verdict),
            }
        }
        Err(TrialError::Pipeline(PipelineError::Device { failure, .. })) => {
            Some(Fate::Unbuilt(failure.to_string()))
        }
        // What it stored is no tensor of the pipeline.
        Err(_) => killed(None, Verdict::Fail),
    }
}

fn compiled<'k>(used: &[KernelSource<'k>; 6], ptx: &[String]) -> Compiled<'k> {
    let of = |n: usize| (used[n].kernel, ptx.get(n).cloned().unwrap_or_default());
    Compiled { kernels: [of(0), of(1), of(2), of(3), of(4), of(5)] }
}

fn key(kernel: &Kernel) -> (&str, bool) {
    (&kernel.file, kernel.own)
}

/// Whether a kernel is this file or includes it.
fn holds(library: &Library, kernel: &Kernel, file: &str) -> bool {
    (kernel.own && kernel.file == file) || included(library, &kernel.text).iter().any(|i| i.name == file)
}

/// The library with the mutant's file in place of its own.
fn changed(library: &Library, mutant: &Mutant) -> Library {
    let mut out = library.clone();
    if let Some(text) = out.includes.get_mut(&mutant.file) {
        text.clone_from(&mutant.text);
    }
    for kernel in out.kernels.iter_mut().filter(|k| k.own && k.file == mutant.file) {
        kernel.text.clone_from(&mutant.text);
    }
    out
}

/// The first line of what the compiler said.
fn unbuilt(error: &NvrtcError) -> String {
    let text = error.to_string();
    let mut lines = text.lines().skip(usize::from(matches!(error, NvrtcError::Rejected { .. })));
    lines.find(|l| !l.trim().is_empty()).unwrap_or(&text).to_owned()
}

/// PTX without the lines and columns of the source: an edit moves columns even where the code stays the same.
fn without_places(ptx: &str) -> String {
    let stays = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with(".loc") && !line.starts_with("//")
    };
    ptx.lines().filter(stays).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_trials_may_kill_and_never_revive() {
        let killed = Fate::Killed { trial: String::new(), stage: None, verdict: Verdict::Fail };
        assert_eq!(Fate::Survived(2).and(Fate::Survived(3)), Fate::Survived(5));
        assert_eq!(Fate::Survived(2).and(killed.clone()), killed);
        assert_eq!(Fate::Survived(2).and(Fate::Equivalent), Fate::Survived(2));
        assert_eq!(Fate::Equivalent.and(Fate::Survived(1)), Fate::Survived(1));
        assert_eq!(Fate::Equivalent.and(killed.clone()), killed);
        assert_eq!(killed.clone().and(Fate::Survived(1)), killed);
    }

    #[test]
    fn places_are_no_code() {
        let ptx = "\t.loc\t1 3 5\n\tadd.u32 %r1, %r2, 1;\n\t// begin inline asm\n";
        assert_eq!(without_places(ptx), without_places("\t.loc\t1 3 9\n\tadd.u32 %r1, %r2, 1;\n"));
        assert_ne!(without_places(ptx), without_places("\t.loc\t1 3 5\n\tadd.u32 %r1, %r2, 2;\n"));
    }

    #[test]
    fn a_mutant_takes_the_place_of_its_file_alone() {
        let library = Library::embedded().unwrap();
        let text = &library.includes["mx.cuh"];
        let mutant = super::super::mutants("mx.cuh", text).remove(0);
        let after = changed(&library, &mutant);
        assert_eq!(after.includes["mx.cuh"], mutant.text);
        assert_eq!(after.includes["gemm.cuh"], library.includes["gemm.cuh"]);
        assert_eq!(after.kernels, library.kernels);
        let permute = library.kernels.iter().find(|k| k.file == "permute.cu").unwrap();
        assert!(holds(&library, permute, "mx.cuh") && !holds(&library, permute, "gemm.cuh"));
    }
}
