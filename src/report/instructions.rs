//! The instructions that the emulator implements, for the terminal, as Markdown and as CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::csv;
use super::markup::{Align, code, head, plain, row};
use super::phrase::{clean, hanging, percent};

/// Whether the emulator runs a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstructionState {
    /// It runs.
    Implemented,
    /// It is planned.
    Planned,
    /// It has no meaning on the emulated GPUs.
    OutOfScope,
}

impl InstructionState {
    const fn word(self) -> &'static str {
        match self {
            Self::Implemented => "implemented",
            Self::Planned => "planned",
            Self::OutOfScope => "out_of_scope",
        }
    }
}

/// A row of the emulator's instruction table.
#[derive(Debug, Clone, Copy)]
pub struct InstructionForm {
    /// The chapter of the PTX manual.
    pub chapter: &'static str,
    /// The opcode.
    pub opcode: &'static str,
    /// The forms in the manual's notation.
    pub forms: &'static str,
    /// Whether they run.
    pub state: InstructionState,
}

/// The instruction table, and the snippet variants that decode.
#[derive(Debug, Clone)]
pub struct Instructions {
    /// The rows, in the manual's order.
    pub forms: Vec<InstructionForm>,
    /// The target that the variants were decoded for.
    pub target: String,
    /// The number of variants of each family, and of those that decode.
    pub families: BTreeMap<String, (usize, usize)>,
    /// Variants that do not decode, each with the reason.
    pub missing: Vec<(String, String)>,
}

/// The rows of a chapter, and their number in each state.
type Chapter<'a> = (&'a str, Vec<&'a InstructionForm>, [usize; 3]);

impl Instructions {
    fn chapters(&self) -> Vec<Chapter<'_>> {
        let mut out: Vec<Chapter<'_>> = Vec::new();
        for form in &self.forms {
            let at = out.iter().position(|(name, _, _)| *name == form.chapter).unwrap_or_else(|| {
                out.push((form.chapter, Vec::new(), [0; 3]));
                out.len() - 1
            });
            out[at].1.push(form);
            out[at].2[form.state as usize] += 1;
        }
        out
    }

    /// `1,190 of 1,192 snippet variants decode for sm_121a (99.8 %)`.
    fn decoded(&self) -> String {
        let (all, decoded) = self.families.values().fold((0, 0), |sum, c| (sum.0 + c.0, sum.1 + c.1));
        let share = percent(decoded as u64, all as u64, 1);
        format!("{decoded} of {all} snippet variants decode for {} ({share})", self.target)
    }
}

/// A row for each row of the table.
#[must_use]
pub fn instructions_csv(forms: &[InstructionForm]) -> String {
    let head = ["chapter", "opcode", "forms", "state"];
    let rows = forms.iter().map(|f| [f.chapter, f.opcode, f.forms, f.state.word()]);
    csv::table(std::iter::once(head).chain(rows).map(|row| row.map(str::to_owned).to_vec()))
}

/// The rows by chapter, then the variants that decode; with `missing`, those that do not.
#[must_use]
pub fn instructions_text(all: &Instructions, missing: bool) -> String {
    let mut out = String::new();
    let mut sums = [0; 3];
    for (chapter, forms, counts) in all.chapters() {
        out.push_str(&hanging(&format!("{chapter}: "), 4, counted(counts).split(' ')));
        for form in forms {
            let mark = match form.state {
                InstructionState::Implemented => "",
                InstructionState::Planned => " [planned]",
                InstructionState::OutOfScope => " [out of scope]",
            };
            out.push_str(&hanging("  ", 6, format!("{}{mark}", form.forms).split(' ')));
        }
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    _ = writeln!(out, "\n{} rows: {}", sums.iter().sum::<usize>(), counted(sums));
    _ = writeln!(out, "{}:", all.decoded());
    for (family, (all, decoded)) in &all.families {
        _ = writeln!(out, "  {family}: {decoded} of {all}");
    }
    if missing {
        for (id, why) in &all.missing {
            _ = writeln!(out, "{id}: {}", clean(why));
        }
    }
    out
}

fn counted([implemented, planned, out_of_scope]: [usize; 3]) -> String {
    format!("{implemented} implemented, {planned} planned, {out_of_scope} out of scope")
}

/// The counts of each chapter and of the variants that decode, then the rows; with `missing`, the variants that do not decode.
#[must_use]
pub fn instructions_markdown(all: &Instructions, missing: bool) -> String {
    let mut out = head(&["chapter", "implemented", "planned", "out of scope"], Align::Right);
    let chapters = all.chapters();
    for (chapter, _, counts) in &chapters {
        let [implemented, planned, out_of_scope] = counts.map(|n| n.to_string());
        out.push_str(&row(&[plain(chapter), implemented, planned, out_of_scope]));
    }
    _ = writeln!(out, "\n{}.\n", all.decoded());
    out.push_str(&head(&["family", "variants", "decode"], Align::Right));
    for (family, (all, decoded)) in &all.families {
        out.push_str(&row(&[plain(family), all.to_string(), decoded.to_string()]));
    }
    for (chapter, forms, _) in &chapters {
        _ = write!(out, "\n## {}\n\n{}", plain(chapter), head(&["form", "state"], Align::Left));
        for form in forms {
            out.push_str(&row(&[code(form.forms), form.state.word().replace('_', " ")]));
        }
    }
    if missing {
        out.push_str("\n## Variants that do not decode\n\n");
        for (id, why) in &all.missing {
            _ = writeln!(out, "- {}: {}", code(id), plain(why));
        }
    }
    out
}
