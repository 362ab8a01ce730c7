//! The CUDA driver through cudarc's bindings: the one module that calls it. It runs only in a worker process, which ends when a
//! kernel corrupts its context. There is one thread, one context and one stream.
//!
//! cudarc resolves a function on its first call and panics if the driver lacks it, so [`Driver::open`] rejects drivers older than
//! the newest function used here. A result missing from cudarc's headers is kept as a number.

#![expect(unsafe_code, reason = "the CUDA driver is a C library, found at run time")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute as Attribute, CUevent, CUfunction,
    CUfunction_attribute as OfFunction, CUgraph, CUgraphExec, CUjit_option, CUlaunchAttribute,
    CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUmemAccess_flags, CUmemAccessDesc,
    CUmemAllocationGranularity_flags, CUmemAllocationProp, CUmemAllocationType, CUmemLocationType, CUmodule,
    CUresult, CUstream, CUstreamCaptureMode, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill,
    CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle,
};
use emulator::device::{MapElement, MapSwizzle, TensorMapSpec};

use super::backend::{Backend, Prepared, Value};
use super::describe::{Description, SIMULATED};
use super::status::CudaError;
use super::wire::Entry;

/// cuModuleEnumerateFunctions, cuFuncGetName and cuFuncGetParamInfo were added in CUDA 12.4.
const OLDEST: c_int = 12_040;
/// The driver library.
const LIBRARY: &str = "libcuda.so.1";

/// The value of [`CudaError::code`] if no driver call failed: the driver is missing or too old.
const NO_DRIVER: u32 = 100;

/// `CUDA_ERROR_NOT_SUPPORTED`.
const NOT_SUPPORTED: u32 = 801;

/// A GPU with its context.
pub(super) struct Driver {
    gpus: usize,
    ordinal: usize,
    device: CUdevice,
    stream: CUstream,
    marks: [CUevent; 2],
    modules: Vec<(CUmodule, Vec<CUfunction>)>,
    graphs: Vec<CUgraphExec>,
    /// Pages that were placed: their addresses, and the bytes of each.
    pages: BTreeMap<u64, usize>,
    /// The driver's CUDA version; 13000 is CUDA 13.0.
    version: c_int,
}

fn check(call: &'static str, result: CUresult) -> Result<(), CudaError> {
    if result == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(error(call, result)) }
}

fn error(call: &'static str, result: CUresult) -> CudaError {
    let mut name: *const c_char = ptr::null();
    // SAFETY: the function takes any number and stores a pointer to a static string, or null.
    let known = unsafe { sys::cuGetErrorName(result, &raw mut name) };
    let name = if known != CUresult::CUDA_SUCCESS || name.is_null() {
        format!("CUDA result {}", result as u32)
    } else {
        // SAFETY: not null, NUL-terminated, and it lives as long as the driver.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    };
    CudaError { code: result as u32, name, call, detail: String::new() }
}

/// The error of a machine without a usable driver or GPU.
fn absent(name: String) -> CudaError {
    CudaError { code: NO_DRIVER, name, call: "the CUDA driver", detail: String::new() }
}

/// Returns the driver's CUDA version; 13000 is CUDA 13.0.
fn version() -> Result<c_int, CudaError> {
    let mut version = 0;
    // SAFETY: the pointer is to a live integer.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
    Ok(version)
}

impl Driver {
    /// Loads the driver and returns the number of GPUs.
    pub(super) fn count() -> Result<usize, CudaError> {
        // SAFETY: loading runs the initialisers of NVIDIA's driver library, as every CUDA program does; this process is ours.
        if let Err(error) = unsafe { libloading::Library::new(LIBRARY) } {
            return Err(absent(format!("cannot be loaded: {error}")));
        }
        let version = version()?;
        if version < OLDEST {
            return Err(absent(format!(
                "supports CUDA {}.{}; at least 12.4 is required",
                version / 1000,
                version % 1000 / 10
            )));
        }
        let mut count = 0;
        // SAFETY: the pointer is to a live integer.
        unsafe {
            check("cuInit", sys::cuInit(0))?;
            check("cuDeviceGetCount", sys::cuDeviceGetCount(&raw mut count))?;
        }
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Opens one of `gpus` GPUs, which [`Driver::count`] has found, and makes its primary context current on this thread.
    pub(super) fn open(ordinal: usize, gpus: usize) -> Result<Self, CudaError> {
        if ordinal >= gpus {
            return Err(absent(format!("finds {gpus} GPUs: there is no gpu:{ordinal}")));
        }
        let version = version()?;
        let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        let mut device = 0;
        let mut context: CUcontext = ptr::null_mut();
        // SAFETY: every pointer is to a live local of the type that the call stores.
        unsafe {
            check("cuDeviceGet", sys::cuDeviceGet(&raw mut device, number))?;
            check("cuDevicePrimaryCtxRetain", sys::cuDevicePrimaryCtxRetain(&raw mut context, device))?;
            check("cuCtxSetCurrent", sys::cuCtxSetCurrent(context))?;
        }
        let mut stream: CUstream = ptr::null_mut();
        let mut marks: [CUevent; 2] = [ptr::null_mut(); 2];
        // SAFETY: a context is current; the pointers are to live locals. 1 is CU_STREAM_NON_BLOCKING, 0 CU_EVENT_DEFAULT.
        unsafe {
            check("cuStreamCreate", sys::cuStreamCreate(&raw mut stream, 1))?;
            for mark in &mut marks {
                check("cuEventCreate", sys::cuEventCreate(mark, 0))?;
            }
        }
        let (modules, graphs, pages) = (Vec::new(), Vec::new(), BTreeMap::new());
        Ok(Self { gpus, ordinal, device, stream, marks, modules, graphs, pages, version })
    }

    /// Returns a device attribute, or -1 if the driver does not know it.
    fn attribute(&self, attribute: Attribute) -> i32 {
        let mut value = -1;
        // SAFETY: the device is valid and the pointer is to a live integer; an unknown attribute is rejected by the driver.
        let result = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, self.device) };
        if result == CUresult::CUDA_SUCCESS { value } else { -1 }
    }

    /// Whether this is the GPU that `exec` simulates.
    fn is_simulated(&self) -> bool {
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        // SAFETY: the device is valid and the pointer is to a live struct of the library's own type.
        let result = unsafe { sys::cuDeviceGetUuid_v2(&raw mut uuid, self.device) };
        let bytes = uuid.bytes.map(|byte| byte as u8);
        result == CUresult::CUDA_SUCCESS && bytes == *emulator::events::UUID
    }

    fn functions(module: CUmodule) -> Result<(Vec<CUfunction>, Vec<Entry>), CudaError> {
        let mut count: c_uint = 0;
        // SAFETY: the module was just loaded; the pointer is to a live integer.
        check("cuModuleGetFunctionCount", unsafe { sys::cuModuleGetFunctionCount(&raw mut count, module) })?;
        let mut functions: Vec<CUfunction> = vec![ptr::null_mut(); count as usize];
        if count > 0 {
            // SAFETY: the array has `count` elements.
            check("cuModuleEnumerateFunctions", unsafe {
                sys::cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, module)
            })?;
        }
        let mut entries = Vec::new();
        for function in &functions {
            let mut name: *const c_char = ptr::null();
            // SAFETY: the function is the module's; the pointer is to a live local.
            check("cuFuncGetName", unsafe { sys::cuFuncGetName(&raw mut name, *function) })?;
            // SAFETY: the call succeeded, so this is a string that lives as long as the module.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            let mut parameters = Vec::new();
            let (mut offset, mut size) = (0, 0);
            loop {
                // SAFETY: the function is the module's; past the last parameter the call returns an invalid-value error.
                let result = unsafe {
                    sys::cuFuncGetParamInfo(*function, parameters.len(), &raw mut offset, &raw mut size)
                };
                match result {
                    CUresult::CUDA_SUCCESS => parameters.push((offset, size)),
                    CUresult::CUDA_ERROR_INVALID_VALUE => break,
                    other => return Err(error("cuFuncGetParamInfo", other)),
                }
            }
            let of = |attribute| {
                let mut value = -1;
                // SAFETY: the function is the module's and the pointer is to a live integer.
                let result = unsafe { sys::cuFuncGetAttribute(&raw mut value, attribute, *function) };
                if result == CUresult::CUDA_SUCCESS { value } else { -1 }
            };
            entries.push(Entry {
                name,
                parameters,
                registers: of(OfFunction::CU_FUNC_ATTRIBUTE_NUM_REGS),
                local: of(OfFunction::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
                shared: of(OfFunction::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
                threads: of(OfFunction::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
            });
        }
        Ok((functions, entries))
    }

    /// Backs one page with memory that this GPU may use.
    fn page(&mut self, address: u64, bytes: usize, like: &CUmemAllocationProp) -> Result<(), CudaError> {
        let mut got = 0;
        // SAFETY: the pointer is to a live integer; the page is ours from here on, or freed below.
        check("cuMemAddressReserve", unsafe {
            sys::cuMemAddressReserve(&raw mut got, bytes, 0, address, 0)
        })?;
        let mut made = Ok(());
        if got == address {
            let access = CUmemAccessDesc {
                location: like.location,
                flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            };
            let mut memory = 0;
            // SAFETY: the pointers are to live locals; the page is reserved and not mapped. The mapping keeps the memory alive.
            made = unsafe {
                check("cuMemCreate", sys::cuMemCreate(&raw mut memory, bytes, like, 0)).and_then(|()| {
                    let mapped = check("cuMemMap", sys::cuMemMap(address, bytes, 0, memory, 0));
                    mapped.and(check("cuMemRelease", sys::cuMemRelease(memory)))
                })
            };
            if made.is_ok() {
                self.pages.insert(address, bytes);
                // SAFETY: the page is mapped; the pointer is to a live local.
                return check("cuMemSetAccess", unsafe {
                    sys::cuMemSetAccess(address, bytes, &raw const access, 1)
                });
            }
        }
        // SAFETY: reserved above, and nothing is mapped there.
        check("cuMemAddressFree", unsafe { sys::cuMemAddressFree(got, bytes) })?;
        made?;
        Err(CudaError {
            code: 1,
            name: format!("the driver places nothing at {address:#x}"),
            call: "cuMemAddressReserve",
            detail: "something else of this process is there".to_owned(),
        })
    }

    fn put(&self, launch: &Prepared) -> Result<(), CudaError> {
        let function = self.modules.get(launch.kernel.0).and_then(|m| m.1.get(launch.kernel.1));
        let Some(&function) = function else {
            return Err(CudaError {
                code: 500,
                name: "there is no such kernel".to_owned(),
                call: "the launch",
                detail: String::new(),
            });
        };
        let shared = c_int::try_from(launch.shared).unwrap_or(c_int::MAX);
        // SAFETY: the function is a loaded module's; the driver rejects sizes that the GPU does not support.
        check("cuFuncSetAttribute", unsafe {
            sys::cuFuncSetAttribute(
                function,
                OfFunction::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                shared,
            )
        })?;
        let mut attributes = Vec::new();
        let mut attribute = |id, value| attributes.push(CUlaunchAttribute { id, pad: [0; 4], value });
        if launch.programmatic {
            attribute(
                CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
            );
        }
        if launch.cooperative {
            attribute(
                CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                CUlaunchAttributeValue { cooperative: 1 },
            );
        }
        if launch.cluster != [1, 1, 1] {
            let [x, y, z] = launch.cluster;
            let mut value = CUlaunchAttributeValue { pad: [0; 64] };
            value.clusterDim.x = x;
            value.clusterDim.y = y;
            value.clusterDim.z = z;
            attribute(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value);
        }
        let config = CUlaunchConfig {
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.block[0],
            blockDimY: launch.block[1],
            blockDimZ: launch.block[2],
            sharedMemBytes: launch.shared,
            hStream: self.stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as c_uint,
        };
        // The driver copies the values during the call. Only a tensor map needs an aligned pointer.
        let maps: Vec<Option<CUtensorMap>> = launch
            .values
            .iter()
            .map(|v| if let Value::Map(opaque) = v { Some(CUtensorMap { opaque: *opaque }) } else { None })
            .collect();
        let mut pointers: Vec<*mut c_void> = launch
            .values
            .iter()
            .zip(&maps)
            .map(|(value, map)| match (value, map) {
                (_, Some(map)) => ptr::from_ref(map).cast_mut().cast(),
                (Value::Bytes(bytes), None) => bytes.as_ptr().cast_mut().cast(),
                (Value::Map(opaque), None) => opaque.as_ptr().cast_mut().cast(),
            })
            .collect();
        // SAFETY: there is one pointer for each parameter, and it points to as many bytes as the parameter has: the session checked
        // both against the kernel's own list. Everything lives until the call returns, and the driver only reads it.
        check("cuLaunchKernelEx", unsafe {
            sys::cuLaunchKernelEx(&raw const config, function, pointers.as_mut_ptr(), ptr::null_mut())
        })
    }
}

impl Backend for Driver {
    fn describe(&mut self) -> Result<Description, CudaError> {
        let mut name = [0u8; 256];
        let (mut free, mut total) = (0, 0);
        // SAFETY: the buffer has the given length; the other pointers are to live integers; a context is current.
        unsafe {
            check("cuDeviceGetName", sys::cuDeviceGetName(name.as_mut_ptr().cast(), 256, self.device))?;
            check("cuMemGetInfo", sys::cuMemGetInfo_v2(&raw mut free, &raw mut total))?;
        }
        let name =
            CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy).unwrap_or_default().into_owned();
        let small = |value: i32| u16::try_from(value).unwrap_or(0);
        let attributes =
            ATTRIBUTES.iter().map(|(name, a)| ((*name).to_owned(), self.attribute(*a))).collect();
        Ok(Description {
            gpus: self.gpus,
            ordinal: self.ordinal,
            name,
            capability: (
                small(self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)),
                small(self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)),
            ),
            cuda: format!("{}.{}", self.version / 1000, self.version % 1000 / 10),
            driver: if self.is_simulated() {
                SIMULATED.to_owned()
            } else {
                kernel_module().unwrap_or_default()
            },
            memory: total as u64,
            free: free as u64,
            multiprocessors: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            shared_optin: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            shared_multiprocessor: self
                .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            shared_reserved: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK),
            registers: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
            threads: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
            threads_multiprocessor: self
                .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
            l2: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
            attributes,
        })
    }

    fn allocate(&mut self, bytes: usize) -> Result<u64, CudaError> {
        let mut address = 0;
        // SAFETY: the pointer is to a live integer; a context is current.
        check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) })?;
        Ok(address)
    }

    fn place(&mut self, address: u64, bytes: usize) -> Result<(), CudaError> {
        // SAFETY: a struct of numbers and null pointers, of which zero is a value.
        let mut like: CUmemAllocationProp = unsafe { std::mem::zeroed() };
        like.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        like.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        like.location.id = self.device;
        let mut page = 0;
        // SAFETY: the pointers are to live locals.
        check("cuMemGetAllocationGranularity", unsafe {
            sys::cuMemGetAllocationGranularity(
                &raw mut page,
                &raw const like,
                CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM,
            )
        })?;
        let step = page.max(1) as u64;
        let mut at = address / step * step;
        while at < address.saturating_add(bytes as u64) {
            if !self.pages.contains_key(&at) {
                self.page(at, page, &like)?;
            }
            at += step;
        }
        Ok(())
    }

    fn release(&mut self, address: u64) -> Result<(), CudaError> {
        // SAFETY: the session releases each address returned by `allocate` once, while nothing runs on it.
        check("cuMemFree", unsafe { sys::cuMemFree_v2(address) })
    }

    fn fill(&mut self, address: u64, byte: u8, bytes: usize) -> Result<(), CudaError> {
        // SAFETY: the session stays within one allocation.
        check("cuMemsetD8", unsafe { sys::cuMemsetD8Async(address, byte, bytes, self.stream) })
    }

    fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<(), CudaError> {
        // SAFETY: the session stays within allocations, and the ranges do not overlap.
        check("cuMemcpyDtoD", unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream) })
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), CudaError> {
        // Stream-ordered, after pending fills. SAFETY: the session stays within one allocation; the source is pageable memory,
        // which the driver has copied when the call returns.
        check("cuMemcpyHtoD", unsafe {
            sys::cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast(), bytes.len(), self.stream)
        })
    }

    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        // SAFETY: the session stays within one allocation; the destination has the given length.
        check("cuMemcpyDtoH", unsafe {
            sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), address, bytes.len(), self.stream)
        })?;
        self.synchronize()
    }

    fn load(&mut self, image: &[u8]) -> Result<(usize, Vec<Entry>), CudaError> {
        // PTX is text that ends in NUL; a cubin carries its own length.
        let mut owned = image.to_vec();
        owned.push(0);
        let mut module: CUmodule = ptr::null_mut();
        let mut log = vec![0u8; 8192];
        let mut options =
            [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(log.len())];
        // SAFETY: the image ends in NUL, both arrays have two entries, and the log buffer has the given size. The driver parses a
        // cubin, and a damaged one may end this process, which is why it is a separate process.
        let result = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut module,
                owned.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        check("cuModuleLoadDataEx", result).map_err(|mut error| {
            let text = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default();
            error.detail =
                text.lines().map(str::trim).filter(|l| !l.is_empty()).take(3).collect::<Vec<_>>().join("; ");
            error
        })?;
        let (functions, entries) = Self::functions(module)?;
        self.modules.push((module, functions));
        Ok((self.modules.len() - 1, entries))
    }

    fn tensor_map(&mut self, address: u64, spec: &TensorMapSpec) -> Result<[u64; 16], CudaError> {
        let element = match spec.element {
            MapElement::U8 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
            MapElement::U4Unpacked => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B,
        };
        let swizzle = match spec.swizzle {
            MapSwizzle::None => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
            MapSwizzle::B32 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
            MapSwizzle::B64 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
            MapSwizzle::B128 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            MapSwizzle::B128Atom32 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B,
        };
        let rank = spec.dims.len();
        let steps = vec![1u32; rank];
        if spec.box_dims.len() != rank || spec.strides.len() + 1 != rank || rank > 5 {
            return Err(CudaError {
                code: 1,
                name: format!(
                    "{rank} dimensions, {} strides, {} of a box",
                    spec.strides.len(),
                    spec.box_dims.len()
                ),
                call: "the tensor map",
                detail: String::new(),
            });
        }
        let mut map = CUtensorMap { opaque: [0; 16] };
        // SAFETY: dims, box and steps have `rank` entries and strides one fewer; the map is of the library's own type and
        // alignment. The address is only stored.
        check("cuTensorMapEncodeTiled", unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                element,
                rank as u32,
                ptr::without_provenance_mut(address as usize),
                spec.dims.as_ptr(),
                spec.strides.as_ptr(),
                spec.box_dims.as_ptr(),
                steps.as_ptr(),
                CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle,
                CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        })
        .map_err(|error| {
            let major = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
            lacking(spec.element, major, error)
        })?;
        Ok(map.opaque)
    }

    fn launch(&mut self, launch: &Prepared) -> Result<(), CudaError> {
        self.put(launch)
    }

    fn synchronize(&mut self) -> Result<(), CudaError> {
        // SAFETY: the stream is ours.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    fn mark(&mut self, which: usize) -> Result<(), CudaError> {
        // SAFETY: event and stream are ours.
        check("cuEventRecord", unsafe { sys::cuEventRecord(self.marks[which & 1], self.stream) })
    }

    fn elapsed(&mut self) -> Result<f32, CudaError> {
        let mut milliseconds = 0.0;
        // SAFETY: both events are ours and recorded; the pointer is to a live number.
        check("cuEventElapsedTime", unsafe {
            sys::cuEventElapsedTime(&raw mut milliseconds, self.marks[0], self.marks[1])
        })?;
        Ok(milliseconds)
    }

    fn capture(&mut self, launches: &[Prepared]) -> Result<usize, CudaError> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is ours, and this is the process's only thread that calls CUDA.
        check("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(self.stream, mode) })?;
        let put = launches.iter().try_for_each(|launch| self.put(launch));
        let mut graph: CUgraph = ptr::null_mut();
        // SAFETY: the capture began above and ends here even if a launch failed.
        let ended =
            check("cuStreamEndCapture", unsafe { sys::cuStreamEndCapture(self.stream, &raw mut graph) });
        put?;
        ended?;
        let mut exec: CUgraphExec = ptr::null_mut();
        // SAFETY: the graph was just captured; after instantiation it is no longer needed.
        unsafe {
            let made = sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0);
            let gone = sys::cuGraphDestroy(graph);
            check("cuGraphInstantiateWithFlags", made)?;
            check("cuGraphDestroy", gone)?;
        }
        self.graphs.push(exec);
        Ok(self.graphs.len() - 1)
    }

    fn replay(&mut self, graph: usize) -> Result<(), CudaError> {
        let Some(exec) = self.graphs.get(graph) else {
            return Err(CudaError {
                code: 1,
                name: format!("there is no graph {graph}"),
                call: "the replay",
                detail: String::new(),
            });
        };
        // SAFETY: the graph is instantiated and the stream is ours.
        check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(*exec, self.stream) })
    }

    fn unload(&mut self) -> Result<(), CudaError> {
        self.synchronize()?;
        for exec in self.graphs.drain(..) {
            // SAFETY: ours, and nothing runs.
            check("cuGraphExecDestroy", unsafe { sys::cuGraphExecDestroy(exec) })?;
        }
        for (module, _) in self.modules.drain(..) {
            // SAFETY: ours, nothing runs, and its functions are forgotten with it.
            check("cuModuleUnload", unsafe { sys::cuModuleUnload(module) })?;
        }
        for (address, bytes) in std::mem::take(&mut self.pages) {
            // SAFETY: mapped by `page`, and nothing runs.
            unsafe {
                check("cuMemUnmap", sys::cuMemUnmap(address, bytes))?;
                check("cuMemAddressFree", sys::cuMemAddressFree(address, bytes))?;
            }
        }
        Ok(())
    }
}

/// The first major compute capability whose copy engine expands packed FP4 into shared memory (PTX ISA, `.b4x16_p64`).
const EXPANDS: c_int = 10;

/// Turns the driver's error for an element type that the GPU has no hardware for, "invalid value", into "not supported".
fn lacking(element: MapElement, major: c_int, error: CudaError) -> CudaError {
    if element != MapElement::U4Unpacked || major >= EXPANDS || error.code != 1 {
        return error;
    }
    CudaError {
        code: NOT_SUPPORTED,
        detail: format!(
            "this GPU, of compute capability {major}.x, has no tensor maps of 16U4_ALIGN16B, which need {EXPANDS}.0"
        ),
        ..error
    }
}

/// Returns the driver version that the kernel module reports.
fn kernel_module() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let words = text.lines().next()?.split_whitespace();
    words.map(str::to_owned).find(|w| w.starts_with(|c: char| c.is_ascii_digit()) && w.contains('.'))
}

/// Attributes in which GPUs of one family differ. GB10, for example, shares memory with its host and lacks RDMA (mod#6961).
const ATTRIBUTES: [(&str, Attribute); 16] = [
    ("gpu_direct_rdma_supported", Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED),
    (
        "gpu_direct_rdma_with_cuda_vmm_supported",
        Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    ),
    ("integrated", Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED),
    ("pageable_memory_access", Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS),
    (
        "pageable_memory_access_uses_host_page_tables",
        Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    ),
    ("concurrent_managed_access", Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS),
    ("host_native_atomic_supported", Attribute::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED),
    ("ecc_enabled", Attribute::CU_DEVICE_ATTRIBUTE_ECC_ENABLED),
    ("compute_mode", Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE),
    ("cluster_launch", Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH),
    ("cooperative_launch", Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH),
    ("tensor_map_access_supported", Attribute::CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED),
    ("multicast_supported", Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED),
    ("memory_bus_bits", Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
    ("memory_clock_khz", Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
    ("kernel_exec_timeout", Attribute::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_that_a_gpu_lacks_are_no_mistake_of_the_caller() {
        let refused = || CudaError {
            code: 1,
            name: "CUDA_ERROR_INVALID_VALUE".to_owned(),
            call: "cuTensorMapEncodeTiled",
            detail: String::new(),
        };
        let lacks = lacking(MapElement::U4Unpacked, 9, refused());
        assert_eq!(lacks.kind(), super::super::wire::Kind::Image);
        assert!(lacks.to_string().contains("compute capability 9.x, has no tensor maps"), "{lacks}");
        assert_eq!(lacking(MapElement::U4Unpacked, 12, refused()), refused());
        assert_eq!(lacking(MapElement::U8, 9, refused()), refused());
    }
}
