//! Judges attention of a host program as `sm121probe judge` does: its buffers become the tensors of a dump.

use std::collections::HashMap;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use sm121probe::attention::{self, dump};
use sm121probe::frame::effort::Effort;
use sm121probe::record::Verdict;

use super::replay::Buffers;

/// A tensor of a dump: its name (docs/attention.md), type, shape and contents.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: &'static str,
    pub(crate) element: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) contents: Contents,
}

/// The bytes of a tensor.
#[derive(Clone)]
pub(crate) enum Contents {
    /// Those of a buffer.
    Of(&'static str),
    /// Those that a reference derives from buffers, or that only the host code knows.
    Made(Vec<u8>),
}

/// A tensor whose buffer has its name.
pub(crate) fn tensor(name: &'static str, element: Dtype, shape: Vec<usize>) -> Tensor {
    stored(name, element, shape, name)
}

/// A tensor whose buffer has another name.
pub(crate) fn stored(name: &'static str, element: Dtype, shape: Vec<usize>, buffer: &'static str) -> Tensor {
    Tensor { name, element, shape, contents: Contents::Of(buffer) }
}

/// A tensor that no buffer holds.
pub(crate) fn made(name: &'static str, element: Dtype, shape: Vec<usize>, bytes: Vec<u8>) -> Tensor {
    Tensor { name, element, shape, contents: Contents::Made(bytes) }
}

/// The tensors that a kernel computes: they are read after the last launch, all others before the first.
const RESULTS: &[&str] = &["out", "o", "lse"];

/// The bytes of the dump of these tensors and metadata.
fn dump_bytes(
    buffers: &Buffers,
    tensors: &[Tensor],
    metadata: &[(&'static str, &'static str)],
) -> Result<Vec<u8>, String> {
    let mut views = Vec::new();
    for Tensor { name, element, shape, contents } in tensors {
        let bytes = match contents {
            Contents::Made(bytes) => bytes,
            Contents::Of(buffer) if RESULTS.contains(name) => buffers.bytes_after(buffer),
            Contents::Of(buffer) => buffers.bytes_before(buffer),
        };
        let view = TensorView::new(*element, shape.clone(), bytes);
        views.push((*name, view.map_err(|error| format!("tensor `{name}`: {error}"))?));
    }
    let mut all: HashMap<String, String> =
        metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    all.insert("family".to_owned(), "attention".to_owned());
    safetensors::serialize(views, Some(all)).map_err(|error| error.to_string())
}

/// Returns the largest error in units of its bound.
///
/// # Errors
/// The first wrong element and what explains it, or what is not decided.
pub(crate) fn judged(
    buffers: &Buffers,
    tensors: &[Tensor],
    metadata: &[(&'static str, &'static str)],
) -> Result<f64, String> {
    let bytes = dump_bytes(buffers, tensors, metadata)?;
    let contents = dump::contents(&bytes).map_err(|error| error.to_string())?;
    let judgement = attention::judge_contents(&contents, Effort::Every).map_err(|error| error.to_string())?;
    let mut worst = 0.0f64;
    for result in &judgement.results {
        if result.verdict != Verdict::Pass {
            let why =
                judgement.diagnosis.as_ref().map(|found| format!(" ({})", found.text())).unwrap_or_default();
            return Err(format!("{} {:?}: {}{why}", result.stage, result.verdict, result.note));
        }
        worst = worst.max(result.worst_over_bound);
    }
    match judgement.gaps.as_slice() {
        [] => Ok(worst),
        gaps => Err(gaps.join("; ")),
    }
}
