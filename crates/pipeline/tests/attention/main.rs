//! The judge of attention: dumps of a kernel that computes as FlashAttention 2 does are right whatever it rounds, each planted fault is
//! explained, and contradictions in a file are named.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod bad_input;
mod faults;
mod kernel;
mod layouts;
mod llama;
mod mla;
mod right;
mod sparse_mla;
mod writer;
