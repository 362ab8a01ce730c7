//! Runs PTX grids on the CPU according to the PTX ISA. It checks kernels; it says nothing about hardware.
//!
#![doc = include_str!("../README.md")]

mod api;
mod copies;
mod front;
#[cfg(test)]
mod growth;
mod isa;
mod memory;
mod rules;
mod run;
pub mod trials;
mod work;

pub use api::emulated::{EmulatorDevice, Programs};
pub use api::observe::{Conflicts, Executed, Listed, Nobody, Observer, Remark, Violation};
pub use api::profile::{Profile, SpaceTraffic};
pub use api::trap::{
    Judge, Lack, OTHER_ACCESS, OtherAccess, Place, Rule, Stop, StreamStop, Trap, Unsupported,
};
pub use api::{argument, device, events, gpus, texture};
pub use copies::tensor_map::{Im2col, MapRule, TENSOR_MAP_BYTES, TensorMap, TensorMapError};
pub use copies::tensor_type::{Interleave, L2Promotion, OobFill, Swizzle, TensorType};
pub use front::contraction::Contraction;
pub use front::decode::Registers;
pub use front::launch_check::refused_configuration;
pub use front::load::{load, load_only, load_shared, load_with};
pub use front::program::{Kernel, Parameter, Program};
pub use front::syntax::{ListedForm, ListedOperand, ListedWords, Modifiers, listed_forms, modifiers};
pub use front::variables::{VariableError, VariableOf};
pub use isa::{Coverage, FormRow, coverage};
pub use memory::defined::{UndefinedRun, Uses};
pub use memory::global::GlobalMemory;
pub use memory::lent::HostBytes;
pub use memory::window::GLOBAL_BASE;
pub use memory::withheld::TakenBuffer;
pub use rules::float_sums::{FloatSum, FloatType};
pub use run::directed::Directed;
pub use run::launch::{
    Counts, KeptLane, Launch, Options, launch, launch_observed, launch_stream, launch_with, model_of,
};
pub use run::progress::Progress;
pub use run::stream::InStream;
pub use run::turns::Turns;
pub use run::watchpoint::{LastWrite, Watchpoints};
