//! Arithmetic on bit patterns, as PTX defines it: canonical NaNs, flushing, saturation, four rounding modes.
//!
//! Sources: PTX ISA "Floating Point Instructions", "Half Precision Floating Point Instructions"; the answers of an
//! H100 in the recorded vectors decide NaNs and signs of zero.

mod approximate;
mod double;
mod half;
mod minmax;
mod saturate;
mod single;
pub(crate) mod value;
mod wide_approx;

pub use approximate::*;
pub use double::*;
pub use half::*;
pub use minmax::*;
pub use saturate::*;
pub use single::*;
pub use wide_approx::*;

/// The NaN that an invalid double-precision operation gives.
///
/// No recorded vector holds one; CUDA's floating-point guide prints this pattern.
pub const NAN_F64: u64 = 0xFFF8_0000_0000_0000;
