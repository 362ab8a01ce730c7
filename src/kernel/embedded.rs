//! The kernels that the binary carries.

/// `(path, text)` of every file of `kernels/`, paths relative to the repository, sorted.
#[must_use]
pub(super) fn files() -> &'static [(&'static str, &'static str)] {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"))
}
