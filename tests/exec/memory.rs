//! Programs that use every kind of memory.

use std::ffi::{CString, c_void};
use std::ptr;

use crate::api::{ADD, Api, Extent, Memcpy3D, Pitched, call};

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_kernel_uses_registered_host_memory() {
    let api = Api::open("libcuda.so.1");
    let kernel = api.kernel(api.module(ADD), "add");
    let words = vec![1u32, 2, 3, 4].into_boxed_slice();
    let at = words.as_ptr() as u64;
    let register = |len: usize| call!(api, "cuMemHostRegister_v2", at => u64, len => usize, 0 => u32);
    assert_eq!((register(16), register(8)), (0, 712));
    let mut device = 0u64;
    let found = call!(api, "cuMemHostGetDevicePointer_v2", &raw mut device => *mut u64, at => u64, 0 => u32);
    assert_eq!((found, device), (0, at));
    let value = 10u32;
    let arguments = [(&raw const device).cast::<c_void>(), (&raw const value).cast()];
    assert_eq!(api.launch(kernel, 4, 0, &arguments), 0);
    // SAFETY: the kernel wrote it; the compiler does not know.
    assert_eq!(unsafe { ptr::read_volatile(words.as_ptr().cast::<[u32; 4]>()) }, [11, 12, 13, 14]);
    assert_eq!(call!(api, "cuMemHostUnregister", at => u64), 0);
    assert_eq!(call!(api, "cuMemHostUnregister", at => u64), 713);
    // Memory that is no longer registered is out of bounds.
    assert_eq!(api.launch(kernel, 4, 0, &arguments), 700);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_a_managed_variable() {
    let api = Api::open("libcuda.so.1");
    let (text, name, mut library, mut at, mut len) =
        (CString::new(ADD).unwrap(), CString::new("counter").unwrap(), 0u64, 0u64, 0usize);
    let none = ptr::null::<c_void>();
    api.enter();
    let loaded = call!(
        api, "cuLibraryLoadData", &raw mut library => *mut u64, text.as_ptr().cast() => *const c_void, none => *const c_void,
        none => *const c_void, 0 => u32, none => *const c_void, none => *const c_void, 0 => u32,
    );
    assert_eq!(loaded, 0);
    let found = call!(
        api, "cuLibraryGetManaged", &raw mut at => *mut u64, &raw mut len => *mut usize, library => u64, name.as_ptr() => *const i8,
    );
    assert_eq!((found, len), (0, 4));
    let counter = at as *mut u32;
    // SAFETY: managed memory, which the CPU may access.
    assert_eq!(unsafe { counter.read_volatile() }, 5);
    // SAFETY: as above.
    unsafe { counter.write_volatile(41) };
    let kernel = api.kernel(library, "count");
    assert_eq!(api.launch(kernel, 1, 0, &[]), 0);
    // SAFETY: as above.
    assert_eq!(unsafe { counter.read_volatile() }, 42);
}

fn boxes(library: &str) {
    let api = Api::open(library);
    let (mut there, extent) = (Pitched(0, 0, 0, 0), Extent(4, 3, 2));
    assert_eq!(call!(api, "cudaMalloc3D", &raw mut there => *mut Pitched, extent => Extent), 0);
    assert!(there.1 >= 4 && there.3 == 3);
    assert_eq!(call!(api, "cudaMemset3D", there => Pitched, 7 => i32, extent => Extent), 0);
    let host: Vec<u8> = (0..24).collect();
    let mut back = vec![0u8; 24];
    // A box of 2 bytes, 2 rows and 2 slices, from (1, 1, 0) of the host array to the origin of the device array.
    let mut copy = Memcpy3D {
        from_array: 0,
        from_at: [1, 1, 0],
        from: Pitched(host.as_ptr() as u64, 4, 4, 3),
        to_array: 0,
        to_at: [0; 3],
        to: there,
        extent: Extent(2, 2, 2),
        kind: 1,
    };
    assert_eq!(call!(api, "cudaMemcpy3D", &raw const copy => *const Memcpy3D), 0);
    copy = Memcpy3D {
        from: there,
        from_at: [0; 3],
        to: Pitched(back.as_mut_ptr() as u64, 4, 4, 3),
        extent,
        kind: 2,
        ..copy
    };
    assert_eq!(call!(api, "cudaMemcpy3D", &raw const copy => *const Memcpy3D), 0);
    let slice = |a: u8| [[a, a + 1, 7, 7], [a + 4, a + 5, 7, 7], [7; 4]].concat();
    assert_eq!(back, [slice(5), slice(17)].concat());
    let mut version = 0i32;
    assert_eq!(call!(api, "cudaRuntimeGetVersion", &raw mut version => *mut i32), 0);
    assert_eq!(version / 1000, if library.ends_with("12") { 12 } else { 13 });
    // Four arguments in CUDA 12, five in CUDA 13.
    let (mut graph, mut one, mut other) = (0u64, 0u64, 0u64);
    assert_eq!(call!(api, "cudaGraphCreate", &raw mut graph => *mut u64, 0 => u32), 0);
    for node in [&raw mut one, &raw mut other] {
        let made = call!(api, "cudaGraphAddEmptyNode", node => *mut u64, graph => u64, ptr::null() => *const u64, 0 => usize);
        assert_eq!(made, 0);
    }
    let connected = if version < 13_000 {
        call!(
            api, "cudaGraphAddDependencies", graph => u64, &raw const one => *const u64, &raw const other => *const u64, 1 => usize,
        )
    } else {
        call!(
            api, "cudaGraphAddDependencies", graph => u64, &raw const one => *const u64, &raw const other => *const u64,
            ptr::null() => *const c_void, 1 => usize,
        )
    };
    let mut roots = 0usize;
    let listed = call!(
        api, "cudaGraphGetRootNodes", graph => u64, ptr::null_mut() => *mut u64, &raw mut roots => *mut usize,
    );
    assert_eq!((connected, listed, roots), (0, 0, 1));
    assert_eq!(call!(api, "cudaFree", there.0 => u64), 0);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_of_cuda_12_that_copies_boxes() {
    boxes("libcudart.so.12");
}

#[test]
#[ignore = "a program for `exec`"]
fn program_of_cuda_13_that_copies_boxes() {
    boxes("libcudart.so.13");
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_asks_for_functions_pools_and_peers() {
    let api = Api::open("libcuda.so.1");
    assert_eq!(call!(api, "cuInit", 0 => u32), 0);
    let ask = |name: &str, version: i32| {
        let (text, mut at, mut found) = (CString::new(name).unwrap(), 0u64, -1i32);
        let code = call!(
            api, "cuGetProcAddress_v2", text.as_ptr() => *const i8, &raw mut at => *mut u64, version => i32, 0 => u64,
            &raw mut found => *mut i32,
        );
        (code, at, found)
    };
    let (new, old) = (ask("cuStreamGetCaptureInfo", 13_000), ask("cuStreamGetCaptureInfo", 12_000));
    assert!(new.0 == 0 && old.0 == 0 && new.1 != old.1);
    assert_eq!(ask("cuNothing", 13_000), (500, 0, 1));
    let (mut pool, mut value, mut room) = (0u64, 0u64, 1 << 30u64);
    assert_eq!(call!(api, "cuDeviceGetDefaultMemPool", &raw mut pool => *mut u64, 0 => i32), 0);
    let set =
        call!(api, "cuMemPoolSetAttribute", pool => u64, 4 => i32, (&raw mut room).cast() => *mut c_void);
    let got =
        call!(api, "cuMemPoolGetAttribute", pool => u64, 4 => i32, (&raw mut value).cast() => *mut c_void);
    assert_eq!((set, got, value), (0, 0, 1 << 30));
    // An attribute of type int must not write the following word.
    let mut pair = [9i32, 9];
    assert_eq!(
        call!(api, "cuMemPoolGetAttribute", pool => u64, 1 => i32, pair.as_mut_ptr().cast() => *mut c_void),
        0
    );
    assert_eq!(pair, [1, 9]);
    let mut can = 7i32;
    assert_eq!(call!(api, "cuDeviceCanAccessPeer", &raw mut can => *mut i32, 0 => i32, 0 => i32), 0);
    assert_eq!(can, 0);
    assert_eq!(call!(api, "cuDeviceCanAccessPeer", &raw mut can => *mut i32, 0 => i32, 1 => i32), 101);
    // CUDA arrays are refused.
    assert_eq!(call!(api, "cuIpcGetMemHandle", &raw mut pool => *mut u64, 0 => u64), 801);
}
