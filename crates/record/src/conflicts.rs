//! Answers on which records of several machines disagree.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One question to which merged records give different answers; the merged record holds none of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictRow {
    /// What was asked: `mma.mxf4.2X with 13.5.37 on sm_121a`.
    pub about: String,
    /// The answers.
    pub answers: Vec<ConflictAnswer>,
}

/// An answer, and who gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictAnswer {
    /// The answer in words.
    pub answer: String,
    /// The records that give it.
    pub sources: Vec<String>,
}
