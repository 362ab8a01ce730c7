//! Programs that crash, fork or request too much.

use std::ffi::c_void;
use std::time::Instant;

use crate::api::{ADD, Api, call};

/// A kernel on a buffer of four words.
struct Setup {
    api: Api,
    kernel: u64,
    buffer: u64,
}

fn setup() -> Setup {
    let api = Api::open("libcuda.so.1");
    let kernel = api.kernel(api.module(ADD), "add");
    let buffer = api.allocate(16);
    assert_eq!(call!(api, "cuMemsetD32_v2", buffer => u64, 0 => u32, 4 => usize), 0);
    Setup { api, kernel, buffer }
}

impl Setup {
    fn add(&self, threads: u32) -> i32 {
        let value = 1u32;
        let arguments = [(&raw const self.buffer).cast::<c_void>(), (&raw const value).cast()];
        self.api.launch(self.kernel, threads, 0, &arguments)
    }

    fn free(&self) {
        assert_eq!(call!(self.api, "cuMemFree_v2", self.buffer => u64), 0);
    }
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_launches_often() {
    let s = setup();
    let count = std::env::var("EXEC_LAUNCHES").map_or(20_000, |n| n.parse().unwrap());
    let begun = Instant::now();
    for _ in 0..count {
        assert_eq!(s.add(4), 0);
    }
    println!("{:.1} us a launch", begun.elapsed().as_secs_f64() * 1e6 / f64::from(count));
    assert_eq!(s.api.words(s.buffer, 1), [count]);
    s.free();
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_violates_often() {
    let s = setup();
    for _ in 0..1000 {
        assert_eq!(s.add(5), 0);
    }
    s.free();
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_more_memory_than_the_machine() {
    let s = setup();
    let large = s.api.allocate(100 << 30);
    let mut at = 0u64;
    assert_eq!(
        call!(s.api, "cuMemAlloc_v2", &raw mut at => *mut u64, 100 << 30 => usize),
        2,
        "more than the GPU has"
    );
    let end = large + (100 << 30) - 16;
    assert_eq!(call!(s.api, "cuMemsetD32_v2", end => u64, 9 => u32, 4 => usize), 0);
    let (value, there) = (1u32, end);
    let arguments = [(&raw const there).cast::<c_void>(), (&raw const value).cast()];
    assert_eq!(s.api.launch(s.kernel, 4, 0, &arguments), 0);
    assert_eq!((s.api.words(end, 4), s.api.words(large, 1)), (vec![10; 4], vec![0]));
    assert_eq!(call!(s.api, "cuMemFree_v2", large => u64), 0);
    s.free();
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_many_threads() {
    let s = setup();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                s.api.enter();
                for _ in 0..100 {
                    let own = s.api.allocate(16);
                    assert_eq!(s.add(4), 0);
                    assert_eq!(call!(s.api, "cuMemFree_v2", own => u64), 0);
                }
            });
        }
    });
    assert_eq!(s.api.words(s.buffer, 4), [800; 4]);
    s.free();
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_forks() {
    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(code: i32) -> !;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    }
    let s = setup();
    // SAFETY: the child calls no function that may need another thread's lock, except the library's, which is what the test is about.
    let pid = unsafe { fork() };
    if pid == 0 {
        let code = s.add(4);
        // SAFETY: ends the child at once.
        unsafe { _exit(code) };
    }
    let mut status = 0;
    // SAFETY: the child belongs to this process.
    unsafe { waitpid(pid, &raw mut status, 0) };
    assert_eq!(status >> 8, 3, "CUDA does not survive a fork");
    assert_eq!(s.add(4), 0);
    s.free();
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_uses_freed_memory() {
    let s = setup();
    s.free();
    assert_eq!(s.add(4), 700);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_is_killed() {
    unsafe extern "C" {
        fn raise(signal: i32) -> i32;
    }
    let s = setup();
    assert_eq!(s.add(4), 0);
    // SAFETY: ends this process.
    unsafe { raise(9) };
}

/// A kernel that allocates memory and stores where, and one that frees what it finds there.
const HEAP: &str = "
.version 8.7
.target sm_120
.address_size 64
.extern .func (.param .b64 at) malloc(.param .b64 size);
.extern .func free(.param .b64 at);
.visible .entry take(.param .u64 place)
{
    .reg .b64 p, at; .reg .b32 x;
    .param .b64 size; .param .b64 made;
    ld.param.u64 p, [place];
    st.param.b64 [size], 64;
    call.uni (made), malloc, (size);
    ld.param.b64 at, [made];
    st.global.u64 [p], at;
    mov.u32 x, 7;
    st.u32 [at], x;
    ret;
}
.visible .entry give(.param .u64 place)
{
    .reg .b64 p, at; .reg .b32 x;
    .param .b64 what;
    ld.param.u64 p, [place];
    ld.global.u64 at, [p];
    ld.u32 x, [at];
    st.global.u32 [p+8], x;
    st.param.b64 [what], at;
    call.uni free, (what);
    ret;
}";

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_kernels_share_a_heap() {
    let api = Api::open("libcuda.so.1");
    let module = api.module(HEAP);
    let (take, give) = (api.kernel(module, "take"), api.kernel(module, "give"));
    let at = api.allocate(64);
    let arguments = [(&raw const at).cast::<c_void>()];
    for _ in 0..3 {
        assert_eq!((api.launch(take, 1, 0, &arguments), api.launch(give, 1, 0, &arguments)), (0, 0));
        assert_eq!(api.words(at + 8, 1), [7]);
    }
    // What was freed cannot be freed again.
    assert_ne!(api.launch(give, 1, 0, &arguments), 0);
}
