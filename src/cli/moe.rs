//! `moe`: the pipeline, tile by tile, against its reference.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use rayon::prelude::*;

use super::args::OutputArgs;
use super::error::CliError;
use super::output;
use crate::arch::Target;
use crate::case::{self, Case};
use crate::emulator::Programs;
use crate::kernel::{Library, Load, MmaPath};
use crate::moe::compile::Compiler;
use crate::moe::plan::{self, swaps};
use crate::moe::tile::{Config, Tile};
use crate::moe::{self, trial};
use crate::record::{Stage, StageResult, TrialRow, Verdict};
use crate::report;
use crate::store::Store;
use crate::toolkit::{self, Environment};

/// What kernels are compiled for when nothing is said.
const TARGETS: [&str; 2] = ["sm_121a", "sm_121f"];

/// Arguments of `moe`.
#[derive(Debug, Args)]
pub(super) struct MoeArgs {
    /// List the cases.
    #[arg(long)]
    list: bool,
    /// Run this case only. May be repeated.
    #[arg(long = "case", value_name = "C")]
    cases: Vec<String>,
    /// Read cases from this folder instead of the built-in ones.
    #[arg(long = "cases", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Run with this tile instead of the policy's: 128x32x128, or 128x32x128B as FlashInfer writes it. May be repeated.
    #[arg(long = "tile", value_name = "MxNxK")]
    tiles: Vec<Tile>,
    /// How matrices are multiplied; both ways when left out.
    #[arg(long, value_name = "PATH")]
    kernel_path: Option<MmaPath>,
    /// How tiles reach shared memory; both ways when left out.
    #[arg(long, value_name = "LOAD")]
    load: Option<Load>,
    /// What the kernels are compiled for; sm_121a and sm_121f when left out. May be repeated.
    #[arg(long = "target", short = 't', value_name = "T")]
    targets: Vec<String>,
    /// The NVRTC: 13.5 or 13.5.37; the newest when left out.
    #[arg(long, short = 'k', value_name = "V")]
    toolkit: Option<String>,
    /// The seed of the data; the case's own when left out.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Schedules of warps and CTAs to try; their results must be equal.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: u64,
    /// Kernels of this folder take the place of ours for their stage, and its .cuh files that of ours of the same name.
    #[arg(long, value_name = "DIR")]
    kernels: Option<PathBuf>,
    /// Every tile instead of the policy's.
    #[arg(long, conflicts_with = "tiles")]
    all: bool,
    /// Write all tensors of the one trial that this asks for.
    #[arg(long, value_name = "FILE.safetensors")]
    dump: Option<PathBuf>,
    /// The form of the result.
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: Form,
    #[command(flatten)]
    output: OutputArgs,
}

/// Forms of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// What does not conform, and the counts.
    Text,
    /// One line per trial and stage.
    Csv,
    /// The trials as JSON.
    Json,
    /// One line per trial.
    Md,
}

/// A trial that is asked for.
struct Asked<'a> {
    case: &'a Case,
    tile: Tile,
    swap_ab: bool,
    load: Load,
    path: MmaPath,
}

/// `moe`.
pub(super) fn moe(args: &MoeArgs) -> Result<(), CliError> {
    let library = match &args.folder {
        Some(folder) => case::Library::load(folder)?,
        None => case::library(),
    };
    for problem in &library.problems {
        eprintln!("error: {problem}");
    }
    let cases: Vec<&Case> = if args.cases.is_empty() {
        library.cases.iter().collect()
    } else {
        args.cases.iter().map(|name| library.find(name)).collect::<Result<_, _>>()?
    };
    if args.list {
        let width = cases.iter().map(|c| c.name.len()).max().unwrap_or(0);
        let lines: String = cases.iter().map(|c| format!("{:width$}  {}\n", c.name, c.about)).collect();
        return output::print(&lines);
    }
    let kernels = match &args.kernels {
        Some(folder) => Library::with_folder(folder)?,
        None => Library::embedded()?,
    };
    let asked = asked(args, &cases);
    if args.dump.is_some() && cases.len() != 1 {
        return Err(CliError::Dump);
    }
    let targets: Vec<Target> = if args.targets.is_empty() {
        TARGETS.iter().map(|t| t.parse()).collect::<Result<_, _>>()?
    } else {
        args.targets.iter().map(|t| t.parse()).collect::<Result<_, _>>()?
    };
    let store = Store::open(None).ok();
    let found = toolkit::nvrtcs(store.as_ref(), &Environment::of_process());
    let nvrtc = toolkit::select_nvrtc(&found, args.toolkit.as_deref())?;
    let program = std::env::current_exe().map_err(toolkit::NvrtcError::Worker)?;
    let programs = Arc::new(Programs::default());
    let mut rows = Vec::new();
    for target in targets {
        let compiler = Compiler { nvrtc, store: store.as_ref(), program: program.clone(), target };
        let done: Vec<Result<TrialRow, CliError>> =
            asked.par_iter().map(|a| a.run(args, &programs, &compiler, &kernels)).collect();
        for row in done {
            rows.push(row?);
        }
        if args.dump.is_some() {
            break;
        }
    }
    if rows.is_empty() {
        return Err(CliError::NothingRan);
    }
    let text = match args.format {
        Form::Text => report::trials_text(&rows),
        Form::Csv => report::trials_csv(&rows),
        Form::Md => report::trials_markdown(&rows),
        Form::Json => serde_json::to_string_pretty(&rows).map_err(|e| CliError::Output(e.into()))? + "\n",
    };
    output::write(&text, &args.output)?;
    if !library.problems.is_empty() {
        return Err(CliError::UnusableCases(library.problems.len()));
    }
    // Nothing but blocked trials proves nothing.
    if rows.iter().all(|r| r.verdict() != Verdict::Pass && r.first_wrong().is_none()) {
        return Err(CliError::NothingRan);
    }
    match rows.iter().filter(|r| r.first_wrong().is_some()).count() {
        0 => Ok(()),
        wrong => Err(CliError::Trials(wrong)),
    }
}

/// The trials: every case with the tiles that are named, else its own, else the policy's.
fn asked<'a>(args: &MoeArgs, cases: &[&'a Case]) -> Vec<Asked<'a>> {
    let loads = args.load.map_or_else(|| vec![Load::CpAsync, Load::Tma], |load| vec![load]);
    let paths = args.kernel_path.map_or_else(|| vec![MmaPath::Native, MmaPath::Portable], |path| vec![path]);
    let mut out = Vec::new();
    for case in cases {
        let own: Vec<Tile> = case.tiles.iter().filter_map(|t| t.parse().ok()).collect();
        let tiles: Vec<Tile> = if args.all {
            plan::tiles()
        } else if !args.tiles.is_empty() {
            args.tiles.clone()
        } else if own.is_empty() {
            vec![plan::default_tile(case)]
        } else {
            own
        };
        for tile in tiles {
            for swap_ab in swaps(tile) {
                for load in &loads {
                    for path in &paths {
                        out.push(Asked { case, tile, swap_ab: *swap_ab, load: *load, path: *path });
                    }
                }
            }
        }
    }
    if args.dump.is_some() {
        out.truncate(1);
    }
    out
}

impl Asked<'_> {
    fn run(
        &self,
        args: &MoeArgs,
        programs: &Arc<Programs>,
        compiler: &Compiler<'_>,
        kernels: &Library,
    ) -> Result<TrialRow, CliError> {
        let mut row = TrialRow {
            case: self.case.name.clone(),
            tile: self.tile.to_string(),
            swap_ab: self.swap_ab,
            stages: 0,
            load: self.load.word().to_owned(),
            kernel_path: self.path.word().to_owned(),
            target: compiler.target.to_string(),
            device: "emulator".to_owned(),
            results: Vec::new(),
        };
        let config = match Config::new(self.tile, self.swap_ab, self.load, self.path) {
            Ok(config) => config,
            Err(blocked) => {
                let mut result = StageResult::skipped(Stage::Fc1, blocked.0);
                result.verdict = Verdict::Blocked;
                row.results.push(result);
                return Ok(row);
            }
        };
        row.stages = config.stages;
        let problem = moe::problem::generate(self.case, args.seed.unwrap_or(self.case.seed))?;
        let setup = plan::setup(config);
        let outcome =
            trial::on_emulator(programs, compiler, kernels, &problem, &setup, 0..args.schedules)?;
        if let Some(path) = &args.dump {
            let mut metadata: BTreeMap<String, String> = outcome.contract.metadata();
            metadata.insert("case".to_owned(), row.case.clone());
            metadata.insert("seed".to_owned(), problem.seed.to_string());
            metadata.insert("tile".to_owned(), row.tile.clone());
            metadata.insert("target".to_owned(), row.target.clone());
            moe::tensors::write(path, &outcome.tensors, &metadata)?;
        }
        row.results = outcome.stages;
        Ok(row)
    }
}
