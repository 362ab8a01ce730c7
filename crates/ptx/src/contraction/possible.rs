//! Whether a kernel has anything to contract, wherever its products and sums are.

use std::collections::{BTreeSet, HashMap};

use super::TYPES;
use crate::ast::{Function, Instruction, Item, Module, Operand, Statement};

/// Instructions that assemblers replace by sequences with products: quotients and approximate functions.
const SEQUENCES: [&str; 9] = ["div", "rcp", "rsqrt", "sqrt", "ex2", "lg2", "sin", "cos", "tanh"];

/// Whether the code that `entry` may execute has an unqualified sum and something of the same type that may become an unqualified product.
/// Without both, an assembler has no choice, even if it moves code between blocks and functions.
#[must_use]
pub fn may_contract(module: &Module, entry: &str) -> bool {
    let functions: HashMap<&str, &Function> = module
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Function(function) if function.body.is_some() => Some((function.name.as_str(), function)),
            _ => None,
        })
        .collect();
    let (mut products, mut sums) = (BTreeSet::new(), BTreeSet::new());
    let (mut seen, mut left) = (BTreeSet::new(), vec![entry]);
    while let Some(name) = left.pop() {
        let Some(function) = functions.get(name).filter(|_| seen.insert(name)) else { continue };
        each(function.body.as_deref().unwrap_or_default(), &mut |i| {
            let types = || elements(i);
            match i.opcode.as_str() {
                "add" | "sub" => sums.extend(types()),
                "mul" if !i.has("sat") => products.extend(types()),
                opcode if SEQUENCES.contains(&opcode) => products.extend(types()),
                "call" => left.extend(callees(i, &functions)),
                _ => {}
            }
        });
    }
    products.intersection(&sums).next().is_some()
}

/// Calls `f` with every instruction.
fn each<'a>(body: &'a [Statement], f: &mut impl FnMut(&'a Instruction)) {
    for statement in body {
        match statement {
            Statement::Instruction(i) => f(i),
            Statement::Block(inner) => each(inner, f),
            _ => {}
        }
    }
}

/// The element types of a floating-point instruction without a rounding modifier, and of any product of `f32x2`: ptxas 12.9 contracts
/// those in spite of one.
fn elements(i: &Instruction) -> Vec<&str> {
    let contracted_anyway = i.opcode == "mul" && i.has("f32x2");
    if !contracted_anyway && ["rn", "rz", "rm", "rp"].into_iter().any(|rounding| i.has(rounding)) {
        return Vec::new();
    }
    let types = i.modifiers.iter().filter_map(|word| TYPES.iter().find(|ty| **ty == word));
    types.map(|ty| ty.strip_suffix("x2").unwrap_or(ty)).collect()
}

/// The functions that a call may reach: the one that it names, or any if it goes through a register.
fn callees<'a>(i: &'a Instruction, functions: &HashMap<&'a str, &'a Function>) -> Vec<&'a str> {
    let named = i.operands.iter().find_map(|operand| match operand {
        Operand::Name(name) => Some(name.as_str()),
        _ => None,
    });
    match named {
        Some(name) if !name.starts_with('%') => vec![name],
        _ => functions.keys().copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::may_contract;

    fn contracts(function: &str, kernel: &str) -> bool {
        let text = format!(
            ".version 8.8\n.target sm_121a\n.address_size 64\n.func f()\n{{\n.reg .f32 a; .reg .f64 d; .reg .b64 p;\n{function}\nret;\n}}\n\
             .visible .entry k()\n{{\n.reg .f32 a, b; .reg .f64 d; .reg .b16 h; .reg .b32 x; .reg .b64 p;\n{kernel}\nret;\n}}\n"
        );
        may_contract(&crate::parse(&text).unwrap(), "k")
    }

    #[test]
    fn a_choice_needs_a_product_and_a_sum_of_one_type() {
        assert!(contracts("", "mul.f32 a, b, b; bra next; next: add.f32 a, a, b;"));
        assert!(contracts("", "{ mul.f16x2 x, x, x; } sub.f16 h, h, h;"));
        assert!(contracts("", "div.full.f32 a, b, b; add.sat.f32 a, a, b;"));
        assert!(contracts("", "mul.rn.f32x2 p, p, p; add.f32x2 p, p, p;"));
        assert!(!contracts("", "mul.f32 a, b, b; add.f64 d, d, d;"));
        assert!(!contracts("", "mul.rn.f32 a, b, b; add.f32 a, a, b;"));
        assert!(!contracts("", "mul.f32 a, b, b; add.rz.f32 a, a, b;"));
        assert!(!contracts("", "mul.sat.f32 a, b, b; add.f32 a, a, b;"));
        assert!(!contracts("", "mul.lo.s32 x, x, x; add.s32 x, x, x; fma.rn.f32 a, a, b, b;"));
    }

    #[test]
    fn only_functions_that_the_kernel_may_call_count() {
        let sum = "add.f32 a, a, a;";
        assert!(!contracts(sum, "mul.f32 a, b, b;"));
        assert!(contracts(sum, "mul.f32 a, b, b; call f;"));
        assert!(contracts("add.f32 a, a, a; mul.f32 a, a, a;", "call f;"));
        assert!(contracts(sum, "mul.f32 a, b, b; mov.u64 p, f; call %p, ();"));
    }
}
