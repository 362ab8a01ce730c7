//! Instructions over lanes against plain loops: partial masks, parties, lanes that come from different branches.

use emulator::{Law, Options};

use super::harness::{LANES, Random, law, refusal, try_warps, warp};

/// The lanes of `mask`.
fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |i| mask >> i & 1 == 1)
}

/// Only the lanes of `mask` run `body`; the others write zeros to `o0` and `o1`.
fn only(mask: u32, body: &str) -> String {
    format!(
        "mov.b32 o0,0;\nmov.b32 o1,0;\nmov.b32 t0,1;\nshl.b32 t0,t0,lane;\nand.b32 t0,t0,{mask:#x};\n\
         setp.ne.b32 p3,t0,0;\n@!p3 bra OUT;\n{body}\nOUT:"
    )
}

const MASKS: [u32; 5] = [!0, 0xFFFF, 0xFF00_FF00, 0x8000_0001, 0x0010_0000];

#[test]
fn shuffles_with_partial_masks() {
    let mut random = Random(1);
    for mask in MASKS {
        for mode in ["up", "down", "bfly", "idx"] {
            for width in [32u32, 16, 8, 4] {
                let (b, a) = (random.word() % width, random.register());
                let c = (32 - width) << 8 | if mode == "up" { 0 } else { 31 };
                let mut want = [[0u32; LANES]; 2];
                let mut defined = true;
                for lane in lanes(mask) {
                    let (l, b, w) = (lane as i64, i64::from(b), i64::from(width));
                    let first = l / w * w;
                    let from = match mode {
                        "up" => l - b,
                        "down" => l + b,
                        "bfly" => l ^ b,
                        _ => first + b,
                    };
                    let within = from >= first && from < first + w;
                    let from = if within { from as usize } else { lane };
                    defined &= mask >> from & 1 == 1;
                    want[0][lane] = a[from];
                    want[1][lane] = u32::from(within);
                }
                let body = only(
                    mask,
                    &format!("shfl.sync.{mode}.b32 o0|p0,i0,{b},{c},{mask:#x};\nselp.b32 o1,1,0,p0;"),
                );
                if defined {
                    assert_eq!(warp(&body, &[a], 2), want, "{mode} {b} {c:#x} {mask:#x}");
                } else {
                    assert_eq!(law(&body, &[a]), Law::Operand, "{mode} {b} {c:#x} {mask:#x}");
                }
            }
        }
    }
}

#[test]
fn votes_matches_and_reductions() {
    let mut random = Random(2);
    for mask in MASKS {
        for few in [1u32, 3] {
            let a = random.register().map(|w| w & few);
            let on = lanes(mask).filter(|i| a[*i] & 1 == 1).fold(0u32, |m, i| m | 1 << i);
            let all = |f: &dyn Fn(usize) -> u32| -> [u32; LANES] {
                std::array::from_fn(|i| if mask >> i & 1 == 1 { f(i) } else { 0 })
            };
            let p = "and.b32 t1,i0,1;\nsetp.ne.b32 p0,t1,0;\n";
            let vote = |form: &str| {
                warp(
                    &only(mask, &format!("{p}vote.sync.{form}.pred p1,p0,{mask:#x};\nselp.b32 o0,1,0,p1;")),
                    &[a],
                    1,
                )[0]
            };
            assert_eq!(vote("all"), all(&|_| u32::from(on == mask)));
            assert_eq!(vote("any"), all(&|_| u32::from(on != 0)));
            assert_eq!(vote("uni"), all(&|_| u32::from(on == 0 || on == mask)));
            let ballot = format!("{p}vote.sync.ballot.b32 o0,!p0,{mask:#x};");
            assert_eq!(warp(&only(mask, &ballot), &[a], 1)[0], all(&|_| mask & !on));
            let same = |i: usize| lanes(mask).filter(|j| a[*j] == a[i]).fold(0u32, |m, j| m | 1 << j);
            let any = format!("match.any.sync.b32 o0,i0,{mask:#x};");
            assert_eq!(warp(&only(mask, &any), &[a], 1)[0], all(&same));
            let wide = format!("mov.b64 a0,{{i0,i0}};\nmatch.any.sync.b64 o0,a0,{mask:#x};");
            assert_eq!(warp(&only(mask, &wide), &[a], 1)[0], all(&same));
            let agree = lanes(mask).all(|i| same(i) == mask);
            let whole = format!("match.all.sync.b32 o0|p0,i0,{mask:#x};\nselp.b32 o1,1,0,p0;");
            let want = [all(&|_| if agree { mask } else { 0 }), all(&|_| u32::from(agree))];
            assert_eq!(warp(&only(mask, &whole), &[a], 2), want);
        }
        let a = random.register();
        let reduce = |form: &str| {
            let got = warp(&only(mask, &format!("redux.sync.{form} o0,i0,{mask:#x};")), &[a], 1)[0];
            assert!(lanes(!mask).all(|i| got[i] == 0));
            let first = got[lanes(mask).next().unwrap()];
            assert!(lanes(mask).all(|i| got[i] == first));
            first
        };
        let values = || lanes(mask).map(|i| a[i]);
        assert_eq!(reduce("add.u32"), values().fold(0, u32::wrapping_add));
        assert_eq!(reduce("add.s32"), values().fold(0, u32::wrapping_add));
        assert_eq!(reduce("min.s32"), values().map(u32::cast_signed).min().unwrap().cast_unsigned());
        assert_eq!(reduce("max.u32"), values().max().unwrap());
        assert_eq!(reduce("xor.b32"), values().fold(0, |x, y| x ^ y));
        assert_eq!(reduce("and.b32"), values().fold(!0, |x, y| x & y));
        assert_eq!(reduce("or.b32"), values().fold(0, |x, y| x | y));
        let lane = mask.trailing_zeros();
        let elect = format!("elect.sync o0|p0,{mask:#x};\nselp.b32 o1,1,0,p0;");
        let got = warp(&only(mask, &elect), &[a], 2);
        assert!(lanes(mask).all(|i| got[0][i] == lane));
        assert_eq!(lanes(!0).filter(|i| got[1][*i] == 1).collect::<Vec<_>>(), [lane as usize]);
    }
}

#[test]
fn float_reductions() {
    let nan = 0x7FC0_1234u32;
    let mut a: [u32; LANES] = std::array::from_fn(|i| (i as f32 - 20.0).to_bits());
    let got = |form: &str, a: [u32; LANES]| warp(&format!("redux.sync.{form}.f32 o0,i0,-1;"), &[a], 1)[0][7];
    assert_eq!(got("min", a), (-20f32).to_bits());
    assert_eq!(got("max", a), 11f32.to_bits());
    assert_eq!(got("max.abs", a), 20f32.to_bits());
    assert_eq!(got("min.abs", a), 0);
    a[3] = nan;
    assert_eq!(got("max", a), 11f32.to_bits());
    assert_eq!(got("max.NaN", a), 0x7FFF_FFFF);
    assert_eq!(got("min.abs.NaN", a), 0x7FFF_FFFF);
    assert_eq!(got("min", [nan; LANES]), 0x7FFF_FFFF);
    assert_eq!(
        warp(
            "and.b32 t1,lane,16;\nmov.b32 t2,0xffff;\nshl.b32 t2,t2,t1;\nredux.sync.min.f32 o0,i0,t2;",
            &[a],
            1
        )[0][31],
        (-4f32).to_bits()
    );
}

/// Lanes with different masks take part apart from each other, in one instruction.
#[test]
fn parties_in_one_instruction() {
    let mut random = Random(4);
    let a = random.register();
    let body = "and.b32 t1,lane,24;\nmov.b32 t2,0xff;\nshl.b32 t2,t2,t1;\nredux.sync.add.u32 o0,i0,t2;\n\
                vote.sync.ballot.b32 o1,p0,t2;\nshfl.sync.bfly.b32 o2,i0,3,0x1f,t2;\nelect.sync o3|p1,t2;";
    let got = warp(&format!("setp.lt.u32 p0,lane,99;\n{body}"), &[a], 4);
    for lane in 0..LANES {
        let first = lane / 8 * 8;
        assert_eq!(got[0][lane], (first..first + 8).fold(0u32, |s, i| s.wrapping_add(a[i])));
        assert_eq!(got[1][lane], 0xFF << first);
        assert_eq!(got[2][lane], a[lane ^ 3]);
        assert_eq!(got[3][lane], first as u32);
    }
}

/// Lanes leave a loop at different times and come to one shuffle by different ways.
#[test]
fn lanes_come_from_different_branches() {
    let body = "mov.b32 t1,0;\nsetp.lt.u32 p0,lane,8;\n@p0 bra FIRST;\nsetp.lt.u32 p1,lane,20;\n@p1 bra SECOND;\n\
                mov.b32 t1,300;\nbra MEET;\nFIRST: mov.b32 t1,100;\nbra MEET;\nSECOND: mov.b32 t1,200;\n\
                MEET: add.u32 t1,t1,lane;\nshfl.sync.idx.b32 o0,t1,t2,0x1f,0xffffffff;\n";
    for seed in 0..10 {
        let options = Options { seed, ..Options::default() };
        // The shuffle stands inside a region that only some lanes reach at once.
        let text = format!(
            "xor.b32 t2,lane,31;\nmov.b32 t3,0;\nLOOP: add.u32 t3,t3,1;\nsetp.lt.u32 p2,t3,lane;\n@p2 bra LOOP;\n{body}"
        );
        let got = try_warps("sm_121a", &text, &[vec![[0; LANES]]], 1, &options).unwrap();
        for lane in 0..32u32 {
            let from = lane ^ 31;
            let base = if from < 8 {
                100
            } else if from < 20 {
                200
            } else {
                300
            };
            assert_eq!(got[0][0][lane as usize], base + from, "seed {seed} lane {lane}");
        }
    }
    // Two ways into one instruction that is no meeting point: the mask alone brings the lanes together.
    let early = "mov.b32 o0,0;\nsetp.lt.u32 p0,lane,16;\n@p0 bra HERE;\nmov.b32 t3,0;\nSPIN: add.u32 t3,t3,1;\n\
                 setp.lt.u32 p1,t3,50;\n@p1 bra SPIN;\nsetp.ge.u32 p2,lane,24;\n@p2 bra AWAY;\n\
                 HERE: vote.sync.ballot.b32 o0,p0,0x00ffffff;\nAWAY:";
    let got = warp(early, &[[0; LANES]], 1);
    assert!((0..24).all(|i| got[0][i] == 0xFFFF) && (24..32).all(|i| got[0][i] == 0));
}

/// Lanes that end are waited for no longer, whether they end before or after the others wait.
#[test]
fn lanes_that_end_are_not_waited_for() {
    let mut random = Random(6);
    let a = random.register();
    for way in ["@p0 bra END;\nbra GO;", "@!p0 bra GO;\nbra END;"] {
        let body = format!(
            "mov.b32 o0,0;\nst.global.b32 [out],o0;\nsetp.ge.u32 p0,lane,12;\n{way}\nEND: mov.b32 t3,0;\n\
             SPIN: add.u32 t3,t3,1;\nsetp.lt.u32 p1,t3,900;\n@p1 bra SPIN;\nexit;\n\
             GO: redux.sync.add.u32 o0,i0,0xffffffff;"
        );
        let got = warp(&body, &[a], 1);
        let sum = a[..12].iter().fold(0u32, |s, x| s.wrapping_add(*x));
        assert!((0..12).all(|i| got[0][i] == sum));
    }
}

#[test]
fn masks_that_break_the_rules() {
    let a = [[5; LANES]];
    // A lane that its mask does not name.
    assert_eq!(law("redux.sync.add.u32 o0,i0,0xfffffffe;", &a), Law::Divergent);
    // Lanes that do not agree about who takes part.
    let body = "setp.lt.u32 p0,lane,16;\nselp.b32 t1,0xffffffff,0xffff0000,p0;\nredux.sync.add.u32 o0,i0,t1;";
    assert_eq!(law(body, &a), Law::Divergent);
    // A named lane whose guard is false.
    let body = "setp.lt.u32 p0,lane,16;\nmov.b32 o0,0;\n@p0 redux.sync.add.u32 o0,i0,0xffffffff;";
    assert_eq!(law(body, &a), Law::Divergent);
    // A named lane that waits elsewhere and never comes.
    let body = "mov.b32 o0,0;\nsetp.lt.u32 p0,lane,16;\n@p0 bra SKIP;\nredux.sync.add.u32 o0,i0,0xffffffff;\n\
                SKIP: barrier.sync 0;";
    assert_eq!(law(body, &a), Law::Deadlock);
}

#[test]
fn neighbours() {
    let got = warp(
        "setp.lt.u32 p0,lane,9;\nmov.b32 o0,0;\n@p0 activemask.b32 o0;\nnanosleep.u32 40;\npmevent 1;",
        &[],
        1,
    );
    assert!((0..32).all(|i| got[0][i] == if i < 9 { 0x1FF } else { 0 }));
    warp("setmaxnreg.dec.sync.aligned.u32 24;\nsetmaxnreg.inc.sync.aligned.u32 240;\nmov.b32 o0,0;", &[], 1);
    warp("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\nmov.b32 o0,0;", &[], 1);
    assert!(refusal("setmaxnreg.inc.sync.aligned.u32 20;", 0).contains("24 to 256"));
    assert!(refusal("setmaxnreg.inc.sync.aligned.u32 28;", 0).contains("multiple of 8"));
    assert!(refusal("shfl.up.b32 o0,i0,1,0;", 1).contains("sync"));
}
