//! Pieces of a buffer that are so far apart that an offset of 32 bits cannot address them.

/// Element offsets that some piece exceeds: the limits of signed and unsigned 32-bit integers, and of 32-bit byte offsets with two
/// elements per byte.
const BEYOND: [usize; 3] = [1 << 33, 1 << 32, 1 << 31];

/// The places, in pieces of this many elements, of so many pieces: the first three lie beyond the limits of 32-bit offsets, the farthest
/// first, and the others at the beginning. Each is a few places beyond its limit, so that an offset truncated to 32 bits hits an empty
/// place or another piece.
#[must_use]
pub fn places(elements: usize, count: usize) -> Vec<usize> {
    let far = BEYOND.into_iter().enumerate().map(|(n, limit)| limit.div_ceil(elements.max(1)) + n + 1);
    far.chain(0..).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_three_pieces_lie_beyond_every_limit_of_32_bits() {
        for elements in [1024, 18_432, 24_576] {
            let places = places(elements, 5);
            assert_eq!(places[3..], [0, 1]);
            for (place, limit) in places.iter().zip(BEYOND) {
                assert!(place * elements > limit, "place {place} of {elements} elements");
                assert!(i32::try_from(place * elements).is_err());
            }
        }
        assert_eq!(places(64, 1).len(), 1);
    }
}
