//! Where a device keeps the weights of its experts: a slot for each, and the bytes of a buffer up to the last one.

use super::dims::Dims;
use super::layout::padded;
use crate::case::Slots;

/// Element offsets that the weights of some expert lie beyond when slots are spread: what 32 bits hold with a sign and without
/// one, and what they hold in bytes of two elements.
const BEYOND: [usize; 3] = [1 << 33, 1 << 32, 1 << 31];

/// The slots of `routed` experts, in the order of the experts.
///
/// With [`Slots::Spread`] the first three experts lie beyond the limits of 32-bit offsets, the farthest first, in both GEMMs. Each
/// slot is a few behind the limit, so that an offset cut to 32 bits meets a slot that holds nothing or another expert.
#[must_use]
pub fn places(slots: Slots, dims: Dims, routed: usize) -> Vec<usize> {
    match slots {
        Slots::Packed => (0..routed).collect(),
        Slots::Spread => {
            let least = (dims.fc1_cols() * padded(dims.hidden)).min(dims.hidden * padded(dims.inter)).max(1);
            let far = BEYOND.into_iter().enumerate().map(|(n, limit)| limit.div_ceil(least) + n + 1);
            far.chain(0..).take(routed).collect()
        }
    }
}

/// Slots that a buffer has which ends with the last of these.
#[must_use]
pub fn count(places: &[usize]) -> usize {
    places.iter().max().map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_slots_lie_beyond_every_limit_of_32_bits_in_both_gemms() {
        let dims = Dims { tokens: 16, hidden: 128, inter: 96, experts: 5, top_k: 2 };
        let slots = places(Slots::Spread, dims, 5);
        assert_eq!(count(&slots), slots[0] + 1);
        assert_eq!(slots[3..], [0, 1]);
        for elements in [2 * 96 * 128, 128 * 128] {
            for (slot, limit) in slots.iter().zip(BEYOND) {
                assert!(slot * elements > limit, "slot {slot} of {elements} elements");
                assert!(i32::try_from(slot * elements).is_err());
            }
        }
        assert_eq!(places(Slots::Packed, dims, 3), [0, 1, 2]);
        assert_eq!((places(Slots::Spread, dims, 1).len(), count(&[])), (1, 0));
    }
}
