//! `kernels build`: compiles the kernels of `moe` ahead of time, to PTX or to machine code.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use miette::Diagnostic;
use ptx::arch::Target;
use rayon::prelude::*;

use super::error::{CliError, CommandError};
use super::exit;
use super::output;
use super::ways::TrialArgs;
use crate::frame::admission::Limits;
use crate::frame::compile::{Compiler, KernelSource};
use crate::frame::family::SharedTrial;
use crate::job::{self, Context, JobError, Toolchain};
use crate::kernel::Library;
use crate::moe::case;
use crate::store::Store;
use crate::toolkit;

/// Time limit of ptxas for one kernel.
const LIMIT: Duration = Duration::from_secs(300);

/// `--cubin` without an architecture: each kernel's own target.
const OWN: &str = "TARGET";

/// Verbs of `kernels`.
#[derive(Debug, Subcommand)]
pub(super) enum KernelsVerb {
    /// Compile the kernels that `moe` needs into the cache
    Build(BuildArgs),
}

/// Arguments of `kernels build`.
#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    #[command(flatten)]
    trials: TrialArgs,
    /// Also assemble with ptxas for ARCH [default: each kernel's target], so that a machine with a copy of the cache
    /// needs no ptxas
    #[arg(long, value_name = "ARCH", num_args = 0..=1, default_missing_value = OWN)]
    cubin: Option<String>,
}

/// The identity of a source: sources with equal keys are one kernel.
type Key = (String, Vec<(String, String)>);

/// Runs `kernels`.
pub(super) fn kernels(verb: &KernelsVerb, context: &Context<'_>) -> Result<(), CliError> {
    let KernelsVerb::Build(args) = verb;
    let library = case::library();
    let kernels = args.trials.kernels()?;
    let targets = args.trials.targets()?;
    let trials = args.trials.trials(&args.trials.cases(&library)?, &targets, &kernels);
    let name = args.trials.toolkit.as_deref();
    let store = Store::open(None)?;
    let nvrtc = job::nvrtc(name, Some(&store), context.sink)?;
    let toolchain = Toolchain::find(name, &targets, Some(&store), context.sink)?;
    let mut wanted = 0;
    for (target, trials) in trials {
        let (sources, blocked) = of_trials(&trials, &kernels, toolchain.as_ref(), target)?;
        let compiler =
            Compiler { nvrtc: &nvrtc, store: Some(&store), program: context.program.clone(), target };
        let arch = args.cubin.as_deref().map(|arch| if arch == OWN { Ok(target) } else { arch.parse() });
        let code = match (arch.transpose()?, &toolchain) {
            (None, _) => None,
            (Some(arch), Some(toolchain)) => Some((arch, &toolchain.toolkit)),
            (Some(_), None) => return Err(KernelsError::NoPtxas.into()),
        };
        let before = (toolkit::compilations(), toolkit::assemblies());
        sources.par_iter().try_for_each(|s| -> Result<(), CliError> {
            let ptx = compiler.ptx(&kernels, s.kernel, &s.defines)?;
            if let Some((arch, ptxas)) = code {
                toolkit::cubin(ptxas, arch, &ptx, Some(&store), LIMIT)?;
            }
            Ok(())
        })?;
        let all = sources.len() as u64;
        let counted =
            |made: u64, word: &str| format!("{made} {word}, {} from the cache", all.saturating_sub(made));
        let compiled = counted(toolkit::compilations() - before.0, "compiled");
        let mut line = format!("{target}, NVRTC {}: {all} kernels, {compiled}", nvrtc.version);
        if let Some((arch, ptxas)) = code {
            let assembled = counted(toolkit::assemblies() - before.1, "assembled");
            line.push_str(&format!("; cubins for {arch}, ptxas {}: {assembled}", ptxas.version));
        }
        output::print(&format!("{line}; {blocked} trials blocked\n"))?;
        wanted += sources.len();
    }
    if wanted == 0 { Err(JobError::NothingRan.into()) } else { Ok(()) }
}

/// Returns every distinct source of the trials, and the number of blocked trials.
fn of_trials<'k>(
    trials: &[SharedTrial],
    kernels: &'k Library,
    toolchain: Option<&Toolchain>,
    target: Target,
) -> Result<(Vec<KernelSource<'k>>, usize), CliError> {
    let mut found: BTreeMap<Key, KernelSource<'k>> = BTreeMap::new();
    let mut blocked = 0;
    for trial in trials {
        let chain = toolchain.map(|t| t.for_target(target));
        let trial = trial.admitted(kernels, chain, Limits::SM12X)?;
        if trial.blocked().is_some() {
            blocked += 1;
            continue;
        }
        for source in trial.sources(kernels)? {
            found.insert((source.kernel.file.clone(), source.defines.clone()), source);
        }
    }
    Ok((found.into_values().collect(), blocked))
}

/// Why `kernels build` cannot assemble.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum KernelsError {
    #[error("no ptxas on this machine, and --cubin needs one")]
    #[diagnostic(help("run `sm121probe toolkit install latest` on a machine with a network"))]
    NoPtxas,
}

impl CommandError for KernelsError {
    fn exit_code(&self) -> u8 {
        exit::TOOLKIT_MISSING
    }
}
