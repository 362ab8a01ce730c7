//! The programs of `tests/programs`: each checks its own results. nvcc builds them as a user does, with both runtimes where that matters.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use sm121probe::store::Store;

use super::build::{failed, missing, succeed};
use super::expect;
use crate::cuda::CUDA_13_5;
use crate::judge::Why;

/// A folder with the built programs, and nvcc.
struct Bench {
    cuda: PathBuf,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(store: &Store) -> Result<Self, Why> {
        let cuda = CUDA_13_5.unpacked(store).map_err(missing)?;
        let folder = tempfile::tempdir().map_err(missing)?;
        // The wheel has no file with the name that the linker looks for.
        symlink(cuda.join("lib/libcudart.so.13"), folder.path().join("libcudart.so")).map_err(missing)?;
        Ok(Self { cuda, folder })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds sources of `tests/programs`; returns the program or the library.
    fn build(&self, name: &str, sources: &[&str], options: &[&str]) -> Result<PathBuf, Why> {
        let made = self.file(name);
        let mut nvcc = Command::new(self.cuda.join("bin/nvcc"));
        nvcc.args(["-std=c++17", "-w", "-lineinfo", "-gencode", "arch=compute_121a,code=compute_121a"]);
        for folder in ["include", "include/cccl"] {
            nvcc.arg("-I").arg(self.cuda.join(folder));
        }
        // The wheel keeps libraries in `lib`; nvcc looks in `lib64`.
        for folder in [self.folder.path(), &self.cuda.join("lib")] {
            nvcc.arg("-L").arg(folder);
        }
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        nvcc.args(sources.iter().map(|source| programs.join(source)));
        nvcc.args(options).arg(driver()?).arg("-o").arg(&made);
        succeed(&mut nvcc)?;
        Ok(made)
    }
}

/// The library of `exec`, which the programs are linked with in place of the driver.
fn driver() -> Result<PathBuf, Why> {
    let beside = Path::new(env!("CARGO_BIN_EXE_sm121probe")).with_file_name("libsm121probe_cuda.so");
    let in_deps = beside.with_file_name("deps").join("libsm121probe_cuda.so");
    let modified = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    let built = [beside, in_deps].into_iter().filter(|path| path.is_file()).max_by_key(modified);
    built.ok_or_else(|| failed("libsm121probe_cuda.so is not built"))
}

/// Runs a command under `exec`; it must pass and print these words.
fn passes(options: &[&str], command: &[OsString], words: &[&str]) -> Result<(), Why> {
    let mut exec = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
    exec.arg("exec").args(options).arg("--").args(command);
    expect(&mut exec, true, &[words, &["no violation"]].concat()).map(drop)
}

pub(super) fn run(store: &Store) -> Result<(), Why> {
    let bench = Bench::new(store)?;
    let words = |paths: &[&PathBuf]| -> Vec<OsString> {
        paths.iter().map(|path| path.as_os_str().to_owned()).collect()
    };
    for runtime in ["static", "shared"] {
        let kernels = bench.build(&format!("kernels-{runtime}"), &["kernels.cu"], &["-cudart", runtime])?;
        passes(&[], &words(&[&kernels]), &["cooperative: right", "clusters: right", "areas: 1 launch,"])?;
        let objects = ["objects.cu", "objects_too.cu"];
        let options = ["-cudart", runtime, "-rdc=true", "-DNESTED", "-lcudadevrt"];
        let program = bench.build(&format!("objects-{runtime}"), &objects, &options)?;
        passes(&[], &words(&[&program]), &["objects are right", "parent: 1 launch,"])?;
        let options = ["-cudart", runtime, "-rdc=true", "-DLIBRARY", "-Xcompiler", "-fPIC", "-shared"];
        bench.build(&format!("libobjects-{runtime}.so"), &objects, &options)?;
    }
    let remedies = bench.build("remedies", &["remedies.cu"], &[])?;
    passes(&["--gpus", "2"], &words(&[&remedies]), &["questions: right", "ranks: right"])?;

    // Libraries that are loaded late, alone and together.
    let loader = bench.build("loader", &["loader.c"], &["-ldl"])?;
    let [one, other] = ["static", "shared"].map(|runtime| bench.file(&format!("libobjects-{runtime}.so")));
    for libraries in [&[&loader, &one][..], &[&loader, &other], &[&loader, &one, &other]] {
        let launches = format!("direct: {} launch", libraries.len() - 1);
        passes(&[], &words(libraries), &["objects are right", &launches])?;
    }

    let jit = bench.build("jit", &["jit.cu"], &[])?;
    let nvcc = bench.cuda.join("bin/nvcc");
    for options in
        [&["-cubin", "-arch=sm_121a"][..], &["-fatbin", "-gencode", "arch=compute_121a,code=sm_121a"]]
    {
        let mut command = words(&[&jit, &bench.folder.path().to_owned(), &nvcc]);
        command.extend(options.iter().map(OsString::from));
        passes(&[], &command, &["compiled kernels are right", "times: 2 launches,"])?;
    }
    Ok(())
}
