//! A small record with every kind of answer, and a folder in which the command judges it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use ptx::arch::{Target, ToolkitVersion};
use sm121probe::frame::family::Family as _;
use sm121probe::moe::Stage;
use sm121probe::moe::family::MOE;
use sm121probe::record::{
    Check, CheckResult, ClaimRow, CodeBy, ConfigurationName, Elapsed, Expect, KindRow, Matrix, MessageRow,
    Pair, PairSet, Place, Record, SnippetRow, Spread, StageResult, Standing, TileRow, ToolkitRow, TrialRow,
    VariantRow, Verdict,
};
use tempfile::TempDir;

/// The toolkits of the record.
pub(super) const TOOLKITS: [&str; 3] = ["13.0.88", "13.1.115", "13.5.37"];
/// The targets of the record.
pub(super) const TARGETS: [&str; 3] = ["sm_120", "sm_121a", "sm_121f"];

/// The answers of each variant: for every toolkit, one letter per target; the code of every accepted cell is native.
const VARIANTS: [(&str, &str); 4] = [
    ("mma.mxf4.2X", "RAARAARAA"),
    ("mma.mxf4.4X", "RRRRAARAA"),
    ("tcgen05.alloc", "RRRRRRRRR"),
    ("griddepcontrol", "AAAAAAAAA"),
];

pub(super) fn target(text: &str) -> Target {
    text.parse().unwrap()
}

pub(super) fn toolkit(text: &str) -> ToolkitVersion {
    text.parse().unwrap()
}

/// The index of a cell's toolkit and target.
pub(super) fn pair(record: &Record, toolkit_name: &str, target_name: &str) -> usize {
    record.matrix.pair(toolkit(toolkit_name), target(target_name), target(target_name)).unwrap()
}

/// Sets the letters of a cell.
pub(super) fn set(record: &mut Record, variant: &str, at: (&str, &str), outcome: char, native: char) {
    let n = pair(record, at.0, at.1);
    let row = record.matrix.variants.iter_mut().find(|v| v.id == variant).unwrap();
    let put = |text: &mut String, letter: char| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.resize(letters.len().max(n + 1), '.');
        letters[n] = letter;
        *text = letters.into_iter().collect::<String>().trim_end_matches('.').to_owned();
    };
    put(&mut row.outcomes, outcome);
    put(&mut row.native, native);
}

/// The record.
pub(super) fn record() -> Record {
    let mut pairs = Vec::new();
    for t in TOOLKITS {
        pairs.extend(TARGETS.map(|x| Pair { toolkit: toolkit(t), target: target(x), arch: target(x) }));
    }
    let snippet = |family: &str, stem: &str| SnippetRow {
        file: format!("ptx_snippets/{family}/{stem}.ptx"),
        family: family.to_owned(),
        about: format!("{stem}."),
        spec: "PTX ISA".to_owned(),
        grants: vec![],
    };
    let variants = VARIANTS.iter().map(|(id, letters)| {
        let mut refused = PairSet::default();
        for (n, _) in letters.chars().enumerate().filter(|(_, c)| *c == 'R') {
            refused.push(n);
        }
        let native: String = letters.chars().map(|c| if c == 'A' { 'N' } else { '.' }).collect();
        VariantRow {
            id: (*id).to_owned(),
            snippet: ["griddepcontrol", "mma.mxf4", "tcgen05"]
                .iter()
                .position(|s| id.starts_with(s))
                .unwrap(),
            expects: vec![],
            outcomes: (*letters).to_owned(),
            native: native.trim_end_matches('.').to_owned(),
            messages: if refused.last().is_some() {
                vec![Spread { index: 0, pairs: refused }]
            } else {
                vec![]
            },
            sass: vec![],
        }
    });
    let mut variants: Vec<VariantRow> = variants.collect();
    variants.sort_by(|a, b| a.id.cmp(&b.id));
    let mut record = Record::of_matrix(
        "sm121probe 0.1.0".to_owned(),
        Matrix {
            toolkits: TOOLKITS
                .iter()
                .map(|t| ToolkitRow {
                    version: toolkit(t),
                    isa: "9.5".parse().unwrap(),
                    sha256: "0".repeat(64),
                })
                .collect(),
            disassembler: Some(toolkit("13.5.37")),
            pairs,
            snippets: vec![
                snippet("sync", "griddepcontrol"),
                snippet("mma", "mma.mxf4"),
                snippet("tcgen05", "tcgen05.alloc"),
            ],
            variants,
            messages: vec![MessageRow { text: "Feature not supported".to_owned(), kind: Some(0) }],
            kinds: vec![KindRow {
                name: "needs_suffix".to_owned(),
                cause: "A.".to_owned(),
                remedy: "B.".to_owned(),
            }],
            opcodes: vec![],
            claims: vec![claim()],
        },
    );
    record.families = vec![MOE.row()];
    record.trials = vec![
        trial("tiny-exact", "128x32x128"),
        trial("tiny-exact", "128x64x128"),
        trial("tiny-empty", "128x32x128"),
    ];
    record.trials[1].results = vec![StageResult {
        verdict: Verdict::Blocked,
        ..StageResult::skipped(Stage::Route, "102400 bytes of shared memory are more than 101376")
    }];
    record.tiles.rows =
        vec![tile("128x32x128", None), tile("128x64x128", Some("102400 bytes are more than 101376"))];
    record
}

fn claim() -> ClaimRow {
    ClaimRow {
        snippet: 2,
        source: "PTX ISA, tcgen05".to_owned(),
        url: None,
        expect: Expect::AbsentByDesign,
        targets: TARGETS.iter().map(|t| target(t)).collect(),
        archs: vec![],
        toolkits: None,
        variants: vec![],
        whole: true,
        standing: Standing::Confirmed,
        recorded: Standing::Confirmed,
        cells: 9,
        disagree: 0,
        example: None,
    }
}

fn configuration(tile: &str) -> ConfigurationName {
    format!("{tile} native cp_async").into()
}

/// A passing trial.
pub(super) fn trial(case: &str, tile: &str) -> TrialRow {
    let of = |stage: &Stage| StageResult { verdict: Verdict::Pass, ..StageResult::skipped(*stage, "") };
    TrialRow {
        family: MOE.name().to_owned(),
        case: case.to_owned(),
        configuration: configuration(tile),
        depth: 2,
        target: "sm_121a".into(),
        device: "emulator".to_owned(),
        remark: String::new(),
        results: Stage::ALL.iter().map(of).collect(),
        code: CodeBy::Nobody,
        checks: vec![],
        seconds: Elapsed::default(),
    }
}

/// A trial as it is on a GPU, with checks.
pub(super) fn on_gpu(mut row: TrialRow) -> TrialRow {
    row.device = "gpu:0".to_owned();
    row.code = CodeBy::from("ptxas 13.5.37");
    row.checks = Check::ALL
        .iter()
        .map(|check| CheckResult { check: *check, verdict: Verdict::Pass, note: String::new() })
        .collect();
    row
}

/// Makes a stage of a trial wrong, and skips the stages after it.
pub(super) fn fail(row: &mut TrialRow, stage: Stage, verdict: Verdict, note: &str) {
    for result in &mut row.results {
        let of = Stage::from_name(&result.stage).unwrap();
        if of == stage {
            (result.verdict, result.mismatches) = (verdict, 3);
            (result.worst_over_bound, result.note) = (f64::INFINITY, note.to_owned());
            result.place = Some(Place::at(&[("expert", 2), ("row", 7), ("col", 11)]));
        } else if of > stage {
            result.verdict = Verdict::Skipped;
        }
    }
}

fn tile(name: &str, blocked: Option<&str>) -> TileRow {
    TileRow {
        family: MOE.name().to_owned(),
        configuration: configuration(name),
        target: "sm_121a".into(),
        toolkit: Some("13.5.37".into()),
        depth: Some(2),
        shared: Some(49_152),
        shared_limit: 101_376,
        registers: Some(128),
        spills: Some((0, 0)),
        blocked: blocked.map(str::to_owned),
        remark: String::new(),
    }
}

/// Files, and the command run on them.
pub(super) struct Desk {
    pub(super) dir: TempDir,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    /// Writes a record, with its claims judged by its cells.
    pub(super) fn record(&self, name: &str, record: &Record) -> String {
        let mut record = record.clone();
        sm121probe::record::claims::judge(&mut record.matrix);
        self.write(name, &record.to_json().unwrap())
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("SM121PROBE_CACHE", self.path("cache"))
            .current_dir(self.dir.path());
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().unwrap()
    }
}

pub(super) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Both streams in one line, without miette's frame.
pub(super) fn said(output: &Output) -> String {
    let text = stdout(output) + &String::from_utf8_lossy(&output.stderr).replace('│', " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
