//! Assembles many variants in one run of ptxas and attributes a separate answer to each.
//!
//! ptxas reports nearly all refusals before it generates code. [`Pass::Check`] therefore has ptxas read every
//! entry but generate code for an empty one only, at a tenth of the cost. [`Pass::Generate`] generates the code of
//! the entries that passed.
//!
//! An error belongs to the entry that contains its line or that it names. After a fatal error, the status of the entries
//! that follow is unknown. So the offenders are settled and the rest is assembled again, until ptxas produces a cubin of
//! what is left. A failure that cannot be attributed (a crash, a timeout, an error outside every entry) is bisected,
//! never charged to all entries.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use devcode::machine_code;
use ptx::arch::{PtxIsa, Target};

use super::assembler::{Answer, Limits, Run, assemble};
use super::diagnostics::{Diagnostic, Severity};
use super::entries::{Entry, EntryFile, NOTHING, name};
use super::kinds;
use crate::toolkit::Toolkit;
use record::{MessageRow, Outcome};

/// What a batch is assembled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// Verdicts only, for entries that ptxas does not refuse late.
    Check,
    /// The code of every entry, and with it the verdict.
    Generate,
}

impl Pass {
    /// Entries per file: few enough that a crash loses little, enough that process start-up is negligible. The cost of
    /// code per entry hardly changes between 160 and 1024.
    pub(super) fn chunk(self) -> usize {
        match self {
            Self::Check => 2560,
            Self::Generate => 200,
        }
    }
}

/// The settings under which a batch is assembled.
pub(super) struct Site<'a> {
    pub(super) toolkit: &'a Toolkit,
    pub(super) target: Target,
    pub(super) arch: Target,
    pub(super) isa: PtxIsa,
    pub(super) scratch: &'a Path,
    pub(super) limits: Limits,
    pub(super) pass: Pass,
}

impl Site<'_> {
    /// Returns the answer for every entry, in order.
    ///
    /// # Errors
    /// When ptxas cannot be started or the scratch folder cannot be written.
    pub(super) fn settle(&self, entries: &[Entry<'_>]) -> io::Result<Vec<Answer>> {
        let mut answers: Vec<Option<Answer>> = vec![None; entries.len()];
        // Groups of entry indices still to be assembled together.
        let mut groups: Vec<Vec<usize>> = vec![(0..entries.len()).collect()];
        let mut assembler_works = false;
        while let Some(group) = groups.pop() {
            if group.is_empty() {
                continue;
            }
            let mut file = EntryFile::new(self.isa, self.target, group.iter().map(|i| entries[*i]));
            let only = match self.pass {
                Pass::Check => {
                    file.add_nothing();
                    Some(NOTHING)
                }
                Pass::Generate => None,
            };
            let limit = self.limits.of_batch(group.len());
            match assemble(self.toolkit, self.arch, &file.text, only, self.scratch, limit)? {
                Run::Made(cubin) => {
                    let mut codes: BTreeMap<String, &[u8]> = match self.pass {
                        Pass::Check => BTreeMap::new(),
                        Pass::Generate => machine_code::of_kernels(&cubin).into_iter().collect(),
                    };
                    for (n, i) in group.iter().enumerate() {
                        let code = codes.remove(&name(n)).unwrap_or_default().to_vec();
                        answers[*i] =
                            Some(Answer { outcome: Outcome::Accepted, message: String::new(), code });
                    }
                }
                Run::Refused(diagnostics) => {
                    let offenders = attribute(&file, &diagnostics, |n| entries[group[n]].first_line);
                    if offenders.is_empty() && kinds::is_of_the_file(&diagnostics[0].text) {
                        for i in group {
                            answers[i] = Some(Answer::refusal(&diagnostics[0]));
                        }
                        continue;
                    }
                    if offenders.is_empty() {
                        self.divide(&group, &Answer::refusal(&diagnostics[0]), &mut answers, &mut groups);
                        continue;
                    }
                    let rest: Vec<usize> =
                        (0..group.len()).filter(|n| !offenders.contains_key(n)).map(|n| group[n]).collect();
                    for (n, answer) in offenders {
                        answers[group[n]] = Some(answer);
                    }
                    groups.push(rest);
                }
                Run::Broke(answer) => {
                    // If the assembler fails even on an empty kernel, do not try the rest.
                    if !assembler_works && let Some(answer) = self.broken()? {
                        for i in group.into_iter().chain(groups.drain(..).flatten()) {
                            answers[i] = Some(answer.clone());
                        }
                        continue;
                    }
                    assembler_works = true;
                    self.divide(&group, &answer, &mut answers, &mut groups);
                }
            }
        }
        Ok(answers.into_iter().map(|a| a.unwrap_or_else(never_asked)).collect())
    }

    /// How ptxas fails on an empty kernel; `None` if it does not fail.
    fn broken(&self) -> io::Result<Option<Answer>> {
        let empty = EntryFile::new(
            self.isa,
            self.target,
            std::iter::once(Entry {
                before: ".visible .entry ",
                after: "()\n{\nret;\n}\n",
                first_line: None,
            }),
        );
        let run =
            assemble(self.toolkit, self.arch, &empty.text, None, self.scratch, self.limits.of_batch(1))?;
        Ok(if let Run::Broke(answer) = run { Some(answer) } else { None })
    }

    fn divide(
        &self,
        group: &[usize],
        answer: &Answer,
        answers: &mut [Option<Answer>],
        groups: &mut Vec<Vec<usize>>,
    ) {
        if let [only] = group {
            answers[*only] = Some(answer.clone());
            return;
        }
        let (left, right) = group.split_at(group.len() / 2);
        groups.push(right.to_vec());
        groups.push(left.to_vec());
    }
}

/// Every group ends with an answer for each of its entries, so this answer indicates a defect of sm121probe.
fn never_asked() -> Answer {
    Answer::new(Outcome::Crashed, "sm121probe lost this cell; please report it".to_owned())
}

/// The refused entries of a file, each with its first error; empty when no error can be attributed.
fn attribute(
    file: &EntryFile,
    diagnostics: &[Diagnostic],
    first_line: impl Fn(usize) -> Option<usize>,
) -> BTreeMap<usize, Answer> {
    let mut offenders = BTreeMap::new();
    for diagnostic in diagnostics {
        let entry = match diagnostic.line {
            Some(line) => file.entry_at(line),
            None => file.entry_named(&diagnostic.text).map(|entry| (entry, 0)),
        };
        if let Some((entry, line)) = entry {
            offenders.entry(entry).or_insert_with(|| {
                let mut answer = Answer::refusal(diagnostic);
                if let (Some(first), Some(_)) = (first_line(entry), diagnostic.line) {
                    answer.message = MessageRow::at_line(first + line, &answer.message);
                }
                answer.message = answer.message.replace(&format!("'{}'", name(entry)), "'v0'");
                answer
            });
        }
        if diagnostic.severity == Severity::Fatal {
            break;
        }
    }
    offenders
}
