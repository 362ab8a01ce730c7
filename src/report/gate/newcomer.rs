//! A toolkit that the baseline does not know: what it says otherwise than the one before it, and how that becomes the baseline.

use ptx::arch::ToolkitVersion;

use super::diff::diff_text;
use crate::gate::diff;
use crate::record::Record;

/// What a toolkit says that the baseline does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newcomer {
    /// Variants that the toolkit refuses although an earlier one accepts them: variant and sentence.
    pub regressions: Vec<(String, String)>,
    /// The whole difference, and the command that takes it into the baseline.
    pub answer: String,
}

/// Compares a toolkit's run with the newest older toolkit of the baseline; `None` if the baseline contains the toolkit.
#[must_use]
pub fn newcomer(baseline: &Record, file: &str, run: &Record, toolkit: ToolkitVersion) -> Option<Newcomer> {
    if baseline.matrix.toolkits.iter().any(|t| t.version == toolkit) {
        return None;
    }
    let found = diff(baseline, run);
    let regressions = found
        .regressions
        .iter()
        .filter(|r| r.refused == toolkit || r.accepted == toolkit)
        .map(|r| {
            let place = if r.target == r.arch { String::new() } else { format!(" for -arch {}", r.arch) };
            let text = format!(
                "REGRESSION within a toolkit line: {} on {}{place}: {} accepts it, {} rejects it",
                r.variant, r.target, r.accepted, r.refused
            );
            (r.variant.to_owned(), text)
        })
        .collect();
    let answer = format!(
        "toolkit {toolkit} is not in {file}; compared with the toolkit before it:\n\n{}To accept its answers:\n  \
        sm121probe gate --baseline {file} --toolkit {toolkit} --bless\n",
        diff_text(&found)
    );
    Some(Newcomer { regressions, answer })
}
