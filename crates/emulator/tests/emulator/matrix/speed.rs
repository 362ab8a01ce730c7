//! How many `mma` a second the emulator runs; not a test, for it asserts nothing.

use emulator::Options;

use super::harness::{Inputs, Random, try_warps};

/// Seconds that this thread has been on a processor, whatever else the machine does.
fn seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 1e-9
}

#[test]
#[ignore = "a measurement"]
fn mma_per_second() {
    let mx = |a: &str, b: &str| {
        format!(
            "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.{a}.{b}.f32.ue8m0 \
             {{t0,t1,t2,t3}},{{i0,i1,i2,i3}},{{i4,i5}},{{t0,t1,t2,t3}},i6,{{0,0}},i7,{{0,0}};\n"
        )
    };
    let mxf4 = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 \
                {t0,t1,t2,t3},{i0,i1,i2,i3},{i4,i5},{t0,t1,t2,t3},i6,{0,0},i7,{0,0};\n";
    let plain = |shape: &str, ty: &str, acc: &str, a: &str, b: &str| {
        format!(
            "mma.sync.aligned.{shape}.row.col.{acc}.{ty}.{ty}.{acc} {{t0,t1,t2,t3}},{a},{b},{{t0,t1,t2,t3}};\n"
        )
    };
    let (a4, b2) = ("{i0,i1,i2,i3}", "{i4,i5}");
    for (name, text) in [
        ("mx e4m3×e2m1", mx("e4m3", "e2m1")),
        ("mx e4m3×e4m3", mx("e4m3", "e4m3")),
        ("mxf4", mxf4.to_owned()),
        ("bf16 k16", plain("m16n8k16", "bf16", "f32", a4, b2)),
        ("s8 k32", plain("m16n8k32", "s8", "s32", a4, b2)),
        ("xor", "xor.b32 t0,t0,i0;\n".to_owned()),
    ] {
        let mut random = Random(1);
        let mut inputs: Inputs =
            (0..6).map(|_| random.register().map(|w| w & 0xBFBF_BFBF | 0x0800_0800)).collect();
        inputs.extend((0..2).map(|_| random.register().map(|w| w & 0x0707_0707 | 0x7878_7878)));
        let loops = 2000;
        let body = format!(
            "mov.b32 t0,0;\nmov.b32 t1,0;\nmov.b32 t2,0;\nmov.b32 t3,0;\nmov.b32 t4,0;\nLOOP:\n{}add.u32 t4,t4,1;\n\
             setp.lt.u32 p0,t4,{loops};\n@p0 bra LOOP;\nmov.b32 o0,t0;",
            text.repeat(64)
        );
        let start = seconds();
        try_warps("sm_121a", &body, &[inputs], 1, &Options::default()).unwrap();
        let rate = 64.0 * f64::from(loops) / (seconds() - start);
        println!("{name}: {:.0} k/s", rate / 1e3);
    }
}
