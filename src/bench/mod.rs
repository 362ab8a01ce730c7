//! Where the time goes: profiles that other tools took, and what they decide.
//!
//! A profile of a decode step ([`summary`]) is divided into classes of kernels by a data file ([`Classes`]); the share of
//! the MoE GEMMs decides whether work on their tiles can pay ([`decision`]).

mod chrome;
mod classes;
mod decision;
mod error;
mod nsys;
mod profile;

pub use classes::{Class, Classes};
pub use decision::{CAUTIOUS_FROM, GO_ABOVE, decision};
pub use error::BenchError;
pub use profile::{Kernels, Timed, read, summary};
