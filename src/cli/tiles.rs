//! `tiles`: what every tile needs, whether it may run, and what others offer; or what tile policies choose.

use std::time::Duration;

use clap::{Args, ValueEnum};
use rayon::prelude::*;

use super::args::OutputArgs;
use super::error::CliError;
use super::output;
use super::toolchain::Toolchain;
use super::ways::WayArgs;
use crate::arch::Target;
use crate::case;
use crate::kernel::Library;
use crate::moe::admission::{self, Limits, Question};
use crate::moe::compile::Compiler;
use crate::moe::contract::Settings;
use crate::moe::pipeline::Setup;
use crate::moe::plan::{self, Way};
use crate::moe::{offers, policy, sources};
use crate::record::{OfferRow, PolicyRow, TileRow};
use crate::report;
use crate::store::Store;
use crate::toolkit::{self, CubinError, Environment, Nvrtc, Resources, ResourcesError};

/// What tiles are compiled for when nothing is said.
const TARGET: &str = "sm_121a";

/// How long ptxas may take for one kernel.
const LIMIT: Duration = Duration::from_secs(300);

/// Batches of the table of policies: decode, and prefill in powers of two.
const TOKENS: [u32; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// Arguments of `tiles`.
#[derive(Debug, Args)]
pub(super) struct TilesArgs {
    #[command(flatten)]
    ways: WayArgs,
    /// What the kernels are compiled for.
    #[arg(long, short = 't', value_name = "T", default_value = TARGET)]
    target: String,
    /// The toolkit, NVRTC and ptxas: 13.5 or 13.5.37, or the path of a ptxas; the newest when left out.
    #[arg(long, short = 'k', value_name = "V")]
    toolkit: Option<String>,
    /// Compile nothing: registers and spills are left out.
    #[arg(long)]
    no_compile: bool,
    /// Compare the policies that choose tiles, instead.
    #[arg(long)]
    policies: bool,
    /// With --policies: the model whose experts are routed to.
    #[arg(long, value_name = "NAME", default_value = "gpt-oss-120b", requires = "policies")]
    model: String,
    /// The form of the table.
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: Form,
    #[command(flatten)]
    output: OutputArgs,
}

/// Forms of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A block per tile.
    Text,
    /// A table.
    Md,
    /// One line per tile, path and load.
    Csv,
}

/// `tiles`.
pub(super) fn tiles(args: &TilesArgs) -> Result<(), CliError> {
    let text = if args.policies { policies(args)? } else { table(args)? };
    output::write(&text, &args.output)
}

fn policies(args: &TilesArgs) -> Result<String, CliError> {
    let models = case::models();
    let model = models.iter().find(|m| m.name == args.model).ok_or_else(|| {
        let names: Vec<&str> = models.iter().map(|m| m.name.as_str()).collect();
        CliError::NoModel(args.model.clone(), names.join(" "))
    })?;
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let rows: Vec<PolicyRow> = policy::compare(&TOKENS, small(model.top_k), small(model.experts))
        .into_iter()
        .map(|c| PolicyRow {
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
        })
        .collect();
    Ok(match args.format {
        Form::Text => report::policies_text(&rows),
        Form::Md => report::policies_markdown(&rows),
        Form::Csv => report::policies_csv(&rows),
    })
}

fn table(args: &TilesArgs) -> Result<String, CliError> {
    let target: Target = args.target.parse()?;
    let kernels = Library::embedded()?;
    let store = Store::open(None).ok();
    let toolchain = Toolchain::find(args.toolkit.as_deref(), &[target], store.as_ref())?;
    let nvrtcs;
    let build = match &toolchain {
        Some(toolchain) if !args.no_compile => {
            nvrtcs = toolkit::nvrtcs(store.as_ref(), &Environment::of_process());
            let name = args.toolkit.as_deref().filter(|name| !name.contains('/'));
            Some(Build::new(toolkit::select_nvrtc(&nvrtcs, name)?, toolchain, store.as_ref(), target)?)
        }
        _ => None,
    };
    let table = Table { kernels: &kernels, toolchain: toolchain.as_ref(), build, target };
    let tiles = if args.ways.tiles.is_empty() { plan::tiles() } else { args.ways.tiles.clone() };
    let rows: Vec<TileRow> = plan::ways(&tiles, &args.ways.loads(), &args.ways.paths())
        .par_iter()
        .map(|way| table.row(way))
        .collect::<Result<_, CliError>>()?;
    Ok(match args.format {
        Form::Text => report::tiles_text(&rows),
        Form::Md => report::tiles_markdown(&rows),
        Form::Csv => report::tiles_csv(&rows),
    })
}

/// What compiles tiles.
struct Build<'a> {
    compiler: Compiler<'a>,
    toolchain: &'a Toolchain,
    store: Option<&'a Store>,
}

impl<'a> Build<'a> {
    fn new(
        nvrtc: &'a Nvrtc,
        toolchain: &'a Toolchain,
        store: Option<&'a Store>,
        target: Target,
    ) -> Result<Self, CliError> {
        let program = std::env::current_exe().map_err(toolkit::NvrtcError::Worker)?;
        Ok(Self { compiler: Compiler { nvrtc, store, program, target }, toolchain, store })
    }
}

/// The table under way.
struct Table<'a> {
    kernels: &'a Library,
    toolchain: Option<&'a Toolchain>,
    build: Option<Build<'a>>,
    target: Target,
}

impl Table<'_> {
    fn row(&self, way: &Way) -> Result<TileRow, CliError> {
        let Way { tile, swap_ab, path, load } = *way;
        let limits = Limits::SM12X;
        let offer = |stack: &offers::Stack| {
            let offer = stack.offer(tile, swap_ab);
            OfferRow {
                stack: stack.stack.clone(),
                answer: offer.word().to_owned(),
                sentence: offer.sentence().to_owned(),
            }
        };
        let mut row = TileRow {
            tile: tile.to_string(),
            swap_ab,
            kernel_path: path.word().to_owned(),
            load: load.word().to_owned(),
            target: self.target.to_string(),
            toolkit: self.toolchain.map(|t| t.toolkit.version.to_string()).unwrap_or_default(),
            stages: None,
            shared: None,
            shared_limit: limits.shared,
            registers: None,
            spills: None,
            blocked: None,
            remark: String::new(),
            offers: offers::stacks().iter().map(offer).collect(),
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
        if let Some(build) = &self.build {
            match self.resources(build, &admitted)? {
                Ok(code) => {
                    row.shared = Some(admitted.dynamic_shared + code.static_shared);
                    row.registers = Some(code.registers);
                    row.spills = Some((code.spill_stores, code.spill_loads));
                    match admission::admit_code(&admitted, &code, limits) {
                        Ok(remark) => row.remark = remark.unwrap_or_default(),
                        Err(blocked) => row.blocked = Some(blocked.0),
                    }
                }
                Err(refused) => row.blocked = Some(refused),
            }
        }
        Ok(row)
    }

    /// What ptxas makes of the GEMM, as gpt-oss runs it; the inner error is ptxas's refusal.
    fn resources(
        &self,
        build: &Build<'_>,
        admitted: &admission::Admitted,
    ) -> Result<Result<Resources, String>, CliError> {
        let setup = Setup::plain(admitted.config);
        let [_, _, _, gemm, _, _] = sources::of_run(self.kernels, &Settings::GPT_OSS, &setup)?;
        let ptx = build.compiler.ptx(self.kernels, gemm.kernel, &gemm.defines)?;
        let ptxas = &build.toolchain.toolkit;
        match toolkit::resources(ptxas, self.target, &ptx, &gemm.kernel.entry, build.store, LIMIT) {
            Ok(resources) => Ok(Ok(resources)),
            Err(ResourcesError::Cubin(refused @ CubinError::Refused { .. })) => Ok(Err(refused.to_string())),
            Err(error) => Err(error.into()),
        }
    }
}
