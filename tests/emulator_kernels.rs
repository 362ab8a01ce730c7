//! Kernels from CUDA C++, compiled by NVRTC 13.5 for sm_121a: each agrees with a plain computation of the same thing under
//! many schedules, and planted faults are caught and named.
//!
//! `tests/kernels/*.cu` are the sources, `*.ptx` what NVRTC made of them, so that the tests need no NVRTC;
//! `SM121PROBE_BLESS=1 cargo test --test emulator_kernels` makes the PTX anew.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

#[path = "kernels/cases.rs"]
mod cases;
#[path = "kernels/faults.rs"]
mod faults;

use std::path::Path;
use std::time::Duration;

use sm121probe::store::Store;
use sm121probe::toolkit::{self, Environment, Source};

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
fn the_sources_still_give_kernels_that_agree() {
    let store = Store::open(None).unwrap();
    let found = toolkit::nvrtcs(Some(&store), &Environment::of_process());
    if found.is_empty() {
        println!("skipped: no NVRTC on this machine");
        return;
    }
    let bless = std::env::var_os("SM121PROBE_BLESS").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
    for nvrtc in &found {
        for case in cases::all() {
            let file = format!("{}.cu", case.name);
            let text = std::fs::read_to_string(folder.join(&file)).unwrap();
            let source = Source {
                text: &text,
                name: &file,
                options: toolkit::options_for("sm_121a".parse().unwrap()),
                headers: Vec::new(),
            };
            let tool = Path::new(env!("CARGO_BIN_EXE_sm121probe"));
            let compiled =
                toolkit::compile(nvrtc, &source, Some(&store), tool, Duration::from_secs(120)).unwrap();
            let (buffers, _) = case
                .run
                .go(&compiled.ptx, 1, 100_000_000)
                .unwrap_or_else(|stop| panic!("{} by NVRTC {}: {stop}", case.run.entry, nvrtc.version));
            let (at, expect) = &case.run.expect;
            assert!(buffers[*at] == *expect, "{} by NVRTC {}", case.run.entry, nvrtc.version);
            if nvrtc.version.to_string() == "13.5.37" {
                if bless {
                    std::fs::write(folder.join(format!("{}.ptx", case.name)), &compiled.ptx).unwrap();
                } else {
                    assert!(
                        compiled.ptx == case.ptx,
                        "{file}: the committed PTX is not what NVRTC 13.5.37 makes"
                    );
                }
            }
        }
    }
}
