//! The cost of loading snippets, reading a record and rendering reports. The time of the assemblers is measured by
//! `sm121probe matrix --verify`, which prints batch against isolated.

use std::path::Path;

use divan::{Bencher, black_box};
use sm121probe::record::Record;
use sm121probe::report;
use sm121probe::snippet::Library;

fn main() {
    divan::main();
}

fn committed() -> Option<Record> {
    Record::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/matrix.json")).ok()
}

/// Expands all built-in snippets, a cost of every run.
#[divan::bench]
fn load_snippets() -> usize {
    black_box(Library::embedded()).variants.len()
}

/// Reads the committed matrix.
#[divan::bench]
fn read_record() -> Option<Record> {
    committed()
}

/// Renders the committed matrix in each format.
#[divan::bench(args = ["terminal", "md", "csv", "json"])]
fn render(bencher: Bencher, form: &str) {
    let Some(record) = committed() else { return };
    bencher.bench(|| match form {
        "terminal" => report::terminal(&record, &report::Styles::plain()),
        "md" => report::markdown(&record),
        "csv" => report::csv(&record),
        _ => record.to_json().unwrap_or_default(),
    });
}
