//! What a search for an explanation suspects a kernel of, beside changes of its inputs and its declared rules.

use crate::moe::format::Element;

/// What a kernel is suspected of: nothing by default.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suspicion {
    /// The factor of sums and outputs before they are stored.
    pub factor: f64,
    /// What is clamped.
    pub clamp: Clamp,
    /// How elements are rounded.
    pub rounding: Rounding,
    /// The elements whose largest magnitude determines the scale of a block.
    pub amax: Amax,
    /// The operands of a GEMM whose scales are read as the other type.
    pub other_scales: OtherScales,
}

impl Default for Suspicion {
    fn default() -> Self {
        Self::NONE
    }
}

impl Suspicion {
    /// Nothing: every kernel that is not under suspicion.
    pub const NONE: Self = Self {
        factor: 1.0,
        clamp: Clamp::Declared,
        rounding: Rounding::NearestEven,
        amax: Amax::Block,
        other_scales: OtherScales::Neither,
    };
}

record::words! {
    /// The elements whose largest magnitude a quantizer takes for the scale of a block.
    Amax {
        /// Those of the block.
        Block "the block",
        /// Those of the other block of a pair.
        OtherBlock "the other block of a pair",
        /// Those of the block before, of the same row.
        BlockBefore "the block before",
        /// Those of both blocks of a pair.
        Pair "both blocks of a pair",
        /// Those of four blocks.
        FourBlocks "four blocks",
        /// The first half of the block.
        FirstHalf "the first half of the block",
        /// The whole row.
        Row "the whole row",
    }
}

impl Amax {
    /// Returns the elements of a row that are taken for a block of so many elements; those of the block where there are no others.
    #[must_use]
    pub fn elements<T>(self, row: &[T], block: usize, len: usize) -> &[T] {
        let blocks = |first: usize, count: usize| {
            let end = ((first + count) * len).min(row.len());
            row.get(first * len..end).filter(|elements| !elements.is_empty())
        };
        let own = blocks(block, 1).unwrap_or_default();
        let others = match self {
            Self::Block => None,
            Self::OtherBlock => blocks(block ^ 1, 1),
            Self::BlockBefore => block.checked_sub(1).and_then(|before| blocks(before, 1)),
            Self::Pair => blocks(block & !1, 2),
            Self::FourBlocks => blocks(block & !3, 4),
            Self::FirstHalf => own.get(..own.len().div_ceil(2)),
            Self::Row => Some(row),
        };
        others.unwrap_or(own)
    }
}

record::words! {
    /// The operands of a GEMM whose scales are read as the other type: ue8m0 as ue4m3, ue4m3 as ue8m0.
    OtherScales {
        /// None.
        Neither "neither",
        /// The activations.
        Activations "activations",
        /// The weights.
        Weights "weights",
        /// Both.
        Both "both operands",
    }
}

impl OtherScales {
    /// Whether the activations' scales are read so, and whether the weights' are.
    #[must_use]
    pub const fn operands(self) -> [bool; 2] {
        match self {
            Self::Neither => [false, false],
            Self::Activations => [true, false],
            Self::Weights => [false, true],
            Self::Both => [true, true],
        }
    }
}

record::words! {
    /// What the limit of the activation clamps.
    Clamp {
        /// The gate from above, up both ways.
        Declared "the gate from above and up both ways",
        /// Both, both ways.
        Both "gate and up both ways",
        /// Both, from above.
        Above "gate and up from above alone",
        /// The gate alone, from above.
        GateAlone "the gate alone",
        /// Up alone, both ways.
        UpAlone "up alone",
    }
}

impl Clamp {
    /// Clamps a gate and an up.
    #[must_use]
    pub fn apply(self, limit: f64, gate: f64, up: f64) -> (f64, f64) {
        match self {
            Self::Declared => (gate.min(limit), up.clamp(-limit, limit)),
            Self::Both => (gate.clamp(-limit, limit), up.clamp(-limit, limit)),
            Self::Above => (gate.min(limit), up.min(limit)),
            Self::GateAlone => (gate.min(limit), up),
            Self::UpAlone => (gate, up.clamp(-limit, limit)),
        }
    }
}

record::words! {
    /// How a quantizer rounds an element.
    Rounding {
        /// To the nearest, ties to even.
        NearestEven "to nearest, ties to even",
        /// To the nearest, ties away from zero.
        NearestAway "to nearest, ties away from zero",
        /// Toward zero.
        TowardZero "toward zero",
        /// Away from zero.
        Away "away from zero",
    }
}

impl Rounding {
    /// Rounds a number to an element; beyond the largest one to that.
    #[must_use]
    pub fn value(self, element: Element, x: f64) -> f64 {
        let nearest = element.nearest(x.abs());
        let found = element.value(nearest);
        if self == Self::NearestEven || found.is_nan() || found == x.abs() {
            return element.value(element.nearest(x));
        }
        // The numbers below and above: codes of positive numbers rise with them.
        let other = |up: bool| match element.value(element.neighbour(nearest, up)) {
            y if y.is_finite() && (y > found) == up => y,
            _ => found,
        };
        let (below, above) = if found < x.abs() { (found, other(true)) } else { (other(false), found) };
        let rounded = match self {
            Self::NearestAway if above - x.abs() <= x.abs() - below => above,
            Self::NearestEven | Self::NearestAway => found,
            Self::TowardZero => below,
            Self::Away => above,
        };
        rounded.copysign(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_rounded_as_the_words_say() {
        let all = |x: f64| Rounding::ALL.iter().map(|of| of.value(Element::E2m1, x)).collect::<Vec<_>>();
        // 2.5 is between 2 (even) and 3.
        assert_eq!(all(2.5), [2.0, 3.0, 2.0, 3.0]);
        assert_eq!(all(-2.4), [-2.0, -2.0, -2.0, -3.0]);
        assert_eq!(all(5.5), [6.0, 6.0, 4.0, 6.0]);
        assert_eq!(all(7.0), [6.0; 4]);
        assert_eq!(all(3.0), [3.0; 4]);
        assert_eq!(all(0.2), [0.0, 0.0, 0.0, 0.5]);
    }

    #[test]
    fn the_largest_magnitude_is_taken_over_elements_of_the_row() {
        let row: Vec<usize> = (0..20).collect();
        let all = |block: usize| Amax::ALL.iter().map(|of| of.elements(&row, block, 4)).collect::<Vec<_>>();
        let of = |first: usize, end: usize| &row[first..end];
        assert_eq!(all(1), [of(4, 8), of(0, 4), of(0, 4), of(0, 8), of(0, 16), of(4, 6), of(0, 20)]);
        // The last block has no other one.
        assert_eq!(
            all(4),
            [of(16, 20), of(16, 20), of(12, 16), of(16, 20), of(16, 20), of(16, 18), of(0, 20)]
        );
    }
}
