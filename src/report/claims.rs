//! Claims: counts, findings, and one sentence per claim.

use super::phrase::names;
use crate::record::{ClaimExample, ClaimRow, Matrix, Named, Pair, Standing};

/// The counts of claims.
pub(super) struct Counts {
    /// Every answered cell agrees.
    pub(super) confirmed: usize,
    /// Some answered cell disagrees.
    pub(super) refuted: usize,
    /// No cell was answered.
    pub(super) untested: usize,
    /// The run contradicts the recorded status of the claim.
    pub(super) findings: usize,
}

/// Counts the claims.
pub(super) fn counts(matrix: &Matrix) -> Counts {
    let of = |standing| matrix.claims.iter().filter(|c| c.standing == standing).count();
    Counts {
        confirmed: of(Standing::Confirmed),
        refuted: of(Standing::Refuted),
        untested: of(Standing::Untested),
        findings: matrix.claims.iter().filter(|c| c.is_finding()).count(),
    }
}

/// The statement of a claim: `accepted on sm_120a sm_121a, toolkits >=12.9`.
pub(super) fn says(claim: &ClaimRow) -> String {
    let toolkits = claim.toolkits.as_ref().map_or_else(String::new, |range| format!(", toolkits {range}"));
    let archs =
        if claim.archs.is_empty() { String::new() } else { format!(" for -arch {}", names(&claim.archs)) };
    format!("{} on {}{archs}{toolkits}", claim.expect.words(), names(&claim.targets))
}

/// The measurement: `refuted by 3 of 12 cells, first ...`.
pub(super) fn measured(claim: &ClaimRow) -> String {
    match claim.standing {
        Standing::Confirmed if claim.whole => format!("confirmed by all {} cells", claim.cells),
        Standing::Confirmed => {
            format!("confirmed by all {} queried cells; not all variants were queried", claim.cells)
        }
        Standing::Refuted => {
            format!(
                "refuted by {} of {} cells; the first: {}",
                claim.disagree,
                claim.cells,
                claim.example.as_ref().map_or_else(String::new, example)
            )
        }
        Standing::Untested => "untested: no answer for any of its cells".to_owned(),
    }
}

/// A cell that disagrees, in words.
fn example(cell: &Named<ClaimExample>) -> String {
    let Some(ClaimExample { variant, pair, outcome }) = cell.known() else { return cell.to_string() };
    let Pair { toolkit, target, arch } = pair;
    let arch = if arch == target { String::new() } else { format!(" for -arch={arch}") };
    format!("{variant} on {target}{arch}, {toolkit}: {}", outcome.word().replace('_', " "))
}

/// The subject of a claim: its only variant, or the name of its snippet and the number of its variants.
pub(super) fn subject(matrix: &Matrix, claim: &ClaimRow) -> String {
    let name = matrix.snippets.get(claim.snippet).map_or("", |s| stem(&s.file));
    match claim.variants.as_slice() {
        [] => name.to_owned(),
        [one] => one.clone(),
        some => format!("{name} ({} variants)", some.len()),
    }
}

/// A file's name without folder and extension.
pub(super) fn stem(file: &str) -> &str {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    name.strip_suffix(".ptx").unwrap_or(name)
}
