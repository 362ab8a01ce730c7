//! Rewrites the expected values of a file.

use std::path::Path;

use emulator::Registers;

use super::header::{self, Expected, Test};
use super::launch;

/// How to accept new values, for the message of a failure.
pub(crate) const HOW: &str =
    "if the new values are right, `SNAPSHOTS=overwrite` in the environment writes them into the file";

/// Whether `SNAPSHOTS` asks for new expectations.
pub(crate) fn wanted() -> bool {
    std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite")
}

/// Writes the values of the first schedule into the test's file, if that ends without a violation, and returns the test with them.
pub(crate) fn rewrite(path: &Path, test: Test) -> Result<Test, String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let old = std::fs::read_to_string(path).map_err(told)?;
    let new = blessed(&old, &test);
    if new != old {
        std::fs::write(path, &new).map_err(told)?;
    }
    let tests = header::read(path, &new).map_err(|problem| problem.to_string())?;
    Ok(tests.into_iter().find(|other| other.name == test.name).unwrap_or(test))
}

/// The text of the file with the values that the test's buffers have.
pub(crate) fn blessed(text: &str, test: &Test) -> String {
    let Expected::Values(all) = &test.expected else { return text.to_owned() };
    let Ok(buffers) = launch::run(test, 0, Registers::default(), 1) else { return text.to_owned() };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for values in all {
        let at = test.buffers.iter().position(|(name, _)| *name == values.buffer);
        let (Some(bytes), Some(line)) = (at.and_then(|at| buffers.get(at)), lines.get_mut(values.line - 1))
        else {
            continue;
        };
        if values.compare(bytes).is_err()
            && let Some((mark, _)) = line.rsplit_once("//@")
            && let Some((place, _)) = line[mark.len()..].split_once('=')
        {
            *line = format!("{mark}{place}= {}", values.list(bytes));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}
