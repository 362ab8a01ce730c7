//! What the gate found: verdicts, differences of records, fleets and surviving mutants.

mod diff;
mod fleet;
mod newcomer;
mod survivors;
mod verdict;

pub use diff::{diff_json, diff_markdown, diff_summary, diff_text};
pub use fleet::{fleet_markdown, fleet_text};
pub use newcomer::{Newcomer, newcomer};
pub use survivors::{survivors_markdown, survivors_summary, survivors_text};
pub use verdict::{verdict_markdown, verdict_text};
