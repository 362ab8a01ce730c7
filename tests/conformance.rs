//! The capability matrix as tests: one trial per snippet file and toolkit.
//!
//! A trial assembles a snippet for all targets. It fails if a claim has another status than recorded, or if a cell differs from the
//! committed matrix `reports/matrix.json`. A toolkit that the matrix lacks is checked against the claims and the next older toolkit:
//! it must accept whatever that one accepts. All other differences are printed, with the command that blesses them. The toolkits are those of
//! the machine; without any, the trials are ignored with the reason, or fail with `SM121PROBE_REQUIRE=toolkit:13.5` (comma-separated).

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use ptx::arch::{Target, ToolkitVersion};
use sm121probe::event::Silent;
use sm121probe::matrix::{self, Options, Plan, Selection};
use sm121probe::record::{Cell, Record};
use sm121probe::report::{self, Newcomer};
use sm121probe::snippet::{Filter, Library};
use sm121probe::store::Store;
use sm121probe::toolkit::{self, Discovery, Places};

/// Named if the machine has no toolkit: the pair that the main job fetches.
const EXPECTED: [&str; 2] = ["12.9", "13.5"];

/// The committed matrix.
const BASELINE: &str = "reports/matrix.json";

/// Maximum lines printed of a failure.
const LINES: usize = 30;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One thread: a trial without cached answers assembles on all cores.
    arguments.test_threads.get_or_insert(2);
    let store = Store::open(None).ok();
    let discovery =
        toolkit::discover(store.as_ref(), &Places::from_environment(store.as_ref().map(Store::root)));
    let shared = Arc::new(Shared {
        library: Library::embedded(),
        baseline: baseline(),
        store,
        discovery,
        records: Mutex::default(),
    });
    let mut trials = Vec::new();
    for snippet in &shared.library.snippets {
        for toolkit in &shared.discovery.toolkits {
            let name = format!("matrix.{}/{}/{}", snippet.family, snippet.stem, toolkit.version);
            let (shared, stem, version) = (Arc::clone(&shared), snippet.stem.clone(), toolkit.version);
            trials.push(Trial::test(name, move || shared.check(&stem, version)));
        }
    }
    trials.extend(missing(&shared));
    let conclusion = libtest_mimic::run(&arguments, trials);
    for answer in shared.answers() {
        println!("{answer}");
    }
    conclusion.exit_code()
}

/// The committed matrix.
fn baseline() -> Result<Record, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(BASELINE);
    Record::read(&path).map_err(|e| e.to_string())
}

/// The requirements of `SM121PROBE_REQUIRE` that name no toolkit.
const REQUIREMENTS: [&str; 3] = ["nvrtc", "gpu", "upstream"];

/// Trials of toolkits that the machine lacks: ignored, or failing if required.
fn missing(shared: &Arc<Shared>) -> Vec<Trial> {
    let required = std::env::var("SM121PROBE_REQUIRE").unwrap_or_default();
    let words: Vec<&str> = required.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let here = |name: &str| shared.discovery.toolkits.iter().any(|t| t.version.is_named(name));
    let mut trials = Vec::new();
    // A mistyped requirement would require nothing.
    for word in words.iter().filter(|word| !word.starts_with("toolkit:") && !REQUIREMENTS.contains(word)) {
        let message = format!("SM121PROBE_REQUIRE has toolkit:VERSION and {}", REQUIREMENTS.join(", "));
        trials.push(Trial::test(format!("required/{word}"), move || Err(Failed::from(message))));
    }
    let required: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix("toolkit:")).collect();
    for name in &required {
        if !here(name) {
            let message = format!(
                "SM121PROBE_REQUIRE asks for toolkit {name}; `sm121probe toolkit install {name}` fetches it"
            );
            trials.push(Trial::test(format!("required.toolkit/{name}"), move || Err(Failed::from(message))));
        }
    }
    if shared.discovery.toolkits.is_empty() {
        let reason = "no ptxas here: sm121probe toolkit install latest 12.9";
        for snippet in &shared.library.snippets {
            for name in EXPECTED {
                let name = format!("matrix.{}/{}/{name}", snippet.family, snippet.stem);
                let trial =
                    Trial::ignorable_test(name, move || Ok(libtest_mimic::Completion::ignored_with(reason)));
                // Ignored while listing, so that runners that judge by exit status show them as skipped, too.
                trials.push(trial.with_kind(reason).with_ignored_flag(true));
            }
        }
    }
    trials
}

struct Shared {
    library: Library,
    baseline: Result<Record, String>,
    store: Option<Store>,
    discovery: Discovery,
    /// The matrix of each toolkit, computed by the first trial that needs it.
    records: Mutex<HashMap<ToolkitVersion, Arc<Asked>>>,
}

/// The matrix of a toolkit, and what it adds to the committed one.
struct Asked {
    record: Record,
    new: Option<Newcomer>,
}

impl Shared {
    fn check(&self, stem: &str, version: ToolkitVersion) -> Result<(), Failed> {
        let asked = self.asked(version)?;
        let matrix = &asked.record.matrix;
        let mut wrong = Vec::new();
        for claim in
            matrix.claims.iter().filter(|c| c.is_finding() && self.library.snippets[c.snippet].stem == stem)
        {
            wrong.push(format!(
                "claim is {}, recorded {}: {} ({} of {} cells disagree; {:?})",
                claim.standing.word(),
                claim.recorded.word(),
                claim.source,
                claim.disagree,
                claim.cells,
                claim.example
            ));
        }
        let baseline = self.baseline.as_ref().map_err(|e| Failed::from(e.clone()))?;
        let known = baseline.matrix.toolkits.iter().any(|t| t.version == version);
        let places: Vec<Option<usize>> =
            matrix.pairs.iter().map(|p| baseline.matrix.pair(p.toolkit, p.target, p.arch)).collect();
        for row in matrix.variants.iter().filter(|v| self.library.snippets[v.snippet].stem == stem) {
            let old = baseline.matrix.variants.iter().find(|v| v.id == row.id);
            for (p, pair) in matrix.pairs.iter().enumerate().filter(|_| known) {
                let now = matrix.cell(row, p);
                let then = old.and_then(|v| baseline.matrix.cell(v, places[p]?));
                if words(now, matrix.disassembler.is_some()) != words(then, matrix.disassembler.is_some()) {
                    let (now, then) = (words(now, true), words(then, true));
                    wrong.push(format!(
                        "{} {} {}: {now}; the committed matrix says {then}",
                        row.id, pair.target, pair.arch
                    ));
                }
            }
        }
        if let Some(new) = &asked.new {
            let of = |id: &str| {
                matrix.variants.iter().any(|v| v.id == id && self.library.snippets[v.snippet].stem == stem)
            };
            wrong.extend(new.regressions.iter().filter(|(id, _)| of(id)).map(|(_, text)| text.clone()));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let total = wrong.len();
        wrong.truncate(LINES);
        wrong.push(format!(
            "{total} findings; if ptxas is right, `.ci/reports` makes the committed matrix anew"
        ));
        Err(Failed::from(wrong.join("\n")))
    }

    /// Differences from the committed matrix, collected by the trials that ran.
    fn answers(&self) -> Vec<String> {
        let Ok(records) = self.records.lock() else { return Vec::new() };
        let mut asked: Vec<(&ToolkitVersion, &Arc<Asked>)> = records.iter().collect();
        asked.sort_by_key(|(version, _)| **version);
        asked.into_iter().filter_map(|(_, asked)| Some(asked.new.as_ref()?.answer.clone())).collect()
    }

    fn asked(&self, version: ToolkitVersion) -> Result<Arc<Asked>, Failed> {
        let mut records = self.records.lock().map_err(|_| "another trial of this toolkit panicked")?;
        if let Some(asked) = records.get(&version) {
            return Ok(Arc::clone(asked));
        }
        let toolkits: Vec<_> = self.discovery.select(&[version.to_string()]).map_err(|e| e.to_string())?;
        let selection = Selection { targets: Target::all_set(), filters: Vec::<Filter>::new() };
        let plan = Plan::new(&self.library, &toolkits, &selection).map_err(|e| e.to_string())?;
        let (disassembler, store) = (self.discovery.disassembler.as_ref(), self.store.as_ref());
        let (record, _) =
            matrix::run(&self.library, &plan, &toolkits, disassembler, store, &Options::default(), &Silent)
                .map_err(|e| e.to_string())?;
        let baseline = self.baseline.as_ref().map_err(|e| Failed::from(e.clone()))?;
        let new = report::newcomer(baseline, BASELINE, &record, version);
        let asked = Arc::new(Asked { record, new });
        records.insert(version, Arc::clone(&asked));
        Ok(asked)
    }
}

/// A cell as text, for comparison: outcome, message, and what the code shows.
fn words(cell: Option<Cell<'_>>, with_native: bool) -> String {
    cell.map_or_else(
        || "not asked".to_owned(),
        |c| {
            let native = c.native.filter(|_| with_native).map_or("", |n| n.word());
            format!("{} {native} {}", c.outcome.word(), c.message.map_or("", |m| m.text.as_str()))
        },
    )
}
