//! Counter-based splitmix64: a value depends only on a key and an index.

/// splitmix64's increment: 2^64 over the golden ratio, made odd.
pub const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// splitmix64's output function (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
#[must_use]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns element `index` of the sequence with seed `key`.
#[must_use]
pub const fn at(key: u64, index: u64) -> u64 {
    mix(key.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// Returns bytes from `least` to `most` (inclusive) that depend only on seed and index and repeat after [`PERIOD`] bytes.
#[must_use]
pub fn bytes(seed: u64, least: u8, most: u8, len: usize) -> Vec<u8> {
    let span = u64::from(most.saturating_sub(least)) + 1;
    let own = len.min(PERIOD);
    let mut out = Vec::with_capacity(len);
    let mut index = 0;
    while out.len() < own {
        let word = at(seed, index).to_le_bytes();
        // The upper byte of the product: uniform except for a bias below span / 256.
        let of = |byte: u8| least.saturating_add(((u64::from(byte) * span) >> 8) as u8);
        out.extend(word.into_iter().take(own - out.len()).map(of));
        index += 1;
    }
    while out.len() < len {
        out.extend_from_within(..(len - out.len()).min(PERIOD));
    }
    out
}

/// Period of [`bytes`]: 16 MiB.
pub const PERIOD: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_to_their_range_and_begin_anew() {
        let some = bytes(3, 118, 122, 1000);
        let counts = |of: u8| some.iter().filter(|b| **b == of).count();
        assert!((118..=122).all(|b| counts(b) > 120) && (118..=122).map(counts).sum::<usize>() == 1000);
        assert_eq!(bytes(3, 118, 122, 10), some[..10]);
        assert_ne!(bytes(4, 118, 122, 1000), some);
        let all = bytes(1, 0, 255, PERIOD + 5);
        assert!(all[PERIOD..] == all[..5] && (0..=255).all(|b| all[..4096].contains(&b)));
        assert!(bytes(1, 0, 255, 0).is_empty());
    }
}
