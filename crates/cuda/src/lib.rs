//! `libcuda.so.1` and `libcudart.so` over the emulator: a CUDA program that loads this library runs unmodified, without a GPU, and every
//! launch is checked against the rules of PTX.
//!
#![doc = include_str!("../README.md")]

mod api;
mod contexts;
mod copies;
mod cute_dsl;
mod device;
mod device_calls;
mod entry_points;
mod error_calls;
mod gpus;
mod graph_calls;
mod graph_parameters;
mod graphs;
mod host_memory;
mod launch;
mod launch_calls;
mod memory_calls;
mod module;
mod module_calls;
mod pages;
mod pools;
mod properties;
mod record;
mod registration;
mod results;
mod status;
mod stream_calls;
mod streams;
mod tensor_map_calls;
mod undefined;
mod unserved;
mod work;

pub use gpus::{GPUS, Gpu};
pub use status::Status;
