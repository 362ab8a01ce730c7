//! What this machine can run: every GPU, its driver, every toolkit, and what runs on what. Each answer on a GPU was had by
//! loading code and running it, and stands beside the rule that says what it should be.

mod examine;
mod known_bad;
mod probe;

pub use examine::{Findings, GpuFindings, ToolkitLine, examine};
pub use known_bad::{KnownBad, known_bad};
pub use probe::{Answer, Asked, Form};
