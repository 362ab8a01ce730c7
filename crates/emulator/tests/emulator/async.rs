//! Asynchronous copies, barrier objects and the laws between them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use emulator::{GlobalMemory, Launch, Law, Options, Stop, launch, load};

const HEADER: &str = ".version 9.0\n.target sm_121a\n.address_size 64\n";

const DECLARATIONS: &str = ".reg .b64 in, out, a, b, st<4>; .reg .b32 t, i, v, w, x, s, d, n, lane, warp, ph;
.reg .pred p, q, one;
.shared .align 1024 .b8 tile[8192];
.shared .align 8 .b64 bar, bar2;
ld.param.u64 in, [p_in]; ld.param.u64 out, [p_out]; mov.u32 t, %tid.x; mov.u32 s, tile; setp.eq.u32 one, t, 0;\n";

/// Runs a body that knows `in` and `out`; gives `out`, 64 KiB of words that begin as zeros.
fn run_with(body: &str, threads: u32, options: &Options) -> Result<Vec<u32>, Stop> {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p_in, .param .u64 p_out)\n{{\n{DECLARATIONS}{body}\nret;\n}}\n"
    );
    let program = load(&text)?;
    let mut memory = GlobalMemory::default();
    let from = memory.allocate_with(input().iter().flat_map(|w| w.to_le_bytes()).collect());
    let out = memory.allocate_with(vec![0; 1 << 16]);
    let params = [from.to_le_bytes(), out.to_le_bytes()].concat();
    let how = Launch { grid: [1, 1, 1], block: [threads, 1, 1], shared_bytes: 0, params };
    launch(&program, program.kernel("k").unwrap(), &how, &mut memory, options)?;
    let bytes = memory.bytes(out).unwrap();
    Ok(bytes.chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect())
}

fn run(body: &str, threads: u32) -> Result<Vec<u32>, Stop> {
    run_with(body, threads, &Options::default())
}

fn input() -> Vec<u32> {
    (0..1 << 14).map(|i: u32| i.wrapping_mul(2_654_435_761) ^ i >> 3).collect()
}

/// The law that a body breaks, whatever the schedule, and what is said under the plain one.
fn trap(body: &str, threads: u32) -> (Law, String) {
    let law = |seed| match run_with(body, threads, &Options { seed, ..Options::default() }) {
        Err(Stop::Trap(trap)) => (trap.law, format!("{trap}")),
        Ok(_) => panic!("no trap under seed {seed}:\n{body}"),
        Err(other) => panic!("seed {seed}: {other}"),
    };
    law(0)
}

/// Stores `v` in `out` at the thread's place.
const STORE: &str = "mul.wide.u32 a, t, 4; add.u64 a, a, out; st.global.u32 [a], v;";

#[test]
fn cp_async_copies_fills_and_leaves_out() {
    // Threads take 16 bytes, 8, 4, 10 of 16 (rest zeros), and nothing at all.
    let body = |copy: &str, size: u32| {
        format!(
            "mul.wide.u32 a, t, {size}; add.u64 a, a, in; mad.lo.u32 d, t, {size}, s; setp.lt.u32 p, t, 7;
mov.u32 n, 10; {copy} cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
shl.b32 d, t, 2; add.u32 d, d, s; ld.shared.u32 v, [d]; {STORE}"
        )
    };
    let words = input();
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    for (copy, size, have) in [
        ("cp.async.cg.shared.global [d], [a], 16;", 16, 16),
        ("cp.async.ca.shared::cta.global.L2::128B [d], [a], 8;", 8, 8),
        ("cp.async.ca.shared::cta.global [d], [a], 4;", 4, 4),
        ("cp.async.cg.shared.global [d], [a], 16, n;", 16, 10),
        ("cp.async.ca.shared.global [d], [a], 16, 0;", 16, 0),
    ] {
        for seed in 0..4 {
            let got = run_with(&body(copy, size), 64, &Options { seed, ..Options::default() }).unwrap();
            let want: Vec<u8> =
                (0..256).map(|i| if i % size < have { bytes[i as usize] } else { 0 }).collect();
            let got: Vec<u8> = got[..64].iter().flat_map(|w| w.to_le_bytes()).collect();
            assert_eq!(got[..], want[..], "{copy} seed {seed}");
        }
    }
    let got = run(&body("cp.async.cg.shared.global [d], [a], 16, p;", 16), 64).unwrap();
    for i in 0..64 {
        assert_eq!(got[i], if i / 4 < 7 { 0 } else { words[i] });
    }
}

#[test]
fn groups_are_waited_for_in_order() {
    // Three groups; with one left under way, the first two may be read.
    let copy = |k: u32| {
        format!("cp.async.ca.shared.global [d+{}], [a+{}], 4; cp.async.commit_group;", k * 512, k * 512)
    };
    let body = |wait: &str, read: u32| {
        format!(
            "mul.wide.u32 a, t, 4; add.u64 a, a, in; shl.b32 d, t, 2; add.u32 d, d, s; {}{}{} {wait};
ld.shared.u32 v, [d+{}]; {STORE} cp.async.wait_all;",
            copy(0),
            copy(1),
            copy(2),
            read * 512
        )
    };
    let words = input();
    for k in 0..2 {
        let got = run(&body("cp.async.wait_group 1", k), 64).unwrap();
        assert_eq!(got[..64], words[k as usize * 128..][..64]);
    }
    let (law, what) = trap(&body("cp.async.wait_group 1", 2), 64);
    assert_eq!(law, Law::Race, "{what}");
    assert!(what.contains("copy of line"), "{what}");
    assert_eq!(trap(&body("cp.async.wait_group 2", 1), 64).0, Law::Race);
}

#[test]
fn cp_async_laws() {
    let copy = "mul.wide.u32 a, t, 16; add.u64 a, a, in; shl.b32 d, t, 4; add.u32 d, d, s;";
    for (body, law) in [
        // Nobody waits; only half of the warps wait; the source is read while it is written to.
        (format!("{copy} cp.async.cg.shared.global [d], [a], 16; ld.shared.u32 v, [d];"), Law::Race),
        (
            format!(
                "{copy} cp.async.cg.shared.global [d], [a], 16; st.shared.u32 [d], t; cp.async.wait_all;"
            ),
            Law::Race,
        ),
        (format!("{copy} cp.async.cg.shared.global [d+4], [a], 16;"), Law::Misaligned),
        (format!("{copy} cp.async.cg.shared.global [d], [a+8], 16;"), Law::Misaligned),
        (format!("{copy} cp.async.cg.shared.global [d+8192], [a], 16;"), Law::OutOfBounds),
        (format!("{copy} cp.async.cg.shared.global [d], [a+65536], 16;"), Law::OutOfBounds),
        (format!("{copy} mov.u32 n, 17; cp.async.cg.shared.global [d], [a], 16, n;"), Law::Operand),
        // Two copies into the same bytes.
        (format!("{copy} cp.async.cg.shared.global [s], [a], 16; cp.async.wait_all;"), Law::Race),
        // A wait without a commit waits for nothing.
        (
            format!(
                "{copy} cp.async.cg.shared.global [d], [a], 16; cp.async.wait_group 0; ld.shared.u32 v, [d];"
            ),
            Law::Race,
        ),
    ] {
        let (got, what) = trap(&body, 32);
        assert_eq!(got, law, "{body}\n{what}");
    }
}

#[test]
fn cp_async_tells_barrier_objects() {
    for (count, form) in [(1, ""), (65, ".noinc")] {
        let body = format!(
            "@one mbarrier.init.shared.b64 [bar], {count}; bar.sync 0;
mul.wide.u32 a, t, 4; add.u64 a, a, in; shl.b32 d, t, 2; add.u32 d, d, s;
cp.async.ca.shared.global [d], [a], 4; cp.async.mbarrier.arrive{form}.shared.b64 [bar];
bar.sync 0; @one mbarrier.arrive.shared.b64 _, [bar];
W: mbarrier.test_wait.parity.shared.b64 p, [bar], 0; @!p bra W;
xor.b32 d, d, 4; ld.shared.u32 v, [d]; {STORE}"
        );
        for seed in 0..16 {
            let got = run_with(&body, 64, &Options { seed, ..Options::default() })
                .unwrap_or_else(|s| panic!("{form} seed {seed}: {s}"));
            let words = input();
            assert!((0..64).all(|i| got[i] == words[i ^ 1]));
        }
    }
}

#[test]
fn barrier_objects_count_and_tell_phases() {
    let body = "@!one bra END; mbarrier.init.shared.b64 [bar], 3;
mbarrier.arrive.shared.b64 st0, [bar]; mbarrier.pending_count.b64 v, st0; st.global.u32 [out], v;
mbarrier.arrive.noComplete.shared.b64 st1, [bar], 1; mbarrier.pending_count.b64 v, st1; st.global.u32 [out+4], v;
mbarrier.test_wait.shared.b64 p, [bar], st0; selp.u32 v, 1, 2, p; st.global.u32 [out+8], v;
mbarrier.test_wait.parity.shared.b64 p, [bar], 1; selp.u32 v, 1, 2, p; st.global.u32 [out+12], v;
mbarrier.arrive_drop.release.cta.shared::cta.b64 st2, [bar];
mbarrier.test_wait.shared.b64 p, [bar], st0; selp.u32 v, 1, 2, p; st.global.u32 [out+16], v;
mbarrier.arrive.release.cluster.shared::cta.b64 st3, [bar], 2; mbarrier.pending_count.b64 v, st3; st.global.u32 [out+20], v;
mbarrier.try_wait.parity.shared.b64 p, [bar], 1; selp.u32 v, 1, 2, p; st.global.u32 [out+24], v;
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 64; mbarrier.arrive.shared.b64 st3, [bar], 2;
mbarrier.test_wait.shared.b64 p, [bar], st3; selp.u32 v, 1, 2, p; st.global.u32 [out+28], v;
mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 64;
mbarrier.test_wait.shared.b64 p, [bar], st3; selp.u32 v, 1, 2, p; st.global.u32 [out+32], v;
cvta.shared.u64 a, bar; mbarrier.inval.b64 [a]; st.shared.u64 [bar], 5; mbarrier.inval.b64 [a]; END:";
    // The last `inval` has no object.
    assert_eq!(trap(body, 32).0, Law::Barrier);
    let got = run(&body.replace("mbarrier.inval.b64 [a]; END", "END"), 32).unwrap();
    assert_eq!(got[..9], [3, 2, 2, 1, 1, 2, 1, 2, 1]);
}

#[test]
fn barrier_object_laws() {
    let init = "mbarrier.init.shared.b64 [bar], 1;";
    for (body, law) in [
        ("mbarrier.arrive.shared.b64 _, [bar];".to_owned(), Law::Barrier),
        (
            format!("{init} mbarrier.inval.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar];"),
            Law::Barrier,
        ),
        (format!("{init} {init}"), Law::Barrier),
        ("mbarrier.init.shared.b64 [bar], 0;".to_owned(), Law::Barrier),
        ("mbarrier.init.shared.b64 [bar], 1048576;".to_owned(), Law::Barrier),
        ("mbarrier.init.shared.b64 [bar+4], 1;".to_owned(), Law::Misaligned),
        ("mbarrier.init.b64 [out], 1;".to_owned(), Law::WrongSpace),
        (format!("{init} mbarrier.arrive.shared.b64 _, [bar], 2;"), Law::Barrier),
        (format!("{init} mbarrier.arrive.noComplete.shared.b64 _, [bar], 1;"), Law::Barrier),
        (format!("{init} mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 1048576;"), Law::Barrier),
        (format!("{init} ld.shared.u32 v, [bar];"), Law::Barrier),
        (format!("{init} st.shared.u8 [bar+7], t;"), Law::Barrier),
        (format!("{init} mbarrier.test_wait.parity.shared.b64 p, [bar], 2;"), Law::Operand),
        (
            format!(
                "{init} mbarrier.arrive.shared.b64 st0, [bar]; mbarrier.arrive.shared.b64 _, [bar];
mbarrier.arrive.shared.b64 _, [bar]; mbarrier.test_wait.shared.b64 p, [bar], st0;"
            ),
            Law::Barrier,
        ),
        (format!("{init} W: mbarrier.try_wait.parity.shared.b64 p, [bar], 0; @!p bra W;"), Law::Deadlock),
    ] {
        let (got, what) = trap(&format!("@!one bra END; {body} END:"), 1);
        assert_eq!(got, law, "{body}\n{what}");
    }
}

/// One thread brings 1 KiB by a bulk copy and announces `tx` bytes; all wait and read.
fn bulk(tx: u32, before: &str, wait: &str) -> String {
    format!(
        "@one mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; bar.sync 0; {before}
@!one bra PAST;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], {tx};
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [in], 1024, [bar];
PAST: {wait} shl.b32 d, t, 2; add.u32 d, d, s; ld.shared.u32 v, [d]; {STORE}"
    )
}

const WAIT: &str = "W: mbarrier.try_wait.parity.shared.b64 p, [bar], 0; @!p bra W;";
const POLL: &str = "W: mbarrier.test_wait.parity.shared.b64 p, [bar], 0; @!p bra W;";

#[test]
fn bulk_loads_are_waited_for() {
    let words = input();
    for wait in [WAIT, POLL] {
        for seed in 0..8 {
            let got = run_with(&bulk(1024, "", wait), 128, &Options { seed, ..Options::default() }).unwrap();
            assert_eq!(got[..128], words[..128]);
        }
    }
    // Too many bytes announced, and too few: nobody comes past the barrier, and the trap says which it is.
    for tx in [2048, 512] {
        let (law, what) = trap(&bulk(tx, "", WAIT), 128);
        assert_eq!(law, Law::Deadlock);
        assert!(what.contains("phase 0 of the mbarrier at 0x"), "{what}");
        assert!(what.contains("bytes missing"), "{what}");
    }
    let (law, what) = trap(&bulk(1024, "", ""), 128);
    assert_eq!(law, Law::Race, "{what}");
    assert!(what.contains("which the copy of line"), "{what}");
}

#[test]
fn bulk_copy_laws() {
    let load = |operands: &str| {
        format!(
            "@!one bra END; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; mov.u32 n, 24;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes {operands}; END:"
        )
    };
    for (operands, law) in [
        ("[s+8], [in], 32, [bar]", Law::Misaligned),
        ("[s], [in+8], 32, [bar]", Law::Misaligned),
        ("[s], [in], n, [bar]", Law::Misaligned),
        ("[s], [in+65520], 32, [bar]", Law::OutOfBounds),
        ("[s+8192], [in], 16, [bar]", Law::Barrier),
        ("[s+8208], [in], 64, [bar]", Law::OutOfBounds),
        ("[s], [in], 32, [bar2]", Law::Barrier),
        // The CTA ends before its copy.
        ("[s], [in], 32, [bar]", Law::Race),
    ] {
        let (got, what) = trap(&load(operands), 32);
        assert_eq!(got, law, "{operands}: {what}");
    }
}

/// All threads write their word, perhaps fence, and one thread stores 512 bytes in bulk.
fn store(fence: &str, copy: &str, behind: &str) -> String {
    format!(
        "shl.b32 d, t, 2; add.u32 d, d, s; st.shared.u32 [d], t; {fence} bar.sync 0; @!one bra END;
{copy} cp.async.bulk.commit_group; {behind} END:"
    )
}

const FENCE: &str = "fence.proxy.async.shared::cta;";
const PUT: &str = "cp.async.bulk.global.shared::cta.bulk_group [out], [s], 512;";
const DONE: &str = "cp.async.bulk.wait_group 0;";

#[test]
fn bulk_stores_need_a_proxy_fence_and_a_wait() {
    for seed in 0..8 {
        let got = run_with(&store(FENCE, PUT, DONE), 128, &Options { seed, ..Options::default() }).unwrap();
        assert!((0..128).all(|i| got[i] == i as u32));
    }
    // The fence may stand on the thread that stores.
    let late = format!("fence.proxy.async; {PUT}");
    assert!(run(&store("", &late, DONE), 128).is_ok());
    // Once read, the source is free; the bytes arrive at the latest when the CTA ends.
    let read = "cp.async.bulk.wait_group.read 0; st.shared.u32 [s], 77;";
    assert_eq!(run(&store(FENCE, PUT, read), 128).unwrap()[0], 0);
    for (body, law, says) in [
        (store("", PUT, DONE), Law::Race, "no proxy fence"),
        (store("fence.proxy.async.global;", PUT, DONE), Law::Race, "no proxy fence"),
        (store(FENCE, &format!("st.shared.u32 [s+4], t; {PUT}"), DONE), Law::Race, "no proxy fence"),
        (store(FENCE, PUT, "st.shared.u32 [s], 7; cp.async.bulk.wait_group 0;"), Law::Race, "reads"),
        (store(FENCE, PUT, ""), Law::Race, "the CTA ends"),
        (
            store(FENCE, "cp.async.bulk.global.shared::cta.bulk_group [out], [s], 528;", DONE),
            Law::Uninitialised,
            "copy",
        ),
    ] {
        let (got, what) = trap(&body, 128);
        assert_eq!(got, law, "{body}\n{what}");
        assert!(what.contains(says), "{what}");
    }
    let masked = "mov.b16 m, 0x8003; cp.async.bulk.global.shared::cta.bulk_group.cp_mask [out], [s], 512, m;";
    let got = run(&format!(".reg .b16 m; {}", store(FENCE, masked, DONE)), 128).unwrap();
    for i in 0..128u32 {
        let mask = match i % 4 {
            0 => 0xFFFF,
            3 => 0xFF00_0000,
            _ => 0,
        };
        assert_eq!(got[i as usize], i & mask);
    }
}

#[test]
fn shared_memory_copies_and_reduces_within() {
    let within = |form: &str| {
        format!(
            "@one mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; shl.b32 d, t, 2; add.u32 d, d, s; st.shared.u32 [d], t;
mov.u32 v, 1000; st.shared.u32 [d+1024], v; {FENCE} bar.sync 0; @!one bra PAST; add.u32 x, s, 1024; mov.u32 w, bar;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;
{form}.mbarrier::complete_tx::bytes"
        )
    };
    let rest = format!("[x], [s], 512, [w]; PAST: {WAIT} ld.shared.u32 v, [d+1024]; {STORE}");
    let copy = within("cp.async.bulk.shared::cluster.shared::cta");
    let got = run(&format!("{copy} {rest}"), 128).unwrap();
    assert!((0..128).all(|i| got[i] == i as u32));
    let reduce = within("cp.reduce.async.bulk.shared::cluster.shared::cta");
    let got = run(&format!("{reduce}.add.u32 {rest}"), 128).unwrap();
    assert!((0..128).all(|i| got[i] == i as u32 + 1000));
    let got = run(&format!("{reduce}.max.s32 {rest}"), 128).unwrap();
    assert!((0..128).all(|i| got[i] == 1000));
    assert!(matches!(run(&format!("{reduce}.add.f32 {rest}"), 128), Err(Stop::Unsupported(_))));
}

#[test]
fn st_bulk_sets_zeros() {
    let body = format!(
        "shl.b32 d, t, 2; add.u32 d, d, s; st.shared.u32 [d], t; bar.sync 0; mov.u64 b, 128;
@one st.bulk.weak.shared::cta [s+64], b, 0; bar.sync 0; ld.shared.u32 v, [d]; {STORE}"
    );
    let got = run(&body, 128).unwrap();
    assert!((0..128).all(|i| got[i] == if (16..48).contains(&i) { 0 } else { i as u32 }));
    assert_eq!(trap(&body.replace("b, 128", "b, 12"), 128).0, Law::Misaligned);
    assert_eq!(trap(&body.replace("s+64", "s+8128"), 128).0, Law::OutOfBounds);
}

/// One warp brings tiles of 512 bytes through three stages, four warps add them up. `wait` and `release` are what a fault
/// replaces.
fn pipeline(copy: &str, wait: &str, release: &str) -> String {
    format!(
        ".shared .align 8 .b64 full[3], empty[3]; .reg .b32 stage, k, f, e, sum, fe;
shr.u32 warp, t, 5; and.b32 lane, t, 31; mov.u32 f, full; mov.u32 e, empty;
@!one bra READY; mov.u32 k, 0;
INIT: shl.b32 v, k, 3; add.u32 x, f, v; mbarrier.init.shared.b64 [x], 1; add.u32 x, e, v;
mbarrier.init.shared.b64 [x], 128; add.u32 k, k, 1; setp.lt.u32 p, k, 3; @p bra INIT;
fence.mbarrier_init.release.cluster;
READY: bar.sync 0; mov.u32 k, 0; mov.u32 stage, 0; mov.u32 ph, 0; mov.u32 sum, 0;
setp.ne.u32 p, warp, 0; @p bra CONSUME;
setp.ne.u32 q, lane, 0; @q bra END;
PRODUCE: shl.b32 v, stage, 3; add.u32 fe, e, v; add.u32 x, f, v; xor.b32 w, ph, 1;
EMPTY: mbarrier.try_wait.parity.shared::cta.b64 p, [fe], w; @!p bra EMPTY;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [x], 512;
shl.b32 d, stage, 9; add.u32 d, d, s; mul.wide.u32 a, k, 512; add.u64 a, a, in;
{copy}
add.u32 stage, stage, 1; setp.eq.u32 p, stage, 3; @p xor.b32 ph, ph, 1; @p mov.u32 stage, 0;
add.u32 k, k, 1; setp.lt.u32 p, k, 20; @p bra PRODUCE; bra END;
CONSUME: sub.u32 n, t, 32;
TILE: shl.b32 v, stage, 3; add.u32 fe, e, v; add.u32 x, f, v;
{wait}
shl.b32 d, stage, 9; add.u32 d, d, s; shl.b32 v, n, 2; add.u32 d, d, v; ld.shared.u32 v, [d]; add.u32 sum, sum, v;
{release}
add.u32 stage, stage, 1; setp.eq.u32 p, stage, 3; @p xor.b32 ph, ph, 1; @p mov.u32 stage, 0;
add.u32 k, k, 1; setp.lt.u32 p, k, 20; @p bra TILE;
mul.wide.u32 a, n, 4; add.u64 a, a, out; st.global.u32 [a], sum;
END:"
    )
}

const COPY: &str = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [d], [a], 512, [x];";
const FULL: &str = "FULL: mbarrier.try_wait.parity.shared::cta.b64 p, [x], ph; @!p bra FULL;";
const POLLED: &str = "FULL: mbarrier.test_wait.parity.shared::cta.b64 p, [x], ph; @!p bra FULL;";
const RELEASE: &str = "mbarrier.arrive.shared::cta.b64 _, [fe];";

#[test]
fn a_pipeline_of_three_stages_is_right_under_every_schedule() {
    let words = input();
    let want: Vec<u32> =
        (0..128).map(|n| (0..20).fold(0u32, |sum, k| sum.wrapping_add(words[k * 128 + n]))).collect();
    for wait in [FULL, POLLED] {
        for seed in 0..64 {
            let got = run_with(&pipeline(COPY, wait, RELEASE), 160, &Options { seed, ..Options::default() });
            let got = got.unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
            assert_eq!(got[..128], want, "seed {seed}");
        }
    }
}

#[test]
fn faults_of_a_pipeline_are_found() {
    // Nobody waits for the copy.
    let early = |law| matches!(law, Law::Race | Law::Uninitialised);
    assert!(early(trap(&pipeline(COPY, "", RELEASE), 160).0));
    // The copy is waited for with the other parity.
    let wrong = format!("xor.b32 w, ph, 1; {}", FULL.replace("ph;", "w;"));
    assert!(early(trap(&pipeline(COPY, &wrong, RELEASE), 160).0));
    // A stage is given back before it has been read.
    let hasty = format!("{FULL} {RELEASE}");
    let found = (0..64).filter(|seed| {
        let result =
            run_with(&pipeline(COPY, &hasty, ""), 160, &Options { seed: *seed, ..Options::default() });
        matches!(result, Err(Stop::Trap(trap)) if trap.law == Law::Race)
    });
    assert!(found.count() > 0);
    // Nobody gives a stage back; one warp gives it back twice.
    assert_eq!(trap(&pipeline(COPY, FULL, ""), 160).0, Law::Deadlock);
    let twice = format!("{RELEASE} {RELEASE}");
    let (law, what) = trap(&pipeline(COPY, FULL, &twice), 160);
    assert!(matches!(law, Law::Barrier | Law::Race | Law::Deadlock), "{what}");
    // Half a tile is announced, or half is brought.
    let half = COPY.replace("512", "256");
    assert_eq!(trap(&pipeline(&half, FULL, RELEASE), 160).0, Law::Deadlock);
}

#[test]
fn bytes_outside_may_be_ignored_at_either_end() {
    // The input ends behind 64 KiB: the last 16 bytes are asked for with what follows them.
    let body = |from: u32, size: u32, left: u32, right: u32, read: u32| {
        format!(
            "@!one bra W; mov.u32 d, bar; mbarrier.init.shared.b64 [d], 1; fence.mbarrier_init.release.cluster; add.u64 a, in, {from}; mov.u32 n, {left};
mbarrier.arrive.expect_tx.shared.b64 _, [d], {size};
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [s], [a], {size}, n, {right}, [d];
L: mbarrier.try_wait.parity.shared.b64 p, [d], 0; @!p bra L;
ld.shared.u32 v, [s+{read}]; {STORE} W:"
        )
    };
    // Nothing is outside: what is ignored is not there all the same.
    assert_eq!(run(&body(64, 64, 4, 8, 4), 32).unwrap()[0], input()[17]);
    assert_eq!(run(&body(64, 64, 4, 8, 52), 32).unwrap()[0], input()[29]);
    for read in [0, 56, 60] {
        assert_eq!(trap(&body(64, 64, 4, 8, read), 32).0, Law::Uninitialised);
    }
    // Allocations are guarded by a gap: 12 bytes of the last 16 lie behind an allocation of 4 bytes more than a multiple.
    let whole = 4 * input().len() as u32;
    assert_eq!(trap(&body(whole - 16, 32, 0, 15, 0), 32).0, Law::OutOfBounds);
    assert_eq!(run(&body(whole - 16, 16, 0, 0, 12), 32).unwrap()[0], *input().last().unwrap());
    for (left, right) in [(16, 0), (0, 16)] {
        assert_eq!(trap(&body(64, 64, left, right, 4), 32).0, Law::Operand);
    }
}

#[test]
fn the_layout_of_a_barrier_object_can_be_asked() {
    let ask = |before: &str| {
        format!(
            "{before} bar.sync 0; mbarrier.check_layout.layout::v0.shared::cta.b64 p, [bar];
mbarrier.check_layout.layout::v1.shared::cta.b64 q, [bar]; selp.b32 v, 1, 0, p; selp.b32 w, 2, 0, q; add.u32 v, v, w; {STORE}"
        )
    };
    for init in ["mbarrier.init", "mbarrier.init.layout::v0"] {
        let body = ask(&format!("@one {init}.shared::cta.b64 [bar], 1;"));
        assert_eq!(run(&body, 32).unwrap()[..32], [1; 32]);
    }
    assert_eq!(trap(&ask(""), 32).0, Law::Barrier);
}
