//! The worker's side: one job, one library, one process.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Include;
use super::binding::Binding;

/// What the worker is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) library: PathBuf,
    pub(super) builtins: Option<PathBuf>,
    pub(super) source: String,
    pub(super) name: String,
    pub(super) options: Vec<String>,
    pub(super) headers: Vec<Include>,
    /// Where the reply goes.
    pub(super) reply: PathBuf,
}

/// What the worker found out.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// It compiled.
    Compiled { ptx: String, log: String, major: i32, minor: i32 },
    /// The program is wrong.
    Rejected { log: String },
    /// The library is.
    Failed { reason: String },
}

/// Does the job of the file and writes the reply; the process's exit code.
///
/// The hidden verb `__worker nvrtc FILE` comes here.
#[must_use]
pub fn serve(job: &Path) -> u8 {
    let Some(job) = fs::read(job).ok().and_then(|bytes| serde_json::from_slice::<Job>(&bytes).ok()) else {
        return 2;
    };
    let reply = answer(&job).unwrap_or_else(|reason| Reply::Failed { reason });
    let written = serde_json::to_vec(&reply).ok().and_then(|bytes| fs::write(&job.reply, bytes).ok());
    u8::from(written.is_none())
}

fn answer(job: &Job) -> Result<Reply, String> {
    let binding = Binding::load(&job.library, job.builtins.as_deref())?;
    let (major, minor) = binding.version()?;
    let answer = binding.compile(job)?;
    Ok(match answer.ptx {
        Some(ptx) => Reply::Compiled { ptx, log: answer.log, major, minor },
        None => Reply::Rejected { log: answer.log },
    })
}
