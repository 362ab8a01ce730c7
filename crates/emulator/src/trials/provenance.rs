//! Where bytes of a result come from: the instruction that wrote them last, the values of its operands, and what computed those.
//!
//! The launches run again from the memory before them, twice: with the bytes watched, to find the thread that wrote them last, and with
//! that thread observed, to see its registers. A seed determines a run, so both replays are the run in question.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use super::launches::Step;
use super::plan::{Plan, Trial};
use crate::api::observe::{Executed, Nobody, Observer};
use crate::api::trap::{Place, Stop};
use crate::front::program::{Kernel, NO_SLOT};
use crate::front::registers::{Bank, Place as Register};
use crate::memory::global::GlobalMemory;
use crate::run::deadlock::place;
use crate::run::launch::{Options, launch_with};
use crate::run::stream::InStream;
use crate::run::watchpoint::{LastWrite, Watchpoints};

/// How far back the instructions behind a value are kept: those that computed it, and those that computed their operands.
const LEVELS: usize = 2;

/// An instruction of one thread, with the values of its operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Computed {
    /// The instruction and its thread.
    pub place: Place,
    /// The registers that it read, in order, with their bits. A name is absent if the text does not tell it.
    pub operands: Vec<(Option<String>, u64)>,
    /// The address that it accessed, if it accesses memory.
    pub address: Option<u64>,
    /// What computed its operands, as far as that is kept.
    pub inputs: Vec<Self>,
}

/// The last write to bytes of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The index of the launch.
    pub step: usize,
    /// The instruction that wrote. An asynchronous copy has no operands: it moves what is in shared memory.
    pub write: Computed,
}

/// One execution of an instruction.
#[derive(Debug)]
struct Node {
    row: u32,
    operands: Vec<(Register, u64)>,
    address: Option<u64>,
    inputs: Vec<Rc<Node>>,
}

impl Node {
    /// The same without what lies further back than this.
    fn cut(self: &Rc<Self>, levels: usize) -> Rc<Self> {
        if self.inputs.is_empty() {
            return Rc::clone(self);
        }
        let inputs = self.inputs.iter().filter(|_| levels > 0).map(|input| input.cut(levels - 1)).collect();
        Rc::new(Self { operands: self.operands.clone(), inputs, ..**self })
    }
}

/// Follows the registers of one lane up to its last write to a range of bytes.
struct Follower<'a> {
    kernel: &'a Kernel,
    cta: [u32; 3],
    warp: u32,
    lane: usize,
    /// The row that writes, and the bytes.
    row: u32,
    bytes: Range<u64>,
    /// What last wrote each register.
    written_by: HashMap<Register, Rc<Node>>,
    found: Option<Rc<Node>>,
}

impl Observer for Follower<'_> {
    fn row(&mut self, executed: &Executed<'_>) {
        if (executed.cta, executed.warp) != (self.cta, self.warp) || executed.mask >> self.lane & 1 == 0 {
            return;
        }
        let Some(origin) = self.kernel.origins.get(executed.row) else { return };
        let effect = self.kernel.effects.get(origin.step as usize).filter(|_| origin.last);
        let Some(effect) = effect else { return };
        let read = |register: &Register| Some((*register, executed.register(*register, self.lane)?));
        let operands: Vec<_> = effect.reads.iter().filter_map(read).collect();
        let inputs = operands.iter().filter_map(|(register, _)| self.written_by.get(register));
        let inputs = inputs.map(|input| input.cut(LEVELS - 1)).collect();
        let address = executed.addresses(0, None).map(|(_, all)| all[self.lane]);
        let row = executed.row as u32;
        let node = Rc::new(Node { row, operands, address, inputs });
        for register in &effect.writes {
            self.written_by.insert(*register, Rc::clone(&node));
        }
        // A vector begins before the bytes of its later elements.
        let reaches = |at: u64| at < self.bytes.end && self.bytes.start < at + MOST_STORED;
        if row == self.row && address.is_some_and(reaches) {
            self.found = Some(node);
        }
    }
}

/// The most bytes that a lane stores at once.
const MOST_STORED: u64 = 32;

impl Executed<'_> {
    /// The bits that a lane has in a register.
    fn register(&self, (bank, slot): Register, lane: usize) -> Option<u64> {
        let slot = slot as usize;
        match bank {
            Bank::P => self.registers().p.get(slot).map(|bits| u64::from(bits >> lane & 1)),
            Bank::W => self.registers().w.get(slot).map(|values| values[lane].into()),
            Bank::D | Bank::Q => self.registers().d.get(slot).map(|values| values[lane]),
        }
    }
}

/// The instructions whose sources are decoded in the order of the text. Others, such as `mma`, are not, and their registers have no
/// names in a report.
const IN_ORDER: &[&str] = &[
    "st", "red", "add", "sub", "mul", "mad", "fma", "div", "rem", "min", "max", "neg", "abs", "not", "and",
    "or", "xor", "shl", "shr", "cvt", "mov", "selp", "setp",
];

/// The names of the registers that an instruction reads outside addresses, in order: the first operand is the result, unless it is an
/// address. Empty if the order is not that of the text.
fn names_of(instruction: &str) -> Vec<String> {
    let text = instruction.trim_end_matches(';');
    let text = if text.starts_with('@') { text.split_once(' ').map_or("", |(_, rest)| rest) } else { text };
    let Some((word, operands)) = text.split_once(' ') else { return Vec::new() };
    if !IN_ORDER.contains(&word.split('.').next().unwrap_or_default()) {
        return Vec::new();
    }
    // Commas in brackets and braces separate no operands.
    let mut depth = 0;
    let parts = operands.split(|c: char| {
        depth += i32::from(matches!(c, '[' | '{')) - i32::from(matches!(c, ']' | '}'));
        c == ',' && depth == 0
    });
    let parts: Vec<&str> = parts.map(str::trim).collect();
    let skipped = usize::from(!text.starts_with("st") && !text.starts_with("red"));
    let sources = parts.iter().skip(skipped).filter(|part| !part.starts_with('['));
    let names = sources.flat_map(|part| part.split(['{', '}', ',', ' ', '-', '!', '|']));
    let is_register = |name: &&str| name.starts_with('%') && !name.contains('.');
    names.filter(is_register).map(str::to_owned).collect()
}

/// A node with its place in the text.
fn computed(node: &Node, at: &Place, launches: &[InStream<'_>], levels: usize) -> Computed {
    let mut place = place(launches, 0, node.row, at.cta, at.warp, at.lane);
    place.launch = at.launch;
    place.read_source();
    let names = names_of(&place.instruction);
    // Names are given only where there is one for each.
    let named = names.len() == node.operands.len();
    let operand =
        |(n, (_, bits)): (usize, &(Register, u64))| (names.get(n).filter(|_| named).cloned(), *bits);
    let operands = node.operands.iter().enumerate().map(operand).collect();
    let mut inputs: Vec<Computed> = Vec::new();
    for input in node.inputs.iter().filter(|_| levels > 0) {
        let input = computed(input, at, launches, levels - 1);
        if !inputs.contains(&input) {
            inputs.push(input);
        }
    }
    Computed { place, operands, address: node.address, inputs }
}

/// Collects the last write to the watched bytes.
#[derive(Default)]
struct Writes(Vec<LastWrite>);

impl Observer for Writes {
    const WATCHES: bool = false;

    fn row(&mut self, _: &Executed<'_>) {}

    fn written(&mut self, write: &LastWrite) {
        self.0.push(write.clone());
    }
}

/// Finds the instruction that wrote bytes of global memory last, in the launches of a trial in the chosen reading that begins with this
/// memory. Returns `None` if no launch wrote them.
///
/// # Errors
/// [`Stop`] if a launch stops: the trial is then not the one that wrote them.
pub fn provenance(
    steps: &[Step<'_>],
    before: &GlobalMemory,
    (plan, trial): (&Plan, &Trial),
    bytes: &Range<u64>,
) -> Result<Option<Provenance>, Stop> {
    let all = Options { directed: None, ..plan.options(trial) };
    let watchpoints = Some(Arc::new(Watchpoints::of_results(vec![bytes.clone()])));
    let mut memory = before.clone();
    let mut last = None;
    for (n, step) in steps.iter().enumerate() {
        let options =
            Options { watchpoints: watchpoints.clone(), shift_shared: step.shift_shared, ..all.clone() };
        let mut writes = Writes::default();
        launch_with(&step.in_stream()?, &mut memory, &options, &mut writes)?;
        last = writes.0.into_iter().find_map(|write| write.place).map(|place| (n, place)).or(last);
    }
    let Some((number, mut place)) = last else { return Ok(None) };
    let mut memory = before.clone();
    for step in steps.iter().take(number) {
        let options = Options { shift_shared: step.shift_shared, ..all.clone() };
        launch_with(&step.in_stream()?, &mut memory, &options, &mut Nobody)?;
    }
    let Some(step) = steps.get(number) else { return Ok(None) };
    let launch = step.in_stream()?;
    let options = Options { shift_shared: step.shift_shared, ..all };
    place.launch = number;
    let mut follower = Follower {
        kernel: launch.kernel,
        cta: place.cta,
        warp: place.warp,
        lane: place.lane.unwrap_or_default() as usize,
        row: row_of(launch.kernel, launch.program, &place),
        bytes: bytes.clone(),
        written_by: HashMap::new(),
        found: None,
    };
    launch_with(&launch, &mut memory, &options, &mut follower)?;
    let write = match &follower.found {
        Some(node) => computed(node, &place, &[launch], LEVELS),
        None => {
            place.read_source();
            Computed { place, operands: Vec::new(), address: None, inputs: Vec::new() }
        }
    };
    Ok(Some(Provenance { step: number, write }))
}

/// The last row of the instruction at a place.
fn row_of(kernel: &Kernel, program: &crate::front::program::Program, place: &Place) -> u32 {
    let is_there = |origin: &crate::front::program::Origin| {
        origin.last && ptx::line_column(&program.text, origin.start as usize).line == place.line
    };
    kernel.origins.iter().position(is_there).map_or(NO_SLOT, |row| row as u32)
}

#[cfg(test)]
mod tests {
    use super::names_of;

    #[test]
    fn registers_that_are_read_are_named_in_order() {
        for (text, names) in [
            ("st.global.f32 [%rd5+4], %f7;", &["%f7"][..]),
            ("@%p1 st.global.v2.f32 [%rd5], {%f1, %f2};", &["%f1", "%f2"]),
            ("fma.rn.f32 %f4, %f1, %f2, %f3;", &["%f1", "%f2", "%f3"]),
            ("add.s32 %r1, %tid.x, 5;", &[]),
            ("ld.global.u32 %r1, [%rd1];", &[]),
            ("selp.b32 %r1, %r2, %r3, %p1;", &["%r2", "%r3", "%p1"]),
            ("setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;", &["%r1", "%r2", "%p3"]),
            ("red.global.add.f32 [%rd1], %f1;", &["%f1"]),
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2}, {%r1}, {%r2}, {%f1, %f2};", &[]),
            ("ret;", &[]),
        ] {
            assert_eq!(names_of(text), names, "{text}");
        }
    }
}
