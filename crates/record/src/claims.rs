//! Judges claims on the cells that they cover.

use std::collections::HashMap;

use super::cells::CellAnswer;
use super::claim_example::ClaimExample;
use super::document::{ClaimRow, Matrix, VariantRow};
use super::outcome::{Expect, Outcome, Standing};

/// Judges every claim of a matrix on its cells. Only acceptances and rejections count: a toolkit that does not know the
/// target does not test the claim.
pub fn judge(matrix: &mut Matrix) {
    let judged = judged(matrix);
    for (claim, new) in matrix.claims.iter_mut().zip(judged) {
        claim.standing = new.standing();
        (claim.cells, claim.disagree) = (new.cells, new.disagree);
        claim.example = new.example.map(Into::into);
    }
}

/// Returns an error for the first claim whose recorded result differs from its cells, which means that the record was edited by
/// hand.
#[must_use]
pub fn edited(matrix: &Matrix) -> Option<String> {
    let judged = judged(matrix);
    matrix.claims.iter().zip(judged).find_map(|(claim, new)| {
        let counts = (claim.cells, claim.disagree) == (new.cells, new.disagree);
        (!counts || claim.standing != new.standing()).then(|| {
            format!(
                "the claim of {} records that {} of {} cells disagree, but {} of {} do: the record was edited; regenerate it",
                claim.source, claim.disagree, claim.cells, new.disagree, new.cells
            )
        })
    })
}

struct Judged {
    cells: usize,
    disagree: usize,
    example: Option<ClaimExample>,
}

impl Judged {
    const fn standing(&self) -> Standing {
        match (self.cells, self.disagree) {
            (0, _) => Standing::Untested,
            (_, 0) => Standing::Confirmed,
            _ => Standing::Refuted,
        }
    }
}

impl CellAnswer {
    /// Whether a cell agrees with a claim; `None` if it does not test one.
    fn agrees(self, expect: Expect) -> Option<bool> {
        match self.outcome {
            Outcome::Accepted => Some(expect == Expect::Accepted),
            Outcome::Rejected => Some(expect != Expect::Accepted),
            Outcome::UnknownTarget | Outcome::UnsupportedIsa | Outcome::Crashed | Outcome::TimedOut => None,
        }
    }
}

fn judged(matrix: &Matrix) -> Vec<Judged> {
    let mut of_snippet: HashMap<usize, Vec<&VariantRow>> = HashMap::new();
    // A file as its author wrote it has one target, and no claim covers it.
    for variant in matrix.variants.iter().filter(|v| !v.is_as_written()) {
        of_snippet.entry(variant.snippet).or_default().push(variant);
    }
    let rows = |snippet: usize| of_snippet.get(&snippet).map_or(&[][..], Vec::as_slice);
    matrix.claims.iter().map(|claim| one(matrix, claim, rows(claim.snippet))).collect()
}

fn one(matrix: &Matrix, claim: &ClaimRow, variants: &[&VariantRow]) -> Judged {
    let covered: Vec<usize> = (0..matrix.pairs.len()).filter(|n| claim.covers(&matrix.pairs[*n])).collect();
    let mut out = Judged { cells: 0, disagree: 0, example: None };
    for variant in variants.iter().filter(|v| claim.variants.is_empty() || claim.variants.contains(&v.id)) {
        for n in &covered {
            let Some(answer) = variant.answer(*n) else { continue };
            let Some(agrees) = answer.agrees(claim.expect) else { continue };
            out.cells += 1;
            if !agrees {
                out.disagree += 1;
                out.example.get_or_insert_with(|| ClaimExample {
                    variant: variant.id.clone(),
                    pair: matrix.pairs[*n],
                    outcome: answer.outcome,
                });
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;

    #[test]
    fn a_record_is_judged_as_its_run_judged_it() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/matrix.json");
        let before = Record::read(&path).unwrap().matrix;
        let mut after = before.clone();
        assert_eq!(edited(&before), None);
        judge(&mut after);
        for (a, b) in before.claims.iter().zip(&after.claims) {
            assert_eq!(a, b);
        }
        // The check detects inverted cells of a confirmed claim.
        let claim =
            before.claims.iter().position(|c| c.standing == Standing::Confirmed && c.cells > 10).unwrap();
        let mut planted = before.clone();
        let snippet = planted.claims[claim].snippet;
        for v in planted.variants.iter_mut().filter(|v| v.snippet == snippet) {
            let turned = |n: usize| {
                v.answer(n).map(|a| match a.outcome {
                    Outcome::Accepted => CellAnswer { outcome: Outcome::Rejected, native: None },
                    Outcome::Rejected => CellAnswer { outcome: Outcome::Accepted, native: None },
                    _ => a,
                })
            };
            let all: Vec<_> = (0..planted.pairs.len()).map(turned).collect();
            v.set(all);
        }
        assert!(edited(&planted).is_some());
        judge(&mut planted);
        assert_eq!(planted.claims[claim].standing, Standing::Refuted);
    }
}
