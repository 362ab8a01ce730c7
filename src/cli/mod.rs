//! The command line: verbs, progress, error printing and exit codes. Everything it does, a library room does.

mod args;
mod entry;
mod error;
pub mod exit;
mod job;
mod output;
mod progress;
mod verbs;

pub use args::command;
pub use entry::main;
