//! The file of events that `sm121probe exec` reads when the program has ended.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use emulator::Stop;
use emulator::events::{Event, RESULTS};

/// The file of results.
#[derive(Debug, Default)]
pub(crate) struct Results(Option<File>);

impl Results {
    /// That of [`RESULTS`].
    pub(crate) fn of_environment() -> Self {
        let path = std::env::var_os(RESULTS);
        Self(path.and_then(|path| OpenOptions::new().append(true).open(Path::new(&path)).ok()))
    }

    /// Appends a line with one call of the system.
    pub(crate) fn tell(&mut self, event: &Event) {
        let (Some(file), Ok(mut line)) = (self.0.as_mut(), serde_json::to_vec(event)) else { return };
        line.push(b'\n');
        // A full disk must not end the program.
        let _ = file.write_all(&line);
    }
}

/// Writes a line to standard error, which the program may have closed.
pub(crate) fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "sm121probe exec: {what}");
}

/// Why a launch was refused, where it broke no rule.
pub(crate) fn refusal(stop: &Stop) -> Option<String> {
    (!matches!(stop, Stop::Trap(_))).then(|| stop.to_string())
}
