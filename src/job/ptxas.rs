//! Assembles many kernels with any ptxas at any level of optimization.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ptx::arch::Target;

use crate::toolkit::{Assembly, Toolkit, assemble_at_level};
use crate::worker::Ended;

/// Why ptxas wrote no machine code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// It rejects the PTX.
    Rejects(String),
    /// It crashes, or calls it an internal error.
    Crashes(String),
    /// It does not end in time.
    Hangs,
    /// It is older than the file's `.version`, or than the target: a file for later toolkits says nothing of it.
    TooOld(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejects(message) => write!(f, "rejects what the emulator accepts: {message}"),
            Self::Crashes(how) => write!(f, "crashes: {how}"),
            Self::Hangs => write!(f, "does not end in time"),
            Self::TooOld(message) => write!(f, "is older than the file or the target: {message}"),
        }
    }
}

/// Runs ptxas in a folder of its own, for several threads.
pub struct Assembler {
    folder: tempfile::TempDir,
    limit: Duration,
    /// The number of the next run, which has a folder of its own.
    next: AtomicU64,
}

impl Assembler {
    /// An assembler with a time limit for each run.
    ///
    /// # Errors
    /// If no temporary folder can be made.
    pub fn new(limit: Duration) -> io::Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, limit, next: AtomicU64::new(0) })
    }

    /// Assembles one module. Returns the cubin's path, or why there is none.
    ///
    /// # Errors
    /// If ptxas cannot be started or files cannot be written.
    pub fn assemble(
        &self,
        toolkit: &Toolkit,
        target: Target,
        level: u8,
        text: &str,
    ) -> io::Result<Result<PathBuf, Failed>> {
        let folder = self.folder.path().join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&folder)?;
        let (ptx, cubin) = (folder.join("module.ptx"), folder.join("module.cubin"));
        fs::write(&ptx, text)?;
        let assembly = assemble_at_level(toolkit, &target.to_string(), &ptx, &cubin, level, self.limit)?;
        match failed(&assembly) {
            None => Ok(Ok(cubin)),
            Some(failed) => {
                fs::remove_dir_all(&folder)?;
                Ok(Err(failed))
            }
        }
    }

    /// Assembles one module and returns the cubin, or why there is none.
    ///
    /// # Errors
    /// As [`Assembler::assemble`].
    pub fn cubin(
        &self,
        toolkit: &Toolkit,
        target: Target,
        level: u8,
        text: &str,
    ) -> io::Result<Result<Vec<u8>, Failed>> {
        let path = match self.assemble(toolkit, target, level, text)? {
            Ok(path) => path,
            Err(failed) => return Ok(Err(failed)),
        };
        let bytes = fs::read(&path)?;
        path.parent().map_or(Ok(()), fs::remove_dir_all)?;
        Ok(Ok(bytes))
    }
}

/// Why a run wrote no cubin; `None` if it did.
fn failed(assembly: &Assembly) -> Option<Failed> {
    // The first error, without the path of the temporary file.
    let is_error = |line: &&str| line.contains("error   :") || line.contains("fatal");
    let first = assembly.text.lines().find(is_error).or(assembly.text.lines().next()).unwrap_or_default();
    let first = first.split_once("module.ptx, ").map_or(first, |(_, rest)| rest).to_owned();
    match assembly.ended {
        Ended::Exited(0) if assembly.produced => None,
        Ended::TimedOut => Some(Failed::Hangs),
        Ended::Signalled(signal) => Some(Failed::Crashes(format!("signal {signal}"))),
        Ended::Exited(_) if assembly.text.contains("Internal compiler error") => Some(Failed::Crashes(first)),
        Ended::Exited(_)
            if first.contains("Unsupported .version") || first.contains("for option 'gpu-name'") =>
        {
            Some(Failed::TooOld(first))
        }
        Ended::Exited(_) => Some(Failed::Rejects(first)),
    }
}

/// One module with the entries of all, `k0` and so on; they have the same header. `None` if some text has another form.
pub(super) fn joined(texts: &[&str]) -> Option<String> {
    const ENTRY: &str = ".visible .entry k(";
    let mut out = texts.first()?.split_once(ENTRY)?.0.to_owned();
    for (n, text) in texts.iter().enumerate() {
        let (_, body) = text.split_once(ENTRY)?;
        out.push_str(&format!(".visible .entry k{n}({body}"));
    }
    Some(out)
}
