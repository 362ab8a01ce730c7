//! Races that are none, and those that are: one value stored by several warps, the completion of an mbarrier by hand, copies that end
//! while a thread polls.

use emulator::{Judge, Rule};

use crate::foreign::{How, Said, breaks, gives, module, run_and_listen};

fn two_warps() -> How {
    How::with_sizes(1, 64)
}

#[test]
fn one_value_from_several_warps_is_no_race_and_is_remarked() {
    let body = |value: &str, between: &str| {
        format!(
            "{value} st.shared.u32 [word], v; {between} ld.shared.u32 w, [word]; bar.sync 0; ld.shared.u32 x, [word];
add.u32 w, w, x; @one st.global.u32 [out], w;"
        )
    };
    let same = module("", &body("mov.u32 v, 3;", "bar.sync 0;"));
    gives(&same, &two_warps(), &[6]);
    let mut said = Said::default();
    let words = run_and_listen(&same, &How { seeds: 1, ..two_warps() }, &mut said);
    assert!(words.is_ok());
    assert!(
        said.remarks
            .iter()
            .any(|r| r.contains("the value is the same") && r.contains("line 10") && r.contains("1 times")),
        "{said:?}"
    );
    // A warp reads what it has itself stored.
    gives(&module("", &body("mov.u32 v, 3;", "")), &two_warps(), &[6]);
    breaks(&module("", &body("shr.u32 v, t, 5;", "bar.sync 0;")), &two_warps(), Rule::Race, "which warp");
    // One byte of four differs.
    let byte = "shr.u32 v, t, 5; shl.b32 v, v, 8; add.u32 v, v, 3;";
    breaks(&module("", &body(byte, "bar.sync 0;")), &two_warps(), Rule::Race, "which warp");
}

#[test]
fn all_lanes_may_load_one_word_that_nobody_wrote() {
    let how = How { judge: Judge::Values, ..How::with_sizes(1, 32) };
    let said = |body: &str| {
        let mut said = Said::default();
        let result = run_and_listen(&module("", body), &how, &mut said);
        assert!(result.is_ok(), "{result:?}");
        said.violations
    };
    assert_eq!(said("ld.shared.u32 w, [word];"), [""; 0]);
    let decided = said("ld.shared.u32 w, [word]; setp.eq.u32 p, w, 3; @p st.global.u32 [out], t;");
    assert!(decided.iter().any(|what| what.contains("Uninitialised")), "{decided:?}");
}

#[test]
fn a_copy_over_what_another_warp_stores_ends_the_launch_only_where_rules_are_strict() {
    let text = module(
        "",
        "setp.ge.u32 p, t, 32; @p bra COPY; st.shared.u32 [word], t; bra END;
COPY: cp.async.ca.shared.global [word], [out], 4; cp.async.wait_all; END: bar.sync 0;",
    );
    breaks(&text, &two_warps(), Rule::Race, "shared address");
    let mut said = Said::default();
    let result = run_and_listen(&text, &How { judge: Judge::Values, ..two_warps() }, &mut said);
    assert!(result.is_ok(), "{result:?}");
    let of = |what: &str| said.violations.iter().any(|found| found.contains("Race") && found.contains(what));
    assert!(of("cp.async") && of("st.shared"), "{said:?}");
}

#[test]
fn a_reader_needs_an_order_behind_one_store_and_a_store_behind_all() {
    // Warps 0 and 1 store; warp 2 is told by warp 1 alone, and it reads or stores.
    let body = |then: &str| {
        format!(
            "setp.ge.u32 p, t, 64; @p bra LAST; mov.u32 v, 7; st.shared.u32 [word], v; setp.lt.u32 q, t, 32; @q bra END;
bar.arrive 1, 64; bra END; LAST: bar.sync 1, 64; {then} END: bar.sync 0;"
        )
    };
    let read = body("ld.shared.u32 v, [word]; setp.eq.u32 p, t, 64; @p st.global.u32 [out], v;");
    gives(&module("", &read), &How::with_sizes(1, 96), &[7]);
    breaks(
        &module("", &body("mov.u32 v, 9; st.shared.u32 [word], v;")),
        &How::with_sizes(1, 96),
        Rule::Race,
        "",
    );
    // Nobody tells the reader.
    let untold = read.replace("bar.arrive 1, 64;", "").replace("bar.sync 1, 64;", "");
    breaks(&module("", &untold), &How::with_sizes(1, 96), Rule::Race, "");
    // A store of the value that another warp reads is one all the same: nothing says that it was there before.
    let reads = "mov.u32 v, 7; @one st.shared.u32 [word], v; bar.sync 0; setp.lt.u32 p, t, 32; @p bra STORE;
ld.shared.u32 w, [word]; bra END; STORE: setp.eq.u32 p, t, 1; @p st.shared.u32 [word], v; END: bar.sync 0;";
    gives(&module("", &reads.replace("@p st.shared.u32 [word], v;", "")), &two_warps(), &[]);
    breaks(&module("", reads), &two_warps(), Rule::Race, "");
}

#[test]
fn global_memory_takes_one_value_from_several_ctas() {
    let body = |value: &str| format!("{value} add.u64 a, out, 64; st.global.v2.u32 [a], {{v, v}};");
    gives(&module("", &body("mov.u32 v, 4;")), &How::with_sizes(3, 64), &[]);
    breaks(&module("", &body("mov.u32 v, c;")), &How::with_sizes(3, 64), Rule::Race, "global address");
}

/// Warp 1 stores, fences and completes the object's phase by hand; warp 0 waits and reads.
fn by_hand(fence: &str) -> String {
    module(
        "",
        &format!(
            "setp.eq.u32 p, t, 32; @p mbarrier.init.shared.b64 [bar], 1; bar.sync 0; @!p bra READER;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; mov.u32 v, 7; st.shared.u32 [word], v; {fence}
mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 16; bra END;
READER: @!one bra END; AGAIN: mbarrier.try_wait.parity.shared.b64 q, [bar], 0; @!q bra AGAIN;
ld.shared.u32 v, [word]; st.global.u32 [out], v; END:"
        ),
    )
}

#[test]
fn a_fence_and_a_relaxed_completion_release() {
    gives(&by_hand("fence.release.sync_restrict::shared::cta.cluster;"), &two_warps(), &[7]);
    gives(&by_hand("fence.acq_rel.cta;"), &two_warps(), &[7]);
    breaks(&by_hand(""), &two_warps(), Rule::Race, "with no ordering in between");
}

/// Warp 1 stores and arrives; warp 0 waits once, uses the predicate by `uses`, and reads.
fn waits_once(wait: &str, uses: &str) -> String {
    module(
        "",
        &format!(
            "setp.eq.u32 p, t, 32; @p mbarrier.init.shared.b64 [bar], 1; bar.sync 0; @!p bra READER;
mov.u32 v, 7; st.shared.u32 [word], v; mbarrier.arrive.shared.b64 _, [bar]; bra END;
READER: @!one bra END; AGAIN: mbarrier.{wait}.parity.shared.b64 q, [bar], 0; {uses}
ld.shared.u32 v, [word]; st.global.u32 [out], v; END:"
        ),
    )
}

#[test]
fn a_wait_whose_predicate_nobody_uses_orders_nothing() {
    for wait in ["try_wait", "test_wait"] {
        gives(&waits_once(wait, "@!q bra AGAIN;"), &two_warps(), &[7]);
        // By way of a register, as CUDA C++ returns it.
        gives(
            &waits_once(wait, "selp.b32 w, 1, 0, q; setp.eq.u32 p, w, 0; @p bra AGAIN;"),
            &two_warps(),
            &[7],
        );
        for unused in ["", "selp.b32 w, 1, 0, q;", "selp.b32 w, 1, 0, q; mov.b32 x, w;"] {
            breaks(&waits_once(wait, unused), &two_warps(), Rule::Race, "with no ordering in between");
        }
    }
}

#[test]
fn a_thread_that_polls_does_not_hold_copies_up() {
    // CTA 1, or another warp of CTA 0, polls a flag that is raised behind a copy.
    let body = |polls: &str| {
        format!(
            "{polls} @p bra SPIN; setp.ge.u32 p, t, 32; @p bra END; @!one bra WAIT; mbarrier.init.shared.b64 [bar], 1;
fence.proxy.async.shared::cta; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128; add.u64 a, out, 1024;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [a], 128, [bar];
WAIT: bar.warp.sync -1; AGAIN: mbarrier.try_wait.parity.shared.b64 q, [bar], 0; @!q bra AGAIN;
add.u64 a, out, 512; @one st.release.gpu.global.u32 [a], 1; bra END;
SPIN: add.u64 a, out, 512; ld.acquire.gpu.global.u32 v, [a]; setp.eq.u32 q, v, 0; @q bra SPIN;
@one st.global.u32 [out], v; END:"
        )
    };
    gives(&module("", &body("setp.ne.u32 p, c, 0;")), &How::with_sizes(2, 32), &[1]);
    let within =
        body("setp.ge.u32 p, t, 32;").replace("@one st.global.u32 [out], v;", "st.global.u32 [out], v;");
    gives(&module("", &within), &two_warps(), &[1]);
    // What nobody raises is waited for until the states of all warps repeat.
    let never = body("setp.ne.u32 p, c, 0;").replace("@one st.release.gpu.global.u32 [a], 1;", "");
    let how = How { seeds: 1, fuel: 1_000_000, ..How::with_sizes(2, 32) };
    breaks(&module("", &never), &how, Rule::Deadlock, "no warp changes what it reads");
}

#[test]
fn the_acquire_of_a_null_tensor_map_is_remarked() {
    let text = |address: &str| {
        module(
            "",
            &format!(
                "mov.u64 a, {address}; fence.proxy.tensormap::generic.acquire.gpu [a], 128; @one st.global.u32 [out], 1;"
            ),
        )
    };
    let mut said = Said::default();
    assert!(run_and_listen(&text("0"), &How { seeds: 1, ..How::with_sizes(1, 32) }, &mut said).is_ok());
    assert!(said.remarks.iter().any(|r| r.contains("at address 0") && r.contains("1 times")), "{said:?}");
    breaks(&text("128"), &How::with_sizes(1, 32), Rule::OutOfBounds, "");
}
