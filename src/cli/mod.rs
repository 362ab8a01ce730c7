//! The command line: arguments, progress, printing and exit codes. [`crate::job`] does the work of the commands.

mod args;
mod assumptions;
mod audit;
mod bench;
mod contract;
mod device;
mod diff;
mod doctor;
mod emulate;
mod emulate_report;
mod entry;
mod error;
mod exec;
pub mod exit;
mod findings;
mod format;
mod gate;
mod gate_mutants;
mod judge;
mod kernels;
mod lint;
mod merge;
mod model;
mod moe;
mod moe_formats;
mod on_gpu;
mod ops;
mod output;
mod page;
mod predicates;
mod progress;
mod ptx_error;

mod rules;
mod run;
mod runner;
mod selftest;
mod tiles;
mod timing;
mod trials;
mod vectors;
mod verbs;
mod watch;
mod ways;

pub use args::command;
pub use entry::{Embedded, command_line, main};
