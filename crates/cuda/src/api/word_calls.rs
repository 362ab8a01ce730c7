//! Entry points of the driver for what streams do with words of memory. Arguments that are refused are those that an H200 with driver 580
//! refuses.
#![expect(unsafe_code, reason = "exported names")]

use crate::api::table::entry_points;
use crate::device::state::device;
use crate::device::submit::submit;
use crate::device::work::{Condition, Word, WordWork, Work};
use crate::program::caller::called_function;
use crate::program::pointers::In;
use crate::status::{Answer, Status};

/// `CU_STREAM_WAIT_VALUE_FLUSH`.
const FLUSH: u32 = 1 << 30;
/// The most operations of one call.
const MOST_OPERATIONS: u32 = 256;

/// `CUstreamBatchMemOpParams`: the union has one layout for all operations on words.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    kind: u32,
    pad: u32,
    at: u64,
    value: u64,
    flags: u32,
    pad2: u32,
    more: [u64; 2],
}

fn word(at: u64, value: u64, size: usize) -> Result<Word, Status> {
    if at == 0 || !at.is_multiple_of(size as u64) {
        Err(Status::INVALID_VALUE)
    } else {
        Ok(Word { at, value, size })
    }
}

fn written(word: Word, flags: u32) -> Result<WordWork, Status> {
    if flags == 0 { Ok(WordWork::Write(word)) } else { Err(Status::INVALID_VALUE) }
}

fn awaited(word: Word, flags: u32) -> Result<WordWork, Status> {
    let condition = Condition::from_number(flags & !FLUSH)?;
    if flags & FLUSH != 0 { Err(no_flush()?) } else { Ok(WordWork::Wait(word, condition)) }
}

/// The status of a flush of remote writes, which the GPU's attributes exclude.
fn no_flush() -> Result<Status, Status> {
    device()?.miss(&format!(
        "{}: the GPU flushes no remote writes (CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES is 0); leave the flush out",
        called_function()
    ));
    Ok(Status::NOT_SUPPORTED)
}

fn submitted(stream: u64, work: &[WordWork]) -> Answer {
    // SAFETY: neither a copy nor a fill.
    unsafe { submit(stream, Work::Words(work.into())) }
}

impl Operation {
    /// The work of an operation; `None` for a barrier, which orders what runs in order.
    fn work(self) -> Result<Option<WordWork>, Status> {
        let Self { kind, at, value, flags, .. } = self;
        let low = value & u64::from(u32::MAX);
        Ok(Some(match kind {
            1 => awaited(word(at, low, 4)?, flags)?,
            2 => written(word(at, low, 4)?, flags)?,
            3 => return Err(no_flush()?),
            4 => awaited(word(at, value, 8)?, flags)?,
            5 => written(word(at, value, 8)?, flags)?,
            6 => return Ok(None),
            8 => {
                device()?.miss(&format!(
                    "{}: atomic reductions are not served; reduce in a kernel",
                    called_function()
                ));
                return Err(Status::NOT_SUPPORTED);
            }
            _ => return Err(Status::INVALID_VALUE),
        }))
    }
}

entry_points! {
    WORD, WORD_CALLS;

    [cuStreamWriteValue32, cuStreamWriteValue32_ptsz: (Init, zeros INVALID_VALUE, since 8_000)]
    [cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz: (Init, zeros INVALID_VALUE, since 11_070)]
    fn (stream: u64, to: u64, value: u32, flags: u32) { submitted(stream, &[written(word(to, u64::from(value), 4)?, flags)?]) }
    [cuStreamWriteValue64, cuStreamWriteValue64_ptsz: (Init, zeros INVALID_VALUE, since 9_000)]
    [cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz: (Init, zeros INVALID_VALUE, since 11_070)]
    fn (stream: u64, to: u64, word_value: u64, flags: u32) { submitted(stream, &[written(word(to, word_value, 8)?, flags)?]) }
    [cuStreamWaitValue32, cuStreamWaitValue32_ptsz: (Init, zeros INVALID_VALUE, since 8_000)]
    [cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz: (Init, zeros INVALID_VALUE, since 11_070)]
    fn (stream: u64, at: u64, value: u32, flags: u32) { submitted(stream, &[awaited(word(at, u64::from(value), 4)?, flags)?]) }
    [cuStreamWaitValue64, cuStreamWaitValue64_ptsz: (Init, zeros INVALID_VALUE, since 9_000)]
    [cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz: (Init, zeros INVALID_VALUE, since 11_070)]
    fn (stream: u64, at: u64, word_value: u64, flags: u32) { submitted(stream, &[awaited(word(at, word_value, 8)?, flags)?]) }
    [cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz: (Init, zeros INVALID_VALUE, since 8_000)]
    [cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz: (Init, zeros INVALID_VALUE, since 11_070)]
    fn (stream: u64, count: u32, operations: In<Operation>, flags: u32) {
        if count == 0 || count > MOST_OPERATIONS || flags != 0 { return Err(Status::INVALID_VALUE); }
        let mut work = Vec::new();
        for n in 0..count as usize {
            work.extend(operations.nth(n)?.work()?);
        }
        submitted(stream, &work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_has_the_size_of_the_header() {
        assert_eq!(size_of::<Operation>(), 48);
    }
}
