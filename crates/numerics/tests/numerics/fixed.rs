//! `s2f6`: every code, and rounding against a search among all of them.

use numerics::fixed::{s2f6_to_f32, to_s2f6};

#[test]
fn every_code_is_its_own_and_rounding_finds_the_nearest() {
    for code in 0..=0xFF {
        let x = s2f6_to_f32(code);
        assert_eq!(to_s2f6(f64::from(x), false), code);
        assert_eq!(to_s2f6(f64::from(x), true), if code < 0x80 { code } else { 0 });
    }
    assert_eq!((s2f6_to_f32(0x7F), s2f6_to_f32(0x80)), (1.984_375, -2.0));
    // Every eighth between two codes, and beyond both ends.
    for step in -1100..1100 {
        let x = f64::from(step) / 512.0;
        let far = |code: u32| (f64::from(s2f6_to_f32(code)) - x).abs();
        let least = (0..=0xFF).map(far).fold(f64::INFINITY, f64::min);
        let mut near: Vec<u32> = (0..=0xFF).filter(|code| far(*code) == least).collect();
        if near.len() > 1 {
            near.retain(|code| code % 2 == 0);
        }
        assert_eq!(near, [to_s2f6(x, false)], "{x}");
    }
}
