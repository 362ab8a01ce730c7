//! The tiles' section of a report: where kernels run, what they spill, what other projects support, what policies choose.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::markup::{Align, code, head, plain, row};
use super::phrase::{grouped, wrapped};
use super::style::{Styles, Tone};
use super::tiles::{policies_markdown, tile_counts};
use crate::moe::configuration::{Configuration, Tile};
use crate::record::{PeerAnswer, TileRow, TileTable};

/// How to read a cell of the grid.
const LEGEND: &str = "Kernels that run, of those checked (K, path and load); * marks kernels that spill.";

/// The remedy for spills.
const SPILLS: &str = "A kernel that spills still runs: spilled registers are in local memory, which costs time but changes no result.";

/// The rows whose configurations are tiles: other families have rows in the same table.
fn of_gemm(table: &TileTable) -> TileTable {
    let mut table = table.clone();
    table.rows.retain(|row| Configuration::from_name(&row.configuration).is_some());
    table
}

/// Bytes that a thread spills, stores and loads.
fn spilled(row: &TileRow) -> u32 {
    row.spills.map_or(0, |(stores, loads)| stores + loads)
}

/// The rows that run and spill, the worst first.
fn spilling(table: &TileTable) -> Vec<&TileRow> {
    let mut out: Vec<&TileRow> =
        table.rows.iter().filter(|r| r.blocked.is_none() && spilled(r) > 0).collect();
    out.sort_by_key(|r| std::cmp::Reverse(spilled(r)));
    out
}

/// Rows of the grid are M and side, columns N; a cell is the number of kernels that run.
fn grid(table: &TileTable) -> Vec<Vec<String>> {
    let mut cells: BTreeMap<(u32, bool, u32), (usize, usize, bool)> = BTreeMap::new();
    for tile in &table.rows {
        let Some(of) = Configuration::from_name(&tile.configuration) else { continue };
        let Tile { m, n, .. } = of.tile;
        let cell = cells.entry((m, of.swap_ab, n)).or_default();
        cell.0 += usize::from(tile.blocked.is_none());
        cell.1 += 1;
        cell.2 |= tile.blocked.is_none() && spilled(tile) > 0;
    }
    let columns: BTreeSet<u32> = cells.keys().map(|(_, _, n)| *n).collect();
    let sides: BTreeSet<(u32, bool)> = cells.keys().map(|(m, swap_ab, _)| (*m, *swap_ab)).collect();
    let mut out = vec![vec!["M".to_owned()]];
    out[0].extend(columns.iter().map(|n| format!("N {n}")));
    for (m, swap_ab) in sides {
        let mut line = vec![format!("{m}{}", if swap_ab { " swap_ab" } else { "" })];
        line.extend(columns.iter().map(|n| {
            let cell = cells.get(&(m, swap_ab, *n));
            cell.map_or(String::new(), |(runs, all, spills)| {
                format!("{runs}/{all}{}", if *spills { "*" } else { "" })
            })
        }));
        out.push(line);
    }
    out
}

/// The toolchain and device of the table, on one line.
fn asked(table: &TileTable) -> String {
    let Some(first) = table.rows.first() else { return String::new() };
    let ptxas = match &first.toolkit {
        None => "no ptxas: capabilities, registers and spills are unknown".to_owned(),
        Some(version) => format!("ptxas {version}"),
    };
    format!("{}, {ptxas}", first.target)
}

/// The number that spill, and the worst.
fn spills(table: &TileTable) -> Option<String> {
    if table.rows.iter().all(|r| r.spills.is_none()) {
        return None;
    }
    let spilling = spilling(table);
    let worst = spilling.first().map_or(String::new(), |r| {
        let bytes = grouped(spilled(r) as usize);
        format!(", {bytes} bytes per thread at most ({})", r.configuration)
    });
    Some(format!("{} of those that run spill{worst}.", spilling.len()))
}

/// The number of tiles that each project supports.
fn peers(table: &TileTable) -> Vec<(&str, usize, usize)> {
    let mut out: Vec<(&str, usize, usize)> = Vec::new();
    for peer in &table.peers {
        let hit = usize::from(peer.answer == PeerAnswer::Offered);
        match out.iter_mut().find(|(stack, ..)| *stack == peer.stack) {
            Some(found) => (found.1, found.2) = (found.1 + hit, found.2 + 1),
            None => out.push((&peer.stack, hit, 1)),
        }
    }
    out
}

/// The choice of each policy for the smallest, a middle and the largest batch with evenly spread tokens, and its waste.
fn policies(table: &TileTable) -> Vec<String> {
    let Some(first) = table.policies.first() else { return Vec::new() };
    let mut names: Vec<&str> = table.policies.iter().map(|p| p.policy.as_str()).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let of = |name: &str| {
        let rows: Vec<_> =
            table.policies.iter().filter(|p| p.policy == name && p.shape == first.shape).collect();
        let shown = [0, rows.len() / 2, rows.len().saturating_sub(1)];
        let each = shown.iter().filter_map(|n| rows.get(*n)).map(|p| {
            let tokens = if p.tokens == 1 { "token" } else { "tokens" };
            format!("{} {tokens}: {} ({:.0} %)", p.tokens, p.m, 100.0 * p.waste)
        });
        format!("{name}: {}", each.collect::<Vec<_>>().join(", "))
    };
    names.into_iter().map(of).collect()
}

/// The section as Markdown; empty if the tiles were not requested.
pub(super) fn markdown(table: &TileTable) -> String {
    let table = &of_gemm(table);
    if table.rows.is_empty() {
        return String::new();
    }
    let mut out =
        format!("## Tiles of the grouped GEMM\n\n{}. {}\n", plain(&asked(table)), tile_counts(&table.rows));
    let mut lines = grid(table).into_iter();
    if let Some(names) = lines.next() {
        out.push_str(&head(&names, Align::Centre));
    }
    lines.for_each(|line| out.push_str(&row(&line)));
    let _ = writeln!(out, "\n{}", LEGEND.replace('*', "\\*"));
    if let Some(line) = spills(table) {
        let _ = writeln!(out, "\n{} {SPILLS}\n", plain(&line));
        let spilling = spilling(table);
        if !spilling.is_empty() {
            out.push_str(&head(
                &["kernel", "registers", "spill stores", "spill loads"].map(str::to_owned),
                Align::Centre,
            ));
        }
        for tile in spilling {
            let (stores, loads) = tile.spills.unwrap_or_default();
            out.push_str(&row(&[
                code(&tile.configuration.to_string()),
                tile.registers.map_or(String::new(), |r| r.to_string()),
                stores.to_string(),
                loads.to_string(),
            ]));
        }
    }
    let peers = peers(table);
    if !peers.is_empty() {
        out.push_str(
            "\nTiles and sides that peers support; `sm121probe tiles` shows which, and why not:\n\n",
        );
        for (stack, offered, all) in peers {
            let _ = writeln!(out, "- {}: {offered} of {all}", plain(stack));
        }
    }
    if !table.policies.is_empty() {
        let _ = write!(out, "\n{}", policies_markdown(&table.policies));
    }
    out
}

/// The section for a terminal; empty if the tiles were not requested.
pub(super) fn terminal(table: &TileTable, styles: &Styles) -> String {
    let table = &of_gemm(table);
    if table.rows.is_empty() {
        return String::new();
    }
    let mut out = format!("{}\n", styles.paint(Tone::Head, "Tiles of the grouped GEMM"));
    let _ = writeln!(out, "  {}", asked(table));
    let _ = write!(out, "  {}", tile_counts(&table.rows));
    if let Some(line) = spills(table) {
        out.push_str(&wrapped("  ", line.split(' ')));
    }
    let lines = grid(table);
    let width = |n: usize| lines.iter().filter_map(|l| l.get(n).map(String::len)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines.first().map_or(0, Vec::len)).map(width).collect();
    for line in &lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, w)| format!("{cell:<w$}")).collect();
        let _ = writeln!(out, "  {}", cells.join("  ").trim_end());
    }
    let _ = writeln!(out, "  {}", styles.paint(Tone::Faint, LEGEND));
    let peers: Vec<String> =
        peers(table).into_iter().map(|(stack, offered, all)| format!("{stack} {offered} of {all}")).collect();
    if !peers.is_empty() {
        out.push_str(&wrapped("  peers        ", peers.join(", ").split(' ')));
    }
    let policies = policies(table);
    if !policies.is_empty() {
        let _ = writeln!(out, "  policies: rows of the tile (share of padding), tokens spread evenly");
        policies.iter().for_each(|line| _ = writeln!(out, "    {line}"));
    }
    out
}
