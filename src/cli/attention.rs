//! `attention`: runs attention over paged caches, and compares it with its reference.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use miette::Diagnostic;

use super::error::{CliError, CommandError};
use super::trials::{SelectionArgs, of_family};
use super::{exit, output};
use crate::attention::family::{self, ATTENTION, WriteError};
use crate::attention::{Model, models};
use crate::frame::family::Family as _;
use crate::frame::runner::Runner;
use crate::job::{Context, OfTarget};
use crate::report;

/// Arguments of `attention`.
#[derive(Debug, Args)]
pub(super) struct AttentionArgs {
    #[command(flatten)]
    selection: SelectionArgs,
    /// Run the layers of a model instead of cases: gpt-oss-20b, llama-3.1-8b and others that `--models` lists
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["cases", "configurations", "all"], value_parser = PossibleValuesParser::new(computed().map(|model| model.name.as_str())).map(|name| name.to_owned()), hide_possible_values = true)]
    layers_of: Option<String>,
    /// List the models and where their dimensions come from
    #[arg(long)]
    models: bool,
    /// Write all tensors of the first selected trial to FILE, as `judge` reads them
    #[arg(long, value_name = "FILE.safetensors", requires = "cases")]
    dump: Option<PathBuf>,
    /// Run no trial; plant N random single-byte faults in a cache of each type and report how many the data expose
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    faults: Option<u64>,
}

/// Returns the models of which kernels compute some layers.
fn computed() -> impl Iterator<Item = &'static Model> {
    models().iter().filter(|model| model.has_kernels())
}

/// Runs `attention`.
pub(super) fn attention(args: &AttentionArgs, context: &Context<'_>) -> Result<(), CliError> {
    if let Some(count) = args.faults {
        let rows = ATTENTION.faults(count)?;
        return output::write(&report::evidence_text(&[], &[], &rows), &args.selection.output);
    }
    if args.models {
        let rows: Vec<report::Named<'_>> =
            computed().map(|model| (model.name.as_str(), model.source.as_str())).collect();
        return output::write(&report::listing_text(&rows), &args.selection.output);
    }
    let chosen = args.layers_of.as_deref().and_then(family::trials_of_model);
    of_family(&ATTENTION, &args.selection, chosen, context, |runner, asked| match &args.dump {
        Some(path) => dump(runner, asked, path),
        None => Ok(()),
    })
}

/// Runs the first trial that is not blocked, and writes its tensors.
fn dump(runner: &Runner<'_>, asked: &[OfTarget], path: &Path) -> Result<(), CliError> {
    let first = asked
        .iter()
        .find_map(|(target, trials)| Some((*target, trials.iter().find(|trial| trial.blocked().is_none())?)));
    let Some((target, trial)) = first else { return Err(AttentionArgsError::Nothing.into()) };
    let outcome = runner.outcome(trial.as_ref(), target)?;
    let written =
        family::write_dump(trial.as_ref(), runner.library, runner.seed, &target.to_string(), &outcome, path);
    Ok(written.map_err(|source| AttentionArgsError::Write { path: path.to_owned(), source })?)
}

/// What the arguments of `attention` cannot mean, and what cannot be written.
#[derive(Debug, thiserror::Error, Diagnostic)]
enum AttentionArgsError {
    #[error("--dump writes a trial that runs, but none of the selected ones does")]
    Nothing,
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: WriteError },
}

impl CommandError for AttentionArgsError {
    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}
