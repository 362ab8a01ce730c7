//! The snippets that the binary carries.

use crate::packed::Packed;

static FILES: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/ptx_snippets.z")));

/// `(path, text)` of every file of `ptx_snippets/`, paths relative to the repository, sorted.
pub fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.files()
}
