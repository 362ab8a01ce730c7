//! Prepares Python programs for `exec`.
//!
//! CuTe DSL's host code calls the simulated GPU's library instead of its own runtime, and keeps the PTX of the kernels that it
//! compiles. `cuda.bindings.runtime` calls `libcudart` instead of its built-in static runtime, whose functions its file does not name. CuPy and
//! numba keep what they compile in a folder of the run.

use std::io;
use std::path::Path;
use std::process::Command;

/// The file name of CuTe DSL's runtime.
const RUNTIME: &str = "libcute_dsl_runtime.so";

/// The code that Python runs at startup.
const START: &str = include_str!("cuda_bindings.py");

/// The folders in which packages keep what they have compiled, by the variables that name them, and the names of those of a run.
const COMPILED: [(&str, &str); 2] = [("CUPY_CACHE_DIR", "cupy"), ("NUMBA_CACHE_DIR", "numba")];

/// Prepares `command`; `library` is the simulated GPU's library, `folder` the temporary folder of the run.
pub(super) fn offer(command: &mut Command, library: &Path, folder: &Path) -> io::Result<()> {
    let runtime = folder.join(RUNTIME);
    std::os::unix::fs::symlink(library, &runtime)?;
    command.env("CUTE_DSL_LIBS", runtime);
    // The machine code is kept with the PTX, to match a loaded module with its PTX. Older versions read the last two variables.
    let kept = std::env::var("CUTE_DSL_KEEP").unwrap_or_default();
    let kept = if kept.is_empty() { "ptx,cubin".to_owned() } else { format!("{kept},ptx,cubin") };
    command.env("CUTE_DSL_KEEP", kept).env("CUTE_DSL_KEEP_PTX", "1").env("CUTE_DSL_KEEP_CUBIN", "1");
    if std::env::var_os("CUTE_DSL_DUMP_DIR").is_none() {
        let dump = folder.join("cute_dsl");
        std::fs::create_dir(&dump)?;
        command.env("CUTE_DSL_DUMP_DIR", dump);
    }

    // Machine code that a GPU's runs have kept has no PTX, and what is kept here is no machine code.
    for (variable, name) in COMPILED {
        let kept = folder.join(name);
        std::fs::create_dir(&kept)?;
        command.env(variable, kept);
    }

    let python = folder.join("python");
    std::fs::create_dir(&python)?;
    std::fs::write(python.join("sitecustomize.py"), START)?;
    let path = std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty());
    let folders = std::iter::once(python)
        .chain(path.iter().flat_map(|path| std::env::split_paths(path).collect::<Vec<_>>()));
    command.env("PYTHONPATH", std::env::join_paths(folders).map_err(io::Error::other)?);
    Ok(())
}
