//! The trials of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use numerics::scale_layout::ScaleLayout;
use ptx::arch::Target;

use super::Dims;
use super::admission::{self, Question};
use super::checkpoint::Layer;
use super::configuration::{Configuration, TILE_K, TILE_M, TILE_N, Tile};
use super::fit::fit;
use super::kernels::Variant;
use super::layout::KPad;
use super::pipeline::Setup;
use super::policy::{self, HostKnown};
use super::sources;
use super::tile::Config;
use crate::frame::admission::{Blocked, Limits, Toolchain};
use crate::kernel::{Atomics, ExpKind, KernelError, Library, Load, MmaPath};
use crate::moe::case::{self, Case, Configurations, Format, FormatPair, KTail, ScaleTiles};

/// A tile and its configuration, or the reason why there is none.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The tile.
    pub tile: Tile,
    /// Whether channels are the 16-row side.
    pub swap_ab: bool,
    /// How tiles reach shared memory.
    pub load: Load,
    /// How they are multiplied.
    pub path: MmaPath,
    /// The kernel, or the reason.
    pub config: Result<Config, Blocked>,
}

/// Every tile, load and path.
#[must_use]
pub fn candidates() -> Vec<Candidate> {
    candidates_of(&tiles(), &LOADS, &PATHS)
}

fn candidates_of(tiles: &[Tile], loads: &[Load], paths: &[MmaPath]) -> Vec<Candidate> {
    let mut out = Vec::new();
    for configuration in configurations(tiles, loads, paths) {
        let Configuration { tile, swap_ab, path, load } = configuration;
        let config = Config::new(tile, swap_ab, load, path);
        out.push(Candidate { tile, swap_ab, load, path, config });
    }
    out
}

/// A case, a tile and its configuration, or the reason why there is none.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The case, enlarged for the tile if it states a minimum.
    pub case: Arc<Case>,
    /// The tile.
    pub tile: Tile,
    /// Whether channels are the 16-row side.
    pub swap_ab: bool,
    /// How tiles reach shared memory.
    pub load: Load,
    /// How they are multiplied.
    pub path: MmaPath,
    /// The kernel, or the reason.
    pub config: Result<Config, Blocked>,
    /// The layer of a checkpoint that supplies the weights; generated weights if `None`.
    pub layer: Option<Arc<Layer>>,
}

/// A tile below 64 tokens is swapped, and a larger one may be: channels fill the 16 rows of an mma better. Without an mma
/// there is nothing to swap.
#[must_use]
pub const fn swaps(tile: Tile, path: MmaPath) -> &'static [bool] {
    match path {
        MmaPath::Gemv => &[false],
        _ if tile.m < 64 => &[true],
        _ => &[false, true],
    }
}

impl Trial {
    /// Returns a trial of a case, enlarged as the configuration requires.
    #[must_use]
    pub fn new(case: Arc<Case>, configuration: Configuration, config: Result<Config, Blocked>) -> Self {
        let case = match &config {
            Ok(config) => fit(&case, config),
            Err(_) => case,
        };
        let Configuration { tile, swap_ab, path, load } = configuration;
        Self { case, tile, swap_ab, load, path, config, layer: None }
    }

    /// Whether its kernels are those of MXFP8 by MXFP4, the only ones swept over tiles.
    #[must_use]
    pub fn is_default_pair(&self) -> bool {
        self.case.pair == FormatPair::default()
    }

    /// Tile, side, path and load.
    #[must_use]
    pub const fn configuration(&self) -> Configuration {
        Configuration { tile: self.tile, swap_ab: self.swap_ab, path: self.path, load: self.load }
    }

    /// Returns the trial as a toolchain and a device with these limits admit it: blocked if the kernels need something that they lack.
    ///
    /// # Errors
    /// [`KernelError::Missing`] if there is no GEMM for it.
    pub fn admitted_on(
        &self,
        library: &Library,
        toolchain: Option<Toolchain<'_>>,
        limits: Limits,
    ) -> Result<Self, KernelError> {
        let pair = self.case.pair;
        let kernel = match library.gemm(pair, self.path, self.load) {
            // Impossible products have no kernel.
            Err(_) if self.config.is_err() => return Ok(self.clone()),
            found => found?,
        };
        let question = Question {
            pair,
            tile: self.tile,
            swap_ab: self.swap_ab,
            kernel,
            path: self.path,
            toolchain,
            limits,
        };
        let others = sources::beside_the_gemm(library, variant(&self.case))?;
        let config = admission::admit_run(&question, &others).map(|admitted| admitted.config);
        let layer = self.layer.clone();
        Ok(Self { layer, ..Self::new(Arc::clone(&self.case), self.configuration(), config) })
    }
}

/// Every tile.
#[must_use]
pub fn tiles() -> Vec<Tile> {
    let of = |m| TILE_N.into_iter().flat_map(move |n| TILE_K.into_iter().map(move |k| Tile { m, n, k }));
    TILE_M.into_iter().flat_map(of).collect()
}

/// Every load.
pub const LOADS: [Load; 4] = [Load::CpAsync, Load::Tma, Load::TmaReplace, Load::Direct];
/// Every path.
pub const PATHS: [MmaPath; 3] = [MmaPath::Native, MmaPath::Portable, MmaPath::Gemv];

/// Whether this path has a kernel with this load: a GEMV has no weight tiles in shared memory, an mma needs them.
#[must_use]
pub fn goes_with(path: MmaPath, load: Load) -> bool {
    (path == MmaPath::Gemv) == (load == Load::Direct)
}

/// The configurations of these tiles with these loads and paths.
#[must_use]
pub fn configurations(tiles: &[Tile], loads: &[Load], paths: &[MmaPath]) -> Vec<Configuration> {
    let mut out = Vec::new();
    for tile in tiles {
        // Configurations of one tile and one side are adjacent.
        for swap_ab in [false, true] {
            for path in paths.iter().filter(|path| swaps(*tile, **path).contains(&swap_ab)) {
                let loads = loads.iter().filter(|load| goes_with(*path, **load));
                out.extend(loads.map(|load| Configuration {
                    tile: *tile,
                    swap_ab,
                    path: *path,
                    load: *load,
                }));
            }
        }
    }
    out
}

/// The trials of a case with these tiles, loads and paths.
#[must_use]
pub fn trials(case: &Case, tiles: &[Tile], loads: &[Load], paths: &[MmaPath]) -> Vec<Trial> {
    let case = Arc::new(case.clone());
    let of = |configuration: Configuration| {
        let config = configuration.config(case.pair);
        Trial::new(Arc::clone(&case), configuration, config)
    };
    configurations(tiles, loads, paths).into_iter().map(of).collect()
}

/// Whether the default set runs a case on every tile: the case states what each configuration must meet.
#[must_use]
pub const fn is_swept(case: &Case) -> bool {
    case.minimum.is_some()
}

/// The trials of a run without a selection: the cases with a minimum run on every tile, each with one side, load and path that take turns
/// ([`sweep`]), and on the configurations of other cases; every other case runs with its own tiles or the policy's, on as many
/// configurations as it requests, so that each load meets each path over the cases. The GEMV is included if the tile is small
/// enough for it.
#[must_use]
pub fn default_set(cases: &[&Case]) -> Vec<Trial> {
    let mut out = Vec::new();
    for (n, case) in cases.iter().enumerate().filter(|(_, case)| !is_swept(case)) {
        let mut all = trials(case, &own_tiles(case), &LOADS, &PATHS);
        // Cases of another pair run on the same configurations, so that together they expose faults in all bytes.
        let n = if case.pair == FormatPair::default() { n } else { case.pair as usize };
        match case.configurations {
            Configurations::All => {}
            Configurations::Paired if case.pair.activation() == Format::Bf16 => {
                all.retain(|t| t.path == MmaPath::Portable);
            }
            Configurations::Paired => all.retain(|t| is_paired(t.path, t.load, n)),
            Configurations::One => {
                // A layer of a model takes longest on the portable path, and cases of its depth K cover that path.
                let runs =
                    |path| path == MmaPath::Native || path == MmaPath::Portable && case.model.is_none();
                all.retain(|t| t.config.is_ok() && runs(t.path));
                // Cases take turns: each configuration gets some of them.
                all = all.get(n % all.len().max(1)).cloned().into_iter().collect();
            }
        }
        out.extend(all);
    }
    // The swept cases exercise every configuration that some case runs.
    let mut swept: BTreeSet<Configuration> =
        out.iter().filter(|t| t.config.is_ok() && t.is_default_pair()).map(Trial::configuration).collect();
    swept.extend(sweep());
    for case in cases.iter().filter(|case| is_swept(case)) {
        let all = trials(case, &tiles(), &LOADS, &PATHS);
        out.extend(all.into_iter().filter(|t| swept.contains(&t.configuration()) || stands_for_blocked(t)));
    }
    out.retain(|t| t.path != MmaPath::Gemv || t.config.is_ok());
    out
}

/// Whether this is the one trial kept for a tile and operand order of which every configuration is blocked; it states the reason.
fn stands_for_blocked(trial: &Trial) -> bool {
    let blocked = |configuration: Configuration| {
        Config::new(configuration.tile, configuration.swap_ab, configuration.load, configuration.path)
            .is_err()
    };
    let side =
        configurations(&[trial.tile], &LOADS, &PATHS).into_iter().filter(|w| w.swap_ab == trial.swap_ab);
    let mut multiplied = side.filter(|w| w.path != MmaPath::Gemv);
    trial.config.is_err()
        && multiplied.clone().next() == Some(trial.configuration())
        && multiplied.all(blocked)
}

/// One configuration of every tile, and every GEMV. Of several, the one with the most new features is chosen: M, N, K and side with
/// load and path, alone and in pairs.
#[must_use]
pub fn sweep() -> Vec<Configuration> {
    let mut tiles: BTreeMap<Tile, Vec<Configuration>> = BTreeMap::new();
    let mut out = Vec::new();
    for candidate in candidates().into_iter().filter(|c| c.config.is_ok()) {
        let Candidate { tile, swap_ab, load, path, .. } = candidate;
        let configuration = Configuration { tile, swap_ab, path, load };
        if path == MmaPath::Gemv {
            out.push(configuration);
        } else {
            tiles.entry(tile).or_default().push(configuration);
        }
    }
    let mut times: BTreeMap<Feature, u32> = BTreeMap::new();
    for of_tile in tiles.values() {
        // Rare features count most; of equal ones, the first wins.
        let worth = |configuration: &&Configuration| -> u64 {
            features(**configuration)
                .iter()
                .map(|f| 1_000_000 / u64::from(1 + times.get(f).copied().unwrap_or(0)))
                .sum()
        };
        if let Some(best) = of_tile.iter().rev().max_by_key(worth) {
            features(*best).into_iter().for_each(|f| *times.entry(f).or_default() += 1);
            out.push(*best);
        }
    }
    out
}

/// How a configuration multiplies, combined with up to two of its extents: which extents, and their values.
type Feature = (MmaPath, Load, u8, [u32; 2]);

fn features(configuration: Configuration) -> Vec<Feature> {
    let Tile { m, n, k } = configuration.tile;
    let extents = [m, n, k, u32::from(configuration.swap_ab)];
    let mut out = Vec::new();
    for (i, one) in extents.into_iter().enumerate() {
        out.push((configuration.path, configuration.load, i as u8, [one, 0]));
        for (j, other) in extents.into_iter().enumerate().skip(i + 1) {
            out.push((configuration.path, configuration.load, (10 + 4 * i + j) as u8, [one, other]));
        }
    }
    out
}

/// A set of trials for each of these targets: the whole set for the first; for the others, of each case that runs on many tiles, one
/// configuration of each M and side with each path and load, and of the swept cases only the first. A kernel's PTX for another
/// target of the same chip differs only in `.target`, so these suffice to show that; if kernels test their compilation target,
/// every target has the whole set.
#[must_use]
pub fn for_targets(set: &[Trial], targets: &[Target], kernels: &Library) -> Vec<(Target, Vec<Trial>)> {
    let further = if kernels.asks_for_target() { set.to_vec() } else { part_of(set) };
    let of = |n| if n == 0 { set.to_vec() } else { further.clone() };
    targets.iter().enumerate().map(|(n, target)| (*target, of(n))).collect()
}

/// The part of a set that a further target runs.
pub(super) fn part_of(set: &[Trial]) -> Vec<Trial> {
    let first_swept = set.iter().find(|t| is_swept(&t.case)).map(|t| t.case.name.as_str());
    let elsewhere: BTreeSet<Configuration> =
        set.iter().filter(|t| !is_swept(&t.case)).map(Trial::configuration).collect();
    // Of several tiles, the last one, which is large.
    let of_kernel: BTreeMap<_, Configuration> = set
        .iter()
        .filter(|t| t.config.is_ok())
        .map(|t| ((t.case.name.as_str(), t.tile.m, t.swap_ab, t.path, t.load), t.configuration()))
        .collect();
    let chosen: BTreeSet<(&str, Configuration)> =
        of_kernel.into_iter().map(|(key, configuration)| (key.0, configuration)).collect();
    let stays = |t: &&Trial| {
        let case = t.case.name.as_str();
        let swept = is_swept(&t.case);
        (!swept || Some(case) == first_swept)
            && (t.config.is_err()
                || chosen.contains(&(case, t.configuration()))
                || swept && elsewhere.contains(&t.configuration()))
    };
    set.iter().filter(stays).cloned().collect()
}

/// Whether case number `n` runs with this combination: the paths take turns at the loads, from load to load and from case to case.
fn is_paired(path: MmaPath, load: Load, n: usize) -> bool {
    let turn = match load {
        Load::CpAsync | Load::TmaReplace => n,
        Load::Tma => n + 1,
        Load::Direct => return true,
    };
    (path == MmaPath::Native) == turn.is_multiple_of(2)
}

/// The tiles that a case names, otherwise the policy's.
#[must_use]
pub fn own_tiles(case: &Case) -> Vec<Tile> {
    if case.tiles.is_empty() { vec![default_tile(case)] } else { case.tiles.clone() }
}

/// The tile that the default policy chooses from the host's knowledge: [`policy::mean_rows`].
#[must_use]
pub fn default_tile(case: &Case) -> Tile {
    let dims = Dims::from_case(case);
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let host =
        HostKnown { tokens: small(dims.tokens), top_k: small(dims.top_k), experts: small(dims.experts) };
    Tile { m: policy::mean_rows(host), n: 64, k: 128 }
}

/// The tiles of a case: all, the named ones, its own, or the policy's.
///
/// For the layer of a model, all means every N and K at the least M that holds its tokens: it runs for its dimensions, and
/// a taller tile would multiply padding for hours.
#[must_use]
pub fn tiles_of(case: &Case, named: &[Tile], all: bool) -> Vec<Tile> {
    if all {
        let least = TILE_M.into_iter().find(|m| *m as usize >= case.tokens);
        let fits = |tile: &Tile| case.model.is_none() || least.is_none_or(|m| tile.m == m);
        return tiles().into_iter().filter(fits).collect();
    }
    if !named.is_empty() {
        return named.to_vec();
    }
    own_tiles(case)
}

/// The variant of stages with several kernels that a case requests.
#[must_use]
pub const fn variant(case: &Case) -> Variant {
    Variant {
        exp: match case.exp {
            case::Exp::Fma => ExpKind::Fma,
            case::Exp::Ex2Approx => ExpKind::Ex2Approx,
        },
        atomics: match case.finalize {
            case::Finalize::Slots => Atomics::None,
            case::Finalize::AtomicF32 => Atomics::F32,
        },
        pair: case.pair,
    }
}

/// How a case runs with a kernel.
#[must_use]
pub const fn setup(case: &Case, config: Config) -> Setup {
    Setup {
        config,
        k_pad: match case.k_tail {
            KTail::Stop => KPad::Poison,
            KTail::Padded => KPad::Zeros,
        },
        scales: match case.scale_tiles {
            ScaleTiles::Tile128x4 => ScaleLayout::Tile128x4,
            ScaleTiles::Tile8x4 => ScaleLayout::Tile8x4,
        },
        pdl: case.pdl,
        slots: case.slots,
        variant: variant(case),
    }
}

/// Returns two of the cases that compile kernels with the same options: swept cases first, then the cheapest.
#[must_use]
pub fn representatives<'a>(cases: &[&'a Case]) -> Vec<&'a Case> {
    // Whether the case is not swept, its cost, and the case.
    type Ranked<'a> = (bool, u64, &'a Case);
    let mut of: BTreeMap<String, Vec<Ranked<'a>>> = BTreeMap::new();
    for case in cases.iter().filter(|c| c.model.is_none()) {
        let setup = (
            case.pdl,
            case.scale_tiles.word(),
            case.k_tail.word(),
            case.fc1_bias.word(),
            case.fc2_bias.word(),
        );
        let cost = case.schedules.max(1) * (case.tokens * case.top_k * case.hidden * case.inter) as u64;
        of.entry(format!("{setup:?}")).or_default().push((!is_swept(case), cost, *case));
    }
    let mut out = Vec::new();
    for mut alike in of.into_values() {
        alike.sort_by_key(|(rank, cost, _)| (*rank, *cost));
        out.extend(alike.into_iter().take(2).map(|(_, _, case)| case));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_has_an_answer() {
        let all = candidates();
        let runs = all.iter().filter(|c| c.config.is_ok()).count();
        assert!(runs > 100 && runs < all.len(), "{runs} of {}", all.len());
        assert!(all.iter().filter_map(|c| c.config.as_ref().err()).all(|b| b.0.contains(char::is_numeric)));
    }

    #[test]
    fn a_layer_of_a_model_meets_every_n_and_k() {
        for case in case::library().cases {
            let met = tiles_of(&case, &[], true);
            let sides = |tiles: &[Tile]| tiles.iter().map(|t| (t.n, t.k)).collect::<BTreeSet<_>>();
            assert_eq!(sides(&met), sides(&tiles()), "{}", case.name);
            assert_eq!(case.model.is_some(), met.len() < tiles().len(), "{}", case.name);
        }
    }

    #[test]
    fn a_further_target_meets_every_height_load_and_path() {
        let library = case::library();
        let set = default_set(&library.cases.iter().collect::<Vec<_>>());
        let targets: [Target; 2] = ["sm_121a", "sm_121f"].map(|t| t.parse().unwrap());
        let kernels = Library::embedded().unwrap();
        let sets = for_targets(&set, &targets, &kernels);
        assert_eq!((sets[0].0, sets[0].1.len()), (targets[0], set.len()));
        let first = library.cases.iter().find(|c| is_swept(c)).unwrap();
        let swept = |t: &&Trial| t.case.name == first.name && t.config.is_ok();
        let (all, part): (Vec<_>, Vec<_>) =
            (set.iter().filter(swept).collect(), sets[1].1.iter().filter(swept).collect());
        assert!(part.len() < all.len(), "{} of {}", part.len(), all.len());
        for t in &all {
            let alike = |p: &&&Trial| (p.tile.m, p.load, p.path) == (t.tile.m, t.load, t.path);
            assert!(part.iter().any(|p| alike(&p)), "{} {:?} {:?}", t.tile, t.load, t.path);
        }
        let off = |set: &[Trial]| set.iter().filter(|t| !is_swept(&t.case)).count();
        assert!(off(&sets[1].1) * 10 > off(&set) * 9, "{} of {}", off(&sets[1].1), off(&set));
        let every = trials(&library.cases[0], &tiles(), &LOADS, &PATHS);
        let runs = |set: &[Trial]| set.iter().filter(|t| t.config.is_ok()).count();
        assert!(runs(&for_targets(&every, &targets, &kernels)[1].1) * 5 < runs(&every));
        let mut asks = kernels;
        asks.includes.insert("own.cuh".to_owned(), "#ifdef __CUDA_ARCH_FEAT_SM121_ALL\n#endif\n".to_owned());
        assert_eq!(for_targets(&every, &targets, &asks)[1].1.len(), every.len());
    }

    #[test]
    fn the_default_set_is_pairwise() {
        let library = case::library();
        let cases: Vec<&Case> = library.cases.iter().collect();
        let set = default_set(&cases);
        let meets =
            |name: &str, test: &dyn Fn(&Trial) -> bool| set.iter().any(|t| t.case.name == name && test(t));
        for case in library.cases.iter().filter(|c| c.configurations != Configurations::One) {
            let native = case.pair.activation() != Format::Bf16;
            for path in
                PATHS.into_iter().filter(|p| *p == MmaPath::Portable || native && *p == MmaPath::Native)
            {
                assert!(meets(&case.name, &|t| t.path == path), "{} {path:?}", case.name);
            }
            for load in [Load::CpAsync, Load::Tma, Load::TmaReplace] {
                assert!(meets(&case.name, &|t| t.load == load), "{} {load:?}", case.name);
            }
        }
        for case in library.cases.iter().filter(|c| c.configurations == Configurations::One) {
            let of = |t: &&Trial| t.case.name == case.name;
            assert_eq!(set.iter().filter(of).filter(|t| t.config.is_ok()).count(), 1, "{}", case.name);
        }
        let swept: Vec<&Case> = cases.iter().copied().filter(|c| is_swept(c)).collect();
        for candidate in candidates() {
            let why = format!("{} {}", candidate.tile, candidate.swap_ab);
            if candidate.config.is_ok() {
                let runs = |t: &Trial| t.tile == candidate.tile && t.config.is_ok();
                assert!(swept.iter().all(|case| meets(&case.name, &runs)), "{why}");
            }
        }
        // Both swept cases run the same.
        let run_by = |case: &&Case| -> BTreeSet<Configuration> {
            set.iter()
                .filter(|t| t.case.name == case.name && t.config.is_ok())
                .map(Trial::configuration)
                .collect()
        };
        assert_eq!(run_by(&swept[0]), run_by(&swept[1]));
    }

    #[test]
    fn every_configuration_that_any_case_runs_is_swept_and_every_pair_of_choices_occurs() {
        let library = case::library();
        let set = default_set(&library.cases.iter().collect::<Vec<_>>());
        let swept: BTreeSet<Configuration> =
            set.iter().filter(|t| is_swept(&t.case) && t.config.is_ok()).map(Trial::configuration).collect();
        for trial in set.iter().filter(|t| t.config.is_ok() && t.is_default_pair()) {
            assert!(swept.contains(&trial.configuration()), "{:?}", trial.configuration());
        }
        let met: BTreeSet<Feature> =
            swept.iter().flat_map(|configuration| features(*configuration)).collect();
        let possible: BTreeSet<Feature> = candidates()
            .into_iter()
            .filter(|c| c.config.is_ok())
            .flat_map(|c| {
                features(Configuration { tile: c.tile, swap_ab: c.swap_ab, path: c.path, load: c.load })
            })
            .collect();
        // All single extents; nearly all pairs, since some have one tile only.
        assert!(possible.iter().filter(|f| f.2 < 10).all(|f| met.contains(f)));
        assert!(met.len() * 4 > possible.len() * 3, "{} of {}", met.len(), possible.len());
        assert!((110..200).contains(&swept.len()), "{}", swept.len());
    }
}
