//! `gate --kernels`: kernels of a folder against the pipeline's reference, and of a change what it can affect.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ptx::arch::Target;

use super::compiler;
use super::error::CliError;
use super::gate::{GateReports, deliver};
use super::gate_mutants::{self, MutantArgs};
use super::output;
use super::progress::Progress;
use super::toolchain::Toolchain;
use super::trials;
use crate::case::{self, Case};
use crate::gate::{self, Affected, Base, Expectation, Judgement, Question};
use crate::kernel::Library;
use crate::moe::admission::Limits;
use crate::moe::pipeline::PipelineError;
use crate::moe::runner::Runner;
use crate::moe::tile::Tile;
use crate::moe::trial::TrialError;
use crate::record::{Finding, Ground, Matrix, Record};
use crate::store::Store;
use crate::toolkit::NvrtcError;

/// What kernels are compiled for: PTX that differs in its `.target` alone is the same to the emulator.
const TARGET: &str = "sm_121a";

/// What is asked of a folder of kernels.
pub(super) struct Folder<'a> {
    pub(super) folder: &'a Path,
    pub(super) changed: &'a [PathBuf],
    pub(super) base: Option<&'a str>,
    pub(super) cases: &'a [String],
    pub(super) tiles: &'a [Tile],
    pub(super) expectations: &'a [Expectation],
    pub(super) expectations_file: &'a str,
    pub(super) today: gate::Date,
    pub(super) baseline: Option<&'a Record>,
    pub(super) mutants: &'a MutantArgs,
}

/// Runs what a change can affect, and judges it.
pub(super) fn gate(asked: &Folder<'_>, to: &GateReports) -> Result<(), CliError> {
    let kernels = Library::with_folder(asked.folder)?;
    let library = case::library();
    if !library.problems.is_empty() {
        return Err(CliError::UnusableCases(library.problems.len()));
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
    for reason in &affected.reasons {
        eprintln!("{reason}");
    }
    if affected.is_empty() {
        return output::write("no change can affect a kernel: nothing was run\n", &to.output);
    }
    if asked.mutants.mutants {
        let question = gate_mutants::Question {
            kernels: &kernels,
            folder: asked.folder,
            changed: asked.changed,
            affected: &affected,
            cases: &cases,
            tiles: asked.tiles,
            target,
        };
        return gate_mutants::survey(&question, asked.mutants, to);
    }
    let selection = affected.select(&kernels, &cases)?;
    for reason in &selection.reasons {
        eprintln!("{reason}");
    }
    let mut trials = selection.trials;
    if trials.is_empty() {
        return output::write("no configuration compiles the changed code: nothing was run\n", &to.output);
    }
    trials.retain(|t| asked.tiles.is_empty() || asked.tiles.contains(&t.tile));
    if trials.is_empty() {
        return Err(CliError::NothingRan);
    }
    eprintln!("{} trials run the affected code", trials.len());
    let trials = vec![(target, trials)];
    let store = Store::open(None).ok();
    let nvrtc = compiler::nvrtc(None, store.as_ref(), &Progress::new())?;
    let toolchain = Toolchain::find(None, &[target], store.as_ref())?;
    let program = std::env::current_exe().map_err(NvrtcError::Worker)?;
    let runner = Runner::new(&kernels, &nvrtc, store.as_ref(), program);
    let mut run =
        Record::of_matrix(concat!("sm121probe ", env!("CARGO_PKG_VERSION")).to_owned(), Matrix::default());
    let ran = trials::run(&runner, &trials, toolchain.as_ref(), Limits::SM12X, |_| false, None);
    let mut judgement = match ran {
        Ok(ran) => {
            run.pipeline = ran.rows;
            gate::judge(&Question {
                baseline: asked.baseline,
                run: &run,
                expectations: asked.expectations,
                expectations_file: asked.expectations_file,
                today: asked.today,
                narrowed: true,
            })
        }
        Err(error) => Judgement { findings: vec![refused(error, asked.folder)?], ..Judgement::default() },
    };
    gate::locate(&mut judgement.findings, &kernels, asked.folder);
    deliver(&judgement, &run, to)
}

/// The files as a revision of the repository around each has them.
fn texts_at(revision: &str, files: &[PathBuf]) -> Result<Base, CliError> {
    let mut texts = BTreeMap::new();
    for path in files {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let git = |arguments: &[&str]| {
            let mut command = std::process::Command::new("git");
            command.arg("-C").arg(folder).args(arguments).output()
        };
        let fails = |words: String| CliError::Base(revision.to_owned(), words);
        let known = git(&["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")]);
        let known = known.map_err(|e| fails(format!("git cannot be run: {e}")))?;
        if !known.status.success() {
            return Err(fails(format!("the repository of {} has no such revision", folder.display())));
        }
        let shown = git(&["show", &format!("{revision}:./{name}")]).map_err(|e| fails(e.to_string()))?;
        // A file that the revision lacks is new.
        if shown.status.success() {
            texts.insert(path.clone(), String::from_utf8_lossy(&shown.stdout).into_owned());
        }
    }
    Ok(Base::Texts(texts))
}

/// A kernel that does not compile, or whose header does not fit, is a finding with its line; everything else ends the verb.
fn refused(error: CliError, folder: &Path) -> Result<Finding, CliError> {
    let finding = |file: &str, message: String| {
        let mut finding = Finding::new(Ground::Wrong, file.to_owned(), message);
        finding.place = gate::named(&finding.message, folder).or_else(|| {
            let path = folder.join(file);
            path.is_file().then(|| (path.display().to_string(), 1))
        });
        finding
    };
    match &error {
        CliError::Trial(TrialError::Pipeline(PipelineError::Nvrtc(NvrtcError::Rejected {
            name,
            version,
            log,
        }))) => Ok(finding(name, format!("does not compile with NVRTC {version}: {log}"))),
        CliError::Trial(TrialError::Pipeline(PipelineError::Header { file, message })) => {
            Ok(finding(file, message.clone()))
        }
        CliError::Trial(TrialError::Pipeline(PipelineError::Expression { file, source })) => {
            Ok(finding(file, source.to_string()))
        }
        _ => Err(error),
    }
}
