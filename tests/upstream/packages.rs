//! The packages with upstream's sources and compilers: fetched by name with pip, verified by SHA-256, unpacked once into the cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sm121probe::store::{self, Store};
use sm121probe::toolkit::PipSource;
use sm121probe::worker::{self, Ended};

/// Time limit of a download.
const LIMIT: Duration = Duration::from_secs(900);

/// One file of a package index.
#[derive(Debug)]
pub(crate) struct Package {
    /// The project's name.
    pub(crate) name: &'static str,
    /// Its version.
    pub(crate) version: &'static str,
    /// A wheel, or the archive of a source distribution.
    pub(crate) file: &'static str,
    /// SHA-256 of the file.
    pub(crate) sha256: &'static str,
}

/// llama.cpp, from its Python bindings.
pub(crate) static LLAMA: Package = Package {
    name: "llama-cpp-python",
    version: "0.3.36",
    file: "llama_cpp_python-0.3.36.tar.gz",
    sha256: "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
};

/// FlashInfer, with its copy of CUTLASS.
pub(crate) static FLASHINFER: Package = Package {
    name: "flashinfer-python",
    version: "0.7.2.post1",
    file: "flashinfer_python-0.7.2.post1-py3-none-any.whl",
    sha256: "bfdc18b9e1e4d8d0730fe4343dc0e284cd0c160086de80f99888bc4867922d49",
};

/// The FlashInfer of July 2026, the last before its pull request 4161, which concerns XQA.
pub(crate) static FLASHINFER_0_6_14: Package = Package {
    name: "flashinfer-python",
    version: "0.6.14",
    file: "flashinfer_python-0.6.14-py3-none-any.whl",
    sha256: "d124369346a3d48eac67e31c42f7a3c813bcc0abc10e2e36db413b7b3dfd97df",
};

/// DeepGEMM, with its copy of CUTLASS.
pub(crate) static DEEPGEMM: Package = Package {
    name: "sgl-deep-gemm",
    version: "0.2.5",
    file: "sgl_deep_gemm-0.2.5-py3-none-manylinux2014_x86_64.whl",
    sha256: "e13778e53f682b806dd2c799b5ad81701114d9346044643a8df7589a845f34e6",
};

/// SGLang, which compiles its port of vLLM's Marlin at run time.
pub(crate) static SGLANG: Package = Package {
    name: "sglang",
    version: "0.5.23",
    file: "sglang-0.5.23-cp311-cp311-manylinux_2_34_x86_64.whl",
    sha256: "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937",
};

/// What SGLang's FlashAttention 4 imports.
pub(crate) static FLASH_ATTENTION_4_IMPORTS: [&Package; 2] = [
    &Package {
        name: "quack-kernels",
        version: "0.6.5",
        file: "quack_kernels-0.6.5-py3-none-any.whl",
        sha256: "df1ddd31366c82eb9692fe087c671209189dcbde53c909c81a865d4ee66b158d",
    },
    &TVM_FFI,
];

/// The interface by which Python calls host functions of FlashInfer and SGLang.
pub(crate) static TVM_FFI: Package = Package {
    name: "apache-tvm-ffi",
    version: "0.1.11",
    file: "apache_tvm_ffi-0.1.11-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
    sha256: "87f84e7c2393fadac340fd179a631a697effe54d7317b2543e0930452a0a673d",
};

/// vLLM, of which only attention in Triton's language is unpacked.
pub(crate) static VLLM: Package = Package {
    name: "vllm",
    version: "0.33.0",
    file: "vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl",
    sha256: "4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa",
};

/// CUTLASS, with its examples.
pub(crate) static CUTLASS: Package = Package {
    name: "nvidia-cutlass",
    version: "4.2.0.0",
    file: "nvidia_cutlass-4.2.0.0-py3-none-any.whl",
    sha256: "f9599ada45c7bcb6bf53f7d3f0a7d154183e53451c01bfa59eecd37dd4a693f6",
};

/// Triton, for the Python of [`TRITON_PYTHON`].
pub(crate) static TRITON: Package = Package {
    name: "triton",
    version: "3.9.0",
    file: "triton-3.9.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
    sha256: "1622118a038b0c6e16fa4a0305da62c8b3c15904ee1cc4d4e65846a25969e41e",
};

/// The oldest Triton with good support for SM12x.
pub(crate) static TRITON_3_4: Package = Package {
    name: "triton",
    version: "3.4.0",
    file: "triton-3.4.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
    sha256: "7b70f5e6a41e52e48cfc087436c8a28c17ff98db369447bcaff3b887a3ab4467",
};

/// The Python tag of Triton's wheels.
pub(crate) const TRITON_PYTHON: &str = "cpython-311";

/// Whether to fetch packages, and fail trials that cannot run.
pub(crate) fn required() -> bool {
    std::env::var("SM121PROBE_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|word| word.trim() == "upstream"))
}

/// Where packages and the programs built from them are cached.
pub(crate) fn folder(store: &Store) -> PathBuf {
    store.root().join("upstream")
}

/// Returns the folder into which these packages are unpacked together.
///
/// # Errors
/// Why one is unavailable, as text.
pub(crate) fn unpacked(store: &Store, name: &str, packages: &[&Package]) -> Result<PathBuf, String> {
    unpacked_below(store, name, packages, "")
}

/// Returns the folder into which a part of a wheel is unpacked: the files below one of its folders, or all if that is empty.
///
/// # Errors
/// Why the package is unavailable, as text.
pub(crate) fn unpacked_part(
    store: &Store,
    name: &str,
    package: &Package,
    part: &str,
) -> Result<PathBuf, String> {
    unpacked_below(store, name, &[package], part)
}

fn unpacked_below(store: &Store, name: &str, packages: &[&Package], part: &str) -> Result<PathBuf, String> {
    let folder = folder(store).join(name);
    let done = folder.join("unpacked");
    let below = if part.is_empty() { String::new() } else { format!(" {part}") };
    let wanted: String = packages.iter().map(|p| format!("{} {}{below}\n", p.sha256, p.file)).collect();
    let _lock = store.lock(&format!("upstream-{name}")).map_err(|error| error.to_string())?;
    if fs::read_to_string(&done).is_ok_and(|there| there == wanted) {
        return Ok(folder);
    }
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(told)?;
    }
    fs::create_dir_all(&folder).map_err(told)?;
    for package in packages {
        let file = fetched(store, package)?;
        unpack(&file, &folder, part)?;
    }
    fs::write(&done, wanted).map_err(told)?;
    Ok(folder)
}

/// The package's file in the cache.
fn fetched(store: &Store, package: &Package) -> Result<PathBuf, String> {
    let folder = folder(store).join("files");
    let path = folder.join(package.file);
    let whole = |path: &Path| store::sha256_file(path).is_ok_and(|sum| sum == package.sha256);
    if whole(&path) {
        return Ok(path);
    }
    if !required() {
        return Err(format!(
            "{} {} is not in the cache; SM121PROBE_REQUIRE=upstream fetches it",
            package.name, package.version
        ));
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let source = PipSource::from_environment();
    let requirement = format!("{}=={}", package.name, package.version);
    let form = if package.file.ends_with(".whl") { "--only-binary" } else { "--no-binary" };
    let mut command = source.download(&requirement, &folder, [form, package.name]);
    let output = worker::run(&mut command, LIMIT)
        .map_err(|error| format!("cannot start Python at {}: {error}", source.python.display()))?;
    if !matches!(output.ended, Ended::Exited(0)) {
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        return Err(format!("pip could not fetch {} {}: {last}", package.name, package.version));
    }
    if !path.is_file() {
        return Err(format!(
            "pip fetched another file of {} {} than {}",
            package.name, package.version, package.file
        ));
    }
    if whole(&path) {
        Ok(path)
    } else {
        Err(format!("{} has another SHA-256 than {}", package.file, package.sha256))
    }
}

fn unpack(file: &Path, folder: &Path, part: &str) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| format!("{} cannot be unpacked: {error}", file.display());
    if file.extension().is_some_and(|ending| ending == "whl") {
        let mut archive = zip::ZipArchive::new(File::open(file).map_err(|error| told(&error))?)
            .map_err(|error| told(&error))?;
        if part.is_empty() {
            return archive.extract(folder).map_err(|error| told(&error));
        }
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index).map_err(|error| told(&error))?;
            // A path that leaves the folder has no enclosed name.
            let Some(path) = entry.enclosed_name().filter(|path| path.starts_with(part)) else { continue };
            if entry.is_dir() {
                continue;
            }
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(|error| told(&error))?;
            let mut out = File::create(&path).map_err(|error| told(&error))?;
            std::io::copy(&mut entry, &mut out).map_err(|error| told(&error))?;
        }
        Ok(())
    } else {
        let ended = Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(folder).status();
        let ended = ended.map_err(|error| told(&error))?;
        if ended.success() { Ok(()) } else { Err(told(&"tar failed")) }
    }
}

/// Makes every file of a folder executable, since wheels do not mark executables.
pub(crate) fn executable(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())?.flatten() {
        if entry.path().is_file() {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o755))
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
