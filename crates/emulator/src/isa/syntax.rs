//! Whether an instruction is one of the forms that PTX has: its modifiers and operands are matched with the table `syntax/forms.txt`
//! before a decoder sees them, so that nothing is left over and no decoder has to look.
//!
//! The table describes what ptxas 13.5 accepts. ptxas takes modifiers in any order, except those of the opcode's name and the order of
//! types among themselves.

mod classes;
mod notation;
mod operand;
mod special;

use std::collections::HashMap;
use std::sync::LazyLock;

use ptx::Instruction;

pub(crate) use classes::passes_as;
pub(crate) use operand::{Named, Names, VariableSpace};
pub(crate) use special::is_special;

/// A version of PTX, as major and minor number.
pub(crate) type Version = (u32, u32);

/// A form of the table.
#[derive(Debug)]
struct Form {
    /// The words after the opcode that are part of its name, in order: `async`, `bulk` for `cp.async.bulk`.
    name: Vec<&'static str>,
    since: Version,
    groups: Vec<Group>,
    operands: Vec<operand::Slot>,
}

/// Words of which an instruction has one.
#[derive(Debug)]
struct Group {
    /// The words, each with the version of PTX that introduced it.
    words: Vec<(&'static str, Version)>,
    optional: bool,
    order: Order,
}

/// The groups among which the order of words matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Any,
    Types,
    Spaces,
}

/// What a form lacks, by how close the instruction is to it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Miss {
    /// The steps that match: words, number of operands, operands.
    near: usize,
    why: String,
}

static FORMS: LazyLock<HashMap<&'static str, Vec<Form>>> = LazyLock::new(notation::table);

/// The version of PTX that an instruction requires.
///
/// # Errors
/// Why it is no form of PTX. Instructions that the table does not list are left to their decoders.
pub(crate) fn check(names: &impl Names, i: &Instruction) -> Result<Version, String> {
    let Some(forms) = FORMS.get(i.opcode.as_str()) else { return Ok((1, 0)) };
    let mut unknown = None;
    if !matches!(i.opcode.as_str(), "bra" | "brx" | "call") {
        i.each_name(|name| {
            if name != "WARP_SZ" && names.named(name) == Named::Unknown {
                unknown = Some(name.to_owned());
            }
        });
    }
    if let Some(name) = unknown {
        return Err(names.unknown(&name));
    }
    let mut nearest: Option<Miss> = None;
    for form in forms {
        match form.matches(names, i) {
            Ok(since) => return Ok(since),
            Err(miss) => {
                if nearest.as_ref().is_none_or(|other| miss.near > other.near) {
                    nearest = Some(miss);
                }
            }
        }
    }
    let why = nearest.map_or_else(String::new, |miss| miss.why);
    Err(format!("PTX has no such form: {why}"))
}

impl Form {
    fn matches(&self, names: &impl Names, i: &Instruction) -> Result<Version, Miss> {
        let miss = |near: usize, why: String| Miss { near, why };
        let prefixed =
            i.modifiers.len() >= self.name.len() && i.modifiers.iter().zip(&self.name).all(|(a, b)| a == b);
        if !prefixed {
            return Err(miss(0, format!("there is no `{}`", i.form())));
        }
        let mut left: Vec<&str> = i.modifiers[self.name.len()..].iter().map(String::as_str).collect();
        let mut types = Vec::new();
        let mut since = self.since;
        let in_order = |word: &str, order: Order| {
            self.groups.iter().any(|g| g.order == order && g.words.iter().any(|(known, _)| *known == word))
        };
        for (n, group) in self.groups.iter().enumerate() {
            let found = left.iter().enumerate().find_map(|(at, word)| {
                let known = group.words.iter().find(|(known, _)| known == word)?;
                Some((at, *known))
            });
            // An earlier word of the same order belongs to this group or to none.
            let found = found.filter(|(at, _)| {
                group.order == Order::Any || !left[..*at].iter().any(|word| in_order(word, group.order))
            });
            match found {
                Some((at, (word, version))) => {
                    left.remove(at);
                    since = since.max(version);
                    if group.order == Order::Types {
                        types.push(word);
                    }
                }
                None if group.optional => {
                    if group.order == Order::Types {
                        types.push("");
                    }
                }
                None => {
                    let near = 1 + n;
                    let wanted: Vec<String> =
                        group.words.iter().map(|(word, _)| format!(".{word}")).collect();
                    let other =
                        left.first().map_or_else(String::new, |word| format!("; `.{word}` is none of them"));
                    return Err(miss(near, format!("it requires {}{other}", one_of(&wanted))));
                }
            }
        }
        if let Some(word) = left.first() {
            let near = 1 + i.modifiers.len() - left.len();
            return Err(miss(near, format!("the modifier `.{word}` does not belong there")));
        }
        let near = 1000;
        operand::check(names, &self.operands, i, &types).map_err(|(at, why)| miss(near + at, why))?;
        Ok(since)
    }
}

/// A list for a sentence: `.x`, or `one of .x, .y, .z`.
fn one_of(words: &[String]) -> String {
    match words {
        [only] => only.clone(),
        words if words.len() > 8 => format!("one of {}, …", words[..8].join(", ")),
        words => format!("one of {}", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Coverage, coverage};
    use super::{FORMS, notation};

    #[test]
    fn the_table_is_well_formed() {
        for line in notation::lines() {
            notation::check(line).unwrap_or_else(|why| panic!("{line}: {why}"));
        }
    }

    #[test]
    fn every_row_that_runs_has_forms() {
        // The decoder handles calls.
        let lacking: Vec<&str> = coverage()
            .filter(|row| row.coverage() == Coverage::Implemented)
            .map(|row| row.opcode)
            .filter(|row| !FORMS.contains_key(row.split('.').next().unwrap_or_default()))
            .collect();
        assert!(lacking.is_empty(), "{lacking:?}");
    }
}
