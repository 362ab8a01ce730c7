//! The parent's side of a worker: starts it, asks with a time limit, and says how it ended.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::wire::{self, Refusal, Reply, Request};
use crate::device::Failure;
use crate::worker;

/// The word after the worker verb.
pub const GPU_WORKER: &str = "gpu";

/// What is kept of what a worker prints before it dies.
const SAID: u64 = 4096;

/// How workers are started.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// This tool, whose hidden verb serves.
    pub program: PathBuf,
    /// The GPU's number.
    pub ordinal: String,
    /// How long one request may take.
    pub limit: Duration,
}

/// A worker that lives.
struct Live {
    child: Child,
    socket: UnixStream,
    said: File,
}

/// A worker, started when it is first asked, and again when it is asked after a [`Link::renew`].
pub(super) struct Link {
    launcher: Launcher,
    live: Option<Live>,
    /// Why nothing more is answered.
    dead: Option<Failure>,
    /// Workers started so far.
    pub(super) started: u64,
}

impl Link {
    pub(super) fn new(launcher: Launcher) -> Self {
        Self { launcher, live: None, dead: None, started: 0 }
    }

    /// Asks the worker; a failure that it does not survive is repeated until [`Link::renew`].
    pub(super) fn ask(&mut self, request: &Request, payload: &[u8]) -> Result<(Reply, Vec<u8>), Refused> {
        if let Some(failure) = &self.dead {
            return Err(Refused { failure: failure.clone(), launch: 0 });
        }
        match self.exchange(request, payload) {
            Ok((Reply::Refused(refusal), _)) => {
                let (ends, launch) = (refusal.ends_worker(), refusal.launch);
                let failure = Refusal::failure(refusal);
                if ends {
                    self.kill();
                    self.dead = Some(failure.clone());
                }
                Err(Refused { failure, launch })
            }
            Ok(answer) => Ok(answer),
            Err(error) => {
                let failure = self.ended(&error);
                self.dead = Some(failure.clone());
                Err(Refused { failure, launch: 0 })
            }
        }
    }

    /// Forgets what ended the worker before; the next question starts a fresh one. A worker that lives stays.
    pub(super) fn renew(&mut self) {
        self.dead = None;
    }

    fn exchange(&mut self, request: &Request, payload: &[u8]) -> io::Result<(Reply, Vec<u8>)> {
        let limit = self.launcher.limit;
        let live = match &mut self.live {
            Some(live) => live,
            none => {
                self.started += 1;
                none.insert(start(&self.launcher)?)
            }
        };
        let mut timed = Timed { socket: &live.socket, deadline: Instant::now() + limit };
        wire::send(&mut timed, request, payload)?;
        wire::receive(&mut timed)
    }

    /// What became of a worker that did not answer; it is gone afterwards.
    fn ended(&mut self, error: &io::Error) -> Failure {
        let limit = self.launcher.limit.as_secs_f32();
        let Some(mut live) = self.live.take() else {
            return Failure::Broken(format!("the GPU's worker process cannot be started: {error}"));
        };
        if error.kind() == io::ErrorKind::TimedOut {
            end(&mut live.child);
            return Failure::TimedOut(format!("it did not end within {limit} s, and its process was killed"));
        }
        if error.kind() == io::ErrorKind::InvalidData {
            end(&mut live.child);
            return Failure::Broken(format!("the GPU's worker process sent nonsense: {error}"));
        }
        // It closed its end: it is dead or about to be.
        let status = match gone(&mut live.child) {
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exited with status {code}"),
                (None, signal) => format!("was killed by signal {}", signal.unwrap_or(0)),
            },
            None => {
                end(&mut live.child);
                "closed its socket".to_owned()
            }
        };
        let said = said(&mut live.said);
        Failure::Crashed(format!("the GPU's worker process {status}{said}"))
    }

    fn kill(&mut self) {
        if let Some(mut live) = self.live.take() {
            end(&mut live.child);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Why an answer is none, and which launch it is of.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) failure: Failure,
    pub(super) launch: usize,
}

fn start(launcher: &Launcher) -> io::Result<Live> {
    let (ours, theirs) = UnixStream::pair()?;
    let said = tempfile::tempfile()?;
    let mut command = Command::new(&launcher.program);
    command.arg(worker::VERB).arg(GPU_WORKER).arg(&launcher.ordinal);
    // Kernels print to standard output: it must not be the wire. The worker ends with the thread that starts it, as the
    // kernel understands "parent"; threads here outlive what they ask.
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(said.try_clone()?).process_group(0);
    Ok(Live { child: worker::spawn(&mut command)?, socket: ours, said })
}

/// Kills a worker with all that it started, and waits for it.
fn end(child: &mut Child) {
    worker::kill_group(child);
    // A killed child is waited for, so that none stays a zombie.
    let _ = child.wait();
}

/// The status of a child that is dead, or dies within the next second.
fn gone(child: &mut Child) -> Option<std::process::ExitStatus> {
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What a dead worker printed, as a clause.
fn said(file: &mut File) -> String {
    let mut bytes = Vec::new();
    if file.rewind().and_then(|()| file.take(SAID).read_to_end(&mut bytes)).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).take(2).collect();
    if lines.is_empty() { String::new() } else { format!("; it said `{}`", lines.join(" ")) }
}

/// A socket with one deadline for all that is read and written.
struct Timed<'a> {
    socket: &'a UnixStream,
    deadline: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// A socket's own time-out says that it would block.
fn timed<T>(result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| {
        if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
    })
}

impl io::Read for Timed<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        timed((&mut &*self.socket).read(buf))
    }
}

impl io::Write for Timed<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        timed((&mut &*self.socket).write(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
