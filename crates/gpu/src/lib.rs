//! CUDA GPUs. The only crate that uses `cudarc`; nothing of CUDA is needed to build or to start.
//!
//! Everything that touches the driver happens in a worker process, which this tool starts of itself with a hidden verb. Parent
//! and worker speak over a socket, one request after the other, each with a time limit:
//!
//! | what happens | what the device says |
//! |---|---|
//! | the worker does not answer in time; it is killed with its process group | `timed_out` |
//! | a kernel breaks its context (illegal address, misaligned, illegal instruction, …) | `crashed`, with the result's name |
//! | the worker dies by itself | `crashed`, with its status and its last words |
//! | the GPU is gone (ECC, NVLink, contained) | `device_lost`, with the result's name |
//! | a byte beside a buffer is overwritten | a trap `out_of_bounds`, with the address |
//!
//! After each of these [`emulator::device::Device::reset`] goes on, with a fresh worker where the old one is gone.
//!
#![doc = include_str!("../README.md")]

mod backend;
mod describe;
mod device;
mod driver;
#[cfg(debug_assertions)]
mod fake;
mod gather;
mod link;
mod serve;
mod status;
mod turn;
mod wire;

pub use describe::Description;
pub use device::{Chain, GpuDevice};
pub use link::{GPU_WORKER, Launcher};
pub use serve::serve_gpu;
pub use turn::Turn;
pub use wire::Entry;
