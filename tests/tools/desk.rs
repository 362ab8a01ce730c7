//! A folder in which the command runs, and what it prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

/// A folder for the files of a test.
pub(super) struct Desk {
    pub(super) dir: TempDir,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// The text of a built-in kernel.
pub(super) fn ours(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels").join(name)).unwrap()
}

/// Both outputs of the command as one line, without the frames of diagnostics.
pub(super) fn both_streams(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr).replace('│', " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
