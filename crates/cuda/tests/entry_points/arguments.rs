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

/// Makes the primary context current.
pub(crate) fn enter() {
    named("cuInit", &[]);
    named("cuCtxSetCurrent", &[made("cuDevicePrimaryCtxRetain", &[0])]);
}

const PTX: &str = "
.version 8.7
.target sm_120
.address_size 64
.visible .global .align 4 .u32 v[16];
.global .attribute(.managed) .align 4 .u32 managed = 5;
.visible .entry kernel() { ret; }
";

/// The bytes of each copy and fill.
const BYTES: u64 = 64;

/// What the arguments refer to.
pub(crate) struct Scene {
    text: CString,
    path: CString,
    wrapper: Box<[u64; 2]>,
    variable: Box<u64>,
    managed: Box<u64>,
    /// Blocks of the program that the current call may use.
    blocks: Vec<Box<[u64]>>,
    /// A stream that is captured for the current call.
    captured: Option<u64>,
}

extern "C" fn function_of_the_host(_data: u64) {}

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
        Self { text, path, wrapper, variable, managed, blocks: Vec::new(), captured: None }
    }

    /// Ends what was begun for a call.
    pub(crate) fn leave(&mut self) {
        self.blocks.clear();
        if let Some(stream) = self.captured.take() {
            enter();
            // SAFETY: the capture may have ended, and the stream may be gone; then this fails.
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

    fn module(&self) -> u64 {
        made("cuModuleLoadData", &[self.text.as_ptr() as u64])
    }

    fn kernel(&self) -> u64 {
        made("cuModuleGetFunction", &[self.module(), c"kernel".as_ptr() as u64])
    }

    fn graph() -> u64 {
        made("cuGraphCreate", &[0])
    }

    fn stream() -> u64 {
        made("cuStreamCreate", &[1])
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
        let stream = Self::stream();
        named("cuStreamBeginCapture_v2", &[stream, 0]);
        self.captured = Some(stream);
        stream
    }

    /// `CUDA_KERNEL_NODE_PARAMS_v2`: the function, a grid and a block of one thread, and no arguments.
    fn kernel_parameters(&mut self) -> u64 {
        let kernel = self.kernel();
        self.block(&[kernel, 1 | 1 << 32, 1 | 1 << 32, 1 | 1 << 32, 0, 0, 0, 0, 0])
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
        if let Some(words) = self.special(row.name, name) {
            return words;
        }
        // A function about a node gets one graph, with its node and its instance.
        let about_graphs = name.contains("Graph") && !name.contains("Stream");
        let (graph, node) = if about_graphs { self.node(name) } else { (0, 0) };
        row.parameters.iter().flat_map(|parameter| self.argument(name, parameter, graph, node)).collect()
    }

    /// One argument; a struct has several words.
    fn argument(&mut self, function: &str, parameter: &str, graph: u64, node: u64) -> Vec<u64> {
        let (name, ty) = parameter.split_once(": ").unwrap();
        let name = name.trim_start_matches('_');
        let word = match (name, ty) {
            ("mode", "Out<u32>") => self.block(&[2]),
            (_, "Out<usize>") if function.starts_with("cudaGraph") || function.starts_with("cuGraph") => self.block(&[4]),
            (_, out) if out.starts_with("Out<") => self.place(),
            ("name", "Text") if function.contains("GetGlobal") => c"v".as_ptr() as u64,
            ("name", "Text") if function.contains("GetManaged") => c"managed".as_ptr() as u64,
            ("name", "Text") => c"kernel".as_ptr() as u64,
            ("symbol", "Text") => c"cuInit".as_ptr() as u64,
            ("path", "Text") => self.path.as_ptr() as u64,
            ("id", "Text") => c"0000:01:00.0".as_ptr() as u64,
            ("code", "u64") => self.text.as_ptr() as u64,
            ("version", _) => 13_000,
            ("stream", _) => Self::stream(),
            ("event" | "start" | "end", _) => Self::event(),
            ("module" | "library", _) => self.module(),
            ("function", "HostFunction") => function_of_the_host as *const () as u64,
            (_, "In<KernelParameters>") => self.kernel_parameters(),
            (_, "In<FillParameters>") => self.fill_parameters(),
            (_, "In<HostParameters>") => self.host_parameters(),
            (_, "In<Copy2D>") => self.driver_copy_2d(),
            (_, "In<Copy3D>") => self.driver_copy_3d(),
            (_, "In<Memcpy3D>" | "In<Memcpy3DPeer>") => self.runtime_copy(),
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

    /// The arguments of functions whose parameters do not tell enough.
    fn special(&mut self, exact: &str, name: &str) -> Option<Vec<u64>> {
        let memory = Self::device_memory;
        let plain = name.rsplit_once("_v").map_or(name, |(plain, _)| plain);
        Some(match plain {
            _ => {
                let _ = (exact, memory, &self.managed, &self.wrapper);
                return None;
            }
        })
    }
}

/// Whether a function's name contains one of these words.
fn about(function: &str, words: &[&str]) -> bool {
    words.iter().any(|word| function.contains(word))
}

const _: fn(c_int) = |_| {};
