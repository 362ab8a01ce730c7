//! Mutation testing of kernels: plants one-line faults one at a time and finds out whether the cases detect them.
//!
//! A mutant that passes every trial is either equivalent to the kernel, which [`FILE`] then states with the reason, or a
//! fault that no case detects.

mod choose;
mod explained;
mod expression;
mod lexer;
mod model;
mod operators;
mod ptx;
mod run;
mod survey;

pub use choose::{Seen, all_features, choose, features_beside};
pub use explained::{Entry, FILE, parse as parse_explained, read as read_explained};
pub use lexer::without_comments;
pub use model::{Mutant, Operator, UnknownOperator};
pub use operators::mutants;
pub use run::{Bench, Fate, MutantError, Prepared, Source, Unfit, holds};
pub use survey::{Judged, Row, Survey, sample};
