//! The recordings that the binary carries.

use std::path::Path;

use super::{Recording, VectorsError};

/// Name and archive of each recording of `data/`.
pub const BUILTIN: [(&str, &[u8]); 2] = [
    ("data/sm90.zip", include_bytes!("../data/sm90.zip")),
    ("data/sm120.zip", include_bytes!("../data/sm120.zip")),
];

/// Reads the recordings that the binary carries: an H100's, then the model's of sm_120.
///
/// # Errors
/// When an archive is damaged, which a test of the repository excludes.
pub fn builtin() -> Result<Vec<Recording>, VectorsError> {
    BUILTIN.iter().map(|(name, bytes)| Recording::from_zip(Path::new(name), bytes)).collect()
}
