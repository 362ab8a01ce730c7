//! The native module of the Python package `sm121probe`: launches on the emulator, compilation, and the command.
//!
//! The module is private to the package, which provides the public names, types and documentation.
#![expect(
    unsafe_code,
    reason = "arrays of other libraries are memory behind a pointer: `array.rs`, `dlpack.rs`"
)]

mod argument;
mod array;
mod array_interface;
mod attention;
mod command;
mod dlpack;
mod history;
mod host_array;
mod launch;
mod map;
mod memory;
mod product;
mod program;
mod report;
mod worker;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::attention::{attention_bound, judge_attention};
    #[pymodule_export]
    use super::command::{compile_cuda, matrix_record, run_command};
    #[pymodule_export]
    use super::history::last_write;
    #[pymodule_export]
    use super::host_array::HostArray;
    #[pymodule_export]
    use super::launch::launch;
    #[pymodule_export]
    use super::map::TensorMap;
    #[pymodule_export]
    use super::memory::Memory;
    #[pymodule_export]
    use super::product::{explain_product, product_bounds};
    #[pymodule_export]
    use super::program::Program;
}
