//! Folds divisions by constants and special functions of constants, which ptxas evaluates itself with correct rounding; the
//! special-function unit may be off by some units in the last place.

use std::collections::HashMap;

use super::ast::{Function, Immediate, Instruction, Item, Module, Operand, Statement};
use super::registers;

/// The largest divisor whose reciprocal is not subnormal, 2^126.
const LARGE: f32 = 8.507_059e37;
/// The factor for subnormal divisors, 2^24.
const UP: f32 = 16_777_216.0;

/// The form of the product that replaces a division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Products {
    /// `mul.rn`: rounded separately, as PTX specifies.
    Rounded,
    /// `mul`: an assembler may contract it with a sum, as ptxas does.
    Open,
}

/// Replaces `div.full.f32` and `div.approx.f32` by a constant with `mul` by the reciprocal, and `rcp`, `sqrt`, `rsqrt`, `ex2`, `lg2`, `sin`
/// and `cos` with `.approx` of a constant with the result; ptxas does not evaluate `tanh`. A constant is a number, or a register whose only
/// definition in the function is a `mov` of a number. NaN divisors and results are left alone.
pub fn fold(module: &mut Module, products: Products) {
    for item in &mut module.items {
        if let Item::Function(function) = item {
            of_function(function, products);
        }
    }
}

fn of_function(function: &mut Function, products: Products) {
    let Some(body) = &mut function.body else { return };
    let mut candidate = false;
    registers::each(body, &mut |i| candidate |= is_candidate(i));
    if !candidate {
        return;
    }
    let constants = constants(body);
    statements(body, &constants, products);
}

fn is_candidate(i: &Instruction) -> bool {
    let function =
        matches!(i.opcode.as_str(), "div" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos");
    function && (i.has("approx") || i.has("full")) && i.has("f32")
}

/// A special function of a normal number, rounded once; `None` if the operand is not normal or the result is NaN.
fn of_constant(opcode: &str, operand: f32) -> Option<f32> {
    let x = f64::from(operand);
    let result = match opcode {
        "rcp" => 1.0 / x,
        "sqrt" => x.sqrt(),
        "rsqrt" => 1.0 / x.sqrt(),
        "ex2" => x.exp2(),
        "lg2" => x.log2(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        _ => return None,
    };
    (operand.is_normal() && !result.is_nan()).then(|| rounded(result))
}

#[expect(clippy::cast_possible_truncation, reason = "the conversion rounds")]
const fn rounded(x: f64) -> f32 {
    x as f32
}

/// Registers whose only definition is an unguarded `mov` of a number, with the bits of the number.
fn constants(body: &[Statement]) -> HashMap<String, u32> {
    let definitions = registers::definitions(body);
    let mut found = HashMap::new();
    registers::each(body, &mut |i| {
        let [Operand::Name(to), Operand::Immediate(number)] = i.operands.as_slice() else { return };
        let plain = i.opcode == "mov" && i.guard.is_none();
        let word =
            matches!(i.modifiers.as_slice(), [ty] if matches!(ty.as_str(), "b32" | "f32" | "u32" | "s32"));
        if plain && word && definitions.get(to.as_str()) == Some(&1) {
            found.extend(bits(*number).map(|bits| (to.clone(), bits)));
        }
    });
    found
}

/// A number as 32 bits, if it fits.
fn bits(number: Immediate) -> Option<u32> {
    match number {
        Immediate::Integer { bits, .. } => u32::try_from(bits)
            .ok()
            .or_else(|| i32::try_from(bits.cast_signed()).ok().map(i32::cast_unsigned)),
        Immediate::F32(x) => Some(x.to_bits()),
        Immediate::F64(_) => None,
    }
}

fn statements(body: &mut Vec<Statement>, constants: &HashMap<String, u32>, products: Products) {
    let mut out = Vec::with_capacity(body.len());
    for mut statement in std::mem::take(body) {
        match &mut statement {
            Statement::Instruction(i) if is_candidate(i) => out.extend(folded(i, constants, products)),
            Statement::Block(inner) => statements(inner, constants, products),
            _ => {}
        }
        out.push(statement);
    }
    *body = out;
}

/// Folds an instruction; returns the multiplication by a power of two that must precede it, if any.
fn folded(i: &mut Instruction, constants: &HashMap<String, u32>, products: Products) -> Option<Statement> {
    let divisor = match i.operands.last()? {
        Operand::Immediate(number) => f32::from_bits(bits(*number)?),
        Operand::Name(name) => f32::from_bits(*constants.get(name)?),
        _ => return None,
    };
    let ftz = i.has("ftz");
    let flushed =
        if ftz && !divisor.is_normal() && divisor.is_finite() { 0.0_f32.copysign(divisor) } else { divisor };
    if divisor.is_nan() {
        return None;
    }
    if i.opcode != "div" {
        let result = of_constant(&i.opcode, flushed)?;
        let [to, _] = i.operands.as_slice() else { return None };
        let result = if ftz { without_subnormals(result) } else { result };
        i.operands = vec![to.clone(), Operand::Immediate(Immediate::F32(result))];
        "mov".clone_into(&mut i.opcode);
        i.modifiers = vec!["f32".to_owned()];
        return None;
    }
    let [to, dividend, _] = i.operands.as_slice() else { return None };
    let (to, dividend) = (to.clone(), dividend.clone());
    let scale = if i.has("full") && flushed.abs() > LARGE {
        Some(0.25)
    } else if !ftz && flushed.abs() < f32::MIN_POSITIVE {
        Some(UP)
    } else {
        None
    };
    let reciprocal = without_subnormals(1.0 / (flushed * scale.unwrap_or(1.0)));
    let flush = ftz.then(|| "ftz".to_owned());
    let words = |rounded: bool| {
        let rounding = rounded.then(|| "rn".to_owned());
        rounding.into_iter().chain(flush.clone()).chain(["f32".to_owned()]).collect()
    };
    if !ftz && flushed.to_bits() == 1.0_f32.to_bits() {
        // Not a product, so subnormal numbers and NaNs are preserved.
        "mov".clone_into(&mut i.opcode);
        (i.modifiers, i.operands) = (vec!["f32".to_owned()], vec![to, dividend]);
        return None;
    }
    "mul".clone_into(&mut i.opcode);
    i.modifiers = words(products == Products::Rounded);
    let factor = Operand::Immediate(Immediate::F32(reciprocal));
    let Some(scale) = scale else {
        i.operands = vec![to, dividend, factor];
        return None;
    };
    let scale = Operand::Immediate(Immediate::F32(scale));
    let first =
        Instruction { modifiers: words(true), operands: vec![to.clone(), dividend, scale], ..i.clone() };
    i.operands = vec![to.clone(), to, factor];
    Some(Statement::Instruction(first))
}

fn without_subnormals(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}
