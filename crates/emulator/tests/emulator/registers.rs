//! Registers that share slots: the same results as with a slot for each, and far fewer slots.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fmt::Write;

use emulator::{GlobalMemory, Launch, Options, Registers, Stop, launch, load, load_with};
use proptest::prelude::*;

const THREADS: u32 = 80;
/// Words that a thread leaves.
const RESULTS: usize = 6;

/// A random program. Registers: 12 of 32 bits, 6 of 64, 4 predicates, all written first; every way through it ends.
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
        let line = match self.next() % 19 {
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
         .visible .entry k(.param .u64 p_out)\n{{\n.reg .b64 out, own, d<6>; .reg .b128 q<2>;\n\
         .reg .b32 t, lane, warp, sum, low, high, arg, w<12>, i<4>; .reg .pred p<4>, more<4>, full;\n\
         ld.param.u64 out, [p_out];\nmov.u32 t, %tid.x;\nmov.u32 lane, %laneid;\n\
         setp.lt.u32 full, t, 64;\nselp.b32 warp, 0xffffffff, 0xffff, full;\n\
         mad.wide.u32 own, t, {}, out;\n{}{}mov.u32 sum, 0;\n{stores}{wide}st.global.u32 [own+{}], sum;\nret;\n}}\n",
        4 * (RESULTS + 1),
        (0..RESULTS).map(|n| format!("st.global.u32 [own+{}], t;\n", 4 * n)).collect::<String>(),
        w.text,
        4 * RESULTS,
    )
}

fn run(text: &str, registers: Registers, seed: u64) -> Result<Vec<u8>, Stop> {
    let program = load_with(text, registers)?;
    let mut memory = GlobalMemory::default();
    let out = memory.allocate(THREADS as usize * 4 * (RESULTS + 1));
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
        }
        let slots = |registers| load_with(&text, registers).unwrap().kernel("k").unwrap().register_bytes();
        prop_assert!(slots(Registers::Shared) <= slots(Registers::Own));
    }
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
