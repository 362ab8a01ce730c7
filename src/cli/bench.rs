//! `bench`: where the time of a decode step goes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::args::OutputArgs;
use super::error::CliError;
use super::output;
use crate::bench::{self, Classes};
use crate::report;

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// A profile of decode steps: CSV of `nsys stats --report cuda_gpu_kern_sum`, or a Chrome trace of torch.profiler.
    #[arg(long, value_name = "FILE")]
    profile: PathBuf,
    /// Classes of kernels by name, instead of the built-in ones.
    #[arg(long, value_name = "FILE.yaml")]
    classes: Option<PathBuf>,
    /// The form of the result.
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: Form,
    #[command(flatten)]
    output: OutputArgs,
}

/// Forms of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A line per class, and the decision.
    Text,
    /// The same as Markdown.
    Md,
    /// One line per class.
    Csv,
    /// Everything.
    Json,
}

/// `bench`.
pub(super) fn bench(args: &BenchArgs) -> Result<(), CliError> {
    let classes = match &args.classes {
        Some(path) => Classes::load(path)?,
        None => Classes::built_in()?,
    };
    let kernels = bench::read(&args.profile)?;
    let row = bench::summary(&args.profile, &kernels, &classes)?;
    let text = match args.format {
        Form::Text => report::profile_text(&row),
        Form::Md => report::profile_markdown(&row),
        Form::Csv => report::profile_csv(&row),
        Form::Json => serde_json::to_string_pretty(&row).map_err(|e| CliError::Output(e.into()))? + "\n",
    };
    output::write(&text, &args.output)
}
