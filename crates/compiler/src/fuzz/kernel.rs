//! Whole kernels: every thread loads its registers, runs random instructions, and stores all that it has.
//!
//! A kernel is defined because every register is loaded before the body, a thread touches only its own bytes of global, local and shared
//! memory, units that share bytes or need the whole warp or CTA are outside of branches, loops count a constant down, and what must not
//! run is behind a guard that is false. Nothing depends on the schedule.

use std::collections::HashMap;

use ptx::arch::{PtxIsa, Target};

use super::coverage::Reached;
use super::forms::{Forms, declarations};
use super::gadgets::{GADGETS, Unit};
use super::matrices::Matrices;
use super::random::Random;

/// The name of the kernel.
pub const ENTRY: &str = "k";
/// Threads of a CTA.
pub const THREADS: u32 = 64;
/// CTAs of the grid.
pub const CTAS: u32 = 2;
/// Bytes of input and of output of a thread.
pub(super) const INPUT: u32 = 256;
pub(super) const OUTPUT: u32 = 288;
/// Bytes of global memory of a thread, and of a CTA for bulk copies.
pub(super) const SCRATCH: u32 = 64;
pub(super) const BULK: u32 = 512;

/// The parts of a thread's results, as [`EPILOGUE`] stores them: first byte, bytes of one, name.
pub(super) const PARTS: [(usize, usize, &str); 6] = [
    (0, 2, "h"),
    (16, 4, "r"),
    (64, 8, "d"),
    (128, 4, "p"),
    (144, 1, "byte of shared memory "),
    (208, 1, "byte of local memory "),
];

/// How deep branches and loops nest.
const DEPTH: usize = 2;

/// A random kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RandomKernel {
    /// The seed that makes it again.
    pub seed: u64,
    /// Its PTX.
    pub text: String,
}

/// Why no kernels can be made.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// The version of PTX does not have the target.
    #[error("PTX {isa} does not have {target}; it was introduced with PTX {first}")]
    Target {
        /// The version.
        isa: PtxIsa,
        /// The target.
        target: Target,
        /// The first version that has it.
        first: PtxIsa,
    },
    /// The emulator refuses even the empty kernel.
    #[error("the emulator refuses every kernel for {target}: {why}")]
    Refused {
        /// The target.
        target: Target,
        /// Its reason.
        why: String,
    },
}

/// Makes kernels for a target.
pub struct Generator {
    isa: PtxIsa,
    target: Target,
    forms: Forms,
    matrices: Matrices,
    /// Whether the emulator takes a unit of a gadget for this target, by its key.
    taken: HashMap<String, bool>,
    reached: Reached,
    /// Instructions of a body.
    length: usize,
    /// Whether half of what all threads run together is a block-scaled `mma`.
    scaled: bool,
}

/// What a body draws next.
#[derive(Clone, Copy)]
enum Source {
    Row(usize),
    Gadget(usize),
    Matrices,
}

/// A body under construction.
struct Body<'a> {
    random: &'a mut Random,
    labels: usize,
    text: String,
}

impl Generator {
    /// A generator for a version of PTX and a target.
    ///
    /// # Errors
    /// [`GeneratorError`] if the version lacks the target.
    pub fn new(isa: PtxIsa, target: Target) -> Result<Self, GeneratorError> {
        if let Some(first) = target.first_isa().filter(|first| isa < *first) {
            return Err(GeneratorError::Target { isa, target, first });
        }
        let own = (u32::from(isa.major), u32::from(isa.minor));
        let generator = Self {
            isa,
            target,
            forms: Forms::new(isa, target),
            matrices: Matrices::new(own),
            taken: HashMap::new(),
            reached: Reached::default(),
            length: 24,
            scaled: false,
        };
        match emulator::load(&generator.empty()) {
            Ok(_) => Ok(generator),
            Err(stop) => Err(GeneratorError::Refused { target, why: stop.to_string() }),
        }
    }

    /// A generator half of whose instructions, outside of branches, are block-scaled `mma`, if the target has them.
    #[must_use]
    pub fn of_block_scaled(self) -> Self {
        Self { matrices: self.matrices.scaled(), scaled: true, ..self }
    }

    /// The kernel with nothing between its prologue and its epilogue.
    #[must_use]
    pub fn empty(&self) -> String {
        self.module("")
    }

    /// What the kernels so far have reached.
    #[must_use]
    pub fn reached(&self) -> &Reached {
        &self.reached
    }

    /// Makes the kernel of a seed. Rows that few kernels had before are drawn more often, unless `alone`: then the kernel depends on
    /// nothing but the seed.
    pub fn kernel(&mut self, seed: u64) -> RandomKernel {
        let mut random = Random::new(seed);
        let mut body = Body { random: &mut random, labels: 0, text: String::new() };
        self.fill(&mut body, 0, self.length);
        let text = self.module(&body.text);
        RandomKernel { seed, text }
    }

    fn fill(&mut self, body: &mut Body<'_>, depth: usize, length: usize) {
        for _ in 0..length {
            if depth < DEPTH && body.random.one_in(12) {
                self.structure(body, depth);
                continue;
            }
            let source = self.source(body.random, depth);
            if let Some(unit) = self.unit(source, body, depth) {
                body.text.push_str(&unit);
                body.text.push('\n');
            }
        }
    }

    /// A branch with one or two sides, or a loop, with more instructions in it.
    fn structure(&mut self, body: &mut Body<'_>, depth: usize) {
        body.labels += 2;
        let (one, two) = (format!("S{}", body.labels - 1), format!("S{}", body.labels));
        let guard = format!("p{}", body.random.below(super::forms::PREDICATES));
        let length = 1 + body.random.below(4);
        match body.random.below(3) {
            0 => {
                body.text.push_str(&format!("@{guard} bra {one};\n"));
                self.fill(body, depth + 1, length);
                body.text.push_str(&format!("{one}:\n"));
            }
            1 => {
                body.text.push_str(&format!("@!{guard} bra {one};\n"));
                self.fill(body, depth + 1, length);
                body.text.push_str(&format!("bra {two};\n{one}:\n"));
                self.fill(body, depth + 1, length);
                body.text.push_str(&format!("{two}:\n"));
            }
            _ => {
                let rounds = 1 + body.random.below(3);
                body.text.push_str(&format!("mov.u32 c{depth}, {rounds};\n{one}:\n"));
                self.fill(body, depth + 1, length);
                let counter =
                    format!("sub.u32 c{depth}, c{depth}, 1;\nsetp.ne.u32 tp, c{depth}, 0;\n@tp bra {one};\n");
                body.text.push_str(&counter);
            }
        }
    }

    /// What to draw: half of the time the row that was reached least, else any.
    fn source(&self, random: &mut Random, depth: usize) -> Source {
        if self.scaled && depth == 0 && random.one_in(2) {
            return Source::Matrices;
        }
        let rows = self.forms.rows.len();
        let gadgets: Vec<usize> =
            (0..GADGETS.len()).filter(|g| depth == 0 || !GADGETS[*g].together).collect();
        if random.one_in(2) {
            let count = |row: &str| self.reached.of(row);
            let of_forms = (0..rows).map(|n| (count(self.forms.rows[n].0), Source::Row(n)));
            let least = |g: usize| GADGETS[g].rows.iter().map(|row| count(row)).min().unwrap_or_default();
            let of_gadgets = gadgets.iter().map(|g| (least(*g), Source::Gadget(*g)));
            let all: Vec<(u64, Source)> = of_forms.chain(of_gadgets).collect();
            let fewest = all.iter().map(|(n, _)| *n).min().unwrap_or_default();
            let candidates: Vec<Source> =
                all.iter().filter(|(n, _)| *n <= fewest + 2).map(|(_, s)| *s).collect();
            if let Some(source) = random.choose(&candidates) {
                return *source;
            }
        }
        match random.below(8) {
            0 if depth == 0 => Source::Matrices,
            1 | 2 => Source::Gadget(gadgets[random.below(gadgets.len())]),
            _ => Source::Row(random.below(rows)),
        }
    }

    fn unit(&mut self, source: Source, body: &mut Body<'_>, depth: usize) -> Option<String> {
        match source {
            Source::Row(row) => {
                let drawn = self.forms.draw(row, body.random)?;
                self.count(&drawn.form);
                Some(register_unit(&drawn.text, &drawn.form, body.random))
            }
            Source::Gadget(g) => {
                let unit = (GADGETS[g].write)(body.random, &mut body.labels);
                self.take(unit)
            }
            Source::Matrices if depth == 0 => {
                let own = (u32::from(self.isa.major), u32::from(self.isa.minor));
                // Words that go together are drawn more rarely where all must be scaled.
                let unit = (0..if self.scaled { 128 } else { 16 })
                    .find_map(|_| self.matrices.write(body.random, own).filter(|u| self.is_taken(u)))?;
                self.take(unit)
            }
            Source::Matrices => None,
        }
    }

    fn take(&mut self, unit: Unit) -> Option<String> {
        if !self.is_taken(&unit) {
            return None;
        }
        for line in unit.text.lines() {
            let word = line.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
            self.count(word.trim_end_matches(';'));
        }
        Some(unit.text)
    }

    /// Counts an instruction, written as opcode and modifiers.
    fn count(&mut self, form: &str) {
        let mut words = form.split('.');
        let opcode = words.next().unwrap_or_default();
        let modifiers: Vec<&str> = words.collect();
        self.reached.count(super::coverage::row_of_words(opcode, &modifiers));
    }

    fn is_taken(&mut self, unit: &Unit) -> bool {
        if let Some(known) = self.taken.get(&unit.key) {
            return *known;
        }
        let taken = emulator::load(&self.module(&unit.text)).is_ok();
        self.taken.insert(unit.key.clone(), taken);
        taken
    }

    /// The directives of a cluster of one CTA, where there are clusters: without a cluster, `st.async` and `red.async` are illegal instructions on
    /// an H200, whichever ptxas wrote them.
    fn cluster(&self) -> &'static str {
        let has_clusters = self.target.number >= 90 && self.isa >= PtxIsa { major: 7, minor: 8 };
        if has_clusters { " .explicitcluster .reqnctapercluster 1, 1, 1" } else { "" }
    }

    /// The module with a body.
    fn module(&self, body: &str) -> String {
        let mut out = format!(".version {}\n.target {}\n.address_size 64\n", self.isa, self.target);
        out.push_str(".const .align 16 .b32 cm[16] = {1, 0x7FFFFFFF, 0x80000000, 0x3F800000, 7, 0x7FC00000, 31, 0xFFFF, 0x3C003C00, 0xFFFFFFFF, 0, 2, 0x41200000, 0x38383838, 0x11223344, 5};\n");
        out.push_str(&format!(
            ".visible .entry {ENTRY}(.param .u64 p_in, .param .u64 p_out, .param .u64 p_own, .param .u64 p_bulk) .reqntid {THREADS}, 1, 1{}\n{{\n",
            self.cluster()
        ));
        out.push_str(&declarations());
        out.push_str(PROLOGUE);
        out.push_str(body);
        out.push_str(EPILOGUE);
        out
    }
}

/// A drawn instruction with what keeps it defined: a divisor that is not 0, a carry that was set, a guard now and then.
fn register_unit(text: &str, form: &str, random: &mut Random) -> String {
    let opcode = form.split('.').next().unwrap_or_default();
    let operands: Vec<&str> = text[form.len()..].trim_end_matches(';').split(',').map(str::trim).collect();
    let bits = form.rsplit('.').next().and_then(super::forms::width_of).unwrap_or(32);
    match opcode {
        "div" | "rem" if !form.contains(".f") => match operands.last() {
            Some(divisor) if divisor.starts_with(['h', 'r', 'd']) => {
                format!("or.b{bits} {divisor}, {divisor}, 1;\n{text}")
            }
            Some(zero) if zero.trim_start_matches("0x") == "0" => String::new(),
            _ => text.to_owned(),
        },
        // The base is the number of a bit.
        // ptxas finds a bit at an offset of -2^31 (`fns_least_offset`): offsets are small.
        "fns" => match (operands.get(2), operands.get(3)) {
            (Some(base), Some(offset))
                if base.starts_with('r') && offset.starts_with('r') && base != offset =>
            {
                format!("and.b32 {base}, {base}, 31;\nbfe.s32 {offset}, {offset}, 0, 7;\n{text}")
            }
            _ => String::new(),
        },
        // ptxas may compute an approximation of a constant by itself, and PTX lets it be another one than the GPU's.
        _ if (form.contains(".approx") || form.contains(".full"))
            && operands.iter().skip(1).any(|operand| operand.starts_with(|c: char| c.is_ascii_digit())) =>
        {
            String::new()
        }
        "addc" | "madc" | "subc" => {
            let before = if random.one_in(2) { "add" } else { "sub" };
            format!("{before}.cc.u32 t4, r0, r1;\n{text}")
        }
        _ if form.contains(".cc") => text.to_owned(),
        _ if random.one_in(6) => {
            let sign = if random.one_in(2) { "!" } else { "" };
            format!("@{sign}p{} {text}", random.below(super::forms::PREDICATES))
        }
        _ => text.to_owned(),
    }
}

/// Names of addresses, and the registers from the thread's input.
const PROLOGUE: &str = "\
.reg .b32 tid, lane, cta, t<8>, c<4>, f<24>, sb, lb, wa, wl, wr, mb, mb2, bb, bl;
.reg .b64 u<8>, in0, ib, ob, gb, ga, oc;
.reg .pred tp, tq;
.local .align 16 .b8 lm[64];
.shared .align 128 .b8 sm[7808];
mov.u32 tid, %tid.x;
mov.u32 cta, %ctaid.x;
and.b32 lane, tid, 31;
mad.lo.u32 t0, cta, 64, tid;
ld.param.u64 in0, [p_in];
mad.wide.u32 ib, t0, 256, in0;
ld.param.u64 ob, [p_out];
mad.wide.u32 ob, t0, 288, ob;
ld.param.u64 gb, [p_own];
mad.wide.u32 gb, t0, 64, gb;
cvta.global.u64 ga, gb;
ld.param.u64 oc, [p_bulk];
mad.wide.u32 oc, cta, 512, oc;
mov.u32 lb, lm;
mov.u32 t1, sm;
mad.lo.u32 sb, tid, 64, t1;
shr.u32 t2, tid, 5;
add.u32 wa, t1, 4096;
mad.lo.u32 wa, t2, 1024, wa;
mad.lo.u32 wl, lane, 32, wa;
mad.lo.u32 wr, lane, 16, wa;
add.u32 mb, t1, 6144;
add.u32 mb2, t1, 6160;
mad.lo.u32 mb2, tid, 8, mb2;
add.u32 bb, t1, 6784;
mad.lo.u32 bl, tid, 16, bb;
ld.global.v4.b16 {h0, h1, h2, h3}, [ib];
ld.global.v4.b16 {h4, h5, h6, h7}, [ib+8];
ld.global.v4.b32 {r0, r1, r2, r3}, [ib+16];
ld.global.v4.b32 {r4, r5, r6, r7}, [ib+32];
ld.global.v4.b32 {r8, r9, r10, r11}, [ib+48];
ld.global.v2.b64 {d0, d1}, [ib+64];
ld.global.v2.b64 {d2, d3}, [ib+80];
ld.global.v2.b64 {d4, d5}, [ib+96];
ld.global.v2.b64 {d6, d7}, [ib+112];
ld.global.b32 t0, [ib+128];
and.b32 t1, t0, 1;
setp.ne.u32 p0, t1, 0;
and.b32 t1, t0, 2;
setp.ne.u32 p1, t1, 0;
and.b32 t1, t0, 4;
setp.ne.u32 p2, t1, 0;
and.b32 t1, t0, 8;
setp.ne.u32 p3, t1, 0;
ld.global.v4.b32 {t0, t1, t2, t3}, [ib+144];
st.shared.v4.b32 [sb], {t0, t1, t2, t3};
st.shared.v4.b32 [sb+16], {t3, t2, t1, t0};
st.shared.v4.b32 [sb+32], {t1, t0, t3, t2};
st.shared.v4.b32 [sb+48], {t2, t3, t0, t1};
st.local.v4.b32 [lb], {t0, t1, t2, t3};
st.local.v4.b32 [lb+16], {t3, t2, t1, t0};
st.local.v4.b32 [lb+32], {t1, t0, t3, t2};
st.local.v4.b32 [lb+48], {t2, t3, t0, t1};
";

/// Stores everything.
const EPILOGUE: &str = "\
st.global.v4.b16 [ob], {h0, h1, h2, h3};
st.global.v4.b16 [ob+8], {h4, h5, h6, h7};
st.global.v4.b32 [ob+16], {r0, r1, r2, r3};
st.global.v4.b32 [ob+32], {r4, r5, r6, r7};
st.global.v4.b32 [ob+48], {r8, r9, r10, r11};
st.global.v2.b64 [ob+64], {d0, d1};
st.global.v2.b64 [ob+80], {d2, d3};
st.global.v2.b64 [ob+96], {d4, d5};
st.global.v2.b64 [ob+112], {d6, d7};
selp.u32 t0, 1, 0, p0;
selp.u32 t1, 1, 0, p1;
selp.u32 t2, 1, 0, p2;
selp.u32 t3, 1, 0, p3;
st.global.v4.b32 [ob+128], {t0, t1, t2, t3};
ld.shared.v4.b32 {t0, t1, t2, t3}, [sb];
st.global.v4.b32 [ob+144], {t0, t1, t2, t3};
ld.shared.v4.b32 {t0, t1, t2, t3}, [sb+16];
st.global.v4.b32 [ob+160], {t0, t1, t2, t3};
ld.shared.v4.b32 {t0, t1, t2, t3}, [sb+32];
st.global.v4.b32 [ob+176], {t0, t1, t2, t3};
ld.shared.v4.b32 {t0, t1, t2, t3}, [sb+48];
st.global.v4.b32 [ob+192], {t0, t1, t2, t3};
ld.local.v4.b32 {t0, t1, t2, t3}, [lb];
st.global.v4.b32 [ob+208], {t0, t1, t2, t3};
ld.local.v4.b32 {t0, t1, t2, t3}, [lb+16];
st.global.v4.b32 [ob+224], {t0, t1, t2, t3};
ld.local.v4.b32 {t0, t1, t2, t3}, [lb+32];
st.global.v4.b32 [ob+240], {t0, t1, t2, t3};
ld.local.v4.b32 {t0, t1, t2, t3}, [lb+48];
st.global.v4.b32 [ob+256], {t0, t1, t2, t3};
ret;
}
";
