//! The assumption ledger: what the emulator takes on trust, each fact with a snippet that shows it.
//!
//! A snippet has one entry `probe(out)`, or `probe(map, out)` where its header says so, runs with one warp and leaves its answer as 32-bit words in `out`. On an SM12x GPU
//! the same file gives the GPU's own answer.

use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use super::{GlobalMemory, Launch, Options, Swizzle, TensorMap, TensorType, launch, load};
use crate::header;

/// The snippets; a test compares the list with the folder.
const FILES: &[(&str, &str)] = &[
    ("container_bits", include_str!("assumptions/container_bits.ptx")),
    ("container_bits_6", include_str!("assumptions/container_bits_6.ptx")),
    ("cvt_e2m1_nan_and_zero", include_str!("assumptions/cvt_e2m1_nan_and_zero.ptx")),
    ("cvt_e4m3_nan_sign", include_str!("assumptions/cvt_e4m3_nan_sign.ptx")),
    ("cvt_s2f6_nan", include_str!("assumptions/cvt_s2f6_nan.ptx")),
    ("cvt_s2f6_scale", include_str!("assumptions/cvt_s2f6_scale.ptx")),
    ("cvt_ue8m0_negative", include_str!("assumptions/cvt_ue8m0_negative.ptx")),
    ("ex2_nearest", include_str!("assumptions/ex2_nearest.ptx")),
    ("gather4_order", include_str!("assumptions/gather4_order.ptx")),
    ("ignore_oob_bytes", include_str!("assumptions/ignore_oob_bytes.ptx")),
    ("m16n16_trans_order", include_str!("assumptions/m16n16_trans_order.ptx")),
    ("no_contraction", include_str!("assumptions/no_contraction.ptx")),
    ("p32_bit_order", include_str!("assumptions/p32_bit_order.ptx")),
    ("p64_gap_bytes", include_str!("assumptions/p64_gap_bytes.ptx")),
    ("p64_nibble_order", include_str!("assumptions/p64_nibble_order.ptx")),
    ("rcp_448", include_str!("assumptions/rcp_448.ptx")),
    ("scale_nan_times_zero", include_str!("assumptions/scale_nan_times_zero.ptx")),
    ("scale_zero_is_small", include_str!("assumptions/scale_zero_is_small.ptx")),
    ("sm_121_is_sm_120", include_str!("assumptions/sm_121_is_sm_120.ptx")),
    ("tx_packed_bytes", include_str!("assumptions/tx_packed_bytes.ptx")),
    ("u4_outside", include_str!("assumptions/u4_outside.ptx")),
    ("u4_swizzle_atoms", include_str!("assumptions/u4_swizzle_atoms.ptx")),
    ("ue4m3_sign", include_str!("assumptions/ue4m3_sign.ptx")),
];

/// Words of `out`.
const WORDS: usize = 32;

/// Whether hardware has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not yet.
    Open,
    /// Hardware or the manual's own words say so.
    Settled,
}

impl Status {
    /// The status in one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Settled => "settled",
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    assume: String,
    why: String,
    source: String,
    status: Status,
    expect: Vec<String>,
    /// Whether the entry's first parameter is a map of 8 rows of 128 elements of `b4x16_p64`.
    #[serde(default)]
    tensor_map: bool,
    /// Rows of a box of that map; all when left out.
    #[serde(default)]
    rows: Option<u32>,
    /// Its swizzle: `128B` or `128B_ATOM_32B`; none when left out.
    #[serde(default)]
    swizzle: Option<String>,
}

/// A fact taken on trust.
#[derive(Debug, Clone)]
pub struct Assumption {
    /// Its name, the file's stem.
    pub name: &'static str,
    /// What is assumed, in a sentence.
    pub assume: String,
    /// Why it matters.
    pub why: String,
    /// Where it comes from.
    pub source: String,
    /// Whether hardware has answered.
    pub status: Status,
    /// The words that the snippet leaves if the assumption holds.
    pub expect: Vec<u32>,
    /// The snippet, header and all.
    pub text: &'static str,
    /// The map that the entry's first parameter is, without its address.
    map: Option<TensorMap>,
}

/// Every assumption, by name.
#[must_use]
pub fn assumptions() -> &'static [Assumption] {
    static ALL: LazyLock<Vec<Assumption>> = LazyLock::new(|| {
        // A file that cannot be read is left out; a test counts them.
        FILES.iter().filter_map(|(name, text)| Assumption::read(name, text).ok()).collect()
    });
    &ALL
}

impl Assumption {
    fn read(name: &'static str, text: &'static str) -> Result<Self, String> {
        let split = header::split(text);
        let yaml = split.yaml.ok_or("it has no header")?;
        let header: Header =
            header::parse_block(Path::new(name), &yaml).map_err(|error| error.to_string())?;
        let word = |text: &String| {
            let digits = text.strip_prefix("0x").ok_or_else(|| format!("`{text}` is no hexadecimal word"))?;
            u32::from_str_radix(digits, 16).map_err(|_| format!("`{text}` is no hexadecimal word"))
        };
        let expect = header.expect.iter().map(word).collect::<Result<Vec<_>, _>>()?;
        if expect.is_empty() || expect.len() > WORDS {
            return Err(format!("it expects {} words, not 1 to {WORDS}", expect.len()));
        }
        let Header { assume, why, source, status, tensor_map, rows, swizzle, .. } = header;
        let mut map = TensorMap::dense(TensorType::U4Align16, 0, &[128, 8], &[128, rows.unwrap_or(8)]);
        map.swizzle = match swizzle.as_deref() {
            None => Swizzle::None,
            Some("128B") => Swizzle::B128,
            Some("128B_ATOM_32B") => Swizzle::B128Atom32,
            Some(other) => return Err(format!("`{other}` is no swizzle of the map")),
        };
        Ok(Self { name, assume, why, source, status, expect, text, map: tensor_map.then_some(map) })
    }

    /// Runs the snippet in the emulator.
    ///
    /// # Errors
    /// What it leaves instead, or why it does not run.
    pub fn check(&self) -> Result<(), String> {
        let got = self.answer()?;
        let expect = &self.expect;
        if got[..expect.len()] == expect[..] {
            return Ok(());
        }
        Err(format!("{:08x?} instead of {expect:08x?}", &got[..expect.len()]))
    }

    /// What the snippet leaves in the emulator; words that it does not write are 0.
    ///
    /// # Errors
    /// Why it does not run.
    pub fn answer(&self) -> Result<Vec<u32>, String> {
        let program = load(self.text).map_err(|stop| stop.to_string())?;
        let kernel = program.kernel("probe").ok_or("it has no entry `probe`")?;
        let options = Options::default();
        let mut memory = GlobalMemory::default();
        let out = memory.allocate_with(vec![0; 4 * WORDS]);
        let mut params = Vec::new();
        if let Some(map) = self.map {
            // Byte `i` of the rows is `i`, and 256 begins again.
            let rows = memory.allocate_with((0..512).map(|i| i as u8).collect());
            let map = TensorMap { address: rows, ..map };
            params.extend(map.encode().map_err(|error| error.to_string())?);
        }
        params.extend(out.to_le_bytes());
        let run = Launch { grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, params };
        launch(&program, kernel, &run, &mut memory, &options).map_err(|stop| stop.to_string())?;
        let bytes = memory.bytes(out).unwrap_or_default();
        Ok(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_the_folder_and_every_file_is_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/emulator/assumptions");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names, FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for (name, text) in FILES {
            assert!(Assumption::read(name, text).is_ok(), "{name}: {:?}", Assumption::read(name, text));
        }
    }

    #[test]
    fn the_emulator_does_what_is_assumed() {
        let wrong: Vec<String> = assumptions()
            .iter()
            .filter_map(|a| a.check().err().map(|why| format!("{}: {why}", a.name)))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
