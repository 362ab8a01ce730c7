//! How a problem runs: the tile, the padding, the layout of scales, and the variant of stages with several kernels.

use numerics::scale_layout::ScaleLayout;

use super::kernels::Variant;
use super::layout::KPad;
use super::tile::Config;
use crate::moe::case::Slots;

/// How a problem runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// The GEMMs' tile and its configuration.
    pub config: Config,
    /// Whether the GEMMs multiply the padding of K or stop before it.
    pub k_pad: KPad,
    /// The layout of scales.
    pub scales: ScaleLayout,
    /// Whether every kernel may begin before its predecessor has ended.
    pub pdl: bool,
    /// Where the device keeps the experts' weights.
    pub slots: Slots,
    /// The variant of stages with several kernels.
    pub variant: Variant,
}

impl Setup {
    /// K stops before its padding, scales are in tiles of 128 by 4, one kernel runs after another.
    #[must_use]
    pub const fn plain(config: Config) -> Self {
        Self {
            config,
            k_pad: KPad::Poison,
            scales: ScaleLayout::Tile128x4,
            pdl: false,
            slots: Slots::Packed,
            variant: Variant::OURS,
        }
    }
}
