//! Warp and matrix instructions of the emulator: against recorded vectors, and against plain loops.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

#[path = "emulator_matrix/atomics.rs"]
mod atomics;
#[path = "emulator_matrix/harness.rs"]
mod harness;
#[path = "emulator_matrix/mma.rs"]
mod mma;
#[path = "emulator_matrix/recorded.rs"]
mod recorded;
#[path = "emulator_matrix/speed.rs"]
mod speed;
#[path = "emulator_matrix/tiles.rs"]
mod tiles;
#[path = "emulator_matrix/warp.rs"]
mod warp;
#[path = "emulator_matrix/wmma.rs"]
mod wmma;
