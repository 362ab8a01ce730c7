//! Random choices by seed: the same seed makes the same kernel on every machine.

use numerics::random;

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random {
    key: u64,
    next: u64,
}

/// Numbers at which instructions change their behaviour: limits, signs, NaNs, infinities, subnormals and ones of several formats.
const SPECIAL: [u64; 40] = [
    0,
    1,
    2,
    7,
    31,
    32,
    33,
    63,
    64,
    0x7F,
    0x80,
    0xFF,
    0x100,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x1_0000,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x1_0000_0000,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    0xFFFF_FFFF_FFFF_FFFF,
    0x3F80_0000,
    0xBF80_0000,
    0x7F80_0000,
    0x7FC0_0000,
    0x0080_0000,
    0x007F_FFFF,
    0x3C00_3C00,
    0xBC00_7E00,
    0x3F80_3F80,
    0x7C00_0001,
    0x3838_3838,
    0x7F7E_0108,
    0x3FF0_0000_0000_0000,
    0x7FF0_0000_0000_0000,
    0x7FF8_0000_0000_0000,
    0x0010_0000_0000_0000,
];

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { key: random::mix(seed ^ random::GOLDEN), next: 0 }
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.next += 1;
        random::at(self.key, self.next)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        let n = n.max(1) as u64;
        // The upper half of the product: as uniform as 32 bits allow.
        (((self.bits() >> 32) * n) >> 32) as usize
    }

    /// True once in `n` times.
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn choose<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }

    /// One of a few words.
    pub(super) fn word(&mut self, list: &[&'static str]) -> &'static str {
        self.choose(list).copied().unwrap_or_default()
    }

    /// A number as instructions meet it: a limit, a small one, or any.
    pub(super) fn number(&mut self) -> u64 {
        match self.below(4) {
            0 | 1 => SPECIAL[self.below(SPECIAL.len())],
            2 => self.bits() & 0x7F,
            _ => self.bits(),
        }
    }
}
