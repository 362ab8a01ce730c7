//! Lowers a function as ptxas does before it contracts: divisions become products with a reciprocal, packed f32 operations become
//! scalar, copies
//! and negated products before a sum disappear. Machine code confirms it: ptxas generates the same code for the lowered text.

use std::collections::{HashMap, HashSet};

use super::Unqualified;
use super::explicit::register;
use crate::ast::{Function, Immediate, Instruction, Item, Module, Operand, Statement, Type, Variable};
use crate::folding::{Products, fold};
use crate::registers::{definitions, each, each_mut, names_mut, reads, writes_first};

/// The prefix of added registers.
const PREFIX: &str = "%lowered";

/// Returns the module as ptxas sees it when it contracts. Divisions by constants are folded ([`fold`]); every other unguarded
/// `div.full.f32` and `div.approx.f32` is written out; packed sums and products become two scalar ones; copies are removed.
#[must_use]
pub fn lowered(module: &Module) -> Module {
    let mut out = module.clone();
    fold(&mut out, Products::Open);
    for item in &mut out.items {
        if let Item::Function(function) = item {
            of_function(function);
        }
    }
    out
}

fn of_function(function: &mut Function) {
    let Some(body) = &mut function.body else { return };
    let mut writer = Writer { added: Vec::new() };
    writer.statements(body);
    if writer.added.is_empty() && !has_copies(body) {
        return;
    }
    without_copies(body);
    subtract_negatives(body);
    without_unread(body);
    body.splice(0..0, writer.added.into_iter().map(Statement::Variable));
}

/// Whether a copy or a negation may occur between a product and a sum.
fn has_copies(body: &[Statement]) -> bool {
    let mut found = false;
    each(body, &mut |i| found |= matches!(i.opcode.as_str(), "mov" | "neg"));
    found
}

struct Writer {
    /// Added registers.
    added: Vec<Variable>,
}

impl Writer {
    fn statements(&mut self, body: &mut Vec<Statement>) {
        let mut out = Vec::with_capacity(body.len());
        for mut statement in std::mem::take(body) {
            match &mut statement {
                Statement::Instruction(i) if self.written(i, &mut out) => continue,
                Statement::Block(inner) => self.statements(inner),
                _ => {}
            }
            out.push(statement);
        }
        *body = out;
    }

    /// Writes the replacement of an instruction to `out`; returns whether there is one.
    fn written(&mut self, i: &Instruction, out: &mut Vec<Statement>) -> bool {
        if i.guard.is_some() {
            return false;
        }
        match i.opcode.as_str() {
            "div" => self.division(i, out).is_some(),
            "mul" | "add" | "sub" => self.packed(i, out).is_some(),
            _ => false,
        }
    }

    fn register(&mut self, ty: Type) -> Operand {
        let name = format!("{PREFIX}{}", self.added.len());
        self.added.push(Variable { ty, ..register(&name, "f32") });
        Operand::Name(name)
    }

    /// Writes an f32 quotient as ptxas computes it, in the same order.
    fn division(&mut self, i: &Instruction, out: &mut Vec<Statement>) -> Option<()> {
        let (full, ftz) = (i.has("full"), i.has("ftz"));
        let [Operand::Name(to), a, b] = i.operands.as_slice() else { return None };
        if !i.has("f32") || !(full || i.has("approx")) {
            return None;
        }
        let float = |bits: u32| Operand::Immediate(Immediate::F32(f32::from_bits(bits)));
        let flush = if ftz { ".ftz" } else { "" };
        let mut put = |opcode: &str, operands: Vec<Operand>| {
            out.push(Statement::Instruction(made(opcode, operands, i)));
        };
        let size = self.register(Type::B32);
        let (large, normal) = (self.register(Type::Pred), self.register(Type::Pred));
        let subnormal = !ftz;
        if full || subnormal {
            put("abs.f32", vec![size.clone(), b.clone()]);
        }
        if full {
            put(&format!("setp.gt{flush}.f32"), vec![large.clone(), size.clone(), float(0x7E80_0000)]);
        }
        if subnormal {
            put("setp.geu.f32", vec![normal.clone(), size, float(0x0080_0000)]);
        }
        let (mut divisor, mut dividend) = (b.clone(), a.clone());
        // The last selection of the dividend comes after the reciprocal.
        let mut last = None;
        let mut scale = |by: u32, condition: &Operand, is_scaled: bool, is_last: bool| {
            let (x, mut y) = (self.register(Type::B32), self.register(Type::B32));
            let (scaled_x, scaled_y) = (self.register(Type::B32), self.register(Type::B32));
            let product = format!("mul.rn{flush}.f32");
            put(&product, vec![x.clone(), divisor.clone(), float(by)]);
            match dividend {
                Operand::Immediate(Immediate::F32(number)) => {
                    y = Operand::Immediate(Immediate::F32(number * f32::from_bits(by)));
                }
                _ => put(&product, vec![y.clone(), dividend.clone(), float(by)]),
            }
            let chosen = |to: &Operand, scaled: Operand, plain: Operand| match is_scaled {
                true => vec![to.clone(), scaled, plain, condition.clone()],
                false => vec![to.clone(), plain, scaled, condition.clone()],
            };
            put("selp.f32", chosen(&scaled_x, x, divisor.clone()));
            let selection = chosen(&scaled_y, y, dividend.clone());
            match is_last {
                true => last = Some(selection),
                false => put("selp.f32", selection),
            }
            (divisor, dividend) = (scaled_x, scaled_y);
        };
        if full {
            scale(0x3E80_0000, &large, true, !subnormal);
        }
        if subnormal {
            scale(0x4B80_0000, &normal, false, true);
        }
        let reciprocal = self.register(Type::B32);
        let mut put = |opcode: &str, operands: Vec<Operand>| {
            out.push(Statement::Instruction(made(opcode, operands, i)));
        };
        put("rcp.approx.ftz.f32", vec![reciprocal.clone(), divisor]);
        if let Some(selection) = last {
            put("selp.f32", selection);
        }
        put(&format!("mul{flush}.f32"), vec![Operand::Name(to.clone()), reciprocal, dividend]);
        Some(())
    }

    /// Writes a packed sum or product as two f32 operations.
    fn packed(&mut self, i: &Instruction, out: &mut Vec<Statement>) -> Option<()> {
        let float = Unqualified::from_instruction(i).filter(|float| float.ty == "f32x2")?;
        let mut halves = |of: &Operand, out: &mut Vec<Statement>| {
            let two = [self.register(Type::B32), self.register(Type::B32)];
            out.push(Statement::Instruction(made(
                "mov.b64",
                vec![Operand::Vector(two.to_vec()), of.clone()],
                i,
            )));
            two
        };
        let (a, b) = (halves(float.sources[0], out), halves(float.sources[1], out));
        let to = [self.register(Type::B32), self.register(Type::B32)];
        let opcode = format!("{}{}.f32", i.opcode, if float.ftz { ".ftz" } else { "" });
        for ((to, a), b) in to.iter().zip(a).zip(b) {
            out.push(Statement::Instruction(made(&opcode, vec![to.clone(), a, b], i)));
        }
        let packed = vec![Operand::Name(float.to.to_owned()), Operand::Vector(to.to_vec())];
        out.push(Statement::Instruction(made("mov.b64", packed, i)));
        Some(())
    }
}

/// Creates an instruction with the span of `of`.
fn made(opcode: &str, operands: Vec<Operand>, of: &Instruction) -> Instruction {
    let mut words = opcode.split('.').map(str::to_owned);
    Instruction {
        guard: None,
        opcode: words.next().unwrap_or_default(),
        modifiers: words.collect(),
        operands,
        span: of.span,
    }
}

/// Registers with a single definition that is visible in the whole function.
fn defined_once(body: &[Statement]) -> impl Fn(&str) -> bool + use<> {
    let mut hidden = Vec::new();
    for statement in body {
        if let Statement::Block(inner) = statement {
            declared(inner, &mut hidden);
        }
    }
    let is_hidden = |name: &str| {
        let of =
            |prefix: &str| name.strip_prefix(prefix).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
        hidden.iter().any(|known| of(known))
    };
    let once = definitions(body).into_iter().filter(|(name, times)| *times == 1 && !is_hidden(name));
    let found: HashSet<String> = once.map(|(name, _)| name.to_owned()).collect();
    move |name| found.contains(name)
}

/// Collects the names of all variables declared in a block.
fn declared<'a>(body: &'a [Statement], names: &mut Vec<&'a str>) {
    for statement in body {
        match statement {
            Statement::Variable(variable) => names.push(&variable.name),
            Statement::Block(inner) => declared(inner, names),
            _ => {}
        }
    }
}

/// Whether this is an unguarded `mov` of a whole word.
fn is_move(i: &Instruction) -> bool {
    let word =
        |ty: &String| matches!(ty.as_str(), "b32" | "f32" | "b64" | "f64" | "u32" | "s32" | "u64" | "s64");
    i.opcode == "mov" && i.guard.is_none() && i.modifiers.len() == 1 && i.modifiers.iter().all(word)
}

/// Replaces reads of copies, and of the halves of a pair, by reads of the original.
fn without_copies(body: &mut [Statement]) {
    let once = defined_once(body);
    let mut copies: HashMap<String, String> = HashMap::new();
    let mut pairs: HashMap<String, [String; 2]> = HashMap::new();
    let root =
        |copies: &HashMap<String, String>, name: &str| copies.get(name).cloned().unwrap_or(name.to_owned());
    each(body, &mut |i| {
        if !is_move(i) {
            return;
        }
        match i.operands.as_slice() {
            [Operand::Name(to), Operand::Name(from)] if once(to) && once(from) => {
                let from = root(&copies, from);
                copies.insert(to.clone(), from);
            }
            [Operand::Name(to), Operand::Vector(list)] if once(to) => {
                if let [Operand::Name(a), Operand::Name(b)] = list.as_slice()
                    && once(a)
                    && once(b)
                {
                    pairs.insert(to.clone(), [root(&copies, a), root(&copies, b)]);
                }
            }
            [Operand::Vector(list), Operand::Name(from)] => {
                let Some(halves) = pairs.get(&root(&copies, from)) else { return };
                let halves = halves.clone();
                for (to, half) in list.iter().zip(halves) {
                    if let Operand::Name(to) = to
                        && once(to)
                    {
                        copies.insert(to.clone(), half);
                    }
                }
            }
            _ => {}
        }
    });
    each_mut(body, &mut |i| {
        let written = usize::from(writes_first(i));
        for operand in i.operands.iter_mut().skip(written) {
            names_mut(operand, &mut |name| {
                if let Some(from) = copies.get(name) {
                    name.clone_from(from);
                }
            });
        }
    });
}

/// Turns the addition of a negated register into a subtraction, and vice versa.
fn subtract_negatives(body: &mut [Statement]) {
    let once = defined_once(body);
    let mut negatives: HashMap<String, (String, String)> = HashMap::new();
    each(body, &mut |i| {
        if let ("neg", None, [Operand::Name(to), Operand::Name(of)]) =
            (i.opcode.as_str(), &i.guard, i.operands.as_slice())
            && once(to)
            && once(of)
        {
            negatives.insert(to.clone(), (of.clone(), i.modifiers.join(".")));
        }
    });
    each_mut(body, &mut |i| {
        let Some(float) = Unqualified::from_instruction(i) else { return };
        let negative = |operand: &Operand| match operand {
            Operand::Name(name) => {
                let (of, ty) = negatives.get(name)?;
                (*ty == float.ty).then(|| Operand::Name(of.clone()))
            }
            _ => None,
        };
        let (to, [a, b]) = (Operand::Name(float.to.to_owned()), float.sources);
        let changed = match (i.opcode.as_str(), negative(a), negative(b)) {
            ("add", _, Some(b)) => Some(("sub", a.clone(), b)),
            ("add", Some(a), None) => Some(("sub", b.clone(), a)),
            ("sub", _, Some(b)) => Some(("add", a.clone(), b)),
            _ => None,
        };
        if let Some((opcode, a, b)) = changed {
            opcode.clone_into(&mut i.opcode);
            i.operands = vec![to, a, b];
        }
    });
}

/// Removes copies, pairs and negations that are never read.
fn without_unread(body: &mut Vec<Statement>) {
    loop {
        let read: HashSet<String> = reads(body).into_keys().map(str::to_owned).collect();
        let is_unread = |i: &Instruction| {
            let negative = i.opcode == "neg" && i.guard.is_none();
            let to = match i.operands.first() {
                Some(one @ Operand::Name(_)) => std::slice::from_ref(one),
                Some(Operand::Vector(list)) => list.as_slice(),
                _ => return false,
            };
            let unread = |one: &Operand| match one {
                Operand::Name(name) => !read.contains(name),
                Operand::Sink => true,
                _ => false,
            };
            (negative || is_move(i)) && to.iter().all(unread)
        };
        if !dropped(body, &is_unread) {
            return;
        }
    }
}

fn dropped(body: &mut Vec<Statement>, is_unread: &impl Fn(&Instruction) -> bool) -> bool {
    let before = body.len();
    body.retain(|statement| !matches!(statement, Statement::Instruction(i) if is_unread(i)));
    let mut any = body.len() < before;
    for statement in body {
        if let Statement::Block(inner) = statement {
            any |= dropped(inner, is_unread);
        }
    }
    any
}
