//! The cases that the binary carries.

use crate::packed::Packed;

static FILES: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/cases.z")));

/// `(path, text)` of every file of `cases/`, paths relative to the repository, sorted.
pub fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.files()
}
