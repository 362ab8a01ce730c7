//! Claims of documents and projects about cells.

use ptx::arch::{Requirement, Target};
use serde::Deserialize;

use super::axes::Condition;
use record::{Expect, Standing};

/// A claim about cells, with its source.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The source: document and section, or project and place.
    pub source: String,
    /// Its URL.
    pub url: Option<String>,
    /// The claimed outcome.
    pub expect: Expect,
    /// The PTX `.target`s the claim covers.
    pub targets: Vec<Target>,
    /// The `-arch`s it covers; the target itself if omitted.
    #[serde(default)]
    pub archs: Vec<Target>,
    /// The toolkits it covers; all if omitted.
    pub toolkits: Option<Requirement>,
    /// The variants it covers; all of the snippet if omitted.
    #[serde(default)]
    pub when: Condition,
    /// Its recorded status.
    #[serde(default)]
    pub stands: Standing,
}
