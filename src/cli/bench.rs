//! `bench`: where the time of a decode step goes, and how long the pipeline takes.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::args::OutputArgs;
use super::error::CliError;
use super::output;
use super::timing::{self, TimingArgs};
use crate::bench::{self, Classes};
use crate::record::BenchTable;
use crate::report;

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
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: Form,
    #[command(flatten)]
    output: OutputArgs,
}

/// Forms of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For the terminal: the classes and the decision, or the tables of times
    Text,
    /// The same as Markdown
    Md,
    /// One row per class, or per kernel, batch and stage
    Csv,
    /// Everything as JSON
    Json,
    /// For times: a plot over the tokens of a batch
    Svg,
}

/// `bench`.
pub(super) fn bench(args: &BenchArgs) -> Result<(), CliError> {
    let text = match (&args.profile, &args.from) {
        (Some(path), _) => profiled(args, path)?,
        (None, Some(path)) => timed(args.format, &timing::read(path)?)?,
        (None, None) => timed(args.format, &args.timing.time()?)?,
    };
    output::write(&text, &args.output)
}

fn timed(format: Form, table: &BenchTable) -> Result<String, CliError> {
    Ok(match format {
        Form::Text | Form::Md => report::bench_markdown(table),
        Form::Csv => report::bench_csv(table),
        Form::Json => table.to_json().map_err(|e| CliError::Output(e.into()))?,
        Form::Svg => report::bench_svg(table),
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
        Form::Text => report::profile_text(&row),
        Form::Md => report::profile_markdown(&row),
        Form::Csv => report::profile_csv(&row),
        Form::Json => serde_json::to_string_pretty(&row).map_err(|e| CliError::Output(e.into()))? + "\n",
        Form::Svg => return Err(CliError::NoPlot),
    })
}
