//! The claims of the planned snippets as rows of the record; the record judges them.

use super::plan::Plan;
use crate::snippet::{Library, Variant};
use record::{ClaimRow, Standing};

/// Every claim of the planned snippets, not yet judged.
pub(super) fn rows(library: &Library, plan: &Plan) -> Vec<ClaimRow> {
    let mut asked = vec![false; library.variants.len()];
    plan.rows.iter().filter_map(|row| row.variant).for_each(|v| asked[v] = true);
    let mut out = Vec::new();
    for (s, snippet) in library.snippets.iter().enumerate() {
        let own: Vec<(usize, &Variant)> =
            library.variants.iter().enumerate().filter(|(_, v)| v.snippet == s).collect();
        if !own.iter().any(|(n, _)| asked[*n]) {
            continue;
        }
        for claim in &snippet.header.claims {
            let covered = || own.iter().filter(|(_, v)| snippet.claim_speaks_of(claim, &v.axes));
            let mut variants = Vec::new();
            if !claim.when.is_empty() {
                variants.extend(covered().map(|(_, v)| v.id.clone()));
                variants.sort();
            }
            out.push(ClaimRow {
                snippet: s,
                source: claim.source.clone(),
                url: claim.url.clone(),
                expect: claim.expect,
                targets: claim.targets.clone(),
                archs: claim.archs.clone(),
                toolkits: claim.toolkits.clone().map(Into::into),
                variants,
                whole: covered().all(|(n, _)| asked[*n]),
                standing: Standing::Untested,
                recorded: claim.stands,
                cells: 0,
                disagree: 0,
                example: None,
            });
        }
    }
    out
}
