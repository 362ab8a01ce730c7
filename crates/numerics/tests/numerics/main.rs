//! Numerics against independent formulas and recorded answers.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod arithmetic;
mod conversions;
mod fast;
mod fixed;
mod flush;
mod formats;
mod layouts;
mod nearest;
mod tensor_core;
