//! Arithmetic on bit patterns, as PTX defines it: canonical NaNs, flushing, saturation, four rounding modes.
//!
//! Sources: PTX ISA "Floating Point Instructions", "Half Precision Floating Point Instructions"; NaNs and signs of zero
//! follow the vectors recorded on an H100.

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

/// The NaN that an invalid double-precision operation returns.
///
/// Measured on an H200.
pub const NAN_F64: u64 = 0xFFF8_0000_0000_0000;
