//! Expectations, tested both ways; and unusable input, reported with its place and a remedy.

use std::fs;

use sm121probe::moe::Stage;
use sm121probe::record::Verdict;

use super::faults::TODAY;
use super::fixture::{Desk, fail, record, said, set};

const TAIL: &str = "reason: because, url: \"https://example.invalid/1\"";

/// Expectations and a run with one failing trial: the file, the exit code, and words of the message.
#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn expectations_are_asserted_both_ways() {
    let fails = "scope: {case: tiny-exact, configuration: 128x32x128 native}, verdict: fail";
    let cases: Vec<(&str, String, i32, Vec<&str>)> = vec![
        (
            "excuses",
            format!("{{{fails}, {TAIL}, expires: 2027-01-01}}"),
            0,
            vec!["conforms", "1 expectation met"],
        ),
        ("last day", format!("{{{fails}, {TAIL}, expires: {TODAY}}}"), 0, vec!["conforms"]),
        (
            "expired",
            format!("{{{fails}, {TAIL}, expires: 2026-05-31}}"),
            100,
            vec![
                "expectations.yaml:2: expectation 1",
                "expired on 2026-05-31",
                "https://example.invalid/1",
                "fail at fc1",
            ],
        ),
        (
            "no longer true",
            format!("{{scope: {{case: tiny-empty}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"),
            100,
            vec![
                "is no longer true for 1 of 1 answers",
                "tiny-empty 128x32x128 native cp_async sm_121a on emulator is pass",
            ],
        ),
        (
            "half holds",
            format!("{{scope: {{case: \"tiny-*\"}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"),
            100,
            vec!["is no longer true for 2 of 3 answers", "narrow the expectation"],
        ),
        (
            "matches nothing",
            format!("{{scope: {{case: tinny}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"),
            100,
            vec!["matches nothing in this run", "mistyped"],
        ),
        (
            "another device",
            format!(
                "{{scope: {{case: tiny-exact, device: \"gpu:*\"}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"
            ),
            100,
            vec!["matches nothing"],
        ),
        (
            "overlaps",
            format!(
                "{{{fails}, {TAIL}, expires: 2027-01-01}}\n- {{scope: {{tile: 128x32x128, case: tiny-exact}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"
            ),
            100,
            vec!["expectation 2", "overlaps expectation 1 (line 2)", "narrow one of them"],
        ),
        (
            "the wrong word",
            format!(
                "{{scope: {{case: tiny-exact, tile: 128x32x128}}, verdict: timed_out, {TAIL}, expires: 2027-01-01}}"
            ),
            100,
            vec!["no longer true", "is fail at fc1"],
        ),
        (
            "a cell",
            format!(
                "{{{fails}, {TAIL}, expires: 2027-01-01}}\n- {{scope: {{variant: griddepcontrol, toolkit: \"13.5\", target: sm_120}}, verdict: rejected, {TAIL}, expires: 2027-01-01}}"
            ),
            100,
            vec![
                "expectation 2",
                "is no longer true for 1 of 1 answers",
                "griddepcontrol 13.5.37 sm_120 is accepted (native)",
            ],
        ),
        (
            "a word that the configuration lacks",
            format!(
                "{{scope: {{configuration: 128x32x128 portable}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"
            ),
            100,
            vec!["matches nothing in this run"],
        ),
        (
            "a glob in a word",
            format!(
                "{{scope: {{case: tiny-exact, configuration: \"cp_* 128x32*\"}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"
            ),
            0,
            vec!["conforms"],
        ),
        (
            "no word",
            format!("{{scope: {{configuration: \" \"}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"),
            2,
            vec!["expectations.yaml:2:", "an empty configuration"],
        ),
        (
            "unknown field",
            format!("{{{fails}, {TAIL}, expires: 2027-01-01, colour: red}}"),
            2,
            vec!["expectations.yaml:2:", "colour", "expected one of"],
        ),
        (
            "unknown scope",
            format!("{{scope: {{gpu: x}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"),
            2,
            vec!["expectations.yaml:2:", "gpu", "variant"],
        ),
        (
            "bad glob",
            format!("{{scope: {{case: \"tiny-[ab]\"}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"),
            2,
            vec![
                "expectations.yaml:2:",
                "`[` is not supported in the glob `tiny-[ab]`",
                "matches any characters",
            ],
        ),
        (
            "two stars",
            format!("{{scope: {{case: \"**\"}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"),
            2,
            vec!["write `*`"],
        ),
        (
            "bad day",
            format!("{{{fails}, {TAIL}, expires: 2026-02-30}}"),
            2,
            vec!["`2026-02-30` is not a date", "2026-11-30"],
        ),
        ("not a date", format!("{{{fails}, {TAIL}}}"), 2, vec!["missing field `expires`"]),
        (
            "no such verdict",
            format!("{{scope: {{case: x}}, verdict: flaky, {TAIL}, expires: 2027-01-01}}"),
            2,
            vec!["`flaky` is not a verdict", "known_fail"],
        ),
        (
            "everything",
            format!("{{scope: {{target: sm_121a}}, verdict: fail, {TAIL}, expires: 2027-01-01}}"),
            2,
            vec!["expectations.yaml:2:", "it would excuse everything"],
        ),
        (
            "no address",
            format!("{{{fails}, reason: x, url: nowhere, expires: 2027-01-01}}"),
            2,
            vec!["`nowhere` is not a URL"],
        ),
        (
            "no reason",
            format!("{{{fails}, reason: \"\", url: \"https://x\", expires: 2027-01-01}}"),
            2,
            vec!["`reason` is empty"],
        ),
        ("no YAML", "{scope: [".to_owned(), 2, vec!["expectations.yaml:"]),
    ];
    for (name, entries, code, words) in cases {
        let desk = Desk::new();
        let mut run = record();
        fail(&mut run.trials[0], Stage::Fc1, Verdict::Fail, "a scale byte");
        let (run, baseline) = (desk.record("run.json", &run), desk.record("baseline.json", &record()));
        let file = desk.write("expectations.yaml", &format!("expectations:\n- {entries}\n"));
        let output = desk.run(&[
            "gate",
            "--baseline",
            &baseline,
            "--from",
            &run,
            "--today",
            TODAY,
            "--expectations",
            &file,
        ]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{name}: {text}");
        for word in words {
            assert!(text.contains(word), "{name}: no `{word}` in: {text}");
        }
    }
}

#[test]
fn an_expectation_excuses_cells_and_tiles() {
    let desk = Desk::new();
    let mut run = record();
    set(&mut run, "griddepcontrol", ("13.5.37", "sm_120"), 'R', '.');
    run.tiles.rows[0].blocked = Some("x".to_owned());
    let (run, baseline) = (desk.record("run.json", &run), desk.record("baseline.json", &record()));
    let entries = format!(
        "expectations:\n- {{scope: {{variant: \"grid*\", toolkit: \"13.5\", target: sm_120}}, verdict: rejected, {TAIL}, expires: 2027-01-01}}\n\
         - {{scope: {{tile: 128x32x128}}, verdict: blocked, {TAIL}, expires: 2027-01-01}}\n"
    );
    let gate = |file: &str| {
        desk.run(&["gate", "--baseline", &baseline, "--from", &run, "--today", TODAY, "--expectations", file])
    };
    // The tile is blocked, but its trials are not: the second expectation covers both.
    let output = gate(&desk.write("both.yaml", &entries));
    assert_eq!(output.status.code(), Some(100), "{}", said(&output));
    assert!(said(&output).contains("is no longer true for 2 of 3 answers"), "{}", said(&output));
    let one = entries.split_inclusive('\n').take(2).collect::<String>();
    let output = gate(&desk.write("one.yaml", &one));
    assert_eq!(output.status.code(), Some(111), "{}", said(&output));
    assert!(
        !said(&output).contains("griddepcontrol") && said(&output).contains("may run → blocked"),
        "{}",
        said(&output)
    );
}

/// Files that are not records, or are damaged.
#[test]
fn bad_records_are_refused_with_their_place_and_a_remedy() {
    let good = record().to_json().unwrap();
    let cases: Vec<(&str, String, Vec<&str>)> = vec![
        (
            "truncated",
            good[..good.len() / 2].to_owned(),
            vec!["run.json:", "not a record of sm121probe", "EOF"],
        ),
        (
            "newer",
            good.replace("\"schema\": 2", "\"schema\": 3").replace("probe 0.1.0", "probe 9.9.9"),
            vec!["schema 3", "reads schemas 1 and 2", "9.9.9"],
        ),
        ("another tool", "{\"results\": []}".to_owned(), vec!["not a record of sm121probe", "schema"]),
        ("no JSON", "<xml/>".to_owned(), vec!["run.json:1:1"]),
        ("empty", String::new(), vec!["not a record"]),
        ("a list", "[1, 2]".to_owned(), vec!["not a record"]),
        ("letters", good.replacen("AAAAAAAAA", "AAAAXAAAA", 1), vec!["damaged", "unknown letters"]),
        ("too many letters", good.replacen("AAAAAAAAA", "AAAAAAAAAAAA", 1), vec!["damaged"]),
        (
            "a message that is not there",
            good.replacen("\"kind\":0", "\"kind\":7", 1),
            vec!["damaged", "a missing kind"],
        ),
        (
            "twice the same variant",
            good.replacen("\"id\":\"mma.mxf4.4X\"", "\"id\":\"mma.mxf4.2X\"", 1),
            vec!["damaged", "twice"],
        ),
        (
            "a cell edited by hand",
            good.replacen("RRRRRRRRR", "RRRRRRRRA", 1),
            vec!["damaged", "PTX ISA, tcgen05", "the record was edited", "regenerate it"],
        ),
        (
            "a claim recounted by hand",
            good.replacen("\"cells\":9", "\"cells\":\"many\"", 1),
            vec!["run.json:"],
        ),
        (
            "a verdict of another time",
            good.replacen("\"verdict\":\"pass\"", "\"verdict\":\"splendid\"", 1),
            vec!["run.json:", "splendid"],
        ),
        ("deep", "[".repeat(100_000), vec!["not a record"]),
    ];
    for (name, text, words) in cases {
        let desk = Desk::new();
        let (run, baseline) = (desk.write("run.json", &text), desk.record("baseline.json", &record()));
        for args in [
            vec!["gate", "--baseline", &baseline, "--from", &run],
            vec!["gate", "--baseline", &run, "--from", &baseline],
            vec!["diff", &baseline, &run],
            vec!["merge", &baseline, &run],
        ] {
            let output = desk.run(&args);
            let text = said(&output);
            assert_eq!(output.status.code(), Some(2), "{name}: {text}");
            assert!(!text.contains("panicked"), "{name}: {text}");
            for word in &words {
                assert!(text.contains(word), "{name}: no `{word}` in: {text}");
            }
        }
    }
}

#[test]
fn a_file_that_is_not_there_and_one_that_is_enormous() {
    let desk = Desk::new();
    let baseline = desk.record("baseline.json", &record());
    let output = desk.run(&["gate", "--baseline", "nowhere.json", "--from", &baseline]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("nowhere.json"));
    let file = fs::File::create(desk.path("huge.json")).unwrap();
    file.set_len(3 << 30).unwrap();
    let output = desk.run(&["diff", &baseline, desk.path("huge.json").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(
        said(&output).contains("huge.json") && said(&output).contains("3221225472 bytes"),
        "{}",
        said(&output)
    );
    let yaml = desk.write("e.yaml", &"#".repeat(2 << 20));
    let output = desk.run(&["gate", "--baseline", &baseline, "--from", &baseline, "--expectations", &yaml]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("2097152 bytes"), "{}", said(&output));
}
