//! Child processes: run to their end with a time limit ([`run`]), or asked again and again over a socket ([`Session`]).

mod process;
mod session;

pub use process::{Ended, Output, VERB, end_with_parent, run, started};
pub use session::{Session, Timed};
