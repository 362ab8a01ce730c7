//! Results of the self-test, for the terminal and as CSV.

use std::fmt::Write as _;

use super::csv;
use crate::selftest::{Compared, OpResult, Verdict, bound_row};

const HEADER: [&str; 6] = ["op", "cases", "outputs", "mismatches", "max_ulp", "verdict"];

/// One line per instruction. The distance is empty if it has no meaning.
#[must_use]
pub fn selftest_csv(results: &[OpResult]) -> String {
    let line = |r: &OpResult| {
        let ulp = match r.verdict {
            Verdict::Unsupported(_) => None,
            _ => r.max_ulp(),
        };
        vec![
            r.op.clone(),
            r.cases.to_string(),
            r.outputs.to_string(),
            r.mismatches.to_string(),
            ulp.map(|u| u.to_string()).unwrap_or_default(),
            r.verdict.word().to_owned(),
        ]
    };
    csv::table(std::iter::once(HEADER.map(str::to_owned).to_vec()).chain(results.iter().map(line)))
}

/// Every instruction that is not bit-exact, with its distances, and a summary of each recording.
#[must_use]
pub fn selftest_text(results: &[OpResult]) -> String {
    let mut text = String::new();
    for r in results {
        match &r.verdict {
            Verdict::Exact => {}
            Verdict::Bounded => {
                let distances: Vec<String> =
                    r.distances.iter().map(|(ulp, n)| format!("{n} off by {ulp}")).collect();
                let promise = bound_row(&r.op).map_or("", |row| row.words);
                let _ = writeln!(
                    text,
                    "{}: {} of {} outputs differ, within bounds ({promise}); in ulp: {}",
                    r.op,
                    r.mismatches,
                    r.outputs,
                    shortened(&distances)
                );
            }
            Verdict::Fail(why) if r.mismatches > 0 => {
                let _ = writeln!(
                    text,
                    "{}: FAILS, {} of {} outputs differ; first: {why}",
                    r.op, r.mismatches, r.outputs
                );
            }
            Verdict::Fail(why) => {
                let _ = writeln!(text, "{}: FAILS: {why}", r.op);
            }
            Verdict::Unsupported(why) => {
                let _ = writeln!(text, "{}: unsupported: {why}", r.op);
            }
        }
    }
    let mut devices: Vec<&str> = results.iter().map(|r| r.device.as_str()).collect();
    devices.dedup();
    for device in devices {
        let of_device = || results.iter().filter(|r| r.device == device);
        let count = |f: fn(&Verdict) -> bool| of_device().filter(|r| f(&r.verdict)).count();
        let _ = writeln!(
            text,
            "{device}: {} instructions, {} bit-exact, {} within the manual's bounds, {} fail, {} unsupported",
            of_device().count(),
            count(|v| *v == Verdict::Exact),
            count(|v| *v == Verdict::Bounded),
            count(|v| matches!(v, Verdict::Fail(_))),
            count(|v| matches!(v, Verdict::Unsupported(_))),
        );
    }
    text
}

/// One line per function: whether the emulator's result is equal on all inputs.
#[must_use]
pub fn exhaustive_text(results: &[Compared]) -> String {
    let mut text = String::new();
    for r in results {
        let _ = match r.differ.first() {
            None => writeln!(text, "{}: {} inputs, bit-exact on {}", r.name, r.inputs, r.device),
            Some(first) => writeln!(
                text,
                "{}: FAILS on {}, answers differ in {} of {} blocks of inputs; the first begins at {first:#010x}",
                r.name,
                r.device,
                r.differ.len(),
                r.blocks
            ),
        };
    }
    text
}

/// One line per function.
#[must_use]
pub fn exhaustive_csv(results: &[Compared]) -> String {
    const HEADER: [&str; 5] = ["op", "inputs", "blocks", "differ", "verdict"];
    let line = |r: &Compared| {
        let verdict = if r.differ.is_empty() { "pass" } else { "fail" };
        let numbers = [r.inputs.to_string(), r.blocks.to_string(), r.differ.len().to_string()];
        [vec![r.name.clone()], numbers.to_vec(), vec![verdict.to_owned()]].concat()
    };
    csv::table(std::iter::once(HEADER.map(str::to_owned).to_vec()).chain(results.iter().map(line)))
}

/// The first few: bounds in units other than ulp can make the list long.
fn shortened(distances: &[String]) -> String {
    match distances {
        [a, b, c, d, rest @ .., last] if !rest.is_empty() => {
            format!("{a}, {b}, {c}, {d}, … {last}")
        }
        all => all.join(", "),
    }
}
