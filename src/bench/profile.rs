//! Reads profiles of any supported format and sums them by class.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use indexmap::IndexMap;

use super::classes::{Classes, OTHER};
use super::decision::decision;
use super::error::BenchError;
use super::{chrome, nsys};
use crate::record::{ClassTime, ProfileRow};

/// First bytes of a gzip file (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1F, 0x8B];

/// The largest decompressed trace, in bytes; anything larger is an attack or a mistake.
const MOST: u64 = 8 << 30;

/// The rounding error of nsys's percentages: half of the last digit.
const ROUNDING: f64 = 0.05;

/// Time of one kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// The total of all launches.
    pub nanoseconds: f64,
    /// The number of launches.
    pub launches: u64,
    /// The share of total time in percent, if the file contains it.
    pub percent: Option<f64>,
}

/// Kernels by name, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernels {
    /// The format of the file: `nsys` or `chrome`.
    pub form: &'static str,
    /// The time of each kernel, by name.
    pub by_name: IndexMap<String, Timed>,
    /// The number of lines summed, each with a rounded percentage.
    lines: usize,
}

impl Kernels {
    pub(super) fn new(form: &'static str) -> Self {
        Self { form, by_name: IndexMap::new(), lines: 0 }
    }

    pub(super) fn add(&mut self, name: &str, more: Timed) {
        self.lines += 1;
        match self.by_name.get_mut(name) {
            Some(timed) => {
                timed.nanoseconds += more.nanoseconds;
                timed.launches = timed.launches.saturating_add(more.launches);
                timed.percent = timed.percent.zip(more.percent).map(|(a, b)| a + b);
            }
            None => {
                self.by_name.insert(name.to_owned(), more);
            }
        }
    }
}

/// Reads a profile: CSV of `nsys stats`, or a Chrome trace, compressed or not.
///
/// # Errors
/// [`BenchError`] with the file, the line if known, and the mistake.
pub fn read(path: &Path) -> Result<Kernels, BenchError> {
    let failed = |source| BenchError::Read { path: path.to_owned(), source };
    let wrong = |message: &str| BenchError::Form { path: path.to_owned(), message: message.to_owned() };
    let mut bytes = fs::read(path).map_err(failed)?;
    if bytes.starts_with(&GZIP) {
        let mut plain = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes.as_slice())
            .take(MOST + 1)
            .read_to_end(&mut plain)
            .map_err(failed)?;
        if plain.len() as u64 > MOST {
            return Err(wrong("decompresses to more than 8 GiB"));
        }
        bytes = plain;
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        wrong("neither text nor gzip: export with `nsys stats --report cuda_gpu_kern_sum --format csv`, or `export_chrome_trace`")
    })?;
    let kernels = if text.trim_start().starts_with(['{', '[']) {
        chrome::read(path, &text)?
    } else {
        nsys::read(path, &text).ok_or_else(|| {
            wrong("neither a table of `nsys stats --report cuda_gpu_kern_sum --format csv` (columns `Time (%)`, \
                `Total Time (ns)`, `Instances`, `Name`) nor a Chrome trace")
        })??
    };
    if kernels.by_name.values().all(|timed| timed.nanoseconds == 0.0) {
        return Err(wrong(
            "no kernel took any time: was the GPU traced (`-t cuda`, `ProfilerActivity.CUDA`)?",
        ));
    }
    Ok(kernels)
}

/// Sums a profile by class.
///
/// Shares are relative to the time of all kernels. If the percentages in a file sum to less than 100, the table was truncated;
/// the percentages are then the shares, and the missing part belongs to no class.
///
/// # Errors
/// [`BenchError::Form`] if the percentages sum to more than 100.
pub fn summary(path: &Path, kernels: &Kernels, classes: &Classes) -> Result<ProfileRow, BenchError> {
    let total: f64 = kernels.by_name.values().map(|t| t.nanoseconds).sum();
    let percents: Option<f64> = kernels.by_name.values().map(|t| t.percent).sum();
    let slack = ROUNDING * kernels.lines as f64;
    if let Some(sum) = percents.filter(|sum| *sum > 100.0 + slack) {
        let message = format!("its percentages add up to {sum:.1}: more than one table?");
        return Err(BenchError::Form { path: path.to_owned(), message });
    }
    let cut = percents.filter(|sum| sum + slack < 100.0);
    let share = |timed: &Timed| match (cut, timed.percent) {
        (Some(_), Some(percent)) => percent / 100.0,
        _ => timed.nanoseconds / total,
    };
    let mut by_class: IndexMap<&str, ClassTime> = IndexMap::new();
    let (mut gemm_share, mut moe_share) = (0.0, 0.0);
    for (name, timed) in &kernels.by_name {
        let class = classes.class(name);
        let (moe, of_tiles) = class.map_or((false, false), |c| (c.moe, c.tiles_matter));
        let word = class.map_or(OTHER, |c| c.name.as_str());
        let row = by_class.entry(word).or_insert_with(|| ClassTime {
            class: word.to_owned(),
            moe,
            share: 0.0,
            nanoseconds: 0.0,
            launches: 0,
            longest: String::new(),
            longest_share: 0.0,
        });
        let part = share(timed);
        row.share += part;
        row.nanoseconds += timed.nanoseconds;
        row.launches = row.launches.saturating_add(timed.launches);
        if part > row.longest_share || row.longest.is_empty() {
            row.longest.clone_from(name);
            row.longest_share = part;
        }
        gemm_share += if of_tiles { part } else { 0.0 };
        moe_share += if moe { part } else { 0.0 };
    }
    let mut classes: Vec<ClassTime> = by_class.into_values().collect();
    classes.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.class.cmp(&b.class)));
    Ok(ProfileRow {
        form: kernels.form.to_owned(),
        kernels: kernels.by_name.len() as u64,
        nanoseconds: total,
        listed: cut.map_or(1.0, |sum| sum / 100.0),
        classes,
        gemm_share,
        moe_share,
        decision: decision(gemm_share),
    })
}
