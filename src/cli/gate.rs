//! `gate`: compares a run with its baseline and its expectations.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use miette::Diagnostic;

use super::args::{JobArgs, OutputArgs};
use super::error::{CliError, CommandError};
use super::exit;
use super::format::{self, Formats};
use super::output;
use crate::gate::{self, Date, Disagreement, Judgement, LeftOut, Merger, Question};
use crate::job::{self, Context, Folder, Job, OfKernels};
use crate::moe::configuration::Tile;
use crate::record::{Finding, Ground, Incomplete, Matrix, Record};
use crate::report::{self, Format};

/// Arguments of `gate`.
#[derive(Debug, Args)]
pub(super) struct GateArgs {
    /// Baseline: a record written by `--format json` or `gate --bless`
    #[arg(long, value_name = "FILE", required_unless_present = "kernels")]
    baseline: Option<PathBuf>,
    /// Check the kernels in DIR, instead of the built-in ones, against the pipeline's reference on the emulator
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "bless"])]
    kernels: Option<PathBuf>,
    /// With --kernels: a changed file; only what it can affect is run (repeatable, takes a list)
    #[arg(long, value_name = "FILE", requires = "kernels", num_args = 1..)]
    changed: Vec<PathBuf>,
    /// With --changed: the git revision to compare the files with [default: the built-in kernels of the same name]
    #[arg(long, value_name = "REV", requires = "changed")]
    base: Option<String>,
    /// With --kernels: only this case (repeatable)
    #[arg(long = "case", value_name = "C", requires = "kernels")]
    cases: Vec<String>,
    /// With --kernels: only this tile (repeatable)
    #[arg(long = "tile", value_name = "MxNxK", requires = "kernels")]
    tiles: Vec<Tile>,
    /// With --kernels: only configurations with these words, such as "swap_ab tma" (repeatable)
    #[arg(long = "configuration", value_name = "WORDS", requires = "kernels")]
    configurations: Vec<String>,
    /// Known failures (YAML): scope, verdict, reason, url and expiry date of each
    #[arg(long, value_name = "FILE")]
    expectations: Option<PathBuf>,
    /// Judge RECORD instead of rerunning the baseline
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    /// Accept the run's answers into the baseline, print the changes, and exit with 0
    #[arg(long)]
    bless: bool,
    /// Date for the expiry of expectations [default: today]
    #[arg(long, value_name = "YYYY-MM-DD")]
    today: Option<Date>,
    #[command(flatten)]
    mutants: super::gate_mutants::MutantArgs,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    reports: GateReports,
}

/// Where the gate's verdict goes.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct GateReports {
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    pub(super) format: Format,
    /// Write the findings as SARIF 2.1.0, too
    #[arg(long, value_name = "FILE")]
    pub(super) sarif: Option<PathBuf>,
    /// Write the run as JUnit XML, too
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the record of the run, too
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

pub(super) const FORMATS: &Formats = &[
    (Format::Text, "One line per finding"),
    (Format::Md, "A Markdown table, as for the summary of a CI step"),
    (Format::Sarif, "SARIF 2.1.0"),
];

/// Runs `gate`.
pub(super) fn gate(args: &GateArgs, context: &Context<'_>) -> Result<(), CliError> {
    let expectations = match &args.expectations {
        Some(path) => gate::read_expectations(path)?,
        None => Vec::new(),
    };
    let file = args.expectations.as_deref().map_or_else(String::new, |p| p.display().to_string());
    let today = args.today.unwrap_or_else(Date::today);
    if let Some(folder) = &args.kernels {
        let baseline = args.baseline.as_deref().map(gate::read).transpose()?;
        let mutants = args.mutants.options();
        let tiles = args.tiles.iter().map(ToString::to_string);
        let configurations: Vec<String> = tiles.chain(args.configurations.iter().cloned()).collect();
        let asked = Folder {
            folder,
            changed: &args.changed,
            base: args.base.as_deref(),
            cases: &args.cases,
            configurations: &configurations,
            expectations: &expectations,
            expectations_file: &file,
            today,
            baseline: baseline.as_ref(),
            mutants: mutants.as_ref(),
        };
        return match job::kernels(&asked, context)? {
            OfKernels::Nothing(why) => {
                let nothing = Record::of_matrix(String::new(), Matrix::default());
                deliver(&Judgement::nothing(&why), &nothing, &args.reports)
            }
            OfKernels::Judged(judgement, run) => deliver(&judgement, &run, &args.reports),
            OfKernels::Mutants(survey) => super::gate_mutants::deliver(&survey, folder, &args.reports),
        };
    }
    let path = args.baseline.as_deref().unwrap_or(Path::new(""));
    let mut baseline = match gate::read(path) {
        Ok(record) => Some(record),
        // The first `--bless` creates the file.
        Err(crate::record::RecordError::Read { source, .. })
            if args.bless && source.kind() == std::io::ErrorKind::NotFound =>
        {
            None
        }
        Err(error) => return Err(error.into()),
    };
    let run = match &args.from {
        Some(path) => gate::read(path)?,
        None => ran(args, baseline.as_ref(), context)?,
    };
    if args.bless {
        return bless(path, baseline, run, &args.reports.output);
    }
    let left_out = LeftOut {
        toolkits: !args.job.toolkits.is_empty(),
        targets: !args.job.targets.is_empty(),
        all_but_cells: !args.job.filters.is_empty(),
    };
    if let Some(baseline) = &mut baseline {
        narrow(baseline, &args.job)?;
    }
    let judgement = gate::judge(&Question {
        baseline: baseline.as_ref(),
        run: &run,
        expectations: &expectations,
        expectations_file: &file,
        today,
        left_out,
        reran: args.from.is_none(),
    });
    deliver(&judgement, &run, &args.reports)
}

/// Re-runs the baseline, or the part of it that the arguments name.
fn ran(args: &GateArgs, baseline: Option<&Record>, context: &Context<'_>) -> Result<Record, CliError> {
    let mut asked = args.job.options();
    if let Some(baseline) = baseline {
        if asked.targets.is_empty() {
            asked.targets = baseline.matrix.targets().iter().map(ToString::to_string).collect();
        }
        if asked.toolkits.is_empty() {
            asked.toolkits = baseline.matrix.toolkits.iter().map(|t| t.version.to_string()).collect();
        }
        if asked.filters.is_empty() {
            asked.filters.clone_from(&baseline.filters);
        }
    }
    let job = Job::prepare(&asked, context)?;
    if args.job.toolkits.is_empty() && baseline.is_some() {
        // A missing toolkit is a finding of the gate; the others are still judged.
        let here = |name: &String| job.discovery.toolkits.iter().any(|t| t.version.is_named(name));
        if asked.toolkits.iter().any(here) {
            asked.toolkits.retain(here);
        }
    }
    let (mut record, figures) = job.run(&asked, false)?;
    output::figures(&args.job, &figures);
    if !job.library.problems.is_empty() {
        return Err(CliError::UnusableFiles(job.library.problems.len()));
    }
    if asked.filters.is_empty() && baseline.is_none_or(|b| !b.trials.is_empty()) && asked.snippets.is_none() {
        job.trials(&asked, &mut record)?;
    }
    Ok(record)
}

/// Reduces the baseline to the part that the arguments select.
fn narrow(baseline: &mut Record, args: &JobArgs) -> Result<(), CliError> {
    let filters = args.options().selection()?.filters;
    if filters.is_empty() {
        return Ok(());
    }
    let families: Vec<String> = baseline.matrix.snippets.iter().map(|s| s.family.clone()).collect();
    baseline.matrix.variants.retain(|v| filters.iter().any(|f| f.matches(&families[v.snippet], &v.id)));
    let kept: BTreeSet<usize> = baseline.matrix.variants.iter().map(|v| v.snippet).collect();
    baseline.matrix.claims.retain(|c| kept.contains(&c.snippet));
    baseline.trials.clear();
    baseline.tiles.rows.clear();
    Ok(())
}

/// Updates the baseline with the results of the run, and prints the changes.
fn bless(path: &Path, baseline: Option<Record>, run: Record, to: &OutputArgs) -> Result<(), CliError> {
    let (blessed, text) = match baseline {
        Some(old) => {
            let diff = gate::diff(&old, &run);
            let text = format!("blessed: {}", report::diff_text(&diff));
            let mut merger = Merger::new(Disagreement::LastWins);
            merger.add("baseline", old.clone());
            merger.add("run", run);
            (merger.finish(), text)
        }
        None => (run, "blessed: this is the first baseline\n".to_owned()),
    };
    let json = blessed.to_json().map_err(|e| CliError::Output(e.into()))?;
    Record::write_report(path, &json)?;
    output::write(&(text + &format!("{} is written\n", path.display())), to)
}

/// Writes the verdict in all requested formats. The most severe finding determines the error, and so the exit code.
pub(super) fn deliver(judgement: &Judgement, run: &Record, to: &GateReports) -> Result<(), CliError> {
    let sarif = || report::findings_sarif(&judgement.findings).map_err(|e| CliError::Output(e.into()));
    let text = match to.format {
        Format::Text => report::verdict_text(judgement),
        Format::Md => report::verdict_markdown(judgement),
        Format::Sarif => sarif()?,
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &to.output)?;
    if let Some(path) = &to.sarif {
        Record::write_report(path, &sarif()?)?;
    }
    if let Some(path) = &to.junit {
        Record::write_report(path, &report::junit_of(run, judgement.incomplete().as_ref()))?;
    }
    if let Some(path) = &to.record {
        Record::write_report(path, &run.to_json().map_err(|e| CliError::Output(e.into()))?)?;
    }
    on_github(&judgement.findings, &report::verdict_markdown(judgement))?;
    let summary = judgement.summary();
    match (judgement.ground(), judgement.incomplete()) {
        (None, None) => Ok(()),
        (ground, _) => Err(GateError::Gate(ground.unwrap_or(Ground::Incomplete), summary).into()),
    }
}

/// Whether this is a step of GitHub Actions.
fn is_on_github() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|v| v == "true")
}

/// On GitHub Actions, annotates the step with what was not checked.
pub(super) fn annotate(incomplete: &str) {
    if is_on_github() {
        let finding = Finding::new(Ground::Incomplete, Incomplete::WORD.to_owned(), incomplete.to_owned());
        eprint!("{}", report::annotations(&[finding]));
    }
}

/// On GitHub Actions, prints annotations and appends to the step's summary.
pub(super) fn on_github(findings: &[Finding], summary: &str) -> Result<(), CliError> {
    if !is_on_github() {
        return Ok(());
    }
    // GitHub also reads annotations on standard error; standard output may be a report that another program parses.
    eprint!("{}", report::annotations(findings));
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|p| !p.is_empty()) else { return Ok(()) };
    append(Path::new(&path), summary).map_err(CliError::Output)
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    std::io::Write::write_all(&mut file, text.as_bytes())
}

/// The exit code for the most severe kind of finding.
pub(super) fn exit_code(ground: Ground) -> u8 {
    match ground {
        Ground::Wrong | Ground::Survivor => exit::DOES_NOT_CONFORM,
        Ground::Claim => exit::CLAIMS_CONTRADICTED,
        Ground::Baseline => exit::BASELINE_CONTRADICTED,
        Ground::Incomplete => exit::INCOMPLETE,
    }
}

/// What `gate` found.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum GateError {
    #[error("{1}")]
    #[diagnostic(help(
        "the lines above name each finding; use `gate --bless` to accept correct answers into the baseline, and \
        expectations for known failures"
    ))]
    Gate(crate::record::Ground, String),
    #[error("{0}")]
    #[diagnostic(help(
        "the lines above name each mutant; add a case that detects the fault, or an entry with the reason to \
        mutants.yaml next to the kernels"
    ))]
    Mutants(String),
}

impl CommandError for GateError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Gate(ground, _) => exit_code(*ground),
            Self::Mutants(_) => exit::DOES_NOT_CONFORM,
        }
    }

    fn names_gaps(&self) -> bool {
        matches!(self, Self::Gate(..))
    }
}
