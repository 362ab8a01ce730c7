//! Lanes that part at branches and meet again end the same whether both sides of a branch run in one turn, as they do under the schedule in
//! turn, or as fragments of their own, as they do if rows are observed or the schedule is another one: memory, and the number of rows, of warps
//! that do not wait for each other.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use emulator::{Executed, GlobalMemory, InStream, Launch, Nobody, Observer, Options, launch_with, load};

use crate::lines::Random;

/// Receives rows.
struct Watcher;

impl Observer for Watcher {
    const WATCHES: bool = true;

    fn row(&mut self, _: &Executed<'_>) {}
}

const THREADS: u32 = 64;

/// What a kernel of this body leaves, and the rows that it has executed. `%r0` to `%r3` begin with values that differ between lanes and
/// are stored at the end, if the thread gets there; `%x` is the number of the thread.
fn end(body: &str, seed: u64, observer: &mut impl Observer) -> (Vec<u8>, u64) {
    let ptx = format!(
        ".version 8.8
.target sm_120
.address_size 64
.visible .entry k(.param .u64 p0) {{
.reg .pred %p<9>;
.reg .b32 %r<4>, %l<9>, %t<4>, %x;
.reg .b64 %a, %s;
.shared .align 4 .b8 tile[{shared}];
ld.param.u64 %a, [p0];
mov.u32 %x, %tid.x;
mul.lo.u32 %r0, %x, 2654435761;
mul.lo.u32 %r1, %x, 40503;
xor.b32 %r2, %r0, %r1;
mov.u32 %r3, 0;
mul.wide.u32 %s, %x, 16;
add.u64 %a, %a, %s;
mul.lo.u32 %t0, %x, 4;
mov.u32 %t1, tile;
add.u32 %t0, %t0, %t1;
st.shared.u32 [%t0], %r0;
{body}
st.global.v4.u32 [%a], {{%r0, %r1, %r2, %r3}};
ret;
}}",
        shared = 4 * THREADS
    );
    let program = load(&ptx).unwrap_or_else(|why| panic!("{why}: {ptx}"));
    let mut memory = GlobalMemory::default();
    let out = memory.allocate_with(vec![0; 16 * THREADS as usize]);
    let params = out.to_le_bytes().to_vec();
    let launch = Launch { grid: [1, 1, 1], block: [THREADS, 1, 1], shared_bytes: 0, params };
    let options = Options { seed, fuel: 1_000_000, ..Options::default() };
    let step = InStream::new(&program, program.kernel("k").unwrap(), &launch);
    let counts =
        launch_with(&step, &mut memory, &options, observer).unwrap_or_else(|why| panic!("{why}: {ptx}"));
    (memory.bytes(out).unwrap().to_vec(), counts.warp_instructions)
}

/// Writes random statements with branches whose lanes part.
struct Body {
    random: Random,
    labels: usize,
    text: String,
}

impl Body {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn register(&mut self) -> String {
        format!("%r{}", self.random.below(4))
    }

    /// A comparison of some bits of a register, so that some lanes or none pass; returns the predicate, perhaps negated.
    fn condition(&mut self, depth: usize) -> String {
        let register = self.register();
        let (shift, mask) = (self.random.below(20), [1, 3, 7, 0][self.random.below(4)]);
        self.line(&format!("shr.u32 %t2, {register}, {shift};\nand.b32 %t2, %t2, {mask};"));
        self.line(&format!("setp.ne.u32 %p{depth}, %t2, 0;"));
        format!("@{}%p{depth}", if self.random.below(2) == 0 { "!" } else { "" })
    }

    /// Statements; in a loop of `depth`, some leave it.
    fn statements(&mut self, depth: usize, leave: Option<&str>) {
        for _ in 0..1 + self.random.below(3) {
            let (d, a, b) = (self.register(), self.register(), self.register());
            match self.random.below(if depth < 6 { 11 } else { 5 }) {
                0 => self.line(&format!("mad.lo.u32 {d}, {a}, 5, {b};")),
                1 => self.line(&format!("xor.b32 {d}, {a}, {b};")),
                2 => self.line(&format!("ld.shared.u32 %t3, [%t0];\nadd.u32 {d}, {a}, %t3;")),
                3 if self.random.below(2) == 0 => self.line(&format!("st.shared.u32 [%t0], {a};")),
                // Strong accesses: lanes that have made some part as fragments.
                3 => self.line(&format!("atom.shared.add.u32 %t3, [%t0], {a};\nadd.u32 {d}, {d}, %t3;")),
                4 => {
                    let mask = ["activemask.b32 %t3;", "mov.u32 %t3, %laneid;"]
                        [usize::from(self.random.below(8) > 0)];
                    self.line(&format!("{mask}\nadd.u32 {d}, {a}, %t3;"));
                }
                5 | 6 => {
                    let (past, at) = (self.label(), self.condition(depth));
                    self.line(&format!("{at} bra {past};"));
                    self.statements(depth + 1, leave);
                    self.line(&format!("{past}:"));
                }
                7 | 8 => {
                    let (other, past, at) = (self.label(), self.label(), self.condition(depth));
                    self.line(&format!("{at} bra {other};"));
                    self.statements(depth + 1, leave);
                    self.line(&format!("bra {past};\n{other}:"));
                    self.statements(depth + 1, leave);
                    self.line(&format!("{past}:"));
                }
                9 => {
                    // A loop whose lanes make different numbers of turns.
                    let (again, past) = (self.label(), self.label());
                    let most = [3, 7, 15][self.random.below(3)];
                    self.line(&format!("and.b32 %l{depth}, {a}, {most};"));
                    self.line(&format!("{again}:"));
                    self.statements(depth + 1, Some(&past));
                    self.line(&format!("sub.u32 %l{depth}, %l{depth}, 1;"));
                    self.line(&format!("setp.lt.s32 %p{depth}, %l{depth}, 0;"));
                    self.line(&format!("@!%p{depth} bra {again};\n{past}:"));
                }
                _ => match leave {
                    Some(past) if self.random.below(2) == 0 => {
                        let at = self.condition(depth);
                        self.line(&format!("{at} bra {past};"));
                    }
                    _ if self.random.below(4) == 0 => {
                        let at = self.condition(depth);
                        self.line(&format!("{at} exit;"));
                    }
                    _ => self.line("bar.warp.sync 0xffffffff;"),
                },
            }
        }
    }
}

#[test]
fn random_branches_end_the_same_in_one_turn_and_as_fragments() {
    let mut parted = 0;
    for round in 0..3_000 {
        let mut body = Body { random: Random(round + 1), labels: 0, text: String::new() };
        body.statements(0, None);
        // `bar.warp.sync` of all lanes would wait for those that have exited or are elsewhere for ever in some programs.
        let text = body.text.replace("bar.warp.sync 0xffffffff;", "activemask.b32 %t3;\nbar.warp.sync %t3;");
        let observed = end(&text, 0, &mut Watcher);
        let plain = end(&text, 0, &mut Nobody);
        // Lanes that have waited long for others that make strong accesses go on without them, when depends on turns.
        let strong = text.contains("atom");
        assert!(plain.1 == observed.1 || strong, "rows: {text}");
        assert!(plain.0 == observed.0 || strong && text.contains("activemask"), "memory: {text}");
        // Other schedules make fragments; what lanes compute depends on their masks alone.
        let other = end(&text, 5, &mut Nobody);
        if !text.contains("activemask") {
            assert!(other.0 == observed.0, "seed 5: {text}");
            assert!(other.1 == observed.1 || strong, "rows, seed 5: {text}");
            parted += u32::from(text.contains("bra"));
        }
    }
    assert!(parted > 500, "{parted}");
}
