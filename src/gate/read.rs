//! Reads records for the gate and checks their consistency.

use std::path::Path;

use crate::record::{Record, RecordError, claims};

/// Reads a record and checks that its claims agree with its cells.
///
/// # Errors
/// [`RecordError`]; `Damaged` if the record was edited.
pub fn read(path: &Path) -> Result<Record, RecordError> {
    let record = Record::read(path)?;
    match claims::edited(&record.matrix) {
        Some(message) => Err(RecordError::Damaged { path: path.to_owned(), message }),
        None => Ok(record),
    }
}
