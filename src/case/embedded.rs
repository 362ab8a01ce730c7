//! The cases that the binary carries.

/// `(path, text)` of every file of `cases/`, paths relative to the repository, sorted.
#[must_use]
pub fn files() -> &'static [(&'static str, &'static str)] {
    include!(concat!(env!("OUT_DIR"), "/cases.rs"))
}
