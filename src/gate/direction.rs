//! The direction of a change: for the better or for the worse.

/// How a new answer compares with the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// It is worse: something that worked fails, or works less well.
    Worse,
    /// It was answered, and is no longer.
    Gone,
    /// It is better.
    Better,
    /// It was not queried before.
    New,
    /// It is different, but neither better nor worse.
    Other,
}

impl Direction {
    /// Returns the word used in reports and JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Gone => "gone",
            Self::Better => "better",
            Self::New => "new",
            Self::Other => "other",
        }
    }

    /// Whether the change is a loss.
    #[must_use]
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Worse | Self::Gone)
    }
}
