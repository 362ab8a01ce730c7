//! The tile table and the table of policies, for the terminal, as Markdown and as CSV.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::csv::table as csv_of;
use super::markup::{Align, head, plain, row as markdown_row};
use crate::record::{Named, PeerRow, PolicyRow, Tile, TileRow, TileTable};

const HEADER: [&str; 14] = [
    "tile",
    "swap_ab",
    "kernel_path",
    "load",
    "target",
    "toolkit",
    "stages",
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
    table
        .rows
        .first()
        .map(|first| table.peers_of(first).map(|o| o.stack.as_str()).collect())
        .unwrap_or_default()
}

/// Rows of one tile and side; rows come tile by tile.
fn blocks(rows: &[TileRow]) -> impl Iterator<Item = &[TileRow]> {
    let of = |row: &TileRow| (row.configuration.tile.clone(), row.configuration.swap_ab, row.target.clone());
    rows.chunk_by(move |a, b| of(a) == of(b))
}

/// A block per tile: the built-in kernels by path and load, then the support of other projects.
#[must_use]
pub fn tiles_text(table: &TileTable) -> String {
    let rows = &table.rows;
    let mut out = String::new();
    for block in blocks(rows) {
        let Some(first) = block.first() else { continue };
        let side = if first.configuration.swap_ab {
            "channels on the 16-row side"
        } else {
            "tokens on the 16-row side"
        };
        let ptxas = first.toolkit.as_ref().map_or_else(String::new, |version| format!(", ptxas {version}"));
        let _ = writeln!(out, "{}  {side}, {}{ptxas}", first.configuration.tile, first.target);
        for row in block {
            let mut facts = Vec::new();
            if let (Some(stages), Some(shared)) = (row.stages, row.shared) {
                facts.push(format!("{stages} stages, {shared} of {} bytes shared", row.shared_limit));
            }
            if let Some(registers) = row.registers {
                facts.push(format!("{registers} registers"));
            }
            facts.push(admitted(row));
            let key = &row.configuration;
            let _ = writeln!(out, "  {:<8} {:<8}  {}", key.path, key.load, facts.join("; "));
        }
        for peer in table.peers_of(first) {
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
    let tiles: BTreeSet<&Named<Tile>> = rows.iter().map(|r| &r.configuration.tile).collect();
    let running: BTreeSet<&Named<Tile>> = runs.iter().map(|r| &r.configuration.tile).collect();
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
    let mut names = vec![
        "tile",
        "swap_ab",
        "path",
        "load",
        "target",
        "stages",
        "shared / limit",
        "registers",
        "spills",
        "admission",
    ];
    names.extend(&stacks);
    let mut out = head(&names, Align::Left);
    for row in rows {
        let key = &row.configuration;
        let mut cells = vec![
            key.tile.to_string(),
            key.swap_ab.to_string(),
            key.path.to_string(),
            key.load.to_string(),
            row.target.to_string(),
            number(row.stages),
            format!("{} / {}", number(row.shared), row.shared_limit),
            number(row.registers),
            spills(row),
            plain(&admitted(row)),
        ];
        cells.extend(table.peers_of(row).map(|p| plain(&answered(p))));
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
        let key = &row.configuration;
        let empty = |v: Option<u32>| v.map(|v| v.to_string()).unwrap_or_default();
        let mut cells = vec![
            key.tile.to_string(),
            key.swap_ab.to_string(),
            key.path.to_string(),
            key.load.to_string(),
            row.target.to_string(),
            row.toolkit.as_ref().map(ToString::to_string).unwrap_or_default(),
            empty(row.stages),
            empty(row.shared),
            row.shared_limit.to_string(),
            empty(row.registers),
            empty(row.spills.map(|s| s.0)),
            empty(row.spills.map(|s| s.1)),
            admission(row).to_owned(),
            sentence(row).to_owned(),
        ];
        cells.extend(table.peers_of(row).map(answered));
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
