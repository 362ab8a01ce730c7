//! Planted faults that a file test cannot express: freed memory, bytes that are not a tensor map, wrong numbers.

use emulator::{GlobalMemory, Rule, Stop};

use super::cases::{self, Arg, Case};

/// Enough for every kernel here.
const FUEL: u64 = 3_000_000;

/// The kernel of this name.
fn named(name: &str) -> Case {
    cases::all().into_iter().find(|c| c.name == name).unwrap()
}

/// The rule that every schedule names.
#[track_caller]
fn caught(case: &Case, freed: Option<usize>, rule: Rule) {
    for seed in 0..8 {
        match case.run.go_in(case.ptx, seed, FUEL, freed, GlobalMemory::allocate_with) {
            Err(Stop::Trap(trap)) => {
                assert!(trap.rule == rule && trap.place.line > 0, "{}: {trap}", case.name)
            }
            other => panic!("{}: {:?}", case.name, other.err()),
        }
    }
}

#[test]
fn freed_memory_is_named() {
    caught(&named("reduction"), Some(0), Rule::UseAfterFree);
}

#[test]
fn a_map_that_is_no_map_is_named() {
    let mut case = named("gemm_tma");
    case.run.args[1] = Arg::Value(vec![0x5A; 128]);
    caught(&case, None, Rule::TensorMap);
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
        assert!(case.ptx.contains(from), "{name}: no {from}");
        let ptx = case.ptx.replacen(from, to, 1);
        let (at, expect) = &case.run.expect;
        match case.run.go(&ptx, 0, FUEL) {
            Ok((buffers, _)) => assert!(buffers[*at] != *expect, "{name}: {from}"),
            // Also an answer: the edit reads outside a buffer.
            Err(Stop::Trap(trap)) => assert_eq!(trap.rule, Rule::OutOfBounds, "{name}: {trap}"),
            Err(other) => panic!("{name}: {other}"),
        }
    }
}
