//! Names GPU targets, their suffixes and families, and PTX ISA and toolkit versions.
//!
//! A **target** is what PTX is written for (`.target sm_121a`) and what ptxas assembles for (`-arch=sm_121a`).
//! Rules: PTX ISA, "PTX Module Directives: .target", and the text of `ptxas --help` for `--gpu-name`.

mod history;
mod rebuild;
mod requirement;
mod target;
mod text;
mod version;

pub use rebuild::{Rebuild, rebuild};
pub use requirement::{BadRequirement, Requirement};
pub use target::{Suffix, Target, UnknownTarget};
pub use version::{BadVersion, PtxIsa, ToolkitVersion};
