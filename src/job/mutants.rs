//! Mutation testing of a folder's kernels: generates mutants and runs each on a few trials that cover the affected code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use ptx::arch::Target;

use super::context::Context;
use super::error::JobError;
use super::toolchain::Toolchain;
use super::{compiler, trials};
use crate::event::Event;
use crate::frame::admission::Limits;
use crate::frame::family::SharedTrial;
use crate::gate::{Affected, Cases, Named};
use crate::kernel::{KernelError, Library};
use crate::mutants::{self, Bench, Fate, Mutant, Operator, Prepared, Source, Survey};
use crate::store::Store;

/// Progress is reported each time this many mutants are done.
const TOLD_EVERY: usize = 25;

/// The mutants to generate, and the number of trials for each.
#[derive(Debug, Clone)]
pub struct MutantOptions {
    /// Mutation operators to apply; all if empty.
    pub operators: Vec<Operator>,
    /// The maximum of trials per mutant. A mutant that survives them runs on up to as many others, with features that these lack.
    pub most_trials: u16,
    /// The number of randomly sampled mutants; all mutants if `None`.
    pub sample: Option<usize>,
    /// Seed of the sample.
    pub seed: u64,
}

/// The kernels under test, the files to mutate, and the cases and tiles to run.
pub(super) struct Question<'a> {
    pub(super) kernels: &'a Library,
    pub(super) folder: &'a Path,
    /// Files that changed; every file if empty.
    pub(super) changed: &'a [PathBuf],
    /// The code that the changed files affect, with the changed lines.
    pub(super) affected: &'a Affected,
    pub(super) cases: &'a [Cases],
    /// The cases and configurations that the user names.
    pub(super) named: Named<'a>,
    pub(super) target: Target,
}

/// Runs mutants and returns which of them survive.
pub(super) fn survey(
    question: &Question<'_>,
    options: &MutantOptions,
    context: &Context<'_>,
) -> Result<Survey, JobError> {
    let Question { kernels, folder, .. } = *question;
    let notice = |text: String| context.sink.emit(Event::Notice { text });
    let entries = mutants::read_explained(folder)?;
    let files = files(question)?;
    let mut made: Vec<Mutant> = files.iter().flat_map(|(name, text)| mutants::mutants(name, text)).collect();
    let of_operator = |m: &Mutant| options.operators.is_empty() || options.operators.contains(&m.operator);
    let all = made.clone();
    // Mutants of unchanged lines are out of scope.
    let is_changed =
        |m: &Mutant| question.affected.lines(&m.file).is_none_or(|lines| lines.contains(&m.line));
    made.retain(|m| of_operator(m) && is_changed(m));
    let chosen = match options.sample {
        Some(count) => mutants::sample(made.clone(), count, options.seed),
        None => made.clone(),
    };
    if chosen.is_empty() {
        return Err(JobError::NothingRan);
    }
    let store = Store::open(None).ok();
    let nvrtc = compiler::nvrtc(None, store.as_ref(), context.sink)?;
    let toolchain = Toolchain::find(None, &[question.target], store.as_ref(), context.sink)?;
    let program = context.program.clone();
    let bench =
        Bench { library: kernels, nvrtc: &nvrtc, store: store.as_ref(), program, target: question.target };
    let mut prepared: BTreeMap<&str, Vec<Prepared>> = BTreeMap::new();
    let (mut unfit, mut idle) = (Vec::new(), Vec::new());
    for name in files.keys().filter(|name| chosen.iter().any(|m| m.file == **name)) {
        let trials = trials_of(question, name, &[], options.most_trials, toolchain.as_ref())?;
        let (ready, wrong) = bench.prepare(&trials)?;
        notice(format!("{name}: {} trials", ready.len()));
        unfit.extend(wrong);
        if ready.is_empty() {
            idle.push(name.clone());
        }
        prepared.insert(name, ready);
    }
    let runnable: Vec<Mutant> = chosen.into_iter().filter(|m| !idle.contains(&m.file)).collect();
    if runnable.is_empty() && unfit.is_empty() {
        return Err(JobError::NothingRan);
    }
    let trials = |m: &Mutant| prepared.get(m.file.as_str()).map_or(&[][..], Vec::as_slice);
    let (done, total) = (AtomicUsize::new(0), runnable.len());
    let told = |n: usize, fate: &Fate| {
        let m = &runnable[n];
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if matches!(fate, Fate::Survived(_)) && !entries.iter().any(|e| e.explains(m)) {
            let operator = m.operator.word();
            notice(format!("{done} of {total}: {}:{}: {operator} survives: {}", m.file, m.line, m.after));
        } else if done.is_multiple_of(TOLD_EVERY) {
            notice(format!("{done} of {total}"));
        }
    };
    let mut fates = bench.run(&runnable, &trials, &|_| BTreeSet::new(), &told);
    // A mutant that no configuration so far compiles may still differ in another one.
    let open: Vec<usize> = (0..runnable.len())
        .filter(|n| matches!(fates[*n], Fate::Survived(_) | Fate::Equivalent))
        .filter(|n| !entries.iter().any(|e| e.explains(&runnable[*n])))
        .collect();
    let mut further: BTreeMap<&str, Vec<Prepared>> = BTreeMap::new();
    let mut compiled: BTreeMap<&str, BTreeSet<Source>> = BTreeMap::new();
    for name in files.keys().filter(|name| open.iter().any(|n| runnable[*n].file == **name)) {
        let first = prepared.get(name.as_str()).map_or(&[][..], Vec::as_slice);
        compiled.insert(name, first.iter().flat_map(|p| p.sources(kernels)).collect());
        let before: Vec<SharedTrial> = first.iter().map(|p| SharedTrial::clone(&p.trial)).collect();
        let trials = trials_of(question, name, &before, options.most_trials, toolchain.as_ref())?;
        notice(format!(
            "{name}: {} more trials for mutants that have survived or are equivalent so far",
            trials.len()
        ));
        let (ready, wrong) = bench.prepare(&trials)?;
        unfit.extend(wrong);
        further.insert(name, ready);
    }
    let again: Vec<Mutant> = open.iter().map(|n| runnable[*n].clone()).collect();
    let equivalent: Vec<&Mutant> =
        open.iter().filter(|n| fates[**n] == Fate::Equivalent).map(|n| &runnable[*n]).collect();
    let trials = |m: &Mutant| further.get(m.file.as_str()).map_or(&[][..], Vec::as_slice);
    let same = |m: &Mutant| match equivalent.contains(&m) {
        true => compiled.get(m.file.as_str()).cloned().unwrap_or_default(),
        false => BTreeSet::new(),
    };
    let told = |n: usize, fate: &Fate| {
        if matches!(fate, Fate::Survived(_)) {
            let (m, operator) = (&again[n], again[n].operator.word());
            notice(format!("{}:{}: {operator} survives these, too: {}", m.file, m.line, m.after));
        }
    };
    let second = bench.run(&again, &trials, &same, &told);
    for (n, fate) in open.iter().zip(second) {
        fates[*n] = fates[*n].clone().and(fate);
    }
    unfit.sort_by(|a: &mutants::Unfit, b| a.trial.cmp(&b.trial));
    unfit.dedup();
    let mut survey = Survey::new(runnable, fates, entries, &all, unfit);
    (survey.idle, survey.made) = (idle, made.len());
    Ok(survey)
}

/// Reads the folder's CUDA files that may be mutated; returns their texts by name.
fn files(question: &Question<'_>) -> Result<BTreeMap<String, String>, JobError> {
    let folder = question.folder;
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| JobError::Kernel(KernelError::Read { path, source })
    };
    let mut out = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
        let path = entry.map_err(unreadable(folder))?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let asked =
            question.changed.is_empty() || question.changed.iter().any(|c| c.file_name() == path.file_name());
        if asked && path.extension().is_some_and(|e| e == "cu" || e == "cuh") {
            let text = std::fs::read_to_string(&path).map_err(unreadable(&path))?;
            out.insert(name, text);
        }
    }
    Ok(out)
}

/// Chooses the trials for mutants of a file: a small set that covers the features of all trials that the file affects, except
/// those that the trials in `before` cover.
fn trials_of(
    question: &Question<'_>,
    file: &str,
    before: &[SharedTrial],
    most: u16,
    toolchain: Option<&Toolchain>,
) -> Result<Vec<SharedTrial>, JobError> {
    let affected = Affected::by_file(question.kernels, file);
    let all = affected.select(question.kernels, question.cases, question.named)?.trials;
    let mut admitted = trials::admitted(&all, question.kernels, toolchain, question.target, Limits::SM12X)?;
    admitted.retain(|t| t.blocked().is_none());
    // Configurations make no difference to kernels that are compiled once for all of them.
    let seen = match affected.has_configured(question.kernels) {
        true => mutants::all_features,
        false => mutants::features_beside,
    };
    Ok(mutants::choose(&admitted, before, most.into(), seen))
}
