//! Conversions, quotients and roots by whole warps have the results of their definitions (`numerics`), for special numbers and any bits.

use emulator::{GlobalMemory, Launch, Options, launch, load};
use numerics::Rounding::{self, Down, NearestEven, Up, Zero};
use numerics::{convert, float};

/// An instruction from `%r0`, `%r1` or `%q0`, `%q1` to `%r8` or `%q8`, and its definition on the bits of both sources.
type Case = (String, Box<dyn Fn(u64, u64) -> u64>);

/// Sources for each thread.
const SOURCES: usize = 1 << 14;

const ROUNDINGS: [(&str, Rounding); 4] = [("rni", NearestEven), ("rzi", Zero), ("rmi", Down), ("rpi", Up)];

fn case(text: String, definition: impl Fn(u64, u64) -> u64 + 'static) -> Case {
    (text, Box::new(definition))
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (word, r) in ROUNDINGS {
        for (ty, bits, signed) in
            [("s32", 32, true), ("u32", 32, false), ("s64", 64, true), ("u64", 64, false)]
        {
            let to = if bits == 64 { "%q8" } else { "%r8" };
            all.push(case(format!("cvt.{word}.{ty}.f32 {to}, %r0;"), move |a, _| {
                convert::f32_to_int(f32::from_bits(a as u32), r, bits, signed)
            }));
            all.push(case(format!("cvt.{word}.{ty}.f64 {to}, %q0;"), move |a, _| {
                convert::f64_to_int(f64::from_bits(a), r, bits, signed)
            }));
        }
        all.push(case(format!("cvt.{word}.f32.f32 %r8, %r0;"), move |a, _| {
            convert::round_f32_to_whole(f32::from_bits(a as u32), r, false).into()
        }));
        for (ty, bits, signed) in
            [("s32", 32, true), ("u32", 32, false), ("u16", 16, false), ("s64", 64, true)]
        {
            let to = ["%h1", "%r8", "%q8"][bits as usize / 32];
            let flushed = |a: u64| f32::from_bits(float::flush_f32(a as u32, true));
            all.push(case(format!("cvt.{word}.ftz.{ty}.f32 {to}, %r0;"), move |a, _| {
                convert::f32_to_int(flushed(a), r, bits, signed)
            }));
            all.push(case(format!("cvt.{word}.{ty}.f16 {to}, %h0;"), move |a, _| {
                convert::f16_to_int(a as u16, r, bits, signed)
            }));
        }
        all.push(case(format!("cvt.{word}.u16.f32 %h1, %r0;"), move |a, _| {
            convert::f32_to_int(f32::from_bits(a as u32), r, 16, false)
        }));
        all.push(case(format!("cvt.{word}.ftz.f32.f32 %r8, %r0;"), move |a, _| {
            convert::round_f32_to_whole(f32::from_bits(a as u32), r, true).into()
        }));
        all.push(case(format!("cvt.{word}.f64.f64 %q8, %q0;"), move |a, _| {
            convert::round_f64_to_whole(f64::from_bits(a), r)
        }));
    }
    type OfInteger = fn(u64) -> i128;
    let integers: [(&str, &str, OfInteger); 8] = [
        ("s8", "%r0", |a| i128::from(a as i8)),
        ("u8", "%r0", |a| i128::from(a as u8)),
        ("s16", "%h0", |a| i128::from(a as i16)),
        ("u16", "%h0", |a| i128::from(a as u16)),
        ("s32", "%r0", |a| i128::from(a as i32)),
        ("u32", "%r0", |a| i128::from(a as u32)),
        ("s64", "%q0", |a| i128::from(a as i64)),
        ("u64", "%q0", i128::from),
    ];
    for (ty, from, value) in integers {
        all.push(case(format!("cvt.rn.f32.{ty} %r8, {from};"), move |a, _| {
            convert::int_to_f32(value(a), NearestEven).into()
        }));
        all.push(case(format!("cvt.rn.f64.{ty} %q8, {from};"), move |a, _| {
            convert::int_to_f64(value(a), NearestEven)
        }));
    }
    let f16 = numerics::Format::F16;
    for (ty, from, value) in integers {
        all.push(case(format!("cvt.rn.f16.{ty} %h1, {from};"), move |a, _| {
            convert::int_to_f16(value(a), NearestEven).into()
        }));
    }
    all.push(case("cvt.rn.f16.f64 %h1, %q0;".to_owned(), move |a, _| {
        let x = f64::from_bits(a);
        if x.is_nan() {
            convert::nan::f64_to_16(f16, a).into()
        } else {
            convert::f64_to(f16, x, NearestEven, false, false).into()
        }
    }));
    all.push(case("cvt.rn.ftz.f32.f64 %r8, %q0;".to_owned(), |a, _| {
        convert::f64_to_f32(f64::from_bits(a), NearestEven, true).into()
    }));
    all.push(case("cvt.sat.f32.f32 %r8, %r0;".to_owned(), |a, _| float::saturate_f32(a as u32).into()));
    all.push(case("cvt.ftz.f32.f32 %r8, %r0;".to_owned(), |a, _| {
        float::canonical_f32(float::flush_f32(a as u32, true)).into()
    }));
    all.push(case("cvt.f64.f32 %q8, %r0;".to_owned(), |a, _| convert::f32_to_f64(a as u32)));
    all.push(case("cvt.rn.f32.f64 %r8, %q0;".to_owned(), |a, _| {
        convert::f64_to_f32(f64::from_bits(a), NearestEven, false).into()
    }));
    for (word, r) in [("rn", NearestEven), ("rz", Zero), ("rm", Down), ("rp", Up)] {
        for ftz in [false, true] {
            let ftz_word = if ftz { ".ftz" } else { "" };
            all.push(case(format!("div.{word}{ftz_word}.f32 %r8, %r0, %r1;"), move |a, b| {
                float::div_f32(a as u32, b as u32, r, ftz).into()
            }));
            all.push(case(format!("rcp.{word}{ftz_word}.f32 %r8, %r0;"), move |a, _| {
                float::rcp_f32(a as u32, r, ftz).into()
            }));
            all.push(case(format!("sqrt.{word}{ftz_word}.f32 %r8, %r0;"), move |a, _| {
                float::sqrt_f32(a as u32, r, ftz).into()
            }));
        }
        all.push(case(format!("div.{word}.f64 %q8, %q0, %q1;"), move |a, b| float::div_f64(a, b, r)));
        all.push(case(format!("rcp.{word}.f64 %q8, %q0;"), move |a, _| float::rcp_f64(a, r)));
        all.push(case(format!("sqrt.{word}.f64 %q8, %q0;"), move |a, _| float::sqrt_f64(a, r)));
    }
    all
}

/// A kernel that writes the result of each instruction to a part of the output of its own.
fn kernel(cases: &[Case]) -> String {
    let mut text = String::from(
        ".version 9.0\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 from, .param .u64 to)\n{\n\
         .reg .b32 %r<12>;\n.reg .b64 %q<12>;\n.reg .b16 %h<2>;\n\
         ld.param.u64 %q9, [from];\nld.param.u64 %q10, [to];\n\
         mov.u32 %r10, %tid.x;\nmov.u32 %r11, %ctaid.x;\nmad.lo.u32 %r10, %r11, 128, %r10;\n\
         mul.wide.u32 %q8, %r10, 16;\nadd.s64 %q9, %q9, %q8;\nmul.wide.u32 %q8, %r10, 8;\nadd.s64 %q10, %q10, %q8;\n\
         ld.global.u64 %q0, [%q9];\nld.global.u64 %q1, [%q9+8];\ncvt.u32.u64 %r0, %q0;\ncvt.u32.u64 %r1, %q1;\ncvt.u16.u64 %h0, %q0;\n",
    );
    for (instruction, _) in cases {
        text += instruction;
        text += match instruction.split([' ', ',']).nth(1) {
            Some("%r8") => "\ncvt.u64.u32 %q8, %r8;\n",
            Some("%h1") => "\ncvt.u64.u16 %q8, %h1;\n",
            _ => "\n",
        };
        text += &format!("st.global.u64 [%q10], %q8;\nadd.s64 %q10, %q10, {};\n", 8 * SOURCES);
    }
    text + "ret;\n}\n"
}

/// Pairs of special numbers of both widths, of numbers around integers and around the limits of integers, and of any bits.
fn sources() -> Vec<[u64; 2]> {
    let mut special: Vec<u64> =
        vec![0, 1, u64::MAX, 0x7FF0_0000_0000_0001, 0xFFF8_0000_0000_0001, 0x8000_0000_0000_0000];
    for exponent in [
        -1074, -1040, -1022, -1000, -300, -150, -149, -127, -126, -30, -2, -1, 0, 1, 7, 23, 24, 30, 31, 32,
        52, 53, 62, 63, 64, 127, 128, 1023,
    ] {
        let power = 2f64.powi(exponent);
        for factor in
            [1.0, 1.25, 1.5, 1.75, 0.999_999_999_999_999_9, -1.0, -1.5, -2.5, -0.999_999_999_999_999_9]
        {
            special.push((power * factor).to_bits());
            special.push(u64::from(((power * factor) as f32).to_bits()));
        }
    }
    special.extend([
        0x7F80_0000,
        0xFF80_0000,
        0x7FC0_0000,
        0x7F80_0001,
        0xFFC0_1234,
        0x4EFF_FFFF,
        0x4F00_0000,
        0xCF00_0000,
        0xCF00_0001,
        0x8000_0001,
    ]);
    special.extend(
        [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 2_147_483_647.5, 4_294_967_295.5, -2_147_483_648.5]
            .map(f64::to_bits),
    );
    let mut state = 9u64;
    let mut any = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..SOURCES)
        .map(|n| {
            let one = any();
            let other = any();
            if n < SOURCES / 2 {
                [special[n % special.len()], special[one as usize % special.len()]]
            } else {
                [one, other]
            }
        })
        .collect()
}

#[test]
fn conversions_quotients_and_roots_have_the_results_of_their_definitions() {
    let (cases, sources) = (cases(), sources());
    let program = load(&kernel(&cases)).unwrap();
    let mut memory = GlobalMemory::default();
    let bytes: Vec<u8> = sources.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    let from = memory.allocate_with(bytes);
    let to = memory.allocate(8 * SOURCES * cases.len());
    let params = [from, to].into_iter().flat_map(u64::to_le_bytes).collect();
    let how = Launch { grid: [(SOURCES / 128) as u32, 1, 1], block: [128, 1, 1], shared_bytes: 0, params };
    let options = Options { check_widths: true, ..Options::default() };
    launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &options).unwrap();
    let found = memory.bytes(to).unwrap();
    for (n, (instruction, definition)) in cases.iter().enumerate() {
        for (m, [a, b]) in sources.iter().enumerate() {
            let at = 8 * (n * SOURCES + m);
            let found = u64::from_le_bytes(found[at..at + 8].try_into().unwrap());
            let wanted = definition(*a, *b);
            assert_eq!(found, wanted, "{instruction} of {a:#x}, {b:#x}: {found:#x}, not {wanted:#x}");
        }
    }
}
