//! The compiler under test: what ptxas is known to get wrong, in PTX and in machine code, and random kernels that look for more.
//!
#![doc = include_str!("../README.md")]

pub mod fuzz;
pub mod known;
pub mod machine;
