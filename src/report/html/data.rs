//! The data of a page: the record in the form that the script reads.
//!
//! A form has one letter per target and toolkit, targets first, as runs; forms with equal answers share them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::claims::{measured, says, subject};
use super::super::explain::crossed;
use super::super::notes;
use super::super::phrase::clean;
use super::super::rollup;
use super::super::sm12x;
use super::super::view::{Answer, View, speaks_of};
use super::pool::{Pool, indices, letters};
use super::table::{Picture, Tab, tabs};
use super::{Beside, FormText, rows};
use crate::record::{ClaimRow, Native, Record, Standing, VariantRow};

/// Everything that the script reads.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    tool: &'a str,
    /// Versions and PTX ISA, ascending.
    toolkits: Vec<(String, String)>,
    disassembler: Option<String>,
    /// SM12x first.
    targets: Vec<String>,
    /// The number of SM12x targets.
    sm12x: usize,
    snippets: Vec<Snippet<'a>>,
    grids: Vec<String>,
    /// Texts, each with its kind.
    messages: Vec<(String, Option<usize>)>,
    /// Name, cause and remedy.
    kinds: Vec<[&'a str; 3]>,
    opcodes: &'a [String],
    forms: Vec<Form<'a>>,
    claims: Vec<Claim<'a>>,
    /// The GPUs that ran anything, and whether one of them is SM12x.
    devices: Vec<rows::Device>,
    runs: Vec<rows::Run<'a>>,
    /// What was requested but skipped.
    skipped: Vec<[&'a str; 2]>,
    tabs: Vec<Tab>,
    /// What else people call an instruction: a pattern, and the instructions.
    names: &'a [(String, Vec<String>)],
    pictures: Vec<Picture>,
}

#[derive(Serialize)]
struct Snippet<'a> {
    file: &'a str,
    family: &'a str,
    about: String,
    spec: String,
    grants: &'a [String],
}

#[derive(Serialize)]
struct Form<'a> {
    id: &'a str,
    snippet: usize,
    grid: usize,
    /// Messages by cell, as runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    says: String,
    /// Opcodes by cell, as runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    code: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expects: Vec<&'a str>,
    /// Whether it exists to be rejected.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    refused: bool,
    /// The answers for `-arch` values other than the target's own, as lines.
    #[serde(skip_serializing_if = "String::is_empty")]
    crossed: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
}

#[derive(Serialize)]
struct Text<'a> {
    ptx: &'a str,
    line: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unsupported: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    instead: Vec<(&'a str, &'a str)>,
}

#[derive(Serialize)]
struct Claim<'a> {
    /// The forms that it applies to, by index.
    forms: Vec<usize>,
    subject: String,
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    says: String,
    measured: String,
    status: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    finding: bool,
}

impl<'a> Data<'a> {
    pub(super) fn new(record: &'a Record, beside: &'a Beside) -> Self {
        let matrix = &record.matrix;
        let view = View::new(matrix);
        let mut grids = Pool::default();
        let mut messages = Messages::default();
        let forms = matrix
            .variants
            .iter()
            .map(|variant| form(&view, variant, beside.forms.get(&variant.id), &mut grids, &mut messages))
            .collect();
        let isa = |version| matrix.toolkits.iter().find(|t| t.version == version).map(|t| t.isa.to_string());
        Self {
            tool: &record.tool,
            toolkits: view
                .toolkits
                .iter()
                .map(|version| (version.to_string(), isa(*version).unwrap_or_default()))
                .collect(),
            disassembler: matrix.disassembler.map(|d| d.to_string()),
            targets: view.targets.iter().map(ToString::to_string).collect(),
            sm12x: sm12x::targets(&view).len(),
            snippets: matrix
                .snippets
                .iter()
                .map(|s| Snippet {
                    file: shown_file(&s.file),
                    family: &s.family,
                    about: clean(&s.about),
                    spec: clean(&s.spec),
                    grants: &s.grants,
                })
                .collect(),
            grids: grids.into_values(),
            messages: messages.rows,
            kinds: matrix.kinds.iter().map(|k| [&*k.name, &*k.cause, &*k.remedy]).collect(),
            opcodes: &matrix.opcodes,
            forms,
            claims: matrix.claims.iter().map(|claim| of_claim(&view, claim)).collect(),
            devices: rows::devices(record),
            runs: rows::runs(record),
            skipped: record.skipped.iter().map(|s| [&*s.part, &*s.reason]).collect(),
            tabs: tabs(record, beside),
            names: &beside.names,
            pictures: Picture::from_benches(&beside.benches),
        }
    }
}

/// Messages that differ only in the target are merged.
#[derive(Default)]
struct Messages {
    rows: Vec<(String, Option<usize>)>,
    places: BTreeMap<(String, Option<usize>), usize>,
    /// The results found before, by the index of the record.
    known: BTreeMap<usize, usize>,
}

impl Messages {
    fn index(&mut self, view: &View<'_>, index: usize) -> Option<usize> {
        if let Some(place) = self.known.get(&index) {
            return Some(*place);
        }
        let message = view.matrix.messages.get(index)?;
        let row = (notes::words(&message.text), message.kind);
        let next = self.rows.len();
        let place = *self.places.entry(row.clone()).or_insert(next);
        if place == next {
            self.rows.push(row);
        }
        self.known.insert(index, place);
        Some(place)
    }
}

/// The folder on the user's machine is not shown.
fn shown_file(file: &str) -> &str {
    if file.starts_with('/') { file.rsplit('/').next().unwrap_or_default() } else { file }
}

fn form<'a>(
    view: &View<'a>,
    variant: &'a VariantRow,
    text: Option<&'a FormText>,
    grids: &mut Pool,
    messages: &mut Messages,
) -> Form<'a> {
    let places: Vec<(usize, ptx::arch::Target)> =
        view.targets.iter().flat_map(|target| (0..view.toolkits.len()).map(move |t| (t, *target))).collect();
    let said = |list: &'a [crate::record::Spread], t: usize, target| {
        let pair = view.pair(t, target)?;
        list.iter().find(|s| s.pairs.contains(pair)).map(|s| s.index)
    };
    Form {
        id: &variant.id,
        snippet: variant.snippet,
        grid: grids.index(letters(places.iter().map(|(t, target)| letter(view, variant, *t, *target)))),
        says: indices(places.iter().map(|(t, target)| {
            said(&variant.messages, *t, *target).and_then(|index| messages.index(view, index))
        })),
        code: indices(places.iter().map(|(t, target)| {
            said(&variant.sass, *t, *target)
                .filter(|n| view.matrix.opcodes.get(*n).is_some_and(|o| !o.is_empty()))
        })),
        expects: variant.expects.iter().map(String::as_str).collect(),
        refused: rollup::exists_to_be_refused(view, variant),
        crossed: crossed(view, variant),
        text: text.map(|text| Text {
            ptx: &text.ptx,
            line: &text.line,
            unsupported: text.unsupported.as_deref().map(clean),
            instead: text.instead.iter().map(|(id, how)| (&**id, &**how)).collect(),
        }),
    }
}

/// A cell as one letter, which `decode.js` reads.
fn letter(view: &View<'_>, variant: &VariantRow, toolkit: usize, target: ptx::arch::Target) -> char {
    match view.answer(variant, toolkit, target, target) {
        Answer::Accepted => match view.native(variant, toolkit, target) {
            Some(Native::Native) => 'N',
            Some(Native::Split) => 'S',
            Some(Native::Emulated) => 'E',
            Some(Native::Unknown) | None => 'A',
        },
        Answer::Rejected => 'R',
        Answer::Absent => 'B',
        Answer::Silent => 'U',
        Answer::Crashed => 'C',
        Answer::TimedOut => 'T',
        Answer::NotAsked => '.',
    }
}

fn of_claim<'a>(view: &View<'a>, claim: &'a ClaimRow) -> Claim<'a> {
    let forms = view.matrix.variants.iter().enumerate();
    Claim {
        forms: forms.filter(|(_, variant)| speaks_of(claim, variant)).map(|(n, _)| n).collect(),
        subject: subject(view.matrix, claim),
        source: clean(&claim.source),
        url: claim.url.as_deref(),
        says: says(claim),
        measured: clean(&measured(claim)),
        status: match claim.standing {
            Standing::Confirmed => "confirmed",
            Standing::Refuted => "refuted",
            Standing::Untested => "untested",
        },
        finding: claim.is_finding(),
    }
}
