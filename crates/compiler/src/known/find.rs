//! Finds known miscompiles in a module.

use ptx::{Instruction, Item, Module, Operand, Span, Statement, Type};

use super::facts::Facts;
use super::pattern::{OperandPattern, Pattern, Repeats};
use super::{Miscompile, miscompiles};

/// A place of a module that matches a known miscompile.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The miscompile.
    pub miscompile: &'static Miscompile,
    /// The function that contains it.
    pub function: String,
    /// The instruction with its modifiers.
    pub form: String,
    /// Its range in the text.
    pub span: Span,
}

/// Returns every place that matches a known miscompile, in text order; targets and toolkits are up to the caller.
#[must_use]
pub fn find(module: &Module) -> Vec<Found> {
    let mut found = Vec::new();
    for item in &module.items {
        let Item::Function(function) = item else { continue };
        let Some(body) = &function.body else { continue };
        let facts = Facts::new(body);
        for (at, i) in facts.instructions.iter().enumerate() {
            for miscompile in miscompiles() {
                if miscompile.patterns.iter().any(|pattern| matches(pattern, &facts, at, i)) {
                    let (function, form) = (function.name.clone(), i.form());
                    found.push(Found { miscompile, function, form, span: i.span });
                }
            }
        }
    }
    found
}

/// Returns the module without the instructions at these places. What they define keeps its earlier value, so a kernel whose registers all
/// have one stays defined.
#[must_use]
pub fn without(module: &Module, places: &[Span]) -> Module {
    fn remove(body: &mut Vec<Statement>, places: &[Span]) {
        body.retain(|statement| !matches!(statement, Statement::Instruction(i) if places.contains(&i.span)));
        for statement in body {
            if let Statement::Block(inner) = statement {
                remove(inner, places);
            }
        }
    }
    let mut left = module.clone();
    for item in &mut left.items {
        if let Item::Function(function) = item
            && let Some(body) = &mut function.body
        {
            remove(body, places);
        }
    }
    left
}

fn matches(pattern: &Pattern, facts: &Facts<'_>, at: usize, i: &Instruction) -> bool {
    let repeats = |how: Repeats| match how {
        Repeats::InLoop => facts.loops_around(at).next().is_some(),
        Repeats::InUniformLoop => facts.loops_around(at).any(|(branch_at, branch)| {
            let uniform = |g: &ptx::Guard| facts.is_uniform(&Operand::Name(g.register.clone()), branch_at);
            branch.guard.as_ref().is_some_and(uniform)
        }),
        Repeats::SameHighProduct => facts.repeats_high_product(at),
        Repeats::SameHighProductInLoop => facts.adds_high_product_in_loop(at),
        Repeats::GuardChangesInLoop => facts.guard_changes_in_loop(at),
        Repeats::PredicateChangesInLoop => facts.predicate_changes_in_loop(at),
    };
    matches_words(pattern, i)
        && pattern.repeats.is_none_or(repeats)
        && pattern.operands.iter().all(|operand| matches_operand(operand, facts, at, i))
}

fn matches_words(pattern: &Pattern, i: &Instruction) -> bool {
    let types: Vec<&String> = i.modifiers.iter().filter(|m| is_type(m)).collect();
    let typed = pattern
        .types
        .iter()
        .enumerate()
        .all(|(n, allowed)| types.get(n).is_some_and(|ty| allowed.is_empty() || allowed.contains(ty)));
    (pattern.opcode.is_empty() || pattern.opcode.contains(&i.opcode))
        && pattern.has.iter().all(|word| i.has(word))
        && pattern.one_of.iter().all(|words| words.iter().any(|word| i.has(word)))
        && !pattern.lacks.iter().any(|word| i.has(word))
        && pattern.guarded.is_none_or(|guarded| guarded == i.guard.is_some())
        && typed
}

/// Whether a modifier is a type, also one of those that registers have no declaration of.
fn is_type(word: &str) -> bool {
    Type::named(word).is_some()
        || ["tf32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "s4", "u4", "b1"].contains(&word)
}

fn matches_operand(wanted: &OperandPattern, facts: &Facts<'_>, at: usize, i: &Instruction) -> bool {
    let Some(operand) = i.operands.get(wanted.at) else { return false };
    let holds =
        |constant: &super::Constant| facts.constant(operand, at).is_some_and(|bits| constant.admits(bits));
    let vector = |(length, constant): &(usize, super::Constant)| match operand {
        Operand::Vector(list) if list.len() == *length => {
            list.iter().any(|one| facts.constant(one, at).is_some_and(|bits| constant.admits(bits)))
        }
        _ => false,
    };
    let defined_by = |operand: &Operand, pattern: &Pattern| {
        facts.defined(operand, at).is_some_and(|(place, i)| matches(pattern, facts, place, i))
    };
    let defined = |pattern: &Pattern| match operand {
        Operand::Vector(list) => list.iter().any(|one| defined_by(one, pattern)),
        one => defined_by(one, pattern),
    };
    let may_be_defined = |pattern: &Pattern| {
        let one = match operand {
            Operand::Vector(list) => list.last(),
            one => Some(one),
        };
        let matching = |(place, i): (usize, &Instruction)| matches(pattern, facts, place, i);
        one.is_some_and(|one| facts.possible(one, at).into_iter().any(matching))
    };
    let guards = || {
        let guard = i.guard.as_ref().map(|guard| guard.register.as_str());
        guard.is_some()
            && match operand {
                Operand::Not(name) => Some(name.as_str()) == guard,
                other => predicate(other) == guard,
            }
    };
    wanted.constant.as_ref().is_none_or(holds)
        && wanted.vector_of_constant.as_ref().is_none_or(vector)
        && wanted.uniform.is_none_or(|uniform| uniform == facts.is_uniform(operand, at))
        && wanted.may_exceed.is_none_or(|most| facts.may_exceed(operand, at, most))
        && (wanted.part.is_empty() || part(operand).is_some_and(|p| wanted.part.iter().any(|w| w == p)))
        && (!wanted.nonnegative
            || is_computed(operand, facts, at) && facts.is_nonnegative(operand, at, false))
        && (!wanted.positive || is_computed(operand, facts, at) && facts.is_nonnegative(operand, at, true))
        && wanted.shifts.is_none_or(|other| i.operands.get(other).is_some_and(|other| shifts(operand, other)))
        && wanted.defined_by.as_deref().is_none_or(defined)
        && wanted.may_be_defined_by.as_deref().is_none_or(may_be_defined)
        && (!wanted.half_of_64_bits || facts.is_half_of_64_bits(operand, at))
        && (!wanted.is_guard || guards())
        && (!wanted.guards_before_branch || facts.guards_before_branch(operand, at))
        && (!wanted.decides_in_skipped_block || facts.decides_in_skipped_block(operand, at))
        && (!wanted.predicate_decides_branch || predicate(operand).is_some_and(|p| decides_name(p, facts)))
        && (!wanted.decides_branch || decides(operand, facts))
}

/// Whether an operand is a register that is no constant.
fn is_computed(operand: &Operand, facts: &Facts<'_>, at: usize) -> bool {
    matches!(operand, Operand::Name(_)) && facts.constant(operand, at).is_none()
}

/// The part of a register that an operand of a video instruction names.
fn part(operand: &Operand) -> Option<&str> {
    match operand {
        Operand::Name(name) => name.rsplit_once('.').map(|(_, part)| part),
        _ => None,
    }
}

/// The predicate of `d|p`, or a register itself.
fn predicate(operand: &Operand) -> Option<&str> {
    match operand {
        Operand::Name(name) => Some(name),
        Operand::Pair(_, second) => predicate(second),
        _ => None,
    }
}

fn decides(operand: &Operand, facts: &Facts<'_>) -> bool {
    let mut found = false;
    super::facts::each_name(operand, &mut |name| found |= decides_name(name, facts));
    found
}

fn decides_name(name: &str, facts: &Facts<'_>) -> bool {
    // The name in the tree, which lives as long as the facts.
    let own = facts.instructions.iter().find_map(|i| {
        let mut same = None;
        i.each_name(|other| same = if other == name { Some(other) } else { same });
        same
    });
    own.is_some_and(|own| facts.decides_branch(own))
}

/// Whether two vectors share a register at different places.
fn shifts(one: &Operand, other: &Operand) -> bool {
    let (Operand::Vector(one), Operand::Vector(other)) = (one, other) else { return false };
    one.iter().enumerate().any(|(n, a)| {
        matches!(a, Operand::Name(_)) && other.iter().enumerate().any(|(m, b)| n != m && a == b)
    })
}
