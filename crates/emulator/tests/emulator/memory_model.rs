//! The memory model: release, acquire, fences and scopes; `mbarrier.init`; tensor maps on their way to their proxy. Each rule
//! has a fault that is caught and a legal twin that is not.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use emulator::{GlobalMemory, Launch, Law, Options, Stop, launch, load};

/// Runs a body of CTAs of `threads` on 64 KiB of zeros at `out`; the law it breaks under any of some schedules, with its text.
fn breaks_in(body: &str, ctas: u32, threads: u32, shared_bytes: u32) -> Option<(Law, String)> {
    let text = format!(
        ".version 9.0\n.target sm_121a\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u64 p_out)\n{{\n.reg .b64 out, a, b; .reg .b32 t, c, v, w, x, s, f, n, y<4>;
.reg .pred p, q, first, one; .shared .align 128 .b8 map[128]; .shared .align 256 .b8 tile[1024]; .shared .align 8 .b64 bar;
.shared .u32 flag, data; ld.param.u64 out, [p_out]; mov.u32 t, %tid.x; mov.u32 c, %ctaid.x; mov.u32 s, tile;
setp.eq.u32 one, t, 0; setp.eq.u32 first, c, 0;\n{body}\nret;\n}}\n"
    );
    let program = load(&text).unwrap_or_else(|stop| panic!("{stop}\n{body}"));
    (0..12).find_map(|seed| {
        let mut memory = GlobalMemory::default();
        let out = memory.allocate_with(vec![0; 1 << 16]);
        let how = Launch {
            grid: [ctas, 1, 1],
            block: [threads, 1, 1],
            shared_bytes,
            params: out.to_le_bytes().to_vec(),
        };
        let options = Options { seed, ..Options::default() };
        match launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &options) {
            Ok(_) => None,
            Err(Stop::Trap(trap)) => Some((trap.law, trap.to_string())),
            Err(other) => panic!("seed {seed}: {other}\n{body}"),
        }
    })
}

fn breaks(body: &str, ctas: u32, threads: u32) -> Option<(Law, String)> {
    breaks_in(body, ctas, threads, 0)
}

#[track_caller]
fn races(body: &str, ctas: u32, threads: u32, says: &str) {
    match breaks(body, ctas, threads) {
        Some((Law::Race, what)) => assert!(what.contains(says), "{what}\n{body}"),
        other => panic!("{other:?} instead of a race\n{body}"),
    }
}

#[track_caller]
fn passes(body: &str, ctas: u32, threads: u32) {
    assert_eq!(breaks(body, ctas, threads), None, "{body}");
}

/// CTA 0 writes data and raises a flag; CTA 1 waits for the flag and reads.
fn message(raise: &str, wait: &str) -> String {
    format!(
        "@!one bra END; @!first bra READER; st.global.u32 [out+256], 7; {raise} bra END;
READER: {wait} setp.eq.u32 p, f, 0; @p bra READER; AFTER ld.global.u32 v, [out+256]; END:"
    )
}

#[test]
fn a_flag_between_ctas_needs_release_and_acquire_at_the_scope_of_the_gpu() {
    let ends = |raise: &str, wait: &str, after: &str| message(raise, wait).replace("AFTER", after);
    let legal = [
        ("st.release.gpu.global.u32 [out], 1;", "ld.acquire.gpu.global.u32 f, [out];", ""),
        ("st.release.sys.global.u32 [out], 1;", "ld.acquire.gpu.global.u32 f, [out];", ""),
        ("red.release.gpu.global.add.u32 [out], 1;", "atom.acquire.gpu.global.add.u32 f, [out], 0;", ""),
        (
            "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [out], 1;",
            "ld.relaxed.gpu.global.u32 f, [out];",
            "fence.acq_rel.gpu;",
        ),
        ("membar.gl; st.volatile.global.u32 [out], 1;", "ld.volatile.global.u32 f, [out];", "membar.gl;"),
        ("membar.gl; red.global.add.u32 [out], 1;", "ld.acquire.gpu.global.u32 f, [out];", ""),
        // A read-modify-write between them continues the release sequence.
        (
            "st.release.gpu.global.u32 [out], 1; red.relaxed.gpu.global.add.u32 [out], 1;",
            "ld.acquire.gpu.global.u32 f, [out];",
            "",
        ),
    ];
    for (raise, wait, after) in legal {
        passes(&ends(raise, wait, after), 2, 32);
    }
    let faults = [
        ("st.relaxed.gpu.global.u32 [out], 1;", "ld.acquire.gpu.global.u32 f, [out];", ""),
        ("st.release.gpu.global.u32 [out], 1;", "ld.relaxed.gpu.global.u32 f, [out];", ""),
        ("fence.acq_rel.cta; st.relaxed.gpu.global.u32 [out], 1;", "ld.acquire.gpu.global.u32 f, [out];", ""),
        ("fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [out], 1;", "ld.relaxed.gpu.global.u32 f, [out];", ""),
        (
            "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [out], 1;",
            "ld.relaxed.gpu.global.u32 f, [out];",
            "fence.acq_rel.cta;",
        ),
        ("st.volatile.global.u32 [out], 1;", "ld.volatile.global.u32 f, [out];", ""),
        // A store begins another sequence, which releases nothing.
        (
            "st.release.gpu.global.u32 [out], 0; st.relaxed.gpu.global.u32 [out], 1;",
            "ld.acquire.gpu.global.u32 f, [out];",
            "",
        ),
    ];
    for (raise, wait, after) in faults {
        races(&ends(raise, wait, after), 2, 32, "with no ordering in between");
    }
    let narrow = ends("st.release.cta.global.u32 [out], 1;", "ld.acquire.cta.global.u32 f, [out];", "");
    races(&narrow, 2, 32, "scopes that include each other's thread");
}

#[test]
fn atomics_of_two_ctas_race_when_their_scope_is_the_cta() {
    passes("red.relaxed.gpu.global.add.u32 [out], 1;", 2, 32);
    passes("red.relaxed.cta.global.add.u32 [out], 1;", 1, 64);
    races("red.relaxed.cta.global.add.u32 [out], 1;", 2, 32, "scopes that include each other's thread");
}

#[test]
fn what_a_grid_writes_is_not_read_non_coherently() {
    let body = |read: &str| {
        format!(
            "mul.wide.u32 a, t, 4; add.u64 a, a, out; st.global.u32 [a], t; bar.sync 0; ld.global{read}.u32 v, [a+4];"
        )
    };
    passes(&body("").replace("[a+4]", "[a]"), 1, 64);
    // Nobody writes so far behind.
    passes("ld.global.nc.u32 v, [out];", 2, 64);
    races(&body(".nc").replace("[a+4]", "[a]"), 1, 64, "non-coherent read");
    races(&body(".nc").replace("[a+4]", "[out]"), 1, 64, "non-coherent read");
}

#[test]
fn a_try_to_wait_may_give_up_before_the_phase_is_complete() {
    let body = |again: &str| {
        format!(
            "@one mbarrier.init.shared.b64 [bar], 1; @one st.shared.u32 [data], 0; bar.sync 0; setp.eq.u32 p, t, 32; @p bra READER; @!one bra END;
st.shared.u32 [data], 7; mbarrier.arrive.shared.b64 _, [bar]; bra END;
READER: mbarrier.try_wait.parity.shared.b64 q, [bar], 0; {again} ld.shared.u32 v, [data]; END:"
        )
    };
    passes(&body("@!q bra READER;"), 8, 64);
    races(&body(""), 8, 64, "shared address");
}

#[test]
fn nothing_lies_behind_the_static_variables() {
    // The last variable, which ends in the middle of 16 bytes, and the word behind it.
    let end = |offset: &str| breaks(&format!("@one st.shared.u32 [data{offset}], 1;"), 1, 32);
    assert_eq!(end(""), None);
    assert!(matches!(end("+4"), Some((Law::OutOfBounds, _))), "{:?}", end("+4"));
}

#[test]
fn the_last_cta_sums_up() {
    // Every thread writes, one arrives, and the threads of the last CTA read what all wrote.
    let last = |before: &str, arrive: &str, behind: &str| {
        format!(
            "mad.lo.u32 v, c, 64, t; mul.wide.u32 a, v, 4; add.u64 a, a, out; st.global.u32 [a+256], t; {before}
@one {arrive} @one st.shared.u32 [flag], f; {behind} bar.sync 0; ld.shared.u32 f, [flag]; setp.ne.u32 p, f, 2; @p bra END;
mul.wide.u32 a, t, 4; add.u64 a, a, out; ld.global.u32 v, [a+256]; ld.global.u32 w, [a+512]; ld.global.u32 x, [a+768]; END:"
        )
    };
    let acq_rel = "atom.acq_rel.gpu.global.add.u32 f, [out], 1;";
    let relaxed = "atom.global.add.u32 f, [out], 1;";
    passes(&last("bar.sync 0;", acq_rel, ""), 3, 64);
    // The fences of all threads, a barrier, and a relaxed arrival: `__threadfence(); __syncthreads(); atomicAdd`.
    passes(&last("fence.acq_rel.gpu; bar.sync 0;", relaxed, "@one fence.acq_rel.gpu;"), 3, 64);
    races(&last("bar.sync 0;", relaxed, ""), 3, 64, "no ordering");
    races(&last("bar.sync 0;", &acq_rel.replace("gpu", "cta"), ""), 3, 64, "scopes");
    races(&last("bar.sync 0;", &acq_rel.replace("acq_rel", "release"), ""), 3, 64, "no ordering");
    races(&last("bar.sync 0;", &acq_rel.replace("acq_rel", "acquire"), ""), 3, 64, "no ordering");
    // Without the barrier the arrival says nothing of what the other warp wrote.
    races(&last("", acq_rel, ""), 3, 64, "no ordering");
}

#[test]
fn a_flag_in_shared_memory_needs_release_and_acquire() {
    let body = |raise: &str, wait: &str| {
        format!(
            "@one st.relaxed.cta.shared.u32 [flag], 0; bar.sync 0; setp.eq.u32 p, t, 32; @p bra READER; @!one bra END;
st.shared.u32 [data], 7; {raise} bra END;
READER: {wait} setp.eq.u32 q, f, 0; @q bra READER; ld.shared.u32 v, [data]; END:"
        )
    };
    let (release, acquire) = ("st.release.cta.shared.u32 [flag], 1;", "ld.acquire.cta.shared.u32 f, [flag];");
    passes(&body(release, acquire), 1, 64);
    passes(&body(&format!("membar.cta; {}", release.replace("release", "relaxed")), acquire), 1, 64);
    races(&body(&release.replace("release", "relaxed"), acquire), 1, 64, "shared address");
    races(&body(release, &acquire.replace("acquire", "relaxed")), 1, 64, "shared address");
}

#[test]
fn relaxed_operations_on_barrier_objects_need_fences() {
    let body = |arrive: &str, wait: &str, after: &str| {
        format!(
            "@one mbarrier.init.shared.b64 [bar], 1; @one st.shared.u32 [data], 0; bar.sync 0; setp.eq.u32 p, t, 32; @p bra READER; @!one bra END;
st.shared.u32 [data], 7; {arrive} bra END;
READER: mbarrier.try_wait.parity{wait}.shared.b64 q, [bar], 0; @!q bra READER; {after} ld.shared.u32 v, [data]; END:"
        )
    };
    let relaxed = "mbarrier.arrive.relaxed.cta.shared.b64 _, [bar];";
    passes(&body("mbarrier.arrive.shared.b64 _, [bar];", "", ""), 1, 64);
    passes(&body(&format!("fence.acq_rel.cta; {relaxed}"), "", ""), 1, 64);
    passes(&body("mbarrier.arrive.shared.b64 _, [bar];", ".relaxed.cta", "fence.acq_rel.cta;"), 1, 64);
    races(&body(relaxed, "", ""), 1, 64, "shared address");
    races(&body("mbarrier.arrive.shared.b64 _, [bar];", ".relaxed.cta", ""), 1, 64, "shared address");
    // A fence and `complete_tx`, which is relaxed.
    let complete = |fence: &str| {
        format!(
            "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 4; mbarrier.arrive.relaxed.cta.shared.b64 _, [bar]; st.shared.u32 [data], 8;
{fence} mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 4;"
        )
    };
    passes(&body(&complete("fence.release.sync_restrict::shared::cta.cluster;"), "", ""), 1, 64);
    races(&body(&complete(""), "", ""), 1, 64, "shared address");
}

#[test]
fn copies_that_arrive_at_a_barrier_object_are_there_for_other_warps() {
    let body = "@one mbarrier.init.shared.b64 [bar], 64; bar.sync 0; shl.b32 v, t, 2; add.u32 w, s, v; mul.wide.u32 a, t, 4;
add.u64 a, a, out; cp.async.ca.shared.global [w], [a], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
W: mbarrier.try_wait.parity.shared.b64 p, [bar], 0; @!p bra W; xor.b32 w, w, 128; ld.shared.u32 v, [w];";
    passes(body, 1, 64);
}

#[test]
fn a_barrier_object_is_initialised_before_other_warps_use_it() {
    let body = |between: &str| {
        format!("@one mbarrier.init.shared.b64 [bar], 64; {between} mbarrier.arrive.shared.b64 _, [bar];")
    };
    passes(&body("bar.sync 0;"), 1, 64);
    let (law, what) = breaks(&body("bar.warp.sync -1;"), 1, 64).unwrap();
    assert!(
        law == Law::Race && what.contains("initialised with no ordering") || law == Law::Barrier,
        "{what}"
    );
    // The other warp comes late, and yet nothing says that it must.
    let late = "@one mbarrier.init.shared.b64 [bar], 64; @one st.relaxed.cta.shared.u32 [flag], 1;
W: ld.relaxed.cta.shared.u32 f, [flag]; setp.ne.u32 p, f, 1; @p bra W; mbarrier.arrive.shared.b64 _, [bar];";
    let late =
        late.replace("@one mbarrier", "@one st.relaxed.cta.shared.u32 [flag], 0; bar.sync 0; @one mbarrier");
    races(&late, 1, 64, "initialised with no ordering in between");
}

#[test]
fn the_async_proxy_sees_an_initialisation_behind_a_fence() {
    let body = |maker: &str, issuer: &str| {
        format!(
            "setp.eq.u32 p, t, 32; @one mbarrier.init.shared.b64 [bar], 1; {maker} bar.sync 0; @!p bra END; {issuer}
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [out], 64, [bar];
W: mbarrier.try_wait.parity.shared.b64 q, [bar], 0; @!q bra W; END:"
        )
    };
    passes(&body("@one fence.mbarrier_init.release.cluster;", ""), 1, 64);
    passes(&body("@one fence.proxy.async.shared::cta;", ""), 1, 64);
    passes(&body("", "fence.proxy.async;"), 1, 64);
    races(&body("", ""), 1, 64, "no proxy fence: the async proxy uses the mbarrier");
    races(&body("@one fence.proxy.async.global;", ""), 1, 64, "no proxy fence");
    races(&body("", "fence.mbarrier_init.release.cluster;"), 1, 64, "no proxy fence");
}

#[test]
fn dynamic_shared_memory_begins_on_sixteen_bytes() {
    // Whoever relies on more than 16 bytes finds another base under some seed.
    let body = "mov.u32 s, dynamic; and.b32 v, s, MASK; setp.ne.u32 p, v, 0; @p trap; st.shared.u32 [dynamic+252], t;";
    assert_eq!(breaks_in(&body.replace("MASK", "15"), 1, 1, 256), None);
    assert_eq!(breaks_in(&body.replace("MASK", "1023"), 1, 1, 256).unwrap().0, Law::Explicit);
    let outside = body.replace("MASK", "15").replace("+252", "+256");
    assert_eq!(breaks_in(&outside, 1, 1, 256).unwrap().0, Law::OutOfBounds);
}

#[test]
fn fences_that_ptxas_refuses_are_refused() {
    let refused = |fence: &str| {
        let head = ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k(.param .u64 p_out)\n";
        let text = format!("{head}{{\n.reg .b64 out; ld.param.u64 out, [p_out];\n{fence}\nret;\n}}\n");
        let mut memory = GlobalMemory::default();
        let params = memory.allocate(64).to_le_bytes().to_vec();
        let how = Launch { grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, params };
        let ran = load(&text).and_then(|program| {
            launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &Options::default())
        });
        match ran {
            Err(Stop::Unsupported(unsupported)) => unsupported.to_string(),
            other => panic!("{fence}: {other:?}"),
        }
    };
    for fence in ["fence.mbarrier_init.release.cta;", "fence.mbarrier_init.acquire.cluster;"] {
        assert!(refused(fence).contains("`.release.cluster` and nothing else"), "{}", refused(fence));
    }
    for size in ["64", "129"] {
        let fence = format!("fence.proxy.tensormap::generic.acquire.gpu [out], {size};");
        assert!(refused(&fence).contains("128 bytes"), "{}", refused(&fence));
    }
}
