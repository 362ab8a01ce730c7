//! The process context that jobs share.

use std::path::PathBuf;

use crate::event::Sink;
use crate::toolkit::NvrtcError;

/// The context that jobs need from their process; created once, in `main`.
pub struct Context<'a> {
    /// Path of this executable, which starts itself as a child process for work that may crash.
    pub program: PathBuf,
    /// The folder with this project's libraries, if a package does not install them next to the executable.
    pub libraries: Option<PathBuf>,
    /// Receives progress, notices and warnings.
    pub sink: &'a dyn Sink,
}

impl<'a> Context<'a> {
    /// Returns the context of this process.
    ///
    /// # Errors
    /// [`NvrtcError::Worker`] if the path of the executable cannot be determined.
    pub fn of_process(sink: &'a dyn Sink) -> Result<Self, NvrtcError> {
        Ok(Self { program: std::env::current_exe().map_err(NvrtcError::Worker)?, libraries: None, sink })
    }
}
