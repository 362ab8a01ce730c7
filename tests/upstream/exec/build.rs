//! Host programs with the shared CUDA runtime and PTX, built once and cached by their inputs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sm121probe::store::{self, Store};
use sm121probe::worker::{self, Ended};

use crate::cuda::{CUDA_13_0, CUDA_13_5, Release};
use crate::judge::Why;
use crate::packages::{self, CUTLASS, Package};

/// Time limit of a compilation.
const LIMIT: Duration = Duration::from_secs(900);

/// The environment variable that makes an example change a byte of its scale factors on the host after the GPU has its copy.
pub(super) const BREAK_SCALES: &str = "BREAK_SCALES";

/// A built program.
pub(super) struct Built {
    pub(super) program: PathBuf,
}

/// What to compile, with which options.
struct Source<'a> {
    release: Release,
    name: &'a str,
    /// The target of the PTX.
    arch: &'a str,
    files: &'a [PathBuf],
    includes: Vec<PathBuf>,
    options: &'a [&'a str],
}

pub(super) fn missing(error: impl ToString) -> Why {
    Why::Missing(error.to_string())
}

pub(super) fn failed(error: impl ToString) -> Why {
    Why::Failed(error.to_string())
}

/// A program of `programs/` that prints digests, with PTX for an H100 or H200.
pub(super) fn whole(
    store: &Store,
    program: &str,
    package: Option<(&'static Package, &str)>,
    folders: &[&str],
) -> Result<Built, Why> {
    whole_for(store, (CUDA_13_0, "90"), program, package, folders)
}

/// A program that uses CUB, of CUDA 13.5, with PTX for a GB10.
pub(super) fn cub_for_gb10(store: &Store, program: &str) -> Result<Built, Why> {
    whole_for(store, (CUDA_13_5, "121"), program, None, &[])
}

fn whole_for(
    store: &Store,
    (release, arch): (Release, &str),
    program: &str,
    package: Option<(&'static Package, &str)>,
    folders: &[&str],
) -> Result<Built, Why> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream");
    let mut includes = vec![here.join("host"), here.join("host/absent")];
    if let Some((package, at)) = package {
        let root = packages::unpacked(store, at, &[package]).map_err(missing)?;
        includes.splice(0..0, folders.iter().map(|folder| root.join(folder)));
    }
    let source = here.join("programs").join(program).with_extension("cu");
    // Functions that no case calls may be missing. Only a program at a fixed address may have such gaps.
    let options = ["-w", "-Xlinker", "--unresolved-symbols=ignore-all", "-Xlinker", "-no-pie"];
    let files = [source, here.join("host/whole.cpp")];
    built(store, &Source { release, name: program, arch, files: &files, includes, options: &options })
}

/// An example of CUTLASS, which changes a byte of its scale factors on the host if [`BREAK_SCALES`] is set.
pub(super) fn cutlass(store: &Store, example: &str) -> Result<PathBuf, Why> {
    let root = packages::unpacked(store, "cutlass", &[&CUTLASS]).map_err(missing)?;
    let root = root.join("cutlass_library/source");
    let path = root.join("examples/79_blackwell_geforce_gemm").join(example).with_extension("cu");
    let text = fs::read_to_string(&path).map_err(|error| missing(format!("{}: {error}", path.display())))?;
    let copied = ["block_SFA.sync_device();", "block_SFA.at(i).sync_device();"];
    let line = copied.into_iter().find(|line| text.contains(line));
    let line = line.ok_or_else(|| failed(format!("{} copies no scale factors", path.display())))?;
    let data = line.replace("sync_device();", "host_data()");
    let changed =
        format!("{line} if (getenv(\"{BREAK_SCALES}\")) *reinterpret_cast<unsigned char*>({data}) ^= 8;");
    let scratch = store.scratch().map_err(missing)?;
    let file = scratch.path().join(example).with_extension("cu");
    fs::write(&file, text.replace(line, &changed)).map_err(missing)?;
    let includes = ["include", "tools/util/include", "examples/common"].map(|folder| root.join(folder));
    let options = ["-w", "--expt-relaxed-constexpr", "-lineinfo"];
    let source = Source {
        release: CUDA_13_0,
        name: example,
        arch: "121a",
        files: &[file],
        includes: includes.to_vec(),
        options: &options,
    };
    Ok(built(store, &source)?.program)
}

fn built(store: &Store, source: &Source<'_>) -> Result<Built, Why> {
    let mut key = format!("{} {:?} {:?}\n", source.arch, source.includes, source.options);
    for file in source.files {
        key += &store::sha256_file(file).map_err(|error| missing(format!("{}: {error}", file.display())))?;
    }
    for package in source.release.packages {
        key += package.sha256;
    }
    let name = format!("{}-{}", source.name, &store::sha256(key.as_bytes())[..16]);
    let folder = packages::folder(store).join("built");
    let program = folder.join(&name);
    let _lock = store.lock(&format!("upstream-{name}")).map_err(missing)?;
    if program.is_file() {
        return Ok(Built { program });
    }
    let cuda = source.release.unpacked(store).map_err(missing)?;
    let scratch = store.scratch().map_err(missing)?;
    // The wheel has no file with the name that the linker looks for.
    std::os::unix::fs::symlink(cuda.join("lib/libcudart.so.13"), scratch.path().join("libcudart.so"))
        .map_err(missing)?;
    let made = scratch.path().join("program");
    let mut nvcc = Command::new(cuda.join("bin/nvcc"));
    nvcc.args(["-std=c++17", "-O1", "-cudart", "shared", "-gencode"])
        .arg(format!("arch=compute_{0},code=compute_{0}", source.arch))
        .args(source.options);
    let own = [cuda.join("include"), cuda.join("include/cccl")];
    for folder in source.includes.iter().chain(&own) {
        nvcc.arg("-I").arg(folder);
    }
    // The wheel keeps libraries in `lib`; nvcc looks in `lib64`.
    for folder in [scratch.path(), &cuda.join("lib")] {
        nvcc.arg("-L").arg(folder);
    }
    nvcc.args(source.files).arg("-o").arg(&made);
    succeed(&mut nvcc)?;
    fs::create_dir_all(&folder).map_err(missing)?;
    fs::copy(&made, folder.join(format!("{name}.part"))).map_err(missing)?;
    fs::rename(folder.join(format!("{name}.part")), &program).map_err(missing)?;
    Ok(Built { program })
}

/// Runs a compiler.
pub(super) fn succeed(nvcc: &mut Command) -> Result<(), Why> {
    let output = worker::run(nvcc, LIMIT).map_err(|error| missing(format!("nvcc: {error}")))?;
    match output.ended {
        Ended::Exited(0) => Ok(()),
        _ => Err(failed(format!("nvcc failed: {}", output.text().chars().take(4000).collect::<String>()))),
    }
}
