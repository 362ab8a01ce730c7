//! For the worse or for the better.

/// How a new answer stands to the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// It is worse: what worked does not, or less of it.
    Worse,
    /// It was asked, and is not answered any more.
    Gone,
    /// It is better.
    Better,
    /// It was not asked before.
    New,
    /// It is another, neither better nor worse.
    Other,
}

impl Direction {
    /// The word in reports and JSON.
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

    /// Whether something is lost.
    #[must_use]
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Worse | Self::Gone)
    }
}
