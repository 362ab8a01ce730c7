//! Kernels in Triton's language: a Python program compiles them without a GPU and writes launch files, which the library reads like
//! `emulate`, with the additions of Triton's launcher.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use emulator::GlobalMemory;
use sm121probe::event::Silent;
use sm121probe::job::Context;
use sm121probe::job::launch::{self, Initial, Session};
use sm121probe::store::{self, Store};
use sm121probe::toolkit::PipSource;
use sm121probe::worker::{self, Ended};

use super::packages::{self, Package, TRITON_PYTHON};
use super::recording::{Buffer, Launch, Recording, Step};

/// Time limit for all cases of a program.
const LIMIT: Duration = Duration::from_secs(600);

/// A version of Triton that compiles `programs/triton_kernels.py`.
pub(crate) struct Source {
    /// The wheel.
    pub(crate) package: &'static Package,
    /// Its folder in the cache.
    pub(crate) folder: &'static str,
}

/// The folders of the cases.
///
/// # Errors
/// Why they are unavailable, as text.
pub(crate) fn compiled(store: &Store, source: &Source) -> Result<PathBuf, String> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream/programs/triton_kernels.py");
    let sum = store::sha256_file(&program).map_err(|error| format!("{}: {error}", program.display()))?;
    let key = store::sha256(format!("{sum} {}", source.package.sha256).as_bytes());
    let name = format!("{}-{}", source.folder, &key[..16]);
    let folder = packages::folder(store).join("built").join(&name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let _lock = store.lock(&format!("upstream-{name}")).map_err(|error| error.to_string())?;
    if folder.is_dir() {
        return Ok(folder);
    }
    let python = PipSource::from_environment().python;
    let tag = run(Command::new(&python).args(["-c", "import sys; print(sys.implementation.cache_tag)"]))?;
    if tag.trim() != TRITON_PYTHON {
        return Err(format!(
            "the wheel of Triton is for {TRITON_PYTHON}, and {} is {}; SM121PROBE_PYTHON names another Python",
            python.display(),
            tag.trim()
        ));
    }
    let package = packages::unpacked(store, source.folder, &[source.package])?;
    packages::executable(&package.join("triton/backends/nvidia/bin"))?;
    let scratch = store.scratch().map_err(|error| error.to_string())?;
    let made = scratch.path().join("cases");
    run(Command::new(&python)
        .arg(&program)
        .arg(&made)
        .env("PYTHONPATH", &package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TRITON_CACHE_DIR", scratch.path().join("cache"))
        // Triton's default up to 3.9, which warns that it will change.
        .env("TRITON_DEFAULT_FP_FUSION", "1"))?;
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(packages::folder(store).join("built")).map_err(told)?;
    fs::rename(&made, &folder).map_err(told)?;
    Ok(folder)
}

/// The PTX of a case and its launches.
///
/// # Errors
/// The fault of its launch file, as text.
pub(crate) fn recorded(folder: &Path) -> Result<(String, Recording), String> {
    let context = Context { program: PathBuf::new(), libraries: None, sink: &Silent };
    let session =
        launch::from_file(&folder.join("launch.yaml"), &context).map_err(|error| error.to_string())?;
    let recording = Recording { fixed_shared: true, ..recording(&session)? };
    let [module] = session.modules.as_slice() else { return Err("a case has one module".to_owned()) };
    Ok((module.text.clone(), recording))
}

/// The buffers and launches of a launch file.
///
/// # Errors
/// The feature of it that a recording lacks, as text.
pub(crate) fn recording(session: &Session) -> Result<Recording, String> {
    let mut layout = GlobalMemory::default();
    let mut all = Recording::default();
    for buffer in &session.buffers {
        let reserved = layout.reserve(buffer.shape.bytes as u64).ok_or("the buffers are too large")?;
        let address = buffer.address.unwrap_or(reserved);
        let name = (!buffer.scratch).then(|| buffer.name.clone());
        all.buffers.push(Buffer { address, bytes: buffer.shape.bytes, name });
    }
    let addresses: Vec<u64> = all.buffers.iter().map(|buffer| buffer.address).collect();
    for (buffer, address) in session.buffers.iter().zip(&addresses) {
        match &buffer.initial {
            Initial::Unwritten => {}
            Initial::Bytes(bytes) => all.steps.push(Step::Write(*address, bytes.clone())),
            Initial::Lent(host) => all.steps.push(Step::Write(*address, host.bytes().to_vec())),
            Initial::Value(value) => all.steps.push(Step::Write(*address, value.bytes(&addresses)?)),
            Initial::There(_) => return Err("a launch file starts on empty memory".to_owned()),
        }
    }
    for step in &session.steps {
        let mut arguments = Vec::new();
        for value in &step.args {
            arguments.extend(value.bytes(&addresses)?);
        }
        all.steps.push(Step::Launch(Launch {
            entry: step.entry.clone(),
            grid: step.grid,
            block: step.block,
            shared_bytes: step.shared_bytes,
            cluster: step.cluster.unwrap_or([1; 3]),
            programmatic: false,
            cooperative: step.cooperative,
            arguments,
        }));
    }
    Ok(all)
}

/// What a program prints.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = worker::run(command, LIMIT).map_err(|error| format!("cannot start {name}: {error}"))?;
    match output.ended {
        Ended::Exited(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => Err(format!("{name} failed: {}", output.text().chars().take(4000).collect::<String>())),
    }
}
