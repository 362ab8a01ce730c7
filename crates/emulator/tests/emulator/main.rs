//! The emulator through its API: recordings of hardware, plain computations, random programs. Tests that are PTX and an
//! expected outcome are in `tests/filetests`.

mod kernels;
mod launch;
mod matrix;
mod registers;
mod tensor;
