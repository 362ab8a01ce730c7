//! The committed record of the matrix, packed by `build.rs`: every release, where a run asked only some.

use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

use flate2::read::ZlibDecoder;

use crate::record::{Matrix, Record};

/// Returns the committed record of the matrix as JSON.
#[must_use]
pub fn built_in_record() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let packed = include_bytes!(concat!(env!("OUT_DIR"), "/matrix.z"));
        let mut text = String::new();
        // A test rules out that it cannot be read.
        let _ = ZlibDecoder::new(&packed[..]).read_to_string(&mut text);
        text
    })
}

/// Returns the matrix of the committed record; `None` if it cannot be read, which a test rules out.
pub(super) fn matrix() -> Option<&'static Matrix> {
    static MATRIX: OnceLock<Option<Matrix>> = OnceLock::new();
    let read = || Record::parse(Path::new("reports/matrix.json"), built_in_record()).ok();
    MATRIX.get_or_init(|| read().map(|record| record.matrix)).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_committed_record() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/matrix.json");
        let committed = Record::read(&path).unwrap().matrix;
        assert!(matrix() == Some(&committed) && committed.toolkits.len() > 5);
    }
}
