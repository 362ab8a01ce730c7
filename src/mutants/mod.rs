//! Mutation testing of kernels: faults of one line, planted one at a time, and what the cases say of each.
//!
//! A mutant that every trial passes is either the same kernel in other words, which [`FILE`] then says with the reason, or a
//! fault that no case would notice.

mod choose;
mod explained;
mod expression;
mod lexer;
mod model;
mod operators;
mod ptx;
mod run;
mod survey;

pub use choose::{choose, cost, features, features_beside};
pub use explained::{Entry, FILE, parse as parse_explained, read as read_explained};
pub use lexer::without_comments;
pub use model::{Mutant, Operator, UnknownOperator};
pub use operators::mutants;
pub use run::{Bench, Fate, MutantError, Prepared, Source, Unfit};
pub use survey::{Judged, Row, Survey, sample};
