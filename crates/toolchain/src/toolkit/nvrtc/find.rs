//! Finds the NVRTCs of a machine: installed ones, Python wheels, CUDA toolkits.

use std::fs;
use std::path::{Path, PathBuf};

use ptx::arch::ToolkitVersion;

use crate::store::{self, Store};
use crate::toolkit::environment::{Environment, children};
use crate::toolkit::installed;
use crate::toolkit::pins::{Arch, Tool};
use crate::toolkit::places::Origin;

/// An NVRTC library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nvrtc {
    /// Its version; the patch is 0 if nothing near the library tells it.
    pub version: ToolkitVersion,
    /// The library, with links resolved.
    pub library: PathBuf,
    /// The matching library of built-ins.
    pub builtins: Option<PathBuf>,
    /// Where it was found.
    pub origin: Origin,
    /// The hash from the manifest, if we installed it.
    pub(super) sha256: Option<String>,
}

impl Nvrtc {
    /// SHA-256 of the library; computed once per file and cached.
    pub(super) fn sha256(&self, store: Option<&Store>) -> std::io::Result<String> {
        use std::os::unix::fs::MetadataExt;
        if let Some(known) = &self.sha256 {
            return Ok(known.clone());
        }
        let meta = fs::metadata(&self.library)?;
        let identity =
            format!("{} {} {} {}", self.library.display(), meta.len(), meta.mtime(), meta.mtime_nsec());
        let key = store::sha256(identity.as_bytes());
        let known = store.and_then(|s| s.get("nvrtc-hash", &key)).and_then(|b| String::from_utf8(b).ok());
        if let Some(known) = known {
            return Ok(known);
        }
        let sha256 = store::sha256_file(&self.library)?;
        if let Some(store) = store {
            // A cache that cannot be written costs time, not the result.
            let _ = store.put("nvrtc-hash", &key, sha256.as_bytes());
        }
        Ok(sha256)
    }
}

/// Returns every NVRTC of the machine by version, ascending; within a version, the preferred first. Loads no library.
#[must_use]
pub fn nvrtcs(store: Option<&Store>, environment: &Environment) -> Vec<Nvrtc> {
    let mut found = Vec::new();
    if let Some(store) = store {
        for entry in installed::of_tool(store.root(), Tool::Nvrtc) {
            let names: Vec<PathBuf> = entry.files.iter().map(|f| entry.folder.join(&f.path)).collect();
            let library = names.iter().find(|p| is_library(p));
            if let Some(library) = library.filter(|l| Some(entry.arch) == Arch::host() && l.exists()) {
                found.push(Nvrtc {
                    version: entry.version,
                    library: library.clone(),
                    builtins: names.iter().find(|p| builtins_version(p).is_some()).cloned(),
                    origin: Origin::Cache,
                    sha256: entry.sha256_of(library),
                });
            }
        }
    }
    for name in ["CUDA_HOME", "CUDA_PATH"] {
        for library in ["lib64", "lib"] {
            let home = environment.path(name).map(|home| home.join(library));
            found.extend(home.and_then(|folder| in_folder(&folder, Origin::CudaHome, &[])));
        }
    }
    for folder in children(&environment.root.join("usr/local")) {
        if folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"cuda")) {
            found.extend(in_folder(&folder.join("lib64"), Origin::System, &[]));
        }
    }
    for prefix in environment.conda_prefixes() {
        found.extend(in_folder(&prefix.join("lib"), Origin::Conda, &[]));
    }
    for site in environment.site_packages() {
        let versions = wheel_versions(&site);
        // nvidia/cu13/lib, nvidia/cuda_nvrtc/lib.
        for package in children(&site.join("nvidia")) {
            found.extend(in_folder(&package.join("lib"), Origin::Python, &versions));
        }
        found.extend(in_folder(&site.join("torch/lib"), Origin::Torch, &versions));
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|nvrtc| seen.insert(nvrtc.library.clone()));
    // The sort is stable, so the preferred NVRTC of a version stays first.
    found.sort_by_key(|nvrtc| nvrtc.version);
    found
}

/// The NVRTC in a folder of libraries.
fn in_folder(folder: &Path, origin: Origin, versions: &[ToolkitVersion]) -> Option<Nvrtc> {
    let files = children(folder);
    let library = files.iter().find(|f| is_library(f))?;
    let builtins = files.iter().find(|f| builtins_version(f).is_some())?;
    let (major, minor, patch) = builtins_version(&fs::canonicalize(builtins).ok()?)?;
    let patch = patch.or_else(|| {
        versions.iter().find(|v| (v.major, v.minor) == (major, minor)).map(|version| version.patch)
    });
    Some(Nvrtc {
        version: ToolkitVersion { major, minor, patch: patch.unwrap_or(0) },
        library: fs::canonicalize(library).ok()?,
        builtins: Some(builtins.clone()),
        origin,
        sha256: None,
    })
}

/// Whether this is `libnvrtc.so.13`, and not a static or alternative library.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    name.strip_prefix("libnvrtc.so.").is_some_and(|v| v.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

/// The version in `libnvrtc-builtins.so.13.5` or `libnvrtc-builtins.so.13.5.37`.
fn builtins_version(path: &Path) -> Option<(u16, u16, Option<u16>)> {
    let name = path.file_name()?.to_str()?.strip_prefix("libnvrtc-builtins.so.")?;
    let mut numbers = name.split('.').map(|n| n.parse::<u16>().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next().flatten()))
}

/// Versions of NVRTC wheels, from their metadata folders: `nvidia_cuda_nvrtc_cu12-12.8.93.dist-info`.
fn wheel_versions(site: &Path) -> Vec<ToolkitVersion> {
    let version = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".dist-info")?.to_owned();
        name.strip_prefix("nvidia_cuda_nvrtc")?.rsplit_once('-')?.1.parse().ok()
    };
    children(site).into_iter().filter_map(version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_is_found_with_its_version_and_nothing_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("site");
        let lib = site.join("nvidia/cu13/lib");
        fs::create_dir_all(&lib).unwrap();
        fs::create_dir_all(site.join("nvidia_cuda_nvrtc-13.5.37.dist-info")).unwrap();
        for name in ["libnvrtc.so.13", "libnvrtc-builtins.so.13.5", "libnvrtc.alt.so.13", "libnvrtc_static.a"]
        {
            fs::write(lib.join(name), "no library").unwrap();
        }
        let vars = [("PYTHONPATH".into(), site.clone().into_os_string())].into_iter().collect();
        let environment = Environment { vars, folder: dir.path().into(), root: dir.path().into() };
        let found = nvrtcs(None, &environment);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].version.to_string(), "13.5.37");
        assert!(found[0].library.ends_with("libnvrtc.so.13"));
        assert_eq!(found[0].origin, Origin::Python);
    }
}
