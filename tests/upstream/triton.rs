//! Kernels in Triton's language: a Python program compiles them without a GPU and writes launch files, which the library reads like
//! `emulate`, with the additions of Triton's launcher. The kernels are the program's own, or upstream's, with the launches of its host code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use emulator::GlobalMemory;
use sm121probe::event::Silent;
use sm121probe::job::Context;
use sm121probe::job::launch::{self, Initial, Module, Session};
use sm121probe::store::{self, Store};
use sm121probe::toolkit::PipSource;
use sm121probe::worker::{self, Ended};

use super::packages::{self, Package, TRITON_PYTHON};
use super::recording::{Buffer, Launch, Recording, Step};

/// Time limit for all cases of a program.
const LIMIT: Duration = Duration::from_secs(600);

/// A program and the version of Triton that compiles it.
pub(crate) struct Source {
    /// File name in `programs/`.
    pub(crate) program: &'static str,
    /// Triton's wheel.
    pub(crate) triton: &'static Package,
    /// Its folder in the cache.
    pub(crate) folder: &'static str,
    /// The project whose kernels and host functions the program imports.
    pub(crate) upstream: Option<&'static Upstream>,
}

/// The project that kernels come from.
pub(crate) struct Upstream {
    /// The wheel.
    pub(crate) package: &'static Package,
    /// Its folder in the cache.
    pub(crate) folder: &'static str,
    /// The folder of the wheel that is unpacked; all of it if this is empty.
    pub(crate) part: &'static str,
}

/// The folders of the cases.
///
/// # Errors
/// Why they are unavailable, as text.
pub(crate) fn compiled(store: &Store, source: &Source) -> Result<PathBuf, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream");
    let program = here.join("programs").join(source.program);
    let stand_ins = here.join("host/triton");
    let mut key = source.triton.sha256.to_owned();
    let mut inputs = vec![program.clone()];
    if let Some(upstream) = source.upstream {
        key += upstream.package.sha256;
        inputs.extend(["torch.py", "recorder.py"].map(|name| stand_ins.join(name)));
    }
    for path in &inputs {
        key += &store::sha256_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let name = format!("{}-{}", source.folder, &store::sha256(key.as_bytes())[..16]);
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
    let triton = packages::unpacked(store, source.folder, &[source.triton])?;
    packages::executable(&triton.join("triton/backends/nvidia/bin"))?;
    let mut path = vec![triton];
    if let Some(Upstream { package, folder, part }) = source.upstream {
        path.extend([packages::unpacked_part(store, folder, package, part)?, stand_ins]);
    }
    let path = std::env::join_paths(path).map_err(|error| error.to_string())?;
    let scratch = store.scratch().map_err(|error| error.to_string())?;
    let made = scratch.path().join("cases");
    let mut command = Command::new(&python);
    command
        .arg(&program)
        .arg(&made)
        .env("PYTHONPATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TRITON_CACHE_DIR", scratch.path().join("cache"))
        // Triton's default up to 3.9, which warns that it will change.
        .env("TRITON_DEFAULT_FP_FUSION", "1");
    if source.upstream.is_some() {
        // Modules with lines of their sources cannot be joined.
        command.env("TRITON_DISABLE_LINE_INFO", "1");
    }
    run(&mut command)?;
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
    Ok((joined(&session.modules), recording))
}

/// The PTX of all modules of a case in one, in which faults are planted: the header, and what several of them declare, once.
fn joined(modules: &[Module]) -> String {
    let Some((first, others)) = modules.split_first() else { return String::new() };
    let mut all = first.text.clone();
    for module in others {
        let once = |line: &&str| {
            let is_header =
                [".version", ".target", ".address_size"].iter().any(|word| line.starts_with(word));
            let is_declared = [".extern", ".global"].iter().any(|word| line.starts_with(word))
                && first.text.lines().any(|other| other == *line);
            !is_header && !is_declared
        };
        for line in module.text.lines().filter(once) {
            all += line;
            all.push('\n');
        }
    }
    all
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
