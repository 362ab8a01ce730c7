//! Entry points of both APIs that allocate, copy and fill memory.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_int, c_void};

use crate::api::parameters::{
    AccessDescriptor, Copy2D, Copy3D, DEVICE_LOCATION, Extent3D, Location, Memcpy3D, Memcpy3DPeer, Pitched,
};
use crate::api::table::entry_points;
use crate::device::allocations::Kind;
use crate::device::contexts::{self, gpu};
use crate::device::pools::default_of;
use crate::device::registry::variable;
use crate::device::state::device;
use crate::device::submit::{fill, submit};
use crate::device::work::{CopyWork, FillWork, Memory, Work, fits};
use crate::program::caller::runtime_is_12;
use crate::program::pointers::{In, Out, put_host_bytes};
use crate::status::{Answer, Status};

/// The legacy default stream.
const LEGACY: u64 = 0;

/// Alignment of the rows of pitched memory in bytes.
const PITCH: usize = 512;

/// The beginning of `cudaMemPoolProps` and `CUmemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PoolProperties {
    allocation: c_int,
    handle_types: c_int,
    location: Location,
}

/// Why memory of a pool cannot be shared, or be of the host.
const NO_SHARED_POOL: &str = "cuMemPoolCreate: pools of the host, and pools that other processes share, do not exist on the simulated GPU; \
                              ask for CU_MEM_LOCATION_TYPE_DEVICE and no handle types";

/// Checks that a blocking call is allowed: active captures may forbid it.
fn waits() -> Answer {
    device()?.streams.unsafe_call()
}

fn allocate(at: Out<u64>, len: usize, kind: Kind) -> Answer {
    let mut device = device()?;
    device.streams.unsafe_call()?;
    // For 0 bytes the runtime returns a null pointer; `driver_allocate` returns an error.
    let address = if len == 0 { 0 } else { device.allocate(len, kind)? };
    at.set(address)
}

fn driver_allocate(at: Out<u64>, len: usize, kind: Kind) -> Answer {
    if len == 0 { Err(Status::INVALID_VALUE) } else { allocate(at, len, kind) }
}

/// A stream-ordered allocation from a pool, the default one if `None`; during a capture it becomes a node, and the graph owns the memory.
fn allocate_in_order(at: Out<u64>, len: usize, stream: u64, pool: Option<u64>) -> Answer {
    let mut device = device()?;
    let captured = device.streams.capturing(stream)?.is_some();
    let kind = if captured { Kind::Graph } else { Kind::Device };
    let pool = pool.unwrap_or_else(|| device.pools.current(device.streams.gpu(stream)));
    let gpu = device.pools.gpu(pool)?;
    let address = if len == 0 { 0 } else { device.allocate_from(pool, gpu, len, kind)? };
    drop(device);
    if captured {
        // SAFETY: neither a copy nor a fill.
        unsafe { submit(stream, Work::Allocate(address, len))? };
    }
    at.set(address)
}

fn free_in_order(at: u64, stream: u64) -> Answer {
    let mut device = device()?;
    if device.streams.capturing(stream)?.is_none() {
        return device.free(at);
    }
    drop(device);
    // SAFETY: neither a copy nor a fill.
    unsafe { submit(stream, Work::Free(at)) }
}

fn free(at: u64) -> Answer {
    let mut device = device()?;
    device.streams.unsafe_call()?;
    device.free(at)
}

fn pitched(at: Out<u64>, pitch: Out<usize>, width: usize, rows: usize) -> Answer {
    let row = width.checked_next_multiple_of(PITCH).ok_or(Status::INVALID_VALUE)?;
    allocate(at, row.checked_mul(rows).ok_or(Status::OUT_OF_MEMORY)?, Kind::Device)?;
    pitch.set(row)
}

fn symbol(symbol: u64, offset: usize, len: usize) -> Result<u64, Status> {
    let (address, size) = variable(&mut *device()?, symbol)?;
    if offset.checked_add(len).is_none_or(|end| end > size) {
        return Err(device()?.beyond_variable(address, size, offset, len));
    }
    Ok(address + offset as u64)
}

/// Submits a copy to a stream.
///
/// # Safety
/// As [`submit`], here and below.
unsafe fn copy(stream: u64, copy: CopyWork) -> Answer {
    // SAFETY: as promised by the caller.
    unsafe { submit(stream, Work::Copy(copy)) }
}

/// A copy that blocks.
unsafe fn wait_copy(work: CopyWork) -> Answer {
    waits()?;
    // SAFETY: as promised by the caller.
    unsafe { copy(LEGACY, work) }
}

/// A copy of contiguous bytes whose addresses the call declares.
fn plain(to: (u64, Memory), from: (u64, Memory), len: usize) -> CopyWork {
    CopyWork::plain(to.0, from.0, len).between(to.1, from.1)
}

/// A copy of contiguous bytes in the direction of a `cudaMemcpyKind`.
fn of_kind(to: u64, from: u64, len: usize, kind: c_int) -> Result<CopyWork, Status> {
    CopyWork::plain(to, from, len).of_kind(kind as u32)
}

/// The copies of a batch, each of contiguous bytes.
unsafe fn batch(to: In<u64>, from: In<u64>, sizes: In<usize>, count: usize, stream: u64) -> Answer {
    if count == 0 {
        return Err(Status::INVALID_VALUE);
    }
    for n in 0..count {
        // SAFETY: the lists have `count` elements.
        let work = unsafe { CopyWork::plain(to.nth(n)?, from.nth(n)?, sizes.nth(n)?) };
        // SAFETY: as promised by the caller.
        unsafe { copy(stream, work)? };
    }
    Ok(())
}

unsafe fn wait_fill(to: u64, value: u32, element: usize, count: usize) -> Answer {
    waits()?;
    // SAFETY: as promised by the caller.
    unsafe { fill(LEGACY, to, value, element, count) }
}

unsafe fn fill_rows(
    stream: u64,
    to: (u64, usize),
    value: u32,
    element: usize,
    (width, height): (usize, usize),
) -> Answer {
    // An H200 fills a single row whatever the pitch.
    if height > 1 && !fits(to.1, width.saturating_mul(element), height) {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: as promised by the caller.
    unsafe { submit(stream, Work::Fill(FillWork::rows(to, value, element, width, height)?)) }
}

entry_points! {
    MEMORY, MEMORY_CALLS;

    [cudaMalloc, _cudaMalloc: (Primary, zeros INVALID_VALUE)]
    fn (at: Out<u64>, len: usize) { allocate(at, len, Kind::Device) }
    [cuMemAlloc_v2: (Current, zeros INVALID_VALUE, since 3_020)]
    fn (at: Out<u64>, len: usize) { driver_allocate(at, len, Kind::Device) }
    [cudaMallocAsync, cudaMallocAsync_ptsz, _cudaMallocAsync: (Primary, zeros INVALID_VALUE)]
    [cuMemAllocAsync, cuMemAllocAsync_ptsz: (Init, zeros INVALID_VALUE, since 11_020)]
    fn (at: Out<u64>, len: usize, stream: u64) {
        allocate_in_order(at, len, stream, None)
    }
    [cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz: (Init, zeros INVALID_VALUE, since 11_020)]
    fn (
        at: Out<u64>, len: usize, pool: u64, stream: u64,
    ) {
        allocate_in_order(at, len, stream, Some(pool))
    }
    [cudaMallocManaged, _cudaMallocManaged: (Primary, zeros INVALID_VALUE)]
    fn (at: Out<u64>, len: usize, _flags: u32) { allocate(at, len, Kind::Managed) }
    [cuMemAllocManaged: (Current, zeros INVALID_VALUE, since 6_000)]
    fn (at: Out<u64>, len: usize, _flags: u32) { driver_allocate(at, len, Kind::Managed) }
    [cudaMallocHost, _cudaMallocHost: (Primary, zeros INVALID_VALUE)]
    fn (at: Out<u64>, len: usize) { allocate(at, len, Kind::Pinned) }
    [cudaHostAlloc: (Primary, zeros INVALID_VALUE)]
    fn (at: Out<u64>, len: usize, _flags: u32) { allocate(at, len, Kind::Pinned) }
    [cuMemAllocHost_v2: (Current, zeros INVALID_VALUE, since 3_020)]
    fn (at: Out<u64>, len: usize) { driver_allocate(at, len, Kind::Pinned) }
    [cuMemHostAlloc: (Current, zeros INVALID_VALUE, since 2_020)]
    fn (at: Out<u64>, len: usize, _flags: u32) { driver_allocate(at, len, Kind::Pinned) }
    [cudaMallocPitch: (Primary, zeros INVALID_VALUE)]
    fn (at: Out<u64>, pitch: Out<usize>, width: usize, height: usize) { pitched(at, pitch, width, height) }
    [cuMemAllocPitch_v2: (Current, zeros INVALID_VALUE, since 3_020)]
    fn (at: Out<u64>, pitch: Out<usize>, width: usize, height: usize, _element: u32) {
        if width == 0 || height == 0 { return Err(Status::INVALID_VALUE); }
        pitched(at, pitch, width, height)
    }
    [cudaMalloc3D: (Primary, zeros INVALID_VALUE)]
    fn (to: Out<Pitched>, extent: Extent3D) {
        let (mut address, mut pitch) = (0, 0);
        let rows = extent.height.checked_mul(extent.depth).ok_or(Status::OUT_OF_MEMORY)?;
        pitched(Out::from_place(&mut address), Out::from_place(&mut pitch), extent.width, rows)?;
        to.set(Pitched { address, pitch, width: extent.width, height: extent.height })
    }
    [cudaFree, cudaFreeHost, _cudaFree, _cudaFreeHost: (Primary, zeros SUCCESS)]
    [cuMemFree_v2: (Init, zeros SUCCESS, since 3_020)]
    [cuMemFreeHost: (Init, zeros SUCCESS, since 2_000)]
    fn (at: u64) { free(at) }
    [cudaFreeAsync, cudaFreeAsync_ptsz, _cudaFreeAsync: (Primary, zeros SUCCESS)]
    [cuMemFreeAsync, cuMemFreeAsync_ptsz: (Init, zeros SUCCESS, since 11_020)]
    fn (at: u64, stream: u64) { free_in_order(at, stream) }
    [cudaHostGetDevicePointer: (Primary, zeros INVALID_VALUE)]
    [cuMemHostGetDevicePointer_v2: (Current, zeros INVALID_VALUE, since 3_020)]
    fn (to: Out<u64>, host: u64, _flags: u32) {
        let known = device()?.around(host).is_some_and(|(_, a)| a.kind != Kind::Device);
        if known { to.set(host) } else { Err(Status::INVALID_VALUE) }
    }
    [cudaHostGetFlags: (Primary, zeros INVALID_VALUE)]
    [cuMemHostGetFlags: (Current, zeros INVALID_VALUE, since 2_030)]
    fn (flags: Out<u32>, host: u64) {
        let known = device()?.around(host).is_some_and(|(_, a)| a.kind == Kind::Pinned);
        // cudaHostAllocMapped.
        if known { flags.set(2) } else { Err(Status::INVALID_VALUE) }
    }
    [cudaHostRegister: (Primary, zeros INVALID_VALUE)]
    [cuMemHostRegister: (Current, zeros INVALID_VALUE, since 4_000)]
    [cuMemHostRegister_v2: (Current, zeros INVALID_VALUE, since 6_050)]
    fn (host: u64, len: usize, _flags: u32) { device()?.register(host, len) }
    [cudaHostUnregister: (Primary, zeros INVALID_VALUE)]
    [cuMemHostUnregister: (Init, zeros INVALID_VALUE, since 4_000)]
    fn (host: u64) { if host == 0 { Err(Status::INVALID_VALUE) } else { device()?.unregister(host) } }
    [cudaMemGetInfo: (Primary, zeros SUCCESS)]
    [cuMemGetInfo_v2: (Current, zeros SUCCESS, since 3_020)]
    fn (free: Out<usize>, total: Out<usize>) {
        let device = device()?;
        free.set_if(device.free_bytes(contexts::current_gpu()) as usize);
        total.set_if(device.gpu.memory as usize);
        Ok(())
    }
    [cuMemGetAddressRange_v2: (Current, zeros NOT_FOUND, since 3_020)]
    fn (base: Out<u64>, len: Out<usize>, at: u64) {
        let (start, found) = device()?.around(at).ok_or(Status::NOT_FOUND)?;
        base.set_if(start);
        len.set_if(found.len);
        Ok(())
    }

    [cudaMemcpy, cudaMemcpy_ptds, _cudaMemcpy: (Primary, zeros SUCCESS)]
    fn (to: u64, from: u64, len: usize, kind: c_int) { wait_copy(of_kind(to, from, len, kind)?) }
    [cuMemcpy, cuMemcpy_ptds: (Current, zeros SUCCESS, since 4_000)]
    fn (to: u64, from: u64, len: usize) { wait_copy(CopyWork::plain(to, from, len)) }
    [cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds: (Current, zeros SUCCESS, since 3_020)]
    fn (to: u64, from: u64, len: usize) { wait_copy(plain((to, Memory::Device), (from, Memory::Any), len)) }
    [cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds: (Current, zeros SUCCESS, since 3_020)]
    fn (to: u64, from: u64, len: usize) { wait_copy(plain((to, Memory::Any), (from, Memory::Device), len)) }
    [cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds: (Current, zeros SUCCESS, since 3_020)]
    fn (to: u64, from: u64, len: usize) { wait_copy(plain((to, Memory::Device), (from, Memory::Device), len)) }
    [cudaMemcpyAsync, cudaMemcpyAsync_ptsz, _cudaMemcpyAsync: (Primary, zeros SUCCESS)]
    fn (to: u64, from: u64, len: usize, kind: c_int, stream: u64) {
        copy(stream, of_kind(to, from, len, kind)?)
    }
    [cuMemcpyAsync, cuMemcpyAsync_ptsz: (Init, zeros SUCCESS, since 4_000)]
    fn (to: u64, from: u64, len: usize, stream: u64) { copy(stream, CopyWork::plain(to, from, len)) }
    [cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz: (Init, zeros SUCCESS, since 3_020)]
    fn (to: u64, from: u64, len: usize, stream: u64) {
        copy(stream, plain((to, Memory::Device), (from, Memory::Any), len))
    }
    [cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz: (Init, zeros SUCCESS, since 3_020)]
    fn (to: u64, from: u64, len: usize, stream: u64) {
        copy(stream, plain((to, Memory::Any), (from, Memory::Device), len))
    }
    [cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz: (Init, zeros SUCCESS, since 3_020)]
    fn (to: u64, from: u64, len: usize, stream: u64) {
        copy(stream, plain((to, Memory::Device), (from, Memory::Device), len))
    }
    [cudaMemcpyPeer: (Primary, zeros SUCCESS)]
    fn (to: u64, one: c_int, from: u64, other: c_int, len: usize) {
        gpu(one)?;
        gpu(other)?;
        wait_copy(plain((to, Memory::Device), (from, Memory::Device), len))
    }
    [cuMemcpyPeer, cuMemcpyPeer_ptds: (Current, zeros INVALID_CONTEXT, since 4_000)]
    fn (to: u64, context: u64, from: u64, other: u64, len: usize) {
        contexts::gpu_of(context)?;
        contexts::gpu_of(other)?;
        wait_copy(plain((to, Memory::Device), (from, Memory::Device), len))
    }
    // CUDA 12 passes the place of the index of a copy that fails before the stream.
    [cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz: (Init, zeros INVALID_VALUE, since 12_080)]
    fn (
        to: In<u64>, from: In<u64>, sizes: In<usize>, count: usize, _attributes: u64, _indices: u64, _number: usize, _failed: u64, stream: u64,
    ) { batch(to, from, sizes, count, stream) }
    [cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz: (Init, zeros INVALID_VALUE, since 13_000)]
    fn (
        to: In<u64>, from: In<u64>, sizes: In<usize>, count: usize, _attributes: u64, _indices: u64, _number: usize, stream: u64,
    ) { batch(to, from, sizes, count, stream) }
    [cudaMemcpyBatchAsync, cudaMemcpyBatchAsync_ptsz: (Primary, zeros INVALID_VALUE)]
    fn (
        to: In<u64>, from: In<u64>, sizes: In<usize>, count: usize, _attributes: u64, _indices: u64, _number: usize, last: u64, next: u64,
    ) { batch(to, from, sizes, count, if runtime_is_12() { next } else { last }) }
    [cudaMemcpyPeerAsync: (Primary, zeros SUCCESS)]
    fn (
        to: u64, one: c_int, from: u64, other: c_int, len: usize, stream: u64,
    ) {
        gpu(one)?;
        gpu(other)?;
        copy(stream, plain((to, Memory::Device), (from, Memory::Device), len))
    }
    [cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz: (Init, zeros INVALID_CONTEXT, since 4_000)]
    fn (
        to: u64, context: u64, from: u64, other: u64, len: usize, stream: u64,
    ) {
        contexts::gpu_of(context)?;
        contexts::gpu_of(other)?;
        copy(stream, plain((to, Memory::Device), (from, Memory::Device), len))
    }
    [cudaMemcpy2D, cudaMemcpy2D_ptds: (Primary, zeros SUCCESS)]
    fn (
        to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize, kind: c_int,
    ) { wait_copy(CopyWork::pitched((to, to_pitch), (from, from_pitch), width, height)?.of_kind(kind as u32)?) }
    [cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz: (Primary, zeros SUCCESS)]
    fn (
        to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize, kind: c_int, stream: u64,
    ) { copy(stream, CopyWork::pitched((to, to_pitch), (from, from_pitch), width, height)?.of_kind(kind as u32)?) }
    [cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds: (Current, zeros INVALID_VALUE, since 3_020)]
    fn (how: In<Copy2D>) {
        waits()?;
        copy(LEGACY, how.get()?.work()?)
    }
    [cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz: (Init, zeros INVALID_VALUE, since 3_020)]
    fn (how: In<Copy2D>, stream: u64) { copy(stream, how.get()?.work()?) }
    [cudaMemcpy3D, cudaMemcpy3D_ptds: (Primary, zeros INVALID_VALUE)]
    fn (how: In<Memcpy3D>) {
        waits()?;
        copy(LEGACY, how.get()?.work()?)
    }
    [cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz: (Primary, zeros INVALID_VALUE)]
    fn (how: In<Memcpy3D>, stream: u64) { copy(stream, how.get()?.work()?) }
    [cudaMemcpy3DPeer, cudaMemcpy3DPeer_ptds: (Primary, zeros INVALID_VALUE)]
    fn (how: In<Memcpy3DPeer>) {
        waits()?;
        copy(LEGACY, how.get()?.work()?)
    }
    [cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerAsync_ptsz: (Primary, zeros INVALID_VALUE)]
    fn (how: In<Memcpy3DPeer>, stream: u64) { copy(stream, how.get()?.work()?) }
    [cuMemcpy3D_v2, cuMemcpy3D_v2_ptds: (Current, zeros INVALID_VALUE, since 3_020)]
    [cuMemcpy3DPeer, cuMemcpy3DPeer_ptds: (Current, zeros INVALID_VALUE, since 4_000)]
    fn (how: In<Copy3D>) {
        waits()?;
        copy(LEGACY, how.get()?.work()?)
    }
    [cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz: (Init, zeros INVALID_VALUE, since 3_020)]
    [cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz: (Init, zeros INVALID_VALUE, since 4_000)]
    fn (how: In<Copy3D>, stream: u64) {
        copy(stream, how.get()?.work()?)
    }

    [cudaMemset, cudaMemset_ptds, _cudaMemset: (Primary, zeros SUCCESS)]
    [cuMemsetD8_v2, cuMemsetD8_v2_ptds: (Current, zeros SUCCESS, since 3_020)]
    fn (to: u64, value: u32, len: usize) { wait_fill(to, value, 1, len) }
    [cudaMemsetAsync, cudaMemsetAsync_ptsz, _cudaMemsetAsync: (Primary, zeros SUCCESS)]
    [cuMemsetD8Async, cuMemsetD8Async_ptsz: (Init, zeros SUCCESS, since 3_020)]
    fn (to: u64, value: u32, len: usize, stream: u64) {
        fill(stream, to, value, 1, len)
    }
    [cuMemsetD16_v2, cuMemsetD16_v2_ptds: (Current, zeros SUCCESS, since 3_020)]
    fn (to: u64, value: u32, n: usize) { wait_fill(to, value, 2, n) }
    [cuMemsetD16Async, cuMemsetD16Async_ptsz: (Init, zeros SUCCESS, since 3_020)]
    fn (to: u64, value: u32, n: usize, stream: u64) { fill(stream, to, value, 2, n) }
    [cuMemsetD32_v2, cuMemsetD32_v2_ptds: (Current, zeros SUCCESS, since 3_020)]
    fn (to: u64, value: u32, n: usize) { wait_fill(to, value, 4, n) }
    [cuMemsetD32Async, cuMemsetD32Async_ptsz: (Init, zeros SUCCESS, since 3_020)]
    fn (to: u64, value: u32, n: usize, stream: u64) { fill(stream, to, value, 4, n) }
    [cudaMemset2D, cudaMemset2D_ptds: (Primary, zeros SUCCESS)]
    [cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds: (Current, zeros SUCCESS, since 3_020)]
    fn (
        to: u64, pitch: usize, value: u32, width: usize, height: usize,
    ) {
        waits()?;
        fill_rows(LEGACY, (to, pitch), value, 1, (width, height))
    }
    [cudaMemset2DAsync, cudaMemset2DAsync_ptsz: (Primary, zeros SUCCESS)]
    [cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz: (Init, zeros SUCCESS, since 3_020)]
    fn (
        to: u64, pitch: usize, value: u32, width: usize, height: usize, stream: u64,
    ) { fill_rows(stream, (to, pitch), value, 1, (width, height)) }
    [cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds: (Current, zeros SUCCESS, since 3_020)]
    fn (to: u64, pitch: usize, value: u32, width: usize, height: usize) {
        waits()?;
        fill_rows(LEGACY, (to, pitch), value, 2, (width, height))
    }
    [cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz: (Init, zeros SUCCESS, since 3_020)]
    fn (to: u64, pitch: usize, value: u32, width: usize, height: usize, stream: u64) {
        fill_rows(stream, (to, pitch), value, 2, (width, height))
    }
    [cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds: (Current, zeros SUCCESS, since 3_020)]
    fn (to: u64, pitch: usize, value: u32, width: usize, height: usize) {
        waits()?;
        fill_rows(LEGACY, (to, pitch), value, 4, (width, height))
    }
    [cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz: (Init, zeros SUCCESS, since 3_020)]
    fn (to: u64, pitch: usize, value: u32, width: usize, height: usize, stream: u64) {
        fill_rows(stream, (to, pitch), value, 4, (width, height))
    }
    [cudaMemset3D, cudaMemset3D_ptds: (Primary, zeros SUCCESS)]
    fn (to: Pitched, value: u32, extent: Extent3D) {
        waits()?;
        submit(LEGACY, Work::Fill(to.fill(value, extent)))
    }
    [cudaMemset3DAsync, cudaMemset3DAsync_ptsz: (Primary, zeros SUCCESS)]
    fn (to: Pitched, value: u32, extent: Extent3D, stream: u64) {
        submit(stream, Work::Fill(to.fill(value, extent)))
    }
    [cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds: (Primary, zeros SUCCESS)]
    fn (to: u64, from: u64, len: usize, offset: usize, _kind: c_int) {
        if len == 0 { Ok(()) } else { wait_copy(CopyWork::plain(symbol(to, offset, len)?, from, len)) }
    }
    [cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz: (Primary, zeros SUCCESS)]
    fn (to: u64, from: u64, len: usize, offset: usize, _kind: c_int, stream: u64) {
        if len == 0 { Ok(()) } else { copy(stream, CopyWork::plain(symbol(to, offset, len)?, from, len)) }
    }
    [cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds: (Primary, zeros SUCCESS)]
    fn (to: u64, from: u64, len: usize, offset: usize, _kind: c_int) {
        if len == 0 { Ok(()) } else { wait_copy(CopyWork::plain(to, symbol(from, offset, len)?, len)) }
    }
    [cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz: (Primary, zeros SUCCESS)]
    fn (
        to: u64, from: u64, len: usize, offset: usize, _kind: c_int, stream: u64,
    ) { if len == 0 { Ok(()) } else { copy(stream, CopyWork::plain(to, symbol(from, offset, len)?, len)) } }
    [cudaGetSymbolAddress: (Primary, zeros INVALID_SYMBOL)]
    fn (to: Out<u64>, name: u64) { to.set(symbol(name, 0, 0)?) }
    [cudaGetSymbolSize: (Primary, zeros INVALID_SYMBOL)]
    fn (to: Out<usize>, name: u64) { to.set(variable(&mut *device()?, name)?.1) }

    [cudaDeviceGetDefaultMemPool: (Runtime, zeros INVALID_VALUE)]
    [cuDeviceGetDefaultMemPool, cuDeviceGetMemPool: (Init, zeros INVALID_VALUE, since 11_020)]
    [cudaDeviceGetMemPool: (Primary, zeros INVALID_VALUE)]
    fn (pool: Out<u64>, number: c_int) {
        let number = gpu(number)?;
        pool.set(device()?.pools.current(number))
    }
    [cudaMemGetDefaultMemPool, cudaMemGetMemPool: (Primary, zeros INVALID_VALUE)]
    [cuMemGetDefaultMemPool, cuMemGetMemPool: (Init, zeros INVALID_VALUE, since 13_000)]
    fn (pool: Out<u64>, place: In<Location>, _kind: c_int) {
        if pool.is_null() { return Err(Status::INVALID_VALUE); }
        let Location { kind, id } = place.get()?;
        if kind != DEVICE_LOCATION {
            device()?.miss(NO_SHARED_POOL);
            return Err(Status::NOT_SUPPORTED);
        }
        pool.set(default_of(gpu(id)?))
    }
    [cudaDeviceSetMemPool: (Primary, zeros INVALID_VALUE)]
    [cuDeviceSetMemPool: (Init, zeros INVALID_VALUE, since 11_020)]
    fn (number: c_int, pool: u64) { device()?.pools.set_current(gpu(number)?, pool) }
    [cudaMemPoolCreate: (Primary, zeros INVALID_VALUE)]
    [cuMemPoolCreate: (Init, zeros INVALID_VALUE, since 11_020)]
    fn (pool: Out<u64>, properties: In<PoolProperties>) {
        if pool.is_null() { return Err(Status::INVALID_VALUE); }
        let PoolProperties { handle_types, location: Location { kind, id }, .. } = properties.get()?;
        if handle_types != 0 || kind > DEVICE_LOCATION {
            device()?.miss(NO_SHARED_POOL);
            return Err(Status::NOT_SUPPORTED);
        }
        let of = gpu(id)?;
        let made = device()?.pools.create(of);
        pool.set(made)
    }
    [cudaMemPoolDestroy: (Primary, zeros INVALID_VALUE)]
    [cuMemPoolDestroy: (Init, zeros INVALID_VALUE, since 11_020)]
    fn (pool: u64) { device()?.pools.destroy(pool) }
    [cudaMemPoolSetAttribute: (Primary, zeros INVALID_VALUE)]
    [cuMemPoolSetAttribute: (Init, zeros INVALID_VALUE, since 11_020)]
    fn (pool: u64, attribute: c_int, value: u64) {
        let value = match attribute {
            1..=3 => u64::from(In::<u32>::at(value).get()?),
            _ => In::<u64>::at(value).get()?,
        };
        device()?.pools.set(pool, attribute, value)
    }
    [cudaMemPoolGetAttribute: (Primary, zeros INVALID_VALUE)]
    [cuMemPoolGetAttribute: (Init, zeros INVALID_VALUE, since 11_020)]
    fn (pool: u64, attribute: c_int, value: u64) {
        let device = device()?;
        let held = device.pools.attribute(pool, attribute)?;
        // The first three attributes are of type int, the others of type uint64_t.
        put_host_bytes(value, &held.to_le_bytes()[..if attribute <= 3 { 4 } else { 8 }])
    }
    [cudaMemPoolTrimTo: (Primary, zeros INVALID_VALUE)]
    [cuMemPoolTrimTo: (Init, zeros INVALID_VALUE, since 11_020)]
    fn (pool: u64, _least: usize) { device()?.pools.known(pool) }
    [cudaMemPoolSetAccess: (Primary, zeros INVALID_VALUE)]
    [cuMemPoolSetAccess: (Init, zeros INVALID_VALUE, since 11_020)]
    fn (pool: u64, list: In<AccessDescriptor>, count: usize) {
        let mut device = device()?;
        device.pools.known(pool)?;
        for n in 0..count {
            let AccessDescriptor { location: Location { kind, id }, flags } = list.nth(n)?;
            if kind != DEVICE_LOCATION || !matches!(flags, 0 | 3) { return Err(Status::INVALID_VALUE); }
            device.pools.set_access(pool, gpu(id)?, flags != 0)?;
        }
        Ok(())
    }
    [cudaMemPoolGetAccess: (Primary, zeros INVALID_VALUE)]
    [cuMemPoolGetAccess: (Init, zeros INVALID_VALUE, since 11_020)]
    fn (flags: Out<u32>, pool: u64, location: In<Location>) {
        let device = device()?;
        device.pools.known(pool)?;
        let Location { kind, id } = location.get()?;
        // Read and write access.
        let is_for = kind == DEVICE_LOCATION && gpu(id).is_ok_and(|gpu| device.pools.is_for(pool, gpu));
        flags.set(if is_for { 3 } else { 0 })
    }
    [cuMemPoolExportPointer: (Init, zeros NOT_SUPPORTED, valid NOT_SUPPORTED, since 11_020)]
    [cudaMemPoolExportPointer: (Primary, zeros NOT_SUPPORTED, valid NOT_SUPPORTED)]
    fn (_data: *mut c_void, _at: u64) { Err(Status::NOT_SUPPORTED) }
}
