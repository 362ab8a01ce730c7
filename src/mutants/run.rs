//! Runs mutants: compiles each, and emulates it only if its PTX differs, until the first trial that does not conform.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use emulator::Options;
use ptx::arch::Target;
use rayon::prelude::*;

use super::model::Mutant;
use crate::frame::compile::{Compiled, Compiler, KernelSource, included};
use crate::frame::family::{self, SharedTrial};
use crate::frame::runner::LAUNCHES;
use crate::frame::{Memo, RunError, TrialError};
use crate::kernel::{Kernel, KernelError, Library};
use crate::record::{StageName, Verdict};
use crate::store::Store;
use crate::toolkit::{Nvrtc, NvrtcError};

/// A mutant may execute this many times the instructions of the unchanged kernels; if it needs more, it is assumed not to terminate.
const FUEL: u64 = 4;
/// Instructions added to the limit, for small trials.
const LEAST_FUEL: u64 = 200_000;
/// The memo of decoded programs and verdicts is dropped after this many mutants, to bound memory.
const KEPT: usize = 40;

/// The fate of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It does not compile, or the emulator cannot load it.
    Unbuilt(String),
    /// Its PTX equals that of the unchanged kernels in every configuration.
    Equivalent,
    /// A trial does not conform.
    Killed {
        /// The name of the trial.
        trial: String,
        /// The first wrong stage; `None` if the outputs cannot be judged.
        stage: Option<StageName>,
        /// The verdict.
        verdict: Verdict,
    },
    /// Every trial conforms; the number of trials whose PTX differs.
    Survived(usize),
}

impl Fate {
    /// Combines the fates of a mutant on its first and on further trials.
    #[must_use]
    pub fn and(self, further: Self) -> Self {
        match (self, further) {
            (Self::Survived(first), Self::Survived(more)) => Self::Survived(first + more),
            (Self::Survived(_), killed @ Self::Killed { .. }) => killed,
            // In other configurations its PTX may differ, or it may not compile.
            (Self::Equivalent, further) => further,
            (fate, _) => fate,
        }
    }
}

/// A trial that fails with the unchanged kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// The name of the trial.
    pub trial: String,
    /// The first wrong stage.
    pub stage: StageName,
    /// A description of the difference.
    pub note: String,
}

/// Why mutants cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum MutantError {
    /// The unchanged kernels cannot be run.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// A stage has no kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// Everything that a run of mutants needs.
pub struct Bench<'a> {
    /// The unchanged kernels.
    pub library: &'a Library,
    /// The NVRTC that compiles them.
    pub nvrtc: &'a Nvrtc,
    /// The cache of the unchanged kernels' PTX; that of mutants is not cached.
    pub store: Option<&'a Store>,
    /// This tool's executable, whose hidden verb compiles.
    pub program: std::path::PathBuf,
    /// The target of the PTX.
    pub target: Target,
}

/// A trial with everything that is the same for all mutants.
pub struct Prepared {
    /// The trial.
    pub trial: SharedTrial,
    data: Box<dyn family::Prepared>,
    /// The PTX of each unchanged kernel.
    ptx: Vec<String>,
    /// That PTX without source locations and comments, which an edit changes even if the code stays the same.
    plain: Vec<String>,
    fuel: u64,
}

/// A kernel's file and the macros that it is compiled with.
pub type Source = (String, Vec<(String, String)>);

impl Prepared {
    /// Returns the sources that the trial compiles.
    #[must_use]
    pub fn sources(&self, library: &Library) -> BTreeSet<Source> {
        let used = self.trial.sources(library);
        used.into_iter().flatten().map(|s| (s.kernel.file.clone(), s.defines)).collect()
    }
}

impl<'a> Bench<'a> {
    fn compiler(&self, store: Option<&'a Store>) -> Compiler<'a> {
        Compiler { nvrtc: self.nvrtc, store, program: self.program.clone(), target: self.target }
    }

    /// Runs the unchanged kernels. Returns the trials that pass, ready for mutants, and those that fail.
    ///
    /// # Errors
    /// [`MutantError`] if the unchanged kernels cannot be run.
    pub fn prepare(&self, trials: &[SharedTrial]) -> Result<(Vec<Prepared>, Vec<Unfit>), MutantError> {
        let memo = Memo::default();
        let all: Vec<Result<Option<Result<Prepared, Unfit>>, MutantError>> =
            trials.par_iter().map(|t| self.prepare_one(t, &memo)).collect();
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
        trial: &SharedTrial,
        memo: &Memo,
    ) -> Result<Option<Result<Prepared, Unfit>>, MutantError> {
        if trial.blocked().is_some() {
            return Ok(None);
        }
        let data = trial.prepared(self.library, None, None, memo)?;
        let sources = trial.sources(self.library)?;
        let compiler = self.compiler(self.store);
        let compiled =
            compiler.compiled(self.library, &sources).map_err(|e| TrialError::from(RunError::from(e)))?;
        let outcome = data.emulate(memo, &compiled, 0..1, Options::default())?;
        if let Some(wrong) = outcome.first_wrong() {
            let (stage, note) = (wrong.stage.clone(), wrong.note.clone());
            return Ok(Some(Err(Unfit { trial: trial.name(), stage, note })));
        }
        let ptx: Vec<String> = compiled.kernels.into_iter().map(|(_, ptx)| ptx).collect();
        let plain = ptx.iter().map(|p| without_places(p)).collect();
        let fuel = outcome.warp_instructions * FUEL + LEAST_FUEL;
        Ok(Some(Ok(Prepared { trial: SharedTrial::clone(trial), data, ptx, plain, fuel })))
    }

    /// Returns the fate of each mutant on its trials, in the order of `mutants`. `same` returns the sources whose PTX a mutant is known to
    /// leave unchanged; `told` is called as soon as a fate is known.
    pub fn run(
        &self,
        mutants: &[Mutant],
        trials: &(dyn Fn(&Mutant) -> &'a [Prepared] + Sync),
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
        // Distributes single mutants, since their costs vary widely.
        mutants.par_iter().enumerate().with_max_len(1).map(one).collect()
    }

    fn fate(&self, mutant: &Mutant, trials: &[Prepared], unchanged: &BTreeSet<Source>, memo: &Memo) -> Fate {
        let library = changed(self.library, mutant);
        let affected: BTreeSet<(&str, bool)> =
            library.kernels.iter().filter(|k| holds(&library, k, &mutant.file)).map(key).collect();
        let compiler = self.compiler(None);
        let mut known: BTreeMap<Source, String> = BTreeMap::new();
        let mut different = 0;
        for prepared in trials {
            let Ok(used) = prepared.trial.sources(&library) else { continue };
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

/// Runs a trial with changed kernels; `None` if it conforms.
fn on(prepared: &Prepared, compiled: &Compiled<'_>, memo: &Memo) -> Option<Fate> {
    let killed = |stage, verdict| Some(Fate::Killed { trial: prepared.trial.name(), stage, verdict });
    let options = Options { fuel: prepared.fuel, ..Options::default() };
    let schedules = 0..prepared.trial.schedules().max(LAUNCHES);
    match prepared.data.emulate(memo, compiled, schedules, options) {
        Ok(outcome) => {
            let wrong = outcome.first_wrong()?;
            match wrong.verdict {
                // A mutant with an unsupported instruction is not a wrong result.
                Verdict::Unsupported => Some(Fate::Unbuilt(wrong.note.clone())),
                verdict => killed(Some(wrong.stage.clone()), verdict),
            }
        }
        Err(TrialError::Run(RunError::Device { failure, .. })) => Some(Fate::Unbuilt(failure.to_string())),
        // What is stored cannot be judged.
        Err(_) => killed(None, Verdict::Fail),
    }
}

fn compiled<'k>(used: &[KernelSource<'k>], ptx: &[String]) -> Compiled<'k> {
    Compiled { kernels: used.iter().map(|source| source.kernel).zip(ptx.iter().cloned()).collect() }
}

fn key(kernel: &Kernel) -> (&str, bool) {
    (&kernel.file, kernel.own)
}

/// Whether a kernel is `file` of the folder or includes it.
#[must_use]
pub fn holds(library: &Library, kernel: &Kernel, file: &str) -> bool {
    let sees_folder = kernel.own || !library.own_includes.contains_key(file);
    (kernel.own && kernel.file == file)
        || (sees_folder && included(library, kernel).iter().any(|i| i.name == file))
}

/// Returns the library with the mutant's text of its file.
fn changed(library: &Library, mutant: &Mutant) -> Library {
    let mut out = library.clone();
    out.replace(&mutant.file, &mutant.text);
    out
}

/// Returns the first line of the compiler's message.
fn unbuilt(error: &NvrtcError) -> String {
    let text = error.to_string();
    let mut lines = text.lines().skip(usize::from(matches!(error, NvrtcError::Rejected { .. })));
    lines.find(|l| !l.trim().is_empty()).unwrap_or(&text).to_owned()
}

/// Removes source locations and comments from PTX: an edit moves columns even if the code stays the same.
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
