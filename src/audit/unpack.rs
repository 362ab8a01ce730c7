//! Compressed code of a fatbin to the bytes it stands for, within what its header announces.

use std::cell::RefCell;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::entry::{Compression, Trouble};
use super::source::Source;

/// The code of a block: at most `unpacked` bytes, which the header announces and the caller has held against its limit.
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
            "{size} bytes of code are announced and {} unpack",
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// LZ4 turns a byte into at most 255; a header that announces more is wrong, and no memory is given for it.
fn lz4(packed: &[u8], size: usize) -> Result<Vec<u8>, Trouble> {
    if size / 255 > packed.len() {
        return Err(Trouble::Damaged(format!("{size} bytes cannot come out of {} of LZ4", packed.len())));
    }
    let mut bytes = vec![0; size];
    let len = lz4_flex::block::decompress_into(packed, &mut bytes)
        .map_err(|error| Trouble::Damaged(format!("its LZ4 code: {error}")))?;
    bytes.truncate(len);
    Ok(bytes)
}

thread_local! {
    /// Its tables and its window are worth keeping: a library has thousands of small blocks.
    static DECODER: RefCell<FrameDecoder> = RefCell::new(FrameDecoder::new());
}

/// Above this the window of a decoder is given back.
const KEPT: usize = 8 << 20;

fn zstd(packed: &[u8], size: usize) -> Result<Vec<u8>, Trouble> {
    DECODER.with_borrow_mut(|decoder| {
        let bytes = zstd_with(decoder, packed, size);
        if size > KEPT || bytes.is_err() {
            *decoder = FrameDecoder::new();
        }
        bytes
    })
}

fn zstd_with(decoder: &mut FrameDecoder, mut packed: &[u8], size: usize) -> Result<Vec<u8>, Trouble> {
    let damaged = |error: &dyn std::fmt::Display| Trouble::Damaged(format!("its Zstandard code: {error}"));
    // No frame needs a window above its contents; 8 MiB is what encoders take when they do not know them yet.
    decoder.set_max_window_size((size as u64).max(8 << 20));
    // What is not written takes no memory.
    let mut bytes = Vec::with_capacity(size);
    while !packed.is_empty() {
        decoder.init(&mut packed).map_err(|error| damaged(&error))?;
        while !decoder.is_finished() {
            decoder
                .decode_blocks(&mut packed, BlockDecodingStrategy::UptoBytes(1 << 20))
                .map_err(|error| damaged(&error))?;
            if bytes.len() + decoder.can_collect() > size {
                return Err(damaged(&format!("more than the {size} bytes that are announced")));
            }
            decoder.collect_to_writer(&mut bytes).map_err(|error| damaged(&error))?;
        }
    }
    Ok(bytes)
}
