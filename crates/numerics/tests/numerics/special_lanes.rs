//! `ex2` of a warp in vectors has the bits of `ex2` of each lane, on every path.

use numerics::Path;
use numerics::float::ex2_approx_f32;
use numerics::special::{WARP, ex2_approx_f32_lanes};

/// All operands of an exponent, and of either sign.
fn operands(exponent: u32) -> impl Iterator<Item = u32> {
    [0, 1_u32 << 31]
        .into_iter()
        .flat_map(move |sign| (0..1 << 23).map(move |fraction| sign | exponent << 23 | fraction))
}

fn equal(exponents: impl Iterator<Item = u32> + Clone, step: usize) {
    for path in Path::available() {
        path.force(|| {
            let mut all = exponents.clone().flat_map(|exponent| operands(exponent).step_by(step));
            loop {
                let mut a = [0; WARP];
                let mut n = 0;
                for (lane, operand) in a.iter_mut().zip(&mut all) {
                    *lane = operand;
                    n += 1;
                }
                if n == 0 {
                    break;
                }
                for ftz in [false, true] {
                    assert_eq!(
                        ex2_approx_f32_lanes(&a, ftz),
                        a.map(|a| ex2_approx_f32(a, ftz)),
                        "{}",
                        path.name()
                    );
                }
            }
        });
    }
}

#[test]
fn every_mantissa_where_the_result_changes_most() {
    // 1 to 2, and 64 to 128, where results become subnormal and infinite.
    equal([127, 133].into_iter(), 1);
}

#[test]
fn every_exponent() {
    equal(0..256, 4093);
}
