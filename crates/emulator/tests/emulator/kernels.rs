//! Kernels from CUDA C++, compiled by NVRTC 13.5 for sm_121a: each agrees with a plain computation of the same thing under
//! many schedules, and planted faults are caught and named.
//!
//! `tests/kernels/*.cu` are the sources, `*.ptx` what NVRTC made of them, so that the tests need no NVRTC.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

#[path = "../kernels/cases.rs"]
mod cases;
#[path = "../kernels/faults.rs"]
mod faults;

use emulator::HostBytes;

/// Schedules without an alarm and with equal results.
const SCHEDULES: u64 = 64;

#[test]
fn every_kernel_agrees_with_a_plain_computation_under_many_schedules() {
    for case in cases::all() {
        for seed in 0..SCHEDULES {
            let (buffers, counts) = case
                .run
                .go(case.ptx, seed, 100_000_000)
                .unwrap_or_else(|stop| panic!("{} seed {seed}: {stop}", case.run.entry));
            let (at, expect) = &case.run.expect;
            let wrong = buffers[*at].chunks(4).zip(expect.chunks(4)).position(|(a, b)| a != b);
            assert_eq!(wrong, None, "{} seed {seed}: first wrong element", case.run.entry);
            assert!(counts.warp_instructions > 0);
        }
    }
}

#[test]
fn every_kernel_gives_the_same_on_bytes_of_the_host() {
    for case in cases::all() {
        let (own, _) = case.run.go(case.ptx, 1, 100_000_000).unwrap();
        let lent = case.run.go_in(case.ptx, 1, 100_000_000, None, |memory, bytes| {
            memory.allocate_lent(HostBytes::new(bytes))
        });
        assert!(lent.unwrap().0 == own, "{}", case.run.entry);
    }
}
