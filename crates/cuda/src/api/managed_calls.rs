//! Entry points of both APIs for managed memory: advice, prefetching, and what a range answers. Pages are always where the CPU and
//! kernels access them, so that advice and prefetching change no result.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use crate::api::parameters::DEVICE_LOCATION;
use crate::api::table::entry_points;
use crate::device::advice::{Advice, Home};
use crate::device::contexts::gpu;
use crate::device::state::device;
use crate::program::caller::runtime_is_12;
use crate::program::pointers::{In, Out};
use crate::status::{Answer, Status};

/// `cudaCpuDeviceId`.
const HOST: c_int = -1;
/// `cudaInvalidDeviceId`.
const NOWHERE: c_int = -2;

/// Where a call of CUDA 12 wants memory: the number of a GPU, or [`HOST`].
fn of_number(word: u64) -> Result<Home, Status> {
    match word as c_int {
        HOST => Ok(Home::Host),
        number => gpu(number).map(Home::Gpu),
    }
}

/// Where a call of CUDA 13 wants memory: a `cudaMemLocation`, by value.
fn of_location(word: u64) -> Result<Home, Status> {
    match word as c_int {
        DEVICE_LOCATION => gpu((word >> 32) as c_int).map(Home::Gpu),
        // The host, and its nodes.
        2..=4 => Ok(Home::Host),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// The reader of a place, which is a number or a location.
type Reader = fn(u64) -> Result<Home, Status>;

/// The reader for functions of the runtime whose names have not changed.
fn of_runtime() -> Reader {
    if runtime_is_12() { of_number } else { of_location }
}

/// Stores advice for managed memory, or for memory of the program, for which it says nothing.
fn advise(at: u64, len: usize, advice: Advice) -> Answer {
    let end = at.checked_add(len as u64).filter(|_| at != 0 && len != 0).ok_or(Status::INVALID_VALUE)?;
    let mut device = device()?;
    match device.around(at) {
        Some((base, held)) if held.kind.is_managed() && end <= base + held.len as u64 => {
            device.advices.add(at..end, advice);
            Ok(())
        }
        Some(_) => Err(Status::INVALID_VALUE),
        None => Ok(()),
    }
}

/// Reads and stores the advice of a call.
fn advised(at: u64, len: usize, number: c_int, place: u64, read: Reader) -> Answer {
    let advice = match number {
        1 | 2 => Advice::ReadMostly(number == 1),
        3 => Advice::Preferred(Some(read(place)?)),
        4 => Advice::Preferred(None),
        5 | 6 => Advice::Accessed(read(place)?, number == 5),
        _ => return Err(Status::INVALID_VALUE),
    };
    advise(at, len, advice)
}

fn prefetch(at: u64, len: usize, place: u64, read: Reader) -> Answer {
    if at == 0 {
        return Err(Status::INVALID_VALUE);
    }
    advise(at, len, Advice::Prefetched(read(place)?))
}

/// The number of a place.
fn number_of(home: Option<Home>) -> c_int {
    match home {
        None => NOWHERE,
        Some(Home::Host) => HOST,
        Some(Home::Gpu(gpu)) => c_int::from(gpu),
    }
}

/// The type of a place.
fn type_of(home: Option<Home>) -> c_int {
    match home {
        None => 0,
        Some(Home::Gpu(_)) => DEVICE_LOCATION,
        Some(Home::Host) => 2,
    }
}

/// Writes an attribute of a range.
///
/// # Safety
/// The place is null or has room for `size` bytes.
unsafe fn range_attribute(to: Out<c_int>, size: usize, attribute: c_int, at: u64, len: usize) -> Answer {
    let end = at.checked_add(len as u64).filter(|_| len != 0).ok_or(Status::INVALID_VALUE)?;
    let device = device()?;
    let held =
        device.around(at).filter(|(base, held)| held.kind.is_managed() && end <= base + held.len as u64);
    held.ok_or(Status::INVALID_VALUE)?;
    let all = device.advices.common_to(&(at..end));
    let word = match attribute {
        1 => c_int::from(all.read_mostly),
        2 | 6 => number_of(all.preferred),
        4 | 8 => number_of(all.prefetched),
        5 => type_of(all.preferred),
        7 => type_of(all.prefetched),
        3 if size != 0 && size.is_multiple_of(4) => {
            let mut who = all.accessed.iter().map(|home| number_of(Some(*home)));
            for n in 0..size / 4 {
                // SAFETY: as promised by the caller.
                unsafe { to.nth(n) }.set(who.next().unwrap_or(NOWHERE))?;
            }
            return Ok(());
        }
        _ => return Err(Status::INVALID_VALUE),
    };
    if size == size_of::<c_int>() { to.set(word) } else { Err(Status::INVALID_VALUE) }
}

entry_points! {
    MANAGED, MANAGED_CALLS;

    [cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz: (Primary, zeros INVALID_VALUE)]
    fn (at: u64, len: usize, place: u64, _b: u64, _c: u64) { prefetch(at, len, place, of_runtime()) }
    [cudaMemPrefetchAsync_v2, cudaMemPrefetchAsync_v2_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz: (Init, zeros INVALID_VALUE, since 12_020)]
    fn (at: u64, len: usize, place: u64, _b: u64, _c: u64) { prefetch(at, len, place, of_location) }
    [cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz: (Init, zeros INVALID_VALUE, since 8_000)]
    fn (at: u64, len: usize, place: u64, _b: u64) { prefetch(at, len, place, of_number) }
    [cudaMemAdvise: (Primary, zeros INVALID_VALUE)]
    fn (at: u64, len: usize, advice: c_int, place: u64) { advised(at, len, advice, place, of_runtime()) }
    [cudaMemAdvise_v2: (Primary, zeros INVALID_VALUE)]
    [cuMemAdvise_v2: (Current, zeros INVALID_VALUE, since 12_020)]
    fn (at: u64, len: usize, advice: c_int, place: u64) { advised(at, len, advice, place, of_location) }
    [cuMemAdvise: (Current, zeros INVALID_VALUE, since 8_000)]
    fn (at: u64, len: usize, advice: c_int, place: u64) { advised(at, len, advice, place, of_number) }
    [cudaMemRangeGetAttribute: (Primary, zeros INVALID_VALUE)]
    [cuMemRangeGetAttribute: (Current, zeros INVALID_VALUE, since 8_000)]
    fn (to: Out<c_int>, size: usize, attribute: c_int, at: u64, len: usize) {
        range_attribute(to, size, attribute, at, len)
    }
    [cudaMemRangeGetAttributes: (Primary, zeros INVALID_VALUE)]
    [cuMemRangeGetAttributes: (Current, zeros INVALID_VALUE, since 8_000)]
    fn (to: In<Out<c_int>>, sizes: In<usize>, attributes: In<c_int>, count: usize, at: u64, len: usize) {
        if count == 0 { return Err(Status::INVALID_VALUE); }
        for n in 0..count {
            range_attribute(to.nth(n)?, sizes.nth(n)?, attributes.nth(n)?, at, len)?;
        }
        Ok(())
    }
}
