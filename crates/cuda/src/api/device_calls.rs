//! Entry points of both APIs for devices, contexts and limits. The contexts of all devices share the address space.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use crate::api::call::VERSION;
use crate::api::launch_parameters::PERSISTENCE;
use crate::api::properties::device_properties;
use crate::api::table::entry_points;
use crate::device::allocations::Kind;
use crate::device::contexts::{self, bus_of, gpu, gpu_at_bus, gpus, present, uuid_of};
use crate::device::state::{Device, device};
use crate::device::streams::HIGHEST_PRIORITY;
use crate::program::caller::runtime_is_12;
use crate::program::pointers::{In, Out, Text, put_host_bytes};
use crate::status::{Answer, Status};

/// The version reported by a runtime of CUDA 12.
const VERSION_12: c_int = 12_090;
/// The length of a PCI bus id, with the final NUL.
const BUS_LEN: c_int = 13;

/// Checks the number of a GPU.
fn known(number: c_int) -> Answer {
    gpu(number).map(drop)
}

/// Writes the properties of the device.
///
/// # Safety
/// The place is null or has room for `cudaDeviceProp` of CUDA 12 (`old`) or 13.
unsafe fn properties(to: u64, number: c_int, old: bool) -> Answer {
    let number = gpu(number)?;
    // SAFETY: as promised by the caller.
    unsafe {
        put_host_bytes(
            to,
            &device_properties(device()?.gpu, &uuid_of(number), i32::from(bus_of(number)), old),
        )
    }
}

fn new_context(to: Out<u64>, number: c_int) -> Answer {
    let number = gpu(number)?;
    device().map(drop)?;
    to.set(contexts::create(number)?)
}

/// The GPU of a context that is not the current one.
fn peer_of(context: u64) -> Result<u8, Status> {
    if context == contexts::current_handle() {
        return Err(Status::INVALID_CONTEXT);
    }
    contexts::gpu_of(context).map_err(|_| Status::INVALID_CONTEXT)
}

fn synchronized() -> Answer {
    let mut device = device()?;
    device.streams.unsafe_call()?;
    device.healthy()
}

/// `CU_DEVICE_ATTRIBUTE_PCI_BUS_ID`.
const PCI_BUS: c_int = 33;
/// `CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS`.
const PAGEABLE: c_int = 88;
/// What is said if a program asks for it: GB10 answers 1.
const NO_PAGEABLE: &str = "the program asks whether kernels may access pageable memory (pageableMemoryAccess); the answer is 0, and 1 on \
                           the GPU: kernels under exec access memory of cudaMalloc, cudaMallocManaged, cudaMallocHost and \
                           cudaHostRegister";

/// `cudaLimitPersistingL2CacheSize`.
const PERSISTING_L2: c_int = 6;
/// What is said of a program that calls the profiler.
const PROFILER: &str = "the program starts or stops a profiler: there is none, and the calls do nothing";

/// `cudaLimitStackSize`.
const STACK: c_int = 0;

/// `cudaLimitMallocHeapSize`.
const HEAP: c_int = 2;

/// `cudaLimitPersistingL2CacheSize`.
const LAST_LIMIT: c_int = 6;

/// Limits by number: stack, printf buffer, heap.
fn limit(number: c_int) -> usize {
    match number {
        STACK => 1024,
        1 => 8_650_752,
        HEAP => 8 << 20,
        4 => 2048,
        5 => 64,
        _ => 0,
    }
}

/// Checks the number of a limit: the depth of synchronisation of device launches (3) exists before 9.0 alone.
fn known_limit(number: c_int) -> Answer {
    match number {
        3 => Err(Status::UNSUPPORTED_LIMIT),
        0..=LAST_LIMIT => Ok(()),
        _ => Err(Status::INVALID_VALUE),
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
        1 if found.gpu == contexts::current_gpu() => contexts::owner().to_le_bytes().into(),
        1 => contexts::primary_of(found.gpu).to_le_bytes().into(),
        2 => (if host_memory { 1u32 } else { 2 }).to_le_bytes().into(),
        3 => at.to_le_bytes().into(),
        4 if found.kind.on_host() => at.to_le_bytes().into(),
        7 | 11 => base.to_le_bytes().into(),
        8 => vec![u8::from(found.kind.is_managed())],
        9 => u32::from(found.gpu).to_le_bytes().into(),
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
    fn (_flags: u32) { contexts::initialize()?; device().map(drop) }
    [cudaDriverGetVersion: (Runtime, zeros INVALID_VALUE)]
    [cuDriverGetVersion: (Nothing, zeros INVALID_VALUE, since 2_020)]
    fn (version: Out<c_int>) { version.set(VERSION) }
    [cudaRuntimeGetVersion: (Nothing, zeros INVALID_VALUE)]
    fn (version: Out<c_int>) { version.set(if runtime_is_12() { VERSION_12 } else { VERSION }) }
    [cudaGetDeviceCount, _cudaGetDeviceCount: (Runtime, zeros INVALID_VALUE)]
    [cuDeviceGetCount: (Init, zeros INVALID_VALUE, since 2_000)]
    fn (count: Out<c_int>) {
        count.set(c_int::from(gpus()))?;
        present()?;
        device().map(drop)
    }
    [cudaGetDevice, _cudaGetDevice: (Runtime, zeros INVALID_VALUE)]
    [cuCtxGetDevice: (Current, zeros INVALID_VALUE, since 2_000)]
    [cuCtxGetDevice_v2: (Current, zeros INVALID_VALUE, since 13_000)]
    fn (number: Out<c_int>) { present()?; number.set(c_int::from(contexts::current_gpu())) }
    [cuDeviceGet: (Init, zeros INVALID_VALUE, since 2_000)]
    [_cuDeviceGet: (Init, zeros INVALID_VALUE)]
    fn (number: Out<c_int>, ordinal: c_int) { known(ordinal)?; number.set(ordinal) }
    [cudaSetDevice, _cudaSetDevice: (Runtime, zeros SUCCESS)]
    fn (number: c_int) {
        let number = gpu(number)?;
        device().map(drop)?;
        contexts::select(number)
    }
    [cudaInitDevice: (Runtime, zeros SUCCESS)]
    fn (number: c_int, _device_flags: u32, _flags: u32) { known(number) }
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
        known(number)?;
        let mut name = device()?.gpu.name.as_bytes().to_vec();
        name.truncate((len.max(1) - 1) as usize);
        name.push(0);
        put_host_bytes(to.address(), &name)
    }
    [cuDeviceGetUuid: (Init, zeros INVALID_VALUE, since 9_020)]
    [cuDeviceGetUuid_v2: (Init, zeros INVALID_VALUE, since 11_040)]
    fn (to: Out<[u8; 16]>, number: c_int) { put_host_bytes(to.address(), &uuid_of(gpu(number)?)) }
    [cuDeviceTotalMem_v2: (Init, zeros INVALID_VALUE, since 3_020)]
    fn (len: Out<usize>, number: c_int) {
        known(number)?;
        len.set(device()?.gpu.memory as usize)
    }
    [cudaDeviceGetAttribute, _cudaDeviceGetAttribute: (Runtime, zeros INVALID_VALUE)]
    [cuDeviceGetAttribute: (Init, zeros INVALID_VALUE, since 2_000)]
    fn (value: Out<c_int>, attribute: c_int, number: c_int) {
        let number = gpu(number)?;
        let mut device = device()?;
        let held = match attribute {
            PCI_BUS => i32::from(bus_of(number)),
            PAGEABLE if device.gpu.integrated => {
                device.results.remark(NO_PAGEABLE.to_owned());
                0
            }
            _ => device.gpu.attribute(attribute),
        };
        value.set(held)
    }
    [cuDeviceComputeCapability: (Init, zeros INVALID_VALUE, since 2_000)]
    fn (major: Out<c_int>, minor: Out<c_int>, number: c_int) {
        known(number)?;
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
        let number = gpu(number)?;
        if len < BUS_LEN { return Err(Status::INVALID_VALUE); }
        put_host_bytes(id.address(), format!("0000:{:02x}:00.0\0", bus_of(number)).as_bytes())
    }
    [cudaDeviceGetByPCIBusId: (Primary, zeros INVALID_VALUE)]
    [cuDeviceGetByPCIBusId: (Init, zeros INVALID_VALUE, since 4_010)]
    fn (number: Out<c_int>, id: Text) {
        // The domain is optional; the numbers are hexadecimal.
        let id = id.text()?;
        let bus = id.trim_start_matches("0000:").trim_end_matches(".0").strip_suffix(":00");
        let bus = bus.and_then(|bus| u8::from_str_radix(bus, 16).ok()).ok_or(Status::INVALID_DEVICE)?;
        number.set(c_int::from(gpu_at_bus(bus)?))
    }
    [cudaDeviceCanAccessPeer: (Primary, zeros INVALID_VALUE)]
    [cuDeviceCanAccessPeer: (Init, zeros INVALID_VALUE, since 4_000)]
    fn (can: Out<c_int>, one: c_int, other: c_int) { can.set(c_int::from(gpu(one)? != gpu(other)?)) }
    [cudaDeviceEnablePeerAccess: (Primary, zeros INVALID_DEVICE, valid INVALID_DEVICE)]
    fn (peer: c_int, flags: u32) {
        let peer = gpu(peer)?;
        if flags != 0 { return Err(Status::INVALID_VALUE); }
        device()?.peers.enable(contexts::current_gpu(), peer, Status::INVALID_DEVICE)
    }
    [cudaDeviceDisablePeerAccess: (Primary, zeros PEER_NOT_ENABLED, valid PEER_NOT_ENABLED)]
    fn (peer: c_int) { let peer = gpu(peer)?; device()?.peers.disable(contexts::current_gpu(), peer) }
    [cuCtxEnablePeerAccess: (Current, zeros INVALID_CONTEXT, valid PEER_ACCESS, since 4_000)]
    fn (context: u64, flags: u32) {
        let peer = peer_of(context)?;
        if flags != 0 { return Err(Status::INVALID_VALUE); }
        device()?.peers.enable(contexts::current_gpu(), peer, Status::PEER_ACCESS)
    }
    [cuCtxDisablePeerAccess: (Current, zeros INVALID_CONTEXT, valid PEER_NOT_ENABLED, since 4_000)]
    fn (context: u64) {
        let peer = peer_of(context)?;
        device()?.peers.disable(contexts::current_gpu(), peer)
    }
    // A device has no link to itself.
    [cudaDeviceGetP2PAttribute: (Primary, zeros INVALID_VALUE, valid INVALID_DEVICE)]
    [cuDeviceGetP2PAttribute: (Init, zeros INVALID_VALUE, valid INVALID_DEVICE, since 8_000)]
    fn (value: Out<c_int>, attribute: c_int, one: c_int, other: c_int) {
        if value.is_null() { return Err(Status::INVALID_VALUE); }
        if gpu(one)? == gpu(other)? { return Err(Status::INVALID_DEVICE); }
        // Rank, access, native atomics, access to arrays.
        match attribute {
            1 => value.set(0),
            2..=4 => value.set(1),
            _ => Err(Status::INVALID_VALUE),
        }
    }
    [cudaDeviceGetStreamPriorityRange: (Primary, zeros SUCCESS)]
    [cuCtxGetStreamPriorityRange: (Current, zeros SUCCESS, since 5_050)]
    fn (least: Out<c_int>, greatest: Out<c_int>) {
        least.set_if(0);
        greatest.set_if(HIGHEST_PRIORITY);
        Ok(())
    }
    [cudaDeviceSynchronize, _cudaDeviceSynchronize: (Primary, zeros SUCCESS)]
    [cuCtxSynchronize: (Current, zeros SUCCESS, since 2_000)]
    [cuCtxSynchronize_v2: (Current, zeros SUCCESS, since 13_000)]
    fn () { synchronized() }
    [cudaDeviceReset: (Runtime, zeros SUCCESS)]
    fn () {
        present()?;
        contexts::reset_primary(contexts::current_gpu());
        let mut device = device()?;
        device.stack_bytes = None;
        device.limits_set.clear();
        device.dynamic_shared.clear();
        device.memory.limit_heap(limit(HEAP) as u64);
        device.peers.forget(contexts::current_gpu());
        Ok(())
    }
    [cudaDeviceGetLimit: (Primary, zeros INVALID_VALUE)]
    [cuCtxGetLimit: (Current, zeros INVALID_VALUE, since 3_010)]
    fn (value: Out<usize>, number: c_int) {
        known_limit(number)?;
        let device = device()?;
        let set = if number == STACK { device.stack_bytes } else { device.limits_set.get(&number).copied() };
        value.set(set.unwrap_or(limit(number)))
    }
    [cudaDeviceSetLimit: (Primary, zeros SUCCESS)]
    [cuCtxSetLimit: (Current, zeros SUCCESS, since 3_010)]
    fn (number: c_int, value: usize) {
        known_limit(number)?;
        if number == PERSISTING_L2 && value > 0 {
            device()?.results.remark(PERSISTENCE.to_owned());
        }
        let mut device = device()?;
        match number {
            // Nothing is a request for the default.
            STACK => device.stack_bytes = Some(value).filter(|bytes| *bytes > 0),
            _ => {
                if number == HEAP {
                    device.memory.limit_heap(value as u64);
                }
                device.limits_set.insert(number, value);
            }
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
    fn () { device()?.results.remark(PERSISTENCE.to_owned()); Ok(()) }
    [cudaProfilerStart, cudaProfilerStop, _cudaProfilerStart, _cudaProfilerStop: (Primary, zeros SUCCESS)]
    [cuProfilerStart, cuProfilerStop: (Current, zeros SUCCESS, since 4_000)]
    fn () { device()?.results.remark(PROFILER.to_owned()); Ok(()) }

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
        let number = gpu(number)?;
        device().map(drop)?;
        to.set(contexts::retain_primary(number))
    }
    [cuDevicePrimaryCtxRelease: (Init, zeros SUCCESS, since 7_000)]
    [cuDevicePrimaryCtxRelease_v2: (Init, zeros SUCCESS, since 11_000)]
    fn (number: c_int) { contexts::release_primary(gpu(number)?) }
    [cuDevicePrimaryCtxReset: (Init, zeros SUCCESS, since 7_000)]
    [cuDevicePrimaryCtxReset_v2: (Init, zeros SUCCESS, since 11_000)]
    fn (number: c_int) {
        let number = gpu(number)?;
        contexts::reset_primary(number);
        device()?.peers.forget(number);
        Ok(())
    }
    [cuDevicePrimaryCtxSetFlags: (Init, zeros SUCCESS, since 7_000)]
    [cuDevicePrimaryCtxSetFlags_v2: (Init, zeros SUCCESS, since 11_000)]
    fn (number: c_int, _flags: u32) { known(number) }
    [cuDevicePrimaryCtxGetState: (Init, zeros INVALID_VALUE, since 7_000)]
    fn (number: c_int, flags: Out<u32>, active: Out<c_int>) {
        let number = gpu(number)?;
        flags.set(0)?;
        active.set(c_int::from(contexts::primary_is_active(number)))
    }
    [cuCtxCreate: (Init, zeros INVALID_VALUE, since 2_000)]
    [cuCtxCreate_v2: (Init, zeros INVALID_VALUE, since 3_020)]
    fn (to: Out<u64>, _flags: u32, number: c_int) { new_context(to, number) }
    [cuCtxCreate_v3: (Init, zeros INVALID_VALUE, since 11_040)]
    fn (to: Out<u64>, _affinity: u64, _count: c_int, _flags: u32, number: c_int) { new_context(to, number) }
    [cuCtxCreate_v4: (Init, zeros INVALID_VALUE, since 12_050)]
    fn (to: Out<u64>, _parameters: u64, _flags: u32, number: c_int) { new_context(to, number) }
    [cuCtxDestroy: (Init, zeros INVALID_VALUE, since 2_000)]
    [cuCtxDestroy_v2: (Init, zeros INVALID_VALUE, since 4_000)]
    fn (context: u64) { if context == 0 { Err(Status::INVALID_VALUE) } else { contexts::destroy(context) } }
    [cuCtxSetCurrent: (Init, zeros SUCCESS, since 4_000)]
    fn (context: u64) { contexts::set_current(context) }
    [cuCtxPushCurrent: (Init, zeros INVALID_VALUE, since 2_000)]
    [cuCtxPushCurrent_v2: (Init, zeros INVALID_VALUE, since 4_000)]
    fn (context: u64) { contexts::push(context) }
    [cuCtxGetCurrent: (Init, zeros INVALID_VALUE, since 4_000)]
    fn (to: Out<u64>) { to.set(contexts::current_handle()) }
    [cuCtxPopCurrent: (Init, zeros SUCCESS, since 2_000)]
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
    [cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz: (Init, zeros INVALID_VALUE, since 12_050)]
    fn (stream: u64, to: Out<u64>, green: Out<u64>) { to.set(contexts::owner())?; green.set_if(0); Ok(()) }

    [cudaPointerGetAttributes: (Runtime, zeros INVALID_VALUE)]
    fn (to: Out<u8>, at: u64) {
        present()?;
        // Type (0 unregistered, 1 host, 2 device, 3 managed), device, device pointer, host pointer.
        let found = device()?.around(at).map(|(_, a)| a);
        let kind = found.map(|a| a.kind);
        let (word, on_device, on_host) = match kind {
            None => (0u32, 0, at),
            Some(Kind::Pinned | Kind::Registered) => (1, at, at),
            Some(Kind::Device | Kind::Graph | Kind::Conditions | Kind::Mapped) => (2, at, 0),
            Some(Kind::Managed | Kind::ManagedVariable) => (3, at, at),
        };
        let number = found.map_or(-1i32, |a| i32::from(a.gpu));
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
