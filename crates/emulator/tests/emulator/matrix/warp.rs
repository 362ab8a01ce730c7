//! Instructions over lanes against plain loops, with partial masks.

use super::harness::{LANES, Random, warp};

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
                    // What a lane without part would give is undefined (`undefined/absent_lanes.ptx`); it has the bytes of unwritten registers.
                    want[0][lane] = if mask >> from & 1 == 1 { a[from] } else { 0xCDCD_CDCD };
                    want[1][lane] = u32::from(within);
                }
                let body = only(
                    mask,
                    &format!("shfl.sync.{mode}.b32 o0|p0,i0,{b},{c},{mask:#x};\nselp.b32 o1,1,0,p0;"),
                );
                assert_eq!(warp(&body, &[a], 2), want, "{mode} {b} {c:#x} {mask:#x}");
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
