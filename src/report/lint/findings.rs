//! The findings of lint for SARIF and annotations.

use super::words::explained;
use crate::lint::Lint;
use crate::record::{Finding, Ground};

/// What does not meet the requirement, each with its line, for SARIF and annotations.
#[must_use]
pub fn lint_findings(result: &Lint) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &result.files {
        for module in file.modules.iter().filter(|m| !m.misses.is_empty()) {
            let missed = module.misses.join("; ");
            if module.problems.is_empty() {
                let mut finding = Finding::new(Ground::Wrong, file.file.clone(), missed);
                finding.place = Some((file.file.clone(), module.first_line));
                findings.push(finding);
                continue;
            }
            for problem in &module.problems {
                let what = if problem.instruction.is_empty() { "PTX" } else { problem.instruction.as_str() };
                let said = explained(result, problem).join("; ");
                let mut finding =
                    Finding::new(Ground::Wrong, what.to_owned(), format!("{}; {said}", problem.message));
                finding.place = Some(match &problem.cuda {
                    Some(cuda) => (cuda.file.clone(), cuda.line),
                    None => (file.file.clone(), problem.line.unwrap_or(module.first_line)),
                });
                findings.push(finding);
            }
        }
    }
    findings
}
