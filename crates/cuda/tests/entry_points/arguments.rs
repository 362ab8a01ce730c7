//! Valid arguments of a function: found by the names and types of its parameters, and by the name of the function where these do not
//! suffice. Every object is made anew for the call that gets it, because the call may destroy it.

use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::sync::LazyLock;

use sm121probe_cuda::{Call, EntryPoint, entry_points};

static CALLS: LazyLock<HashMap<&str, Call>> =
    LazyLock::new(|| entry_points().map(|(row, call)| (row.name, call)).collect());

/// Calls a function that must succeed.
pub(crate) fn named(name: &str, words: &[u64]) {
    // SAFETY: the words are valid arguments.
    let status = unsafe { CALLS[name](words) };
    assert_eq!(status, 0, "{name}");
}

/// The object that a function creates, whose first parameter is the place for it.
fn made(name: &str, more: &[u64]) -> u64 {
    let mut object = 0u64;
    let place = [&raw mut object as u64];
    named(name, &[&place, more].concat());
    object
}

/// Like [`made`], for a function whose result is behind its other arguments.
fn made_last(name: &str, before: &[u64]) -> u64 {
    let mut object = 0u64;
    let place = [&raw mut object as u64];
    named(name, &[before, &place].concat());
    object
}

/// Makes the primary context current.
pub(crate) fn enter() {
    named("cuInit", &[]);
    named("cuCtxSetCurrent", &[made("cuDevicePrimaryCtxRetain", &[0])]);
    // The last error of the runtime is that of an earlier call.
    // SAFETY: the function has no arguments.
    unsafe { CALLS["cudaGetLastError"](&[]) };
}

const PTX: &str = "
.version 8.7
.target sm_120
.address_size 64
.visible .global .align 4 .u32 v[16];
.global .attribute(.managed) .align 4 .u32 managed = 5;
.visible .entry kernel(.param .u64 p) { ret; }
";

/// The bytes of each copy and fill.
const BYTES: u64 = 64;

/// The bytes of each piece of physical memory.
const PIECE: u64 = 2 << 20;

/// What the arguments refer to.
pub(crate) struct Scene {
    text: CString,
    path: CString,
    wrapper: Box<[u64; 2]>,
    variable: Box<u64>,
    managed: Box<u64>,
    /// Blocks of the program that the current call may use.
    blocks: Vec<Box<[u64]>>,
    /// Streams of the current call, which may be captured after it.
    streams: Vec<u64>,
}

extern "C" fn function_of_the_host(_data: u64) {}

extern "C" fn callback_of_the_host(_stream: u64, _status: c_int, _data: u64) {}

/// Stores the handle of a library.
extern "C" fn loader_of_the_host(place: *mut u64) -> c_int {
    // SAFETY: the library passes the place for the handle.
    unsafe { place.write(1) };
    0
}

impl Scene {
    pub(crate) fn new() -> Self {
        enter();
        let text = CString::new(PTX).unwrap();
        let path = std::env::temp_dir().join(format!("sm121probe-entry-points-{}.ptx", std::process::id()));
        std::fs::write(&path, PTX).unwrap();
        let path = CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
        // The magic number of a fatbin's wrapper; it holds the address of an image.
        let wrapper = Box::new([0x4662_43B1, text.as_ptr() as u64]);
        let (variable, managed) = (Box::new(0u64), Box::new(0u64));
        // SAFETY: the wrapper and the place of the variable live as long as the scene.
        unsafe { CALLS["__cudaRegisterFatBinary"](&[(&raw const *wrapper) as u64]) };
        let name = c"v".as_ptr() as u64;
        named("__cudaRegisterVar", &[16, &raw const *variable as u64, 0, name, 0, BYTES, 0, 0]);
        Self { text, path, wrapper, variable, managed, blocks: Vec::new(), streams: Vec::new() }
    }

    /// Ends what was begun for a call.
    pub(crate) fn leave(&mut self) {
        self.blocks.clear();
        for stream in std::mem::take(&mut self.streams) {
            enter();
            // SAFETY: the stream may be gone; then this fails. Otherwise it ends the capture.
            unsafe { CALLS["cuStreamDestroy_v2"](&[stream]) };
        }
    }

    /// The address of words of the program.
    fn block(&mut self, words: &[u64]) -> u64 {
        self.blocks.push(words.into());
        self.blocks.last().unwrap().as_ptr() as u64
    }

    /// A place for any result.
    fn place(&mut self) -> u64 {
        self.block(&[0; 256])
    }

    /// Memory of the program that stays registered after the call.
    fn lasting_page() -> u64 {
        Box::leak(vec![0u64; 512].into_boxed_slice()).as_ptr() as u64
    }

    fn module(&self) -> u64 {
        made("cuModuleLoadData", &[self.text.as_ptr() as u64])
    }

    fn kernel(&self) -> u64 {
        made("cuModuleGetFunction", &[self.module(), c"kernel".as_ptr() as u64])
    }

    fn graph() -> u64 {
        made("cuGraphCreate", &[0])
    }

    fn stream(&mut self) -> u64 {
        let stream = made("cuStreamCreate", &[1]);
        self.streams.push(stream);
        stream
    }

    fn event() -> u64 {
        let event = made("cuEventCreate", &[0]);
        named("cuEventRecord", &[event, 0]);
        event
    }

    fn device_memory() -> u64 {
        let at = made("cuMemAlloc_v2", &[4096]);
        named("cuMemsetD8_v2", &[at, 0, 4096]);
        at
    }

    fn captured(&mut self) -> u64 {
        let stream = self.stream();
        named("cuStreamBeginCapture_v2", &[stream, 0]);
        stream
    }

    /// The list of pointers to the arguments of the kernel.
    fn pointers(&mut self) -> u64 {
        let place = self.place();
        self.block(&[place])
    }

    /// `cudaLaunchConfig_t` or `CUlaunchConfig`: a grid and a block of one thread, and a stream.
    fn configuration(&mut self) -> u64 {
        let stream = self.stream();
        self.block(&[1 | 1 << 32, 1 | 1 << 32, 1 | 1 << 32, 0, stream, 0, 0])
    }

    /// Two nodes of a graph; the second depends on the first if the call is to remove that.
    fn edge(&mut self, function: &str) -> (u64, u64, u64) {
        let graph = Self::graph();
        let first = made("cuGraphAddEmptyNode", &[graph, 0, 0]);
        let (list, count) = (self.block(&[first]), u64::from(function.contains("Remove")));
        (graph, first, made("cuGraphAddEmptyNode", &[graph, list, count]))
    }

    /// `CUDA_KERNEL_NODE_PARAMS_v2`: the function, a grid and a block of one thread, and no arguments.
    fn kernel_parameters(&mut self) -> u64 {
        let (kernel, pointers) = (self.kernel(), self.pointers());
        self.block(&[kernel, 1 | 1 << 32, 1 | 1 << 32, 1 | 1 << 32, 0, pointers, 0, 0, 0])
    }

    /// `CUDA_MEMSET_NODE_PARAMS`.
    fn fill_parameters(&mut self) -> u64 {
        self.block(&[Self::device_memory(), 0, 7 | 1 << 32, BYTES, 1])
    }

    /// `cudaMemcpy3DParms` or its form with devices, of an empty box.
    fn runtime_copy(&mut self) -> u64 {
        self.block(&[0; 24])
    }

    /// `CUDA_MEMCPY3D`: rows of device memory.
    fn driver_copy_3d(&mut self) -> u64 {
        let side = |at| [0, 0, 0, 0, 2, 0, at, 0, 0, BYTES, 1];
        let sides = [side(Self::device_memory()), side(Self::device_memory())].concat();
        self.block(&[&sides[..], &[BYTES, 1, 1]].concat())
    }

    /// `CUDA_MEMCPY2D`: the same.
    fn driver_copy_2d(&mut self) -> u64 {
        let side = |at| [0, 0, 2, 0, at, 0, BYTES];
        let sides = [side(Self::device_memory()), side(Self::device_memory())].concat();
        self.block(&[&sides[..], &[BYTES, 1]].concat())
    }

    fn host_parameters(&mut self) -> u64 {
        self.block(&[function_of_the_host as *const () as u64, 0])
    }

    /// A node of the type that a function is about, and its graph.
    fn node(&mut self, function: &str) -> (u64, u64) {
        let graph = Self::graph();
        let has = |word: &str| function.contains(word);
        let node = if has("KernelNode") {
            let parameters = self.kernel_parameters();
            made("cuGraphAddKernelNode_v2", &[graph, 0, 0, parameters])
        } else if has("MemcpyNode") {
            let copy = self.driver_copy_3d();
            made("cuGraphAddMemcpyNode", &[graph, 0, 0, copy, 0])
        } else if has("MemsetNode") {
            let fill = self.fill_parameters();
            made("cuGraphAddMemsetNode", &[graph, 0, 0, fill, 0])
        } else if has("HostNode") {
            let host = self.host_parameters();
            made("cuGraphAddHostNode", &[graph, 0, 0, host])
        } else if has("ChildGraphNode") {
            made("cuGraphAddChildGraphNode", &[graph, 0, 0, Self::graph()])
        } else if has("EventRecordNode") {
            made("cuGraphAddEventRecordNode", &[graph, 0, 0, Self::event()])
        } else if has("EventWaitNode") {
            made("cuGraphAddEventWaitNode", &[graph, 0, 0, Self::event()])
        } else if has("MemAllocNode") {
            let parameters = self.allocation_parameters();
            made("cuGraphAddMemAllocNode", &[graph, 0, 0, parameters])
        } else if has("MemFreeNode") {
            made("cuGraphAddMemFreeNode", &[graph, 0, 0, Self::device_memory()])
        } else {
            made("cuGraphAddEmptyNode", &[graph, 0, 0])
        };
        (graph, node)
    }

    /// `CUDA_MEM_ALLOC_NODE_PARAMS`: 104 bytes, the size, and the place for the address.
    fn allocation_parameters(&mut self) -> u64 {
        let mut words = [0; 16];
        words[13] = BYTES;
        self.block(&words)
    }

    /// The arguments of a function, as words.
    pub(crate) fn arguments(&mut self, row: &EntryPoint) -> Vec<u64> {
        let name = row.name.trim_start_matches('_').trim_end_matches("_ptsz").trim_end_matches("_ptds");
        if let Some(words) = self.special(name) {
            return words;
        }
        // A function about a node gets one graph, with its node and its instance.
        let about_graphs = name.contains("Graph") && !name.contains("Stream");
        let (graph, node) = if about_graphs { self.node(name) } else { (0, 0) };
        if about(name, &["AddDependencies", "RemoveDependencies"]) {
            let (graph, from, to) = self.edge(name);
            let (from, to) = (self.block(&[from]), self.block(&[to]));
            let word = |parameter: &&str| match *parameter {
                "graph: u64" => graph,
                "from: In<u64>" => from,
                "to: In<u64>" => to,
                "count: usize" | "fifth: usize" => 1,
                _ => 0,
            };
            return row.parameters.iter().map(word).collect();
        }
        row.parameters.iter().flat_map(|parameter| self.argument(name, parameter, graph, node)).collect()
    }

    /// One argument; a struct has several words.
    fn argument(&mut self, function: &str, parameter: &str, graph: u64, node: u64) -> Vec<u64> {
        let (name, ty) = parameter.split_once(": ").unwrap();
        let name = name.trim_start_matches('_');
        let word = match (name, ty) {
            ("mode", "Out<u32>") => self.block(&[0]),
            (_, "Out<usize>") if function.starts_with("cudaGraph") || function.starts_with("cuGraph") => {
                self.block(&[4])
            }
            (_, out) if out.starts_with("Out<") => self.place(),
            ("name", "Text") if function.contains("GetGlobal") => c"v".as_ptr() as u64,
            ("name", "Text") if function.contains("GetManaged") => c"managed".as_ptr() as u64,
            ("name", "Text") => c"kernel".as_ptr() as u64,
            ("symbol", "Text") => c"cuInit".as_ptr() as u64,
            ("path", "Text") => self.path.as_ptr() as u64,
            ("id", "Text") => c"0000:01:00.0".as_ptr() as u64,
            ("code", "u64") => self.text.as_ptr() as u64,
            ("version", _) => 13_000,
            ("stream", _) => self.stream(),
            ("event" | "start" | "end", _) => Self::event(),
            ("module" | "library", _) => self.module(),
            ("callback", "u64") | ("function", "HostFunction") => function_of_the_host as *const () as u64,
            (_, "In<KernelParameters>") => self.kernel_parameters(),
            (_, "In<FillParameters>") => self.fill_parameters(),
            (_, "In<HostParameters>") => self.host_parameters(),
            (_, "In<Copy2D>") => self.driver_copy_2d(),
            (_, "In<Copy3D>") => self.driver_copy_3d(),
            (_, "In<Memcpy3D>" | "In<Memcpy3DPeer>") => self.runtime_copy(),
            (_, "In<RuntimeConfig>" | "In<DriverConfig>") => self.configuration(),
            ("arguments", _) => self.pointers(),
            ("to" | "from", "In<u64>") => self.block(&[Self::device_memory()]),
            ("sizes", _) => self.block(&[BYTES]),
            ("after" | "list", "In<u64>") => 0,
            (_, input) if input.starts_with("In<") => self.place(),
            ("last", _) => self.stream(),
            ("count", "usize") if function.contains("Batch") => 1,
            ("count", "u32") => 1,
            ("kind", "c_int") => 4,
            ("of", "u64") if function.contains("MemAlloc") => self.allocation_parameters(),
            // The type of an empty node.
            ("of", "u64") if !function.contains("Instantiate") => {
                self.block(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            }
            ("of", "u64") => self.place(),
            ("id", "u32") => 4,
            ("n", "usize") if function.contains("ParamInfo") => 0,
            ("function" | "kernel" | "symbol", "u64") => self.kernel(),
            ("graph", "u64") if about(function, &["BeginCaptureToGraph"]) => Self::graph(),
            ("graph", "u64") => graph,
            ("child", _) => Self::graph(),
            ("node", "u64") => node,
            ("instance", "u64") => made("cuGraphInstantiateWithFlags", &[graph, 0]),
            ("context", _) => made("cuDevicePrimaryCtxRetain", &[0]),
            ("pool", "u64") => made("cuMemPoolCreate", &[self.place()]),
            ("host", "u64") => made("cuMemAllocHost_v2", &[4096]),
            ("to" | "from" | "at" | "address", "u64") => Self::device_memory(),
            ("len" | "width" | "pitch" | "to_pitch" | "from_pitch", _) => BYTES,
            ("gx" | "gy" | "gz" | "bx" | "by" | "bz" | "height" | "n" | "enabled", _) => 1,
            ("threads", _) => 32,
            ("grid" | "block", "Dim3") => return vec![1 | 1 << 32, 1],
            ("extent", "Extent3D") => return vec![BYTES, 1, 1],
            ("to", "Pitched") => return vec![Self::device_memory(), BYTES, BYTES, 1],
            ("name" | "where", "u64") if function.contains("Symbol") => &raw const *self.variable as u64,
            ("value", "u64") => self.place(),
            ("attribute", _) => 1,
            _ => 0,
        };
        vec![word]
    }

    /// The arguments of functions about arrays, textures and surfaces: 4 × 4 floats.
    fn of_arrays(&mut self, name: &str) -> Option<Vec<u64>> {
        let format = self.block(&[32, 0, 2]);
        let descriptor = self.block(&[4, 4, 32 | 1 << 32]);
        let with_depth = self.block(&[4, 4, 0, 32 | 1 << 32, 0]);
        let sampling = self.place();
        let (to, more, other) = (self.place(), self.place(), self.place());
        let array = || made("cuArrayCreate_v2", &[descriptor]);
        let mipmap = || made("cuMipmappedArrayCreate", &[with_depth, 2]);
        let memory = Self::device_memory();
        let size = [16, 4];
        Some(match name {
            "cudaMallocArray" => vec![to, format, 4, 4, 0],
            "cudaMalloc3DArray" => vec![to, format, 4, 4, 0, 0],
            "cudaMallocMipmappedArray" => vec![to, format, 4, 4, 0, 2, 0],
            "cuArrayCreate" => vec![to, descriptor],
            "cuArray3DCreate" => vec![to, with_depth],
            "cuMipmappedArrayCreate" => vec![to, with_depth, 2],
            "cudaGetMipmappedArrayLevel" | "cuMipmappedArrayGetLevel" => vec![to, mipmap(), 1],
            "cudaFreeMipmappedArray" | "cuMipmappedArrayDestroy" => vec![mipmap()],
            "cudaFreeArray" | "cuArrayDestroy" => vec![array()],
            "cudaArrayGetInfo" => vec![to, more, other, array()],
            "cudaGetChannelDesc" | "cuArrayGetDescriptor" | "cuArray3DGetDescriptor" => vec![to, array()],
            "cudaMemcpy2DToArray" | "cudaMemcpy2DToArrayAsync" => {
                vec![array(), 0, 0, memory, 16, size[0], size[1], 3, self.stream()]
            }
            "cudaMemcpy2DFromArray" | "cudaMemcpy2DFromArrayAsync" => {
                vec![memory, 16, array(), 0, 0, size[0], size[1], 3, self.stream()]
            }
            "cudaMemcpy2DArrayToArray" => vec![array(), 0, 0, array(), 0, 0, size[0], size[1], 3],
            "cudaMemcpyToArray" | "cudaMemcpyToArrayAsync" => {
                vec![array(), 0, 0, memory, 64, 3, self.stream()]
            }
            "cudaMemcpyFromArray" | "cudaMemcpyFromArrayAsync" => {
                vec![memory, array(), 0, 0, 64, 3, self.stream()]
            }
            "cuMemcpyHtoA" | "cuMemcpyHtoAAsync" => vec![array(), 0, more, 64, self.stream()],
            "cuMemcpyDtoA" => vec![array(), 0, memory, 64],
            "cuMemcpyAtoH" | "cuMemcpyAtoHAsync" => vec![more, array(), 0, 64, self.stream()],
            "cuMemcpyAtoD" => vec![memory, array(), 0, 64],
            "cuMemcpyAtoA" => vec![array(), 0, array(), 0, 64],
            "cudaCreateTextureObject" | "cuTexObjectCreate" => vec![to, self.resource(array()), sampling, 0],
            "cudaCreateSurfaceObject" | "cuSurfObjectCreate" => vec![to, self.resource(array())],
            "cudaDestroyTextureObject" | "cuTexObjectDestroy" => {
                let resource = self.resource(array());
                vec![made("cuTexObjectCreate", &[resource, sampling, 0])]
            }
            "cudaDestroySurfaceObject" | "cuSurfObjectDestroy" => {
                let resource = self.resource(array());
                vec![made("cuSurfObjectCreate", &[resource])]
            }
            _ => return None,
        })
    }

    /// A resource descriptor, of either API.
    fn resource(&mut self, array: u64) -> u64 {
        let mut words = [0; 32];
        words[1] = array;
        self.block(&words)
    }

    /// The arguments of functions of the driver's linker.
    fn of_links(&mut self, name: &str) -> Option<Vec<u64>> {
        let (to, more) = (self.place(), self.place());
        let link = || made_last("cuLinkCreate_v2", &[0, 0, 0]);
        let (text, len) = (self.text.as_ptr() as u64, self.text.as_bytes_with_nul().len() as u64);
        let data = |link: u64| vec![link, 1, text, len, c"input".as_ptr() as u64, 0, 0, 0];
        Some(match name {
            "cuLinkCreate" => vec![0, 0, 0, to],
            "cuLinkAddData" => data(link()),
            "cuLinkAddFile" => vec![link(), 1, self.path.as_ptr() as u64, 0, 0, 0],
            "cuLinkComplete" => {
                let link = link();
                named("cuLinkAddData_v2", &data(link));
                vec![link, to, more]
            }
            "cuLinkDestroy" => vec![link()],
            _ => return None,
        })
    }

    /// The arguments of functions about virtual and managed memory, pools and peers.
    fn of_memory(&mut self, name: &str, plain: &str) -> Option<Vec<u64>> {
        let managed = |_: &Self| made("cuMemAllocManaged", &[4096, 1]);
        Some(match plain {
            "cuMemAddressReserve" => vec![self.place(), PIECE, 0, 0, 0],
            "cuMemAddressFree" => vec![Self::reserved(), PIECE],
            "cuMemCreate" => vec![self.place(), PIECE, self.properties(), 0],
            "cuMemRelease" => vec![self.physical()],
            "cuMemMap" => vec![Self::reserved(), PIECE, 0, self.physical(), 0],
            "cuMemUnmap" => vec![self.mapped().0, PIECE],
            "cuMemSetAccess" => vec![self.mapped().0, PIECE, self.block(&[1, 3]), 1],
            "cuMemGetAccess" => vec![self.place(), self.block(&[1]), self.mapped().0],
            "cuMemGetAllocationGranularity" => vec![self.place(), self.properties(), 0],
            "cuMemRetainAllocationHandle" => vec![self.place(), self.mapped().0],
            "cuMemGetAllocationPropertiesFromHandle" => vec![self.place(), self.mapped().1],
            "cudaMemGetDefaultMemPool"
            | "cudaMemGetMemPool"
            | "cuMemGetDefaultMemPool"
            | "cuMemGetMemPool" => {
                vec![self.place(), self.block(&[1]), 1]
            }
            "cudaDeviceSetMemPool" | "cuDeviceSetMemPool" => {
                vec![0, made("cuMemPoolCreate", &[self.place()])]
            }
            "cudaMemPoolSetAccess" | "cuMemPoolSetAccess" => {
                vec![made("cuMemPoolCreate", &[self.place()]), self.block(&[1, 3]), 1]
            }
            "cuMemcpyPeer" | "cuMemcpyPeerAsync" => {
                let context = made("cuDevicePrimaryCtxRetain", &[0]);
                vec![Self::device_memory(), context, Self::device_memory(), context, BYTES, self.stream()]
            }
            // The first GPU, by its number and by its location.
            "cuMemPrefetchAsync" if name == plain => vec![managed(self), BYTES, 0, 0],
            "cudaMemPrefetchAsync" | "cuMemPrefetchAsync" => vec![managed(self), BYTES, 1, 0, 0],
            "cuMemAdvise" if name == plain => vec![managed(self), BYTES, 3, 0],
            "cudaMemAdvise" | "cuMemAdvise" => vec![managed(self), BYTES, 3, 1],
            "cudaMemRangeGetAttribute" | "cuMemRangeGetAttribute" => {
                vec![self.place(), 4, 1, managed(self), BYTES]
            }
            "cudaMemRangeGetAttributes" | "cuMemRangeGetAttributes" => {
                let (one, other) = (self.place(), self.place());
                let (places, sizes) = (self.block(&[one, other]), self.block(&[4, 8]));
                vec![places, sizes, self.block(&[2 | 3 << 32]), 2, managed(self), BYTES]
            }
            "cudaDeviceSetGraphMemAttribute" | "cuDeviceSetGraphMemAttribute" => vec![0, 3, self.place()],
            _ => return None,
        })
    }

    /// The arguments of functions whose parameters do not tell enough.
    fn special(&mut self, name: &str) -> Option<Vec<u64>> {
        let plain =
            name.rsplit_once("_v").filter(|(_, version)| version.len() == 1).map_or(name, |(plain, _)| plain);
        let other = self.of_arrays(plain).or_else(|| self.of_links(plain));
        if let Some(words) = other.or_else(|| self.of_memory(name, plain)) {
            return Some(words);
        }
        let variable = &raw const *self.variable as u64;
        Some(match plain {
            "cuCtxDestroy" => vec![made("cuCtxCreate_v2", &[0, 0])],
            "cuCtxEnablePeerAccess" | "cuCtxDisablePeerAccess" => {
                let other = made("cuCtxCreate_v2", &[0, 0]);
                enter();
                vec![other, 0]
            }
            "cuPointerSetAttribute" => vec![self.place(), 6, Self::device_memory()],
            "cuPointerGetAttributes" => {
                let (attributes, place) = (self.block(&[1]), self.place());
                vec![1, attributes, self.block(&[place]), Self::device_memory()]
            }
            "cudaHostRegister" | "cuMemHostRegister" => vec![Self::lasting_page(), BYTES, 0],
            "cudaHostUnregister" | "cuMemHostUnregister" => {
                let host = Self::lasting_page();
                named("cuMemHostRegister_v2", &[host, BYTES, 0]);
                vec![host]
            }
            "cudaMemcpyToSymbol" | "cudaMemcpyToSymbolAsync" => {
                vec![variable, Self::device_memory(), 4, 0, 3, 0]
            }
            "cudaMemcpyFromSymbol" | "cudaMemcpyFromSymbolAsync" => {
                vec![Self::device_memory(), variable, 4, 0, 3, 0]
            }
            "cuGetExportTable" => {
                let id = u64::from_le_bytes([0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a]);
                let rest = u64::from_le_bytes([0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9]);
                vec![self.place(), self.block(&[id, rest])]
            }
            "cudaStreamAddCallback" | "cuStreamAddCallback" => {
                vec![self.stream(), callback_of_the_host as *const () as u64, 0, 0]
            }
            // CU_STREAM_MEM_OP_WRITE_VALUE_32 of a word.
            "cuStreamBatchMemOp" => {
                let operation = self.block(&[2, Self::device_memory(), 7, 0, 0, 0]);
                vec![self.stream(), 1, operation, 0]
            }
            "cudaStreamEndCapture" | "cuStreamEndCapture" => vec![self.captured(), self.place()],
            "cudaStreamUpdateCaptureDependencies" | "cuStreamUpdateCaptureDependencies" => {
                vec![self.captured(), 0, 0, 0, 0]
            }
            "cudaGraphNodeFindInClone" | "cuGraphNodeFindInClone" => {
                let (graph, node) = self.node(name);
                vec![self.place(), node, made("cuGraphClone", &[graph])]
            }
            "cudaGraphKernelNodeCopyAttributes" | "cuGraphKernelNodeCopyAttributes" => {
                vec![self.node(name).1, self.node(name).1]
            }
            "cuTensorMapEncodeTiled" => self.tiled(),
            "cuTensorMapEncodeIm2col" => {
                let (dims, strides) = (self.block(&[16, 8, 2]), self.block(&[16, 128]));
                let (corner, steps) = (self.block(&[0]), self.block(&[1 | 1 << 32, 1]));
                let map = self.place();
                vec![
                    map,
                    0,
                    3,
                    Self::device_memory(),
                    dims,
                    strides,
                    corner,
                    corner,
                    16,
                    8,
                    steps,
                    0,
                    0,
                    0,
                    0,
                ]
            }
            "cuTensorMapReplaceAddress" => {
                let words = self.tiled();
                named("cuTensorMapEncodeTiled", &words);
                vec![words[0], Self::device_memory()]
            }
            "cudaRegisterFatBinary" => vec![&raw const *self.wrapper as u64],
            "cudaRegisterManagedVar" => {
                vec![16, &raw mut *self.managed as u64, 0, c"managed".as_ptr() as u64, 0, 4, 0, 0]
            }
            "cudaInitModule" => vec![16],
            "cudaPopCallConfiguration" => {
                named("__cudaPushCallConfiguration", &[1 | 1 << 32, 1, 1 | 1 << 32, 1, 0, 0]);
                vec![self.place(), self.place(), self.place(), self.place()]
            }
            "cuda_dialect_init_library_once" => {
                vec![self.place(), loader_of_the_host as *const () as u64, 0, 0]
            }
            _ => return None,
        })
    }

    /// `CUmemAllocationProp`: pinned memory of the first GPU.
    fn properties(&mut self) -> u64 {
        self.block(&[1, 1, 0, 0])
    }

    /// Physical memory.
    fn physical(&mut self) -> u64 {
        made("cuMemCreate", &[PIECE, self.properties(), 0])
    }

    /// Reserved addresses.
    fn reserved() -> u64 {
        made("cuMemAddressReserve", &[PIECE, 0, 0, 0])
    }

    /// Mapped physical memory: its address and its handle.
    fn mapped(&mut self) -> (u64, u64) {
        let (at, physical) = (Self::reserved(), self.physical());
        named("cuMemMap", &[at, PIECE, 0, physical, 0]);
        (at, physical)
    }

    /// The arguments of `cuTensorMapEncodeTiled`: 64 bytes, in boxes of 16.
    fn tiled(&mut self) -> Vec<u64> {
        let (dims, boxes, steps, map) =
            (self.block(&[BYTES]), self.block(&[16]), self.block(&[1]), self.place());
        vec![map, 0, 1, Self::device_memory(), dims, 0, boxes, steps, 0, 0, 0, 0]
    }
}

/// Whether a function's name contains one of these words.
fn about(function: &str, words: &[&str]) -> bool {
    words.iter().any(|word| function.contains(word))
}

/// The number of words of a parameter.
fn words_of(parameter: &str) -> usize {
    match parameter.split_once(": ").unwrap().1 {
        "Dim3" => 2,
        "Extent3D" => 3,
        "Pitched" => 4,
        _ => 1,
    }
}

/// The first word of parameter `n`.
pub(crate) fn first_word(row: &EntryPoint, n: usize) -> usize {
    row.parameters[..n].iter().map(|parameter| words_of(parameter)).sum()
}

/// Whether a parameter is the handle of an object.
pub(crate) fn is_handle(parameter: &str) -> bool {
    const OBJECTS: [&str; 15] = [
        "memory", "stream", "event", "start", "end", "module", "library", "function", "kernel", "symbol",
        "graph", "node", "instance", "context", "pool",
    ];
    let (name, ty) = parameter.split_once(": ").unwrap();
    ty == "u64" && OBJECTS.contains(&name)
}
