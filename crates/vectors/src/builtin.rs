//! The built-in recordings.

use std::path::Path;

use super::{Recording, VectorsError};

/// Name and archive of each recording in `data/`.
pub const BUILTIN: [(&str, &[u8]); 2] = [
    ("data/sm90.zip", include_bytes!("../data/sm90.zip")),
    ("data/sm120.zip", include_bytes!("../data/sm120.zip")),
];

/// Reads the built-in recordings: that of an H100, then that of the sm_120 model.
///
/// # Errors
/// If an archive is damaged, which a test rules out.
pub fn builtin() -> Result<Vec<Recording>, VectorsError> {
    BUILTIN.iter().map(|(name, bytes)| Recording::from_zip(Path::new(name), bytes)).collect()
}
