//! `ops`: which instructions are emulated.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use emulator::{self, Coverage, FormRow};

use super::args::OutputArgs;
use super::error::CliError;
use super::output;
use crate::snippet::Library;

/// The target and PTX version that the snippets are decoded for.
const TARGET: &str = "sm_121a";
const ISA: &str = "9.5";

/// Arguments of `ops`.
#[derive(Debug, Args)]
pub(super) struct OpsArgs {
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: OpsForm,
    /// List every snippet variant that does not decode, with the reason
    #[arg(long)]
    missing: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OpsForm {
    /// For the terminal.
    Text,
    /// One row per row of the table
    Csv,
    /// Markdown.
    Md,
}

/// Snippet variants of one family: all, and those that decode.
type Families = BTreeMap<String, (usize, usize)>;

/// `ops`.
pub(super) fn ops(args: &OpsArgs) -> Result<(), CliError> {
    let text = match args.format {
        OpsForm::Csv => csv(),
        OpsForm::Text => text(args.missing)?,
        OpsForm::Md => markdown(args.missing)?,
    };
    output::write(&text, &args.output)
}

const fn word(coverage: Coverage) -> &'static str {
    match coverage {
        Coverage::Implemented => "implemented",
        Coverage::Planned => "planned",
        Coverage::OutOfScope => "out_of_scope",
    }
}

fn csv() -> String {
    let quoted = |s: &str| {
        if s.contains([',', '"']) { format!("\"{}\"", s.replace('"', "\"\"")) } else { s.to_owned() }
    };
    let mut out = String::from("chapter,opcode,forms,state\n");
    for row in emulator::coverage() {
        let _ = writeln!(
            out,
            "{},{},{},{}",
            quoted(row.chapter),
            quoted(row.opcode),
            quoted(row.forms),
            word(row.coverage())
        );
    }
    out
}

/// The rows by chapter, in the manual's order, with counts of the three states.
fn chapters() -> Vec<(&'static str, Vec<&'static FormRow>, [usize; 3])> {
    let mut chapters: Vec<(&str, Vec<&FormRow>, [usize; 3])> = Vec::new();
    for row in emulator::coverage() {
        let at = chapters.iter().position(|(name, _, _)| *name == row.chapter).unwrap_or_else(|| {
            chapters.push((row.chapter, Vec::new(), [0; 3]));
            chapters.len() - 1
        });
        chapters[at].1.push(row);
        chapters[at].2[row.coverage() as usize] += 1;
    }
    chapters
}

/// Decodes every variant; the families, and what does not decode.
fn snippets() -> Result<(Families, Vec<(String, String)>), CliError> {
    let library = Library::embedded();
    let (isa, target) = (ISA.parse().map_err(version)?, TARGET.parse()?);
    let mut families = Families::new();
    let mut missing = Vec::new();
    for variant in &library.variants {
        let family = &library.snippets[variant.snippet].family;
        let count = families.entry(family.clone()).or_default();
        count.0 += 1;
        match emulator::load(&variant.code.standalone(isa, target)) {
            Ok(_) => count.1 += 1,
            Err(stop) => missing.push((variant.id.clone(), stop.to_string())),
        }
    }
    Ok((families, missing))
}

fn version(error: ptx::arch::BadVersion) -> CliError {
    CliError::Output(std::io::Error::other(error))
}

fn percent(part: usize, all: usize) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * part as f64 / all as f64 }
}

fn text(missing: bool) -> Result<String, CliError> {
    let mut out = String::new();
    let mut sums = [0; 3];
    for (chapter, rows, counts) in chapters() {
        let _ = writeln!(
            out,
            "{chapter}: {} implemented, {} planned, {} out of scope",
            counts[0], counts[1], counts[2]
        );
        for row in rows {
            let mark = match row.coverage() {
                Coverage::Implemented => "",
                Coverage::Planned => " [planned]",
                Coverage::OutOfScope => " [out of scope]",
            };
            let _ = writeln!(out, "  {}{mark}", row.forms);
        }
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    let _ = writeln!(
        out,
        "\n{} rows: {} implemented, {} planned, {} out of scope",
        sums.iter().sum::<usize>(),
        sums[0],
        sums[1],
        sums[2]
    );
    let (families, absent) = snippets()?;
    let (all, decoded) = families.values().fold((0, 0), |sum, c| (sum.0 + c.0, sum.1 + c.1));
    let _ = writeln!(
        out,
        "{decoded} of {all} snippet variants decode for {TARGET} ({:.1} %):",
        percent(decoded, all)
    );
    for (family, (all, decoded)) in &families {
        let _ = writeln!(out, "  {family}: {decoded} of {all}");
    }
    if missing {
        for (id, why) in &absent {
            let _ = writeln!(out, "{id}: {why}");
        }
    }
    Ok(out)
}

fn markdown(missing: bool) -> Result<String, CliError> {
    let cell = |s: &str| s.replace('|', "\\|");
    let mut out = String::from("| chapter | implemented | planned | out of scope |\n|---|---:|---:|---:|\n");
    for (chapter, _, counts) in chapters() {
        let _ = writeln!(out, "| {} | {} | {} | {} |", cell(chapter), counts[0], counts[1], counts[2]);
    }
    let (families, absent) = snippets()?;
    let (all, decoded) = families.values().fold((0, 0), |sum, c| (sum.0 + c.0, sum.1 + c.1));
    let _ = writeln!(
        out,
        "\n{decoded} of {all} snippet variants decode for {TARGET} ({:.1} %).\n",
        percent(decoded, all)
    );
    out.push_str("| family | variants | decode |\n|---|---:|---:|\n");
    for (family, (all, decoded)) in &families {
        let _ = writeln!(out, "| {family} | {all} | {decoded} |");
    }
    for (chapter, rows, _) in chapters() {
        let _ = writeln!(out, "\n## {chapter}\n\n| form | state |\n|---|---|");
        for row in rows {
            let _ = writeln!(out, "| `{}` | {} |", cell(row.forms), word(row.coverage()).replace('_', " "));
        }
    }
    if missing {
        out.push_str("\n## Variants that do not decode\n\n");
        for (id, why) in &absent {
            let _ = writeln!(out, "* `{id}`: {}", cell(why));
        }
    }
    Ok(out)
}
