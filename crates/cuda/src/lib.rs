//! `libcuda.so.1` and `libcudart.so` over the emulator: a CUDA program that loads this library runs unmodified, without a GPU, and every
//! launch is checked against the rules of PTX.
//!
#![doc = include_str!("../README.md")]

mod api;
mod device;
mod libraries;
mod preload;
mod program;
mod status;

pub use api::entry_points::entry_points;
pub use api::refusals::cause;
pub use api::table::{Call, EntryPoint};
pub use device::contexts::Needs;
pub use libraries::{LibraryFunction, library_functions};
pub use status::Status;
