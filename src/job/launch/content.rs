//! The initial content of buffers: generated, or read from files, each of which is read once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};

use emulator::argument::{self, Content, Shape};
use safetensors::tensor::SafeTensors;

use super::dtypes::element;
use super::error::LaunchError;
use super::session::{Buffer, Initial, check_memory};

/// A cache of the files that have been read.
#[derive(Debug, Default)]
pub(super) struct Files(HashMap<PathBuf, Vec<u8>>);

impl Files {
    /// Returns the bytes of a file.
    pub(super) fn bytes(&mut self, path: &Path) -> Result<&[u8], LaunchError> {
        Ok(match self.0.entry(path.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let bytes =
                    fs::read(path).map_err(|source| LaunchError::Read { path: path.to_owned(), source })?;
                new.insert(bytes)
            }
        })
    }

    /// Returns the sorted names of the tensors in a safetensors file.
    pub(super) fn tensors(&mut self, path: &Path) -> Result<Vec<String>, LaunchError> {
        let failed = |error: safetensors::SafeTensorError| LaunchError::Tensor {
            path: path.to_owned(),
            why: error.to_string(),
        };
        let file = SafeTensors::deserialize(self.bytes(path)?).map_err(failed)?;
        let mut names: Vec<String> = file.names().into_iter().map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns shape and bytes of a tensor in a safetensors file.
    pub(super) fn tensor(&mut self, path: &Path, tensor: &str) -> Result<(Shape, Vec<u8>), LaunchError> {
        let failed = |why: String| LaunchError::Tensor { path: path.to_owned(), why };
        let file = SafeTensors::deserialize(self.bytes(path)?).map_err(|error| failed(error.to_string()))?;
        let view = file.tensor(tensor).map_err(|_| {
            let mut names = file.names();
            names.sort_unstable();
            failed(format!("there is no tensor `{tensor}`; the tensors are: {}", names.join(", ")))
        })?;
        let element = element(view.dtype())
            .ok_or_else(|| failed(format!("`{tensor}` has elements of {:?}", view.dtype())))?;
        let data = view.data().to_vec();
        if data.is_empty() {
            return Err(failed(format!("`{tensor}` is empty")));
        }
        Ok((Shape { element, dims: view.shape().to_vec(), bytes: data.len() }, data))
    }
}

/// Adds a buffer with this content.
///
/// # Errors
/// [`LaunchError::Twice`] if the name is in use, [`LaunchError::Memory`] if memory does not suffice; an unusable file.
pub(super) fn add(
    buffers: &mut Vec<Buffer>,
    name: String,
    content: Content,
    files: &mut Files,
) -> Result<(), LaunchError> {
    if buffers.iter().any(|b| b.name == name) {
        return Err(LaunchError::Twice(name));
    }
    let (shape, initial) = match content {
        Content::File { path, tensor } => {
            let (shape, bytes) = files.tensor(&path, &tensor)?;
            check_memory(buffers, shape.bytes)?;
            (shape, Initial::Bytes(bytes))
        }
        Content::Unwritten(shape) => {
            check_memory(buffers, shape.bytes)?;
            (shape, Initial::Unwritten)
        }
        Content::Zeros(ref shape) | Content::Iota(ref shape) | Content::Random(_, ref shape) => {
            // Data are generated only if they fit into memory.
            check_memory(buffers, shape.bytes)?;
            let bytes = match content {
                Content::Random(seed, _) => argument::random(seed, shape),
                Content::Iota(_) => argument::iota(shape),
                _ => vec![0; shape.bytes],
            };
            (shape.clone(), Initial::Bytes(bytes))
        }
    };
    buffers.push(Buffer { name, shape, initial, address: None, unwritten: Vec::new(), scratch: false });
    Ok(())
}
