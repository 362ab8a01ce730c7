//! Programs that capture streams and build graphs.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::api::{ADD, Api, call};

const CAPTURE_UNSUPPORTED: i32 = 900;
const CAPTURE_INVALIDATED: i32 = 901;
const CAPTURE_UNJOINED: i32 = 904;
const GRAPH_UPDATE: i32 = 910;

/// A program's objects.
struct Setup {
    api: Api,
    kernel: u64,
    buffer: u64,
    streams: [u64; 2],
    events: [u64; 2],
}

fn setup() -> Setup {
    let api = Api::open("libcuda.so.1");
    let kernel = api.kernel(api.module(ADD), "add");
    let buffer = api.allocate(16);
    let (streams, events) = ([api.stream(), api.stream()], [api.event(), api.event()]);
    let set = call!(api, "cuMemsetD32_v2", buffer => u64, 1 => u32, 4 => usize);
    assert_eq!(set, 0);
    Setup { api, kernel, buffer, streams, events }
}

impl Setup {
    fn add(&self, stream: u64, value: u32) {
        let arguments = [(&raw const self.buffer).cast::<c_void>(), (&raw const value).cast()];
        assert_eq!(self.api.launch(self.kernel, 4, stream, &arguments), 0);
    }

    fn begin(&self) {
        let begun = call!(self.api, "cuStreamBeginCapture_v2", self.streams[0] => u64, 0 => u32);
        assert_eq!(begun, 0);
    }

    fn end(&self) -> Result<u64, i32> {
        let mut graph = 0u64;
        match call!(self.api, "cuStreamEndCapture", self.streams[0] => u64, &raw mut graph => *mut u64) {
            0 => Ok(graph),
            code => Err(code),
        }
    }

    fn wait(&self, stream: usize, event: usize) -> i32 {
        call!(self.api, "cuStreamWaitEvent", self.streams[stream] => u64, self.events[event] => u64, 0 => u32)
    }

    fn record(&self, event: usize, stream: usize) -> i32 {
        call!(self.api, "cuEventRecord", self.events[event] => u64, self.streams[stream] => u64)
    }

    fn instantiate(&self, graph: u64) -> u64 {
        let mut instance = 0u64;
        let made = call!(
            self.api, "cuGraphInstantiateWithFlags", &raw mut instance => *mut u64, graph => u64, 0 => u64,
        );
        assert_eq!(made, 0);
        instance
    }

    fn replay(&self, instance: u64) -> i32 {
        call!(self.api, "cuGraphLaunch", instance => u64, self.streams[1] => u64)
    }

    fn nodes(&self, graph: u64) -> Vec<u64> {
        let mut count = 0usize;
        let list = |to: *mut u64, count: &mut usize| {
            assert_eq!(
                call!(self.api, "cuGraphGetNodes", graph => u64, to => *mut u64, count => *mut usize),
                0
            );
        };
        list(ptr::null_mut(), &mut count);
        let mut nodes = vec![0u64; count];
        list(nodes.as_mut_ptr(), &mut count);
        nodes
    }
}

/// `CUDA_KERNEL_NODE_PARAMS`.
#[repr(C)]
struct KernelNode {
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    arguments: *const *const c_void,
    extra: u64,
    kernel: u64,
    context: u64,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
struct FillNode {
    to: u64,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_captures_a_fork_and_a_join() {
    let s = setup();
    s.begin();
    s.add(s.streams[0], 1);
    assert_eq!((s.record(0, 0), s.wait(1, 0)), (0, 0));
    s.add(s.streams[1], 10);
    s.add(s.streams[0], 100);
    assert_eq!((s.record(1, 1), s.wait(0, 1)), (0, 0));
    s.add(s.streams[0], 1000);
    let graph = s.end().unwrap();
    assert_eq!(s.api.words(s.buffer, 4), [1; 4], "a capture runs nothing");
    let nodes = s.nodes(graph);
    assert_eq!(nodes.len(), 4);
    let mut count = 0usize;
    let ahead = call!(
        s.api, "cuGraphNodeGetDependencies", nodes[3] => u64, ptr::null_mut() => *mut u64, &raw mut count => *mut usize,
    );
    assert_eq!((ahead, count), (0, 2));
    let instance = s.instantiate(graph);
    assert_eq!((s.replay(instance), s.replay(instance)), (0, 0));
    assert_eq!(s.api.words(s.buffer, 4), [1 + 2 * 1111; 4]);
    // Other parameters for one node.
    let value = 5u32;
    let arguments = [(&raw const s.buffer).cast::<c_void>(), (&raw const value).cast()];
    let node = KernelNode {
        function: s.kernel,
        grid: [1; 3],
        block: [2, 1, 1],
        shared: 0,
        arguments: arguments.as_ptr(),
        extra: 0,
        kernel: 0,
        context: 0,
    };
    let set = call!(
        s.api, "cuGraphExecKernelNodeSetParams_v2", instance => u64, nodes[3] => u64, &raw const node => *const KernelNode,
    );
    assert_eq!((set, s.replay(instance)), (0, 0));
    assert_eq!(s.api.words(s.buffer, 4), [2223 + 116, 2223 + 116, 2223 + 111, 2223 + 111]);
    // All parameters from another capture of the same topology, and none from one of another topology.
    s.begin();
    for value in [2, 3, 4, 5] {
        s.add(s.streams[0], value);
    }
    let other = s.end().unwrap();
    let mut result = [0u64; 3];
    let update = |graph: u64, result: &mut [u64; 3]| call!(s.api, "cuGraphExecUpdate_v2", instance => u64, graph => u64, result.as_mut_ptr() => *mut u64);
    assert_eq!((update(other, &mut result), s.replay(instance)), (0, 0));
    assert_eq!(s.api.words(s.buffer, 1), [2339 + 14]);
    s.begin();
    s.add(s.streams[0], 2);
    let short = s.end().unwrap();
    assert_eq!((update(short, &mut result), result[0] as u32), (GRAPH_UPDATE, 2));
    for graph in [graph, other, short] {
        assert_eq!(call!(s.api, "cuGraphDestroy", graph => u64), 0);
    }
    assert_eq!(s.replay(instance), 0, "an instance lives longer than its graph");
    assert_eq!(call!(s.api, "cuGraphExecDestroy", instance => u64), 0);
    assert_ne!(s.replay(instance), 0);
    assert_eq!(call!(s.api, "cuMemFree_v2", s.buffer => u64), 0);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_builds_a_graph() {
    let s = setup();
    let mut graph = 0u64;
    assert_eq!(call!(s.api, "cuGraphCreate", &raw mut graph => *mut u64, 0 => u32), 0);
    let value = 7u32;
    let arguments = [(&raw const s.buffer).cast::<c_void>(), (&raw const value).cast()];
    let kernel = KernelNode {
        function: s.kernel,
        grid: [1; 3],
        block: [4, 1, 1],
        shared: 0,
        arguments: arguments.as_ptr(),
        extra: 0,
        kernel: 0,
        context: 0,
    };
    let fill = FillNode { to: s.buffer, pitch: 0, value: 3, element: 4, width: 4, height: 1 };
    let (mut first, mut second, mut third) = (0u64, 0u64, 0u64);
    let made = call!(
        s.api, "cuGraphAddMemsetNode", &raw mut first => *mut u64, graph => u64, ptr::null() => *const u64, 0 => usize,
        &raw const fill => *const FillNode, 0 => u64,
    );
    assert_eq!(made, 0);
    let made = call!(
        s.api, "cuGraphAddKernelNode_v2", &raw mut second => *mut u64, graph => u64, ptr::null() => *const u64, 0 => usize,
        &raw const kernel => *const KernelNode,
    );
    assert_eq!(made, 0);
    let connected = call!(
        s.api, "cuGraphAddDependencies", graph => u64, &raw const first => *const u64, &raw const second => *const u64, 1 => usize,
    );
    assert_eq!(connected, 0);
    // A copy to the host: x, y, z, level, kind, host, device, array, context, pitch, height of both sides, then the extent.
    let result = [0u32; 4];
    let from = [0, 0, 0, 0, 2, 0, s.buffer, 0, 0, 16, 1];
    let to = [0, 0, 0, 0, 1, result.as_ptr() as u64, 0, 0, 0, 16, 1];
    let copy: Vec<u64> = [&from[..], &to[..], &[16, 1, 1]].concat();
    let made = call!(
        s.api, "cuGraphAddMemcpyNode", &raw mut third => *mut u64, graph => u64, &raw const second => *const u64, 1 => usize,
        copy.as_ptr() => *const u64, 0 => u64,
    );
    assert_eq!(made, 0);
    let instance = s.instantiate(graph);
    assert_eq!((s.replay(instance), s.replay(instance)), (0, 0));
    // SAFETY: the graph wrote it; the compiler does not know.
    assert_eq!(unsafe { ptr::read_volatile(&raw const result) }, [10; 4]);
    let off = call!(s.api, "cuGraphNodeSetEnabled", instance => u64, second => u64, 0 => u32);
    assert_eq!((off, s.replay(instance)), (0, 0));
    assert_eq!(s.api.words(s.buffer, 4), [3; 4]);
    // A cycle cannot be instantiated.
    let connected = call!(
        s.api, "cuGraphAddDependencies", graph => u64, &raw const third => *const u64, &raw const first => *const u64, 1 => usize,
    );
    assert_eq!(connected, 0);
    let mut none = 0u64;
    assert_ne!(
        call!(s.api, "cuGraphInstantiateWithFlags", &raw mut none => *mut u64, graph => u64, 0 => u64),
        0
    );
    assert_eq!(call!(s.api, "cuMemFree_v2", s.buffer => u64), 0);
}

/// The number of objects that were destroyed.
static DESTROYED: AtomicU32 = AtomicU32::new(0);

extern "C" fn destroy(data: *mut c_void) {
    assert_eq!(data as u64, 0x77);
    DESTROYED.fetch_add(1, Ordering::Relaxed);
}

/// By the names of the driver and of the runtime.
#[test]
#[ignore = "a program for `exec`"]
fn program_whose_graphs_keep_objects() {
    let driver = setup();
    let runtime = Api::open("libcudart.so.13");
    for (api, of) in [(&driver.api, "cu"), (&runtime, "cuda")] {
        let name = |rest: &str| format!("{of}{rest}");
        let destroyed = || DESTROYED.swap(0, Ordering::Relaxed);
        let create = |count: u32, flags: u32| {
            let mut object = 0u64;
            let code = call!(
                api, &name("UserObjectCreate"), &raw mut object => *mut u64, 0x77 => u64, destroy as *const () => *const (), count => u32,
                flags => u32,
            );
            (code, object)
        };
        let graph = || {
            let mut graph = 0u64;
            assert_eq!(call!(driver.api, "cuGraphCreate", &raw mut graph => *mut u64, 0 => u32), 0);
            graph
        };
        let give = |graph: u64, object: u64, count: u32, flags: u32| call!(api, &name("GraphRetainUserObject"), graph => u64, object => u64, count => u32, flags => u32);
        let take = |graph: u64, object: u64, count: u32| call!(api, &name("GraphReleaseUserObject"), graph => u64, object => u64, count => u32);
        let retain =
            |object: u64, count: u32| call!(api, &name("UserObjectRetain"), object => u64, count => u32);
        let release =
            |object: u64, count: u32| call!(api, &name("UserObjectRelease"), object => u64, count => u32);
        assert_eq!((create(1, 0).0, create(0, 1).0), (1, 1));
        // A graph, a copy of it and an instance keep an object of which the program has given its only reference.
        let (object, first) = (create(1, 1).1, graph());
        assert_eq!(give(first, object, 1, 1), 0);
        let mut copy = 0u64;
        assert_eq!(call!(driver.api, "cuGraphClone", &raw mut copy => *mut u64, first => u64), 0);
        let instance = driver.instantiate(first);
        for gone in [first, copy] {
            assert_eq!(call!(driver.api, "cuGraphDestroy", gone => u64), 0);
            assert_eq!(destroyed(), 0);
        }
        assert_eq!(call!(driver.api, "cuGraphExecDestroy", instance => u64), 0);
        assert_eq!(destroyed(), 1);
        // References of the program beside those of a graph.
        let (object, second) = (create(1, 1).1, graph());
        assert_eq!((retain(object, 2), give(second, object, 2, 0)), (0, 0));
        assert_eq!((take(second, object, 2), destroyed()), (0, 0));
        assert_eq!((release(object, 2), destroyed(), release(object, 1), destroyed()), (0, 0, 0, 1));
        assert_eq!(call!(driver.api, "cuGraphDestroy", second => u64), 0);
    }
}

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_captures_fail_as_they_should() {
    let s = setup();
    s.begin();
    s.add(s.streams[0], 1);
    assert_eq!((s.record(0, 0), s.wait(1, 0)), (0, 0));
    s.add(s.streams[1], 10);
    assert_eq!(s.end(), Err(CAPTURE_UNJOINED));
    s.begin();
    s.add(s.streams[0], 1);
    assert_eq!(call!(s.api, "cuStreamSynchronize", s.streams[0] => u64), CAPTURE_UNSUPPORTED);
    let mut status = 0i32;
    call!(s.api, "cuStreamIsCapturing", s.streams[0] => u64, &raw mut status => *mut i32);
    assert_eq!((status, s.end()), (2, Err(CAPTURE_INVALIDATED)));
    s.begin();
    let mut at = 0u64;
    assert_eq!(call!(s.api, "cuMemAlloc_v2", &raw mut at => *mut u64, 16 => usize), CAPTURE_UNSUPPORTED);
    assert_eq!(s.end(), Err(CAPTURE_INVALIDATED));
    assert_eq!(s.api.words(s.buffer, 4), [1; 4]);
    assert_eq!(call!(s.api, "cuMemFree_v2", s.buffer => u64), 0);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_a_violation_in_a_graph() {
    let s = setup();
    s.begin();
    let arguments = [(&raw const s.buffer).cast::<c_void>(), (&raw const s.buffer).cast()];
    assert_eq!(s.api.launch(s.kernel, 5, s.streams[0], &arguments), 0);
    let instance = s.instantiate(s.end().unwrap());
    assert_eq!(s.replay(instance), 700);
}

/// Kernels that set the value of a conditional node: to a word, and to a word that they count down.
const SETTERS: &str = "
.version 8.7
.target sm_120
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry set(.param .u64 handle, .param .u64 from)
{
    .reg .b64 h, p; .reg .b32 x;
    .param .b64 a; .param .b32 b;
    ld.param.u64 h, [handle];
    ld.param.u64 p, [from];
    ld.global.u32 x, [p];
    st.param.b64 [a], h;
    st.param.b32 [b], x;
    call.uni cudaGraphSetConditional, (a, b);
    ret;
}
.visible .entry turn(.param .u64 handle, .param .u64 at)
{
    .reg .b64 h, p; .reg .b32 x;
    .param .b64 a; .param .b32 b;
    ld.param.u64 h, [handle];
    ld.param.u64 p, [at];
    ld.global.u32 x, [p];
    sub.u32 x, x, 1;
    st.global.u32 [p], x;
    st.param.b64 [a], h;
    st.param.b32 [b], x;
    call.uni cudaGraphSetConditional, (a, b);
    ret;
}";

const NOT_SUPPORTED: i32 = 801;
const IF: u64 = 0;
const WHILE: u64 = 1;
const SWITCH: u64 = 2;

/// A program that builds graphs with conditional nodes. The first word of its buffer is what kernels read, the second one what bodies set,
/// the third one the number of turns.
struct Conditional {
    setup: Setup,
    context: u64,
    set: u64,
    turn: u64,
}

impl Conditional {
    fn new() -> Self {
        let setup = setup();
        let module = setup.api.module(SETTERS);
        let (set, turn) = (setup.api.kernel(module, "set"), setup.api.kernel(module, "turn"));
        let context = setup.api.enter();
        Self { setup, context, set, turn }
    }

    fn graph(&self) -> u64 {
        let mut graph = 0u64;
        assert_eq!(call!(self.setup.api, "cuGraphCreate", &raw mut graph => *mut u64, 0 => u32), 0);
        graph
    }

    fn handle(&self, graph: u64, default: Option<u32>) -> u64 {
        let mut handle = 0u64;
        let made = call!(
            self.setup.api, "cuGraphConditionalHandleCreate", &raw mut handle => *mut u64, graph => u64, self.context => u64,
            default.unwrap_or(0) => u32, u32::from(default.is_some()) => u32,
        );
        assert_eq!(made, 0);
        handle
    }

    /// Adds a conditional node; returns the status, the node and its bodies.
    fn node(&self, graph: u64, after: &[u64], handle: u64, (kind, size): (u64, u64)) -> (i32, u64, Vec<u64>) {
        let (mut node, mut parameters) = (0u64, [0u64; 32]);
        (parameters[0], parameters[2]) = (13, handle);
        (parameters[3], parameters[5]) = (kind | size << 32, self.context);
        let added = call!(
            self.setup.api, "cuGraphAddNode_v2", &raw mut node => *mut u64, graph => u64, after.as_ptr() => *const u64,
            0 => u64, after.len() => usize, parameters.as_mut_ptr() => *mut u64,
        );
        let list = parameters[4] as *const u64;
        // SAFETY: the node has the list as long as it lives.
        let bodies =
            if added == 0 { unsafe { std::slice::from_raw_parts(list, size as usize) } } else { &[] };
        (added, node, bodies.to_vec())
    }

    fn kernel(&self, graph: u64, after: &[u64], function: u64, (first, second): (u64, u64)) -> u64 {
        let mut node = 0u64;
        let arguments = [(&raw const first).cast::<c_void>(), (&raw const second).cast()];
        let (grid, block, arguments) = ([1; 3], [1; 3], arguments.as_ptr());
        let kernel =
            KernelNode { function, grid, block, shared: 0, arguments, extra: 0, kernel: 0, context: 0 };
        let added = call!(
            self.setup.api, "cuGraphAddKernelNode_v2", &raw mut node => *mut u64, graph => u64,
            after.as_ptr() => *const u64, after.len() => usize, &raw const kernel => *const KernelNode,
        );
        assert_eq!(added, 0);
        node
    }

    /// Adds a node that sets the second word.
    fn fill(&self, graph: u64, value: u32) {
        let mut node = 0u64;
        let fill = FillNode { to: self.setup.buffer + 4, pitch: 0, value, element: 4, width: 1, height: 1 };
        let added = call!(
            self.setup.api, "cuGraphAddMemsetNode", &raw mut node => *mut u64, graph => u64, ptr::null() => *const u64,
            0 => usize, &raw const fill => *const FillNode, 0 => u64,
        );
        assert_eq!(added, 0);
    }

    /// A graph whose node decides by the first word, with bodies that set the second one to 10, 11, ...
    fn decision(&self, default: Option<u32>, choice: (u64, u64)) -> (u64, u64, Vec<u64>) {
        let graph = self.graph();
        let handle = self.handle(graph, default);
        let after: Vec<u64> = match default {
            Some(_) => Vec::new(),
            None => vec![self.kernel(graph, &[], self.set, (handle, self.setup.buffer))],
        };
        let (added, node, bodies) = self.node(graph, &after, handle, choice);
        assert_eq!((added, bodies.len() as u64), (0, choice.1));
        for (n, body) in bodies.iter().enumerate() {
            self.fill(*body, 10 + n as u32);
        }
        (graph, node, bodies)
    }

    /// A loop that counts the first word down, and its turns in the third one.
    fn fill_loop(&self, body: u64, handle: u64) {
        let first = self.kernel(body, &[], self.turn, (handle, self.setup.buffer));
        self.kernel(body, &[first], self.setup.kernel, (self.setup.buffer + 8, 1));
    }

    /// Launches an instance with this first word; returns the second and the third one.
    fn launched(&self, instance: u64, value: u32) -> [u32; 2] {
        let words = [value, 0, 0];
        let from = words.as_ptr() as u64;
        assert_eq!(
            call!(self.setup.api, "cuMemcpyHtoD_v2", self.setup.buffer => u64, from => u64, 12 => usize),
            0
        );
        assert_eq!(self.setup.replay(instance), 0);
        let words = self.setup.api.words(self.setup.buffer, 3);
        [words[1], words[2]]
    }
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_conditional_nodes() {
    let c = Conditional::new();
    for (choice, expected) in
        [((IF, 1), vec![0, 10, 10]), ((IF, 2), vec![11, 10, 10]), ((SWITCH, 3), vec![10, 11, 12, 0])]
    {
        let (graph, _, _) = c.decision(None, choice);
        let instance = c.setup.instantiate(graph);
        let seen: Vec<u32> = (0..expected.len()).map(|n| c.launched(instance, n as u32)[0]).collect();
        assert_eq!(seen, expected);
    }
    for (default, expected) in [(0, 11), (1, 10)] {
        let (graph, _, _) = c.decision(Some(default), (IF, 2));
        let instance = c.setup.instantiate(graph);
        assert_eq!((c.launched(instance, 5)[0], c.launched(instance, 5)[0]), (expected, expected));
    }
    // A loop, in the body of another node; the handles are those of the outermost graph. The default is assigned at each launch.
    let graph = c.graph();
    let (outer, inner) = (c.handle(graph, Some(7)), c.handle(graph, Some(1)));
    let (_, _, bodies) = c.node(graph, &[], outer, (IF, 1));
    let (_, _, loops) = c.node(bodies[0], &[], inner, (WHILE, 1));
    c.fill_loop(loops[0], inner);
    let instance = c.setup.instantiate(graph);
    assert_eq!((c.launched(instance, 10)[1], c.launched(instance, 3)[1]), (10, 3));
    assert_eq!(call!(c.setup.api, "cuGraphDestroy", graph => u64), 0);
    assert_eq!(c.launched(instance, 4)[1], 4, "an instance lives longer than its graph");
    assert_eq!(call!(c.setup.api, "cuMemFree_v2", c.setup.buffer => u64), 0);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_captures_a_conditional_node() {
    let c = Conditional::new();
    let (s, stream) = (&c.setup, c.setup.streams[0]);
    s.begin();
    let launch = |function: u64, first: u64, second: u64| {
        let arguments = [(&raw const first).cast::<c_void>(), (&raw const second).cast()];
        assert_eq!(s.api.launch(function, 1, stream, &arguments), 0);
    };
    let info = || {
        let (mut status, mut graph, mut list, mut count) = (0i32, 0u64, ptr::null::<u64>(), 0usize);
        let told = call!(
            s.api, "cuStreamGetCaptureInfo_v2", stream => u64, &raw mut status => *mut i32, ptr::null_mut() => *mut u64,
            &raw mut graph => *mut u64, &raw mut list => *mut *const u64, &raw mut count => *mut usize,
        );
        assert_eq!((told, status), (0, 1));
        // SAFETY: the list is valid until the next call.
        let nodes =
            if count == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(list, count) }.to_vec() };
        (graph, nodes)
    };
    let handle = c.handle(info().0, None);
    launch(c.set, handle, s.buffer);
    let (graph, after) = info();
    assert_eq!(after.len(), 1);
    let (added, node, bodies) = c.node(graph, &after, handle, (WHILE, 1));
    assert_eq!(added, 0);
    let updated = call!(
        s.api, "cuStreamUpdateCaptureDependencies", stream => u64, &raw const node => *const u64, 1 => usize, 1 => u32,
    );
    assert_eq!(updated, 0);
    launch(s.kernel, s.buffer + 4, 20);
    let graph = s.end().unwrap();
    let begun = call!(
        s.api, "cuStreamBeginCaptureToGraph", stream => u64, bodies[0] => u64, ptr::null() => *const u64, 0 => u64, 0 => usize,
        0 => u32,
    );
    assert_eq!(begun, 0);
    launch(c.turn, handle, s.buffer);
    launch(s.kernel, s.buffer + 8, 1);
    assert_eq!(call!(s.api, "cuStreamEndCapture", stream => u64, 0 => u64), 0);
    assert_eq!((s.nodes(graph).len(), s.nodes(bodies[0]).len()), (3, 2));
    let instance = s.instantiate(graph);
    assert_eq!([0, 10, 2].map(|n| c.launched(instance, n)), [[20, 0], [20, 10], [20, 2]]);
    assert_eq!(call!(s.api, "cuMemFree_v2", s.buffer => u64), 0);
}

/// What CUDA refuses, as measured on an H200.
#[test]
#[ignore = "a program for `exec`"]
fn program_that_misuses_conditional_nodes() {
    let c = Conditional::new();
    let api = &c.setup.api;
    let instantiate = |graph: u64| {
        let mut instance = 0u64;
        let made = call!(
            api, "cuGraphInstantiateWithFlags", &raw mut instance => *mut u64, graph => u64, 0 => u64,
        );
        (made, instance)
    };
    let (graph, node, bodies) = c.decision(Some(1), (IF, 2));
    let (mut kind, mut place) = (0u32, 0u64);
    assert_eq!(call!(api, "cuGraphNodeGetType", node => u64, &raw mut kind => *mut u32), 0);
    assert_eq!((kind, c.setup.nodes(graph).len()), (13, 1));
    assert_eq!(call!(api, "cuGraphDestroy", bodies[0] => u64), 1);
    assert_eq!(call!(api, "cuGraphClone", &raw mut place => *mut u64, graph => u64), NOT_SUPPORTED);
    assert_eq!(instantiate(bodies[0]).0, NOT_SUPPORTED);
    let instance = c.setup.instantiate(graph);
    assert_eq!(instantiate(graph).0, NOT_SUPPORTED, "one instance at a time");
    let disabled = call!(api, "cuGraphNodeSetEnabled", instance => u64, node => u64, 0 => u32);
    assert_eq!((disabled, c.launched(instance, 0)[0]), (1, 10));
    // An update brings the bodies and the default of the other graph.
    let update = |graph: u64| {
        let mut result = [0u64; 3];
        let code = call!(
            api, "cuGraphExecUpdate_v2", instance => u64, graph => u64, result.as_mut_ptr() => *mut u64,
        );
        (code, result[0] as u32)
    };
    let (other, _, others) = c.decision(Some(0), (IF, 2));
    assert_eq!((update(other), c.launched(instance, 0)[0]), ((0, 0), 11));
    c.fill(others[1], 12);
    assert_eq!(update(other), (GRAPH_UPDATE, 2));
    assert_eq!(update(c.decision(Some(0), (SWITCH, 2)).0), (GRAPH_UPDATE, 6));
    assert_eq!(call!(api, "cuGraphExecDestroy", instance => u64), 0);
    assert_eq!(call!(api, "cuGraphExecDestroy", instantiate(graph).1 => u64), 0);
    // A handle has one node, and is used.
    let graph = c.graph();
    let handle = c.handle(graph, Some(0));
    assert_eq!(instantiate(graph).0, 1);
    assert_eq!([(IF, 3), (WHILE, 2), (SWITCH, 0)].map(|choice| c.node(graph, &[], handle, choice).0), [1; 3]);
    let (added, node, _) = c.node(graph, &[], handle, (IF, 1));
    assert_eq!((added, c.node(graph, &[], handle, (IF, 1)).0), (0, 1));
    assert_eq!(call!(api, "cuGraphDestroyNode", node => u64), 0);
    let (added, _, bodies) = c.node(graph, &[], handle, (IF, 1));
    assert_eq!(added, 0);
    // A body has no work of the host.
    extern "C" fn nothing(_: *mut c_void) {}
    let host = [nothing as *const () as u64, 0];
    let hosted = call!(
        api, "cuGraphAddHostNode", &raw mut place => *mut u64, bodies[0] => u64, ptr::null() => *const u64, 0 => usize,
        host.as_ptr() => *const u64,
    );
    assert_eq!((hosted, instantiate(graph).0), (0, 1));
    // Each graph has handles of its own.
    assert_eq!(c.node(c.graph(), &[], handle, (IF, 1)).0, 1);
    assert_eq!(call!(api, "cuMemFree_v2", c.setup.buffer => u64), 0);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_an_undefined_condition() {
    let c = Conditional::new();
    let graph = c.graph();
    let handle = c.handle(graph, None);
    let (_, _, bodies) = c.node(graph, &[], handle, (IF, 1));
    c.fill(bodies[0], 5);
    let instance = c.setup.instantiate(graph);
    // No launch has set it, though an earlier one of another graph has.
    let earlier = c.setup.instantiate(c.decision(None, (IF, 1)).0);
    assert_eq!((c.launched(earlier, 1)[0], c.launched(instance, 1)[0]), (10, 0));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_a_loop_without_end() {
    let c = Conditional::new();
    let graph = c.graph();
    let handle = c.handle(graph, Some(1));
    let (_, _, bodies) = c.node(graph, &[], handle, (WHILE, 1));
    // The kernel does not set the value.
    c.kernel(bodies[0], &[], c.setup.kernel, (c.setup.buffer, 0));
    assert_eq!(c.setup.replay(c.setup.instantiate(graph)), 702);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_a_loop_without_kernels() {
    let c = Conditional::new();
    let graph = c.graph();
    let handle = c.handle(graph, Some(1));
    let (_, _, bodies) = c.node(graph, &[], handle, (WHILE, 1));
    c.fill(bodies[0], 1);
    assert_eq!(c.setup.replay(c.setup.instantiate(graph)), 702);
}
