//! Atomics against plain loops: lanes in order, every width, faults.

use emulator::Law;

use super::harness::{LANES, Random, law, refusal, warp};

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
    // Shared memory keeps subnormals; global memory flushes them, unless told not to.
    let tiny = [1u32; LANES];
    assert_eq!(word("add.f32", 0, "", tiny).1, 32);
    let global = |form: &str| {
        let body = format!(
            "mov.b32 o0,0;\nst.global.b32 [out],o0;\nred.global.{form} [out],i0;\nld.global.b32 o0,[out];"
        );
        warp(&body, &[[1; LANES]], 1)[0][0]
    };
    assert_eq!([global("add.f32"), global("add.noftz.f32")], [0, 1]);
    // Two halves: 1.0 and 2.0, added 32 times each.
    let pair = [0x4000_3C00u32; LANES];
    assert_eq!(word("add.noftz.f16x2", 0, "", pair).1, 0x5400_5000);
    let pair = [0x4000_3F80u32; LANES];
    assert_eq!(word("add.noftz.bf16x2", 0, "", pair).1, 0x4280_4200);
    assert!(refusal("red.shared.add.f16x2 [sb],i0;", 1).contains("noftz"));
}

#[test]
fn wide_and_narrow() {
    let a = Random(2).register();
    let body = "mov.b64 a0,0;\nsetp.eq.u32 p0,lane,0;\n@p0 st.shared.b64 [sb],a0;\nbar.warp.sync -1;\n\
                mov.b64 b0,{i0,lane};\natom.shared.add.u64 c0,[sb],b0;\nmov.b64 {o0,o1},c0;";
    let got = warp(body, &[a], 2);
    let mut sum = 0u64;
    for lane in 0..LANES {
        assert_eq!(u64::from(got[0][lane]) | u64::from(got[1][lane]) << 32, sum);
        sum = sum.wrapping_add(u64::from(a[lane]) | (lane as u64) << 32);
    }
    // 16 bits: the neighbours in the word stay.
    let body = "setp.eq.u32 p0,lane,0;\nmov.b32 t0,0x12345678;\n@p0 st.shared.b32 [sb],t0;\nbar.warp.sync -1;\n\
                mov.b16 h0,0x5678;\nmov.b16 h1,0x9abc;\natom.shared.cas.b16 z,[sb],h0,h1;\nbar.warp.sync -1;\n\
                mov.b32 o0,{z,z};\nld.shared.b32 o1,[sb];";
    let got = warp(body, &[], 2);
    assert_eq!((got[0][0], got[0][1], got[1][5]), (0x5678_5678, 0x9ABC_9ABC, 0x1234_9ABC));
    // 128 bits, at the lane's own place.
    let body = ".reg .b128 q<3>;\nst.shared.v4.b32 [sa],{i0,i1,i2,i3};\nmov.b64 a0,{i0,i1};\nmov.b64 b0,{i2,i3};\n\
                mov.b128 q0,{a0,b0};\nmov.b128 q1,{b0,a0};\natom.shared.cas.b128 q2,[sa],q0,q1;\n\
                atom.shared.exch.b128 q2,[sa],q0;\nmov.b128 {c0,c1},q2;\nmov.b64 {o0,o1},c0;\nmov.b64 {o2,o3},c1;";
    let mut random = Random(3);
    let inputs: Vec<[u32; LANES]> = (0..4).map(|_| random.register()).collect();
    let got = warp(body, &inputs, 4);
    assert_eq!(got, [inputs[2], inputs[3], inputs[0], inputs[1]]);
}

#[test]
fn vectors() {
    // The input buffer serves as scratch: four lanes share a place of 16 bytes.
    let body = "and.b64 at,in,-16;\nmov.b32 t0,0;\nst.global.v4.b32 [at],{t0,t0,t0,t0};\n\
                red.global.add.v4.f32 [at],{i0,i1,i2,i3};\natom.global.add.v2.f32 {t4,t5},[at],{i0,i0};\n\
                mov.b32 o0,t4;\nmov.b32 o1,t5;\natom.global.add.v2.f32 _,[at],{i0,i0};\nld.global.b32 o2,[at+12];";
    let inputs: Vec<[u32; LANES]> = (0..4).map(|r| [(r as f32 + 1.5).to_bits(); LANES]).collect();
    let got = warp(body, &inputs, 3);
    for lane in 0..LANES {
        let before = (lane % 4) as f32 * 1.5;
        let want = [6.0 + before, 10.0 + before, 18.0].map(f32::to_bits);
        assert_eq!([got[0][lane], got[1][lane], got[2][lane]], want);
    }
    let halves = "and.b64 at,in,-16;\nmov.b32 t0,0x3c003c00;\nst.global.v4.b32 [at],{t0,t0,t0,t0};\nmov.b16 h0,0x4000;\n\
                  red.global.max.noftz.v8.f16 [at],{h0,z,h0,z,h0,z,h0,z};\nld.global.b32 o0,[at+8];";
    assert_eq!(warp(halves, &inputs, 1)[0], [0x3C00_4000; LANES]);
    let misaligned =
        "and.b64 at,in,-16;\nadd.u64 at,at,4;\nred.global.add.v4.f32 [at],{i0,i1,i2,i3};\nmov.b32 o0,0;";
    assert_eq!(law(misaligned, &inputs), Law::Misaligned);
}

#[test]
fn faults_of_atomics() {
    let a = [[1; LANES]];
    assert_eq!(law("atom.shared.add.u32 o0,[sb+2],i0;", &a), Law::Misaligned);
    assert_eq!(law("atom.shared.add.u32 o0,[sb+1024],i0;", &a), Law::OutOfBounds);
    assert_eq!(law("atom.shared.add.u32 o0,[sb],i0;", &a), Law::Uninitialised);
    let local = ".local .b32 x;\nmov.b64 a0,x;\ncvta.local.u64 a0,a0;\natom.add.u32 o0,[a0],i0;";
    assert_eq!(law(local, &a), Law::WrongSpace);
    for form in ["add.b32", "inc.s32", "and.u32", "min.f32", "exch.b16", "cas.f32"] {
        refusal(&format!("atom.shared.{form} o0,[sb],i0;"), 1);
    }
    refusal("red.shared.exch.b32 [sb],i0;", 1);
    refusal("multimem.red.relaxed.sys.global.add.u32 [out],i0;", 1);
}

/// Asynchronous stores and reductions are there once their barrier's phase is complete, and may be late until then.
#[test]
fn stores_that_tell_a_barrier() {
    let body = |wait: &str| {
        format!(
            "setp.eq.u32 p0,lane,0;\n@p0 mbarrier.init.shared.b64 [sb+512],1;\nmov.b32 t0,5;\n\
             @p0 st.shared.b32 [sb+520],t0;\nbar.warp.sync -1;\n\
             @p0 mbarrier.arrive.expect_tx.shared.b64 a0,[sb+512],640;\nbar.warp.sync -1;\n\
             st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [sa],{{i0,i1,i2,i3}},[sb+512];\n\
             red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [sb+520],i0,[sb+512];\n\
             {wait}\nld.shared.b32 o0,[sa+12];\nld.shared.b32 o1,[sb+520];"
        )
    };
    let mut random = Random(8);
    let inputs: Vec<[u32; LANES]> = (0..4).map(|_| random.register()).collect();
    let wait = "WAIT: mbarrier.try_wait.parity.shared.b64 p1,[sb+512],0;\n@!p1 bra WAIT;";
    let got = warp(&body(wait), &inputs, 2);
    let sum = inputs[0].iter().fold(5u32, |s, x| s.wrapping_add(*x));
    assert_eq!(got, [inputs[3], [sum; LANES]]);
    let early = law(&body(""), &inputs);
    assert!(matches!(early, Law::Race | Law::Uninitialised), "{early:?}");
    let global = "mov.b32 o0,1;\nst.async.release.gpu.global.b32 [out],i0;\nred.async.release.gpu.global.add.u32 [out],o0;\n\
                  ld.global.b32 o0,[out];";
    assert_eq!(warp(global, &inputs, 1)[0], inputs[0].map(|x| x.wrapping_add(1)));
}
