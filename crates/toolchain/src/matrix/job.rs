//! A whole run: cached answers, batches for the rest, opcodes, claims, record.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use devcode::machine_code;
use ptx::arch::PtxIsa;
use rayon::prelude::*;

use super::assembler::{Answer, Limits, Run, assemble};
use super::batch::{Pass, Site};
use super::entries::Entry;
use super::pack::{CellAnswer, Interner, Pack, cell_key};
use super::plan::{Plan, PlannedPair};
use super::sass::{self, Dictionary};
use super::{claims, kinds};
use crate::event::{Event, Sink};
use crate::snippet::{Code, Library};
use crate::store::Store;
use crate::toolkit::{Disassembler, Toolkit};
use crate::worker;
use record::{
    self, Matrix, MessageRow, Outcome, Pair, PairSet, Record, SnippetRow, Spread, ToolkitRow, VariantRow,
};

/// Options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// One process per cell and no cache: the slow path, used to check the fast one.
    pub isolated: bool,
    /// Time limit of ptxas for one variant; a batch of n gets 1 + (n − 1)/400 times as much.
    pub time_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { isolated: false, time_limit: Duration::from_secs(20) }
    }
}

/// The cost of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Number of cells.
    pub cells: usize,
    /// Cells answered from the cache.
    pub cached: usize,
    /// Processes started.
    pub processes: u64,
    /// Time spent on verdicts.
    pub verdicts: Duration,
    /// Time spent on naming opcodes.
    pub sass: Duration,
    /// Distinct machine instructions that had to be named.
    pub instructions: usize,
}

/// Why there is no matrix at all.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// No temporary folder can be created.
    #[error("no temporary folder can be created: {0}; set TMPDIR to a writable folder")]
    Scratch(io::Error),
}

/// Answers by row and pair.
pub(super) struct Grid {
    pairs: usize,
    cells: Vec<Option<CellAnswer>>,
}

impl Grid {
    fn new(rows: usize, pairs: usize) -> Self {
        Self { pairs, cells: vec![None; rows * pairs] }
    }

    pub(super) fn get(&self, row: usize, pair: usize) -> Option<&CellAnswer> {
        self.cells[row * self.pairs + pair].as_ref()
    }

    fn set(&mut self, row: usize, pair: usize, answer: CellAnswer) {
        self.cells[row * self.pairs + pair] = Some(answer);
    }
}

/// The state that all cells of a run share.
struct Context<'a> {
    library: &'a Library,
    plan: &'a Plan,
    scratch: &'a std::path::Path,
    limits: Limits,
    want_code: bool,
    sink: &'a dyn Sink,
}

/// Judges every planned cell. Without a disassembler the opcodes stay unknown; without a store no answer is cached.
///
/// # Errors
/// [`MatrixError`]; the failure of a single assembler is the outcome of its cells.
pub fn run(
    library: &Library,
    plan: &Plan,
    toolkits: &[&Toolkit],
    disassembler: Option<&Disassembler>,
    store: Option<&Store>,
    options: &Options,
    sink: &dyn Sink,
) -> Result<(Record, Figures), MatrixError> {
    let scratch = scratch(store).map_err(MatrixError::Scratch)?;
    let before = worker::started();
    let context = Context {
        library,
        plan,
        scratch: scratch.path(),
        limits: Limits { single: options.time_limit },
        want_code: disassembler.is_some(),
        sink,
    };
    sink.emit(Event::MatrixStarted { pairs: plan.pairs.len(), cells: plan.cells() });
    let mut figures = Figures { cells: plan.cells(), ..Figures::default() };
    let mut grid = Grid::new(plan.rows.len(), plan.pairs.len());
    let store = store.filter(|_| !options.isolated);
    let mut dictionary = disassembler.map(|d| Dictionary::new(d, store));
    for (t, toolkit) in toolkits.iter().enumerate() {
        context.ask_toolkit(
            t,
            toolkit,
            store,
            options.isolated,
            dictionary.as_mut(),
            &mut grid,
            &mut figures,
        );
    }
    sink.emit(Event::MatrixFinished);
    figures.processes = worker::started() - before;
    let record = record(library, plan, toolkits, disassembler, &grid);
    Ok((record, figures))
}

/// Creates a folder for files that live as long as the run, in the cache if possible.
pub fn scratch(store: Option<&Store>) -> io::Result<tempfile::TempDir> {
    match store.map(Store::scratch) {
        Some(Ok(folder)) => Ok(folder),
        _ => tempfile::tempdir(),
    }
}

/// For at most this many entries of a pair, code is generated without a check beforehand.
const FEW: usize = 16;

/// One pair of a toolkit while it is being judged.
struct Asked<'a> {
    index: usize,
    pair: &'a PlannedPair,
    keys: Vec<String>,
    pack: Pack,
    /// Positions in `pair.rows` that the cache does not answer.
    missing: Vec<usize>,
}

impl Asked<'_> {
    /// The row of a missing cell.
    fn row(&self, position: usize) -> usize {
        self.pair.rows[self.missing[position]]
    }
}

impl Context<'_> {
    /// Judges all pairs of one toolkit. The toolkit is locked while cells are missing, so that of several processes that
    /// need the same cells, one assembles and the others read. A process holds at most one of these locks, so it cannot deadlock.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a run that change are passed, not hidden in the context"
    )]
    fn ask_toolkit(
        &self,
        index: usize,
        toolkit: &Toolkit,
        store: Option<&Store>,
        isolated: bool,
        mut dictionary: Option<&mut Dictionary<'_>>,
        grid: &mut Grid,
        figures: &mut Figures,
    ) {
        let of_toolkit = || self.plan.pairs.iter().enumerate().filter(|(_, p)| p.toolkit == index);
        let load = |(n, pair)| self.load(n, pair, toolkit, store);
        let mut asked: Vec<Asked<'_>> = of_toolkit().map(load).collect();
        let mut lock = None;
        if asked.iter().any(|a| !a.missing.is_empty())
            && let Some(store) = store
        {
            lock = match store.lock(&format!("ptxas-{}", &toolkit.sha256[..16.min(toolkit.sha256.len())])) {
                Ok(lock) => Some(lock),
                Err(error) => {
                    self.sink.emit(Event::Warning { text: format!("{error}; this run is not cached") });
                    None
                }
            };
            // Another process may have supplied the answers in the meantime.
            asked = of_toolkit().map(load).collect();
        }
        let start = Instant::now();
        let mut answers: Vec<Vec<Answer>> = asked
            .par_iter()
            .map(|a| {
                let answers = if isolated { self.ask_isolated(a, toolkit) } else { self.check(a, toolkit) };
                let (target, arch) = (a.pair.target, a.pair.arch);
                self.sink.emit(Event::PairFinished { pair: format!("{} {target} {arch}", toolkit.version) });
                answers
            })
            .collect();
        figures.verdicts += start.elapsed();

        let start = Instant::now();
        if self.want_code && !isolated {
            asked.par_iter().zip(&mut answers).for_each(|(a, answers)| self.generate(a, toolkit, answers));
        }
        if let Some(dictionary) = dictionary.as_mut() {
            let codes: Vec<(u16, &[u8])> = asked
                .iter()
                .zip(&answers)
                .flat_map(|(a, list)| list.iter().map(|answer| (a.pair.arch.number, answer.code.as_slice())))
                .filter(|(_, code)| !code.is_empty())
                .collect();
            figures.instructions += dictionary.learn(&codes, self.scratch, self.sink);
        }
        for (a, answers) in asked.iter_mut().zip(answers) {
            figures.cached += a.pair.rows.len() - a.missing.len();
            for (n, answer) in a.missing.iter().zip(answers) {
                let opcodes = dictionary.as_ref().and_then(|d| d.opcodes(a.pair.arch.number, &answer.code));
                let cell = CellAnswer { outcome: answer.outcome, message: answer.message, opcodes };
                a.pack.insert(a.keys[*n].clone(), &cell);
                grid.set(a.pair.rows[*n], a.index, cell);
            }
            for (n, row) in a.pair.rows.iter().enumerate() {
                if grid.get(*row, a.index).is_none()
                    && let Some(cell) = a.pack.get(&a.keys[n])
                {
                    grid.set(*row, a.index, cell.clone());
                }
            }
            if let (Some(store), Some(_), false) = (store, &lock, a.missing.is_empty())
                && let Err(error) = a.pack.save(store, toolkit, a.pair.target, a.pair.arch, &a.keys)
            {
                self.sink.emit(Event::Warning { text: error.to_string() });
            }
        }
        figures.sass += start.elapsed();
    }

    fn load<'a>(
        &self,
        index: usize,
        pair: &'a PlannedPair,
        toolkit: &Toolkit,
        store: Option<&Store>,
    ) -> Asked<'a> {
        let keys: Vec<String> = pair.rows.iter().map(|row| self.key(*row)).collect();
        let pack = store.map(|s| Pack::load(s, toolkit, pair.target, pair.arch)).unwrap_or_default();
        let answered = |key: &String| {
            pack.get(key).is_some_and(|c| {
                // An acceptance recorded without a disassembler is repeated once there is one.
                c.outcome != Outcome::Accepted || c.opcodes.is_some() || !self.want_code
            })
        };
        let missing = (0..keys.len()).filter(|n| !answered(&keys[*n])).collect();
        Asked { index, pair, keys, pack, missing }
    }

    fn key(&self, row: usize) -> String {
        let row = &self.plan.rows[row];
        match row.variant {
            Some(v) => cell_key(
                &self.library.variants[v].code.identity(),
                self.library.snippets[row.snippet].header.isa,
            ),
            None => cell_key(&format!("as written\n{}", self.as_written(row.snippet)), None),
        }
    }

    fn as_written(&self, snippet: usize) -> &str {
        self.library.snippets[snippet].as_written.as_ref().map_or("", |w| w.text.as_str())
    }

    fn isa(&self, row: usize, toolkit: &Toolkit) -> PtxIsa {
        self.library.snippets[self.plan.rows[row].snippet].header.isa.unwrap_or(toolkit.isa)
    }

    fn code(&self, row: usize) -> Option<&Code> {
        self.plan.rows[row].variant.map(|v| &self.library.variants[v].code)
    }

    /// Returns the verdicts on the missing cells of a pair. Entries are assembled in batches; modules that cannot share a
    /// file, alone. Entries that ptxas may refuse late are assembled with code at once, in separate files, so that the
    /// others are not read again because of them.
    fn check(&self, asked: &Asked<'_>, toolkit: &Toolkit) -> Vec<Answer> {
        let (mut early, mut late, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        for position in 0..asked.missing.len() {
            let row = asked.row(position);
            match self.entry(row) {
                Some(_) if self.judged_late(row) => late.push(position),
                Some(_) => early.push(position),
                None => alone.push(position),
            }
        }
        // Generating a few entries costs less than a second process.
        let first = if self.want_code && early.len() <= FEW { Pass::Generate } else { Pass::Check };
        let mut answers = self.in_batches(asked, toolkit, first, &early);
        answers.extend(self.in_batches(asked, toolkit, Pass::Generate, &late));
        let single = alone.par_iter().map(|p| (*p, self.ask_alone(asked.row(*p), asked.pair, toolkit)));
        answers.extend(single.collect::<Vec<_>>());
        answers.sort_by_key(|(position, _)| *position);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Adds the code of the entries that passed the check. An entry that ptxas refuses only now counts as refused.
    fn generate(&self, asked: &Asked<'_>, toolkit: &Toolkit, answers: &mut [Answer]) {
        let checked_only = |p: &usize| {
            let row = asked.row(*p);
            let answer = &answers[*p];
            answer.outcome == Outcome::Accepted && answer.code.is_empty() && self.entry(row).is_some()
        };
        let positions: Vec<usize> = (0..answers.len()).filter(checked_only).collect();
        for (position, answer) in self.in_batches(asked, toolkit, Pass::Generate, &positions) {
            if answer.outcome != Outcome::Accepted {
                let (id, outcome) = (&self.plan.rows[asked.row(position)].id, answer.outcome.word());
                let text = format!(
                    "{id} is {outcome} only during code generation; its header needs `judged_late: true`"
                );
                self.sink.emit(Event::Warning { text });
            }
            answers[position] = answer;
        }
    }

    fn judged_late(&self, row: usize) -> bool {
        self.plan.rows[row].variant.is_some_and(|v| self.library.variants[v].judged_late)
    }

    /// Assembles the entries at these positions in files of one PTX version each.
    fn in_batches(
        &self,
        asked: &Asked<'_>,
        toolkit: &Toolkit,
        pass: Pass,
        positions: &[usize],
    ) -> Vec<(usize, Answer)> {
        let mut groups: BTreeMap<PtxIsa, Vec<usize>> = BTreeMap::new();
        for position in positions {
            groups.entry(self.isa(asked.row(*position), toolkit)).or_default().push(*position);
        }
        let batches: Vec<(PtxIsa, &[usize])> =
            groups.iter().flat_map(|(isa, list)| list.chunks(pass.chunk()).map(|c| (*isa, c))).collect();
        let batched = batches.par_iter().flat_map_iter(|(isa, positions)| {
            let entries: Vec<Entry<'_>> =
                positions.iter().filter_map(|p| self.entry(asked.row(*p))).collect();
            let site = Site {
                toolkit,
                target: asked.pair.target,
                arch: asked.pair.arch,
                isa: *isa,
                scratch: self.scratch,
                limits: self.limits,
                pass,
            };
            let answers =
                site.settle(&entries).unwrap_or_else(|error| vec![cannot_start(&error); positions.len()]);
            positions.iter().copied().zip(answers).collect::<Vec<_>>()
        });
        batched.collect()
    }

    fn entry(&self, row: usize) -> Option<Entry<'_>> {
        let variant = &self.library.variants[self.plan.rows[row].variant?];
        match &variant.code {
            Code::Entry { before, after, first_line } => {
                Some(Entry { before, after, first_line: *first_line })
            }
            Code::Module { .. } => None,
        }
    }

    fn ask_isolated(&self, asked: &Asked<'_>, toolkit: &Toolkit) -> Vec<Answer> {
        asked.missing.par_iter().map(|n| self.ask_alone(asked.pair.rows[*n], asked.pair, toolkit)).collect()
    }

    /// Judges one cell in a separate process.
    fn ask_alone(&self, row: usize, pair: &PlannedPair, toolkit: &Toolkit) -> Answer {
        let code = self.code(row);
        let text = match code {
            Some(code) => code.standalone(self.isa(row, toolkit), pair.target),
            None => self.as_written(self.plan.rows[row].snippet).to_owned(),
        };
        match assemble(toolkit, pair.arch, &text, None, self.scratch, self.limits.of_batch(1)) {
            Ok(Run::Made(cubin)) => {
                let code = match code {
                    _ if !self.want_code => Vec::new(),
                    // This entry only: in a file by itself, a snippet's entry is named `v0`.
                    Some(Code::Entry { .. }) => machine_code::of_kernels(&cubin)
                        .into_iter()
                        .find_map(|(name, code)| (name == "v0").then(|| code.to_vec()))
                        .unwrap_or_default(),
                    _ => machine_code::of_kernels(&cubin)
                        .into_iter()
                        .flat_map(|(_, code)| code)
                        .copied()
                        .collect(),
                };
                Answer { outcome: Outcome::Accepted, message: String::new(), code }
            }
            Ok(Run::Refused(diagnostics)) => {
                let Some(first) = diagnostics.first() else {
                    return Answer::new(Outcome::Rejected, String::new());
                };
                let mut answer = Answer::refusal(first);
                let line = first.line.and_then(|line| code.map_or(Some(line), |c| c.file_line(line)));
                if let Some(line) = line.filter(|_| answer.outcome == Outcome::Rejected) {
                    answer.message = MessageRow::at_line(line, &answer.message);
                }
                answer
            }
            Ok(Run::Broke(answer)) => answer,
            Err(error) => cannot_start(&error),
        }
    }
}

fn cannot_start(error: &io::Error) -> Answer {
    Answer::new(Outcome::Crashed, format!("ptxas cannot be run: {error}"))
}

/// Transposes the answers into the columnar record.
fn record(
    library: &Library,
    plan: &Plan,
    toolkits: &[&Toolkit],
    disassembler: Option<&Disassembler>,
    grid: &Grid,
) -> Record {
    let mut messages = Interner::default();
    let mut opcodes = Interner::default();
    let mut variants = Vec::new();
    for (r, row) in plan.rows.iter().enumerate() {
        let variant = row.variant.map(|v| &library.variants[v]);
        let expects = variant.map(|v| v.sass.clone()).unwrap_or_default();
        let count = variant.map_or(1, |v| v.sass_count);
        let mut answers = Vec::new();
        let (mut said, mut shown) = (Vec::<Spread>::new(), Vec::<Spread>::new());
        for p in 0..plan.pairs.len() {
            let Some(cell) = grid.get(r, p) else {
                answers.push(None);
                continue;
            };
            let mut answer = record::CellAnswer { outcome: cell.outcome, native: None };
            if cell.outcome == Outcome::Accepted {
                answer.native = Some(sass::judge(cell.opcodes.as_deref(), &expects, count));
                if let Some(list) = &cell.opcodes {
                    let names: Vec<&str> = list.iter().map(|(name, _)| name.as_str()).collect();
                    spread(&mut shown, opcodes.index(&names.join(" ")), p);
                }
            } else {
                spread(&mut said, messages.index(&cell.message), p);
            }
            answers.push(Some(answer));
        }
        let mut done = VariantRow {
            id: row.id.clone(),
            snippet: row.snippet,
            expects,
            outcomes: String::new(),
            native: String::new(),
            messages: said,
            sass: shown,
        };
        done.set(answers);
        variants.push(done);
    }
    let message = |text: String| MessageRow { kind: kinds::classify(&text), text };
    let pair =
        |p: &PlannedPair| Pair { toolkit: toolkits[p.toolkit].version, target: p.target, arch: p.arch };
    let snippet = |s: &crate::snippet::Snippet| SnippetRow {
        file: s.path.display().to_string(),
        family: s.family.clone(),
        about: s.header.about.clone(),
        spec: s.header.spec.clone(),
        grants: s.header.grants.clone(),
    };
    let toolkit = |t: &&Toolkit| ToolkitRow { version: t.version, isa: t.isa, sha256: t.sha256.clone() };
    let mut matrix = Matrix {
        toolkits: toolkits.iter().map(toolkit).collect(),
        disassembler: disassembler.map(|d| d.version),
        pairs: plan.pairs.iter().map(pair).collect(),
        snippets: library.snippets.iter().map(snippet).collect(),
        variants,
        messages: messages.items.into_iter().map(message).collect(),
        kinds: kinds::rows(),
        opcodes: opcodes.items,
        claims: claims::rows(library, plan),
    };
    record::claims::judge(&mut matrix);
    Record::of_matrix(concat!("sm121probe ", env!("CARGO_PKG_VERSION")).to_owned(), matrix)
}

fn spread(spreads: &mut Vec<Spread>, index: usize, pair: usize) {
    match spreads.iter_mut().find(|s| s.index == index) {
        Some(s) => s.pairs.push(pair),
        None => {
            let mut pairs = PairSet::default();
            pairs.push(pair);
            spreads.push(Spread { index, pairs });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_gather_pairs() {
        let mut spreads = Vec::new();
        for (index, pair) in [(0, 0), (1, 1), (0, 2), (0, 3)] {
            spread(&mut spreads, index, pair);
        }
        let text: Vec<String> = spreads.iter().map(|s| format!("{}:{}", s.index, s.pairs)).collect();
        assert_eq!(text, ["0:0,2-3", "1:1"]);
    }
}
