//! Tests of the product in one binary, since every binary links the whole product. Suites with their own `main` are in separate files.

mod audit_answers;
mod audit_bodies;
mod audit_environment;
mod baseline;
mod bench;
mod cli;
mod compiler;
mod coverage;
mod doctor_log;
mod emulate;
mod emulator_targets;
mod execute;
mod gate;
#[cfg(debug_assertions)]
mod gpu;
mod incomplete;
mod judge;
mod lint;
mod report;
mod selftest;
mod snippets;
mod tidy;
mod toolkit;
