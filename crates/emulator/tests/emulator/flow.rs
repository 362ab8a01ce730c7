//! The core of the emulator: flow, memory, barriers, and the laws that belong to them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use emulator::{GlobalMemory, Launch, Law, Options, Stop, launch, load};

const HEADER: &str = ".version 9.0\n.target sm_121a\n.address_size 64\n";

/// Runs a body that knows `out`, on one CTA of `threads`, and gives `words` words of output.
fn run_with(body: &str, threads: u32, words: usize, options: &Options) -> Result<Vec<u32>, Stop> {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p_out)\n{{\n.reg .b64 out;\nld.param.u64 out, [p_out];\n{body}\n}}\n"
    );
    let program = load(&text)?;
    let mut memory = GlobalMemory::default();
    let out = memory.allocate(words * 4);
    let how = Launch {
        grid: [1, 1, 1],
        block: [threads, 1, 1],
        shared_bytes: 0,
        params: out.to_le_bytes().to_vec(),
    };
    launch(&program, program.kernel("k").unwrap(), &how, &mut memory, options)?;
    let bytes = memory.bytes(out).unwrap();
    Ok(bytes.chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect())
}

fn run(body: &str, threads: u32, words: usize) -> Result<Vec<u32>, Stop> {
    run_with(body, threads, words, &Options::default())
}

fn law(result: Result<Vec<u32>, Stop>) -> Law {
    match result {
        Err(Stop::Trap(trap)) => trap.law,
        other => panic!("no trap: {other:?}"),
    }
}

/// Stores `value` at the thread's place.
fn store(value: &str) -> String {
    format!(
        ".reg .b64 at; .reg .b32 t; mov.u32 t, %tid.x; mul.wide.u32 at, t, 4; add.u64 at, at, out;\nst.global.u32 [at], {value};\nret;"
    )
}

#[test]
fn lanes_part_and_meet() {
    let body = format!(
        ".reg .b32 x, i, v; .reg .pred p, q;\nmov.u32 x, %tid.x;\nmov.u32 v, 0;\nmov.u32 i, 0;\n\
         LOOP: setp.ge.u32 p, i, x;\n@p bra DONE;\nand.b32 v, v, 0xffff;\nand.b32 v, v, 0xffff;\nsetp.lt.u32 q, i, 10;\n@q bra ADD;\n\
         add.u32 v, v, 100;\nbra NEXT;\nADD: add.u32 v, v, 1;\nNEXT: add.u32 i, i, 1;\nbra LOOP;\nDONE: bar.sync 0;\n{}",
        store("v")
    );
    let got = run(&body, 64, 64).unwrap();
    let want: Vec<u32> = (0..64).map(|x: u32| x.min(10) + 100 * x.saturating_sub(10)).collect();
    assert_eq!(got, want);
    for seed in 1..20 {
        assert_eq!(run_with(&body, 64, 64, &Options { seed, ..Options::default() }).unwrap(), want);
    }
}

#[test]
fn a_lane_that_spins_does_not_starve_the_rest() {
    // Lane 0 waits for what lane 1 writes behind the branch on which they part.
    let body = ".reg .b32 x, v; .reg .pred p; .shared .b32 flag;\nmov.u32 x, %tid.x;\nst.shared.u32 [flag], 0;\nbar.warp.sync 0xffffffff;\n\
        setp.ne.u32 p, x, 0;\n@p bra WRITE;\nSPIN: ld.volatile.shared.u32 v, [flag];\nsetp.eq.u32 p, v, 0;\n@p bra SPIN;\nbra END;\n\
        WRITE: st.volatile.shared.u32 [flag], 7;\nEND: ld.shared.u32 v, [flag];\nst.global.u32 [out], v;\nret;";
    assert_eq!(run(body, 32, 1).unwrap(), [7]);
}

#[test]
fn barriers_order_warps() {
    let body = format!(
        ".reg .b32 x, y, a, v; .shared .align 4 .b8 s[1024];\nmov.u32 x, %tid.x;\nmov.u32 a, s;\nshl.b32 y, x, 2;\nadd.u32 a, a, y;\n\
         st.shared.u32 [a], x;\nbar.sync 0;\nxor.b32 y, x, 255;\nshl.b32 y, y, 2;\nmov.u32 a, s;\nadd.u32 a, a, y;\nld.shared.u32 v, [a];\n{}",
        store("v")
    );
    for seed in 0..10 {
        let got = run_with(&body, 256, 256, &Options { seed, ..Options::default() }).unwrap();
        assert_eq!(got, (0..256).map(|x| x ^ 255).collect::<Vec<u32>>());
    }
}

#[test]
fn the_laws_of_memory() {
    let after = |text: &str| run(&format!(".reg .b32 v; .reg .b64 a; {text} ret;"), 32, 4);
    assert_eq!(law(after("st.global.u32 [out+16], 1;")), Law::OutOfBounds);
    assert_eq!(law(after("st.global.u32 [out+2], 1;")), Law::Misaligned);
    assert_eq!(law(after("ld.global.u32 v, [out];")), Law::Uninitialised);
    assert_eq!(law(after("ld.shared.u32 v, [0];")), Law::OutOfBounds);
    assert_eq!(law(after(".shared .b32 s; cvta.shared.u64 a, s; ld.global.u32 v, [a];")), Law::WrongSpace);
    assert_eq!(law(after("trap;")), Law::Explicit);
    assert_eq!(after("st.global.u32 [out], 1; ld.global.u32 v, [out];").unwrap()[0], 1);
}

#[test]
fn registers_are_watched_only_where_flow_leaves_it_open() {
    let open = "{ .reg .b32 x, v; .reg .pred p; mov.u32 x, %tid.x; setp.lt.u32 p, x, 16; @p mov.u32 v, 5; @p add.u32 v, v, 1; ";
    let fine = format!("{open} @!p bra END; st.global.u32 [out], v; END: ret; }}");
    assert_eq!(run(&fine, 32, 1).unwrap(), [6]);
    let wrong = format!("{open} st.global.u32 [out], v; ret; }}");
    assert_eq!(law(run(&wrong, 32, 1)), Law::Uninitialised);
    let copied = "{ .reg .b32 a, b; mov.u32 b, a; ret; }";
    assert!(run(copied, 32, 1).is_ok());
    let used = "{ .reg .b32 a, b; mov.u32 b, a; st.global.u32 [out], b; ret; }";
    assert_eq!(law(run(used, 32, 1)), Law::Uninitialised);
}

#[test]
fn deadlocks_and_endless_loops_are_named() {
    let half = ".reg .b32 x; .reg .pred p; mov.u32 x, %tid.x; setp.lt.u32 p, x, 32; @p bar.sync 1, 64; ret;";
    let Err(Stop::Trap(trap)) = run(half, 64, 1) else { panic!() };
    assert_eq!(trap.law, Law::Deadlock);
    assert!(trap.what.contains("barrier 1 (32 of 64 threads)"), "{trap}");
    let endless = "LOOP: bra LOOP;";
    assert_eq!(law(run_with(endless, 32, 1, &Options { fuel: 10_000, ..Options::default() })), Law::Fuel);
    let torn = ".reg .b32 x; .reg .pred p; mov.u32 x, %tid.x; setp.lt.u32 p, x, 16; @p bar.sync 0; ret;";
    assert_eq!(law(run(torn, 32, 1)), Law::Divergent);
}

#[test]
fn calls_are_copies() {
    let text = format!(
        "{HEADER}.func (.param .b32 r) twice(.param .b32 a)\n{{\n.reg .b32 x;\n.reg .pred p;\nld.param.u32 x, [a];\nsetp.eq.u32 p, x, 3;\n@p bra SKIP;\n\
         add.u32 x, x, x;\nSKIP: st.param.b32 [r], x;\nret;\n}}\n\
         .visible .entry k(.param .u64 p_out)\n{{\n.reg .b64 out, at; .reg .b32 x, y;\nld.param.u64 out, [p_out];\nmov.u32 x, %tid.x;\n\
         {{ .param .b32 a0; .param .b32 r0; st.param.b32 [a0], x; call (r0), twice, (a0); ld.param.b32 y, [r0]; }}\n\
         {{ .param .b32 a0; .param .b32 r0; st.param.b32 [a0], y; call (r0), twice, (a0); ld.param.b32 y, [r0]; }}\n\
         mul.wide.u32 at, x, 4; add.u64 at, at, out; st.global.u32 [at], y; ret;\n}}\n"
    );
    let program = load(&text).unwrap();
    let mut memory = GlobalMemory::default();
    let out = memory.allocate(128);
    let how = Launch { grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, params: out.to_le_bytes().to_vec() };
    launch(&program, &program.kernels[0], &how, &mut memory, &Options::default()).unwrap();
    let got: Vec<u32> =
        memory.bytes(out).unwrap().chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    let twice = |x: u32| if x == 3 { 3 } else { 2 * x };
    assert_eq!(got, (0..32).map(|x| twice(twice(x))).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_launched_is_said() {
    let text = format!("{HEADER}.visible .entry k(.param .u32 n)\n.maxntid 64\n{{\nret;\n}}\n");
    let program = load(&text).unwrap();
    let kernel = program.kernel("k").unwrap();
    let mut memory = GlobalMemory::default();
    let mut fails = |grid, block, params: usize, shared_bytes| {
        let how = Launch { grid, block, shared_bytes, params: vec![0; params] };
        match launch(&program, kernel, &how, &mut memory, &Options::default()) {
            Err(Stop::Launch(what)) => what,
            other => panic!("{other:?}"),
        }
    };
    assert!(fails([1, 1, 1], [128, 1, 1], 4, 0).contains(".maxntid 64"));
    assert!(fails([0, 1, 1], [32, 1, 1], 4, 0).contains("zeros"));
    assert!(fails([1, 1, 1], [32, 1, 1], 8, 0).contains("4 bytes of parameters"));
    assert!(fails([1, 1, 1], [32, 1, 1], 4, 300_000).contains("shared memory"));
    let Err(Stop::Unsupported(u)) = load(&format!("{HEADER}.entry k()\n{{\nfoo.bar.u32 x;\n}}\n")) else {
        panic!()
    };
    assert_eq!((u.line, u.form.as_str()), (6, "foo.bar.u32"));
    assert!(matches!(load(".version 9.0\n.target sm_121a\nnonsense"), Err(Stop::Launch(_))));
}

/// Warps write a table and read each other's words, with `between` in between.
fn exchange(between: &str) -> String {
    format!(
        ".reg .b32 x, y, a, v; .shared .align 4 .b8 s[1024];\nmov.u32 x, %tid.x;\nmov.u32 a, s;\nshl.b32 y, x, 2;\nadd.u32 a, a, y;\n\
         st.shared.u32 [a], x;\n{between}\nxor.b32 y, x, 32;\nshl.b32 y, y, 2;\nmov.u32 a, s;\nadd.u32 a, a, y;\nld.shared.u32 v, [a];\n{}",
        store("v")
    )
}

#[test]
fn races_between_warps_are_seen_and_barriers_end_them() {
    for seed in 0..8 {
        let options = Options { seed, check_init: false, ..Options::default() };
        assert_eq!(law(run_with(&exchange(""), 64, 64, &options)), Law::Race, "seed {seed}");
        assert_eq!(law(run_with(&exchange("bar.warp.sync 0xffffffff;"), 64, 64, &options)), Law::Race);
        run_with(&exchange("bar.sync 0;"), 64, 64, &options).unwrap();
        run_with(&exchange("barrier.cluster.arrive; barrier.cluster.wait;"), 64, 64, &options).unwrap();
        let off = Options { check_races: false, ..options };
        run_with(&exchange(""), 64, 64, &off).unwrap();
    }
}

#[test]
fn strong_accesses_order_and_weak_ones_race_in_global_memory() {
    // Warp 1 publishes a word and then a flag; warp 0 waits for the flag.
    let publish = |store: &str, load: &str| {
        format!(
            ".reg .b32 x, v; .reg .pred p;\nmov.u32 x, %tid.x;\nsetp.eq.u32 p, x, 0;\n@p st.global.u32 [out+4], 0;\nbar.sync 0;\nsetp.ge.u32 p, x, 32;\n@p bra WRITE;\n\
             SPIN: {load} v, [out+4];\nsetp.eq.u32 p, v, 0;\n@p bra SPIN;\nld.global.u32 v, [out];\nsetp.ne.u32 p, x, 0;\n@!p st.global.u32 [out+8], v;\nret;\n\
             WRITE: setp.ne.u32 p, x, 32;\n@p ret;\nst.global.u32 [out], 41;\nmembar.gl;\n{store} [out+4], 1;\nret;"
        )
    };
    for seed in 0..8 {
        let options = Options { seed, ..Options::default() };
        let good = publish("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32");
        assert_eq!(run_with(&good, 64, 3, &options).unwrap()[2], 41, "seed {seed}");
        let bad = publish("st.global.u32", "ld.global.u32");
        assert_eq!(law(run_with(&bad, 64, 3, &options)), Law::Race, "seed {seed}");
    }
}

#[test]
fn lanes_of_one_store_may_not_disagree_about_a_byte() {
    let store = |value: &str, space: &str, guard: &str| {
        format!(
            ".shared .b32 s; .reg .b32 x, v, a; .reg .b64 to; .reg .pred p; mov.u32 x, %tid.x; setp.lt.u32 p, x, 31;\n\
             shr.u32 v, x, 1; mov.u32 a, s; mov.u64 to, out; st.shared.u32 [s], 0; {guard} st{space}, {value}; ret;"
        )
    };
    let options = |check_races| Options { check_races, ..Options::default() };
    let ends = |body: &str, check| run_with(body, 32, 64, &options(check));
    for space in [".global.u32 [out]", ".u32 [to]", ".shared.u32 [a]"] {
        let different = store("x", space, "");
        assert_eq!(law(ends(&different, true)), Law::Race, "{space}");
        assert!(ends(&different, false).is_ok(), "{space}");
        let text = ends(&different, true).unwrap_err().to_string();
        assert!(text.contains("lanes 0 and 1 of one store") && text.contains("lane 1"), "{text}");
        // Equal values, one lane, and strong stores are none.
        assert!(ends(&store("7", space, ""), true).is_ok(), "{space}");
        assert!(ends(&store("x", space, "@!p"), true).is_ok(), "{space}");
        assert!(ends(&store("x", &format!(".volatile{space}"), ""), true).is_ok(), "{space}");
    }
    // Two lanes a word, out of order: equal in pairs, then not.
    let pairs = |value: &str| {
        format!(
            ".reg .b32 x, h, v; .reg .b64 to; mov.u32 x, %tid.x; shr.u32 h, x, 1; sub.u32 v, 40, h;\n\
             mul.wide.u32 to, v, 4; add.u64 to, to, out; st.global.u32 [to], {value}; ret;"
        )
    };
    assert!(ends(&pairs("h"), true).is_ok());
    assert_eq!(law(ends(&pairs("x"), true)), Law::Race);
    // Local memory is each lane's own.
    let own = ".local .b32 l; .reg .b32 x; .reg .b64 to; mov.u32 x, %tid.x; mov.u64 to, l; cvta.local.u64 to, to; \
               st.local.u32 [l], x; st.u32 [to], x; ret;";
    assert!(ends(own, true).is_ok());
}
