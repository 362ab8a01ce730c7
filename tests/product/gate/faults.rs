//! Planted changes, each with the exit code and the message that the gate must give.

use sm121probe::frame::family::Family as _;
use sm121probe::moe::Stage;
use sm121probe::moe::family::MOE;
use sm121probe::record::{Record, Verdict};

use super::fixture::{Desk, fail, on_gpu, record, said, set, stdout};

pub(super) const TODAY: &str = "2026-06-01";

/// A planted change: a description, its effect on the run (and on the baseline), the exit code, and words of the message.
struct Fault {
    name: &'static str,
    plant: fn(&mut Record, &mut Record),
    code: i32,
    words: &'static [&'static str],
}

const fn fault(
    name: &'static str,
    code: i32,
    words: &'static [&'static str],
    plant: fn(&mut Record, &mut Record),
) -> Fault {
    Fault { name, plant, code, words }
}

/// Changes of the run or of the baseline; both remain valid records.
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn faults() -> Vec<Fault> {
    vec![
        fault("nothing", 0, &["conforms", "36 cells", "3 trials (2 pass, 1 blocked)"], |_, _| {}),
        fault(
            "a cell is refused",
            111,
            &["sm_121a", "-1 form with 13.1.115", "accepted (native) → rejected", "mma.mxf4.4X"],
            |run, _| {
                set(run, "mma.mxf4.4X", ("13.1.115", "sm_121a"), 'R', '.');
            },
        ),
        fault(
            "a later toolkit refuses",
            111,
            &[
                "REGRESSION within a toolkit line: 13.1.115 accepts it, 13.5.37 rejects it",
                "griddepcontrol on sm_120",
                "griddepcontrol.ptx:1",
            ],
            |run, _| {
                set(run, "griddepcontrol", ("13.5.37", "sm_120"), 'R', '.');
            },
        ),
        fault(
            "a cell is accepted",
            111,
            &["sm_120", "+1 form with 13.5.37 (rejected → accepted (native)): mma.mxf4.2X"],
            |run, _| {
                set(run, "mma.mxf4.2X", ("13.5.37", "sm_120"), 'A', 'N');
            },
        ),
        fault(
            "an instruction is expanded",
            111,
            &["accepted (native) → accepted (emulated)", "mma.mxf4.2X"],
            |run, _| {
                set(run, "mma.mxf4.2X", ("13.5.37", "sm_121f"), 'A', 'E');
            },
        ),
        fault("opcodes were not named", 0, &["note:", "conforms"], |run, _| {
            set(run, "mma.mxf4.2X", ("13.5.37", "sm_121f"), 'A', '?');
        }),
        fault("ptxas crashes", 111, &["rejected → crashed", "tcgen05.alloc"], |run, _| {
            set(run, "tcgen05.alloc", ("13.5.37", "sm_121f"), 'C', '.');
        }),
        fault("ptxas hangs", 111, &["accepted (native) → timed out", "griddepcontrol"], |run, _| {
            set(run, "griddepcontrol", ("13.0.88", "sm_121f"), 'T', '.');
        }),
        fault("a toolkit forgets a target", 111, &["accepted (native) → unknown target"], |run, _| {
            set(run, "griddepcontrol", ("13.0.88", "sm_121a"), 'U', '.');
        }),
        fault(
            "a cell was not asked",
            111,
            &["accepted (native) → not queried", "griddepcontrol"],
            |run, _| {
                set(run, "griddepcontrol", ("13.0.88", "sm_121a"), '.', '.');
            },
        ),
        fault("a variant is gone", 111, &["-1 form", "→ not queried", "mma.mxf4.4X"], |run, _| {
            run.matrix.variants.retain(|v| v.id != "mma.mxf4.4X");
        }),
        fault("a variant is new", 0, &["note:", "mma.mxf4.4X", "conforms"], |_, baseline| {
            baseline.matrix.variants.retain(|v| v.id != "mma.mxf4.4X");
        }),
        fault(
            "a claim is contradicted",
            110,
            &["claim tcgen05.alloc PTX ISA, tcgen05", "is refuted", "13.5.37 sm_121a"],
            |run, _| {
                set(run, "tcgen05.alloc", ("13.5.37", "sm_121a"), 'A', 'N');
            },
        ),
        fault(
            "a stage fails",
            100,
            &[
                "trial tiny-exact 128x32x128 native cp_async sm_121a on emulator",
                "fail at fc1",
                "expert=2 row=7 col=11",
                "scale",
            ],
            |run, _| {
                fail(&mut run.trials[0], Stage::Fc1, Verdict::Fail, "a scale byte");
            },
        ),
        fault("a stage that the baseline knows to fail", 100, &["fail at fc2"], |run, baseline| {
            fail(&mut run.trials[0], Stage::Fc2, Verdict::Fail, "x");
            fail(&mut baseline.trials[0], Stage::Fc2, Verdict::Fail, "x");
        }),
        fault(
            "a failure is repaired",
            0,
            &["note: trial", "fail at fc2 → pass", "conforms"],
            |_, baseline| {
                fail(&mut baseline.trials[0], Stage::Fc2, Verdict::Fail, "x");
            },
        ),
        fault("an instruction is not emulated", 100, &["unsupported at fc1"], |run, _| {
            fail(&mut run.trials[0], Stage::Fc1, Verdict::Unsupported, "wgmma");
        }),
        fault("a launch hangs", 100, &["timed out at finalize"], |run, _| {
            fail(&mut run.trials[2], Stage::Finalize, Verdict::TimedOut, "30 s");
        }),
        fault("a known failure passes", 100, &["unexpected pass at fc1"], |run, _| {
            fail(&mut run.trials[0], Stage::Fc1, Verdict::UnexpectedPass, "https://example.invalid/1");
        }),
        fault("the trial itself is broken", 100, &["broken at route"], |run, _| {
            fail(&mut run.trials[0], Stage::Route, Verdict::Broken, "x");
        }),
        fault(
            "a trial is blocked that passed",
            111,
            &["trial tiny-exact 128x32x128", "pass → blocked", "spills"],
            |run, _| {
                run.trials[0].results = run.trials[1].results.clone();
                run.trials[0].results[0].note = "spills".to_owned();
            },
        ),
        fault("a trial is skipped that passed", 111, &["pass → skipped", "no such case"], |run, _| {
            run.trials[2].results.truncate(1);
            run.trials[2].results[0].verdict = Verdict::Skipped;
            run.trials[2].results[0].note = "no such case".to_owned();
        }),
        fault("a trial did not run", 111, &["trial tiny-empty", "pass → no answer"], |run, _| {
            run.trials.pop();
        }),
        fault("a tile is blocked", 111, &["tile 128x32x128", "may run → blocked: 2 KiB over"], |run, _| {
            run.tiles.rows[0].blocked = Some("2 KiB over".to_owned());
        }),
        fault(
            "a tile costs more",
            0,
            &["note: tile 128x32x128", "registers 128", "registers 255"],
            |run, _| {
                run.tiles.rows[0].registers = Some(255);
            },
        ),
        fault(
            "a toolkit lane did not run",
            4,
            &["toolkit 13.0.88", "not in this run", "toolkit install 13.0.88"],
            |run, _| {
                let old: Vec<usize> = (0..3).collect();
                assert!(old.iter().all(|p| run.matrix.pairs[*p].toolkit.minor == 0));
                run.matrix.pairs.drain(0..3);
                run.matrix.toolkits.remove(0);
                for v in &mut run.matrix.variants {
                    v.outcomes.drain(0..3);
                    v.native = v.native.chars().skip(3).collect();
                    v.messages.clear();
                }
            },
        ),
        fault(
            "the pipeline did not run",
            4,
            &[
                "INCOMPLETE: device emulator",
                "not in this run",
                "no NVRTC on this machine",
                "toolkit install nvrtc",
            ],
            |run, _| {
                run.trials.clear();
                run.skipped.push(sm121probe::record::SkippedRow {
                    part: MOE.row().title,
                    reason: "no NVRTC on this machine".to_owned(),
                    needed: true,
                });
            },
        ),
        fault(
            "the GPU lane did not run",
            4,
            &["device gpu:0", "run on a machine with this device"],
            |_, baseline| {
                baseline.trials.push(on_gpu(baseline.trials[0].clone()));
            },
        ),
        fault(
            "a check does not stand",
            100,
            &["check tiny-exact 128x32x128 native cp_async deterministic", "fail", "replay 17"],
            |run, baseline| {
                baseline.trials.push(on_gpu(baseline.trials[0].clone()));
                let mut row = on_gpu(run.trials[0].clone());
                let check = row.checks.iter_mut().find(|r| r.check.word() == "deterministic").unwrap();
                (check.verdict, check.note) = (Verdict::Fail, "replay 17".to_owned());
                run.trials.push(row);
            },
        ),
        fault("the GPU is lost", 100, &["device lost at fc1", "gpu:0"], |run, baseline| {
            baseline.trials.push(on_gpu(baseline.trials[0].clone()));
            let mut row = on_gpu(run.trials[0].clone());
            fail(&mut row, Stage::Fc1, Verdict::DeviceLost, "Xid 79");
            run.trials.push(row);
        }),
        fault(
            "two things: the weightier decides",
            100,
            &["fail at fc1", "accepted (native) → rejected"],
            |run, _| {
                set(run, "mma.mxf4.4X", ("13.1.115", "sm_121a"), 'R', '.');
                fail(&mut run.trials[0], Stage::Fc1, Verdict::Fail, "x");
            },
        ),
        fault(
            "merged records disagree",
            100,
            &["records disagree", "accepted (a.json); rejected (b.json)"],
            |run, _| {
                let of = |answer: &str, source: &str| sm121probe::record::ConflictAnswer {
                    answer: answer.to_owned(),
                    sources: vec![source.to_owned()],
                };
                run.conflicts.push(sm121probe::record::ConflictRow {
                    about: "x".to_owned(),
                    answers: vec![of("accepted", "a.json"), of("rejected", "b.json")],
                });
            },
        ),
        fault("nothing was asked", 4, &["NOTHING CHECKED: ", "toolkit 13.5.37"], |run, _| {
            *run = Record::of_matrix("t".to_owned(), Default::default())
        }),
        fault(
            "an empty baseline",
            4,
            &["NOTHING CHECKED: the run has no answer, or none that the baseline has"],
            |_, baseline| {
                *baseline = Record::of_matrix("t".to_owned(), Default::default());
            },
        ),
    ]
}

#[test]
fn every_planted_change_gets_its_code_and_its_words() {
    let mut wrong = Vec::new();
    for fault in faults() {
        let desk = Desk::new();
        let (mut run, mut baseline) = (record(), record());
        if fault.name == "an empty baseline" {
            run.trials.clear();
        }
        (fault.plant)(&mut run, &mut baseline);
        let (run, baseline) = (desk.record("run.json", &run), desk.record("baseline.json", &baseline));
        let output = desk.run(&["gate", "--baseline", &baseline, "--from", &run, "--today", TODAY]);
        let text = said(&output);
        let missing: Vec<_> = fault.words.iter().filter(|w| !text.contains(*w)).collect();
        if output.status.code() != Some(fault.code) || !missing.is_empty() {
            wrong.push(format!(
                "{}: {:?}, not {}; no {missing:?} in:\n{text}",
                fault.name,
                output.status.code(),
                fault.code
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(faults().len() >= 30);
}

#[test]
fn what_a_call_leaves_out_is_no_finding_and_is_said() {
    let desk = Desk::new();
    let mut run = record();
    let gone = ["13.0.88", "13.1.115"];
    run.matrix.pairs.drain(0..6);
    run.matrix.toolkits.drain(0..2);
    for v in &mut run.matrix.variants {
        v.outcomes.drain(0..6);
        v.native = v.native.chars().skip(6).collect();
        v.messages.clear();
    }
    let (run, baseline) = (desk.record("run.json", &run), desk.record("baseline.json", &record()));
    let output = desk.run(&["gate", "--baseline", &baseline, "--from", &run, "-k", "13.5"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = stdout(&output);
    assert!(gone.iter().all(|t| text.contains(t)) && text.contains("excluded by the command line"), "{text}");
    assert!(text.contains("12 cells"), "{text}");
}

#[test]
fn blessing_says_what_it_blesses_and_keeps_what_was_not_asked() {
    let desk = Desk::new();
    let mut run = record();
    set(&mut run, "mma.mxf4.4X", ("13.5.37", "sm_120"), 'A', 'N');
    let (run_file, baseline) = (desk.record("run.json", &run), desk.record("baseline.json", &record()));
    let gate =
        |more: &[&str]| desk.run(&[&["gate", "--baseline", &baseline, "--from", &run_file], more].concat());
    assert_eq!(gate(&[]).status.code(), Some(111));
    let output = gate(&["--bless"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = stdout(&output);
    assert!(
        text.contains("blessed: 1 better")
            && text.contains("mma.mxf4.4X")
            && text.contains("baseline.json is written"),
        "{text}"
    );
    assert_eq!(gate(&[]).status.code(), Some(0), "{}", said(&gate(&[])));
    // A run of one toolkit leaves the other toolkits' answers unchanged.
    run.matrix.pairs.truncate(3);
    run.matrix.toolkits.truncate(1);
    for v in &mut run.matrix.variants {
        v.outcomes.truncate(3);
        v.native = v.native.chars().take(3).collect();
        v.messages.clear();
    }
    let part = desk.record("part.json", &run);
    assert_eq!(
        desk.run(&["gate", "--baseline", &baseline, "--from", &part, "--bless"]).status.code(),
        Some(0)
    );
    assert_eq!(gate(&[]).status.code(), Some(0), "{}", said(&gate(&[])));
    // The first blessing creates the file.
    let first = desk.path("first.json").display().to_string();
    let output = desk.run(&["gate", "--baseline", &first, "--from", &run_file, "--bless"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(Record::read(&desk.path("first.json")).is_ok());
}
