//! `libcuda.so.1` and `libcudart.so` over the emulator: a CUDA program that loads this library runs unmodified, without a GPU, and every
//! launch is checked against the rules of PTX.
//!
#![doc = include_str!("../README.md")]

mod api;
mod device;
mod driver;
mod gpus;
mod host_memory;
mod launch;
mod memory_calls;
mod module;
mod properties;
mod registration;
mod results;
mod runtime;
mod status;
mod streams;
mod unserved;

pub use gpus::{GPUS, Gpu};
pub use status::Status;
