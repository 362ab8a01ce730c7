//! The tile table and the table of policies, for the terminal, as Markdown and as CSV.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::csv::table as csv_of;
use super::markup::{Align, head, plain, row as markdown_row};
use super::phrase::counted;
use crate::record::{PeerRow, PolicyRow, TileRow, TileTable};

const HEADER: [&str; 12] = [
    "family",
    "configuration",
    "target",
    "toolkit",
    "depth",
    "shared",
    "shared_limit",
    "registers",
    "spill_stores",
    "spill_loads",
    "admission",
    "sentence",
];

fn number<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

fn sentence(row: &TileRow) -> &str {
    row.blocked.as_deref().unwrap_or(&row.remark)
}

fn admission(row: &TileRow) -> &'static str {
    if row.blocked.is_some() { "blocked" } else { "runs" }
}

/// One sentence on whether it runs.
fn admitted(row: &TileRow) -> String {
    match sentence(row) {
        "" => admission(row).to_owned(),
        why => format!("{}: {why}", admission(row)),
    }
}

fn spills(row: &TileRow) -> String {
    row.spills.map_or_else(|| "-".to_owned(), |(stores, loads)| (stores + loads).to_string())
}

/// The support of a project, in words.
fn answered(peer: &PeerRow) -> String {
    format!("{}: {}", peer.answer, peer.sentence)
}

/// The projects, in their order.
fn stacks(table: &TileTable) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    table.peers.iter().map(|peer| peer.stack.as_str()).filter(|stack| seen.insert(*stack)).collect()
}

/// The group of a row: the most words with which peers name configurations that this one has.
fn group<'a>(table: &'a TileTable, row: &'a TileRow) -> &'a str {
    let names = table.peers.iter().map(|peer| peer.configurations.as_str());
    let of = names.filter(|words| row.configuration.has(words)).max_by_key(|words| words.len());
    of.unwrap_or_else(|| row.configuration.leading())
}

/// The kernels of other projects for the configuration of a row.
fn peers_of<'a>(table: &'a TileTable, row: &'a TileRow) -> impl Iterator<Item = &'a PeerRow> {
    let group = group(table, row);
    table.peers.iter().filter(move |peer| peer.configurations == group)
}

/// A block per tile: the built-in kernels by path and load, then the support of other projects.
#[must_use]
pub fn tiles_text(table: &TileTable) -> String {
    let rows = &table.rows;
    let mut out = String::new();
    let of = |row: &TileRow| (group(table, row).to_owned(), row.target.clone());
    for block in rows.chunk_by(|a, b| of(a) == of(b)) {
        let Some(first) = block.first() else { continue };
        let name = group(table, first);
        let ptxas = first.toolkit.as_ref().map_or_else(String::new, |version| format!(", ptxas {version}"));
        let _ = writeln!(out, "{name}  {}{ptxas}", first.target);
        for row in block {
            let mut facts = Vec::new();
            if let (Some(depth), Some(shared)) = (row.depth, row.shared) {
                let tiles = counted(depth as usize, "tile");
                facts.push(format!("{tiles} in flight, {shared} of {} bytes shared", row.shared_limit));
            }
            if let Some(registers) = row.registers {
                facts.push(format!("{registers} registers"));
            }
            facts.push(admitted(row));
            let rest = row.configuration.words().filter(|word| name.split(' ').all(|own| own != *word));
            let _ = writeln!(out, "  {:<17}  {}", rest.collect::<Vec<_>>().join(" "), facts.join("; "));
        }
        for peer in peers_of(table, first) {
            let _ = writeln!(out, "  {:<17}  {}", peer.stack, answered(peer));
        }
        out.push('\n');
    }
    out.push_str(&tile_counts(rows));
    out
}

/// The number that run, on one line.
pub(super) fn tile_counts(rows: &[TileRow]) -> String {
    let runs: Vec<&TileRow> = rows.iter().filter(|r| r.blocked.is_none()).collect();
    let tiles: BTreeSet<&str> = rows.iter().map(|r| r.configuration.leading()).collect();
    let running: BTreeSet<&str> = runs.iter().map(|r| r.configuration.leading()).collect();
    format!(
        "{} of {} tiles run in some configuration; {} of {} kernels run\n",
        running.len(),
        tiles.len(),
        runs.len(),
        rows.len()
    )
}

/// A row per tile, path and load; a column per project.
#[must_use]
pub fn tiles_markdown(table: &TileTable) -> String {
    let rows = &table.rows;
    let stacks = stacks(table);
    let mut names =
        vec!["configuration", "target", "depth", "shared / limit", "registers", "spills", "admission"];
    names.extend(&stacks);
    let mut out = head(&names, Align::Left);
    for row in rows {
        let mut cells = vec![
            row.configuration.to_string(),
            row.target.to_string(),
            number(row.depth),
            format!("{} / {}", number(row.shared), row.shared_limit),
            number(row.registers),
            spills(row),
            plain(&admitted(row)),
        ];
        cells.extend(peers_of(table, row).map(|p| plain(&answered(p))));
        out.push_str(&markdown_row(&cells));
    }
    let _ = write!(out, "\n{}", tile_counts(rows));
    out
}

/// A row per tile, path and load.
#[must_use]
pub fn tiles_csv(table: &TileTable) -> String {
    let mut header: Vec<String> = HEADER.map(str::to_owned).to_vec();
    header.extend(stacks(table).iter().map(|s| s.to_lowercase().replace([' ', '.', '-'], "_")));
    let line = |row: &TileRow| {
        let empty = |v: Option<u32>| v.map(|v| v.to_string()).unwrap_or_default();
        let mut cells = vec![
            row.family.clone(),
            row.configuration.to_string(),
            row.target.to_string(),
            row.toolkit.as_ref().map(ToString::to_string).unwrap_or_default(),
            empty(row.depth),
            empty(row.shared),
            row.shared_limit.to_string(),
            empty(row.registers),
            empty(row.spills.map(|s| s.0)),
            empty(row.spills.map(|s| s.1)),
            admission(row).to_owned(),
            sentence(row).to_owned(),
        ];
        cells.extend(peers_of(table, row).map(answered));
        cells
    };
    csv_of(std::iter::once(header).chain(table.rows.iter().map(line)))
}

/// One table per routing: one line per token count, one column per policy with M and the waste; then what each policy must know.
#[must_use]
pub fn policies_text(rows: &[PolicyRow]) -> String {
    policies(rows, false)
}

/// The tables of [`policies_text`] as Markdown.
#[must_use]
pub fn policies_markdown(rows: &[PolicyRow]) -> String {
    policies(rows, true)
}

fn policies(rows: &[PolicyRow], markdown: bool) -> String {
    let mut out = String::new();
    let names: Vec<&PolicyRow> = first_of_each(rows);
    for of_shape in rows.chunk_by(|a, b| a.shape == b.shape) {
        let Some(first) = of_shape.first() else { continue };
        let heading = if markdown { "### " } else { "" };
        let _ = writeln!(out, "{heading}Routing: {}. Rows of the tile, and share of padding.\n", first.shape);
        let mut lines = vec![vec!["tokens".to_owned(), "most rows".to_owned()]];
        lines[0].extend(names.iter().map(|n| n.policy.clone()));
        for batch in of_shape.chunk_by(|a, b| a.tokens == b.tokens) {
            let Some(first) = batch.first() else { continue };
            let mut line = vec![first.tokens.to_string(), first.most.to_string()];
            line.extend(batch.iter().map(|r| format!("{} {:.1}%", r.m, 100.0 * r.waste)));
            lines.push(line);
        }
        let columns = names.len() + 2;
        let width = |n: usize| lines.iter().filter_map(|l| l.get(n).map(String::len)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (n, line) in lines.iter().enumerate() {
            if markdown {
                let cells: Vec<String> = line.iter().map(|cell| plain(cell)).collect();
                out.push_str(&if n == 0 { head(&cells, Align::Right) } else { markdown_row(&cells) });
                continue;
            }
            let cells: Vec<String> =
                line.iter().zip(&widths).map(|(cell, w)| format!("{cell:>w$}")).collect();
            let _ = writeln!(out, "{}", cells.join("  "));
        }
        out.push('\n');
    }
    for row in names {
        let line = format!("{} needs the {}; {}", row.policy, row.needs, row.source);
        let _ = if markdown { writeln!(out, "- {}", plain(&line)) } else { writeln!(out, "{line}") };
    }
    out
}

/// One row per policy, in order.
fn first_of_each(rows: &[PolicyRow]) -> Vec<&PolicyRow> {
    let mut seen = BTreeSet::new();
    rows.iter().filter(|r| seen.insert(r.policy.as_str())).collect()
}

/// A row per policy and batch.
#[must_use]
pub fn policies_csv(rows: &[PolicyRow]) -> String {
    let header = [
        "policy",
        "needs",
        "shape",
        "tokens",
        "most_rows",
        "m",
        "tiles",
        "rows",
        "padding",
        "waste",
        "source",
    ];
    let line = |r: &PolicyRow| {
        vec![
            r.policy.clone(),
            r.needs.clone(),
            r.shape.clone(),
            r.tokens.to_string(),
            r.most.to_string(),
            r.m.to_string(),
            r.tiles.to_string(),
            r.rows.to_string(),
            r.padding.to_string(),
            format!("{:.4}", r.waste),
            r.source.clone(),
        ]
    };
    csv_of(std::iter::once(header.map(str::to_owned).to_vec()).chain(rows.iter().map(line)))
}
