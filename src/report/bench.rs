//! Times of the pipeline as Markdown and as CSV.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::csv::table;
use super::markup::{Align, code, head, plain, row};
use super::phrase::grouped;
use crate::kernel::MmaPath;
use crate::moe::Stage;
use crate::record::{BenchRow, BenchTable, ConfigurationName, RegretRow};

const HEADER: [&str; 13] = [
    "configuration",
    "tokens",
    "experts",
    "stage",
    "microseconds",
    "least",
    "most",
    "bytes",
    "weights",
    "operations",
    "multiplied",
    "of_bandwidth",
    "of_rate",
];

/// One row per kernel, number of tokens and stage; of a decode step of attention, which has a token of each request, without experts,
/// weights and operations.
#[must_use]
pub fn bench_csv(bench: &BenchTable) -> String {
    let rows = bench.rows.iter().map(|r| {
        vec![
            r.configuration.to_string(),
            r.tokens.to_string(),
            r.experts.to_string(),
            r.stage.to_string(),
            format!("{:.3}", r.microseconds),
            format!("{:.3}", r.range[0]),
            format!("{:.3}", r.range[1]),
            r.bytes.to_string(),
            r.weights.to_string(),
            r.operations.to_string(),
            r.multiplied.to_string(),
            format!("{:.4}", r.of_bandwidth),
            r.of_rate.map_or(String::new(), |share| format!("{share:.4}")),
        ]
    });
    let decodes = bench.decodes.iter().map(|r| {
        vec![
            r.configuration.to_string(),
            r.batch.to_string(),
            String::new(),
            r.stage.to_string(),
            format!("{:.3}", r.microseconds),
            format!("{:.3}", r.range[0]),
            format!("{:.3}", r.range[1]),
            r.bytes.to_string(),
            String::new(),
            String::new(),
            String::new(),
            format!("{:.4}", r.of_bandwidth),
            String::new(),
        ]
    });
    table(std::iter::once(HEADER.map(str::to_owned).to_vec()).chain(rows).chain(decodes))
}

/// Tokens in ascending order.
pub(super) fn tokens(bench: &BenchTable) -> Vec<usize> {
    bench.rows.iter().map(|r| r.tokens).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Kernels in the order of the rows.
pub(super) fn kernels(bench: &BenchTable) -> Vec<&ConfigurationName> {
    let mut out: Vec<&ConfigurationName> = Vec::new();
    for key in bench.rows.iter().map(|row| &row.configuration) {
        if !out.contains(&key) {
            out.push(key);
        }
    }
    out
}

fn find<'a>(
    bench: &'a BenchTable,
    kernel: &ConfigurationName,
    tokens: usize,
    stage: Stage,
) -> Option<&'a BenchRow> {
    bench.rows.iter().find(|r| r.tokens == tokens && r.stage == stage && r.configuration == *kernel)
}

/// Returns the microseconds of both GEMMs.
pub(super) fn gemms(bench: &BenchTable, kernel: &ConfigurationName, tokens: usize) -> Option<f64> {
    let of = |stage| find(bench, kernel, tokens, stage).map(|r| r.microseconds);
    Some(of(Stage::Fc1)? + of(Stage::Fc2)?)
}

/// Returns the fastest kernel for a number of tokens, by the time of both GEMMs, among those that `wanted` selects.
fn fastest(
    bench: &BenchTable,
    tokens: usize,
    wanted: impl Fn(&ConfigurationName) -> bool,
) -> Option<(&ConfigurationName, f64)> {
    let timed = kernels(bench).into_iter().filter(|kernel| wanted(kernel));
    let timed = timed.filter_map(|kernel| gemms(bench, kernel, tokens).map(|time| (kernel, time)));
    timed.min_by(|a, b| a.1.total_cmp(&b.1))
}

fn is_gemv(kernel: &ConfigurationName) -> bool {
    kernel.has(MmaPath::Gemv.word())
}

/// Three digits.
fn short(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// A row for each kernel, a column for each number of tokens.
fn grid(bench: &BenchTable, cell: impl Fn(&ConfigurationName, usize) -> Option<String>) -> String {
    let mut names = vec!["kernel".to_owned()];
    names.extend(tokens(bench).iter().map(ToString::to_string));
    let mut out = head(&names, Align::Centre);
    for kernel in kernels(bench) {
        let mut cells = vec![code(&kernel.to_string())];
        cells.extend(tokens(bench).iter().map(|tokens| cell(kernel, *tokens).unwrap_or_default()));
        out.push_str(&row(&cells));
    }
    out
}

/// Everything as tables.
#[must_use]
pub fn bench_markdown(bench: &BenchTable) -> String {
    let [hidden, inter, experts, top_k] = bench.sizes;
    let device = &bench.device;
    let mut out = format!(
        "# Times of the MXFP4 fused-MoE pipeline\n\n{} ({}, driver {}, CUDA {}); code for {} by {}. {}: hidden {hidden}, inter {inter}, \
        {experts} experts, {top_k} of a token, {} routing. Median of {} rounds after {}, by the GPU's events; {} \
        bytes are read before every launch, so that no input is in a cache.\n\n",
        plain(&device.name),
        plain(&device.architecture),
        plain(&device.driver),
        plain(&device.cuda),
        plain(&bench.target.text()),
        plain(&bench.code.text()),
        plain(&bench.dimensions),
        plain(&bench.routing),
        bench.samples,
        bench.warm_up,
        grouped(usize::try_from(bench.flushed).unwrap_or(usize::MAX)),
    );
    let _ = writeln!(out, "- peak read bandwidth: {:.0} GB/s (measured)", bench.bandwidth / 1e9);
    for rate in &bench.rates {
        let teras = rate.operations / 1e12;
        let _ = writeln!(
            out,
            "- {}: peak rate {teras:.0} tera-operations per second (measured)",
            plain(&rate.instruction)
        );
    }
    out.push_str("\n## Both GEMMs, microseconds by tokens\n\n");
    out.push_str(&grid(bench, |kernel, tokens| gemms(bench, kernel, tokens).map(short)));
    for (stage, name) in [(Stage::Fc1, "first"), (Stage::Fc2, "second")] {
        let _ = write!(out, "\n## The {name} GEMM: bytes per time, as a share of the measured bandwidth\n\n");
        out.push_str(&grid(bench, |kernel, tokens| {
            find(bench, kernel, tokens, stage).map(|r| percent(r.of_bandwidth))
        }));
    }
    out.push_str(
        "\n## The first GEMM: operations, padding rows included, as a share of the measured rate\n\n",
    );
    out.push_str(&grid(bench, |kernel, tokens| {
        find(bench, kernel, tokens, Stage::Fc1).and_then(|r| r.of_rate).map(percent)
    }));
    out.push_str(&stages(bench));
    out.push_str(&gemv(bench));
    out.push_str(&policies(bench));
    out.push_str(&decodes(bench));
    out
}

/// What decode steps of attention read; empty if none was timed.
fn decodes(bench: &BenchTable) -> String {
    if bench.decodes.is_empty() {
        return String::new();
    }
    let mut out = "\n## Decode of attention: bytes of keys and values per time, and their share of the measured bandwidth\n\n\
        The last two columns: the time of a kernel that only reads as many bytes, and its share of this kernel's time.\n\n"
        .to_owned();
    let names =
        ["kernel", "batch", "keys", "splits", "microseconds", "GB/s", "share", "plain read", "of plain read"];
    out.push_str(&head(&names.map(str::to_owned), Align::Centre));
    for of in &bench.decodes {
        out.push_str(&row(&[
            code(&of.configuration.to_string()),
            of.batch.to_string(),
            of.keys.to_string(),
            of.splits.to_string(),
            short(of.microseconds),
            format!("{:.0}", of.bandwidth() / 1e9),
            percent(of.of_bandwidth),
            of.plain_read.map_or(String::new(), short),
            of.of_plain_read().map_or(String::new(), percent),
        ]));
    }
    out
}

/// Every stage of the fastest kernel.
fn stages(bench: &BenchTable) -> String {
    let mut present: Vec<Stage> = bench.rows.iter().filter_map(|r| Stage::from_name(&r.stage)).collect();
    present.sort_unstable();
    present.dedup();
    let mut out = "\n## Stages with the fastest kernel, microseconds\n\n".to_owned();
    let mut names = vec!["tokens".to_owned(), "experts".to_owned(), "kernel".to_owned()];
    names.extend(present.iter().map(|stage| stage.word().to_owned()));
    names.push("sum".to_owned());
    out.push_str(&head(&names, Align::Centre));
    for tokens in tokens(bench) {
        let Some((kernel, _)) = fastest(bench, tokens, |_| true) else { continue };
        let found: Vec<_> = present.iter().map(|stage| find(bench, kernel, tokens, *stage)).collect();
        let active = found.iter().flatten().next().map_or(0, |r| r.experts);
        let mut cells = vec![tokens.to_string(), active.to_string(), code(&kernel.to_string())];
        cells.extend(found.iter().map(|r| r.map_or(String::new(), |r| short(r.microseconds))));
        cells.push(short(found.iter().flatten().map(|r| r.microseconds).sum()));
        out.push_str(&row(&cells));
    }
    out
}

/// The GEMV against the fastest grouped GEMM; empty if only one of them was timed.
fn gemv(bench: &BenchTable) -> String {
    let mut out = String::new();
    for tokens in tokens(bench) {
        let gemm = fastest(bench, tokens, |kernel| !is_gemv(kernel));
        let (Some(gemm), Some(gemv)) = (gemm, fastest(bench, tokens, is_gemv)) else { continue };
        let ratio = format!("{:.2}", gemv.1 / gemm.1);
        out.push_str(&row(&[
            tokens.to_string(),
            code(&gemm.0.to_string()),
            short(gemm.1),
            code(&gemv.0.to_string()),
            short(gemv.1),
            ratio,
        ]));
    }
    if out.is_empty() {
        return out;
    }
    let names = ["tokens", "grouped GEMM", "µs", "GEMV", "µs", "GEMV / GEMM"].map(str::to_owned);
    format!(
        "\n## The GEMV against the fastest grouped GEMM, both GEMMs\n\n{}{out}",
        head(&names, Align::Centre)
    )
}

/// How much longer each policy's tile takes than the fastest; empty without policies.
fn policies(bench: &BenchTable) -> String {
    let mut rows: Vec<(&str, &str)> =
        bench.regrets.iter().map(|r| (r.path.as_str(), r.policy.as_str())).collect();
    let mut seen = BTreeSet::new();
    rows.retain(|row| seen.insert(*row));
    if rows.is_empty() {
        return String::new();
    }
    let mut out = "\n## Policies: how much longer both GEMMs take than with the fastest timed tile\n\n\
        In brackets: the rows of the tile that the policy chooses; `–`: no such tile was timed.\n\n"
        .to_owned();
    let mut names = vec!["path".to_owned(), "policy".to_owned()];
    names.extend(tokens(bench).iter().map(ToString::to_string));
    names.push("mean".to_owned());
    out.push_str(&head(&names, Align::Centre));
    for (path, policy) in rows {
        let of: Vec<&RegretRow> =
            bench.regrets.iter().filter(|r| r.path == path && r.policy == policy).collect();
        let mut cells = vec![plain(path), code(policy)];
        for tokens in tokens(bench) {
            let found = of.iter().find(|r| r.tokens == tokens);
            let cell = |r: &&&RegretRow| format!("{} ({})", r.regret().map_or("–".to_owned(), percent), r.m);
            cells.push(found.as_ref().map_or(String::new(), cell));
        }
        let known: Vec<f64> = of.iter().filter_map(|r| r.regret()).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        cells.push(if known.is_empty() { "–".to_owned() } else { percent(mean) });
        out.push_str(&row(&cells));
    }
    out
}
