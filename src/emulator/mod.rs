//! Runs PTX grids on the CPU, by the documented meaning of PTX. It proves kernels, never hardware.

mod assignment;
mod boxes;
mod copies;
mod cta;
mod decode;
mod flow;
mod guard;
mod isa;
mod ledger;
mod load;
mod machine;
mod memory;
mod observe;
mod pending;
mod profile;
mod program;
mod races;
mod schedule;
mod stream;
mod tensor_map;
mod tensor_type;
mod transfer;
mod trap;
mod warp;

pub use isa::{Coverage, FormRow, coverage};
pub use ledger::{Assumption, Status, assumptions};
pub use load::load;
pub use memory::GlobalMemory;
pub use observe::{Executed, Listed, Nobody, Observer};
pub use profile::{Profile, SpaceTraffic};
pub use program::{Kernel, Parameter, Program};
pub use schedule::{Counts, Launch, Options, launch, launch_observed, launch_stream};
pub use stream::InStream;
pub use tensor_map::{Rule, TENSOR_MAP_BYTES, TensorMap, TensorMapError};
pub use tensor_type::{Interleave, L2Promotion, OobFill, Swizzle, TensorType};
pub use trap::{Law, Place, Stop, Trap, Unsupported};
