//! Where a device keeps its experts' weights: a slot for each, and the bytes of a buffer up to the last one.

use super::dims::Dims;
use super::layout::padded;
use super::setup::Setup;
use crate::frame::admission::Blocked;
use crate::frame::spread;
use crate::moe::case::Slots;

/// The slots of `routed` experts, in the order of the experts.
///
/// With [`Slots::Spread`], the first three experts lie beyond the limits of 32-bit offsets, the farthest first, in both GEMMs.
///
/// The scales of an expert take a sixteenth of the bytes of its codes, and its biases less if K is 128 or more: their byte offsets
/// stay below 2^32 until the codes of one GEMM take 64 GiB, which no GPU here holds in addition to the other GEMM's.
#[must_use]
pub fn places(slots: Slots, dims: Dims, routed: usize) -> Vec<usize> {
    match slots {
        Slots::Packed => (0..routed).collect(),
        Slots::Spread => {
            let least = (dims.fc1_cols() * padded(dims.hidden)).min(dims.hidden * padded(dims.inter)).max(1);
            spread::places(least, routed)
        }
    }
}

/// The number of slots of a buffer that ends with the last of these.
#[must_use]
pub fn count(places: &[usize]) -> usize {
    places.iter().max().map_or(0, |last| last + 1)
}

/// Returns the reason if a GPU with `free` bytes cannot hold the spread weights of this setup, whose buffers it keeps in full.
#[must_use]
pub fn too_large(setup: &Setup, dims: Dims, free: u64) -> Option<Blocked> {
    if setup.slots == Slots::Packed {
        return None;
    }
    let slots = count(&places(setup.slots, dims, dims.experts));
    let (n, h, i) = (dims.fc1_cols(), padded(dims.hidden), padded(dims.inter));
    let format = setup.config.pair.weight();
    let codes = format.bytes(n * h + dims.hidden * i);
    let scales = setup.scales.size(n, format.scales(h)) + setup.scales.size(dims.hidden, format.scales(i));
    // Biases of the GEMMs, and those of the next stages.
    let biases = 2 * 4 * (n + dims.hidden);
    let needed = slots as u64 * (codes + scales + biases) as u64;
    let says = || {
        Blocked(format!(
            "weights in {slots} slots need {} MiB, but the GPU has {} MiB free",
            needed >> 20,
            free >> 20
        ))
    };
    (needed > free).then(says)
}

#[cfg(test)]
mod tests {
    use super::super::tile::Config;
    use super::*;
    use crate::kernel::{Load, MmaPath};

    #[test]
    fn spread_slots_lie_beyond_every_limit_of_32_bits_in_both_gemms() {
        let dims = Dims { tokens: 16, hidden: 128, inter: 96, experts: 5, top_k: 2, shared: 0 };
        let slots = places(Slots::Spread, dims, 5);
        assert_eq!(count(&slots), slots[0] + 1);
        assert_eq!(slots[3..], [0, 1]);
        for elements in [2 * 96 * 128, 128 * 128] {
            for (slot, limit) in slots.iter().zip([33, 32, 31]) {
                assert!(slot * elements > 1 << limit, "slot {slot} of {elements} elements");
                assert!(i32::try_from(slot * elements).is_err());
            }
        }
        assert_eq!(places(Slots::Packed, dims, 3), [0, 1, 2]);
        assert_eq!((places(Slots::Spread, dims, 1).len(), count(&[])), (1, 0));
    }

    #[test]
    fn a_gpu_without_the_memory_is_told_how_much_it_is() {
        let tile = "8x64x128".parse().unwrap();
        let packed = Setup::plain(Config::new(tile, true, Load::CpAsync, MmaPath::Native).unwrap());
        let spread = Setup { slots: Slots::Spread, ..packed };
        let dims = Dims { tokens: 16, hidden: 128, inter: 128, experts: 4, top_k: 2, shared: 0 };
        // 2^33 elements are 4 GiB of codes for the smaller GEMM and 8 GiB for the larger one, plus scales and biases.
        let needed = (1 << 19) * (3 * 128 * 128 / 2 + 3 * 128 * 4 + 2 * 4 * 3 * 128);
        assert_eq!(too_large(&packed, dims, 0), None);
        assert_eq!(too_large(&spread, dims, needed + (1 << 20)), None);
        let blocked = too_large(&spread, dims, needed).unwrap();
        assert_eq!(blocked.0, "weights in 524290 slots need 14592 MiB, but the GPU has 14592 MiB free");
    }
}
