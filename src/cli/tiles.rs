//! `tiles`: what every tile needs, whether it may run, and which tiles peers support; or the choices of tile policies.

use clap::Args;

use super::args::OutputArgs;
use super::error::CliError;
use super::format::{self, Formats};
use super::output;
use super::ways::WayArgs;
use crate::job::{self, Context, POLICY_MODEL, TILE_TARGET, TileOptions};
use crate::report::{self, Format};

/// Arguments of `tiles`.
#[derive(Debug, Args)]
pub(super) struct TilesArgs {
    #[command(flatten)]
    ways: WayArgs,
    /// Target of the kernels
    #[arg(long, short = 't', value_name = "T", default_value = TILE_TARGET)]
    target: String,
    /// Toolkit of NVRTC and ptxas: 13.5 or 13.5.37, or the path of a ptxas [default: the newest]
    #[arg(long, short = 'k', value_name = "V")]
    toolkit: Option<String>,
    /// Compile nothing: omit registers and spills
    #[arg(long)]
    no_compile: bool,
    /// Compare the policies that choose tiles instead
    #[arg(long)]
    policies: bool,
    /// With --policies: model that gives the number of experts
    #[arg(long, value_name = "NAME", default_value = POLICY_MODEL, requires = "policies")]
    model: String,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

const FORMATS: &Formats = &[
    (Format::Text, "A block per tile"),
    (Format::Md, "A table"),
    (Format::Csv, "One row per tile, path and load"),
];

/// Runs `tiles`.
pub(super) fn tiles(args: &TilesArgs, context: &Context<'_>) -> Result<(), CliError> {
    let text = if args.policies { compared(args)? } else { listed(args, context)? };
    output::write(&text, &args.output)
}

fn compared(args: &TilesArgs) -> Result<String, CliError> {
    let rows = job::policies(&args.model)?;
    Ok(match args.format {
        Format::Text => report::policies_text(&rows),
        Format::Md => report::policies_markdown(&rows),
        Format::Csv => report::policies_csv(&rows),
        other => return Err(format::lacks(other, FORMATS)),
    })
}

fn listed(args: &TilesArgs, context: &Context<'_>) -> Result<String, CliError> {
    let options = TileOptions {
        tiles: args.ways.tiles.clone(),
        loads: args.ways.loads(),
        paths: args.ways.paths(),
        target: &args.target,
        toolkit: args.toolkit.as_deref(),
        compile: !args.no_compile,
    };
    let table = job::tile_table(&options, context)?;
    Ok(match args.format {
        Format::Text => report::tiles_text(&table),
        Format::Md => report::tiles_markdown(&table),
        Format::Csv => report::tiles_csv(&table),
        other => return Err(format::lacks(other, FORMATS)),
    })
}
