//! The JSON documents of the two kinds of recordings.

use serde::{Deserialize, Serialize};

/// The file names of a kind of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) document: &'static str,
    pub(super) words: &'static str,
}

pub(super) const DEVICE: Names = Names { document: "vectors.json", words: "vectors.bin" };
pub(super) const MODEL: Names = Names { document: "mma.json", words: "mma.bin" };

/// The document `vectors.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DeviceDocument {
    pub(super) device: String,
    pub(super) capability: String,
    pub(super) driver: u64,
    pub(super) seed: u64,
    pub(super) layout: String,
    pub(super) ops: Vec<WarpRow>,
}

/// One instruction of `vectors.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WarpRow {
    pub(super) name: String,
    pub(super) ptx: String,
    pub(super) n_in: usize,
    pub(super) n_out: usize,
    pub(super) kinds: Vec<String>,
    pub(super) cases: usize,
    pub(super) offset: usize,
}

/// The document `mma.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ModelDocument {
    pub(super) source: String,
    pub(super) seed: u64,
    pub(super) ops: Vec<MatrixRow>,
    pub(super) layout: String,
}

/// One instruction of `mma.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MatrixRow {
    pub(super) name: String,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) a: String,
    pub(super) b: String,
    pub(super) d: String,
    pub(super) chunks: u32,
    pub(super) scale: Option<String>,
    pub(super) cases: usize,
    pub(super) offset: usize,
}
