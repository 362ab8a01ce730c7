//! The parent's side: workers that have loaded a library are kept for the next source, because loading takes as long as
//! compiling a small kernel.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::NVRTC_WORKER;
use super::serve::{Job, Reply};
use crate::worker::{self, Session};

/// A worker is retired after this many compilations, which bounds the memory that its library leaks.
const MOST_JOBS: u32 = 256;

/// An idle worker.
struct Waiting {
    program: PathBuf,
    library: PathBuf,
    jobs: u32,
    session: Session,
}

/// Idle workers, at most one per thread that compiles. They end with this process.
static WAITING: Mutex<Vec<Waiting>> = Mutex::new(Vec::new());

/// Returns the reply of a worker of `program`, or how the worker ended, as a clause that follows "its worker process".
///
/// # Errors
/// When no worker can be started.
pub(super) fn ask(program: &Path, job: &Job, limit: Duration) -> io::Result<Result<Reply, String>> {
    let mut line = serde_json::to_string(job)?;
    line.push('\n');
    let mut worker = match waiting(program, &job.library) {
        Some(worker) => worker,
        None => start(program, &job.library)?,
    };
    worker.jobs += 1;
    let reply = match exchange(&worker.session, &line, limit) {
        Ok(reply) => reply,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            return Ok(Err(format!("did not end within {} s", limit.as_secs_f32())));
        }
        // The worker closed its end.
        Err(_) => return Ok(Err(worker.session.last_words())),
    };
    let reply =
        serde_json::from_str(&reply).map_err(|error| format!("sent a reply that cannot be read: {error}"));
    if reply.is_ok() && worker.jobs < MOST_JOBS {
        WAITING.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }
    Ok(reply)
}

/// Takes an idle worker of this program and library that is still alive.
fn waiting(program: &Path, library: &Path) -> Option<Waiting> {
    loop {
        let mut all = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|w| w.program == program && w.library == library)?;
        let mut worker = all.swap_remove(at);
        drop(all);
        if worker.session.lives() {
            return Some(worker);
        }
    }
}

fn start(program: &Path, library: &Path) -> io::Result<Waiting> {
    let mut command = Command::new(program);
    // A file in the user's folder must not be found by `#include`.
    command.arg(worker::VERB).arg(NVRTC_WORKER).current_dir("/");
    let session = Session::start(command)?;
    Ok(Waiting { program: program.to_owned(), library: library.to_owned(), jobs: 0, session })
}

/// Sends a line and receives one.
fn exchange(session: &Session, line: &str, limit: Duration) -> io::Result<String> {
    let mut timed = session.timed(limit);
    timed.write_all(line.as_bytes())?;
    let mut reply = String::new();
    BufReader::new(timed).read_line(&mut reply)?;
    // A worker that dies while writing leaves half a line.
    if !reply.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(reply)
}
