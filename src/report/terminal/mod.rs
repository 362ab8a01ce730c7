//! The report for a terminal: what a reader came for, on one screen.

mod page;
mod sm12x;
mod tables;

pub use page::{terminal, terminal_matrix, terminal_rest};
