//! Checks a folder of kernels against the pipeline's reference; after a change, only what the change can affect.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ptx::arch::Target;

use super::context::Context;
use super::error::JobError;
use super::mutants::{self, MutantOptions};
use super::toolchain::Toolchain;
use super::{compiler, trials};
use crate::event::Event;
use crate::families;
use crate::frame::admission::Limits;
use crate::frame::family::Part;
use crate::frame::runner::Runner;
use crate::frame::{RunError, TrialError};
use crate::gate::{self, Affected, Base, Cases, Expectation, Judgement, Named, Question};
use crate::kernel::Library;
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
    /// Words of the configurations to run, such as a tile; every configuration if empty.
    pub configurations: &'a [String],
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
    let kernels = Library::with_folder(asked.folder, families::check_kernel)?;
    let problems = families::FAMILIES.iter().map(|family| family.problems().len()).sum();
    if problems > 0 {
        return Err(JobError::UnusableCases(problems));
    }
    let cases = cases(asked.cases)?;
    let target: Target = TARGET.parse()?;
    let affected = if asked.changed.is_empty() {
        Affected::all(&kernels)
    } else {
        let base = asked.base.map_or(Ok(Base::Ours), |revision| texts_at(revision, asked.changed))?;
        Affected::by(&kernels, asked.folder, asked.changed, &base)
    };
    affected.reasons.iter().for_each(|reason| notice(reason.clone()));
    let named = Named { cases: !asked.cases.is_empty(), configurations: asked.configurations };
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
            run.families = families::FAMILIES.iter().map(|family| family.row()).collect();
            run.trials = ran.rows;
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
            for words in asked.configurations {
                let has = |row: &&TrialRow| row.configuration.has(words);
                if !run.trials.iter().filter(has).any(TrialRow::is_judged) {
                    let what = format!("configuration {words} was not run");
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

/// Returns the cases of these names by family; every built-in case if there are none.
fn cases(names: &[String]) -> Result<Vec<Cases>, JobError> {
    let mut all = Cases::all();
    if names.is_empty() {
        return Ok(all);
    }
    for name in names {
        if all.iter().all(|of| !of.names.contains(name)) {
            let known = all.iter().flat_map(|of| of.names.iter());
            return Err(JobError::no_case(name, known.map(String::as_str)));
        }
    }
    for of in &mut all {
        of.names.retain(|name| names.contains(name));
    }
    all.retain(|of| !of.names.is_empty());
    Ok(all)
}

/// Says why a selection has no trial: each configuration that is named cannot run, for its reason, or nothing compiles the code.
fn without_trials(asked: &Folder<'_>, cases: &[Cases]) -> String {
    let of = |words: &String| {
        let of_family = |of: &Cases| {
            let trials = |case: &String| of.family.trials(case, Part::Named(words));
            of.names.iter().flat_map(trials).collect::<Vec<_>>()
        };
        let trials: Vec<_> = cases.iter().flat_map(of_family).collect();
        let reason = trials.iter().find_map(|t| t.blocked().map(|(_, reason)| reason.to_owned()))?;
        let all = trials.iter().all(|t| t.blocked().is_some());
        all.then(|| format!("{words} cannot run: {reason}"))
    };
    let blocked: Vec<String> = asked.configurations.iter().filter_map(of).collect();
    if !blocked.is_empty() {
        return blocked.join("; ");
    }
    let within = match (asked.cases, asked.configurations) {
        ([], []) => String::new(),
        (cases, []) => format!(" of {}", cases.join(", ")),
        ([], words) => format!(" with {}", words.join(", ")),
        (cases, words) => format!(" of {} with {}", cases.join(", "), words.join(", ")),
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
        JobError::Trial(TrialError::Run(RunError::Nvrtc(NvrtcError::Rejected { name, version, log }))) => {
            Ok(finding(name, format!("does not compile with NVRTC {version}: {log}")))
        }
        JobError::Trial(TrialError::Run(RunError::Header { file, message })) => {
            Ok(finding(file, message.clone()))
        }
        JobError::Trial(TrialError::Run(RunError::Expression { file, source })) => {
            Ok(finding(file, source.to_string()))
        }
        _ => Err(error),
    }
}
