//! Judges tensors of attention: those of a dump, in memory.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sm121probe::attention::{self, dump};
use sm121probe::frame::effort::Effort;
use sm121probe::record::Verdict;

/// Judges a dump of attention, the bytes of a safetensors file. Returns the verdict as JSON (`wrong`, `text`, `gaps`), or an error.
#[pyfunction]
pub(crate) fn judge_attention(py: Python<'_>, file: Vec<u8>) -> (Option<String>, Option<String>) {
    let judged = py.detach(|| attention::judge_contents(&dump::contents(&file)?, Effort::UntilWrong));
    match judged {
        Ok(judgement) => {
            let results = judgement.results.iter();
            let wrong = results.clone().any(|result| result.verdict == Verdict::Fail);
            let mut text = sm121probe::report::stages_text(&judgement.results);
            text.extend(judgement.diagnosis.iter().map(sm121probe::frame::diagnosis::Diagnosis::text));
            let verdict = serde_json::json!({
                "wrong": wrong,
                "judged": results.filter(|result| result.verdict != Verdict::Skipped).count(),
                "text": text,
                "gaps": judgement.gaps,
                "diagnosis": judgement.diagnosis,
            });
            (Some(verdict.to_string()), None)
        }
        Err(error) => (None, Some(error.to_string())),
    }
}

/// Returns the exact result and the bound of each element of a dump of attention, and of each logarithm (base 2, without and with the
/// sink): the shape [rows, heads, elements], and pairs of f64, or an error. A bound is infinite where an element may have any value.
#[expect(clippy::type_complexity, reason = "a shape, two arrays and an error, taken apart by the package")]
#[pyfunction]
pub(crate) fn attention_bound(
    py: Python<'_>,
    file: Vec<u8>,
) -> (Option<([usize; 3], Py<PyBytes>, Py<PyBytes>)>, Option<String>) {
    match py.detach(|| attention::bounds(&dump::parse(&file)?)) {
        Ok(bounds) => {
            let bytes = |pairs: &[(f64, f64)]| {
                let all = pairs.iter().flat_map(|(value, error)| [*value, *error]).flat_map(f64::to_le_bytes);
                PyBytes::new(py, &all.collect::<Vec<u8>>()).unbind()
            };
            (Some((bounds.shape, bytes(&bounds.output), bytes(&bounds.lse))), None)
        }
        Err(error) => (None, Some(error.to_string())),
    }
}
