//! The gate: compares two records, or a run with its baseline and expectations, and merges the records of many machines.
//!
//! An answer is a cell of the matrix ([`CellChange`]) or a [`Fact`] about a [`Subject`]: a tile, a trial, a check, a claim.

mod cells;
mod changed;
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
mod subject;
mod survivors;

pub use cells::{CellChange, Regression, regressions_of};
pub use changed::{Affected, Base, Cases, Named, Selection};
pub use date::Date;
pub use diff::{Diff, FactChange, Lanes, diff};
pub use direction::Direction;
pub use expectations::{Expectation, ExpectedAnswer, parse as parse_expectations, read as read_expectations};
pub use facts::{Fact, FactAnswer, Facts, facts};
pub use fleet::{Fleet, Model, Seen};
pub use glob::Glob;
pub use groups::{Group, groups};
pub use judge::{Judgement, LeftOut, Question, judge};
pub use merge::{Disagreement, Merger};
pub use places::{locate, named};
pub use private::{Names, private};
pub use read::read;
pub use shard::Shard;
pub use subject::{ClaimKey, Kind, Lane, RunKey, Subject, TileKey, TrialKey};
pub use survivors::survivors;
