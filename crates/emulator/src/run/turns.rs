//! Who goes first in a directed schedule.

/// Who goes first at the accesses of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turns {
    /// The lanes of a warp one after the other, from the lowest.
    LowestLaneFirst,
    /// From the highest.
    HighestLaneFirst,
    /// Of warps that are held, the one that arrived first.
    EarliestWarpFirst,
    /// The one that arrived last.
    LatestWarpFirst,
}

impl Turns {
    /// Whether the lanes of a warp take turns.
    #[must_use]
    pub const fn are_of_lanes(self) -> bool {
        matches!(self, Self::LowestLaneFirst | Self::HighestLaneFirst)
    }

    /// The word for reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::LowestLaneFirst => "lowest_lane_first",
            Self::HighestLaneFirst => "highest_lane_first",
            Self::EarliestWarpFirst => "earliest_warp_first",
            Self::LatestWarpFirst => "latest_warp_first",
        }
    }

    /// The place of lanes that run together among all lanes of their warp.
    pub(crate) const fn place(self, lanes: u32) -> u32 {
        match self {
            Self::HighestLaneFirst => lanes.leading_zeros(),
            _ => lanes.trailing_zeros(),
        }
    }
}
