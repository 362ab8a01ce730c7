//! Runs PTX grids on the CPU, by the documented meaning of PTX. It proves kernels, never hardware.

mod assignment;
mod copies;
mod cta;
mod decode;
mod flow;
mod guard;
mod isa;
mod load;
mod machine;
mod memory;
mod observe;
mod pending;
mod profile;
mod program;
mod schedule;
mod trap;
mod warp;

pub use isa::{Coverage, FormRow, coverage};
pub use load::load;
pub use memory::GlobalMemory;
pub use observe::{Executed, Listed, Nobody, Observer};
pub use profile::{Profile, SpaceTraffic};
pub use program::{Kernel, Parameter, Program};
pub use schedule::{Counts, Launch, Options, launch, launch_observed};
pub use trap::{Law, Place, Stop, Trap, Unsupported};
