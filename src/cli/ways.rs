//! Arguments that the pipeline's commands share: tiles and how they are compiled, cases, targets, kernels.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ptx::arch::Target;

use super::error::CliError;
use crate::families;
use crate::frame::family::SharedTrial;
use crate::job::TARGETS;
use crate::job::{self, OfTarget};
use crate::kernel::{Library, Load, MmaPath};
use crate::moe::case::Case;
use crate::moe::configuration::Tile;
use crate::moe::family::{MOE, shared};
use crate::moe::plan::{self, LOADS, PATHS, Trial};
use crate::record::{Completeness, TrialRow};

/// Tiles, and how they are compiled.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct WayArgs {
    /// Only this tile: 128x32x128, or 128x32x128B as FlashInfer writes it (repeatable)
    #[arg(long = "tile", value_name = "MxNxK")]
    pub(super) tiles: Vec<Tile>,
    /// How matrices are multiplied [default: every path]
    #[arg(long, value_name = "PATH", value_parser = parser(PATH_HELP, MmaPath::word))]
    kernel_path: Option<MmaPath>,
    /// How tiles reach shared memory [default: every way]
    #[arg(long, value_name = "LOAD", value_parser = parser(LOAD_HELP, Load::word))]
    load: Option<Load>,
}

const PATH_HELP: &[(MmaPath, &str)] = &[
    (MmaPath::Native, "Block-scaled mma"),
    (MmaPath::Portable, "bf16 mma, scales folded into the operands"),
    (MmaPath::Gemv, "Integer dot products without mma, for at most eight rows of an expert at once"),
];

const LOAD_HELP: &[(Load, &str)] = &[
    (Load::CpAsync, "Every thread copies"),
    (Load::Tma, "A producer warp with tensor maps"),
    (Load::TmaReplace, "The same, with tensor maps that the kernel creates for each expert"),
    (Load::Direct, "Weights are loaded into registers"),
];

/// Returns the parser for one of the values, by its word.
fn parser<T: Copy + Send + Sync>(
    values: &'static [(T, &'static str)],
    word: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let shown = values.iter().map(move |(value, help)| PossibleValue::new(word(*value)).help(*help));
    PossibleValuesParser::new(shown).try_map(move |said| {
        values
            .iter()
            .map(|(value, _)| *value)
            .find(|value| word(*value) == said)
            .ok_or("there is no such value")
    })
}

impl WayArgs {
    /// The selected loads.
    pub(super) fn loads(&self) -> Vec<Load> {
        self.load.map_or_else(|| LOADS.to_vec(), |load| vec![load])
    }

    /// Whether a load was named.
    pub(super) const fn names_load(&self) -> bool {
        self.load.is_some()
    }

    /// The selected paths.
    pub(super) fn paths(&self) -> Vec<MmaPath> {
        self.kernel_path.map_or_else(|| PATHS.to_vec(), |path| vec![path])
    }
}

/// Which trials, compiled by whom and for what.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct TrialArgs {
    /// Only this case (repeatable)
    #[arg(long = "case", value_name = "C")]
    pub(super) cases: Vec<String>,
    #[command(flatten)]
    pub(super) ways: WayArgs,
    /// Every tile instead of the policy's: 665 trials of a case, minutes for a small case, hours for all cases. For a
    /// model's layer: every N and K, with the M that fits its tokens. Without --target, the second target runs a
    /// selection
    #[arg(long, conflicts_with = "tiles")]
    all: bool,
    /// Target of the kernels (repeatable) [default: sm_121a and sm_121f]
    #[arg(long = "target", short = 't', value_name = "T")]
    targets: Vec<String>,
    /// NVRTC: 13.5 or 13.5.37 [default: the newest]
    #[arg(long, short = 'k', value_name = "V")]
    pub(super) toolkit: Option<String>,
    #[command(flatten)]
    folder: KernelArgs,
}

/// Options that select the kernels.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct KernelArgs {
    /// Use kernels from DIR instead of the built-in ones of the same stage. They see its .cuh files before the built-in
    /// ones; without kernels, its .cuh files replace the built-in ones of the same name
    #[arg(long, value_name = "DIR")]
    kernels: Option<PathBuf>,
}

impl KernelArgs {
    /// The built-in kernels, with those of the folder instead of the ones that they replace.
    pub(super) fn library(&self) -> Result<Library, CliError> {
        Ok(match &self.kernels {
            Some(folder) => Library::with_folder(folder, families::check_kernel)?,
            None => Library::embedded()?,
        })
    }
}

impl TrialArgs {
    /// The selected cases of the library.
    pub(super) fn cases<'a>(
        &self,
        library: &'a crate::moe::case::Library,
    ) -> Result<Vec<&'a Case>, CliError> {
        if self.cases.is_empty() {
            return Ok(library.cases.iter().collect());
        }
        Ok(self.cases.iter().map(|name| library.find(name)).collect::<Result<_, _>>()?)
    }

    /// The kernels, including those of the folder.
    pub(super) fn kernels(&self) -> Result<Library, CliError> {
        self.folder.library()
    }

    /// Whether no target was named, so that the command chooses.
    pub(super) fn names_no_target(&self) -> bool {
        self.targets.is_empty()
    }

    /// The selected targets.
    pub(super) fn targets(&self) -> Result<Vec<Target>, CliError> {
        if self.targets.is_empty() {
            return Ok(TARGETS.iter().map(|t| t.parse()).collect::<Result<_, _>>()?);
        }
        Ok(self.targets.iter().map(|t| t.parse()).collect::<Result<_, _>>()?)
    }

    /// Returns what was checked, with a gap for each value of an option that no judged trial has: its trials are blocked or were not
    /// run. Values that the command chose itself are not asked for.
    pub(super) fn completeness(
        &self,
        cases: &[&Case],
        targets: &[Target],
        rows: &[TrialRow],
    ) -> Completeness {
        let mut all = Completeness::of_checks(rows.iter().filter(|row| row.is_judged()).count());
        let mut named = |what: String, is_of: &dyn Fn(&TrialRow) -> bool| {
            if rows.iter().any(|row| row.is_judged() && is_of(row)) {
                return;
            }
            let blocked = rows.iter().find(|row| is_of(row)).and_then(|row| row.results.first());
            let why = match blocked {
                Some(result) => format!("{}: {}", result.verdict.word().replace('_', " "), result.note),
                None => "no trial has it".to_owned(),
            };
            all.add_gap(format!("{what} was not run: {why}"));
        };
        if !self.cases.is_empty() {
            for case in cases {
                named(format!("case {}", case.name), &|row| row.case == case.name);
            }
        }
        for tile in &self.ways.tiles {
            named(format!("tile {tile}"), &|row| row.configuration.has(&tile.to_string()));
        }
        if let Some(path) = self.ways.kernel_path {
            let is_of = |row: &TrialRow| row.configuration.has(path.word());
            named(format!("kernel path {}", path.word()), &is_of);
        }
        if let Some(load) = self.ways.load {
            let is_of = |row: &TrialRow| row.configuration.has(load.word());
            named(format!("load {}", load.word()), &is_of);
        }
        if !self.targets.is_empty() {
            for target in targets {
                named(format!("target {target}"), &|row| row.target.known() == Some(target));
            }
        }
        all
    }

    /// The trials of these cases for each target: the named ones, or the default set.
    pub(super) fn trials(&self, cases: &[&Case], targets: &[Target], kernels: &Library) -> Vec<OfTarget> {
        let (loads, paths) = (self.ways.loads(), self.ways.paths());
        if !self.all && self.ways.tiles.is_empty() && self.cases.is_empty() {
            let wanted = |t: &Trial| loads.contains(&t.load) && paths.contains(&t.path);
            let set = shared(plan::default_set(cases).into_iter().filter(wanted).collect());
            return job::for_targets(&MOE, &set, targets, kernels);
        }
        let of = |case: &&Case| {
            plan::trials(case, &plan::tiles_of(case, &self.ways.tiles, self.all), &loads, &paths)
        };
        let all: Vec<SharedTrial> = shared(cases.iter().flat_map(of).collect());
        if self.all && self.names_no_target() {
            return job::for_targets(&MOE, &all, targets, kernels);
        }
        targets.iter().map(|target| (*target, all.clone())).collect()
    }
}
