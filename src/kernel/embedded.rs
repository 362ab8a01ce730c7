//! The kernels that the binary carries.

use crate::packed::Packed;

static FILES: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/kernels.z")));

/// `(path, text)` of every file of `kernels/`, paths relative to the repository, sorted.
pub(super) fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.files()
}
