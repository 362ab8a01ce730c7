//! The log of a model server, for the terminal.

use std::fmt::Write as _;

use super::locale;
use crate::doctor::{Flag, LogReport, unified_memory};
use crate::report::hanging;

/// What the server chose, then each red flag, then what the log does not say.
pub(super) fn log_text(report: &LogReport) -> String {
    let mut out = String::new();
    let facts = &report.facts;
    let known = |text: Option<&str>| text.unwrap_or("not named").to_owned();
    let engine = facts.engine.map_or("no server that is known", |engine| engine.word());
    let version = facts.version.as_deref().map_or_else(String::new, |v| format!(" {v}"));
    let architecture = facts.architecture.map_or_else(String::new, |number| format!(" (sm_{number})"));
    let file = report.file.display();
    let _ = writeln!(out, "{file}: {}, {engine}{version}", lines(report.lines));
    let needs = facts.needs.map_or("of a format that is not named", |format| format.word());
    let _ = writeln!(out, "  model {}, weights {needs}", known(facts.model.as_deref()));
    let _ = writeln!(out, "  GPU {}{architecture}", known(facts.gpu.as_deref()));
    for choice in &report.choices {
        let (path, backend, word) = (choice.path.word(), &choice.backend, choice.judgement.word());
        let _ = writeln!(out, "  {path}: {backend}: {word}; {} (line {})", choice.why, choice.line);
    }
    for flag in &report.flags {
        let more = match flag.count {
            0 | 1 => String::new(),
            count => format!(", and {} like it", lines(count - 1)),
        };
        let cost = if flag.slow { " (speed at most)" } else { "" };
        let _ = writeln!(out, "{file}:{}: {}{cost}{more}", flag.line, flag.name);
        let _ = writeln!(out, "  {}", flag.text);
        out.push_str(&prose("  ", &flag.meaning));
        out.push_str(&prose("  ", &format!("{} ({})", flag.remedy, flag.source)));
    }
    if !report.near.is_empty() {
        out.push_str(&near_text(&report.near));
    }
    for missing in &report.missing {
        let _ = writeln!(out, "  not in the log: {missing}");
    }
    if facts.architecture == Some(121) {
        for line in unified_memory() {
            out.push_str(&prose("  unified memory: ", &line));
        }
    }
    out
}

/// What is known of a message.
pub(super) fn message_text(message: &str, known: &[Flag]) -> String {
    let mut out = format!("`{}`: a message of a server, a compiler or a library\n", message.trim());
    known.iter().for_each(|flag| append_sign(&mut out, "cause ", flag));
    out
}

/// Messages whose words are nearest to those of one that is not known.
pub(super) fn near_text(near: &[Flag]) -> String {
    let mut out = "nearest by its words to what is known; the cause may be another:\n".to_owned();
    near.iter().for_each(|flag| append_sign(&mut out, "near  ", flag));
    out
}

/// Adds what a sign says.
fn append_sign(out: &mut String, as_what: &str, flag: &Flag) {
    let cost = if flag.slow { " It costs speed at most." } else { "" };
    let on = if flag.gpus == [121] { "(on GB10) " } else { "" };
    out.push_str(&prose(&format!("  {as_what}  "), &format!("{on}{}{cost}", flag.meaning)));
    out.push_str(&prose("  remedy  ", &flag.remedy));
    out.push_str(&prose("  source  ", &flag.source));
}

/// A paragraph behind its first words: broken at the width of the terminal, and one line for a program that reads it.
fn prose(first: &str, text: &str) -> String {
    match locale::columns() {
        Some(_) => hanging(first, first.len(), text.split(' ')),
        None => format!("{first}{text}\n"),
    }
}

fn lines(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}
