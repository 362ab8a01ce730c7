//! Kernels without a result, in cubins of nvcc 13.5: what their machine code does, and what `audit` calls them.

use std::fs;
use std::process::Command;

use devcode::{Limits, machine_code, scan_bytes};
use sm121probe::audit::{Collector, Device};
use sm121probe::record::{AuditTable, AuditVerdict};
use sm121probe::report;
use tempfile::TempDir;

const SM_120: &[u8] = include_bytes!("audit_bodies/sm_120.cubin");
const SM_121A: &[u8] = include_bytes!("audit_bodies/sm_121a.cubin");

/// Without a disassembler.
fn audit(cubin: &[u8], device: u16) -> AuditTable {
    let mut collector = Collector::new(vec![Device::from_number(device)], &[String::new()], None);
    scan_bytes("k.cubin", cubin.to_vec(), &Limits::default(), &mut |found| collector.take(found));
    collector.finish()
}

/// Kernels that are stubs, with their reasons.
const STUBS: &[(&str, &str)] = &[
    ("prints", "its body only prints (vprintf): no result leaves it"),
    ("asserts", "its body only calls __assertfail: no result leaves it"),
    ("traps", "its body only traps: no result leaves it"),
    ("traps_if", "its body only traps: no result leaves it"),
    ("prints_in_a_function", "its body only prints (vprintf): no result leaves it"),
    ("prints_and_traps", "its body only calls vprintf and __assertfail and traps: no result leaves it"),
    (
        "gemm_mxfp4_asserts",
        "named as a matrix product, and its body only calls __assertfail: it was compiled out for this target",
    ),
    (
        "nvfp4_blockscaled_mma_step",
        "named for block-scaled or FP4 arithmetic, and its body only prints (vprintf): it was compiled out for this target",
    ),
    (
        "cutlass_device_kernel_traps",
        "named as a matrix product, and its body only traps: it was compiled out for this target",
    ),
    (
        "mxfp4_nothing",
        "named for block-scaled or FP4 arithmetic, and its body is empty: it was compiled out for this target",
    ),
];

/// Kernels with an effect, or with one that cannot be excluded.
const WORK: &[&str] = &[
    "stores",
    "stores_and_asserts",
    "adds_atomically",
    "checks_data",
    "stores_in_a_function",
    "calls_a_pointer",
    "allocates",
    "shares",
    "waits_for_another_grid",
];

#[test]
fn what_only_prints_or_traps_is_a_stub() {
    for (cubin, device) in [(SM_120, 120), (SM_120, 121), (SM_121A, 121)] {
        let table = audit(cubin, device);
        let of = |name: &str| {
            let kernel = table.kernels.iter().find(|kernel| kernel.name == name).unwrap();
            (kernel.verdicts[0], table.reasons[kernel.reasons[0]].as_str())
        };
        for (name, reason) in STUBS {
            assert_eq!(of(name), (AuditVerdict::Stub, *reason), "{name}");
        }
        for name in WORK {
            assert!(of(name).0.is_native(), "{name}: {:?}", of(name));
            assert!(!of(name).1.contains("empty"), "{name}: {:?}", of(name));
        }
        // Empty as written: no loss.
        let (verdict, reason) = of("nothing");
        assert!(verdict.is_native() && reason.ends_with("; its body is empty"), "{reason}");
        let (verdict, reason) = of("gemm_for_sm_100_traps");
        assert_eq!((verdict, reason), (AuditVerdict::NoCode, "a stub: its name says that it is for sm_100"));
        assert_eq!(table.kernels.len(), STUBS.len() + WORK.len() + 2);
        // An image that is not loaded is not judged by its body.
        assert!(audit(SM_121A, 120).kernels.iter().all(|k| k.verdicts[0] == AuditVerdict::NoCode));
    }
}

#[test]
fn a_stub_is_not_native() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("k.cubin"), SM_120).unwrap();
    let code = |require: &str, kernel: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
        command.current_dir(dir.path()).env("SM121PROBE_CACHE", dir.path().join("cache"));
        command.args(["audit", "k.cubin", "--for", "sm_120", "--require", require, "--kernel", kernel]);
        command.output().unwrap().status.code()
    };
    for (name, _) in STUBS {
        assert_eq!((code("native", name), code("runs", name)), (Some(100), Some(100)), "{name}");
    }
    for name in WORK.iter().chain(&["nothing"]) {
        assert_eq!(code("native", name), Some(0), "{name}");
    }
}

#[test]
fn a_stub_that_promises_nothing_is_a_note() {
    let sarif: serde_json::Value =
        serde_json::from_str(&report::audit_sarif(&audit(SM_120, 120)).unwrap()).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let level = |words: &str| {
        let found = results.iter().find(|r| r["message"]["text"].as_str().unwrap().contains(words)).unwrap();
        found["level"].as_str().unwrap().to_owned()
    };
    assert_eq!(level("its body only prints (vprintf): no result"), "note");
    assert_eq!(level("its body only calls __assertfail: it was compiled out"), "error");
    assert_eq!(level("its body is empty"), "error");
}

#[test]
fn callees_come_from_the_call_graph() {
    let callees = machine_code::callees(SM_120).unwrap();
    let of = |name: &str| callees.get(name).map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(of("prints").unwrap(), ["vprintf"]);
    assert_eq!(of("prints_in_a_function").unwrap(), ["vprintf"]);
    assert!(of("allocates").unwrap().contains(&"malloc"));
    assert_eq!((of("stores"), of("traps")), (None, None));
    // Damage is no panic.
    assert!(machine_code::callees(b"").is_none());
    for at in (0..SM_120.len()).step_by(97) {
        let mut damaged = SM_120.to_vec();
        damaged[at] ^= 0xff;
        let _ = machine_code::callees(&damaged);
        let _ = audit(&damaged, 120);
    }
    for end in (0..SM_120.len()).step_by(997) {
        let _ = machine_code::callees(&SM_120[..end]);
    }
}
