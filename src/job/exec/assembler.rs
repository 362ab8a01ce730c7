//! The `ptxas` that a program under `exec` finds: a symbolic link to this executable.
//!
//! It writes PTX instead of machine code, which cannot be emulated. If the machine has a real ptxas, that must accept the PTX first.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ptx::arch::Target;

use crate::store::Store;
use crate::toolkit::{Environment, Places, Toolkit, discover};
use crate::worker::{self, Ended};

/// The name of the link.
const NAME: &str = "ptxas";

/// Environment variables that name a ptxas, each with the variable that keeps the value that `exec` replaced.
const REPLACED: [(&str, &str); 2] = [
    ("TRITON_PTXAS_PATH", "SM121PROBE_EXEC_TRITON_PTXAS_PATH"),
    ("TRITON_PTXAS_BLACKWELL_PATH", "SM121PROBE_EXEC_TRITON_PTXAS_BLACKWELL_PATH"),
];

/// The time limit of the real ptxas.
const LIMIT: Duration = Duration::from_secs(600);

/// The output of `--version` without a real ptxas: the CUDA release whose PTX the emulator reads.
const VERSION: &str = "ptxas of `sm121probe exec`: returns PTX instead of machine code\n\
    Cuda compilation tools, release 13.0, V13.0.0\n";

/// The result of a call.
#[derive(Debug, Default)]
pub struct Assembled {
    /// The exit code.
    pub code: u8,
    /// Bytes for standard output.
    pub stdout: Vec<u8>,
    /// Bytes for standard error.
    pub stderr: Vec<u8>,
}

/// The reason why a call fails, other than rejection by a real ptxas.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The call neither assembles a file nor can be answered without a real ptxas.
    #[error(
        "ptxas under `sm121probe exec` needs a PTX file and `-o FILE`; only a real ptxas answers anything else, and none is installed"
    )]
    Asked,
    /// The PTX cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
    /// The output cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
    /// The real ptxas cannot be started.
    #[error("{} cannot be started: {source}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
}

/// Whether a command line invokes this executable by the link's name.
#[must_use]
pub fn is_assembler(typed: &[OsString]) -> bool {
    typed.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new(NAME)))
}

/// Creates the link in `folder` and makes `command` find it before any other ptxas. Triton caches machine code by the version of
/// ptxas; it is redirected to a private cache, so that no other program loads PTX from its own.
pub(super) fn offer(command: &mut Command, program: &Path, folder: &Path) -> io::Result<()> {
    let bin = folder.join("bin");
    fs::create_dir(&bin)?;
    let link = bin.join(NAME);
    command.env(crate::toolkit::EXEC_PTXAS, &link);
    std::os::unix::fs::symlink(program, &link)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(bin).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders).map_err(io::Error::other)?);
    for (name, replaced) in REPLACED {
        if let Some(value) = std::env::var_os(name) {
            command.env(replaced, value);
        }
        command.env(name, &link);
    }
    command.env("TRITON_CACHE_DIR", folder.join("triton"));
    Ok(())
}

/// The input, output and target of a call.
#[derive(Debug, Default, PartialEq)]
struct Call<'a> {
    input: Option<&'a Path>,
    output: Option<&'a Path>,
    target: Option<Target>,
}

impl<'a> Call<'a> {
    fn from_arguments(arguments: &'a [OsString]) -> Self {
        let mut call = Self::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let text = word.to_str().unwrap_or_default();
            let (name, joined) =
                text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            let mut value = || joined.map(OsStr::new).or_else(|| words.next().map(OsString::as_os_str));
            match name {
                "-o" | "--output-file" => call.output = value().map(Path::new),
                "-arch" | "--gpu-name" => {
                    call.target = value().and_then(OsStr::to_str).and_then(|name| name.parse().ok());
                }
                _ if !text.starts_with('-') && Path::new(word).is_file() => {
                    call.input = Some(Path::new(word))
                }
                _ => {}
            }
        }
        call
    }
}

/// Performs a ptxas call, but writes the PTX to the output file.
///
/// # Errors
/// [`AssembleError`]; a rejection by a real ptxas is not an error but an exit code.
pub fn assemble(arguments: &[OsString]) -> Result<Assembled, AssembleError> {
    let call = Call::from_arguments(arguments);
    let real = real(call.target);
    let (Some(input), Some(output)) = (call.input, call.output) else {
        return match &real {
            Some(real) => started(&real.path, arguments),
            None if arguments.iter().any(|word| word == "--version" || word == "-V") => {
                Ok(Assembled { stdout: VERSION.into(), ..Assembled::default() })
            }
            None => Err(AssembleError::Asked),
        };
    };
    let done = match &real {
        Some(real) => started(&real.path, arguments)?,
        None => Assembled::default(),
    };
    if done.code != 0 {
        return Ok(done);
    }
    let mut text = fs::read(input).map_err(|source| AssembleError::Read { path: input.into(), source })?;
    // Programs pass the file's content to the driver as a C string, which must end with a zero byte.
    text.push(0);
    replace(output, &text).map_err(|source| AssembleError::Write { path: output.into(), source })?;
    Ok(done)
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn started(path: &Path, arguments: &[OsString]) -> Result<Assembled, AssembleError> {
    let output = worker::run(Command::new(path).args(arguments), LIMIT)
        .map_err(|source| AssembleError::Start { path: path.into(), source })?;
    let code = match output.ended {
        Ended::Exited(code) => u8::try_from(code).unwrap_or(u8::MAX),
        Ended::Signalled(_) | Ended::TimedOut => u8::MAX,
    };
    Ok(Assembled { code, stdout: output.stdout, stderr: output.stderr })
}

/// Returns the real ptxas: Triton's if present, because it supports the options that Triton passes, otherwise the machine's newest.
fn real(target: Option<Target>) -> Option<Toolkit> {
    let mut environment = Environment::of_process();
    for (name, replaced) in REPLACED {
        environment.vars.remove(OsStr::new(name));
        if let Some(value) = environment.vars.remove(OsStr::new(replaced)) {
            environment.vars.insert(name.into(), value);
        }
    }
    let store = Store::open(None).ok();
    let places = Places::collect(&environment, store.as_ref().map(Store::root));
    let found = discover(store.as_ref(), &places).toolkits;
    let of_triton = |kit: &Toolkit| kit.origins.iter().any(|found| found.origin.is_triton());
    let usable = found.into_iter().filter(|kit| target.is_none_or(|target| kit.knows(target)));
    usable.max_by_key(|kit| (of_triton(kit), kit.version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_in_every_form() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("k.ptx");
        fs::write(&file, "").unwrap();
        let input = file.display().to_string();
        for line in [
            format!("-lineinfo -v --gpu-name=sm_120a {input} -o out.cubin"),
            format!("{input} --output-file=out.cubin -arch sm_120a"),
            format!("-arch=sm_120a --output-file out.cubin -O 3 {input}"),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let call = Call::from_arguments(&words);
            let want = (Some(file.as_path()), Some(Path::new("out.cubin")), "sm_120a".parse().ok());
            assert_eq!((call.input, call.output, call.target), want, "{line}");
        }
        assert_eq!(Call::from_arguments(&["--version".into()]), Call::default());
    }

    #[test]
    fn the_link_is_known_by_its_name() {
        assert!(is_assembler(&["bin/ptxas".into(), "--version".into()]));
        assert!(!is_assembler(&["/usr/bin/sm121probe".into(), "ptxas".into()]));
    }
}
