//! PTX for the first GPUs (`sm_10` to `sm_13`), as drivers compile it for later ones: operations on `f32` flush subnormal numbers, and
//! `mad.f32`, which has no rounding modifier there, rounds once, to nearest (PTX ISA, `.target` and `mad`; on an H200, driver 580, modules of
//! PTX 1.4 for sm_10 do both).

use crate::arch::Target;
use crate::{Instruction, Item, Module, Statement};

/// The first architecture with subnormal `f32`.
const FIRST_WITH_SUBNORMALS: u16 = 20;

/// The operations on `f32` that may have `.ftz`.
const FLUSHING: [&str; 20] = [
    "abs", "add", "cos", "div", "ex2", "fma", "lg2", "mad", "max", "min", "mul", "neg", "rcp", "rsqrt",
    "set", "setp", "sin", "slct", "sqrt", "sub",
];

/// Writes the modifiers that operations of such a module imply. Others stay as they are.
pub fn complete(module: &mut Module) {
    let target = module.targets.first().and_then(|name| Target::written(name));
    if target.is_none_or(|target| target.number >= FIRST_WITH_SUBNORMALS) {
        return;
    }
    for item in &mut module.items {
        if let Item::Function(function) = item
            && let Some(body) = &mut function.body
        {
            statements(body);
        }
    }
}

fn statements(body: &mut [Statement]) {
    for statement in body {
        match statement {
            Statement::Instruction(i) => instruction(i),
            Statement::Block(inner) => statements(inner),
            _ => {}
        }
    }
}

fn instruction(i: &mut Instruction) {
    let is_single = i.has("f32") && !i.has("f64") && !i.has("ftz");
    if !is_single || !FLUSHING.contains(&i.opcode.as_str()) {
        return;
    }
    let has_rounding = ["rn", "rz", "rm", "rp"].iter().any(|mode| i.has(mode));
    let own = if i.opcode == "mad" && !has_rounding { &["rn", "ftz"][..] } else { &["ftz"] };
    // `.ftz` follows the rounding or the comparison, and precedes `.sat` and the types.
    let at = match i.opcode.as_str() {
        "set" => i.modifiers.len().saturating_sub(2),
        "slct" => 0,
        _ => i.modifiers.iter().position(|word| word == "f32" || word == "sat").unwrap_or_default(),
    };
    i.modifiers.splice(at..at, own.iter().map(|word| (*word).to_owned()));
}
