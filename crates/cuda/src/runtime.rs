//! The runtime API (`libcudart`), after NVIDIA's header `cuda_runtime_api.h`.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_char, c_int, c_void};

use crate::api::{
    Answer, In, Out, Pointers, Text, call, entry_points, host_bytes, image, last_error, print, put_host_bytes,
};
use crate::device::{Handle, Kind, device};
use crate::launch::Shape;
use crate::properties::device_properties;
use crate::registration::{Dim3, kernel, variable};
use crate::status::Status;

/// The version that the libraries claim, as CUDA writes it.
const VERSION: c_int = 13_000;

type Stream = *mut c_void;
type HostFunction = Option<extern "C" fn(*mut c_void)>;

/// `cudaLaunchConfig_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: u64,
    attributes: In<LaunchAttribute>,
    count: u32,
}

/// `cudaLaunchAttribute` and `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchAttribute {
    id: u32,
    pad: u32,
    value: [u32; 16],
}

/// What attributes say of a launch.
pub(crate) fn attributed(shape: &mut Shape, attributes: In<LaunchAttribute>, count: u32) -> Answer {
    for n in 0..count as usize {
        let attribute = attributes.nth(n)?;
        let [x, y, z, ..] = attribute.value;
        match attribute.id {
            2 => shape.cooperative = x != 0,
            4 if [x, y, z] != [0, 0, 0] => shape.cluster = Some([x.max(1), y.max(1), z.max(1)]),
            // The others change no result; a programmatic launch may begin when the one before has ended.
            _ => {}
        }
    }
    Ok(())
}

/// Launches, and writes what the kernel printed once the device is free again.
pub(crate) fn launch(symbol: u64, shape: &Shape, arguments: &dyn crate::launch::Arguments) -> Answer {
    let launched = {
        let mut device = device()?;
        let function = kernel(&mut device, symbol)?;
        device.launch(&function, shape, arguments)
    };
    print(&launched.printed);
    launched.status
}

/// Blocks of a multiprocessor that run together, by threads and shared memory.
pub(crate) fn occupancy(threads: c_int, shared: usize) -> Result<c_int, Status> {
    let gpu = device()?.gpu;
    let threads = u32::try_from(threads).ok().filter(|n| *n > 0).ok_or(Status::INVALID_VALUE)?;
    let by_threads = gpu.threads_sm / threads.next_multiple_of(32);
    let by_shared = gpu.shared_sm / u32::try_from(shared + 1024).unwrap_or(u32::MAX);
    Ok(by_threads.min(by_shared).min(gpu.blocks_sm) as c_int)
}

fn symbol_copy(symbol: u64, offset: usize, len: usize) -> Result<u64, Status> {
    let (address, size) = variable(&mut *device()?, symbol)?;
    if offset.checked_add(len).is_none_or(|end| end > size) {
        return Err(Status::INVALID_VALUE);
    }
    Ok(address + offset as u64)
}

fn allocate(at: Out<u64>, len: usize, kind: Kind) -> Answer {
    let address = if len == 0 { 0 } else { device()?.allocate(len, kind)? };
    at.set(address)
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> c_int {
    last_error(true)
}

#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> c_int {
    last_error(false)
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(code: c_int) -> *const c_char {
    Status(code).sentence().as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(code: c_int) -> *const c_char {
    Status(code).runtime_name().as_ptr().cast()
}

/// `cudaCreateChannelDesc`, which returns a struct of five words.
#[repr(C)]
struct ChannelDesc([c_int; 5]);

#[unsafe(no_mangle)]
extern "C" fn cudaCreateChannelDesc(x: c_int, y: c_int, z: c_int, w: c_int, kind: c_int) -> ChannelDesc {
    ChannelDesc([x, y, z, w, kind])
}

entry_points! {
    runtime_function;

    fn cudaRuntimeGetVersion(version: Out<c_int>) { version.set(VERSION) }
    fn cudaDriverGetVersion(version: Out<c_int>) { version.set(VERSION) }
    fn cudaGetDeviceCount(count: Out<c_int>) { device().map(drop)?; count.set(1) }
    fn cudaGetDevice(number: Out<c_int>) { number.set(0) }
    fn cudaSetDevice(number: c_int) { if number == 0 { device().map(drop) } else { Err(Status::INVALID_DEVICE) } }
    fn cudaInitDevice(number: c_int, _device_flags: u32, _flags: u32) { if number == 0 { Ok(()) } else { Err(Status::INVALID_DEVICE) } }
    fn cudaChooseDevice(number: Out<c_int>, _properties: u64) { number.set(0) }
    fn cudaSetValidDevices(_list: u64, _len: c_int) { Ok(()) }
    fn cudaSetDeviceFlags(_flags: u32) { Ok(()) }
    fn cudaGetDeviceFlags(flags: Out<u32>) { flags.set(0) }
    fn cudaDeviceGetAttribute(value: Out<c_int>, attribute: c_int, number: c_int) {
        if number != 0 { return Err(Status::INVALID_DEVICE); }
        value.set(device()?.gpu.attribute(attribute))
    }
    fn cudaGetDeviceProperties(properties: u64, number: c_int) {
        if number != 0 { return Err(Status::INVALID_DEVICE); }
        put_host_bytes(properties, &device_properties(device()?.gpu, false))
    }
    fn cudaGetDeviceProperties_v2(properties: u64, number: c_int) {
        if number != 0 { return Err(Status::INVALID_DEVICE); }
        put_host_bytes(properties, &device_properties(device()?.gpu, true))
    }
    fn cudaDeviceGetPCIBusId(id: u64, len: c_int, _number: c_int) {
        let text = b"0000:01:00.0\0";
        if len < text.len() as c_int { return Err(Status::INVALID_VALUE); }
        put_host_bytes(id, text)
    }
    fn cudaDeviceCanAccessPeer(can: Out<c_int>, _one: c_int, _other: c_int) { can.set(0) }
    fn cudaDeviceEnablePeerAccess(_peer: c_int, _flags: u32) { Err(Status::PEER_ACCESS) }
    fn cudaDeviceGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) { least.set_if(0); greatest.set_if(-5); Ok(()) }
    fn cudaDeviceSynchronize() { device()?.healthy() }
    fn cudaDeviceReset() { Ok(()) }
    fn cudaDeviceGetLimit(value: Out<usize>, limit: c_int) {
        value.set(match limit { 0 => 1024, 1 => 1 << 20, 2 => 8 << 20, _ => 0 })
    }
    fn cudaDeviceSetLimit(_limit: c_int, _value: usize) { Ok(()) }
    fn cudaDeviceSetCacheConfig(_config: c_int) { Ok(()) }
    fn cudaDeviceGetCacheConfig(config: Out<c_int>) { config.set(0) }
    fn cudaDeviceSetSharedMemConfig(_config: c_int) { Ok(()) }
    fn cudaDeviceGetSharedMemConfig(config: Out<c_int>) { config.set(1) }
    fn cudaCtxResetPersistingL2Cache() { Ok(()) }
    fn cudaProfilerStart() { Ok(()) }
    fn cudaProfilerStop() { Ok(()) }

    fn cudaMalloc(at: Out<u64>, len: usize) { allocate(at, len, Kind::Device) }
    fn cudaMallocAsync(at: Out<u64>, len: usize, _stream: Stream) { allocate(at, len, Kind::Device) }
    fn cudaMallocAsync_ptsz(at: Out<u64>, len: usize, _stream: Stream) { allocate(at, len, Kind::Device) }
    fn cudaMallocFromPoolAsync(at: Out<u64>, len: usize, _pool: u64, _stream: Stream) { allocate(at, len, Kind::Device) }
    fn cudaMallocManaged(at: Out<u64>, len: usize, _flags: u32) { allocate(at, len, Kind::Managed) }
    fn cudaMallocHost(at: Out<u64>, len: usize) { allocate(at, len, Kind::Pinned) }
    fn cudaHostAlloc(at: Out<u64>, len: usize, _flags: u32) { allocate(at, len, Kind::Pinned) }
    fn cudaMallocPitch(at: Out<u64>, pitch: Out<usize>, width: usize, height: usize) {
        let row = width.next_multiple_of(512);
        allocate(at, row * height, Kind::Device)?;
        pitch.set(row)
    }
    fn cudaFree(at: u64) { device()?.free(at) }
    fn cudaFreeAsync(at: u64, _stream: Stream) { device()?.free(at) }
    fn cudaFreeAsync_ptsz(at: u64, _stream: Stream) { device()?.free(at) }
    fn cudaFreeHost(at: u64) { device()?.free(at) }
    fn cudaHostGetDevicePointer(to: Out<u64>, host: u64, _flags: u32) {
        let known = device()?.around(host).is_some();
        if known { to.set(host) } else { Err(Status::INVALID_VALUE) }
    }
    fn cudaHostGetFlags(flags: Out<u32>, _host: u64) { flags.set(0) }
    // Registered memory may be copied from, as any memory of the host; kernels cannot reach it (attribute 91 is a promise for pinned memory).
    fn cudaHostRegister(_host: u64, _len: usize, _flags: u32) { Ok(()) }
    fn cudaHostUnregister(_host: u64) { Ok(()) }
    fn cudaMemGetInfo(free: Out<usize>, total: Out<usize>) {
        let device = device()?;
        free.set(device.free_bytes() as usize)?;
        total.set(device.gpu.memory as usize)
    }
    fn cudaMemcpy(to: u64, from: u64, len: usize, _kind: c_int) { device()?.copy(to, from, len) }
    fn cudaMemcpyAsync(to: u64, from: u64, len: usize, _kind: c_int, _stream: Stream) { device()?.copy(to, from, len) }
    fn cudaMemcpy_ptds(to: u64, from: u64, len: usize, _kind: c_int) { device()?.copy(to, from, len) }
    fn cudaMemcpyAsync_ptsz(to: u64, from: u64, len: usize, _kind: c_int, _stream: Stream) { device()?.copy(to, from, len) }
    fn cudaMemcpyPeer(to: u64, _one: c_int, from: u64, _other: c_int, len: usize) { device()?.copy(to, from, len) }
    fn cudaMemcpyPeerAsync(to: u64, _one: c_int, from: u64, _other: c_int, len: usize, _stream: Stream) { device()?.copy(to, from, len) }
    fn cudaMemcpy2D(to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize, _kind: c_int) {
        device()?.copy_rows((to, to_pitch), (from, from_pitch), width, height)
    }
    fn cudaMemcpy2DAsync(to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize, _kind: c_int, _stream: Stream) {
        device()?.copy_rows((to, to_pitch), (from, from_pitch), width, height)
    }
    fn cudaMemset(to: u64, value: c_int, len: usize) { device()?.fill(to, &[value as u8], len) }
    fn cudaMemsetAsync(to: u64, value: c_int, len: usize, _stream: Stream) { device()?.fill(to, &[value as u8], len) }
    fn cudaMemset2D(to: u64, pitch: usize, value: c_int, width: usize, height: usize) {
        device()?.fill_rows((to, pitch), &[value as u8], width, height)
    }
    fn cudaMemset2DAsync(to: u64, pitch: usize, value: c_int, width: usize, height: usize, _stream: Stream) {
        device()?.fill_rows((to, pitch), &[value as u8], width, height)
    }
    fn cudaMemcpyToSymbol(symbol: u64, from: u64, len: usize, offset: usize, _kind: c_int) {
        let to = symbol_copy(symbol, offset, len)?;
        device()?.copy(to, from, len)
    }
    fn cudaMemcpyToSymbolAsync(symbol: u64, from: u64, len: usize, offset: usize, _kind: c_int, _stream: Stream) {
        let to = symbol_copy(symbol, offset, len)?;
        device()?.copy(to, from, len)
    }
    fn cudaMemcpyFromSymbol(to: u64, symbol: u64, len: usize, offset: usize, _kind: c_int) {
        let from = symbol_copy(symbol, offset, len)?;
        device()?.copy(to, from, len)
    }
    fn cudaMemcpyFromSymbolAsync(to: u64, symbol: u64, len: usize, offset: usize, _kind: c_int, _stream: Stream) {
        let from = symbol_copy(symbol, offset, len)?;
        device()?.copy(to, from, len)
    }
    fn cudaGetSymbolAddress(to: Out<u64>, symbol: u64) { to.set(symbol_copy(symbol, 0, 0)?) }
    fn cudaGetSymbolSize(to: Out<usize>, symbol: u64) { to.set(variable(&mut *device()?, symbol)?.1) }
    fn cudaMemPrefetchAsync(_at: u64, _len: usize, _a: u64, _b: u64, _c: u64) { Ok(()) }
    fn cudaMemPrefetchAsync_v2(_at: u64, _len: usize, _a: u64, _b: u64, _c: u64) { Ok(()) }
    fn cudaMemAdvise(_at: u64, _len: usize, _advice: c_int, _where: u64) { Ok(()) }
    fn cudaMemAdvise_v2(_at: u64, _len: usize, _advice: c_int, _where: u64) { Ok(()) }
    fn cudaPointerGetAttributes(to: u64, at: u64) {
        // Type (0 unregistered, 1 host, 2 device, 3 managed), device, device pointer, host pointer.
        let kind = device()?.around(at).map(|(_, a)| a.kind);
        let (word, on_device, on_host) = match kind {
            None => (0u32, 0, at),
            Some(Kind::Pinned) => (1, at, at),
            Some(Kind::Device) => (2, at, 0),
            Some(Kind::Managed) => (3, at, at),
        };
        let number = if kind.is_none() { -1i32 } else { 0 };
        let bytes = [&word.to_le_bytes()[..], &number.to_le_bytes(), &on_device.to_le_bytes(), &on_host.to_le_bytes()];
        put_host_bytes(to, &bytes.concat())
    }
    fn cudaDeviceGetDefaultMemPool(pool: Out<u64>, _number: c_int) { pool.set(16) }
    fn cudaDeviceGetMemPool(pool: Out<u64>, _number: c_int) { pool.set(16) }
    fn cudaDeviceSetMemPool(_number: c_int, _pool: u64) { Ok(()) }
    fn cudaMemPoolCreate(pool: Out<u64>, _properties: u64) { pool.set(32) }
    fn cudaMemPoolDestroy(_pool: u64) { Ok(()) }
    fn cudaMemPoolSetAttribute(_pool: u64, _attribute: c_int, _value: u64) { Ok(()) }
    fn cudaMemPoolGetAttribute(_pool: u64, _attribute: c_int, value: Out<u64>) { value.set(0) }
    fn cudaMemPoolTrimTo(_pool: u64, _least: usize) { Ok(()) }
    fn cudaMemPoolSetAccess(_pool: u64, _list: u64, _count: usize) { Ok(()) }

    fn cudaLaunchKernel(symbol: u64, grid: Dim3, block: Dim3, arguments: In<u64>, shared: usize, _stream: Stream) {
        let shared_bytes = u32::try_from(shared).map_err(|_| Status::INVALID_VALUE)?;
        let shape = Shape { grid: grid.into(), block: block.into(), shared_bytes, ..Shape::default() };
        launch(symbol, &shape, &Pointers(arguments))
    }
    fn cudaLaunchCooperativeKernel(symbol: u64, grid: Dim3, block: Dim3, arguments: In<u64>, shared: usize, _stream: Stream) {
        let shared_bytes = u32::try_from(shared).map_err(|_| Status::INVALID_VALUE)?;
        let shape = Shape { grid: grid.into(), block: block.into(), shared_bytes, cooperative: true, ..Shape::default() };
        launch(symbol, &shape, &Pointers(arguments))
    }
    fn cudaLaunchKernelExC(config: In<LaunchConfig>, symbol: u64, arguments: In<u64>) {
        let config = config.get()?;
        let shared_bytes = u32::try_from(config.shared).map_err(|_| Status::INVALID_VALUE)?;
        let mut shape = Shape { grid: config.grid.into(), block: config.block.into(), shared_bytes, ..Shape::default() };
        attributed(&mut shape, config.attributes, config.count)?;
        launch(symbol, &shape, &Pointers(arguments))
    }
    fn cudaLaunchHostFunc(_stream: Stream, function: HostFunction, data: *mut c_void) { call(function, data) }
    fn cudaGetFuncBySymbol(function: Out<u64>, symbol: u64) { function.set(symbol) }
    fn cudaGetKernel(function: Out<u64>, symbol: u64) { function.set(symbol) }
    fn cudaFuncSetAttribute(symbol: u64, attribute: c_int, value: c_int) {
        let mut device = device()?;
        kernel(&mut device, symbol)?;
        // Shared memory that a block may ask for.
        if attribute == 8 && value > device.gpu.shared_optin as c_int { Err(Status::INVALID_VALUE) } else { Ok(()) }
    }
    fn cudaFuncSetCacheConfig(_symbol: u64, _config: c_int) { Ok(()) }
    fn cudaFuncSetSharedMemConfig(_symbol: u64, _config: c_int) { Ok(()) }
    fn cudaFuncGetAttributes(to: u64, symbol: u64) {
        let mut device = device()?;
        let function = kernel(&mut device, symbol)?;
        device.parameters(&function)?;
        let (optin, arch) = (device.gpu.shared_optin as i32, device.gpu.arch() as i32);
        let program = device.modules.get_mut(function.module).ok_or(Status::INVALID_HANDLE)?;
        let program = program.program(&function.name).map_err(|_| Status::INVALID_IMAGE)?;
        let found = program.kernel(&function.name).ok_or(Status::INVALID_DEVICE_FUNCTION)?;
        let (shared, most) = (found.shared_bytes, found.max_threads.unwrap_or(1024).min(1024) as i32);
        let longs = [u64::from(shared), 0, 0].map(u64::to_le_bytes).concat();
        let words = [most, 64, arch, arch, 0, optin - shared as i32, -1].map(i32::to_le_bytes).concat();
        let mut bytes = [longs, words].concat();
        bytes.resize(144, 0);
        put_host_bytes(to, &bytes)
    }
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(count: Out<c_int>, _symbol: u64, threads: c_int, shared: usize) {
        count.set(occupancy(threads, shared)?)
    }
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count: Out<c_int>, _symbol: u64, threads: c_int, shared: usize, _flags: u32) {
        count.set(occupancy(threads, shared)?)
    }
    fn cudaOccupancyMaxActiveClusters(count: Out<c_int>, _symbol: u64, _config: u64) { count.set(device()?.gpu.sms as c_int) }
    fn cudaOccupancyMaxPotentialClusterSize(size: Out<c_int>, _symbol: u64, _config: u64) { size.set(8) }
    fn cudaOccupancyAvailableDynamicSMemPerBlock(size: Out<usize>, _symbol: u64, _blocks: c_int, _threads: c_int) {
        size.set(device()?.gpu.shared_optin as usize)
    }

    fn cudaStreamCreate(stream: Out<u64>) { let handle = device()?.streams.stream(); stream.set(handle) }
    fn cudaStreamCreateWithFlags(stream: Out<u64>, _flags: u32) { let handle = device()?.streams.stream(); stream.set(handle) }
    fn cudaStreamCreateWithPriority(stream: Out<u64>, _flags: u32, _priority: c_int) {
        let handle = device()?.streams.stream();
        stream.set(handle)
    }
    fn cudaStreamDestroy(_stream: Stream) { Ok(()) }
    fn cudaStreamSynchronize(_stream: Stream) { device()?.healthy() }
    fn cudaStreamQuery(_stream: Stream) { device()?.healthy() }
    fn cudaStreamWaitEvent(_stream: Stream, _event: u64, _flags: u32) { device()?.healthy() }
    fn cudaStreamGetPriority(_stream: Stream, priority: Out<c_int>) { priority.set(0) }
    fn cudaStreamGetFlags(_stream: Stream, flags: Out<u32>) { flags.set(0) }
    fn cudaStreamGetDevice(_stream: Stream, number: Out<c_int>) { number.set(0) }
    fn cudaStreamGetId(stream: u64, id: Out<u64>) { id.set(stream) }
    fn cudaStreamIsCapturing(_stream: Stream, status: Out<c_int>) { status.set(0) }
    fn cudaStreamGetCaptureInfo(_stream: Stream, status: Out<c_int>, _id: u64, _graph: u64, _nodes: u64, _count: u64, _more: u64) { status.set(0) }
    fn cudaStreamGetCaptureInfo_v2(_stream: Stream, status: Out<c_int>, _id: u64, _graph: u64, _nodes: u64, _count: u64) { status.set(0) }
    fn cudaThreadExchangeStreamCaptureMode(_mode: u64) { Ok(()) }
    fn cudaStreamAttachMemAsync(_stream: Stream, _at: u64, _len: usize, _flags: u32) { Ok(()) }
    fn cudaStreamSetAttribute(_stream: Stream, _attribute: c_int, _value: u64) { Ok(()) }
    fn cudaStreamAddCallback(stream: Stream, function: Option<extern "C" fn(Stream, c_int, *mut c_void)>, data: *mut c_void, _flags: u32) {
        function.ok_or(Status::INVALID_VALUE)?(stream, 0, data);
        Ok(())
    }
    fn cudaEventCreate(event: Out<u64>) { let handle = device()?.streams.event(); event.set(handle) }
    fn cudaEventCreateWithFlags(event: Out<u64>, _flags: u32) { let handle = device()?.streams.event(); event.set(handle) }
    fn cudaEventDestroy(event: u64) { if device()?.streams.forget(event) { Ok(()) } else { Err(Status::INVALID_HANDLE) } }
    fn cudaEventRecord(event: u64, _stream: Stream) { if device()?.streams.record(event) { Ok(()) } else { Err(Status::INVALID_HANDLE) } }
    fn cudaEventRecordWithFlags(event: u64, _stream: Stream, _flags: u32) {
        if device()?.streams.record(event) { Ok(()) } else { Err(Status::INVALID_HANDLE) }
    }
    fn cudaEventSynchronize(event: u64) { let d = device()?; d.healthy()?; if d.streams.knows(event) { Ok(()) } else { Err(Status::INVALID_HANDLE) } }
    fn cudaEventQuery(event: u64) { let d = device()?; d.healthy()?; if d.streams.knows(event) { Ok(()) } else { Err(Status::INVALID_HANDLE) } }
    fn cudaEventElapsedTime(ms: Out<f32>, start: u64, end: u64) {
        ms.set(device()?.streams.between(start, end).ok_or(Status::INVALID_HANDLE)?)
    }
    fn cudaEventElapsedTime_v2(ms: Out<f32>, start: u64, end: u64) {
        ms.set(device()?.streams.between(start, end).ok_or(Status::INVALID_HANDLE)?)
    }

    fn cudaGetDriverEntryPoint(symbol: Text, function: Out<u64>, _flags: u64, found: Out<c_int>) { entry_point(symbol, function, found) }
    fn cudaGetDriverEntryPointByVersion(symbol: Text, function: Out<u64>, _version: u32, _flags: u64, found: Out<c_int>) {
        entry_point(symbol, function, found)
    }
    fn cudaLibraryLoadData(library: Out<u64>, code: u64, _a: u64, _b: u64, _c: u32, _d: u64, _e: u64, _f: u32) {
        let module = device()?.load(image(code)?);
        library.set(Handle::Module.make(module))
    }
    fn cudaLibraryUnload(_library: u64) { Ok(()) }
    fn cudaLibraryGetKernel(found: Out<u64>, library: u64, name: Text) {
        let module = Handle::Module.index(library).ok_or(Status::INVALID_HANDLE)?;
        let handle = device()?.function(module, &name.text()?);
        found.set(handle)
    }
    fn cudaKernelSetAttributeForDevice(_kernel: u64, _attribute: c_int, _value: c_int, _number: c_int) { Ok(()) }
}

fn entry_point(symbol: Text, function: Out<u64>, found: Out<c_int>) -> Answer {
    let address = crate::driver::find(&symbol.text()?);
    found.set_if(c_int::from(address.is_none()));
    function.set(address.map_or(0, |at| at as u64))?;
    if address.is_some() { Ok(()) } else { Err(Status::INVALID_VALUE) }
}

/// Bytes of a file's image, for `cudaLibraryLoadFromFile`'s like.
pub(crate) fn file(path: Text) -> Result<Vec<u8>, Status> {
    std::fs::read(path.text()?).map_err(|_| Status::FILE_NOT_FOUND)
}

/// Reads words of a caller's array.
pub(crate) fn words(at: u64, count: usize) -> Result<Vec<u64>, Status> {
    let bytes = host_bytes(at, count * 8)?;
    Ok(bytes
        .chunks_exact(8)
        .map(|b| b.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
        .collect())
}
