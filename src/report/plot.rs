//! A plot of times as SVG: both GEMMs of every kernel over the tokens of a batch, both axes logarithmic.

use std::fmt::Write as _;

use super::bench::{gemms, kernels, tokens};
use crate::record::{BenchTable, ConfigurationName};

/// The size of the picture, and the position of the plot area in it.
const SIZE: (f64, f64) = (1000.0, 640.0);
const FIELD: (f64, f64, f64, f64) = (70.0, 40.0, 640.0, 580.0);

/// Colours that colour-blind readers can tell apart (Okabe and Ito), then dashes.
const COLOURS: [&str; 8] =
    ["#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7", "#999999"];
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];

/// A scale of decades or octaves: the position of a value between two others, 0 to 1.
fn share(value: f64, least: f64, most: f64) -> f64 {
    if most > least { (value.ln() - least.ln()) / (most.ln() - least.ln()) } else { 0.5 }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The plot; without times, only the axes.
#[must_use]
pub fn bench_svg(bench: &BenchTable) -> String {
    let (columns, kernels) = (tokens(bench), kernels(bench));
    let of = |kernel: &ConfigurationName| -> Vec<(usize, f64)> {
        let time = |tokens: &usize| {
            gemms(bench, kernel, *tokens).filter(|t| t.is_finite() && *t > 0.0).map(|t| (*tokens, t))
        };
        columns.iter().filter_map(time).collect()
    };
    let lines: Vec<(&ConfigurationName, Vec<(usize, f64)>)> =
        kernels.iter().map(|kernel| (*kernel, of(kernel))).collect();
    let times = || lines.iter().flat_map(|(_, points)| points).map(|(_, time)| *time);
    let floor = 10f64.powf(times().fold(f64::INFINITY, f64::min).min(1e9).log10().floor());
    let top = 10f64.powf(times().fold(0.0, f64::max).max(10.0 * floor).log10().ceil());
    let (first, last) = (columns.first().copied().unwrap_or(1), columns.last().copied().unwrap_or(1));
    let (left, upper, right, lower) = FIELD;
    let x = |tokens: usize| left + (right - left) * share(tokens as f64, first as f64, last as f64);
    let y = |time: f64| lower - (lower - upper) * share(time, floor, top);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"20\" font-size=\"15\">{}: both grouped GEMMs on {}</text>\n",
        SIZE.0,
        SIZE.1,
        escaped(&bench.dimensions),
        escaped(&bench.device.name)
    );
    let mut decade = floor;
    while decade <= 1.001 * top {
        let at = y(decade);
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>"
        );
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{decade} µs</text>",
            left - 6.0,
            at + 4.0
        );
        decade *= 10.0;
    }
    for tokens in &columns {
        let at = x(*tokens);
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{upper}\" x2=\"{at:.1}\" y2=\"{lower}\" stroke=\"#eee\"/>"
        );
        let _ = writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tokens}</text>",
            lower + 16.0
        );
    }
    let middle = f64::midpoint(left, right);
    let _ = writeln!(
        out,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">tokens</text>",
        lower + 36.0
    );
    for (n, (kernel, points)) in lines.iter().enumerate() {
        let (colour, dash) = (COLOURS[n % COLOURS.len()], DASHES[n / COLOURS.len() % DASHES.len()]);
        let path: Vec<String> =
            points.iter().map(|(tokens, time)| format!("{:.1},{:.1}", x(*tokens), y(*time))).collect();
        let style =
            format!("stroke=\"{colour}\" stroke-dasharray=\"{dash}\" stroke-width=\"1.6\" fill=\"none\"");
        let _ = writeln!(out, "<polyline points=\"{}\" {style}/>", path.join(" "));
        let at = upper + 18.0 * n as f64;
        let (from, to) = (right + 20.0, right + 50.0);
        let _ = writeln!(out, "<line x1=\"{from}\" y1=\"{at:.1}\" x2=\"{to}\" y2=\"{at:.1}\" {style}/>");
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            to + 6.0,
            at + 4.0,
            escaped(&kernel.to_string())
        );
    }
    out.push_str("</svg>\n");
    out
}
