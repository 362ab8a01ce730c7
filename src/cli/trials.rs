//! `trials`: runs the kernels of any family and compares them with its reference.

use clap::Args;
use clap::builder::PossibleValuesParser;
use ptx::arch::Target;

use super::args::OutputArgs;
use super::error::CliError;
use super::findings::Findings;
use super::format::{self, Formats};
use super::output;
use super::runner::RunnerArgs;
use super::ways::KernelArgs;
use crate::families::{self, FAMILIES};
use crate::frame::family::{Family, Part, SharedTrial};
use crate::frame::runner::Runner;
use crate::job::{self, Context, JobError, OfTarget, Ran, TARGETS};
use crate::kernel::Library;
use crate::record::{Completeness, first_line};
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
    /// Only this case (repeatable)
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
        let unknown = self.cases.iter().find(|name| !all.contains(name));
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
    ) -> Vec<OfTarget> {
        let of = |part: Part<'_>| cases.iter().flat_map(|case| family.trials(case, part)).collect();
        let set: Vec<SharedTrial> = match self.configurations.as_slice() {
            [] if self.all => of(Part::Every),
            [] => family.default_set(&cases.iter().map(String::as_str).collect::<Vec<_>>()),
            words => words.iter().flat_map(|words| of(Part::Named(words)) as Vec<SharedTrial>).collect(),
        };
        if self.targets.is_empty() {
            return job::for_targets(family, &set, targets, kernels);
        }
        targets.iter().map(|target| (*target, set.clone())).collect()
    }
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
        eprintln!("error: {problem}");
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
        None => args.trials(family, &cases, &targets, &kernels),
    };
    before(&runner, &asked)?;
    let ran = job::run(&runner, &asked, toolchain.as_ref(), limits, |_| true, (None, context.sink))?;
    let rows = &ran.rows;
    let mut all = Completeness::of_checks(rows.iter().filter(|row| row.is_judged()).count());
    for case in &args.cases {
        if !rows.iter().any(|row| row.is_judged() && row.case == *case) {
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
        Format::Json => serde_json::to_string_pretty(rows).map_err(|e| CliError::Output(e.into()))? + "\n",
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
