//! A counter-based generator: every value is a function of (seed, tensor, expert, index) alone.

use std::f64::consts::TAU;

use numerics::random::{GOLDEN, at, mix};

/// The purpose of a stream of values; the discriminants are part of the data format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Hidden = 1,
    Logits = 2,
    W13 = 3,
    W13Scale = 4,
    W13Bias = 5,
    W2 = 6,
    W2Scale = 7,
    W2Bias = 8,
    A2 = 9,
    Fault = 10,
    W13Global = 11,
    W2Global = 12,
    A1Global = 13,
    A2Global = 14,
    CorrectionBias = 15,
}

/// The values of one tensor of one expert.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream(u64);

impl Stream {
    pub(super) const fn new(seed: u64, purpose: Purpose, expert: usize) -> Self {
        let key = mix(seed.wrapping_add(GOLDEN));
        let key = mix(key ^ (purpose as u64).wrapping_mul(GOLDEN));
        Self(mix(key ^ (expert as u64 + 1).wrapping_mul(GOLDEN)))
    }

    /// 64 bits.
    pub(super) const fn bits(self, index: usize) -> u64 {
        at(self.0, index as u64)
    }

    /// An integer below `n`, which must be far below 2^32.
    pub(super) const fn below(self, index: usize, n: u64) -> u64 {
        ((self.bits(index) >> 32) * n) >> 32
    }

    /// A number of the standard normal distribution (Box and Muller).
    pub(super) fn normal(self, index: usize) -> f64 {
        let bits = self.bits(index);
        let radius = ((bits >> 32) as f64 + 1.0) / 4_294_967_296.0;
        let angle = (bits & 0xFFFF_FFFF) as f64 / 4_294_967_296.0;
        (-2.0 * libm::log(radius)).sqrt() * libm::cos(TAU * angle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_look_as_they_should() {
        let a = Stream::new(1, Purpose::Hidden, 0);
        assert_eq!(a.bits(5), Stream::new(1, Purpose::Hidden, 0).bits(5));
        for other in [
            Stream::new(2, Purpose::Hidden, 0),
            Stream::new(1, Purpose::Logits, 0),
            Stream::new(1, Purpose::Hidden, 1),
        ] {
            assert_ne!(a.bits(5), other.bits(5));
        }
        let n = 20_000;
        let values: Vec<f64> = (0..n).map(|i| a.normal(i)).collect();
        let mean = values.iter().sum::<f64>() / n as f64;
        let variance = values.iter().map(|x| x * x).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        let counts = (0..n).fold([0_usize; 7], |mut c, i| {
            c[a.below(i, 7) as usize] += 1;
            c
        });
        assert!(counts.iter().all(|c| c.abs_diff(n / 7) < 300), "{counts:?}");
    }
}
