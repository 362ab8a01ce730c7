//! Parses CSV of `nsys stats`: `cuda_gpu_kern_sum`, `cuda_gpu_kern_gb_sum` and `cuda_gpu_trace`.
//!
//! Source: Nsight Systems, Post-Collection Analysis Guide, "Statistical Reports Shipped With Nsight Systems".
//!
//! Lines before the table are skipped, and the table ends at an empty line, so that the standard output of nsys can be read
//! unchanged. Units are taken from the column names (`--timeunit`).

use std::path::Path;

use super::error::BenchError;
use super::profile::{Kernels, Timed};

/// The indices of a table's columns, and its time unit.
struct Columns {
    name: usize,
    time: usize,
    nanoseconds_per_unit: f64,
    launches: Option<usize>,
    percent: Option<usize>,
}

impl Columns {
    fn from_header(header: &csv::StringRecord) -> Option<Self> {
        let place = |name: &str| header.iter().position(|column| column.trim() == name);
        let timed = |column: &str, prefix: &str| {
            let unit = column.trim().strip_prefix(prefix)?.strip_prefix(" (")?.strip_suffix(')')?;
            nanoseconds(unit)
        };
        let find = |prefix: &str| header.iter().enumerate().find_map(|(n, c)| Some((n, timed(c, prefix)?)));
        let launches = place("Instances");
        // A summary has totals; a trace has one launch per line.
        let (time, nanoseconds_per_unit) = match launches {
            Some(_) => find("Total Time")?,
            None => find("Duration")?,
        };
        Some(Self { name: place("Name")?, time, nanoseconds_per_unit, launches, percent: place("Time (%)") })
    }
}

fn nanoseconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" | "nsec" | "nanoseconds" => 1.0,
        "us" | "μs" | "usec" | "microseconds" => 1e3,
        "ms" | "msec" | "milliseconds" => 1e6,
        "s" | "sec" | "seconds" => 1e9,
        _ => return None,
    })
}

fn record(line: &str) -> Option<csv::StringRecord> {
    csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes()).records().next()?.ok()
}

/// Parses the kernels of a table; `None` if the text contains none of the three tables.
pub(super) fn read(path: &Path, text: &str) -> Option<Result<Kernels, BenchError>> {
    let (at, columns) =
        text.lines().enumerate().find_map(|(n, line)| Some((n, Columns::from_header(&record(line)?)?)))?;
    Some(rows(path, text, at, &columns))
}

fn rows(path: &Path, text: &str, header_line: usize, columns: &Columns) -> Result<Kernels, BenchError> {
    // An empty line ends the table; quoted line breaks in kernel names do not occur in practice.
    let table: Vec<&str> =
        text.lines().skip(header_line + 1).take_while(|line| !line.trim().is_empty()).collect();
    let joined = table.join("\n");
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(joined.as_bytes());
    let mut kernels = Kernels::new("nsys");
    for row in reader.records() {
        let row = row.map_err(|e| BenchError::Form { path: path.to_owned(), message: e.to_string() })?;
        let line = row.position().map_or(0, csv::Position::line) + header_line as u64 + 1;
        let wrong = |message: String| BenchError::Line { path: path.to_owned(), line, message };
        let cell = |n: usize, what: &str| {
            row.get(n)
                .map(str::trim)
                .ok_or_else(|| wrong(format!("the line ends before `{what}`: is the file truncated?")))
        };
        let number = |n: usize, what: &str| -> Result<f64, BenchError> {
            let text = cell(n, what)?;
            let value: f64 = text.parse().map_err(|_| wrong(format!("`{text}` is not a number ({what})")))?;
            if value.is_finite() && value >= 0.0 {
                Ok(value)
            } else {
                Err(wrong(format!("{what} is {value}")))
            }
        };
        let name = cell(columns.name, "Name")?;
        let time = number(columns.time, "time")? * columns.nanoseconds_per_unit;
        let launches = match columns.launches {
            Some(n) => {
                let text = cell(n, "Instances")?;
                text.parse().map_err(|_| wrong(format!("`{text}` is not a count (Instances)")))?
            }
            None => 1,
        };
        let percent = columns.percent.map(|n| number(n, "Time (%)")).transpose()?;
        // Skips memory copies and fills of a trace.
        if !name.starts_with("[CUDA ") {
            kernels.add(name, Timed { nanoseconds: time, launches, percent });
        }
    }
    Ok(kernels)
}
