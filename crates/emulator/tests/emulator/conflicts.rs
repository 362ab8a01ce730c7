//! Conflicts that directed schedules try: lanes of one warp, races between warps, relaxed message passing.

use emulator::Rule;
use emulator::trials::{Cause, Outcome, Plan, Rules, Verdict};

use crate::trials::Case;

/// `%r6` is the shared address of the thread's word, and `%r7` that of its neighbour's (31 - lane).
const PLACES: &str =
    "mov.u32 %r7, box;\nmad.lo.u32 %r6, %r0, 4, %r7;\nxor.b32 %r5, %r0, 31;\nmad.lo.u32 %r7, %r5, 4, %r7;\n";

/// Functions that read and write a word of shared memory.
const FUNCTIONS: &str = ".func (.param .b32 back) rd(.param .b32 from) {\n.reg .b32 %x<2>;\nld.param.b32 %x0, [from];\n\
     ld.shared.u32 %x1, [%x0];\nst.param.b32 [back], %x1;\nret;\n}\n.func wr(.param .b32 to, .param .b32 from) {\n.reg .b32 %x<2>;\n\
     ld.param.b32 %x0, [to];\nld.param.b32 %x1, [from];\nadd.u32 %x1, %x1, 100;\nst.shared.u32 [%x0], %x1;\nret;\n}\n";

fn lanes(body: &str) -> Verdict {
    Case::with_functions(32, FUNCTIONS, &format!("{PLACES}{body}")).judge(&Plan::default())
}

fn raced(verdict: &Verdict) -> bool {
    verdict.outcome() == Outcome::Violation && verdict.violations.iter().all(|v| v.trap.rule == Rule::Race)
}

/// Equal, with so many remarks.
fn remarked(verdict: &Verdict, remarks: usize) {
    assert_eq!((verdict.outcome(), verdict.remarks.len()), (Outcome::Equal, remarks), "{verdict:?}");
}

#[test]
fn lanes_that_need_an_order_race() {
    for body in [
        // A read of what another lane wrote; the same in global memory.
        "st.shared.u32 [%r6], %r0;\nld.shared.u32 %r1, [%r7];\nst.global.u32 [%a], %r1;",
        "mul.wide.u32 %y, %r5, 4;\nld.param.u64 %c, [y];\nadd.u64 %y, %y, %c;\nst.global.u32 [%a], %r0;\nld.global.u32 %r1, [%y];\n\
         add.u32 %r1, %r1, %r0;\nst.global.u32 [%a], %r1;",
        // A write of what another lane reads.
        "st.shared.u32 [%r6], %r0;\nbar.warp.sync -1;\nld.shared.u32 %r1, [%r7];\nadd.u32 %r2, %r1, 100;\nst.shared.u32 [%r6], %r2;\n\
         st.global.u32 [%a], %r1;",
        // A counter without an atomic, and a plain read of one that atomics of the warp make.
        "ld.global.u32 %r1, [%c];\nadd.u32 %r1, %r1, 1;\nst.global.u32 [%c], %r1;",
        "st.shared.u32 [box], 0;\nbar.warp.sync -1;\nred.shared.add.u32 [box], 1;\nld.shared.u32 %r1, [box];\n\
         st.global.u32 [%a], %r1;",
        // Two sides of a branch.
        "setp.lt.u32 %p0, %r0, 16;\n@%p0 bra LOW;\nst.shared.u32 [box], 2;\nbra END;\nLOW:\nst.shared.u32 [box], 1;\nEND:\n\
         bar.warp.sync -1;\nld.shared.u32 %r1, [box];\nst.global.u32 [%a], %r1;",
        // The other access lies behind the end of a branch, in a later iteration, in a function.
        "setp.lt.u32 %p0, %r0, 16;\n@!%p0 bra END;\nst.shared.u32 [%r6], %r0;\nEND:\n@%p0 bra OUT;\nld.shared.u32 %r1, [%r7];\n\
         st.global.u32 [%a], %r1;\nOUT:",
        "st.shared.u32 [%r6], %r0;\nbar.warp.sync -1;\nmov.u32 %r2, 16;\nSTEP:\nsetp.ge.u32 %p0, %r0, %r2;\n@%p0 bra NEXT;\n\
         mad.lo.u32 %r7, %r2, 4, %r6;\nld.shared.u32 %r1, [%r7];\nld.shared.u32 %r3, [%r6];\nadd.u32 %r3, %r3, %r1;\n\
         st.shared.u32 [%r6], %r3;\nNEXT:\nshr.u32 %r2, %r2, 1;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra STEP;\n\
         ld.shared.u32 %r1, [%r6];\nst.global.u32 [%a], %r1;",
        "{\n.param .b32 from;\n.param .b32 back;\nst.param.b32 [from], %r7;\nst.shared.u32 [%r6], %r0;\nbar.warp.sync -1;\n\
         call.uni (back), rd, (from);\nld.param.b32 %r1, [back];\n}\n{\n.param .b32 to;\n.param .b32 from;\nst.param.b32 [to], %r6;\n\
         st.param.b32 [from], %r1;\ncall.uni wr, (to, from);\n}\nst.global.u32 [%a], %r1;",
        // Only half of the warp meets.
        "st.shared.u32 [%r6], %r0;\nsetp.lt.u32 %p0, %r0, 16;\n@%p0 bar.warp.sync 0xffff;\nld.shared.u32 %r1, [%r7];\n\
         st.global.u32 [%a], %r1;",
        // Accesses of different sizes, and a vector.
        "st.shared.u8 [%r6], 1;\nst.shared.u8 [%r6+1], 1;\nst.shared.u16 [%r6+2], 1;\nld.shared.u32 %r1, [%r7];\nst.global.u32 [%a], %r1;",
    ] {
        let verdict = lanes(body);
        assert!(raced(&verdict), "{body}\n{verdict:?}");
        assert!(verdict.finished, "{body}");
    }
}

/// Addresses of the rows of a matrix: `%r2` is that of the row of lanes 0 to 7.
const ROWS: &str = "and.b32 %r2, %r0, 7;\nmov.u32 %r3, box;\nmad.lo.u32 %r2, %r2, 16, %r3;\n";

#[test]
fn copies_and_matrices_take_part_in_conflicts_of_lanes() {
    // A lane that waits for its own copy does not wait for its neighbour's.
    let copy = "st.global.u32 [%a], %r0;\ncp.async.ca.shared.global [%r6], [%a], 4;\ncp.async.wait_all;\n";
    let read = "ld.shared.u32 %r1, [%r7];\nst.global.u32 [%a], %r1;";
    let verdict = lanes(&format!("{copy}{read}"));
    assert!(raced(&verdict), "{verdict:?}");
    let verdict = lanes(&format!("{copy}bar.warp.sync -1;\n{read}"));
    remarked(&verdict, 0);
    // Lanes meet at a matrix instruction, so that nothing depends on the missing order; it is missing all the same.
    let load =
        format!("{ROWS}ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r1}}, [%r2];\nst.global.u32 [%a], %r1;");
    let store = format!("{ROWS}stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {{%r0}};\n");
    let barrier = "bar.warp.sync -1;\n";
    for (first, second) in [("st.shared.u32 [%r6], %r0;\n", load.as_str()), (store.as_str(), read)] {
        remarked(&lanes(&format!("{first}{second}")), 1);
        remarked(&lanes(&format!("{first}{barrier}{second}")), 0);
    }
}

#[test]
fn the_results_are_those_of_lanes_in_step() {
    let mut case = Case::new(
        32,
        &format!("{PLACES}st.shared.u32 [%r6], %r0;\nld.shared.u32 %r1, [%r7];\nst.global.u32 [%a], %r1;"),
    );
    let verdict = case.judge(&Plan::default());
    assert!(raced(&verdict) && case.launches == 5);
    assert_eq!(case.words(), (0..32).rev().collect::<Vec<_>>());
    let count = "ld.global.u32 %r1, [%c];\nadd.u32 %r1, %r1, 1;\nst.global.u32 [%c], %r1;";
    let verdict = lanes(count);
    let difference = verdict.difference(Cause::Race).unwrap();
    assert_eq!(difference.values, ["1", "32"]);
    assert!(verdict.violations[0].trap.what.contains("c[0] is 1, and 32 if the lanes take turns there"));
}

#[test]
fn lanes_that_have_an_order_do_not_race() {
    for body in [
        "st.shared.u32 [%r6], %r0;\nbar.warp.sync -1;\nld.shared.u32 %r1, [%r7];\nst.global.u32 [%a], %r1;",
        "st.shared.u32 [%r6], %r0;\nbar.sync 0;\nld.shared.u32 %r1, [%r7];\nst.global.u32 [%a], %r1;",
        // Bytes of its own.
        "st.shared.u32 [%r6], %r0;\nld.shared.u32 %r1, [%r6];\nadd.u32 %r1, %r1, 1;\nst.shared.u32 [%r6], %r1;\nst.global.u32 [%a], %r1;",
        // Atomics.
        "red.global.add.u32 [%c], 1;\natom.global.add.u32 %r1, [%c], 1;",
        // A lock that lanes take in turn.
        "st.shared.u32 [box], 0;\nst.shared.u32 [box+4], 0;\nbar.warp.sync -1;\nmov.u32 %r3, 0;\nTAKE:\n\
         atom.shared.cas.b32 %r1, [box], 0, 1;\nsetp.ne.u32 %p0, %r1, 0;\n@%p0 bra NEXT;\nmembar.cta;\nld.shared.u32 %r2, [box+4];\n\
         add.u32 %r2, %r2, 1;\nst.shared.u32 [box+4], %r2;\nmembar.cta;\natom.shared.exch.b32 %r1, [box], 0;\nmov.u32 %r3, 1;\nNEXT:\n\
         setp.eq.u32 %p1, %r3, 0;\n@%p1 bra TAKE;\nbar.warp.sync -1;\nld.shared.u32 %r2, [box+4];\nst.global.u32 [%a], %r2;",
    ] {
        let mut case = Case::new(32, &format!("{PLACES}{body}"));
        let verdict = case.judge(&Plan::default());
        remarked(&verdict, 0);
        assert_eq!(case.launches, 1, "{body}");
    }
}

#[test]
fn a_conflict_of_lanes_that_decides_nothing_is_a_remark() {
    // Lanes meet in the shuffle.
    let verdict = lanes(
        "st.shared.u32 [%r6], %r0;\nshfl.sync.idx.b32 %r2, %r0, 0, 31, 0xffffffff;\nld.shared.u32 %r1, [%r7];\n\
         st.global.u32 [%a], %r1;",
    );
    remarked(&verdict, 1);
    assert!(
        verdict.remarks[0].what.ends_with("no result depends on their order in the trials"),
        "{verdict:?}"
    );
    // Nobody uses the value.
    remarked(&lanes("st.shared.u32 [%r6], %r0;\nld.shared.u32 %r1, [%r7];"), 1);
    // Nobody looks for it.
    let plan = Plan { rules: Rules::None, ..Plan::default() };
    let body =
        format!("{PLACES}st.shared.u32 [%r6], %r0;\nld.shared.u32 %r1, [%r7];\nst.global.u32 [%a], %r1;");
    remarked(&Case::new(32, &body).judge(&plan), 0);
}

#[test]
fn volatile_accesses_of_lanes_are_nondeterministic_and_no_race() {
    let verdict = lanes(
        "st.volatile.shared.u32 [%r6], %r0;\nbar.warp.sync -1;\nst.volatile.shared.u32 [%r6], 7;\n\
         ld.volatile.shared.u32 %r1, [%r7];\nst.global.u32 [%a], %r1;",
    );
    assert_eq!((verdict.outcome(), verdict.violations.len()), (Outcome::Nondeterministic, 0), "{verdict:?}");
    assert_eq!(verdict.nondeterministic().unwrap().values[0], "7");
}

#[test]
fn a_lost_update_is_found_where_only_results_decide() {
    let first = "and.b32 %r1, %r0, 31;\nsetp.eq.u32 %p0, %r1, 0;\n";
    let count = format!(
        "{first}@!%p0 ret;\nld.global.u32 %r1, [%c];\nadd.u32 %r1, %r1, 1;\nst.global.u32 [%c], %r1;"
    );
    let plan = Plan { rules: Rules::Values, schedules: Some(1), fillings: Some(1), ..Plan::default() };
    let verdict = Case::new(128, &count).judge(&plan);
    assert_eq!(verdict.difference(Cause::Race).map(|d| d.values.clone()), Some(["4".into(), "1".into()]));
    assert!(verdict.outcome() == Outcome::Violation && verdict.failure(&plan).is_some());
    // A reader that a barrier should hold back: here it comes last, and directed it comes first.
    let passed = "setp.ge.u32 %p0, %r0, 32;\n@%p0 bra READ;\nst.shared.u32 [box], 5;\nst.shared.u32 [box], 6;\nret;\nREAD:\n\
                  ld.shared.u32 %r1, [box];\nst.global.u32 [%a], %r1;";
    let verdict = Case::new(64, passed).judge(&plan);
    assert!(verdict.failure(&plan).is_some(), "{verdict:?}");
    // No result depends on it.
    let unused = "setp.ge.u32 %p0, %r0, 32;\n@%p0 bra READ;\nst.shared.u32 [box], 5;\nret;\nREAD:\nld.shared.u32 %r1, [box];";
    let verdict = Case::new(64, unused).judge(&plan);
    assert!(verdict.failure(&plan).is_none() && verdict.races().next().is_some(), "{verdict:?}");
}

#[test]
fn a_warp_that_is_held_does_not_starve_those_that_poll_for_it() {
    // The first warp stores a racing word and then a flag, for which the second one polls.
    let body = "setp.ge.u32 %p0, %r0, 32;\n@%p0 bra WAIT;\nst.global.u32 [%y], 5;\nst.volatile.global.u32 [%c], 1;\nret;\nWAIT:\n\
                ld.volatile.global.u32 %r1, [%c];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra WAIT;\nld.global.u32 %r2, [%y];\n\
                st.global.u32 [%a], %r2;";
    let plan = Plan {
        rules: Rules::Values,
        schedules: Some(1),
        fillings: Some(1),
        fuel: 1_000_000,
        ..Plan::default()
    };
    let verdict = Case::new(64, body).judge(&plan);
    assert!(verdict.stopped.is_none() && verdict.races().next().is_some(), "{verdict:?}");
}

#[test]
fn relaxed_message_passing_is_remarked() {
    let passing = |store: &str, load: &str| {
        let body = format!(
            "setp.ge.u32 %p0, %r0, 32;\n@%p0 bra WAIT;\nst.relaxed.gpu.global.u32 [%y], 5;\n{store} [%c], 1;\nret;\nWAIT:\n\
             {load} %r1, [%c];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra WAIT;\nld.relaxed.gpu.global.u32 %r2, [%y];\n\
             st.global.u32 [%a], %r2;"
        );
        Case::new(64, &body).judge(&Plan::default())
    };
    let verdict = passing("st.relaxed.gpu.global.u32", "ld.relaxed.gpu.global.u32");
    remarked(&verdict, 1);
    assert!(verdict.remarks[0].place.instruction.contains("%r2"), "{verdict:?}");
    remarked(&passing("st.volatile.global.u32", "ld.volatile.global.u32"), 1);
    remarked(&passing("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32"), 0);
    remarked(&passing("fence.acq_rel.gpu;\nst.relaxed.gpu.global.u32", "ld.acquire.gpu.global.u32"), 0);
}

#[test]
fn stores_of_lanes_that_change_nothing_do_not_conflict() {
    // A flag that several lanes set in several iterations.
    let body = "setp.eq.u32 %p0, %r0, 0;\n@%p0 st.shared.u32 [box], 0;\nbar.warp.sync -1;\nmov.u32 %r2, 1;\nAGAIN:\n\
                and.b32 %r3, %r0, %r2;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 st.shared.u32 [box], 1;\nshl.b32 %r2, %r2, 1;\n\
                setp.ne.u32 %p1, %r2, 8;\n@%p1 bra AGAIN;\nbar.warp.sync -1;\nld.shared.u32 %r1, [box];\nst.global.u32 [%a], %r1;";
    remarked(&lanes(body), 0);
    // One of them stores another value.
    let body = body.replace("[box], 1;", "[box], %r2;");
    assert!(raced(&lanes(&body)));
}

#[test]
fn results_that_differ_between_schedules_anyway_say_nothing_of_lanes() {
    // Warps add themselves to a list; lanes of each conflict in shared memory, on which nothing depends.
    let body = "shr.u32 %r1, %r0, 5;\nshl.b32 %r2, %r1, 7;\nmov.u32 %r3, box;\nadd.u32 %r3, %r3, %r2;\nmad.lo.u32 %r6, %r4, 4, %r3;\n\
                st.shared.u32 [%r6], %r0;\nxor.b32 %r5, %r4, 31;\nmad.lo.u32 %r7, %r5, 4, %r3;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 ld.shared.u32 %r3, [%r7];\n\
                setp.ne.u32 %p0, %r4, 0;\n@%p0 ret;\natom.global.add.u32 %r2, [%c], 1;\nld.param.u64 %y, [y];\n\
                mul.wide.u32 %a, %r2, 4;\nadd.u64 %a, %a, %y;\nst.global.u32 [%a], %r1;";
    let verdict = Case::new(128, &format!("mov.u32 %r4, %laneid;\n{body}")).judge(&Plan::default());
    remarked(&verdict, 1);
    assert!(verdict.remarks[0].what.ends_with("differ between schedules of whole warps"), "{verdict:?}");
}

#[test]
fn lanes_that_leave_before_an_aligned_barrier_are_a_remark() {
    let leave =
        "and.b32 %r1, %r0, 1;\nsetp.ne.u32 %p0, %r1, 0;\n@%p0 ret;\nbar.sync 0;\nst.global.u32 [%a], %r0;";
    let verdict = lanes(leave);
    remarked(&verdict, 1);
    assert!(verdict.remarks[0].what.contains("lanes 0xaaaaaaaa of the warp have exited"), "{verdict:?}");
    // Lanes that a CTA does not have leave nothing.
    remarked(&Case::new(50, "bar.sync 0;\nst.global.u32 [%a], %r0;").judge(&Plan::default()), 0);
}
