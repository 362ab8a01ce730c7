//! Reports of a handwritten record with every kind of answer. `SNAPSHOTS=overwrite` rewrites the golden files.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its record has failed")]

mod bench;
mod families;
mod page;
mod pipeline;
mod since;

use std::collections::BTreeMap;

use ptx::arch::{Target, ToolkitVersion};
use sm121probe::record::{
    ClaimRow, Expect, KindRow, Matrix, MessageRow, Native, Outcome, Pair, PairSet, Record, SnippetRow,
    Spread, Standing, ToolkitRow, VariantRow,
};
use sm121probe::report::{self, Format, Styles};
use snapbox::{assert_data_eq, file};

const TARGETS: [&str; 8] =
    ["sm_90a", "sm_100a", "sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a", "sm_121f"];
const TOOLKITS: [(&str, &str); 4] =
    [("12.8.93", "8.7"), ("13.0.48", "9.0"), ("13.0.88", "9.0"), ("13.5.37", "9.5")];

fn target(text: &str) -> Target {
    text.parse().unwrap()
}

/// A cell of the fixture: outcome, code, message, opcodes.
#[derive(Clone)]
struct Said(Outcome, Option<Native>, String, &'static str);

fn yes(native: Native, opcodes: &'static str) -> Option<Said> {
    Some(Said(Outcome::Accepted, Some(native), String::new(), opcodes))
}

fn no(words: &str) -> Option<Said> {
    Some(Said(Outcome::Rejected, None, words.to_owned(), ""))
}

fn other(outcome: Outcome, words: &str) -> Option<Said> {
    Some(Said(outcome, None, words.to_owned(), ""))
}

struct Fixture(Matrix);

impl Fixture {
    fn new() -> Self {
        let mut pairs = Vec::new();
        let cross = |t: &&str, a: &&str| t != a && t.starts_with("sm_12") && a.starts_with("sm_12");
        for (toolkit, _) in TOOLKITS {
            pairs.extend(TARGETS.iter().map(|t| (toolkit, *t, *t)));
        }
        for (toolkit, _) in TOOLKITS {
            for t in TARGETS {
                pairs.extend(TARGETS.iter().filter(|a| cross(&t, a)).map(|a| (toolkit, t, *a)));
            }
        }
        let pair = |(toolkit, t, a): &(&str, &str, &str)| Pair {
            toolkit: toolkit.parse().unwrap(),
            target: target(t),
            arch: target(a),
        };
        let toolkit = |(version, isa): &(&str, &str)| ToolkitRow {
            version: version.parse().unwrap(),
            isa: isa.parse().unwrap(),
            sha256: format!("{:0>64}", version.replace('.', "")),
        };
        let kind = |name: &str, cause: &str, remedy: &str| KindRow {
            name: name.to_owned(),
            cause: cause.to_owned(),
            remedy: remedy.to_owned(),
        };
        Self(Matrix {
            toolkits: TOOLKITS.iter().map(toolkit).collect(),
            disassembler: Some("13.5.37".parse().unwrap()),
            pairs: pairs.iter().map(pair).collect(),
            kinds: vec![
                kind(
                    "needs_suffix",
                    "The feature is not in this `.target`.",
                    "Compile for sm_121a or sm_121f.",
                ),
                kind("unknown_arch", "This ptxas is older than the target.", "Use a newer toolkit."),
                kind("never_used", "Nobody says it.", "Nothing."),
            ],
            ..Matrix::default()
        })
    }

    /// Adds a variant of snippet `family/stem`; `answer` is called for every pair; older toolkits know fewer targets.
    fn variant(&mut self, file: (&str, &str), id: &str, answer: impl Fn(&Pair, &str) -> Option<Said>) {
        let path = format!("ptx_snippets/{}/{}.ptx", file.0, file.1);
        let m = &mut self.0;
        let snippet = m.snippets.iter().position(|s| s.file == path).unwrap_or_else(|| {
            m.snippets.push(SnippetRow {
                file: path,
                family: file.0.to_owned(),
                about: format!("What {} does, in one sentence.", file.1),
                spec: "PTX ISA 9.7.99, made up".to_owned(),
                grants: vec![format!("has_{}", file.0)],
            });
            m.snippets.len() - 1
        });
        let (mut outcomes, mut natives) = (String::new(), String::new());
        let (mut messages, mut sass) = (BTreeMap::<String, PairSet>::new(), BTreeMap::<&str, PairSet>::new());
        for (n, pair) in m.pairs.iter().enumerate() {
            let old = pair.toolkit.to_string() == "12.8.93";
            let unknown = |t: Target| {
                old && t.to_string().starts_with("sm_12")
                    && !["sm_120", "sm_120a"].contains(&t.to_string().as_str())
            };
            let said = answer(pair, &pair.target.to_string()).map(|said| {
                let missing = [pair.arch, pair.target].into_iter().find(|t| unknown(*t));
                let words = missing.map(|t| format!("Value '{t}' is not defined for option 'gpu-name'"));
                words.map_or(said, |w| Said(Outcome::UnknownTarget, None, w, ""))
            });
            outcomes.push(said.as_ref().map_or('.', |s| s.0.letter()));
            natives.push(said.as_ref().and_then(|s| s.1).map_or('.', Native::letter));
            let Some(Said(_, _, words, opcodes)) = said else { continue };
            if !words.is_empty() {
                messages.entry(words).or_default().push(n);
            }
            if !opcodes.is_empty() {
                sass.entry(opcodes).or_default().push(n);
            }
        }
        let messages = messages.into_iter().map(|(text, pairs)| {
            let kind =
                if text.starts_with("Feature") { Some(0) } else { text.starts_with("Value").then_some(1) };
            let index = m.messages.iter().position(|m| m.text == text).unwrap_or_else(|| {
                m.messages.push(MessageRow { text, kind });
                m.messages.len() - 1
            });
            Spread { index, pairs }
        });
        let messages = messages.collect();
        let sass = sass.into_iter().map(|(text, pairs)| {
            let index = m.opcodes.iter().position(|o| o == text).unwrap_or_else(|| {
                m.opcodes.push(text.to_owned());
                m.opcodes.len() - 1
            });
            Spread { index, pairs }
        });
        let sass = sass.collect();
        m.variants.push(VariantRow {
            id: id.to_owned(),
            snippet,
            expects: if file.0 == "mma" {
                vec!["QMMA.SF".to_owned(), "OMMA.SF".to_owned()]
            } else {
                Vec::new()
            },
            outcomes: outcomes.trim_end_matches('.').to_owned(),
            native: natives.trim_end_matches('.').to_owned(),
            messages,
            sass,
        });
    }

    fn claim(
        &mut self,
        stem: &str,
        expect: Expect,
        targets: &str,
        now: Standing,
        recorded: Standing,
    ) -> &mut ClaimRow {
        let snippet = self.0.snippets.iter().position(|s| s.file.ends_with(&format!("/{stem}.ptx"))).unwrap();
        self.0.claims.push(ClaimRow {
            snippet,
            source: format!("Somebody's <b>document</b> on {stem}, table 3 | row *4*"),
            url: Some(format!("https://example.org/{stem}#L4")),
            expect,
            targets: targets.split(' ').map(target).collect(),
            archs: Vec::new(),
            toolkits: None,
            variants: Vec::new(),
            whole: true,
            standing: now,
            recorded,
            cells: 8,
            disagree: if now == Standing::Refuted { 3 } else { 0 },
            example: (now == Standing::Refuted)
                .then(|| format!("{stem} 13.0.48 sm_121a sm_121a rejected").as_str().into()),
        });
        self.0.claims.last_mut().unwrap()
    }
}

/// The record of most tests.
fn fixture() -> Record {
    let mut f = Fixture::new();
    let own = |p: &Pair| p.target == p.arch;
    let version = |p: &Pair| p.toolkit.to_string();
    let missing = |what: &str, t: &str| no(&format!("Feature '{what}' not supported on .target '{t}'"));
    f.variant(("arith", "arith.lop3"), "arith.lop3", |p, _| {
        own(p).then(|| yes(Native::Native, "LOP3.LUT MOV")).flatten()
    });
    f.variant(("arith", "arith.new"), "arith.new", |p, _| match (own(p), version(p).as_str()) {
        (false, _) => None,
        (_, "13.5.37") => yes(Native::Unknown, ""),
        _ => other(Outcome::UnsupportedIsa, "Unsupported .version 9.5; current version is '9.0'"),
    });
    f.variant(("cvt", "cvt.broken"), "cvt.broken", |p, t| match (version(p).as_str(), t) {
        _ if !own(p) || t == "sm_120f" => None,
        ("13.0.88", "sm_121a") => other(Outcome::Crashed, "ptxas died of SIGSEGV"),
        ("13.5.37", "sm_121f") => other(Outcome::TimedOut, "ptxas did not end within 30 s"),
        (_, "sm_90a") => other(Outcome::Crashed, "ptxas died of SIGSEGV"),
        _ => yes(Native::Native, "F2FP"),
    });
    f.variant(("cvt", "cvt.gone"), "cvt.gone", |p, t| match version(p).as_str() {
        _ if !own(p) => None,
        "12.8.93" | "13.0.48" => yes(Native::Native, "F2FP"),
        _ => missing("cvt.gone", t),
    });
    f.variant(("cvt", "cvt.refused"), "cvt.refused", |p, _| {
        own(p).then(|| no("Unexpected modifier \".rz\", a|b, `c`\nsecond line")).flatten()
    });
    f.variant(("mma", "mma.mxf4"), "mma.mxf4.2X", |p, t| match t {
        _ if !own(p) => None,
        "sm_120a" | "sm_120f" | "sm_121a" | "sm_121f" => yes(Native::Native, "OMMA.SF.16864"),
        _ => missing(".kind::mxf4", t),
    });
    f.variant(("mma", "mma.mxf4"), "mma.mxf4.4X", |p, t| match (t, version(p).as_str()) {
        _ if !own(p) => None,
        ("sm_120a" | "sm_120f" | "sm_121a" | "sm_121f", "13.5.37") => yes(Native::Split, "OMMA.SF.16864"),
        ("sm_120a" | "sm_120f" | "sm_121a" | "sm_121f", _) => no("Illegal modifier '.scale_vec::4X'"),
        _ => missing(".kind::mxf4", t),
    });
    f.variant(("mma", "mma.s4"), "mma.s4", |p, t| match t {
        _ if !own(p) => None,
        "sm_90a" => yes(Native::Native, "IMMA"),
        _ => yes(Native::Emulated, "BRA CALL.REL.NOINC"),
    });
    f.variant(("mma_sp", "mma.sp.mxf4"), "mma.sp.mxf4", |p, t| match t {
        _ if !own(p) => None,
        "sm_120a" | "sm_121a" => yes(Native::Native, "OMMA.SF.SP"),
        _ => missing("Sparse mma with block scale", t),
    });
    f.variant(("target", "target.empty"), "target.empty", |p, t| match t {
        _ if p.target.may_assemble_for(p.arch) => yes(Native::Native, "STG"),
        _ => no(&format!("PTX for '{t}' cannot be compiled to '{}'", p.arch)),
    });
    f.variant(("tcgen05", "tcgen05.alloc"), "tcgen05.alloc", |p, t| match t {
        _ if !own(p) => None,
        "sm_100a" => yes(Native::Native, "UTCATOMSWS"),
        _ => missing("tcgen05.alloc", t),
    });
    f.variant(("user", "kernel"), "kernel", |p, t| match t {
        _ if !own(p) => None,
        "sm_90a" | "sm_100a" | "sm_120" | "sm_121" => missing("cvt.e2m1x2", t),
        _ => yes(Native::Unknown, "F2FP"),
    });
    f.variant(("user", "kernel"), "kernel@as-written", |p, t| {
        (own(p) && t == "sm_121").then(|| missing("cvt.e2m1x2", t)).flatten()
    });

    let (confirmed, refuted) = (Standing::Confirmed, Standing::Refuted);
    let sm12x = "sm_120 sm_120a sm_120f sm_121 sm_121a sm_121f";
    f.claim("tcgen05.alloc", Expect::AbsentByDesign, sm12x, confirmed, confirmed);
    f.claim("mma.mxf4", Expect::Rejected, "sm_121a", refuted, refuted).toolkits = Some(">=12.9".into());
    f.claim("mma.mxf4", Expect::Accepted, "sm_121f", refuted, confirmed).variants =
        vec!["mma.mxf4.4X".to_owned()];
    let claim = f.claim("cvt.refused", Expect::Rejected, sm12x, confirmed, confirmed);
    (claim.url, claim.whole) = (None, false);
    f.claim("arith.lop3", Expect::Accepted, "sm_80", Standing::Untested, confirmed).cells = 0;
    f.0.variants.sort_by(|a, b| a.id.cmp(&b.id));
    Record::of_matrix("sm121probe 0.0.0".to_owned(), f.0)
}

/// The fixture with only the variants that `keep` names.
fn only(keep: &[&str]) -> Record {
    let mut record = fixture();
    record.matrix.variants.retain(|v| keep.contains(&v.id.as_str()));
    record
}

/// The fixture with so many more variants that the text report does not list all.
fn many() -> Record {
    let mut record = fixture();
    let like = record.matrix.variants.iter().find(|v| v.id == "arith.lop3").unwrap().clone();
    for n in 0..12 {
        record.matrix.variants.push(VariantRow { id: format!("arith.shift.{n:02}"), ..like.clone() });
    }
    record.matrix.variants.sort_by(|a, b| a.id.cmp(&b.id));
    record
}

#[test]
fn the_fixture_has_every_answer_and_reads_back() {
    let record = fixture();
    let text = report::json(&record).unwrap();
    assert_eq!(Record::parse("fixture".as_ref(), &text).unwrap(), record);
    for outcome in Outcome::ALL {
        assert!(record.matrix.variants.iter().any(|v| v.outcomes.contains(outcome.letter())), "{outcome:?}");
    }
    for native in Native::ALL {
        assert!(record.matrix.variants.iter().any(|v| v.native.contains(native.letter())), "{native:?}");
    }
}

#[test]
fn reports_are_the_golden_ones() {
    let record = fixture();
    assert_data_eq!(
        report::terminal(&many(), &Styles::plain()),
        file!["../golden/report/terminal.txt"].raw()
    );
    assert_data_eq!(
        report::terminal(&record, &Styles::plain()),
        file!["../golden/report/terminal-few.txt"].raw()
    );
    assert_data_eq!(report::markdown(&record), file!["../golden/report/report.md"].raw());
    assert_data_eq!(report::csv(&record), file!["../golden/report/cells.csv"].raw());
    let explained: Vec<String> = ["cvt.broken", "mma.mxf4.4X", "target.empty", "kernel@as-written"]
        .iter()
        .map(|id| report::explain(&record, id, &Styles::plain()).unwrap())
        .collect();
    assert_data_eq!(explained.join("\n=====\n\n"), file!["../golden/report/explain.txt"].raw());
}

#[test]
fn every_form_is_rendered_from_the_record_alone() {
    let record = fixture();
    let again = Record::parse("fixture".as_ref(), &report::json(&record).unwrap()).unwrap();
    for format in [Format::Text, Format::Md, Format::Json, Format::Csv, Format::Junit, Format::Html] {
        let render = |record| report::render(record, format, &Styles::plain()).unwrap();
        assert_eq!(render(&again), render(&record));
    }
    assert!(report::markdown(&record).contains(&report::variants(&record)));
}

#[test]
fn csv_reads_back_as_the_cells() {
    let record = fixture();
    let text = report::csv(&record);
    assert!(
        text.starts_with("variant,toolkit,target,arch,outcome,native,sass,message\n") && !text.contains('\r')
    );
    let m = &record.matrix;
    let mut want = BTreeMap::new();
    for v in &m.variants {
        for (n, p) in m.pairs.iter().enumerate() {
            let Some(cell) = m.cell(v, n) else { continue };
            let message = cell.message.map_or("", |m| m.text.lines().next().unwrap());
            let native = cell.native.map_or("", Native::word);
            let rest = [cell.outcome.word(), native, cell.sass, message].map(str::to_owned);
            want.insert((v.id.clone(), p.toolkit, p.target, p.arch), rest);
        }
    }
    let rows: Vec<csv::StringRecord> =
        csv::Reader::from_reader(text.as_bytes()).records().map(Result::unwrap).collect();
    let got: Vec<_> = rows
        .iter()
        .map(|r| {
            let key =
                (r[0].to_owned(), r[1].parse::<ToolkitVersion>().unwrap(), target(&r[2]), target(&r[3]));
            (key, [&r[4], &r[5], &r[6], &r[7]].map(str::to_owned))
        })
        .collect();
    // The map is ordered by variant, toolkit (as numbers), target and arch, and so are the rows.
    assert_eq!(got, want.into_iter().collect::<Vec<_>>());
}

#[test]
fn colours_change_nothing_but_colours() {
    for record in [fixture(), many()] {
        let plain = report::terminal(&record, &Styles::plain());
        let colored = report::terminal(&record, &Styles::colored());
        assert!(!plain.contains('\u{1b}') && colored.contains('\u{1b}'));
        let mut stripped = String::new();
        let mut rest = colored.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            stripped.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        assert_eq!(stripped + rest, plain);
        assert!(plain.lines().all(|l| l.chars().count() <= 100 && l.trim_end() == l), "{plain}");
    }
}

#[test]
fn a_flipped_cell_changes_every_report_of_all_cells() {
    let record = fixture();
    let (md, csv, json) = (report::markdown(&record), report::csv(&record), report::json(&record).unwrap());
    for (v, variant) in record.matrix.variants.iter().enumerate() {
        for (n, letter) in variant.outcomes.bytes().enumerate().filter(|(_, l)| *l != b'.') {
            let mut flipped = record.clone();
            let to = if letter == b'A' { "R" } else { "A" };
            flipped.matrix.variants[v].outcomes.replace_range(n..=n, to);
            let what = format!("{} {:?}", variant.id, record.matrix.pairs[n]);
            assert_ne!(report::csv(&flipped), csv, "{what}");
            assert_ne!(report::json(&flipped).unwrap(), json, "{what}");
            assert_ne!(report::markdown(&flipped), md, "{what}");
            assert_ne!(
                report::explain(&flipped, &variant.id, &Styles::plain()),
                report::explain(&record, &variant.id, &Styles::plain()),
                "{what}"
            );
        }
    }
}

#[test]
fn unknown_is_never_printed_as_no() {
    for letter in ["U", "I", "."] {
        let mut record = fixture();
        for v in &mut record.matrix.variants {
            v.outcomes = letter.repeat(v.outcomes.len());
            (v.native, v.messages, v.sass) = (String::new(), Vec::new(), Vec::new());
        }
        let md = report::markdown(&record);
        let legend = ["rejected by every toolkit", "rejected, and absent"];
        let tables =
            md.lines().filter(|l| l.starts_with('|') && !legend.iter().any(|words| l.contains(words)));
        for line in tables {
            assert!(!line.contains('✗') && !line.contains('⊘') && !line.contains("none"), "{line}");
        }
        let few = report::terminal(&record, &Styles::plain());
        assert!(!few.contains(" no ") && !few.contains("none\n") && !few.contains("absent by"), "{few}");
    }
}

#[test]
fn one_kernel_is_judged_on_the_first_screen() {
    let text = report::terminal(&only(&["kernel", "kernel@as-written"]), &Styles::plain());
    assert!(
        text.contains("kernel@as-written") && text.contains("Feature 'cvt.e2m1x2' not supported"),
        "{text}"
    );
    assert!(text.contains("Compile for sm_121a or sm_121f."), "{text}");
}

#[test]
fn an_unknown_variant_gets_its_neighbours() {
    let error = report::explain(&fixture(), "mma.mxf4", &Styles::plain()).unwrap_err().to_string();
    assert_eq!(error, "there is no variant `mma.mxf4`; similar variants: mma.mxf4.2X mma.mxf4.4X");
    let error = report::explain(&fixture(), "tcgen5.aloc", &Styles::plain()).unwrap_err().to_string();
    assert!(error.contains("tcgen05.alloc"), "{error}");
    let error = report::explain(&fixture(), "zzzzzzzzzzzz", &Styles::plain()).unwrap_err().to_string();
    assert_eq!(error, "there is no variant `zzzzzzzzzzzz`");
}

#[test]
fn a_record_of_nothing_is_rendered_too() {
    let mut record = fixture();
    record.matrix = Matrix::default();
    let text = report::terminal(&record, &Styles::plain());
    assert!(text.contains("No variant was queried."), "{text}");
    assert!(report::markdown(&record).contains("0 variants"));
    assert_eq!(report::csv(&record).lines().count(), 1);
}

#[test]
fn a_full_matrix_stays_below_a_megabyte() {
    let mut record = fixture();
    let m = &mut record.matrix;
    let targets = Target::all_set();
    let version = |n: u16| ToolkitVersion { major: 12 + n / 6, minor: n % 6, patch: 88 };
    m.toolkits = (0..16).map(|n| ToolkitRow { version: version(n), ..m.toolkits[0].clone() }).collect();
    m.pairs = (0..16)
        .flat_map(|n| targets.iter().map(move |t| Pair { toolkit: version(n), target: *t, arch: *t }))
        .collect();
    let like = m.variants[0].clone();
    m.variants.clear();
    m.messages.clear();
    for n in 0..100 {
        m.messages
            .push(MessageRow { text: format!("Feature '{n}' not supported on .target"), kind: Some(0) });
    }
    for n in 0..1700_usize {
        // Rejected up to a toolkit that depends on row and column.
        let first = |p: usize| (n * 7 + (p % 15) * 3) % 19;
        let outcomes: String = (0..240).map(|p| if p / 15 >= first(p) { 'A' } else { 'R' }).collect();
        let mut pairs = PairSet::default();
        outcomes.bytes().enumerate().filter(|(_, l)| *l == b'R').for_each(|(p, _)| pairs.push(p));
        m.variants.push(VariantRow {
            id: format!("family.some.instruction.with.axes.{n:05}"),
            snippet: n % m.snippets.len(),
            native: outcomes.replace('R', ".").replace('A', "N"),
            outcomes,
            messages: vec![Spread { index: n % 100, pairs }],
            ..like.clone()
        });
    }
    let md = report::markdown(&record);
    assert!(md.len() < 1_000_000, "{} bytes", md.len());
    let text = report::terminal(&record, &Styles::plain());
    // The worst case: all targets differ; a real record takes about 60 lines.
    assert!(text.lines().count() < 200, "{text}");
}

#[test]
fn an_explanation_is_coloured_by_lines_and_says_the_same() {
    let record = fixture();
    let mut toned = 0;
    for variant in &record.matrix.variants {
        let plain = report::explain(&record, &variant.id, &Styles::plain()).unwrap();
        let coloured = report::explain(&record, &variant.id, &Styles::colored()).unwrap();
        assert!(!plain.contains('\u{1b}') && coloured.contains('\u{1b}'), "{}", variant.id);
        assert_eq!(strip(&coloured), plain);
        for line in coloured.lines().filter(|l| l.contains("\u{1b}[32m") || l.contains("\u{1b}[31m")) {
            let good = line.contains("accepted, ") || line.contains("confirmed by");
            assert_eq!(good, line.contains("\u{1b}[32m"), "{line}");
            toned += 1;
        }
    }
    assert!(toned > 0);
}

/// The text without escape sequences.
fn strip(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + part.split_once('m').map_or(part, |(_, rest)| rest))
}
