//! What each stage should store, in doubles from the operands as they are stored, with a bound for each value.
//!
//! `docs/bounds.md` derives the bounds. Decode tables are this room's own, so that an error of the emulator's cannot hide
//! in both; a test compares them.

pub mod formats;
pub mod route;
