//! Records for the gate: read, and checked for consistency.

use std::path::Path;

use crate::record::{Record, RecordError, claims};

/// Reads a record and checks that its cells bear out its claims.
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
