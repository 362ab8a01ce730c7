//! Programs with several GPUs: each has its memory, its modules and its streams; peer access must be enabled.

use std::ffi::{CString, c_int, c_void};

use crate::api::{ADD, Api, call};

const INVALID_DEVICE: c_int = 101;
const INVALID_HANDLE: c_int = 400;

fn select(api: &Api, gpu: c_int) {
    assert_eq!(call!(api, "cudaSetDevice", gpu => c_int), 0);
}

fn current(api: &Api) -> c_int {
    let mut number = -1;
    assert_eq!(call!(api, "cudaGetDevice", &raw mut number => *mut c_int), 0);
    number
}

/// Memory of the current GPU with four words.
fn memory_of_four(api: &Api, word: u32) -> u64 {
    let mut at = 0u64;
    assert_eq!(call!(api, "cudaMalloc", &raw mut at => *mut u64, 16 => usize), 0);
    assert_eq!(call!(api, "cuMemsetD32_v2", at => u64, word => u32, 4 => usize), 0);
    at
}

/// A kernel of a module that is loaded for the current GPU.
fn kernel(api: &Api) -> u64 {
    let (text, name) = (CString::new(ADD).unwrap(), CString::new("add").unwrap());
    let (mut module, mut kernel) = (0u64, 0u64);
    let made =
        call!(api, "cuModuleLoadData", &raw mut module => *mut u64, text.as_ptr().cast() => *const c_void);
    let found = call!(api, "cuModuleGetFunction", &raw mut kernel => *mut u64, module => u64, name.as_ptr() => *const i8);
    assert_eq!((made, found), (0, 0));
    kernel
}

fn add(api: &Api, kernel: u64, stream: u64, at: u64) -> c_int {
    let value = 1u32;
    api.launch(kernel, 4, stream, &[(&raw const at).cast::<c_void>(), (&raw const value).cast()])
}

/// The GPU of an address, by both APIs.
fn owner(api: &Api, at: u64) -> c_int {
    // Type and device, then two pointers.
    let (mut attributes, mut ordinal) = ([0u32; 8], -1);
    assert_eq!(call!(api, "cudaPointerGetAttributes", attributes.as_mut_ptr() => *mut u32, at => u64), 0);
    assert_eq!(call!(api, "cuPointerGetAttribute", &raw mut ordinal => *mut c_int, 9 => c_int, at => u64), 0);
    assert_eq!((attributes[0], attributes[1] as c_int), (2, ordinal));
    ordinal
}

fn free_bytes(api: &Api) -> usize {
    let (mut free, mut total) = (0usize, 0usize);
    assert_eq!(call!(api, "cudaMemGetInfo", &raw mut free => *mut usize, &raw mut total => *mut usize), 0);
    free
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_two_gpus() {
    let api = Api::open("libcudart.so.13");
    let mut count = 0;
    assert_eq!(call!(api, "cudaGetDeviceCount", &raw mut count => *mut c_int), 0);
    assert_eq!((count, current(&api)), (2, 0));
    assert_eq!(call!(api, "cudaSetDevice", 2 => c_int), INVALID_DEVICE);

    let first = memory_of_four(&api, 4);
    let (before, kernel_of_first) = (free_bytes(&api), kernel(&api));
    select(&api, 1);
    assert_eq!((current(&api), free_bytes(&api)), (1, before + 16));
    let (second, kernel_of_second) = (memory_of_four(&api, 6), kernel(&api));
    assert_eq!((owner(&api, first), owner(&api, second)), (0, 1));
    // Another thread begins with the first GPU.
    std::thread::scope(|scope| assert_eq!(scope.spawn(|| current(&api)).join().unwrap(), 0));

    // Kernels and streams belong to their GPU.
    let stream_of_second = api.stream();
    let mut number = -1;
    assert_eq!(call!(api, "cudaStreamGetDevice", stream_of_second => u64, &raw mut number => *mut c_int), 0);
    assert_eq!(number, 1);
    assert_eq!(
        (add(&api, kernel_of_second, 0, second), add(&api, kernel_of_second, stream_of_second, second)),
        (0, 0)
    );
    select(&api, 0);
    assert_eq!(add(&api, kernel_of_first, 0, first), 0);
    assert_eq!(add(&api, kernel_of_first, stream_of_second, first), INVALID_HANDLE);
    assert_eq!(add(&api, kernel_of_second, 0, second), INVALID_HANDLE);
    assert_eq!((api.words(first, 4), api.words(second, 4)), (vec![5; 4], vec![8; 4]));

    // Copies between GPUs need no access.
    assert_eq!(
        call!(api, "cudaMemcpyPeer", first => u64, 0 => c_int, second => u64, 1 => c_int, 8 => usize),
        0
    );
    let code = call!(
        api, "cudaMemcpyPeerAsync", first + 8 => u64, 0 => c_int, second => u64, 1 => c_int, 8 => usize, stream_of_second => u64,
    );
    assert_eq!((code, api.words(first, 4)), (0, vec![8; 4]));
    assert_eq!(
        call!(api, "cudaMemcpyPeer", first => u64, 0 => c_int, second => u64, 5 => c_int, 8 => usize),
        INVALID_DEVICE
    );

    // With access, a kernel reaches the other's memory.
    let (mut can, mut rank) = (0, -1);
    assert_eq!(call!(api, "cudaDeviceCanAccessPeer", &raw mut can => *mut c_int, 0 => c_int, 1 => c_int), 0);
    assert_eq!(
        call!(api, "cudaDeviceGetP2PAttribute", &raw mut rank => *mut c_int, 2 => c_int, 0 => c_int, 1 => c_int),
        0
    );
    assert_eq!((can, rank), (1, 1));
    let enable =
        |peer: c_int, flags: u32| call!(api, "cudaDeviceEnablePeerAccess", peer => c_int, flags => u32);
    assert_eq!(
        (enable(0, 0), enable(2, 0), enable(1, 1), enable(1, 0), enable(1, 0)),
        (INVALID_DEVICE, INVALID_DEVICE, 1, 0, 704)
    );
    assert_eq!((add(&api, kernel_of_first, 0, second), api.words(second, 4)), (0, vec![9; 4]));
    let disable = |peer: c_int| call!(api, "cudaDeviceDisablePeerAccess", peer => c_int);
    assert_eq!((disable(1), disable(1)), (0, 705));

    // Two GPUs have two bus numbers and two UUIDs.
    let ids: Vec<_> = (0..2)
        .map(|gpu: c_int| {
            let (mut bus, mut uuid) = ([0u8; 16], [0u8; 16]);
            assert_eq!(call!(api, "cudaDeviceGetPCIBusId", bus.as_mut_ptr() => *mut u8, 16 => c_int, gpu => c_int), 0);
            assert_eq!(call!(api, "cuDeviceGetUuid_v2", uuid.as_mut_ptr() => *mut u8, gpu => c_int), 0);
            let mut found = -1;
            assert_eq!(call!(api, "cudaDeviceGetByPCIBusId", &raw mut found => *mut c_int, bus.as_ptr() => *const u8), 0);
            assert_eq!(found, gpu);
            (bus, uuid)
        })
        .collect();
    assert!(ids[0].0 != ids[1].0 && ids[0].1 != ids[1].1);
    for at in [first, second] {
        assert_eq!(call!(api, "cudaFree", at => u64), 0);
    }
    assert_eq!(free_bytes(&api), before + 16);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_without_peer_access() {
    let api = Api::open("libcudart.so.13");
    select(&api, 1);
    let second = memory_of_four(&api, 6);
    let mut pooled = 0u64;
    assert_eq!(call!(api, "cudaMallocAsync", &raw mut pooled => *mut u64, 16 => usize, 0 => u64), 0);
    assert_eq!(call!(api, "cuMemsetD32_v2", pooled => u64, 1 => u32, 4 => usize), 0);
    select(&api, 0);
    let kernel = kernel(&api);
    // With --keep-going, the launches return, and nothing is written.
    assert_eq!((add(&api, kernel, 0, second), api.words(second, 4)), (0, vec![6; 4]));
    // Access to memory of a pool is that of the pool.
    assert_eq!(call!(api, "cudaDeviceEnablePeerAccess", 1 => c_int, 0 => u32), 0);
    assert_eq!(add(&api, kernel, 0, pooled), 0);
    let mut pool = 0u64;
    assert_eq!(call!(api, "cudaDeviceGetDefaultMemPool", &raw mut pool => *mut u64, 1 => c_int), 0);
    let access = [1u32, 0, 3];
    assert_eq!(call!(api, "cudaMemPoolSetAccess", pool => u64, access.as_ptr() => *const u32, 1 => usize), 0);
    assert_eq!((add(&api, kernel, 0, pooled), api.words(pooled, 4)), (0, vec![2; 4]));
}

/// The status of `cuInit` and of `cudaMalloc`, and what `cudaGetDeviceCount` returns.
fn seen() -> (c_int, c_int, (c_int, c_int)) {
    let (driver, api) = (Api::open("libcuda.so.1"), Api::open("libcudart.so.13"));
    let (mut count, mut at) = (7, 0u64);
    let begun = call!(driver, "cuInit", 0 => u32);
    let counted = call!(api, "cudaGetDeviceCount", &raw mut count => *mut c_int);
    (begun, call!(api, "cudaMalloc", &raw mut at => *mut u64, 16 => usize), (counted, count))
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_sees_the_last_gpu_and_the_first() {
    assert_eq!(seen(), (0, 0, (0, 2)));
    let api = Api::open("libcudart.so.13");
    for (number, bus) in [(0, "0000:03:00.0"), (1, "0000:01:00.0")] {
        let (mut text, mut uuid, mut found) = ([0u8; 13], [0u8; 16], -1);
        let to = text.as_mut_ptr();
        assert_eq!(call!(api, "cudaDeviceGetPCIBusId", to => *mut u8, 13 => c_int, number => c_int), 0);
        assert_eq!(&text[..12], bus.as_bytes());
        assert_eq!(call!(api, "cuDeviceGetUuid", &raw mut uuid => *mut [u8; 16], number => c_int), 0);
        assert_eq!(uuid[15] + 1, bus.as_bytes()[6] - b'0');
        let id = CString::new(bus).unwrap();
        let place = &raw mut found;
        assert_eq!(call!(api, "cudaDeviceGetByPCIBusId", place => *mut c_int, id.as_ptr() => *const i8), 0);
        assert_eq!(found, number);
    }
    let (mut found, hidden) = (-1, CString::new("0000:02:00.0").unwrap());
    let place = &raw mut found;
    let hidden = call!(api, "cudaDeviceGetByPCIBusId", place => *mut c_int, hidden.as_ptr() => *const i8);
    assert_eq!((hidden, call!(api, "cudaSetDevice", 2 => c_int)), (INVALID_DEVICE, INVALID_DEVICE));
    select(&api, 1);
    let (at, kernel) = (memory_of_four(&api, 1), kernel(&api));
    assert_eq!((add(&api, kernel, 0, at), api.words(at, 4), owner(&api, at)), (0, vec![2; 4], 1));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_sees_no_gpu() {
    assert_eq!(seen(), (100, 100, (100, 0)));
    let api = Api::open("libcudart.so.13");
    let mut version = 0;
    assert_eq!(call!(api, "cudaDriverGetVersion", &raw mut version => *mut c_int), 0);
    assert_eq!(
        (version, call!(api, "cudaSetDevice", 0 => c_int), call!(api, "cuCtxSynchronize")),
        (13_050, 100, 3)
    );
    assert_eq!((call!(api, "cudaGetLastError"), call!(api, "cudaGetLastError")), (100, 0));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_sees_a_gpu_twice() {
    assert_eq!(seen(), (101, 101, (101, 0)));
}
