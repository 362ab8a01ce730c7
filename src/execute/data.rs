//! The inputs of a variant.

use numerics::random::{GOLDEN, at, mix};
use numerics::{OperandKind, Regime};
use vectors::LANES;

use crate::snippet::LANE_BYTES;

/// Warps, one for each regime.
pub(super) const WARPS: usize = Regime::ALL.len();

/// Bytes of all inputs, and of all outputs.
pub(super) const BYTES: usize = WARPS * LANES * LANE_BYTES;

/// What outputs hold that nobody has written.
pub(super) const POISON: u8 = 0xA5;

/// Inputs of all lanes: words of the kinds in order, and from the first again.
pub(super) fn inputs(variant: &str, kinds: &[OperandKind], seed: u64) -> Vec<u8> {
    let key = variant.bytes().fold(mix(seed.wrapping_add(GOLDEN)), |key, byte| mix(key ^ u64::from(byte)));
    let words = LANE_BYTES / 4;
    let mut bytes = Vec::with_capacity(BYTES);
    for (warp, regime) in Regime::ALL.into_iter().enumerate() {
        for lane in 0..LANES {
            let mut halves = 0;
            for word in 0..words {
                let Some(kind) = kinds.get(word % kinds.len().max(1)) else { continue };
                let high = *kind == OperandKind::F64 && halves % 2 == 1;
                halves += usize::from(*kind == OperandKind::F64);
                let index = (warp * LANES + lane) * words + word - usize::from(high);
                bytes.extend(kind.word(regime, at(key, index as u64), high).to_le_bytes());
            }
        }
    }
    bytes
}
