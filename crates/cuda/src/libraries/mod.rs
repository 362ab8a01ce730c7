//! NVIDIA's libraries of kernels for programs under `exec`. They are machine code, which cannot be emulated, so that their functions are served
//! here: those of cuBLAS and cublasLt ([`blas`]) and of cuFFT ([`fft`]) by kernels of PTX, which run as the program's own do, in its streams and
//! captures and with every rule; those of cuSPARSE ([`sparse`]) by the host, with every access checked; those of cuRAND that generate on a GPU
//! ([`rand`]) by the generators of NVIDIA's own library that run on the host.
//!
//! This library is the first that a process loads, so that its names are found before those of NVIDIA's libraries, whatever opened these. A
//! function that is not served is here, too, and refused by name: none may reach NVIDIA's library with a handle of this one. `answer.rs` has what
//! every call does around its body, `pointer_mode.rs` says where scalars are, `kernels.rs` loads and launches kernels.
#![expect(unsafe_code, reason = "exported names, and pointers of the program")]

mod answer;
mod blas;
mod fft;
mod kernels;
mod pointer_mode;
mod rand;
mod sparse;

/// A function that a program finds here instead of in NVIDIA's library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryFunction {
    /// NVIDIA's name for the library.
    pub library: &'static str,
    /// The name of the function.
    pub name: &'static str,
    /// Whether it does what it is for.
    pub is_served: bool,
}

/// All functions of NVIDIA's libraries that a program finds here.
pub fn library_functions() -> impl Iterator<Item = LibraryFunction> {
    let named = |library: &'static str, is_served| {
        move |name: &&'static str| LibraryFunction { library, name, is_served }
    };
    let blas = blas::served().map(named("cuBLAS", true)).chain(blas::unserved().map(named("cuBLAS", false)));
    let fft =
        fft::SERVED.iter().map(named("cuFFT", true)).chain(fft::UNSERVED.iter().map(named("cuFFT", false)));
    let sparse = sparse::served().map(named("cuSPARSE", true));
    let sparse = sparse.chain(sparse::UNSERVED.iter().map(named("cuSPARSE", false)));
    blas.chain(fft).chain(sparse).chain(rand::SERVED.iter().map(named("cuRAND", true)))
}
