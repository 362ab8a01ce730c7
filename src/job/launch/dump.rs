//! Writes all buffers of an outcome to a safetensors file.

use std::path::Path;

use safetensors::tensor::TensorView;

use super::dtypes::dtype;
use super::error::LaunchError;
use super::run::Outcome;
use super::session::Session;
use crate::record::write_atomic;

impl Session {
    /// Writes all buffers, scratch included.
    ///
    /// # Errors
    /// [`LaunchError::Dump`] if the file cannot be written.
    pub fn dump(&self, outcome: &Outcome, path: &Path) -> Result<(), LaunchError> {
        let failed = |why: String| LaunchError::Dump { path: path.to_owned(), why };
        let mut views = Vec::new();
        let contents: Vec<_> = (0..self.buffers.len()).map(|n| outcome.bytes(n)).collect();
        for (buffer, bytes) in self.buffers.iter().zip(&contents) {
            let (element, dims) = (buffer.shape.element, buffer.shape.dims.clone());
            let view = TensorView::new(dtype(element), dims, bytes);
            views.push((buffer.name.clone(), view.map_err(|error| failed(error.to_string()))?));
        }
        let bytes = safetensors::serialize(views, None).map_err(|error| failed(error.to_string()))?;
        write_atomic(path, &bytes).map_err(|error| failed(error.to_string()))
    }
}
