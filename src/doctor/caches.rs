//! Cache folders of JIT compilers: users delete them after a change of driver or toolkit, and an audit reads them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::toolkit::Environment;

/// The most entries counted below one folder; if there are more, the count is a lower bound and marked as such.
const MOST: usize = 200_000;

/// A cache of compiled kernels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFolder {
    /// The program that owns it.
    pub owner: String,
    /// The path.
    pub path: PathBuf,
    /// The environment variable that sets the path; `None` for the default path.
    pub variable: Option<String>,
    /// The number of files in it; `None` if the folder does not exist.
    pub files: Option<u64>,
    /// The total size of the files, in bytes.
    pub bytes: u64,
    /// Whether there are more files than were counted.
    pub more: bool,
}

/// The location of a program's cache.
struct Place {
    owner: &'static str,
    /// Environment variables and the subfolder of each; the first that is set is used.
    variables: &'static [(&'static str, &'static str)],
    /// The path below the home folder, used if no variable is set.
    home: &'static str,
}

/// Sources: flashinfer/jit/env.py, triton/knobs.py, torch/utils/cpp_extension.py, vllm/envs.py, and the CUDA Programming Guide
/// (environment variables).
const PLACES: [Place; 5] = [
    Place {
        owner: "FlashInfer",
        variables: &[("FLASHINFER_WORKSPACE_BASE", ".cache/flashinfer")],
        home: ".cache/flashinfer",
    },
    Place {
        owner: "Triton",
        variables: &[("TRITON_CACHE_DIR", ""), ("TRITON_HOME", ".triton/cache")],
        home: ".triton/cache",
    },
    Place {
        owner: "PyTorch extensions",
        variables: &[("TORCH_EXTENSIONS_DIR", "")],
        home: ".cache/torch_extensions",
    },
    Place {
        owner: "vLLM",
        variables: &[("VLLM_CACHE_ROOT", ""), ("XDG_CACHE_HOME", "vllm")],
        home: ".cache/vllm",
    },
    Place {
        owner: "CUDA driver (JIT of PTX)",
        variables: &[("CUDA_CACHE_PATH", "")],
        home: ".nv/ComputeCache",
    },
];

/// Returns the cache folders of this user, including those that do not exist.
#[must_use]
pub fn caches(environment: &Environment) -> Vec<CacheFolder> {
    let mut folders: Vec<CacheFolder> = PLACES
        .iter()
        .filter_map(|place| {
            let named = place.variables.iter().find_map(|(name, below)| {
                let folder = environment.path(name)?;
                Some((if below.is_empty() { folder } else { folder.join(below) }, Some(*name)))
            });
            let (path, variable) =
                named.or_else(|| Some((environment.path("HOME")?.join(place.home), None)))?;
            Some(measured(place.owner, path, variable))
        })
        .collect();
    // Inductor's default is a folder in the temporary directory, named after the user
    // (torch/_inductor/runtime/cache_dir_utils.py).
    let inductor = environment.path("TORCHINDUCTOR_CACHE_DIR").map(|p| (p, Some("TORCHINDUCTOR_CACHE_DIR")));
    let default = || {
        let user = environment.path("USER").or_else(|| environment.path("LOGNAME"))?;
        let temporary = environment.path("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
        Some((temporary.join(format!("torchinductor_{}", user.display())), None))
    };
    folders.extend(inductor.or_else(default).map(|(path, v)| measured("PyTorch Inductor", path, v)));
    folders
}

fn measured(owner: &str, path: PathBuf, variable: Option<&str>) -> CacheFolder {
    let mut folder = CacheFolder {
        owner: owner.to_owned(),
        variable: variable.map(str::to_owned),
        files: None,
        bytes: 0,
        more: false,
        path,
    };
    if folder.path.is_dir() {
        let (files, bytes, more) = count(&folder.path);
        folder.files = Some(files);
        folder.bytes = bytes;
        folder.more = more;
    }
    folder
}

/// Counts the files below a folder and their bytes, and tells whether the limit was reached. Symbolic links are not followed.
fn count(root: &Path) -> (u64, u64, bool) {
    let (mut files, mut bytes, mut seen) = (0, 0, 0);
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MOST {
                return (files, bytes, true);
            }
            match entry.metadata() {
                Ok(data) if data.is_dir() => left.push(entry.path()),
                Ok(data) if data.is_file() => {
                    files += 1;
                    bytes += data.len();
                }
                _ => {}
            }
        }
    }
    (files, bytes, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &Path)]) -> Environment {
        Environment {
            vars: pairs.iter().map(|(k, v)| ((*k).into(), v.as_os_str().to_owned())).collect(),
            ..Environment::default()
        }
    }

    #[test]
    fn variables_win_over_defaults_and_files_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        let triton = home.join("elsewhere/cache/x");
        fs::create_dir_all(&triton).unwrap();
        fs::write(triton.join("a.cubin"), [0; 100]).unwrap();
        fs::write(triton.join("b.ptx"), [0; 11]).unwrap();
        std::os::unix::fs::symlink(&triton, triton.join("loop")).unwrap();
        let root = home.join("elsewhere/cache");
        let found =
            caches(&environment(&[("HOME", home), ("TRITON_CACHE_DIR", &root), ("USER", Path::new("u"))]));
        let of = |owner: &str| found.iter().find(|f| f.owner == owner).cloned().unwrap();
        let got = of("Triton");
        assert_eq!((got.files, got.bytes, got.more), (Some(2), 111, false));
        assert_eq!(got.variable.as_deref(), Some("TRITON_CACHE_DIR"));
        assert_eq!(of("FlashInfer").path, home.join(".cache/flashinfer"));
        assert_eq!(of("FlashInfer").files, None);
        assert_eq!(of("PyTorch Inductor").path, Path::new("/tmp/torchinductor_u"));
        assert!(caches(&Environment::default()).is_empty());
    }
}
