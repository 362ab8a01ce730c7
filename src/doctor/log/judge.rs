//! Judges what a server chose: whether it is what the model needs on its GPU, and what else the log shows.

use serde::Serialize;

use super::engine::{Engine, Facts, named_architecture};
use super::rules::{Arithmetic, Format, Naming, Path, Rules, Sign, Weight};
use super::straight;

/// The longest excerpt of a line, in characters.
const SHOWN: usize = 200;

/// The most lines that are shown of one sign.
const MOST: usize = 3;

/// Whether a choice suits the model and the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// It is what the model needs.
    Fits,
    /// It runs, but not with the arithmetic that the format is made for.
    FallBack,
    /// It is for another format or for other GPUs.
    Wrong,
    /// The log and the table do not tell.
    Unknown,
}

impl Judgement {
    /// Returns its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::FallBack => "fall-back",
            Self::Wrong => "WRONG",
            Self::Unknown => "not known",
        }
    }
}

/// A path that the server chose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// What it is for.
    pub path: Path,
    /// The backend, as the log names it.
    pub backend: String,
    /// Whether it suits.
    pub judgement: Judgement,
    /// Why, in a sentence.
    pub why: String,
    /// Its line in the log, from 1.
    pub line: usize,
}

/// Something wrong or suspicious.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flag {
    /// Its name.
    pub name: String,
    /// The GPUs that it is about, by their architecture number; all if empty.
    pub gpus: Vec<u16>,
    /// Its first line in the log, from 1.
    pub line: usize,
    /// The text of that line.
    pub text: String,
    /// The number of lines like it.
    pub count: usize,
    /// What it means.
    pub meaning: String,
    /// What to do.
    pub remedy: String,
    /// Whether it costs speed alone.
    pub slow: bool,
    /// Where such a line was seen, or which rule says so.
    pub source: String,
}

/// The most signs that are shown of a message.
const MOST_SIGNS: usize = 3;

/// The most that is said of a message in general: each names several causes.
const MOST_GENERAL: usize = 2;

/// The name of the flag of an error that no sign explains.
const UNKNOWN_ERROR: &str = "unknown_error";

impl Flag {
    /// Whether it is an error that the table does not know.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.name == UNKNOWN_ERROR
    }
}

/// What the table says of a message, on any GPU or on those that it names; without what is said of its kind in general.
pub(super) fn signs(text: &str, rules: &Rules) -> Vec<Flag> {
    let text = straight(text);
    let named = named_architecture(&text);
    let all = rules.signs.iter().filter(|sign| sign.weight != Weight::General && sign.is_about(named));
    let mut shown: Vec<_> = all.filter_map(|sign| Some((sign, first_line(sign, &text)?))).collect();
    if shown.iter().any(|(sign, _)| sign.is_cause()) {
        shown.retain(|(sign, _)| sign.weight.counts_beside_a_cause());
    }
    // What stands first in the table is more specific; many causes at once tell nothing.
    shown.truncate(MOST_SIGNS);
    shown.into_iter().map(|(sign, (number, line))| flag(sign, number, line)).collect()
}

/// What the table says in general of messages like this one, the more specific first.
pub(super) fn general(text: &str, rules: &Rules) -> Vec<Flag> {
    let text = straight(text);
    let named = named_architecture(&text);
    let all = rules.signs.iter().filter(|sign| sign.weight == Weight::General && sign.is_about(named));
    let mut shown: Vec<_> = all.filter_map(|sign| Some((sign, first_line(sign, &text)?))).collect();
    let mut first = true;
    shown.retain(|(sign, _)| std::mem::replace(&mut first, false) || !sign.broad);
    shown.truncate(MOST_GENERAL);
    shown.into_iter().map(|(sign, (number, line))| flag(sign, number, line)).collect()
}

/// The first line that shows a sign, and its number from 1.
fn first_line<'a>(sign: &Sign, text: &'a str) -> Option<(usize, &'a str)> {
    text.lines().zip(1..).find(|(line, _)| sign.is_in(line)).map(|(line, number)| (number, line))
}

/// Whether a line only says that there is a cause further up.
fn points_back(line: &str) -> bool {
    ["initialization failed", "See root cause", "EngineDeadError"].iter().any(|words| line.contains(words))
}

/// Removes the general signs beside others, or all but the first.
fn keep_one_general(shown: &mut Vec<&Sign>) {
    if shown.iter().all(|sign| sign.weight == Weight::General) {
        shown.truncate(1);
    } else {
        shown.retain(|sign| sign.weight != Weight::General);
    }
}

/// The signs that a line of a log shows on a GPU.
fn signs_of<'a>(line: &str, ends: bool, rules: &'a Rules, facts: &Facts) -> Vec<&'a Sign> {
    let here =
        |sign: &Sign| sign.gpus.is_empty() || facts.architecture.is_some_and(|gpu| sign.gpus.contains(&gpu));
    let counts = |sign: &Sign| match sign.weight {
        Weight::Fault | Weight::Consequence => true,
        Weight::Warning => ends,
        Weight::General => ends && !points_back(line),
    };
    let mut shown =
        rules.signs.iter().filter(|sign| here(sign) && counts(sign) && sign.is_in(line)).collect();
    keep_one_general(&mut shown);
    shown
}

/// Removes what follows from other lines, if a cause is among the flags, and what is general, if more is known: of that, what the line
/// shows with which the program ended stays, or the first of the table.
fn without_consequences(flags: &mut Vec<Flag>, rules: &Rules, end: Option<&str>) {
    let of = |flag: &Flag| rules.signs.iter().find(|sign| sign.name == flag.name);
    let weight = |flag: &Flag| of(flag).map_or(Weight::Fault, |sign| sign.weight);
    if flags.iter().any(|flag| of(flag).is_some_and(Sign::is_cause)) {
        flags.retain(|flag| weight(flag).counts_beside_a_cause());
        return;
    }
    if flags.iter().any(|flag| weight(flag) == Weight::Consequence) {
        flags.retain(|flag| weight(flag) != Weight::General);
        return;
    }
    let is_shown =
        |sign: &&Sign| sign.weight == Weight::General && flags.iter().any(|flag| flag.name == sign.name);
    let ends = |sign: &&Sign| end.is_some_and(|line| sign.is_in(&straight(line)));
    let mut general = rules.signs.iter().filter(is_shown);
    let Some(first) = general.next() else { return };
    let kept = if ends(&first) { first } else { general.find(ends).unwrap_or(first) };
    flags.retain(|flag| weight(flag) != Weight::General || flag.name == kept.name);
}

/// A sign that a line shows.
pub(super) fn flag(sign: &Sign, line: usize, text: &str) -> Flag {
    Flag {
        name: sign.name.clone(),
        gpus: sign.gpus.clone(),
        line,
        text: shown(text),
        count: 1,
        meaning: sign.meaning.clone(),
        remedy: sign.remedy.clone(),
        slow: sign.slow,
        source: sign.source.clone(),
    }
}

/// Judges a log.
pub(super) fn judge(text: &str, rules: &Rules, facts: &Facts) -> (Vec<Choice>, Vec<Flag>) {
    let (mut choices, mut flags): (Vec<Choice>, Vec<Flag>) = (Vec::new(), Vec::new());
    let mut unknown: Option<(usize, &str)> = None;
    let mut is_known = false;
    for (number, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line)) {
        let read = straight(line);
        let whole = complete(&read);
        flags.extend(layers_on_cpu(number, line));
        for naming in rules.names.iter().filter(|naming| Some(naming.engine) == facts.engine) {
            let Some(backend) = naming.line.captures(&whole).and_then(|c| c.name("backend")) else {
                continue;
            };
            let backend = backend.as_str().trim_matches(['\'', '"']).to_owned();
            if matches!(backend.as_str(), "auto" | "None" | "") {
                continue;
            }
            // Each worker says the same.
            if choices.iter().any(|c| c.path == naming.path && c.backend == backend) {
                continue;
            }
            let (judgement, why) = suits(naming, &backend, rules, facts);
            if judgement == Judgement::Wrong || judgement == Judgement::FallBack {
                flags.push(of_choice(naming, &backend, judgement, &why, number, line, facts));
            }
            choices.push(Choice { path: naming.path, backend, judgement, why, line: number });
        }
        let ends = rules.errors.iter().any(|error| error.is_match(&read));
        let shown = signs_of(&read, ends, rules, facts);
        for sign in &shown {
            match flags.iter_mut().find(|flag| flag.name == sign.name) {
                Some(known) => known.count += 1,
                None => flags.push(flag(sign, number, line)),
            }
        }
        if ends {
            is_known |= shown.iter().any(|sign| sign.is_cause());
            // The last is the cause: a traceback ends with it, and what only points back to it does not count.
            let follows = shown.iter().any(|sign| sign.weight == Weight::Consequence);
            if !follows && (!points_back(line) || unknown.is_none()) {
                unknown = Some((number, line));
            }
        }
    }
    if let Some(hang) = hang(text, rules, facts)
        && flags.iter().all(|flag| flag.name != hang.name)
    {
        flags.push(hang);
    }
    without_consequences(&mut flags, rules, unknown.map(|(_, line)| line));
    let is_explained = |line: &str| {
        let read = straight(line);
        let of = |flag: &Flag| rules.signs.iter().find(|sign| sign.name == flag.name);
        flags.iter().filter_map(of).any(|sign| sign.weight == Weight::General && sign.is_in(&read))
    };
    if let Some((number, line)) = unknown.filter(|(_, line)| !is_known && !is_explained(line)) {
        flags.push(Flag {
            name: UNKNOWN_ERROR.to_owned(),
            gpus: Vec::new(),
            line: number,
            text: shown(line),
            count: 1,
            meaning: "The log has an error that this version of the tool does not know.".to_owned(),
            remedy: "Ask `sm121probe explain` with this line, and with those above it that name a kernel or a compiler.".to_owned(),
            slow: false,
            source: "the line itself".to_owned(),
        });
    }
    flags.sort_by_key(|flag| flag.line);
    let mut seen = std::collections::HashMap::new();
    flags.retain(|flag| {
        let count = seen.entry(flag.name.clone()).or_insert(0_usize);
        *count += 1;
        *count <= MOST
    });
    (choices, flags)
}

/// The number of lines in which a log must repeat a warning, and end with it, to show that nothing else happens.
const REPEATED: usize = 3;

/// A warning with which a log ends again and again: the program hangs, which no error says.
fn hang(text: &str, rules: &Rules, facts: &Facts) -> Option<Flag> {
    let lines: Vec<_> = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()).collect();
    let (last, _) = lines.last()?;
    let sign = signs_of(&straight(last), true, rules, facts)
        .into_iter()
        .find(|sign| sign.weight == Weight::Warning)?;
    let shown: Vec<_> = lines.iter().filter(|(line, _)| sign.is_in(&straight(line))).collect();
    let (first, number) = shown.first()?;
    (shown.len() >= REPEATED).then(|| Flag { count: shown.len(), ..flag(sign, *number, first) })
}

/// llama.cpp lists only features that are on.
fn complete(line: &str) -> String {
    let off = line.contains("CUDA : ARCHS") && !line.contains("BLACKWELL_NATIVE_FP4");
    let rest = if off { " BLACKWELL_NATIVE_FP4 = 0 |" } else { "" };
    format!("{line}{rest}")
}

/// Returns the flag of a line of llama.cpp by which not all layers are on the GPU.
fn layers_on_cpu(number: usize, line: &str) -> Option<Flag> {
    let (_, rest) = line.split_once("offloaded ")?;
    let (counts, _) = rest.split_once(" layers to GPU")?;
    let (there, all) = counts.split_once('/')?;
    let (there, all): (usize, usize) = (there.trim().parse().ok()?, all.trim().parse().ok()?);
    (there < all).then(|| Flag {
        name: "layers_on_cpu".to_owned(),
        gpus: Vec::new(),
        line: number,
        text: shown(line),
        count: 1,
        meaning: format!("{there} of {all} layers are on the GPU; the CPU computes the others."),
        remedy: "Give -ngl 99, or a model that fits.".to_owned(),
        slow: true,
        source: "llama.cpp".to_owned(),
    })
}

/// Whether a backend suits the model and the GPU.
fn suits(naming: &Naming, backend: &str, rules: &Rules, facts: &Facts) -> (Judgement, String) {
    if let (Some(needs), Some(format)) = (facts.needs, naming.format)
        && needs.is_fp4()
        && format.is_fp4()
        && needs != format
    {
        let (needs, format) = (needs.word(), format.word());
        return (
            Judgement::Wrong,
            format!("a path for {format}, and the model is {needs}: their scales differ"),
        );
    }
    let is_sm12x = facts.architecture.is_some_and(|number| number / 10 == 12);
    let row = rules.backends.iter().find(|row| row.path == naming.path && row.name.is_match(backend));
    let Some(row) = row else {
        return (Judgement::Unknown, "this version of the tool does not know the backend".to_owned());
    };
    if !is_sm12x {
        let gpu = facts.architecture.map_or_else(
            || "the log does not name the GPU: give --gpu".to_owned(),
            |number| format!("the GPU is sm_{number}, not SM12x"),
        );
        return (Judgement::Unknown, format!("{}; {gpu}", row.about));
    }
    let fp4 = facts.needs.or(naming.format).is_some_and(Format::is_fp4);
    let judgement = match row.arithmetic {
        Arithmetic::OfOthers => Judgement::Wrong,
        Arithmetic::Widened | Arithmetic::Emulated if fp4 => Judgement::FallBack,
        Arithmetic::Native | Arithmetic::Widened | Arithmetic::Emulated => Judgement::Fits,
        // What runs is enough for attention; for FP4 the instructions count.
        Arithmetic::Runs if fp4 && matches!(naming.path, Path::Moe | Path::Linear) => Judgement::Unknown,
        Arithmetic::Runs => Judgement::Fits,
    };
    (judgement, row.about.clone())
}

fn of_choice(
    naming: &Naming,
    backend: &str,
    judgement: Judgement,
    why: &str,
    number: usize,
    line: &str,
    facts: &Facts,
) -> Flag {
    let other_format =
        naming.format.zip(facts.needs).filter(|(format, needs)| format != needs && needs.is_fp4());
    let (name, remedy) = match (judgement, other_format) {
        (Judgement::FallBack, _) if naming.engine == Engine::LlamaCpp => (
            "bf16_fall_back".to_owned(),
            "build llama.cpp with -DCMAKE_CUDA_ARCHITECTURES=120f (CUDA 12.9 or later), from a revision with ggml-org/llama.cpp#17906".to_owned(),
        ),
        (Judgement::Wrong, Some((_, needs))) => (
            format!("{}_path_for_{}", naming.format.map_or("other", Format::word), needs.word()).to_ascii_lowercase(),
            format!("choose a backend for {} (`sm121probe audit --env` lists those that work)", needs.word()),
        ),
        (Judgement::Wrong, None) => (
            "kernels_of_other_gpus".to_owned(),
            "choose a backend whose kernels SM12x has (`sm121probe audit --env` lists them)".to_owned(),
        ),
        _ => (
            "bf16_fall_back".to_owned(),
            "choose a block-scaled backend of SM12x, if the checkpoint quantises activations, too (`sm121probe audit --env` lists those that work)".to_owned(),
        ),
    };
    Flag {
        name,
        gpus: Vec::new(),
        line: number,
        text: shown(line),
        count: 1,
        meaning: format!("{} by {backend}: {why}", naming.path.word()),
        remedy,
        slow: judgement == Judgement::FallBack,
        source: "the table of backends: docs/audit.md".to_owned(),
    }
}

fn shown(line: &str) -> String {
    let line = line.trim();
    if line.chars().count() <= SHOWN {
        line.to_owned()
    } else {
        line.chars().take(SHOWN).chain(['…']).collect()
    }
}

/// What a log does not say, although the judgement needs it.
pub(super) fn missing(facts: &Facts, choices: &[Choice]) -> Vec<String> {
    let mut out = Vec::new();
    if facts.engine.is_none() {
        out.push("no line of vLLM, SGLang, llama.cpp or ollama was recognised".to_owned());
        return out;
    }
    if facts.architecture.is_none() {
        out.push("the GPU is not named: give --gpu gb10 or --gpu rtx5090".to_owned());
    }
    if facts.needs.is_none() {
        out.push("the format of the weights is not named".to_owned());
    }
    if !choices.iter().any(|c| c.path == Path::Attention) {
        out.push("no attention backend is named: the log may begin late or end early".to_owned());
    }
    let is_fp4 = facts.needs.is_some_and(Format::is_fp4);
    if is_fp4 && !choices.iter().any(|c| matches!(c.path, Path::Moe | Path::Linear)) {
        out.push("no path for the FP4 weights is named: the log may begin late or end early".to_owned());
    }
    out
}
