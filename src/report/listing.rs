//! Names with one sentence each, in the formats of a table.

use super::{csv, markup};

/// A name and its description.
pub type Named<'a> = (&'a str, &'a str);

/// One line each, with aligned sentences.
#[must_use]
pub fn listing_text(rows: &[Named<'_>]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, about)| format!("{name:width$}  {about}\n")).collect()
}

/// As CSV, with these two words as the header.
#[must_use]
pub fn listing_csv(head: [&str; 2], rows: &[Named<'_>]) -> String {
    let rows = rows.iter().map(|(name, about)| [*name, *about]);
    csv::table(std::iter::once(head).chain(rows).map(|row| row.map(str::to_owned).to_vec()))
}

/// As a Markdown table, with these two words as the header.
#[must_use]
pub fn listing_markdown(head: [&str; 2], rows: &[Named<'_>]) -> String {
    let body = rows.iter().map(|(name, about)| markup::row(&[markup::code(name), markup::plain(about)]));
    let head = markup::head(&head, markup::Align::Centre);
    head + &body.collect::<String>()
}
