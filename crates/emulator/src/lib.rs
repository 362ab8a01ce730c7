//! Runs PTX grids on the CPU, by the documented meaning of PTX. It proves kernels, never hardware.
//!
#![doc = include_str!("../README.md")]

pub mod argument;
mod assignment;
mod boxes;
mod copies;
mod cta;
mod decode;
pub mod device;
mod drafts;
mod emulated;
mod flow;
mod guard;
mod isa;
mod liveness;
mod load;
mod machine;
mod memory;
mod observe;
mod order;
mod overlap;
mod pending;
mod profile;
mod program;
mod races;
mod resident;
mod schedule;
mod shadow;
mod spans;
mod stream;
mod tensor_argument;
mod tensor_map;
mod tensor_type;
mod transfer;
mod trap;
mod warp;

pub use decode::Registers;
pub use emulated::{EmulatorDevice, Programs};
pub use isa::{Coverage, FormRow, coverage};
pub use load::{load, load_with};
pub use memory::GlobalMemory;
pub use observe::{Executed, Listed, Nobody, Observer};
pub use profile::{Profile, SpaceTraffic};
pub use program::{Kernel, Parameter, Program};
pub use schedule::{Counts, Launch, Options, launch, launch_observed, launch_stream};
pub use stream::InStream;
pub use tensor_map::{Rule, TENSOR_MAP_BYTES, TensorMap, TensorMapError};
pub use tensor_type::{Interleave, L2Promotion, OobFill, Swizzle, TensorType};
pub use trap::{Law, Place, Stop, StreamStop, Trap, Unsupported};
