//! Programs that ask for what changes no result, advise where memory should be, and ask what the GPU is.

use std::ffi::c_int;

use crate::api::{Api, call};

/// `cudaMemLocation` of the first GPU and of the host, by value.
const GPU: u64 = 1;
const HOST: u64 = 2;

#[test]
#[ignore = "a program for `exec`"]
fn program_that_advises() {
    let api = Api::open("libcudart.so.13");
    let mut at = 0u64;
    assert_eq!(call!(api, "cudaMallocManaged", &raw mut at => *mut u64, 8192 => usize, 1 => u32), 0);
    let advise = |len: usize, advice: c_int, place: u64| call!(api, "cudaMemAdvise", at => u64, len => usize, advice => c_int, place => u64);
    let ask = |len: usize, attribute: c_int| {
        let mut word = [7i32; 2];
        let size = if attribute == 3 { 8 } else { 4usize };
        let code = call!(
            api, "cudaMemRangeGetAttribute", word.as_mut_ptr() => *mut i32, size => usize, attribute => c_int, at => u64, len => usize,
        );
        assert_eq!(code, 0, "attribute {attribute}");
        word
    };
    assert_eq!((ask(8192, 1)[0], ask(8192, 2)[0], ask(8192, 4)[0], ask(8192, 3)), (0, -2, -2, [-2, -2]));
    assert_eq!((advise(4096, 1, GPU), advise(8192, 3, HOST), advise(8192, 5, GPU)), (0, 0, 0));
    let prefetch = call!(
        api, "cudaMemPrefetchAsync", at => u64, 8192 => usize, GPU => u64, 0 => u32, 0 => u64,
    );
    assert_eq!(prefetch, 0);
    // Half of the range is mostly read.
    assert_eq!((ask(4096, 1)[0], ask(8192, 1)[0]), (1, 0));
    assert_eq!((ask(8192, 2)[0], ask(8192, 5)[0], ask(8192, 4)[0], ask(8192, 7)[0]), (-1, 2, 0, 1));
    assert_eq!(ask(8192, 3), [0, -2]);
    let (mut one, mut two) = (7i32, 7i32);
    let (places, sizes, which) = ([&raw mut one, &raw mut two], [4usize; 2], [1i32, 2]);
    let code = call!(
        api, "cudaMemRangeGetAttributes", places.as_ptr() => *const *mut i32, sizes.as_ptr() => *const usize, which.as_ptr() => *const i32,
        2 => usize, at => u64, 4096 => usize,
    );
    // SAFETY: the library wrote them; the compiler does not know.
    let words = unsafe { ((&raw const one).read_volatile(), (&raw const two).read_volatile()) };
    assert_eq!((code, words), (0, (1, -1)));
    // Wrong: no advice, no such GPU, beyond the end, no managed memory, a size that does not fit.
    assert_eq!((advise(8192, 9, GPU), advise(8192, 3, GPU | 5 << 32), advise(8193, 1, GPU)), (1, 101, 1));
    let plain = api.allocate(64);
    let get = |at: u64, size: usize| {
        let mut words = [0i32; 4];
        call!(api, "cudaMemRangeGetAttribute", words.as_mut_ptr() => *mut i32, size => usize, 1 => c_int, at => u64, 64 => usize)
    };
    assert_eq!((get(plain, 4), get(at, 8), get(at, 4)), (1, 1, 0));
    assert_eq!((call!(api, "cudaFree", plain => u64), call!(api, "cudaFree", at => u64)), (0, 0));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_tunes() {
    let api = Api::open("libcudart.so.13");
    // A window for persistence, by attribute 1 of a stream.
    let (stream, window) = (api_stream(&api, -9), [0u64; 8]);
    let set = call!(api, "cudaStreamSetAttribute", stream => u64, 1 => c_int, window.as_ptr() => *const u64);
    assert_eq!((set, call!(api, "cudaCtxResetPersistingL2Cache")), (0, 0));
    assert_eq!((call!(api, "cudaProfilerStart"), call!(api, "cudaProfilerStop")), (0, 0));
    let mut priority = 7;
    assert_eq!(call!(api, "cudaStreamGetPriority", stream => u64, &raw mut priority => *mut c_int), 0);
    assert_eq!(priority, -5);
    let (mut used, zero) = (7u64, 0u64);
    let read =
        call!(api, "cudaDeviceGetGraphMemAttribute", 0 => c_int, 2 => c_int, &raw mut used => *mut u64);
    let reset = |attribute: c_int| call!(api, "cudaDeviceSetGraphMemAttribute", 0 => c_int, attribute => c_int, &raw const zero => *const u64);
    assert_eq!((read, used, reset(3), reset(2)), (0, 0, 0, 1));
}

/// A stream with a priority.
fn api_stream(api: &Api, priority: c_int) -> u64 {
    let mut stream = 0u64;
    let code = call!(
        api, "cudaStreamCreateWithPriority", &raw mut stream => *mut u64, 1 => u32, priority => c_int,
    );
    assert_eq!(code, 0);
    stream
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_asks_what_the_gpu_is() {
    let api = Api::open("libcudart.so.13");
    let (mut driver, mut runtime) = (0, 0);
    assert_eq!(call!(api, "cudaDriverGetVersion", &raw mut driver => *mut c_int), 0);
    assert_eq!(call!(api, "cudaRuntimeGetVersion", &raw mut runtime => *mut c_int), 0);
    assert_eq!((driver, runtime), (13_050, 13_050));
    let attribute = |number: c_int| {
        let mut value = -1;
        assert_eq!(
            call!(api, "cudaDeviceGetAttribute", &raw mut value => *mut c_int, number => c_int, 0 => c_int),
            0
        );
        value
    };
    // Multiprocessors, integrated, L2, copy engines, virtual memory, pageable memory.
    assert_eq!([16, 18, 38, 40, 102, 88].map(attribute), [48, 1, 24 << 20, 1, 1, 0]);
    let mut properties = vec![0u8; 2048];
    assert_eq!(call!(api, "cudaGetDeviceProperties", properties.as_mut_ptr() => *mut u8, 0 => c_int), 0);
    assert!(properties.starts_with(b"NVIDIA GB10\0"));
    let memory = u64::from_le_bytes(properties[288..296].try_into().unwrap());
    assert_eq!(memory, 122_570 << 20);
    let mut uuid = [0u8; 16];
    assert_eq!(call!(api, "cuDeviceGetUuid_v2", uuid.as_mut_ptr() => *mut u8, 0 => c_int), 0);
    assert_eq!(properties[256..272], uuid);
}
