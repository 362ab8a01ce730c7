//! Runs the command and NVRTC in the process of the interpreter.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use sm121probe::cli::Embedded;
use sm121probe::event::{Event, Sink};
use sm121probe::job::Context;
use sm121probe::job::launch::{Compile, compile_cuda as compile};

use crate::report;

/// Runs `sm121probe` with these words, the program name first, and returns the exit code. `program` is an executable of the same
/// command; `libraries` is the folder of its libraries.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, words: Vec<OsString>, program: PathBuf, libraries: PathBuf) -> u8 {
    py.detach(|| sm121probe::cli::command_line(words, Some(Embedded { program, libraries })))
}

/// Returns the committed record of the matrix as JSON.
#[pyfunction]
pub(crate) fn matrix_record() -> &'static str {
    sm121probe::report::built_in_record()
}

/// Collects the notices of a job for the caller.
#[derive(Default)]
struct Notices(std::sync::Mutex<Vec<String>>);

impl Sink for Notices {
    fn emit(&self, event: Event) {
        if let (Event::Notice { text }, Ok(mut notices)) = (event, self.0.lock()) {
            notices.push(text);
        }
    }
}

/// Compiles CUDA C++ for a target; returns the PTX, the notices, and the error as JSON if it fails.
#[pyfunction]
pub(crate) fn compile_cuda(
    py: Python<'_>,
    text: &str,
    name: &str,
    target: Option<String>,
    toolkit: Option<String>,
    program: PathBuf,
) -> (Option<String>, Vec<String>, Option<String>) {
    let notices = Notices::default();
    let result = py.detach(|| {
        let context = Context { program, libraries: None, sink: &notices };
        compile(text, name, &Compile { target, toolkit, ..Compile::default() }, &context)
    });
    let notices = notices.0.into_inner().unwrap_or_default();
    match result {
        Ok((_, ptx)) => (Some(ptx), notices, None),
        Err(error) => (None, notices, Some(report::failed(&error, None).to_string())),
    }
}
