//! Determines which kernels a change of source files can affect, and which trials run them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::lines::{self, Changed};
use super::reach::{Change, Reach};
use crate::families;
use crate::frame::family::{Family, Part, SharedTrial, Trial};
use crate::kernel::{Kernel, KernelError, Library};
use crate::mutants;
use crate::record::{ConfigurationName, listed};

/// The target number of trials for a change that affects only some configurations.
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
    /// Words that the configurations must have, such as a tile; any configuration if empty.
    pub configurations: &'a [String],
}

impl Named<'_> {
    fn allows(&self, trial: &dyn Trial) -> bool {
        let of = trial.configuration();
        self.configurations.is_empty() || self.configurations.iter().any(|words| of.has(words))
    }
}

/// Cases of a family.
#[derive(Clone)]
pub struct Cases {
    /// The family.
    pub family: &'static dyn Family,
    /// Their names.
    pub names: Vec<String>,
}

impl Cases {
    /// Every built-in case, by family.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let of = |family: &'static dyn Family| Self {
            family,
            names: family.cases().into_iter().map(|case| case.name).collect(),
        };
        families::FAMILIES.into_iter().map(of).collect()
    }

    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
}

/// Trials that exercise a change.
#[derive(Debug, Default)]
pub struct Selection {
    /// The trials.
    pub trials: Vec<SharedTrial>,
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
    pub fn trials_of_unchanged(
        &self,
        library: &Library,
        cases: &[Cases],
        named: Named<'_>,
    ) -> Result<Vec<SharedTrial>, KernelError> {
        let mut out: Vec<SharedTrial> = Vec::new();
        for name in &self.unchanged {
            let runs = |t: &SharedTrial| t.blocked().is_none() && named.allows(t.as_ref());
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

    /// Whether a kernel is affected that is compiled for each configuration.
    #[must_use]
    pub fn has_configured(&self, library: &Library) -> bool {
        library.kernels.iter().any(|k| is_configured(k) && self.kernels.contains(&key(k)))
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

    /// Selects the trials that exercise the affected kernels: every trial of the default set that runs a kernel compiled for its
    /// configuration whose code changes, and one trial per case for other changed kernels. If a change affects only some
    /// configurations and the default set has few of these, trials of such configurations are added. What is `named` is run even if
    /// the default set does not have it.
    ///
    /// # Errors
    /// [`KernelError`] when a stage has no kernel.
    pub fn select(
        &self,
        library: &Library,
        cases: &[Cases],
        named: Named<'_>,
    ) -> Result<Selection, KernelError> {
        let reach = Reach::new(library, &self.changes);
        let mut out = Selection::default();
        let mut found = Vec::new();
        for of in cases {
            found.push(self.select_of(library, &reach, of, named, &mut out)?);
        }
        for (n, change) in self.changes.iter().enumerate() {
            let parts: Vec<String> = found.iter().flat_map(|found| found.reach(n)).collect();
            let reached = match parts.is_empty() {
                true => "active in no configuration".to_owned(),
                false => parts.join("; "),
            };
            out.reasons.push(format!("{}: {}, {reached}", change.file, what(change)));
        }
        Ok(out)
    }

    /// Adds the trials of one family; returns what its changes reach.
    fn select_of(
        &self,
        library: &Library,
        reach: &Reach<'_>,
        of: &Cases,
        named: Named<'_>,
        out: &mut Selection,
    ) -> Result<Configurations, KernelError> {
        let mut seen = BTreeSet::new();
        let mut configured = 0;
        let wants = |trial: &SharedTrial| self.wants(library, reach, trial.as_ref());
        for trial in pool(of, named) {
            let wanted = wants(&trial)?;
            if wanted.configured || wanted.other && seen.insert(trial.case().to_owned()) {
                configured += usize::from(wanted.configured);
                out.trials.push(trial);
            }
        }
        let found = self.configurations(library, reach, of)?;
        if named.configurations.is_empty() && found.is_partial() && configured < ENOUGH {
            let there: BTreeSet<String> = out.trials.iter().map(|t| t.name()).collect();
            let others: Vec<SharedTrial> =
                found.trials.iter().filter(|trial| !there.contains(&trial.name())).cloned().collect();
            out.trials.extend(mutants::choose(&others, &[], ENOUGH - configured, mutants::all_features));
        }
        if named.cases && named.configurations.is_empty() {
            // A named case without a trial runs on the configurations that compile the code.
            for case in &of.names {
                if out.trials.iter().any(|t| t.case() == case) {
                    continue;
                }
                let mut further = Vec::new();
                for trial in of.family.trials(case, Part::Every) {
                    if wants(&trial)?.any() {
                        further.push(trial);
                    }
                }
                out.trials.extend(mutants::choose(&further, &[], ENOUGH, mutants::all_features));
            }
        }
        Ok(found)
    }

    /// Returns the trials of [`Affected::select`] if nothing is named.
    ///
    /// # Errors
    /// As [`Affected::select`].
    pub fn trials(&self, library: &Library, cases: &[Cases]) -> Result<Vec<SharedTrial>, KernelError> {
        Ok(self.select(library, cases, Named::default())?.trials)
    }

    fn wants(&self, library: &Library, reach: &Reach<'_>, trial: &dyn Trial) -> Result<Wanted, KernelError> {
        if trial.blocked().is_some() {
            return Ok(Wanted::default());
        }
        let mut out = Wanted::default();
        for source in trial.sources(library)? {
            let is_affected = self.kernels.contains(&key(source.kernel));
            let by = if is_affected { reach.alters(&source) } else { Vec::new() };
            let is_configured = is_configured(source.kernel);
            if is_affected && (self.changes.is_empty() || self.gone || by.contains(&true)) {
                out.configured |= is_configured;
                out.other |= !is_configured;
            }
            if is_affected {
                out.by.push((is_configured, by));
            }
        }
        Ok(out)
    }

    /// Finds every configuration with an affected kernel of its own and every case with another affected kernel, and which of them
    /// each change reaches.
    fn configurations(
        &self,
        library: &Library,
        reach: &Reach<'_>,
        of: &Cases,
    ) -> Result<Configurations, KernelError> {
        let mut out = Configurations::new(self.changes.len());
        if self.changes.is_empty() {
            return Ok(out);
        }
        for case in of.family.representatives(&of.names()) {
            for trial in of.family.trials(&case, Part::Every) {
                let wanted = self.wants(library, reach, trial.as_ref())?;
                for (_, by) in wanted.by.iter().filter(|(is_configured, _)| *is_configured) {
                    let choices =
                        trial.choices().into_iter().map(|of| (of.axis, (of.order, of.value))).collect();
                    out.all.insert(trial.configuration(), choices);
                    for n in (0..by.len()).filter(|n| by[*n]) {
                        out.reached[n].insert(trial.configuration());
                    }
                }
                if wanted.configured {
                    out.trials.push(trial);
                }
            }
        }
        for case in &of.names {
            let all = of.family.trials(case, Part::Own);
            let Some(trial) = all.into_iter().find(|t| t.blocked().is_none()) else { continue };
            let wanted = self.wants(library, reach, trial.as_ref())?;
            for (_, by) in wanted.by.iter().filter(|(is_configured, _)| !is_configured) {
                out.all_cases.insert(case.clone());
                for n in (0..by.len()).filter(|n| by[*n]) {
                    out.reached_cases[n].insert(case.clone());
                }
            }
        }
        Ok(out)
    }
}

/// The trials to choose from: the default set or, of named configurations, their part of that set. A named case runs on all of the
/// named configurations, and so do the swept cases if the default set does not have them.
fn pool(of: &Cases, named: Named<'_>) -> Vec<SharedTrial> {
    let family = of.family;
    if named.configurations.is_empty() {
        return family.default_set(&of.names());
    }
    let with = |case: &str, words: &str| family.trials(case, Part::Named(words));
    if named.cases {
        let of_case = |case: &String| {
            let words = named.configurations.iter();
            words.flat_map(|words| with(case, words)).collect::<Vec<_>>()
        };
        return of.names.iter().flat_map(of_case).collect();
    }
    let set = family.default_set(&of.names());
    let mut swept: Vec<&str> =
        set.iter().filter(|trial| trial.is_swept()).map(|trial| trial.case()).collect();
    swept.dedup();
    let mut out = Vec::new();
    for words in named.configurations {
        let here = || set.iter().filter(|t| t.configuration().has(words));
        if here().any(|t| t.blocked().is_none()) {
            out.extend(here().cloned());
        } else {
            out.extend(swept.iter().flat_map(|case| with(case, words)));
        }
    }
    out
}

/// Whether a kernel is compiled for each configuration.
fn is_configured(kernel: &Kernel) -> bool {
    families::find(&kernel.family).is_some_and(|family| family.is_configured(kernel))
}

/// Whether the code of a trial's kernels changes.
#[derive(Default)]
struct Wanted {
    /// Of a kernel compiled for its configuration.
    configured: bool,
    /// Of another kernel.
    other: bool,
    /// For each affected kernel: whether it is compiled for the configuration, and which changes reach it.
    by: Vec<(bool, Vec<bool>)>,
}

impl Wanted {
    const fn any(&self) -> bool {
        self.configured || self.other
    }
}

/// The values of a configuration by axis, each with its place among the values of the axis.
type Choices = Vec<(&'static str, (u32, String))>;

/// The configurations and cases of a family, and those that each change reaches.
struct Configurations {
    all: BTreeMap<ConfigurationName, Choices>,
    reached: Vec<BTreeSet<ConfigurationName>>,
    all_cases: BTreeSet<String>,
    reached_cases: Vec<BTreeSet<String>>,
    /// Trials of the reached configurations.
    trials: Vec<SharedTrial>,
}

impl Configurations {
    fn new(changes: usize) -> Self {
        Self {
            all: BTreeMap::new(),
            reached: vec![BTreeSet::new(); changes],
            all_cases: BTreeSet::new(),
            reached_cases: vec![BTreeSet::new(); changes],
            trials: Vec::new(),
        }
    }

    /// Whether some change reaches only a part of the configurations.
    fn is_partial(&self) -> bool {
        self.reached.iter().any(|r| !r.is_empty() && r.len() < self.all.len())
    }

    /// Where change number `n` is active: `active for K tile 256 and 512: 37 configurations`; nothing if nowhere.
    fn reach(&self, n: usize) -> Vec<String> {
        let mut parts = Vec::new();
        let reached = &self.reached[n];
        if reached.len() == self.all.len() && !reached.is_empty() {
            parts.push(format!("active in every configuration ({})", reached.len()));
        } else if !reached.is_empty() {
            let dimensions = dimensions(reached, &self.all);
            let of = format!("{} configurations", reached.len());
            parts.push(if dimensions.is_empty() {
                format!("active in {of} of {}", self.all.len())
            } else {
                format!("active for {}: {of}", listed(&dimensions))
            });
        }
        let cases = &self.reached_cases[n];
        if let Some(first) = cases.first() {
            const SHOWN: usize = 6;
            let names: Vec<String> = cases.iter().take(SHOWN).cloned().collect();
            let (some, all) = (cases.len(), self.all_cases.len());
            parts.push(match some {
                _ if some == all => format!("active in every case ({all})"),
                _ if some <= SHOWN => format!("active in {} ({some} of {all} cases)", listed(&names)),
                _ => format!("active in {some} of {all} cases, such as {first}"),
            });
        }
        parts
    }
}

/// What changed: `line 31 changed`.
fn what(change: &Change) -> String {
    match &change.old {
        None => "every line counts as changed".to_owned(),
        Some(_) if change.lines.new.is_empty() => {
            format!("{} of the old text removed", lines::words(&change.lines.old))
        }
        Some(_) => format!("{} changed", lines::words(&change.lines.new)),
    }
}

/// Describes what distinguishes some configurations from all: `K tile 256 and 512`, `side swap_ab`.
fn dimensions(some: &BTreeSet<ConfigurationName>, all: &BTreeMap<ConfigurationName, Choices>) -> Vec<String> {
    let value = |name: &ConfigurationName, axis: &str| {
        let of_axis =
            |choices: &Choices| choices.iter().find(|(of, _)| *of == axis).map(|(_, value)| value.clone());
        all.get(name).and_then(of_axis)
    };
    let axes: Vec<&'static str> = all.values().next().into_iter().flatten().map(|(axis, _)| *axis).collect();
    // Greedy: each step adds the axis that leaves the fewest configurations, until none excludes more.
    let filter = |left: &BTreeSet<ConfigurationName>, axis: &str| -> BTreeSet<ConfigurationName> {
        let values: BTreeSet<_> = some.iter().map(|name| value(name, axis)).collect();
        left.iter().filter(|name| values.contains(&value(name, axis))).cloned().collect()
    };
    let mut left: BTreeSet<ConfigurationName> = all.keys().cloned().collect();
    let mut out = Vec::new();
    while left.len() > some.len() {
        let Some(axis) = axes.iter().min_by_key(|axis| filter(&left, axis).len()) else { break };
        let after = filter(&left, axis);
        if after.len() == left.len() {
            break;
        }
        let values: BTreeSet<_> = some.iter().filter_map(|name| value(name, axis)).collect();
        let words: Vec<String> = values.into_iter().map(|(_, word)| word).collect();
        out.push(format!("{axis} {}", listed(&words)));
        left = after;
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
