//! Determines which kernels a change of source files can affect, and which trials run them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::lines::{self, Changed, listed};
use super::reach::{Change, Reach};
use crate::case::Case;
use crate::kernel::{Kernel, KernelError, KernelStage, Library};
use crate::moe::plan::{self, Configuration, Trial};
use crate::moe::tile::Tile;
use crate::moe::{Settings, sources};
use crate::mutants;

/// The target number of GEMM trials for a change that affects only some configurations.
const ENOUGH: usize = 24;

/// The previous contents of the changed files.
#[derive(Debug, Clone, Default)]
pub enum Base {
    /// The built-in file of the same name. If a file equals it, or there is none, every line of the file counts as changed.
    #[default]
    Ours,
    /// These texts, by path. A file without a text is new.
    Texts(BTreeMap<PathBuf, String>),
}

/// The kernels that changed files affect, and why.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// File names, with whether the kernel is from the user's folder.
    kernels: BTreeSet<(String, bool)>,
    /// The changed lines of each file.
    changes: Vec<Change>,
    /// Whether a file was removed; if so, every configuration is affected.
    gone: bool,
    /// One sentence per changed file.
    pub reasons: Vec<String>,
    /// The names of changed files whose code did not change.
    unchanged: BTreeSet<String>,
}

/// What the user names instead of leaving it to the plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Named<'a> {
    /// Whether the cases are named.
    pub cases: bool,
    /// The named tiles; none if empty.
    pub tiles: &'a [Tile],
}

/// Trials that exercise a change.
#[derive(Debug, Default)]
pub struct Selection<'a> {
    /// The trials.
    pub trials: Vec<Trial<'a>>,
    /// One sentence per changed file: the changed lines, and the configurations that compile them.
    pub reasons: Vec<String>,
}

impl Affected {
    /// Selects every kernel of the folder, for an unspecified change.
    #[must_use]
    pub fn all(library: &Library) -> Self {
        let own = library.kernels.iter().filter(|k| k.own);
        let mut out = Self { kernels: own.map(key).collect(), ..Self::default() };
        // A folder with only `.cuh` files replaces those of the built-in kernels.
        if out.kernels.is_empty() {
            out.kernels = library.kernels.iter().map(key).collect();
        }
        out
    }

    /// Selects the kernels that any change of a file can affect: the kernel itself, or the kernels that include it.
    #[must_use]
    pub fn by_file(library: &Library, name: &str) -> Self {
        Self { kernels: holders(library, name).into_iter().map(key).collect(), ..Self::default() }
    }

    /// Returns a trial for each file whose code did not change, so that even a change of comments is checked by something that runs.
    ///
    /// # Errors
    /// [`KernelError`] if a stage has no kernel.
    pub fn trials_of_unchanged<'a>(
        &self,
        library: &Library,
        cases: &[&'a Case],
        named: Named<'_>,
    ) -> Result<Vec<Trial<'a>>, KernelError> {
        let mut out: Vec<Trial<'a>> = Vec::new();
        for name in &self.unchanged {
            let runs =
                |t: &Trial<'_>| t.config.is_ok() && (named.tiles.is_empty() || named.tiles.contains(&t.tile));
            out.extend(Self::by_file(library, name).trials(library, cases)?.into_iter().find(runs));
        }
        Ok(out)
    }

    /// Selects the kernels that the changed files can affect: changed kernels, and kernels that include a changed `.cuh`
    /// directly or indirectly. Files outside the folder and changes of comments affect nothing.
    #[must_use]
    pub fn by(library: &Library, folder: &Path, changed: &[PathBuf], base: &Base) -> Self {
        let mut out = Self::default();
        for path in changed {
            let shown = path.display();
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let is_source = path.extension().is_some_and(|e| e == "cu" || e == "cuh");
            if !is_in(path, folder) || !is_source {
                out.reasons.push(format!("{shown}: no kernel of {}, affects nothing", folder.display()));
                continue;
            }
            let affected = holders(library, &name);
            if affected.is_empty() {
                // A stage whose kernel was removed may now use a built-in kernel.
                let gone = !folder.join(&name).is_file();
                let why = if gone {
                    "was removed: every kernel is run"
                } else {
                    "is included by no kernel, affects nothing"
                };
                out.reasons.push(format!("{shown}: {why}"));
                if gone {
                    out.kernels.extend(library.kernels.iter().map(key));
                    out.gone = true;
                }
                continue;
            }
            let Some(change) = change(library, path, &name, base) else {
                out.reasons.push(format!("{shown}: no code changed, affects nothing"));
                out.unchanged.insert(name);
                continue;
            };
            // A kernel of the folder has the same name as the built-in kernel that it replaces.
            let names: BTreeSet<&str> = affected.iter().map(|k| k.file.as_str()).collect();
            let names: Vec<&str> = names.into_iter().collect();
            out.reasons.push(format!("{shown}: affects {}", names.join(" ")));
            out.kernels.extend(affected.into_iter().map(key));
            out.changes.push(change);
        }
        out
    }

    /// Whether a GEMM is affected.
    #[must_use]
    pub fn has_gemm(&self, library: &Library) -> bool {
        library.kernels.iter().any(|k| k.stage == KernelStage::Gemm && self.kernels.contains(&key(k)))
    }

    /// Whether nothing is affected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// Returns the changed lines of a file, from 1; `None` if the file did not change or its previous text is unknown.
    #[must_use]
    pub fn lines(&self, file: &str) -> Option<&BTreeSet<usize>> {
        let of_file = self.changes.iter().find(|c| c.file == file && c.old.is_some());
        of_file.map(|c| &c.lines.new)
    }

    /// Selects the trials that exercise the affected kernels: every trial of the default set that runs a GEMM whose code
    /// changes, and one trial per case for other changed kernels, which do not depend on tiles. If a change affects only some
    /// configurations of the GEMM and the default set has few of these, trials of such configurations are added. What is `named` is
    /// run even if the default set does not have it.
    ///
    /// # Errors
    /// [`KernelError`] when a stage has no kernel.
    pub fn select<'a>(
        &self,
        library: &Library,
        cases: &[&'a Case],
        named: Named<'_>,
    ) -> Result<Selection<'a>, KernelError> {
        let reach = Reach::new(library, &self.changes);
        let mut out = Selection::default();
        let mut seen = BTreeSet::new();
        let mut of_gemm = 0;
        let wants = |trial: &Trial<'a>| self.wants(library, &reach, trial);
        for trial in pool(cases, named) {
            let wanted = wants(&trial)?;
            if wanted.gemm || wanted.other && seen.insert(trial.case.name.clone()) {
                of_gemm += usize::from(wanted.gemm);
                out.trials.push(trial);
            }
        }
        let found = self.configurations(library, &reach, cases)?;
        for (n, change) in self.changes.iter().enumerate() {
            out.reasons.push(format!("{}: {}", change.file, found.told(n, change)));
        }
        if named.tiles.is_empty() && found.is_partial() && of_gemm < ENOUGH {
            let there: BTreeSet<(String, Configuration)> =
                out.trials.iter().map(|t| (t.case.name.clone(), t.configuration())).collect();
            let mut others = Vec::new();
            for trial in found.trials {
                if !there.contains(&(trial.case.name.clone(), trial.configuration())) {
                    others.push(trial);
                }
            }
            out.trials.extend(mutants::choose(&others, &[], ENOUGH - of_gemm, mutants::features));
        }
        if named.cases && named.tiles.is_empty() {
            // A named case without a trial runs on the tiles that compile the code.
            for case in cases {
                if out.trials.iter().any(|t| t.case.name == case.name) {
                    continue;
                }
                let mut further = Vec::new();
                for trial in plan::trials(case, &plan::tiles_of(case, &[], true), &plan::LOADS, &plan::PATHS)
                {
                    if wants(&trial)?.any() {
                        further.push(trial);
                    }
                }
                out.trials.extend(mutants::choose(&further, &[], ENOUGH, mutants::features));
            }
        }
        Ok(out)
    }

    /// Returns the trials of [`Affected::select`] if nothing is named.
    ///
    /// # Errors
    /// As [`Affected::select`].
    pub fn trials<'a>(&self, library: &Library, cases: &[&'a Case]) -> Result<Vec<Trial<'a>>, KernelError> {
        Ok(self.select(library, cases, Named::default())?.trials)
    }

    fn wants(&self, library: &Library, reach: &Reach<'_>, trial: &Trial<'_>) -> Result<Wanted, KernelError> {
        let Ok(config) = trial.config else { return Ok(Wanted::default()) };
        let setup = plan::setup(&trial.case, config);
        let mut out = Wanted::default();
        for source in sources::of_run(library, &Settings::from_case(&trial.case), &setup)? {
            let is_affected = self.kernels.contains(&key(source.kernel));
            let by = if is_affected { reach.alters(&source) } else { Vec::new() };
            if is_affected && (self.changes.is_empty() || self.gone || by.contains(&true)) {
                let is_gemm = source.kernel.stage == KernelStage::Gemm;
                out.gemm |= is_gemm;
                out.other |= !is_gemm;
            }
            if is_affected {
                out.by.push((source.kernel.stage == KernelStage::Gemm, by));
            }
        }
        Ok(out)
    }

    /// Finds every configuration of an affected GEMM and every case with another affected kernel, and which of them each
    /// change reaches.
    fn configurations<'a>(
        &self,
        library: &Library,
        reach: &Reach<'_>,
        cases: &[&'a Case],
    ) -> Result<Configurations<'a>, KernelError> {
        let mut out = Configurations {
            reached: vec![BTreeSet::new(); self.changes.len()],
            ..Configurations::default()
        };
        out.reached_cases.resize(self.changes.len(), BTreeSet::new());
        if self.changes.is_empty() {
            return Ok(out);
        }
        for case in representatives(cases) {
            for trial in plan::trials(case, &plan::tiles(), &plan::LOADS, &plan::PATHS) {
                let wanted = self.wants(library, reach, &trial)?;
                for (_, by) in wanted.by.iter().filter(|(is_gemm, _)| *is_gemm) {
                    out.all.insert(trial.configuration());
                    for n in (0..by.len()).filter(|n| by[*n]) {
                        out.reached[n].insert(trial.configuration());
                    }
                }
                if wanted.gemm {
                    out.trials.push(trial);
                }
            }
        }
        for case in cases {
            let all = plan::trials(case, &plan::own_tiles(case), &plan::LOADS, &plan::PATHS);
            let Some(trial) = all.into_iter().find(|t| t.config.is_ok()) else { continue };
            let wanted = self.wants(library, reach, &trial)?;
            for (_, by) in wanted.by.iter().filter(|(is_gemm, _)| !is_gemm) {
                out.all_cases.insert(&case.name);
                for n in (0..by.len()).filter(|n| by[*n]) {
                    out.reached_cases[n].insert(&case.name);
                }
            }
        }
        Ok(out)
    }
}

/// The trials to choose from: the default set or, of a named tile, its part of that set. A named case runs with all loads and paths
/// of a named tile, and so do the swept cases if the default set does not have the tile.
fn pool<'a>(cases: &[&'a Case], named: Named<'_>) -> Vec<Trial<'a>> {
    let of = |case: &'a Case, tile: Tile| plan::trials(case, &[tile], &plan::LOADS, &plan::PATHS);
    if named.tiles.is_empty() {
        return plan::default_set(cases);
    }
    if named.cases {
        return cases.iter().flat_map(|case| named.tiles.iter().flat_map(|tile| of(case, *tile))).collect();
    }
    let set = plan::default_set(cases);
    let mut out = Vec::new();
    for tile in named.tiles {
        let here = || set.iter().filter(|t| t.tile == *tile);
        if here().any(|t| t.config.is_ok()) {
            out.extend(here().cloned());
        } else {
            out.extend(cases.iter().filter(|case| plan::is_swept(case)).flat_map(|case| of(case, *tile)));
        }
    }
    out
}

/// Whether the code of a trial's GEMM or other kernels changes.
#[derive(Default)]
struct Wanted {
    gemm: bool,
    other: bool,
    /// For each affected kernel: whether it is the GEMM, and which changes reach it.
    by: Vec<(bool, Vec<bool>)>,
}

impl Wanted {
    const fn any(&self) -> bool {
        self.gemm || self.other
    }
}

/// The configurations and cases that exist, and those that each change reaches.
#[derive(Default)]
struct Configurations<'a> {
    all: BTreeSet<Configuration>,
    reached: Vec<BTreeSet<Configuration>>,
    all_cases: BTreeSet<&'a str>,
    reached_cases: Vec<BTreeSet<&'a str>>,
    /// Trials of the reached configurations.
    trials: Vec<Trial<'a>>,
}

impl Configurations<'_> {
    /// Whether some change reaches only a part of the GEMM's configurations.
    fn is_partial(&self) -> bool {
        self.reached.iter().any(|r| !r.is_empty() && r.len() < self.all.len())
    }

    /// `line 31 changed, active for K tile 256 and 512: 37 configurations`.
    fn told(&self, n: usize, change: &Change) -> String {
        let what = match &change.old {
            None => "every line counts as changed".to_owned(),
            Some(_) if change.lines.new.is_empty() => {
                format!("{} of the old text removed", lines::words(&change.lines.old))
            }
            Some(_) => format!("{} changed", lines::words(&change.lines.new)),
        };
        let mut parts = Vec::new();
        let reached = &self.reached[n];
        if reached.len() == self.all.len() && !reached.is_empty() {
            parts.push(format!("active in every configuration of the GEMM ({})", reached.len()));
        } else if !reached.is_empty() {
            let dimensions = dimensions(reached, &self.all);
            let of = format!("{} configurations", reached.len());
            parts.push(if dimensions.is_empty() {
                format!("active in {of} of the GEMM's {}", self.all.len())
            } else {
                format!("active for {}: {of}", listed(&dimensions))
            });
        }
        let cases = &self.reached_cases[n];
        if !cases.is_empty() {
            const SHOWN: usize = 6;
            let names: Vec<String> = cases.iter().take(SHOWN).map(|c| (*c).to_owned()).collect();
            let (some, all) = (cases.len(), self.all_cases.len());
            parts.push(match some {
                _ if some == all => format!("active in every case ({all})"),
                _ if some <= SHOWN => format!("active in {} ({some} of {all} cases)", listed(&names)),
                _ => format!("active in {some} of {all} cases, such as {}", names[0]),
            });
        }
        if parts.is_empty() {
            parts.push("active in no configuration".to_owned());
        }
        format!("{what}, {}", parts.join("; "))
    }
}

/// Describes what distinguishes some configurations from all: `K tile 256 and 512`, `side swap_ab`.
fn dimensions(some: &BTreeSet<Configuration>, all: &BTreeSet<Configuration>) -> Vec<String> {
    type Of = fn(&Configuration) -> (u32, String);
    let dimensions: [(&str, Of); 6] = [
        ("K tile", |w| (w.tile.k, w.tile.k.to_string())),
        ("M tile", |w| (w.tile.m, w.tile.m.to_string())),
        ("N tile", |w| (w.tile.n, w.tile.n.to_string())),
        ("side", |w| (0, if w.swap_ab { "swap_ab".to_owned() } else { "no swap_ab".to_owned() })),
        ("path", |w| (0, w.path.word().to_owned())),
        ("load", |w| (0, w.load.word().to_owned())),
    ];
    // Greedy: each step adds the dimension that leaves the fewest configurations, until none excludes more.
    let filter = |left: &BTreeSet<Configuration>, of: Of| -> BTreeSet<Configuration> {
        let values: BTreeSet<_> = some.iter().map(of).collect();
        left.iter().filter(|w| values.contains(&of(w))).copied().collect()
    };
    let mut left = all.clone();
    let mut out = Vec::new();
    while left.len() > some.len() {
        let best = dimensions.iter().min_by_key(|(_, of)| filter(&left, *of).len());
        let Some((name, of)) = best else { break };
        let after = filter(&left, *of);
        if after.len() == left.len() {
            break;
        }
        let values: BTreeSet<_> = some.iter().map(of).collect();
        let words: Vec<String> = values.into_iter().map(|(_, word)| word).collect();
        out.push(format!("{name} {}", listed(&words)));
        left = after;
    }
    out
}

/// Picks two of the cases that compile kernels with the same options: swept cases first, then the cheapest.
fn representatives<'a>(cases: &[&'a Case]) -> Vec<&'a Case> {
    // Whether the case is not swept, its cost, and the case.
    type Ranked<'a> = (bool, u64, &'a Case);
    let mut of: BTreeMap<String, Vec<Ranked<'a>>> = BTreeMap::new();
    for case in cases.iter().filter(|c| c.model.is_none()) {
        let setup = (
            case.pdl,
            case.scale_tiles.word(),
            case.k_tail.word(),
            case.fc1_bias.word(),
            case.fc2_bias.word(),
        );
        let cost = case.schedules.max(1) * (case.tokens * case.top_k * case.hidden * case.inter) as u64;
        of.entry(format!("{setup:?}")).or_default().push((!plan::is_swept(case), cost, *case));
    }
    let mut out = Vec::new();
    for mut alike in of.into_values() {
        alike.sort_by_key(|(rank, cost, _)| (*rank, *cost));
        out.extend(alike.into_iter().take(2).map(|(_, _, case)| case));
    }
    out
}

/// Returns the change of an existing file; `None` if no code changed.
fn change(library: &Library, path: &Path, name: &str, base: &Base) -> Option<Change> {
    let new = library
        .header_text(name)
        .or_else(|| library.kernels.iter().find(|k| k.own && k.file == name).map(|k| &k.text))?;
    let old = match base {
        Base::Texts(texts) => texts.get(path).cloned(),
        Base::Ours => Library::embedded().ok().and_then(|ours| {
            let kernel = ours.kernels.iter().find(|k| k.file == name).map(|k| k.text.clone());
            // A file equal to the built-in one was changed from an unknown text.
            ours.includes.get(name).cloned().or(kernel).filter(|text| text != new)
        }),
    };
    let all = || lines::code(new).into_iter().map(|(n, _)| n).collect();
    let lines = match &old {
        Some(old) => lines::changed(old, new),
        None => Changed { new: all(), old: BTreeSet::new() },
    };
    (!lines.is_empty()).then(|| Change { file: name.to_owned(), old, lines })
}

fn key(kernel: &Kernel) -> (String, bool) {
    (kernel.file.clone(), kernel.own)
}

/// Returns the kernels that are this file of the folder or include it.
fn holders<'l>(library: &'l Library, name: &str) -> Vec<&'l Kernel> {
    library.kernels.iter().filter(|kernel| mutants::holds(library, kernel, name)).collect()
}

/// Whether `path` is a file directly in `folder`. Relative paths are resolved against the working directory.
fn is_in(path: &Path, folder: &Path) -> bool {
    let parts = |p: &Path| -> Vec<std::ffi::OsString> {
        let absolute = std::path::absolute(p).unwrap_or_else(|_| p.to_owned());
        absolute
            .components()
            .filter(|c| !matches!(c, Component::CurDir))
            .map(|c| c.as_os_str().to_owned())
            .collect()
    };
    path.parent().is_some_and(|parent| {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        parts(parent) == parts(folder)
    })
}
