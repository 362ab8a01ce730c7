//! The process that works.

use std::path::PathBuf;

use crate::event::Sink;
use crate::toolkit::NvrtcError;

/// What jobs need of their process; made once, in `main`.
pub struct Context<'a> {
    /// The program, which runs itself for work that may crash.
    pub program: PathBuf,
    /// The folder of this project's libraries, where a package does not put them beside the program.
    pub libraries: Option<PathBuf>,
    /// Receives progress, notices and warnings.
    pub sink: &'a dyn Sink,
}

impl<'a> Context<'a> {
    /// This process.
    ///
    /// # Errors
    /// [`NvrtcError::Worker`], where the system does not tell the program's path.
    pub fn of_process(sink: &'a dyn Sink) -> Result<Self, NvrtcError> {
        Ok(Self { program: std::env::current_exe().map_err(NvrtcError::Worker)?, libraries: None, sink })
    }
}
