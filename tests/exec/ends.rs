//! Programs that end in another way than they would on their own.

use std::time::Duration;

use crate::api::{Api, call};

/// A kernel that takes hours, one that traps, and one that waits until a word is not 0.
const KERNELS: &str = "
.version 8.7
.target sm_120
.address_size 64
.visible .entry long()
{
    .reg .pred %p; .reg .b64 %n;
    mov.u64 %n, 0;
again:
    add.u64 %n, %n, 1;
    setp.lt.u64 %p, %n, 1000000000000;
    @%p bra again;
    ret;
}
.visible .entry traps() { trap; }
.visible .entry ends() { ret; }
.visible .entry waits(.param .u64 flag)
{
    .reg .pred %p; .reg .b64 %a; .reg .b32 %v;
    ld.param.u64 %a, [flag];
again:
    ld.volatile.u32 %v, [%a];
    setp.eq.u32 %p, %v, 0;
    @%p bra again;
    ret;
}";

fn launch(name: &str) -> i32 {
    let api = Api::open("libcuda.so.1");
    let kernel = api.kernel(api.module(KERNELS), name);
    if let Some(path) = std::env::var_os("EXEC_RUNNING") {
        std::fs::write(path, std::process::id().to_string()).unwrap();
    }
    api.launch(kernel, 32, 0, &[])
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_takes_hours() {
    // The status of a launch that took too long.
    assert_eq!(launch("long"), 702);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_expects_a_trap() {
    assert_eq!(launch("traps"), 719);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_without_a_trap() {
    assert_eq!(launch("ends"), 0);
}

fn wait_for(api: &Api, flag: u64) -> i32 {
    api.launch(api.kernel(api.module(KERNELS), "waits"), 32, 0, &[(&raw const flag).cast()])
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_waits_for_nobody() {
    let api = Api::open("libcuda.so.1");
    api.enter();
    let flag = api.allocate(4);
    assert_eq!(call!(api, "cuMemsetD32_v2", flag => u64, 0 => u32, 1 => usize), 0);
    assert_eq!(wait_for(&api, flag), 702);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_host_ends_a_loop() {
    let api = Api::open("libcuda.so.1");
    api.enter();
    let (mut managed, mut pinned, registered) = (0u64, 0u64, Box::leak(vec![0u32; 4].into_boxed_slice()));
    assert_eq!(call!(api, "cuMemAllocManaged", &raw mut managed => *mut u64, 4 => usize, 1 => u32), 0);
    assert_eq!(call!(api, "cuMemHostAlloc", &raw mut pinned => *mut u64, 4 => usize, 0 => u32), 0);
    let registered = registered.as_mut_ptr() as u64;
    assert_eq!(call!(api, "cuMemHostRegister_v2", registered => u64, 16 => usize, 0 => u32), 0);
    for flag in [managed, pinned, registered] {
        // SAFETY: the host shares the word.
        unsafe { (flag as *mut u32).write_volatile(0) };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                // SAFETY: as above.
                unsafe { (flag as *mut u32).write_volatile(1) };
            });
            assert_eq!(wait_for(&api, flag), 0);
        });
    }
}
