//! The page: its data equal the record's cells, and text from a record stays data.

use std::collections::BTreeMap;
use std::io::Read as _;

use ptx::arch::Target;
use serde_json::Value;
use sm121probe::record::{Matrix, MessageRow, Outcome, Record};
use sm121probe::report::{self, Beside, FormText, Format, Styles};

use crate::report::fixture;

const MARKUP: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)>@@STYLE@@";

pub(super) fn page(record: &Record) -> String {
    report::html(record, &Beside::default()).unwrap()
}

fn decoded(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    for chunk in text.trim_end_matches('=').as_bytes().chunks(4) {
        let word = chunk.iter().fold(0_u32, |word, c| {
            word << 6 | u32::try_from(alphabet.iter().position(|a| a == c).unwrap()).unwrap()
        });
        let word = word << (6 * (4 - chunk.len()));
        out.extend(word.to_be_bytes()[1..chunk.len()].iter());
    }
    out
}

/// The data that the script of the page reads.
pub(super) fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\" data-kind=\"").unwrap();
    let (kind, rest) = rest.split_once("\">").unwrap();
    let (text, _) = rest.split_once("</script>").unwrap();
    if kind == "json" {
        return serde_json::from_str(text).unwrap();
    }
    let mut json = String::new();
    flate2::read::ZlibDecoder::new(decoded(text).as_slice()).read_to_string(&mut json).unwrap();
    serde_json::from_str(&json).unwrap()
}

/// Expands `R2N` to `RRN`.
fn letters(runs: &str) -> String {
    let mut out = String::new();
    let mut rest = runs;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        let count = if digits == 0 { 1 } else { rest[..digits].parse().unwrap() };
        out.extend(std::iter::repeat_n(letter, count));
        rest = &rest[digits..];
    }
    out
}

/// The cells of each form by toolkit and target, from the page.
fn cells(data: &Value) -> BTreeMap<(String, String, String), char> {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
    };
    let (targets, grids) = (texts(&data["targets"]), texts(&data["grids"]));
    let toolkits: Vec<String> =
        data["toolkits"].as_array().unwrap().iter().map(|t| t[0].as_str().unwrap().to_owned()).collect();
    let mut out = BTreeMap::new();
    for form in data["forms"].as_array().unwrap() {
        let grid = letters(&grids[usize::try_from(form["grid"].as_u64().unwrap()).unwrap()]);
        let mut letters = grid.chars();
        for target in &targets {
            for toolkit in &toolkits {
                let id = form["id"].as_str().unwrap().to_owned();
                out.insert((id, toolkit.clone(), target.clone()), letters.next().unwrap());
            }
        }
        assert_eq!(letters.next(), None);
    }
    out
}

#[test]
fn the_page_has_every_cell_of_the_record() {
    let record = fixture();
    let page = cells(&data(&page(&record)));
    let matrix = &record.matrix;
    let mut seen = 0;
    for variant in &matrix.variants {
        for toolkit in &matrix.toolkits {
            for target in matrix.targets() {
                let key = (variant.id.clone(), toolkit.version.to_string(), target.to_string());
                let pair = matrix.pair(toolkit.version, target, target);
                let cell = pair.and_then(|pair| matrix.cell(variant, pair));
                let shown = page[&key];
                let fits = match cell.map(|c| (c.outcome, c.native)) {
                    None => shown == '.',
                    Some((Outcome::Accepted, native)) => match native.map(|n| n.letter()) {
                        Some('?') | None => shown == 'A',
                        Some(letter) => shown == letter,
                    },
                    // Absent by design is a rejection, too.
                    Some((Outcome::Rejected, _)) => "RB".contains(shown),
                    Some((Outcome::UnknownTarget | Outcome::UnsupportedIsa, _)) => shown == 'U',
                    Some((Outcome::Crashed, _)) => shown == 'C',
                    Some((Outcome::TimedOut, _)) => shown == 'T',
                };
                assert!(fits, "{key:?}: {cell:?} is shown as {shown}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, page.len());
    let letters: std::collections::BTreeSet<char> = page.into_values().collect();
    assert!("NSEARBUCT.".chars().all(|letter| letters.contains(&letter)), "{letters:?}");
}

#[test]
fn a_flipped_cell_changes_the_page() {
    let record = fixture();
    let before = cells(&data(&page(&record)));
    for (v, variant) in record.matrix.variants.iter().enumerate().take(4) {
        let own = record.matrix.pairs.iter().enumerate().filter(|(_, p)| p.target == p.arch);
        for (n, _) in own.filter(|(n, _)| variant.outcomes.as_bytes().get(*n).is_some_and(|l| *l != b'.')) {
            let mut flipped = record.clone();
            let to = if variant.outcomes.as_bytes()[n] == b'A' { "R" } else { "A" };
            flipped.matrix.variants[v].outcomes.replace_range(n..=n, to);
            let after = cells(&data(&page(&flipped)));
            assert_eq!(before.iter().zip(&after).filter(|(a, b)| a != b).count(), 1, "{} {n}", variant.id);
        }
    }
}

#[test]
fn text_of_a_record_is_data_never_markup() {
    let mut record = fixture();
    record.tool = format!("tool {MARKUP}");
    for snippet in &mut record.matrix.snippets {
        (snippet.about, snippet.file) = (format!("about {MARKUP}"), format!("{}{MARKUP}", snippet.file));
    }
    for message in &mut record.matrix.messages {
        message.text.push_str(MARKUP);
    }
    for claim in &mut record.matrix.claims {
        claim.url = Some(format!("javascript:alert(1)//{MARKUP}"));
        claim.source.push_str(MARKUP);
    }
    let id = record.matrix.variants[0].id.clone();
    let text = FormText { ptx: MARKUP.to_owned(), line: MARKUP.to_owned(), ..FormText::default() };
    let beside = Beside { forms: [(id, text)].into(), ..Beside::default() };
    let mut small = Record::of_matrix(format!("tool {MARKUP}"), Matrix::default());
    small.matrix.messages.push(MessageRow { text: MARKUP.to_owned(), kind: None });
    for (record, beside) in [(&record, beside), (&small, Beside::default())] {
        let html = report::html(record, &beside).unwrap();
        assert_eq!(html.matches("<script").count(), 2, "the data and the script");
        assert_eq!(html.matches("</script").count(), 2);
        assert!(!html.contains("alert(1)</") && !html.contains("<img"), "markup of the record");
        assert!(html.trim_end().ends_with("</html>"));
        // It is shown unchanged.
        assert!(data(&html)["tool"].as_str().unwrap().ends_with(MARKUP));
    }
}

#[test]
fn the_page_loads_nothing_and_admits_only_its_own_script() {
    let html = page(&fixture());
    assert!(html.contains("default-src 'none'") && html.contains("script-src 'sha256-"));
    for outside in
        ["src=\"http", "href=\"http", "url(", "@import", "@@", "fetch(", "XMLHttpRequest", "innerHTML"]
    {
        assert!(!html.contains(outside), "{outside}");
    }
    assert_eq!(report::render(&fixture(), Format::Html, &Styles::plain()).unwrap(), html);
}

#[test]
fn the_committed_record_makes_a_small_page() {
    let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/reports/matrix.json"));
    let record = Record::read(path).unwrap();
    let html = page(&record);
    assert!(html.len() <= 1_500_000, "{} bytes", html.len());
    let data = data(&html);
    assert_eq!(data["forms"].as_array().unwrap().len(), record.matrix.variants.len());
    let all = cells(&data);
    let target = |text: &str| text.parse::<Target>().unwrap();
    for ((id, toolkit, on), letter) in all.iter().step_by(97) {
        let variant = record.matrix.variants.iter().find(|v| v.id == *id).unwrap();
        let pair = record.matrix.pair(toolkit.parse().unwrap(), target(on), target(on)).unwrap();
        let accepted = record.matrix.cell(variant, pair).is_some_and(|c| c.outcome == Outcome::Accepted);
        assert_eq!("NSEA".contains(*letter), accepted, "{id} {toolkit} {on}");
    }
}
