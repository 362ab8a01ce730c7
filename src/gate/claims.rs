//! Claims of a merged matrix, judged on its cells: what each record said of them stood on fewer.

use std::collections::HashMap;

use ptx::arch::Requirement;

use crate::record::{ClaimRow, Expect, Matrix, Outcome, Standing, VariantRow};

/// Judges every claim of a matrix anew, as a run does: only acceptances and rejections answer one.
pub fn rejudge(matrix: &mut Matrix) {
    let judged = judged(matrix);
    for (claim, new) in matrix.claims.iter_mut().zip(judged) {
        (claim.cells, claim.disagree, claim.example) = (new.cells, new.disagree, new.example);
        claim.standing = standing(claim.cells, claim.disagree);
    }
}

/// The first claim of a matrix that does not stand on its cells as it says: somebody edited one of them by hand.
pub(super) fn edited(matrix: &Matrix) -> Option<String> {
    let judged = judged(matrix);
    matrix.claims.iter().zip(judged).find_map(|(claim, new)| {
        let counts = (claim.cells, claim.disagree) == (new.cells, new.disagree);
        let same = counts && claim.standing == standing(claim.cells, claim.disagree);
        (!same).then(|| {
            format!(
                "the claim of {} records that {} of {} cells disagree, but {} of {} do: the record was edited; regenerate it",
                claim.source, claim.disagree, claim.cells, new.disagree, new.cells
            )
        })
    })
}

const fn standing(cells: usize, disagree: usize) -> Standing {
    match (cells, disagree) {
        (0, _) => Standing::Untested,
        (_, 0) => Standing::Confirmed,
        _ => Standing::Refuted,
    }
}

fn judged(matrix: &Matrix) -> Vec<Judged> {
    let mut of_snippet: HashMap<usize, Vec<&VariantRow>> = HashMap::new();
    // A file as its author wrote it has one target, and no claim speaks of it.
    for variant in matrix.variants.iter().filter(|v| !v.id.ends_with("@as-written")) {
        of_snippet.entry(variant.snippet).or_default().push(variant);
    }
    let rows = |snippet: usize| of_snippet.get(&snippet).map_or(&[][..], Vec::as_slice);
    matrix.claims.iter().map(|claim| one(matrix, claim, rows(claim.snippet))).collect()
}

struct Judged {
    cells: usize,
    disagree: usize,
    example: String,
}

fn one(matrix: &Matrix, claim: &ClaimRow, variants: &[&VariantRow]) -> Judged {
    // A range that cannot be read covers nothing; an empty one covers all.
    let toolkits: Option<Requirement> = claim.toolkits.parse().ok();
    let covered: Vec<usize> = matrix
        .pairs
        .iter()
        .enumerate()
        .filter(|(_, p)| {
            let arch =
                if claim.archs.is_empty() { p.arch == p.target } else { claim.archs.contains(&p.arch) };
            let toolkit = claim.toolkits.is_empty() || toolkits.as_ref().is_some_and(|r| r.allows(p.toolkit));
            arch && toolkit && claim.targets.contains(&p.target)
        })
        .map(|(n, _)| n)
        .collect();
    let mut out = Judged { cells: 0, disagree: 0, example: String::new() };
    for variant in variants.iter().filter(|v| claim.variants.is_empty() || claim.variants.contains(&v.id)) {
        for n in &covered {
            let outcome =
                variant.outcomes.as_bytes().get(*n).and_then(|b| Outcome::from_letter(char::from(*b)));
            let agrees = match outcome {
                Some(Outcome::Accepted) => claim.expect == Expect::Accepted,
                Some(Outcome::Rejected) => claim.expect != Expect::Accepted,
                _ => continue,
            };
            out.cells += 1;
            if !agrees {
                out.disagree += 1;
                if out.example.is_empty() {
                    let p = matrix.pairs[*n];
                    let word = outcome.map_or("", Outcome::word);
                    out.example = format!("{} {} {} {} {word}", variant.id, p.toolkit, p.target, p.arch);
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    #[test]
    fn a_run_and_this_judge_alike() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/matrix.json");
        let before = Record::read(&path).unwrap().matrix;
        let mut after = before.clone();
        assert_eq!(edited(&before), None);
        rejudge(&mut after);
        for (a, b) in before.claims.iter().zip(&after.claims) {
            assert_eq!((a.cells, a.disagree, a.standing), (b.cells, b.disagree, b.standing), "{}", a.source);
        }
        // Shown to notice: one cell of a confirmed claim turned round.
        let claim =
            before.claims.iter().position(|c| c.standing == Standing::Confirmed && c.cells > 10).unwrap();
        let mut planted = before.clone();
        let snippet = planted.claims[claim].snippet;
        for v in planted.variants.iter_mut().filter(|v| v.snippet == snippet) {
            let flip = |c: char| match c {
                'A' => 'R',
                'R' => 'A',
                c => c,
            };
            v.outcomes = v.outcomes.chars().map(flip).collect();
        }
        assert!(edited(&planted).is_some());
        rejudge(&mut planted);
        assert_eq!(planted.claims[claim].standing, Standing::Refuted);
    }
}
