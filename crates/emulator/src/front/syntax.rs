//! Whether an instruction is one of the forms that PTX has: its modifiers and operands are matched with the table `syntax/forms.txt`
//! before a decoder sees them, so that nothing is left over and no decoder has to look.
//!
//! The table describes what ptxas 13.5 accepts. ptxas takes modifiers in any order, except those of the opcode's name and the order of
//! types among themselves.

mod classes;
mod listed;
mod notation;
mod operand;
mod special;

use std::collections::HashMap;
use std::sync::LazyLock;

use ptx::Instruction;
use ptx::arch::PtxIsa;

pub(crate) use classes::passes_as;
pub use listed::{ListedForm, ListedOperand, ListedWords, listed_forms};
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
    first(forms.iter().map(|form| form.matches(names, i))).map_err(|why| {
        let near = nearest(i).map_or_else(String::new, |form| format!("; the nearest form is `{form}`"));
        why + &near
    })
}

/// The form nearest to an instruction whose modifiers PTX lacks.
fn nearest(i: &Instruction) -> Option<String> {
    // LLVM, Triton and Rust say `i32` of a signed integer.
    let signed = |word: &String| match word.strip_prefix('i') {
        Some(bits) if matches!(bits, "8" | "16" | "32" | "64") => format!("s{bits}"),
        _ => word.clone(),
    };
    let written: Vec<String> = i.modifiers.iter().map(signed).collect();
    let text = [std::slice::from_ref(&i.opcode), written.as_slice()].concat().join(".");
    match modifiers(&text)? {
        Modifiers::Since(_) => (written != i.modifiers).then_some(text),
        Modifiers::Near(near) => near.into_iter().next(),
    }
}

/// What the table says of an opcode with its modifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modifiers {
    /// PTX has them for some target and some operands, from this version on.
    Since(PtxIsa),
    /// PTX lacks them; these are the forms that differ in few modifiers, the nearest first.
    Near(Vec<String>),
}

/// The most modifiers in which a form differs that is still near.
const MOST: usize = 3;
/// The most forms that one line of the table contributes.
const SPELLED_OUT: usize = 64;

/// Looks up an opcode with its modifiers, such as `mul.frob.u32`. `None` if the table does not list the opcode.
#[must_use]
pub fn modifiers(instruction: &str) -> Option<Modifiers> {
    let mut words = instruction.split('.');
    let opcode = words.next().unwrap_or_default();
    let modifiers: Vec<&str> = words.collect();
    let forms = FORMS.get(opcode)?;
    let since = forms.iter().filter_map(|form| Some(form.words(opcode, &modifiers).ok()?.0)).min();
    if let Some((major, minor)) = since {
        let number = |part: u32| u16::try_from(part).unwrap_or(u16::MAX);
        return Some(Modifiers::Since(PtxIsa { major: number(major), minor: number(minor) }));
    }
    let mut near: Vec<(usize, String)> = Vec::new();
    for (changes, words) in forms.iter().flat_map(|form| form.near(&modifiers)) {
        let form = [&[opcode], words.as_slice()].concat().join(".");
        if !near.iter().any(|(_, other)| *other == form) {
            near.push((changes, form));
        }
    }
    near.sort_by_key(|(changes, _)| *changes);
    Some(Modifiers::Near(near.into_iter().map(|(_, form)| form).collect()))
}

/// The first match, or why the nearest form does not match.
fn first<T>(matches: impl Iterator<Item = Result<T, Miss>>) -> Result<T, String> {
    let mut nearest: Option<Miss> = None;
    for one in matches {
        match one {
            Ok(found) => return Ok(found),
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
        let modifiers: Vec<&str> = i.modifiers.iter().map(String::as_str).collect();
        let (since, types) = self.words(&i.opcode, &modifiers)?;
        let near = 1000;
        operand::check(names, &self.operands, i, &types)
            .map_err(|(at, why)| Miss { near: near + at, why })?;
        Ok(since)
    }

    /// Matches the opcode and its modifiers. Returns the version of PTX that they require and the types among them.
    fn words<'a>(&'a self, opcode: &str, modifiers: &[&'a str]) -> Result<(Version, Vec<&'a str>), Miss> {
        let miss = |near: usize, why: String| Miss { near, why };
        if !modifiers.starts_with(&self.name) {
            let form = [&[opcode], modifiers].concat().join(".");
            return Err(miss(0, format!("there is no `{form}`")));
        }
        let mut left = modifiers[self.name.len()..].to_vec();
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
            let near = 1 + modifiers.len() - left.len();
            return Err(miss(near, format!("the modifier `.{word}` does not belong there")));
        }
        Ok((since, types))
    }

    /// Returns the modifiers nearest to `modifiers` that match, in the form's order, each with the number of modifiers that differ: those that
    /// match are kept, those that are required are added.
    fn near<'a>(&'a self, modifiers: &[&'a str]) -> Vec<(usize, Vec<&'a str>)> {
        let mut left = modifiers.to_vec();
        let mut lacking = 0;
        let mut out: Vec<Vec<&str>> = vec![Vec::new()];
        let name = self.name.iter().map(|word| (vec![*word], false));
        let groups =
            self.groups.iter().map(|group| (group.words.iter().map(|(w, _)| *w).collect(), group.optional));
        for (words, optional) in name.chain(groups) {
            let choices = match left.iter().position(|word| words.contains(word)) {
                Some(at) => vec![left.remove(at)],
                None if optional => continue,
                None => {
                    lacking += 1;
                    words
                }
            };
            let with = |chosen: &Vec<&'a str>| {
                let chosen = chosen.clone();
                let one = move |word: &&'a str| [chosen.as_slice(), &[*word]].concat();
                choices.iter().map(one).collect::<Vec<_>>()
            };
            out = out.iter().flat_map(with).take(SPELLED_OUT).collect();
        }
        let changes = lacking.max(left.len());
        if changes > MOST { Vec::new() } else { out.into_iter().map(|words| (changes, words)).collect() }
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
    use super::{FORMS, Modifiers, modifiers, notation};
    use crate::isa::{Coverage, coverage};

    #[test]
    fn the_table_is_well_formed() {
        for line in notation::lines() {
            notation::check(line).unwrap_or_else(|why| panic!("{line}: {why}"));
        }
    }

    #[test]
    fn the_nearest_modifiers_are_those_of_the_nearest_forms() {
        let since = |instruction: &str| match modifiers(instruction) {
            Some(Modifiers::Since(version)) => version.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(since("mul.wide.u32"), "1.0");
        assert_eq!(since("add.sat.u32"), "9.2");
        assert_eq!(modifiers("no_opcode.u32"), None);
        let near = |instruction: &str| match modifiers(instruction) {
            Some(Modifiers::Near(forms)) => forms,
            other => panic!("{other:?}"),
        };
        assert_eq!(near("mul.frob.u32")[..3], ["mul.lo.u32", "mul.hi.u32", "mul.wide.u32"]);
        assert!(near("add.sat.sat.s32").contains(&"add.sat.s32".to_owned()));
        assert_eq!(near("cvt.rn.satfinite.f16x2.e4m3x2")[0], "cvt.rn.satfinite.e4m3x2.f16x2");
        let layouts = near("mma.sync.aligned.m16n8k16.col.row.f32.bf16.bf16.f32");
        assert_eq!(layouts[0], "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
        let scales = near(
            "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3",
        );
        assert!(scales[0].ends_with(".scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"), "{scales:?}");
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
