//! Runs variants of snippets on a device and checks them against the emulator.
//!
//! The checks are that the code loads, runs, matches the emulator, repeats its result in a hundred graph replays, and
//! matches the emulator in a replay with other data.
//!
//! Every lane has different inputs, drawn from one regime per warp ([`numerics::Regime`]).

mod checks;
mod data;

pub use checks::{Asked, emulated, on_emulator, run};
