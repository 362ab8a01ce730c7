//! Programs that capture streams and build graphs.

use std::ffi::c_void;
use std::ptr;

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
