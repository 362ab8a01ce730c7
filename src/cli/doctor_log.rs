//! The log of a model server, for the terminal.

use std::fmt::Write as _;

use crate::doctor::{Flag, LogReport, unified_memory};

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
        let _ = writeln!(out, "  {}\n  {}", flag.text, flag.meaning);
        let _ = writeln!(out, "  {} ({})", flag.remedy, flag.source);
    }
    for missing in &report.missing {
        let _ = writeln!(out, "  not in the log: {missing}");
    }
    if facts.architecture == Some(121) {
        for line in unified_memory() {
            let _ = writeln!(out, "  unified memory: {line}");
        }
    }
    out
}

/// What is known of a message.
pub(super) fn message_text(message: &str, known: &[Flag]) -> String {
    let mut out = format!("`{}`: a message of a server, a compiler or a library\n", message.trim());
    for flag in known {
        let cost = if flag.slow { " It costs speed at most." } else { "" };
        let _ = writeln!(
            out,
            "  cause   {}{}{cost}\n  remedy  {}\n  source  {}",
            if flag.gpus == [121] { "(on GB10) " } else { "" },
            flag.meaning,
            flag.remedy,
            flag.source
        );
    }
    out
}

fn lines(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}
