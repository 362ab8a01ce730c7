//! Compiles a program of `programs/` with upstream headers to PTX and to a host program, linked with the recording runtime. Both are
//! cached by their inputs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sm121probe::store::{self, Store};
use sm121probe::worker::{self, Ended};

use super::cuda::Release;
use super::packages::{self, Package};

/// Time limit of a compilation.
const LIMIT: Duration = Duration::from_secs(900);

/// A program and its dependencies.
pub(crate) struct Source {
    /// File name in `programs/`, without its ending.
    pub(crate) program: &'static str,
    /// The package with upstream's source, and its folder in the cache.
    pub(crate) package: Option<(&'static Package, &'static str)>,
    /// Folders of that package to search for headers. Of a Python file, each constant that is CUDA as text becomes a header,
    /// `NAME.inc`: FlashInfer compiles such text at run time.
    pub(crate) includes: &'static [&'static str],
    /// The compiler.
    pub(crate) cuda: Release,
    /// Whether the kernels rely on the address at which a GPU places dynamic shared memory, beyond what they declare.
    pub(crate) fixed_shared: bool,
    /// Headers of another package that upstream's host functions include.
    pub(crate) interface: Option<Interface>,
    /// Further options of nvcc.
    pub(crate) options: &'static [&'static str],
}

/// The headers of a package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interface {
    /// The package.
    pub(crate) package: &'static Package,
    /// Its folder in the cache.
    pub(crate) folder: &'static str,
    /// Its folder with the headers.
    pub(crate) headers: &'static str,
}

/// A compiled program.
#[derive(Debug, Clone)]
pub(crate) struct Built {
    /// The PTX of all its kernels.
    pub(crate) ptx: String,
    /// The host program; its argument is the name of a case.
    pub(crate) host: PathBuf,
}

/// Compiles a program, or takes it from the cache.
///
/// # Errors
/// The reason, as text.
pub(crate) fn built(store: &Store, source: &Source) -> Result<Built, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream");
    let program = here.join("programs").join(source.program).with_extension("cu");
    let runtime = here.join("host/runtime.cpp");
    let mut key = format!("{:?} {:?}\n", source.includes, source.options);
    let mut files = vec![program.clone(), runtime.clone(), here.join("host/record.h")];
    add_headers(&here.join("host"), &program, &mut files)?;
    for path in &files {
        let sum = store::sha256_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        key += &format!("{sum}\n");
    }
    let upstream = source.package.map(|(package, _)| package);
    let interface = source.interface.map(|of| of.package);
    for package in source.cuda.packages.iter().copied().chain(upstream).chain(interface) {
        key += &format!("{}\n", package.sha256);
    }
    let name = format!("{}-{}", source.program, &store::sha256(key.as_bytes())[..16]);
    let folder = packages::folder(store).join("built").join(&name);
    let found = |folder: &Path| {
        let ptx = fs::read_to_string(folder.join("kernels.ptx")).ok()?;
        Some(Built { ptx, host: folder.join("host") })
    };
    if let Some(built) = found(&folder) {
        return Ok(built);
    }
    let _lock = store.lock(&format!("upstream-{name}")).map_err(|error| error.to_string())?;
    if let Some(built) = found(&folder) {
        return Ok(built);
    }
    let cuda = source.cuda.unpacked(store)?;
    let mut includes =
        vec![here.join("host"), here.join("host/absent"), cuda.join("include"), cuda.join("include/cccl")];
    let scratch = store.scratch().map_err(|error| error.to_string())?;
    if let Some(Interface { package, folder, headers }) = source.interface {
        // Before the stand-ins for headers that are absent.
        includes.insert(1, packages::unpacked_part(store, folder, package, headers)?.join(headers));
    }
    if let Some((package, at)) = source.package {
        let root = packages::unpacked(store, at, &[package])?;
        let (texts, folders): (Vec<_>, Vec<_>) =
            source.includes.iter().map(|name| root.join(name)).partition(|path| path.is_file());
        includes.splice(0..0, folders);
        for path in &texts {
            write_constants(path, scratch.path())?;
        }
        includes.extend((!texts.is_empty()).then(|| scratch.path().to_owned()));
    }
    let (object, host_object) = (scratch.path().join("program.o"), scratch.path().join("runtime.o"));
    let include = |path: &PathBuf| format!("-I{}", path.display());
    run(Command::new("g++")
        .args(["-std=c++17", "-O1", "-c"])
        .arg(&runtime)
        .arg("-o")
        .arg(&host_object)
        .arg(include(&cuda.join("include"))))?;
    run(Command::new(cuda.join("bin/nvcc"))
        .args([
            "-gencode",
            "arch=compute_121a,code=compute_121a",
            "-std=c++17",
            "--cudart",
            "none",
            "-w",
            "--keep",
        ])
        .arg("--keep-dir")
        .arg(scratch.path())
        .args(source.options)
        .args(includes.iter().map(include))
        .arg("-c")
        .arg(&program)
        .arg("-o")
        .arg(&object))?;
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(told)?;
    // Functions that no case calls may be missing; a call would end the program. Only a program at a fixed address may have such gaps.
    let missing = ["-no-pie", "-Wl,--unresolved-symbols=ignore-all"];
    run(Command::new("g++").arg(&object).arg(&host_object).args(missing).arg("-o").arg(folder.join("host")))?;
    // The PTX is written last: its presence means that the folder is complete.
    let ptx = fs::read(scratch.path().join(source.program).with_extension("ptx")).map_err(told)?;
    fs::write(folder.join("part"), &ptx).map_err(told)?;
    fs::rename(folder.join("part"), folder.join("kernels.ptx")).map_err(told)?;
    found(&folder).ok_or_else(|| format!("{} was built and cannot be read", folder.display()))
}

/// Adds the headers of this project that a file includes, and those that they include.
fn add_headers(folder: &Path, file: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    for line in text.lines() {
        let Some(header) = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) else {
            continue;
        };
        let header = folder.join(header);
        if header.is_file() && !files.contains(&header) {
            files.push(header.clone());
            add_headers(folder, &header, files)?;
        }
    }
    Ok(())
}

/// Writes each constant of a Python file that is raw text over several lines as a header, `NAME.inc`.
fn write_constants(file: &Path, folder: &Path) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut rest = text.as_str();
    while let Some((before, behind)) = rest.split_once(" = r\"\"\"") {
        let name = before.lines().next_back().unwrap_or_default();
        let (constant, behind) =
            behind.split_once("\"\"\"").ok_or_else(|| format!("{}: {name} has no end", file.display()))?;
        fs::write(folder.join(name).with_extension("inc"), constant).map_err(|error| error.to_string())?;
        rest = behind;
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = worker::run(command, LIMIT).map_err(|error| format!("cannot start {name}: {error}"))?;
    match output.ended {
        Ended::Exited(0) => Ok(()),
        _ => Err(format!("{name} failed: {}", output.text().chars().take(4000).collect::<String>())),
    }
}
