//! Assembles many kernels with any ptxas at any level of optimization.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
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
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejects(message) => write!(f, "rejects what the emulator accepts: {message}"),
            Self::Crashes(how) => write!(f, "crashes: {how}"),
            Self::Hangs => write!(f, "does not end in time"),
        }
    }
}

/// Runs ptxas in a folder of its own.
pub struct Assembler {
    folder: tempfile::TempDir,
    limit: Duration,
}

impl Assembler {
    /// An assembler with a time limit for each run.
    ///
    /// # Errors
    /// If no temporary folder can be made.
    pub fn new(limit: Duration) -> io::Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, limit })
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
        let (ptx, cubin) = (self.folder.path().join("module.ptx"), self.folder.path().join("module.cubin"));
        fs::write(&ptx, text)?;
        let assembly = assemble_at_level(toolkit, &target.to_string(), &ptx, &cubin, level, self.limit)?;
        Ok(failed(&assembly).map_or(Ok(cubin), Err))
    }

    /// Assembles modules of one entry `k` in one run; if that fails, each alone. Returns those that fail, by their number.
    ///
    /// # Errors
    /// As [`Assembler::assemble`].
    pub fn assemble_all(
        &self,
        toolkit: &Toolkit,
        target: Target,
        level: u8,
        texts: &[&str],
    ) -> io::Result<Vec<(usize, Failed)>> {
        if let Some(all) = joined(texts)
            && self.assemble(toolkit, target, level, &all)?.is_ok()
        {
            return Ok(Vec::new());
        }
        let mut out = Vec::new();
        for (n, text) in texts.iter().enumerate() {
            if let Err(failed) = self.assemble(toolkit, target, level, text)? {
                out.push((n, failed));
            }
        }
        Ok(out)
    }

    /// Whether ptxas fails in the same way on another module: with the same kind, and of a rejection with the same message.
    pub fn answers_alike(
        &self,
        toolkit: &Toolkit,
        target: Target,
        level: u8,
        text: &str,
        failed: &Failed,
    ) -> bool {
        let message = |text: &str| text.split_once("error   :").map_or(text, |(_, m)| m).to_owned();
        match (self.assemble(toolkit, target, level, text), failed) {
            (Ok(Err(Failed::Rejects(one))), Failed::Rejects(other)) => message(&one) == message(other),
            (Ok(Err(one)), other) => std::mem::discriminant(&one) == std::mem::discriminant(other),
            (Ok(Ok(_)) | Err(_), _) => false,
        }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
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
        Ended::Exited(_) => Some(Failed::Rejects(first)),
    }
}

/// One module with the entries of all, numbered; they have the same header. `None` if some text has another form.
fn joined(texts: &[&str]) -> Option<String> {
    const ENTRY: &str = ".visible .entry k(";
    let mut out = texts.first()?.split_once(ENTRY)?.0.to_owned();
    for (n, text) in texts.iter().enumerate() {
        let (_, body) = text.split_once(ENTRY)?;
        out.push_str(&format!(".visible .entry k{n}({body}"));
    }
    Some(out)
}
