//! A program whose launches are recorded.

use std::ffi::{CString, c_void};

use crate::api::{Api, call};

/// Adds `value` and a constant to the words that `list` points to, through a pointer in memory, and counts launches in a module variable.
const THROUGH: &str = "
.version 8.7
.target sm_120
.address_size 64
.global .align 4 .u32 counter = 5;
.const .align 4 .u32 more;
.visible .entry through(.param .u64 list, .param .u32 value)
{
    .reg .b64 p; .reg .b32 i, x, y, z;
    ld.param.u64 p, [list];
    ld.param.u32 y, [value];
    ld.global.u64 p, [p];
    mov.u32 i, %tid.x;
    mad.wide.u32 p, i, 4, p;
    ld.const.u32 z, [more];
    add.u32 y, y, z;
    st.global.u32 [p], y;
    ld.global.u32 x, [counter];
    add.u32 x, x, 1;
    st.global.u32 [counter], x;
    ret;
}";

#[test]
#[ignore = "a program for `exec`"]
fn program_with_pointers_in_memory() {
    let api = Api::open("libcuda.so.1");
    let module = api.module(THROUGH);
    let kernel = api.kernel(module, "through");
    let (name, mut more, mut len) = (CString::new("more").unwrap(), 0u64, 0usize);
    let found = call!(
        api, "cuModuleGetGlobal_v2", &raw mut more => *mut u64, &raw mut len => *mut usize, module => u64, name.as_ptr() => *const i8,
    );
    assert_eq!((found, len), (0, 4));
    // Only four of the eight words are written.
    let (words, list) = (api.allocate(32), api.allocate(8));
    assert_eq!(call!(api, "cuMemcpyHtoD_v2", list => u64, (&raw const words) => *const u64, 8 => usize), 0);
    for value in [10u32, 20, 30] {
        assert_eq!(call!(api, "cuMemsetD32_v2", more => u64, value + 1 => u32, 1 => usize), 0);
        let arguments = [(&raw const list).cast::<c_void>(), (&raw const value).cast()];
        assert_eq!(api.launch(kernel, 1, 0, &arguments), 0);
    }
    assert_eq!(api.words(words, 1), [61]);
    assert_eq!(call!(api, "cuMemFree_v2", words => u64), 0);
    assert_eq!(call!(api, "cuMemFree_v2", list => u64), 0);
}
