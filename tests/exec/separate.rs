//! Programs of several objects, as nvcc registers them (`-rdc=true`): the linked code without PTX, and a list of the objects' PTX. And the
//! driver's own linker, `cuLink…`.

use std::ffi::{CString, c_int, c_void};

use crate::api::{Api, call};

const HEAD: &str = ".version 8.7\n.target sm_120\n.address_size 64\n";

/// Doubles the thread's number by a function of another object, and counts the calls.
const USER: &str =
    ".extern .func (.param .b32 r) twice(.param .b32 x);\n.extern .global .u32 calls;\n.global .u32 own = 5;
.visible .entry k(.param .u64 to) {
    .reg .b32 i, x; .reg .b64 p;
    .param .b32 a; .param .b32 b;
    mov.u32 i, %tid.x;
    st.param.b32 [a], i;
    call.uni (b), twice, (a);
    ld.param.b32 x, [b];
    ld.global.u32 i, [own];
    add.u32 x, x, i;
    ld.param.u64 p, [to];
    mov.u32 i, %tid.x;
    mad.wide.u32 p, i, 4, p;
    st.global.u32 [p], x;
    ret;
}\n";

const OWNER: &str = ".visible .global .u32 calls = 0;\n.global .u32 own = 70;
.visible .func (.param .b32 r) twice(.param .b32 x) {
    .reg .b32 y, z;
    ld.param.b32 y, [x];
    add.u32 y, y, y;
    st.param.b32 [r], y;
    red.global.add.u32 [calls], 1;
    ret;
}\n";

/// `__fatBinC_Wrapper_t` of version 2: an empty fatbin, and a list of objects.
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    code: *const c_void,
    objects: *const *const c_void,
}

/// The symbol by which the host knows the kernel.
static KERNEL: u8 = 0;

/// The status of a launch of the kernel of these objects, and what it stores.
fn launched(objects: &[&str]) -> (c_int, Vec<u32>) {
    let api = Api::open("libcudart.so.13");
    let texts: Vec<CString> =
        objects.iter().map(|text| CString::new(format!("{HEAD}{text}")).unwrap()).collect();
    let mut list: Vec<*const c_void> = texts.iter().map(|text| text.as_ptr().cast()).collect();
    list.push(std::ptr::null());
    let empty: [u32; 4] = [0xBA55_ED50, 0x0010_0001, 0, 0];
    let wrapper =
        Wrapper { magic: 0x4662_43B1, version: 2, code: empty.as_ptr().cast(), objects: list.as_ptr() };
    let register = api.function::<unsafe extern "C" fn(*const Wrapper) -> u64>("__cudaRegisterFatBinary");
    // SAFETY: the wrapper is as the header says, and outlives the launch.
    let binary = unsafe { register(&raw const wrapper) };
    let (name, none) = (CString::new("k").unwrap(), std::ptr::null::<c_void>());
    call!(
        api, "__cudaRegisterFunction", binary => u64, &raw const KERNEL => *const u8, none => *const c_void,
        name.as_ptr() => *const i8, -1 => c_int, none => *const c_void, none => *const c_void, none => *const c_void,
        none => *const c_void, none => *const c_void,
    );
    let mut to = 0u64;
    assert_eq!(call!(api, "cudaMalloc", &raw mut to => *mut u64, 128 => usize), 0);
    assert_eq!(call!(api, "cudaMemset", to => u64, 0 => c_int, 128 => usize), 0);
    let arguments = [(&raw const to).cast::<c_void>()];
    #[repr(C)]
    struct Dim3(u32, u32, u32);
    let status = call!(
        api, "cudaLaunchKernel", &raw const KERNEL => *const u8, Dim3(1, 1, 1) => Dim3, Dim3(32, 1, 1) => Dim3,
        arguments.as_ptr() => *const *const c_void, 0 => usize, 0 => u64,
    );
    let mut words = vec![0u32; 32];
    let at = words.as_mut_ptr() as u64;
    assert_eq!(call!(api, "cudaMemcpy", at => u64, to => u64, 128 => usize, 2 => c_int), 0);
    (status, words)
}

#[test]
#[ignore = "a program for `exec`"]
fn program_of_two_objects() {
    let (status, words) = launched(&[USER, OWNER]);
    assert_eq!((status, words[31]), (0, 67));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_two_definitions() {
    let (status, words) = launched(&[USER, OWNER, OWNER]);
    assert_eq!((status, words[31]), (801, 0));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_lacks_a_function() {
    let (status, words) = launched(&[USER, ".visible .global .u32 calls;\n"]);
    assert_eq!((status, words[31]), (801, 0));
}

/// Adds a text to a link.
fn add(api: &Api, link: u64, text: &str, name: &str) -> c_int {
    let (text, name) = (CString::new(format!("{HEAD}{text}")).unwrap(), CString::new(name).unwrap());
    call!(
        api, "cuLinkAddData_v2", link => u64, 1 => c_int, text.as_ptr() => *const i8, text.as_bytes_with_nul().len() => usize,
        name.as_ptr() => *const i8, 0 => u32, 0 => u64, 0 => u64,
    )
}

/// Each thread stores its number in the grid, and behind the grid's barrier adds that of the thread at the other end.
const GRID: &str = ".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
.extern .func (.param .b32 r) cudaCGGetSize(.param .b64 threads, .param .b64 grids, .param .b64 handle);
.extern .func (.param .b32 r) cudaCGGetRank(.param .b64 thread, .param .b64 grid, .param .b64 handle);
.visible .entry k(.param .u64 numbers, .param .u64 sums, .param .u32 scope) {
    .local .align 4 .b8 own[8];
    .reg .b32 r, x, n; .reg .b64 to, p, q, h;
    .param .b32 a; .param .b64 b; .param .b64 c; .param .b64 d; .param .b32 s; .param .b32 flags;
    ld.param.u32 r, [scope];
    st.param.b32 [a], r;
    call.uni (b), cudaCGGetIntrinsicHandle, (a);
    ld.param.b64 h, [b];
    mov.u64 p, own;
    cvta.local.u64 p, p;
    add.u64 q, p, 4;
    st.param.b64 [b], p;
    st.param.b64 [c], q;
    st.param.b64 [d], h;
    call.uni (s), cudaCGGetRank, (b, c, d);
    ld.u32 r, [p];
    st.param.b64 [b], p;
    st.param.b64 [c], 0;
    st.param.b64 [d], h;
    call.uni (s), cudaCGGetSize, (b, c, d);
    ld.u32 n, [p];
    ld.param.u64 p, [numbers];
    mad.wide.u32 q, r, 4, p;
    st.global.u32 [q], r;
    st.param.b64 [d], h;
    st.param.b32 [flags], 0;
    call.uni (s), cudaCGSynchronize, (d, flags);
    ld.param.b32 x, [s];
    sub.u32 n, n, r;
    sub.u32 n, n, 1;
    max.s32 n, n, 0;
    mad.wide.u32 q, n, 4, p;
    ld.global.u32 n, [q];
    mad.lo.u32 x, x, 1000, n;
    add.u32 x, x, r;
    ld.param.u64 p, [sums];
    mad.wide.u32 q, r, 4, p;
    st.global.u32 [q], x;
    ret;
}\n";

#[test]
#[ignore = "a program for `exec`"]
fn program_that_synchronizes_a_grid() {
    let api = Api::open("libcuda.so.1");
    api.enter();
    let (mut link, none) = (0u64, std::ptr::null::<c_void>());
    let made = call!(
        api, "cuLinkCreate_v2", 0 => u32, none => *const c_void, none => *const c_void, &raw mut link => *mut u64,
    );
    assert_eq!((made, add(&api, link, GRID, "grid.ptx")), (0, 0));
    let (mut image, mut len, mut module) = (0u64, 0usize, 0u64);
    assert_eq!(
        call!(api, "cuLinkComplete", link => u64, &raw mut image => *mut u64, &raw mut len => *mut usize),
        0
    );
    assert_eq!(call!(api, "cuModuleLoadData", &raw mut module => *mut u64, image => u64), 0);
    let kernel = api.kernel(module, "k");
    let (numbers, sums) = (api.allocate(4 * 3 * 64), api.allocate(4 * 3 * 64));
    for scope in [1, 2u32] {
        // Without a handle every thread is number 0, and nothing is synchronized; one thread shows the status.
        let (grid, threads) = if scope == 1 { (3, 64) } else { (1, 1) };
        let arguments =
            [(&raw const numbers).cast::<c_void>(), (&raw const sums).cast(), (&raw const scope).cast()];
        let status = call!(
            api, "cuLaunchCooperativeKernel", kernel => u64, grid => u32, 1 => u32, 1 => u32, threads => u32, 1 => u32,
            1 => u32, 0 => u32, 0 => u64, arguments.as_ptr() => *const *const c_void,
        );
        assert_eq!(status, 0);
        let expected = if scope == 1 { vec![191; 192] } else { vec![999_000] };
        assert_eq!(api.words(sums, expected.len()), expected);
    }
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_links() {
    let api = Api::open("libcuda.so.1");
    api.enter();
    let begin = || {
        let mut link = 0u64;
        let none = std::ptr::null::<c_void>();
        let made = call!(
            api, "cuLinkCreate_v2", 0 => u32, none => *const c_void, none => *const c_void, &raw mut link => *mut u64,
        );
        assert_eq!(made, 0);
        link
    };
    let complete = |link: u64, image: &mut u64, len: &mut usize| call!(api, "cuLinkComplete", link => u64, image => *mut u64, len => *mut usize);
    let link = begin();
    assert_eq!((add(&api, link, USER, "user.ptx"), add(&api, link, OWNER, "owner.ptx")), (0, 0));
    let (mut image, mut len, mut module) = (0, 0, 0u64);
    assert_eq!(complete(link, &mut image, &mut len), 0);
    assert!(image != 0 && len > 0);
    assert_eq!(call!(api, "cuModuleLoadData", &raw mut module => *mut u64, image => u64), 0);
    assert_eq!(call!(api, "cuLinkDestroy", link => u64), 0);
    let to = api.allocate(128);
    assert_eq!(api.launch(api.kernel(module, "k"), 32, 0, &[(&raw const to).cast()]), 0);
    assert_eq!(api.words(to, 32)[31], 67);
    // Two definitions, a text that is no PTX, machine code, and what is no link.
    let link = begin();
    for name in ["one.ptx", "two.ptx"] {
        assert_eq!(add(&api, link, OWNER, name), 0);
    }
    assert_eq!(complete(link, &mut image, &mut len), 218);
    let link = begin();
    assert_eq!(add(&api, link, ".visible .entry {", "wrong.ptx"), 218);
    assert_eq!((add(&api, 77, OWNER, "x.ptx"), complete(77, &mut image, &mut len)), (400, 400));
}
