//! Atomics against plain loops, lanes in order.

use super::harness::{LANES, Random, warp};

/// Runs `atom.shared.op` of every lane on one word that begins as `start`: what each lane got, and what is left.
fn word(form: &str, start: u32, extra: &str, a: [u32; LANES]) -> ([u32; LANES], u32) {
    let body = format!(
        "mov.b32 t0,{start:#x};\nsetp.eq.u32 p0,lane,0;\n@p0 st.shared.b32 [sb],t0;\nbar.warp.sync -1;\n\
         atom.shared.{form} o0,[sb],i0{extra};\nbar.warp.sync -1;\nld.shared.b32 o1,[sb];"
    );
    let got = warp(&body, &[a], 2);
    (got[0], got[1][0])
}

fn fold(start: u32, a: [u32; LANES], op: impl Fn(u32, u32) -> u32) -> ([u32; LANES], u32) {
    let mut value = start;
    let got = a.map(|x| {
        let next = op(value, x);
        std::mem::replace(&mut value, next)
    });
    (got, value)
}

#[test]
fn words_in_order() {
    let a = Random(1).register();
    let s = |op: fn(i32, i32) -> i32| move |x: u32, y: u32| op(x as i32, y as i32) as u32;
    assert_eq!(word("add.u32", 7, "", a), fold(7, a, u32::wrapping_add));
    assert_eq!(word("min.u32", !0, "", a), fold(!0, a, u32::min));
    assert_eq!(word("max.u32", 0, "", a), fold(0, a, u32::max));
    assert_eq!(word("min.s32", 0, "", a), fold(0, a, s(i32::min)));
    assert_eq!(word("max.s32", 0, "", a), fold(0, a, s(i32::max)));
    assert_eq!(word("and.b32", !0, "", a), fold(!0, a, |x, y| x & y));
    assert_eq!(word("or.b32", 0, "", a), fold(0, a, |x, y| x | y));
    assert_eq!(word("xor.b32", 9, "", a), fold(9, a, |x, y| x ^ y));
    assert_eq!(word("exch.b32", 9, "", a), fold(9, a, |_, y| y));
    let small = a.map(|w| w % 8);
    assert_eq!(word("inc.u32", 3, "", small), fold(3, small, |x, y| if x >= y { 0 } else { x + 1 }));
    assert_eq!(word("dec.u32", 3, "", small), fold(3, small, |x, y| if x == 0 || x > y { y } else { x - 1 }));
    let cas = fold(2, small, |x, y| if x == y { 5 } else { x });
    assert_eq!(word("cas.b32", 2, ",5", small), cas);
}

#[test]
fn floats() {
    let a: [u32; LANES] = std::array::from_fn(|i| (i as f32 * 0.37 - 3.0).to_bits());
    let add = |x: u32, y: u32| (f32::from_bits(x) + f32::from_bits(y)).to_bits();
    assert_eq!(word("add.f32", 1f32.to_bits(), "", a), fold(1f32.to_bits(), a, add));
}
