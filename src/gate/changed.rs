//! What a change of files can affect: which kernels, and which trials run them.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::case::Case;
use crate::kernel::{Kernel, KernelError, Library};
use crate::moe::compile;
use crate::moe::plan::{self, Trial};
use crate::moe::{Settings, sources};

/// The kernels that changed files affect, and why.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// File and whether it is of the folder.
    kernels: BTreeSet<(String, bool)>,
    /// A sentence for each changed file.
    pub reasons: Vec<String>,
}

impl Affected {
    /// Every kernel of the folder: nothing is said of what changed.
    #[must_use]
    pub fn all(library: &Library) -> Self {
        let own = library.kernels.iter().filter(|k| k.own);
        let mut out = Self { kernels: own.map(key).collect(), reasons: Vec::new() };
        // A folder of .cuh files alone takes the place of ours in our kernels.
        if out.kernels.is_empty() {
            out.kernels = library.kernels.iter().map(key).collect();
        }
        out
    }

    /// The kernels that the changed files can affect: a kernel itself, and what includes a changed `.cuh`, directly or not.
    /// Files that are not in the folder affect nothing.
    #[must_use]
    pub fn by(library: &Library, folder: &Path, changed: &[PathBuf]) -> Self {
        let mut out = Self::default();
        for path in changed {
            let shown = path.display();
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let is_source = path.extension().is_some_and(|e| e == "cu" || e == "cuh");
            if !is_in(path, folder) || !is_source {
                out.reasons.push(format!("{shown}: no kernel of {}, affects nothing", folder.display()));
                continue;
            }
            let affected: Vec<&Kernel> = library
                .kernels
                .iter()
                .filter(|k| (k.own && k.file == name) || includes(library, k, &name))
                .collect();
            if affected.is_empty() {
                // A file that is gone had its place in some stage: ours may stand there now.
                let gone = !folder.join(&name).is_file();
                let why = if gone {
                    "is gone: every kernel is run"
                } else {
                    "is included by no kernel, affects nothing"
                };
                out.reasons.push(format!("{shown}: {why}"));
                if gone {
                    out.kernels.extend(library.kernels.iter().map(key));
                }
                continue;
            }
            let names: Vec<&str> = affected.iter().map(|k| k.file.as_str()).collect();
            out.reasons.push(format!("{shown}: affects {}", names.join(" ")));
            out.kernels.extend(affected.into_iter().map(key));
        }
        out
    }

    /// Whether nothing is affected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// The trials of the default set that show what is affected: all that run an affected GEMM, and of each case one that runs
    /// another affected kernel, since tiles are nothing to it.
    ///
    /// # Errors
    /// [`KernelError`] when a stage has no kernel.
    pub fn trials<'a>(&self, library: &Library, cases: &[&'a Case]) -> Result<Vec<Trial<'a>>, KernelError> {
        let mut out = Vec::new();
        let mut seen = BTreeSet::new();
        for trial in plan::default_set(cases) {
            let Ok(config) = trial.config else { continue };
            let setup = plan::setup(&trial.case, config);
            let gemm = library.gemm(trial.path, trial.load)?;
            let wanted = self.kernels.contains(&key(gemm)) || {
                let used = sources::of_run(library, &Settings::of(&trial.case), &setup)?;
                let other = used.iter().any(|s| self.kernels.contains(&key(s.kernel)));
                other && seen.insert(trial.case.name.clone())
            };
            if wanted {
                out.push(trial);
            }
        }
        Ok(out)
    }
}

fn key(kernel: &Kernel) -> (String, bool) {
    (kernel.file.clone(), kernel.own)
}

fn includes(library: &Library, kernel: &Kernel, name: &str) -> bool {
    compile::included(library, &kernel.text).iter().any(|i| i.name == name)
}

/// Whether a path names a file of a folder; both as the caller's place sees them.
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
