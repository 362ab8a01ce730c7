//! Groups of instructions on memory, control flow and warps, each with what keeps it defined: own bytes for each thread, barriers where
//! threads share, values that every schedule gives alike.

use super::random::Random;

/// Lines that stay together.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) text: String,
    /// What must be asked of the target: the forms that vary.
    pub(super) key: String,
}

impl Unit {
    pub(super) fn new(text: impl Into<String>, key: impl Into<String>) -> Self {
        Self { text: text.into(), key: key.into() }
    }
}

/// A kind of unit.
pub(super) struct Gadget {
    /// The rows of the instruction table that it is for.
    pub(super) rows: &'static [&'static str],
    /// Whether all threads of the CTA must reach it together.
    pub(super) together: bool,
    pub(super) write: fn(&mut Random, &mut usize) -> Unit,
}

/// A fresh label.
fn label(labels: &mut usize) -> String {
    *labels += 1;
    format!("L{labels}")
}

fn r(random: &mut Random) -> String {
    format!("r{}", random.below(12))
}

fn d(random: &mut Random) -> String {
    format!("d{}", random.below(8))
}

fn p(random: &mut Random) -> String {
    format!("p{}", random.below(4))
}

/// An address of the thread's own 64 bytes, with its state space: `.global [gb+8]`.
fn own(random: &mut Random, bytes: usize) -> (&'static str, String) {
    let (space, base) =
        [(".global", "gb"), (".shared", "sb"), (".local", "lb"), ("", "ga"), (".shared::cta", "sb")]
            [random.below(5)];
    (space, format!("[{base}+{}]", random.below(64 / bytes) * bytes))
}

pub(super) const GADGETS: &[Gadget] = &[
    Gadget { rows: &["ld"], together: false, write: load },
    Gadget { rows: &["st"], together: false, write: store },
    Gadget { rows: &["atom"], together: false, write: atomic },
    Gadget { rows: &["red"], together: false, write: reduction },
    Gadget {
        rows: &["ldu"],
        together: false,
        write: |random, _| {
            let text = format!("ldu.global.b32 {}, [ib+{}];", r(random), random.below(32) * 4);
            Unit::new(text, "ldu")
        },
    },
    Gadget { rows: &["bra"], together: false, write: branch },
    Gadget { rows: &["brx"], together: false, write: indexed_branch },
    Gadget { rows: &["membar", "fence"], together: false, write: fence },
    Gadget {
        rows: &[
            "prefetch",
            "prefetchu",
            "applypriority",
            "createpolicy",
            "nanosleep",
            "pmevent",
            "griddepcontrol",
        ],
        together: false,
        write: hint,
    },
    Gadget { rows: &["cvta", "isspacep", "mapa", "getctarank"], together: false, write: address },
    Gadget { rows: &["exit", "trap", "brkpt", "discard"], together: false, write: never },
    Gadget { rows: &["bar", "barrier", "bar.warp"], together: true, write: barrier },
    Gadget {
        rows: &["barrier.cluster"],
        together: true,
        write: |random, _| {
            let (arrive, wait) = (random.word(&["", ".release"]), random.word(&["", ".acquire"]));
            let aligned = random.word(&["", ".aligned"]);
            Unit::new(
                format!("barrier.cluster.arrive{arrive}{aligned};\nbarrier.cluster.wait{wait}{aligned};"),
                "barrier.cluster",
            )
        },
    },
    Gadget { rows: &["shfl"], together: true, write: shuffle },
    Gadget { rows: &["vote", "match", "redux", "activemask", "elect"], together: true, write: vote },
    Gadget { rows: &["ldmatrix", "stmatrix", "movmatrix"], together: true, write: tiles },
    Gadget {
        rows: &[
            "cp.async",
            "cp.async.commit_group",
            "cp.async.wait_group",
            "cp.async.wait_all",
            "cp.async.mbarrier.arrive",
        ],
        together: true,
        write: copy,
    },
    Gadget {
        rows: &[
            "mbarrier.init",
            "mbarrier.arrive",
            "mbarrier.arrive_drop",
            "mbarrier.test_wait",
            "mbarrier.try_wait",
            "mbarrier.inval",
            "mbarrier.pending_count",
            "mbarrier.expect_tx",
            "mbarrier.complete_tx",
            "mbarrier.check_layout",
        ],
        together: true,
        write: barrier_object,
    },
    Gadget {
        rows: &[
            "cp.async.bulk",
            "cp.async.bulk.commit_group",
            "cp.async.bulk.wait_group",
            "cp.async.bulk.prefetch",
            "cp.reduce.async.bulk",
            "st.bulk",
        ],
        together: true,
        write: bulk,
    },
    Gadget { rows: &["st.async", "red.async"], together: true, write: remote_store },
    Gadget { rows: &["wmma.load", "wmma.mma", "wmma.store"], together: true, write: wmma },
];

fn load(random: &mut Random, _: &mut usize) -> Unit {
    let (ty, bytes, letter, count) = [
        ("b8", 1, 'r', 12),
        ("u8", 1, 'h', 8),
        ("s8", 1, 'h', 8),
        ("b16", 2, 'h', 8),
        ("s16", 2, 'r', 12),
        ("u16", 2, 'd', 8),
        ("b32", 4, 'r', 12),
        ("s32", 4, 'd', 8),
        ("u32", 4, 'r', 12),
        ("f32", 4, 'r', 12),
        ("b64", 8, 'd', 8),
        ("f64", 8, 'd', 8),
    ][random.below(12)];
    let vector = [1, 1, 2, 4][random.below(4)];
    let vector = if vector * bytes > 16 { 1 } else { vector };
    let (space, at) = own(random, vector * bytes);
    let kind = match random.below(6) {
        0 => ".volatile".to_owned(),
        1 => format!(".{}.{}", random.word(&["relaxed", "acquire"]), random.word(&["cta", "gpu", "sys"])),
        2 => ".weak".to_owned(),
        _ => String::new(),
    };
    let kind = if space == ".local" { String::new() } else { kind };
    let cache = if kind.is_empty() && space == ".global" {
        random.word(&["", ".ca", ".cg", ".cs", ".L1::no_allocate"])
    } else {
        ""
    };
    let first = random.below(count);
    let names: Vec<String> = (0..vector).map(|n| format!("{letter}{}", (first + n) % count)).collect();
    let (word, to) = if vector == 1 {
        (String::new(), names[0].clone())
    } else {
        (format!(".v{vector}"), format!("{{{}}}", names.join(", ")))
    };
    if random.one_in(8) {
        let text = match random.below(3) {
            0 => format!("ld.const.b32 {}, [cm+{}];", r(random), random.below(16) * 4),
            1 => format!("ld.global.nc.v2.b64 {{d1, d2}}, [ib+{}];", random.below(8) * 16),
            _ => format!("ld.param.b64 {}, [p_in];\nxor.b64 {0}, {0}, {0};", d(random)),
        };
        return Unit::new(text, "ld of constants");
    }
    Unit::new(
        format!("ld{kind}{space}{cache}{word}.{ty} {to}, {at};"),
        format!("ld{kind}{space}{cache}{word}.{ty}"),
    )
}

fn store(random: &mut Random, _: &mut usize) -> Unit {
    let (ty, bytes, letter, count) = [
        ("b8", 1, 'r', 12),
        ("u8", 1, 'h', 8),
        ("b16", 2, 'h', 8),
        ("u16", 2, 'r', 12),
        ("b32", 4, 'r', 12),
        ("s32", 4, 'd', 8),
        ("f32", 4, 'r', 12),
        ("b64", 8, 'd', 8),
    ][random.below(8)];
    let vector = [1, 1, 2, 4][random.below(4)];
    let vector = if vector * bytes > 16 { 1 } else { vector };
    let (space, at) = own(random, vector * bytes);
    let kind = match random.below(6) {
        0 => ".volatile".to_owned(),
        1 => format!(".{}.{}", random.word(&["relaxed", "release"]), random.word(&["cta", "gpu", "sys"])),
        _ => String::new(),
    };
    let kind = if space == ".local" { String::new() } else { kind };
    let cache =
        if kind.is_empty() && space == ".global" { random.word(&["", ".wb", ".cg", ".cs"]) } else { "" };
    let names: Vec<String> = (0..vector).map(|_| format!("{letter}{}", random.below(count))).collect();
    let (word, from) = if vector == 1 {
        (String::new(), names[0].clone())
    } else {
        (format!(".v{vector}"), format!("{{{}}}", names.join(", ")))
    };
    Unit::new(
        format!("st{kind}{space}{cache}{word}.{ty} {at}, {from};"),
        format!("st{kind}{space}{cache}{word}.{ty}"),
    )
}

/// The operation and type of an atomic, with its operand and where results go.
fn operation(random: &mut Random) -> (String, usize, String, String) {
    let (op, ty) = [
        ("add", "u32"),
        ("add", "s32"),
        ("add", "u64"),
        ("add", "f32"),
        ("add", "f64"),
        ("min", "u32"),
        ("max", "s32"),
        ("min", "u64"),
        ("max", "s64"),
        ("and", "b32"),
        ("or", "b64"),
        ("xor", "b32"),
        ("inc", "u32"),
        ("dec", "u32"),
        ("add.noftz", "f16x2"),
        ("add.noftz", "bf16x2"),
    ][random.below(16)];
    let wide = ty.ends_with("64");
    let (to, from) = if wide { (d(random), d(random)) } else { (r(random), r(random)) };
    (format!("{op}.{ty}"), if wide { 8 } else { 4 }, to, from)
}

fn atomic(random: &mut Random, _: &mut usize) -> Unit {
    let sem = random.word(&["", ".relaxed", ".acquire", ".release", ".acq_rel"]);
    let scope = if sem.is_empty() { "" } else { random.word(&[".cta", ".gpu", ".sys"]) };
    let (space, base) = [(".global", "gb"), (".shared", "sb")][random.below(2)];
    if random.one_in(4) {
        let (op, ty, to, from) = match random.below(4) {
            0 => ("exch", "b32", r(random), r(random)),
            1 => ("exch", "b64", d(random), d(random)),
            2 => ("cas", "b32", r(random), format!("{}, {}", r(random), r(random))),
            _ => ("cas", "b64", d(random), format!("{}, {}", d(random), d(random))),
        };
        let at = random.below(8) * 8;
        let form = format!("atom{sem}{scope}{space}.{op}.{ty}");
        return Unit::new(format!("{form} {to}, [{base}+{at}], {from};"), form);
    }
    let (op, bytes, to, from) = operation(random);
    let form = format!("atom{sem}{scope}{space}.{op}");
    Unit::new(format!("{form} {to}, [{base}+{}], {from};", random.below(64 / bytes) * bytes), form)
}

fn reduction(random: &mut Random, _: &mut usize) -> Unit {
    let sem = random.word(&["", ".relaxed", ".release"]);
    let scope = if sem.is_empty() { "" } else { random.word(&[".cta", ".gpu", ".sys"]) };
    let (space, base) = [(".global", "gb"), (".shared", "sb")][random.below(2)];
    let (op, bytes, _, from) = operation(random);
    let form = format!("red{sem}{scope}{space}.{op}");
    Unit::new(format!("{form} [{base}+{}], {from};", random.below(64 / bytes) * bytes), form)
}

fn branch(random: &mut Random, labels: &mut usize) -> Unit {
    let (skip, end, again) = (label(labels), label(labels), label(labels));
    let (guard, a, b) = (p(random), r(random), r(random));
    let text = match random.below(3) {
        0 => format!("@{guard} bra {skip};\nadd.u32 {a}, {a}, {b};\n{skip}:"),
        1 => format!(
            "@!{guard} bra {skip};\nxor.b32 {a}, {a}, {b};\nbra {end};\n{skip}:\nshf.l.wrap.b32 {a}, {a}, {b}, 7;\n{end}:"
        ),
        _ => format!(
            "and.b32 t0, {b}, 3;\nadd.u32 t0, t0, 1;\n{again}:\nmad.lo.u32 {a}, {a}, 3, {b};\n@{guard} bra {end};\nxor.b32 {a}, {a}, t0;\n{end}:\nsub.u32 t0, t0, 1;\nsetp.ne.u32 tp, t0, 0;\n@tp bra {again};"
        ),
    };
    Unit::new(text, "bra")
}

fn indexed_branch(random: &mut Random, labels: &mut usize) -> Unit {
    let (one, two, end, table) = (label(labels), label(labels), label(labels), label(labels));
    let (index, a, b) = (r(random), r(random), d(random));
    Unit::new(
        format!(
            "and.b32 t0, {index}, 1;\n{table}: .branchtargets {one}, {two};\nbrx.idx t0, {table};\n{one}:\nnot.b32 {a}, {a};\nbra {end};\n{two}:\nadd.u64 {b}, {b}, 1;\n{end}:"
        ),
        "brx",
    )
}

fn fence(random: &mut Random, _: &mut usize) -> Unit {
    let form = random.word(&[
        "membar.cta",
        "membar.gl",
        "membar.sys",
        "fence.acq_rel.cta",
        "fence.acq_rel.gpu",
        "fence.sc.cta",
        "fence.sc.gpu",
        "fence.sc.sys",
        "fence.acquire.gpu",
        "fence.release.cta",
        "fence.proxy.async",
        "fence.proxy.async.global",
        "fence.proxy.async.shared::cta",
        "fence.acq_rel.cluster",
        "fence.mbarrier_init.release.cluster",
        "fence.proxy.alias",
    ]);
    Unit::new(format!("{form};"), form)
}

fn hint(random: &mut Random, _: &mut usize) -> Unit {
    let line = match random.below(10) {
        0 => "prefetch.global.L1 [gb];",
        1 => "prefetch.global.L2 [gb+32];",
        2 => "prefetch.L2 [ga];",
        3 => "prefetchu.L1 [ga];",
        4 => "applypriority.global.L2::evict_normal [in0], 128;",
        5 => "createpolicy.fractional.L2::evict_last.b64 u5, 0f3F800000;",
        6 => "nanosleep.u32 20;",
        7 => "pmevent 3;",
        8 => "griddepcontrol.wait;",
        _ => "griddepcontrol.launch_dependents;",
    };
    Unit::new(line, line)
}

fn address(random: &mut Random, _: &mut usize) -> Unit {
    let (to, guard) = (r(random), p(random));
    let (text, key) = match random.below(5) {
        0 => (format!("cvta.to.global.u64 u5, ga;\nsub.u64 u5, u5, gb;\ncvt.u32.u64 {to}, u5;"), "cvta.to"),
        1 => (
            format!(
                "cvt.u64.u32 u5, sb;\ncvta.shared.u64 u6, u5;\ncvta.to.shared.u64 u6, u6;\nsub.u64 u6, u6, u5;\ncvt.u32.u64 {to}, u6;"
            ),
            "cvta",
        ),
        2 => (
            format!("isspacep.{} {guard}, ga;", random.word(&["global", "shared", "local", "const"])),
            "isspacep",
        ),
        3 => {
            (format!("mapa.shared::cluster.u32 t0, sb, 0;\ngetctarank.shared::cluster.u32 {to}, t0;"), "mapa")
        }
        _ => (
            format!(
                "cvt.u64.u32 u5, sb;\ncvta.shared.u64 u5, u5;\nmapa.u64 u6, u5, 0;\ngetctarank.u64 {to}, u6;"
            ),
            "mapa.u64",
        ),
    };
    Unit::new(text, key)
}

/// What no thread may execute, behind a guard that is false everywhere.
fn never(random: &mut Random, _: &mut usize) -> Unit {
    let line = random.word(&["exit;", "trap;", "brkpt;", "discard.global.L2 [in0], 128;"]);
    Unit::new(format!("setp.eq.u32 tp, tid, 0xffff;\n@tp {line}"), line)
}

fn barrier(random: &mut Random, labels: &mut usize) -> Unit {
    let (to, from, out) = (p(random), p(random), r(random));
    let text = match random.below(9) {
        0 => "bar.sync 0;".to_owned(),
        1 => "bar.sync 1, 64;".to_owned(),
        2 => "barrier.sync 2;".to_owned(),
        3 => "barrier.cta.sync.aligned 3;".to_owned(),
        4 => format!("bar.red.popc.u32 {out}, 4, {from};"),
        5 => format!("bar.red.{}.pred {to}, 5, {from};", random.word(&["and", "or"])),
        6 => format!("barrier.cta.red.or.aligned.pred {to}, 6, {from};"),
        7 => {
            // The first warp arrives, the second waits.
            let (skip, end) = (label(labels), label(labels));
            format!(
                "setp.lt.u32 tp, tid, 32;\n@!tp bra {skip};\nbarrier.arrive 7, 64;\nbra {end};\n{skip}:\nbarrier.sync 7, 64;\n{end}:\nbar.sync 0;"
            )
        }
        _ => "bar.warp.sync 0xffffffff;".to_owned(),
    };
    Unit::new(text, "bar")
}

fn shuffle(random: &mut Random, _: &mut usize) -> Unit {
    let mode = random.word(&["up", "down", "bfly", "idx"]);
    let clamp = if mode == "up" { 0 } else { 31 };
    let segment = [0, 0, 16, 24, 28][random.below(5)];
    let by = if random.one_in(2) { format!("{}", random.below(32)) } else { r(random) };
    let to = if random.one_in(2) { format!("{}|{}", r(random), p(random)) } else { r(random) };
    let lanes =
        format!("shfl.sync.{mode}.b32 {to}, {}, {by}, {}, 0xffffffff;", r(random), segment << 8 | clamp);
    Unit::new(lanes, "shfl")
}

fn vote(random: &mut Random, _: &mut usize) -> Unit {
    let (a, b, wide, to, from) = (r(random), r(random), d(random), p(random), p(random));
    let text = match random.below(10) {
        0 => format!("vote.sync.{}.pred {to}, {from}, 0xffffffff;", random.word(&["all", "any", "uni"])),
        1 => format!("vote.sync.ballot.b32 {a}, {from}, 0xffffffff;"),
        2 => format!("match.any.sync.b32 {a}, {b}, 0xffffffff;"),
        3 => format!("match.any.sync.b64 {a}, {wide}, 0xffffffff;"),
        4 => format!("match.all.sync.b32 {a}|{to}, {b}, 0xffffffff;"),
        5 => format!(
            "redux.sync.{} {a}, {b}, 0xffffffff;",
            random.word(&["add.u32", "min.s32", "max.u32", "add.s32", "and.b32", "or.b32", "xor.b32"])
        ),
        6 => format!(
            "redux.sync.{} {a}, {b}, 0xffffffff;",
            random.word(&["min.f32", "max.NaN.f32", "min.abs.f32"])
        ),
        7 => format!("bar.warp.sync 0xffffffff;\nactivemask.b32 {a};"),
        _ => format!("elect.sync _|{to}, 0xffffffff;"),
    };
    let key = text.split(' ').next().unwrap_or_default().to_owned();
    Unit::new(text, key)
}

/// Fills the warp's 1,024 bytes, 32 for each lane, from registers.
const FILL: &str = "bar.warp.sync 0xffffffff;\nst.shared.v4.b32 [wl], {r0, r1, r2, r3};\nst.shared.v4.b32 [wl+16], {r4, r5, r6, r7};\nbar.warp.sync 0xffffffff;\n";

fn tiles(random: &mut Random, _: &mut usize) -> Unit {
    let x = [1usize, 2, 4][random.below(3)];
    let names: Vec<String> = (0..x).map(|n| format!("r{}", (random.below(9) + n * 3) % 12)).collect();
    let distinct: Vec<String> = (0..x).map(|n| format!("r{}", 8 + n)).collect();
    let trans = random.word(&["", ".trans"]);
    match random.below(6) {
        0 | 1 => {
            let form = format!("ldmatrix.sync.aligned.m8n8.x{x}{trans}.shared.b16");
            Unit::new(
                format!("{FILL}{form} {{{}}}, [wr];\nbar.warp.sync 0xffffffff;", distinct.join(", ")),
                form,
            )
        }
        2 => {
            let (form, count) = [
                ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", 2usize),
                ("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8", 4),
                ("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32", 1),
                ("ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64", 2),
            ][random.below(4)];
            let names: Vec<String> = (0..count).map(|n| format!("r{}", 8 + n)).collect();
            Unit::new(
                format!("{FILL}{form} {{{}}}, [wr];\nbar.warp.sync 0xffffffff;", names.join(", ")),
                form,
            )
        }
        3 => {
            let form = format!("stmatrix.sync.aligned.m8n8.x{x}{trans}.shared.b16");
            let back = "bar.warp.sync 0xffffffff;\nld.shared.v4.b32 {r8, r9, r10, r11}, [wl];\nbar.warp.sync 0xffffffff;";
            Unit::new(format!("{FILL}{form} [wr], {{{}}};\n{back}", names.join(", ")), form)
        }
        4 => {
            let form = format!("stmatrix.sync.aligned.m16n8.x{x}.trans.shared.b8");
            let back = "bar.warp.sync 0xffffffff;\nld.shared.v4.b32 {r8, r9, r10, r11}, [wl];\nbar.warp.sync 0xffffffff;";
            Unit::new(format!("{FILL}{form} [wr], {{{}}};\n{back}", names.join(", ")), form)
        }
        _ => Unit::new(
            format!("movmatrix.sync.aligned.m8n8.trans.b16 {}, {};", r(random), r(random)),
            "movmatrix",
        ),
    }
}

fn copy(random: &mut Random, labels: &mut usize) -> Unit {
    let bytes = [4usize, 8, 16][random.below(3)];
    let at = random.below(64 / bytes) * bytes;
    let from = random.below(256 / bytes) * bytes;
    let kind = if bytes == 16 { random.word(&["ca", "cg"]) } else { "ca" };
    let size = if random.one_in(3) { format!(", {}", random.below(bytes + 1)) } else { String::new() };
    let copy = format!("cp.async.{kind}.shared.global [sb+{at}], [ib+{from}], {bytes}{size};");
    let end = match random.below(3) {
        0 => "cp.async.wait_all;".to_owned(),
        1 => "cp.async.commit_group;\ncp.async.wait_group 0;".to_owned(),
        _ => {
            let again = label(labels);
            let noinc = random.word(&["", ".noinc"]);
            let arrive = if noinc.is_empty() { "mbarrier.arrive.shared.b64 u5, [mb];" } else { "" };
            format!(
                "bar.sync 0;\nsetp.eq.u32 tp, tid, 0;\n@tp mbarrier.init.shared.b64 [mb], 64;\nbar.sync 0;\ncp.async.mbarrier.arrive{noinc}.shared.b64 [mb];\n{arrive}\n{again}:\nmbarrier.try_wait.parity.shared.b64 tq, [mb], 0;\n@!tq bra {again};\nbar.sync 0;\n@tp mbarrier.inval.shared.b64 [mb];\nbar.sync 0;"
            )
        }
    };
    Unit::new(format!("{copy}\n{end}"), format!("cp.async {}", end.len()))
}

fn barrier_object(random: &mut Random, labels: &mut usize) -> Unit {
    let again = label(labels);
    let begin = "bar.sync 0;\nsetp.eq.u32 tp, tid, 0;\n@tp mbarrier.init.shared.b64 [mb], 64;\nbar.sync 0;";
    let end = "bar.sync 0;\n@tp mbarrier.inval.shared.b64 [mb];\nbar.sync 0;";
    let wait = match random.below(3) {
        0 => format!("{again}:\nmbarrier.test_wait.shared.b64 tq, [mb], u5;\n@!tq bra {again};"),
        1 => format!("{again}:\nmbarrier.try_wait.shared.b64 tq, [mb], u5, 1000;\n@!tq bra {again};"),
        _ => format!(
            "{again}:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 tq, [mb], 0;\n@!tq bra {again};"
        ),
    };
    let arrive = match random.below(6) {
        0 => "mbarrier.arrive.shared.b64 u5, [mb];".to_owned(),
        1 => "mbarrier.arrive.release.cta.shared::cta.b64 u5, [mb], 1;".to_owned(),
        2 => "mbarrier.arrive.expect_tx.shared.b64 u5, [mb], 16;\nmbarrier.complete_tx.shared::cta.relaxed.cta.b64 [mb], 16;".to_owned(),
        3 => "mbarrier.arrive_drop.shared.b64 u5, [mb];".to_owned(),
        4 => "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [mb], 8;\nmbarrier.complete_tx.relaxed.cta.shared::cta.b64 [mb], 8;\nmbarrier.arrive.shared.b64 u5, [mb];".to_owned(),
        _ => "mbarrier.check_layout.layout::v0.shared::cta.b64 tq, [mb];\nmbarrier.arrive.shared.b64 u5, [mb];".to_owned(),
    };
    let count = if random.one_in(2) {
        format!(
            "mbarrier.init.shared.b64 [mb2], 5;\nmbarrier.arrive.noComplete.shared.b64 u6, [mb2], 2;\nmbarrier.pending_count.b64 {}, u6;\nmbarrier.inval.shared.b64 [mb2];",
            r(random)
        )
    } else {
        String::new()
    };
    Unit::new(
        format!("{begin}\n{arrive}\n{wait}\n{end}\n{count}"),
        format!("{arrive}{}{}", wait.len(), count.is_empty()),
    )
}

fn bulk(random: &mut Random, labels: &mut usize) -> Unit {
    let (again, skip) = (label(labels), label(labels));
    let read = "bar.sync 0;\nld.shared.v2.b64 {d0, d1}, [bl];\nbar.sync 0;";
    let (middle, key) = match random.below(4) {
        0 => {
            let to = random.word(&["shared::cluster", "shared::cta"]);
            (format!(
                "mbarrier.init.shared.b64 [mb], 1;\nfence.proxy.async.shared::cta;\nmbarrier.arrive.expect_tx.shared.b64 u5, [mb], 512;\ncp.async.bulk.{to}.global.mbarrier::complete_tx::bytes [bb], [in0], 512, [mb];\n{again}:\nmbarrier.try_wait.parity.shared.b64 tq, [mb], 0;\n@!tq bra {again};\nmbarrier.inval.shared.b64 [mb];"
            ), to)
        }
        1 => ("fence.proxy.async;\ncp.async.bulk.global.shared::cta.bulk_group [oc], [bb], 512;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;".to_owned(), "bulk store"),
        2 => {
            let op = random.word(&["add.u32", "min.s32", "and.b32", "xor.b64", "inc.u32", "add.u64", "max.u64", "add.s32"]);
            (format!("fence.proxy.async;\ncp.reduce.async.bulk.global.shared::cta.bulk_group.{op} [oc], [bb], 512;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\ncp.async.bulk.wait_group 0;"), op)
        }
        _ => ("st.bulk.weak.shared::cta [bb], 512, 0;\ncp.async.bulk.prefetch.L2.global [in0], 512;".to_owned(), "st.bulk"),
    };
    let first = "bar.sync 0;\nst.shared.v2.b64 [bl], {d2, d3};\nfence.proxy.async;\nbar.sync 0;\nsetp.ne.u32 tp, tid, 0;";
    Unit::new(format!("{first}\n@tp bra {skip};\n{middle}\n{skip}:\n{read}"), key)
}

fn remote_store(random: &mut Random, labels: &mut usize) -> Unit {
    let (again, skip) = (label(labels), label(labels));
    let (line, key) = match random.below(3) {
        0 => (
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [t1], d4, [t2];".to_owned(),
            "st.async",
        ),
        1 => (
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [t1], {r4, r5}, [t2];".to_owned(),
            "st.async.v2",
        ),
        _ => {
            let op = random.word(&["add.u64"]);
            (
                format!(
                    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op} [t1], d4, [t2];"
                ),
                op,
            )
        }
    };
    Unit::new(
        format!(
            "bar.sync 0;\nst.shared.v2.b64 [bl], {{d2, d3}};\nbar.sync 0;\nsetp.ne.u32 tp, tid, 0;\n@tp bra {skip};\nmbarrier.init.shared.b64 [mb], 1;\nfence.mbarrier_init.release.cluster;\nmov.u32 t2, %cluster_ctarank;\nmapa.shared::cluster.u32 t1, bb, t2;\nmapa.shared::cluster.u32 t2, mb, t2;\nmbarrier.arrive.expect_tx.shared.b64 u5, [mb], 8;\n{line}\n{again}:\nmbarrier.try_wait.parity.shared.b64 tq, [mb], 0;\n@!tq bra {again};\nmbarrier.inval.shared.b64 [mb];\n{skip}:\nbar.sync 0;\nld.shared.v2.b64 {{d0, d1}}, [bl];\nbar.sync 0;"
        ),
        key,
    )
}

fn wmma(random: &mut Random, _: &mut usize) -> Unit {
    let (ty, sum, a, c) = [
        ("f16", "f32", 8usize, 8usize),
        ("f16", "f16", 8, 4),
        ("bf16", "f32", 4, 8),
        ("s8", "s32", 2, 8),
        ("u8", "s32", 2, 8),
    ][random.below(5)];
    let list = |letter: char, from: usize, count: usize| {
        (from..from + count).map(|n| format!("{letter}{n}")).collect::<Vec<_>>().join(", ")
    };
    let shape = "m16n16k16";
    let (fa, fb, fc) = (list('f', 0, a), list('f', 8, a), list('f', 16, c));
    let middle = match ty {
        "f16" => format!("{sum}.{sum}"),
        other => format!("{sum}.{other}.{other}.{sum}"),
    };
    let text = format!(
        "{FILL}wmma.load.a.sync.aligned.row.{shape}.shared.{ty} {{{fa}}}, [wa], 16;\nwmma.load.b.sync.aligned.col.{shape}.shared.{ty} {{{fb}}}, [wa], 16;\nwmma.load.c.sync.aligned.row.{shape}.shared.{sum} {{{fc}}}, [wa], 16;\nbar.warp.sync 0xffffffff;\nwmma.mma.sync.aligned.row.col.{shape}.{middle} {{{fc}}}, {{{fa}}}, {{{fb}}}, {{{fc}}};\nwmma.store.d.sync.aligned.row.{shape}.shared.{sum} [wa], {{{fc}}}, 16;\nbar.warp.sync 0xffffffff;\nld.shared.v4.b32 {{r8, r9, r10, r11}}, [wl];\nbar.warp.sync 0xffffffff;"
    );
    Unit::new(text, format!("wmma {middle}"))
}
