//! Programs whose kernels call functions: recursion with a limit of the stack, and pointers that outlive a launch.

use std::ffi::{CString, c_int, c_void};

use crate::api::{ADD, Api, call};
use crate::exec;

/// `down` stores the sum of the numbers up to `count` by recursion; `take` stores a function's address, and `use` calls the one that
/// it finds.
const KERNELS: &str = "
.version 8.7
.target sm_120
.address_size 64
.func (.param .b32 sum) sum_to(.param .b32 number)
{
    .reg .b32 %n, %m; .reg .pred %p;
    .param .b32 less;
    .param .b32 rest;
    ld.param.u32 %n, [number];
    setp.eq.u32 %p, %n, 0;
    st.param.b32 [sum], 0;
    @%p ret;
    sub.u32 %m, %n, 1;
    st.param.b32 [less], %m;
    call (rest), sum_to, (less);
    ld.param.b32 %m, [rest];
    add.u32 %m, %m, %n;
    st.param.b32 [sum], %m;
    ret;
}
.visible .entry down(.param .u64 to, .param .u32 count)
{
    .reg .b64 %a; .reg .b32 %n;
    .param .b32 number;
    .param .b32 sum;
    ld.param.u64 %a, [to];
    ld.param.u32 %n, [count];
    st.param.b32 [number], %n;
    call (sum), sum_to, (number);
    ld.param.b32 %n, [sum];
    st.global.u32 [%a], %n;
    ret;
}
.visible .entry take(.param .u64 to, .param .u32 count)
{
    .reg .b64 %a, %f;
    ld.param.u64 %a, [to];
    mov.u64 %f, sum_to;
    st.global.u64 [%a], %f;
    ret;
}
.visible .entry use(.param .u64 to, .param .u32 count)
{
    .reg .b64 %a, %f; .reg .b32 %n;
    .param .b32 number;
    .param .b32 sum;
    P: .callprototype (.param .b32 _) _ (.param .b32 _);
    ld.param.u64 %a, [to];
    ld.param.u32 %n, [count];
    ld.global.u64 %f, [%a];
    st.param.b32 [number], %n;
    call (sum), %f, (number), P;
    ld.param.b32 %n, [sum];
    st.global.u32 [%a], %n;
    ret;
}";

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

    fn launch(&self, name: &str, count: u32) -> c_int {
        let arguments = [(&raw const self.to).cast::<c_void>(), (&raw const count).cast()];
        self.api.launch(self.api.kernel(self.module, name), 1, 0, &arguments)
    }

    fn stack(&self) -> usize {
        let mut bytes = 0usize;
        assert_eq!(call!(self.api, "cuCtxGetLimit", &raw mut bytes => *mut usize, 0 => c_int), 0);
        bytes
    }

    fn set_stack(&self, bytes: usize) {
        assert_eq!(call!(self.api, "cuCtxSetLimit", 0 => c_int, bytes => usize), 0);
    }
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_recurses() {
    let s = Setup::new();
    assert_eq!((s.stack(), s.launch("down", 1000)), (1024, 0));
    assert_eq!(s.api.words(s.to, 1), [500_500]);
    s.set_stack(1 << 16);
    assert_eq!((s.stack(), s.launch("down", 2000)), (1 << 16, 0));
    assert_eq!(s.api.words(s.to, 1), [2_001_000]);
    assert_eq!((s.launch("take", 0), s.launch("use", 10)), (0, 0));
    assert_eq!(s.api.words(s.to, 1), [55]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_recurses_beyond_its_limit() {
    let s = Setup::new();
    s.set_stack(2048);
    // Each activation takes 8 bytes at least.
    assert_eq!(s.launch("down", 100), 0);
    assert_eq!(s.launch("down", 1000), 700);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_reads_logs() {
    let api = Api::open("libcuda.so.1");
    api.enter();
    let names = [3u32, 4, 5, 6];
    // The buffers hold what was there before.
    let load = |ptx: &str| {
        let (mut info, mut error, mut module) = ([b'x'; 64], [b'x'; 64], 0u64);
        let mut values = [info.as_mut_ptr() as u64, 64, error.as_mut_ptr() as u64, 64];
        let text = CString::new(ptx).unwrap();
        let status = call!(
            api, "cuModuleLoadDataEx", &raw mut module => *mut u64, text.as_ptr() as u64 => u64, 4 => u32, names.as_ptr() => *const u32,
            values.as_mut_ptr() as u64 => u64,
        );
        let shown =
            |bytes: &[u8]| String::from_utf8_lossy(bytes.split(|b| *b == 0).next().unwrap()).into_owned();
        (status, [shown(&info), shown(&error)], [values[1], values[3]])
    };
    assert_eq!(load(ADD), (0, [String::new(), String::new()], [0, 0]));
    let (status, [info, error], sizes) =
        load(".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k( {\n");
    assert_eq!((status, info.as_str(), sizes[0]), (218, "", 0));
    assert!(error.starts_with("a module cannot be loaded") && error.len() == 63, "{error}");
    assert_eq!(sizes[1], 64);
    // PTX has no such instruction: ptxas refuses the module, too.
    let (status, ..) = load(
        ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k() {\nfoo.u32 %r1;\nret;\n}\n",
    );
    assert_eq!(status, 218);
    // A link writes its logs when it begins.
    let (mut info, mut link) = ([b'x'; 8], 0u64);
    let values = [info.as_mut_ptr() as u64, 8];
    let begun = call!(
        api, "cuLinkCreate_v2", 2 => u32, names.as_ptr() => *const u32, values.as_ptr() as u64 => u64, &raw mut link => *mut u64,
    );
    assert_eq!((begun, info[0], values[1]), (0, 0, 0));
}

#[test]
fn logs_of_a_compilation_at_run_time_are_written() {
    let output = exec(&[], "calls::program_that_reads_logs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}
