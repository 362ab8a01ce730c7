//! Child processes: run to completion with a time limit ([`run`]), or queried repeatedly over a socket ([`Session`]).

mod process;
mod session;

pub use process::{Ended, Output, VERB, end_with_parent, run, started};
pub use session::{Session, Timed};
