//! Decompresses the code of a fatbin, limited to the size that its header announces.

use std::cell::RefCell;

use zstd::bulk::Decompressor;

use super::entry::{Compression, Trouble};
use super::source::Source;

/// Unpacks the code of a block to exactly `unpacked` bytes, a size that the header announces and the caller has checked.
pub(super) fn unpack(code: &Source, compression: Compression, unpacked: u64) -> Result<Vec<u8>, Trouble> {
    let packed = code.read(0, code.len())?;
    let size =
        usize::try_from(unpacked).map_err(|_| Trouble::TooLarge(format!("{unpacked} bytes of code")))?;
    let bytes = match compression {
        Compression::None => packed,
        Compression::Lz4 => lz4(&packed, size)?,
        Compression::Zstd => zstd(&packed, size)?,
    };
    if bytes.len() != size {
        return Err(Trouble::Damaged(format!(
            "{size} bytes of code are declared, but {} were unpacked",
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// LZ4 expands a byte to at most 255; a header that declares more is wrong, and no memory is allocated for it.
fn lz4(packed: &[u8], size: usize) -> Result<Vec<u8>, Trouble> {
    if size / 255 > packed.len() {
        return Err(Trouble::Damaged(format!(
            "{size} bytes cannot be decompressed from {} bytes of LZ4 data",
            packed.len()
        )));
    }
    let mut bytes = vec![0; size];
    let len = lz4_flex::block::decompress_into(packed, &mut bytes)
        .map_err(|error| Trouble::Damaged(format!("its LZ4 code: {error}")))?;
    bytes.truncate(len);
    Ok(bytes)
}

thread_local! {
    /// Reused for its tables: a library has thousands of small blocks.
    static DECODER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Decompresses the consecutive frames of a block directly into the output, without a separate window buffer.
fn zstd(packed: &[u8], size: usize) -> Result<Vec<u8>, Trouble> {
    let damaged = |error: std::io::Error| Trouble::Damaged(format!("its Zstandard code: {error}"));
    DECODER.with_borrow_mut(|kept| {
        let decoder = match kept {
            Some(decoder) => decoder,
            None => kept.insert(Decompressor::new().map_err(damaged)?),
        };
        decoder.decompress(packed, size).map_err(damaged)
    })
}
