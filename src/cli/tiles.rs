//! `tiles`: what every tile needs, whether it may run, and what others offer; or what tile policies choose.

use std::collections::BTreeSet;

use clap::Args;
use ptx::arch::Target;
use rayon::prelude::*;

use super::args::OutputArgs;
use super::error::CliError;
use super::format::{self, Formats};
use super::output;
use super::toolchain::Toolchain;
use super::ways::WayArgs;
use crate::case;
use crate::kernel::{Library, Load};
use crate::moe::admission::{self, Limits, Question};
use crate::moe::code::Assembler;
use crate::moe::compile::Compiler;
use crate::moe::contract::Settings;
use crate::moe::pipeline::Setup;
use crate::moe::plan::{self, Configuration, Trial};
use crate::moe::tile::Tile;
use crate::moe::{peers, policy};
use crate::record::{PeerRow, PolicyRow, TileRow, TileTable};
use crate::report::{self, Format};
use crate::store::Store;
use crate::toolkit::{self, Environment, Nvrtc};

/// What tiles are compiled for when nothing is said.
const TARGET: &str = "sm_121a";

/// Whose experts policies route to when nothing is said.
const MODEL: &str = "gpt-oss-120b";

/// Batches of the table of policies: decode, and prefill in powers of two.
const TOKENS: [u32; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// Arguments of `tiles`.
#[derive(Debug, Args)]
pub(super) struct TilesArgs {
    #[command(flatten)]
    ways: WayArgs,
    /// Target of the kernels
    #[arg(long, short = 't', value_name = "T", default_value = TARGET)]
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
    #[arg(long, value_name = "NAME", default_value = MODEL, requires = "policies")]
    model: String,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

/// The formats.
const FORMATS: &Formats = &[
    (Format::Text, "A block per tile"),
    (Format::Md, "A table"),
    (Format::Csv, "One row per tile, path and load"),
];

/// `tiles`.
pub(super) fn tiles(args: &TilesArgs) -> Result<(), CliError> {
    let text = if args.policies { compared(args)? } else { listed(args)? };
    output::write(&text, &args.output)
}

fn compared(args: &TilesArgs) -> Result<String, CliError> {
    let rows = policies(&args.model)?;
    Ok(match args.format {
        Format::Text => report::policies_text(&rows),
        Format::Md => report::policies_markdown(&rows),
        Format::Csv => report::policies_csv(&rows),
        other => return Err(format::lacks(other, FORMATS)),
    })
}

/// What every policy chooses for a model's experts.
fn policies(name: &str) -> Result<Vec<PolicyRow>, CliError> {
    let models = case::models();
    let model = models.iter().find(|m| m.name == name).ok_or_else(|| {
        let names: Vec<&str> = models.iter().map(|m| m.name.as_str()).collect();
        CliError::NoModel(name.to_owned(), names.join(" "))
    })?;
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let row = |c: policy::Compared| PolicyRow {
        policy: c.policy.name.to_owned(),
        needs: c.policy.needs().words().to_owned(),
        source: c.policy.source.to_owned(),
        shape: c.shape.word().to_owned(),
        tokens: c.host.tokens,
        most: c.most,
        m: c.m,
        tiles: c.waste.tiles,
        rows: c.waste.rows,
        padding: c.waste.padding,
        waste: c.waste.share(),
    };
    Ok(policy::compare(&TOKENS, small(model.top_k), small(model.experts)).into_iter().map(row).collect())
}

fn listed(args: &TilesArgs) -> Result<String, CliError> {
    let target: Target = args.target.parse()?;
    let kernels = Library::embedded()?;
    let store = Store::open(None).ok();
    let toolchain = Toolchain::find(args.toolkit.as_deref(), &[target], store.as_ref())?;
    let nvrtcs = toolkit::nvrtcs(store.as_ref(), &Environment::of_process());
    let nvrtc = if args.no_compile || toolchain.is_none() {
        None
    } else {
        let name = args.toolkit.as_deref().filter(|name| !name.contains('/'));
        Some(toolkit::select_nvrtc(&nvrtcs, name)?)
    };
    let survey = Survey::new(&kernels, toolchain.as_ref(), nvrtc, store.as_ref(), target)?;
    let tiles = if args.ways.tiles.is_empty() { plan::tiles() } else { args.ways.tiles.clone() };
    let table =
        survey.table(&plan::configurations(&tiles, &args.ways.loads(), &args.ways.paths()), |_| true)?;
    Ok(match args.format {
        Format::Text => report::tiles_text(&table),
        Format::Md => report::tiles_markdown(&table),
        Format::Csv => report::tiles_csv(&table),
        other => return Err(format::lacks(other, FORMATS)),
    })
}

/// What tiles are compiled for when nothing is said.
pub(super) fn target() -> Result<Target, CliError> {
    Ok(TARGET.parse()?)
}

/// The tiles and policies of the whole job, which runs `set`: the kernels in it are compiled; of those that make tensor maps no
/// others are listed.
pub(super) fn of_job(
    set: &[Trial<'_>],
    kernels: &Library,
    toolchain: Option<&Toolchain>,
    nvrtc: &Nvrtc,
    store: Option<&Store>,
) -> Result<TileTable, CliError> {
    let survey = Survey::new(kernels, toolchain, Some(nvrtc), store, target()?)?;
    let runs: BTreeSet<Configuration> = set.iter().map(Trial::configuration).collect();
    let mut all = plan::configurations(&plan::tiles(), &plan::LOADS, &plan::PATHS);
    all.retain(|of| of.load != Load::TmaReplace || runs.contains(of));
    let mut table = survey.table(&all, |of| runs.contains(of))?;
    table.policies = policies(MODEL)?;
    Ok(table)
}

/// Who answers for tiles.
struct Survey<'a> {
    kernels: &'a Library,
    toolchain: Option<&'a Toolchain>,
    assembler: Option<Assembler<'a>>,
    target: Target,
}

impl<'a> Survey<'a> {
    /// Without an NVRTC or a ptxas, registers and spills stay unknown.
    fn new(
        kernels: &'a Library,
        toolchain: Option<&'a Toolchain>,
        nvrtc: Option<&'a Nvrtc>,
        store: Option<&'a Store>,
        target: Target,
    ) -> Result<Self, CliError> {
        let program = std::env::current_exe().map_err(toolkit::NvrtcError::Worker)?;
        let assembler = nvrtc.zip(toolchain).map(|(nvrtc, toolchain)| Assembler {
            compiler: Compiler { nvrtc, store, program, target },
            toolkit: &toolchain.toolkit,
            limits: Limits::SM12X,
        });
        Ok(Self { kernels, toolchain, assembler, target })
    }

    /// The table of these configurations; those that `compiles` names are compiled and assembled.
    fn table(
        &self,
        all: &[Configuration],
        compiles: impl Fn(&Configuration) -> bool + Sync,
    ) -> Result<TileTable, CliError> {
        let rows =
            all.par_iter().map(|of| self.row(of, compiles(of))).collect::<Result<Vec<_>, CliError>>()?;
        let mut sides: Vec<(Tile, bool)> = all.iter().map(|c| (c.tile, c.swap_ab)).collect();
        sides.dedup();
        let peers = sides.into_iter().flat_map(|(tile, swap_ab)| {
            peers::stacks().iter().map(move |stack| {
                let support = stack.support(tile, swap_ab);
                PeerRow {
                    tile: tile.into(),
                    swap_ab,
                    stack: stack.stack.clone(),
                    answer: support.answer().into(),
                    sentence: support.sentence().to_owned(),
                }
            })
        });
        Ok(TileTable { rows, peers: peers.collect(), policies: Vec::new() })
    }

    fn row(&self, of: &Configuration, compiles: bool) -> Result<TileRow, CliError> {
        let Configuration { tile, swap_ab, path, load } = *of;
        let limits = Limits::SM12X;
        let mut row = TileRow {
            configuration: of.key(),
            target: self.target.into(),
            toolkit: self.toolchain.map(|t| t.toolkit.version.into()),
            stages: None,
            shared: None,
            shared_limit: limits.shared,
            registers: None,
            spills: None,
            blocked: None,
            remark: String::new(),
        };
        let kernel = self.kernels.gemm(path, load)?;
        let toolchain = self.toolchain.map(|t| t.of(self.target));
        let admitted = match admission::admit(&Question { tile, swap_ab, kernel, path, toolchain, limits }) {
            Ok(admitted) => admitted,
            Err(blocked) => {
                row.blocked = Some(blocked.0);
                return Ok(row);
            }
        };
        row.stages = Some(admitted.config.stages);
        row.shared = Some(admitted.dynamic_shared);
        let Some(assembler) = self.assembler.as_ref().filter(|_| compiles) else { return Ok(row) };
        // As gpt-oss runs it.
        let setup = Setup::plain(admitted.config);
        let code = assembler.gemm(self.kernels, &Settings::GPT_OSS, &setup, &admitted)?;
        if let Some(used) = code.resources {
            row.shared = Some(admitted.dynamic_shared + used.static_shared);
            row.registers = Some(used.registers);
            row.spills = Some((used.spill_stores, used.spill_loads));
        }
        match code.verdict {
            Ok(remark) => row.remark = remark,
            Err(blocked) => row.blocked = Some(blocked.0),
        }
        Ok(row)
    }
}
