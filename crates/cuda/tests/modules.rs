//! A module that is unloaded leaves nothing behind: a program that loads, uses and unloads modules does not grow, and handles of what is
//! gone are invalid.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]
#![expect(unsafe_code, reason = "calls of exported functions")]

use std::collections::HashMap;
use std::ffi::CString;

use sm121probe_cuda::{Call, Status, entry_points};

const PTX: &str = "
.version 8.7
.target sm_120
.address_size 64
.visible .global .align 4 .u32 v[4096];
.visible .const .align 4 .u32 c = 3;
.global .attribute(.managed) .align 4 .u32 m = 5;
.visible .entry k()
{
    .reg .b32 x, y; .reg .b64 p;
    ld.const.u32 x, [c];
    ld.global.u32 y, [m];
    add.u32 x, x, y;
    mov.u64 p, v;
    st.global.u32 [p], x;
    ret;
}";

struct Library(HashMap<&'static str, Call>);

impl Library {
    fn call(&self, name: &str, words: &[u64]) -> Status {
        // SAFETY: the arguments are those of the header.
        Status(unsafe { self.0[name](words) })
    }

    fn made(&self, name: &str, more: &[u64]) -> u64 {
        let mut object = 0u64;
        let place = [&raw mut object as u64];
        assert_eq!(self.call(name, &[&place, more].concat()), Status::SUCCESS, "{name}");
        object
    }
}

/// The memory of this process, in pages.
fn pages() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn modules_that_are_unloaded_leave_nothing_behind() {
    let library = Library(entry_points().map(|(row, call)| (row.name, call)).collect());
    let text = CString::new(PTX).unwrap();
    assert_eq!(library.call("cuInit", &[]), Status::SUCCESS);
    library.call("cuCtxSetCurrent", &[library.made("cuDevicePrimaryCtxRetain", &[0])]);
    let mut gone = (0, 0, 0);
    let mut cycles = |count: usize| {
        for _ in 0..count {
            let module = library.made("cuModuleLoadData", &[text.as_ptr() as u64]);
            let kernel = library.made("cuModuleGetFunction", &[module, c"k".as_ptr() as u64]);
            for name in [c"c", c"v"] {
                library.made("cuModuleGetGlobal_v2", &[0, module, name.as_ptr() as u64]);
            }
            library.made("cuLibraryGetManaged", &[0, module, c"m".as_ptr() as u64]);
            let at = library.made("cuModuleGetGlobal_v2", &[0, module, c"v".as_ptr() as u64]);
            assert_eq!(
                library.call("cuLaunchKernel", &[kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]),
                Status::SUCCESS
            );
            let mut word = 0u32;
            assert_eq!(library.call("cuMemcpyDtoH_v2", &[&raw mut word as u64, at, 4]), Status::SUCCESS);
            assert_eq!(word, 8);
            // CUB chooses its algorithms by the architecture that the PTX is of, which need not be that of the GPU.
            assert_eq!(library.made("cuFuncGetAttribute", &[5, kernel]) as u32, 120);
            assert_eq!(library.made("cuFuncGetAttribute", &[6, kernel]) as u32, 121);
            assert_eq!(library.call("cuModuleUnload", &[module]), Status::SUCCESS);
            gone = (module, kernel, at);
        }
        pages()
    };
    let before = cycles(300);
    let after = cycles(1000);
    assert!(after < before + 512, "1000 cycles take {} pages", after - before);

    let (module, kernel, at) = gone;
    assert_eq!(library.call("cuModuleUnload", &[module]), Status::INVALID_HANDLE);
    assert_eq!(
        library.call("cuLaunchKernel", &[kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]),
        Status::INVALID_HANDLE
    );
    let mut word = 0u32;
    assert_eq!(library.call("cuMemcpyDtoH_v2", &[&raw mut word as u64, at, 4]), Status::INVALID_VALUE);
}
