//! The inputs of a variant.

use numerics::random::{GOLDEN, at, mix};
use numerics::{OperandKind, Regime};
use vectors::LANES;

use crate::snippet::LANE_BYTES;

/// The number of warps, one per regime.
pub(super) const WARPS: usize = Regime::ALL.len();

/// The size of the inputs of all lanes, and of their outputs, in bytes.
pub(super) const BYTES: usize = WARPS * LANES * LANE_BYTES;

/// The initial value of output bytes.
pub(super) const POISON: u8 = 0xA5;

/// Generates the inputs of all lanes. The words of a lane cycle through `kinds`.
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
