//! Programs that read back what nothing has defined.

use std::ffi::c_void;

use crate::api::{ADD, Api, call};

/// Kernels that store what they compute, what they move, and an atomic sum of what another one left in shared memory.
const KERNELS: &str = "
.version 8.7
.target sm_120
.address_size 64
.visible .entry twice(.param .u64 to, .param .u64 from)
{
    .reg .b64 %p<3>; .reg .b32 %r<4>;
    ld.param.u64 %p1, [to];
    ld.param.u64 %p2, [from];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %p1, %r0, 4, %p1;
    mad.wide.u32 %p2, %r0, 4, %p2;
    ld.global.u32 %r1, [%p2];
    add.u32 %r2, %r1, %r1;
    st.global.u32 [%p1], %r2;
    ret;
}
.visible .entry move(.param .u64 to, .param .u64 from)
{
    .reg .b64 %p<3>; .reg .b32 %r<4>;
    ld.param.u64 %p1, [to];
    ld.param.u64 %p2, [from];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %p1, %r0, 8, %p1;
    mad.wide.u32 %p2, %r0, 8, %p2;
    ld.global.v2.u32 {%r1, %r2}, [%p2];
    st.global.v2.u32 [%p1], {%r1, %r2};
    ret;
}
.visible .entry fields(.param .u64 to, .param .u64 from)
{
    .reg .b64 %p<3>; .reg .b32 %r<4>;
    ld.param.u64 %p1, [to];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %p1, %r0, 8, %p1;
    st.global.u8 [%p1], %r0;
    st.global.u32 [%p1+4], %r0;
    ret;
}
.visible .entry sum(.param .u64 to, .param .u64 from)
{
    .reg .b64 %p<3>; .reg .b32 %r<4>;
    .shared .align 4 .b32 words[32];
    ld.param.u64 %p1, [to];
    ld.shared.u32 %r1, [words];
    atom.global.add.u32 %r2, [%p1], %r1;
    ret;
}";

struct Setup {
    api: Api,
    module: u64,
}

impl Setup {
    fn new() -> Self {
        let api = Api::open("libcuda.so.1");
        let module = api.module(KERNELS);
        Self { api, module }
    }

    fn run(&self, name: &str, grid: u32, threads: u32, to: u64, from: u64) {
        let kernel = self.api.kernel(self.module, name);
        let arguments = [(&raw const to).cast::<c_void>(), (&raw const from).cast()];
        let code = call!(
            self.api, "cuLaunchKernel", kernel => u64, grid => u32, 1 => u32, 1 => u32, threads => u32, 1 => u32, 1 => u32, 0 => u32,
            0 => u64, arguments.as_ptr() => *const *const c_void, std::ptr::null() => *const c_void,
        );
        assert_eq!(code, 0);
    }

    fn fill(&self, at: u64, words: &[u32]) {
        let copied = call!(self.api, "cuMemcpyHtoD_v2", at => u64, words.as_ptr() => *const u32, words.len() * 4 => usize);
        assert_eq!(copied, 0);
    }

    fn free(&self, all: &[u64]) {
        all.iter().for_each(|at| assert_eq!(call!(self.api, "cuMemFree_v2", *at => u64), 0));
    }
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_reads_what_a_kernel_computed_from_nothing() {
    let s = Setup::new();
    let (x, y) = (s.api.allocate(512), s.api.allocate(512));
    s.fill(x, &[1; 16]);
    s.run("twice", 1, 64, y, x);
    // 16 words are defined, 48 depend on what nothing wrote, 64 were never written.
    assert_eq!(s.api.words(y, 128)[..16], [2; 16]);
    s.free(&[x, y]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_moves_undefined_bytes_before_it_reads_them() {
    let s = Setup::new();
    let (x, y, z) = (s.api.allocate(256), s.api.allocate(256), s.api.allocate(1024));
    s.fill(z, &[1; 256]);
    s.run("twice", 1, 64, y, x);
    assert_eq!(call!(s.api, "cuMemcpyDtoD_v2", z + 512 => u64, y => u64, 256 => usize), 0);
    s.free(&[x, y]);
    let mut rows = [0u8; 64];
    // Four rows of 16 bytes at a distance of 64.
    let copied = call!(
        s.api, "cudaMemcpy2D", rows.as_mut_ptr() => *mut u8, 16 => usize, z + 512 => u64, 64 => usize, 16 => usize, 4 => usize, 2 => i32,
    );
    assert_eq!(copied, 0);
    s.free(&[z]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_kernel_moves_data_that_nothing_wrote() {
    let s = Setup::new();
    let (x, y) = (s.api.allocate(256), s.api.allocate(256));
    s.fill(x, &[1; 32]);
    s.run("move", 1, 32, y, x);
    s.api.words(y, 64);
    s.free(&[x, y]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_reads_what_nothing_wrote() {
    let s = Setup::new();
    let (x, y) = (s.api.allocate(256), s.api.allocate(256));
    s.fill(x, &[1; 64]);
    s.run("twice", 1, 64, x, x);
    s.api.words(y, 64);
    s.free(&[x, y]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_looks_at_memory_before_it_fills_it() {
    let s = Setup::new();
    let (x, y) = (s.api.allocate(256), s.api.allocate(256));
    s.fill(x, &[1; 64]);
    s.run("twice", 1, 64, x, x);
    s.api.words(y, 64);
    s.fill(y, &[1; 64]);
    s.run("twice", 1, 64, y, x);
    s.free(&[x, y]);
}

/// The result is read too early: a kernel writes it later.
#[test]
#[ignore = "a program for `exec`"]
fn program_that_reads_a_result_before_it_is_there() {
    let s = Setup::new();
    let (x, y) = (s.api.allocate(256), s.api.allocate(256));
    s.fill(x, &[1; 64]);
    s.run("twice", 1, 64, x, x);
    s.api.words(y, 64);
    s.run("move", 1, 32, y, x);
    s.free(&[x, y]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_sums_what_nothing_wrote() {
    let s = Setup::new();
    let x = s.api.allocate(4);
    s.fill(x, &[1]);
    s.run("sum", 2, 1, x, x);
    s.api.words(x, 1);
    s.free(&[x]);
}

/// Structs with padding, rows with ends, buffers that are used in part.
#[test]
#[ignore = "a program for `exec`"]
fn program_with_padding() {
    let s = Setup::new();
    let (x, y, pitched, part) =
        (s.api.allocate(256), s.api.allocate(256), s.api.allocate(1024), s.api.allocate(4096));
    s.run("fields", 1, 32, x, x);
    s.run("move", 1, 32, y, x);
    let words = s.api.words(y, 64);
    assert!((0..32).all(|n| words[2 * n] & 0xFF == n as u32 && words[2 * n + 1] == n as u32));
    let rows = [3u32; 32];
    for (to, to_pitch, from, from_pitch, kind) in
        [(pitched, 512, rows.as_ptr() as u64, 64, 1), (rows.as_ptr() as u64, 64, pitched, 512, 2)]
    {
        let copied = call!(
            s.api, "cudaMemcpy2D", to => u64, to_pitch => usize, from => u64, from_pitch => usize, 64 => usize, 2 => usize, kind => i32,
        );
        assert_eq!(copied, 0);
    }
    s.fill(part, &[1; 100]);
    s.run("twice", 1, 100, part, part);
    assert_eq!(s.api.words(part, 1024)[99], 2);
    s.free(&[x, y, pitched, part]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_reads_fresh_memory() {
    let s = Setup::new();
    let (x, y) = (s.api.allocate(256), s.api.allocate(256));
    s.fill(x, &[1; 32]);
    s.run("twice", 1, 32, y, x);
    let words = s.api.words(y, 64);
    assert_eq!((words[31], words[32]), (2, 0xABAB_ABAB));
    s.free(&[x, y]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_an_input_that_no_kernel_reads() {
    let s = Setup::new();
    let (x, unread, output) = (s.api.allocate(256), s.api.allocate(48), s.api.allocate(256));
    s.fill(x, &[1; 64]);
    s.fill(unread, &[1; 12]);
    s.fill(output, &[0; 64]);
    s.run("twice", 1, 64, output, x);
    assert_eq!(s.api.words(output, 64), [2; 64]);
    s.free(&[x, unread, output]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_kernel_leaves_undefined_bytes_in_managed_memory() {
    let s = Setup::new();
    let (x, mut managed) = (s.api.allocate(256), 0u64);
    assert_eq!(call!(s.api, "cuMemAllocManaged", &raw mut managed => *mut u64, 256 => usize, 1 => u32), 0);
    s.run("twice", 1, 64, managed, x);
    let add = s.api.kernel(s.api.module(ADD), "add");
    let value = 1u32;
    let arguments = [(&raw const managed).cast::<c_void>(), (&raw const value).cast()];
    assert_eq!(s.api.launch(add, 4, 0, &arguments), 0);
    s.free(&[x, managed]);
}
