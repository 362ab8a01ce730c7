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
use crate::gate::{self, Affected, Base, Expectation, Judgement, Named, Question};
use crate::kernel::Library;
use crate::moe::admission::Limits;
use crate::moe::pipeline::PipelineError;
use crate::moe::plan;
use crate::moe::runner::Runner;
use crate::moe::tile::Tile;
use crate::moe::trial::TrialError;
use crate::mutants::Survey;
use crate::record::{Finding, Ground, Matrix, Record, TrialRow};
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
    Nothing(String),
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
    let named = Named { cases: !asked.cases.is_empty(), tiles: asked.tiles };
    let unchanged = match affected.is_empty() {
        true => affected.trials_of_unchanged(&kernels, &cases, named)?,
        false => Vec::new(),
    };
    if affected.is_empty() && (unchanged.is_empty() || asked.mutants.is_some()) {
        return Ok(OfKernels::Nothing("no change can affect a kernel".to_owned()));
    }
    if let Some(options) = asked.mutants {
        let question = mutants::Question {
            kernels: &kernels,
            folder: asked.folder,
            changed: asked.changed,
            affected: &affected,
            cases: &cases,
            named,
            target,
        };
        return Ok(OfKernels::Mutants(Box::new(mutants::survey(&question, options, context)?)));
    }
    let trials = if unchanged.is_empty() {
        let selection = affected.select(&kernels, &cases, named)?;
        selection.reasons.iter().for_each(|reason| notice(reason.clone()));
        selection.trials
    } else {
        unchanged
    };
    if trials.is_empty() {
        return Ok(OfKernels::Nothing(without_trials(asked, &cases)));
    }
    notice(match trials.len() {
        1 => "1 trial runs this code".to_owned(),
        many => format!("{many} trials run this code"),
    });
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
            let idle = ran.idle_folder(&kernels)?;
            run.pipeline = ran.rows;
            let mut judgement = gate::judge(&Question {
                baseline: asked.baseline,
                run: &run,
                expectations: asked.expectations,
                expectations_file: asked.expectations_file,
                today: asked.today,
                left_out: gate::LeftOut::ALL,
                reran: true,
            });
            if let Some(files) = idle {
                let what = format!("no trial ran a kernel of the folder ({})", files.join(", "));
                judgement.lacks("the selection".to_owned(), what, "choose a tile or another --case");
            }
            for tile in asked.tiles {
                let of_tile = |row: &&TrialRow| row.configuration.tile.known() == Some(tile);
                if !run.pipeline.iter().filter(of_tile).any(TrialRow::is_judged) {
                    let what = format!("tile {tile} was not run");
                    judgement.lacks(
                        "the selection".to_owned(),
                        what,
                        "`sm121probe tiles` says what it needs",
                    );
                }
            }
            judgement
        }
        Err(error) => Judgement { findings: vec![refused(error, asked.folder)?], ..Judgement::default() },
    };
    gate::locate(&mut judgement.findings, &kernels, asked.folder);
    Ok(OfKernels::Judged(judgement, Box::new(run)))
}

/// Says why a selection has no trial: each tile that is named cannot run, for its reason, or nothing compiles the code.
fn without_trials(asked: &Folder<'_>, cases: &[&Case]) -> String {
    let of = |tile: &Tile| {
        let trials =
            || cases.iter().flat_map(move |case| plan::trials(case, &[*tile], &plan::LOADS, &plan::PATHS));
        let blocked = trials().find_map(|t| t.config.err())?;
        trials().all(|t| t.config.is_err()).then(|| format!("tile {tile} cannot run: {}", blocked.0))
    };
    let blocked: Vec<String> = asked.tiles.iter().filter_map(of).collect();
    if !blocked.is_empty() {
        return blocked.join("; ");
    }
    let tiles: Vec<String> = asked.tiles.iter().map(ToString::to_string).collect();
    let within = match (asked.cases, &tiles[..]) {
        ([], []) => String::new(),
        (cases, []) => format!(" of {}", cases.join(", ")),
        ([], tiles) => format!(" with {}", tiles.join(", ")),
        (cases, tiles) => format!(" of {} with {}", cases.join(", "), tiles.join(", ")),
    };
    let code = if asked.changed.is_empty() { "the folder's code" } else { "the changed code" };
    format!("no configuration{within} compiles {code}")
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
