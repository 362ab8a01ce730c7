//! What a query of `explain` leads to: forms with their standing on SM12x, remedies, and what to ask next.

use std::fmt::Write;

use ptx::arch::Target;

use super::phrase::{clean, names, wrapped};
use super::style::{Styles, Tone};
use super::view::View;
use crate::lookup::{Found, Hit, Meaning};
use crate::record::{Matrix, VariantRow};

/// Returns the forms to which a query leads, as text.
#[must_use]
pub fn lookup(matrix: &Matrix, query: &str, found: &Found, styles: &Styles) -> String {
    let view = View::new(matrix);
    let is_whole = found.hits.first().is_none_or(|hit| hit.is_whole);
    let query = clean(query);
    let head = match &found.meaning {
        Meaning::Instruction(_) if is_whole => format!("`{query}`: an instruction of PTX"),
        Meaning::Instruction(_) => format!("`{query}`: no snippet has this form; the nearest"),
        Meaning::Message(_) => format!("`{query}`: a message of ptxas"),
        Meaning::Opcode(_) => {
            format!("`{query}`: an opcode of machine code, to which these forms are compiled")
        }
        Meaning::Name(forms) => format!("`{query}`: another name of {}", forms.join(", ")),
    };
    let mut out = styles.paint(Tone::Head, &head) + "\n";
    if let Some((cause, remedy)) = found.explained {
        out += &wrapped("  cause   ", clean(cause).split(' '));
        out += &wrapped("  remedy  ", clean(remedy).split(' '));
    } else if found.hits.is_empty() {
        out += "  no form of the matrix is near to it\n";
    }
    for hit in &found.hits {
        let Some(row) = matrix.variants.iter().find(|row| row.id == hit.variant) else { continue };
        let _ = write!(out, "\n{}\n", styles.paint(Tone::Head, &hit.variant));
        if !hit.form.is_empty() {
            out += &wrapped("  form      ", clean(&hit.form).split(' '));
        }
        out += &standing(&view, row, hit);
    }
    if let Some(first) = found.hits.first() {
        let _ = write!(out, "\nEvery toolkit, target and message: sm121probe explain {}\n", first.variant);
    }
    out
}

/// Which SM12x targets accept a form, since when, and what to use where none does.
fn standing(view: &View<'_>, row: &VariantRow, hit: &Hit) -> String {
    let targets: Vec<Target> = view.targets.iter().copied().filter(|target| target.is_sm12x()).collect();
    let mut accepted: Vec<(String, Vec<Target>)> = Vec::new();
    let mut refused = Vec::new();
    for target in targets {
        match view.since(row, target) {
            Some(since) => {
                let words = view.since_name(since);
                match accepted.iter_mut().find(|(known, _)| *known == words) {
                    Some((_, all)) => all.push(target),
                    None => accepted.push((words, vec![target])),
                }
            }
            None => refused.push(target),
        }
    }
    let mut out = String::new();
    for (since, targets) in &accepted {
        out += &wrapped("  accepted  ", format!("{}, since {since}", names(targets)).split(' '));
    }
    if !refused.is_empty() {
        out += &wrapped("  rejected  ", names(&refused).split(' '));
    }
    if let Some(instead) = &hit.instead {
        out += &wrapped("  instead   ", clean(instead).split(' '));
    }
    out
}
