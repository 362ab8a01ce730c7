//! Variants of snippets on a device, rung by rung: does the code load, run, give what the emulator gives, give it a hundred
//! times, and in a graph with other data?
//!
//! Every lane of eight warps has inputs of its own, one regime per warp ([`numerics::Regime`]).

mod climb;
mod data;

pub use climb::{Asked, emulated, on_emulator, run};
