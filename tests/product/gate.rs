//! Records compared, a run against its baseline, and the machine-readable forms.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod ci_kit;
mod faults;
mod fixture;
mod fleet;
mod inputs;
mod kernels;
mod machines;
mod mutants;
mod records;
