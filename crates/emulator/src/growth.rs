//! How cost grows with the size of a problem, in elementary steps that [`work`](crate::work) counts: no test depends on a clock.

use std::fmt::Write;

use crate::api::trap::Stop;
use crate::front::load::load;
use crate::memory::global::GlobalMemory;
use crate::run::launch::{Launch, Options, launch, launch_stream};
use crate::run::stream::InStream;
use crate::work::steps_in;

/// The factor by which the problems of a test differ.
const FACTOR: u64 = 4;

/// Fails if a problem of four times the size takes more than six times the steps: linear, with room for a logarithm.
fn linear(what: &str, size: usize, steps: impl Fn(usize) -> u64) {
    let (few, many) = (steps(size), steps(size * FACTOR as usize));
    assert!(few > 0, "{what}: nothing was counted");
    assert!(many <= few * (FACTOR + 2), "{what}: {few} steps for {size}, {many} for {FACTOR} times that");
}

fn module(declarations: &str, body: &str) -> String {
    format!(
        ".version 8.8\n.target sm_120\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n.reg .b64 %out;\n.reg .b32 %x, \
         %y;\n.reg .pred %q;\n{declarations}ld.param.u64 %out, [p];\nmov.u32 %x, %tid.x;\nmov.u32 %y, 0;\nsetp.eq.u32 %q, %x, \
         3;\n{body}st.global.u32 [%out], %y;\nret;\n}}\n"
    )
}

fn repeated(count: usize, part: impl Fn(&mut String, usize) -> std::fmt::Result) -> String {
    let mut text = String::new();
    for n in 0..count {
        let _ = part(&mut text, n);
    }
    text
}

/// The steps that loading a text takes.
fn load_steps(text: &str) -> u64 {
    steps_in(|| {
        let loaded = load(text);
        assert!(loaded.is_ok(), "{:?}", loaded.err());
    })
}

#[test]
fn decoding_is_linear_in_the_text() {
    type Make = fn(usize) -> String;
    let texts: [(&str, Make); 8] = [
        ("branches over few registers", |n| {
            module(
                ".reg .b32 %r<64>;\nmov.u32 %r0, 1;\n",
                &repeated(n, |t, i| {
                    let (a, b) = (i % 64, (i + 1) % 64);
                    writeln!(
                        t,
                        "mov.u32 %r{a}, {i};\nsetp.gt.u32 %q, %r{a}, {i};\n@%q bra L{i};\nadd.u32 %r{b}, %r{a}, 1;\nL{i}:"
                    )
                }),
            )
        }),
        ("branches over a register for every value", |n| {
            module(
                &format!(".reg .b32 %r<{}>;\nmov.u32 %r0, 1;\n", n + 1),
                &repeated(n, |t, i| {
                    writeln!(t, "@%q bra L{i};\nadd.u32 %r{i}, %r{i}, 3;\nL{i}: mov.u32 %r{}, %r{i};", i + 1)
                }),
            )
        }),
        ("registers that only some lanes write", |n| {
            module(
                &format!(".reg .b32 %r<{n}>;\n"),
                &repeated(n, |t, i| writeln!(t, "@%q mov.u32 %r{i}, {i};\n@%q add.u32 %y, %y, %r{i};")),
            )
        }),
        ("a jump into a sequence of labels", |n| {
            let table = (0..n).map(|i| format!("L{i}")).collect::<Vec<_>>().join(", ");
            let labels = repeated(n, |t, i| writeln!(t, "L{i}: add.u32 %y, %y, {};", i % 5));
            module("", &format!("T: .branchtargets {table};\nbrx.idx %x, T;\n{labels}"))
        }),
        ("loops, one after another", |n| {
            module(
                &format!(".reg .b32 %r<{n}>;\n"),
                &repeated(n, |t, i| {
                    writeln!(
                        t,
                        "mov.u32 %r{i}, 0;\nL{i}: add.u32 %r{i}, %r{i}, 1;\nsetp.lt.u32 %q, %r{i}, 2;\n@%q bra L{i};"
                    )
                }),
            )
        }),
        ("copies, last first", |n| {
            module(
                &format!(".reg .b32 %r<{}>;\n", n + 1),
                &repeated(n, |t, i| writeln!(t, "mov.u32 %r{}, %r{};", n - i - 1, n - i)),
            )
        }),
        ("many declarations of numbered registers", |n| {
            let declared = repeated(n, |t, i| writeln!(t, ".reg .b32 %a{i}x<2>;"));
            module(&declared, &repeated(n, |t, i| writeln!(t, "mov.u32 %a{i}x1, {i};")))
        }),
        ("constants", |n| {
            module("", &repeated(n, |t, i| writeln!(t, "xor.b32 %y, %y, {i};\nsetp.gt.u32 %q, %y, {i};")))
        }),
    ];
    for (what, text) in texts {
        linear(what, 500, |n| load_steps(&text(n)));
    }
}

/// The steps of a launch of CTAs of 32 threads, without those of loading the text.
fn launch_steps(text: &str, grid: usize, seed: u64) -> u64 {
    let program = load(text).unwrap();
    let mut memory = GlobalMemory::default();
    let out = memory.allocate_with(vec![0; 1 << 20]);
    let params = out.to_le_bytes().to_vec();
    let grid = [u32::try_from(grid).unwrap(), 1, 1];
    let step = Launch { grid, block: [32, 1, 1], shared_bytes: 0, params };
    let options = Options { seed, ..Options::default() };
    steps_in(|| {
        let ran = launch(&program, &program.kernels[0], &step, &mut memory, &options);
        assert!(ran.is_ok(), "{:?}", ran.err());
    })
}

/// Lane 0 of each CTA runs this.
fn one_lane(body: &str) -> String {
    module("", &format!("setp.ne.u32 %q, %x, 0;\n@%q ret;\nmov.u32 %y, 1;\n{body}"))
        .replace("st.global.u32 [%out], %y;", "")
}

#[test]
fn branches_around_little_take_no_turns() {
    let branch = |t: &mut String, i| writeln!(t, "@%q bra L{i};\nadd.u32 %y, %y, 1;\nL{i}:");
    let steps = |branches, seed| launch_steps(&module("", &repeated(branches, branch)), 1, seed);
    let nested = |t: &mut String, i| {
        let branch = |n| format!("@%q bra L{i}x{n};\nadd.u32 %y, %y, 1;\n");
        writeln!(t, "{}{}L{i}x2: add.u32 %y, %y, 1;\nL{i}x1:", branch(1), branch(2))
    };
    let nested = |branches, seed| launch_steps(&module("", &repeated(branches, nested)), 1, seed);
    assert!(nested(32, 0) < nested(2, 0) + 10, "{} {}", nested(2, 0), nested(32, 0));
    // Rows, that is turns of so many rows, but no fragments; another schedule makes them.
    assert!(steps(64, 0) < steps(2, 0) + 4, "{} {}", steps(2, 0), steps(64, 0));
    assert!(steps(64, 1) > steps(2, 1) + 62, "{} {}", steps(2, 1), steps(64, 1));
}

#[test]
fn what_ctas_know_of_each_other_is_linear_in_their_number() {
    let ticket = "fence.acq_rel.gpu;\natom.relaxed.gpu.global.add.u32 %y, [%out], 1;\nfence.acq_rel.gpu;\n";
    let lock = "L: atom.acq_rel.gpu.global.cas.b32 %y, [%out], 0, 1;\nsetp.eq.u32 %q, %y, 1;\n@%q bra L;\n\
                ld.global.u32 %y, [%out+64];\nadd.u32 %y, %y, 1;\nst.global.u32 [%out+64], %y;\n\
                atom.acq_rel.gpu.global.exch.b32 %y, [%out], 0;\n";
    let flag = "mov.u32 %y, %ctaid.x;\nsetp.eq.u32 %q, %x, %y;\n@%q st.relaxed.gpu.global.u32 [%out], 1;\nld.acquire.gpu.global.u32 %y, [%out];\n\
                atom.relaxed.gpu.global.add.u32 %y, [%out+64], 1;\n";
    for (what, body) in [("tickets", ticket), ("a lock", lock), ("a flag", flag)] {
        for seed in [0, 1] {
            linear(&format!("{what}, seed {seed}"), 256, |ctas| launch_steps(&one_lane(body), ctas, seed));
        }
    }
}

#[test]
fn a_stream_is_linear_in_its_launches() {
    let program = load(&one_lane("st.global.u32 [%out], %y;\n")).unwrap();
    let mut memory = GlobalMemory::default();
    let params = memory.allocate_with(vec![0; 64]).to_le_bytes().to_vec();
    let step = Launch { grid: [2, 1, 1], block: [32, 1, 1], shared_bytes: 0, params };
    linear("launches", 100, |count| {
        let steps = vec![InStream::new(&program, &program.kernels[0], &step); count];
        steps_in(|| assert!(launch_stream(&steps, &mut memory.clone(), &Options::default()).is_ok()))
    });
}

#[test]
fn stores_of_the_same_value_cost_little_more_than_others() {
    let all = |address: &str| {
        module("", &format!(
        "mov.u32 %y, %ctaid.x;\nmad.lo.u32 %x, %y, 32, %x;\nmul.wide.u32 %a, %x, 4;\nadd.u64 %a, %a, %out;\nmov.u32 %y, \
         1;\nst.global.u32 [{address}], %y;\n"
    )).replace(".reg .b64 %out;", ".reg .b64 %out, %a;").replace("st.global.u32 [%out], %y;\nret", "ret")
    };
    let (one, own) = (all("%out"), all("%a"));
    linear("stores to one address", 512, |ctas| launch_steps(&one, ctas, 0));
    // Per warp: four bytes in conflict, each with its place among those of the same value, and the turn.
    let (one, own) = (launch_steps(&one, 2048, 0), launch_steps(&own, 2048, 0));
    assert!(one <= 16 * own, "{one} steps for one address, {own} for one of each thread");
    // Readers that know nothing of other CTAs, and one that knows of all.
    let read =
        |body: &str| one_lane(&format!("st.global.u32 [%out], %y;\n{body}ld.global.u32 %y, [%out];\n"));
    linear("reads", 512, |ctas| launch_steps(&read(""), ctas, 0));
    linear("reads after a ticket", 512, |ctas| {
        launch_steps(
            &read("fence.acq_rel.gpu;\natom.global.add.u32 %y, [%out+64], 1;\nfence.acq_rel.gpu;\n"),
            ctas,
            0,
        )
    });
}

/// A chain of functions, each of which calls the last one `calls` times, and a kernel that calls the last of all.
fn chain(functions: usize, calls: usize) -> String {
    let call = |n: usize| {
        format!("{{ .param .b32 p, q; st.param.b32 [p], x; call (q), f{n}, (p); ld.param.b32 x, [q]; }}\n")
    };
    let function = |n: usize| {
        let calls = if n == 0 { String::new() } else { call(n - 1).repeat(calls) };
        format!(
            ".func (.param .b32 r) f{n}(.param .b32 a) {{ .reg .b32 x; ld.param.b32 x, [a];\n{calls}st.param.b32 [r], x; ret; }}\n"
        )
    };
    let functions: String = (0..functions).map(function).collect();
    let last = functions.matches(".func").count() - 1;
    let kernel = module(".reg .b32 x;\n", &format!("mov.u32 x, 1;\n{}", call(last)));
    kernel
        .replace(".visible", &format!("{functions}.visible"))
        .replace(".b32 p, q;", ".b32 p; .param .b32 q;")
}

#[test]
fn calls_are_not_copies() {
    linear("a chain of functions that call twice", 10, |functions| load_steps(&chain(functions, 2)));
    linear("a chain of functions that call once", 1000, |functions| load_steps(&chain(functions, 1)));
    linear("calls of one function", 500, |calls| load_steps(&chain(2, calls)));
    linear("a chain that runs", 250, |functions| launch_steps(&chain(functions, 1), 1, 0));
}

#[test]
fn recursion_is_linear_in_its_depth() {
    // All lanes return together, or each in another activation.
    let deep = |depth: usize, lane: &str| {
        let body = format!(
            "add.u32 x, {lane}, {depth};\n{{ .param .b32 m; st.param.b32 [m], x; call down, (m); }}\n"
        );
        let down = ".func down(.param .b32 a) { .reg .b32 x; .reg .pred p; ld.param.b32 x, [a]; setp.eq.u32 p, x, 0; @p ret;\n\
                    sub.u32 x, x, 1; { .param .b32 m; st.param.b32 [m], x; call down, (m); } ret; }\n";
        module(".reg .b32 x;\n", &body).replace(".visible", &format!("{down}.visible"))
    };
    for (what, lane) in [("activations", "0"), ("activations of some lanes", "%x")] {
        for seed in [0, 1] {
            linear(what, 500, |depth| launch_steps(&deep(depth, lane), 1, seed));
        }
    }
}

#[test]
fn endless_loops_end_after_few_instructions() {
    let wait = "ld.volatile.global.u32 %y, [%out];\nsetp.eq.u32 %q, %y, 0;\n";
    let long = "add.u32 %x, %x, 1;\nsub.u32 %x, %x, 1;\n".repeat(300);
    let counts = "mov.u32 %x, 0;\nM: add.u32 %x, %x, 1;\nsetp.lt.u32 %q, %x, 40;\n@%q bra M;\n";
    let call = ".func (.reg .b32 r) load(.reg .b64 a) { .local .align 4 .b32 v; .reg .b32 x; ld.volatile.global.u32 x, [a];\n\
                st.local.u32 [v], x; ld.local.u32 r, [v]; ret; }\n";
    for (what, body) in [
        ("a load", format!("L: {wait}@%q bra L;\n")),
        ("a long body", format!("L: {long}{wait}@%q bra L;\n")),
        ("a loop in the loop", format!("L: {counts}{wait}@%q bra L;\n")),
        ("a call", "L: call (%y), load, (%out);\nsetp.eq.u32 %q, %y, 0;\n@%q bra L;\n".to_owned()),
        ("barriers", format!("L: bar.sync 0;\n{wait}bar.sync 0;\n@%q bra L;\n")),
        ("some lanes", format!("setp.gt.u32 %q, %x, 7;\n@%q bra END;\nL: {wait}@%q bra L;\nEND:\n")),
    ] {
        let text = module("", &body).replace("st.global.u32 [%out], %y;", "");
        let program = load(&text.replace(".visible", &format!("{call}.visible"))).unwrap();
        for (grid, block, seed) in [(1, 1, 0), (1, 32, 1), (64, 64, 0), (32, 64, 3), (100, 32, 1)] {
            let mut memory = GlobalMemory::default();
            let params = memory.allocate_with(vec![0; 64]).to_le_bytes().to_vec();
            let how = Launch { grid: [grid, 1, 1], block: [block, 1, 1], shared_bytes: 0, params };
            let options = Options { seed, fuel: 8_000_000, ..Options::default() };
            let end = launch(&program, &program.kernels[0], &how, &mut memory, &options);
            let rule = match &end {
                Err(Stop::Trap(trap)) => trap.rule.word(),
                _ => "none",
            };
            assert_eq!(rule, "deadlock", "{what}, {grid} CTAs of {block}, seed {seed}: {end:?}");
        }
    }
}

#[test]
fn nesting_and_chains_of_any_depth_end() {
    let text = |depth: usize, open: &str, close: &str| {
        module("", &format!("{}mov.u32 %y, 1;{}\n", open.repeat(depth), close.repeat(depth)))
    };
    assert!(load(&text(100, "{ ", " }")).is_ok());
    let deep = 100_000;
    for text in [
        text(deep, "{", "}"),
        module("", &format!("mov.u32 %y, {}1{};\n", "(".repeat(deep), ")".repeat(deep))),
        module("", &format!("mov.u32 %y, {}1;\n", "-".repeat(deep))),
        module("", &format!("mov.u32 %y, {}1;\n", "1 ? 1 : ".repeat(deep))),
        module("", &format!("mov.b64 %out, {}%y{};\n", "{".repeat(deep), "}".repeat(deep))),
        module("", "").replace(
            ".visible",
            &format!(".global .u32 v = {}1{};\n.visible", "{".repeat(deep), "}".repeat(deep)),
        ),
    ] {
        let refused = load(&text).err().map(|stop| stop.to_string());
        assert!(refused.as_ref().is_some_and(|why| why.contains("levels of nesting")), "{refused:?}");
    }
    // Each calls the one before it.
    assert!(load(&chain(20_000, 1)).is_ok());
    // Variables that hold each other's addresses, and at last one that cannot be initialised.
    linear("addresses", 500, |count| {
        let chain = repeated(count, |t, n| writeln!(t, ".global .u64 v{n} = v{};", n + 1));
        let last = format!(".const .u32 c = 1;\n.global .u64 v{count} = c;\n.visible");
        load_steps(&module("", "").replace(".visible", &(chain + &last)))
    });
}
