//! The compiler under test: what ptxas is known to get wrong.
//!
#![doc = include_str!("../README.md")]

pub mod fuzz;
pub mod known;
pub mod machine;
