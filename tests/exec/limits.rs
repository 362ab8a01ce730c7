//! What CUDA refuses of a launch or a call, and the figures of occupancy, pools and limits that programs read.

use std::ffi::{c_int, c_void};

use crate::api::{Api, call};

/// `fixed` has 40 KiB of static shared memory, `free` none; `take` stores how many blocks of 1 MiB the heap gives, and `remainder` the remainder of 5 by
/// another number as nvcc computes it: with the carry of a subtraction.
const KERNELS: &str = "
.version 8.7
.target sm_120
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.extern .func (.param .b64 at) malloc(.param .b64 size);
.visible .entry fixed(.param .u64 to)
{
    .shared .align 16 .b8 room[40960];
    .reg .b32 %n;
    mov.u32 %n, 1;
    st.shared.u32 [room], %n;
    ret;
}
.visible .entry free(.param .u64 to) { ret; }
.visible .entry take(.param .u64 to)
{
    .reg .b64 %a, %p; .reg .b32 %n, %i; .reg .pred %got, %more;
    .param .b64 size; .param .b64 at;
    ld.param.u64 %a, [to];
    mov.u32 %n, 0;
    mov.u32 %i, 0;
AGAIN:
    st.param.b64 [size], 1048576;
    call (at), malloc, (size);
    ld.param.b64 %p, [at];
    setp.ne.u64 %got, %p, 0;
    @%got add.u32 %n, %n, 1;
    add.u32 %i, %i, 1;
    setp.lt.u32 %more, %i, 32;
    @%more bra AGAIN;
    st.global.u32 [%a], %n;
    ret;
}
.visible .entry borrow(.param .u64 to)
{
    .reg .b64 %a; .reg .b32 %d, %no, %yes;
    ld.param.u64 %a, [to];
    sub.cc.u32 %d, 5, 3;
    addc.u32 %no, 0, 0;
    sub.cc.u32 %d, 3, 5;
    addc.u32 %yes, 0, 0;
    st.global.u32 [%a], %no;
    st.global.u32 [%a+4], %yes;
    ret;
}";

const INVALID_VALUE: c_int = 1;
const INVALID_PITCH: c_int = 12;
const INVALID_COPY_KIND: c_int = 21;
const INVALID_HANDLE: c_int = 400;
const UNSUPPORTED_LIMIT: c_int = 215;
const TOO_LARGE: c_int = 720;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC: c_int = 8;

struct Setup {
    api: Api,
    module: u64,
    to: u64,
}

impl Setup {
    fn new() -> Self {
        let api = Api::open("libcuda.so.1");
        let module = api.module(KERNELS);
        let to = api.allocate(8);
        Self { api, module, to }
    }

    fn kernel(&self, name: &str) -> u64 {
        self.api.kernel(self.module, name)
    }

    /// Launches a kernel of one thread per CTA with dynamic shared memory.
    fn launch(&self, call: &str, name: &str, grid: u32, shared: u32) -> c_int {
        let arguments = [(&raw const self.to).cast::<c_void>()];
        call!(
            self.api, call, self.kernel(name) => u64, grid => u32, 1 => u32, 1 => u32, 32 => u32, 1 => u32, 1 => u32, shared => u32,
            0 => u64, arguments.as_ptr() => *const *const c_void, std::ptr::null() => *const c_void,
        )
    }

    fn set_dynamic(&self, name: &str, bytes: c_int) -> c_int {
        call!(self.api, "cuFuncSetAttribute", self.kernel(name) => u64, MAX_DYNAMIC => c_int, bytes => c_int)
    }

    fn dynamic(&self, name: &str) -> c_int {
        let mut bytes = 0;
        let kernel = self.kernel(name);
        let got = call!(self.api, "cuFuncGetAttribute", &raw mut bytes => *mut c_int, MAX_DYNAMIC => c_int, kernel => u64);
        assert_eq!(got, 0);
        bytes
    }

    fn blocks(&self, name: &str, threads: c_int, shared: usize) -> c_int {
        let (mut count, kernel) = (0, self.kernel(name));
        let asked = call!(
            self.api, "cuOccupancyMaxActiveBlocksPerMultiprocessor", &raw mut count => *mut c_int, kernel => u64, threads => c_int,
            shared => usize,
        );
        assert_eq!(asked, 0);
        count
    }
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_is_refused() {
    let s = Setup::new();
    const LAUNCH: &str = "cuLaunchKernel";
    // Beyond 48 KiB, static and dynamic, a program must ask; 99 KiB are the most.
    assert_eq!((s.dynamic("free"), s.dynamic("fixed")), (49_152, 8192));
    assert_eq!(
        (s.launch(LAUNCH, "free", 1, 49_152), s.launch(LAUNCH, "free", 1, 49_168)),
        (0, INVALID_VALUE)
    );
    assert_eq!((s.launch(LAUNCH, "fixed", 1, 8192), s.launch(LAUNCH, "fixed", 1, 8208)), (0, INVALID_VALUE));
    assert_eq!((s.set_dynamic("free", 99 << 10), s.set_dynamic("free", (99 << 10) + 1)), (0, INVALID_VALUE));
    assert_eq!((s.set_dynamic("fixed", 59 << 10), s.set_dynamic("fixed", 99 << 10)), (0, INVALID_VALUE));
    assert_eq!((s.dynamic("free"), s.dynamic("fixed")), (99 << 10, 59 << 10));
    assert_eq!((s.launch(LAUNCH, "free", 1, 99 << 10), s.launch(LAUNCH, "fixed", 1, 59 << 10)), (0, 0));
    assert_eq!(s.set_dynamic("free", -1), INVALID_VALUE);
    // Occupancy: 100 KiB of a multiprocessor, and 1 KiB of each block for the system.
    assert_eq!(
        (s.blocks("free", 32, 0), s.blocks("free", 1024, 0), s.blocks("free", 32, 40_000)),
        (24, 1, 2)
    );
    assert_eq!(
        (s.blocks("fixed", 32, 0), s.blocks("fixed", 32, 40_000), s.blocks("fixed", 32, 90_000)),
        (2, 1, 0)
    );
    let (mut most, kernel) = (0usize, s.kernel("fixed"));
    let asked = call!(
        s.api, "cuOccupancyAvailableDynamicSMemPerBlock", &raw mut most => *mut usize, kernel => u64, 2 => c_int, 32 => c_int,
    );
    assert_eq!((asked, most), (0, 50 * 1024 - 40_960));
    // A cooperative launch must be resident as a whole.
    let mut sms = 0;
    assert_eq!(call!(s.api, "cuDeviceGetAttribute", &raw mut sms => *mut c_int, 16 => c_int, 0 => c_int), 0);
    let fit = 2 * sms as u32;
    const COOPERATIVE: &str = "cuLaunchCooperativeKernel";
    assert_eq!(
        (s.launch(COOPERATIVE, "fixed", fit, 0), s.launch(COOPERATIVE, "fixed", fit + 1, 0)),
        (0, TOO_LARGE)
    );
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_sets_limits() {
    let s = Setup::new();
    let limit = |number: c_int| {
        let mut value = 0usize;
        assert_eq!(call!(s.api, "cuCtxGetLimit", &raw mut value => *mut usize, number => c_int), 0);
        value
    };
    let set = |number: c_int, value: usize| call!(s.api, "cuCtxSetLimit", number => c_int, value => usize);
    assert_eq!((limit(1), limit(2)), (8_650_752, 8 << 20));
    assert_eq!((s.launch("cuLaunchKernel", "take", 1, 0), s.api.words(s.to, 1)[0] < 9), (0, true));
    assert_eq!((set(1, 4 << 20), set(2, 2048 << 20)), (0, 0));
    assert_eq!((set(3, 1), set(99, 1)), (UNSUPPORTED_LIMIT, INVALID_VALUE));
    assert_eq!((limit(1), limit(2)), (4 << 20, 2048 << 20));
    assert_eq!((s.launch("cuLaunchKernel", "take", 1, 0), s.api.words(s.to, 1)), (0, vec![32]));
    assert_eq!((s.launch("cuLaunchKernel", "borrow", 1, 0), s.api.words(s.to, 2)), (0, vec![1, 0]));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_calls_wrongly() {
    let api = Api::open("libcudart.so.13");
    let (mut at, host) = (0u64, [0u8; 64]);
    assert_eq!(call!(api, "cudaMalloc", &raw mut at => *mut u64, 64 => usize), 0);
    let from = host.as_ptr() as u64;
    let copy = |pitch: usize, kind: c_int| {
        call!(
            api, "cudaMemcpy2D", at => u64, pitch => usize, from => u64, 16 => usize, 16 => usize, 2 => usize, kind => c_int,
        )
    };
    assert_eq!((copy(16, 1), copy(8, 1), copy(16, 9)), (0, INVALID_PITCH, INVALID_COPY_KIND));
    let fill = |pitch: usize| call!(api, "cudaMemset2D", at => u64, pitch => usize, 0 => c_int, 16 => usize, 2 => usize);
    assert_eq!((fill(16), fill(8)), (0, INVALID_VALUE));
    let plain = |kind: c_int| call!(api, "cudaMemcpy", at => u64, from => u64, 16 => usize, kind => c_int);
    assert_eq!((plain(1), plain(9)), (0, INVALID_COPY_KIND));
    // An event without times.
    let (mut one, mut other, mut ms) = (0u64, 0u64, 0f32);
    assert_eq!(call!(api, "cudaEventCreateWithFlags", &raw mut one => *mut u64, 2 => u32), 0);
    assert_eq!(call!(api, "cudaEventCreate", &raw mut other => *mut u64), 0);
    for event in [one, other] {
        assert_eq!(call!(api, "cudaEventRecord", event => u64, 0 => u64), 0);
    }
    let elapsed = |start: u64, end: u64, ms: &mut f32| call!(api, "cudaEventElapsedTime", std::ptr::from_mut(ms) => *mut f32, start => u64, end => u64);
    assert_eq!((elapsed(other, other, &mut ms), elapsed(one, other, &mut ms)), (0, INVALID_HANDLE));
    // A pool counts what comes from it alone.
    let mut pool = 0u64;
    assert_eq!(call!(api, "cudaDeviceGetDefaultMemPool", &raw mut pool => *mut u64, 0 => c_int), 0);
    let count = |number: c_int| {
        let mut bytes = 0u64;
        let got =
            call!(api, "cudaMemPoolGetAttribute", pool => u64, number => c_int, &raw mut bytes => *mut u64);
        assert_eq!(got, 0);
        bytes
    };
    let (mut held, zero) = (0u64, 0u64);
    assert_eq!((count(5), count(7), count(8)), (0, 0, 0));
    assert_eq!(call!(api, "cudaMallocAsync", &raw mut held => *mut u64, 4096 => usize, 0 => u64), 0);
    assert_eq!((count(7), count(8)), (4096, 4096));
    assert_eq!(call!(api, "cudaFreeAsync", held => u64, 0 => u64), 0);
    assert_eq!((count(7), count(8)), (0, 4096));
    let reset = |number: c_int| call!(api, "cudaMemPoolSetAttribute", pool => u64, number => c_int, &raw const zero => *const u64);
    assert_eq!((reset(8), count(8), reset(7)), (0, 0, INVALID_VALUE));
}
