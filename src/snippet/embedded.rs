//! The snippets that the binary carries, compressed: their texts are a twentieth of a binary that fits anywhere.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::ZlibDecoder;

/// Path, NUL, text, NUL, and so on, as `build.rs` writes them.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ptx_snippets.z"));

#[expect(clippy::expect_used, reason = "build.rs wrote it in the build of this binary; no input reaches it")]
static TEXTS: LazyLock<String> = LazyLock::new(|| {
    let mut texts = String::new();
    ZlibDecoder::new(PACKED).read_to_string(&mut texts).expect("what build.rs packed");
    texts
});

/// `(path, text)` of every file of `ptx_snippets/`, paths relative to the repository, sorted.
pub fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut parts = TEXTS.split_terminator('\0');
    std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
}
