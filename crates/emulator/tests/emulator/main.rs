//! The emulator through its API: recordings of hardware, plain computations, random programs. What PTX text and an expected
//! outcome can say is in `tests/filetests`.

mod kernels;
mod launch;
mod matrix;
mod registers;
mod tensor;
