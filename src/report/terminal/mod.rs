//! The report for a terminal: the essentials on one screen.

mod page;
mod sm12x;
mod tables;

pub use page::{terminal, terminal_matrix, terminal_rest};
