//! A judged profile, for the terminal, as Markdown and as CSV.

use std::fmt::Write as _;

use super::csv::table;
use super::markup::{Align, code, head, plain, row as markdown_row};
use crate::record::ProfileRow;

const HEADER: [&str; 6] = ["class", "moe", "share", "milliseconds", "launches", "longest"];

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn milliseconds(nanoseconds: f64) -> String {
    format!("{:.3}", nanoseconds / 1e6)
}

/// The meaning of the shares, in sentences; Amdahl's law bounds what better tiles can gain.
fn verdict(row: &ProfileRow) -> String {
    let mut out = String::new();
    if row.listed < 1.0 {
        let _ = writeln!(
            out,
            "The file lists {} of the time; shares are its own percentages.",
            percent(row.listed)
        );
    }
    let _ = writeln!(
        out,
        "MoE GEMMs take {} of the time of {} kernels, the whole MoE layer {}.",
        percent(row.gemm_share),
        row.kernels,
        percent(row.moe_share)
    );
    let _ = writeln!(out, "{}: {}.", row.decision.word(), row.decision.sentence());
    if row.gemm_share > 0.0 && row.gemm_share < 1.0 {
        let _ = writeln!(
            out,
            "GEMMs twice as fast would make the kernels' time {:.2} times shorter; GEMMs that took no time, {:.2} times.",
            1.0 / (1.0 - row.gemm_share / 2.0),
            1.0 / (1.0 - row.gemm_share)
        );
    }
    out
}

/// One line per class, then the decision.
#[must_use]
pub fn profile_text(row: &ProfileRow) -> String {
    let mut out = String::new();
    for class in &row.classes {
        let _ = writeln!(
            out,
            "{:<14} {:>7}  {:>12} ms  {:>8} launches  {}",
            class.class,
            percent(class.share),
            milliseconds(class.nanoseconds),
            class.launches,
            class.longest
        );
    }
    out.push('\n');
    out.push_str(&verdict(row));
    out
}

/// A table of the classes, then the decision.
#[must_use]
pub fn profile_markdown(row: &ProfileRow) -> String {
    let mut out = head(&["class", "share", "ms", "launches", "longest kernel"], Align::Right);
    for class in &row.classes {
        out.push_str(&markdown_row(&[
            plain(&class.class),
            percent(class.share),
            milliseconds(class.nanoseconds),
            class.launches.to_string(),
            code(&class.longest),
        ]));
    }
    out.push('\n');
    out.push_str(&verdict(row));
    out
}

/// One line per class.
#[must_use]
pub fn profile_csv(row: &ProfileRow) -> String {
    let cells = row.classes.iter().map(|class| {
        vec![
            class.class.clone(),
            class.moe.to_string(),
            format!("{:.6}", class.share),
            milliseconds(class.nanoseconds),
            class.launches.to_string(),
            class.longest.clone(),
        ]
    });
    table(std::iter::once(HEADER.map(str::to_owned).to_vec()).chain(cells))
}
