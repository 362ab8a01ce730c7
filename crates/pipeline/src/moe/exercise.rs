//! The code paths of a kernel configuration that trials exercise: tiles of K, N and M, wraps of the stages, ragged ends, experts
//! without rows, and both values of every compile-time switch. A configuration that lacks one of these has not been exercised.

use std::collections::BTreeMap;

use ptx::arch::Target;

use super::configuration::Configuration;
use super::dims::Dims;
use super::family::FAMILY;
use super::fit::least_k_tiles;
use super::generate;
use super::plan::Trial;
use super::tile::Config;
use crate::kernel::MmaPath;
use crate::moe::case::{BiasPlace, Case, KTail, ScaleTiles};
use record::{Count, ExerciseRow, Named, TrialRow, Verdict};

/// Elements that N is a multiple of: a tile no wider is never ragged in N.
const N_MULTIPLE: usize = 32;

/// The values of a compile-time switch that were compiled and run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Switch {
    /// The macro was 0.
    pub off: bool,
    /// The macro was 1.
    pub on: bool,
}

impl Switch {
    fn from_bool(on: bool) -> Self {
        Self { off: !on, on }
    }

    fn join(self, other: Self) -> Self {
        Self { off: self.off || other.off, on: self.on || other.on }
    }
}

/// The coverage of a configuration. Counts are the largest of any GEMM and include both full and ragged tiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exercise {
    /// Tiles along K.
    pub k_tiles: usize,
    /// A last tile of K that is not full.
    pub ragged_k: bool,
    /// Tiles along N, the ragged one included.
    pub n_tiles: usize,
    /// Full tiles of N before a ragged one, in one GEMM.
    pub full_n_before_ragged: usize,
    /// Tiles along M of one expert, the ragged one included.
    pub m_tiles: usize,
    /// Full tiles of M before a ragged one, for one expert.
    pub full_m_before_ragged: usize,
    /// An expert had no row.
    pub empty_expert: bool,
    /// Scales in tiles of 8x4 instead of 128x4.
    pub scales_8x4: Switch,
    /// Bias added by the GEMM.
    pub bias_here: Switch,
    /// K multiplied with its padding.
    pub k_padded: Switch,
    /// Programmatic dependent launch.
    pub pdl: Switch,
}

impl Exercise {
    /// Returns the coverage of a configuration by a case.
    #[must_use]
    pub fn from_case(case: &Case, config: &Config, seed: u64) -> Self {
        let dims = Dims::from_case(case);
        let tile = config.tile;
        let (m, n, k) = (tile.m as usize, tile.n as usize, tile.k as usize);
        let mut out = Self {
            scales_8x4: Switch::from_bool(case.scale_tiles == ScaleTiles::Tile8x4),
            k_padded: Switch::from_bool(case.k_tail == KTail::Padded),
            pdl: Switch::from_bool(case.pdl),
            ..Self::default()
        };
        // Both GEMMs run the same kernel: if one of them has no bias, it adds zeros.
        out.bias_here = Switch::from_bool([case.fc1_bias, case.fc2_bias].contains(&BiasPlace::Epilogue));
        for (columns, depth) in [(dims.fc1_cols(), dims.hidden), (dims.hidden, dims.inter)] {
            out.k_tiles = out.k_tiles.max(depth.div_ceil(k));
            out.ragged_k |= !depth.is_multiple_of(k);
            out.n_tiles = out.n_tiles.max(columns.div_ceil(n));
            if !columns.is_multiple_of(n) {
                out.full_n_before_ragged = out.full_n_before_ragged.max(columns / n);
            }
        }
        for rows in generate::rows_of_experts(case, seed) {
            out.empty_expert |= rows == 0;
            out.m_tiles = out.m_tiles.max(rows.div_ceil(m));
            if !rows.is_multiple_of(m) {
                out.full_m_before_ragged = out.full_m_before_ragged.max(rows / m);
            }
        }
        out
    }

    /// Combines the coverage of both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            k_tiles: self.k_tiles.max(other.k_tiles),
            ragged_k: self.ragged_k || other.ragged_k,
            n_tiles: self.n_tiles.max(other.n_tiles),
            full_n_before_ragged: self.full_n_before_ragged.max(other.full_n_before_ragged),
            m_tiles: self.m_tiles.max(other.m_tiles),
            full_m_before_ragged: self.full_m_before_ragged.max(other.full_m_before_ragged),
            empty_expert: self.empty_expert || other.empty_expert,
            scales_8x4: self.scales_8x4.join(other.scales_8x4),
            bias_here: self.bias_here.join(other.bias_here),
            k_padded: self.k_padded.join(other.k_padded),
            pdl: self.pdl.join(other.pdl),
        }
    }

    /// Returns what it has, as phrases.
    #[must_use]
    pub fn met(&self) -> Vec<String> {
        let switches = [self.scales_8x4, self.bias_here, self.k_padded, self.pdl];
        let all = [
            (self.ragged_k, "a ragged K tile"),
            (self.full_n_before_ragged > 0, "a ragged N tile"),
            (self.full_m_before_ragged > 0, "a ragged M tile"),
            (self.empty_expert, "an expert without rows"),
            (switches.iter().all(|switch| switch.off && switch.on), "both values of every switch"),
        ];
        all.into_iter().filter(|(has, _)| *has).map(|(_, phrase)| phrase.to_owned()).collect()
    }

    /// Returns the coverage that dimensions and routing lack, as phrases.
    #[must_use]
    pub fn missing_shape(&self, config: &Config) -> Vec<String> {
        let mut out = Vec::new();
        let least = least_k_tiles(config, 1);
        if self.k_tiles < least {
            out.push(format!("{} of {least} K tiles", self.k_tiles));
        }
        if !self.ragged_k {
            out.push("a ragged K tile".to_owned());
        }
        if self.n_tiles < 3 {
            out.push(format!("{} of 3 N tiles", self.n_tiles));
        }
        if config.tile.n as usize > N_MULTIPLE && self.full_n_before_ragged < 2 {
            out.push("a ragged N tile after two full ones".to_owned());
        }
        if self.full_m_before_ragged < 1 {
            out.push("a ragged M tile after a full one".to_owned());
        }
        if !self.empty_expert {
            out.push("an expert without rows".to_owned());
        }
        out
    }

    /// Returns the missing coverage as phrases; empty if the configuration is fully exercised.
    #[must_use]
    pub fn missing(&self, config: &Config) -> Vec<String> {
        let mut out = self.missing_shape(config);
        for (switch, off, on) in [
            (self.scales_8x4, "scales in 128x4", "scales in 8x4"),
            (self.bias_here, "a GEMM without bias", "a GEMM with bias"),
            (self.k_padded, "K without its padding", "K with its padding"),
            (self.pdl, "sequential launches", "programmatic launches"),
        ] {
            out.extend((!switch.off).then(|| off.to_owned()));
            out.extend((!switch.on).then(|| on.to_owned()));
        }
        out
    }
}

/// A configuration, compiled for a target and run by a device.
type Kernel<'a> = (Configuration, &'a Named<Target>, &'a str);

/// Returns one row for each configuration that was run, from the trials that it passed.
#[must_use]
pub fn of_run(trials: &[(&Trial, &TrialRow)], seed: Option<u64>) -> Vec<ExerciseRow> {
    let mut found: BTreeMap<Kernel<'_>, (Config, Option<Exercise>)> = BTreeMap::new();
    for (trial, row) in trials {
        // Other formats run only on the policy's tiles, for which no minimum is stated.
        let Ok(config) = trial.config.clone() else { continue };
        if !trial.is_default_pair() {
            continue;
        }
        let key = (trial.configuration(), &row.target, row.device.as_str());
        let (_, all) = found.entry(key).or_insert((config, None));
        if row.verdict() == Verdict::Pass {
            let one = Exercise::from_case(&trial.case, &config, seed.unwrap_or(trial.case.seed));
            *all = Some(all.map_or(one, |all| all.join(one)));
        }
    }
    found
        .into_iter()
        .map(|((of, target, device), (config, all))| row(of, target, device, &config, all))
        .collect()
}

fn row(
    of: Configuration,
    target: &Named<Target>,
    device: &str,
    config: &Config,
    all: Option<Exercise>,
) -> ExerciseRow {
    let exercise = all.unwrap_or_default();
    let count =
        |what: &str, n: usize| Count { what: what.to_owned(), count: u32::try_from(n).unwrap_or(u32::MAX) };
    let stages = if of.path == MmaPath::Gemv { 1 } else { config.stages as usize };
    ExerciseRow {
        family: FAMILY.to_owned(),
        configuration: of.name(),
        target: target.clone(),
        device: device.to_owned(),
        counts: vec![
            count("K tile", exercise.k_tiles),
            count("stage wrap", exercise.k_tiles.saturating_sub(1) / stages.max(1)),
            count("N tile", exercise.n_tiles),
            count("M tile", exercise.m_tiles),
        ],
        met: exercise.met(),
        missing: match all {
            Some(exercise) => exercise.missing(config),
            None => vec!["a passing trial".to_owned()],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moe::case;

    #[test]
    fn a_small_case_does_not_exercise_a_large_tile() {
        let library = case::library();
        let Ok(case) = library.find("tiny-real") else { panic!("tiny-real is gone") };
        let tile = "128x128x128".parse().unwrap();
        let config = Config::new(tile, false, crate::kernel::Load::Tma, MmaPath::Native).unwrap();
        let missing = Exercise::from_case(case, &config, 0).missing(&config);
        for wanted in ["1 of 5 K tiles", "a ragged K tile", "an expert without rows", "scales in 8x4"] {
            assert!(missing.iter().any(|m| m == wanted), "{wanted}: {missing:?}");
        }
    }

    #[test]
    fn the_swept_cases_together_exercise_every_configuration() {
        let library = case::library();
        let swept: Vec<&Case> = library.cases.iter().filter(|c| crate::moe::plan::is_swept(c)).collect();
        assert_eq!(swept.len(), 2);
        for candidate in crate::moe::plan::candidates() {
            let Ok(config) = candidate.config else { continue };
            let of = |case: &&Case| {
                let fitted = super::super::fit::fit(&std::sync::Arc::new((*case).clone()), &config);
                Exercise::from_case(&fitted, &config, case.seed)
            };
            let both = swept.iter().map(of).reduce(Exercise::join).unwrap();
            assert!(both.missing(&config).is_empty(), "{config:?}: {:?}", both.missing(&config));
        }
    }
}
