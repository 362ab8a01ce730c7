//! Every variant, as Markdown: one table per family, one row per variant, one column per target.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::markup::{Align, code, head, plain, row, superscript};
use super::notes::{Notes, kinds};
use super::phrase::{counted, short};
use super::view::{Answer, View};
use crate::record::{Native, Record, VariantRow};

/// Every variant of the record as Markdown, with a legend, notes, causes and remedies.
#[must_use]
pub fn variants(record: &Record) -> String {
    render(&View::new(&record.matrix), 2)
}

/// What the cells mean.
fn legend(view: &View<'_>) -> String {
    let oldest = view.toolkits.first().map_or_else(String::new, ToString::to_string);
    format!(
        "| cell | meaning |\n|---|---|\n\
        | ✓ | accepted by every queried toolkit, {oldest} to {} |\n\
        | 13.1+ | accepted from 13.1 to the newest; older toolkits reject it or do not know the target |\n\
        | 12.9–13.0 only | accepted then, rejected later; without `only`: unknown to later toolkits |\n\
        | ✗ | rejected by every toolkit that knows the target |\n\
        | ⊘ | rejected, and absent by design: a confirmed claim says that the hardware has no such instruction |\n\
        | ? | unknown: no queried toolkit knows the target or the PTX version |\n\
        | · | not queried |\n\
        | crash, timeout | ptxas crashed or timed out |\n\
        | N, S, E | accepted, and the newest accepting toolkit's machine code is **N**ative (the hardware instruction), \
        **S**plit (several of them) or **E**mulated (expanded, or a call of a helper); no letter: unknown |\n\
        | ¹ | the message of the newest toolkit that rejects it, below the table |\n",
        view.newest_name()
    )
}

/// The catalogue under headings of level `level` and below.
pub(super) fn render(view: &View<'_>, level: usize) -> String {
    let marks = "#".repeat(level);
    let mut out = format!("{marks} Every variant\n\n{}\n", legend(view));
    let mut families: BTreeMap<&str, Vec<&VariantRow>> = BTreeMap::new();
    for variant in &view.matrix.variants {
        families.entry(view.family(variant)).or_default().push(variant);
    }
    let mut used = BTreeSet::new();
    for (family, variants) in families {
        let mut notes = Notes::default();
        let mut names = vec![counted(variants.len(), "variant")];
        names.extend(view.targets.iter().map(|t| short(*t)));
        _ = write!(out, "{marks}# {}\n\n{}", plain(family), head(&names, Align::Centre));
        for variant in variants {
            let mut cells = vec![code(&variant.id)];
            cells.extend(view.targets.iter().map(|target| {
                let history = view.history(variant, *target);
                let accepting = history.said().rev().find(|(_, a)| *a == Answer::Accepted);
                let native = accepting.and_then(|(t, _)| view.native(variant, t, *target));
                let mut text = history.summary(view, native.map_or("", letter));
                let refusal = history.newest_refusal().and_then(|t| view.message(variant, t, *target));
                if let Some(message) = refusal {
                    text.push_str(&superscript(notes.number(message)));
                }
                text
            }));
            out.push_str(&row(&cells));
        }
        used.extend(notes.kinds());
        _ = write!(out, "\n{}\n", notes.list(view.matrix));
    }
    if !used.is_empty() {
        _ = write!(out, "{marks} Why, and what to do\n\n{}", kinds(view.matrix, &used));
    }
    out
}

const fn letter(native: Native) -> &'static str {
    match native {
        Native::Native => " N",
        Native::Split => " S",
        Native::Emulated => " E",
        Native::Unknown => "",
    }
}
