//! Locates the tensors of a checkpoint: reads the headers of its safetensors files, and the index of a sharded one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use serde::Deserialize;

use super::CheckpointError;
use toolchain::near;

/// A larger header is invalid; gpt-oss-120b's has less than 100 kB.
const HEADER_LIMIT: u64 = 100 << 20;

/// A tensor in a file.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Its name.
    pub(super) name: String,
    /// The file.
    pub(super) path: PathBuf,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// Its first byte in the file.
    pub(super) start: u64,
    pub(super) bytes: u64,
}

/// The index of a sharded checkpoint.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// A tensor's entry in a header.
#[derive(Deserialize)]
struct Described {
    dtype: Dtype,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// A checkpoint's tensors by name, each with its file.
pub(super) struct Files {
    path: PathBuf,
    files: BTreeMap<String, PathBuf>,
}

impl Files {
    /// The names of one file, or of an index.
    pub(super) fn open(path: &Path) -> Result<Self, CheckpointError> {
        let files = if path.extension().is_some_and(|e| e == "json") {
            let text = fs::read_to_string(path)
                .map_err(|source| CheckpointError::File { path: path.to_owned(), source })?;
            let index: Index = serde_json::from_str(&text).map_err(|error| CheckpointError::Format {
                path: path.to_owned(),
                message: format!("not the index of a sharded checkpoint: {error}"),
            })?;
            let folder = path.parent().unwrap_or(Path::new("."));
            index.weight_map.into_iter().map(|(name, file)| (name, folder.join(file))).collect()
        } else {
            read(path)?.into_keys().map(|name| (name, path.to_owned())).collect()
        };
        Ok(Self { path: path.to_owned(), files })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// The tensors of these names; the header of each file is read once.
    pub(super) fn entries(&self, names: &[String]) -> Result<BTreeMap<String, Entry>, CheckpointError> {
        let mut headers: BTreeMap<&Path, BTreeMap<String, Entry>> = BTreeMap::new();
        let mut out = BTreeMap::new();
        for name in names {
            let path = self.files.get(name).ok_or_else(|| self.missing(&self.path, name))?;
            if !headers.contains_key(path.as_path()) {
                headers.insert(path, read(path)?);
            }
            // An index may list a tensor that the file does not contain.
            let entry = headers.get(path.as_path()).and_then(|header| header.get(name)).cloned();
            out.insert(name.clone(), entry.ok_or_else(|| self.missing(path, name))?);
        }
        Ok(out)
    }

    /// The error that no tensor is called `name`.
    fn missing(&self, path: &Path, name: &str) -> CheckpointError {
        // From the same layer if there is one: another layer's tensor of that name does not help.
        let layer = name.split_once(".mlp.").map_or("", |(layer, _)| layer);
        let own = self.names().filter(|n| n.starts_with(layer) && n[layer.len()..].starts_with('.'));
        let nearest = near::nearest(name, own).or_else(|| near::nearest(name, self.names()));
        let nearest = nearest.map_or("none".to_owned(), |n| format!("`{n}`"));
        CheckpointError::Missing { path: path.to_owned(), name: name.to_owned(), nearest }
    }
}

impl Entry {
    /// Whether it is of one of these types.
    pub(super) fn typed(
        &self,
        types: &[Dtype],
        layout: &'static str,
        wanted: &'static str,
    ) -> Result<(), CheckpointError> {
        if types.contains(&self.dtype) {
            return Ok(());
        }
        let (path, name) = (self.path.clone(), self.name.clone());
        Err(CheckpointError::Type { path, name, found: format!("{:?}", self.dtype), layout, wanted })
    }

    /// Its bytes, or those of one of `count` equal parts.
    pub(super) fn read(&self, part: Option<(usize, usize)>) -> Result<Vec<u8>, CheckpointError> {
        let failed = |source: io::Error| CheckpointError::File { path: self.path.clone(), source };
        let (first, bytes) = part.map_or((0, self.bytes), |(at, count)| {
            let each = self.bytes / count.max(1) as u64;
            (at as u64 * each, each)
        });
        let mut file = File::open(&self.path).map_err(failed)?;
        file.seek(SeekFrom::Start(self.start + first)).map_err(failed)?;
        let mut out = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        file.read_exact(&mut out).map_err(failed)?;
        Ok(out)
    }

    /// As [`Entry::read`], of bf16 or f32.
    pub(super) fn floats(&self, part: Option<(usize, usize)>) -> Result<Vec<f32>, CheckpointError> {
        let bytes = self.read(part)?;
        Ok(if self.dtype == Dtype::BF16 {
            // A bf16 is the upper half of an f32.
            let wide = |b: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
            bytes.as_chunks().0.iter().map(wide).collect()
        } else {
            bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
        })
    }

    /// The error that its shape is wrong.
    pub(super) fn shaped(&self, wanted: &str, why: &str) -> CheckpointError {
        let said = format!("is {:?}; expected {wanted} ({why})", self.shape);
        CheckpointError::Shape { path: self.path.clone(), name: self.name.clone(), said }
    }
}

/// Reads the tensors of one file from its header; of the data, only the size is checked.
fn read(path: &Path) -> Result<BTreeMap<String, Entry>, CheckpointError> {
    let failed = |source| CheckpointError::File { path: path.to_owned(), source };
    let damaged = |message: String| CheckpointError::Format { path: path.to_owned(), message };
    let mut file = File::open(path).map_err(failed)?;
    let all = file.seek(SeekFrom::End(0)).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let mut length = [0; 8];
    let short =
        |_| damaged(format!("not a safetensors file, or truncated: it has {all} bytes; fetch it again"));
    file.read_exact(&mut length).map_err(short)?;
    let length = u64::from_le_bytes(length);
    if length > HEADER_LIMIT || length > all - 8 {
        return Err(damaged(format!(
            "not a safetensors file, or truncated: its header would have {length} bytes of {all}; fetch it again"
        )));
    }
    let mut text = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    file.read_exact(&mut text).map_err(failed)?;
    let no_header = |error: serde_json::Error| damaged(format!("its header cannot be read: {error}"));
    let header: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&text).map_err(no_header)?;
    let mut out = BTreeMap::new();
    for (name, value) in header {
        if name == "__metadata__" {
            continue;
        }
        let of =
            |error: serde_json::Error| damaged(format!("its header cannot be read at `{name}`: {error}"));
        let Described { dtype, shape, data_offsets: (first, end) } =
            Described::deserialize(value).map_err(of)?;
        let bits = shape.iter().try_fold(dtype.bitsize() as u64, |n, size| n.checked_mul(*size as u64));
        if end < first || bits != (end - first).checked_mul(8) {
            return Err(damaged(format!(
                "`{name}` is {dtype:?} {shape:?}, but its header gives it bytes {first} to {end}; fetch it again"
            )));
        }
        let start = 8 + length + first;
        if 8 + length + end > all {
            let needs = 8 + length + end;
            return Err(damaged(format!(
                "truncated: `{name}` ends at byte {needs}, but the file has {all}; fetch it again"
            )));
        }
        let entry =
            Entry { name: name.clone(), path: path.to_owned(), dtype, shape, start, bytes: end - first };
        out.insert(name, entry);
    }
    Ok(out)
}
