//! Tools installed in the cache: their manifests, listing and removal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ptx::arch::ToolkitVersion;
use serde::{Deserialize, Serialize};

use super::environment::children;
use super::pins::{Arch, Tool};
use crate::store::{self, Store, StoreError};

/// Name of the manifest; a folder without it does not count as installed.
pub(super) const MANIFEST: &str = "manifest.json";

/// A file of an installed tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledFile {
    /// Its path in the tool's folder, such as `bin/ptxas`.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// SHA-256 in lower-case hexadecimal.
    pub sha256: String,
}

/// The manifest of an installed tool; written last, before the folder is moved into place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub tool: Tool,
    pub version: ToolkitVersion,
    pub arch: Arch,
    pub wheel: String,
    pub wheel_sha256: String,
    pub files: Vec<InstalledFile>,
}

/// An installed tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The tool.
    pub tool: Tool,
    /// Its version.
    pub version: ToolkitVersion,
    /// The architecture it is for.
    pub arch: Arch,
    /// Its folder, which contains `bin/` or `lib/`.
    pub folder: PathBuf,
    /// Its files.
    pub files: Vec<InstalledFile>,
}

impl Installed {
    /// The hash of `path` in the manifest.
    pub(super) fn sha256_of(&self, path: &Path) -> Option<String> {
        self.files.iter().find(|file| self.folder.join(&file.path) == path).map(|file| file.sha256.clone())
    }

    /// Whether every file has the size and hash of the manifest.
    pub(super) fn is_whole(&self) -> bool {
        self.files.iter().all(|file| {
            let path = self.folder.join(&file.path);
            fs::metadata(&path).is_ok_and(|meta| meta.len() == file.bytes)
                && store::sha256_file(&path).is_ok_and(|sha256| sha256 == file.sha256)
        })
    }
}

/// The folder of a version of a tool.
pub(super) fn folder(root: &Path, tool: Tool, version: ToolkitVersion) -> PathBuf {
    root.join("toolkits").join(tool.name()).join(version.to_string())
}

/// The name of the lock that guards a version of a tool.
pub(super) fn lock_name(tool: Tool, version: ToolkitVersion) -> String {
    format!("toolkit-{tool}-{version}")
}

/// Reads the installed tool in its folder; `None` unless the manifest exists and names this tool and version.
pub(super) fn read(root: &Path, tool: Tool, version: ToolkitVersion) -> Option<Installed> {
    let folder = folder(root, tool, version);
    let manifest: Manifest = serde_json::from_slice(&fs::read(folder.join(MANIFEST)).ok()?).ok()?;
    if (manifest.tool, manifest.version) != (tool, version) {
        return None;
    }
    Some(Installed { tool, version, arch: manifest.arch, folder, files: manifest.files })
}

/// The installed versions of `tool`, ascending.
pub(super) fn of_tool(root: &Path, tool: Tool) -> Vec<Installed> {
    versions(root, tool).into_iter().filter_map(|version| read(root, tool, version)).collect()
}

/// The versions of `tool` that have a folder, complete or not.
fn versions(root: &Path, tool: Tool) -> Vec<ToolkitVersion> {
    let folders = children(&root.join("toolkits").join(tool.name()));
    let mut versions: Vec<ToolkitVersion> =
        folders.iter().filter_map(|folder| folder.file_name()?.to_str()?.parse().ok()).collect();
    versions.sort_unstable();
    versions
}

/// Returns everything installed in the cache, by tool and version.
#[must_use]
pub fn installed(store: &Store) -> Vec<Installed> {
    Tool::ALL.into_iter().flat_map(|tool| of_tool(store.root(), tool)).collect()
}

/// Why something was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// No tool of that name is installed.
    #[error("`{name}` is not installed; installed are: {there}")]
    Unknown {
        /// The name.
        name: String,
        /// The installed tools.
        there: String,
    },
    /// The cache cannot be locked or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder cannot be moved away.
    #[error("cannot remove {}: {source}", path.display())]
    Write {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Removes the tools that `names` denote from the cache, and nothing else: `13.5` denotes every installed ptxas 13.5,
/// `nvrtc` or `nvrtc:13.0` that tool, `all` everything. Returns tools and versions.
///
/// # Errors
/// [`RemoveError`]; tools before the failing one stay removed.
pub fn remove(store: &Store, names: &[String]) -> Result<Vec<(Tool, ToolkitVersion)>, RemoveError> {
    let there: Vec<(Tool, ToolkitVersion)> = Tool::ALL
        .into_iter()
        .flat_map(|tool| versions(store.root(), tool).into_iter().map(move |version| (tool, version)))
        .collect();
    let mut chosen = Vec::new();
    for name in names {
        let (wanted, version) = match name.split_once(':') {
            Some((tool, version)) => (tool, version),
            None if Tool::named(name).is_some() => (name.as_str(), "all"),
            None => ("ptxas", name.as_str()),
        };
        let before = chosen.len();
        chosen.extend(there.iter().copied().filter(|(tool, installed)| {
            name == "all" || (tool.name() == wanted && (version == "all" || installed.is_named(version)))
        }));
        if chosen.len() == before && name != "all" {
            let all: Vec<String> = there.iter().map(|(tool, version)| format!("{tool}:{version}")).collect();
            let there = if all.is_empty() { "nothing".to_owned() } else { all.join(" ") };
            return Err(RemoveError::Unknown { name: name.clone(), there });
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    for (tool, version) in &chosen {
        let _lock = store.lock(&lock_name(*tool, *version))?;
        let path = folder(store.root(), *tool, *version);
        // Rename first, so that a half-deleted folder is never in a place where tools are searched for.
        let scratch = store.scratch()?;
        match fs::rename(&path, scratch.path().join("removed")) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(RemoveError::Write { path, source });
            }
            _ => {}
        }
    }
    Ok(chosen)
}
