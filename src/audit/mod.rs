//! What becomes of device code on a device: the rules of architectures, PTX versions and drivers, and what machine code shows.
//!
//! [`answer`] is the rule for one piece of code. [`Collector`] takes what [`devcode::scan`] finds and makes the record's table of it: a
//! kernel is answered by the best of its entries in its file, and where its opcodes are known they may say less than its target.

mod backend_rules;
mod backends;
mod collect;
mod disassemble;
mod installed;
mod opcodes;
mod pattern;
mod rule;

pub use backends::{describe, describe_caches};
pub use collect::{Collector, Naming, Which};
pub use installed::{Distribution, Installed, SitesError, sites_of};
pub use rule::{Device, answer};
