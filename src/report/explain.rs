//! Everything that is known about one variant.

use std::fmt::Write;

use ptx::arch::Target;

use super::claims::{measured, says};
use super::phrase::{clean, names, wrapped};
use super::style::{Styles, Tone};
use super::view::{View, speaks_of};
use super::{notes, places};
use crate::record::{Cell, ClaimRow, MessageRow, Native, Outcome, Record, Standing, VariantRow};

/// Why a variant cannot be explained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// No variant has that name.
    #[error("{}", unknown(wanted, near))]
    Unknown {
        /// The requested name.
        wanted: String,
        /// Similar names, best first.
        near: Vec<String>,
    },
}

impl ExplainError {
    /// Returns the error for `wanted`, which is not one of `names`.
    #[must_use]
    pub fn unknown<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Self {
        Self::Unknown { wanted: wanted.to_owned(), near: crate::near::matches(wanted, names) }
    }
}

fn unknown(wanted: &str, near: &[String]) -> String {
    match near {
        // No variant has a space or a letter of another script in its name: it is an instruction or a message.
        _ if wanted.contains(|c: char| c.is_whitespace() || !c.is_ascii()) => format!(
            "nothing is known of `{wanted}`: it is no variant, instruction, message, opcode or name of CUDA or CUTLASS that is; give one \
             instruction, or the one line with the error; `sm121probe doctor --log FILE` reads a whole log"
        ),
        [] => format!("there is no variant `{wanted}`"),
        near => format!("there is no variant `{wanted}`; similar variants: {}", near.join(" ")),
    }
}

/// Returns everything that the record knows about the variant `id`, as text.
///
/// # Errors
/// [`ExplainError::Unknown`], with similar names.
pub fn explain(record: &Record, id: &str, styles: &Styles) -> Result<String, ExplainError> {
    Ok(painted(&plain(record, id)?, styles))
}

/// Colours by line: headings begin at the margin; outcomes and verdicts begin with words that select the colour.
fn painted(text: &str, styles: &Styles) -> String {
    let line = |line: &str| {
        let start = line.len() - line.trim_start().len();
        if start == 0 {
            return styles.paint(Tone::Head, line);
        }
        // A line of two columns: a name or toolkits, then two spaces and the text.
        let (name, said) = match line[start..].split_once("  ") {
            Some((name, said)) if start >= 2 => (&line[..start + name.len()], said),
            _ => return line.to_owned(),
        };
        let gap = said.len() - said.trim_start().len() + 2;
        let said = said.trim_start();
        let tone = match said.split([',', ':', ' ']).next().unwrap_or_default() {
            // A claim's statement is no result.
            _ if name.trim() == "says" => Tone::Plain,
            "accepted" if said.contains("code is native") => Tone::Doubt,
            "accepted" | "confirmed" => Tone::Good,
            "rejected" | "refuted" => Tone::Bad,
            "unknown" | "crashed" | "timed" | "untested" => Tone::Doubt,
            _ if matches!(name.trim(), "at" | "file" | "spec" | "where") => Tone::Faint,
            _ => Tone::Plain,
        };
        format!("{name}{:gap$}{}", "", styles.paint(tone, said))
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn plain(record: &Record, id: &str) -> Result<String, ExplainError> {
    let view = View::new(&record.matrix);
    let variants = &record.matrix.variants;
    let variant = variants
        .iter()
        .find(|v| v.id == id)
        .ok_or_else(|| ExplainError::unknown(id, variants.iter().map(|v| v.id.as_str())))?;
    let mut out = about(&view, variant);
    let (outcomes, crossed) = outcomes(&view, variant);
    _ = write!(out, "\nOutcomes\n{outcomes}");
    if !crossed.is_empty() {
        _ = write!(out, "\nOutcomes with another -arch than the .target\n{crossed}");
    }
    out.push_str(&messages(&view, variant));
    out.push_str(&opcodes(&view, variant));
    out.push_str(&claims(&view, variant));
    Ok(out)
}

fn about(view: &View<'_>, variant: &VariantRow) -> String {
    let mut out = format!("{}\n", clean(&variant.id));
    let Some(snippet) = view.matrix.snippets.get(variant.snippet) else { return out };
    // The folder on the user's machine is not shown.
    let file = if snippet.file.starts_with('/') {
        snippet.file.rsplit('/').next().unwrap_or_default()
    } else {
        snippet.file.as_str()
    };
    let opcodes = variant.expects.join(" or ");
    for (name, text) in [
        ("about", snippet.about.as_str()),
        ("spec", snippet.spec.as_str()),
        ("file", file),
        ("grants", &snippet.grants.join(" ")),
        ("proof", &if opcodes.is_empty() { opcodes } else { format!("{opcodes} in the machine code") }),
    ] {
        if !text.is_empty() {
            out.push_str(&wrapped(&format!("  {name:<8}"), clean(text).split(' ')));
        }
    }
    out
}

/// The content of a cell in words.
fn words(cell: &Cell<'_>) -> &'static str {
    match (cell.outcome, cell.native) {
        (Outcome::Accepted, Some(Native::Native)) => "accepted, native",
        (Outcome::Accepted, Some(Native::Split)) => "accepted, split into several hardware instructions",
        (Outcome::Accepted, Some(Native::Emulated)) => "accepted, emulated",
        (Outcome::Accepted, Some(Native::Unknown) | None) => "accepted, not known whether the code is native",
        (Outcome::Rejected, _) => "rejected",
        (Outcome::UnknownTarget, _) => "unknown: the toolkit does not know the target",
        (Outcome::UnsupportedIsa, _) => "unknown: the toolkit does not support the PTX version",
        (Outcome::Crashed, _) => "crashed",
        (Outcome::TimedOut, _) => "timed out",
    }
}

/// Targets with equal answers share their lines: one per range of toolkits. Their own `-arch` comes first, then others.
fn outcomes(view: &View<'_>, variant: &VariantRow) -> (String, String) {
    let mut archs: Vec<Target> = view.matrix.pairs.iter().map(|p| p.arch).collect();
    archs.sort_by_key(|t| (!t.is_sm12x(), *t));
    archs.dedup();
    let mut own: Vec<(String, Vec<Target>)> = Vec::new();
    let mut crossed: Vec<(String, Vec<(Target, Target)>)> = Vec::new();
    for target in &view.targets {
        add(&mut own, timeline(view, variant, *target, *target), *target);
    }
    for arch in &archs {
        for target in view.targets.iter().filter(|t| *t != arch) {
            add(&mut crossed, timeline(view, variant, *target, *arch), (*target, *arch));
        }
    }
    let own = own.into_iter().map(|(lines, list)| wrapped("  ", names(&list).split(' ')) + &lines);
    let crossed = crossed.into_iter().map(|(lines, list)| {
        let places: String = places::crossed(&list).iter().map(|p| wrapped("  ", p.split(' '))).collect();
        places + &lines
    });
    (own.collect(), crossed.collect())
}

/// The answers for `-arch` values other than the target's own, as lines; empty if none was tried.
pub(super) fn crossed(view: &View<'_>, variant: &VariantRow) -> String {
    outcomes(view, variant).1
}

/// Adds `item` to the group of `lines`; no lines, no group.
fn add<T>(groups: &mut Vec<(String, Vec<T>)>, lines: String, item: T) {
    match groups.iter_mut().find(|(l, _)| *l == lines) {
        _ if lines.is_empty() => {}
        Some((_, list)) => list.push(item),
        None => groups.push((lines, vec![item])),
    }
}

fn timeline(view: &View<'_>, variant: &VariantRow, target: Target, arch: Target) -> String {
    let mut runs: Vec<(&'static str, Vec<usize>)> = Vec::new();
    for toolkit in 0..view.toolkits.len() {
        let Some(cell) = view.cell(variant, toolkit, target, arch) else { continue };
        let words = words(&cell);
        match runs.last_mut() {
            Some((last, at)) if *last == words => at.push(toolkit),
            _ => runs.push((words, vec![toolkit])),
        }
    }
    let line = |(words, at): &(&str, Vec<usize>)| format!("    {:<18} {words}\n", places::ranges(view, at));
    runs.iter().map(line).collect()
}

fn messages(view: &View<'_>, variant: &VariantRow) -> String {
    // Messages that differ only in the target are merged.
    let mut said: Vec<(String, &MessageRow, Vec<usize>)> = Vec::new();
    for spread in &variant.messages {
        let Some(message) = view.matrix.messages.get(spread.index) else { continue };
        let words = notes::words(&message.text);
        match said.iter_mut().find(|(w, m, _)| *w == words && m.kind == message.kind) {
            Some((_, _, pairs)) => pairs.extend(spread.pairs.iter()),
            None => said.push((words, message, spread.pairs.iter().collect())),
        }
    }
    let mut out = if said.is_empty() { "" } else { "\nWhat ptxas says\n" }.to_owned();
    for (words, message, pairs) in said {
        out.push_str(&wrapped("  ", words.split(' ')));
        match message.kind.and_then(|k| view.matrix.kinds.get(k)) {
            Some(kind) => {
                out.push_str(&wrapped("    cause   ", clean(&kind.cause).split(' ')));
                out.push_str(&wrapped("    remedy  ", clean(&kind.remedy).split(' ')));
            }
            None => out.push_str("    cause   not classified\n"),
        }
        out.push_str(&at(view, pairs.into_iter()));
    }
    out
}

fn opcodes(view: &View<'_>, variant: &VariantRow) -> String {
    let mut out = String::new();
    for spread in &variant.sass {
        let Some(opcodes) = view.matrix.opcodes.get(spread.index).filter(|o| !o.is_empty()) else { continue };
        if out.is_empty() {
            out.push_str("\nOpcodes of the machine code\n");
        }
        out.push_str(&wrapped("  ", clean(opcodes).split(' ')));
        out.push_str(&at(view, spread.pairs.iter()));
    }
    out
}

fn at(view: &View<'_>, pairs: impl Iterator<Item = usize>) -> String {
    places::lines(view, pairs).iter().map(|l| wrapped("    at      ", l.split(' '))).collect()
}

fn claims(view: &View<'_>, variant: &VariantRow) -> String {
    let about: Vec<&ClaimRow> = view.matrix.claims.iter().filter(|c| speaks_of(c, variant)).collect();
    if about.is_empty() {
        return String::new();
    }
    let mut out = "\nClaims about it (cells are counted over all variants of a claim)\n".to_owned();
    for claim in about {
        out.push_str(&wrapped("  ", clean(&claim.source).split(' ')));
        if let Some(url) = &claim.url {
            _ = writeln!(out, "    where   {}", clean(url));
        }
        out.push_str(&wrapped("    says    ", says(claim).split(' ')));
        let finding = if claim.is_finding() {
            format!(" (a finding: it is recorded as {})", claim.recorded.word())
        } else if claim.standing == Standing::Untested {
            format!(" (recorded as {})", claim.recorded.word())
        } else {
            String::new()
        };
        out.push_str(&wrapped("    stands  ", (clean(&measured(claim)) + &finding).split(' ')));
    }
    out
}
