//! Performance analysis: profiles recorded by other tools, and timings of the pipeline on a GPU.
//!
//! [`summary`] divides the profile of a decode step into classes of kernels, defined by a data file ([`Classes`]). The share
//! of the MoE GEMMs decides whether tuning their tiles can pay ([`decision`]).
//!
//! [`Decodes`] times decode steps of attention over long caches. [`Bench`] times every stage for every tile and number of tokens. The times are compared with the GPU's peak rates
//! ([`bandwidth`], [`rate`]) and the minimum work of each stage ([`work`]); [`regrets`] computes the cost of tile policies.

mod ceiling;
mod chrome;
mod classes;
mod count;
mod decision;
mod decode;
mod error;
mod nsys;
mod profile;
mod regret;
mod timing;

pub use ceiling::{Effort, bandwidth, median, rate, reader};
pub use classes::{Class, Classes};
pub use count::{Work, work};
pub use decision::{CAUTIOUS_FROM, GO_ABOVE, decision};
pub use decode::Decodes;
pub use error::BenchError;
pub use profile::{Kernels, Timed, read, summary};
pub use regret::regrets;
pub use timing::{Bench, Measured, TimingError};
