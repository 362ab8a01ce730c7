//! Reading recordings; any defect of a damaged file is an error that names the file and the instruction.

use std::fs;
use std::io::{self, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use numerics::Format;
use numerics::tensor_core::{MmaForm, MmaShape};
use serde::de::DeserializeOwned;
use zip::ZipArchive;
use zip::result::ZipError;

use super::document::{DEVICE, DeviceDocument, MODEL, MatrixRow, ModelDocument, Names, WarpRow};
use super::{LANES, MatrixCase, MatrixOp, Op, Recording, Source, VectorsError, WarpOp};

/// More than any instruction has; prevents a damaged count from allocating excessive memory.
const MOST_REGISTERS: usize = 256;
const MOST_CASES: usize = 1 << 20;
const MOST_ROWS: usize = 1 << 12;

/// A document and its words, both in memory, with their paths for errors.
struct Files {
    document: (PathBuf, Vec<u8>),
    words: (PathBuf, Vec<u8>),
}

impl Recording {
    /// Reads a recording from a folder or zip archive.
    ///
    /// # Errors
    /// If a file is missing or damaged; the error names the file and the defect.
    pub fn load(path: &Path) -> Result<Self, VectorsError> {
        let read = |source| VectorsError::Read { path: path.to_owned(), source };
        if fs::metadata(path).map_err(read)?.is_dir() {
            let (names, document) = first_of(path, |name| match fs::read(path.join(name)) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(source) => Err(VectorsError::Read { path: path.join(name), source }),
            })?;
            let at = path.join(names.words);
            let words = fs::read(&at).map_err(|source| VectorsError::Read { path: at.clone(), source })?;
            parse(names, Files { document: (path.join(names.document), document), words: (at, words) })
        } else {
            Self::from_archive(path, fs::File::open(path).map_err(read)?)
        }
    }

    /// Reads a recording from a zip archive in memory; errors name it `path`.
    ///
    /// # Errors
    /// As [`Recording::load`].
    pub fn from_zip(path: &Path, bytes: &[u8]) -> Result<Self, VectorsError> {
        Self::from_archive(path, Cursor::new(bytes))
    }

    fn from_archive(path: &Path, file: impl Read + Seek) -> Result<Self, VectorsError> {
        let failed = |message: String| VectorsError::Archive { path: path.to_owned(), message };
        let mut archive =
            ZipArchive::new(file).map_err(|e| failed(format!("neither a folder nor a zip archive: {e}")))?;
        let mut member = |name: &str| match archive.by_name(name) {
            Ok(mut entry) => {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).map_err(|e| failed(format!("{name} is damaged: {e}")))?;
                Ok(Some(bytes))
            }
            Err(ZipError::FileNotFound) => Ok(None),
            Err(e) => Err(failed(format!("{name} is damaged: {e}"))),
        };
        let (names, document) = first_of(path, &mut member)?;
        let words = member(names.words)?.ok_or_else(|| failed(format!("{} is missing", names.words)))?;
        let inside = |name: &str| path.join(name);
        parse(
            names,
            Files { document: (inside(names.document), document), words: (inside(names.words), words) },
        )
    }
}

fn first_of(
    path: &Path,
    mut read: impl FnMut(&str) -> Result<Option<Vec<u8>>, VectorsError>,
) -> Result<(Names, Vec<u8>), VectorsError> {
    for names in [DEVICE, MODEL] {
        if let Some(bytes) = read(names.document)? {
            return Ok((names, bytes));
        }
    }
    Err(VectorsError::Nothing { path: path.to_owned() })
}

fn parse(names: Names, files: Files) -> Result<Recording, VectorsError> {
    let mut described = 0;
    let recording = if names == DEVICE {
        let document: DeviceDocument = files.json()?;
        let ops = document.ops.into_iter().map(|row| {
            let size = warp_size(&row).ok_or_else(|| files.op(&row.name, WARP_COUNTS))?;
            let words = files.words_of(&row.name, row.offset, size, &mut described)?;
            warp_op(&files, row, words)
        });
        let source = Source::Device { capability: document.capability, driver: document.driver };
        Recording {
            device: document.device,
            source,
            seed: document.seed,
            layout: document.layout,
            ops: ops.collect::<Result<_, _>>()?,
        }
    } else {
        let document: ModelDocument = files.json()?;
        let ops = document.ops.into_iter().map(|row| {
            let form = form_of(&files, &row)?;
            let size = case_size(&form).saturating_mul(row.cases);
            let words = files.words_of(&row.name, row.offset, size, &mut described)?;
            matrix_op(&files, row.name, form, words)
        });
        Recording {
            device: document.source,
            source: Source::Model,
            seed: document.seed,
            layout: document.layout,
            ops: ops.collect::<Result<_, _>>()?,
        }
    };
    if described != files.words.1.len() {
        let (path, found) = (files.words.0, files.words.1.len());
        return Err(VectorsError::Length { path, found, described });
    }
    Ok(recording)
}

impl Files {
    fn json<T: DeserializeOwned>(&self) -> Result<T, VectorsError> {
        let (path, bytes) = &self.document;
        serde_json::from_slice(bytes).map_err(|e| VectorsError::Document {
            path: path.clone(),
            line: e.line(),
            column: e.column(),
            message: e.to_string(),
        })
    }

    fn op(&self, op: &str, message: impl Into<String>) -> VectorsError {
        VectorsError::Op { path: self.document.0.clone(), op: op.to_owned(), message: message.into() }
    }

    fn wrong(&self, op: &str, message: String) -> VectorsError {
        VectorsError::Words { path: self.words.0.clone(), op: op.to_owned(), message }
    }

    /// Returns the bytes of one instruction and advances `end`, the end of the described part.
    fn words_of(&self, op: &str, offset: usize, size: usize, end: &mut usize) -> Result<&[u8], VectorsError> {
        let all = &self.words.1;
        if offset > all.len() {
            let message = format!("its offset {offset} is beyond the end of the file at {}", all.len());
            return Err(self.wrong(op, message));
        }
        if offset != *end {
            let message = format!("its offset is {offset}, but the data before it end at {end}");
            return Err(self.op(op, message));
        }
        let words = offset.checked_add(size).and_then(|last| all.get(offset..last)).ok_or_else(|| {
            let message = format!(
                "truncated: it needs {size} bytes from offset {offset}, but the file ends at {}",
                all.len()
            );
            self.wrong(op, message)
        })?;
        *end = offset + size;
        Ok(words)
    }
}

const WARP_COUNTS: &str = "n_in, n_out or cases is zero or implausibly large";

fn warp_size(row: &WarpRow) -> Option<usize> {
    let registers = row.n_in.checked_add(row.n_out)?;
    let sound =
        (1..=MOST_REGISTERS).contains(&registers) && row.n_out > 0 && (1..=MOST_CASES).contains(&row.cases);
    sound.then_some(row.cases * registers * LANES * 4)
}

fn warp_op(files: &Files, row: WarpRow, words: &[u8]) -> Result<Op, VectorsError> {
    if row.kinds.len() != row.n_in {
        let message = format!("{} kinds for {} input registers", row.kinds.len(), row.n_in);
        return Err(files.op(&row.name, message));
    }
    let (chunks, _) = words.as_chunks::<4>();
    let mut inputs: Vec<u32> = chunks.iter().map(|b| u32::from_le_bytes(*b)).collect();
    let outputs = inputs.split_off(row.cases * row.n_in * LANES);
    Ok(Op::Warp(WarpOp {
        name: row.name,
        ptx: row.ptx,
        n_in: row.n_in,
        n_out: row.n_out,
        kinds: row.kinds,
        cases: row.cases,
        inputs,
        outputs,
    }))
}

fn form_of(files: &Files, row: &MatrixRow) -> Result<MmaForm, VectorsError> {
    let failed = |message: String| files.op(&row.name, message);
    let format =
        |name: &str| Format::parse(name).ok_or_else(|| failed(format!("`{name}` is not a PTX format")));
    if ![row.m, row.n, row.k].iter().all(|side| (1..=MOST_ROWS).contains(side)) {
        return Err(failed(format!("the shape {}×{}×{} is implausible", row.m, row.n, row.k)));
    }
    if !(1..=MOST_CASES).contains(&row.cases) {
        return Err(failed(format!("{} cases", row.cases)));
    }
    let scale = match (&row.scale, row.chunks) {
        (None, 0) => None,
        (Some(name), 1..) if row.k.is_multiple_of(row.chunks as usize) => Some((format(name)?, row.chunks)),
        (scale, chunks) => {
            let scale = scale.as_deref().unwrap_or("none");
            return Err(failed(format!("{chunks} chunks over K = {} with scale {scale}", row.k)));
        }
    };
    let accumulator = format(&row.d)?;
    if ![Format::F32, Format::F16].contains(&accumulator) {
        return Err(failed(format!("accumulates in {}", row.d)));
    }
    let shape = MmaShape { m: row.m, n: row.n, k: row.k };
    Ok(MmaForm { shape, a: format(&row.a)?, b: format(&row.b)?, accumulator, scale })
}

/// Returns the lengths of A, B, C, SFA, SFB, D in this order, each with the bytes per element.
pub(super) fn parts(form: &MmaForm) -> [(usize, usize); 6] {
    let MmaShape { m, n, k } = form.shape;
    let chunks = form.scale.map_or(0, |(_, chunks)| chunks as usize);
    [(m * k, 2), (n * k, 2), (m * n, 4), (m * chunks, 2), (n * chunks, 2), (m * n, 4)]
}

fn case_size(form: &MmaForm) -> usize {
    parts(form).iter().map(|(count, bytes)| count * bytes).sum()
}

fn matrix_op(files: &Files, name: String, form: MmaForm, words: &[u8]) -> Result<Op, VectorsError> {
    let scale_bits = form.scale.map_or(16, |(format, _)| format.bits());
    let widths = [form.a.bits(), form.b.bits(), 32, scale_bits, scale_bits, 32];
    let mut cases = Vec::new();
    for (case, mut rest) in words.chunks_exact(case_size(&form)).enumerate() {
        let mut arrays: [Vec<u32>; 6] = Default::default();
        for ((array, (count, bytes)), bits) in arrays.iter_mut().zip(parts(&form)).zip(widths) {
            let (mine, others) = rest.split_at(count * bytes);
            rest = others;
            array.extend(
                mine.chunks_exact(bytes).map(|b| b.iter().rev().fold(0, |w, b| w << 8 | u32::from(*b))),
            );
            if let Some(code) = array.iter().find(|code| bits < 32 && **code >> bits != 0) {
                let message = format!("case {case} has the code {code:#x}, which is longer than {bits} bits");
                return Err(files.wrong(&name, message));
            }
        }
        let [a, b, c, sfa, sfb, d] = arrays;
        cases.push(MatrixCase { a, b, c, sfa, sfb, d });
    }
    Ok(Op::Matrix(MatrixOp { name, form, cases }))
}
