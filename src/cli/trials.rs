//! `trials`: runs the kernels of any family and compares them with its reference.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use miette::Diagnostic;
use ptx::arch::Target;

use super::args::OutputArgs;
use super::error::{CliError, CommandError};
use super::findings::Findings;
use super::format::{self, Formats};
use super::runner::RunnerArgs;
use super::ways::KernelArgs;
use super::{exit, output};
use crate::families::{self, FAMILIES};
use crate::frame::family::{Family, Part, SharedTrial, Trial};
use crate::frame::runner::Runner;
use crate::frame::{case_files, shrink};
use crate::job::{self, Context, JobError, OfTarget, Ran, TARGETS};
use crate::kernel::Library;
use crate::record::{Completeness, Matrix, Record, first_line};
use crate::report::{self, Format};

/// Arguments of `trials`.
#[derive(Debug, Args)]
pub(super) struct TrialsArgs {
    /// Family of kernels
    #[arg(value_name = "FAMILY", value_parser = PossibleValuesParser::new(FAMILIES.map(|family| family.name())))]
    family: String,
    #[command(flatten)]
    selection: SelectionArgs,
}

/// Which trials of a family, compiled by whom and for what.
#[derive(Debug, Args)]
pub(super) struct SelectionArgs {
    /// List the cases
    #[arg(long)]
    list: bool,
    /// Only this case: a built-in one, or FILE.yaml (repeatable)
    #[arg(long = "case", value_name = "C")]
    cases: Vec<String>,
    /// Only configurations with these words, such as "hnd d128" (repeatable)
    #[arg(long = "configuration", value_name = "WORDS")]
    configurations: Vec<String>,
    /// Every configuration instead of those of the default set
    #[arg(long, conflicts_with = "configurations")]
    all: bool,
    /// Target of the kernels (repeatable) [default: sm_121a and sm_121f]
    #[arg(long = "target", short = 't', value_name = "T")]
    targets: Vec<String>,
    /// NVRTC: 13.5 or 13.5.37 [default: the newest]
    #[arg(long, short = 'k', value_name = "V")]
    toolkit: Option<String>,
    #[command(flatten)]
    kernels: KernelArgs,
    #[command(flatten)]
    runner: RunnerArgs,
    /// Reduce the first failing trial to the smallest case that fails at the same stage, and print its file
    #[arg(long)]
    shrink: bool,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The output formats of commands that run trials.
pub(super) const FORMATS: &Formats = &[
    (Format::Text, "What does not conform, and the counts"),
    (Format::Csv, "One row per trial and stage"),
    (Format::Json, "The trials as JSON"),
    (Format::Md, "One row per trial, as Markdown"),
];

impl SelectionArgs {
    /// The selected cases; all of the family if none is named.
    fn cases(&self, family: &dyn Family) -> Result<Vec<String>, CliError> {
        let all: Vec<String> = family.cases().into_iter().map(|case| case.name).collect();
        let unknown = self.cases.iter().find(|name| !is_file(name) && !all.contains(name));
        match unknown {
            Some(name) => Err(JobError::no_case(name, all.iter().map(String::as_str)).into()),
            None if self.cases.is_empty() => Ok(all),
            None => Ok(self.cases.clone()),
        }
    }

    /// The trials of these cases for each target.
    fn trials(
        &self,
        family: &'static dyn Family,
        cases: &[String],
        targets: &[Target],
        kernels: &Library,
    ) -> Result<Vec<OfTarget>, CliError> {
        let (files, cases): (Vec<&String>, Vec<&String>) = cases.iter().partition(|case| is_file(case));
        let files: Vec<(&Path, String)> = files
            .into_iter()
            .map(|file| Ok((Path::new(file), read_case(Path::new(file))?)))
            .collect::<Result<_, SelectionError>>()?;
        let of = |part: Part<'_>| -> Result<Vec<SharedTrial>, SelectionError> {
            let mut all: Vec<SharedTrial> = cases.iter().flat_map(|case| family.trials(case, part)).collect();
            for (path, text) in &files {
                all.extend(family.trials_of_file(path, text, part).map_err(SelectionError::Case)?);
            }
            Ok(all)
        };
        let set: Vec<SharedTrial> = match self.configurations.as_slice() {
            [] if self.all => of(Part::Every)?,
            [] => {
                let mut set = family.default_set(&cases.iter().map(|case| case.as_str()).collect::<Vec<_>>());
                for (path, text) in &files {
                    set.extend(family.trials_of_file(path, text, Part::Own).map_err(SelectionError::Case)?);
                }
                set
            }
            words => {
                let of_words = words.iter().map(|words| of(Part::Named(words)));
                of_words.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
            }
        };
        if self.targets.is_empty() {
            return Ok(job::for_targets(family, &set, targets, kernels));
        }
        Ok(targets.iter().map(|target| (*target, set.clone())).collect())
    }
}

/// Whether a case is named by its file.
fn is_file(case: &str) -> bool {
    Path::new(case).extension().is_some_and(|extension| extension == "yaml")
}

fn read_case(path: &Path) -> Result<String, SelectionError> {
    std::fs::read_to_string(path).map_err(|source| SelectionError::Read { path: path.to_owned(), source })
}

/// What cases that are named by their files cannot mean.
#[derive(Debug, thiserror::Error, Diagnostic)]
enum SelectionError {
    #[error("cannot read the case {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Case(String),
}

impl CommandError for SelectionError {
    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}

/// Prints the smallest case that fails at the same stage as the first failing trial, and what explains it. `again` says how to run it.
pub(super) fn print_smallest(
    runner: &Runner<'_>,
    ran: &Ran,
    again: impl Fn(&dyn Trial, Target) -> String,
    output: &OutputArgs,
) -> Result<(), CliError> {
    let failed = ran
        .rows
        .iter()
        .zip(&ran.trials)
        .find_map(|(row, trial)| Some((row.first_wrong()?.stage.clone(), *row.target.known()?, trial)));
    let Some((stage, target, trial)) = failed else {
        // A check of a device fails although every stage conforms: there is no stage that a smaller case could keep.
        return Err(Findings::Trials(ran.rows.iter().filter(|row| !row.conforms()).count()).into());
    };
    let fails = |trial: &dyn Trial| Some(runner.run(trial, target).ok()?.first_wrong()?.stage.clone());
    let small = shrink::smallest(trial, &stage, fails);
    let mut text = format!("# {} fails at {stage}: {}\n", trial.case(), again(small.as_ref(), target));
    let explained = runner.explained(small.as_ref(), target).map(|found| found.text()).unwrap_or_default();
    for line in explained.lines() {
        text.push_str(&format!("# {line}\n"));
    }
    text.push_str(&small.case_text().unwrap_or_default());
    output::write(&text, output)?;
    Err(Findings::Trials(1).into())
}

/// Formats cases for `--list`.
pub(super) fn listed(rows: &[report::Named<'_>], format: Format) -> Result<String, CliError> {
    const HEAD: [&str; 2] = ["case", "about"];
    let object = |(case, about): &report::Named<'_>| serde_json::json!({ "case": case, "about": about });
    Ok(match format {
        Format::Text => report::listing_text(rows),
        Format::Csv => report::listing_csv(HEAD, rows),
        Format::Md => report::listing_markdown(HEAD, rows),
        Format::Json => {
            let objects: Vec<_> = rows.iter().map(object).collect();
            serde_json::to_string_pretty(&objects).map_err(|e| CliError::Output(e.into()))? + "\n"
        }
        other => return Err(format::lacks(other, FORMATS)),
    })
}

/// Runs `trials`.
pub(super) fn trials(args: &TrialsArgs, context: &Context<'_>) -> Result<(), CliError> {
    let family = families::find(&args.family).ok_or(JobError::NothingRan)?;
    of_family(family, &args.selection, None, context, |_, _| Ok(()))
}

/// Runs trials of a family: those that are `chosen`, or else the selected ones. `before` sees what will run.
pub(super) fn of_family(
    family: &'static dyn Family,
    args: &SelectionArgs,
    chosen: Option<Vec<SharedTrial>>,
    context: &Context<'_>,
    before: impl FnOnce(&Runner<'_>, &[OfTarget]) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let problems = family.problems();
    for problem in &problems {
        output::tell(&format!("error: {problem}"));
    }
    if args.list {
        let cases = family.cases();
        let rows: Vec<report::Named<'_>> =
            cases.iter().map(|case| (case.name.as_str(), case.about.as_str())).collect();
        return output::write(&listed(&rows, args.format)?, &args.output);
    }
    let cases = args.cases(family)?;
    let kernels = args.kernels.library()?;
    let names: Vec<&str> = match args.targets.is_empty() {
        true => TARGETS.to_vec(),
        false => args.targets.iter().map(String::as_str).collect(),
    };
    let targets: Vec<Target> = names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let mut resolved =
        args.runner.resolved(args.toolkit.as_deref(), targets, args.targets.is_empty(), context)?;
    let (targets, limits) = (resolved.targets.clone(), resolved.limits);
    let toolchain = resolved.toolchain.take();
    let runner = args.runner.runner(&mut resolved, &kernels, context)?;
    let asked = match chosen {
        Some(chosen) => job::for_targets(family, &chosen, &targets, &kernels),
        None => args.trials(family, &cases, &targets, &kernels)?,
    };
    before(&runner, &asked)?;
    let ran = job::run(&runner, &asked, toolchain.as_ref(), limits, |_| true, (None, context.sink))?;
    let rows = &ran.rows;
    if args.shrink && rows.iter().any(|row| !row.conforms()) {
        let again = |trial: &dyn Trial, target: Target| {
            let family = family.name();
            format!(
                "sm121probe trials {family} --case FILE.yaml --configuration \"{}\" --target {target}",
                trial.configuration()
            )
        };
        return print_smallest(&runner, &ran, again, &args.output);
    }
    let mut all = Completeness::of_checks(rows.iter().filter(|row| row.is_judged()).count());
    for case in &args.cases {
        let name = if is_file(case) { case_files::name(Path::new(case)) } else { case.clone() };
        if !rows.iter().any(|row| row.is_judged() && row.case == name) {
            all.add_gap(format!("case {case} was not run"));
        }
    }
    for words in &args.configurations {
        if !rows.iter().any(|row| row.is_judged() && row.configuration.has(words)) {
            let blocked = rows.iter().find(|row| row.configuration.has(words));
            let why = blocked
                .and_then(|row| row.results.first())
                .map_or("no configuration has these words", |r| &r.note);
            all.add_gap(format!("configuration {words} was not run: {why}"));
        }
    }
    conclude(&ran, &runner, &kernels, all, problems.len(), (args.format, &args.output))
}

/// Writes what the trials of a command gave and returns its verdict: unusable case files come before wrong trials, and these
/// before what was not run.
pub(super) fn conclude(
    ran: &Ran,
    runner: &Runner<'_>,
    kernels: &Library,
    mut all: Completeness,
    unusable: usize,
    (format, output): (Format, &OutputArgs),
) -> Result<(), CliError> {
    let rows = &ran.rows;
    if let Some(files) = ran.idle_folder(kernels)? {
        // What ran is not what the user wants to know about.
        all = Completeness::default();
        all.add_gap(format!("no trial ran a kernel of the folder ({})", files.join(", ")));
    }
    let incomplete = all.incomplete("no trial is selected");
    let text = match format {
        Format::Text => {
            let evidence = report::evidence_text(&ran.exercised(runner), &ran.fault_coverage(runner)?, &[]);
            first_line(incomplete.as_ref()) + &report::trials_text(rows) + &evidence
        }
        Format::Csv => report::trials_csv(rows),
        Format::Md => report::trials_markdown(rows),
        Format::Json => {
            let mut record = Record::of_matrix(report::TOOL.to_owned(), Matrix::default());
            record.families = FAMILIES.iter().map(|family| family.row()).collect();
            record.trials.clone_from(rows);
            record.fault_coverage = ran.fault_coverage(runner)?;
            record.exercised = ran.exercised(runner);
            record.to_json().map_err(|e| CliError::Output(e.into()))?
        }
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, output)?;
    if unusable > 0 {
        return Err(JobError::UnusableCases(unusable).into());
    }
    match rows.iter().filter(|r| !r.conforms()).count() {
        0 => incomplete.map_or(Ok(()), |incomplete| Err(incomplete.into())),
        wrong => Err(Findings::Trials(wrong).into()),
    }
}
