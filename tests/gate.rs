//! Records compared, a run against its baseline, and what machines read of it.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

#[path = "gate/ci_kit.rs"]
mod ci_kit;
#[path = "gate/faults.rs"]
mod faults;
#[path = "gate/fixture.rs"]
mod fixture;
#[path = "gate/fleet.rs"]
mod fleet;
#[path = "gate/inputs.rs"]
mod inputs;
#[path = "gate/kernels.rs"]
mod kernels;
#[path = "gate/machines.rs"]
mod machines;
#[path = "gate/mutants.rs"]
mod mutants;
#[path = "gate/records.rs"]
mod records;
