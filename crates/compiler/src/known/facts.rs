//! What data flow shows about the registers of one function: constants, upper bounds, signs, and values that all lanes share.
//!
//! Every fact is about a register with the definitions that the text has, whatever path is taken. A fact that would need more (an order of
//! definitions, the state of memory) is not derived.

use std::collections::{HashMap, HashSet};

use ptx::{Address, AddressBase, Immediate, Instruction, Operand, Statement};

/// The most instructions of a block that ptxas executes under a predicate instead of a branch; seen with up to eight.
const SKIPPED: usize = 9;

/// How many moves a constant is followed through.
const DEPTH: usize = 8;

/// One function, flattened, with its facts.
pub(super) struct Facts<'a> {
    /// The instructions in text order.
    pub(super) instructions: Vec<&'a Instruction>,
    /// The index of the instruction that follows a label.
    labels: HashMap<&'a str, usize>,
    definitions: HashMap<&'a str, Vec<usize>>,
    /// Jumps forward: from and to.
    jumps: Vec<(usize, usize)>,
    divergent: HashSet<&'a str>,
}

/// The high half of a product that an instruction adds.
#[derive(Clone, Copy)]
struct HighProduct<'a> {
    factors: [&'a Operand; 2],
    /// Where it is multiplied.
    place: usize,
    /// What it is added to.
    addend: &'a Operand,
}

/// A function's tables of labels.
type Tables<'a> = HashMap<&'a str, &'a [String]>;

impl<'a> Facts<'a> {
    pub(super) fn new(body: &'a [Statement]) -> Self {
        let mut facts = Self {
            instructions: Vec::new(),
            labels: HashMap::new(),
            definitions: HashMap::new(),
            jumps: Vec::new(),
            divergent: HashSet::new(),
        };
        let mut tables = Tables::new();
        facts.flatten(body, &mut tables);
        for (at, i) in facts.instructions.iter().enumerate() {
            results(i, &mut |name| facts.definitions.entry(name).or_default().push(at));
        }
        facts.find_jumps(&tables);
        facts.spread_divergence();
        facts
    }

    fn find_jumps(&mut self, tables: &Tables<'a>) {
        for (at, i) in self.instructions.iter().enumerate() {
            let Some(Operand::Name(to)) = i.operands.last() else { continue };
            let labels: Vec<&str> = match i.opcode.as_str() {
                "bra" => vec![to],
                "brx" => tables.get(to.as_str()).into_iter().copied().flatten().map(String::as_str).collect(),
                _ => continue,
            };
            let targets = labels.into_iter().filter_map(|label| self.labels.get(label));
            self.jumps.extend(targets.filter(|to| **to > at).map(|to| (at, *to)));
        }
    }

    fn flatten(&mut self, body: &'a [Statement], tables: &mut Tables<'a>) {
        for statement in body {
            match statement {
                Statement::Instruction(i) => self.instructions.push(i),
                Statement::Label { name, .. } => {
                    self.labels.insert(name, self.instructions.len());
                }
                Statement::BranchTargets { name, labels } => {
                    tables.insert(name, labels);
                }
                Statement::Block(inner) => self.flatten(inner, tables),
                _ => {}
            }
        }
    }

    /// Marks registers that lanes may hold different values of. It starts from what differs between lanes by itself and follows data
    /// flow and guards until nothing changes; registers only become divergent, so it ends.
    fn spread_divergence(&mut self) {
        loop {
            let before = self.divergent.len();
            for i in &self.instructions {
                let differs = differs_by_itself(i)
                    || i.guard.as_ref().is_some_and(|g| self.divergent.contains(g.register.as_str()))
                    || sources(i).any(|name| is_own_of_lane(name) || self.divergent.contains(name));
                // Votes and reductions give every lane the same.
                let shared = matches!(i.opcode.as_str(), "vote" | "redux");
                if differs && !shared {
                    results(i, &mut |name| {
                        self.divergent.insert(name);
                    });
                }
            }
            if self.divergent.len() == before {
                return;
            }
        }
    }

    /// The one definition of a register that reaches an instruction, with its place. There is one if
    /// * it is in the same block, the last before the instruction; or
    /// * the register has no other, or only earlier ones, and no jump passes over it: every path to a later instruction goes through it.
    ///
    /// None if it is guarded: the register may then keep an older value.
    fn definition(&self, register: &str, at: usize) -> Option<(usize, &'a Instruction)> {
        let all = self.definitions.get(register)?;
        let found = match all.iter().rev().find(|d| **d < at) {
            Some(last) => {
                let in_block = !self.labels.values().any(|label| (last + 1..=at).contains(label));
                let is_last = all.last() == Some(last);
                let passed = self.jumps.iter().any(|(from, to)| from < last && to > last);
                (in_block || is_last && (!passed || all.len() == 1)).then_some(*last)
            }
            // The only definition follows in the text: a loop brings it here.
            None => match all.as_slice() {
                [only] => Some(*only),
                _ => None,
            },
        }?;
        let i = self.instructions[found];
        i.guard.is_none().then_some((found, i))
    }

    /// The instruction that defines an operand at a place, if it is only one, with its own place.
    pub(super) fn defined(&self, operand: &Operand, at: usize) -> Option<(usize, &'a Instruction)> {
        match operand {
            Operand::Name(name) => self.definition(name, at),
            _ => None,
        }
    }

    /// The instructions that may have defined an operand at a place, with their places: the last of its block, those before it as long as that one is
    /// guarded, and if the block has none without a guard, every definition of the function.
    pub(super) fn possible(&self, operand: &Operand, at: usize) -> Vec<(usize, &'a Instruction)> {
        let Operand::Name(name) = operand else { return Vec::new() };
        let Some(all) = self.definitions.get(name.as_str()) else { return Vec::new() };
        let begin = self.labels.values().copied().filter(|label| *label <= at).max().unwrap_or_default();
        let mut found = Vec::new();
        for place in all.iter().rev().copied().filter(|place| (begin..at).contains(place)) {
            let i = self.instructions[place];
            found.push((place, i));
            if i.guard.is_none() {
                return found;
            }
        }
        all.iter().map(|place| (*place, self.instructions[*place])).collect()
    }

    /// The bits of a constant operand.
    pub(super) fn constant(&self, operand: &Operand, at: usize) -> Option<u64> {
        self.constant_within(operand, at, DEPTH)
    }

    fn constant_within(&self, operand: &Operand, at: usize, depth: usize) -> Option<u64> {
        match operand {
            Operand::Immediate(Immediate::Integer { bits, .. }) => Some(*bits),
            Operand::Immediate(Immediate::F32(x)) => Some(u64::from(x.to_bits())),
            Operand::Immediate(Immediate::F64(x)) => Some(x.to_bits()),
            Operand::Name(name) if depth > 0 => {
                let (place, i) = self.definition(name, at)?;
                let of = |operand| self.constant_within(operand, place, depth - 1);
                match (i.opcode.as_str(), i.operands.as_slice()) {
                    ("mov", [Operand::Vector(parts), whole]) => {
                        let bits = of(whole)?;
                        let n = parts.iter().position(|part| part == operand)?;
                        let width = 64 / u32::try_from(parts.len()).ok()?;
                        i.has("b64").then(|| bits >> (width * u32::try_from(n).unwrap_or(0)) & mask(width))
                    }
                    (_, [Operand::Name(_), sources @ ..]) => {
                        let values: Vec<u64> = sources.iter().map(of).collect::<Option<_>>()?;
                        folded(i, &values)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether all lanes have the same value of an operand, as far as the text shows.
    pub(super) fn is_uniform(&self, operand: &Operand, at: usize) -> bool {
        self.is_uniform_within(operand, at, DEPTH)
    }

    fn is_uniform_within(&self, operand: &Operand, at: usize, depth: usize) -> bool {
        let mut uniform = true;
        each_name(operand, &mut |name| {
            uniform &= !is_own_of_lane(name)
                && match self.definition(name, at) {
                    // The registers that it reads may have had other definitions where it is.
                    Some((place, i)) if depth > 0 => {
                        !differs_by_itself(i)
                            && sources(i).all(|source| {
                                self.is_uniform_within(&Operand::Name(source.to_owned()), place, depth - 1)
                            })
                    }
                    _ => !self.divergent.contains(name),
                };
        });
        uniform
    }

    /// Whether a register may hold more than `most`.
    pub(super) fn may_exceed(&self, operand: &Operand, at: usize, most: u64) -> bool {
        let Operand::Name(name) = operand else { return false };
        self.bound(name, at, DEPTH).is_none_or(|bound| bound > most)
    }

    /// An upper bound of a register, unsigned.
    fn bound(&self, name: &str, at: usize, depth: usize) -> Option<u64> {
        if depth == 0 {
            return None;
        }
        let (place, i) = self.definition(name, at)?;
        let of = |n: usize| match i.operands.get(n)? {
            Operand::Name(name) => self.bound(name, place, depth - 1),
            other => self.constant(other, place),
        };
        let number = |n: usize| u32::try_from(self.constant(i.operands.get(n)?, place)?).ok();
        let is_unsigned = i.modifiers.iter().any(|m| m.starts_with('u') || m.starts_with('b'));
        match i.opcode.as_str() {
            "mov" if i.operands.len() == 2 => of(1),
            "and" => [of(1), of(2)].into_iter().flatten().min(),
            "min" if is_unsigned => [of(1), of(2)].into_iter().flatten().min(),
            "rem" if is_unsigned => of(2).map(|n| n.saturating_sub(1)),
            "shr" if is_unsigned => Some(u64::from(u32::MAX).checked_shr(number(2)?).unwrap_or(0)),
            "bfe" if is_unsigned => 1u64.checked_shl(number(3)?).map(|n| n - 1),
            "ld" | "ldu" if i.has("u8") || i.has("b8") => Some(0xFF),
            "cvt" if i.modifiers.last().is_some_and(|from| from == "u8") => Some(0xFF),
            "popc" | "clz" => Some(64),
            _ => None,
        }
    }

    /// Whether an operand of type f32 is at least 0 (or, with `strict`, above 0) whenever it is not NaN.
    pub(super) fn is_nonnegative(&self, operand: &Operand, at: usize, strict: bool) -> bool {
        self.sign_within(operand, at, strict, DEPTH)
    }

    fn sign_within(&self, operand: &Operand, at: usize, strict: bool, depth: usize) -> bool {
        if let Some(bits) = self.constant(operand, at) {
            let x = f32::from_bits(u32::try_from(bits & 0xFFFF_FFFF).unwrap_or_default());
            return if strict { x > 0.0 } else { x >= 0.0 };
        }
        let defined = self.defined(operand, at).filter(|(_, i)| depth > 0 && i.has("f32"));
        let Some((place, i)) = defined else { return false };
        // A flushed result is computed anew, and compared as it is.
        if i.has("ftz") && i.opcode != "ex2" {
            return false;
        }
        match i.opcode.as_str() {
            "abs" | "ex2" => !strict,
            "mul" => !strict && i.operands.len() == 3 && i.operands[1] == i.operands[2],
            "add" if i.operands.len() == 3 => {
                let sign = |n: usize, strict| self.sign_within(&i.operands[n], place, strict, depth - 1);
                sign(1, false) && sign(2, false) && (!strict || sign(1, true) || sign(2, true))
            }
            _ => false,
        }
    }

    /// The branches back over an instruction: each ends a loop that contains it.
    pub(super) fn loops_around(&self, at: usize) -> impl Iterator<Item = (usize, &'a Instruction)> {
        self.loops_from(at).map(|(_, place, i)| (place, i))
    }

    /// The loops that contain an instruction: where each begins, and its last branch.
    fn loops_from(&self, at: usize) -> impl Iterator<Item = (usize, usize, &'a Instruction)> {
        self.instructions.iter().enumerate().skip(at).filter_map(move |(place, i)| {
            let [Operand::Name(label)] = i.operands.as_slice() else { return None };
            let start = self.labels.get(label.as_str())?;
            (i.opcode == "bra" && *start <= at).then_some((*start, place, *i))
        })
    }

    /// Whether the guard of an instruction is defined behind it in a loop around it, and a branch before the loop has the same guard, which comes after a
    /// place where paths meet.
    pub(super) fn guard_changes_in_loop(&self, at: usize) -> bool {
        let i = self.instructions[at];
        let guard = i.guard.as_ref().map(|g| g.register.as_str());
        i.opcode != "bra" && guard.is_some_and(|guard| self.changes_in_loop(guard, at, false))
    }

    /// Whether a predicate among the sources of an instruction is defined by it or behind it in a loop around it, and a branch before the loop depends on
    /// the predicate, which comes after a place where paths meet.
    pub(super) fn predicate_changes_in_loop(&self, at: usize) -> bool {
        let i = self.instructions[at];
        let mut found = false;
        for operand in i.operands.iter().skip(1) {
            if let Operand::Name(name) | Operand::Not(name) = operand
                && self.decides_a_branch(name)
            {
                found |= self.changes_in_loop(name, at, true);
            }
        }
        found
    }

    /// Whether a register is the guard of a branch.
    fn decides_a_branch(&self, register: &str) -> bool {
        let guards = |i: &&Instruction| i.guard.as_ref().is_some_and(|g| g.register == register);
        self.instructions.iter().any(|i| i.opcode == "bra" && guards(i))
    }

    /// Whether a predicate guards an instruction before a place, other than a branch, and a branch jumps over the place from behind that instruction.
    pub(super) fn guards_before_branch(&self, predicate: &Operand, at: usize) -> bool {
        let Operand::Name(name) = predicate else { return false };
        self.jumps.iter().filter(|(from, to)| (*from..*to).contains(&at)).any(|(from, _)| {
            self.instructions[..*from]
                .iter()
                .any(|i| i.opcode != "bra" && i.guard.as_ref().is_some_and(|guard| guard.register == *name))
        })
    }

    /// Whether a predicate guards an instruction behind a place, or is the condition of a `selp` there, in a short block that a branch with a guard jumps over.
    pub(super) fn decides_in_skipped_block(&self, predicate: &Operand, at: usize) -> bool {
        const STAYS: [&str; 16] = [
            "bra", "brx", "call", "ret", "exit", "st", "ld", "ldu", "atom", "red", "bar", "barrier", "fence",
            "membar", "shfl", "mbarrier",
        ];
        let name = match predicate {
            Operand::Name(name) => name,
            _ => return false,
        };
        let decides = |i: &Instruction| {
            i.guard.as_ref().is_some_and(|guard| guard.register == *name)
                || i.opcode == "selp" && matches!(i.operands.last(), Some(Operand::Name(by)) if by == name)
        };
        self.jumps.iter().any(|(from, to)| {
            let block = self.instructions.get(from + 1..*to).unwrap_or_default();
            let short = (2..=SKIPPED).contains(&block.len());
            short
                && self.instructions[*from].guard.is_some()
                && !block.iter().any(|i| STAYS.contains(&i.opcode.as_str()))
                && block.iter().zip(from + 1..).any(|(i, place)| place > at && decides(i))
        })
    }

    /// Whether a predicate that an instruction reads is defined behind it in a loop around it (by `itself`, too, if it may) and not before it in that loop, and
    /// a branch before the loop depends on the predicate, which comes after a place where paths meet: a label to which something jumps forward, or an
    /// instruction with a guard that ptxas branches around.
    fn changes_in_loop(&self, predicate: &str, at: usize, itself: bool) -> bool {
        let Some(all) = self.definitions.get(predicate) else { return false };
        let branched = |i: &Instruction| {
            let words = [
                "mbarrier",
                "st",
                "ld",
                "ldu",
                "atom",
                "red",
                "fence",
                "membar",
                "nanosleep",
                "cp",
                "prefetch",
            ];
            i.guard.is_some() && words.contains(&i.opcode.as_str())
        };
        let meets = |place: usize| {
            self.jumps.iter().any(|(from, to)| *to <= place && from < to)
                || self.instructions[..place].iter().any(|i| branched(i))
        };
        let enters = |start: usize| {
            let from = all.iter().rev().find(|place| **place < start).map_or(0, |place| *place);
            (from..start).any(|place| {
                let branch = self.instructions[place];
                branch.opcode == "bra"
                    && branch.guard.as_ref().is_some_and(|g| g.register == predicate)
                    && meets(place)
            })
        };
        self.loops_from(at).any(|(start, end, _)| {
            let first = if itself { at } else { at + 1 };
            let behind = all.iter().any(|place| (first..=end).contains(place));
            behind && !all.iter().any(|place| (start..first).contains(place)) && enters(start)
        })
    }

    /// Whether an operand may be a half of 64 bits that instructions compute as a whole.
    pub(super) fn is_half_of_64_bits(&self, operand: &Operand, at: usize) -> bool {
        self.is_half_within(operand, at, DEPTH)
    }

    fn is_half_within(&self, operand: &Operand, at: usize, depth: usize) -> bool {
        let is_wide = |ty: &str| matches!(ty, "b64" | "u64" | "s64" | "f64");
        self.possible(operand, at).into_iter().any(|(place, i)| {
            match (i.opcode.as_str(), i.operands.as_slice()) {
                ("mov", [Operand::Vector(parts), whole]) => {
                    let packed = self.defined(whole, place).is_some_and(|(_, from)| {
                        from.opcode == "mov" && matches!(from.operands.get(1), Some(Operand::Vector(_)))
                    });
                    parts.len() == 2 && i.has("b64") && !packed && self.constant(whole, place).is_none()
                }
                ("mov", [_, from @ Operand::Name(_)]) => {
                    depth > 0 && self.is_half_within(from, place, depth - 1)
                }
                ("cvt", [_, from]) => match i.modifiers.as_slice() {
                    [to, wide] => {
                        matches!(to.as_str(), "u32" | "s32")
                            && is_wide(wide)
                            && self.constant(from, place).is_none()
                    }
                    _ => false,
                },
                ("vadd" | "vsub" | "vabsdiff" | "vmin" | "vmax" | "vshl" | "vshr" | "vmad", [to, ..]) => {
                    matches!(to, Operand::Name(name) if !name.contains('.'))
                }
                _ => false,
            }
        })
    }

    /// Whether an instruction adds the high half of a product to a sum that has it already: twice if a factor is a constant other than a power
    /// of two, else three times.
    pub(super) fn repeats_high_product(&self, at: usize) -> bool {
        let Some(term) = self.high_product(at) else { return false };
        let constant =
            |factor: &Operand| self.constant(factor, term.place).is_some_and(|c| !c.is_power_of_two());
        let before = if term.factors.iter().any(|f| constant(f)) { 2 } else { 3 };
        let mut last = (at, term);
        for _ in 0..before {
            let (at, term) = last;
            let Some((place, _)) = self.defined(term.addend, at) else { return false };
            let Some(earlier) = self.high_product(place).filter(|earlier| self.is_same(&term, earlier))
            else {
                return false;
            };
            last = (place, earlier);
        }
        true
    }

    /// Whether an instruction adds the high half of a product to its own result in a loop that defines no factor.
    pub(super) fn adds_high_product_in_loop(&self, at: usize) -> bool {
        let Some(term) = self.high_product(at) else { return false };
        let changes = |factor: &Operand, start: usize, end: usize| match factor {
            Operand::Name(name) => self
                .definitions
                .get(name.as_str())
                .is_some_and(|all| all.iter().any(|place| (start..=end).contains(place))),
            _ => false,
        };
        self.instructions[at].operands.first() == Some(term.addend)
            && self.loops_from(at).any(|(start, end, _)| {
                (start..=end).contains(&term.place) && !term.factors.iter().any(|f| changes(f, start, end))
            })
    }

    /// The high half of a product of 32 bits that an instruction adds: `mad.hi`, or `add` of what `mul.hi` gave.
    fn high_product(&self, at: usize) -> Option<HighProduct<'a>> {
        let is_short = |i: &Instruction| i.has("u32") || i.has("s32");
        let i = self.instructions[at];
        if i.guard.is_some() || i.has("sat") || !is_short(i) {
            return None;
        }
        match (i.opcode.as_str(), i.operands.as_slice()) {
            ("mad", [_, a, b, addend]) if i.has("hi") => {
                Some(HighProduct { factors: [a, b], place: at, addend })
            }
            ("add", [_, x, y]) => [(x, y), (y, x)].into_iter().find_map(|(addend, product)| {
                let (place, of) = self.defined(product, at)?;
                match of.operands.as_slice() {
                    [_, a, b] if of.opcode == "mul" && of.has("hi") && is_short(of) => {
                        Some(HighProduct { factors: [a, b], place, addend })
                    }
                    _ => None,
                }
            }),
            _ => None,
        }
    }

    /// Whether two products are the same by the definitions of their factors.
    fn is_same(&self, one: &HighProduct<'a>, other: &HighProduct<'a>) -> bool {
        let same = |(a, b): (&Operand, &Operand)| match (a, b) {
            (Operand::Name(name), Operand::Name(other_name)) => {
                let definition = self.definition(name, one.place).map(|(place, _)| place);
                name == other_name
                    && definition.is_some()
                    && definition == self.definition(name, other.place).map(|(place, _)| place)
            }
            _ => a == b,
        };
        one.place == other.place || one.factors.into_iter().zip(other.factors).all(same)
    }

    /// Whether a branch depends on a register, through any number of instructions other than those that give all lanes the same.
    pub(super) fn decides_branch(&self, register: &'a str) -> bool {
        let mut reached = HashSet::from([register]);
        loop {
            let before = reached.len();
            for i in &self.instructions {
                let reads = i.guard.as_ref().is_some_and(|g| reached.contains(g.register.as_str()))
                    || sources(i).any(|name| reached.contains(name));
                if !reads || matches!(i.opcode.as_str(), "vote" | "redux" | "match" | "bar" | "barrier") {
                    continue;
                }
                if matches!(i.opcode.as_str(), "bra" | "brx") {
                    return true;
                }
                results(i, &mut |name| {
                    reached.insert(name);
                });
            }
            if reached.len() == before {
                return false;
            }
        }
    }
}

/// The lowest bits of a number.
const fn mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// What an instruction gives for constants, as ptxas evaluates it: moves, integer arithmetic and logic of 32 and 64 bits. `None` of others.
fn folded(i: &Instruction, values: &[u64]) -> Option<u64> {
    let ty = i.modifiers.last().map(String::as_str)?;
    let width = match ty {
        "b16" | "u16" | "s16" => 16,
        "b32" | "u32" | "s32" | "f32" => 32,
        "b64" | "u64" | "s64" | "f64" => 64,
        _ => return None,
    };
    let cut = |x: u64| x & mask(width);
    let signed = |x: u64| (cut(x) << (64 - width)).cast_signed() >> (64 - width);
    let is_signed = ty.starts_with('s');
    let plain = |words: &[&str]| i.modifiers.len() == 1 + words.iter().filter(|w| i.has(w)).count();
    let x = match (i.opcode.as_str(), values) {
        ("mov", [a]) => *a,
        ("not", [a]) => !a,
        ("neg", [a]) if is_signed => a.wrapping_neg(),
        ("neg", [a]) if ty == "f32" && !f32::from_bits(u32::try_from(cut(*a)).ok()?).is_nan() => {
            a ^ (1 << 31)
        }
        ("cnot", [a]) => u64::from(cut(*a) == 0),
        ("brev", [a]) => cut(*a).reverse_bits() >> (64 - width),
        ("and", [a, b]) => a & b,
        ("or", [a, b]) => a | b,
        ("xor", [a, b]) => a ^ b,
        ("add", [a, b]) if plain(&[]) => a.wrapping_add(*b),
        ("sub", [a, b]) if plain(&[]) => a.wrapping_sub(*b),
        ("mul", [a, b]) if i.has("lo") => a.wrapping_mul(*b),
        ("mul24", [a, b]) if i.has("lo") && !is_signed => (a & mask(24)).wrapping_mul(b & mask(24)),
        ("mad", [a, b, c]) if i.has("lo") && plain(&["lo"]) => a.wrapping_mul(*b).wrapping_add(*c),
        ("min", [a, b]) if plain(&[]) && ty != "f32" && ty != "f64" => {
            let less = if is_signed { signed(*a) < signed(*b) } else { cut(*a) < cut(*b) };
            if less { *a } else { *b }
        }
        ("max", [a, b]) if plain(&[]) && ty != "f32" && ty != "f64" => {
            let more = if is_signed { signed(*a) > signed(*b) } else { cut(*a) > cut(*b) };
            if more { *a } else { *b }
        }
        ("shl", [a, n]) => u32::try_from(n & mask(32)).ok().filter(|n| *n < width).map_or(0, |n| a << n),
        ("shr", [a, n]) if !is_signed => {
            u32::try_from(n & mask(32)).ok().filter(|n| *n < width).map_or(0, |n| cut(*a) >> n)
        }
        ("popc" | "clz" | "bfind", [a]) if width == 32 => match (i.opcode.as_str(), is_signed) {
            ("popc", _) => u64::from(cut(*a).count_ones()),
            ("clz", _) => u64::from(cut(*a).leading_zeros() - 32),
            (_, false) if plain(&[]) && cut(*a) != 0 => u64::from(63 - cut(*a).leading_zeros()),
            _ => return None,
        },
        _ => return None,
    };
    let is_float = matches!(ty, "f32" | "f64") && i.opcode != "mov";
    (!is_float || i.opcode == "neg").then(|| cut(x))
}

/// Whether an instruction gives lanes different values whatever it reads.
fn differs_by_itself(i: &Instruction) -> bool {
    matches!(i.opcode.as_str(), "call" | "atom" | "elect" | "match" | "activemask")
}

/// Whether a special register differs between the lanes of a warp.
fn is_own_of_lane(name: &str) -> bool {
    name.starts_with("%tid")
        || name.starts_with("%laneid")
        || name.starts_with("%lanemask")
        || name.starts_with("%clock")
}

/// Whether the first operand of an instruction is a result.
fn writes_first(i: &Instruction) -> bool {
    !matches!(
        i.opcode.as_str(),
        "st" | "red"
            | "bra"
            | "brx"
            | "ret"
            | "exit"
            | "bar"
            | "barrier"
            | "membar"
            | "fence"
            | "prefetch"
            | "trap"
    ) && !matches!(
        i.operands.first(),
        None | Some(
            Operand::Address(_) | Operand::Qualified(..) | Operand::Composite(..) | Operand::Element(..)
        )
    )
}

/// Calls `f` with the registers that an instruction writes.
fn results<'a>(i: &'a Instruction, f: &mut impl FnMut(&'a str)) {
    let is_reduction = matches!(i.opcode.as_str(), "bar" | "barrier") && i.has("red");
    if (writes_first(i) || is_reduction)
        && let Some(first) = i.operands.first()
    {
        each_name(first, &mut |name| f(name.split_once('.').map_or(name, |(register, _)| register)));
    }
}

/// The names that an instruction reads; results that are also read are among them.
fn sources(i: &Instruction) -> impl Iterator<Item = &str> {
    let mut names = Vec::new();
    for operand in i.operands.iter().skip(usize::from(writes_first(i))) {
        each_name(operand, &mut |name| names.push(name));
    }
    names.into_iter()
}

/// Calls `f` with every name of an operand.
pub(super) fn each_name<'a>(operand: &'a Operand, f: &mut impl FnMut(&'a str)) {
    let base = |address: &'a Address, f: &mut dyn FnMut(&'a str)| {
        if let AddressBase::Name(name) = &address.base {
            f(name);
        }
    };
    match operand {
        Operand::Name(name) | Operand::Not(name) | Operand::Negate(name) | Operand::Offset(name, _) => {
            f(name)
        }
        Operand::Sink | Operand::Immediate(_) => {}
        Operand::Pair(a, b) => {
            each_name(a, f);
            each_name(b, f);
        }
        Operand::Vector(list) | Operand::Group(list) => list.iter().for_each(|one| each_name(one, f)),
        Operand::Address(address) | Operand::Qualified(address, _) => base(address, f),
        Operand::Composite(address, list) => {
            base(address, f);
            list.iter().for_each(|one| each_name(one, f));
        }
        Operand::Element(name, index) => {
            f(name);
            each_name(index, f);
        }
    }
}
