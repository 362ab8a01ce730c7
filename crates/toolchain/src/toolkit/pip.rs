//! Fetches one wheel with pip, so that the mirrors, proxies and certificates configured for pip apply here too.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::environment::children;
use super::pins::{Pin, Wheel};
use super::process;
use crate::event::{Event, Sink};
use crate::worker::{self, Ended};

/// Interval between progress events.
const TICK: Duration = Duration::from_millis(100);

/// The Python that runs pip, and additional arguments. pip's own variables and files apply as well: `PIP_INDEX_URL`, `PIP_PROXY`, or
/// `PIP_NO_INDEX` with `PIP_FIND_LINKS` for a folder of wheels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipSource {
    /// The interpreter.
    pub python: PathBuf,
    /// Arguments after `pip download`, such as `--no-index --find-links FOLDER`.
    pub args: Vec<OsString>,
}

impl PipSource {
    /// Uses `SM121PROBE_PYTHON`, or the `python3` in `PATH`.
    #[must_use]
    pub fn from_environment() -> Self {
        let python = std::env::var_os("SM121PROBE_PYTHON").filter(|python| !python.is_empty());
        Self { python: python.map_or_else(|| PathBuf::from("python3"), PathBuf::from), args: Vec::new() }
    }

    /// Returns the command that downloads `requirement` alone to the folder `to`, with more options of `pip download`.
    #[must_use]
    pub fn download(
        &self,
        requirement: &str,
        to: &Path,
        options: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = Command::new(&self.python);
        command
            .args(["-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--no-deps"])
            .arg("--progress-bar=off")
            .arg("--dest")
            .arg(to)
            .args(options)
            .args(&self.args)
            .arg(requirement)
            // Nothing is installed into a Python, so a user's rule that requires a virtual environment must not block it.
            .env("PIP_REQUIRE_VIRTUALENV", "false");
        command
    }
}

/// Why pip did not deliver the wheel.
#[derive(Debug, thiserror::Error)]
pub enum PipError {
    /// Python cannot be started.
    #[error("cannot start Python at {}: {source}; install it with pip (`apt install python3-pip`), or set SM121PROBE_PYTHON to a Python that has pip", python.display())]
    Python {
        /// The interpreter.
        python: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The download cannot be written.
    #[error("cannot write {}: {source}; free some space, or set SM121PROBE_CACHE to a writable folder", path.display())]
    Write {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Python has no pip.
    #[error("{} has no pip; install it (`apt install python3-pip`), or set SM121PROBE_PYTHON to a Python that has pip", python.display())]
    Missing {
        /// The interpreter.
        python: PathBuf,
    },
    /// The file system is full.
    #[error("no space left in {} ({} MB needed); free some space, or set SM121PROBE_CACHE to another folder", path.display(), bytes.div_ceil(1_000_000))]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// The size of the wheel.
        bytes: u64,
    },
    /// The file system of temporary files is full.
    #[error("no space left in {} ({} MB needed), the folder of temporary files; free some space, or set TMPDIR to another folder", path.display(), bytes.div_ceil(1_000_000))]
    NoTemporarySpace {
        /// The folder.
        path: PathBuf,
        /// The size of the wheel.
        bytes: u64,
    },
    /// pip failed.
    #[error(
        "pip could not fetch {requirement}: {said}; check the network and pip's settings (`pip config list`: index, proxy, certificates)"
    )]
    Failed {
        /// Package and version.
        requirement: String,
        /// Its last error line, or how it ended.
        said: String,
    },
    /// pip exceeded the time limit.
    #[error(
        "pip did not fetch {requirement} within {limit:?} and was stopped; check the network and pip's settings (`pip config list`: index, proxy)"
    )]
    TimedOut {
        /// Package and version.
        requirement: String,
        /// The limit.
        limit: Duration,
    },
    /// pip succeeded but fetched another file.
    #[error("pip fetched {requirement}, but not the pinned file {wanted}; it fetched: {brought}")]
    OtherFile {
        /// Package and version.
        requirement: String,
        /// The pinned file.
        wanted: String,
        /// The files fetched.
        brought: String,
    },
}

/// Downloads the wheel of `pin` below `folder` and returns its path. pip writes only below `folder`, except to its own cache.
pub(super) fn download(
    source: &PipSource,
    pin: &Pin,
    wheel: &Wheel,
    folder: &Path,
    limit: Duration,
    sink: &dyn Sink,
) -> Result<PathBuf, PipError> {
    let requirement = pin.requirement();
    let start = |error| PipError::Python { python: source.python.clone(), source: error };
    let (arrived, temporary) = (folder.join("wheel"), folder.join("tmp"));
    for path in [&arrived, &temporary] {
        fs::create_dir_all(path).map_err(|source| match source.kind() {
            io::ErrorKind::StorageFull => PipError::NoSpace { path: path.clone(), bytes: wheel.bytes },
            _ => PipError::Write { path: path.clone(), source },
        })?;
    }

    let fixed = ["--only-binary=:all:", "--python-version=3", "--implementation=py", "--abi=none"];
    let platforms = platforms(&wheel.file).map(|platform| format!("--platform={platform}"));
    let mut options: Vec<String> = fixed.map(str::to_owned).into_iter().chain(platforms).collect();
    if wheel.file.ends_with("-any.whl") {
        // What is for any machine is for the Python that runs; such a package may need a newer one than Python 3.0.
        options.truncate(1);
    }
    let mut command = source.download(&requirement, &arrived, options);
    command
        // The partial download must be where progress is measured and where a later install cleans up.
        .env("TMPDIR", &temporary);
    let output =
        watched(&[&arrived, &temporary], &pin.what(), wheel.bytes, sink, || worker::run(&mut command, limit))
            .map_err(start)?;

    let text = String::from_utf8_lossy(&output.stderr);
    match output.ended {
        Ended::TimedOut => Err(PipError::TimedOut { requirement, limit }),
        Ended::Exited(0) => {
            let file = arrived.join(&wheel.file);
            if file.is_file() {
                return Ok(file);
            }
            let names: Vec<String> = children(&arrived)
                .iter()
                .filter_map(|p| Some(p.file_name()?.to_string_lossy().into_owned()))
                .collect();
            let brought = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            Err(PipError::OtherFile { requirement, wanted: wheel.file.clone(), brought })
        }
        Ended::Exited(_) if text.contains("No module named pip") => {
            Err(PipError::Missing { python: source.python.clone() })
        }
        Ended::Exited(_) if text.contains("No space left on device") => {
            Err(PipError::NoSpace { path: folder.to_owned(), bytes: wheel.bytes })
        }
        // On a full disk nothing of what pip wrote is left.
        Ended::Exited(_) if text.trim().is_empty() && is_full(&std::env::temp_dir()) => {
            Err(PipError::NoTemporarySpace { path: std::env::temp_dir(), bytes: wheel.bytes })
        }
        ended => Err(PipError::Failed {
            requirement,
            said: last_error(&text).unwrap_or_else(|| format!("it {}", process::words(ended, limit))),
        }),
    }
}

/// Whether a folder has no room for a few bytes.
fn is_full(folder: &Path) -> bool {
    let written = tempfile::tempfile_in(folder).and_then(|mut file| file.write_all(&[0; 1 << 16]));
    written.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
}

/// The platforms in the last part of a wheel's file name.
fn platforms(file: &str) -> impl Iterator<Item = &str> {
    file.strip_suffix(".whl").unwrap_or(file).rsplit('-').next().unwrap_or("").split('.')
}

/// pip's last error, or its last line if none is marked as an error. A failed connection is reported as the cause.
fn last_error(text: &str) -> Option<String> {
    let lines = || text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    // Under `Exception:`, pip prints its own traceback, whose last line says what happened.
    let marked = lines().find(|line| line.starts_with("ERROR:") && !line.ends_with("Exception:"));
    let error = marked.or_else(|| lines().next())?;
    let error = process::first_line(error.trim_start_matches("ERROR:"));
    let broken = lines().find(|line| line.contains("after connection broken"));
    Some(match broken.and_then(|line| line.split_once("broken by ")) {
        Some((_, cause)) => format!("{error} (the index cannot be reached: {})", process::first_line(cause)),
        None => error,
    })
}

/// Runs `work` and reports how many bytes have arrived meanwhile.
fn watched<T: Send>(
    folders: &[&Path],
    what: &str,
    bytes: u64,
    sink: &dyn Sink,
    work: impl FnOnce() -> T,
) -> T {
    let (done, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut last = 0;
            while wait.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                // pip copies the finished file, so the larger of the two sizes counts.
                let now = folders.iter().map(|folder| size(folder)).max().unwrap_or(0).min(bytes);
                if now > last {
                    last = now;
                    sink.emit(Event::FetchProgress { what: what.to_owned(), done: now });
                }
            }
        });
        let result = work();
        drop(done);
        result
    })
}

fn size(folder: &Path) -> u64 {
    let of = |path: &PathBuf| match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => size(path),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    children(folder).iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_the_last_part_of_the_name() {
        let names: Vec<&str> =
            platforms("a-1.0-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl").collect();
        assert_eq!(names, ["manylinux2010_x86_64", "manylinux_2_12_x86_64"]);
    }

    #[test]
    fn the_cause_stands_beside_the_last_error() {
        let text = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(x)': /simple/a/\n\
                    ERROR: Could not find a version\nERROR: No matching distribution found for a==1\n\n";
        let said = last_error(text).unwrap();
        assert!(
            said.starts_with("No matching distribution found for a==1 (the index")
                && said.contains("NewConnectionError"),
            "{said}"
        );
        assert_eq!(last_error("Traceback\nValueError: x\n").as_deref(), Some("ValueError: x"));
        let crashed = "ERROR: Exception:\nTraceback (most recent call last):\n  File \"x\"\nMemoryError: y\n";
        assert_eq!(last_error(crashed).as_deref(), Some("MemoryError: y"));
        assert_eq!(last_error(" \n"), None);
    }
}
