//! On demand ([`Options::check_widths`](crate::Options::check_widths)), for tests of the emulator: checks that no register holds bits above its width.
//!
//! A slot of the 32-bit bank holds registers of 8, 16 and 32 bits. Rows read narrow ones as if they were zero-extended, so a row that
//! writes one must leave the bits above it zero. Decoders refuse registers that are narrower than a result (`Decoder::dst_as`); this
//! check covers what rows compute.

use crate::run::machine::{Flow, Machine, lanes};

/// Panics if the instruction whose last row has just run left bits above the width of a register that it wrote.
pub(crate) fn check(m: &Machine<'_>, pc: u32, flow: Flow) {
    if !matches!(flow, Flow::Next | Flow::Undefined | Flow::Yield) {
        return;
    }
    let kernel = m.kernel;
    let Some(origin) = kernel.origins.get(pc as usize).filter(|origin| origin.last) else { return };
    let Some(effect) = kernel.effects.get(origin.step as usize) else { return };
    for (slot, bits) in &effect.narrow {
        let register = &m.r.w[*slot as usize];
        for lane in lanes(m.mask) {
            let (value, start, end) = (register[lane], origin.start, origin.end);
            assert!(
                value >> bits == 0,
                "the instruction at bytes {start} to {end} of `{}` left {value:#x} in a register of {bits} bits",
                kernel.name
            );
        }
    }
}
