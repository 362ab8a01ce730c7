//! The table of tiles: their resources, whether they are admitted, which peers support them, and which tiles policies choose.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ptx::arch::Target;

use super::context::Context;
use super::error::JobError;
use super::toolchain::Toolchain;
use crate::event::Event;
use crate::frame::admission::Limits;
use crate::frame::code::Assembler;
use crate::frame::compile::Compiler;
use crate::frame::family::{Family, SharedTrial, TableQuestion};
use crate::kernel::{Library, Load, MmaPath};
use crate::moe::case;
use crate::moe::configuration::{Configuration, Tile};
use crate::moe::{plan, policy, table};
use crate::record::{PolicyRow, TileTable};
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
    let assembler = assembler(toolchain.as_ref(), nvrtc, (store.as_ref(), context), target);
    let tiles = if options.tiles.is_empty() { plan::tiles() } else { options.tiles.clone() };
    let all = plan::configurations(&tiles, &options.loads, &options.paths);
    let question = question(&kernels, toolchain.as_ref(), assembler.as_ref(), target);
    let (begun, told) = (AtomicUsize::new(0), Mutex::new(Instant::now()));
    let compiles = |_: &Configuration| {
        let n = begun.fetch_add(1, Ordering::Relaxed) + 1;
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.elapsed() >= TELL {
            *told = Instant::now();
            let text = format!("tiles: {n} of {} configurations", all.len());
            context.sink.emit(Event::Notice { text });
        }
        true
    };
    Ok(table::table(&question, &all, compiles)?)
}

/// How often the compilation of all configurations is told of: it takes minutes when nothing is kept of it.
const TELL: Duration = Duration::from_secs(10);

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

/// Returns the configurations of a family in the whole job, which runs `set`.
pub(super) fn of_job(
    family: &dyn Family,
    set: &[SharedTrial],
    kernels: &Library,
    toolchain: Option<&Toolchain>,
    nvrtc: &Nvrtc,
    (store, context): (Option<&Store>, &Context<'_>),
) -> Result<TileTable, JobError> {
    let target = target()?;
    let assembler = assembler(toolchain, Some(nvrtc), (store, context), target);
    Ok(family.table(set, &question(kernels, toolchain, assembler.as_ref(), target))?)
}

/// What compiles and assembles; `None` without an NVRTC or a ptxas.
fn assembler<'a>(
    toolchain: Option<&'a Toolchain>,
    nvrtc: Option<&'a Nvrtc>,
    (store, context): (Option<&'a Store>, &Context<'_>),
    target: Target,
) -> Option<Assembler<'a>> {
    nvrtc.zip(toolchain).map(|(nvrtc, toolchain)| Assembler {
        compiler: Compiler { nvrtc, store, program: context.program.clone(), target },
        toolkit: &toolchain.toolkit,
        limits: Limits::SM12X,
    })
}

fn question<'a>(
    library: &'a Library,
    toolchain: Option<&'a Toolchain>,
    assembler: Option<&'a Assembler<'a>>,
    target: Target,
) -> TableQuestion<'a> {
    TableQuestion { library, toolchain: toolchain.map(|t| t.for_target(target)), assembler, target }
}
