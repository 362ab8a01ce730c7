//! Files compressed by `build.rs` and embedded in the binary, of which their plain text would be a twentieth.
//!
#![doc = include_str!("../README.md")]

use std::io::Read;
use std::sync::OnceLock;

use flate2::read::ZlibDecoder;

/// The files of `ptx_snippets/`.
pub static SNIPPETS: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/ptx_snippets.z")));

/// The files of `cases/`.
pub static CASES: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/cases.z")));

/// The files of `kernels/`.
pub static KERNELS: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/kernels.z")));

/// The files of one folder of the repository.
#[derive(Debug)]
pub struct Packed {
    /// Pairs of path, NUL, text, NUL, compressed with zlib.
    bytes: &'static [u8],
    texts: OnceLock<String>,
}

impl Packed {
    /// Wraps the output of a build script: pairs of path, NUL, text, NUL, compressed with zlib.
    #[must_use]
    pub const fn new(bytes: &'static [u8]) -> Self {
        Self { bytes, texts: OnceLock::new() }
    }

    /// Iterates over `(path, text)` of all files, sorted by path; paths are relative to the repository.
    #[expect(clippy::expect_used, reason = "packed in the build of this binary; no input reaches it")]
    pub fn files(&'static self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let texts = self.texts.get_or_init(|| {
            let mut texts = String::new();
            ZlibDecoder::new(self.bytes).read_to_string(&mut texts).expect("what build.rs packed");
            texts
        });
        let mut parts = texts.split_terminator('\0');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }
}
