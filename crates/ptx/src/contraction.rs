//! Products and sums that PTX allows an assembler to contract: an unqualified `mul` and an unqualified `add` or `sub` that uses its
//! result may be rounded once, like `fma`. A rounding modifier on either one forbids it (PTX ISA, `mul` and `add`).
//!
//! Pairs are searched within a basic block, where the product is the only definition that reaches the sum. An assembler that moves
//! code across blocks may contract more.

mod explicit;
mod lowered;
mod possible;

use std::collections::{HashMap, HashSet};

use super::ast::{Function, Guard, Instruction, Item, Module, Operand, Statement};
use super::registers::{names, reads, writes_first};

pub use explicit::{explicit, explicit_where_needed};
pub use lowered::lowered;
pub use possible::may_contract;

/// Returns the pairs that ptxas contracts, as observed in its machine code: each sum with the first of its sources that is an unguarded
/// product without other readers. It does not cover code that ptxas transforms in other ways; for that, compare the
/// machine code of [`explicit`].
#[must_use]
pub fn expected(pairs: &[Pair]) -> Vec<Pair> {
    let mut sums = HashSet::new();
    let chosen = |pair: &&Pair| pair.only_sums && !pair.guarded && sums.insert(pair.sum);
    pairs.iter().filter(chosen).cloned().collect()
}

/// The operand of a sum that is the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// `a` in `add d, a, b`.
    First,
    /// `b` in `add d, a, b`.
    Second,
}

/// A product and a sum that may be contracted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The entry or function.
    pub function: String,
    /// The index of the `mul` among the instructions of the function, from 0.
    pub product: usize,
    /// The index of the `add` or `sub`.
    pub sum: usize,
    /// Which operand of the sum is the product.
    pub source: Source,
    /// Whether both execute under a guard.
    pub guarded: bool,
    /// Whether the function reads the product only in pairs.
    pub only_sums: bool,
    /// Whether a factor is overwritten before the sum.
    pub overwritten: bool,
}

/// The properties of a `mul`, `add` or `sub` without a rounding modifier that may be part of a pair.
struct Unqualified<'a> {
    ty: &'a str,
    ftz: bool,
    sat: bool,
    to: &'a str,
    sources: [&'a Operand; 2],
}

/// The floating-point types for which PTX has both products and sums.
const TYPES: [&str; 7] = ["f32", "f64", "f16", "f16x2", "bf16", "bf16x2", "f32x2"];

impl<'a> Unqualified<'a> {
    /// Parses an instruction with one floating-point type, no rounding modifier and the usual operands.
    fn from_instruction(i: &'a Instruction) -> Option<Self> {
        let (ty, rest) = i.modifiers.split_last()?;
        let ty = *TYPES.iter().find(|known| *known == ty)?;
        let known = rest.iter().all(|word| word == "ftz" || word == "sat");
        let [Operand::Name(to), a, b] = i.operands.as_slice() else { return None };
        known.then_some(Self { ty, ftz: i.has("ftz"), sat: i.has("sat"), to, sources: [a, b] })
    }
}

/// A product that reaches the following statements.
struct Product<'a> {
    at: usize,
    ty: &'a str,
    ftz: bool,
    guard: Option<&'a Guard>,
    factors: [&'a Operand; 2],
    /// Whether a factor has been overwritten.
    overwritten: bool,
}

impl Product<'_> {
    fn has_factor(&self, register: &str) -> bool {
        self.factors.iter().any(|factor| matches!(factor, Operand::Name(name) if name == register))
    }
}

/// Returns all pairs of a module, in text order.
#[must_use]
pub fn pairs(module: &Module) -> Vec<Pair> {
    let functions = module.items.iter().filter_map(|item| match item {
        Item::Function(function) => Some(function),
        _ => None,
    });
    functions.flat_map(of_function).collect()
}

/// The pairs of a function.
fn of_function(function: &Function) -> Vec<Pair> {
    let mut search = Search {
        function: &function.name,
        at: 0,
        pairs: Vec::new(),
        products: HashMap::new(),
        names: Vec::new(),
    };
    let body = function.body.as_deref().unwrap_or_default();
    search.statements(body);
    let reads = reads(body);
    let mut paired: HashMap<&str, usize> = HashMap::new();
    for name in &search.names {
        *paired.entry(name).or_default() += 1;
    }
    let only_sums: Vec<bool> = search.names.iter().map(|name| paired.get(name) == reads.get(name)).collect();
    for (pair, only) in search.pairs.iter_mut().zip(only_sums) {
        pair.only_sums = only;
    }
    search.pairs
}

struct Search<'a> {
    function: &'a str,
    /// The index of the instruction.
    at: usize,
    pairs: Vec<Pair>,
    /// The register of each pair's product.
    names: Vec<&'a str>,
    /// Products of this basic block that have not been overwritten, by register.
    products: HashMap<&'a str, Product<'a>>,
}

impl<'a> Search<'a> {
    fn statements(&mut self, body: &'a [Statement]) {
        for statement in body {
            match statement {
                Statement::Instruction(i) => {
                    self.instruction(i);
                    self.at += 1;
                }
                // Names may denote other registers inside the block, and paths may merge at a label.
                Statement::Block(inner) => {
                    self.products.clear();
                    self.statements(inner);
                    self.products.clear();
                }
                Statement::Label { .. } => self.products.clear(),
                _ => {}
            }
        }
    }

    fn instruction(&mut self, i: &'a Instruction) {
        if matches!(i.opcode.as_str(), "bra" | "brx" | "call" | "ret" | "exit" | "trap") {
            self.products.clear();
            return;
        }
        let float = Unqualified::from_instruction(i);
        if let (Some(sum), "add" | "sub") = (&float, i.opcode.as_str()) {
            self.sum(i, sum);
        }
        if writes_first(i)
            && let Some(to) = i.operands.first()
        {
            names(to, &mut |name| {
                self.products.remove(name);
                self.products.retain(|_, product| {
                    product.overwritten |= product.has_factor(name);
                    product.guard.is_none_or(|guard| guard.register != name)
                });
            });
        }
        if let (Some(mul), "mul") = (float, i.opcode.as_str())
            && !mul.sat
            && mul.sources.iter().any(|source| matches!(source, Operand::Name(_)))
        {
            let mut product = Product {
                at: self.at,
                ty: mul.ty,
                ftz: mul.ftz,
                guard: i.guard.as_ref(),
                factors: mul.sources,
                overwritten: false,
            };
            product.overwritten = product.has_factor(mul.to);
            self.products.insert(mul.to, product);
        }
    }

    fn sum(&mut self, i: &'a Instruction, sum: &Unqualified<'a>) {
        for (source, operand) in [Source::First, Source::Second].into_iter().zip(sum.sources) {
            let Operand::Name(name) = operand else { continue };
            let Some((name, product)) = self.products.get_key_value(name.as_str()) else { continue };
            let same_guard = product.guard.is_none() || product.guard == i.guard.as_ref();
            if product.ty == sum.ty && product.ftz == sum.ftz && same_guard {
                self.names.push(name);
                self.pairs.push(Pair {
                    function: self.function.to_owned(),
                    product: product.at,
                    sum: self.at,
                    source,
                    guarded: product.guard.is_some(),
                    only_sums: false,
                    overwritten: product.overwritten,
                });
            }
        }
    }
}
