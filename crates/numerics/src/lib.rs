//! Pure numerics: narrow formats, conversions, IEEE arithmetic as PTX defines it, tensor-core accumulation and layouts.
//!
//! All functions work on bit patterns, so an input has the same result on every host: NaNs are canonical, no result
//! depends on the host's NaN payloads, and the special functions are those of the GPU.
//!
#![doc = include_str!("../README.md")]

pub mod convert;
pub mod fixed;
pub mod float;
pub mod format;
pub mod fragment;
mod operands;
mod path;
pub mod random;
pub mod round;
pub mod scale_layout;
pub mod special;
pub mod stochastic;
pub mod tensor_core;
pub mod texture;
mod wide;

pub use format::Format;
pub use operands::{OperandKind, Regime, UnknownKind};
pub use path::{Path, dispatch};
pub use round::Rounding;
