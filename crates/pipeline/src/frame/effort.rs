//! How much of a result is judged.

/// How much of a stored result is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// A sample of a large result first, and no more if the sample is wrong; every element of one that is right.
    UntilWrong,
    /// Every element.
    Every,
}
