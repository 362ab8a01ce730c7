//! The encoding of bytes in the page: deflate, then base64.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The bytes as a zlib stream, which browsers call `deflate`.
pub(super) fn deflated(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 (RFC 4648), padded.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |n: usize| u32::from(chunk.get(n).copied().unwrap_or_default());
        let word = at(0) << 16 | at(1) << 8 | at(2);
        for n in 0..4 {
            if n <= chunk.len() {
                out.push(char::from(ALPHABET[(word >> (18 - 6 * n)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn the_vectors_of_the_rfc() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
    }

    #[test]
    fn what_is_deflated_reads_back() {
        let text = "a form ".repeat(1000);
        let packed = deflated(text.as_bytes()).unwrap();
        let mut back = String::new();
        flate2::read::ZlibDecoder::new(packed.as_slice()).read_to_string(&mut back).unwrap();
        assert!(back == text && packed.len() < 100);
    }
}
