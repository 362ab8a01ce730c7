//! Warp and matrix instructions of the emulator: against recorded vectors, and against plain loops.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

mod atomics;
mod harness;
mod mma;
mod recorded;
mod speed;
mod tiles;
mod warp;
mod wmma;
