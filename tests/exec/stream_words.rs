//! Programs whose streams have attributes, write words of memory, and wait for them.

use std::ffi::{c_int, c_void};

use crate::api::{ADD, Api, call};

const INVALID: c_int = 1;
const UNSUPPORTED: c_int = 801;

/// Writes or awaits a word of 4 bytes.
fn word(api: &Api, stream: u64, waits: bool, at: u64, value: u32, flags: u32) -> c_int {
    if waits {
        call!(api, "cuStreamWaitValue32_v2", stream => u64, at => u64, value => u32, flags => u32)
    } else {
        call!(api, "cuStreamWriteValue32_v2", stream => u64, at => u64, value => u32, flags => u32)
    }
}

/// The status and the first bytes of an attribute.
fn attribute(api: &Api, stream: u64, number: u32) -> (c_int, [u8; 4]) {
    let mut value = [0xABu8; 64];
    let status =
        call!(api, "cuStreamGetAttribute", stream => u64, number => u32, value.as_mut_ptr() => *mut u8);
    (status, [value[0], value[1], value[2], value[3]])
}

fn set(api: &Api, stream: u64, number: u32, word: i32) -> c_int {
    let mut value = [0u8; 64];
    value[..4].copy_from_slice(&word.to_le_bytes());
    call!(api, "cudaStreamSetAttribute", stream => u64, number => u32, value.as_ptr() => *const u8)
}

/// As on an H200.
fn attributes_are_stored(api: &Api) {
    let (one, other) = (api.stream(), api.stream());
    for stream in [one, 0] {
        assert_eq!(attribute(api, stream, 3), (0, [0xFF; 4]));
        assert_eq!(attribute(api, stream, 8), (0, [0; 4]));
        assert_eq!(attribute(api, stream, 9), (0, [0, 1, 0xAB, 0xAB]));
        assert_eq!(attribute(api, stream, 10), (0, [0; 4]));
        for unknown in [0, 2, 4, 7, 11, 23] {
            assert_eq!((attribute(api, stream, unknown).0, set(api, stream, unknown, 0)), (INVALID, INVALID));
        }
    }
    assert_eq!((set(api, one, 3, 2), set(api, one, 3, 77), set(api, one, 3, -1)), (0, INVALID, INVALID));
    assert_eq!((set(api, one, 8, -2), set(api, one, 10, 1), set(api, one, 10, 7)), (0, 0, INVALID));
    let mut priority = 7;
    assert_eq!(call!(api, "cuStreamGetPriority", one => u64, &raw mut priority => *mut c_int), 0);
    assert_eq!((priority, call!(api, "cuStreamCopyAttributes", other => u64, one => u64)), (-2, 0));
    assert_eq!((attribute(api, other, 3), attribute(api, other, 10)), ((0, [2, 0, 0, 0]), (0, [1, 0, 0, 0])));
    assert_eq!(attribute(api, other, 8), (0, (-2i32).to_le_bytes()));
    assert_eq!(call!(api, "cuStreamDestroy_v2", one => u64), 0);
    assert_eq!(
        (attribute(api, one, 3).0, call!(api, "cuStreamCopyAttributes", other => u64, one => u64)),
        (400, 400)
    );
}

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_streams_use_words() {
    let api = Api::open("libcudart.so.13");
    let kernel = api.kernel(api.module(ADD), "add");
    attributes_are_stored(&api);
    let (stream, at, value) = (api.stream(), api.allocate(64), 3u32);
    let mut can = [0; 2];
    for (n, place) in can.iter_mut().enumerate() {
        let number = 122 + n as c_int;
        assert_eq!(call!(api, "cuDeviceGetAttribute", place => *mut c_int, number => c_int, 0 => c_int), 0);
    }
    assert_eq!(can, [1, 1]);
    assert_eq!(call!(api, "cuMemsetD32_v2", at => u64, 5 => u32, 16 => usize), 0);
    assert_eq!(word(&api, stream, false, at, 9, 0), 0);
    assert_eq!(
        api.launch(kernel, 4, stream, &[(&raw const at).cast::<c_void>(), (&raw const value).cast()]),
        0
    );
    // Reached, also in cyclic order; equal; a bit of the value; a bit of neither.
    for (value, flags) in [(12, 0), (11, 0), (0xFFFF_FFFF, 0), (12, 1), (4, 2), (0, 3)] {
        assert_eq!(word(&api, stream, true, at, value, flags), 0, "{value} {flags}");
    }
    let wide = at + 16;
    let (written, awaited) = (
        call!(api, "cuStreamWriteValue64_v2", stream => u64, wide => u64, 1 << 40 => u64, 0 => u32),
        call!(api, "cuStreamWaitValue64", stream => u64, wide => u64, 1 << 40 => u64, 1 => u32),
    );
    assert_eq!((written, awaited, api.words(wide, 2)), (0, 0, vec![0, 256]));
    // What a GPU refuses: unknown flags, odd addresses, a null pointer.
    for (waits, at, flags) in [
        (false, at, 1),
        (false, at, 2),
        (false, at + 2, 0),
        (false, 0, 0),
        (true, at, 4),
        (true, at, 1 | 1 << 29),
        (true, at + 1, 0),
        (true, 0, 0),
    ] {
        assert_eq!(word(&api, stream, waits, at, 0, flags), INVALID, "{waits} {at:#x} {flags}");
    }
    // A batch, with a barrier between; and one that a graph runs twice.
    let operation = |kind: u64, at: u64, value: u64, flags: u64| [kind, at, value, flags, 0, 0];
    let list =
        [operation(2, at, 20, 0), operation(6, 0, 0, 0), operation(1, at, 20, 1), operation(5, wide, 7, 0)];
    let batch = |count: u32, flags: u32| {
        call!(
            api, "cuStreamBatchMemOp_v2", stream => u64, count => u32, list.as_ptr().cast() => *const u64, flags => u32,
        )
    };
    assert_eq!((batch(4, 0), batch(0, 0), batch(4, 1), api.words(wide, 1)), (0, INVALID, INVALID, vec![7]));
    let (mut graph, mut instance, mut kind, mut node, mut count) = (0u64, 0u64, 7u32, 0u64, 1usize);
    assert_eq!(call!(api, "cuStreamBeginCapture_v2", stream => u64, 0 => u32), 0);
    assert_eq!(
        (batch(4, 0), call!(api, "cuStreamEndCapture", stream => u64, &raw mut graph => *mut u64)),
        (0, 0)
    );
    assert_eq!(
        call!(api, "cuGraphGetNodes", graph => u64, &raw mut node => *mut u64, &raw mut count => *mut usize),
        0
    );
    assert_eq!(
        (count, call!(api, "cuGraphNodeGetType", node => u64, &raw mut kind => *mut u32), kind),
        (1, 0, 12)
    );
    assert_eq!(call!(api, "cuMemsetD32_v2", at => u64, 0 => u32, 1 => usize), 0);
    assert_eq!(
        call!(api, "cuGraphInstantiateWithFlags", &raw mut instance => *mut u64, graph => u64, 0 => u64),
        0
    );
    assert_eq!(
        (call!(api, "cuGraphLaunch", instance => u64, stream => u64), api.words(at, 1)),
        (0, vec![20])
    );
}

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_stream_waits_for_a_later_call() {
    let api = Api::open("libcuda.so.1");
    let kernel = api.kernel(api.module(ADD), "add");
    let (at, value) = (api.allocate(64), 3u32);
    assert_eq!(call!(api, "cuMemsetD32_v2", at => u64, 5 => u32, 16 => usize), 0);
    assert_eq!(api.launch(kernel, 4, 0, &[(&raw const at).cast::<c_void>(), (&raw const value).cast()]), 0);
    assert_eq!(
        (word(&api, 0, true, at, 9, 0), word(&api, 0, true, at, 8, 1 << 30)),
        (UNSUPPORTED, UNSUPPORTED)
    );
}

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_stream_writes_nowhere() {
    let api = Api::open("libcuda.so.1");
    api.enter();
    let at = api.allocate(64);
    assert_eq!(word(&api, 0, false, at + (1 << 30), 9, 0), INVALID);
}
