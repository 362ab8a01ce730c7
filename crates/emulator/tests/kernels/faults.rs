//! Planted faults: an edit of the PTX or of the launch, and the law that it must be caught by.

use emulator::{Law, Stop};

use super::cases::{self, Arg, Case, value};

/// Enough for every kernel here, little enough that an endless loop ends soon.
const FUEL: u64 = 3_000_000;

/// Schedules that a fault is tried under; it must be caught under the first already, or by one of them.
const SEEDS: u64 = 8;

/// The kernel of this name; the first where a file has two.
fn named(name: &str) -> Case {
    cases::all().into_iter().find(|c| c.name == name || c.run.entry == name).unwrap()
}

/// Replaces the `n`-th occurrence of `from`, counted from 0.
fn edit(text: &str, from: &str, n: usize, to: &str) -> String {
    let at = text.match_indices(from).nth(n).unwrap_or_else(|| panic!("no {from} number {n}")).0;
    format!("{}{to}{}", &text[..at], &text[at + from.len()..])
}

/// The laws by which the schedules end.
fn caught(case: &Case, ptx: &str, freed: Option<usize>) -> Vec<Law> {
    let mut laws = Vec::new();
    for seed in 0..SEEDS {
        match case.run.go_freed(ptx, seed, FUEL, freed) {
            Ok(_) => {}
            Err(Stop::Trap(trap)) => {
                assert!(trap.place.line > 0 || trap.law == Law::Deadlock, "{}: no line in {trap}", case.name);
                laws.push(trap.law);
            }
            Err(other) => panic!("{}: {other}", case.name),
        }
    }
    laws.sort();
    laws.dedup();
    laws
}

/// Plants an edit in the kernel of this name and wants exactly this law.
fn planted(name: &str, law: Law, change: impl Fn(&str) -> String) {
    let case = named(name);
    let got = caught(&case, &change(case.ptx), None);
    assert_eq!(got, [law], "{name}");
}

#[test]
fn a_missing_barrier_is_a_race() {
    for (name, n) in [("reduction", 0), ("softmax", 1), ("histogram", 1), ("persistent", 1), ("gemm_mx", 1)] {
        let case = named(name);
        let laws = caught(&case, &edit(case.ptx, "bar.sync", n, "// "), None);
        // Where the reader comes first, what it reads was never written.
        let known = laws.iter().all(|law| [Law::Race, Law::Uninitialised].contains(law));
        assert!(known && laws.contains(&Law::Race), "{name}: {laws:?}");
    }
}

#[test]
fn a_copy_that_is_not_waited_for_is_caught() {
    let case = named("gemm_bf16");
    let ptx = edit(case.ptx, "cp.async.wait_group 1", 0, "cp.async.wait_group 2");
    let laws = caught(&case, &ptx, None);
    assert!(!laws.is_empty() && laws.iter().all(|l| [Law::Race, Law::Uninitialised].contains(l)), "{laws:?}");
}

#[test]
fn a_write_without_atomics_is_a_race() {
    planted("persistent", Law::Race, |ptx| {
        let to = "ld.global.b32 %r21, [%rd3];\n\tadd.s32 %r21, %r21, 1;\n\tst.global.b32 [%rd3], %r21;";
        edit(ptx, "atom.relaxed.gpu.global.add.u32 \t%r21, [%rd3], 1;", 0, to)
    });
    planted("scan", Law::Race, |ptx| edit(ptx, "ld.acquire.gpu.global.u64", 0, "ld.global.u64"));
}

#[test]
fn memory_that_nobody_wrote_is_named() {
    planted("histogram", Law::Uninitialised, |ptx| ptx.replace("st.shared.b32 \t", "// "));
}

#[test]
fn a_wrong_length_is_out_of_bounds() {
    for (name, n, argument) in [("reduction", 1001, 2), ("scan", 301, 3), ("secondary", 101, 2)] {
        let mut case = named(name);
        case.run.args[argument] = value(n);
        assert_eq!(caught(&case, case.ptx, None), [Law::OutOfBounds], "{name}");
    }
}

#[test]
fn an_odd_address_is_misaligned() {
    planted("softmax", Law::Misaligned, |ptx| {
        edit(ptx, "st.shared.b32 \t[%r4]", 0, "st.shared.b32 \t[%r4+2]")
    });
    planted("gemm_bf16", Law::Misaligned, |ptx| {
        edit(ptx, "cp.async.cg.shared.global [%r33]", 0, "cp.async.cg.shared.global [%r33+8]")
    });
}

#[test]
fn an_address_of_another_space_is_named() {
    planted("reduction", Law::WrongSpace, |ptx| {
        let to = "cvta.shared.u64 %rd8, _ZZ9reductionE7partial;\n\tst.global.b32 \t[%rd8]";
        edit(ptx, "st.global.b32 \t[%rd8]", 0, to)
    });
}

#[test]
fn freed_memory_is_named() {
    let case = named("reduction");
    assert_eq!(caught(&case, case.ptx, Some(0)), [Law::UseAfterFree]);
}

#[test]
fn a_barrier_under_a_branch_is_divergent() {
    planted("reduction", Law::Divergent, |ptx| edit(ptx, "bar.sync", 0, "@%p8 bar.sync"));
}

#[test]
fn a_barrier_object_with_a_wrong_count_deadlocks() {
    planted("gemm_tma", Law::Deadlock, |ptx| ptx.replace("[%r28], 4;", "[%r28], 5;"));
    planted("gemm_tma", Law::Deadlock, |ptx| ptx.replace("16384;", "16400;"));
}

#[test]
fn loops_without_end_run_out_of_fuel() {
    let mut case = named("persistent");
    // Two blocks that do the same tile would race.
    case.run.grid = [1, 1, 1];
    assert_eq!(caught(&case, &edit(case.ptx, "[%rd3], 1;", 0, "[%rd3], 0;"), None), [Law::Fuel]);
}

#[test]
fn a_barrier_object_that_was_never_made_is_named() {
    planted("gemm_tma", Law::Barrier, |ptx| edit(ptx, "mbarrier.init.shared::cta.b64 [%r27], 1;", 0, ""));
}

#[test]
fn a_map_that_is_no_map_is_named() {
    let mut case = named("gemm_tma");
    case.run.args[1] = Arg::Value(vec![0x5A; 128]);
    assert_eq!(caught(&case, case.ptx, None), [Law::TensorMap]);
}

#[test]
fn a_trap_of_the_kernel_is_named() {
    planted("primary", Law::Explicit, |ptx| edit(ptx, "ret;", 0, "trap;"));
}

#[test]
fn a_division_by_zero_is_an_undefined_operand() {
    planted("primary", Law::Operand, |ptx| {
        edit(ptx, "mov.u32 \t%r3, %ctaid.x;", 0, "mov.u32 \t%r3, %ctaid.x;\n\tdiv.u32 %r4, %r2, %r3;")
    });
}

#[test]
fn faults_of_numbers_change_the_result() {
    for (name, from, to) in [
        // The shift that puts e2m1 where the mma wants it.
        ("gemm_mx", "shl.b32 \t%r82, %r73, 2;", "mov.b32 \t%r82, %r73;"),
        // A scale of the neighbouring block.
        ("gemm_mx", "{1, 0}, {%r99}, {1, 0}", "{1, 0}, {%r99}, {0, 0}"),
        // The packed half of a row.
        (
            "gemm_mx",
            "cp.async.ca.shared.global [%r68], [%rd16], 8;",
            "cp.async.ca.shared.global [%r68], [%rd16+-8], 8;",
        ),
        ("softmax", "div.rn.f32", "mul.rn.f32"),
    ] {
        let case = named(name);
        let ptx = edit(case.ptx, from, 0, to);
        let (at, expect) = &case.run.expect;
        match case.run.go(&ptx, 0, FUEL) {
            Ok((buffers, _)) => assert!(buffers[*at] != *expect, "{name}: {from}"),
            // Also an answer: the edit reads outside a buffer.
            Err(Stop::Trap(trap)) => assert_eq!(trap.law, Law::OutOfBounds, "{name}: {trap}"),
            Err(other) => panic!("{name}: {other}"),
        }
    }
}
