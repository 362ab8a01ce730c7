//! The driver API (`libcuda`), after NVIDIA's header `cuda.h`.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_char, c_int, c_void};

use emulator::{Interleave, L2Promotion, OobFill, Swizzle, TensorMap, TensorType};

use crate::api::{
    Answer, In, Out, Packed, Pointers, Text, call, entry_points, host_bytes, image, put_host_bytes,
};
use crate::device::{Handle, Kind, device};
use crate::launch::Shape;
use crate::runtime::{LaunchAttribute, attributed, file, launch, occupancy, words};
use crate::status::Status;
use crate::{runtime, unserved};

const VERSION: c_int = 13_000;
/// The one context.
const CONTEXT: u64 = 0x0059_0000_0000_0010;

type Stream = *mut c_void;
type HostFunction = Option<extern "C" fn(*mut c_void)>;

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: u64,
    attributes: In<LaunchAttribute>,
    count: u32,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy2D {
    from: Side2D,
    to: Side2D,
    width: usize,
    height: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Side2D {
    x: usize,
    y: usize,
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    pitch: usize,
}

impl Side2D {
    /// The first byte, and the pitch.
    fn place(&self) -> Result<(u64, usize), Status> {
        let base = match self.kind {
            1 => self.host,
            2 | 4 => self.device,
            _ => return Err(Status::NOT_SUPPORTED),
        };
        Ok((base + (self.y * self.pitch + self.x) as u64, self.pitch))
    }
}

/// The function of a name, of either API.
pub(crate) fn find(name: &str) -> Option<*const c_void> {
    // The header gives most old names to the newest form.
    let newest = ["_v4", "_v3", "_v2"].iter().find_map(|suffix| driver_function(&format!("{name}{suffix}")));
    match name {
        // These take other arguments in their newest form, which programs ask for by version.
        "cuCtxCreate" => driver_function("cuCtxCreate_v2"),
        "cuGetProcAddress" => driver_function("cuGetProcAddress_v2"),
        "cuGetErrorString" => Some(cuGetErrorString as *const c_void),
        _ => newest
            .or_else(|| driver_function(name))
            .or_else(|| runtime::runtime_function(name))
            .or_else(|| unserved::driver_stub(name))
            .or_else(|| unserved::runtime_stub(name)),
    }
}

fn allocate(at: Out<u64>, len: usize, kind: Kind) -> Answer {
    if len == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let address = device()?.allocate(len, kind)?;
    at.set(address)
}

fn module_of(handle: u64) -> Result<usize, Status> {
    Handle::Module.index(handle).ok_or(Status::INVALID_HANDLE)
}

fn load(module: Out<u64>, image: Vec<u8>) -> Answer {
    let mut device = device()?;
    let index = device.load(image);
    if device.modules[index].is_empty() {
        return Err(Status::INVALID_IMAGE);
    }
    module.set(Handle::Module.make(index))
}

fn function_of(found: Out<u64>, module: usize, name: &str) -> Answer {
    let mut device = device()?;
    if !device.modules.get_mut(module).ok_or(Status::INVALID_HANDLE)?.has(name) {
        return Err(Status::NOT_FOUND);
    }
    let handle = device.function(module, name);
    found.set(handle)
}

fn global_of(at: Out<u64>, len: Out<usize>, module: u64, name: Text) -> Answer {
    let (address, size) = device()?.variable(module_of(module)?, &name.text()?)?;
    at.set_if(address);
    len.set_if(size);
    Ok(())
}

fn function_attribute(value: Out<c_int>, attribute: c_int, symbol: u64) -> Answer {
    let mut device = device()?;
    let function = crate::registration::kernel(&mut device, symbol)?;
    device.parameters(&function)?;
    let (optin, arch) = (device.gpu.shared_optin, device.gpu.arch());
    let module = device.modules.get_mut(function.module).ok_or(Status::INVALID_HANDLE)?;
    let program = module.program(&function.name).map_err(|_| Status::INVALID_IMAGE)?;
    let kernel = program.kernel(&function.name).ok_or(Status::INVALID_DEVICE_FUNCTION)?;
    value.set(match attribute {
        0 => kernel.max_threads.unwrap_or(1024).min(1024) as c_int,
        1 => kernel.shared_bytes as c_int,
        // No compiler has allocated registers: a number that every launch fits with.
        4 => 64,
        5 | 6 => arch as c_int,
        8 => optin.saturating_sub(kernel.shared_bytes) as c_int,
        _ => 0,
    })
}

/// The launch of `cuLaunchKernel`, whose arguments are pointers or one packed buffer.
fn launch_with(symbol: u64, shape: &Shape, arguments: In<u64>, extra: u64) -> Answer {
    if extra == 0 {
        return launch(symbol, shape, &Pointers(arguments));
    }
    // Pairs of a key and a value: 1 the buffer, 2 where its size is, 0 the end.
    let (mut buffer, mut size) = (0, 0);
    for n in 0..8 {
        match words(extra + 16 * n, 2)?[..] {
            [1, at] => buffer = at,
            [2, at] => size = words(at, 1)?.first().copied().unwrap_or(0) as usize,
            _ => break,
        }
    }
    launch(symbol, shape, &Packed(host_bytes(buffer, size)?.to_vec()))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: c_int, name: Out<*const c_char>) -> c_int {
    let known = Status(code).driver_name();
    let set = name.set(known.map_or(std::ptr::null(), |name| name.as_ptr().cast()));
    if known.is_some() && set.is_ok() { 0 } else { Status::INVALID_VALUE.0 }
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(code: c_int, text: Out<*const c_char>) -> c_int {
    let known = Status(code).driver_name().map(|_| Status(code).sentence());
    let set = text.set(known.map_or(std::ptr::null(), |text| text.as_ptr().cast()));
    if known.is_some() && set.is_ok() { 0 } else { Status::INVALID_VALUE.0 }
}

entry_points! {
    driver_function;

    fn cuInit(_flags: u32) { device().map(drop) }
    fn cuDriverGetVersion(version: Out<c_int>) { version.set(VERSION) }
    fn cuDeviceGet(number: Out<c_int>, ordinal: c_int) { if ordinal == 0 { number.set(0) } else { Err(Status::INVALID_DEVICE) } }
    fn cuDeviceGetCount(count: Out<c_int>) { count.set(1) }
    fn cuDeviceGetName(to: u64, len: c_int, _number: c_int) {
        let mut name = device()?.gpu.name.as_bytes().to_vec();
        name.truncate((len.max(1) - 1) as usize);
        name.push(0);
        put_host_bytes(to, &name)
    }
    fn cuDeviceGetUuid(to: u64, _number: c_int) { put_host_bytes(to, b"sm121probe exec\0") }
    fn cuDeviceGetUuid_v2(to: u64, _number: c_int) { put_host_bytes(to, b"sm121probe exec\0") }
    fn cuDeviceTotalMem_v2(len: Out<usize>, _number: c_int) { len.set(device()?.gpu.memory as usize) }
    fn cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, number: c_int) {
        if number != 0 { return Err(Status::INVALID_DEVICE); }
        value.set(device()?.gpu.attribute(attribute))
    }
    fn cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, _number: c_int) {
        let (a, b) = device()?.gpu.capability;
        major.set(a as c_int)?;
        minor.set(b as c_int)
    }
    fn cuDeviceCanAccessPeer(can: Out<c_int>, _one: c_int, _other: c_int) { can.set(0) }
    fn cuDeviceGetPCIBusId(id: u64, len: c_int, _number: c_int) {
        let text = b"0000:01:00.0\0";
        if len < text.len() as c_int { return Err(Status::INVALID_VALUE); }
        put_host_bytes(id, text)
    }
    fn cuDeviceGetDefaultMemPool(pool: Out<u64>, _number: c_int) { pool.set(16) }
    fn cuDeviceGetMemPool(pool: Out<u64>, _number: c_int) { pool.set(16) }
    fn cuMemPoolSetAttribute(_pool: u64, _attribute: c_int, _value: u64) { Ok(()) }
    fn cuMemPoolGetAttribute(_pool: u64, _attribute: c_int, value: Out<u64>) { value.set(0) }
    fn cuMemPoolTrimTo(_pool: u64, _least: usize) { Ok(()) }

    fn cuDevicePrimaryCtxRetain(context: Out<u64>, _number: c_int) { device().map(drop)?; context.set(CONTEXT) }
    fn cuDevicePrimaryCtxRelease_v2(_number: c_int) { Ok(()) }
    fn cuDevicePrimaryCtxReset_v2(_number: c_int) { Ok(()) }
    fn cuDevicePrimaryCtxSetFlags_v2(_number: c_int, _flags: u32) { Ok(()) }
    fn cuDevicePrimaryCtxGetState(_number: c_int, flags: Out<u32>, active: Out<c_int>) { flags.set_if(0); active.set_if(1); Ok(()) }
    fn cuCtxCreate_v2(context: Out<u64>, _flags: u32, _number: c_int) { device().map(drop)?; context.set(CONTEXT) }
    fn cuCtxCreate_v4(context: Out<u64>, _parameters: u64, _flags: u32, _number: c_int) { device().map(drop)?; context.set(CONTEXT) }
    fn cuCtxDestroy_v2(_context: u64) { Ok(()) }
    fn cuCtxSetCurrent(_context: u64) { Ok(()) }
    fn cuCtxGetCurrent(context: Out<u64>) { context.set(CONTEXT) }
    fn cuCtxPushCurrent_v2(_context: u64) { Ok(()) }
    fn cuCtxPopCurrent_v2(context: Out<u64>) { context.set_if(CONTEXT); Ok(()) }
    fn cuCtxGetDevice(number: Out<c_int>) { number.set(0) }
    fn cuCtxGetFlags(flags: Out<u32>) { flags.set(0) }
    fn cuCtxGetId(_context: u64, id: Out<u64>) { id.set(1) }
    fn cuCtxGetApiVersion(_context: u64, version: Out<u32>) { version.set(VERSION as u32) }
    fn cuCtxSynchronize() { device()?.healthy() }
    fn cuCtxGetLimit(value: Out<usize>, limit: c_int) { value.set(match limit { 0 => 1024, 1 => 1 << 20, 2 => 8 << 20, _ => 0 }) }
    fn cuCtxSetLimit(_limit: c_int, _value: usize) { Ok(()) }
    fn cuCtxSetCacheConfig(_config: c_int) { Ok(()) }
    fn cuCtxGetCacheConfig(config: Out<c_int>) { config.set(0) }
    fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) { least.set_if(0); greatest.set_if(-5); Ok(()) }

    fn cuMemAlloc_v2(at: Out<u64>, len: usize) { allocate(at, len, Kind::Device) }
    fn cuMemAllocAsync(at: Out<u64>, len: usize, _stream: Stream) { allocate(at, len, Kind::Device) }
    fn cuMemAllocFromPoolAsync(at: Out<u64>, len: usize, _pool: u64, _stream: Stream) { allocate(at, len, Kind::Device) }
    fn cuMemAllocManaged(at: Out<u64>, len: usize, _flags: u32) { allocate(at, len, Kind::Managed) }
    fn cuMemAllocHost_v2(at: Out<u64>, len: usize) { allocate(at, len, Kind::Pinned) }
    fn cuMemHostAlloc(at: Out<u64>, len: usize, _flags: u32) { allocate(at, len, Kind::Pinned) }
    fn cuMemAllocPitch_v2(at: Out<u64>, pitch: Out<usize>, width: usize, height: usize, _element: u32) {
        let row = width.next_multiple_of(512);
        allocate(at, row * height, Kind::Device)?;
        pitch.set(row)
    }
    fn cuMemFree_v2(at: u64) { device()?.free(at) }
    fn cuMemFreeAsync(at: u64, _stream: Stream) { device()?.free(at) }
    fn cuMemFreeHost(at: u64) { device()?.free(at) }
    fn cuMemHostGetDevicePointer_v2(to: Out<u64>, host: u64, _flags: u32) {
        let known = device()?.around(host).is_some();
        if known { to.set(host) } else { Err(Status::INVALID_VALUE) }
    }
    fn cuMemHostGetFlags(flags: Out<u32>, _host: u64) { flags.set(0) }
    fn cuMemHostRegister_v2(_host: u64, _len: usize, _flags: u32) { Ok(()) }
    fn cuMemHostUnregister(_host: u64) { Ok(()) }
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let device = device()?;
        free.set(device.free_bytes() as usize)?;
        total.set(device.gpu.memory as usize)
    }
    fn cuMemGetAddressRange_v2(base: Out<u64>, len: Out<usize>, at: u64) {
        let (start, found) = device()?.around(at).ok_or(Status::NOT_FOUND)?;
        base.set_if(start);
        len.set_if(found.len);
        Ok(())
    }
    fn cuPointerGetAttribute(to: u64, attribute: c_int, at: u64) {
        let (base, found) = device()?.around(at).ok_or(Status::INVALID_VALUE)?;
        let host = found.kind != Kind::Device;
        match attribute {
            1 => put_host_bytes(to, &CONTEXT.to_le_bytes()),
            2 => put_host_bytes(to, &(if found.kind == Kind::Pinned { 1u32 } else { 2 }).to_le_bytes()),
            3 => put_host_bytes(to, &at.to_le_bytes()),
            4 if host => put_host_bytes(to, &at.to_le_bytes()),
            7 => put_host_bytes(to, &base.to_le_bytes()),
            8 => put_host_bytes(to, &[u8::from(found.kind == Kind::Managed)]),
            9 => put_host_bytes(to, &0u32.to_le_bytes()),
            11 => put_host_bytes(to, &base.to_le_bytes()),
            12 => put_host_bytes(to, &found.len.to_le_bytes()),
            13 => put_host_bytes(to, &[1]),
            _ => Err(Status::INVALID_VALUE),
        }
    }
    fn cuMemPrefetchAsync(_at: u64, _len: usize, _number: c_int, _stream: Stream) { Ok(()) }
    fn cuMemPrefetchAsync_v2(_at: u64, _len: usize, _where: u64, _flags: u32, _stream: Stream) { Ok(()) }
    fn cuMemAdvise(_at: u64, _len: usize, _advice: c_int, _number: c_int) { Ok(()) }
    fn cuMemAdvise_v2(_at: u64, _len: usize, _advice: c_int, _where: u64) { Ok(()) }

    fn cuMemcpy(to: u64, from: u64, len: usize) { device()?.copy(to, from, len) }
    fn cuMemcpyAsync(to: u64, from: u64, len: usize, _stream: Stream) { device()?.copy(to, from, len) }
    fn cuMemcpyHtoD_v2(to: u64, from: u64, len: usize) { device()?.copy(to, from, len) }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: u64, len: usize, _stream: Stream) { device()?.copy(to, from, len) }
    fn cuMemcpyDtoH_v2(to: u64, from: u64, len: usize) { device()?.copy(to, from, len) }
    fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, len: usize, _stream: Stream) { device()?.copy(to, from, len) }
    fn cuMemcpyDtoD_v2(to: u64, from: u64, len: usize) { device()?.copy(to, from, len) }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, _stream: Stream) { device()?.copy(to, from, len) }
    fn cuMemcpyPeer(to: u64, _a: u64, from: u64, _b: u64, len: usize) { device()?.copy(to, from, len) }
    fn cuMemcpyPeerAsync(to: u64, _a: u64, from: u64, _b: u64, len: usize, _stream: Stream) { device()?.copy(to, from, len) }
    fn cuMemcpy2D_v2(how: In<Copy2D>) { let c = how.get()?; device()?.copy_rows(c.to.place()?, c.from.place()?, c.width, c.height) }
    fn cuMemcpy2DUnaligned_v2(how: In<Copy2D>) { let c = how.get()?; device()?.copy_rows(c.to.place()?, c.from.place()?, c.width, c.height) }
    fn cuMemcpy2DAsync_v2(how: In<Copy2D>, _stream: Stream) {
        let c = how.get()?;
        device()?.copy_rows(c.to.place()?, c.from.place()?, c.width, c.height)
    }
    fn cuMemsetD8_v2(to: u64, value: u8, n: usize) { device()?.fill(to, &[value], n) }
    fn cuMemsetD8Async(to: u64, value: u8, n: usize, _stream: Stream) { device()?.fill(to, &[value], n) }
    fn cuMemsetD16_v2(to: u64, value: u16, n: usize) { device()?.fill(to, &value.to_le_bytes(), n * 2) }
    fn cuMemsetD16Async(to: u64, value: u16, n: usize, _stream: Stream) { device()?.fill(to, &value.to_le_bytes(), n * 2) }
    fn cuMemsetD32_v2(to: u64, value: u32, n: usize) { device()?.fill(to, &value.to_le_bytes(), n * 4) }
    fn cuMemsetD32Async(to: u64, value: u32, n: usize, _stream: Stream) { device()?.fill(to, &value.to_le_bytes(), n * 4) }
    fn cuMemsetD2D8_v2(to: u64, pitch: usize, value: u8, width: usize, height: usize) { device()?.fill_rows((to, pitch), &[value], width, height) }
    fn cuMemsetD2D8Async(to: u64, pitch: usize, value: u8, width: usize, height: usize, _stream: Stream) {
        device()?.fill_rows((to, pitch), &[value], width, height)
    }
    fn cuMemsetD2D32_v2(to: u64, pitch: usize, value: u32, width: usize, height: usize) {
        device()?.fill_rows((to, pitch), &value.to_le_bytes(), width * 4, height)
    }

    fn cuModuleLoad(module: Out<u64>, path: Text) { load(module, file(path)?) }
    fn cuModuleLoadData(module: Out<u64>, code: u64) { load(module, image(code)?) }
    fn cuModuleLoadDataEx(module: Out<u64>, code: u64, _n: u32, _options: u64, _values: u64) { load(module, image(code)?) }
    fn cuModuleLoadFatBinary(module: Out<u64>, code: u64) { load(module, image(code)?) }
    fn cuModuleUnload(_module: u64) { Ok(()) }
    fn cuModuleGetLoadingMode(mode: Out<c_int>) { mode.set(2) }
    fn cuModuleGetFunction(found: Out<u64>, module: u64, name: Text) { function_of(found, module_of(module)?, &name.text()?) }
    fn cuModuleGetFunctionCount(count: Out<u32>, module: u64) {
        let mut device = device()?;
        let module = device.modules.get_mut(module_of(module)?).ok_or(Status::INVALID_HANDLE)?;
        count.set(module.entries().len() as u32)
    }
    fn cuModuleEnumerateFunctions(list: Out<u64>, count: u32, module: u64) {
        let index = module_of(module)?;
        let mut device = device()?;
        let names = device.modules.get_mut(index).ok_or(Status::INVALID_HANDLE)?.entries();
        for (n, name) in names.iter().take(count as usize).enumerate() {
            let handle = device.function(index, name);
            list.nth(n).set(handle)?;
        }
        Ok(())
    }
    fn cuModuleGetGlobal_v2(at: Out<u64>, len: Out<usize>, module: u64, name: Text) { global_of(at, len, module, name) }
    fn cuLibraryLoadData(library: Out<u64>, code: u64, _a: u64, _b: u64, _c: u32, _d: u64, _e: u64, _f: u32) { load(library, image(code)?) }
    fn cuLibraryLoadFromFile(library: Out<u64>, path: Text, _a: u64, _b: u64, _c: u32, _d: u64, _e: u64, _f: u32) { load(library, file(path)?) }
    fn cuLibraryUnload(_library: u64) { Ok(()) }
    fn cuLibraryGetKernel(found: Out<u64>, library: u64, name: Text) { function_of(found, module_of(library)?, &name.text()?) }
    fn cuLibraryGetModule(module: Out<u64>, library: u64) { module.set(library) }
    fn cuLibraryGetGlobal(at: Out<u64>, len: Out<usize>, library: u64, name: Text) { global_of(at, len, library, name) }
    fn cuLibraryGetKernelCount(count: Out<u32>, library: u64) {
        let mut device = device()?;
        let module = device.modules.get_mut(module_of(library)?).ok_or(Status::INVALID_HANDLE)?;
        count.set(module.entries().len() as u32)
    }
    fn cuKernelGetFunction(function: Out<u64>, kernel: u64) { function.set(kernel) }
    fn cuKernelGetAttribute(value: Out<c_int>, attribute: c_int, kernel: u64, _number: c_int) { function_attribute(value, attribute, kernel) }
    fn cuKernelSetAttribute(_attribute: c_int, _value: c_int, _kernel: u64, _number: c_int) { Ok(()) }
    fn cuKernelSetCacheConfig(_kernel: u64, _config: c_int, _number: c_int) { Ok(()) }
    fn cuFuncGetAttribute(value: Out<c_int>, attribute: c_int, function: u64) { function_attribute(value, attribute, function) }
    fn cuFuncSetAttribute(_function: u64, attribute: c_int, value: c_int) {
        if attribute == 8 && value > device()?.gpu.shared_optin as c_int { Err(Status::INVALID_VALUE) } else { Ok(()) }
    }
    fn cuFuncSetCacheConfig(_function: u64, _config: c_int) { Ok(()) }
    fn cuFuncSetSharedMemConfig(_function: u64, _config: c_int) { Ok(()) }
    fn cuFuncLoad(_function: u64) { Ok(()) }
    fn cuFuncIsLoaded(state: Out<c_int>, _function: u64) { state.set(1) }
    fn cuFuncGetModule(module: Out<u64>, function: u64) {
        let index = Handle::Function.index(function).ok_or(Status::INVALID_HANDLE)?;
        let module_index = device()?.functions.get(index).ok_or(Status::INVALID_HANDLE)?.module;
        module.set(Handle::Module.make(module_index))
    }
    fn cuFuncGetParamInfo(function: u64, n: usize, offset: Out<usize>, size: Out<usize>) {
        let mut device = device()?;
        let function = crate::registration::kernel(&mut device, function)?;
        let (at, len) = *device.parameters(&function)?.get(n).ok_or(Status::INVALID_VALUE)?;
        offset.set_if(at);
        size.set_if(len);
        Ok(())
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(count: Out<c_int>, _function: u64, threads: c_int, shared: usize) {
        count.set(occupancy(threads, shared)?)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count: Out<c_int>, _function: u64, threads: c_int, shared: usize, _flags: u32) {
        count.set(occupancy(threads, shared)?)
    }
    fn cuOccupancyMaxPotentialBlockSize(grid: Out<c_int>, block: Out<c_int>, _function: u64, _size: u64, shared: usize, limit: c_int) {
        let threads = if limit > 0 { limit.min(1024) } else { 1024 };
        let blocks = occupancy(threads, shared)?;
        block.set(threads)?;
        grid.set(blocks * device()?.gpu.sms as c_int)
    }
    fn cuOccupancyMaxActiveClusters(count: Out<c_int>, _function: u64, _config: u64) { count.set(device()?.gpu.sms as c_int) }
    fn cuOccupancyMaxPotentialClusterSize(size: Out<c_int>, _function: u64, _config: u64) { size.set(8) }

    fn cuLaunchKernel(function: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared_bytes: u32, _stream: Stream, arguments: In<u64>, extra: u64) {
        let shape = Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared_bytes, ..Shape::default() };
        launch_with(function, &shape, arguments, extra)
    }
    fn cuLaunchCooperativeKernel(function: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared_bytes: u32, _stream: Stream, arguments: In<u64>) {
        let shape = Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared_bytes, cooperative: true, ..Shape::default() };
        launch_with(function, &shape, arguments, 0)
    }
    fn cuLaunchKernelEx(config: In<LaunchConfig>, function: u64, arguments: In<u64>, extra: u64) {
        let config = config.get()?;
        let mut shape = Shape { grid: config.grid, block: config.block, shared_bytes: config.shared, ..Shape::default() };
        attributed(&mut shape, config.attributes, config.count)?;
        launch_with(function, &shape, arguments, extra)
    }
    fn cuLaunchHostFunc(_stream: Stream, function: HostFunction, data: *mut c_void) { call(function, data) }

    fn cuStreamCreate(stream: Out<u64>, _flags: u32) { let handle = device()?.streams.stream(); stream.set(handle) }
    fn cuStreamCreateWithPriority(stream: Out<u64>, _flags: u32, _priority: c_int) { let handle = device()?.streams.stream(); stream.set(handle) }
    fn cuStreamDestroy_v2(_stream: Stream) { Ok(()) }
    fn cuStreamSynchronize(_stream: Stream) { device()?.healthy() }
    fn cuStreamQuery(_stream: Stream) { device()?.healthy() }
    fn cuStreamWaitEvent(_stream: Stream, _event: u64, _flags: u32) { Ok(()) }
    fn cuStreamGetPriority(_stream: Stream, priority: Out<c_int>) { priority.set(0) }
    fn cuStreamGetFlags(_stream: Stream, flags: Out<u32>) { flags.set(0) }
    fn cuStreamGetId(stream: u64, id: Out<u64>) { id.set(stream) }
    fn cuStreamGetCtx(_stream: Stream, context: Out<u64>) { context.set(CONTEXT) }
    fn cuStreamGetDevice(_stream: Stream, number: Out<c_int>) { number.set(0) }
    fn cuStreamIsCapturing(_stream: Stream, status: Out<c_int>) { status.set(0) }
    fn cuStreamGetCaptureInfo_v2(_stream: Stream, status: Out<c_int>, _id: u64, _graph: u64, _nodes: u64, _count: u64) { status.set(0) }
    fn cuStreamGetCaptureInfo_v3(_stream: Stream, status: Out<c_int>, _id: u64, _graph: u64, _nodes: u64, _edges: u64, _count: u64) { status.set(0) }
    fn cuThreadExchangeStreamCaptureMode(_mode: u64) { Ok(()) }
    fn cuEventCreate(event: Out<u64>, _flags: u32) { let handle = device()?.streams.event(); event.set(handle) }
    fn cuEventDestroy_v2(event: u64) { if device()?.streams.forget(event) { Ok(()) } else { Err(Status::INVALID_HANDLE) } }
    fn cuEventRecord(event: u64, _stream: Stream) { if device()?.streams.record(event) { Ok(()) } else { Err(Status::INVALID_HANDLE) } }
    fn cuEventRecordWithFlags(event: u64, _stream: Stream, _flags: u32) { if device()?.streams.record(event) { Ok(()) } else { Err(Status::INVALID_HANDLE) } }
    fn cuEventQuery(event: u64) { let d = device()?; d.healthy()?; if d.streams.knows(event) { Ok(()) } else { Err(Status::INVALID_HANDLE) } }
    fn cuEventSynchronize(event: u64) { let d = device()?; d.healthy()?; if d.streams.knows(event) { Ok(()) } else { Err(Status::INVALID_HANDLE) } }
    fn cuEventElapsedTime(ms: Out<f32>, start: u64, end: u64) { ms.set(device()?.streams.between(start, end).ok_or(Status::INVALID_HANDLE)?) }
    fn cuEventElapsedTime_v2(ms: Out<f32>, start: u64, end: u64) { ms.set(device()?.streams.between(start, end).ok_or(Status::INVALID_HANDLE)?) }
    fn cuProfilerStart() { Ok(()) }
    fn cuProfilerStop() { Ok(()) }

    fn cuTensorMapEncodeTiled(map: u64, kind: u32, rank: u32, address: u64, dims: In<u64>, strides: In<u64>, boxes: In<u32>, steps: In<u32>, interleave: u32, swizzle: u32, promotion: u32, fill: u32) {
        let bad = Status::INVALID_VALUE;
        let rank = rank as usize;
        if rank == 0 || rank > 5 { return Err(bad); }
        let (mut sizes, mut box_sizes) = (Vec::new(), Vec::new());
        for n in 0..rank {
            sizes.push(dims.nth(n)?);
            box_sizes.push(boxes.nth(n)?);
        }
        let kind = TensorType::of(kind.into()).ok_or(bad)?;
        let mut made = TensorMap::dense(kind, address, &sizes, &box_sizes);
        for n in 0..rank {
            made.element_strides[n] = steps.nth(n)?;
            if n + 1 < rank {
                made.strides[n] = strides.nth(n)?;
            }
        }
        made.interleave = Interleave::of(interleave.into()).ok_or(bad)?;
        made.swizzle = Swizzle::of(swizzle.into()).ok_or(bad)?;
        made.l2_promotion = L2Promotion::of(promotion.into()).ok_or(bad)?;
        made.oob_fill = OobFill::of(fill.into()).ok_or(bad)?;
        match made.encode() {
            Ok(bytes) => put_host_bytes(map, &bytes),
            Err(error) => {
                crate::results::say(&format!("cuTensorMapEncodeTiled: {error}"));
                Err(bad)
            }
        }
    }
    fn cuTensorMapReplaceAddress(map: u64, address: u64) {
        let bytes = host_bytes(map, 128)?.first_chunk::<128>().ok_or(Status::INVALID_VALUE)?;
        let mut made = TensorMap::decode(bytes).map_err(|_| Status::INVALID_VALUE)?;
        made.address = address;
        put_host_bytes(map, &made.encode().map_err(|_| Status::INVALID_VALUE)?)
    }

    fn cuGetProcAddress(symbol: Text, function: Out<u64>, _version: c_int, _flags: u64) { proc_address(symbol, function) }
    fn cuGetProcAddress_v2(symbol: Text, function: Out<u64>, _version: c_int, _flags: u64, found: Out<c_int>) {
        let result = proc_address(symbol, function);
        found.set_if(c_int::from(result.is_err()));
        result
    }
    fn cuGetExportTable(_table: u64, _id: u64) {
        device()?.miss("cuGetExportTable: a statically linked CUDA runtime cannot be served; link with `nvcc -cudart shared`");
        Err(Status::NOT_SUPPORTED)
    }
}

fn proc_address(symbol: Text, function: Out<u64>) -> Answer {
    let name = symbol.text()?;
    let address = find(&name);
    function.set(address.map_or(0, |at| at as u64))?;
    if address.is_some() { Ok(()) } else { Err(Status::NOT_FOUND) }
}
