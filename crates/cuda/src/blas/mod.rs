//! cuBLAS and cublasLt for programs under `exec`: NVIDIA's library is machine code, which cannot be emulated, so that its functions lead to kernels of PTX
//! here (`kernels.cu`). They run as the program's own kernels do: in its streams and captures, with every rule.
//!
//! This library is the first that a process loads, so that its names are found before those of `libcublas.so`, whatever opened that.
//! `functions.rs` and `lt` have the functions that are served, `unserved.rs` the names of all others: none may reach NVIDIA's library with a
//! handle of this one. `handle.rs` keeps what a program sets, `product.rs` has the form of most kernels, and `kernel.rs` launches.
//!
//! Results agree with the definition of BLAS within the rounding of the type; NVIDIA's library adds in an order of its own.
#![expect(unsafe_code, reason = "exported names, and pointers of the program")]

mod functions;
mod handle;
mod kernel;
mod lt;
mod product;
mod unserved;

/// The functions of cuBLAS and cublasLt that a program finds here, and whether each does what it is for.
pub fn cublas_functions() -> impl Iterator<Item = (&'static str, bool)> {
    let served =
        functions::NAMES.iter().chain(lt::NAMES).flat_map(|names| names.iter()).map(|name| (*name, true));
    served.chain(unserved::NAMES.iter().chain(unserved::OF_LT).map(|name| (*name, false)))
}
