//! Runs PTX grids on the CPU, by the documented meaning of PTX. It proves kernels, never hardware.
//!
#![doc = include_str!("../README.md")]

mod assignment;
mod boxes;
mod cluster;
mod copies;
mod cta;
mod decode;
pub mod device;
mod directives;
mod drafts;
mod emulated;
mod flow;
mod guard;
mod isa;
mod launch_check;
mod liveness;
mod load;
mod machine;
mod maps_in_use;
mod memory;
mod names;
mod observe;
mod order;
mod overlap;
mod pending;
mod printf;
mod profile;
mod program;
mod races;
mod remote;
mod resident;
mod schedule;
mod shadow;
mod spans;
mod stream;
mod tensor_map;
mod tensor_map_bytes;
mod tensor_type;
mod transfer;
mod trap;
mod warp;

pub use decode::Registers;
pub use emulated::{EmulatorDevice, Programs};
pub use isa::{Coverage, FormRow, coverage};
pub use load::{load, load_only, load_with};
pub use memory::GlobalMemory;
pub use observe::{Executed, Listed, Nobody, Observer, Remark};
pub use profile::{Profile, SpaceTraffic};
pub use program::{Kernel, Parameter, Program};
pub use schedule::{Counts, Launch, Options, launch, launch_observed, launch_stream, launch_with};
pub use stream::InStream;
pub use tensor_map::{Rule, TENSOR_MAP_BYTES, TensorMap, TensorMapError};
pub use tensor_type::{Interleave, L2Promotion, OobFill, Swizzle, TensorType};
pub use trap::{Law, Place, Stop, StreamStop, Trap, Unsupported};
