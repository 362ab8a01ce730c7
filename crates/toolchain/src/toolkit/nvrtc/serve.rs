//! The worker's side: one library for the life of the process, one job at a time.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;

use serde::{Deserialize, Serialize};

use super::Include;
use super::binding::Binding;

/// A job for the worker: a line of JSON on its standard input, which is a socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) library: PathBuf,
    pub(super) builtins: Option<PathBuf>,
    pub(super) source: String,
    pub(super) name: String,
    pub(super) options: Vec<String>,
    pub(super) headers: Vec<Include>,
}

/// The worker's reply: a line of JSON on the same socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// The source compiled.
    Compiled { ptx: String, log: String, major: i32, minor: i32 },
    /// The source does not compile.
    Rejected { log: String },
    /// The library failed.
    Failed { reason: String },
}

/// Serves jobs until the socket is closed; returns the exit code of the process.
///
/// Entry point of the hidden verb `__worker nvrtc`.
#[must_use]
pub fn serve() -> u8 {
    // The parent may die while the library hangs; the reading thread then ends this process.
    let (jobs, queue) = mpsc::channel();
    let Ok(mut socket) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else { return 2 };
    let Ok(input) = socket.try_clone() else { return 2 };
    std::thread::spawn(move || {
        for line in BufReader::new(input).lines().map_while(Result::ok) {
            if jobs.send(line).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    let mut binding = None;
    for line in queue {
        let Ok(job) = serde_json::from_str::<Job>(&line) else { return 2 };
        let reply = answer(&mut binding, &job).unwrap_or_else(|reason| Reply::Failed { reason });
        let Ok(mut text) = serde_json::to_string(&reply) else { return 2 };
        text.push('\n');
        if socket.write_all(text.as_bytes()).is_err() {
            return 1;
        }
    }
    0
}

/// Compiles with the library of the first job; the parent never requests another.
fn answer(binding: &mut Option<Binding>, job: &Job) -> Result<Reply, String> {
    let binding = match binding {
        Some(loaded) => loaded,
        none => none.insert(Binding::load(&job.library, job.builtins.as_deref())?),
    };
    let (major, minor) = binding.version()?;
    let answer = binding.compile(job)?;
    Ok(match answer.ptx {
        Some(ptx) => Reply::Compiled { ptx, log: answer.log, major, minor },
        None => Reply::Rejected { log: answer.log },
    })
}
