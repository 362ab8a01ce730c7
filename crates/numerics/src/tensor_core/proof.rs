//! The evidence for each part of a hardware model.

use super::Model;

/// A part of a GPU whose results are modelled bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The sums of `mma`, `wmma` and `wgmma`.
    TensorCore,
    /// `ex2`, `lg2`, `rcp`, `rsqrt`, `sqrt`, `sin`, `cos` and `tanh` with `.approx`, `div.approx` and `div.full`.
    SpecialFunctions,
    /// `cvt`, and register arithmetic.
    Conversions,
}

/// The evidence that a part of a model is correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Equal to this GPU for all inputs of each function.
    AllInputs(&'static str),
    /// Equal to this GPU for recorded random inputs.
    Recorded(&'static str),
    /// Published by this source, with the authors' measurements.
    Published(&'static str),
    /// Assumed equal to another architecture, since no GPU of this one was measured.
    Assumed(Model),
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 3] = [Self::TensorCore, Self::SpecialFunctions, Self::Conversions];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TensorCore => "tensor core",
            Self::SpecialFunctions => "special functions",
            Self::Conversions => "conversions",
        }
    }
}

impl std::fmt::Display for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AllInputs(gpu) => write!(f, "equal on all inputs on an {gpu}"),
            Self::Recorded(gpu) => write!(f, "equal on recorded inputs on an {gpu}"),
            Self::Published(source) => write!(f, "published: {source}"),
            Self::Assumed(model) => write!(f, "assumed to be {}'s", model.name()),
        }
    }
}

impl Model {
    /// Returns the evidence that a part of this model is correct.
    #[must_use]
    pub const fn proof(self, part: Part) -> Proof {
        match (self, part) {
            (Self::Sm90, Part::SpecialFunctions) => Proof::AllInputs("H200"),
            (Self::Sm90, _) => Proof::Recorded("H100"),
            (_, Part::TensorCore) => Proof::Published("MMA-Sim 2.1.1"),
            _ => Proof::Assumed(Self::Sm90),
        }
    }
}
