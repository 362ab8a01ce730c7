//! The gate on records of the full matrix: comparing two records, and merging many that each differ in one cell.

use std::path::Path;

use divan::{Bencher, black_box};
use sm121probe::gate::{self, Disagreement, Merger};
use sm121probe::record::Record;

fn main() {
    divan::main();
}

/// Returns the committed matrix with the first native cell of variant `n` made unknown; `None` if it cannot be read.
fn record(n: usize) -> Option<Record> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/matrix.json");
    let mut record = Record::read(&path).ok()?;
    let rows = record.matrix.variants.len();
    let row = &mut record.matrix.variants[n % rows];
    row.native = row.native.replacen('N', "?", 1);
    Some(record)
}

/// `diff` in memory.
#[divan::bench]
fn diff(bencher: Bencher) {
    let (Some(a), Some(b)) = (record(0), record(1)) else { return };
    bencher.bench(|| black_box(gate::diff(&a, &b)).cells.len());
}

/// `merge` from the text of the files: parsing, checking, adding and finishing.
#[divan::bench(args = [8, 32])]
fn merge(bencher: Bencher, records: usize) {
    let texts: Option<Vec<String>> = (0..records).map(|n| record(n)?.to_json().ok()).collect();
    let Some(texts) = texts else { return };
    bencher.bench(|| {
        let mut merger = Merger::new(Disagreement::Shown);
        for (n, text) in texts.iter().enumerate() {
            if let Ok(record) = Record::parse(Path::new("bench"), text) {
                merger.add(&n.to_string(), record);
            }
        }
        black_box(merger.finish()).conflicts.len()
    });
}
