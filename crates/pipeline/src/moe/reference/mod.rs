//! The expected result of each stage, computed in doubles from the stored operands, with a bound for each value.
//!
//! `docs/numerics.md` derives the bounds; the comments cite its section numbers. Decode tables are this module's own, so
//! that an error cannot hide in both the emulator and the reference; a test compares them.

pub mod activation;
pub mod epilogue;
pub mod expected;
pub mod finalize;
pub mod formats;
pub mod gemm;
pub mod interval;
pub mod line;
pub mod quantize;
pub mod route;
pub mod scores;
pub mod sum;
pub mod token_scale;
