//! Readings of a trial's kernels: PTX leaves open whether an unqualified product and the sum that uses it round once. Reports what
//! depends on it.

use std::collections::BTreeSet;

use emulator::{Contraction, Programs};

use super::compile::Compiled;
use super::{Memo, TrialError};
use crate::frame::family::Outcome;
use record::{StageName, StageResult, Verdict};
use toolchain::store::Store;
use toolchain::toolkit::{self, FpContract, Toolkit};

/// The reading of a run of trials.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The reading.
    pub contract: FpContract,
    /// The ptxas that [`FpContract::AsPtxas`] follows.
    pub ptxas: Option<Toolkit>,
}

/// The kernels of a trial in the requested reading.
pub(super) struct Readings {
    /// The reading that runs.
    pub(super) memo: Memo,
    /// Another reading that PTX allows; `None` if nothing is open.
    pub(super) other: Option<Memo>,
    /// The reading in one sentence.
    pub(super) remark: String,
}

impl Readings {
    /// Decodes every kernel in the requested reading.
    ///
    /// # Errors
    /// [`TrialError::Contraction`], and [`TrialError::Reading`] if a kernel cannot be decoded in a reading.
    pub(super) fn from_compiled(
        compiled: &Compiled<'_>,
        asked: &Asked,
        store: Option<&Store>,
    ) -> Result<Self, TrialError> {
        let (chosen, separate, every) = (Programs::default(), Programs::default(), Programs::default());
        let (mut pairs, mut contracted) = (0, 0);
        let mut version = None;
        let texts: BTreeSet<(&str, &str)> =
            compiled.kernels.iter().map(|(kernel, ptx)| (ptx.as_str(), kernel.entry.as_str())).collect();
        for (ptx, entry) in texts {
            // A kernel that cannot be decoded reports the reason when a device loads it.
            let Ok(program) = emulator::load_only(ptx, &[entry]) else { continue };
            let reading = toolkit::reading(asked.contract, ptx, &[entry], asked.ptxas.as_ref(), store)?;
            let (all, once) = match reading.by {
                Some((by, chosen, pairs)) => {
                    version = Some(by);
                    (pairs, chosen)
                }
                None => {
                    let all = program.pairs().map_or(0, |pairs| pairs.len());
                    (all, if asked.contract == FpContract::On { all } else { 0 })
                }
            };
            (pairs, contracted) = (pairs + all, contracted + once);
            let readings = [
                (&chosen, &reading.contraction),
                (&every, &Contraction::Every),
                (&separate, &Contraction::Separate),
            ];
            for (programs, contraction) in readings {
                let read = program.contracted(contraction);
                programs.set(ptx, read.map_err(|stop| TrialError::Reading(entry.to_owned(), stop))?);
            }
        }
        let by = version.map_or_else(String::new, |version| format!(" {version}"));
        let word = asked.contract.word();
        let remark = match pairs {
            0 => format!(
                "--contract {word}{by}: PTX leaves no product and sum of these kernels open, so every choice gives the same result"
            ),
            _ => format!(
                "--contract {word}{by}: {contracted} of {pairs} pairs of a product and a sum round once"
            ),
        };
        let other = (pairs > 0).then(|| Memo::with(if contracted == 0 { every } else { separate }));
        Ok(Self { memo: Memo::with(chosen), other, remark })
    }
}

/// Returns the verdicts of the requested reading, and a sentence on the stages that are `differing` in the other reading. A stage
/// that conforms in only one of them is wrong: its correctness must not depend on the assembler's choice.
pub(super) fn compared(
    chosen: Outcome,
    other: &Outcome,
    differing: &[StageName],
) -> (Vec<StageResult>, String) {
    let mut stages = chosen.stages;
    for result in &mut stages {
        let Some(there) = other.stages.iter().find(|r| r.stage == result.stage) else { continue };
        let (here, there_conforms) = (result.verdict.conforms(), there.verdict.conforms());
        if here == there_conforms && !differing.contains(&result.stage) {
            continue;
        }
        let mut note = format!("{UNDETERMINED}: the stored values depend on whether mul and add round once");
        if here != there_conforms {
            note = format!(
                "{note}; {} with this choice, {} with the other",
                result.verdict.word(),
                there.verdict.word()
            );
            if here {
                *result = StageResult { verdict: Verdict::Fail, ..there.clone() };
            }
        }
        result.note = if result.note.is_empty() { note } else { format!("{note}; {}", result.note) };
    }
    let words: Vec<&str> = differing.iter().map(StageName::text).collect();
    let dependent = match words.as_slice() {
        [] => "; every stage stores the same bits with the other choice".to_owned(),
        words => format!("; {UNDETERMINED}: the values stored by {}", words.join(", ")),
    };
    (stages, dependent)
}

/// What depends on the reading.
const UNDETERMINED: &str = "undetermined by PTX";
