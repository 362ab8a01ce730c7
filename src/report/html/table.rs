//! The other parts of a record as tables, and benches as plots.

use serde::Serialize;

use super::super::bench::bench_csv;
use super::super::families;
use super::super::phrase::{clean, kernel};
use super::super::plot::bench_svg;
use super::super::runs::device;
use super::super::tiles::{policies_csv, tiles_csv};
use super::super::trials::{check_sentence, ratio};
use super::super::verdict;
use super::Beside;
use super::encode::base64;
use crate::record::{AuditTable, BenchTable, Record, TileTable, TrialRow};

/// The maximum number of rows of a table: a page with every kernel of an installation would be unusable.
const ROWS: usize = 4000;

/// The number of characters of a kernel's name.
const NAME: usize = 120;

/// A part of the record with a view of its own.
#[derive(Serialize)]
pub(super) struct Tab {
    /// Its name in the page's address.
    id: String,
    title: String,
    /// Whether it shows trials: what the emulator proves is then said above them.
    trials: bool,
    tables: Vec<Table>,
}

/// A table of text.
#[derive(Serialize)]
struct Table {
    title: String,
    note: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A plot.
#[derive(Serialize)]
pub(super) struct Picture {
    title: String,
    /// The whole image as a `data:` address: an image runs no script.
    image: String,
}

impl Picture {
    pub(super) fn from_benches(benches: &[BenchTable]) -> Vec<Self> {
        let of = |bench: &BenchTable| Self {
            title: format!(
                "{}: both grouped GEMMs on {}",
                clean(&bench.dimensions),
                clean(&bench.device.name)
            ),
            image: format!("data:image/svg+xml;base64,{}", base64(bench_svg(bench).as_bytes())),
        };
        benches.iter().map(of).collect()
    }
}

impl Table {
    fn new(title: impl Into<String>, columns: &[&str], rows: Vec<Vec<String>>) -> Self {
        let columns = columns.iter().map(|c| (*c).to_owned()).collect();
        Self { title: title.into(), note: String::new(), columns, rows }.cut("")
    }

    /// A table of the part's CSV.
    fn of_csv(title: impl Into<String>, text: &str) -> Self {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let line = |record: &csv::StringRecord| record.iter().map(clean).collect::<Vec<_>>();
        let columns = reader.headers().map(line).unwrap_or_default();
        let rows = reader.records().filter_map(Result::ok).map(|r| line(&r)).collect();
        Self { title: title.into(), note: String::new(), columns, rows }
    }

    /// Cut to [`ROWS`], with a sentence that says so.
    fn cut(mut self, elsewhere: &str) -> Self {
        if self.rows.len() > ROWS {
            let left = self.rows.len() - ROWS;
            self.note = format!("The first {ROWS} rows; {left} more are not on this page{elsewhere}.");
            self.rows.truncate(ROWS);
        }
        self
    }

    fn noted(mut self, note: impl AsRef<str>) -> Self {
        self.note = [note.as_ref(), &self.note]
            .iter()
            .filter(|n| !n.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join(" ");
        self
    }
}

/// The tabs of the parts that the record has.
pub(super) fn tabs(record: &Record, beside: &Beside) -> Vec<Tab> {
    let tab = |id: &str, title: &str, tables| Tab {
        id: id.to_owned(),
        title: title.to_owned(),
        trials: false,
        tables,
    };
    let of_family = |(name, trials): (&str, Vec<&TrialRow>)| Tab {
        trials: true,
        ..tab(name, &clean(&families::title(record, name)), of_trials(record, trials))
    };
    let mut all: Vec<Tab> = verdict::by_family(&record.trials).into_iter().map(of_family).collect();
    all.extend([
        tab("tiles", "Tiles", tiles(&record.tiles)),
        tab("bench", "GPU times", beside.benches.iter().map(bench).collect()),
        tab("audit", "Audit", audit(&record.audit)),
        tab("miscompiles", "Miscompiles", miscompiles(record)),
    ]);
    all.retain(|tab| !tab.tables.is_empty());
    all
}

/// The trials of a family, one table per device.
fn of_trials(record: &Record, trials: Vec<&TrialRow>) -> Vec<Table> {
    let mut out = Vec::new();
    for (name, trials) in verdict::by_device(trials) {
        let note = verdict::trials(trials.iter().copied());
        // Failures come first, blocked trials last.
        let mut trials = trials;
        trials.sort_by_key(|t| (t.conforms(), !t.is_judged()));
        let rows = trials.into_iter().map(trial).collect();
        let columns = [
            "case",
            "kernel",
            "tiles in flight",
            "target",
            "verdict",
            "worst error over bound",
            "code",
            "checks",
            "note",
        ];
        // In merged records, a device already has its model's name.
        let told = record.devices.iter().any(|row| row.device == name && name.contains(&row.name));
        let title = if told { name.to_owned() } else { device(record, name) };
        out.push(Table::new(clean(&title), &columns, rows).noted(note + "."));
    }
    out
}

fn trial(trial: &TrialRow) -> Vec<String> {
    let worst = trial.results.iter().map(|r| r.worst_over_bound).fold(0.0, f64::max);
    let note = match (trial.first_wrong(), trial.wrong_check(), trial.results.as_slice()) {
        (Some(stage), ..) => format!("{}: {}", stage.stage, stage.note),
        (_, Some(check), _) => check_sentence(check),
        (_, _, [only]) if !trial.is_judged() => only.note.clone(),
        _ => trial.remark.clone(),
    };
    let checks: Vec<String> =
        trial.checks.iter().map(|c| format!("{} {}", c.check.word(), c.verdict.word())).collect();
    vec![
        trial.case.clone(),
        trial.configuration.to_string(),
        trial.depth.to_string(),
        trial.target.to_string(),
        trial.verdict().word().replace('_', " "),
        ratio(worst),
        trial.code.to_string(),
        checks.join(", "),
        clean(&note),
    ]
}

fn tiles(table: &TileTable) -> Vec<Table> {
    let mut out = Vec::new();
    if !table.rows.is_empty() {
        out.push(
            Table::of_csv("What each tile needs, and whether it may run", &tiles_csv(table))
                .cut("; `sm121probe tiles --format csv` prints all"),
        );
    }
    if !table.policies.is_empty() {
        out.push(
            Table::of_csv("What tile policies choose, and what they waste", &policies_csv(&table.policies))
                .cut(""),
        );
    }
    out
}

fn bench(bench: &BenchTable) -> Table {
    let title = format!("{} on {}", clean(&bench.dimensions), clean(&bench.device.name));
    let note = format!("Medians of {} rounds after {} that are not counted.", bench.samples, bench.warm_up);
    Table::of_csv(title, &bench_csv(bench)).cut("").noted(note)
}

fn audit(table: &AuditTable) -> Vec<Table> {
    let devices: Vec<&str> = table.devices.iter().map(|d| d.name.as_str()).collect();
    let mut out = Vec::new();
    if !table.backends.is_empty() {
        let columns: Vec<&str> =
            ["backend", "computes with"].into_iter().chain(devices.iter().copied()).collect();
        let rows = table.backends.iter().map(|b| {
            let each = b
                .standing
                .iter()
                .zip(&b.evidence)
                .map(|(s, e)| format!("{}: {}", s.word().replace('_', " "), clean(e)));
            let name = match b.takes {
                None => b.backend.clone(),
                Some(_) => format!("{} {}", b.engine, b.backend),
            };
            let computes = match &b.takes {
                None => clean(&b.about),
                Some(takes) => clean(&format!("attention, {}: {}", b.about, takes.phrase())),
            };
            [name, computes].into_iter().chain(each).collect()
        });
        out.push(Table::new("Backends of serving engines", &columns, rows.collect()));
    }
    let reason = |n: usize| table.reasons.get(n).map(|r| clean(r)).unwrap_or_default();
    let answers = |verdicts: &[crate::record::AuditVerdict], reasons: &[usize]| -> Vec<String> {
        verdicts
            .iter()
            .zip(reasons)
            .map(|(v, r)| format!("{}: {}", v.word().replace('_', " "), reason(*r)))
            .collect()
    };
    let file = |n: usize| table.files.get(n).map(|f| clean(&f.path)).unwrap_or_default();
    if !table.kernels.is_empty() {
        let columns: Vec<&str> = ["kernel", "file"].into_iter().chain(devices.iter().copied()).collect();
        let mut kernels: Vec<_> = table.kernels.iter().collect();
        // What does not run is the reason why people look.
        kernels.sort_by_key(|k| std::cmp::Reverse(k.verdicts.iter().max().copied()));
        let rows = kernels.into_iter().map(|k| {
            [kernel(&k.name, NAME), file(k.file)]
                .into_iter()
                .chain(answers(&k.verdicts, &k.reasons))
                .collect()
        });
        out.push(Table::new("Kernels", &columns, rows.collect()));
    }
    if !table.entries.is_empty() {
        let columns: Vec<&str> = ["file", "piece", "kind", "target", "kernels"]
            .into_iter()
            .chain(devices.iter().copied())
            .collect();
        let rows = table.entries.iter().map(|e| {
            let own =
                [file(e.file), e.index.to_string(), e.kind.clone(), e.target.clone(), e.kernels.to_string()];
            own.into_iter().chain(answers(&e.verdicts, &e.reasons)).collect()
        });
        out.push(Table::new("Pieces of device code", &columns, rows.collect()));
    }
    if !table.problems.is_empty() {
        let rows = table.problems.iter().map(|p| vec![clean(&p.place), clean(&p.problem), clean(&p.remedy)]);
        out.push(Table::new("What was not read", &["place", "problem", "remedy"], rows.collect()));
    }
    out
}

/// The known miscompiles of ptxas, and what random kernels showed.
fn miscompiles(record: &Record) -> Vec<Table> {
    let columns = ["name", "what ptxas does", "seen with", "targets", "rule of PTX", "instead"];
    let rows = compiler::known::miscompiles().iter().map(|m| {
        let targets = if m.targets.is_empty() { "all".to_owned() } else { m.targets.join(", ") };
        [&m.name, &m.effect, &m.where_in_words(), &targets, &m.rule, &m.rewrite]
            .map(|cell| clean(cell))
            .to_vec()
    });
    let note = "Each was seen on the GPU that `explain NAME` names; `lint` finds them in PTX.";
    let mut out =
        vec![Table::new("PTX for which ptxas is known to be wrong", &columns, rows.collect()).noted(note)];
    for table in &record.fuzzed {
        let device = table.device.as_ref().map_or("no GPU", |device| device.name.as_str());
        let title = format!("{} random kernels for {} on {device}", table.kernels, table.target);
        let columns = ["compiler", "level", "compared", "known miscompiles", "unexplained"];
        let rows = table.builds.iter().map(|build| {
            let known = build.known.iter().map(|(name, n)| format!("{name} {n}"));
            let open = build.left_open.iter().map(|(what, n)| format!("left open by PTX: {what} {n}"));
            let known: Vec<String> = known.chain(open).collect();
            vec![
                build.code.text().into_owned(),
                build.level.map_or_else(String::new, |level| format!("-O{level}")),
                build.compared.to_string(),
                known.join(", "),
                build.unexplained.to_string(),
            ]
        });
        let rows = rows.map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
        out.push(Table::new(clean(&title), &columns, rows));
    }
    out
}
