//! What a document or a project says about cells.

use ptx::arch::{Requirement, Target};
use serde::Deserialize;

use super::axes::Condition;
use record::{Expect, Standing};

/// A statement about cells with its source.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Who says it: document and section, or project and place.
    pub source: String,
    /// Where to read it.
    pub url: Option<String>,
    /// What it says.
    pub expect: Expect,
    /// The PTX `.target`s it speaks of.
    pub targets: Vec<Target>,
    /// The `-arch`s it speaks of; the target itself when left out.
    #[serde(default)]
    pub archs: Vec<Target>,
    /// The toolkits it speaks of; all when left out.
    pub toolkits: Option<Requirement>,
    /// The variants it speaks of; all of the snippet when left out.
    #[serde(default)]
    pub when: Condition,
    /// How it is known to stand.
    #[serde(default)]
    pub stands: Standing,
}
