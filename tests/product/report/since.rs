//! A "since" of reports goes only as far as toolkits were queried: the committed record, cut down to some of its toolkits.

use std::path::Path;

use sm121probe::record::{Matrix, Record};
use sm121probe::report::{self, Styles};

fn committed() -> Record {
    Record::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/matrix.json")).unwrap()
}

/// The record of a run with the toolkits of these releases, and of these variants (all, if none is named).
fn record_of(releases: &[&str], variants: &[&str]) -> Record {
    let mut record = committed();
    let matrix = &mut record.matrix;
    let kept = |release: &str| releases.contains(&release);
    let letters = |text: &str, matrix: &[bool]| -> String {
        text.chars().zip(matrix).filter(|(_, kept)| **kept).map(|(letter, _)| letter).collect()
    };
    let pairs: Vec<bool> = matrix.pairs.iter().map(|pair| kept(&pair.toolkit.short())).collect();
    matrix.pairs.retain(|pair| kept(&pair.toolkit.short()));
    matrix.toolkits.retain(|toolkit| kept(&toolkit.version.short()));
    matrix.variants.retain(|variant| variants.is_empty() || variants.contains(&variant.id.as_str()));
    for variant in &mut matrix.variants {
        variant.outcomes = letters(&variant.outcomes, &pairs);
        variant.native = letters(&variant.native, &pairs);
        variant.messages.clear();
        variant.sass.clear();
    }
    matrix.claims.clear();
    Record::of_matrix("sm121probe".to_owned(), Matrix { claims: Vec::new(), ..record.matrix })
}

fn texts(record: &Record) -> [String; 2] {
    let terminal = report::terminal(record, &Styles::plain());
    [terminal.split_whitespace().collect::<Vec<_>>().join(" "), report::markdown(record)]
}

/// Accepted on sm_121a from 13.1 on, and on no target without a suffix.
const NEW: &str = "cvt.narrow.bf16x2.e2m1x2";
/// Accepted on sm_121a and not on sm_121f, from 12.9 on.
const DIFFERS: &str = "mma.sp.mxf4.isa.2X";

#[test]
fn with_a_gap_the_older_toolkit_and_the_committed_record_are_named() {
    let [_, markdown] = texts(&record_of(&["12.9", "13.5"], &[NEW]));
    assert!(markdown.contains("|13.5, not in 12.9; the built-in record: 13.1 (1)|"), "{markdown}");
    let [terminal, _] = texts(&record_of(&["12.9", "13.5"], &[]));
    assert!(terminal.contains("from 13.5, not in 12.9; the built-in record: 13.0 to 13."), "{terminal}");
    assert!(!terminal.contains("since 13.5") && terminal.contains(" since 12.9"), "{terminal}");
    // Several forms of one group, which came with different releases.
    let many = record_of(&["12.8", "13.5"], &[]);
    assert!(
        texts(&many)[0].contains(
            "First, needs a suffix, a or f: in 13.5, not in 12.8; the built-in record: 12.9 to 13."
        ),
        "{}",
        texts(&many)[0]
    );
    let [_, markdown] = texts(&record_of(&["12.9", "13.5"], &[NEW, "arith.simd.add_sat_u8x4"]));
    assert!(markdown.contains("13.5, not in 12.9; the built-in record: 13.1 to 13.2 (2)"), "{markdown}");
}

#[test]
fn alone_a_toolkit_is_the_oldest_queried() {
    let [terminal, markdown] = texts(&record_of(&["13.5"], &[NEW, DIFFERS]));
    assert!(markdown.contains("|13.5, the oldest queried; the built-in record: 13.1 (1)|"), "{markdown}");
    assert!(terminal.contains("in 13.5, the oldest queried; the built-in record: 12.9"), "{terminal}");
    assert!(
        markdown.contains("|13.5, the first queried that knows both; the built-in record: 12.9|"),
        "{markdown}"
    );
    assert!(!terminal.contains("since 13.5"), "{terminal}");
}

#[test]
fn without_a_gap_it_is_a_release() {
    // 12.9 is the first release with sm_121; nothing older has to be queried.
    let [terminal, markdown] = texts(&record_of(&["12.9", "13.0", "13.1"], &[NEW, DIFFERS]));
    assert!(terminal.contains(" since 12.9") && !terminal.contains("not in"), "{terminal}");
    assert!(markdown.contains("|12.9, the first to know both|"), "{markdown}");
    for text in texts(&committed()) {
        for words in ["not in 1", "oldest queried", "first queried", "built-in record"] {
            assert!(!text.contains(words), "{words}: {text}");
        }
    }
}
