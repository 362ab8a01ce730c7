//! Child processes with a time limit, each in its own process group, with output in files.
//!
//! Output goes to unlinked temporary files, not to pipes, so a child that prints megabytes cannot block on us.
//! A child that exceeds its limit is killed together with everything it started.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

/// Number of children started by this process.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// The hidden verb that makes this program a worker: `__worker <kind> [<argument>]`.
pub const VERB: &str = "__worker";

/// Ends this process when its parent ends, so that a killed run leaves no worker behind.
pub fn end_with_parent() {
    // If the kernel refuses, a time limit still ends the process.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

/// Number of attempts to start a file that is still open for writing elsewhere.
const BUSY_TRIES: u32 = 50;

/// Maximum number of bytes kept of one output stream.
const OUTPUT_LIMIT: u64 = 256 << 20;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this status.
    Exited(i32),
    /// It was killed by this signal.
    Signalled(i32),
    /// It exceeded its time limit and was killed.
    TimedOut,
}

/// The output of a child.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub ended: Ended,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Returns standard output followed by standard error, as text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&self.stderr));
        text
    }
}

/// Returns the number of children started by this process; tests use it to check that a warm run starts none.
#[must_use]
pub fn started() -> u64 {
    STARTED.load(Ordering::Relaxed)
}

/// Runs `command` to completion or until `limit` has passed.
///
/// # Errors
/// When the program cannot be started or waited for; a failure of the child is an [`Ended`].
pub fn run(command: &mut Command, limit: Duration) -> io::Result<Output> {
    let mut stdout = tempfile::tempfile()?;
    let mut stderr = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).process_group(0);
    let ended = wait(spawn(command)?, limit)?;
    Ok(Output { ended, stdout: read_back(&mut stdout)?, stderr: read_back(&mut stderr)? })
}

/// Starts `command`, which leads a process group. A file just written can be "busy" for a moment, because a child forked by another
/// thread still holds it open for writing.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error),
            Ok(child) => {
                STARTED.fetch_add(1, Ordering::Relaxed);
                return Ok(child);
            }
        }
    }
}

/// Kills a child that leads a process group, and everything it started.
pub(super) fn kill_group(child: &Child) {
    // The group may already have ended; that is not an error.
    let _ = rustix::process::kill_process_group(Pid::from_child(child), Signal::KILL);
}

fn read_back(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(OUTPUT_LIMIT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn wait(mut child: Child, limit: Duration) -> io::Result<Ended> {
    let deadline = Instant::now() + limit;
    let pid = Pid::from_child(&child);
    let in_time = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            match rustix::event::poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
                Ok(ready) => break ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        },
        // Kernels before 5.3 and some sandboxes have no pidfd; poll instead.
        Err(_) => loop {
            if child.try_wait()?.is_some() {
                break true;
            }
            if Instant::now() >= deadline {
                break false;
            }
            std::thread::sleep(Duration::from_millis(2));
        },
    };
    if !in_time {
        // The group may have ended since the poll; that is not an error.
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        child.wait()?;
        return Ok(Ended::TimedOut);
    }
    Ok(ended(child.wait()?))
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exited(code),
        (None, Some(signal)) => Ended::Signalled(signal),
        (None, None) => Ended::Signalled(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit_ms: u64) -> Output {
        run(Command::new("sh").args(["-c", script]), Duration::from_millis(limit_ms)).unwrap()
    }

    #[test]
    fn exit_status_and_both_streams_come_back() {
        let before = started();
        let output = sh("echo out; echo err >&2; exit 7", 60_000);
        assert_eq!(output.ended, Ended::Exited(7));
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert!(started() > before);
    }

    #[test]
    fn a_large_output_does_not_block() {
        let output = sh("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2", 60_000);
        assert_eq!(
            (output.ended, output.stdout.len(), output.stderr.len()),
            (Ended::Exited(0), 3_000_000, 3_000_000)
        );
    }

    #[test]
    fn a_killed_child_is_signalled() {
        assert_eq!(sh("kill -SEGV $$", 60_000).ended, Ended::Signalled(11));
    }

    #[test]
    fn a_hanging_child_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let output = sh(&format!("sleep 600 & echo $! > {}; wait", file.display()), 300);
        assert_eq!(output.ended, Ended::TimedOut);
        let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        // Death follows the signal shortly; a zombie that nobody reaps counts as dead.
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if state.is_empty() || state.contains(") Z") {
                break;
            }
            assert!(Instant::now() < deadline, "still running: {state}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        assert!(run(&mut Command::new("/nonexistent/ptxas"), Duration::from_secs(1)).is_err());
    }
}
