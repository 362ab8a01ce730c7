//! Programs that use memory which they do not have, or more of it than there are addresses.

use std::ffi::c_void;
use std::ptr;

use crate::api::{ADD, Api, Extent, Memcpy3D, Pitched, call};

const LEN: usize = 64;

/// Calls every function that copies to or fills `bad`, and every one that copies from it; each must return an invalid value.
fn misuse(api: &Api, live: u64, bad: u64) {
    let mut host = [7u8; LEN];
    let h = host.as_mut_ptr() as u64;
    let stream = api.stream();
    let invalid = |name: &str, code: i32| assert_eq!(code, 1, "{name} {bad:#x}");
    for (name, to, from) in [
        ("cuMemcpyHtoD_v2", bad, h),
        ("cuMemcpyDtoH_v2", h, bad),
        ("cuMemcpyDtoD_v2", bad, live),
        ("cuMemcpyDtoD_v2", live, bad),
        ("cuMemcpy", bad, h),
        ("cuMemcpy", h, bad),
    ] {
        let copy = api.function::<unsafe extern "C" fn(u64, u64, usize) -> i32>(name);
        // SAFETY: the types are those of the header; the addresses are what the test is about.
        invalid(name, unsafe { copy(to, from, LEN) });
    }
    for (name, to, from) in [
        ("cuMemcpyHtoDAsync_v2", bad, h),
        ("cuMemcpyDtoHAsync_v2", h, bad),
        ("cuMemcpyDtoDAsync_v2", live, bad),
        ("cuMemcpyAsync", bad, h),
    ] {
        let copy = api.function::<unsafe extern "C" fn(u64, u64, usize, u64) -> i32>(name);
        // SAFETY: as above.
        invalid(name, unsafe { copy(to, from, LEN, stream) });
    }
    for (kind, to, from) in [(1, bad, h), (2, h, bad), (3, live, bad), (4, bad, h), (4, h, bad)] {
        invalid("cudaMemcpy", call!(api, "cudaMemcpy", to => u64, from => u64, LEN => usize, kind => i32));
        let code = call!(
            api, "cudaMemcpyAsync", to => u64, from => u64, LEN => usize, kind => i32, stream => u64,
        );
        invalid("cudaMemcpyAsync", code);
        let code = call!(
            api, "cudaMemcpy2D", to => u64, 16 => usize, from => u64, 16 => usize, 8 => usize, 4 => usize, kind => i32,
        );
        // The last row of a box ends before the end of what a copy of all bytes would use.
        assert!(code == 1 || bad == live + 32, "cudaMemcpy2D");
        let side = |at| Pitched(at, LEN, LEN, 1);
        let boxed = Memcpy3D {
            from_array: 0,
            from_at: [0; 3],
            from: side(from),
            to_array: 0,
            to_at: [0; 3],
            to: side(to),
            extent: Extent(LEN, 1, 1),
            kind: kind as u32,
        };
        invalid("cudaMemcpy3D", call!(api, "cudaMemcpy3D", &raw const boxed => *const Memcpy3D));
    }
    let peer = call!(api, "cudaMemcpyPeer", bad => u64, 0 => u64, live => u64, 0 => u64, LEN => usize);
    invalid("cudaMemcpyPeer", peer);
    let (to, from, len) = ([live, bad], [live, h], [4usize, LEN]);
    let batch = call!(
        api, "cuMemcpyBatchAsync_v2", to.as_ptr() => *const u64, from.as_ptr() => *const u64, len.as_ptr() => *const usize, 2 => usize,
        0 => u64, 0 => u64, 0 => usize, stream => u64,
    );
    invalid("cuMemcpyBatchAsync_v2", batch);
    invalid("cudaMemset", call!(api, "cudaMemset", bad => u64, 1 => i32, LEN => usize));
    invalid("cuMemsetD16_v2", call!(api, "cuMemsetD16_v2", bad => u64, 1 => u16, LEN / 2 => usize));
    invalid(
        "cuMemsetD32Async",
        call!(api, "cuMemsetD32Async", bad => u64, 1 => u32, LEN / 4 => usize, stream => u64),
    );
    let rows = call!(
        api, "cuMemsetD2D8_v2", bad => u64, LEN => usize, 1 => u8, LEN => usize, 2 => usize,
    );
    invalid("cuMemsetD2D8_v2", rows);
    let (mut graph, mut node, mut instance) = (0u64, 0u64, 0u64);
    assert_eq!(call!(api, "cuGraphCreate", &raw mut graph => *mut u64, 0 => u32), 0);
    let added = call!(
        api, "cudaGraphAddMemcpyNode1D", &raw mut node => *mut u64, graph => u64, ptr::null() => *const u64, 0 => usize, bad => u64,
        h => u64, LEN => usize, 1 => i32,
    );
    let made =
        call!(api, "cuGraphInstantiateWithFlags", &raw mut instance => *mut u64, graph => u64, 0 => u64);
    assert_eq!((added, made), (0, 0));
    invalid("cuGraphLaunch", call!(api, "cuGraphLaunch", instance => u64, stream => u64));
    assert_eq!(host, [7; LEN]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_copies_to_freed_memory() {
    let api = Api::open("libcuda.so.1");
    api.enter();
    let (live, gone) = (api.allocate(LEN), api.allocate(LEN));
    assert_eq!(call!(api, "cuMemFree_v2", gone => u64), 0);
    misuse(&api, live, gone);
    assert_eq!(call!(api, "cuMemFree_v2", live => u64), 0);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_copies_to_freed_shared_memory() {
    let api = Api::open("libcuda.so.1");
    api.enter();
    let live = api.allocate(LEN);
    let (mut managed, mut pinned) = (0u64, 0u64);
    assert_eq!(call!(api, "cuMemAllocManaged", &raw mut managed => *mut u64, LEN => usize, 1 => u32), 0);
    assert_eq!(call!(api, "cuMemHostAlloc", &raw mut pinned => *mut u64, LEN => usize, 0 => u32), 0);
    assert_eq!(
        (call!(api, "cuMemFree_v2", managed => u64), call!(api, "cuMemFreeHost", pinned => u64)),
        (0, 0)
    );
    misuse(&api, live, managed);
    misuse(&api, live, pinned);
    assert_eq!(call!(api, "cuMemFree_v2", live => u64), 0);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_copies_to_unknown_memory() {
    let api = Api::open("libcuda.so.1");
    api.enter();
    let live = api.allocate(LEN);
    // Nothing is there; past the end; a null pointer.
    for bad in [live + (1 << 40), live + 32, 8] {
        misuse(&api, live, bad);
    }
    // Memory of the host where the call says that it is the device's.
    let mut host = [7u8; LEN];
    let (h, other) = (host.as_mut_ptr() as u64, [9u8; LEN]);
    let o = other.as_ptr() as u64;
    assert_eq!(call!(api, "cuMemcpyHtoD_v2", h => u64, o => u64, LEN => usize), 1);
    assert_eq!(call!(api, "cudaMemcpy", h => u64, live => u64, LEN => usize, 1 => i32), 1);
    assert_eq!(call!(api, "cudaMemset", h => u64, 1 => i32, LEN => usize), 1);
    // What the address decides is a copy of the host.
    assert_eq!(call!(api, "cuMemcpy", h => u64, o => u64, LEN => usize), 0);
    assert_eq!(call!(api, "cudaMemcpy", h => u64, o => u64, LEN => usize, 4 => i32), 0);
    // SAFETY: the library wrote it; the compiler does not know.
    assert_eq!(unsafe { ptr::read_volatile(&raw const host) }, [9; LEN]);
    assert_eq!(call!(api, "cuMemFree_v2", live => u64), 0);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_allocates_134_terabytes() {
    const LARGE: usize = 64 << 30;
    let api = Api::open("libcuda.so.1");
    let kernel = api.kernel(api.module(ADD), "add");
    let add = |at: u64| {
        let value = 1u32;
        let arguments = [(&raw const at).cast::<c_void>(), (&raw const value).cast()];
        assert_eq!(call!(api, "cuMemsetD32_v2", at => u64, 4 => u32, 4 => usize), 0);
        assert_eq!(api.launch(kernel, 4, 0, &arguments), 0);
        assert_eq!(api.words(at, 4), [5; 4]);
    };
    let kept = api.allocate(16);
    for n in 0..2100 {
        let at = api.allocate(LARGE);
        if n % 300 == 0 {
            add(at);
        }
        assert_eq!(call!(api, "cuMemFree_v2", at => u64), 0);
    }
    for _ in 0..100 {
        let mut at = 0u64;
        assert_eq!(call!(api, "cuMemAllocManaged", &raw mut at => *mut u64, LARGE => usize, 1 => u32), 0);
        // SAFETY: managed memory, which the CPU may access.
        unsafe { (at as *mut u32).write_volatile(7) };
        assert_eq!(api.words(at, 1), [7]);
        assert_eq!(call!(api, "cuMemFree_v2", at => u64), 0);
    }
    add(kept);
    assert_eq!(call!(api, "cuMemFree_v2", kept => u64), 0);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_shares_memory_with_its_kernels() {
    let api = Api::open("libcuda.so.1");
    let kernel = api.kernel(api.module(ADD), "add");
    // More than one page, so that a kernel writes some of them.
    let mut registered = vec![1u32; 1 << 16].into_boxed_slice();
    let mut managed = 0u64;
    assert_eq!(call!(api, "cuMemAllocManaged", &raw mut managed => *mut u64, 1 << 30 => usize, 1 => u32), 0);
    let host = registered.as_mut_ptr() as u64;
    assert_eq!(call!(api, "cuMemHostRegister_v2", host => u64, 1 << 18 => usize, 0 => u32), 0);
    for base in [host, managed] {
        let (value, at) = (1u32, base + 8192);
        let arguments = [(&raw const at).cast::<c_void>(), (&raw const value).cast()];
        for round in 1..=3u32 {
            // SAFETY: the CPU may access it; the compiler does not know that kernels do.
            unsafe { (at as *mut u32).write_volatile(10 * round) };
            assert_eq!(api.launch(kernel, 2, 0, &arguments), 0);
            // SAFETY: as above.
            let words =
                unsafe { [(at as *mut u32).read_volatile(), (at as *mut u32).add(1).read_volatile()] };
            let untouched = u32::from(base == host);
            assert_eq!(words, [10 * round + 1, untouched + round]);
        }
    }
    assert_eq!(call!(api, "cuMemHostUnregister", host => u64), 0);
    assert_eq!(call!(api, "cuMemFree_v2", managed => u64), 0);
}
