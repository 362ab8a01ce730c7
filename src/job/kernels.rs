//! Checks a folder of kernels against the pipeline's reference; after a change, only what the change can affect.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ptx::arch::Target;

use super::context::Context;
use super::error::JobError;
use super::mutants::{self, MutantOptions};
use super::toolchain::Toolchain;
use super::{compiler, trials};
use crate::case::{self, Case};
use crate::event::Event;
use crate::gate::{self, Affected, Base, Expectation, Judgement, Question};
use crate::kernel::Library;
use crate::moe::admission::Limits;
use crate::moe::pipeline::PipelineError;
use crate::moe::runner::Runner;
use crate::moe::tile::Tile;
use crate::moe::trial::TrialError;
use crate::mutants::Survey;
use crate::record::{Finding, Ground, Matrix, Record};
use crate::store::Store;
use crate::toolkit::NvrtcError;

/// The target of the kernels. The emulator runs PTX that differs only in `.target` identically.
const TARGET: &str = "sm_121a";

/// A folder of kernels and the checks to run on it.
pub struct Folder<'a> {
    /// The folder.
    pub folder: &'a Path,
    /// Files that changed; every kernel runs if empty.
    pub changed: &'a [PathBuf],
    /// The Git revision to compare them with; the built-in kernels if `None`.
    pub base: Option<&'a str>,
    /// Names of the cases to run; all cases if empty.
    pub cases: &'a [String],
    /// Tiles to run; all tiles if empty.
    pub tiles: &'a [Tile],
    /// Known failures.
    pub expectations: &'a [Expectation],
    /// Path of the file of known failures, for locations in findings.
    pub expectations_file: &'a str,
    /// The current date, which decides which known failures have expired.
    pub today: gate::Date,
    /// The record of an earlier run to compare with.
    pub baseline: Option<&'a Record>,
    /// Runs mutants instead of judging the trials, with these options.
    pub mutants: Option<&'a MutantOptions>,
}

/// The result of checking a folder of kernels.
pub enum OfKernels {
    /// Nothing was run, for this reason.
    Nothing(&'static str),
    /// The trials were judged.
    Judged(Judgement, Box<Record>),
    /// Mutants were run.
    Mutants(Box<Survey>),
}

/// Runs the trials that a change can affect and judges the results, or runs mutants if the options ask for them.
///
/// # Errors
/// Cases, revisions and toolkits that cannot be used. A kernel that does not compile is a finding, not an error.
pub fn kernels(asked: &Folder<'_>, context: &Context<'_>) -> Result<OfKernels, JobError> {
    let notice = |text: String| context.sink.emit(Event::Notice { text });
    let kernels = Library::with_folder(asked.folder)?;
    let library = case::library();
    if !library.problems.is_empty() {
        return Err(JobError::UnusableCases(library.problems.len()));
    }
    let cases: Vec<&Case> = match asked.cases {
        [] => library.cases.iter().collect(),
        names => names.iter().map(|name| library.find(name)).collect::<Result<_, _>>()?,
    };
    let target: Target = TARGET.parse()?;
    let affected = if asked.changed.is_empty() {
        Affected::all(&kernels)
    } else {
        let base = asked.base.map_or(Ok(Base::Ours), |revision| texts_at(revision, asked.changed))?;
        Affected::by(&kernels, asked.folder, asked.changed, &base)
    };
    affected.reasons.iter().for_each(|reason| notice(reason.clone()));
    if affected.is_empty() {
        return Ok(OfKernels::Nothing("no change can affect a kernel: nothing was run"));
    }
    if let Some(options) = asked.mutants {
        let question = mutants::Question {
            kernels: &kernels,
            folder: asked.folder,
            changed: asked.changed,
            affected: &affected,
            cases: &cases,
            tiles: asked.tiles,
            target,
        };
        return Ok(OfKernels::Mutants(Box::new(mutants::survey(&question, options, context)?)));
    }
    let selection = affected.select(&kernels, &cases)?;
    selection.reasons.iter().for_each(|reason| notice(reason.clone()));
    let mut trials = selection.trials;
    if trials.is_empty() {
        return Ok(OfKernels::Nothing("no configuration compiles the changed code: nothing was run"));
    }
    trials.retain(|t| asked.tiles.is_empty() || asked.tiles.contains(&t.tile));
    if trials.is_empty() {
        return Err(JobError::NothingRan);
    }
    notice(format!("{} trials run the affected code", trials.len()));
    let trials = vec![(target, trials)];
    let store = Store::open(None).ok();
    let nvrtc = compiler::nvrtc(None, store.as_ref(), context.sink)?;
    let toolchain = Toolchain::find(None, &[target], store.as_ref(), context.sink)?;
    let runner = Runner::new(&kernels, &nvrtc, store.as_ref(), context.program.clone());
    let mut run =
        Record::of_matrix(concat!("sm121probe ", env!("CARGO_PKG_VERSION")).to_owned(), Matrix::default());
    let ran =
        trials::run(&runner, &trials, toolchain.as_ref(), Limits::SM12X, |_| false, (None, context.sink));
    let mut judgement = match ran {
        Ok(ran) => {
            run.pipeline = ran.rows;
            gate::judge(&Question {
                baseline: asked.baseline,
                run: &run,
                expectations: asked.expectations,
                expectations_file: asked.expectations_file,
                today: asked.today,
                left_out: gate::LeftOut::ALL,
                reran: true,
            })
        }
        Err(error) => Judgement { findings: vec![refused(error, asked.folder)?], ..Judgement::default() },
    };
    gate::locate(&mut judgement.findings, &kernels, asked.folder);
    Ok(OfKernels::Judged(judgement, Box::new(run)))
}

/// Reads the files at a revision; each file belongs to the repository that contains its folder.
fn texts_at(revision: &str, files: &[PathBuf]) -> Result<Base, JobError> {
    let mut texts = BTreeMap::new();
    for path in files {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let git = |arguments: &[&str]| {
            let mut command = std::process::Command::new("git");
            command.arg("-C").arg(folder).args(arguments).output()
        };
        let fails = |words: String| JobError::Base(revision.to_owned(), words);
        let known = git(&["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")]);
        let known = known.map_err(|e| fails(format!("git cannot be run: {e}")))?;
        if !known.status.success() {
            return Err(fails(format!("the repository of {} has no such revision", folder.display())));
        }
        let shown = git(&["show", &format!("{revision}:./{name}")]).map_err(|e| fails(e.to_string()))?;
        // A file that is missing from the revision is new.
        if shown.status.success() {
            texts.insert(path.clone(), String::from_utf8_lossy(&shown.stdout).into_owned());
        }
    }
    Ok(Base::Texts(texts))
}

/// Turns a kernel that does not compile, or whose header is invalid, into a finding with its line; returns every other error.
fn refused(error: JobError, folder: &Path) -> Result<Finding, JobError> {
    let finding = |file: &str, message: String| {
        let mut finding = Finding::new(Ground::Wrong, file.to_owned(), message);
        finding.place = gate::named(&finding.message, folder).or_else(|| {
            let path = folder.join(file);
            path.is_file().then(|| (path.display().to_string(), 1))
        });
        finding
    };
    match &error {
        JobError::Trial(TrialError::Pipeline(PipelineError::Nvrtc(NvrtcError::Rejected {
            name,
            version,
            log,
        }))) => Ok(finding(name, format!("does not compile with NVRTC {version}: {log}"))),
        JobError::Trial(TrialError::Pipeline(PipelineError::Header { file, message })) => {
            Ok(finding(file, message.clone()))
        }
        JobError::Trial(TrialError::Pipeline(PipelineError::Expression { file, source })) => {
            Ok(finding(file, source.to_string()))
        }
        _ => Err(error),
    }
}
