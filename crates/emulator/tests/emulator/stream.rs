//! Launches of one stream: programmatic dependent launch overlaps two grids, and what is touched too early is named.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use std::sync::Arc;

use emulator::device::{self, Argument, Device, Failure, LaunchFailure};
use emulator::{
    Counts, EmulatorDevice, GlobalMemory, InStream, Launch, Law, Options, Stop, Trap, launch, launch_stream,
    load,
};

const PDL: &str = include_str!("../kernels/pdl.ptx");
const SCHEDULES: u64 = 64;
const N: usize = 500;

/// Replaces the `n`-th occurrence of `from`, counted from 0.
fn edit(text: &str, from: &str, n: usize, to: &str) -> String {
    let at = text.match_indices(from).nth(n).unwrap_or_else(|| panic!("no {from} number {n}")).0;
    format!("{}{to}{}", &text[..at], &text[at + from.len()..])
}

/// The pair of `pdl.cu`; what the second leaves. `written` says whether the buffer between them is written before.
fn pair(ptx: &str, seed: u64, programmatic: bool, written: bool) -> Result<Vec<f32>, Stop> {
    let program = load(ptx)?;
    let mut memory = GlobalMemory::default();
    let input = memory.allocate_with((0..N).flat_map(|i| (i as f32).to_le_bytes()).collect());
    let middle = if written { memory.allocate_with(vec![0; 4 * N]) } else { memory.allocate(4 * N) };
    let out = memory.allocate(4 * N);
    let step = |a: u64, b: u64| {
        let mut params = [a.to_le_bytes(), b.to_le_bytes()].concat();
        params.extend((N as u32).to_le_bytes());
        Launch { grid: [N.div_ceil(64) as u32, 1, 1], block: [64, 1, 1], shared_bytes: 0, params }
    };
    let (first, second) = (step(input, middle), step(middle, out));
    let launches = [
        InStream {
            program: &program,
            kernel: program.kernel("primary").unwrap(),
            launch: &first,
            programmatic: false,
        },
        InStream {
            program: &program,
            kernel: program.kernel("secondary").unwrap(),
            launch: &second,
            programmatic,
        },
    ];
    launch_stream(&launches, &mut memory, &Options { seed, fuel: 3_000_000, ..Options::default() })?;
    let bytes = memory.bytes(out).unwrap();
    Ok(bytes.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

fn trap(stop: Stop) -> Trap {
    match stop {
        Stop::Trap(trap) => *trap,
        other => panic!("{other}"),
    }
}

/// That every schedule ends with `Dependency`, at a place with a line.
fn too_early(ptx: &str) {
    for seed in 0..16 {
        for written in [true, false] {
            let trap = trap(pair(ptx, seed, true, written).unwrap_err());
            assert_eq!(trap.law, Law::Dependency, "seed {seed}: {trap}");
            assert!(trap.place.line > 0 && trap.place.lane.is_some(), "{trap}");
            assert!(trap.what.contains("griddepcontrol.wait") && trap.what.contains("0x"), "{trap}");
            assert!(trap.to_string().contains("primary") && trap.to_string().contains("secondary"), "{trap}");
        }
    }
}

#[test]
fn a_pair_that_waits_is_right_under_every_schedule() {
    let expect: Vec<f32> =
        (0..N).map(|i| (2.0 * (N - 1 - i) as f32).mul_add(1.0 + (i % 4) as f32, 1.0)).collect();
    for seed in 0..SCHEDULES {
        for programmatic in [true, false] {
            assert_eq!(pair(PDL, seed, programmatic, false).unwrap(), expect, "seed {seed}");
        }
    }
}

#[test]
fn a_missing_wait_is_a_broken_dependency() {
    let without = edit(PDL, "griddepcontrol.wait;", 0, "");
    too_early(&without);
    // In plain stream order nobody has to wait, and neither where nobody asks for an early launch.
    for seed in 0..16 {
        pair(&without, seed, false, false).unwrap();
        pair(&edit(&without, "griddepcontrol.launch_dependents;", 0, ""), seed, true, false).unwrap();
    }
}

#[test]
fn a_wait_behind_the_first_read_is_a_broken_dependency() {
    let without = edit(PDL, "griddepcontrol.wait;", 0, "");
    let at = without.find(".entry secondary").unwrap();
    let load = without[at..].find("fma.rn.f32").unwrap() + at;
    too_early(&format!("{}griddepcontrol.wait;\n\t{}", &without[..load], &without[load..]));
}

const HEADER: &str = ".version 9.0\n.target sm_121a\n.address_size 64\n";

/// Two or more entries `a`, `b`, `c` of one block of 64 threads (unless `grid` says more), each on the same two buffers of
/// 256 words: `x` of ones, `y` of zeros.
fn run(entries: &[(&str, bool)], grid: u32, seed: u64) -> Result<(Vec<u32>, Counts), Stop> {
    let mut text = HEADER.to_owned();
    for (n, (body, _)) in entries.iter().enumerate() {
        text.push_str(&format!(
            ".visible .entry k{n}(.param .u64 px, .param .u64 py)\n{{\n.reg .b64 x, y, a, b; .reg .b32 t, v, w; .reg .pred p;\n\
             .shared .align 128 .b8 buf[1024]; .shared .align 8 .b64 bar;\n\
             ld.param.u64 x, [px]; ld.param.u64 y, [py]; mov.u32 t, %tid.x; mul.wide.u32 a, t, 4;\n\
             add.u64 b, y, a; add.u64 a, x, a;\n{body}\nret;\n}}\n"
        ));
    }
    let program = load(&text)?;
    let mut memory = GlobalMemory::default();
    let x = memory.allocate_with([1, 0, 0, 0].repeat(256));
    let y = memory.allocate_with(vec![0; 1024]);
    let params = [x.to_le_bytes(), y.to_le_bytes()].concat();
    let step = Launch { grid: [grid, 1, 1], block: [64, 1, 1], shared_bytes: 0, params };
    let names: Vec<String> = (0..entries.len()).map(|n| format!("k{n}")).collect();
    let launches: Vec<InStream<'_>> = entries
        .iter()
        .zip(&names)
        .map(|((_, programmatic), name)| InStream {
            program: &program,
            kernel: program.kernel(name).unwrap(),
            launch: &step,
            programmatic: *programmatic,
        })
        .collect();
    let options = Options { seed, fuel: 100_000, ..Options::default() };
    let counts = launch_stream(&launches, &mut memory, &options)?;
    let bytes = memory.bytes(y).unwrap();
    Ok((bytes.chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(), counts))
}

fn laws(entries: &[(&str, bool)], grid: u32) -> Vec<Law> {
    let mut laws: Vec<Law> =
        (0..32).filter_map(|seed| run(entries, grid, seed).err()).map(|stop| trap(stop).law).collect();
    laws.sort();
    laws.dedup();
    laws
}

const STORE: &str = "griddepcontrol.launch_dependents; st.global.u32 [a], 5;";
const READ: &str = "ld.global.u32 v, [a]; st.global.u32 [b], v;";

#[test]
fn grids_really_overlap() {
    // The first spins until the second has begun.
    let spin = "griddepcontrol.launch_dependents; S: ld.relaxed.gpu.global.u32 v, [y]; setp.eq.u32 p, v, 0; @p bra S;";
    let signal = "setp.ne.u32 p, t, 0; @p ret; st.relaxed.gpu.global.u32 [y], 7; griddepcontrol.wait;";
    for seed in 0..SCHEDULES {
        assert_eq!(run(&[(spin, false), (signal, true)], 1, seed).unwrap().0[0], 7, "seed {seed}");
    }
    assert_eq!(laws(&[(spin, false), (signal, false)], 1), [Law::Fuel]);
    // One CTA that does not ask holds all dependents back until it ends.
    let some = spin.replace("griddepcontrol", "mov.u32 w, %ctaid.x; setp.eq.u32 p, w, 1; @!p griddepcontrol");
    assert_eq!(laws(&[(&some, false), (signal, true)], 2), [Law::Fuel]);
}

#[test]
fn what_one_warp_waits_for_its_block_knows_behind_a_barrier() {
    let one = format!("setp.ge.u32 p, t, 32; @p bra W; griddepcontrol.wait; W: bar.sync 0; {READ}");
    assert_eq!(laws(&[(STORE, false), (&one, true)], 1), []);
    let all = format!("griddepcontrol.wait; {READ}");
    assert_eq!(laws(&[(STORE, false), (&all, true)], 1), []);
    let none = one.replace("bar.sync 0;", "");
    assert_eq!(laws(&[(STORE, false), (&none, true)], 1), [Law::Dependency]);
    // Another block knows from who released it.
    let chain = format!(
        "mov.u32 w, %ctaid.x; setp.ne.u32 p, w, 0; @p bra O; griddepcontrol.wait; bar.sync 0;\n\
         st.release.gpu.global.u32 [y+512], 1; ret;\n\
         O: ld.acquire.gpu.global.u32 v, [y+512]; setp.eq.u32 p, v, 0; @p bra O; {READ}"
    );
    assert_eq!(
        laws(
            &[
                (
                    "griddepcontrol.launch_dependents; mov.u32 w, %ctaid.x; setp.eq.u32 p, w, 0; @p st.global.u32 [a], 5;",
                    false
                ),
                (&chain, true)
            ],
            2
        ),
        []
    );
}

#[test]
fn writes_before_the_wait_are_broken_dependencies_too() {
    let reads = format!("griddepcontrol.launch_dependents; {READ}");
    let writes = "st.global.u32 [a], 9; griddepcontrol.wait;";
    assert_eq!(laws(&[(&reads, false), (writes, true)], 1), [Law::Dependency]);
    let behind = "griddepcontrol.wait; st.global.u32 [a], 9;";
    assert_eq!(laws(&[(&reads, false), (behind, true)], 1), []);
    // What both only read, and what they touch apart, is nobody's dependency.
    assert_eq!(laws(&[(&reads, false), ("ld.global.u32 v, [a]; griddepcontrol.wait;", true)], 1), []);
    assert_eq!(laws(&[(&reads, false), ("st.global.u32 [a+512], 9;", true)], 1), []);
}

#[test]
fn copies_count_as_accesses_of_who_issues_them() {
    let bulk = "setp.ne.u32 p, t, 0; @p ret; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;\n\
                WAIT1\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n\
                cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [buf], [x], 256, [bar];\nWAIT2\n\
                S: mbarrier.try_wait.parity.shared.b64 p, [bar], 0; @!p bra S;";
    let early = bulk.replace("WAIT1", "").replace("WAIT2", "griddepcontrol.wait;");
    let late = bulk.replace("WAIT1", "griddepcontrol.wait;").replace("WAIT2", "");
    assert_eq!(laws(&[(STORE, false), (&early, true)], 1), [Law::Dependency]);
    assert_eq!(laws(&[(STORE, false), (&late, true)], 1), []);
    let small = "mov.u32 w, buf; shl.b32 v, t, 2; add.u32 w, w, v; WAIT1 cp.async.ca.shared.global [w], [a], 4; WAIT2 cp.async.wait_all;";
    let early = small.replace("WAIT1", "").replace("WAIT2", "griddepcontrol.wait;");
    let late = small.replace("WAIT1", "griddepcontrol.wait;").replace("WAIT2", "");
    assert_eq!(laws(&[(STORE, false), (&early, true)], 1), [Law::Dependency]);
    assert_eq!(laws(&[(STORE, false), (&late, true)], 1), []);
    let store = "griddepcontrol.launch_dependents; mov.u32 w, buf; shl.b32 v, t, 2; add.u32 w, w, v; st.shared.u32 [w], 3;\n\
                 fence.proxy.async; bar.sync 0; setp.ne.u32 p, t, 0; @p ret;\n\
                 cp.async.bulk.global.shared::cta.bulk_group [x], [buf], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;";
    assert_eq!(laws(&[(store, false), (READ, true)], 1), [Law::Dependency]);
    let waits = format!("griddepcontrol.wait; {READ}");
    assert_eq!(laws(&[(store, false), (&waits, true)], 1), []);
}

#[test]
fn a_wait_reaches_through_a_grid_that_waited() {
    let waits = "griddepcontrol.launch_dependents; griddepcontrol.wait;";
    let idle = "griddepcontrol.launch_dependents;";
    let reads = format!("griddepcontrol.wait; {READ}");
    assert_eq!(laws(&[(STORE, false), (waits, true), (&reads, true)], 1), []);
    assert_eq!(laws(&[(STORE, false), (idle, true), (&reads, true)], 1), [Law::Dependency]);
    // Plain stream order waits for all.
    assert_eq!(laws(&[(STORE, false), (idle, true), (READ, false)], 1), []);
}

#[test]
fn memory_that_nobody_wrote_is_still_named() {
    let secondary = "ld.shared.u32 v, [buf];";
    assert_eq!(laws(&[(STORE, false), (secondary, true)], 1), [Law::Uninitialised]);
}

#[test]
fn a_failure_names_its_launch_where_two_have_the_same_entry() {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 px, .param .u32 pn)\n{{\n.reg .b64 x, a; .reg .b32 n;\n\
         ld.param.u64 x, [px]; ld.param.u32 n, [pn]; griddepcontrol.launch_dependents; griddepcontrol.wait;\n\
         mul.wide.u32 a, n, 4; add.u64 a, a, x; st.global.u32 [a], n;\nret;\n}}\n"
    );
    let fails = |index: &[u32], block: &[u32]| {
        let mut device = EmulatorDevice::new(Arc::default(), Options::default());
        let module = device.load(&text).unwrap();
        let buffer = device.allocate(vec![0; 64]).unwrap();
        let launch = |(index, block): (&u32, &u32)| device::Launch {
            module,
            entry: "k".to_owned(),
            grid: [1; 3],
            block: *block,
            shared_bytes: 0,
            arguments: vec![Argument::Address(buffer), Argument::Value(index.to_le_bytes().to_vec())],
            programmatic: true,
            cluster: [1; 3],
            cooperative: false,
        };
        let launches: Vec<device::Launch> = index.iter().zip(block).map(launch).collect();
        device.run(&launches)
    };
    assert_eq!(fails(&[0, 1, 2], &[1, 1, 1]), Ok(()));
    for wrong in 0..3 {
        let mut index = [0, 1, 2];
        index[wrong] = 1000;
        let LaunchFailure { launch, failure } = fails(&index, &[1; 3]).unwrap_err();
        assert!(matches!(&failure, Failure::Trap { rule, .. } if rule == "out_of_bounds"), "{failure}");
        assert_eq!(launch, wrong);
        let mut block = [1; 3];
        block[wrong] = 2000;
        let LaunchFailure { launch, failure } = fails(&[0, 1, 2], &block).unwrap_err();
        assert!(matches!(failure, Failure::Launch(_)), "{failure}");
        assert_eq!(launch, wrong);
    }
}

#[test]
fn a_module_keeps_its_variables_from_launch_to_launch() {
    let text = ".version 9.0\n.target sm_90\n.address_size 64\n.global .u32 counter = 5;\n\
        .visible .entry count(.param .u64 to) {\n.reg .b64 at; .reg .b32 old;\nld.param.u64 at, [to];\n\
        ld.global.u32 old, [counter];\nst.global.u32 [at], old;\nadd.u32 old, old, 1;\n\
        st.global.u32 [counter], old;\nret;\n}\n";
    let program = load(text).unwrap();
    let mut memory = GlobalMemory::default();
    let out = memory.allocate(4);
    let how = Launch { grid: [1; 3], block: [1, 1, 1], shared_bytes: 0, params: out.to_le_bytes().to_vec() };
    let count = |memory: &mut GlobalMemory| {
        launch(&program, program.kernel("count").unwrap(), &how, memory, &Options::default()).unwrap();
        memory.bytes(out).unwrap()[0]
    };
    assert_eq!([count(&mut memory), count(&mut memory), count(&mut memory)], [5, 6, 7]);
    // Another memory is another device.
    let mut fresh = GlobalMemory::default();
    assert_eq!(fresh.allocate(4), out);
    assert_eq!(count(&mut fresh), 5);
}
