//! Numerics against independent formulas and recorded answers.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

#[path = "num/arithmetic.rs"]
mod arithmetic;
#[path = "num/fast.rs"]
mod fast;
#[path = "num/fixed.rs"]
mod fixed;
#[path = "num/formats.rs"]
mod formats;
#[path = "num/layouts.rs"]
mod layouts;
#[path = "num/recordings.rs"]
mod recordings;
#[path = "num/tensor_core.rs"]
mod tensor_core;
