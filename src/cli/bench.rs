//! `bench`: analyses the time of a decode step, and measures the pipeline.

use std::path::{Path, PathBuf};

use clap::Args;

use super::args::OutputArgs;
use super::error::CliError;
use super::format::{self, Formats};
use super::output;
use super::timing::TimesError;
use super::timing::{self, TimingArgs};
use crate::bench::{self, Classes};
use crate::job::Context;
use crate::record::BenchTable;
use crate::report::{self, Format};

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// Profile of decode steps: CSV of `nsys stats --report cuda_gpu_kern_sum`, or a Chrome trace of torch.profiler
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    timing: TimingArgs,
    /// Render the times in this file, as written by `--device … --format json`
    #[arg(long, value_name = "FILE.json", conflicts_with = "device")]
    from: Option<PathBuf>,
    /// Use these classes of kernel names instead of the built-in ones
    #[arg(long, value_name = "FILE.yaml", requires = "profile")]
    classes: Option<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

const FORMATS: &Formats = &[
    (Format::Text, "For the terminal: the classes and the decision, or the tables of times"),
    (Format::Md, "The same as Markdown"),
    (Format::Csv, "One row per class, or per kernel, batch and stage"),
    (Format::Json, "Everything as JSON"),
    (Format::Svg, "For times: a plot over the tokens of a batch"),
];

/// Runs `bench`.
pub(super) fn bench(args: &BenchArgs, context: &Context<'_>) -> Result<(), CliError> {
    let text = match (&args.profile, &args.from) {
        (Some(path), _) => profiled(args, path)?,
        (None, Some(path)) => timed(args.format, &timing::read(path)?)?,
        (None, None) => timed(args.format, &args.timing.time(context)?)?,
    };
    output::write(&text, &args.output)
}

fn timed(format: Format, table: &BenchTable) -> Result<String, CliError> {
    Ok(match format {
        Format::Text | Format::Md => report::bench_markdown(table),
        Format::Csv => report::bench_csv(table),
        Format::Json => table.to_json().map_err(|e| CliError::Output(e.into()))?,
        Format::Svg => report::bench_svg(table),
        other => return Err(format::lacks(other, FORMATS)),
    })
}

fn profiled(args: &BenchArgs, path: &Path) -> Result<String, CliError> {
    let classes = match &args.classes {
        Some(path) => Classes::load(path)?,
        None => Classes::built_in()?,
    };
    let kernels = bench::read(path)?;
    let row = bench::summary(path, &kernels, &classes)?;
    Ok(match args.format {
        Format::Text => report::profile_text(&row),
        Format::Md => report::profile_markdown(&row),
        Format::Csv => report::profile_csv(&row),
        Format::Json => serde_json::to_string_pretty(&row).map_err(|e| CliError::Output(e.into()))? + "\n",
        Format::Svg => return Err(TimesError::NoPlot.into()),
        other => return Err(format::lacks(other, FORMATS)),
    })
}
