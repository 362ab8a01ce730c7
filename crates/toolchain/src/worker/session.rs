//! A child that answers requests over its standard input, which is a socket.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::process::{kill_group, spawn};

/// Maximum number of bytes kept of the child's error output.
const SAID: u64 = 4096;

/// A running child in its own process group. Dropping it kills the child and everything it started.
#[derive(Debug)]
pub struct Session {
    child: Child,
    socket: UnixStream,
    stderr: File,
}

impl Session {
    /// Starts `command` with a socket as its standard input. Its standard output is discarded, because a library may print
    /// there and would corrupt the protocol.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let stderr = tempfile::tempfile()?;
        command
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(stderr.try_clone()?)
            .process_group(0);
        // `spawned` drops the command, which holds the other end of the socket; otherwise the end of the child would go unnoticed.
        let child = spawned(command)?;
        Ok(Self { child, socket, stderr })
    }

    /// Returns the socket for one request and its reply within `limit`; exceeding it is [`io::ErrorKind::TimedOut`].
    #[must_use]
    pub fn timed(&self, limit: Duration) -> Timed<'_> {
        Timed { socket: &self.socket, deadline: Instant::now() + limit }
    }

    /// Whether the child is still running.
    #[must_use]
    pub fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns how a child that closed its socket ended and what it printed, as a clause that follows "it". A running child is
    /// killed.
    #[must_use]
    pub fn last_words(mut self) -> String {
        let status = match self.gone() {
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exited with status {code}"),
                (None, signal) => format!("was killed by signal {}", signal.unwrap_or(0)),
            },
            None => "closed its socket".to_owned(),
        };
        status + &self.stderr()
    }

    /// The status of a child that has ended, or that ends within the next second.
    fn gone(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + Duration::from_secs(1);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// The child's error output, as a clause.
    fn stderr(&mut self) -> String {
        let mut bytes = Vec::new();
        if self.stderr.rewind().and_then(|()| (&self.stderr).take(SAID).read_to_end(&mut bytes)).is_err() {
            return String::new();
        }
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).take(2).collect();
        if lines.is_empty() { String::new() } else { format!("; it said `{}`", lines.join(" ")) }
    }
}

/// Starts a child from one dedicated thread. The kernel ends a child with the thread that started it (the parent-death
/// signal), and the requesting thread may end before others that use the child.
fn spawned(mut command: Command) -> io::Result<Child> {
    type Wish = (Command, mpsc::Sender<io::Result<Child>>);
    static STARTER: OnceLock<Option<mpsc::Sender<Wish>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (wishes, come) = mpsc::channel::<Wish>();
        let starts = move || {
            for (mut command, answer) in come {
                let started = spawn(&mut command);
                drop(command);
                // The requesting thread waits for it.
                let _ = answer.send(started);
            }
        };
        thread::Builder::new().name("starter".to_owned()).spawn(starts).is_ok().then_some(wishes)
    });
    let Some(starter) = starter else { return spawn(&mut command) };
    let (answer, comes) = mpsc::channel();
    starter.send((command, answer)).map_err(io::Error::other)?;
    comes.recv().map_err(io::Error::other)?
}

impl Drop for Session {
    fn drop(&mut self) {
        // A child that ended has been reaped, and its id may have been reused.
        if self.lives() {
            kill_group(&self.child);
            // The killed child is reaped, so that it does not stay a zombie.
            let _ = self.child.wait();
        }
    }
}

/// A socket with one deadline for all reads and writes.
#[derive(Debug)]
pub struct Timed<'a> {
    socket: &'a UnixStream,
    deadline: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// Maps the error of a socket's own timeout, which is `WouldBlock`, to `TimedOut`.
fn timed<T>(result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| {
        if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
    })
}

impl Read for Timed<'_> {
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
