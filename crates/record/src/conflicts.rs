//! Answers on which records of several machines disagree.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A question to which merged records give different answers; the merged record contains none of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictRow {
    /// The question: `mma.mxf4.2X with 13.5.37 on sm_121a`.
    pub about: String,
    /// The answers.
    pub answers: Vec<ConflictAnswer>,
}

/// An answer and its sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictAnswer {
    /// The answer in words.
    pub answer: String,
    /// The records with this answer.
    pub sources: Vec<String>,
}
