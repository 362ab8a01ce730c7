//! The values of header keys: schedules, checks, expectations, violations.

use emulator::Rule;

use super::section::{Checks, End, RawValues, Schedules, Violation};

/// Every rule, for the word that names it in a header.
const RULES: [Rule; 14] = [
    Rule::OutOfBounds,
    Rule::Misaligned,
    Rule::WrongSpace,
    Rule::UseAfterFree,
    Rule::Uninitialised,
    Rule::Race,
    Rule::Divergent,
    Rule::Deadlock,
    Rule::Fuel,
    Rule::Barrier,
    Rule::TensorMap,
    Rule::Dependency,
    Rule::Explicit,
    Rule::Operand,
];

pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number that fits here"))
}

pub(crate) fn three(text: &str) -> Result<[u32; 3], String> {
    let mut out = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("`{text}` is not one to three numbers, as in 4,2,1"));
    }
    for (slot, part) in out.iter_mut().zip(parts) {
        *slot = number(part)?;
    }
    Ok(out)
}

/// `N` or `N any`.
pub(crate) fn schedules(text: &str) -> Result<Schedules, String> {
    let (count, any) = text.strip_suffix(" any").map_or((text, false), |count| (count, true));
    match number(count)? {
        0 => Err("at least one schedule runs".to_owned()),
        count => Ok(Schedules { count, any }),
    }
}

pub(crate) fn checks(text: &str) -> Result<Checks, String> {
    let mut checks = Checks { initialisation: false, races: false, fences: false };
    for word in text.split(',').map(str::trim) {
        match word {
            "initialisation" => checks.initialisation = true,
            "races" => checks.races = true,
            "fences" => checks.fences = true,
            "none" => {}
            _ => return Err(format!("`{word}` is not one of initialisation, races, fences, none")),
        }
    }
    Ok(checks)
}

/// `no violation`, `BUFFER = LIST` or `BUFFER[FIRST] = LIST`.
pub(crate) fn expect(line: usize, text: &str) -> Result<End, String> {
    if text == "no violation" {
        return Ok(End::NoViolation);
    }
    let (place, list) = text
        .split_once('=')
        .ok_or("an expectation is `no violation`, `BUFFER = VALUES` or `BUFFER[FIRST] = VALUES`")?;
    let place = place.trim();
    let (buffer, first) = match place.strip_suffix(']').and_then(|place| place.split_once('[')) {
        Some((buffer, first)) => (buffer, number(first)?),
        None => (place, 0),
    };
    let (buffer, list) = (buffer.to_owned(), list.trim().to_owned());
    Ok(End::Values(RawValues { line, buffer, first, list }))
}

/// `RULE` or `RULE @ TEXT`.
pub(crate) fn violation(text: &str) -> Result<Violation, String> {
    let (word, at) = match text.split_once('@') {
        Some((word, at)) => (word.trim(), Some(at.trim().to_owned())),
        None => (text, None),
    };
    let rule = RULES.into_iter().find(|rule| rule.word() == word).ok_or_else(|| {
        format!("`{word}` is not a rule; the rules are {}", RULES.map(Rule::word).join(", "))
    })?;
    Ok(Violation { rule, at })
}

/// Whether products and sums round once.
pub(crate) fn contract(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("`{other}` is neither on nor off")),
    }
}
