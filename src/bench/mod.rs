//! Where the time goes: profiles that other tools took, and times of the pipeline on a GPU.
//!
//! A profile of a decode step ([`summary`]) is divided into classes of kernels by a data file ([`Classes`]); the share of
//! the MoE GEMMs decides whether work on their tiles can pay ([`decision`]).
//!
//! [`Bench`] times every stage for every tile and number of tokens, beside what the GPU reads and multiplies at most
//! ([`bandwidth`], [`rate`]) and what each stage must read and multiply ([`work`]); [`regrets`] says what tile policies cost.

mod ceiling;
mod chrome;
mod classes;
mod count;
mod decision;
mod error;
mod nsys;
mod profile;
mod regret;
mod timing;

pub use ceiling::{Effort, bandwidth, median, rate, reader};
pub use classes::{Class, Classes};
pub use count::{Work, work};
pub use decision::{CAUTIOUS_FROM, GO_ABOVE, decision};
pub use error::BenchError;
pub use profile::{Kernels, Timed, read, summary};
pub use regret::regrets;
pub use timing::{Bench, Measured, TimingError};
