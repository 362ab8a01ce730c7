//! The notation of `forms.txt`.
//!
//! A line is a form: its name, groups of modifiers, `--`, operands. a line that begins with `#` is a comment, `$NAME = A|B` defines a list of words.
//! Versions of PTX follow `@`: `bmsk@7.6`, `.clamp|wrap@8.0`.
//!
//! | group | |
//! |---|---|
//! | `.a\|b` | one of these words |
//! | `?a\|b` | one of them or none |
//! | `:u32\|s32` | one of these types; the operands refer to types by their position, from 1 |
//! | `?:u32\|s32` | one of them or none |
//! | `%global` | a word whose order among other words with `%` matters |
//!
//! Operands are described in `operand.rs`.

use std::collections::HashMap;

use super::operand::Slot;
use super::{Form, Group, Order, Version};

const TABLE: &str = include_str!("forms.txt");

/// The lines of the table other than comments.
pub(super) fn lines() -> impl Iterator<Item = &'static str> {
    TABLE.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The forms of the table, by opcode. A test checks that it is well formed.
pub(super) fn table() -> HashMap<&'static str, Vec<Form>> {
    let mut macros: HashMap<&str, &'static str> = HashMap::new();
    let mut forms: HashMap<&'static str, Vec<Form>> = HashMap::new();
    for line in lines() {
        if let Some((name, words)) = line.strip_prefix('$').and_then(|rest| rest.split_once(" = ")) {
            macros.insert(name.trim(), words.trim());
            continue;
        }
        let (opcode, form) = form(line, &macros);
        forms.entry(opcode).or_default().push(form);
    }
    forms
}

fn form(line: &'static str, macros: &HashMap<&str, &'static str>) -> (&'static str, Form) {
    let mut tokens = line.split_whitespace();
    let (name, since) = versioned(tokens.next().unwrap_or_default());
    let mut words = name.split('.');
    let opcode = words.next().unwrap_or_default();
    let name = words.collect();
    let mut groups = Vec::new();
    for token in tokens.by_ref() {
        if token == "--" {
            break;
        }
        let optional = token.starts_with('?');
        let rest = token.strip_prefix('?').unwrap_or(token);
        let order = match rest.chars().next() {
            Some(':') => Order::Types,
            Some('%') => Order::Spaces,
            _ => Order::Any,
        };
        let rest = rest.strip_prefix([':', '%', '.']).unwrap_or(rest);
        let words = rest.split('|').flat_map(|word| expanded(word, macros)).collect();
        groups.push(Group { words, optional, order });
    }
    (opcode, Form { name, since, groups, operands: tokens.map(Slot::written).collect() })
}

/// The words of a list by name, or a word itself.
fn expanded(word: &'static str, macros: &HashMap<&str, &'static str>) -> Vec<(&'static str, Version)> {
    match word.strip_prefix('$').and_then(|name| macros.get(name)) {
        Some(words) => words.split('|').flat_map(|word| expanded(word, macros)).collect(),
        None => vec![versioned(word)],
    }
}

/// A word and the version behind its `@`; 1.0 without one.
fn versioned(word: &'static str) -> (&'static str, Version) {
    let number = |text: &str| text.parse().unwrap_or(u32::MAX);
    match word.split_once('@') {
        Some((word, version)) => {
            let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
            (word, (number(major), number(minor)))
        }
        None => (word, (1, 0)),
    }
}

/// Checks a line.
#[cfg(test)]
pub(super) fn check(line: &str) -> Result<(), String> {
    let words = |text: &str| -> Result<(), String> {
        for word in text.split('|') {
            let (word, version) = word.split_once('@').unwrap_or((word, "1.0"));
            let named = word.starts_with('$') && TABLE.contains(&format!("\n{word} = "));
            let plain =
                !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
            let number = version
                .split_once('.')
                .is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok());
            if !(named || plain) || !number {
                return Err(format!("the word `{word}` of version `{version}`"));
            }
        }
        Ok(())
    };
    if let Some((_, list)) = line.strip_prefix('$').and_then(|rest| rest.split_once(" = ")) {
        return words(list);
    }
    let (form, operands) = line.split_once(" --").ok_or("no `--`")?;
    let mut groups = form.split_whitespace();
    words(&groups.next().unwrap_or_default().replace('.', ":"))
        .or_else(|why| if form.contains('@') { Ok(()) } else { Err(why) })?;
    for group in groups {
        let rest = group.strip_prefix('?').or_else(|| group.strip_prefix('.')).unwrap_or(group);
        words(rest.strip_prefix([':', '%']).unwrap_or(rest))?;
    }
    for operand in operands.split_whitespace() {
        super::operand::well_formed(operand)?;
    }
    Ok(())
}
