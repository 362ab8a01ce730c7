//! `kernels build`: compiles ahead what `moe` would compile on its way.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use rayon::prelude::*;

use super::error::CliError;
use super::output;
use super::toolchain::Toolchain;
use crate::arch::Target;
use crate::case::{self, Case};
use crate::kernel::{Library, Load, MmaPath};
use crate::moe::compile::Compiler;
use crate::moe::contract::Settings;
use crate::moe::plan::{self, LOADS, PATHS, Trial};
use crate::moe::sources::{self, KernelSource};
use crate::moe::tile::Tile;
use crate::store::Store;
use crate::toolkit::{self, Environment};

/// What kernels are compiled for when nothing is said, as by `moe`.
const TARGETS: [&str; 2] = ["sm_121a", "sm_121f"];

/// Verbs of `kernels`.
#[derive(Debug, Subcommand)]
pub(super) enum KernelsVerb {
    /// Compile the kernels that `moe` needs into the cache.
    Build(BuildArgs),
}

/// Arguments of `kernels build`.
#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    /// The kernels of this case only. May be repeated.
    #[arg(long = "case", value_name = "C")]
    cases: Vec<String>,
    /// With this tile instead of the policy's. May be repeated.
    #[arg(long = "tile", value_name = "MxNxK", conflicts_with = "all")]
    tiles: Vec<Tile>,
    /// Every tile instead of the policy's.
    #[arg(long)]
    all: bool,
    /// How matrices are multiplied; both ways when left out.
    #[arg(long, value_name = "PATH")]
    kernel_path: Option<MmaPath>,
    /// How tiles reach shared memory; both ways when left out.
    #[arg(long, value_name = "LOAD")]
    load: Option<Load>,
    /// What they are compiled for; sm_121a and sm_121f when left out. May be repeated.
    #[arg(long = "target", short = 't', value_name = "T")]
    targets: Vec<String>,
    /// The NVRTC: 13.5 or 13.5.37; the newest when left out.
    #[arg(long, short = 'k', value_name = "V")]
    toolkit: Option<String>,
    /// Kernels of this folder take the place of ours for their stage.
    #[arg(long, value_name = "DIR")]
    kernels: Option<PathBuf>,
}

/// What identifies a source: two that are equal here are one kernel.
type Key = (String, Vec<(String, String)>);

/// `kernels`.
pub(super) fn kernels(verb: &KernelsVerb) -> Result<(), CliError> {
    let KernelsVerb::Build(args) = verb;
    let library = case::library();
    let cases: Vec<&Case> = if args.cases.is_empty() {
        library.cases.iter().collect()
    } else {
        args.cases.iter().map(|name| library.find(name)).collect::<Result<_, _>>()?
    };
    let kernels = match &args.kernels {
        Some(folder) => Library::with_folder(folder)?,
        None => Library::embedded()?,
    };
    let names: Vec<&str> = if args.targets.is_empty() {
        TARGETS.to_vec()
    } else {
        args.targets.iter().map(String::as_str).collect()
    };
    let targets: Vec<Target> = names.into_iter().map(str::parse).collect::<Result<_, _>>()?;
    let store = Store::open(None)?;
    let found = toolkit::nvrtcs(Some(&store), &Environment::of_process());
    let nvrtc = toolkit::select_nvrtc(&found, args.toolkit.as_deref())?;
    let toolchain = Toolchain::find(args.toolkit.as_deref(), &targets, Some(&store))?;
    let program = std::env::current_exe().map_err(toolkit::NvrtcError::Worker)?;
    let mut wanted = 0;
    for target in targets {
        let (sources, blocked) = args.sources(&cases, &kernels, toolchain.as_ref(), target)?;
        let compiler = Compiler { nvrtc, store: Some(&store), program: program.clone(), target };
        let before = toolkit::compilations();
        let compile = |s: &KernelSource<'_>| compiler.ptx(&kernels, s.kernel, &s.defines).map(|_| ());
        sources.par_iter().try_for_each(compile)?;
        let (all, compiled) = (sources.len(), toolkit::compilations() - before);
        let version = nvrtc.version;
        output::print(&format!(
            "{target}, NVRTC {version}: {all} kernels, {compiled} compiled, {} from the cache; {blocked} trials blocked\n",
            (all as u64).saturating_sub(compiled)
        ))?;
        wanted += all;
    }
    if wanted == 0 { Err(CliError::NothingRan) } else { Ok(()) }
}

impl BuildArgs {
    /// Every distinct source of the trials that `moe` would run, and how many of those are blocked.
    fn sources<'k>(
        &self,
        cases: &[&Case],
        kernels: &'k Library,
        toolchain: Option<&Toolchain>,
        target: Target,
    ) -> Result<(Vec<KernelSource<'k>>, usize), CliError> {
        let mut found: BTreeMap<Key, KernelSource<'k>> = BTreeMap::new();
        let mut blocked = 0;
        for case in cases {
            let settings = Settings::of(case);
            for trial in self.trials(case) {
                let Ok(config) = trial.admitted(kernels, toolchain.map(|t| t.of(target)))?.config else {
                    blocked += 1;
                    continue;
                };
                for source in sources::of_run(kernels, &settings, &plan::setup(case, config))? {
                    found.insert((source.kernel.file.clone(), source.defines.clone()), source);
                }
            }
        }
        Ok((found.into_values().collect(), blocked))
    }

    /// What `moe` would run of a case: its default set where no tile and no case is named.
    fn trials<'c>(&self, case: &'c Case) -> Vec<Trial<'c>> {
        let loads = self.load.map_or_else(|| LOADS.to_vec(), |load| vec![load]);
        let paths = self.kernel_path.map_or_else(|| PATHS.to_vec(), |path| vec![path]);
        if !self.all && self.tiles.is_empty() && self.cases.is_empty() {
            let wanted = |t: &Trial<'_>| loads.contains(&t.load) && paths.contains(&t.path);
            return plan::default_set(&[case]).into_iter().filter(wanted).collect();
        }
        plan::trials(case, &plan::tiles_of(case, &self.tiles, self.all), &loads, &paths)
    }
}
