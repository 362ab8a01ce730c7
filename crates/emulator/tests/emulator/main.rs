//! The emulator's rules and instructions, from PTX text.

mod arithmetic;
mod r#async;
mod flow;
mod foreign;
mod foreign_calls;
mod foreign_clusters;
mod foreign_directives;
mod foreign_races;
mod foreign_tensormaps;
mod kernels;
mod launch_control;
mod map_chain;
mod matrix;
mod memory_model;
mod registers;
mod stream;
mod tensor;
