//! Where the first wrong element of a buffer comes from: the instruction that wrote it last, with the values that it used.

use emulator::argument::Element;
use emulator::trials::{Computed, Plan, Provenance, Step, Trial, index_of, provenance};
use emulator::{GlobalMemory, Place};
use serde::Serialize;

use super::expect::Checked;
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

/// A value in the type of an instruction: that of its last modifier that names one.
fn shown(instruction: &str, bits: u64) -> String {
    let opcode = instruction.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
    // `cvt.rn.bf16.f32` reads the last type.
    let of = opcode.split('.').rev().find_map(|word| Element::named(word.trim_end_matches(';')));
    match of {
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
        let loaded = of.address.filter(|_| is_load).map(|at| self.element_at(at, addresses));
        let operands = of.operands.iter().map(operand).collect();
        all.push(UsedInstruction { place: of.place.clone(), level, operands, loaded });
        for input in &of.inputs {
            self.add_instructions(input, level + 1, addresses, all);
        }
    }

    /// The element at an address, or the address.
    fn element_at(&self, at: u64, addresses: &[u64]) -> String {
        let inside = |(buffer, base): &(&super::session::Buffer, &u64)| {
            at.checked_sub(**base).is_some_and(|byte| byte < buffer.shape.bytes as u64)
        };
        match self.buffers.iter().zip(addresses).find(inside) {
            Some((buffer, base)) => {
                let element = (at - base) as usize * 8 / buffer.shape.element.bits();
                let index: Vec<String> =
                    index_of(element, &buffer.shape.dims).iter().map(ToString::to_string).collect();
                format!("{}[{}]", buffer.name, index.join(","))
            }
            None => format!("{at:#x}"),
        }
    }
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
        lines.extend(self.instructions.iter().map(|used| {
            let value = |v: &UsedValue| match &v.register {
                Some(register) => format!("{register} = {}", v.value),
                None => v.value.clone(),
            };
            let values: Vec<String> = used.operands.iter().map(value).collect();
            let source = used.place.source.as_ref().filter(|_| used.level > 0);
            let source = source.map_or_else(String::new, |(file, line)| format!(", {file}:{line}"));
            let text = used.place.source_text.as_ref().filter(|_| used.level > 0);
            let text = text.map_or_else(String::new, |text| format!(" `{text}`"));
            let what = match &used.loaded {
                Some(loaded) => format!("loads {loaded}"),
                None if values.is_empty() => "reads no register".to_owned(),
                None => format!("uses {}", values.join(", ")),
            };
            let indent = "  ".repeat(used.level);
            format!("{indent}`{}` at line {}{source}{text} {what}", used.place.instruction, used.place.line)
        }));
        lines
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
