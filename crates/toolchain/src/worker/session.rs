//! A child that answers questions over its standard input, which is a socket.

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

/// What is kept of what a child prints before it dies.
const SAID: u64 = 4096;

/// A child that lives, in a process group of its own. Dropped, it is killed with everything it started.
#[derive(Debug)]
pub struct Session {
    child: Child,
    socket: UnixStream,
    said: File,
}

impl Session {
    /// Starts `command`, whose standard input becomes the socket. Its standard output goes nowhere: what a library prints there
    /// must not be the wire.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let said = tempfile::tempfile()?;
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(said.try_clone()?).process_group(0);
        // The command, which holds the other end, is gone when this returns: else the end of the child would not be seen.
        let child = spawned(command)?;
        Ok(Self { child, socket, said })
    }

    /// The socket, for one question and its answer within `limit`; what takes longer is [`io::ErrorKind::TimedOut`].
    #[must_use]
    pub fn timed(&self, limit: Duration) -> Timed<'_> {
        Timed { socket: &self.socket, deadline: Instant::now() + limit }
    }

    /// Whether the child has not ended.
    #[must_use]
    pub fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// How a child that closed its socket ended, and what it said, in words that follow "it". One that lives on is killed.
    #[must_use]
    pub fn last_words(mut self) -> String {
        let status = match self.gone() {
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exited with status {code}"),
                (None, signal) => format!("was killed by signal {}", signal.unwrap_or(0)),
            },
            None => "closed its socket".to_owned(),
        };
        status + &self.said()
    }

    /// The status of a child that is dead, or dies within the next second.
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

    /// What the child printed, as a clause.
    fn said(&mut self) -> String {
        let mut bytes = Vec::new();
        if self.said.rewind().and_then(|()| (&self.said).take(SAID).read_to_end(&mut bytes)).is_err() {
            return String::new();
        }
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).take(2).collect();
        if lines.is_empty() { String::new() } else { format!("; it said `{}`", lines.join(" ")) }
    }
}

/// A child of the thread that starts all of them: a child ends with the thread that started it, as the kernel understands
/// "parent", and who asks first may be gone before who asks last.
fn spawned(mut command: Command) -> io::Result<Child> {
    type Wish = (Command, mpsc::Sender<io::Result<Child>>);
    static STARTER: OnceLock<Option<mpsc::Sender<Wish>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (wishes, come) = mpsc::channel::<Wish>();
        let starts = move || {
            for (mut command, answer) in come {
                let started = spawn(&mut command);
                drop(command);
                // Who asked waits for it.
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
        // One that ended has been waited for, and its number may be another's by now.
        if self.lives() {
            kill_group(&self.child);
            // A killed child is waited for, so that none stays a zombie.
            let _ = self.child.wait();
        }
    }
}

/// A socket with one deadline for all that is read and written.
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

/// A socket's own time-out says that it would block.
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
