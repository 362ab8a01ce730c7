//! CUDA GPUs. This is the only crate that uses `cudarc`; building and starting it need no CUDA.
//!
//! A worker process, which this tool starts from its own binary through a hidden verb, makes every driver call. Parent and worker
//! exchange one request at a time over a socket, and each request has a time limit:
//!
//! | event | failure reported by the device |
//! |---|---|
//! | the worker does not reply in time and is killed with its process group | `timed_out` |
//! | a kernel corrupts its context (illegal address, misaligned address, illegal instruction, …) | `crashed`, with the name of the
//! CUDA result |
//! | the worker exits by itself | `crashed`, with its exit status and last output |
//! | the GPU is lost (ECC, NVLink, contained error) | `device_lost`, with the name of the CUDA result |
//! | a byte of a buffer's guard zone is overwritten | an `out_of_bounds` trap, with the address |
//!
//! After each of these, [`emulator::device::Device::reset`] makes the device usable again, and starts a new worker if the old one
//! is gone.
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
