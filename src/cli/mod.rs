//! The command line: verbs, progress, error printing and exit codes. Everything it does, a library room does.

mod args;
mod argument;
mod assumptions;
mod bench;
mod device;
mod diff;
mod doctor;
mod emulate;
mod entry;
mod error;
pub mod exit;
mod gate;
mod gate_kernels;
mod job;
mod judge;
mod kernels;
mod merge;
mod moe;
mod on_gpu;
mod ops;
mod output;
mod progress;
mod ptx_error;
mod run;
mod selftest;
mod tensor_argument;
mod tiles;
mod timing;
mod toolchain;
mod trials;
mod vectors;
mod verbs;
mod watch;
mod ways;

pub use args::command;
pub use entry::main;
