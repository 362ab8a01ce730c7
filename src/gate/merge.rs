//! Merges the records of many machines, or of the shards of a job. Contradictory answers are reported as conflicts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;

use indexmap::IndexSet;
use ptx::arch::ToolkitVersion;

use super::facts;
use super::fleet::Fleet;
use super::subject::{ClaimKey, Kind, RunKey, TileKey, TrialKey};
use crate::record::{
    CellAnswer, ClaimRow, ConflictAnswer, ConflictRow, DeviceRow, KindRow, Matrix, MessageRow, Native,
    Outcome, Pair, PairSet, Record, SkippedRow, SnippetRow, Spread, TileRow, ToolkitRow, TrialRow,
    VariantRow, VariantRun, claims,
};

/// What to do if records contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disagreement {
    /// Report a conflict.
    Shown,
    /// Use the answer of the record added last, as when a baseline is blessed.
    LastWins,
}

/// A row of a variant that some records share: the same answers for the same pairs.
struct Version {
    pairs: usize,
    row: VariantRow,
    sources: Vec<usize>,
}

/// The rows of a variant in all records.
struct Known {
    snippet: usize,
    expects: Vec<String>,
    versions: Vec<Version>,
}

/// An answer other than a cell, with its row.
struct Answered<T> {
    words: String,
    row: T,
    sources: Vec<usize>,
}

/// The records that gave each answer, by its description.
type Answers = BTreeMap<String, BTreeSet<usize>>;

type Rows<K, T> = BTreeMap<K, Vec<Answered<T>>>;

/// Merges records incrementally.
pub struct Merger {
    disagreement: Disagreement,
    sources: Vec<String>,
    tools: IndexSet<String>,
    pairs: Vec<Vec<Pair>>,
    toolkits: BTreeMap<ToolkitVersion, ToolkitRow>,
    disassembler: Option<ToolkitVersion>,
    snippets: IndexSet<String>,
    snippet_rows: Vec<SnippetRow>,
    variants: BTreeMap<String, Known>,
    messages: IndexSet<(String, Option<usize>)>,
    kinds: Vec<KindRow>,
    opcodes: IndexSet<String>,
    claims: BTreeMap<(usize, ClaimKey), ClaimRow>,
    tiles: Rows<TileKey, TileRow>,
    trials: Rows<TrialKey, TrialRow>,
    runs: Rows<RunKey, VariantRun>,
    rest: Record,
    fleet: Fleet,
}

impl Merger {
    /// Creates a merger without records.
    #[must_use]
    pub fn new(disagreement: Disagreement) -> Self {
        Self {
            disagreement,
            sources: Vec::new(),
            tools: IndexSet::new(),
            pairs: Vec::new(),
            toolkits: BTreeMap::new(),
            disassembler: None,
            snippets: IndexSet::new(),
            snippet_rows: Vec::new(),
            variants: BTreeMap::new(),
            messages: IndexSet::new(),
            kinds: Vec::new(),
            opcodes: IndexSet::new(),
            claims: BTreeMap::new(),
            tiles: Rows::new(),
            trials: Rows::new(),
            runs: Rows::new(),
            rest: Record::of_matrix(String::new(), Matrix::default()),
            fleet: Fleet::default(),
        }
    }

    /// Adds a record; `source` names it in conflicts.
    pub fn add(&mut self, source: &str, mut record: Record) {
        self.fleet.add(&record);
        if self.disagreement == Disagreement::Shown {
            by_model(&mut record);
        }
        let number = self.sources.len();
        self.sources.push(source.to_owned());
        self.tools.insert(record.tool);
        self.add_matrix(number, record.matrix);
        for row in record.tiles.rows {
            add_row(&mut self.tiles, TileKey::from_row(&row), facts::tile_words(&row), row, number);
        }
        for row in record.trials {
            add_row(&mut self.trials, TrialKey::from_row(&row), facts::trial_words(&row), row, number);
        }
        for row in record.runs {
            add_row(&mut self.runs, RunKey::from_run(&row), facts::run_words(&row), row, number);
        }
        let rest = &mut self.rest;
        if !rest.audit.append(record.audit) {
            let reason =
                format!("{source} has an audit for other devices, which cannot be merged with the first");
            add_new(&mut rest.skipped, vec![SkippedRow { part: "audit".to_owned(), reason, needed: true }]);
        }
        for family in record.families {
            if rest.family(&family.name).is_none() {
                rest.families.push(family);
            }
        }
        add_new(&mut rest.devices, record.devices);
        add_new(&mut rest.tiles.peers, record.tiles.peers);
        add_new(&mut rest.tiles.policies, record.tiles.policies);
        add_new(&mut rest.fault_coverage, record.fault_coverage);
        add_new(&mut rest.exercised, record.exercised);
        add_new(&mut rest.faults, record.faults);
        add_new(&mut rest.selftest, record.selftest);
        rest.fuzzed.extend(record.fuzzed);
        add_new(&mut rest.skipped, record.skipped);
        add_new(&mut rest.conflicts, record.conflicts);
        // Records of one selection keep it; together, records of several selections are a selection that no glob describes.
        if number == 0 {
            rest.filters = record.filters;
        } else if rest.filters != record.filters {
            rest.filters.clear();
        }
    }

    fn add_matrix(&mut self, number: usize, matrix: Matrix) {
        let claims: Vec<(ClaimKey, ClaimRow)> =
            matrix.claims.iter().map(|claim| (ClaimKey::from_claim(&matrix, claim), claim.clone())).collect();
        for toolkit in matrix.toolkits {
            self.toolkits.entry(toolkit.version).or_insert(toolkit);
        }
        self.disassembler = self.disassembler.max(matrix.disassembler);
        let pairs = self.pairs.iter().position(|p| *p == matrix.pairs).unwrap_or_else(|| {
            self.pairs.push(matrix.pairs);
            self.pairs.len() - 1
        });
        let kinds: Vec<usize> = matrix.kinds.into_iter().map(|kind| place(&mut self.kinds, kind)).collect();
        let messages: Vec<usize> = matrix
            .messages
            .into_iter()
            .map(|m| self.messages.insert_full((m.text, m.kind.and_then(|k| kinds.get(k).copied()))).0)
            .collect();
        let opcodes: Vec<usize> = matrix.opcodes.into_iter().map(|o| self.opcodes.insert_full(o).0).collect();
        let snippets: Vec<usize> = matrix
            .snippets
            .into_iter()
            .map(|row| {
                let (at, new) = self.snippets.insert_full(row.file.clone());
                if new {
                    self.snippet_rows.push(row);
                }
                at
            })
            .collect();
        for row in matrix.variants {
            let known = self.variants.entry(row.id.clone()).or_insert_with(|| Known {
                snippet: snippets[row.snippet],
                expects: row.expects.clone(),
                versions: Vec::new(),
            });
            let same = |v: &&mut Version| v.pairs == pairs && v.row.same_answers(&row);
            if let Some(version) = known.versions.iter_mut().find(same) {
                version.sources.push(number);
                continue;
            }
            let of = |spreads: Vec<Spread>, places: &[usize]| {
                spreads.into_iter().map(|s| Spread { index: places[s.index], pairs: s.pairs }).collect()
            };
            let (said, shown) = (of(row.messages, &messages), of(row.sass, &opcodes));
            let row = VariantRow { messages: said, sass: shown, ..row };
            known.versions.push(Version { pairs, row, sources: vec![number] });
        }
        for (key, mut claim) in claims {
            claim.snippet = snippets[claim.snippet];
            match self.claims.get_mut(&(claim.snippet, key.clone())) {
                Some(known) => known.whole |= claim.whole,
                None => _ = self.claims.insert((claim.snippet, key), claim),
            }
        }
    }

    /// Returns the origin of the records added so far.
    #[must_use]
    pub fn fleet(&self) -> Fleet {
        self.fleet.clone()
    }

    /// Returns the merged record with its conflicts. Claims are judged on the merged cells.
    #[must_use]
    pub fn finish(mut self) -> Record {
        let mut pairs: Vec<Pair> =
            self.pairs.iter().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
        // The order of a run: pairs whose `-arch` equals their `.target` first.
        pairs.sort_by_key(|p| (p.target != p.arch, *p));
        let index: HashMap<Pair, usize> = pairs.iter().enumerate().map(|(n, p)| (*p, n)).collect();
        let places: Vec<Vec<usize>> =
            self.pairs.iter().map(|list| list.iter().map(|p| index[p]).collect()).collect();
        // The order of a run: snippets by file name.
        let mut order: Vec<usize> = (0..self.snippet_rows.len()).collect();
        order.sort_by(|a, b| self.snippet_rows[*a].file.cmp(&self.snippet_rows[*b].file));
        let mut now_at = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            now_at[*old] = new;
        }
        let mut conflicts = std::mem::take(&mut self.rest.conflicts);
        let mut variants = Vec::new();
        for (id, known) in std::mem::take(&mut self.variants) {
            let row = self.row(&known.versions, &places, pairs.len());
            conflicts.extend(self.cell_conflicts(&id, &row.conflicts, &known.versions, &places, &pairs));
            let mut merged = VariantRow {
                id,
                snippet: now_at[known.snippet],
                expects: known.expects,
                outcomes: String::new(),
                native: String::new(),
                messages: spreads(&row.messages),
                sass: spreads(&row.sass),
            };
            merged.set(row.answers);
            variants.push(merged);
        }
        let mut matrix = Matrix {
            toolkits: self.toolkits.into_values().collect(),
            disassembler: self.disassembler,
            pairs,
            snippets: order.iter().map(|n| self.snippet_rows[*n].clone()).collect(),
            variants,
            messages: self.messages.into_iter().map(|(text, kind)| MessageRow { text, kind }).collect(),
            kinds: self.kinds,
            opcodes: self.opcodes.into_iter().collect(),
            claims: self.claims.into_values().collect(),
        };
        for claim in &mut matrix.claims {
            claim.snippet = now_at[claim.snippet];
        }
        claims::judge(&mut matrix);
        let mut out = self.rest;
        out.tool = self.tools.into_iter().collect::<Vec<_>>().join("; ");
        out.matrix = matrix;
        out.tiles.rows = settled(Kind::Tile, self.tiles, self.disagreement, &self.sources, &mut conflicts);
        out.trials = settled(Kind::Trial, self.trials, self.disagreement, &self.sources, &mut conflicts);
        out.runs = settled(Kind::Run, self.runs, self.disagreement, &self.sources, &mut conflicts);
        // Another record may contain what one skipped.
        let mut skipped = std::mem::take(&mut out.skipped);
        skipped.retain(|row| {
            let family = out.families.iter().find(|family| family.title == row.part);
            family.is_none_or(|family| out.trials.iter().all(|trial| trial.family != family.name))
        });
        out.skipped = skipped;
        out.conflicts = conflicts;
        out
    }

    /// Merges the cells of a variant's versions.
    fn row(&self, versions: &[Version], places: &[Vec<usize>], pairs: usize) -> Row {
        let mut row = Row {
            answers: vec![None; pairs],
            messages: vec![None; pairs],
            sass: vec![None; pairs],
            conflicts: BTreeSet::new(),
        };
        for version in versions {
            let at = &places[version.pairs];
            for (n, said) in version.row.answers() {
                let known = &mut row.answers[at[n]];
                match *known {
                    Some(before) if contradict(before, said) && self.disagreement == Disagreement::Shown => {
                        row.conflicts.insert(at[n]);
                    }
                    Some(before) if before.outcome == said.outcome && is_named(before) && !is_named(said) => {
                    }
                    _ => *known = Some(said),
                }
            }
            for (spreads, to) in
                [(&version.row.messages, &mut row.messages), (&version.row.sass, &mut row.sass)]
            {
                for spread in spreads {
                    for pair in spread.pairs.iter() {
                        let slot = &mut to[at[pair]];
                        if slot.is_none() || self.disagreement == Disagreement::LastWins {
                            *slot = Some(spread.index);
                        }
                    }
                }
            }
        }
        for n in 0..pairs {
            if row.conflicts.contains(&n) {
                row.answers[n] = None;
                (row.messages[n], row.sass[n]) = (None, None);
            }
            // Only rejected cells have messages, and only accepted cells have opcodes.
            if row.answers[n].is_some_and(|a| a.outcome == Outcome::Accepted) {
                row.messages[n] = None;
            } else {
                row.sass[n] = None;
            }
        }
        row
    }

    /// Lists the conflicts of a variant: per toolkit, with one row for all targets on which the same records gave the same
    /// answers.
    fn cell_conflicts(
        &self,
        id: &str,
        conflicts: &BTreeSet<usize>,
        versions: &[Version],
        places: &[Vec<usize>],
        pairs: &[Pair],
    ) -> Vec<ConflictRow> {
        let mut alike: BTreeMap<(ToolkitVersion, Answers), Vec<String>> = BTreeMap::new();
        for to in conflicts {
            let mut answers = Answers::new();
            for version in versions {
                let Some(n) = places[version.pairs].iter().position(|p| p == to) else { continue };
                let Some(answer) = version.row.answer(n) else { continue };
                answers.entry(answer.words()).or_default().extend(&version.sources);
            }
            let pair = pairs[*to];
            let place = if pair.target == pair.arch {
                pair.target.to_string()
            } else {
                format!("{} for -arch {}", pair.target, pair.arch)
            };
            alike.entry((pair.toolkit, answers)).or_default().push(place);
        }
        alike
            .into_iter()
            .map(|((toolkit, answers), places)| ConflictRow {
                about: format!("{id} with {toolkit} on {}", places.join(", ")),
                answers: answers.into_iter().map(|(answer, of)| self.answer(answer, of)).collect(),
            })
            .collect()
    }

    fn answer(&self, answer: String, sources: impl IntoIterator<Item = usize>) -> ConflictAnswer {
        ConflictAnswer { answer, sources: sources.into_iter().map(|n| self.sources[n].clone()).collect() }
    }
}

/// Whether the implementation of an accepted cell is known.
fn is_named(answer: CellAnswer) -> bool {
    answer.native.is_some_and(|native| native != Native::Unknown)
}

/// Whether two answers for the same cell contradict each other.
fn contradict(a: CellAnswer, b: CellAnswer) -> bool {
    a.outcome != b.outcome || (is_named(a) && is_named(b) && a.native != b.native)
}

struct Row {
    answers: Vec<Option<CellAnswer>>,
    messages: Vec<Option<usize>>,
    sass: Vec<Option<usize>>,
    conflicts: BTreeSet<usize>,
}

fn add_row<K: Ord, T>(rows: &mut Rows<K, T>, key: K, words: String, row: T, source: usize) {
    let known = rows.entry(key).or_default();
    match known.iter_mut().find(|a| a.words == words) {
        Some(answered) => answered.sources.push(source),
        None => known.push(Answered { words, row, sources: vec![source] }),
    }
}

/// Returns the rows on which all records agree. The others become conflicts, or the last record wins.
fn settled<K: Display, T>(
    kind: Kind,
    rows: Rows<K, T>,
    how: Disagreement,
    sources: &[String],
    conflicts: &mut Vec<ConflictRow>,
) -> Vec<T> {
    let mut out = Vec::new();
    for (key, mut answered) in rows {
        if answered.len() > 1 && how == Disagreement::Shown {
            let names = |of: &[usize]| of.iter().map(|n| sources[*n].clone()).collect();
            conflicts.push(ConflictRow {
                about: format!("{} {key}", kind.word()),
                answers: answered
                    .iter()
                    .map(|a| ConflictAnswer { answer: a.words.clone(), sources: names(&a.sources) })
                    .collect(),
            });
            continue;
        }
        answered.sort_by_key(|a| a.sources.last().copied());
        out.extend(answered.pop().map(|a| a.row));
    }
    out
}

fn add_new<T: PartialEq>(rows: &mut Vec<T>, more: Vec<T>) {
    for row in more {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
}

fn place(rows: &mut Vec<KindRow>, row: KindRow) -> usize {
    rows.iter().position(|k| k.name == row.name).unwrap_or_else(|| {
        rows.push(row);
        rows.len() - 1
    })
}

/// Renames devices by model and driver: `gpu:0` in two records are different GPUs, and an answer about a model covers all
/// GPUs of that model.
fn by_model(record: &mut Record) {
    let label = |d: &DeviceRow| {
        if d.driver.is_empty() { d.name.clone() } else { format!("{}, driver {}", d.name, d.driver) }
    };
    let named: HashMap<String, String> =
        record.devices.iter().map(|d| (d.device.clone(), label(d))).collect();
    let rename = |device: &mut String| {
        if let Some(name) = named.get(device.as_str()) {
            device.clone_from(name);
        }
    };
    record.trials.iter_mut().for_each(|t| rename(&mut t.device));
    record.runs.iter_mut().for_each(|r| rename(&mut r.device));
    record.devices.iter_mut().for_each(|d| rename(&mut d.device));
}

/// Inverts a list with an index per pair into the pairs of each index.
fn spreads(of: &[Option<usize>]) -> Vec<Spread> {
    let mut out: BTreeMap<usize, PairSet> = BTreeMap::new();
    for (pair, index) in of.iter().enumerate() {
        if let Some(index) = index {
            out.entry(*index).or_default().push(pair);
        }
    }
    out.into_iter().map(|(index, pairs)| Spread { index, pairs }).collect()
}
