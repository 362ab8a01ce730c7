//! Claims against the cells they speak of.

use super::job::Grid;
use super::plan::Plan;
use crate::record::{ClaimRow, Expect, Outcome, Standing};
use crate::snippet::Library;
use crate::toolkit::Toolkit;

/// Every claim of the planned snippets, judged. Only acceptances and rejections answer a claim: a toolkit that does not
/// know the target says nothing about it.
pub(super) fn judge(library: &Library, plan: &Plan, toolkits: &[&Toolkit], grid: &Grid) -> Vec<ClaimRow> {
    let mut out = Vec::new();
    let mut rows_of: Vec<Vec<usize>> = vec![Vec::new(); library.snippets.len()];
    for (n, row) in plan.rows.iter().enumerate() {
        if row.variant.is_some() {
            rows_of[row.snippet].push(n);
        }
    }
    for (s, snippet) in library.snippets.iter().enumerate() {
        if rows_of[s].is_empty() {
            continue;
        }
        for claim in &snippet.header.claims {
            let speaks_of = |row: &usize| {
                let variant = plan.rows[*row].variant.map(|v| &library.variants[v]);
                variant.is_some_and(|v| snippet.claim_speaks_of(claim, &v.axes))
            };
            let rows: Vec<usize> = rows_of[s].iter().copied().filter(speaks_of).collect();
            let (mut cells, mut disagree, mut example) = (0, 0, String::new());
            for row in &rows {
                for (p, pair) in plan.pairs.iter().enumerate() {
                    let version = toolkits[pair.toolkit].version;
                    if !claim.covers(version, pair.target, pair.arch) {
                        continue;
                    }
                    let Some(cell) = grid.get(*row, p) else { continue };
                    let agrees = match cell.outcome {
                        Outcome::Accepted => claim.expect == Expect::Accepted,
                        Outcome::Rejected => claim.expect != Expect::Accepted,
                        Outcome::UnknownTarget
                        | Outcome::UnsupportedIsa
                        | Outcome::Crashed
                        | Outcome::TimedOut => continue,
                    };
                    cells += 1;
                    if !agrees {
                        disagree += 1;
                        if example.is_empty() {
                            let (id, target, arch) = (&plan.rows[*row].id, pair.target, pair.arch);
                            example = format!("{id} {version} {target} {arch} {}", cell.outcome.word());
                        }
                    }
                }
            }
            let standing = match (cells, disagree) {
                (0, _) => Standing::Untested,
                (_, 0) => Standing::Confirmed,
                _ => Standing::Refuted,
            };
            out.push(ClaimRow {
                snippet: s,
                source: claim.source.clone(),
                url: claim.url.clone(),
                expect: claim.expect,
                targets: claim.targets.clone(),
                archs: claim.archs.clone(),
                toolkits: claim.toolkits.as_ref().map(ToString::to_string).unwrap_or_default(),
                variants: if claim.when.is_empty() {
                    Vec::new()
                } else {
                    rows.iter().map(|r| plan.rows[*r].id.clone()).collect()
                },
                whole: library
                    .variants
                    .iter()
                    .filter(|v| v.snippet == s && snippet.claim_speaks_of(claim, &v.axes))
                    .count()
                    == rows.len(),
                standing,
                recorded: claim.stands,
                cells,
                disagree,
                example,
            });
        }
    }
    out
}
