//! Random kernels with every compiler: a table of counts by compiler and level.

use std::fmt::Write as _;

use crate::record::{FuzzBuild, FuzzTable};

/// The counts, for the terminal: kernels, comparisons, differences by known miscompile, and what is not explained.
#[must_use]
pub fn fuzz_text(table: &FuzzTable) -> String {
    let mut out = String::new();
    let assembled: u64 = table.builds.iter().map(|build| build.assembled).sum();
    let rows = table.reached + table.not_reached.len();
    _ = writeln!(
        out,
        "{} kernels for {} in PTX {}, assembled {assembled} times; {} of {rows} rows of the instruction table reached",
        table.kernels, table.target, table.isa, table.reached
    );
    if !table.not_reached.is_empty() {
        _ = writeln!(out, "not reached: {}", table.not_reached.join(" "));
    }
    for (build, reason) in &table.left_out {
        _ = writeln!(out, "left out: {build}: {reason}");
    }
    if let Some(device) = &table.device {
        _ = writeln!(out, "{}, driver {}:", device.name, device.driver);
        _ = writeln!(
            out,
            "{:<22} {:>5} {:>10} {:>8} {:>12}",
            "compiler", "level", "compared", "known", "unexplained"
        );
        for build in &table.builds {
            let known: u64 = build.known.values().chain(build.left_open.values()).sum();
            _ = writeln!(
                out,
                "{:<22} {:>5} {:>10} {known:>8} {:>12}",
                build.code.text(),
                level(build),
                build.compared,
                build.unexplained
            );
        }
        _ = writeln!(out, "compared: {}", table.compared());
        for (name, count) in table.known() {
            _ = writeln!(out, "known miscompile {name}: {count} differences");
        }
        for (what, count) in table.left_open() {
            _ = writeln!(out, "left open by PTX: {what}: {count} differences");
        }
        for (name, count) in not_run(table) {
            _ = writeln!(out, "known miscompile {name}: {count} not run, since they may never end");
        }
    }
    let unexplained: u64 = table.builds.iter().map(|build| build.unexplained).sum();
    if !table.builds.is_empty() {
        _ = writeln!(out, "unexplained: {unexplained}");
    }
    _ = writeln!(out, "findings: {}", table.findings.len());
    out
}

/// The counts as Markdown, a row for each compiler and level.
#[must_use]
pub fn fuzz_md(table: &FuzzTable) -> String {
    let mut out = String::new();
    let on = table.device.as_ref().map_or_else(
        || "assembled only".to_owned(),
        |device| format!("{}, driver {}, CUDA {}", device.name, device.driver, device.cuda),
    );
    _ = writeln!(
        out,
        "{} kernels for {} in PTX {}, seeds from {}; {on}; {}.\n",
        table.kernels, table.target, table.isa, table.seed, table.tool
    );
    out.push_str("|compiler|level|assembled|compared|not run|known miscompiles|unexplained|\n|---|---|---|---|---|---|---|\n");
    for build in &table.builds {
        let mut known: Vec<String> = build.known.iter().map(|(name, n)| format!("`{name}` {n}")).collect();
        known.extend(build.left_open.iter().map(|(what, n)| format!("left open by PTX: {what} {n}")));
        let not_run: u64 = build.not_run.values().sum();
        _ = writeln!(
            out,
            "|{}|{}|{}|{}|{not_run}|{}|{}|",
            build.code.text(),
            level(build),
            build.assembled,
            build.compared,
            known.join(", "),
            build.unexplained
        );
    }
    for (build, reason) in &table.left_out {
        _ = writeln!(out, "\nLeft out: {build}: {}", reason.lines().next().unwrap_or_default());
    }
    if !table.findings.is_empty() {
        out.push_str("\n|seed|compilers|finding|\n|---|---|---|\n");
        for finding in &table.findings {
            let what = finding.what.lines().next().unwrap_or_default().replace('|', "\\|");
            _ = writeln!(out, "|{}|{}|{what}|", finding.seed, finding.builds.join(", "));
        }
    }
    out
}

fn level(build: &FuzzBuild) -> String {
    build.level.map_or_else(String::new, |level| format!("-O{level}"))
}

fn not_run(table: &FuzzTable) -> std::collections::BTreeMap<&str, u64> {
    let mut all = std::collections::BTreeMap::new();
    for (name, count) in table.builds.iter().flat_map(|build| &build.not_run) {
        *all.entry(name.as_str()).or_default() += count;
    }
    all
}
