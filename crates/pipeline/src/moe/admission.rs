//! Decides from static facts whether a tile and a kernel can run on a device, and gives the reason if not.
//!
//! In order: the capabilities that the kernel needs of the toolchain, the geometry of the tile, shared memory, TMA's rules for
//! boxes, and the resources that ptxas reports. K is padded to 128 in memory, which satisfies TMA's rules for strides (multiples
//! of 32 bytes of packed codes) and bases for every model width.

use emulator::device::{MapElement, MapSwizzle};

use super::configuration::Tile;
use super::format::Element;
use super::tile::Config;
use crate::frame::admission::{Blocked, LaunchSize, Limits, Toolchain};
use crate::kernel::{self, Kernel, MmaPath, Names};
use crate::moe::case::FormatPair;

/// Inner extent of a 16U4_ALIGN16B box in elements: the only one allowed.
const UNPACKED_WIDTH: u32 = 128;

/// The input to [`admit`]: a tile, a GEMM kernel, a toolchain and a device.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The operand formats.
    pub pair: FormatPair,
    /// The tile.
    pub tile: Tile,
    /// Whether channels are the 16-row side of the mma.
    pub swap_ab: bool,
    /// The GEMM.
    pub kernel: &'a Kernel,
    /// The MMA path.
    pub path: MmaPath,
    /// The toolchain; `None` if no matrix was run, so that capabilities are unknown.
    pub toolchain: Option<Toolchain<'a>>,
    /// The device's limits.
    pub limits: Limits,
}

/// A tile that may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// The configuration that its kernel is compiled for.
    pub config: Config,
    /// What a CTA of it takes.
    pub size: LaunchSize,
}

/// Decides whether the tile may be compiled and run, before ptxas assembles it.
///
/// # Errors
/// [`Blocked`], with the reason.
pub fn admit(question: &Question<'_>) -> Result<Admitted, Blocked> {
    let Question { pair, tile, swap_ab, kernel, path, toolchain, limits } = *question;
    if let Some(sentence) = toolchain.and_then(|t| lacking([kernel], pair, path, t)) {
        return Err(Blocked(sentence));
    }
    let load = kernel.load.ok_or_else(|| Blocked(format!("{} is not a GEMM", kernel.file)))?;
    let config = Config::within(pair, tile, swap_ab, load, path, limits.shared)?;
    if load.by_tma() {
        for map in [token_box(&config), weight_box(&config)] {
            map.check()?;
        }
    }
    let value = |text: &str| {
        let value =
            kernel::evaluate(text, &names(&config)).map_err(|e| Blocked(format!("{}: {e}", kernel.file)))?;
        u32::try_from(value).map_err(|_| Blocked(format!("{}: `{text}` is {value}", kernel.file)))
    };
    let (threads, dynamic_shared) = (value(&kernel.block)?, value(&kernel.smem)?);
    let size = LaunchSize { threads, dynamic_shared };
    size.within(limits)?;
    Ok(Admitted { config, size })
}

/// Decides whether a whole run with the tile is possible: [`admit`], and the capabilities that the kernels of the `others` need.
///
/// # Errors
/// [`Blocked`], with the reason.
pub fn admit_run(question: &Question<'_>, others: &[&Kernel]) -> Result<Admitted, Blocked> {
    let lacks = |t| lacking(others.iter().copied(), question.pair, question.path, t);
    if let Some(sentence) = question.toolchain.and_then(lacks) {
        return Err(Blocked(sentence));
    }
    admit(question)
}

/// Returns, as a sentence, the first capability that the toolchain lacks and a kernel needs for these formats on `path`.
#[must_use]
pub fn lacking<'k>(
    kernels: impl IntoIterator<Item = &'k Kernel>,
    pair: FormatPair,
    path: MmaPath,
    toolchain: Toolchain<'_>,
) -> Option<String> {
    let missing = |kernel: &'k Kernel| {
        let says = |need| toolchain.capabilities.missing(need, toolchain.toolkit, toolchain.target);
        kernel.needs_on(pair, path).into_iter().find_map(says)
    };
    kernels.into_iter().find_map(missing)
}

/// The names that a GEMM's launch expressions may use, with their values for a tile.
fn names(c: &Config) -> Names {
    [
        ("tile_m", c.tile.m),
        ("tile_n", c.tile.n),
        ("tile_k", c.tile.k),
        ("stages", c.stages),
        ("stage_bytes", c.stage_bytes()),
        ("warps", c.warps()),
    ]
    .map(|(name, value)| (name, u64::from(value)))
    .into()
}

/// The box that one TMA copy fetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapBox {
    /// Element type of the map.
    pub element: MapElement,
    /// Extents in elements, innermost first.
    pub dims: Vec<u32>,
    /// The swizzle in shared memory.
    pub swizzle: MapSwizzle,
}

/// The box of tokens: rows of codes, as bytes.
#[must_use]
pub fn token_box(config: &Config) -> MapBox {
    let width = config.token_slab();
    MapBox { element: MapElement::U8, dims: vec![width, config.tile.m], swizzle: swizzle(width) }
}

/// The box of weights: rows of codes of one expert, as bytes; e2m1 that is not packed in shared memory is unpacked by the copy.
#[must_use]
pub fn weight_box(config: &Config) -> MapBox {
    let unpacked = !config.packed() && config.pair.weight().element() == Element::E2m1;
    let width = config.weight_slab();
    let element = if unpacked { MapElement::U4Unpacked } else { MapElement::U8 };
    MapBox { element, dims: vec![width, config.tile.n, 1], swizzle: swizzle(width) }
}

/// Returns the swizzle that is as wide as a row.
const fn swizzle(width: u32) -> MapSwizzle {
    match width {
        32 => MapSwizzle::B32,
        64 => MapSwizzle::B64,
        _ => MapSwizzle::B128,
    }
}

impl MapBox {
    /// Checks the rules of `cuTensorMapEncodeTiled` for boxes.
    ///
    /// # Errors
    /// [`Blocked`], with the violated rule.
    pub fn check(&self) -> Result<(), Blocked> {
        let inner = self.dims.first().copied().unwrap_or(0);
        if let Some(wrong) = self.dims.iter().find(|d| **d == 0 || **d > 256) {
            return Err(Blocked(format!("the extents of a TMA box are 1 to 256, but this one has {wrong}")));
        }
        if self.element == MapElement::U4Unpacked && inner != UNPACKED_WIDTH {
            return Err(Blocked(format!(
                "a TMA box of 16U4_ALIGN16B is {UNPACKED_WIDTH} elements wide, but this one {inner}"
            )));
        }
        // Unpacked elements take one byte each.
        if !inner.is_multiple_of(16) {
            return Err(Blocked(format!(
                "the inner extent of a TMA box is a multiple of 16 bytes, but this one is {inner}"
            )));
        }
        let span = match self.swizzle {
            MapSwizzle::None => return Ok(()),
            MapSwizzle::B32 => 32,
            MapSwizzle::B64 => 64,
            MapSwizzle::B128 | MapSwizzle::B128Atom32 => 128,
        };
        if inner > span {
            return Err(Blocked(format!(
                "a TMA box is at most as wide as its swizzle, {span} bytes, but this one is {inner}"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Library, Load};

    fn ask(tile: &str, swap_ab: bool, load: Load, path: MmaPath) -> Result<Admitted, Blocked> {
        let library = Library::embedded().unwrap();
        let kernel = library.gemm(FormatPair::default(), path, load).unwrap();
        let tile = tile.parse().unwrap();
        admit(&Question {
            pair: FormatPair::default(),
            tile,
            swap_ab,
            kernel,
            path,
            toolchain: None,
            limits: Limits::SM12X,
        })
    }

    #[test]
    fn shared_memory_and_threads_are_what_the_header_says() {
        let admitted = ask("128x128x128", false, Load::Tma, MmaPath::Native).unwrap();
        assert_eq!((admitted.size.dynamic_shared, admitted.size.threads), (3 * 32768 + 1024, 32 * 9));
        let error = ask("16x8x128", true, Load::CpAsync, MmaPath::Native).unwrap_err();
        assert!(error.0.contains("N under swap_ab is 8"), "{error}");
    }

    #[test]
    fn a_smaller_device_takes_fewer_stages_or_none() {
        let library = Library::embedded().unwrap();
        let kernel = library.gemm(FormatPair::default(), MmaPath::Portable, Load::CpAsync).unwrap();
        let at = |shared| {
            let tile = "128x64x128".parse().unwrap();
            let limits = Limits { shared, ..Limits::SM12X };
            admit(&Question {
                pair: FormatPair::default(),
                tile,
                swap_ab: false,
                kernel,
                path: MmaPath::Portable,
                toolchain: None,
                limits,
            })
        };
        assert_eq!(at(101_376).unwrap().config.stages, 4);
        assert_eq!(at(65_536).unwrap().config.stages, 2);
        let error = at(49_151).unwrap_err();
        assert_eq!(error.0, "two stages need 49152 bytes of shared memory, but a CTA has 49151");
    }

    #[test]
    fn boxes_keep_the_rules_and_the_rules_refuse() {
        let config = ask("256x8x128", false, Load::Tma, MmaPath::Native).unwrap().config;
        assert_eq!(token_box(&config).check().and(weight_box(&config).check()), Ok(()));
        let good = weight_box(&config);
        for (map, words) in [
            (MapBox { dims: vec![64, 8, 1], ..good.clone() }, "128 elements wide, but this one 64"),
            (MapBox { dims: vec![128, 512, 1], ..good.clone() }, "this one has 512"),
            (MapBox { element: MapElement::U8, dims: vec![40, 8], ..good.clone() }, "multiple of 16 bytes"),
            (MapBox { element: MapElement::U8, swizzle: MapSwizzle::B64, ..good }, "its swizzle, 64 bytes"),
        ] {
            let error = map.check().unwrap_err();
            assert!(error.0.contains(words), "{error}");
        }
    }
}
