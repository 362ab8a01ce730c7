//! Variants of snippets on a device, check by check: does the code load, run, give what the emulator gives, give it a hundred
//! times, and in a graph with other data?
//!
//! Every lane of eight warps has inputs of its own, one regime per warp ([`numerics::Regime`]).

mod checks;
mod data;

pub use checks::{Asked, emulated, on_emulator, run};
