//! Programs that end in another way than they would on their own.

use crate::api::Api;

/// A kernel that takes hours, and one that traps.
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
.visible .entry ends() { ret; }";

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
