//! What people look up: the variants to which an instruction as it is written, a message of ptxas, an opcode of machine code, a CUDA intrinsic or
//! a CUTLASS atom leads.
//!
//! A hit is never a negative test, which shows what PTX lacks; a message that only negative tests have leads to the forms that are nearest to
//! what it names.

mod refused;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ptx::arch::Target;
use ptx::scan::instructions;
use regex::Regex;
use serde::Deserialize;

use crate::header;
use crate::lint::{Instead, InsteadError, instead_table, text_of};
use crate::matrix::meaning;
use crate::near;
use crate::record::{Expect, Matrix, MessageRow, Standing, VariantRow};
use crate::snippet::Library;
use refused::Lack;

const NAMES: &str = include_str!("names.yaml");

/// The most variants that are named.
const MOST: usize = 5;

/// What a query was taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// An instruction, as far as its modifiers.
    Instruction(String),
    /// A message of ptxas.
    Message(String),
    /// An opcode of machine code.
    Opcode(String),
    /// Another name of instructions: a CUDA intrinsic, a CUTLASS atom.
    Name(Vec<String>),
}

/// A variant that a query leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Its id.
    pub variant: String,
    /// The instruction that it shows.
    pub form: String,
    /// Whether the form has every modifier of the query.
    pub is_whole: bool,
    /// What SM12x has instead, where it has no such instruction.
    pub instead: Option<String>,
}

/// What a query leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What the query was taken for.
    pub meaning: Meaning,
    /// Variants, the nearest first; at most five.
    pub hits: Vec<Hit>,
    /// The cause and the remedy of a message of ptxas, if they are known.
    pub explained: Option<(&'static str, &'static str)>,
}

impl Found {
    /// What is no message.
    const fn without_cause(meaning: Meaning, hits: Vec<Hit>) -> Self {
        Self { meaning, hits, explained: None }
    }

    /// A message. What its text alone says of an absent unit is more than that the target lacks it.
    fn from_message(query: &str, hits: Vec<Hit>, lack: Option<Lack>) -> Self {
        let kind = meaning(without_severity(query));
        let explained = match (kind, lack) {
            (Some(kind), _) if kind.kind.starts_with("absent_") => Some((kind.cause, kind.remedy)),
            (_, Some(lack)) => Some(lack.text()),
            (kind, None) => kind.map(|kind| (kind.cause, kind.remedy)),
        };
        Self { meaning: Meaning::Message(query.to_owned()), hits, explained }
    }
}

/// A row of the table of names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NameRow {
    name: String,
    forms: Vec<String>,
}

/// Why the table of names cannot be used; a test rules it out.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// It is not YAML in the expected format.
    #[error(transparent)]
    Header(#[from] header::HeaderError),
    /// The table of what SM12x has instead is invalid.
    #[error(transparent)]
    Instead(#[from] InsteadError),
    /// A pattern is not a regular expression.
    #[error("`{pattern}` is not a pattern: {source}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The underlying error.
        source: regex::Error,
    },
}

/// The instructions of a library's variants, and what a record says of them.
pub struct Index<'a> {
    matrix: &'a Matrix,
    /// The instruction that each variant shows, with its modifiers; several for some.
    forms: Vec<(&'a str, String)>,
    rows: BTreeMap<&'a str, &'a VariantRow>,
    names: Vec<(Regex, Vec<String>)>,
    instead: Vec<(Regex, Instead)>,
}

/// Returns what else people call an instruction: a pattern of the whole name, and the instructions, in which `$1` is a part of it.
///
/// # Errors
/// [`LookupError::Header`] if the built-in table is invalid.
pub fn names() -> Result<Vec<(String, Vec<String>)>, LookupError> {
    let table: Vec<NameRow> = header::parse_file(Path::new("src/lookup/names.yaml"), NAMES)?;
    Ok(table.into_iter().map(|row| (row.name, row.forms)).collect())
}

/// Whether a variant shows what PTX lacks.
#[must_use]
pub fn is_negative(variant: &str) -> bool {
    variant.split('.').any(|part| part == "refused")
}

impl<'a> Index<'a> {
    /// Indexes the variants of a library that a record has.
    ///
    /// # Errors
    /// [`LookupError`] if the table of names is invalid.
    pub fn new(library: &'a Library, matrix: &'a Matrix) -> Result<Self, LookupError> {
        let table = self::names()?;
        let mut names = Vec::new();
        for (name, forms) in table {
            let pattern = format!("^(?:{name})$");
            let regex = Regex::new(&pattern).map_err(|source| LookupError::Pattern { pattern, source })?;
            names.push((regex, forms));
        }
        let rows: BTreeMap<&str, &VariantRow> =
            matrix.variants.iter().map(|row| (row.id.as_str(), row)).collect();
        let mut forms = Vec::new();
        for variant in library.variants.iter().filter(|variant| rows.contains_key(variant.id.as_str())) {
            let id = variant.id.as_str();
            let all: BTreeSet<String> = instructions(&text_of(&variant.code)).into_iter().collect();
            let own = all.into_iter().filter(|form| shows(id, form));
            forms.extend(own.map(|form| (id, form)));
        }
        Ok(Self { matrix, forms, rows, names, instead: instead_table()? })
    }

    /// Finds what a query leads to; `None` if it is none of what is looked up.
    #[must_use]
    pub fn find(&self, query: &str) -> Option<Found> {
        let query = query.trim();
        if query.is_empty() {
            return None;
        }
        if let Some(found) = self.message(query) {
            return Some(found);
        }
        // Dots stand for modifiers that are left out, and the answer is for every target.
        let query = query.replace('\u{2026}', " ").replace("...", " ");
        let words = query.split_whitespace().filter(|word| Target::written(word).is_none());
        let query = &words.collect::<Vec<_>>().join(" ");
        let written = instruction(query);
        let is_prose = is_prose(query, &written);
        let form = self.spoken(query).or_else(|| (!is_prose).then_some(written));
        if let Some(form) = form.as_ref().filter(|form| self.is_instruction(form)) {
            let hits = self.nearest(form);
            return Some(Found::without_cause(Meaning::Instruction(form.clone()), hits));
        }
        let found = self.name(query).or_else(|| self.opcode(query));
        found.or_else(|| self.modifier(form.as_ref()?))
    }

    /// An instruction of which words are said, such as `mma mxf4nvf4`, as one form: its modifiers among them. `None` if there are none, as
    /// in a sentence that begins with `add` or `exit`.
    fn spoken(&self, query: &str) -> Option<String> {
        let (first, modifiers) = words_of(query)?;
        let of: BTreeSet<&str> = self
            .forms
            .iter()
            .filter(|(_, form)| root(form) == root(first))
            .flat_map(|(_, form)| form.split('.').skip(1))
            .collect();
        let is_one = |word: &&&str| of.iter().any(|modifier| is_stem_of(word, modifier));
        let known: Vec<&str> = modifiers.iter().filter(is_one).copied().collect();
        (!known.is_empty()).then(|| format!("{first}.{}", known.join(".")))
    }

    /// What a word of a sentence leads to that is written as an instruction with modifiers, a CUDA intrinsic or a CUTLASS atom, and that word;
    /// with the modifiers that other words of the sentence name.
    #[must_use]
    pub fn find_within(&self, sentence: &str) -> Option<(String, Found)> {
        let words = sentence.split(|c: char| c.is_whitespace() || ",;()[]{}<>'\"`".contains(c));
        let words: Vec<&str> = words.map(|word| word.trim_end_matches(['.', ':', '?', '!'])).collect();
        words.iter().filter(|word| word.contains(['.', '_'])).find_map(|word| {
            let form = word.split_once('.').and_then(|(first, rest)| {
                let spoken = self.spoken(&format!("{first} {rest}"))?;
                // `match.py` names no modifier, and `cp.async.bulk` nothing else.
                (spoken == *word).then(|| self.with_modifiers(word, &words)).flatten()
            });
            form.or_else(|| Some(((*word).to_owned(), self.name(word)?)))
        })
    }

    /// What an instruction in a sentence leads to, with what other words name as no word of English does: `kind::mxf4nvf4`, `block_scale`,
    /// `e2m1`.
    fn with_modifiers(&self, word: &str, sentence: &[&str]) -> Option<(String, Found)> {
        let is_technical = |other: &&&str| {
            let plain = other.trim_start_matches('.');
            **other != word && plain.contains(|c: char| c == '_' || c == ':' || c.is_ascii_digit())
        };
        let others: Vec<&str> =
            sentence.iter().filter(is_technical).map(|other| other.trim_start_matches('.')).collect();
        let whole = format!("{} {}", word.replacen('.', " ", 1), others.join(" "));
        let form =
            self.spoken(&whole).filter(|form| form.len() > word.len()).unwrap_or_else(|| word.to_owned());
        Some((form.clone(), self.find(&form)?))
    }

    /// The instructions that have a modifier, if it is one.
    fn modifier(&self, word: &str) -> Option<Found> {
        let has = |form: &str| form.split('.').skip(1).any(|modifier| is_word_of(word, modifier));
        let roots: BTreeSet<&str> =
            self.forms.iter().filter(|(_, form)| has(form)).map(|(_, form)| root(form)).collect();
        let forms: Vec<String> = roots.iter().map(|root| format!("{root}.{word}")).collect();
        let mut hits: Vec<Hit> = forms.iter().flat_map(|form| self.nearest(form)).collect();
        hits.truncate(MOST);
        (!hits.is_empty()).then_some(Found::without_cause(Meaning::Name(forms), hits))
    }

    /// Whether PTX has an instruction of that name.
    fn is_instruction(&self, form: &str) -> bool {
        let root = root(form);
        self.forms.iter().any(|(_, other)| self::root(other) == root)
    }

    /// The variants whose form is nearest to an instruction.
    fn nearest(&self, form: &str) -> Vec<Hit> {
        let wanted: BTreeSet<&str> = form.split('.').skip(1).collect();
        let mut ranked = Vec::new();
        for (variant, other) in &self.forms {
            if root(other) != root(form) || is_negative(variant) {
                continue;
            }
            let has: BTreeSet<&str> = other.split('.').skip(1).collect();
            let missing = wanted.iter().filter(|word| !has.iter().any(|has| is_word_of(word, has))).count();
            // `.b4x16` is nearer to `.b4x16_p64` than to a form without either.
            let strange = wanted.iter().filter(|word| !has.iter().any(|has| is_stem_of(word, has))).count();
            let more = (has.len() + missing).saturating_sub(wanted.len());
            // Another order of the same modifiers, of which types matter.
            let moved = usize::from(other != form);
            let rank = (
                missing,
                strange,
                !self.is_accepted(variant),
                self.is_beyond_manual(variant),
                more,
                moved,
                near::distance(form, other),
                *variant,
            );
            ranked.push((rank, Hit { is_whole: missing == 0, ..self.hit(variant, other.clone()) }));
        }
        ranked.sort_by(|a, b| a.0.cmp(&b.0));
        let mut hits: Vec<Hit> = Vec::new();
        for (_, hit) in ranked {
            // Variants of one form differ in their operands.
            if hits.iter().all(|known| known.variant != hit.variant && known.form != hit.form) {
                hits.push(hit);
            }
        }
        // Beside forms that have every modifier, those that lack one are noise.
        let is_whole = hits.first().is_some_and(|hit| hit.is_whole);
        hits.retain(|hit| hit.is_whole == is_whole);
        hits.truncate(MOST);
        hits
    }

    /// A variant by the first form that it shows.
    fn hit_of(&self, variant: &str) -> Hit {
        let form = self.forms.iter().find(|(id, _)| *id == variant).map(|(_, form)| form.clone());
        self.hit(variant, form.unwrap_or_default())
    }

    /// A variant by one of its forms.
    fn hit(&self, variant: &str, form: String) -> Hit {
        let is_absent = !self.is_accepted(variant);
        let row = self.instead.iter().find(|(pattern, _)| is_absent && pattern.is_match(&form));
        let instead = row.map(|(_, row)| format!("{} ({})", row.how, row.variants.join(", ")));
        Hit { variant: variant.to_owned(), form, is_whole: true, instead }
    }

    /// Whether some SM12x target has accepted a variant.
    fn is_accepted(&self, variant: &str) -> bool {
        self.rows.get(variant).is_some_and(|row| self.taking(row).next().is_some())
    }

    /// The SM12x targets that have accepted a variant, once for each toolkit.
    fn taking<'b>(&'b self, row: &'b VariantRow) -> impl Iterator<Item = Target> + 'b {
        let pairs = self.matrix.pairs.iter().zip(row.outcomes.chars());
        pairs
            .filter(|(pair, outcome)| *outcome == 'A' && pair.target.is_sm12x() && pair.arch == pair.target)
            .map(|(pair, _)| pair.target)
    }

    /// Leaves the variants that a target never takes, if there are any, and says which targets take some of them. `None` without variants.
    fn lack(&self, target: Option<Target>, rows: &mut Vec<&'a VariantRow>) -> Option<Lack> {
        let target = target?;
        let takes = |row: &VariantRow| self.taking(row).any(|other| other == target);
        if !rows.iter().all(|row| takes(row)) {
            rows.retain(|row| !takes(row));
        }
        let taking: Vec<Target> = rows.iter().flat_map(|row| self.taking(row)).collect();
        (!rows.is_empty()).then(|| Lack::from_targets(target, &taking))
    }

    /// Whether ptxas takes a variant that the manual refuses.
    fn is_beyond_manual(&self, variant: &str) -> bool {
        let Some(row) = self.rows.get(variant) else { return false };
        self.matrix.claims.iter().any(|claim| {
            claim.snippet == row.snippet
                && (claim.variants.is_empty() || claim.variants.iter().any(|id| id == variant))
                && claim.source.starts_with("PTX ISA")
                && claim.expect == Expect::Rejected
                && claim.standing == Standing::Refuted
        })
    }

    /// A message of ptxas: the variants of which it was said, or else the forms nearest to the instruction that it names.
    fn message(&self, query: &str) -> Option<Found> {
        let wanted = plain_message(query);
        let known = self.matrix.messages.iter().enumerate();
        let same: Vec<(usize, &str)> = known
            .filter(|(_, message)| plain_message(&message.text) == wanted)
            .map(|(n, message)| (n, message.text.as_str()))
            .collect();
        let named = named_instruction(query);
        let target = refused::target(query);
        let modifier = named_modifier(query).filter(|_| named.is_none());
        let is_known = same.iter().any(|(_, text)| is_same_target(text, query));
        if let Some(found) =
            modifier.filter(|_| !is_known).and_then(|word| self.message_of_modifier(query, word, target))
        {
            return Some(found);
        }
        if same.is_empty() && named.is_none() {
            return None;
        }
        let mut said = self.variants_with_message(query, &same);
        let lack = self.lack(target, &mut said).or_else(|| absent_by_messages(target, &same));
        let mut hits: Vec<Hit> = said.into_iter().take(MOST).map(|row| self.hit_of(&row.id)).collect();
        if hits.is_empty() {
            hits = named
                .filter(|form| self.is_instruction(form))
                .map(|form| self.nearest(&form))
                .unwrap_or_default();
        }
        hits.truncate(MOST);
        Some(Found::from_message(query, hits, lack))
    }

    /// The variants of which a message was said; of several targets, those of the target that it names. Those that some SM12x target takes come
    /// first, since they have a remedy; then those of the snippet of which most are said.
    fn variants_with_message(&self, query: &str, same: &[(usize, &str)]) -> Vec<&'a VariantRow> {
        let is_known = same.iter().any(|(_, text)| is_same_target(text, query));
        let of = |index: usize| {
            same.iter().any(|(n, text)| *n == index && (!is_known || is_same_target(text, query)))
        };
        let rows = self.matrix.variants.iter().filter(|row| !is_negative(&row.id));
        let mut said: Vec<&VariantRow> =
            rows.filter(|row| row.messages.iter().any(|spread| of(spread.index))).collect();
        // What is said of most of the library, such as that ptxas is too old for a target, is not about an instruction.
        if 4 * said.len() > self.matrix.variants.len() {
            return Vec::new();
        }
        let mut of_snippet: BTreeMap<usize, usize> = BTreeMap::new();
        said.iter().for_each(|row| *of_snippet.entry(row.snippet).or_default() += 1);
        said.sort_by_key(|row| {
            let most = std::cmp::Reverse(of_snippet.get(&row.snippet).copied());
            (!self.is_accepted(&row.id), most, row.id.as_str())
        });
        said
    }

    /// A message that names a modifier alone, which instructions of SM12x and of other GPUs may have.
    fn message_of_modifier(&self, query: &str, word: &str, target: Option<Target>) -> Option<Found> {
        let has = |form: &str| form.split('.').skip(1).any(|modifier| is_word_of(word, modifier));
        let of: Vec<&(&str, String)> =
            self.forms.iter().filter(|(id, form)| !is_negative(id) && has(form)).collect();
        let mut rows: Vec<&VariantRow> = of.iter().filter_map(|(id, _)| self.rows.get(id).copied()).collect();
        let lack = self.lack(target, &mut rows);
        if lack.is_none() {
            let found = self.modifier(word)?;
            return Some(Found::from_message(query, found.hits, None));
        }
        let is_left = |id: &str| rows.iter().any(|row| row.id == id);
        let mut left: Vec<&&(&str, String)> = of.iter().filter(|(id, _)| is_left(id)).collect();
        left.sort_by_key(|(id, form)| (!self.is_accepted(id), form.len(), *id));
        let mut hits: Vec<Hit> = Vec::new();
        for (id, form) in left {
            if hits.iter().all(|known| known.variant != *id && known.form != *form) {
                hits.push(self.hit(id, form.clone()));
            }
        }
        // Beside forms that some SM12x target takes, those of other GPUs are noise.
        if hits.first().is_some_and(|hit| self.is_accepted(&hit.variant)) {
            hits.retain(|hit| self.is_accepted(&hit.variant));
        }
        hits.truncate(MOST);
        Some(Found::from_message(query, hits, lack))
    }

    fn name(&self, query: &str) -> Option<Found> {
        // Without template arguments and parameters.
        let name = query.split(['<', '(']).next().unwrap_or(query).trim().trim_start_matches("cute::");
        let (pattern, forms) = self.names.iter().find(|(pattern, _)| pattern.is_match(name))?;
        let forms: Vec<String> = forms
            .iter()
            .map(|form| {
                pattern.replace(name, form.as_str()).replace('_', if form.contains('$') { "." } else { "_" })
            })
            .collect();
        let mut hits: Vec<Hit> = Vec::new();
        for hit in forms.iter().flat_map(|form| self.nearest(form)) {
            if hits.iter().all(|known| known.variant != hit.variant) {
                hits.push(hit);
            }
        }
        hits.truncate(MOST);
        Some(Found::without_cause(Meaning::Name(forms), hits))
    }

    fn opcode(&self, query: &str) -> Option<Found> {
        let opcode = query.split_whitespace().find(|word| !word.starts_with('@'))?.trim_end_matches(';');
        let is_opcode = opcode.len() > 1
            && opcode.starts_with(|c: char| c.is_ascii_uppercase())
            && opcode.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || "._".contains(c));
        if !is_opcode {
            return None;
        }
        let parts: Vec<&str> = opcode.split('.').collect();
        let shared = |expected: &str| {
            let of: Vec<&str> = expected.split('.').collect();
            let same = of.first() == parts.first();
            same.then(|| of.iter().filter(|part| parts.contains(part)).count())
        };
        let mut ranked: Vec<(usize, &str)> = Vec::new();
        for row in self.matrix.variants.iter().filter(|row| !is_negative(&row.id)) {
            if let Some(most) = row.expects.iter().filter_map(|expected| shared(expected)).max() {
                ranked.push((most, row.id.as_str()));
            }
        }
        ranked.sort_by_key(|(most, id)| (std::cmp::Reverse(*most), !self.is_accepted(id), *id));
        let hits: Vec<Hit> = ranked.into_iter().take(MOST).map(|(_, id)| self.hit_of(id)).collect();
        (!hits.is_empty()).then(|| Found::without_cause(Meaning::Opcode(opcode.to_owned()), hits))
    }
}

/// Whether a word is a modifier, or its last part, as `mxf4nvf4` of `kind::mxf4nvf4`.
fn is_word_of(word: &str, modifier: &str) -> bool {
    word == modifier || modifier.rsplit("::").next() == Some(word)
}

/// Whether a word is a modifier, or that with a suffix, as `b4x16` of `b4x16_p64`.
fn is_stem_of(word: &str, modifier: &str) -> bool {
    is_word_of(word, modifier) || modifier.strip_prefix(word).is_some_and(|rest| rest.starts_with('_'))
}

/// The first word of several, and the modifiers that the others may be. `None` if there is one word, or one that has other characters than names
/// of PTX.
fn words_of(query: &str) -> Option<(&str, Vec<&str>)> {
    let words: Vec<&str> = query.split_whitespace().map(|word| word.trim_start_matches('.')).collect();
    let is_word = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "._:".contains(c))
    };
    let (first, rest) = words.split_first()?;
    let is_spoken = !rest.is_empty() && words.iter().all(is_word);
    is_spoken.then(|| (*first, rest.iter().flat_map(|word| word.split('.')).collect()))
}

/// Whether a query of several words is a sentence and no line of PTX, although its first word may be one of PTX: `wait`, `add`, `exit`.
fn is_prose(query: &str, first: &str) -> bool {
    let has_operand = |word: &str| word.starts_with(['%', '[', '{', '"']) || word.ends_with(';');
    let behind = query.split_once(first).map_or("", |(_, rest)| rest).split_whitespace().next();
    !first.contains('.') && behind.is_some_and(|word| !has_operand(word)) && !query.ends_with(';')
}

/// The first word of an instruction.
fn root(form: &str) -> &str {
    form.split('.').next().unwrap_or(form)
}

/// Whether a variant is about an instruction, and not merely uses it: its id begins with the instruction's first word, or it is of a family
/// that is named otherwise and the instruction is none that every kernel has.
fn shows(variant: &str, form: &str) -> bool {
    const EVERYWHERE: [&str; 16] = [
        "ld", "st", "mov", "cvta", "ret", "add", "setp", "bra", "mul", "mad", "shl", "and", "or", "cvt",
        "exit", "sub",
    ];
    let (family, root) = (root(variant), root(form));
    match family {
        "arith" | "control" | "sreg" | "entry" | "target" | "cachectl" => {
            !EVERYWHERE.contains(&root) || variant.contains(&format!(".{root}"))
        }
        _ => family == root,
    }
}

/// An instruction as far as its modifiers, without guard, operands and what surrounds it in a listing.
fn instruction(query: &str) -> String {
    let words = query.split(|c: char| c.is_whitespace() || ",;\"`".contains(c));
    let word =
        words.into_iter().find(|word| !word.is_empty() && !word.starts_with('@') && !word.ends_with(':'));
    word.unwrap_or_default().to_owned()
}

/// A message without the program, the file, the line and the severity before it.
fn without_severity(text: &str) -> &str {
    let mut text = text;
    for severity in ["error", "fatal", "warning"] {
        // ptxas pads the word to the same width: `error   : `, `fatal   : `; frameworks that quote it often do not.
        while let Some((before, after)) = text.split_once(severity) {
            let Some(after) = after.trim_start().strip_prefix(':') else { break };
            if before.contains('\'') {
                break;
            }
            text = after;
        }
    }
    text.trim()
}

/// A message without the file, the severity, the line and the target, which differ from run to run.
fn plain_message(text: &str) -> String {
    let mut out = String::new();
    for (n, piece) in MessageRow::split(without_severity(text)).1.split("sm_").enumerate() {
        if n == 0 {
            out.push_str(piece);
        } else {
            out.push_str("sm_*");
            let digits = piece.trim_start_matches(|c: char| c.is_ascii_digit());
            out.push_str(digits.strip_prefix(['a', 'f']).unwrap_or(digits));
        }
    }
    out.trim_end_matches('.').to_owned()
}

/// Whether a message of a record is the one that is asked for, of the same target.
fn is_same_target(text: &str, query: &str) -> bool {
    MessageRow::split(text).1 == without_severity(query).trim_end_matches('.')
}

/// Whether a message says that a target of SM12x lacks something.
#[must_use]
pub fn is_refusal(message: &str) -> bool {
    refused::target(message).is_some()
}

/// Whether targets with `a` and with `f` are told the same, where only tests of what PTX lacks were.
fn absent_by_messages(target: Option<Target>, same: &[(usize, &str)]) -> Option<Lack> {
    let told: Vec<Target> = same.iter().filter_map(|(_, text)| refused::target(text)).collect();
    let all = ["sm_120a", "sm_121a", "sm_120f", "sm_121f"].iter().filter_map(|name| Target::written(name));
    target.filter(|_| all.into_iter().all(|name| told.contains(&name))).map(|_| Lack::Absent)
}

/// The instruction that a message of ptxas names: `'cvt with .s2f6x2'` is `cvt.s2f6x2`.
fn named_instruction(message: &str) -> Option<String> {
    let is_message = [
        "not supported on .target",
        "requires .target",
        "Illegal modifier",
        "Unknown modifier",
        "modifier required for",
        "Unexpected instruction types",
        "Arguments mismatch for",
    ];
    if !is_message.iter().any(|words| message.contains(words)) {
        return None;
    }
    let quoted: Vec<&str> = message.split('\'').skip(1).step_by(2).collect();
    let (modifiers, names): (Vec<&str>, Vec<&str>) = quoted
        .into_iter()
        .filter(|word| !word.starts_with("sm_"))
        .partition(|word| word.starts_with('.') && !word.contains(' '));
    let name = names.first()?;
    let words = name.split_whitespace().filter(|word| !["with", "and", "modifier"].contains(word));
    let mut out = String::new();
    for word in words.chain(modifiers) {
        match word.strip_prefix('.') {
            Some(modifier) if !out.is_empty() => out.push_str(&format!(".{modifier}")),
            _ if out.is_empty() => out.push_str(word),
            _ => {}
        }
    }
    (!out.is_empty()).then_some(out)
}

/// The modifier that a message of ptxas names without an instruction: `Feature '.block_scale' not supported on .target 'sm_120'`.
fn named_modifier(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("Feature '.")?;
    rest.split_once('\'').map(|(modifier, _)| modifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed() -> crate::record::Record {
        crate::record::Record::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/matrix.json"))
            .unwrap()
    }

    #[test]
    fn messages_are_the_same_whatever_the_target_and_the_line() {
        let text = "ptxas a.ptx, line 9; error   : Feature '.kind::mxf4' not supported on .target 'sm_121'";
        assert_eq!(plain_message(text), "Feature '.kind::mxf4' not supported on .target 'sm_*'");
        assert_eq!(
            plain_message("Feature 'x' not supported on .target 'sm_121a'."),
            "Feature 'x' not supported on .target 'sm_*'"
        );
    }

    /// The cause of each message, and the first variant to which it leads.
    #[test]
    fn a_refusal_says_whether_a_suffix_helps() {
        let (library, record) = (Library::embedded(), committed());
        let index = Index::new(&library, &record.matrix).unwrap();
        let (suffix, own, toolkit, absent) =
            (Lack::Suffix.text(), Lack::ArchSuffix.text(), Lack::Toolkit.text(), Lack::Absent.text());
        let unit = |message: &str| meaning(message).map(|kind| (kind.cause, kind.remedy)).unwrap();
        let tcgen05 = unit("Instruction 'tcgen05.mma' not supported on .target 'sm_120'");
        let wgmma = unit("Instruction 'wgmma.fence' not supported on .target 'sm_120'");
        let mut wrong = Vec::new();
        for (what, target, cause, first) in [
            ("Feature '.scale_vec::2X'", "sm_120", suffix, "mma."),
            ("Feature '.scale_vec::2X'", "sm_120a", absent, "tcgen05."),
            ("Feature '.block_scale'", "sm_121", suffix, "mma."),
            ("Feature '.kind::mxf4'", "sm_120", suffix, "mma."),
            ("Instruction 'mma with block scale'", "sm_121", suffix, "mma."),
            ("Instruction 'mma with block scale'", "sm_120f", toolkit, "mma."),
            ("Instruction 'cvt with .e2m1x2'", "sm_120", suffix, "cvt."),
            ("Instruction 'tensormap.replace'", "sm_120", suffix, "tensormap."),
            ("Instruction 'setmaxnreg.dec'", "sm_121", suffix, "setmaxnreg"),
            ("Feature '.m16n16'", "sm_120", suffix, "ldmatrix."),
            ("Feature '.e4m3'", "sm_120f", own, "multimem."),
            ("Instruction 'cvt with .s2f6x2'", "sm_121", own, "cvt."),
            ("Instruction 'Sparse mma with block scale'", "sm_120f", own, "mma."),
            ("Instruction 'redux.f32'", "sm_120a", absent, "arith.redux.f32"),
            ("Instruction 'redux.f32'", "sm_120", absent, "arith.redux.f32"),
            ("Feature '.tile::scatter4'", "sm_121a", absent, "cp.async.bulk.tensor"),
            ("Feature '.tile::scatter4'", "sm_120", absent, "cp.async.bulk.tensor"),
            ("Feature '.cta_group::1'", "sm_120", absent, ""),
            ("Feature '.16x64b'", "sm_120", absent, "tcgen05."),
            ("Feature '.rs'", "sm_121", absent, "cvt."),
            ("Instruction 'tcgen05.alloc'", "sm_120", tcgen05, "tcgen05."),
            ("Instruction 'wgmma.fence'", "sm_121a", wgmma, "wgmma"),
        ] {
            let query = format!("ptxas x.ptx, line 9; error   : {what} not supported on .target '{target}'");
            let found = index.find(&query).unwrap();
            let leads = found.hits.first().is_none_or(|hit| hit.variant.starts_with(first));
            if found.explained != Some(cause) || !leads {
                wrong.push(format!("{query}: {:?}, {:?}", found.explained, found.hits.first()));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn the_instruction_of_a_message_has_its_modifiers() {
        let named = |text: &str| named_instruction(text).unwrap();
        assert_eq!(named("Instruction 'cvt with .s2f6x2' not supported on .target 'sm_121f'"), "cvt.s2f6x2");
        assert_eq!(
            named("Illegal modifier '.noftz' for instruction 'cp.reduce.async.bulk'"),
            "cp.reduce.async.bulk.noftz"
        );
        assert_eq!(named_instruction("Feature '.pzo' not supported on .target 'sm_100f'"), None);
        assert_eq!(named_instruction("it does not work"), None);
    }

    #[test]
    fn words_of_an_instruction_are_one_form() {
        let (library, record) = (Library::embedded(), committed());
        let index = Index::new(&library, &record.matrix).unwrap();
        let spoken = |query| index.spoken(query);
        assert_eq!(spoken("mma mxf4nvf4"), Some("mma.mxf4nvf4".to_owned()));
        assert_eq!(spoken("mma.sync .kind::mxf4"), Some("mma.sync.kind::mxf4".to_owned()));
        assert_eq!(spoken("mma m16n8k32 is not accepted on sm_121"), Some("mma.m16n8k32".to_owned()));
        assert_eq!(spoken("mma"), None);
        for query in
            ["mma\u{2026}kind::mxf4nvf4\u{2026}", "mma...mxf4nvf4 on sm_121f", "kind::mxf4nvf4 sm_121f"]
        {
            let hits = index.find(query).map(|found| found.hits).unwrap_or_default();
            assert!(hits.first().is_some_and(|hit| hit.form.contains("kind::mxf4nvf4")), "{query}: {hits:?}");
        }
        assert_eq!(spoken("add.u32 %r1, %r2, 3;"), None);
        for query in ["mma mxf4nvf4", "mxf4nvf4", "mma.sync.aligned.kind::mxf4nvf4"] {
            let hits = index.find(query).unwrap().hits;
            assert!(hits.iter().all(|hit| hit.is_whole && hit.form.contains("kind::mxf4nvf4")), "{hits:?}");
            let forms: BTreeSet<&str> = hits.iter().map(|hit| hit.form.as_str()).collect();
            assert!(!hits.is_empty() && forms.len() == hits.len(), "{hits:?}");
        }
    }

    #[test]
    fn an_instruction_is_found_in_a_line_of_ptx() {
        assert_eq!(
            instruction("@%p1 cvt.rn.satfinite.e2m1x2.f32 %rs1, %f1, %f2;"),
            "cvt.rn.satfinite.e2m1x2.f32"
        );
        assert_eq!(
            instruction("\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0}, [%1];\""),
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
        );
    }

    #[test]
    fn a_sentence_is_no_instruction() {
        let (library, record) = (Library::embedded(), committed());
        let index = Index::new(&library, &record.matrix).unwrap();
        for query in [
            "a and b must have same reduction dim, but got [32, 64] X [128, 32]",
            "wait loop never ends in my kernel",
            "store fails",
            "copy of scale factors is slow",
            "tensor parallel prefetch is broken",
            "add a load balancer to my server",
            "exit code 139 after an hour",
            "init failure on RTX 6000 PRO Blackwell",
        ] {
            let found = index.find(query);
            assert!(found.is_none(), "{query}: {found:?}");
        }
        for query in ["add %r1, %r2, 3;", "trap;", "bar sync", "wait"] {
            assert!(index.find(query).is_some(), "{query}");
        }
        let within = |sentence| index.find_within(sentence).map(|(word, _)| word);
        assert_eq!(
            within("Triton emits `cvt.rn.satfinite.e2m1x2.f32`, which stops on my Spark").as_deref(),
            Some("cvt.rn.satfinite.e2m1x2.f32")
        );
        assert_eq!(within("is SM90_TMA_LOAD on the 5090?").as_deref(), Some("SM90_TMA_LOAD"));
        assert_eq!(within("match.py and torch.compile fail in add.cu, see set.me"), None);
        // What other words name is taken, too, if no word of English is written so.
        let query =
            "Run mma.sync.aligned.m16n8k64 with kind::mxf4nvf4 and block_scale, on sm_120a or row by row";
        let (form, found) = index.find_within(query).unwrap();
        assert_eq!(form, "mma.sync.aligned.m16n8k64.kind::mxf4nvf4.block_scale");
        let hits: Vec<&str> = found.hits.iter().map(|hit| hit.form.as_str()).collect();
        assert!(hits[0].contains("kind::mxf4nvf4") && hits[0].contains("m16n8k64"), "{hits:?}");
    }

    #[test]
    fn the_table_of_names_is_valid_and_its_forms_exist() {
        let library = Library::embedded();
        let record = committed();
        let index = Index::new(&library, &record.matrix).unwrap();
        let all = index.names.iter().flat_map(|(_, forms)| forms).filter(|form| !form.contains('$'));
        let unknown: Vec<&String> = all.filter(|form| index.nearest(form).is_empty()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    /// What is looked up leads to this variant first, or to one that begins so.
    #[test]
    fn what_people_write_leads_to_its_form() {
        let library = Library::embedded();
        let record = committed();
        let index = Index::new(&library, &record.matrix).unwrap();
        let mut wrong = Vec::new();
        for (query, first) in [
            ("cvt.rn.satfinite.e2m1x2.f32", "cvt.narrow.f32.e2m1x2"),
            ("cvt.rn.satfinite.e2m1x2.f32 %rs1, %f1, %f2;", "cvt.narrow.f32.e2m1x2"),
            ("cvt.e2m1x2.f32", "cvt.narrow.f32.e2m1x2"),
            ("Feature 'cvt.e2m1x2.f32' not supported on .target 'sm_121'", "cvt.narrow.f32.e2m1x2"),
            ("Feature '.kind::mxf8f6f4' not supported on .target 'sm_121'", "mma."),
            ("ptxas error: Feature '.kind::mxf8f6f4' not supported on .target 'sm_121'", "mma."),
            ("ptxas x.ptx, line 9; error : Feature '.block_scale' not supported on .target 'sm_120'", "mma."),
            ("ptxas fatal   : Illegal modifier '.b4x16' for instruction 'ldmatrix'", "ldmatrix."),
            ("mma kind::mxf4nvf4", "mma.mxf4nvf4"),
            ("Instruction 'cvt with .s2f6x2' not supported on .target 'sm_121f'", "cvt."),
            ("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64", "ldmatrix.m8n16.expand"),
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.f16"),
            ("tcgen05.mma", "tcgen05.mma"),
            ("setmaxnreg.inc.sync.aligned.u32 64", "setmaxnreg"),
            ("QMMA", "mma."),
            ("OMMA.SF.16864", "mma."),
            ("LDSM", "ldmatrix."),
            ("__nv_cvt_float2_to_fp4x2", "cvt.narrow.f32.e2m1x2"),
            ("SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float>", "mma.mxf4nvf4"),
            ("SM90_TMA_LOAD", "cp.async.bulk.tensor"),
            ("SM100_SU4_DU8x16_x4_LDSM_N", "ldmatrix.m8n16.expand"),
            ("__syncthreads", "bar."),
        ] {
            let found = index.find(query);
            let hit = found.as_ref().and_then(|found| found.hits.first());
            if hit.is_none_or(|hit| !hit.variant.starts_with(first) || is_negative(&hit.variant)) {
                wrong.push(format!("{query}: {hit:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert_eq!(index.find("hello world"), None);
    }
}
