//! The command line: arguments, progress, printing and exit codes. What verbs do, [`crate::job`] does.

mod args;
mod assumptions;
mod audit;
mod bench;
mod device;
mod diff;
mod doctor;
mod emulate;
mod emulate_report;
mod entry;
mod error;
pub mod exit;
mod format;
mod gate;
mod gate_mutants;
mod judge;
mod kernels;
mod lint;
mod merge;
mod model;
mod moe;
mod on_gpu;
mod ops;
mod output;
mod progress;
mod ptx_error;
mod run;
mod selftest;
mod tiles;
mod timing;
mod vectors;
mod verbs;
mod watch;
mod ways;

pub use args::command;
pub use entry::main;
