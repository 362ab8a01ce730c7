//! The parent's side of a worker: starts it, sends requests with a time limit, and reports how it ended.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use emulator::device::{Failure, LaunchFailure};

use super::wire::{self, Refusal, Reply, Request};
use toolchain::worker::{self, Session};

/// The argument after the worker verb that selects a GPU worker.
pub const GPU_WORKER: &str = "gpu";

/// The least time limit of the first request to a worker: it loads the driver and creates a context, which takes seconds on a busy machine.
const START: Duration = Duration::from_secs(60);

/// How to start workers.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// This tool's binary, whose hidden verb serves requests.
    pub program: PathBuf,
    /// The GPU's CUDA ordinal.
    pub ordinal: String,
    /// The time limit of one request; that of the first of a worker is at least a minute.
    pub limit: Duration,
}

/// A worker, started by the first request and again by the first request after [`Link::renew`].
pub(super) struct Link {
    launcher: Launcher,
    live: Option<Session>,
    /// The failure that ended the worker; repeated for every request until [`Link::renew`].
    dead: Option<Failure>,
    /// Workers started so far.
    pub(super) started: u64,
    /// The number of GPUs that the driver found when this one could not be opened; 0 if that is not known.
    pub(super) others: usize,
}

impl Link {
    pub(super) fn new(launcher: Launcher) -> Self {
        Self { launcher, live: None, dead: None, started: 0, others: 0 }
    }

    /// Sends a request. A failure that the worker does not survive is repeated until [`Link::renew`].
    pub(super) fn ask(
        &mut self,
        request: &Request,
        payload: &[u8],
    ) -> Result<(Reply, Vec<u8>), LaunchFailure> {
        if let Some(failure) = &self.dead {
            return Err(failure.clone().into());
        }
        match self.exchange(request, payload) {
            Ok((Reply::Refused(refusal), _)) => {
                let (ends, launch) = (refusal.ends_worker(), refusal.launch);
                self.others = refusal.gpus;
                let failure = Refusal::failure(refusal);
                if ends {
                    self.live = None;
                    self.dead = Some(failure.clone());
                }
                Err(LaunchFailure { launch, failure })
            }
            Ok(answer) => Ok(answer),
            Err(error) => {
                let failure = self.ended(&error);
                self.dead = Some(failure.clone());
                Err(failure.into())
            }
        }
    }

    /// Clears the recorded failure, so that the next request starts a new worker. A live worker is kept.
    pub(super) fn renew(&mut self) {
        self.dead = None;
    }

    fn exchange(&mut self, request: &Request, payload: &[u8]) -> io::Result<(Reply, Vec<u8>)> {
        let limit = self.launcher.limit;
        let (live, limit) = match &mut self.live {
            Some(live) => (live, limit),
            none => {
                self.started += 1;
                (none.insert(start(&self.launcher)?), limit.max(START))
            }
        };
        let mut timed = live.timed(limit);
        wire::send(&mut timed, request, payload)?;
        wire::receive(&mut timed)
    }

    /// Returns the failure of a worker that did not reply, and removes the worker.
    fn ended(&mut self, error: &io::Error) -> Failure {
        let limit = self.launcher.limit.as_secs_f32();
        let Some(live) = self.live.take() else {
            return Failure::Broken(format!("the GPU's worker process cannot be started: {error}"));
        };
        if error.kind() == io::ErrorKind::TimedOut {
            return Failure::TimedOut(format!("it did not end within {limit} s, and its process was killed"));
        }
        if error.kind() == io::ErrorKind::InvalidData {
            return Failure::Broken(format!("the GPU's worker process sent an invalid reply: {error}"));
        }
        // The worker closed its end: it is dead or about to be.
        Failure::Crashed(format!("the GPU's worker process {}", live.last_words()))
    }
}

fn start(launcher: &Launcher) -> io::Result<Session> {
    let mut command = Command::new(&launcher.program);
    command.arg(worker::VERB).arg(GPU_WORKER).arg(&launcher.ordinal);
    Session::start(command)
}
