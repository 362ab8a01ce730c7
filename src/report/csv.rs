//! CSV: RFC 4180 with LF, one row per cell that was tried.

use crate::record::{Matrix, Record};

const HEADER: [&str; 8] = ["variant", "toolkit", "target", "arch", "outcome", "native", "sass", "message"];

/// The cells as CSV, ordered by variant, toolkit, target and arch.
///
/// `native`, `sass` and `message` may be empty; `message` is the first line.
#[must_use]
pub fn csv(record: &Record) -> String {
    // Writing to memory does not fail; if it did, the reader would have to see it.
    rows(&record.matrix).unwrap_or_else(|error| format!("{}\n{error}\n", HEADER.join(",")))
}

fn rows(matrix: &Matrix) -> Result<String, Box<dyn std::error::Error>> {
    let mut variants: Vec<_> = matrix.variants.iter().collect();
    variants.sort_by(|a, b| a.id.cmp(&b.id));
    let mut pairs: Vec<_> = matrix.pairs.iter().enumerate().collect();
    pairs.sort_by_key(|(_, pair)| **pair);
    let names: Vec<[String; 3]> = pairs
        .iter()
        .map(|(_, p)| [p.toolkit.to_string(), p.target.to_string(), p.arch.to_string()])
        .collect();

    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
    writer.write_record(HEADER)?;
    for variant in variants {
        for ((index, _), [toolkit, target, arch]) in pairs.iter().zip(&names) {
            let Some(cell) = matrix.cell(variant, *index) else { continue };
            let native = cell.native.map_or("", |n| n.word());
            let message = cell.message.and_then(|m| m.text.lines().next()).unwrap_or_default();
            let outcome = cell.outcome.word();
            writer.write_record([&variant.id, toolkit, target, arch, outcome, native, cell.sass, message])?;
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// Any table as CSV.
pub(super) fn table(rows: impl Iterator<Item = Vec<String>>) -> String {
    let written = || -> Result<String, Box<dyn std::error::Error>> {
        let mut writer =
            csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
        for row in rows {
            writer.write_record(&row)?;
        }
        Ok(String::from_utf8(writer.into_inner()?)?)
    };
    // Writing to memory does not fail; if it did, the reader would have to see it.
    written().unwrap_or_else(|error| format!("{error}\n"))
}
