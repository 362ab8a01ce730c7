//! Records compared, a run against its baseline, and what machines read of it.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

#[path = "gate/faults.rs"]
mod faults;
#[path = "gate/fixture.rs"]
mod fixture;
#[path = "gate/inputs.rs"]
mod inputs;
#[path = "gate/machines.rs"]
mod machines;
#[path = "gate/records.rs"]
mod records;
