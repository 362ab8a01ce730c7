//! The exported functions. `call.rs` runs one and defines the table; each group of functions has a file, in which the row of a function
//! stands above it; `entry_points.rs` joins the tables and finds functions by name and version.

pub(crate) mod call;

mod array_calls;
mod conditional_calls;
mod cute_dsl;
mod device_calls;
pub(crate) mod entry_points;
mod error_calls;
mod graph_calls;
mod graph_instance_calls;
mod graph_parameters;
mod jit_options;
mod launch_calls;
mod launch_parameters;
mod link_calls;
mod managed_calls;
mod memory_calls;
mod module_calls;
mod parameters;
mod properties;
pub(crate) mod refusals;
mod registration;
mod stream_calls;
pub(crate) mod table;
mod tensor_map_calls;
mod texture_calls;
mod unserved;
mod user_object_calls;
mod virtual_memory_calls;
mod word_calls;
