//! Records for the gate: read, and held to themselves.

use std::path::Path;

use super::claims;
use crate::record::{Record, RecordError};

/// Reads a record and checks that its claims stand on its cells as they say.
///
/// # Errors
/// [`RecordError`]; `Damaged` for one that somebody edited.
pub fn read(path: &Path) -> Result<Record, RecordError> {
    let record = Record::read(path)?;
    match claims::edited(&record.matrix) {
        Some(message) => Err(RecordError::Damaged { path: path.to_owned(), message }),
        None => Ok(record),
    }
}
