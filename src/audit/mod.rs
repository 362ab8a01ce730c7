//! Predicts how device code runs on a device, by the rules of architectures, PTX versions and drivers and by its machine code.
//!
//! [`answer`] applies the rules to one piece of code. [`Collector`] turns the findings of [`devcode::scan`] into the record's table.
//! The verdict of a kernel is that of the best entry in its file; if its opcodes are known, they can lower the verdict that its target
//! implies.

mod attention;
mod backend_rules;
mod backends;
mod body;
mod capability;
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
