//! Checks the batches: judges every cell both ways and compares.

use std::time::Duration;

use super::job::{Figures, MatrixError, Options, run};
use super::plan::Plan;
use crate::event::Sink;
use crate::snippet::Library;
use crate::toolkit::Toolkit;
use record::{Cell, Record};

/// A cell on which the batch and the isolated run disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `<variant> <toolkit> <target> <arch>`.
    pub cell: String,
    /// Outcome and message of the batch.
    pub batch: String,
    /// Outcome and message of the isolated process.
    pub isolated: String,
}

/// The outcome of the check.
#[derive(Debug, Clone)]
pub struct Verification {
    /// Cells compared.
    pub cells: usize,
    /// The cells that disagree.
    pub differences: Vec<Difference>,
    /// Cost of the batches, without the cache.
    pub batch: Figures,
    /// Cost of one process per cell.
    pub isolated: Figures,
}

impl Verification {
    /// How many times faster the batches reached their verdicts.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.isolated.verdicts.as_secs_f64() / self.batch.verdicts.max(Duration::from_millis(1)).as_secs_f64()
    }
}

/// Assembles every planned cell in a batch and alone, without the cache and without disassembly, and compares outcome and
/// message.
///
/// # Errors
/// As for [`run`].
pub fn verify(
    library: &Library,
    plan: &Plan,
    toolkits: &[&Toolkit],
    options: &Options,
    sink: &dyn Sink,
) -> Result<Verification, MatrixError> {
    let both =
        |isolated| run(library, plan, toolkits, None, None, &Options { isolated, ..options.clone() }, sink);
    let (batch_record, batch) = both(false)?;
    let (isolated_record, isolated) = both(true)?;
    let differences = compare(&batch_record, &isolated_record);
    Ok(Verification { cells: plan.cells(), differences, batch, isolated })
}

fn compare(batch: &Record, isolated: &Record) -> Vec<Difference> {
    let words = |cell: Option<Cell<'_>>| {
        cell.map_or_else(String::new, |c| {
            format!("{} {}", c.outcome.word(), c.message.map_or("", |m| m.text.as_str()))
        })
    };
    let (left, right) = (&batch.matrix, &isolated.matrix);
    let mut out = Vec::new();
    for (b, i) in left.variants.iter().zip(&right.variants) {
        for (p, pair) in left.pairs.iter().enumerate() {
            let (batch, isolated) = (words(left.cell(b, p)), words(right.cell(i, p)));
            if batch != isolated {
                let cell = format!("{} {} {} {}", b.id, pair.toolkit, pair.target, pair.arch);
                out.push(Difference { cell, batch, isolated });
            }
        }
    }
    out
}
