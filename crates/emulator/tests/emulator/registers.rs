//! Registers that share slots: the same results as with a slot for each, and far fewer slots. Addresses by a base and offsets: the same
//! as by registers of their own.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fmt::Write;

use emulator::{GlobalMemory, Launch, Options, Registers, Stop, launch, load, load_with};
use proptest::prelude::*;

const THREADS: u32 = 80;
/// Words that a thread leaves.
const RESULTS: usize = 6;

/// Words that a thread has in shared memory, and behind its results, for accesses by a base and an offset.
const WORDS: usize = 10;
/// Bytes from one word of a thread to its next one: those of all threads lie side by side, so that a warp accesses a run.
const STRIDE: usize = 4 * THREADS as usize;
/// Words to which a base points, and offsets in words; both have the same number.
const PLACES: usize = WORDS / 2;
/// Words of global memory of a thread: its results, their sum, and those for bases.
const OWN: usize = RESULTS + 1 + WORDS;

/// A random program. Registers: 12 of 32 bits, 6 of 64, 4 predicates, 4 bases, all written first; every way through it ends.
struct Writer<'a> {
    choices: std::slice::Iter<'a, u32>,
    text: String,
    labels: u32,
    depth: u32,
    /// Whether lanes may have parted.
    apart: bool,
}

impl Writer<'_> {
    fn next(&mut self) -> u32 {
        self.choices.next().copied().unwrap_or(0)
    }

    fn w(&mut self) -> String {
        format!("w{}", self.next() % 12)
    }

    fn d(&mut self) -> String {
        format!("d{}", self.next() % 6)
    }

    /// A base of addresses of 32 bits in shared memory, or of 64 in global memory.
    fn base(&mut self) -> String {
        ["b0", "b1", "g0", "g1"][self.next() as usize % 4].to_owned()
    }

    fn p(&mut self) -> String {
        format!("p{}", self.next() % 4)
    }

    /// A source: a register, a number, or what differs from lane to lane.
    fn source(&mut self) -> String {
        match self.next() % 6 {
            0 => (self.next() % 1000).to_string(),
            1 => "lane".to_owned(),
            _ => self.w(),
        }
    }

    fn line(&mut self, line: &str) {
        let guard = match self.next() % 5 {
            0 => format!("@{} ", self.p()),
            1 => format!("@!{} ", self.p()),
            _ => String::new(),
        };
        writeln!(self.text, "{guard}{line}").unwrap();
    }

    fn label(&mut self, name: &str) -> String {
        self.labels += 1;
        format!("{name}{}", self.labels)
    }

    fn instruction(&mut self) {
        let line = match self.next() % 25 {
            0 => format!("add.u32 {}, {}, {};", self.w(), self.source(), self.source()),
            1 => format!("mul.lo.u32 {}, {}, {};", self.w(), self.source(), self.source()),
            2 => format!("mad.lo.u32 {}, {}, {}, {};", self.w(), self.w(), self.source(), self.w()),
            3 => format!("xor.b32 {}, {}, {};", self.w(), self.w(), self.source()),
            4 => format!("setp.lt.u32 {}, {}, {};", self.p(), self.w(), self.source()),
            5 => format!(
                "setp.ne.and.u32 {}|{}, {}, {}, {};",
                self.p(),
                self.p(),
                self.w(),
                self.source(),
                self.p()
            ),
            6 => format!("selp.b32 {}, {}, {}, {};", self.w(), self.w(), self.source(), self.p()),
            7 => format!("mul.wide.u32 {}, {}, {};", self.d(), self.w(), self.source()),
            8 => format!("add.u64 {}, {}, {};", self.d(), self.d(), self.d()),
            9 => format!("mov.b64 {}, {{{}, {}}};", self.d(), self.w(), self.w()),
            10 => {
                let n = self.next() % 12;
                format!("mov.b64 {{w{n}, w{}}}, {};", (n + 1 + self.next() % 11) % 12, self.d())
            }
            11 => format!("slct.u32.s32 {}, {}, {}, {};", self.w(), self.w(), self.source(), self.w()),
            12 => format!("set.lt.u32.u32 {}, {}, {};", self.w(), self.w(), self.source()),
            13 => format!("cvt.u32.u64 {}, {};", self.w(), self.d()),
            14 => format!("mov.b128 q{}, {{{}, {}}};", self.next() % 2, self.d(), self.d()),
            15 => {
                let n = self.next() % 6;
                format!("mov.b128 {{d{n}, d{}}}, q{};", (n + 1 + self.next() % 5) % 6, self.next() % 2)
            }
            16 => {
                // The thread's own words.
                let at = 4 * (self.next() as usize % RESULTS);
                format!("st.global.u32 [own+{at}], {};", self.w())
            }
            17 => {
                let at = 4 * (self.next() as usize % RESULTS);
                format!("ld.global.u32 {}, [own+{at}];", self.w())
            }
            18 | 19 => {
                let (to, base, at) = (self.w(), self.base(), STRIDE * (self.next() as usize % PLACES));
                let space = if base.starts_with('b') { "shared" } else { "global" };
                format!("ld.{space}.u32 {to}, [{base}+{at}];")
            }
            20 | 21 => {
                let (from, base, at) = (self.w(), self.base(), STRIDE * (self.next() as usize % PLACES));
                let space = if base.starts_with('b') { "shared" } else { "global" };
                format!("st.{space}.u32 [{base}+{at}], {from};")
            }
            22 => {
                // Some lanes of a base may keep the old value.
                let (base, at) = (self.base(), STRIDE * (self.next() as usize % PLACES));
                let (bits, start) = if base.starts_with('b') { (32, "words") } else { (64, "far") };
                format!("add.u{bits} {base}, {start}, {at};")
            }
            _ => {
                // A shuffle wants all lanes of a warp, guard or not; the last warp has 16.
                if !self.apart {
                    let line = format!(
                        "shfl.sync.bfly.b32 {}|{}, {}, {}, 0x0f1f, warp;",
                        self.w(),
                        self.p(),
                        self.w(),
                        self.next() % 16
                    );
                    writeln!(self.text, "{line}").unwrap();
                }
                return;
            }
        };
        self.line(&line);
    }

    fn call(&mut self) {
        let (a, b, to) = (self.w(), self.source(), self.w());
        writeln!(
            self.text,
            "{{ .param .b32 pa; .param .b32 pb; .param .b32 pr; st.param.b32 [pa], {a}; mov.u32 arg, {b}; \
             st.param.b32 [pb], arg; call (pr), mix, (pa, pb); ld.param.b32 {to}, [pr]; }}"
        )
        .unwrap();
    }

    fn block(&mut self) {
        let count = 1 + self.next() % 8;
        for _ in 0..count {
            match self.next() % 12 {
                0 if self.depth < 3 => self.branch(),
                1 if self.depth < 3 => self.repeat(),
                2 => self.call(),
                _ => self.instruction(),
            }
        }
    }

    /// Lanes part, or not, and meet again.
    fn branch(&mut self) {
        let (other, end) = (self.label("ELSE"), self.label("END"));
        let (p, apart) = (self.p(), self.apart);
        (self.apart, self.depth) = (true, self.depth + 1);
        writeln!(self.text, "@{p} bra {other};").unwrap();
        self.block();
        writeln!(self.text, "bra {end};\n{other}:").unwrap();
        self.block();
        writeln!(self.text, "{end}:").unwrap();
        (self.apart, self.depth) = (apart, self.depth - 1);
    }

    /// A loop that each lane leaves at a time of its own.
    fn repeat(&mut self) {
        let (head, n) = (self.label("LOOP"), self.depth);
        let (bound, apart) = (self.source(), self.apart);
        (self.apart, self.depth) = (true, self.depth + 1);
        writeln!(self.text, "mov.u32 i{n}, {bound};\nand.b32 i{n}, i{n}, 3;\n{head}:").unwrap();
        self.block();
        writeln!(self.text, "sub.s32 i{n}, i{n}, 1;\nsetp.gt.s32 more{n}, i{n}, 0;\n@more{n} bra {head};")
            .unwrap();
        (self.apart, self.depth) = (apart, self.depth - 1);
    }
}

fn program(choices: &[u32]) -> String {
    let mut w = Writer { choices: choices.iter(), text: String::new(), labels: 0, depth: 0, apart: false };
    let mut first = String::new();
    for n in 0..2 {
        writeln!(first, "add.u32 b{n}, words, {}; add.u64 g{n}, far, {0};", STRIDE * n).unwrap();
    }
    for n in 0..12 {
        writeln!(w.text, "mad.lo.u32 w{n}, t, {}, {n};", 2 * n + 1).unwrap();
    }
    for n in 0..6 {
        writeln!(w.text, "mul.wide.u32 d{n}, t, {};", n + 7).unwrap();
    }
    for n in 0..4 {
        writeln!(w.text, "and.b32 w0, t, {}; setp.eq.u32 p{n}, w0, 0;", 1 << n).unwrap();
    }
    writeln!(w.text, "mov.b128 q0, {{d0, d1}}; mov.b128 q1, {{d2, d3}};").unwrap();
    for _ in 0..6 {
        w.block();
    }
    for n in 0..WORDS {
        writeln!(first, "st.shared.u32 [words+{}], t; st.global.u32 [far+{0}], t;", STRIDE * n).unwrap();
    }
    let stores: String =
        (0..12).map(|n| format!("xor.b32 sum, sum, w{n}; mad.lo.u32 sum, sum, 31, {n};\n")).collect();
    let wide: String = (0..6)
        .map(|n| {
            format!("mov.b64 {{low, high}}, d{n}; xor.b32 sum, sum, low; mad.lo.u32 sum, sum, 31, high;\n")
        })
        .collect();
    format!(
        ".version 9.0\n.target sm_121a\n.address_size 64\n\
         .func (.param .b32 r) mix(.param .b32 a, .param .b32 b)\n{{\n.reg .b32 x, y, z; .reg .pred q;\n\
         ld.param.b32 x, [a]; ld.param.b32 y, [b]; setp.lt.u32 q, x, y; @q bra SKIP;\nmad.lo.u32 x, x, 3, y;\n\
         SKIP: xor.b32 z, x, y; st.param.b32 [r], z; ret;\n}}\n\
         .visible .entry k(.param .u64 p_out)\n{{\n.reg .b64 out, own, far, g<2>, there, d<6>; .reg .b128 q<2>;\n\
         .shared .b32 all[{}]; .reg .b32 t, lane, warp, sum, low, high, arg, words, b<2>, here, w<12>, i<4>; .reg .pred p<4>, more<4>, full;\n\
         ld.param.u64 out, [p_out];\nmov.u32 t, %tid.x;\nmov.u32 lane, %laneid;\n\
         setp.lt.u32 full, t, 64;\nselp.b32 warp, 0xffffffff, 0xffff, full;\n\
         mov.u32 words, all; mad.lo.u32 words, t, 4, words;\n\
         mad.wide.u32 own, t, {}, out;\nmad.wide.u32 far, t, 4, out; add.u64 far, far, {};\n{first}{}{}mov.u32 sum, 0;\n{stores}{wide}st.global.u32 [own+{}], sum;\nret;\n}}\n",
        THREADS as usize * WORDS,
        4 * (RESULTS + 1),
        STRIDE * (RESULTS + 1),
        (0..RESULTS).map(|n| format!("st.global.u32 [own+{}], t;\n", 4 * n)).collect::<String>(),
        w.text,
        4 * RESULTS,
    )
}

/// The program with each base and offset added by an instruction of its own.
fn without_offsets(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let of = |kind| {
            let (before, rest) = line.split_once(kind)?;
            let (place, behind) = rest.split_once(']')?;
            let (number, offset) = place.split_once('+')?;
            Some((before, number, offset, behind))
        };
        match (of("[b"), of("[g")) {
            (Some((before, n, offset, behind)), _) => {
                writeln!(out, "add.u32 here, b{n}, {offset};\n{before}[here]{behind}").unwrap();
            }
            (_, Some((before, n, offset, behind))) => {
                writeln!(out, "add.u64 there, g{n}, {offset};\n{before}[there]{behind}").unwrap();
            }
            _ => writeln!(out, "{line}").unwrap(),
        }
    }
    out
}

fn run(text: &str, registers: Registers, seed: u64) -> Result<Vec<u8>, Stop> {
    let program = load_with(text, registers)?;
    let mut memory = GlobalMemory::default();
    let out = memory.allocate(THREADS as usize * 4 * OWN);
    let how =
        Launch { grid: [1; 3], block: [THREADS, 1, 1], shared_bytes: 0, params: out.to_le_bytes().to_vec() };
    let options = Options { seed, fuel: 10_000_000, check_widths: true, ..Options::default() };
    launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &options)?;
    Ok(memory.bytes(out).unwrap().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_give_the_same_results(choices in prop::collection::vec(any::<u32>(), 50..400)) {
        let text = program(&choices);
        let expect = run(&text, Registers::Own, 0);
        prop_assert!(expect.is_ok(), "{}\n{text}", expect.unwrap_err());
        for seed in [0, 1, 2] {
            let got = run(&text, Registers::Shared, seed);
            prop_assert_eq!(&got, &expect, "seed {}\n{}", seed, text);
            let got = run(&without_offsets(&text), Registers::Shared, seed);
            prop_assert_eq!(&got, &expect, "offsets added, seed {}\n{}", seed, text);
        }
        let slots = |registers| load_with(&text, registers).unwrap().kernel("k").unwrap().register_bytes();
        prop_assert!(slots(Registers::Shared) <= slots(Registers::Own));
    }
}

/// A kernel whose body is a text, with `b` and `c` as addresses of 32 bits in shared memory.
fn with_addresses(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b64 out; .reg .b32 b, c, x, y; \
         .reg .pred q; .shared .b32 s[64];\nld.param.u64 out, [p]; mov.u32 x, %tid.x; mov.u32 b, s; mov.u32 c, s; \
         setp.lt.u32 q, x, 5;\n{body}\nret;\n}}\n"
    )
}

/// The rows of a kernel that belong to no instruction's beginning: a base is widened by a row before the access.
fn inner_rows(body: &str) -> usize {
    let program = load(&with_addresses(body)).unwrap();
    let rows = program.listing(program.kernel("k").unwrap());
    rows.iter().filter(|row| !row.first).count()
}

#[test]
fn a_base_is_widened_once() {
    let rows = |body| inner_rows(body) - inner_rows("");
    assert_eq!(rows("st.shared.u32 [b], x;"), 1);
    assert_eq!(
        rows("st.shared.u32 [b], x; ld.shared.u32 x, [b+4]; ld.shared.u32 x, [b+64]; st.shared.u32 [c], x;"),
        2
    );
    // A guarded access finds what one without a guard has left, and leaves nothing.
    assert_eq!(rows("st.shared.u32 [b], x; @q ld.shared.u32 x, [b+4];"), 1);
    assert_eq!(rows("@q st.shared.u32 [b], x; @q ld.shared.u32 x, [b+4]; ld.shared.u32 x, [b];"), 3);
    // A branch that lanes leave by parts nothing; a label may be reached from elsewhere.
    let branch = rows("st.shared.u32 [b], x; @q bra END; mov.u32 x, 1; END: mov.u32 x, 1;");
    assert_eq!(rows("st.shared.u32 [b], x; @q bra END; ld.shared.u32 x, [b+4]; END: mov.u32 x, 1;"), branch);
    assert_eq!(
        rows("st.shared.u32 [b], x; @q bra END; mov.u32 x, 1; END: ld.shared.u32 x, [b+4];"),
        branch + 1
    );
    // Of another value, below the first offset, or far from it.
    assert_eq!(rows("st.shared.u32 [b], x; add.u32 b, b, 4; ld.shared.u32 x, [b];"), 2);
    assert_eq!(rows("st.shared.u32 [b], b; ld.shared.u32 b, [b]; ld.shared.u32 x, [b];"), 2);
    assert_eq!(rows("st.shared.u32 [b+8], x; ld.shared.u32 x, [b+4];"), 2);
    assert_eq!(rows("st.shared.u32 [b], x; ld.shared.u32 x, [b+4194304];"), 2);
    // Some lanes of a matrix load name no address, and a load of which no byte is used reads none.
    assert_eq!(rows("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {x}, [b]; ld.shared.u32 x, [b+4];"), 2);
    assert_eq!(rows("ld.shared.u32 x, [b]; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {x}, [b+16];"), 1);
    assert_eq!(rows(".pragma \"used_bytes_mask 0\"; ld.shared.u32 x, [b]; ld.shared.u32 x, [b+4];"), 2);
    // A name of an inner block is another register, also where the outer one was used in that block before.
    assert_eq!(rows("{ st.shared.u32 [b], x; .reg .b32 b; mov.u32 b, s; ld.shared.u32 x, [b]; }"), 2);
    assert_eq!(rows("st.shared.u32 [b], x; { .reg .b32 b; mov.u32 b, s; ld.shared.u32 x, [b]; }"), 2);
}

/// The inner `b` holds another address than the outer one, whose sum is widened before.
#[test]
fn a_register_may_hide_another_of_its_name() {
    let text = with_addresses(
        "st.shared.u32 [c+16], 7; { st.shared.u32 [b], 1; .reg .b32 b; mov.u32 b, s; add.u32 b, b, 16; ld.shared.u32 x, [b]; } \
         st.global.u32 [out], x;",
    );
    for registers in [Registers::Own, Registers::Shared] {
        let program = load_with(&text, registers).unwrap();
        let mut memory = GlobalMemory::default();
        let out = memory.allocate(4);
        let how = Launch { grid: [1; 3], block: [1; 3], shared_bytes: 0, params: out.to_le_bytes().to_vec() };
        launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &Options::default()).unwrap();
        assert_eq!(memory.bytes(out).unwrap(), [7, 0, 0, 0], "{registers:?}");
    }
}

/// A base below the memory, with offsets that lead into it: sums have 32 bits.
#[test]
fn a_base_may_be_below_the_memory() {
    let text = with_addresses(
        "sub.u32 b, b, 2048; st.shared.u32 [b+2048], 7; st.shared.u32 [b+2052], 8; ld.shared.u32 x, [c]; ld.shared.u32 y, [c+4]; \
         st.global.u32 [out], x; st.global.u32 [out+4], y;",
    );
    let program = load(&text).unwrap();
    let mut memory = GlobalMemory::default();
    let out = memory.allocate(8);
    let how = Launch { grid: [1; 3], block: [1; 3], shared_bytes: 0, params: out.to_le_bytes().to_vec() };
    launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &Options::default()).unwrap();
    assert_eq!(memory.bytes(out).unwrap(), [7, 0, 0, 0, 8, 0, 0, 0]);
}

/// 46 registers are declared; `t`, the one before and the one after, `k…` and what is constant need slots.
#[test]
fn a_chain_of_registers_needs_few_slots() {
    let program = load(include_str!("../filetests/registers/lanes_that_wait.ptx")).unwrap();
    let [narrow, ..] = program.kernel("k").unwrap().register_slots();
    assert!(narrow <= 16, "{narrow} slots");
}

/// Nothing to share: every register is live at once, and the 128-bit ones need two slots side by side.
#[test]
fn sharing_never_needs_more_slots_than_there_are_registers() {
    let text = ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n\
        .reg .b64 out, d<3>; .reg .b128 q<2>; .reg .pred never;\n\
        ld.param.u64 out, [p];\n\
        mov.u64 d0, 1; mov.u64 d1, 2; mov.b128 q0, {d0, d1}; mov.u64 d2, 3; mov.b128 q1, {d1, d2};\n\
        add.u64 d0, d0, d1; add.u64 d0, d0, d2; mov.b128 {d1, d2}, q0; add.u64 d0, d0, d1;\n\
        mov.b128 {d1, d2}, q1; add.u64 d0, d0, d2; st.global.u64 [out], d0;\nret;\n}\n";
    let slots = |registers| load_with(text, registers).unwrap().kernel("k").unwrap().register_slots();
    let (own, shared) = (slots(Registers::Own), slots(Registers::Shared));
    assert!(shared.iter().zip(own).all(|(shared, own)| *shared <= own), "{shared:?} slots of {own:?}");
}

/// Kernels from NVRTC: how many slots a warp has, before and after.
#[test]
fn kernels_from_a_compiler_need_a_fraction_of_their_registers() {
    for (name, text) in [
        ("gemm_bf16", include_str!("../kernels/gemm_bf16.ptx")),
        ("gemm_mx", include_str!("../kernels/gemm_mx.ptx")),
        ("gemm_tma", include_str!("../kernels/gemm_tma.ptx")),
        ("histogram", include_str!("../kernels/histogram.ptx")),
        ("pdl", include_str!("../kernels/pdl.ptx")),
        ("persistent", include_str!("../kernels/persistent.ptx")),
        ("reduction", include_str!("../kernels/reduction.ptx")),
        ("scan", include_str!("../kernels/scan.ptx")),
        ("softmax", include_str!("../kernels/softmax.ptx")),
    ] {
        let (own, shared) = (load_with(text, Registers::Own).unwrap(), load(text).unwrap());
        for (before, after) in own.kernels.iter().zip(&shared.kernels) {
            println!(
                "{name} {}: {:?} slots, {} bytes -> {:?} slots, {} bytes",
                before.name,
                before.register_slots(),
                before.register_bytes(),
                after.register_slots(),
                after.register_bytes()
            );
            assert!(after.register_bytes() < before.register_bytes(), "{name} {}", before.name);
        }
    }
}
