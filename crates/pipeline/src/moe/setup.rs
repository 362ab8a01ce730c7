//! How a problem is run: the tile, the padding, the layout of scales, and which of several kernels of a stage.

use numerics::scale_layout::ScaleLayout;

use super::layout::KPad;
use super::tile::Config;
use crate::case::Slots;
use crate::kernel::Variant;

/// How a problem is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// The GEMMs' tile and what it is compiled for.
    pub config: Config,
    /// Whether the GEMMs multiply the padding of K, or stop before it.
    pub k_pad: KPad,
    /// Where scales lie.
    pub scales: ScaleLayout,
    /// Whether every kernel may begin before the one in front of it has ended.
    pub pdl: bool,
    /// Where the device keeps the weights of its experts.
    pub slots: Slots,
    /// Which kernels of the stages that have several.
    pub variant: Variant,
}

impl Setup {
    /// K stops before its padding, scales in tiles of 128 by 4, one kernel after the other.
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
