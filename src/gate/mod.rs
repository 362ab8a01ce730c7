//! The gate: two records compared, a run against its baseline and what is expected of it, records of many machines.
//!
//! An answer is a cell of the matrix ([`CellChange`]) or a [`Fact`] with its [`Scope`]: a tile, a trial, a rung, a claim.

mod cells;
mod changed;
mod claims;
mod condition;
mod date;
mod diff;
mod direction;
mod expectations;
mod facts;
mod fleet;
mod glob;
mod groups;
mod judge;
mod lines;
mod merge;
mod places;
mod preprocessor;
mod private;
mod reach;
mod read;
mod shard;
mod survivors;

pub use cells::{CellAnswer, CellChange, Regression, regressions_of};
pub use changed::{Affected, Base, Selection};
pub use claims::rejudge;
pub use date::Date;
pub use diff::{Diff, FactChange, Lanes, diff};
pub use direction::Direction;
pub use expectations::{
    Expectation, ExpectationError, parse as parse_expectations, read as read_expectations,
};
pub use facts::{Fact, Facts, Kind, Scope, facts, of_trial};
pub use fleet::{Fleet, Model, Seen};
pub use glob::Glob;
pub use groups::{Group, groups};
pub use judge::{Judgement, Question, judge};
pub use merge::{Disagreement, Merger};
pub use places::{locate, named};
pub use private::{Names, private};
pub use read::read;
pub use shard::Shard;
pub use survivors::survivors;
