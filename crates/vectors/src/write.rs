//! Writing recordings in the format that `read.rs` reads.

use std::fs;
use std::io::{self, Cursor, Write};
use std::path::Path;

use serde::Serialize;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::document::{DEVICE, DeviceDocument, MODEL, MatrixRow, ModelDocument, Names, WarpRow};
use super::{MatrixOp, Op, Recording, Source, VectorsError, WarpOp};

impl Recording {
    /// Writes a zip archive if `path` ends in `.zip`, otherwise two files in the folder `path`; calls `write` for each file with
    /// its path and bytes.
    ///
    /// # Errors
    /// If the recording mixes kinds or is empty, or a file cannot be written.
    pub fn write(
        &self,
        path: &Path,
        write: impl Fn(&Path, &[u8]) -> io::Result<()>,
    ) -> Result<(), VectorsError> {
        let failed = |source| VectorsError::Write { path: path.to_owned(), source };
        let (names, document, words) = self.encode()?;
        if path.extension().is_some_and(|e| e == "zip") {
            let bytes = archive(names, &document, &words).map_err(failed)?;
            return write(path, &bytes).map_err(failed);
        }
        fs::create_dir_all(path).map_err(failed)?;
        for (name, bytes) in [(names.words, &words), (names.document, &document)] {
            let at = path.join(name);
            write(&at, bytes).map_err(|source| VectorsError::Write { path: at.clone(), source })?;
        }
        Ok(())
    }

    fn encode(&self) -> Result<(Names, Vec<u8>, Vec<u8>), VectorsError> {
        let mut words = Vec::new();
        let (names, document) = match &self.source {
            Source::Device { capability, driver } => {
                let ops = self.ops.iter().map(|op| match op {
                    Op::Warp(op) => Ok(warp_row(op, &mut words)),
                    Op::Matrix(_) => Err(VectorsError::Mixed),
                });
                let document = DeviceDocument {
                    ops: ops.collect::<Result<_, _>>()?,
                    device: self.device.clone(),
                    capability: capability.clone(),
                    driver: *driver,
                    seed: self.seed,
                    layout: self.layout.clone(),
                };
                (DEVICE, json(&document))
            }
            Source::Model => {
                let ops = self.ops.iter().map(|op| match op {
                    Op::Matrix(op) => Ok(matrix_row(op, &mut words)),
                    Op::Warp(_) => Err(VectorsError::Mixed),
                });
                let document = ModelDocument {
                    ops: ops.collect::<Result<_, _>>()?,
                    source: self.device.clone(),
                    seed: self.seed,
                    layout: self.layout.clone(),
                };
                (MODEL, json(&document))
            }
        };
        if self.ops.is_empty() { Err(VectorsError::Mixed) } else { Ok((names, document, words)) }
    }
}

fn json(document: &impl Serialize) -> Vec<u8> {
    // The document has only strings and numbers, so serialisation cannot fail.
    let mut bytes = serde_json::to_vec_pretty(document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn warp_row(op: &WarpOp, words: &mut Vec<u8>) -> WarpRow {
    let offset = words.len();
    words.extend(op.inputs.iter().chain(&op.outputs).flat_map(|word| word.to_le_bytes()));
    WarpRow {
        name: op.name.clone(),
        ptx: op.ptx.clone(),
        n_in: op.n_in,
        n_out: op.n_out,
        kinds: op.kinds.clone(),
        cases: op.cases,
        offset,
    }
}

fn matrix_row(op: &MatrixOp, words: &mut Vec<u8>) -> MatrixRow {
    let offset = words.len();
    for case in &op.cases {
        let arrays = [&case.a, &case.b, &case.c, &case.sfa, &case.sfb, &case.d];
        for (array, (_, bytes)) in arrays.into_iter().zip(super::read::parts(&op.form)) {
            words.extend(array.iter().flat_map(|code| code.to_le_bytes().into_iter().take(bytes)));
        }
    }
    MatrixRow {
        name: op.name.clone(),
        m: op.form.shape.m,
        n: op.form.shape.n,
        k: op.form.shape.k,
        a: op.form.a.name().to_owned(),
        b: op.form.b.name().to_owned(),
        d: op.form.accumulator.name().to_owned(),
        chunks: op.form.scale.map_or(0, |(_, chunks)| chunks),
        scale: op.form.scale.map(|(format, _)| format.name().to_owned()),
        cases: op.cases.len(),
        offset,
    }
}

/// Returns a reproducible archive: entries carry no timestamp.
fn archive(names: Names, document: &[u8], words: &[u8]) -> io::Result<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options =
        SimpleFileOptions::default().compression_level(Some(9)).last_modified_time(zip::DateTime::DEFAULT);
    for (name, bytes) in [(names.document, document), (names.words, words)] {
        zip.start_file(name, options)?;
        zip.write_all(bytes)?;
    }
    Ok(zip.finish()?.into_inner())
}
