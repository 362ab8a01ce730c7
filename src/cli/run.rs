//! `run`: snippets on a device, check by check.

use clap::Args;
use ptx::arch::PtxIsa;
use rayon::prelude::*;

use super::args::OutputArgs;
use super::device::{self, DeviceArgs, DeviceName};
use super::error::CliError;
use super::format::{self, Formats};
use super::{job, output, toolchain};
use crate::execute::{self, Asked};
use crate::gpu::GpuDevice;
use crate::record::VariantRun;
use crate::report::{self, Format};
use crate::snippet::{self, Filter};
use crate::store::Store;
use crate::toolkit;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Variants whose id or <family>/<id> matches this glob with `*` and `?` (repeatable)
    #[arg(long = "filter", short = 'f', value_name = "GLOB")]
    filters: Vec<String>,
    /// Run the .ptx files below DIR instead of the built-in snippets
    #[arg(long, value_name = "DIR")]
    snippets: Option<std::path::PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Target of the code [default: the device's own, sm_121a on the emulator]
    #[arg(long, short = 't', value_name = "T")]
    target: Option<String>,
    /// ptxas for the GPU's code: 13.5, 13.5.37 or a path [default: the newest]
    #[arg(long, short = 'k', value_name = "V")]
    toolkit: Option<String>,
    /// Seed of the inputs
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

/// The formats.
const FORMATS: &Formats = &[
    (Format::Text, "What is wrong, and the counts of each check"),
    (Format::Csv, "One row per variant and check"),
    (Format::Json, "Everything as JSON"),
];

/// `run`.
pub(super) fn run(args: &RunArgs) -> Result<(), CliError> {
    let library = job::snippets(args.snippets.as_deref())?;
    let filters: Vec<Filter> = args.filters.iter().map(|f| Filter::new(f)).collect::<Result<_, _>>()?;
    let chosen: Vec<&snippet::Variant> = library
        .variants
        .iter()
        .filter(|v| v.execute.is_some())
        .filter(|v| {
            let family = &library.snippets[v.snippet].family;
            filters.is_empty() || filters.iter().any(|f| f.matches(family, &v.id))
        })
        .collect();
    if chosen.is_empty() {
        return Err(CliError::NothingToRun);
    }
    let asked =
        Question { target: args.target.as_deref(), toolkit: args.toolkit.as_deref(), seed: args.seed };
    let runs = runs(&chosen, &args.device, &asked)?;
    let text = match args.format {
        Format::Text => report::runs_text(&runs),
        Format::Csv => report::runs_csv(&runs),
        Format::Json => serde_json::to_string_pretty(&runs).map_err(|e| CliError::Output(e.into()))? + "\n",
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    match runs.iter().filter(|run| run.first_wrong().is_some()).count() {
        0 => Ok(()),
        wrong => Err(CliError::Runs(wrong)),
    }
}

/// What is asked of a device beside the variants.
pub(super) struct Question<'a> {
    /// The target of the code; the device's own when left out.
    pub(super) target: Option<&'a str>,
    /// The ptxas; the newest when left out.
    pub(super) toolkit: Option<&'a str>,
    /// Seed of the inputs
    pub(super) seed: u64,
}

/// The target that the emulator runs when none is named.
const TARGET: &str = "sm_121a";

/// The version of what only the emulator reads.
const ISA: PtxIsa = PtxIsa { major: 9, minor: 5 };

/// Runs variants on the device that is named.
pub(super) fn runs(
    variants: &[&snippet::Variant],
    on: &DeviceArgs,
    question: &Question<'_>,
) -> Result<Vec<VariantRun>, CliError> {
    if on.device == DeviceName::Emulator {
        let asked =
            Asked { target: question.target.unwrap_or(TARGET).parse()?, isa: ISA, seed: question.seed };
        return Ok(variants.par_iter().map(|v| execute::on_emulator(v, asked)).collect());
    }
    let program = std::env::current_exe().map_err(toolkit::NvrtcError::Worker)?;
    let Some(gpu) = on.gpu(&program)? else { return Err(CliError::NoGpuNamed) };
    Ok(on_gpu(variants, gpu, question)?.0)
}

/// Runs variants on a GPU, and gives it back.
pub(super) fn on_gpu(
    variants: &[&snippet::Variant],
    gpu: GpuDevice,
    question: &Question<'_>,
) -> Result<(Vec<VariantRun>, GpuDevice), CliError> {
    let store = Store::open(None).ok();
    let ptxas = toolchain::ptxas(question.toolkit, store.as_ref())?;
    let (target, isa) = device::code_of(gpu.about(), ptxas.as_ref(), question.target)?;
    let mut gpu = gpu.with_chain(device::chain(ptxas.as_ref(), store.as_ref()));
    let code = gpu.chain().code_by();
    let asked = Asked { target, isa, seed: question.seed };
    // Emulated side by side; a GPU runs one kernel after the other.
    let emulated: Vec<_> = variants.par_iter().map(|v| execute::emulated(v, asked)).collect();
    let runs = variants.iter().zip(emulated).map(|(v, want)| execute::run(&mut gpu, &code, v, asked, want));
    Ok((runs.collect(), gpu))
}
