//! Clusters of several CTAs: directives, special registers, distributed shared memory, the cluster barrier, remote arrivals and
//! copies to other CTAs. Each rule has a fault that is caught and a legal twin that is not.

use emulator::Rule;

use crate::foreign::{How, breaks, gives, module, refused};

/// All CTAs meet.
const MEET: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
/// All CTAs meet, and nothing that was written is released.
const MEET_RELAXED: &str = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;";

fn pairs() -> How {
    How::with_sizes(4, 32).in_clusters(2)
}

/// Stores the special registers of each CTA.
const NAMES: &str = "mul.lo.u32 x, c, 32; mul.wide.u32 a, x, 1; add.u64 a, out, a;
mov.u32 v, %cluster_ctarank; st.global.u32 [a], v; mov.u32 v, %cluster_nctarank; st.global.u32 [a+4], v;
mov.u32 v, %cluster_ctaid.x; st.global.u32 [a+8], v; mov.u32 v, %cluster_nctaid.x; st.global.u32 [a+12], v;
mov.u32 v, %clusterid.x; st.global.u32 [a+16], v; mov.u32 v, %nclusterid.x; st.global.u32 [a+20], v;
mov.pred p, %is_explicit_cluster; selp.u32 v, 1, 0, p; st.global.u32 [a+24], v;";

#[test]
fn a_kernel_knows_its_cluster_from_its_directive_or_from_the_launch() {
    let two = [0, 2, 0, 2, 0, 2, 1, 0, 1, 2, 1, 2, 0, 2, 1, 0, 0, 2, 0, 2, 1, 2, 1];
    gives(&module(".reqnctapercluster 2", NAMES), &How::with_sizes(4, 32), &two);
    gives(&module(".explicitcluster .reqnctapercluster 2, 1, 1", NAMES), &pairs(), &two);
    gives(&module("", NAMES), &pairs(), &two);
    gives(&module(".maxclusterrank 4", NAMES), &pairs(), &two);
    gives(&module("", NAMES), &How::with_sizes(1, 32), &[0, 1, 0, 1, 0, 1, 0]);
}

#[test]
fn clusters_of_several_dimensions_are_counted_as_the_manual_does() {
    let body = "mov.u32 x, %ctaid.x; mov.u32 y, %ctaid.y; mov.u32 z, %nctaid.x; mad.lo.u32 x, y, z, x;
mul.wide.u32 a, x, 4; add.u64 a, out, a; mov.u32 v, %cluster_ctarank; mov.u32 w, %clusterid.y; mad.lo.u32 v, w, 100, v;
@one st.global.u32 [a], v;";
    let how = How { grid: [4, 4, 1], cluster: Some([2, 2, 1]), ..How::with_sizes(1, 32) };
    gives(&module("", body), &how, &[0, 1, 0, 1, 2, 3, 2, 3, 100, 101, 100, 101, 102, 103, 102, 103]);
}

#[test]
fn what_directives_and_targets_do_not_allow_is_refused() {
    refused(
        &module(".reqnctapercluster 2", ""),
        &How::with_sizes(4, 32).in_clusters(4),
        "requires .reqnctapercluster",
    );
    refused(&module(".explicitcluster", ""), &How::with_sizes(4, 32), "must name the dimensions");
    refused(&module(".maxclusterrank 2", ""), &How::with_sizes(4, 32).in_clusters(4), ".maxclusterrank 2");
    refused(&module("", ""), &How::with_sizes(5, 32).in_clusters(2), "not a multiple of its cluster");
    refused(&module("", ""), &How::with_sizes(16, 32).in_clusters(16), "the limit of sm_121 is 8");
    let old = module("", "").replace("sm_121a", "sm_89");
    refused(&old, &How::with_sizes(2, 32).in_clusters(2), "sm_90 or later");
}

/// Every CTA writes its word, and reads that of the next rank.
fn exchange(first: &str, last: &str) -> String {
    format!(
        "mov.u32 r, %cluster_ctarank; xor.b32 x, r, 1; add.u32 v, c, 70; @one st.shared.u32 [word], v; {first}
mov.u32 w, word; mapa.shared::cluster.u32 w, w, x; @one ld.shared::cluster.u32 v, [w];
mul.wide.u32 a, c, 4; add.u64 a, out, a; @one st.global.u32 [a], v; {last}"
    )
}

#[test]
fn shared_memory_of_a_peer_is_read_between_two_meetings() {
    gives(&module("", &exchange(MEET, MEET)), &pairs(), &[71, 70, 73, 72]);
    let fenced = format!("fence.acq_rel.cluster; {MEET_RELAXED}");
    gives(&module("", &exchange(&fenced, MEET)), &pairs(), &[71, 70, 73, 72]);
    // What a peer has read it has read, be the last barrier relaxed.
    gives(&module("", &exchange(MEET, MEET_RELAXED)), &pairs(), &[71, 70, 73, 72]);
    breaks(&module("", &exchange(MEET_RELAXED, MEET)), &pairs(), Rule::Race, "of CTA rank");
    breaks(&module("", &exchange("", MEET)), &pairs(), Rule::Race, "may not have started");
    breaks(&module("", &exchange(MEET, "")), &pairs(), Rule::UseAfterFree, "");
}

#[test]
fn generic_addresses_reach_peers_and_the_cta_window_does_not() {
    let read = |how: &str| {
        exchange(MEET, MEET).replace(
            "mov.u32 w, word; mapa.shared::cluster.u32 w, w, x; @one ld.shared::cluster.u32 v, [w];",
            how,
        )
    };
    let generic = read(
        "mov.u64 b, word; cvta.shared.u64 b, b; mapa.u64 b, b, x; @one ld.u32 v, [b]; getctarank.u64 z, b; \
         isspacep.shared::cluster p, b; isspacep.shared::cta q, b; @q trap; @!p trap; setp.ne.u32 q, z, x; @q trap;",
    );
    gives(&module("", &generic), &pairs(), &[71, 70, 73, 72]);
    let own = read("mov.u32 w, word; mapa.shared::cluster.u32 w, w, x; @one ld.shared::cta.u32 v, [w];");
    breaks(&module("", &own), &pairs(), Rule::OutOfBounds, "the instruction reaches its own CTA only");
    let same = read("mov.u32 w, word; mapa.shared::cluster.u32 w, w, r; @one ld.shared.u32 v, [w];");
    gives(&module("", &same), &pairs(), &[70, 71, 72, 73]);
}

#[test]
fn a_rank_beyond_the_cluster_is_wrong_where_it_is_used() {
    let body = |used: &str| {
        format!(
            "mov.u32 w, word; add.u32 x, t, 2; mapa.shared::cluster.u32 w, w, x; setp.eq.u32 p, t, 99;
{used} st.shared::cluster.u32 [w], t; setp.eq.and.u32 p, c, 0, one; @p st.global.u32 [out], 1;"
        )
    };
    gives(&module("", &body("@p")), &pairs(), &[1]);
    gives(&module("", &body("@p")), &How::with_sizes(1, 32), &[1]);
    breaks(&module("", &body("@one")), &pairs(), Rule::OutOfBounds, "of CTA rank 2, in a cluster of 2");
    breaks(&module("", &body("")), &How::with_sizes(1, 32), Rule::OutOfBounds, "in a cluster of 1");
}

#[test]
fn atomics_on_a_peer_count_and_plain_stores_race() {
    let body = |add: &str| {
        format!(
            "@one st.shared.u32 [word], 0; {MEET} mov.u32 w, word; mapa.shared::cluster.u32 w, w, 0; {add} {MEET}
mov.u32 r, %cluster_ctarank; setp.eq.and.u32 p, r, 0, one; @p ld.shared.u32 v, [word]; mul.wide.u32 a, c, 4;
add.u64 a, out, a; @p st.global.u32 [a], v;"
        )
    };
    gives(&module("", &body("atom.shared::cluster.add.u32 v, [w], 1;")), &pairs(), &[64, 0, 64, 0]);
    gives(
        &module("", &body("red.relaxed.cluster.shared::cluster.add.u32 [w], 1;")),
        &pairs(),
        &[64, 0, 64, 0],
    );
    let scoped = body("red.relaxed.cta.shared::cluster.add.u32 [w], 1;");
    breaks(&module("", &scoped), &pairs(), Rule::Race, "of CTA rank");
    breaks(&module("", &body("@one st.shared::cluster.u32 [w], c;")), &pairs(), Rule::Race, "of CTA rank");
}

/// Rank 1 fills the tile of rank 0 and arrives at its barrier object; rank 0 waits there.
fn filled(init: &str, fill: &str) -> String {
    format!(
        "mov.u32 r, %cluster_ctarank; @one mbarrier.init.shared.b64 [bar], 1; {init}
setp.eq.u32 p, r, 0; @p bra WAIT; mapa.shared::cluster.u32 w, s, 0; mapa.shared::cluster.u32 x, bar, 0;
shl.b32 y, t, 2; add.u32 w, w, y; {fill} bra END;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0; @!q bra WAIT; shl.b32 y, t, 2; add.u32 w, s, y;
ld.shared.u32 v, [w]; mul.wide.u32 a, t, 4; add.u64 a, out, a; st.global.u32 [a], v; END: {MEET}"
    )
}

#[test]
fn an_arrival_at_a_peer_releases_what_was_written_there() {
    let init = format!("fence.mbarrier_init.release.cluster; {MEET_RELAXED}");
    let store = "add.u32 v, t, 5; st.shared::cluster.u32 [w], v; bar.warp.sync -1;";
    let two = How::with_sizes(2, 32).in_clusters(2);
    let good = format!("{store} @one mbarrier.arrive.release.cluster.shared::cluster.b64 _, [x];");
    gives(&module("", &filled(&init, &good)), &two, &[5, 6, 7, 8]);
    let late = format!("@one mbarrier.arrive.release.cluster.shared::cluster.b64 _, [x]; {store}");
    breaks(&module("", &filled(&init, &late)), &two, Rule::Race, "");
    let relaxed = format!("{store} @one mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [x];");
    breaks(&module("", &filled(&init, &relaxed)), &two, Rule::Race, "of CTA rank");
    // Nothing makes the object known to the other CTA.
    breaks(&module("", &filled(MEET_RELAXED, &good)), &two, Rule::Race, "initialised with no ordering");
    gives(&module("", &filled(MEET, &good)), &two, &[5, 6, 7, 8]);
}

#[test]
fn asynchronous_stores_and_copies_reach_a_peer() {
    let init = format!("fence.mbarrier_init.release.cluster; {MEET}");
    let two = How::with_sizes(2, 32).in_clusters(2);
    let expect = "@one mbarrier.arrive.expect_tx.shared::cluster.b64 _, [x], 128; bar.warp.sync -1;";
    let stores = format!(
        "{expect} add.u32 v, t, 9; st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [w], v, [x];"
    );
    gives(&module("", &filled(&init, &stores)), &two, &[9, 10, 11]);
    let copy = "add.u32 v, t, 3; add.u32 y, s, y; st.shared.u32 [y], v; fence.proxy.async.shared::cta; bar.warp.sync -1;";
    let send = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [w], [s], 128, [x];";
    gives(&module("", &filled(&init, &format!("{expect} {copy} @one {send}"))), &two, &[3, 4, 5]);
    let unfenced = copy.replace("fence.proxy.async.shared::cta;", "");
    breaks(
        &module("", &filled(&init, &format!("{expect} {unfenced} @one {send}"))),
        &two,
        Rule::Race,
        "no proxy fence",
    );
    let apart = send.replace("[x]", "[bar]");
    breaks(
        &module("", &filled(&init, &format!("{expect} {copy} @one {apart}"))),
        &two,
        Rule::Operand,
        "its mbarrier is in",
    );
}

/// One CTA brings bytes to all CTAs of a mask.
fn multicast(mask: u32, meet: &str) -> String {
    format!(
        "mov.u32 r, %cluster_ctarank; @one mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
@one mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128; {meet} mov.b32 x, {mask}; cvt.u16.u32 m, x;
setp.eq.and.u32 p, r, 0, one; add.u64 b, out, 4096;
@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [s], [b], 128, [bar], m;
WAIT: mbarrier.try_wait.parity.shared.b64 q, [bar], 0; @!q bra WAIT; ld.shared.u32 v, [s+64]; add.u32 v, v, c;
add.u32 v, v, 1; mul.wide.u32 a, c, 4; add.u64 a, out, a; @one st.global.u32 [a], v; {MEET}"
    )
}

#[test]
fn a_multicast_fills_every_cta_of_its_mask() {
    let text = |mask, meet| module("", &format!(".reg .b16 m; {}", multicast(mask, meet)));
    gives(&text(3, MEET), &pairs(), &[1, 2, 3, 4]);
    breaks(&text(1, MEET), &pairs(), Rule::Deadlock, "128 bytes missing");
    breaks(&text(7, MEET), &pairs(), Rule::Operand, "CTA mask 0x0007 in a cluster of 2");
    breaks(&text(3, ""), &pairs(), Rule::Race, "may not have started");
}

#[test]
fn a_cluster_takes_the_work_of_whole_clusters() {
    // Clusters of two that begin after four CTAs are taken: every CTA adds 1 to its cluster's words.
    let body = format!(
        "mov.u32 r, %cluster_ctarank; @one mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; {MEET}
mov.u32 n, 0; sub.u32 x, c, r;
LOOP: add.u32 y, x, r; mul.wide.u32 a, y, 4; add.u64 a, out, a; @one red.global.add.u32 [a], 1;
@one mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; {MEET} setp.eq.and.u32 p, r, 0, one;
@p clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [s], [bar];
WAIT: mbarrier.try_wait.parity.shared.b64 q, [bar], n; @!q bra WAIT; xor.b32 n, n, 1;
ld.shared.b128 h, [s]; fence.proxy.async.shared::cta; {MEET}
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 q, h; @!q bra END;
clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 x, h; bra LOOP; END: {MEET}"
    );
    gives(&module("", &format!(".reg .b128 h; {body}")), &How::with_sizes(24, 32).in_clusters(2), &[1; 24]);
}
