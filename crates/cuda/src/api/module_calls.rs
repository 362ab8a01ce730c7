//! Entry points of both APIs for modules, libraries, kernels and their attributes.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_char, c_int};

use emulator::{Lack, Stop};

use crate::api::jit_options::JitOptions;
use crate::api::table::entry_points;
use crate::device::contexts;
use crate::device::handles::Handle;
use crate::device::launch::most_dynamic_shared;
use crate::device::registry::kernel;
use crate::device::state::{Device, device};
use crate::device::work::Function;
use crate::program::image::{Image, image};
use crate::program::pointers::{In, Out, Text, put_host_bytes};
use crate::status::{Answer, Status};

fn file(path: Text) -> Result<Vec<u8>, Status> {
    std::fs::read(path.text()?).map_err(|_| Status::FILE_NOT_FOUND)
}

fn module_of(handle: u64) -> Result<usize, Status> {
    Handle::Module.index(handle).ok_or(Status::INVALID_HANDLE)
}

/// Loads a module at the program's request, for one GPU, or for all if it is a library. If it contains only machine code, this is reported here: none of its kernels can run.
fn load(module: Out<u64>, image: Image, gpu: Option<u8>) -> Answer {
    load_logged(module, image, gpu, &JitOptions::none())
}

/// [`load`], with the log that the program asks for.
fn load_logged(module: Out<u64>, image: Image, gpu: Option<u8>, options: &JitOptions) -> Answer {
    if module.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let mut device = device()?;
    let number = device.load(image, gpu);
    if let Err(unusable) = is_usable(&mut device, number) {
        device.unload(number)?;
        options.log(Some(&unusable.why));
        return Err(unusable.status);
    }
    options.log(None);
    module.set(Handle::Module.make(number))
}

/// Why a module cannot be used.
struct Unusable {
    status: Status,
    why: String,
}

/// Whether a module can be used; if not, it is reported.
fn is_usable(device: &mut Device, number: usize) -> Result<(), Unusable> {
    let Some(module) = device.modules.get_mut(&number) else {
        return Err(Unusable { status: Status::INVALID_HANDLE, why: String::new() });
    };
    if module.is_empty() {
        let why = "a module that the program loads has neither PTX nor kernels".to_owned();
        device.results.unchecked(why.clone());
        return Err(Unusable { status: Status::INVALID_IMAGE, why });
    }
    if let Some((kernels, why)) = module.unrunnable() {
        let why = if module.is_of_library() {
            why
        } else {
            // A compiler at run time may have made it.
            format!(
                "{why}; if NVRTC compiled it, load what nvrtcGetPTX returns instead of nvrtcGetCUBIN, and compile with --gpu-architecture=compute_{}",
                device.gpu.arch()
            )
        };
        if kernels.is_empty() {
            device.results.unchecked(why.clone());
        }
        for kernel in kernels {
            device.refuse(&kernel, why.clone());
        }
        return Err(Unusable { status: Status::NO_BINARY, why });
    }
    if let Err(stop) = module.program("") {
        let status = match &stop {
            Stop::Launch(_) => Status::INVALID_PTX,
            Stop::Unsupported(form) if form.lack == Lack::Ptx => Status::INVALID_PTX,
            _ => Status::NOT_SUPPORTED,
        };
        let why = format!("a module cannot be loaded: {stop}");
        device.results.unchecked(why.clone());
        return Err(Unusable { status, why });
    }
    Ok(())
}

fn function_of(found: Out<u64>, module: u64, name: Text) -> Answer {
    let (index, name) = (module_of(module)?, name.text()?);
    let mut device = device()?;
    if !device.modules.get_mut(&index).ok_or(Status::INVALID_HANDLE)?.has(&name) {
        return Err(Status::NOT_FOUND);
    }
    let handle = device.function(index, &name);
    found.set(handle)
}

fn global_of(at: Out<u64>, len: Out<usize>, module: u64, name: Text) -> Answer {
    let (address, size) = device()?.variable(module_of(module)?, &name.text()?)?;
    at.set_if(address);
    len.set_if(size);
    Ok(())
}

fn count_of(count: Out<u32>, module: u64) -> Answer {
    let mut device = device()?;
    let module = device.modules.get_mut(&module_of(module)?).ok_or(Status::INVALID_HANDLE)?;
    count.set(module.entries().len() as u32)
}

fn enumerate(list: Out<u64>, count: u32, module: u64) -> Answer {
    let index = module_of(module)?;
    let mut device = device()?;
    let names = device.modules.get_mut(&index).ok_or(Status::INVALID_HANDLE)?.entries();
    for (n, name) in names.iter().take(count as usize).enumerate() {
        let handle = device.function(index, name);
        // SAFETY: the caller says that there is room for `count`.
        unsafe { list.nth(n) }.set(handle)?;
    }
    Ok(())
}

/// The attributes of a kernel.
struct Known {
    static_shared: u32,
    /// Constant memory of the module, and local memory of a thread, in bytes.
    constant: u32,
    local: u32,
    threads: u32,
    /// The architecture that the PTX was compiled for, and that of the GPU: 120 and 121 for `compute_120f` on GB10.
    ptx_arch: u32,
    arch: u32,
    /// The most dynamic shared memory of a launch, as the program has set it.
    dynamic: u32,
}

fn known(device: &mut Device, symbol: u64) -> Result<Known, Status> {
    let function = kernel(device, symbol)?;
    device.parameters(&function)?;
    let arch = device.gpu.arch();
    let module = device.modules.get_mut(&function.module).ok_or(Status::INVALID_HANDLE)?;
    let program = module.program(&function.name).map_err(|_| Status::INVALID_IMAGE)?;
    let kernel = program.kernel(&function.name).ok_or(Status::INVALID_DEVICE_FUNCTION)?;
    let threads = kernel.max_threads.unwrap_or(1024).min(1024) as u32;
    let (static_shared, local) = (kernel.shared_bytes, u32::try_from(kernel.local_bytes).unwrap_or(u32::MAX));
    let (constant, ptx_arch) = (program.constant_bytes() as u32, program.arch());
    let dynamic = most_dynamic_shared(device.dynamic_shared.get(&function).copied(), static_shared);
    Ok(Known { static_shared, constant, local, threads, ptx_arch, arch, dynamic })
}

/// No compiler has allocated registers, so this is a number with which every launch fits.
const REGISTERS: u32 = 64;

fn attribute(value: Out<c_int>, attribute: c_int, symbol: u64) -> Answer {
    let Known { static_shared, constant, local, threads, ptx_arch, arch, dynamic } =
        known(&mut *device()?, symbol)?;
    let found = match attribute {
        0 => threads,
        1 => static_shared,
        2 => constant,
        3 => local,
        4 => REGISTERS,
        5 => ptx_arch,
        6 => arch,
        MAX_DYNAMIC_SHARED => dynamic,
        _ => 0,
    };
    value.set(found as c_int)
}

/// `cudaFuncAttributeMaxDynamicSharedMemorySize`.
const MAX_DYNAMIC_SHARED: c_int = 8;

/// Of the attributes that can be set, only the maximum dynamic shared memory has an effect.
fn set_attribute(symbol: u64, attribute: c_int, value: c_int) -> Answer {
    let mut device = device()?;
    let function = kernel(&mut device, symbol)?;
    if attribute == MAX_DYNAMIC_SHARED {
        let most = u32::try_from(value).map_err(|_| Status::INVALID_VALUE)?;
        if static_shared(&mut device, &function).saturating_add(most) > device.gpu.shared_optin {
            return Err(Status::INVALID_VALUE);
        }
        device.dynamic_shared.insert(function, most);
    }
    Ok(())
}

/// The static shared memory of a kernel in bytes; 0 if it cannot be decoded, of which a launch tells.
fn static_shared(device: &mut Device, function: &Function) -> u32 {
    let program =
        device.modules.get_mut(&function.module).and_then(|module| module.program(&function.name).ok());
    program.and_then(|program| program.kernel(&function.name)).map_or(0, |kernel| kernel.shared_bytes)
}

/// The number of resident blocks of a kernel per multiprocessor, limited by threads and shared memory.
fn occupancy(count: Out<c_int>, symbol: u64, threads: c_int, shared: usize) -> Answer {
    count.set(blocks(symbol, threads, shared)?)
}

fn blocks(symbol: u64, threads: c_int, shared: usize) -> Result<c_int, Status> {
    let mut device = device()?;
    let Known { static_shared, threads: most, dynamic, .. } = known(&mut device, symbol)?;
    let threads = u32::try_from(threads).ok().filter(|n| *n > 0).ok_or(Status::INVALID_VALUE)?;
    // No such block can be launched.
    if threads > most || shared > dynamic as usize {
        return Ok(0);
    }
    Ok(device.gpu.blocks_per_sm(threads, u64::from(static_shared) + shared as u64) as c_int)
}

fn is_kernel(symbol: u64) -> Answer {
    kernel(&mut *device()?, symbol).map(drop)
}

fn parameter(symbol: u64, n: usize, offset: Out<usize>, size: Out<usize>) -> Answer {
    let mut device = device()?;
    let function = kernel(&mut device, symbol)?;
    let (at, len) = *device.parameters(&function)?.get(n).ok_or(Status::INVALID_VALUE)?;
    offset.set_if(at);
    size.set_if(len);
    Ok(())
}

entry_points! {
    MODULE, MODULE_CALLS;

    [cuModuleLoad: (Current, zeros INVALID_VALUE, since 2_000)]
    fn (module: Out<u64>, path: Text) { load(module, file(path)?.into(), Some(contexts::current_gpu())) }
    [cuModuleLoadData: (Current, zeros INVALID_VALUE, since 2_000)]
    [cuModuleLoadFatBinary: (Current, zeros INVALID_VALUE, since 2_000)]
    fn (module: Out<u64>, code: u64) { load(module, image(code)?, Some(contexts::current_gpu())) }
    [cuModuleLoadDataEx: (Current, zeros INVALID_VALUE, since 2_010)]
    fn (module: Out<u64>, code: u64, count: u32, names: In<u32>, values: u64) {
        load_logged(module, image(code)?, Some(contexts::current_gpu()), &JitOptions::new(count, names, values))
    }
    [cuModuleUnload: (Init, zeros INVALID_HANDLE, since 2_000)]
    [cuLibraryUnload: (Init, zeros INVALID_HANDLE, since 12_000)]
    [cudaLibraryUnload, _cudaLibraryUnload: (Primary, zeros INVALID_HANDLE)]
    [_cuLibraryUnload: (Init, zeros INVALID_HANDLE)]
    fn (module: u64) { device()?.unload(module_of(module)?) }
    [cuModuleGetLoadingMode: (Init, zeros INVALID_VALUE, since 11_070)]
    fn (mode: Out<c_int>) { mode.set(2) }
    [cuModuleGetFunction: (Init, zeros INVALID_HANDLE, since 2_000)]
    [cuLibraryGetKernel: (Init, zeros INVALID_HANDLE, since 12_000)]
    [cudaLibraryGetKernel, _cudaLibraryGetKernel: (Primary, zeros INVALID_HANDLE)]
    [_cuLibraryGetKernel: (Init, zeros INVALID_HANDLE)]
    fn (found: Out<u64>, module: u64, name: Text) { function_of(found, module, name) }
    [cuModuleGetFunctionCount, cuLibraryGetKernelCount: (Init, zeros INVALID_HANDLE, since 12_040)]
    [cudaLibraryGetKernelCount, _cudaLibraryGetKernelCount: (Primary, zeros INVALID_HANDLE)]
    [_cuLibraryGetKernelCount: (Init, zeros INVALID_HANDLE)]
    fn (count: Out<u32>, module: u64) { count_of(count, module) }
    [cuModuleEnumerateFunctions, cuLibraryEnumerateKernels: (Init, zeros INVALID_HANDLE, since 12_040)]
    [cudaLibraryEnumerateKernels: (Primary, zeros INVALID_HANDLE)]
    fn (list: Out<u64>, count: u32, module: u64) {
        enumerate(list, count, module)
    }
    [cuModuleGetGlobal_v2: (Init, zeros INVALID_HANDLE, since 3_020)]
    [cuLibraryGetGlobal: (Current, zeros INVALID_HANDLE, since 12_000)]
    [cudaLibraryGetGlobal, _cudaLibraryGetGlobal: (Primary, zeros INVALID_HANDLE)]
    [_cuLibraryGetGlobal: (Current, zeros INVALID_HANDLE)]
    fn (at: Out<u64>, len: Out<usize>, module: u64, name: Text) {
        global_of(at, len, module, name)
    }
    [cuLibraryGetManaged: (Init, zeros INVALID_HANDLE, since 12_000)]
    [cudaLibraryGetManaged, _cudaLibraryGetManaged: (Primary, zeros INVALID_HANDLE)]
    [_cuLibraryGetManaged: (Init, zeros INVALID_HANDLE)]
    fn (at: Out<u64>, len: Out<usize>, library: u64, name: Text) {
        let mut device = device()?;
        let (address, size) = device.variable(module_of(library)?, &name.text()?)?;
        device.share_variable(address, size)?;
        at.set_if(address);
        len.set_if(size);
        Ok(())
    }
    [cuLibraryLoadData: (Init, zeros INVALID_VALUE, since 12_000)]
    [cudaLibraryLoadData, _cudaLibraryLoadData: (Primary, zeros INVALID_VALUE)]
    [_cuLibraryLoadData: (Init, zeros INVALID_VALUE)]
    fn (library: Out<u64>, code: u64, names: In<u32>, values: u64, count: u32, _d: u64, _e: u64, _f: u32) {
        load_logged(library, image(code)?, None, &JitOptions::new(count, names, values))
    }
    [cuLibraryLoadFromFile: (Init, zeros INVALID_VALUE, since 12_000)]
    [cudaLibraryLoadFromFile, _cudaLibraryLoadFromFile: (Primary, zeros INVALID_VALUE)]
    [_cuLibraryLoadFromFile: (Init, zeros INVALID_VALUE)]
    fn (library: Out<u64>, path: Text, _a: u64, _b: u64, _c: u32, _d: u64, _e: u64, _f: u32) {
        load(library, file(path)?.into(), None)
    }
    [cuLibraryGetModule: (Current, zeros INVALID_HANDLE, since 12_000)]
    [_cuLibraryGetModule: (Current, zeros INVALID_HANDLE)]
    fn (module: Out<u64>, library: u64) {
        if !device()?.modules.contains_key(&module_of(library)?) {
            return Err(Status::INVALID_HANDLE);
        }
        module.set(library)
    }
    [cuKernelGetFunction: (Current, zeros INVALID_HANDLE, since 12_000)]
    fn (function: Out<u64>, kernel: u64) { is_kernel(kernel)?; function.set(kernel) }
    [cudaGetFuncBySymbol, cudaGetKernel, __cudaGetKernel: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    fn (function: Out<u64>, symbol: u64) { is_kernel(symbol)?; function.set(symbol) }
    [cuKernelGetAttribute: (Init, zeros INVALID_HANDLE, since 12_000)]
    [_cuKernelGetAttribute: (Init, zeros INVALID_HANDLE)]
    fn (value: Out<c_int>, number: c_int, kernel: u64, _device: c_int) { attribute(value, number, kernel) }
    [cuFuncGetAttribute: (Init, zeros INVALID_HANDLE, since 2_020)]
    fn (value: Out<c_int>, number: c_int, function: u64) { attribute(value, number, function) }
    [cuKernelSetAttribute: (Init, zeros INVALID_HANDLE, since 12_000)]
    fn (number: c_int, value: c_int, kernel: u64, _device: c_int) { set_attribute(kernel, number, value) }
    [cudaKernelSetAttributeForDevice, cudaFuncSetAttribute, _cudaKernelSetAttributeForDevice, _cudaFuncSetAttribute: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    [cuFuncSetAttribute: (Init, zeros INVALID_HANDLE, since 9_000)]
    fn (symbol: u64, number: c_int, value: c_int) {
        set_attribute(symbol, number, value)
    }
    [cuKernelSetCacheConfig: (Init, zeros INVALID_HANDLE, since 12_000)]
    fn (kernel: u64, _config: c_int, _number: c_int) { is_kernel(kernel) }
    [cuFuncLoad: (Init, zeros INVALID_HANDLE, since 12_040)]
    fn (function: u64) { is_kernel(function) }
    [cuFuncIsLoaded: (Init, zeros INVALID_HANDLE, since 12_040)]
    fn (state: Out<c_int>, function: u64) { is_kernel(function)?; state.set(1) }
    [cuFuncGetModule: (Init, zeros INVALID_HANDLE, since 11_000)]
    [cuKernelGetLibrary: (Init, zeros INVALID_HANDLE, since 12_050)]
    fn (module: Out<u64>, function: u64) {
        let mut device = device()?;
        let module_index = kernel(&mut device, function)?.module;
        module.set(Handle::Module.make(module_index))
    }
    [cuFuncGetName, cuKernelGetName: (Init, zeros INVALID_HANDLE, since 12_030)]
    [cudaFuncGetName: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    fn (name: Out<*const c_char>, function: u64) {
        let mut device = device()?;
        let function = kernel(&mut device, function)?;
        let text = device.text(&function.name);
        name.set(text)
    }
    [cuFuncGetParamInfo: (Init, zeros INVALID_HANDLE, since 12_040)]
    [cuKernelGetParamInfo: (Current, zeros INVALID_HANDLE, since 12_040)]
    [cudaFuncGetParamInfo: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    fn (function: u64, n: usize, offset: Out<usize>, size: Out<usize>) {
        parameter(function, n, offset, size)
    }
    [cuFuncGetParamCount, cuKernelGetParamCount: (Init, zeros INVALID_HANDLE, since 13_020)]
    [cudaFuncGetParamCount: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    fn (function: u64, count: Out<usize>) {
        let mut device = device()?;
        let function = kernel(&mut device, function)?;
        let parameters = device.parameters(&function)?.len();
        count.set(parameters)
    }
    [cudaFuncGetAttributes: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    fn (to: Out<u8>, symbol: u64) {
        let Known { static_shared, constant, local, threads, ptx_arch, arch, dynamic } = known(&mut *device()?, symbol)?;
        let longs = [static_shared, constant, local].map(|size| u64::from(size).to_le_bytes()).concat();
        let words = [threads, REGISTERS, ptx_arch, arch, 0, dynamic, u32::MAX].map(u32::to_le_bytes).concat();
        let mut bytes = [longs, words].concat();
        bytes.resize(144, 0);
        put_host_bytes(to.address(), &bytes)
    }

    [cudaOccupancyMaxActiveBlocksPerMultiprocessor, _cudaOccupancyMaxActiveBlocksPerMultiprocessor, cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    [cuOccupancyMaxActiveBlocksPerMultiprocessor: (Current, zeros INVALID_HANDLE, since 6_050)]
    [cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: (Current, zeros INVALID_HANDLE, since 7_000)]
    fn (
        count: Out<c_int>, function: u64, threads: c_int, shared: usize,
    ) { occupancy(count, function, threads, shared) }
    [cuOccupancyMaxPotentialBlockSize: (Current, zeros INVALID_HANDLE, since 6_050)]
    [cuOccupancyMaxPotentialBlockSizeWithFlags: (Current, zeros INVALID_HANDLE, since 7_000)]
    fn (
        grid: Out<c_int>, block: Out<c_int>, function: u64, size: Option<extern "C" fn(c_int) -> usize>, shared: usize, limit: c_int,
    ) {
        let most = known(&mut *device()?, function)?.threads as c_int;
        let threads = if limit > 0 { limit.min(most) } else { most };
        let shared = size.map_or(shared, |size| size(threads));
        let blocks = blocks(function, threads, shared)?;
        block.set(threads)?;
        grid.set(blocks * device()?.gpu.sms as c_int)
    }
    [cudaOccupancyMaxActiveClusters: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    [cuOccupancyMaxActiveClusters: (Current, zeros INVALID_HANDLE, since 11_070)]
    fn (count: Out<c_int>, function: u64, _config: u64) {
        is_kernel(function)?;
        count.set(device()?.gpu.sms as c_int)
    }
    [cudaOccupancyMaxPotentialClusterSize: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    [cuOccupancyMaxPotentialClusterSize: (Init, zeros INVALID_HANDLE, since 11_070)]
    fn (size: Out<c_int>, function: u64, _config: u64) { is_kernel(function)?; size.set(8) }
    [cudaOccupancyAvailableDynamicSMemPerBlock: (Primary, zeros INVALID_DEVICE_FUNCTION, valid INVALID_VALUE)]
    [cuOccupancyAvailableDynamicSMemPerBlock: (Current, zeros INVALID_HANDLE, valid INVALID_VALUE, since 10_020)]
    fn (
        size: Out<usize>, function: u64, blocks: c_int, threads: c_int,
    ) {
        let mut device = device()?;
        let Known { static_shared, dynamic, .. } = known(&mut device, function)?;
        if blocks <= 0 || threads <= 0 { return Err(Status::INVALID_VALUE); }
        let each = device.gpu.shared_of_block(blocks.unsigned_abs()).saturating_sub(static_shared);
        size.set(each.min(dynamic) as usize)
    }
}
