//! Registers that instructions read and write.

use std::collections::HashMap;

use super::ast::{Address, AddressBase, Instruction, Operand, Statement};

/// Calls `f` with every instruction, in text order.
pub(crate) fn each<'a>(body: &'a [Statement], f: &mut impl FnMut(&'a Instruction)) {
    for statement in body {
        match statement {
            Statement::Instruction(i) => f(i),
            Statement::Block(inner) => each(inner, f),
            _ => {}
        }
    }
}

/// Like [`each`], with mutable instructions.
pub(crate) fn each_mut(body: &mut [Statement], f: &mut impl FnMut(&mut Instruction)) {
    for statement in body {
        match statement {
            Statement::Instruction(i) => f(i),
            Statement::Block(inner) => each_mut(inner, f),
            _ => {}
        }
    }
}

/// How often each register is defined.
pub(crate) fn definitions(body: &[Statement]) -> HashMap<&str, usize> {
    let mut found = HashMap::new();
    each(body, &mut |i| {
        if writes_first(i)
            && let Some(to) = i.operands.first()
        {
            names(to, &mut |name| *found.entry(name).or_default() += 1);
        }
    });
    found
}

/// How often each register is read.
pub(crate) fn reads<'a>(body: &'a [Statement]) -> HashMap<&'a str, usize> {
    let mut found = HashMap::new();
    each(body, &mut |i| {
        let mut count = |name: &'a str| *found.entry(name).or_default() += 1;
        if let Some(guard) = &i.guard {
            count(&guard.register);
        }
        i.operands.iter().skip(usize::from(writes_first(i))).for_each(|operand| names(operand, &mut count));
    });
    found
}

/// Whether the first operand is a result.
pub(crate) fn writes_first(i: &Instruction) -> bool {
    !matches!(
        i.operands.first(),
        None | Some(
            Operand::Address(_) | Operand::Qualified(..) | Operand::Composite(..) | Operand::Element(..)
        )
    )
}

/// Calls `f` with every name of an operand.
pub(crate) fn names<'a>(operand: &'a Operand, f: &mut impl FnMut(&'a str)) {
    match operand {
        Operand::Name(name) | Operand::Not(name) | Operand::Negate(name) | Operand::Offset(name, _) => {
            f(name)
        }
        Operand::Sink | Operand::Immediate(_) => {}
        Operand::Pair(a, b) => {
            names(a, f);
            names(b, f);
        }
        Operand::Vector(list) | Operand::Group(list) => list.iter().for_each(|one| names(one, f)),
        Operand::Address(address) | Operand::Qualified(address, _) => base(address, f),
        Operand::Composite(address, list) => {
            base(address, f);
            list.iter().for_each(|one| names(one, f));
        }
        Operand::Element(name, index) => {
            f(name);
            names(index, f);
        }
    }
}

fn base<'a>(address: &'a Address, f: &mut impl FnMut(&'a str)) {
    if let AddressBase::Name(name) = &address.base {
        f(name);
    }
}

/// Like [`names`], with mutable names.
pub(crate) fn names_mut(operand: &mut Operand, f: &mut impl FnMut(&mut String)) {
    match operand {
        Operand::Name(name) | Operand::Not(name) | Operand::Negate(name) | Operand::Offset(name, _) => {
            f(name)
        }
        Operand::Sink | Operand::Immediate(_) => {}
        Operand::Pair(a, b) => {
            names_mut(a, f);
            names_mut(b, f);
        }
        Operand::Vector(list) | Operand::Group(list) => list.iter_mut().for_each(|one| names_mut(one, f)),
        Operand::Address(address) | Operand::Qualified(address, _) => base_mut(address, f),
        Operand::Composite(address, list) => {
            base_mut(address, f);
            list.iter_mut().for_each(|one| names_mut(one, f));
        }
        Operand::Element(name, index) => {
            f(name);
            names_mut(index, f);
        }
    }
}

fn base_mut(address: &mut Address, f: &mut impl FnMut(&mut String)) {
    if let AddressBase::Name(name) = &mut address.base {
        f(name);
    }
}
