//! Compares a run with its baseline and its expectations: it conforms, or there is a list of findings.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ptx::arch::ToolkitVersion;

use super::date::Date;
use super::diff::{Diff, diff};
use super::direction::Direction;
use super::expectations::Expectation;
use super::facts::{Fact, facts};
use super::groups::groups;
use super::places::refused_line;
use super::subject::{Kind, Lane, Subject};
use crate::record::{
    Completeness, ConfigurationName, Finding, Ground, Incomplete, Pair, Record, StageName, Verdict, counted,
};

/// The input of the gate.
pub struct Question<'a> {
    /// The baseline; `None` to judge the run only by its own verdicts.
    pub baseline: Option<&'a Record>,
    /// The run.
    pub run: &'a Record,
    /// The known failures.
    pub expectations: &'a [Expectation],
    /// The path of the expectations file, for the locations of findings.
    pub expectations_file: &'a str,
    /// The date on which expiry is checked.
    pub today: Date,
    /// The lanes that the caller left out; their absence is no finding.
    pub left_out: LeftOut,
    /// Whether the run was made to be compared with this baseline: a toolkit that it lacks is then not installed.
    pub reran: bool,
}

/// The kinds of lanes that a caller left out when it selected a part of the baseline.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeftOut {
    /// The toolkits that it did not name.
    pub toolkits: bool,
    /// The targets that it did not name.
    pub targets: bool,
    /// Everything but cells.
    pub all_but_cells: bool,
}

impl LeftOut {
    /// Every lane of which the run has nothing.
    pub const ALL: Self = Self { toolkits: true, targets: true, all_but_cells: true };

    const fn has(self, lane: &Lane) -> bool {
        match lane {
            Lane::Toolkit(_) => self.toolkits,
            Lane::Target(_) => self.targets,
            Lane::Kernels(_) => self.targets || self.all_but_cells,
            Lane::Device(_) | Lane::Family(_) | Lane::Tiles => self.all_but_cells,
        }
    }
}

/// The result of the gate.
#[derive(Debug, Default)]
pub struct Judgement {
    /// What does not conform, and what was not checked.
    pub findings: Vec<Finding>,
    /// What was asked and not checked, without remedies; each is a finding, too.
    pub gaps: Vec<String>,
    /// Sentences about new, better and omitted answers.
    pub notes: Vec<String>,
    /// The number of cells compared with the baseline.
    pub cells: usize,
    /// The number of other answers that were compared with the baseline, or judged without one.
    pub facts: usize,
    /// Trials by verdict.
    pub trials: BTreeMap<Verdict, usize>,
    /// The number of expectations that are met.
    pub expected: usize,
}

impl Judgement {
    /// Creates the judgement of a run that checked nothing, for this reason.
    #[must_use]
    pub fn nothing(reason: &str) -> Self {
        let mut out = Self::default();
        out.lacks("the selection".to_owned(), reason.to_owned(), "");
        out
    }

    /// Adds what was asked and not checked, as a gap and as a finding, which also tells the remedy.
    pub fn lacks(&mut self, about: String, what: String, remedy: &str) {
        let semicolon = if remedy.is_empty() { "" } else { "; " };
        self.findings.push(Finding::new(Ground::Incomplete, about, format!("{what}{semicolon}{remedy}")));
        self.gaps.push(what);
    }

    /// Whether nothing was compared.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells == 0 && self.facts == 0
    }

    /// Returns what was asked and not checked.
    #[must_use]
    pub fn incomplete(&self) -> Option<Incomplete> {
        let mut all = Completeness::of_checks(self.cells + self.facts);
        // What is wrong was checked.
        all.add_checks(self.findings.iter().filter(|f| f.ground != Ground::Incomplete).count());
        self.gaps.iter().for_each(|gap| all.add_gap(gap));
        all.incomplete("the run has no answer, or none that the baseline has")
    }

    /// Returns the most severe ground of the findings; `None` if the run conforms.
    #[must_use]
    pub fn ground(&self) -> Option<Ground> {
        self.findings.iter().map(|f| f.ground).min()
    }

    /// Summarizes the result: `conforms; 1,264 cells compared, 3 trials (2 pass, 1 blocked), 1 expectation met`.
    #[must_use]
    pub fn summary(&self) -> String {
        let wrong = self.findings.iter().filter(|f| f.ground != Ground::Incomplete).count();
        let word = match (wrong, self.incomplete()) {
            (0, Some(incomplete)) => incomplete.to_string(),
            (0, None) => "conforms".to_owned(),
            (n, _) => format!("does not conform: {}", counted(n, "finding")),
        };
        format!("{word}; {}", self.counts())
    }

    /// Counts the answers: `1,264 cells compared, 3 trials (2 pass, 1 blocked), 1 expectation met`; what there is none of is left out.
    #[must_use]
    pub fn counts(&self) -> String {
        let mut counts = Vec::new();
        if self.cells > 0 {
            counts.push(format!("{} compared", counted(self.cells, "cell")));
        }
        let trials: usize = self.trials.values().sum();
        if trials > 0 {
            let each: Vec<String> =
                self.trials.iter().map(|(v, n)| format!("{n} {}", v.word().replace('_', " "))).collect();
            counts.push(format!("{} ({})", counted(trials, "trial"), each.join(", ")));
        }
        let others = self.facts.saturating_sub(trials);
        if others > 0 {
            counts.push(counted(others, "other answer"));
        }
        if self.expected > 0 {
            counts.push(format!("{} met", counted(self.expected, "expectation")));
        }
        if counts.is_empty() { "no answers".to_owned() } else { counts.join(", ") }
    }
}

/// The cells and other answers that an expectation excuses, with its index.
struct Excused {
    cells: HashMap<(usize, usize), usize>,
    facts: BTreeMap<Subject, usize>,
}

/// Describes the GPUs and drivers that the baseline lacks. Their answers are compared with those of the ones it has.
fn drivers<'a>(baseline: &'a Record, run: &'a Record) -> impl Iterator<Item = String> + 'a {
    run.devices.iter().filter_map(|row| {
        let known: BTreeSet<&str> =
            baseline.devices.iter().filter(|d| d.name == row.name).map(|d| d.driver.as_str()).collect();
        let about = if known.is_empty() {
            let others: BTreeSet<&str> = baseline.devices.iter().map(|d| d.name.as_str()).collect();
            let others = if others.is_empty() { "no GPU".to_owned() } else { listed(&others) };
            format!("{} is not in the baseline, which has {others}", row.name)
        } else if known.contains(row.driver.as_str()) {
            return None;
        } else {
            let known = listed(&known);
            format!("driver {} of {} is not in the baseline, which has {known}", row.driver, row.name)
        };
        Some(format!(
            "{about}: these lines are the difference; `gate --bless` adds its answers to the baseline"
        ))
    })
}

fn listed(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

/// Judges a run: collects its findings and notes.
#[must_use]
pub fn judge(question: &Question<'_>) -> Judgement {
    let run = question.run;
    let mut out = Judgement { trials: verdicts(run), ..Judgement::default() };
    let now = facts(run);
    let excused = expectations(question, &now, &mut out);
    let mut wrong = BTreeSet::new();
    for (subject, fact) in now.iter().filter(|(_, f)| !f.conforms) {
        if excused.facts.contains_key(subject) {
            continue;
        }
        out.findings.push(not_conforming(subject, fact));
        wrong.insert(subject.clone());
    }
    for conflict in &run.conflicts {
        let said = conflict
            .answers
            .iter()
            .map(|a| format!("{} ({})", a.answer, a.sources.join(", ")))
            .collect::<Vec<_>>();
        out.findings.push(Finding::new(
            Ground::Wrong,
            conflict.about.clone(),
            format!("records disagree: {}", said.join("; ")),
        ));
    }
    out.notes.extend(question.baseline.into_iter().flat_map(|baseline| drivers(baseline, run)));
    let Some(baseline) = question.baseline else {
        // A blocked trial or tile says nothing about the kernels.
        let judged = |(subject, fact): &(&Subject, &Fact)| {
            subject.kind() != Kind::Claim && (fact.proven || !fact.conforms)
        };
        out.facts = now.iter().filter(judged).count();
        return out;
    };
    let mut found = diff(baseline, run);
    // A trial that the baseline lacks was judged all the same.
    let compared_facts = found.compared_facts.max(out.trials.values().sum());
    let compared_cells = found.compared_cells;
    lanes(question, &found, &mut out);
    against_baseline(question, &mut found, &excused, &wrong, &mut out);
    out.facts = compared_facts;
    out.cells = compared_cells;
    nothing_in_common(baseline, run, &mut out);
    out
}

fn verdicts(run: &Record) -> BTreeMap<Verdict, usize> {
    let mut out = BTreeMap::new();
    for trial in &run.trials {
        *out.entry(trial.verdict()).or_default() += 1;
    }
    out
}

/// Reports a matrix of which no cell could be compared, with what distinguishes the two.
fn nothing_in_common(baseline: &Record, run: &Record, out: &mut Judgement) {
    let (then, now) = (&baseline.matrix, &run.matrix);
    if out.cells > 0 || then.variants.is_empty() || now.variants.is_empty() {
        return;
    }
    let toolkits = |matrix: &crate::record::Matrix| {
        let names: BTreeSet<String> = matrix.toolkits.iter().map(|t| t.version.to_string()).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let variants = |matrix: &crate::record::Matrix| counted(matrix.variants.len(), "variant");
    let message = format!(
        "no cell was compared: the baseline has {} with {}, the run {} with {}",
        variants(then),
        toolkits(then),
        variants(now),
        toolkits(now)
    );
    out.lacks("the matrix".to_owned(), message, "");
}

fn not_conforming(subject: &Subject, fact: &Fact) -> Finding {
    let colon = if fact.detail.is_empty() { "" } else { ": " };
    let (ground, what) = match subject.kind() {
        Kind::Claim => {
            (Ground::Claim, format!("is {}, which differs from its recorded status", fact.answer.word()))
        }
        Kind::Tile | Kind::Trial | Kind::Check | Kind::Run => (Ground::Wrong, fact.words()),
    };
    let about = format!("{} {subject}", subject.kind().word());
    let mut finding = Finding::new(ground, about, format!("{what}{colon}{}", fact.detail));
    finding.trial = wrong_stage(subject, Some(fact));
    finding
}

/// Returns the family and the configuration of a trial, and its wrong stage.
fn wrong_stage(subject: &Subject, fact: Option<&Fact>) -> Option<(String, ConfigurationName, StageName)> {
    let Subject::Trial(key) = subject else { return None };
    Some((key.family.clone(), key.configuration.clone(), fact?.at.clone()?))
}

/// Matches expectations with the answers of the run. An expectation that expired, matches nothing, overlaps another
/// or is no longer true is a finding.
fn expectations(question: &Question<'_>, now: &super::Facts, out: &mut Judgement) -> Excused {
    let mut excused = Excused { cells: HashMap::new(), facts: BTreeMap::new() };
    let matrix = &question.run.matrix;
    for (n, e) in question.expectations.iter().enumerate() {
        let broken = |message: String| {
            let about = format!("expectation {} ({} is {})", n + 1, e.about(), e.verdict);
            let mut finding = Finding::new(Ground::Wrong, about, message);
            finding.place = Some((question.expectations_file.to_owned(), e.line));
            finding
        };
        let expired = e.expires < question.today;
        if expired {
            out.findings.push(broken(format!(
                "expired on {}: check {} again, then remove the expectation or give it a later date",
                e.expires, e.url
            )));
        }
        let (mut matched, mut otherwise, mut overlaps) = (0, Vec::new(), BTreeSet::new());
        let pairs: Vec<usize> = (0..matrix.pairs.len()).collect();
        for (v, variant) in matrix.variants.iter().enumerate() {
            for p in &pairs {
                let pair = matrix.pairs[*p];
                if !e.speaks_of_cell(&variant.id, pair.toolkit, pair.target) {
                    continue;
                }
                let Some(answer) = variant.answer(*p) else { continue };
                matched += 1;
                if let Some(other) = excused.cells.insert((v, *p), n) {
                    overlaps.insert(other);
                }
                if !e.holds_of_cell(answer) {
                    otherwise.push(format!(
                        "{} {} {} is {}",
                        variant.id,
                        pair.toolkit,
                        pair.target,
                        answer.words()
                    ));
                    excused.cells.remove(&(v, *p));
                }
            }
        }
        for (subject, fact) in now.iter().filter(|(subject, _)| e.speaks_of(subject)) {
            matched += 1;
            if let Some(other) = excused.facts.insert(subject.clone(), n) {
                overlaps.insert(other);
            }
            if !e.holds_of(fact) {
                otherwise.push(format!("{} {subject} is {}", subject.kind().word(), fact.words()));
                excused.facts.remove(subject);
            }
        }
        for other in &overlaps {
            let line = question.expectations[*other].line;
            out.findings.push(broken(format!(
                "overlaps expectation {} (line {line}): both match the same answer; narrow one of them",
                other + 1
            )));
        }
        if matched == 0 {
            out.findings.push(broken(
                "matches nothing in this run: its scope is mistyped, or its subject no longer exists; correct or remove it"
                    .to_owned(),
            ));
        } else if let Some(first) = otherwise.first() {
            out.findings.push(broken(format!(
                "is no longer true for {} of {matched} answers: {first}; remove or narrow the expectation",
                otherwise.len()
            )));
        } else if overlaps.is_empty() && !expired {
            out.expected += 1;
        }
        if expired {
            excused.cells.retain(|_, of| *of != n);
            excused.facts.retain(|_, of| *of != n);
        }
    }
    excused
}

/// Returns the number of answers of a toolkit in the baseline, for the targets of the run, or for all if it has none.
fn cells_of(question: &Question<'_>, version: ToolkitVersion) -> usize {
    let Some(baseline) = question.baseline.map(|record| &record.matrix) else { return 0 };
    let targets = question.run.matrix.targets();
    let counts =
        |pair: &Pair| pair.toolkit == version && (targets.is_empty() || targets.contains(&pair.target));
    let pairs: Vec<usize> = (0..baseline.pairs.len()).filter(|n| counts(&baseline.pairs[*n])).collect();
    let answered = |v: &crate::record::VariantRow| pairs.iter().filter(|p| v.answer(**p).is_some()).count();
    baseline.variants.iter().map(answered).sum()
}

/// Reports lanes that the baseline covers and the run does not.
fn lanes(question: &Question<'_>, found: &Diff<'_>, out: &mut Judgement) {
    let mut missing: Vec<&Lane> = found.not_asked_again.iter().collect();
    if question.run.matrix.pairs.is_empty() {
        // Without a toolkit no target can be queried, and the missing toolkit is already reported.
        missing.retain(|lane| !matches!(lane, Lane::Target(_)));
    }
    let (left_out, missing): (Vec<&Lane>, Vec<&Lane>) =
        missing.into_iter().partition(|lane| question.left_out.has(lane));
    if !left_out.is_empty() {
        let names: Vec<String> = left_out.iter().map(ToString::to_string).collect();
        out.notes.push(format!("excluded by the command line: {}", names.join(", ")));
    }
    let reasons: Vec<String> =
        question.run.skipped.iter().map(|s| format!("{}: {}", s.part, s.reason)).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
    for lane in missing {
        let absent = || format!("{lane} is in the baseline, but not in this run{reasons}");
        let (what, remedy) = match lane {
            Lane::Toolkit(version) => (
                format!(
                    "{}: {version}; {} not compared",
                    if question.reran { "not installed" } else { "not in this run" },
                    match cells_of(question, *version) {
                        1 => "1 cell was".to_owned(),
                        n => format!("{n} cells were"),
                    }
                ),
                format!(
                    "fetch it with `sm121probe toolkit install {version}`, or name the toolkits to query with --toolkit"
                ),
            ),
            Lane::Device(_) if lane.is_gpu() => {
                (absent(), "run on a machine with this device, or bless a baseline without it".to_owned())
            }
            Lane::Target(_) => (absent(), "select it with --target".to_owned()),
            Lane::Device(_) | Lane::Family(_) | Lane::Kernels(_) | Lane::Tiles => (
                absent(),
                "`sm121probe toolkit install nvrtc` fetches the compiler of the kernels".to_owned(),
            ),
        };
        out.lacks(lane.to_string(), what, &remedy);
    }
}

fn against_baseline(
    question: &Question<'_>,
    found: &mut Diff<'_>,
    excused: &Excused,
    wrong: &BTreeSet<Subject>,
    out: &mut Judgement,
) {
    let matrix = &question.run.matrix;
    let variants_by_id: HashMap<&str, usize> =
        matrix.variants.iter().enumerate().map(|(n, v)| (v.id.as_str(), n)).collect();
    let mut pairs = HashMap::new();
    for (n, pair) in matrix.pairs.iter().enumerate() {
        pairs.insert((pair.toolkit, pair.target, pair.arch), n);
    }
    let is_excused = |variant: &str, pair| {
        let key = variants_by_id.get(variant).zip(pairs.get(&pair));
        key.is_some_and(|(v, p)| excused.cells.contains_key(&(*v, *p)))
    };
    let files: BTreeMap<&str, &str> = matrix
        .variants
        .iter()
        .map(|v| (v.id.as_str(), matrix.snippets.get(v.snippet).map_or("", |s| s.file.as_str())))
        .collect();
    // The line in ptxas's message, or else the first line of the file.
    let place = |variants: &[String], speaks: &dyn Fn(&Pair) -> bool| {
        let id = variants.first()?.as_str();
        let row = &matrix.variants[*variants_by_id.get(id)?];
        Some(((*files.get(id)?).to_owned(), refused_line(matrix, row, speaks).unwrap_or(1)))
    };
    found.cells.retain(|c| !is_excused(c.variant, (c.toolkit, c.target, c.arch)));
    for r in &found.regressions {
        if is_excused(r.variant, (r.refused, r.target, r.arch)) {
            continue;
        }
        let mut finding = Finding::new(
            Ground::Baseline,
            format!("{} on {}", r.variant, r.target),
            format!("REGRESSION within a toolkit line: {} accepts it, {} rejects it", r.accepted, r.refused),
        );
        let at = Pair { toolkit: r.refused, target: r.target, arch: r.arch };
        finding.place = place(&[r.variant.to_owned()], &|p| *p == at);
        out.findings.push(finding);
    }
    let known: BTreeSet<_> =
        found.regressions.iter().map(|r| (r.variant, r.refused, r.target, r.arch)).collect();
    found.cells.retain(|c| !known.contains(&(c.variant, c.toolkit, c.target, c.arch)));
    for group in groups(found) {
        let text = format!("{} {} ({}): {}", group.count(), group.when(), group.words, group.names.join(" "));
        // The same version of an assembler always gives the same answer, so even a better answer contradicts the
        // baseline.
        let same_toolkit = group.before.is_none() && matches!(group.direction, Direction::Better);
        if group.direction.is_bad() || same_toolkit {
            let mut finding = Finding::new(Ground::Baseline, group.places.join(" "), text);
            finding.place = place(&group.variants, &|p| group.toolkits.contains(&p.toolkit));
            out.findings.push(finding);
        } else {
            out.notes.push(format!("{}: {text}", group.places.join(" ")));
        }
    }
    for change in &found.facts {
        let subject = &change.subject;
        if wrong.contains(subject) || excused.facts.contains_key(subject) {
            continue;
        }
        let about = format!("{} {subject}", subject.kind().word());
        if change.direction.is_bad() {
            let mut finding = Finding::new(Ground::Baseline, about, change.words());
            finding.trial = wrong_stage(subject, change.new.as_ref());
            out.findings.push(finding);
        } else {
            out.notes.push(format!("{about}: {}", change.words()));
        }
    }
    if !found.asked_anew.is_empty() {
        let names: Vec<String> = found.asked_anew.iter().map(ToString::to_string).collect();
        out.notes.push(format!("not in the baseline: {}", names.join(", ")));
    }
}
