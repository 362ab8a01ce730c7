//! Writes out every choice of contraction: chosen pairs as `fma.rn`, all other products and sums with `.rn`.

use std::collections::{HashMap, HashSet};

use super::{Pair, Source, Unqualified};
use crate::ast::{
    Function, Immediate, Instruction, Item, Module, Operand, Space, Span, Statement, Type, Variable,
};
use crate::registers::{each, names};

/// The prefix of added registers.
const PREFIX: &str = "%contracted";

/// Returns the module with the sums of `chosen` contracted: `fma.rn` replaces the sum and keeps its span. The product remains for
/// other readers. All other unqualified products and sums get `.rn`, so that an assembler may not contract them.
///
/// If two pairs share a sum, the first one counts.
#[must_use]
pub fn explicit(module: &Module, chosen: &[Pair]) -> Module {
    rewritten(module, chosen, &|_| None)
}

/// Like [`explicit`], but a sum without a source that may be a product keeps its form, since nothing can be contracted with it. ptxas
/// derives ranges from sums without a rounding modifier, and then drops the scaling of a division by one.
#[must_use]
pub fn explicit_where_needed(module: &Module, chosen: &[Pair]) -> Module {
    rewritten(module, chosen, &|body| Some(may_be_products(body)))
}

fn rewritten(
    module: &Module,
    chosen: &[Pair],
    products: &impl Fn(&[Statement]) -> Option<HashSet<String>>,
) -> Module {
    let mut out = module.clone();
    for item in &mut out.items {
        if let Item::Function(function) = item {
            let products = products(function.body.as_deref().unwrap_or_default());
            rewrite(function, chosen, products);
        }
    }
    out
}

/// Registers to which some instruction of the function assigns a product, or a copy of one; an assembler may contract its last step.
fn may_be_products(body: &[Statement]) -> HashSet<String> {
    let mut found: HashSet<String> = HashSet::new();
    loop {
        let before = found.len();
        each(body, &mut |i| {
            let is_product = match i.opcode.as_str() {
                "mul" | "div" | "rcp" | "sqrt" | "rsqrt" | "lg2" | "sin" | "cos" | "tanh" | "call" => true,
                // Adding a zero yields a product.
                "fma" => matches!(i.operands.last(), Some(Operand::Immediate(_))),
                "mov" | "neg" | "abs" | "copysign" | "selp" | "slct" => {
                    let mut of_product = false;
                    let sources = i.operands.iter().skip(1);
                    sources.for_each(|source| names(source, &mut |name| of_product |= found.contains(name)));
                    of_product
                }
                _ => false,
            };
            if is_product && let Some(to) = i.operands.first() {
                names(to, &mut |name| {
                    found.insert(name.to_owned());
                });
            }
        });
        if found.len() == before {
            return found;
        }
    }
}

fn rewrite(function: &mut Function, chosen: &[Pair], may_be_products: Option<HashSet<String>>) {
    let Some(body) = &mut function.body else { return };
    let mut sums = HashMap::new();
    for pair in chosen.iter().filter(|pair| pair.function == function.name) {
        sums.entry(pair.sum).or_insert(pair);
    }
    let mut products = HashMap::new();
    for pair in sums.values() {
        *products.entry(pair.product).or_default() |= pair.overwritten;
    }
    let mut rewriter =
        Rewriter { at: 0, sums, products, factors: HashMap::new(), may_be_products, added: Vec::new() };
    rewriter.statements(body);
    let added = rewriter.added.into_iter().map(Statement::Variable);
    body.splice(0..0, added);
}

struct Rewriter<'a> {
    /// The index of the instruction in the function.
    at: usize,
    /// The chosen pair of each sum.
    sums: HashMap<usize, &'a Pair>,
    /// Products of chosen pairs, and whether a factor is overwritten before a sum.
    products: HashMap<usize, bool>,
    /// Their factors, each a number or a copy of the register.
    factors: HashMap<usize, [Operand; 2]>,
    /// Registers that may hold products, if only sums that can be contracted are made explicit.
    may_be_products: Option<HashSet<String>>,
    /// Registers for copies and negated values.
    added: Vec<Variable>,
}

impl Rewriter<'_> {
    fn statements(&mut self, body: &mut Vec<Statement>) {
        let mut out = Vec::with_capacity(body.len());
        for mut statement in std::mem::take(body) {
            match &mut statement {
                Statement::Instruction(i) => {
                    self.instruction(i, &mut out);
                    self.at += 1;
                }
                Statement::Block(inner) => self.statements(inner),
                _ => {}
            }
            out.push(statement);
        }
        *body = out;
    }

    /// Rewrites an instruction; instructions that must precede it are added to `out`.
    fn instruction(&mut self, i: &mut Instruction, out: &mut Vec<Statement>) {
        if !matches!(i.opcode.as_str(), "mul" | "add" | "sub") {
            return;
        }
        let Some(float) = Unqualified::from_instruction(i) else { return };
        let (ty, to, sources) = (float.ty.to_owned(), float.to.to_owned(), float.sources.map(Clone::clone));
        if i.opcode == "mul"
            && let Some(copy) = self.products.get(&self.at).copied()
        {
            let factors = sources.clone().map(|source| match source {
                Operand::Name(_) if copy => self.made("mov", copied(&ty), &ty, source, i, out),
                other => other,
            });
            self.factors.insert(self.at, factors);
        }
        let contracted = self
            .sums
            .get(&self.at)
            .and_then(|pair| Some((pair.source, self.factors.get(&pair.product)?.clone())));
        let is_open = |products: &HashSet<String>| {
            let is_product =
                |source: &Operand| matches!(source, Operand::Name(name) if products.contains(name));
            i.opcode != "mul" && !sources.iter().any(is_product)
        };
        if contracted.is_none() && self.may_be_products.as_ref().is_some_and(is_open) {
            return;
        }
        i.modifiers.insert(0, "rn".to_owned());
        let Some((source, [mut a, mut b])) = contracted else { return };
        let [first, second] = sources;
        let mut addend = if source == Source::First { second } else { first };
        match (i.opcode.as_str(), source) {
            ("sub", Source::First) => addend = self.negated(&ty, addend, i, out),
            ("sub", Source::Second) if matches!(b, Operand::Immediate(Immediate::F32(_))) => b = negative(b),
            // Negate the register, since a product of two numbers is not a pair.
            ("sub", Source::Second) if matches!(a, Operand::Name(_)) => a = self.negated(&ty, a, i, out),
            ("sub", Source::Second) => b = self.negated(&ty, b, i, out),
            _ => {}
        }
        "fma".clone_into(&mut i.opcode);
        i.operands = vec![Operand::Name(to), a, b, addend];
    }

    /// Returns a register with the negated value of a source, computed under the guard of `near`.
    fn negated(&mut self, ty: &str, of: Operand, near: &Instruction, out: &mut Vec<Statement>) -> Operand {
        if ty != "f32x2" {
            return self.made("neg", ty, ty, of, near, out);
        }
        let signs = Immediate::Integer { bits: 0x8000_0000_8000_0000, unsigned: true };
        let to = self.made("xor", "b64", ty, of, near, out);
        if let Some(Statement::Instruction(xor)) = out.last_mut() {
            xor.operands.push(Operand::Immediate(signs));
        }
        to
    }

    /// Returns a new register with the result of `opcode.word` applied to a source.
    fn made(
        &mut self,
        opcode: &str,
        word: &str,
        ty: &str,
        of: Operand,
        near: &Instruction,
        out: &mut Vec<Statement>,
    ) -> Operand {
        let name = format!("{PREFIX}{}", self.added.len());
        self.added.push(register(&name, ty));
        out.push(Statement::Instruction(Instruction {
            guard: near.guard.clone(),
            opcode: opcode.to_owned(),
            modifiers: vec![word.to_owned()],
            operands: vec![Operand::Name(name.clone()), of],
            span: near.span,
        }));
        Operand::Name(name)
    }
}

/// Negates a number.
fn negative(of: Operand) -> Operand {
    match of {
        Operand::Immediate(Immediate::F32(x)) => Operand::Immediate(Immediate::F32(-x)),
        other => other,
    }
}

/// The type word for copying a register of type `ty`.
fn copied(ty: &str) -> &'static str {
    match bits(ty) {
        Type::B16 => "b16",
        Type::B64 => "b64",
        _ => "b32",
    }
}

/// The untyped register type for a floating-point type.
fn bits(ty: &str) -> Type {
    match ty {
        "f16" | "bf16" => Type::B16,
        "f64" | "f32x2" => Type::B64,
        _ => Type::B32,
    }
}

pub(super) fn register(name: &str, ty: &str) -> Variable {
    Variable {
        linkage: None,
        space: Space::Reg,
        align: None,
        vector: 1,
        ty: bits(ty),
        attributes: Vec::new(),
        name: name.to_owned(),
        count: None,
        dims: Vec::new(),
        init: None,
        span: Span::default(),
    }
}
