//! The table of accepted forms against the committed matrix.

use std::path::Path;

use ptx::arch::{Suffix, Target};
use ptx::scan::instructions;
use sm121probe::lint::{Instead, instead_table};
use sm121probe::record::{Outcome, Record};
use sm121probe::snippet::{Library, Variant};

/// The committed answers of the newest toolkit.
struct Newest {
    record: Record,
    library: Library,
}

impl Newest {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/matrix.json");
        Self { record: Record::read(&path).unwrap(), library: Library::embedded() }
    }

    fn outcome(&self, variant: &str, target: Target) -> Outcome {
        let matrix = &self.record.matrix;
        let newest = matrix.toolkits.iter().map(|t| t.version).max().unwrap();
        let is_it = |p: &sm121probe::record::Pair| (p.toolkit, p.target, p.arch) == (newest, target, target);
        let pair = matrix.pairs.iter().position(is_it).unwrap();
        let row = matrix
            .variants
            .iter()
            .find(|v| v.id == variant)
            .unwrap_or_else(|| panic!("no variant {variant}"));
        matrix.cell(row, pair).unwrap().outcome
    }

    fn variant(&self, id: &str) -> &Variant {
        self.library.variants.iter().find(|v| v.id == id).unwrap_or_else(|| panic!("no variant {id}"))
    }

    /// Every instruction in the text of a variant.
    fn instructions(&self, variant: &Variant) -> Vec<String> {
        instructions(&variant.code.standalone("9.5".parse().unwrap(), "sm_121a".parse().unwrap()))
    }
}

fn target(text: &str) -> Target {
    text.parse().unwrap()
}

/// The row of an instruction.
fn row<'a>(table: &'a [(regex::Regex, Instead)], instruction: &str) -> Option<&'a Instead> {
    table.iter().find(|(pattern, _)| pattern.is_match(instruction)).map(|(_, row)| row)
}

#[test]
fn every_form_is_accepted_where_the_table_says_and_nowhere_else() {
    let newest = Newest::new();
    let table = instead_table().unwrap();
    assert!(table.len() > 30);
    for (pattern, row) in &table {
        assert!(!row.how.is_empty() && !row.source.is_empty() && !row.variants.is_empty(), "{pattern}");
        let accepts = |t: Target| row.variants.iter().all(|v| newest.outcome(v, t) == Outcome::Accepted);
        let said = row.targets();
        let seen: Vec<Target> = Target::default_set().into_iter().filter(|t| accepts(*t)).collect();
        assert_eq!(
            said, seen,
            "{pattern}: the suffix in `from` is not what ptxas says of {:?}",
            row.variants
        );
        for id in &row.variants {
            assert!(
                row.shown(newest.variant(id)).is_some(),
                "{pattern}: {id} does not show what `shows` says"
            );
        }
    }
}

#[test]
fn every_pattern_speaks_of_something_that_every_sm12x_target_refuses() {
    let newest = Newest::new();
    let table = instead_table().unwrap();
    let refused =
        |v: &&Variant| Target::default_set().iter().all(|t| newest.outcome(&v.id, *t) != Outcome::Accepted);
    let all: Vec<String> =
        newest.library.variants.iter().filter(refused).flat_map(|v| newest.instructions(v)).collect();
    let used: Vec<&Instead> = all.iter().filter_map(|i| row(&table, i)).collect();
    for (pattern, instead) in &table {
        assert!(used.iter().any(|u| std::ptr::eq(*u, instead)), "{pattern} speaks of no refused instruction");
    }
}

#[test]
fn all_that_sm100_or_sm90_has_and_sm12x_lacks_has_a_row() {
    let newest = Newest::new();
    let table = instead_table().unwrap();
    let mut without = Vec::new();
    for variant in &newest.library.variants {
        let accepted = |t: &str| newest.outcome(&variant.id, target(t)) == Outcome::Accepted;
        if !(accepted("sm_100a") || accepted("sm_90a")) || accepted("sm_121a") || accepted("sm_120a") {
            continue;
        }
        if !newest.instructions(variant).iter().any(|i| row(&table, i).is_some()) {
            without.push(variant.id.as_str());
        }
    }
    assert!(without.is_empty(), "SM12x lacks these, and the table has nothing for them: {without:?}");
}

#[test]
fn no_row_speaks_of_an_accepted_instruction() {
    let newest = Newest::new();
    let table = instead_table().unwrap();
    for variant in &newest.library.variants {
        let accepted =
            |suffix: Suffix| newest.outcome(&variant.id, Target { number: 121, suffix }) == Outcome::Accepted;
        if accepted(Suffix::Arch) {
            for instruction in newest.instructions(variant) {
                assert!(row(&table, &instruction).is_none(), "{} is accepted: {instruction}", variant.id);
            }
        }
    }
}
