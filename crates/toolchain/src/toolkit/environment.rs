//! The environment in which tools are searched for; a value, so that tests can supply their own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// Variables, working folder and file system root.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Environment variables.
    pub vars: BTreeMap<OsString, OsString>,
    /// The working folder.
    pub folder: PathBuf,
    /// Replaces `/` in fixed paths such as `/usr/local/cuda`.
    pub root: PathBuf,
}

impl Environment {
    /// Returns the environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self {
            vars: std::env::vars_os().collect(),
            folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            root: PathBuf::from("/"),
        }
    }

    /// Returns a variable that is set and not empty, as a path.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.vars.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The absolute folders in a variable that holds a list.
    pub(super) fn paths(&self, name: &str) -> Vec<PathBuf> {
        let Some(list) = self.vars.get(OsStr::new(name)) else { return Vec::new() };
        std::env::split_paths(list).filter(|path| path.is_absolute()).collect()
    }

    /// Conda environments: the active one, those recorded by conda, and those in conda's own installation.
    pub(super) fn conda_prefixes(&self) -> Vec<PathBuf> {
        let mut prefixes: Vec<PathBuf> = self.path("CONDA_PREFIX").into_iter().collect();
        if let Some(list) =
            self.path("HOME").and_then(|home| fs::read_to_string(home.join(".conda/environments.txt")).ok())
        {
            prefixes.extend(list.lines().map(str::trim).filter(|line| !line.is_empty()).map(PathBuf::from));
        }
        if let Some(base) =
            self.path("CONDA_EXE").and_then(|conda| Some(conda.parent()?.parent()?.to_owned()))
        {
            prefixes.extend(children(&base.join("envs")));
            prefixes.push(base);
        }
        prefixes
    }

    /// Folders from which Python imports packages, found without running Python.
    pub(super) fn site_packages(&self) -> Vec<PathBuf> {
        let mut prefixes: Vec<PathBuf> = self.path("VIRTUAL_ENV").into_iter().collect();
        prefixes.extend([".venv", "venv"].map(|name| self.folder.join(name)));
        prefixes.extend(self.conda_prefixes());
        for folder in self.paths("PATH") {
            prefixes.extend(folder.parent().map(Path::to_owned));
            // A linked interpreter imports from its real location.
            if let Ok(real) = fs::canonicalize(folder.join("python3")) {
                prefixes.extend(real.parent().and_then(Path::parent).map(Path::to_owned));
            }
        }
        if let Some(home) = self.path("HOME") {
            prefixes.push(home.join(".local"));
            let pyenv = self.path("PYENV_ROOT").unwrap_or_else(|| home.join(".pyenv"));
            prefixes.extend(children(&pyenv.join("versions")));
            prefixes.extend(children(&home.join(".local/share/uv/tools")));
            prefixes.extend(children(&home.join(".local/share/pipx/venvs")));
        }
        prefixes.extend(["usr", "usr/local"].map(|name| self.root.join(name)));

        let mut sites = self.paths("PYTHONPATH");
        for prefix in prefixes {
            for library in ["lib", "lib64"] {
                for python in children(&prefix.join(library)) {
                    if python.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python3"))
                    {
                        sites.extend(["site-packages", "dist-packages"].map(|name| python.join(name)));
                    }
                }
            }
        }
        // `lib64` is often a link to `lib`, and prefixes repeat.
        let mut seen = std::collections::HashSet::new();
        sites.retain(|site| fs::canonicalize(site).is_ok_and(|real| seen.insert(real)));
        sites
    }
}

/// The entries of a folder in a stable order; none if it cannot be read.
pub(super) fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    paths
}
