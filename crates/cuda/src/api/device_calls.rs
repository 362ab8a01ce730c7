//! Entry points of both APIs for devices, contexts and limits. There is one device, and its contexts share memory.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use emulator::events::UUID;

use crate::api::call::VERSION;
use crate::api::properties::device_properties;
use crate::api::table::entry_points;
use crate::device::allocations::Kind;
use crate::device::contexts;
use crate::device::state::{Device, device};
use crate::program::caller::runtime_is_12;
use crate::program::pointers::{In, Out, Text, put_host_bytes};
use crate::status::{Answer, Status};

/// The version reported by a runtime of CUDA 12.
const VERSION_12: c_int = 12_090;
/// The PCI bus id of the device.
const BUS: &[u8] = b"0000:01:00.0\0";
fn the_one(number: c_int) -> Answer {
    if number == 0 { Ok(()) } else { Err(Status::INVALID_DEVICE) }
}

/// Writes the properties of the device.
///
/// # Safety
/// The place is null or has room for `cudaDeviceProp` of CUDA 12 (`old`) or 13.
unsafe fn properties(to: u64, number: c_int, old: bool) -> Answer {
    the_one(number)?;
    // SAFETY: as promised by the caller.
    unsafe { put_host_bytes(to, &device_properties(device()?.gpu, old)) }
}

fn new_context(to: Out<u64>, number: c_int) -> Answer {
    the_one(number)?;
    device().map(drop)?;
    to.set(contexts::create()?)
}

/// Why a context is no peer of the current one: it is none or the same, or both are of one device.
fn refused_peer(context: u64, of_one_device: Status) -> Status {
    let is_other = contexts::is_live(context) && context != contexts::current_handle();
    if is_other { of_one_device } else { Status::INVALID_CONTEXT }
}

fn synchronized() -> Answer {
    let mut device = device()?;
    device.streams.unsafe_call()?;
    device.healthy()
}

/// `cudaLimitStackSize`.
const STACK: c_int = 0;

/// Limits by number: stack, printf buffer, heap.
fn limit(number: c_int) -> usize {
    match number {
        STACK => 1024,
        1 => 1 << 20,
        2 => 8 << 20,
        _ => 0,
    }
}

/// Writes an attribute of a pointer.
///
/// # Safety
/// The place is null or has room for the attribute.
unsafe fn pointer_attribute(device: &Device, to: u64, attribute: c_int, at: u64) -> Answer {
    let (base, found) = device.around(at).ok_or(Status::INVALID_VALUE)?;
    let host_memory = matches!(found.kind, Kind::Pinned | Kind::Registered);
    let bytes: Vec<u8> = match attribute {
        1 => contexts::owner().to_le_bytes().into(),
        2 => (if host_memory { 1u32 } else { 2 }).to_le_bytes().into(),
        3 => at.to_le_bytes().into(),
        4 if found.kind.on_host() => at.to_le_bytes().into(),
        7 | 11 => base.to_le_bytes().into(),
        8 => vec![u8::from(found.kind.is_managed())],
        9 => 0u32.to_le_bytes().into(),
        10 => vec![0],
        12 => found.len.to_le_bytes().into(),
        13 => vec![1],
        _ => return Err(Status::INVALID_VALUE),
    };
    // SAFETY: as promised by the caller.
    unsafe { put_host_bytes(to, &bytes) }
}

entry_points! {
    DEVICE, DEVICE_CALLS;

    [cuInit: (Nothing, zeros SUCCESS, since 2_000)]
    fn (_flags: u32) { device().map(drop)?; contexts::initialize(); Ok(()) }
    [cudaDriverGetVersion: (Runtime, zeros INVALID_VALUE)]
    [cuDriverGetVersion: (Nothing, zeros INVALID_VALUE, since 2_020)]
    fn (version: Out<c_int>) { version.set(VERSION) }
    [cudaRuntimeGetVersion: (Nothing, zeros INVALID_VALUE)]
    fn (version: Out<c_int>) { version.set(if runtime_is_12() { VERSION_12 } else { VERSION }) }
    [cudaGetDeviceCount, _cudaGetDeviceCount: (Runtime, zeros INVALID_VALUE)]
    [cuDeviceGetCount: (Init, zeros INVALID_VALUE, since 2_000)]
    fn (count: Out<c_int>) { device().map(drop)?; count.set(1) }
    [cudaGetDevice, _cudaGetDevice: (Runtime, zeros INVALID_VALUE)]
    [cuCtxGetDevice: (Current, zeros INVALID_VALUE, since 2_000)]
    [cuCtxGetDevice_v2: (Current, zeros INVALID_VALUE, since 13_000)]
    fn (number: Out<c_int>) { number.set(0) }
    [cuDeviceGet: (Init, zeros INVALID_VALUE, since 2_000)]
    [_cuDeviceGet: (Init, zeros INVALID_VALUE)]
    fn (number: Out<c_int>, ordinal: c_int) { the_one(ordinal)?; number.set(0) }
    [cudaSetDevice, _cudaSetDevice: (Primary, zeros SUCCESS)]
    fn (number: c_int) { the_one(number)?; device().map(drop) }
    [cudaInitDevice: (Runtime, zeros SUCCESS)]
    fn (number: c_int, _device_flags: u32, _flags: u32) { the_one(number) }
    [cudaChooseDevice: (Primary, zeros INVALID_VALUE)]
    fn (number: Out<c_int>, _properties: u64) { number.set(0) }
    [cudaSetValidDevices: (Primary, zeros SUCCESS)]
    fn (_list: u64, _len: c_int) { Ok(()) }
    [cudaSetDeviceFlags: (Primary, zeros SUCCESS)]
    fn (_flags: u32) { Ok(()) }
    [cudaGetDeviceFlags: (Primary, zeros INVALID_VALUE)]
    [cuCtxGetFlags: (Current, zeros INVALID_VALUE, since 7_000)]
    fn (flags: Out<u32>) { flags.set(0) }
    [cuCtxSetFlags: (Current, zeros SUCCESS, since 12_010)]
    fn (_flags: u32) { Ok(()) }
    [cuDeviceGetName: (Init, zeros INVALID_VALUE, since 2_000)]
    fn (to: Out<u8>, len: c_int, number: c_int) {
        the_one(number)?;
        let mut name = device()?.gpu.name.as_bytes().to_vec();
        name.truncate((len.max(1) - 1) as usize);
        name.push(0);
        put_host_bytes(to.address(), &name)
    }
    [cuDeviceGetUuid: (Init, zeros INVALID_VALUE, since 9_020)]
    [cuDeviceGetUuid_v2: (Init, zeros INVALID_VALUE, since 11_040)]
    fn (to: Out<[u8; 16]>, _number: c_int) { put_host_bytes(to.address(), UUID) }
    [cuDeviceTotalMem_v2: (Init, zeros INVALID_VALUE, since 3_020)]
    fn (len: Out<usize>, _number: c_int) { len.set(device()?.gpu.memory as usize) }
    [cudaDeviceGetAttribute, _cudaDeviceGetAttribute: (Runtime, zeros INVALID_VALUE)]
    [cuDeviceGetAttribute: (Init, zeros INVALID_VALUE, since 2_000)]
    fn (value: Out<c_int>, attribute: c_int, number: c_int) {
        the_one(number)?;
        value.set(device()?.gpu.attribute(attribute))
    }
    [cuDeviceComputeCapability: (Init, zeros INVALID_VALUE, since 2_000)]
    fn (major: Out<c_int>, minor: Out<c_int>, _number: c_int) {
        let (a, b) = device()?.gpu.capability;
        major.set(a as c_int)?;
        minor.set(b as c_int)
    }
    [cudaGetDeviceProperties, _cudaGetDeviceProperties: (Runtime, zeros INVALID_VALUE)]
    fn (to: Out<u8>, number: c_int) { properties(to.address(), number, runtime_is_12()) }
    [cudaGetDeviceProperties_v2: (Runtime, zeros INVALID_VALUE)]
    fn (to: Out<u8>, number: c_int) { properties(to.address(), number, true) }
    [cudaDeviceGetPCIBusId: (Primary, zeros INVALID_VALUE)]
    [cuDeviceGetPCIBusId: (Init, zeros INVALID_VALUE, since 4_010)]
    fn (id: Out<u8>, len: c_int, number: c_int) {
        the_one(number)?;
        if len < BUS.len() as c_int { return Err(Status::INVALID_VALUE); }
        put_host_bytes(id.address(), BUS)
    }
    [cudaDeviceGetByPCIBusId: (Primary, zeros INVALID_VALUE)]
    [cuDeviceGetByPCIBusId: (Init, zeros INVALID_VALUE, since 4_010)]
    fn (number: Out<c_int>, id: Text) {
        // The domain is optional; the numbers are hexadecimal.
        let id = id.text()?;
        let fits = id.trim_start_matches("0000:").trim_end_matches(".0") == "01:00";
        if fits { number.set(0) } else { Err(Status::INVALID_DEVICE) }
    }
    [cudaDeviceCanAccessPeer: (Primary, zeros INVALID_VALUE)]
    [cuDeviceCanAccessPeer: (Init, zeros INVALID_VALUE, since 4_000)]
    fn (can: Out<c_int>, one: c_int, other: c_int) { the_one(one)?; the_one(other)?; can.set(0) }
    [cudaDeviceEnablePeerAccess: (Primary, zeros INVALID_DEVICE, valid INVALID_DEVICE)]
    fn (_peer: c_int, _flags: u32) { Err(Status::INVALID_DEVICE) }
    [cudaDeviceDisablePeerAccess: (Primary, zeros PEER_NOT_ENABLED, valid PEER_NOT_ENABLED)]
    fn (peer: c_int) { the_one(peer)?; Err(Status::PEER_NOT_ENABLED) }
    [cuCtxEnablePeerAccess: (Current, zeros INVALID_CONTEXT, valid PEER_ACCESS, since 4_000)]
    fn (context: u64, _flags: u32) { Err(refused_peer(context, Status::PEER_ACCESS)) }
    [cuCtxDisablePeerAccess: (Current, zeros INVALID_CONTEXT, valid PEER_NOT_ENABLED, since 4_000)]
    fn (context: u64) { Err(refused_peer(context, Status::PEER_NOT_ENABLED)) }
    // A device has no link to itself.
    [cudaDeviceGetP2PAttribute: (Primary, zeros INVALID_VALUE, valid INVALID_DEVICE)]
    [cuDeviceGetP2PAttribute: (Init, zeros INVALID_VALUE, valid INVALID_DEVICE, since 8_000)]
    fn (value: Out<c_int>, _attribute: c_int, _one: c_int, _other: c_int) {
        Err(if value.is_null() { Status::INVALID_VALUE } else { Status::INVALID_DEVICE })
    }
    [cudaDeviceGetStreamPriorityRange: (Primary, zeros SUCCESS)]
    [cuCtxGetStreamPriorityRange: (Current, zeros SUCCESS, since 5_050)]
    fn (least: Out<c_int>, greatest: Out<c_int>) {
        least.set_if(0);
        greatest.set_if(-5);
        Ok(())
    }
    [cudaDeviceSynchronize, _cudaDeviceSynchronize: (Primary, zeros SUCCESS)]
    [cuCtxSynchronize: (Current, zeros SUCCESS, since 2_000)]
    [cuCtxSynchronize_v2: (Current, zeros SUCCESS, since 13_000)]
    fn () { synchronized() }
    [cudaDeviceReset: (Runtime, zeros SUCCESS)]
    fn () {
        contexts::reset_primary();
        device()?.stack_bytes = None;
        Ok(())
    }
    [cudaDeviceGetLimit: (Primary, zeros INVALID_VALUE)]
    [cuCtxGetLimit: (Current, zeros INVALID_VALUE, since 3_010)]
    fn (value: Out<usize>, number: c_int) {
        let stack = device()?.stack_bytes.filter(|_| number == STACK);
        value.set(stack.unwrap_or(limit(number)))
    }
    [cudaDeviceSetLimit: (Primary, zeros SUCCESS)]
    [cuCtxSetLimit: (Current, zeros SUCCESS, since 3_010)]
    fn (number: c_int, value: usize) {
        if number == STACK {
            // Nothing is a request for the default.
            device()?.stack_bytes = Some(value).filter(|bytes| *bytes > 0);
        }
        Ok(())
    }
    [cudaDeviceSetCacheConfig: (Primary, zeros SUCCESS)]
    [cuCtxSetCacheConfig: (Current, zeros SUCCESS, since 3_020)]
    fn (_config: c_int) { Ok(()) }
    [cudaDeviceGetCacheConfig: (Primary, zeros INVALID_VALUE)]
    [cuCtxGetCacheConfig: (Current, zeros INVALID_VALUE, since 3_020)]
    fn (config: Out<c_int>) { config.set(0) }
    [cudaDeviceSetSharedMemConfig: (Primary, zeros SUCCESS)]
    [cuCtxSetSharedMemConfig: (Current, zeros SUCCESS, since 4_020)]
    fn (_config: c_int) { Ok(()) }
    [cudaDeviceGetSharedMemConfig: (Primary, zeros INVALID_VALUE)]
    [cuCtxGetSharedMemConfig: (Current, zeros INVALID_VALUE, since 4_020)]
    fn (config: Out<c_int>) { config.set(1) }
    [cudaCtxResetPersistingL2Cache: (Primary, zeros SUCCESS)]
    [cuCtxResetPersistingL2Cache: (Current, zeros SUCCESS, since 11_000)]
    fn () { Ok(()) }
    [cudaProfilerStart, cudaProfilerStop, _cudaProfilerStart, _cudaProfilerStop: (Primary, zeros SUCCESS)]
    [cuProfilerStart, cuProfilerStop: (Current, zeros SUCCESS, since 4_000)]
    fn () { Ok(()) }

    // The driver's log of errors, which has no entries here: what a call violates is in the report.
    [cudaLogsRegisterCallback: (Nothing, zeros INVALID_VALUE)]
    [cuLogsRegisterCallback: (Nothing, zeros INVALID_VALUE, since 12_090)]
    fn (callback: u64, _data: u64, to: Out<u64>) {
        if callback == 0 {
            return Err(Status::INVALID_VALUE);
        }
        to.set(callback)
    }
    [cudaLogsUnregisterCallback: (Nothing, zeros INVALID_VALUE)]
    [cuLogsUnregisterCallback: (Nothing, zeros INVALID_VALUE, since 12_090)]
    fn (callback: u64) { if callback == 0 { Err(Status::INVALID_VALUE) } else { Ok(()) } }
    [cudaLogsCurrent: (Nothing, zeros INVALID_VALUE)]
    [cuLogsCurrent: (Nothing, zeros INVALID_VALUE, since 12_090)]
    fn (to: Out<u32>, _flags: u32) { to.set(0) }

    [cuDevicePrimaryCtxRetain: (Init, zeros INVALID_VALUE, since 7_000)]
    fn (to: Out<u64>, number: c_int) {
        the_one(number)?;
        device().map(drop)?;
        to.set(contexts::retain_primary())
    }
    [cuDevicePrimaryCtxRelease_v2: (Init, zeros SUCCESS, since 11_000)]
    fn (number: c_int) { the_one(number)?; contexts::release_primary() }
    [cuDevicePrimaryCtxReset_v2: (Init, zeros SUCCESS, since 11_000)]
    fn (number: c_int) { the_one(number)?; contexts::reset_primary(); Ok(()) }
    [cuDevicePrimaryCtxSetFlags_v2: (Init, zeros SUCCESS, since 11_000)]
    fn (number: c_int, _flags: u32) { the_one(number) }
    [cuDevicePrimaryCtxGetState: (Init, zeros INVALID_VALUE, since 7_000)]
    fn (_number: c_int, flags: Out<u32>, active: Out<c_int>) {
        flags.set(0)?;
        active.set(c_int::from(contexts::primary_is_active()))
    }
    [cuCtxCreate_v2: (Init, zeros INVALID_VALUE, since 3_020)]
    fn (to: Out<u64>, _flags: u32, number: c_int) { new_context(to, number) }
    [cuCtxCreate_v3: (Init, zeros INVALID_VALUE, since 11_040)]
    fn (to: Out<u64>, _affinity: u64, _count: c_int, _flags: u32, number: c_int) { new_context(to, number) }
    [cuCtxCreate_v4: (Init, zeros INVALID_VALUE, since 12_050)]
    fn (to: Out<u64>, _parameters: u64, _flags: u32, number: c_int) { new_context(to, number) }
    [cuCtxDestroy_v2: (Init, zeros INVALID_VALUE, since 4_000)]
    fn (context: u64) { if context == 0 { Err(Status::INVALID_VALUE) } else { contexts::destroy(context) } }
    [cuCtxSetCurrent: (Init, zeros SUCCESS, since 4_000)]
    fn (context: u64) { contexts::set_current(context) }
    [cuCtxPushCurrent_v2: (Init, zeros INVALID_VALUE, since 4_000)]
    fn (context: u64) { contexts::push(context) }
    [cuCtxGetCurrent: (Init, zeros INVALID_VALUE, since 4_000)]
    fn (to: Out<u64>) { to.set(contexts::current_handle()) }
    [cuCtxPopCurrent_v2: (Init, zeros SUCCESS, since 4_000)]
    fn (to: Out<u64>) { to.set_if(contexts::pop()?); Ok(()) }
    [cuCtxGetId: (Init, zeros INVALID_VALUE, since 12_000)]
    fn (context: u64, id: Out<u64>) {
        if id.is_null() { return Err(Status::INVALID_VALUE); }
        id.set(contexts::current_or(context)?)
    }
    [cuCtxGetApiVersion: (Init, zeros INVALID_VALUE, since 3_020)]
    fn (context: u64, version: Out<u32>) {
        if version.is_null() { return Err(Status::INVALID_VALUE); }
        contexts::current_or(context)?;
        version.set(VERSION as u32)
    }
    [cuStreamGetCtx, cuStreamGetCtx_ptsz: (Init, zeros INVALID_VALUE, since 9_020)]
    fn (stream: u64, to: Out<u64>) { to.set(contexts::owner()) }
    [cuStreamGetCtx_v2: (Init, zeros INVALID_VALUE, since 12_050)]
    fn (stream: u64, to: Out<u64>, green: Out<u64>) { to.set(contexts::owner())?; green.set_if(0); Ok(()) }

    [cudaPointerGetAttributes: (Runtime, zeros INVALID_VALUE)]
    fn (to: Out<u8>, at: u64) {
        // Type (0 unregistered, 1 host, 2 device, 3 managed), device, device pointer, host pointer.
        let kind = device()?.around(at).map(|(_, a)| a.kind);
        let (word, on_device, on_host) = match kind {
            None => (0u32, 0, at),
            Some(Kind::Pinned | Kind::Registered) => (1, at, at),
            Some(Kind::Device | Kind::Graph) => (2, at, 0),
            Some(Kind::Managed | Kind::ManagedVariable) => (3, at, at),
        };
        let number = if kind.is_none() { -1i32 } else { 0 };
        let bytes = [&word.to_le_bytes()[..], &number.to_le_bytes(), &on_device.to_le_bytes(), &on_host.to_le_bytes()];
        put_host_bytes(to.address(), &bytes.concat())
    }
    [cuPointerGetAttribute: (Init, zeros INVALID_VALUE, since 4_000)]
    fn (to: Out<u8>, attribute: c_int, at: u64) { pointer_attribute(&*device()?, to.address(), attribute, at) }
    [cuPointerGetAttributes: (Init, zeros INVALID_VALUE, since 7_000)]
    fn (count: u32, attributes: In<c_int>, to: In<u64>, at: u64) {
        if count == 0 { return Err(Status::INVALID_VALUE); }
        let device = device()?;
        for n in 0..count as usize {
            // Attributes that do not apply to a pointer are zero.
            if pointer_attribute(&device, to.nth(n)?, attributes.nth(n)?, at).is_err() {
                put_host_bytes(to.nth(n)?, &[0; 4])?;
            }
        }
        Ok(())
    }
    // Attribute 6 makes copies synchronous, which they always are.
    [cuPointerSetAttribute: (Init, zeros INVALID_VALUE, since 6_000)]
    fn (_value: u64, attribute: c_int, at: u64) {
        device()?.around(at).ok_or(Status::INVALID_VALUE)?;
        if attribute == 6 { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }
}
