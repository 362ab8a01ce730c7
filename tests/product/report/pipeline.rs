//! The sections on the pipeline: trials, tiles, fault coverage, and what was skipped.

use sm121probe::frame::family::Family as _;
use sm121probe::moe::Stage;
use sm121probe::moe::family::MOE;
use sm121probe::record::{
    Check, CheckResult, CodeBy, ConfigurationName, DeviceRow, Elapsed, Exposed, FaultCoverageRow, FaultRow,
    GPU, PeerAnswer, PeerRow, Place, Record, SkippedRow, StageResult, TileRow, TrialRow, VariantRun, Verdict,
};
use sm121probe::report::{self, Styles};

use crate::report::fixture as matrix;

/// The matrix, with the family of the trials.
fn fixture() -> Record {
    Record { families: vec![MOE.row()], ..matrix() }
}

fn configuration(tile: &str, path: &str) -> ConfigurationName {
    format!("{tile} {path} tma").into()
}

fn trial(case: &str, verdict: Verdict, note: &str) -> TrialRow {
    let place = (verdict == Verdict::Fail).then_some(Place::at(&[("expert", 3), ("row", 7), ("col", 11)]));
    let result = StageResult {
        stage: Stage::Fc1.into(),
        verdict,
        worst_over_bound: if verdict == Verdict::Fail { f64::INFINITY } else { 0.25 },
        mismatches: u64::from(verdict == Verdict::Fail),
        place,
        note: note.to_owned(),
    };
    TrialRow {
        family: MOE.name().to_owned(),
        case: case.to_owned(),
        configuration: configuration("8x64x128 swap_ab", "native"),
        depth: 4,
        target: "sm_121a".into(),
        device: "emulator".to_owned(),
        remark: String::new(),
        results: vec![result],
        code: CodeBy::Nobody,
        checks: Vec::new(),
        seconds: Elapsed::default(),
    }
}

#[test]
fn the_pipeline_stands_in_every_form() {
    let mut record = fixture();
    assert!(
        !report::markdown(&record).contains("fused-MoE"),
        "a run without the pipeline does not speak of it"
    );
    record.trials =
        vec![trial("green", Verdict::Pass, ""), trial("shut", Verdict::Blocked, "two stages need too much")];
    let md = report::markdown(&record);
    assert!(
        md.contains("**conforms.** 2 trials: 1 pass, 1 blocked") && md.contains("1: two stages need"),
        "{md}"
    );
    record.trials.push(trial("red", Verdict::Fail, "bf16 0x0000 where 1 is right"));
    let md = report::markdown(&record);
    assert!(md.contains("**does not conform.**") && md.contains("at expert=3 row=7 col=11"), "{md}");
    let text = report::terminal(&record, &Styles::plain());
    assert!(text.contains("does not conform") && text.contains("expert=3 row=7 col=11"), "{text}");
    let csv = report::trials_csv(&record.trials);
    assert_eq!(
        csv.lines().last(),
        Some("moe,red,8x64x128 swap_ab native tma,4,sm_121a,emulator,fc1,fail,inf,1,expert=3 row=7 col=11")
    );
    let json = report::json(&record).unwrap();
    let again = Record::parse(std::path::Path::new("run.json"), &json).unwrap();
    assert_eq!(again, record);
}

fn tile(name: &str, spills: u32, blocked: Option<&str>) -> TileRow {
    TileRow {
        family: MOE.name().to_owned(),
        configuration: configuration(name, "portable"),
        target: "sm_121a".into(),
        toolkit: Some("13.5.37".into()),
        depth: Some(3),
        shared: Some(1000),
        shared_limit: 101_376,
        registers: Some(168),
        spills: Some((spills, spills + 4 * u32::from(spills > 0))),
        blocked: blocked.map(str::to_owned),
        remark: String::new(),
    }
}

#[test]
fn tiles_evidence_and_what_was_skipped_stand_in_the_report() {
    let mut record = fixture();
    let nothing = "no NVRTC on this machine".to_owned();
    record.skipped.push(SkippedRow { part: MOE.row().title, reason: nothing, needed: true });
    let (md, text) = (report::markdown(&record), report::terminal(&record, &Styles::plain()));
    assert!(md.contains("**skipped.** no NVRTC on this machine") && md.contains("1 skipped: MXFP4"), "{md}");
    assert!(text.contains("skipped: no NVRTC on this machine"), "{text}");
    assert!(md.starts_with("# Compatibility report\n\n**INCOMPLETE: "), "{md}");
    assert!(md.contains("\n\n**Verdict: claims contradicted.** "), "{md}");

    record.skipped.clear();
    record.trials = vec![trial("green", Verdict::Pass, "")];
    record.tiles.rows =
        vec![tile("8x64x128", 0, None), tile("64x64x128", 100, None), tile("64x64x256", 0, Some("too much"))];
    record.tiles.peers = vec![PeerRow {
        configurations: "8x64x128".to_owned(),
        stack: "CUTLASS 9".to_owned(),
        answer: PeerAnswer::Offered.into(),
        sentence: "x".to_owned(),
    }];
    let coverage = |tile: &str, exposed| FaultCoverageRow {
        family: MOE.name().to_owned(),
        configuration: configuration(tile, "native"),
        target: "sm_121a".into(),
        device: "emulator".to_owned(),
        cases: vec!["a".to_owned(), "b".to_owned()],
        exposed,
        total: 200,
    };
    record.fault_coverage = vec![coverage("8x64x128", 200)];
    let exposed = |by: &str, faults| Exposed { by: by.to_owned(), faults };
    record.faults = vec![FaultRow {
        family: MOE.name().to_owned(),
        dimensions: "d".to_owned(),
        faults: 1000,
        exposed: vec![
            exposed("exact and impulse data", 1000),
            exposed("real values", 990),
            exposed("real values with one row per expert", 500),
        ],
    }];
    for text in [report::markdown(&record), report::terminal(&record, &Styles::plain())] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "2 of 3 tiles run in some configuration",
            "1 of those that run spill, 204 bytes per thread at most (64x64x128 portable tma).",
            "fault coverage: the data expose a fault in any single input byte for 1 of 1 kernel",
            "of 1,000 random single-byte faults in d, exact and impulse data expose 100.0 %, real values expose 99.0 % and real values with one row per expert expose 50.0 %",
            "CUTLASS 9",
        ] {
            assert!(flat.contains(words), "{words}\n{text}");
        }
    }
    // A kernel whose faults the data do not all expose is named.
    record.fault_coverage.push(coverage("64x64x128", 150));
    let text = report::evidence_text(&[], &record.fault_coverage, &[]);
    assert!(
        text.contains("for 1 of 2 kernels; 1 kernel shows fewer, 75.00 % at least, such as 64x64x128 native tma sm_121a (a + b)"),
        "{text}"
    );
    let json = report::json(&record).unwrap();
    assert_eq!(Record::parse(std::path::Path::new("run.json"), &json).unwrap(), record);
}

fn result(check: Check, verdict: Verdict, note: &str) -> CheckResult {
    CheckResult { check, verdict, note: note.to_owned() }
}

fn run(variant: &str, checks: Vec<CheckResult>) -> VariantRun {
    VariantRun {
        variant: variant.to_owned(),
        target: "sm_90a".into(),
        device: "gpu:0".to_owned(),
        code: CodeBy::from("ptxas 13.5.37"),
        checks,
        seconds: Elapsed::default(),
    }
}

#[test]
fn a_gpu_stands_apart_from_the_emulator() {
    let mut record = fixture();
    let on_gpu = |case: &str, verdict, note: &str| {
        let checks = vec![result(Check::Loads, Verdict::Pass, ""), result(Check::Graph, verdict, note)];
        TrialRow {
            device: "gpu:0".to_owned(),
            code: CodeBy::from("ptxas 13.5.37"),
            checks,
            ..trial(case, Verdict::Pass, "")
        }
    };
    record.devices.push(DeviceRow {
        device: "gpu:0".to_owned(),
        name: "NVIDIA Test".to_owned(),
        architecture: "sm_90".to_owned(),
        driver: "580.1".to_owned(),
        cuda: "13.0".to_owned(),
        multiprocessors: 132,
        memory: 1 << 36,
        l2: 1 << 25,
        id: String::new(),
    });
    record.matrix.claims.clear();
    record.trials = vec![trial("both", Verdict::Pass, ""), on_gpu("both", Verdict::Pass, "")];
    record.runs = vec![
        run("a.right", vec![result(Check::Loads, Verdict::Pass, ""), result(Check::Runs, Verdict::Pass, "")]),
        run(
            "b.absent",
            vec![
                result(Check::Loads, Verdict::Blocked, "no such"),
                result(Check::Runs, Verdict::Skipped, ""),
            ],
        ),
    ];
    let md = report::markdown(&record);
    let title = MOE.row().title;
    let device = "gpu:0 (NVIDIA Test, sm_90, driver 580.1, CUDA 13.0)";
    for words in [
        format!("## Snippets on {device}\n\ncode for sm_90a by ptxas 13.5.37; 2 variants run: 1 loads"),
        "|`b.absent`|⊘|·|".to_owned(),
        format!("## {title}\n\n**conforms.** 1 trial: 1 pass. PTX that differs"),
        format!("## {title} on {device}\n\n**conforms.** 1 trial: 1 pass. Every trial ran its checks"),
        "- graph: 1 pass\n".to_owned(),
        "**Verdict: incomplete.**".to_owned(),
    ] {
        assert!(md.contains(&words), "{words}\n{md}");
    }
    // A failed check on a GPU counts as a failure, and is named in every form.
    for (runs, trial) in [(true, false), (false, true)] {
        let mut record = record.clone();
        if runs {
            record.runs.push(run("c.wrong", vec![result(Check::Correct, Verdict::Fail, "lane 3")]));
        }
        if trial {
            record.trials.push(on_gpu("late", Verdict::Fail, "the graph with half"));
        }
        let (md, text) = (report::markdown(&record), report::terminal(&record, &Styles::plain()));
        assert!(md.contains("**Verdict: does not conform.**"), "{md}");
        let words =
            if runs { "c.wrong: correct fail: lane 3" } else { "check graph: fail: the graph with half" };
        assert!(md.contains(words) && text.contains(words) && text.contains("does not conform"), "{text}");
        let json = report::json(&record).unwrap();
        assert_eq!(Record::parse(std::path::Path::new("run.json"), &json).unwrap(), record);
    }
    // Without a GPU, the reason is given.
    record.skipped.push(SkippedRow {
        part: GPU.to_owned(),
        reason: "no GPU: no driver".to_owned(),
        needed: false,
    });
    let (md, text) = (report::markdown(&record), report::terminal(&record, &Styles::plain()));
    assert!(md.contains("## GPU\n\n**skipped.** no GPU: no driver"), "{md}");
    assert!(text.contains("GPU\n  skipped: no GPU: no driver"), "{text}");
}

#[test]
fn junit_has_the_time_of_each_trial_that_has_one() {
    let mut record = fixture();
    assert!(!report::junit(&record).contains(" time="), "a record of an earlier version has no times");
    let took = std::time::Duration::from_millis(1_250);
    record.trials = vec![TrialRow { seconds: took.into(), ..trial("tiny", Verdict::Pass, "") }];
    let json = report::json(&record).unwrap();
    let read = Record::parse(std::path::Path::new("run.json"), &json).unwrap();
    assert_eq!(report::junit(&read).matches(" time=\"1.250\"").count(), 3, "all, the suite, the trial");
}
