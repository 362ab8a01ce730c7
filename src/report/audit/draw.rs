//! The page of an audit, drawn for the terminal and as Markdown.

use std::fmt::Write as _;

use super::super::markup::{Align, head, plain, row};
use super::super::phrase::{clean, width, wrapped};
use super::super::style::{Styles, Tone};
use super::page::{Extent, Section, page};
use crate::record::AuditTable;

/// The maximum width of a terminal column, except the last, which gets the rest.
const COLUMN: usize = 36;

/// The minimum width of the last column next to the others.
const LEAST: usize = 22;

/// The maximum number of lines of the last column next to the others.
const LINES: usize = 3;

/// The minimum width of the first column.
const FIRST: usize = 26;

/// For the terminal.
#[must_use]
pub fn audit_text(table: &AuditTable, styles: &Styles) -> String {
    let page =
        page(table, Extent { rows: 16, exceptions: 16, name: 60, problems: 20, files: 12, sources: false });
    let mut out = format!("{}\n", styles.paint(Tone::Head, &page.title));
    for line in &page.lines {
        out.push_str(&wrapped("", line.split_whitespace()));
    }
    for section in &page.sections {
        _ = write!(out, "\n{}", styles.paint(Tone::Head, &section.title));
        if section.note.is_empty() {
            out.push('\n');
        } else {
            _ = writeln!(out, " {}", styles.paint(Tone::Faint, &clean(&section.note)));
        }
        columns(&mut out, section, styles);
        for item in &section.items {
            out.push_str(&wrapped("  ", clean(item).split(' ')));
        }
        if !section.more.is_empty() {
            _ = writeln!(out, "  {}", styles.paint(Tone::Faint, &section.more));
        }
    }
    out
}

/// A table in aligned columns. The last column moves below its row if less than [`LEAST`] is left for it or it has more than [`LINES`]; a
/// text that is too long is cut at its front, so that a path keeps its file name.
fn columns(out: &mut String, section: &Section, styles: &Styles) {
    let Some(last) = section.columns.len().checked_sub(1) else { return };
    let rows: Vec<Vec<String>> = section.rows.iter().map(|r| r.iter().map(|c| clean(c)).collect()).collect();
    let length = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = (0..last)
        .map(|n| {
            let cells = rows.iter().map(|r| length(&r[n]));
            cells.chain([length(&section.columns[n])]).max().unwrap_or(0).min(COLUMN)
        })
        .collect();
    let used = |widths: &[usize]| 2 + widths.iter().map(|w| w + 2).sum::<usize>();
    if let (Some(over), [first, ..]) = (used(&widths).checked_sub(width()), widths.as_mut_slice()) {
        *first = first.saturating_sub(over).max(FIRST);
    }
    let longest = rows.iter().map(|r| length(&r[last])).max().unwrap_or(0);
    let left = width().saturating_sub(used(&widths));
    let below = left < longest.min(LEAST) || longest > LINES * left;
    let line = |cells: &[String]| {
        let mut line = "  ".to_owned();
        for (cell, width) in cells.iter().zip(&widths) {
            let cell = cut(cell, *width);
            line.push_str(&cell);
            line.push_str(&" ".repeat(width + 2 - length(&cell)));
        }
        line
    };
    let title = if below { line(&section.columns) } else { line(&section.columns) + &section.columns[last] };
    _ = writeln!(out, "{}", styles.paint(Tone::Faint, title.trim_end()));
    for cells in &rows {
        if below {
            _ = writeln!(out, "{}", line(cells).trim_end());
            let label = format!("      {}: ", section.columns[last]);
            out.push_str(wrapped(&label, cells[last].split(' ')).trim_end());
        } else {
            out.push_str(wrapped(&line(cells), cells[last].split(' ')).trim_end());
        }
        out.push('\n');
    }
}

/// The end of a text that is too long: for a path, the file name.
fn cut(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let tail: String = text.chars().skip(length + 1 - width).collect();
    format!("…{tail}")
}

/// As Markdown, complete; its first heading has this level.
#[must_use]
pub fn audit_markdown(table: &AuditTable, level: usize) -> String {
    let all = usize::MAX;
    let page = page(
        table,
        Extent { rows: all, exceptions: all, name: 160, problems: all, files: all, sources: true },
    );
    let mut out = format!("{} {}\n", "#".repeat(level), plain(&page.title));
    for line in &page.lines {
        _ = write!(out, "\n{}\n", plain(line));
    }
    for section in &page.sections {
        _ = write!(out, "\n{} {}\n\n", "#".repeat(level + 1), plain(&section.title));
        if !section.note.is_empty() {
            _ = write!(out, "{}\n\n", plain(&section.note));
        }
        if !section.columns.is_empty() {
            let names: Vec<String> = section.columns.iter().map(|c| plain(c)).collect();
            out.push_str(&head(&names, Align::Centre));
            for cells in &section.rows {
                out.push_str(&row(&cells.iter().map(|c| plain(c)).collect::<Vec<_>>()));
            }
        }
        for item in &section.items {
            _ = writeln!(out, "- {}", plain(item));
        }
    }
    out
}
