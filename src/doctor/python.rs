//! Finds the kernel packages that a Python would import and their locations, without importing any of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::worker::{self, Ended};

/// The time limit for Python, which allows for slow network folders.
const LIMIT: Duration = Duration::from_secs(30);

/// Looks up every package as `import` would, and reads its version from the installed metadata. Nothing is imported:
/// importing torch takes seconds, and importing a broken package fails.
const SCRIPT: &str = r#"
import importlib.metadata as metadata, importlib.util as util, json, sys
found = []
for module, names in json.loads(sys.argv[1]):
    try:
        spec = util.find_spec(module)
    except Exception:
        spec = None
    version = name = None
    for name in names:
        try:
            version = metadata.version(name)
            break
        except Exception:
            pass
    if spec is None and version is None:
        continue
    place = None if spec is None else spec.origin or next(iter(spec.submodule_search_locations or []), None)
    found.append({"module": module, "distribution": name if version else None, "version": version, "location": place})
print(json.dumps({"python": sys.version.split()[0], "executable": sys.executable, "packages": found}))
"#;

/// Modules that contain or compile SM12x kernels, and the distributions that provide them.
const MODULES: [(&str, &[&str]); 16] = [
    ("torch", &["torch"]),
    ("triton", &["triton"]),
    ("flashinfer", &["flashinfer-python", "flashinfer"]),
    ("flashinfer_cubin", &["flashinfer-cubin"]),
    ("flashinfer_jit_cache", &["flashinfer-jit-cache"]),
    ("vllm", &["vllm"]),
    ("sglang", &["sglang"]),
    ("sgl_kernel", &["sglang-kernel", "sgl-kernel"]),
    ("tensorrt_llm", &["tensorrt-llm", "tensorrt_llm"]),
    ("cutlass", &["nvidia-cutlass-dsl", "nvidia-cutlass"]),
    ("bitsandbytes", &["bitsandbytes"]),
    ("xformers", &["xformers"]),
    ("flash_attn", &["flash-attn"]),
    ("transformer_engine", &["transformer-engine"]),
    ("nvidia.cudnn", &["nvidia-cudnn-cu13", "nvidia-cudnn-cu12"]),
    ("nvidia_cutlass_dsl", &["nvidia-cutlass-dsl-libs-base"]),
];

/// A package as `import` finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// The name of the module.
    pub module: String,
    /// The distribution that provides it; `None` if it has no metadata.
    #[serde(default)]
    pub distribution: Option<String>,
    /// The version of the installed distribution; `None` if it has no metadata.
    pub version: Option<String>,
    /// The file or folder that would be imported; `None` if only the metadata of a removed package is left.
    pub location: Option<PathBuf>,
}

/// The packages of a Python.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packages {
    /// The Python version.
    pub python: String,
    /// The path of the interpreter.
    pub executable: PathBuf,
    /// The packages found, in a fixed order.
    pub packages: Vec<Package>,
}

/// Why the packages of a Python are unknown.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// Python cannot be started.
    #[error("cannot start Python at {}: {source}; set SM121PROBE_PYTHON to the Python that runs your models", python.display())]
    Start {
        /// The interpreter.
        python: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// Python failed, or its output is invalid.
    #[error("{} did not report what it would import: {said}", python.display())]
    Failed {
        /// The interpreter.
        python: PathBuf,
        /// The last line of its error output, or how it ended.
        said: String,
    },
}

/// Lists the packages that `python` would import.
///
/// # Errors
/// [`PythonError`] if Python cannot be started, fails or takes longer than 30 seconds.
pub fn packages(python: &Path) -> Result<Packages, PythonError> {
    let failed = |said: String| PythonError::Failed { python: python.to_owned(), said };
    let modules = serde_json::to_string(&MODULES).map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT, &modules]);
    let output = worker::run(&mut command, LIMIT)
        .map_err(|source| PythonError::Start { python: python.to_owned(), source })?;
    match output.ended {
        Ended::Exited(0) => serde_json::from_slice(&output.stdout)
            .map_err(|error| failed(format!("its answer is not JSON ({error})"))),
        Ended::TimedOut => Err(failed(format!("no answer within {} s", LIMIT.as_secs()))),
        Ended::Signalled(signal) => Err(failed(format!("killed by signal {signal}"))),
        Ended::Exited(code) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(failed(text.lines().last().map_or_else(|| format!("exit code {code}"), str::to_owned)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// Writes a Python that has an additional folder of packages.
    fn python_with(folder: &Path) -> PathBuf {
        let script = folder.join("python");
        let text = format!("#!/bin/sh\nPYTHONPATH='{}' exec python3 \"$@\"\n", folder.join("site").display());
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        script
    }

    #[test]
    fn packages_are_found_without_being_imported() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("site");
        fs::create_dir_all(site.join("flashinfer")).unwrap();
        fs::create_dir_all(site.join("flashinfer_python-0.7.2.dist-info")).unwrap();
        fs::create_dir_all(site.join("triton-3.5.0.dist-info")).unwrap();
        let imported = folder.path().join("imported");
        fs::write(
            site.join("flashinfer/__init__.py"),
            format!("open({:?}, 'w')\nraise ImportError", imported),
        )
        .unwrap();
        let metadata =
            |name: &str, version: &str| format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        fs::write(
            site.join("flashinfer_python-0.7.2.dist-info/METADATA"),
            metadata("flashinfer-python", "0.7.2"),
        )
        .unwrap();
        fs::write(site.join("triton-3.5.0.dist-info/METADATA"), metadata("triton", "3.5.0")).unwrap();
        let got = packages(&python_with(folder.path())).unwrap();
        let of = |module: &str| got.packages.iter().find(|p| p.module == module).cloned().unwrap();
        assert_eq!(of("flashinfer").version.as_deref(), Some("0.7.2"));
        assert_eq!(of("flashinfer").location, Some(site.join("flashinfer/__init__.py")));
        // Only metadata is left of this package.
        assert_eq!((of("triton").version.as_deref(), of("triton").location), (Some("3.5.0"), None));
        assert!(!imported.exists());
    }

    #[test]
    fn a_python_that_is_none_says_so() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(packages(&folder.path().join("absent")), Err(PythonError::Start { .. })));
        let script = folder.path().join("python");
        fs::write(&script, "#!/bin/sh\necho broken >&2\nexit 3\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(packages(&script).unwrap_err().to_string().ends_with("broken"));
        fs::write(&script, "#!/bin/sh\necho hello\n").unwrap();
        assert!(packages(&script).unwrap_err().to_string().contains("not JSON"));
    }
}
