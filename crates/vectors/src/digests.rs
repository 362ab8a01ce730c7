//! Digests of a device's results for all inputs of a function: 2^32 results in a few kilobytes.

use std::fs;
use std::io;
use std::path::Path;

use numerics::random;
use serde::{Deserialize, Serialize};

use super::VectorsError;

/// Returns the term that an input and its result add to the digest of their block. Sums wrap, so the order is irrelevant.
#[must_use]
pub const fn term(input: u32, answer: u32) -> u64 {
    random::at((input as u64) << 32 | answer as u64, 0)
}

/// Digests of functions of one operand, all from one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    /// The name of the device.
    pub device: String,
    /// The compute capability of the device, such as `9.0`.
    pub capability: String,
    /// The CUDA version of its driver, such as 13000.
    pub driver: u64,
    /// The functions.
    pub functions: Vec<FunctionDigests>,
}

/// Digests of a function over its inputs, which count from 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionDigests {
    /// The instruction, such as `ex2.approx.f32`.
    pub name: String,
    /// Number of inputs per block.
    pub block: u64,
    /// The sum of [`term`] over each block.
    #[serde(with = "hexadecimal")]
    pub digests: Vec<u64>,
}

/// The built-in digests, recorded on an H200.
const BUILTIN: &str = include_str!("../data/sm90_digests.json");

impl Digests {
    /// Reads the built-in digests, recorded on an H200.
    ///
    /// # Errors
    /// If they are damaged, which a test rules out.
    pub fn builtin() -> Result<Self, VectorsError> {
        Self::parse(Path::new("sm90_digests.json"), BUILTIN.as_bytes())
    }

    /// Reads a file written by [`Digests::write`].
    ///
    /// # Errors
    /// If the file is missing or damaged.
    pub fn load(path: &Path) -> Result<Self, VectorsError> {
        let bytes = fs::read(path).map_err(|source| VectorsError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &bytes)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, VectorsError> {
        serde_json::from_slice(bytes).map_err(|e| VectorsError::Document {
            path: path.to_owned(),
            line: e.line(),
            column: e.column(),
            message: e.to_string(),
        })
    }

    /// Writes the digests as JSON by calling `write` with the path and the bytes.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(
        &self,
        path: &Path,
        write: impl Fn(&Path, &[u8]) -> io::Result<()>,
    ) -> Result<(), VectorsError> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        write(path, &bytes).map_err(|source| VectorsError::Write { path: path.to_owned(), source })
    }

    /// Returns the digests of the function `name`.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&FunctionDigests> {
        self.functions.iter().find(|f| f.name == name)
    }
}

/// Serialises digests as rows of eight, each with 16 hexadecimal digits.
mod hexadecimal {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    const DIGITS: usize = 16;

    pub(super) fn serialize<S: Serializer>(digests: &[u64], to: S) -> Result<S::Ok, S::Error> {
        let row = |row: &[u64]| row.iter().map(|d| format!("{d:016x}")).collect::<String>();
        digests.chunks(8).map(row).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let mut digests = Vec::new();
        for row in Vec::<String>::deserialize(from)? {
            for digits in row.as_bytes().chunks(DIGITS) {
                let text = str::from_utf8(digits).ok().filter(|text| text.len() == DIGITS);
                let digest = text.and_then(|text| u64::from_str_radix(text, 16).ok());
                digests.push(digest.ok_or_else(|| D::Error::custom("a digest has 16 hexadecimal digits"))?);
            }
        }
        Ok(digests)
    }
}
