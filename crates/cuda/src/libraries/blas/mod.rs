//! cuBLAS and cublasLt, by the kernels of `kernels.cu`.
//!
//! `functions.rs` and `lt` have the functions that are served, `unserved.rs` the names of all others. `handle.rs` keeps what a program sets,
//! `product.rs` has the form of most kernels, and `kernel.rs` launches.
//!
//! Results agree with the definition of BLAS within the rounding of the type; NVIDIA's library adds in an order of its own.

mod functions;
mod handle;
mod kernel;
mod lt;
mod product;
mod unserved;

/// The functions that are served.
pub(super) fn served() -> impl Iterator<Item = &'static &'static str> {
    functions::NAMES.iter().chain(lt::NAMES).flat_map(|names| names.iter())
}

/// The functions that are refused.
pub(super) fn unserved() -> impl Iterator<Item = &'static &'static str> {
    unserved::NAMES.iter().chain(unserved::OF_LT)
}
