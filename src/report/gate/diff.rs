//! A difference of two records for the terminal, as Markdown and as JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::super::markup;
use super::super::phrase::clean;
use crate::gate::{Diff, Direction, Fact, FactChange, Group, Lanes, groups};
use crate::record::{ConfigurationName, Incomplete, first_line};

/// Lines that the terminal shows of one kind of change; Markdown and JSON show all.
const SHOWN: usize = 40;

/// The order in which changes are told, and their headings.
const HEADINGS: [(Direction, &str); 5] = [
    (Direction::Worse, "Worse"),
    (Direction::Gone, "Answered before, not answered now"),
    (Direction::Better, "Better"),
    (Direction::Other, "Different, neither better nor worse"),
    (Direction::New, "Not queried before"),
];

/// The verdict in one line: `3 worse, 12 better, 1 other`.
#[must_use]
pub fn diff_summary(diff: &Diff<'_>) -> String {
    let of = |d: Direction, word: &str| {
        let n = diff.count(|x| x == d);
        (n > 0).then(|| format!("{n} {word}"))
    };
    let mut parts: Vec<String> = Vec::new();
    if !diff.regressions.is_empty() {
        parts.push(format!("{} REGRESSIONS within a toolkit line", diff.regressions.len()));
    }
    for (direction, word) in [
        (Direction::Worse, "worse"),
        (Direction::Gone, "gone"),
        (Direction::Better, "better"),
        (Direction::Other, "otherwise"),
        (Direction::New, "new"),
    ] {
        parts.extend(of(direction, word));
    }
    if parts.is_empty() { "nothing changed".to_owned() } else { parts.join(", ") }
}

/// For the terminal; long lists are cut, and say so.
#[must_use]
pub fn diff_text(diff: &Diff<'_>) -> String {
    lines(diff, &Style { head: "", item: "  ", markdown: false, shown: SHOWN })
}

/// As Markdown.
#[must_use]
pub fn diff_markdown(diff: &Diff<'_>) -> String {
    lines(diff, &Style { head: "### ", item: "- ", markdown: true, shown: usize::MAX })
}

struct Style {
    head: &'static str,
    item: &'static str,
    markdown: bool,
    shown: usize,
}

impl Style {
    fn code(&self, text: &str) -> String {
        if self.markdown { markup::code(text) } else { clean(text) }
    }

    fn plain(&self, text: &str) -> String {
        if self.markdown { markup::plain(text) } else { clean(text) }
    }

    fn list(&self, out: &mut String, heading: &str, items: &[String]) {
        if items.is_empty() {
            return;
        }
        _ = writeln!(out, "{}{heading}\n", self.head);
        for item in items.iter().take(self.shown) {
            _ = writeln!(out, "{}{item}", self.item);
        }
        if items.len() > self.shown {
            _ = writeln!(out, "{}and {} more; `--format md` shows all", self.item, items.len() - self.shown);
        }
        out.push('\n');
    }
}

fn lines(diff: &Diff<'_>, style: &Style) -> String {
    let incomplete = diff.incomplete();
    let mut out = first_line(incomplete.as_ref());
    _ = writeln!(out, "{}{}\n", style.head, diff_summary(diff));
    let mut refused: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for r in &diff.regressions {
        let span = format!("{} accepts it, {} rejects it", r.accepted, r.refused);
        let place = if r.target == r.arch {
            r.target.to_string()
        } else {
            format!("{} for -arch {}", r.target, r.arch)
        };
        refused.entry((r.variant, span)).or_default().push(place);
    }
    let refused: Vec<String> = refused
        .into_iter()
        .map(|((variant, span), places)| format!("{}: {span}: {}", style.code(variant), places.join(", ")))
        .collect();
    style.list(&mut out, "REGRESSION within a toolkit line: accepted earlier, rejected later", &refused);
    let groups = groups(diff);
    for (direction, heading) in HEADINGS {
        let of_cells = groups.iter().filter(|g| g.direction == direction).map(|g| group_line(g, style));
        let of_facts = diff.facts.iter().filter(|f| f.direction == direction).map(|f| fact_line(f, style));
        style.list(&mut out, heading, &of_cells.chain(of_facts).collect::<Vec<_>>());
    }
    let names = |lanes: &Lanes| {
        lanes.iter().map(|lane| style.plain(&lane.to_string())).collect::<Vec<_>>().join(", ")
    };
    if !diff.not_asked_again.is_empty() {
        _ = writeln!(out, "Only in the old record: {}\n", names(&diff.not_asked_again));
    }
    if !diff.asked_anew.is_empty() {
        _ = writeln!(out, "Only in the new record: {}\n", names(&diff.asked_anew));
    }
    out
}

fn group_line(g: &Group, style: &Style) -> String {
    let names: Vec<String> = g.names.iter().map(|n| style.code(n)).collect();
    format!(
        "{}: {} {} ({}): {}",
        g.places.join(" "),
        g.count(),
        g.when(),
        style.plain(&g.words),
        names.join(" ")
    )
}

fn fact_line(f: &FactChange, style: &Style) -> String {
    let since = f.before.as_ref().map_or_else(String::new, |b| format!(" (since {})", b.toolkit()));
    let kind = f.subject.kind().word();
    format!("{kind} {}: {}{since}", style.plain(&f.subject.to_string()), style.plain(&f.words()))
}

#[derive(Serialize)]
struct JsonDiff<'a> {
    worse: usize,
    gone: usize,
    better: usize,
    other: usize,
    new: usize,
    incomplete: Option<Incomplete>,
    regressions: Vec<JsonRegression<'a>>,
    cells: Vec<JsonGroup>,
    facts: Vec<JsonFact<'a>>,
    asked_by_old_alone: Vec<String>,
    asked_by_new_alone: Vec<String>,
}

#[derive(Serialize)]
struct JsonRegression<'a> {
    variant: &'a str,
    target: String,
    arch: String,
    accepted: String,
    refused: String,
}

#[derive(Serialize)]
struct JsonGroup {
    direction: &'static str,
    change: String,
    places: Vec<String>,
    toolkits: Vec<String>,
    before: Option<String>,
    variants: Vec<String>,
}

#[derive(Serialize)]
struct JsonFact<'a> {
    direction: &'static str,
    kind: &'static str,
    about: String,
    case: &'a str,
    configuration: &'a str,
    variant: &'a str,
    target: Cow<'a, str>,
    toolkit: Cow<'a, str>,
    device: &'a str,
    old: Option<String>,
    new: Option<String>,
    detail: &'a str,
}

/// As JSON.
///
/// # Errors
/// Only when serialisation itself fails.
pub fn diff_json(diff: &Diff<'_>) -> serde_json::Result<String> {
    let names = |lanes: &Lanes| lanes.iter().map(ToString::to_string).collect();
    let out = JsonDiff {
        worse: diff.count(|d| d == Direction::Worse),
        gone: diff.count(|d| d == Direction::Gone),
        better: diff.count(|d| d == Direction::Better),
        other: diff.count(|d| d == Direction::Other),
        new: diff.count(|d| d == Direction::New),
        incomplete: diff.incomplete(),
        regressions: diff
            .regressions
            .iter()
            .map(|r| JsonRegression {
                variant: r.variant,
                target: r.target.to_string(),
                arch: r.arch.to_string(),
                accepted: r.accepted.to_string(),
                refused: r.refused.to_string(),
            })
            .collect(),
        cells: groups(diff)
            .into_iter()
            .map(|g| JsonGroup {
                direction: g.direction.word(),
                change: g.words,
                places: g.places,
                toolkits: g.toolkits.iter().map(ToString::to_string).collect(),
                before: g.before.map(|b| b.to_string()),
                variants: g.variants,
            })
            .collect(),
        facts: diff
            .facts
            .iter()
            .map(|f| JsonFact {
                direction: f.direction.word(),
                kind: f.subject.kind().word(),
                about: f.subject.to_string(),
                case: f.subject.case(),
                configuration: f.subject.configuration().map_or("", ConfigurationName::text),
                variant: f.subject.variant(),
                target: f.subject.target(),
                toolkit: f.subject.toolkit(),
                device: f.subject.device(),
                old: f.old.as_ref().map(Fact::words),
                new: f.new.as_ref().map(Fact::words),
                detail: f.new.as_ref().map_or("", |n| n.detail.as_str()),
            })
            .collect(),
        asked_by_old_alone: names(&diff.not_asked_again),
        asked_by_new_alone: names(&diff.asked_anew),
    };
    Ok(serde_json::to_string_pretty(&out)? + "\n")
}
