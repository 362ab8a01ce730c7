//! Programs that call without a context, from other threads, or after the context is destroyed: the expected answers are those of an H200.

use std::ffi::c_int;

use crate::api::{Api, call};

const EMPTY: &str = ".version 8.0 .target sm_80 .address_size 64 .visible .entry empty() { ret; }";

const NOT_INITIALIZED: c_int = 3;
const INVALID_CONTEXT: c_int = 201;
const DESTROYED: c_int = 709;

fn allocated(api: &Api) -> c_int {
    let mut at = 0u64;
    call!(api, "cuMemAlloc_v2", &raw mut at => *mut u64, 16 => usize)
}

fn current(api: &Api) -> u64 {
    let mut context = 0u64;
    assert_eq!(call!(api, "cuCtxGetCurrent", &raw mut context => *mut u64), 0);
    context
}

fn synchronized(api: &Api, stream: u64) -> c_int {
    call!(api, "cuStreamSynchronize", stream => u64)
}

#[test]
#[ignore = "a program for `exec`"]
fn program_of_contexts() {
    let api = Api::open("libcuda.so.1");
    assert_eq!(allocated(&api), NOT_INITIALIZED);
    assert_eq!(call!(api, "cuInit", 0 => u32), 0);
    assert_eq!((allocated(&api), current(&api)), (INVALID_CONTEXT, 0));
    let mut popped = 0u64;
    assert_eq!(call!(api, "cuCtxPopCurrent_v2", &raw mut popped => *mut u64), INVALID_CONTEXT);
    assert_eq!(call!(api, "cuCtxPushCurrent_v2", 0 => u64), 1);

    let primary = api.enter();
    let kernel = api.kernel(api.module(EMPTY), "empty");
    let stream = api.stream();
    assert_eq!((allocated(&api), current(&api)), (0, primary));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!((allocated(&api), current(&api)), (INVALID_CONTEXT, 0));
            // A stream that the program creates belongs to a context; the default stream is the current context's.
            assert_eq!((synchronized(&api, 0), synchronized(&api, stream)), (INVALID_CONTEXT, 0));
            assert_eq!(
                (api.launch(kernel, 1, 0, &[]), api.launch(kernel, 1, stream, &[])),
                (INVALID_CONTEXT, 0)
            );
        });
    });

    let mut made = 0u64;
    assert_eq!(call!(api, "cuCtxCreate_v2", &raw mut made => *mut u64, 0 => u32, 0 => c_int), 0);
    assert_eq!((made != primary, current(&api)), (true, made));
    assert_eq!(call!(api, "cuCtxDestroy_v2", made => u64), 0);
    assert_eq!((allocated(&api), current(&api)), (0, primary));
    assert_eq!(call!(api, "cuDevicePrimaryCtxReset_v2", 0 => c_int), 0);
    assert_eq!((allocated(&api), current(&api)), (DESTROYED, primary));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_of_both_apis() {
    let driver = Api::open("libcuda.so.1");
    let runtime = Api::open("libcudart.so.13");
    let mut at = 0u64;
    let mut count: c_int = 0;
    assert_eq!(call!(runtime, "cudaGetDeviceCount", &raw mut count => *mut c_int), 0);
    assert_eq!((count, current(&driver), allocated(&driver)), (1, 0, INVALID_CONTEXT));
    // An error of the driver API does not become an error of the runtime.
    assert_eq!(call!(runtime, "cudaGetLastError"), 0);
    assert_eq!(call!(runtime, "cudaMalloc", &raw mut at => *mut u64, 16 => usize), 0);
    assert!(current(&driver) != 0);
    assert_eq!(allocated(&driver), 0);
    assert_eq!(call!(runtime, "cudaDeviceReset"), 0);
    assert_eq!(allocated(&driver), DESTROYED);
    assert_eq!(call!(runtime, "cudaMalloc", &raw mut at => *mut u64, 16 => usize), 0);
    assert_eq!(allocated(&driver), 0);
}
