//! Reads and writes the dump format: a safetensors file of any subset of the tensors, with metadata.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::{fs, io};

use safetensors::{Dtype, SafeTensors};

use super::{Form, Tensors};
use crate::moe::contract;
use crate::moe::error::MoeError;
use toolchain::store;

/// The maximum file size: two layers of the largest model.
const SIZE_LIMIT: u64 = 16 << 30;

/// A dump.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dump {
    /// Its tensors.
    pub tensors: Tensors,
    /// Its metadata.
    pub metadata: BTreeMap<String, String>,
}

/// Reads a dump: any subset of the tensors, with strict names and types, and consistent shapes.
///
/// # Errors
/// [`MoeError`] with the file, the tensor and the expectation.
pub fn read(path: &Path) -> Result<Dump, MoeError> {
    let failed = |source: io::Error| MoeError::File { path: path.to_owned(), source };
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes > SIZE_LIMIT {
        let what = path.display().to_string();
        return Err(MoeError::TooLarge { what, bytes: bytes.into(), limit: SIZE_LIMIT.into() });
    }
    parse(path, &fs::read(path).map_err(failed)?)
}

/// Reads a dump from `bytes`; `path` is its name in errors.
///
/// # Errors
/// As [`read`].
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Dump, MoeError> {
    let damaged = |error: safetensors::SafeTensorError| MoeError::Format {
        path: path.to_owned(),
        message: error.to_string(),
    };
    let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    let metadata: BTreeMap<String, String> =
        header.metadata().clone().unwrap_or_default().into_iter().collect();
    if let Some(key) = metadata.keys().find(|key| !contract::KEYS.contains(&key.as_str())) {
        return Err(MoeError::Key {
            path: path.to_owned(),
            key: key.clone(),
            hint: contract::KEYS.join(", "),
        });
    }
    let mut tensors = Tensors::default();
    let mut names = file.names();
    names.sort_unstable();
    for name in names {
        let view = file.tensor(name).map_err(damaged)?;
        let Some(form) = Tensors::FORMS.iter().find(|f| f.name == name) else {
            let known: Vec<&str> = Tensors::FORMS.iter().map(|f| f.name).collect();
            return Err(MoeError::Name {
                path: path.to_owned(),
                name: name.to_owned(),
                hint: known.join(", "),
            });
        };
        if view.dtype() != form.dtype {
            return Err(MoeError::Type {
                path: path.to_owned(),
                name: form.name,
                found: format!("{:?}", view.dtype()),
                wanted: word(form.dtype),
            });
        }
        tensors.set(form.name, view.shape().to_vec(), view.data());
    }
    if tensors == Tensors::default() {
        let message = "it has no tensor".to_owned();
        return Err(MoeError::Format { path: path.to_owned(), message });
    }
    tensors.dims(contract::pair_of(&metadata)?)?;
    Ok(Dump { tensors, metadata })
}

/// Writes a dump tensor by tensor, without a second copy in memory.
///
/// # Errors
/// [`MoeError::File`] if the file cannot be written; [`MoeError::Shape`] if tensors contradict each other.
pub fn write(path: &Path, tensors: &Tensors, metadata: &BTreeMap<String, String>) -> Result<(), MoeError> {
    tensors.dims(contract::pair_of(metadata)?)?;
    let views: Vec<(&str, View<'_>)> = tensors.views().into_iter().map(|v| (v.name, v)).collect();
    let metadata: HashMap<String, String> = metadata.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    safetensors::serialize_to_file(views, Some(metadata), path).map_err(|error| {
        let source = match error {
            safetensors::SafeTensorError::IoError(source) => source,
            other => io::Error::other(other.to_string()),
        };
        MoeError::File { path: path.to_owned(), source }
    })
}

const fn word(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::BF16 => "BF16",
        Dtype::F32 => "F32",
        Dtype::I32 => "I32",
        _ => "U8",
    }
}

/// Elements of any type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Elements<'a> {
    Byte(&'a [u8]),
    Half(&'a [u16]),
    Int(&'a [i32]),
    Single(&'a [f32]),
}

/// An element type of tensors.
pub(super) trait Element: Sized {
    fn elements(data: &[Self]) -> Elements<'_>;
    fn read(bytes: &[u8]) -> Vec<Self>;
}

impl Element for u8 {
    fn elements(data: &[Self]) -> Elements<'_> {
        Elements::Byte(data)
    }
    fn read(bytes: &[u8]) -> Vec<Self> {
        bytes.to_vec()
    }
}

impl Element for u16 {
    fn elements(data: &[Self]) -> Elements<'_> {
        Elements::Half(data)
    }
    fn read(bytes: &[u8]) -> Vec<Self> {
        bytes.as_chunks().0.iter().map(|b| Self::from_le_bytes(*b)).collect()
    }
}

impl Element for i32 {
    fn elements(data: &[Self]) -> Elements<'_> {
        Elements::Int(data)
    }
    fn read(bytes: &[u8]) -> Vec<Self> {
        bytes.as_chunks().0.iter().map(|b| Self::from_le_bytes(*b)).collect()
    }
}

impl Element for f32 {
    fn elements(data: &[Self]) -> Elements<'_> {
        Elements::Single(data)
    }
    fn read(bytes: &[u8]) -> Vec<Self> {
        bytes.as_chunks().0.iter().map(|b| Self::from_le_bytes(*b)).collect()
    }
}

/// A tensor for writing.
pub(super) struct View<'a> {
    name: &'static str,
    dtype: Dtype,
    shape: &'a [usize],
    elements: Elements<'a>,
}

impl<'a> View<'a> {
    pub(super) const fn new(shape: &'a [usize], elements: Elements<'a>) -> Self {
        Self { name: "", dtype: Dtype::U8, shape, elements }
    }

    pub(super) const fn called(mut self, form: &Form) -> Self {
        (self.name, self.dtype) = (form.name, form.dtype);
        self
    }
}

/// SHA-256 of names, shapes and bytes; `None` if there are more than `limit` bytes.
pub(super) fn digest(views: &[View<'_>], limit: usize) -> Option<String> {
    use safetensors::View as _;
    if views.iter().map(|v| v.data_len()).sum::<usize>() > limit {
        return None;
    }
    let mut bytes = Vec::new();
    for view in views {
        bytes.extend(format!("{} {:?}\0", view.name, view.shape).into_bytes());
        bytes.extend_from_slice(&view.data());
    }
    Some(store::sha256(&bytes))
}

impl safetensors::View for View<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self.elements {
            Elements::Byte(data) => Cow::Borrowed(data),
            Elements::Half(data) => data.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::Int(data) => data.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::Single(data) => data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    fn data_len(&self) -> usize {
        match self.elements {
            Elements::Byte(data) => data.len(),
            Elements::Half(data) => data.len() * 2,
            Elements::Int(data) => data.len() * 4,
            Elements::Single(data) => data.len() * 4,
        }
    }
}
