//! Where the first wrong element of a buffer comes from: the instruction that wrote it last, with the values that it used.

use std::ops::Range;

use emulator::argument::Element;
use emulator::trials::{Computed, Plan, Provenance, Step, Trial, index_of, provenance};
use emulator::{GlobalMemory, InStream, Nobody, Options, Place, launch_with};
use serde::Serialize;

use super::error::LaunchError;
use super::expect::Checked;
use super::run::Outcome;
use super::session::Session;

/// Instructions behind the write that are named.
const MOST_INPUTS: usize = 8;

/// Where an element comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The buffer.
    pub buffer: String,
    /// The index of the element.
    pub index: Vec<usize>,
    /// The index of the launch that wrote it last; `None` if no launch wrote it.
    pub launch: Option<usize>,
    /// The write, and behind it what computed its operands.
    pub instructions: Vec<UsedInstruction>,
}

/// An instruction with the values that it used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsedInstruction {
    /// Where it is, and the thread.
    #[serde(flatten)]
    pub place: Place,
    /// How many instructions lie between it and the write: 0 for the write itself.
    pub level: usize,
    /// The values of the registers that it read.
    pub operands: Vec<UsedValue>,
    /// The element that it loaded, such as `x[3]`, or the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded: Option<String>,
}

/// The value of a register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsedValue {
    /// The register, if the text tells it.
    pub register: Option<String>,
    /// The bits.
    pub bits: u64,
    /// The value, in the type of the instruction.
    pub value: String,
}

/// Bytes of a result: those of a buffer of the session, by its index and the first byte, or those at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// A byte of a buffer.
    Buffer(usize, u64),
    /// An address, such as one of memory that persists between launches.
    Address(u64),
}

/// The last write to bytes of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWrite {
    /// The write, and behind it what computed its operands.
    pub instructions: Vec<UsedInstruction>,
    /// The bytes as the launches left them.
    pub left: Vec<u8>,
}

/// The element type of an instruction: that of its last modifier that names one.
fn element_of(instruction: &str) -> Option<Element> {
    let opcode = instruction.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
    // `cvt.rn.bf16.f32` reads the last type.
    opcode.split('.').rev().find_map(|word| Element::named(word.trim_end_matches(';')))
}

/// A value in the type of an instruction.
fn shown(instruction: &str, bits: u64) -> String {
    match element_of(instruction) {
        Some(element) if element.bits() <= 64 && bits >> (element.bits() - 1) <= 1 => element.show(bits),
        _ => format!("{bits:#x}"),
    }
}

impl Session {
    /// Runs the launches of a trial again to find where its first wrong element comes from. Returns `None` if nothing is wrong, or if the
    /// launches do not end there as they did.
    pub(super) fn origin(
        &self,
        checked: &[Checked],
        (plan, trial): (&Plan, &Trial),
        steps: &[Step<'_>],
        (before, addresses): (&GlobalMemory, &[u64]),
    ) -> Option<Origin> {
        let wrong = checked.iter().find(|checked| checked.wrong > 0)?;
        let first = wrong.first.as_ref()?;
        let n = self.buffers.iter().position(|buffer| buffer.name == wrong.buffer)?;
        let bits = self.buffers[n].shape.element.bits();
        let start = addresses.get(n)? + (first.element * bits / 8) as u64;
        let bytes = start..start + bits.div_ceil(8) as u64;
        let found = provenance(steps, before, (plan, trial), &bytes).ok()?;
        let (buffer, index) = (wrong.buffer.clone(), first.index.clone());
        let Some(Provenance { step, write }) = found else {
            return Some(Origin { buffer, index, launch: None, instructions: Vec::new() });
        };
        let mut instructions = Vec::new();
        self.add_instructions(&write, 0, addresses, &mut instructions);
        Some(Origin { buffer, index, launch: Some(step), instructions })
    }

    /// Runs the launches of a plan's first trial again to find what wrote bytes last. Returns `None` if no launch wrote them.
    ///
    /// # Errors
    /// [`LaunchError`] if the session is invalid, or a launch stops, which it did not before.
    pub fn last_write(
        &mut self,
        plan: &Plan,
        (start, count): (Start, usize),
    ) -> Result<Option<LastWrite>, LaunchError> {
        let Outcome { memory, addresses } = self.memory_before()?;
        let steps = self.steps_at(&addresses)?;
        let start = match start {
            Start::Buffer(buffer, byte) => addresses.get(buffer).map(|base| base + byte),
            Start::Address(address) => Some(address),
        };
        let Some(start) = start else { return Ok(None) };
        let bytes = start..start + count as u64;
        let stopped = |stop| match self.steps.first() {
            Some(step) => self.stopped(step, stop),
            None => LaunchError::Fit("the session has no launch".to_owned()),
        };
        let trial = plan.first();
        let Some(Provenance { write, .. }) =
            provenance(&steps, &memory, (plan, &trial), &bytes).map_err(stopped)?
        else {
            return Ok(None);
        };
        let mut after = memory;
        for step in &steps {
            let options = Options { directed: None, shift_shared: step.shift_shared, ..plan.options(&trial) };
            let Some(kernel) = step.program.kernel(step.kernel) else { continue };
            let launch = InStream {
                cluster: step.cluster,
                cooperative: step.cooperative,
                ..InStream::new(step.program, kernel, &step.launch)
            };
            launch_with(&launch, &mut after, &options, &mut Nobody).map_err(stopped)?;
        }
        let mut instructions = Vec::new();
        self.add_instructions(&write, 0, &addresses, &mut instructions);
        Ok(Some(LastWrite { instructions, left: contents(&after, &bytes) }))
    }

    /// Adds an instruction and those behind it, the nearest first.
    fn add_instructions(
        &self,
        of: &Computed,
        level: usize,
        addresses: &[u64],
        all: &mut Vec<UsedInstruction>,
    ) {
        if all.len() > MOST_INPUTS {
            return;
        }
        let text = &of.place.instruction;
        let operand = |(register, bits): &(Option<String>, u64)| UsedValue {
            register: register.clone(),
            bits: *bits,
            value: shown(text, *bits),
        };
        let is_load = without_guard(text).starts_with("ld");
        let loaded =
            of.address.filter(|_| is_load).map(|at| self.element_at(at, addresses, element_of(text)));
        let operands = of.operands.iter().map(operand).collect();
        all.push(UsedInstruction { place: of.place.clone(), level, operands, loaded });
        for input in &of.inputs {
            self.add_instructions(input, level + 1, addresses, all);
        }
    }

    /// The element at an address, which is of this type in memory that persists between launches; the address if no buffer is there.
    fn element_at(&self, at: u64, addresses: &[u64], element: Option<Element>) -> String {
        let inside = |(buffer, base): &(&super::session::Buffer, &u64)| {
            at.checked_sub(**base).is_some_and(|byte| byte < buffer.shape.bytes as u64)
        };
        // Arrays that overlap are bytes, as memory that persists is: their elements are those of the instruction.
        let size = element.map_or(1, |of| of.bits() as u64 / 8).max(1);
        let untyped = |name: &str, byte: u64| match byte.is_multiple_of(size) {
            true => format!("{name}[{}]", byte / size),
            false => format!("byte {byte} of {name}"),
        };
        if let Some((buffer, base)) = self.buffers.iter().zip(addresses).find(inside) {
            if buffer.shape.element == Element::U8 {
                return untyped(&buffer.name, at - base);
            }
            let element = (at - base) as usize * 8 / buffer.shape.element.bits();
            let index: Vec<String> =
                index_of(element, &buffer.shape.dims).iter().map(ToString::to_string).collect();
            return format!("{}[{}]", buffer.name, index.join(","));
        }
        let Some((base, _)) = self.base.buffer_around(at) else { return format!("{at:#x}") };
        let name = self.base.buffer_name(base).map_or_else(|| format!("{base:#x}"), str::to_owned);
        untyped(&name, at - base)
    }
}

/// The bytes of a range, as many as its buffer has.
fn contents(memory: &GlobalMemory, bytes: &Range<u64>) -> Vec<u8> {
    let Some((base, _)) = memory.buffer_around(bytes.start) else { return Vec::new() };
    let all = memory.contents(base).unwrap_or_default();
    let first = (bytes.start - base) as usize;
    all.iter().skip(first).take((bytes.end - bytes.start) as usize).copied().collect()
}

/// An instruction without its guard.
fn without_guard(text: &str) -> &str {
    if text.starts_with('@') { text.split_once(' ').map_or("", |(_, rest)| rest) } else { text }
}

impl Origin {
    /// Returns it as lines of text.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let index: Vec<String> = self.index.iter().map(ToString::to_string).collect();
        let element = format!("{}[{}]", self.buffer, index.join(","));
        let (Some(launch), Some(write)) = (self.launch, self.instructions.first()) else {
            return vec![format!("{element} was not written by any launch")];
        };
        let mut lines = vec![format!("{element} was last written in launch {launch}: {}", write.place)];
        lines.extend(self.instructions.iter().map(UsedInstruction::line_of_text));
        lines
    }
}

impl LastWrite {
    /// Returns it as lines of text, the first about this element.
    #[must_use]
    pub fn lines(&self, element: &str) -> Vec<String> {
        let first =
            self.instructions.first().map(|write| format!("{element} was last written by {}", write.place));
        first.into_iter().chain(self.instructions.iter().map(UsedInstruction::line_of_text)).collect()
    }
}

impl UsedInstruction {
    /// Returns it as a line of text, indented by its level.
    fn line_of_text(&self) -> String {
        let value = |v: &UsedValue| match &v.register {
            Some(register) => format!("{register} = {}", v.value),
            None => v.value.clone(),
        };
        let values: Vec<String> = self.operands.iter().map(value).collect();
        let source = self.place.source.as_ref().filter(|_| self.level > 0);
        let source = source.map_or_else(String::new, |(file, line)| format!(", {file}:{line}"));
        let text = self.place.source_text.as_ref().filter(|_| self.level > 0);
        let text = text.map_or_else(String::new, |text| format!(" `{text}`"));
        let what = match &self.loaded {
            Some(loaded) => format!("loads {loaded}"),
            None if values.is_empty() => "reads no register".to_owned(),
            None => format!("uses {}", values.join(", ")),
        };
        let indent = "  ".repeat(self.level);
        format!("{indent}`{}` at line {}{source}{text} {what}", self.place.instruction, self.place.line)
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn values_have_the_type_of_their_instruction() {
        assert_eq!(shown("fma.rn.f32 %f3, %f1, %f2, %f1;", 0x4000_0000), "2");
        assert_eq!(shown("@%p1 st.global.u32 [%rd1], %r1;", 7), "7");
        assert_eq!(shown("cvt.rn.bf16.f32 %h1, %f1;", 0x3F80_0000), "1");
        assert_eq!(shown("st.global.b32 [%rd1], %r1;", 0xFF), "0xff");
        // More bits than the type has.
        assert_eq!(shown("st.global.u8 [%rd1], %r1;", 0x1FF), "0x1ff");
    }
}
