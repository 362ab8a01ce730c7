//! Threads that run launches, kept for further ones: to start a thread takes longer than a small launch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};

type Work = Box<dyn FnOnce() + Send>;

/// The most threads that wait.
const KEPT: usize = 4;

/// The threads that wait for work.
struct Idle {
    /// The process that started them: a forked process has none of them.
    process: u32,
    workers: Vec<Sender<Work>>,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle { process: 0, workers: Vec::new() });

/// Runs `work` on another thread. The result comes through the channel, which closes without one if `work` panics.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    let mut work: Work = Box::new(move || {
        // The panic has been printed. Sending fails if the launch was interrupted and nobody waits.
        if let Ok(result) = catch_unwind(AssertUnwindSafe(work)) {
            let _ = sender.send(result);
        }
    });
    while let Some(worker) = take() {
        match worker.send(work) {
            Ok(()) => return receiver,
            Err(mpsc::SendError(back)) => work = back,
        }
    }
    std::thread::spawn(move || {
        let (own, works) = mpsc::channel::<Work>();
        work();
        while keep(&own)
            && let Ok(work) = works.recv()
        {
            work();
        }
    });
    receiver
}

/// Takes a thread that waits.
fn take() -> Option<Sender<Work>> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.process != std::process::id() {
        *idle = Idle { process: std::process::id(), workers: Vec::new() };
    }
    idle.workers.pop()
}

/// Notes that a thread waits, unless enough do: a launch that begins between the result and this note starts another thread.
fn keep(worker: &Sender<Work>) -> bool {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let keep = idle.workers.len() < KEPT;
    if keep {
        idle.workers.push(worker.clone());
    }
    keep
}
