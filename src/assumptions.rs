//! The assumption ledger: hardware behaviour that the emulator assumes, each assumption with a snippet that tests it.
//!
//! A snippet has one entry, `probe(out)`, or `probe(map, out)` if its header sets `tensor_map`. It runs with one warp and stores its answer
//! as 32-bit words in `out`. On an SM12x GPU the same file yields the hardware's answer.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use emulator::device::{Argument, Device, Failure, Launch, MapElement, MapSwizzle, TensorMapSpec};
use emulator::{EmulatorDevice, Options, Programs};
use ptx::arch::{PtxIsa, Target};
use serde::Deserialize;

use crate::header;

/// The snippets. A test compares this list with the folder.
const FILES: &[(&str, &str)] = &[
    ("container_bits", include_str!("assumptions/container_bits.ptx")),
    ("container_bits_6", include_str!("assumptions/container_bits_6.ptx")),
    ("cvt_e2m1_nan_and_zero", include_str!("assumptions/cvt_e2m1_nan_and_zero.ptx")),
    ("cvt_e4m3_nan_sign", include_str!("assumptions/cvt_e4m3_nan_sign.ptx")),
    ("cvt_s2f6_nan", include_str!("assumptions/cvt_s2f6_nan.ptx")),
    ("cvt_s2f6_scale", include_str!("assumptions/cvt_s2f6_scale.ptx")),
    ("cvt_ue8m0_negative", include_str!("assumptions/cvt_ue8m0_negative.ptx")),
    ("ex2_nearest", include_str!("assumptions/ex2_nearest.ptx")),
    ("fp4_groups", include_str!("assumptions/fp4_groups.ptx")),
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
    ("special_functions", include_str!("assumptions/special_functions.ptx")),
    ("tx_packed_bytes", include_str!("assumptions/tx_packed_bytes.ptx")),
    ("u4_outside", include_str!("assumptions/u4_outside.ptx")),
    ("u4_swizzle_atoms", include_str!("assumptions/u4_swizzle_atoms.ptx")),
    ("ue4m3_sign", include_str!("assumptions/ue4m3_sign.ptx")),
];

/// The number of 32-bit words in `out`.
const WORDS: usize = 32;

/// Whether an assumption has been confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not confirmed yet.
    Open,
    /// Confirmed by hardware or by the text of the manual.
    Settled,
}

impl Status {
    /// Returns the word for the status: `open` or `settled`.
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
    /// Whether the entry's first parameter is a tensor map of 8 rows of 128 `b4x16_p64` elements.
    #[serde(default)]
    tensor_map: bool,
    /// Rows of that map's box; all 8 if omitted.
    #[serde(default)]
    rows: Option<u32>,
    /// The map's swizzle mode: `128B` or `128B_ATOM_32B`; none if omitted.
    #[serde(default)]
    swizzle: Option<String>,
}

/// An assumption about hardware behaviour.
#[derive(Debug, Clone)]
pub struct Assumption {
    /// The name, which is the stem of its file.
    pub name: &'static str,
    /// The assumption, in one sentence.
    pub assume: String,
    /// Why it matters.
    pub why: String,
    /// The source it is derived from.
    pub source: String,
    /// Whether it has been confirmed.
    pub status: Status,
    /// The words that the snippet stores if the assumption holds.
    pub expect: Vec<u32>,
    /// The snippet, including its header.
    pub text: &'static str,
    /// The tensor map of 8 rows of 128 elements passed as the first parameter, without its buffer; `None` if the entry has no such
    /// parameter.
    map: Option<Map>,
}

/// The rows of a tensor map's box, and its swizzle mode.
#[derive(Debug, Clone, Copy)]
struct Map {
    rows: u32,
    swizzle: MapSwizzle,
}

/// Returns every assumption, sorted by name.
#[must_use]
pub fn assumptions() -> &'static [Assumption] {
    static ALL: LazyLock<Vec<Assumption>> = LazyLock::new(|| {
        // Files that cannot be parsed are skipped; a test checks that all of them can be.
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
            let digits =
                text.strip_prefix("0x").ok_or_else(|| format!("`{text}` is not a hexadecimal word"))?;
            u32::from_str_radix(digits, 16).map_err(|_| format!("`{text}` is not a hexadecimal word"))
        };
        let expect = header.expect.iter().map(word).collect::<Result<Vec<_>, _>>()?;
        if expect.is_empty() || expect.len() > WORDS {
            return Err(format!("it expects {} words, not 1 to {WORDS}", expect.len()));
        }
        let Header { assume, why, source, status, tensor_map, rows, swizzle, .. } = header;
        let swizzle = match swizzle.as_deref() {
            None => MapSwizzle::None,
            Some("128B") => MapSwizzle::B128,
            Some("128B_ATOM_32B") => MapSwizzle::B128Atom32,
            Some(other) => return Err(format!("`{other}` is not a swizzle of the map")),
        };
        let map = tensor_map.then_some(Map { rows: rows.unwrap_or(8), swizzle });
        Ok(Self { name, assume, why, source, status, expect, text, map })
    }

    /// Runs the snippet in the emulator.
    ///
    /// # Errors
    /// The words it stores instead of the expected ones, or why it does not run.
    pub fn check(&self) -> Result<(), String> {
        let got = self.answer()?;
        let expect = &self.expect;
        if got[..expect.len()] == expect[..] {
            return Ok(());
        }
        Err(format!("{:08x?} instead of {expect:08x?}", &got[..expect.len()]))
    }

    /// Runs the snippet in the emulator and returns the words of `out`; words that it does not write are 0.
    ///
    /// # Errors
    /// The reason why the snippet does not run.
    pub fn answer(&self) -> Result<Vec<u32>, String> {
        let mut emulator = EmulatorDevice::new(Arc::new(Programs::default()), Options::default());
        self.run(&mut emulator, self.text).map_err(|failure| failure.to_string())
    }

    /// Runs the snippet on `device`, with `.version` set to `isa` and `.target` set to `target`, and returns the words of `out`.
    ///
    /// # Errors
    /// [`Failure`]; [`Failure::Unsupported`] if the device lacks an instruction.
    pub fn answer_on(
        &self,
        device: &mut dyn Device,
        target: Target,
        isa: PtxIsa,
    ) -> Result<Vec<u32>, Failure> {
        let written = |line: &str| match line.split_whitespace().next() {
            Some(".version") => format!(".version {isa}\n"),
            Some(".target") => format!(".target {target}\n"),
            _ => format!("{line}\n"),
        };
        device.reset()?;
        self.run(device, &self.text.lines().map(written).collect::<String>())
    }

    fn run(&self, device: &mut dyn Device, text: &str) -> Result<Vec<u32>, Failure> {
        let module = device.load(text)?;
        let out = device.allocate(vec![0; 4 * WORDS])?;
        let mut arguments = Vec::new();
        if let Some(map) = self.map {
            // Byte `i` of the rows is `i % 256`.
            let rows = device.allocate((0..512).map(|i| i as u8).collect())?;
            arguments.push(Argument::Map(TensorMapSpec {
                buffer: rows,
                element: MapElement::U4Unpacked,
                dims: vec![128, 8],
                strides: vec![64],
                box_dims: vec![128, map.rows],
                swizzle: map.swizzle,
            }));
        }
        arguments.push(Argument::Address(out));
        let launch = Launch {
            module,
            entry: "probe".to_owned(),
            grid: [1; 3],
            block: [32, 1, 1],
            shared_bytes: 0,
            arguments,
            programmatic: false,
            cluster: [1; 3],
            cooperative: false,
        };
        device.run(&[launch])?;
        let bytes = device.read(out)?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(words.iter().map(|b| u32::from_le_bytes(*b)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_the_folder_and_every_file_is_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/assumptions");
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
