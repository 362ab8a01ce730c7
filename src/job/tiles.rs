//! The table of tiles: their resources, whether they are admitted, which peers support them, and which tiles policies choose.

use std::collections::BTreeSet;

use ptx::arch::Target;
use rayon::prelude::*;

use super::context::Context;
use super::error::JobError;
use super::toolchain::Toolchain;
use crate::case;
use crate::kernel::{Library, Load, MmaPath};
use crate::moe::admission::{self, Limits, Question};
use crate::moe::code::Assembler;
use crate::moe::compile::Compiler;
use crate::moe::contract::Settings;
use crate::moe::pipeline::Setup;
use crate::moe::plan::{self, Configuration, Trial};
use crate::moe::tile::Tile;
use crate::moe::{peers, policy};
use crate::record::{PeerRow, PolicyRow, TileRow, TileTable};
use crate::store::Store;
use crate::toolkit::{self, Environment, Nvrtc};

/// The default target of the tile table.
pub const TILE_TARGET: &str = "sm_121a";

/// The default model of the policy table.
pub const POLICY_MODEL: &str = "gpt-oss-120b";

/// The batch sizes of the policy table, in tokens: decode, and prefill in powers of two.
const TOKENS: [u32; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// The tiles of a table, and how their kernels are compiled.
#[derive(Debug, Clone)]
pub struct TileOptions<'a> {
    /// The tiles; all if empty.
    pub tiles: Vec<Tile>,
    /// The load paths to shared memory.
    pub loads: Vec<Load>,
    /// The MMA paths.
    pub paths: Vec<MmaPath>,
    /// The target of the kernels.
    pub target: &'a str,
    /// The toolkit of NVRTC and ptxas; the newest if `None`.
    pub toolkit: Option<&'a str>,
    /// Whether kernels are compiled; if not, registers and spills are unknown.
    pub compile: bool,
}

/// Returns the table of tiles.
///
/// # Errors
/// A target, toolkit or kernel that does not exist; an error of the compilation.
pub fn tile_table(options: &TileOptions<'_>, context: &Context<'_>) -> Result<TileTable, JobError> {
    let target: Target = options.target.parse()?;
    let kernels = Library::embedded()?;
    let store = Store::open(None).ok();
    let toolchain = Toolchain::find(options.toolkit, &[target], store.as_ref(), context.sink)?;
    let nvrtcs = toolkit::nvrtcs(store.as_ref(), &Environment::of_process());
    let nvrtc = if !options.compile || toolchain.is_none() {
        None
    } else {
        let name = options.toolkit.filter(|name| !name.contains('/'));
        Some(toolkit::select_nvrtc(&nvrtcs, name)?)
    };
    let survey = Survey::new(&kernels, toolchain.as_ref(), nvrtc, (store.as_ref(), context), target);
    let tiles = if options.tiles.is_empty() { plan::tiles() } else { options.tiles.clone() };
    survey.table(&plan::configurations(&tiles, &options.loads, &options.paths), |_| true)
}

/// Returns the tile that each policy chooses for a model's experts, for each batch size.
///
/// # Errors
/// [`JobError::NoModel`] if there is no such model.
pub fn policies(name: &str) -> Result<Vec<PolicyRow>, JobError> {
    let models = case::models();
    let model = models.iter().find(|m| m.name == name).ok_or_else(|| {
        let names: Vec<&str> = models.iter().map(|m| m.name.as_str()).collect();
        JobError::NoModel(name.to_owned(), names.join(" "))
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

/// Returns [`TILE_TARGET`], parsed.
pub(super) fn target() -> Result<Target, JobError> {
    Ok(TILE_TARGET.parse()?)
}

/// Returns the tiles and policies of the whole job, which runs `set`. Only configurations in `set` are compiled; configurations
/// that edit tensor maps ([`Load::TmaReplace`]) are listed only if they are in `set`.
pub(super) fn of_job(
    set: &[Trial<'_>],
    kernels: &Library,
    toolchain: Option<&Toolchain>,
    nvrtc: &Nvrtc,
    (store, context): (Option<&Store>, &Context<'_>),
) -> Result<TileTable, JobError> {
    let survey = Survey::new(kernels, toolchain, Some(nvrtc), (store, context), target()?);
    let runs: BTreeSet<Configuration> = set.iter().map(Trial::configuration).collect();
    let mut all = plan::configurations(&plan::tiles(), &plan::LOADS, &plan::PATHS);
    all.retain(|of| of.load != Load::TmaReplace || runs.contains(of));
    let mut table = survey.table(&all, |of| runs.contains(of))?;
    table.policies = policies(POLICY_MODEL)?;
    Ok(table)
}

/// The library, toolchain and assembler that determine the rows of the table.
struct Survey<'a> {
    kernels: &'a Library,
    toolchain: Option<&'a Toolchain>,
    assembler: Option<Assembler<'a>>,
    target: Target,
}

impl<'a> Survey<'a> {
    /// Without an NVRTC or a ptxas, registers and spills are unknown.
    fn new(
        kernels: &'a Library,
        toolchain: Option<&'a Toolchain>,
        nvrtc: Option<&'a Nvrtc>,
        (store, context): (Option<&'a Store>, &Context<'_>),
        target: Target,
    ) -> Self {
        let assembler = nvrtc.zip(toolchain).map(|(nvrtc, toolchain)| Assembler {
            compiler: Compiler { nvrtc, store, program: context.program.clone(), target },
            toolkit: &toolchain.toolkit,
            limits: Limits::SM12X,
        });
        Self { kernels, toolchain, assembler, target }
    }

    /// Returns the table of these configurations; those that `compiles` accepts are compiled and assembled.
    fn table(
        &self,
        all: &[Configuration],
        compiles: impl Fn(&Configuration) -> bool + Sync,
    ) -> Result<TileTable, JobError> {
        let rows =
            all.par_iter().map(|of| self.row(of, compiles(of))).collect::<Result<Vec<_>, JobError>>()?;
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

    fn row(&self, of: &Configuration, compiles: bool) -> Result<TileRow, JobError> {
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
        let pair = Settings::GPT_OSS.pair;
        let kernel = self.kernels.gemm(pair, path, load)?;
        let toolchain = self.toolchain.map(|t| t.for_target(self.target));
        let admitted =
            match admission::admit(&Question { pair, tile, swap_ab, kernel, path, toolchain, limits }) {
                Ok(admitted) => admitted,
                Err(blocked) => {
                    row.blocked = Some(blocked.0);
                    return Ok(row);
                }
            };
        row.stages = Some(admitted.config.stages);
        row.shared = Some(admitted.dynamic_shared);
        let Some(assembler) = self.assembler.as_ref().filter(|_| compiles) else { return Ok(row) };
        // The setup that gpt-oss uses.
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
