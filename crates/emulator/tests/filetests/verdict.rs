//! Whether a test ends as its header says.

use emulator::{Registers, Rule, Stop, Trap, Unsupported};

use super::bless;
use super::header::{Expected, Test};
use super::launch::{self, Buffers};
use super::section::Violation;

/// Runs a test under all its schedules, and once with a slot of its own for every register.
pub(crate) fn check(test: &Test) -> Result<(), String> {
    let all = (0..test.schedules.count).map(|seed| (seed, Registers::Shared)).chain([(0, Registers::Own)]);
    let (mut found, mut ran) = (0, 0);
    for (seed, registers) in all {
        let end = launch::run(test, seed, registers, 1);
        // A grid of one CTA is run by one thread.
        let several = test.runs.iter().any(|run| run.grid != [1, 1, 1]);
        if several && launch::run(test, seed, registers, 4) != end {
            return Err(format!(
                "schedule {seed}, registers {registers:?}: 4 threads end otherwise than one"
            ));
        }
        (found, ran) = (found + usize::from(end.is_err()), ran + 1);
        one(test, end).map_err(|what| format!("schedule {seed}, registers {registers:?}: {what}"))?;
    }
    let wanted = match test.expected {
        Expected::Values(_) => return Ok(()),
        _ if test.schedules.any => 1,
        _ => ran,
    };
    if found >= wanted {
        return Ok(());
    }
    Err(format!("{found} of {ran} runs find what is expected, {wanted} must"))
}

/// Checks how one schedule ends; the caller counts the schedules that find a violation.
fn one(test: &Test, end: Result<Buffers, Stop>) -> Result<(), String> {
    match (&test.expected, end) {
        (Expected::Values(all), Ok(buffers)) => {
            for values in all {
                let at = test.buffers.iter().position(|(name, _)| *name == values.buffer);
                let bytes = at.and_then(|at| buffers.get(at)).map(Vec::as_slice).unwrap_or_default();
                values
                    .compare(bytes)
                    .map_err(|what| format!("line {}: {what}\n{}", values.line, bless::HOW))?;
            }
            Ok(())
        }
        (Expected::Violation(_), Ok(_)) => Ok(()),
        (Expected::Violation(any), Err(Stop::Trap(trap))) => violation(test, any, &trap),
        (Expected::Unsupported(text), Err(Stop::Unsupported(unsupported))) => {
            refusal(test, text, &unsupported)
        }
        (Expected::Error(text), Err(Stop::Launch(what))) => says(&what, std::slice::from_ref(text)),
        (_, Ok(_)) => Err("it passes".to_owned()),
        (_, Err(Stop::Trap(trap))) => Err(unexpected(test, &trap)),
        (_, Err(stop)) => Err(stop.to_string()),
    }
}

fn violation(test: &Test, any: &[Violation], trap: &Trap) -> Result<(), String> {
    let text = trap.to_string();
    let mut fits = false;
    for violation in any {
        let place = match &violation.at {
            Some(at) => line_with(test, at)? == trap.place.line,
            // Nothing can go on: no one instruction is wrong.
            None => trap.place.line == 0 || matches!(trap.rule, Rule::Deadlock | Rule::Fuel),
        };
        fits |= violation.rule == trap.rule && place;
    }
    if !fits {
        return Err(unexpected(test, trap));
    }
    says(&text, &test.messages)
}

/// The report of an unexpected violation, with the header line that would expect it.
fn unexpected(test: &Test, trap: &Trap) -> String {
    let instruction = trap.place.instruction.as_str();
    let line = test.ptx.lines().nth(trap.place.line.wrapping_sub(1)).unwrap_or_default().trim();
    let at = if line_with(test, instruction).is_ok() { instruction } else { line };
    format!("{trap}\nthe header that expects it: `//@ violation: {} @ {at}`", trap.rule.word())
}

fn refusal(test: &Test, text: &str, unsupported: &Unsupported) -> Result<(), String> {
    let told = unsupported.to_string();
    // The test's own mistake, unless it asks for these words.
    let mistakes = ["is not a register", "is not declared"];
    if mistakes.iter().any(|words| told.contains(words) && !test.messages.iter().any(|m| m.contains(words))) {
        return Err(told);
    }
    if line_with(test, text)? != unsupported.line {
        return Err(format!("{told}; expected the line with `{text}`"));
    }
    says(&told, &test.messages)
}

/// The one line of the PTX that contains `text`, from 1.
fn line_with(test: &Test, text: &str) -> Result<usize, String> {
    // Compilers write tabs.
    let spaced = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (lines, text) = (test.ptx.lines().enumerate().skip(test.header_lines), spaced(text));
    let found: Vec<usize> =
        lines.filter(|(_, line)| spaced(line).contains(&text)).map(|(n, _)| n + 1).collect();
    match found.as_slice() {
        [only] => Ok(*only),
        _ => Err(format!("`{text}` names {} lines of the PTX; it must name one", found.len())),
    }
}

fn says(text: &str, parts: &[String]) -> Result<(), String> {
    match parts.iter().find(|part| !text.contains(part.as_str())) {
        Some(part) => Err(format!("the message does not contain `{part}`: {text}")),
        None => Ok(()),
    }
}
