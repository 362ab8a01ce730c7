//! Entry points of both APIs for devices, contexts and limits. There is one device, and its contexts share memory.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use emulator::events::UUID;

use crate::api::{Answer, In, Out, Text, entry_points, put_host_bytes, runtime_is_12};
use crate::contexts;
use crate::device::{Device, Kind, device};
use crate::properties::device_properties;
use crate::status::Status;

/// The CUDA version that the driver reports, in CUDA's encoding.
pub(crate) const VERSION: c_int = 13_000;
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
    device_function;

    fn cuInit(_flags: u32) { device().map(drop)?; contexts::initialize(); Ok(()) }
    fn cudaDriverGetVersion | cuDriverGetVersion(version: Out<c_int>) { version.set(VERSION) }
    fn cudaRuntimeGetVersion(version: Out<c_int>) { version.set(if runtime_is_12() { VERSION_12 } else { VERSION }) }
    fn cudaGetDeviceCount | cuDeviceGetCount | _cudaGetDeviceCount(count: Out<c_int>) { device().map(drop)?; count.set(1) }
    fn cudaGetDevice | cuCtxGetDevice | cuCtxGetDevice_v2 | _cudaGetDevice(number: Out<c_int>) { number.set(0) }
    fn cuDeviceGet | _cuDeviceGet(number: Out<c_int>, ordinal: c_int) { the_one(ordinal)?; number.set(0) }
    fn cudaSetDevice | _cudaSetDevice(number: c_int) { the_one(number)?; device().map(drop) }
    fn cudaInitDevice(number: c_int, _device_flags: u32, _flags: u32) { the_one(number) }
    fn cudaChooseDevice(number: Out<c_int>, _properties: u64) { number.set(0) }
    fn cudaSetValidDevices(_list: u64, _len: c_int) { Ok(()) }
    fn cudaSetDeviceFlags(_flags: u32) { Ok(()) }
    fn cudaGetDeviceFlags | cuCtxGetFlags(flags: Out<u32>) { flags.set(0) }
    fn cuCtxSetFlags(_flags: u32) { Ok(()) }
    fn cuDeviceGetName(to: u64, len: c_int, number: c_int) {
        the_one(number)?;
        let mut name = device()?.gpu.name.as_bytes().to_vec();
        name.truncate((len.max(1) - 1) as usize);
        name.push(0);
        put_host_bytes(to, &name)
    }
    fn cuDeviceGetUuid | cuDeviceGetUuid_v2(to: u64, _number: c_int) { put_host_bytes(to, UUID) }
    fn cuDeviceTotalMem_v2(len: Out<usize>, _number: c_int) { len.set(device()?.gpu.memory as usize) }
    fn cudaDeviceGetAttribute | cuDeviceGetAttribute | _cudaDeviceGetAttribute(value: Out<c_int>, attribute: c_int, number: c_int) {
        the_one(number)?;
        value.set(device()?.gpu.attribute(attribute))
    }
    fn cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, _number: c_int) {
        let (a, b) = device()?.gpu.capability;
        major.set(a as c_int)?;
        minor.set(b as c_int)
    }
    fn cudaGetDeviceProperties | _cudaGetDeviceProperties(to: u64, number: c_int) { properties(to, number, runtime_is_12()) }
    fn cudaGetDeviceProperties_v2(to: u64, number: c_int) { properties(to, number, true) }
    fn cudaDeviceGetPCIBusId | cuDeviceGetPCIBusId(id: u64, len: c_int, number: c_int) {
        the_one(number)?;
        if len < BUS.len() as c_int { return Err(Status::INVALID_VALUE); }
        put_host_bytes(id, BUS)
    }
    fn cudaDeviceGetByPCIBusId | cuDeviceGetByPCIBusId(number: Out<c_int>, id: Text) {
        // The domain is optional; the numbers are hexadecimal.
        let id = id.text()?;
        let fits = id.trim_start_matches("0000:").trim_end_matches(".0") == "01:00";
        if fits { number.set(0) } else { Err(Status::INVALID_DEVICE) }
    }
    fn cudaDeviceCanAccessPeer | cuDeviceCanAccessPeer(can: Out<c_int>, one: c_int, other: c_int) { the_one(one)?; the_one(other)?; can.set(0) }
    fn cudaDeviceEnablePeerAccess(peer: c_int, _flags: u32) { the_one(peer)?; Err(Status::PEER_ACCESS) }
    fn cudaDeviceDisablePeerAccess(peer: c_int) { the_one(peer)?; Err(Status::PEER_NOT_ENABLED) }
    fn cuCtxEnablePeerAccess(_context: u64, _flags: u32) { Err(Status::PEER_ACCESS) }
    fn cuCtxDisablePeerAccess(_context: u64) { Err(Status::PEER_NOT_ENABLED) }
    // A device has no link to itself.
    fn cudaDeviceGetP2PAttribute | cuDeviceGetP2PAttribute(_value: Out<c_int>, _attribute: c_int, _one: c_int, _other: c_int) { Err(Status::INVALID_DEVICE) }
    fn cudaDeviceGetStreamPriorityRange | cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        least.set_if(0);
        greatest.set_if(-5);
        Ok(())
    }
    fn cudaDeviceSynchronize | cuCtxSynchronize | cuCtxSynchronize_v2 | _cudaDeviceSynchronize() { synchronized() }
    fn cudaDeviceReset() {
        contexts::reset_primary();
        device()?.stack_bytes = None;
        Ok(())
    }
    fn cudaDeviceGetLimit | cuCtxGetLimit(value: Out<usize>, number: c_int) {
        let stack = device()?.stack_bytes.filter(|_| number == STACK);
        value.set(stack.unwrap_or(limit(number)))
    }
    fn cudaDeviceSetLimit | cuCtxSetLimit(number: c_int, value: usize) {
        if number == STACK {
            device()?.stack_bytes = Some(value);
        }
        Ok(())
    }
    fn cudaDeviceSetCacheConfig | cuCtxSetCacheConfig(_config: c_int) { Ok(()) }
    fn cudaDeviceGetCacheConfig | cuCtxGetCacheConfig(config: Out<c_int>) { config.set(0) }
    fn cudaDeviceSetSharedMemConfig | cuCtxSetSharedMemConfig(_config: c_int) { Ok(()) }
    fn cudaDeviceGetSharedMemConfig | cuCtxGetSharedMemConfig(config: Out<c_int>) { config.set(1) }
    fn cudaCtxResetPersistingL2Cache | cuCtxResetPersistingL2Cache() { Ok(()) }
    fn cudaProfilerStart | cudaProfilerStop | cuProfilerStart | cuProfilerStop | _cudaProfilerStart | _cudaProfilerStop() { Ok(()) }

    fn cuDevicePrimaryCtxRetain(to: Out<u64>, number: c_int) {
        the_one(number)?;
        device().map(drop)?;
        to.set(contexts::retain_primary())
    }
    fn cuDevicePrimaryCtxRelease_v2(number: c_int) { the_one(number)?; contexts::release_primary() }
    fn cuDevicePrimaryCtxReset_v2(number: c_int) { the_one(number)?; contexts::reset_primary(); Ok(()) }
    fn cuDevicePrimaryCtxSetFlags_v2(number: c_int, _flags: u32) { the_one(number) }
    fn cuDevicePrimaryCtxGetState(_number: c_int, flags: Out<u32>, active: Out<c_int>) {
        flags.set_if(0);
        active.set_if(c_int::from(contexts::primary_is_active()));
        Ok(())
    }
    fn cuCtxCreate_v2(to: Out<u64>, _flags: u32, number: c_int) { new_context(to, number) }
    fn cuCtxCreate_v3(to: Out<u64>, _affinity: u64, _count: c_int, _flags: u32, number: c_int) { new_context(to, number) }
    fn cuCtxCreate_v4(to: Out<u64>, _parameters: u64, _flags: u32, number: c_int) { new_context(to, number) }
    fn cuCtxDestroy_v2(context: u64) { contexts::destroy(context) }
    fn cuCtxSetCurrent(context: u64) { contexts::set_current(context) }
    fn cuCtxPushCurrent_v2(context: u64) { contexts::push(context) }
    fn cuCtxGetCurrent(to: Out<u64>) { to.set(contexts::current_handle()) }
    fn cuCtxPopCurrent_v2(to: Out<u64>) { to.set_if(contexts::pop()?); Ok(()) }
    fn cuCtxGetId(context: u64, id: Out<u64>) { id.set(if context == 0 { contexts::current()? } else { context }) }
    fn cuCtxGetApiVersion(context: u64, version: Out<u32>) {
        if context == 0 { contexts::current()?; }
        version.set(VERSION as u32)
    }
    fn cuStreamGetCtx | cuStreamGetCtx_ptsz(stream: u64, to: Out<u64>) { to.set(contexts::owner()) }
    fn cuStreamGetCtx_v2(stream: u64, to: Out<u64>, green: Out<u64>) { to.set(contexts::owner())?; green.set_if(0); Ok(()) }

    fn cudaPointerGetAttributes(to: u64, at: u64) {
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
        put_host_bytes(to, &bytes.concat())
    }
    fn cuPointerGetAttribute(to: u64, attribute: c_int, at: u64) { pointer_attribute(&*device()?, to, attribute, at) }
    fn cuPointerGetAttributes(count: u32, attributes: In<c_int>, to: In<u64>, at: u64) {
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
    fn cuPointerSetAttribute(_value: u64, attribute: c_int, at: u64) {
        device()?.around(at).ok_or(Status::INVALID_VALUE)?;
        if attribute == 6 { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }
}
