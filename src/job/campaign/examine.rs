//! Explains a kernel that differs: by known miscompiles, or not at all; then it can be made small.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use compiler::fuzz::{check, outputs, place, shrink, with_opaque_approximations};
use compiler::known::{by_name, find, without};
use compiler::machine::structures;
use emulator::device::{Failure, first_difference};
use rayon::prelude::*;

use super::{Campaign, CampaignError, Case, Finding, Wrong};
use crate::job::build::Build;
use crate::job::ptxas::Failed;
use crate::toolkit::DisassembleError;

/// The time in which one kernel is disassembled.
const DISASSEMBLY_LIMIT: Duration = Duration::from_secs(60);

/// What PTX leaves open of an approximation of a constant: ptxas computes it by other means than the GPU.
const APPROXIMATIONS: &str = "approximations of constants";

/// How often instructions with known miscompiles are removed: without one, another may match.
const ROUNDS: usize = 4;

/// What explains a kernel, by build.
#[derive(Default)]
pub(super) struct Examined {
    /// Builds with the names of the known miscompiles that explain them.
    pub(super) known: Vec<(usize, String)>,
    /// Builds with what PTX leaves open and explains them.
    pub(super) left_open: Vec<(usize, &'static str)>,
    /// What is left.
    pub(super) findings: Vec<Finding>,
}

/// A build of a kernel that nothing known explains.
struct Left {
    build: usize,
    case: Case,
    wrong: Wrong,
    /// What else is to be said of it.
    note: Option<String>,
}

impl Campaign<'_> {
    /// Explains a kernel that is wrong with some builds. A known miscompile explains a difference if the kernel matches it, and if the
    /// rest of the kernel, without the matching instructions, agrees.
    pub(super) fn examine(&self, case: &Case, wrong: Vec<(usize, Wrong)>) -> Result<Examined, CampaignError> {
        let mut examined = Examined::default();
        let mut left: Vec<Left> = Vec::new();
        for (n, wrong) in wrong {
            let build = &self.builds[n];
            let names: Vec<&str> = case.known_with(build).iter().map(|m| m.name.as_str()).collect();
            let rest = if names.is_empty() { Some(case.clone()) } else { self.rest(case, build) };
            // A rest that is not defined shows nothing; the match remains.
            let Some(rest) = rest else {
                examined.known.push((n, names.join(" or ")));
                continue;
            };
            match self.alone(build, &rest)? {
                Some(wrong) => {
                    let mut note = None;
                    if matches!(wrong, Wrong::Differs(_)) && self.is_by_approximations(build, &rest)? {
                        examined.left_open.push((n, APPROXIMATIONS));
                        continue;
                    }
                    if matches!(wrong, Wrong::Stopped(Failure::TimedOut(_))) {
                        match self.endless(build, &rest)? {
                            Ok(Some(name)) => {
                                examined.known.push((n, name.to_owned()));
                                continue;
                            }
                            Ok(None) => {}
                            Err(error) => note = Some(format!("its machine code cannot be read: {error}")),
                        }
                    }
                    left.push(Left { build: n, case: rest, wrong, note });
                }
                None if names.is_empty() => {
                    let note = "only where it is assembled and run with other kernels of its module";
                    left.push(Left { build: n, case: rest, wrong, note: Some(note.to_owned()) });
                }
                None => examined.known.push((n, names.join(" or "))),
            }
        }
        while let Some(first) = left.first() {
            let key = (kind(&first.wrong), first.note.clone());
            let same = |other: &Left| (kind(&other.wrong), other.note.clone()) == key;
            let (alike, others): (Vec<Left>, Vec<Left>) = left.into_iter().partition(same);
            examined.findings.extend(finding(alike));
            left = others;
        }
        Ok(examined)
    }

    /// Whether a kernel agrees with a build when no compiler knows the operands of its approximations.
    fn is_by_approximations(&self, build: &Build, case: &Case) -> Result<bool, CampaignError> {
        let Some(text) = with_opaque_approximations(&case.text) else { return Ok(false) };
        // The same results by PTX; another text would show nothing.
        let Ok(expected) = outputs(&text, case.seed) else { return Ok(false) };
        if expected != case.expected {
            return Ok(false);
        }
        let opaque = Case::new(case.seed, text, expected, self.target);
        Ok(self.alone(build, &opaque)?.is_none())
    }

    /// The known miscompile that keeps a kernel from ending, if its machine code has the structure of one.
    fn endless(
        &self,
        build: &Build,
        case: &Case,
    ) -> Result<Result<Option<&'static str>, DisassembleError>, CampaignError> {
        let (Some(disassembler), Build::Ptxas(toolkit, level)) = (&self.disassembler, build) else {
            return Ok(Ok(None));
        };
        let Ok(cubin) = self.assembler.assemble(toolkit, self.target, *level, &case.text)? else {
            return Ok(Ok(None));
        };
        Ok(disassembler.listing(&cubin, DISASSEMBLY_LIMIT).map(|listing| {
            let places = structures(&listing);
            let names = places.iter().flat_map(|place| place.structure.miscompiles());
            names.filter_map(|name| by_name(name)).find(|m| m.hangs).map(|m| m.name.as_str())
        }))
    }

    /// A kernel without the instructions that have known miscompiles with a build; `None` if the emulator refuses it.
    fn rest(&self, case: &Case, build: &Build) -> Option<Case> {
        let mut text = case.text.clone();
        for _ in 0..ROUNDS {
            let tree = ptx::parse(&text).ok()?;
            let places: Vec<ptx::Span> = find(&tree)
                .into_iter()
                .filter(|f| f.miscompile.affects_target(self.target) && build.has(f.miscompile))
                .map(|f| f.span)
                .collect();
            if places.is_empty() {
                break;
            }
            text = without(&tree, &places).to_string();
        }
        let expected = outputs(&text, case.seed).ok()?;
        Some(Case::new(case.seed, text, expected, self.target))
    }

    /// Makes the kernels of the first findings smaller, all at the same time, as far as [`Campaign::shrink_limit`] lets it: once all kernels have
    /// run, so that none waits for it. Those that do not end on the GPU come last: each try holds it for as long as a launch may take.
    pub(super) fn smaller(&self, findings: Vec<Finding>, most: usize) -> Result<Vec<Finding>, CampaignError> {
        let until = Instant::now() + self.shrink_limit;
        let mut findings = findings;
        for ends in [true, false] {
            findings = findings
                .into_par_iter()
                .enumerate()
                .map(|(n, finding)| match n < most && finding.ends == ends {
                    true => self.small(finding, until),
                    false => Ok(finding),
                })
                .collect::<Result<_, _>>()?;
        }
        Ok(findings)
    }

    /// A finding with the smallest kernel that is wrong in the same way with its first build. It stays as it is where the kernel is right when it is
    /// assembled alone, and where the emulator disagrees with itself.
    fn small(&self, finding: Finding, until: Instant) -> Result<Finding, CampaignError> {
        let Some(build) = finding.builds.first().map(|build| &self.builds[*build]) else {
            return Ok(finding);
        };
        if Instant::now() >= until {
            return Ok(finding);
        }
        let case = Case::new(finding.seed, finding.kernel.clone(), finding.expected.clone(), self.target);
        let Some(wrong) = self.alone(build, &case)? else { return Ok(finding) };
        let is_same = kind(&wrong);
        let last = RefCell::new((case, wrong));
        let failed = RefCell::new(None);
        shrink(&finding.kernel, |text| {
            if Instant::now() >= until || failed.borrow().is_some() {
                return false;
            }
            let Ok(expected) = check(text, finding.seed) else { return false };
            let candidate = Case::new(finding.seed, text.to_owned(), expected, self.target);
            if !candidate.known_with(build).is_empty() {
                return false;
            }
            match self.alone(build, &candidate) {
                Ok(Some(wrong)) if kind(&wrong) == is_same => {
                    *last.borrow_mut() = (candidate, wrong);
                    true
                }
                Ok(_) => false,
                Err(error) => {
                    *failed.borrow_mut() = Some(error);
                    false
                }
            }
        });
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let (small, wrong) = last.into_inner();
        Ok(found(small, wrong, finding.builds))
    }
}

/// The finding of builds that are wrong in the same way.
fn finding(alike: Vec<Left>) -> Option<Finding> {
    let builds: Vec<usize> = alike.iter().map(|left| left.build).collect();
    let Left { case, wrong, note, .. } = alike.into_iter().next()?;
    let mut finding = found(case, wrong, builds);
    if let Some(note) = note {
        finding.what.push_str(&format!("; {note}"));
    }
    Some(finding)
}

fn found(case: Case, wrong: Wrong, builds: Vec<usize>) -> Finding {
    let what = in_words(&wrong, &case.expected);
    let ends = !matches!(wrong, Wrong::Stopped(_));
    let got = match wrong {
        Wrong::Differs(got) => Some(got),
        _ => None,
    };
    Finding { seed: case.seed, what, builds, kernel: case.text, expected: case.expected, ends, got }
}

/// What stays the same while a kernel is made smaller.
fn kind(wrong: &Wrong) -> (std::mem::Discriminant<Wrong>, String) {
    let detail = match wrong {
        Wrong::NotAssembled(Failed::Rejects(message) | Failed::TooOld(message)) => {
            message.split_once("error   :").map_or(message.as_str(), |(_, m)| m).to_owned()
        }
        Wrong::NotAssembled(Failed::Crashes(_)) => "crashes".to_owned(),
        Wrong::NotAssembled(Failed::Hangs) => "hangs".to_owned(),
        Wrong::Stopped(failure) => word(failure).to_owned(),
        Wrong::Differs(_) => String::new(),
    };
    (std::mem::discriminant(wrong), detail)
}

fn word(failure: &Failure) -> &'static str {
    match failure {
        Failure::Trap { .. } => "writes outside of its buffers",
        Failure::TimedOut(_) => "does not end",
        Failure::Crashed(_) => "crashes",
        Failure::Unsupported(_) => "is not loaded",
        Failure::Launch(_) => "is not launched",
        Failure::Broken(_) | Failure::DeviceLost(_) => "fails",
    }
}

/// What is wrong, in words.
fn in_words(wrong: &Wrong, expected: &[u8]) -> String {
    match wrong {
        Wrong::NotAssembled(failed) => failed.to_string(),
        Wrong::Stopped(failure) => format!("{} on the GPU: {failure}", word(failure)),
        Wrong::Differs(got) => {
            let differing = got.chunks(4).zip(expected.chunks(4)).filter(|(a, b)| a != b).count();
            let at = first_difference(got, expected).unwrap_or_default();
            let value = |bytes: &[u8]| {
                let word = bytes.get(at / 4 * 4..at / 4 * 4 + 4).and_then(|w| <[u8; 4]>::try_from(w).ok());
                word.map_or_else(String::new, |word| format!("{:#010x}", u32::from_le_bytes(word)))
            };
            let (got, wanted) = (value(got), value(expected));
            format!("{differing} words differ, first {}: the word is {got}, and {wanted} by PTX", place(at))
        }
    }
}
