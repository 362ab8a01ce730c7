//! Starts a tool found on the machine, for every part of this module.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::worker::{self, Ended, Output};

/// Runs `program` under the name `name`, so that its messages do not depend on its path.
pub(super) fn run<I, S>(program: &Path, name: &str, args: I, limit: Duration) -> io::Result<Output>
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    worker::run(Command::new(program).arg0(name).args(args), limit)
}

/// How a process ended, as a clause that follows "it".
pub(super) fn words(ended: Ended, limit: Duration) -> String {
    match ended {
        Ended::Exited(code) => format!("exited with status {code}"),
        Ended::Signalled(signal) => format!("was killed by signal {signal}"),
        Ended::TimedOut => format!("did not end within {} s", limit.as_secs_f32()),
    }
}

/// The first non-empty line of `text`, cut to a readable length.
pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    line.chars().filter(|c| !c.is_control()).take(160).collect()
}
