//! The claims: findings first, then the refuted, the untested and the sources of the confirmed.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::claims;
use super::super::markup::{code, link, plain, row};
use super::page::Page;
use crate::record::{ClaimRow, Standing};

impl Page<'_> {
    pub(super) fn claims(&self) -> String {
        let all = &self.view.matrix.claims;
        if all.is_empty() {
            return String::new();
        }
        let mut out = "## Claims\n".to_owned();
        let of = |standing| all.iter().filter(move |c| c.standing == standing && !c.is_finding());
        self.claim_table(
            &mut out,
            "Findings: claims that differ from their recorded status",
            all.iter().filter(|c| c.is_finding()),
        );
        self.claim_table(&mut out, "Refuted", of(Standing::Refuted));
        self.claim_table(&mut out, "Untested", of(Standing::Untested));
        let mut sources: BTreeMap<&str, usize> = BTreeMap::new();
        for claim in of(Standing::Confirmed) {
            *sources.entry(&claim.source).or_default() += 1;
        }
        if !sources.is_empty() {
            out.push_str("\n### Confirmed\n\n<details><summary>The sources</summary>\n\n");
            for (source, n) in sources {
                _ = writeln!(
                    out,
                    "- {}{}",
                    plain(source),
                    if n == 1 { String::new() } else { format!(" ({n} claims)") }
                );
            }
            out.push_str("\n</details>\n");
        }
        out
    }

    fn claim_table<'c>(&self, out: &mut String, title: &str, claims: impl Iterator<Item = &'c ClaimRow>) {
        let rows: Vec<String> = claims
            .map(|c| {
                row(&[
                    code(&claims::subject(self.view.matrix, c)),
                    link(&c.source, c.url.as_deref()),
                    plain(&claims::says(c)),
                    plain(&claims::measured(c)),
                ])
            })
            .collect();
        if !rows.is_empty() {
            _ = write!(
                out,
                "\n### {title}\n\n| snippet | source | says | measured |\n|---|---|---|---|\n{}",
                rows.concat()
            );
        }
    }
}
