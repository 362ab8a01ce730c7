//! Scalar instructions against the recorded answers of an H100, lane by lane, called as functions.

use numerics::convert::*;
use numerics::float::*;
use numerics::{Format, Rounding};
use vectors::{LANES, WarpOp};

use super::tensor_core::warp_ops;

fn rounding(parts: &[&str]) -> Rounding {
    let mode = parts.iter().find_map(|p| match *p {
        "rz" | "rzi" => Some(Rounding::Zero),
        "rm" | "rmi" => Some(Rounding::Down),
        "rp" | "rpi" => Some(Rounding::Up),
        "rna" => Some(Rounding::NearestAway),
        _ => None,
    });
    mode.unwrap_or(Rounding::NearestEven)
}

fn float(bits: u32) -> f32 {
    f32::from_bits(bits)
}

fn wide(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn words(x: u64) -> Vec<u32> {
    vec![x as u32, (x >> 32) as u32]
}

/// Both halves of packed registers.
fn halves(inputs: &[u32], f: impl Fn(&[u16]) -> u16) -> Vec<u32> {
    let half = |shift: u32| {
        let operands: Vec<u16> = inputs.iter().map(|x| (x >> shift) as u16).collect();
        u32::from(f(&operands)) << shift
    };
    vec![half(0) | half(16)]
}

/// What the functions answer, or nothing where the instruction has no function of its own here.
fn answer(name: &str, i: &[u32]) -> Option<Vec<u32>> {
    let parts: Vec<&str> = name.split('.').collect();
    let has = |word: &str| parts.contains(&word);
    let (r, ftz, sat, nan, relu, xorsign) =
        (rounding(&parts), has("ftz"), has("sat"), has("NaN"), has("relu"), has("xorsign"));
    let type_of = *parts.last()?;
    Some(match (parts[0], type_of) {
        ("cvt", _) => return conversion(&parts, i, r, relu),
        (_, "f32") if has("approx") || has("full") => return None,
        ("add", "f32") => vec![add_f32(i[0], i[1], r, ftz, sat)],
        ("sub", "f32") => vec![sub_f32(i[0], i[1], r, ftz, sat)],
        ("mul", "f32") => vec![mul_f32(i[0], i[1], r, ftz, sat)],
        ("fma", "f32") => vec![fma_f32(i[0], i[1], i[2], r, ftz, sat)],
        ("div", "f32") => vec![div_f32(i[0], i[1], r, ftz)],
        ("rcp", "f32") => vec![rcp_f32(i[0], r, ftz)],
        ("sqrt", "f32") => vec![sqrt_f32(i[0], r, ftz)],
        ("min", "f32") => vec![min_f32(i[0], i[1], ftz, nan, xorsign)],
        ("max", "f32") => vec![max_f32(i[0], i[1], ftz, nan, xorsign)],
        ("min", "abs") => vec![min_f32(i[0], i[1], ftz, nan, xorsign)],
        ("abs", "f32") => vec![abs_f32(i[0], ftz)],
        ("neg", "f32") => vec![neg_f32(i[0], ftz)],
        ("copysign", "f32") => vec![copysign_f32(i[0], i[1])],
        ("add", "f16x2") => halves(i, |x| add_f16(x[0], x[1], ftz, sat)),
        ("sub", "f16x2") => halves(i, |x| sub_f16(x[0], x[1], ftz, sat)),
        ("mul", "f16x2") => halves(i, |x| mul_f16(x[0], x[1], ftz, sat)),
        ("fma", "f16x2") => halves(i, |x| fma_f16(x[0], x[1], x[2], ftz, sat, relu)),
        ("min", "f16x2") => halves(i, |x| min_f16(x[0], x[1], ftz, nan, xorsign)),
        ("max", "f16x2") => halves(i, |x| max_f16(x[0], x[1], ftz, nan, xorsign)),
        ("add", "bf16x2") => halves(i, |x| add_bf16(x[0], x[1], ftz, sat)),
        ("sub", "bf16x2") => halves(i, |x| sub_bf16(x[0], x[1], ftz, sat)),
        ("mul", "bf16x2") => halves(i, |x| mul_bf16(x[0], x[1], ftz, sat)),
        ("fma", "bf16x2") => halves(i, |x| fma_bf16(x[0], x[1], x[2], ftz, sat, relu)),
        ("min", "bf16x2") => halves(i, |x| min_bf16(x[0], x[1], ftz, nan, xorsign)),
        ("max", "bf16x2") => halves(i, |x| max_bf16(x[0], x[1], ftz, nan, xorsign)),
        (operation, "f64") => {
            let x: Vec<u64> = i.chunks(2).map(|w| wide(w[0], w[1])).collect();
            words(match operation {
                "add" => add_f64(x[0], x[1], r),
                "mul" => mul_f64(x[0], x[1], r),
                "div" => div_f64(x[0], x[1], r),
                "fma" => fma_f64(x[0], x[1], x[2], r),
                "min" => min_f64(x[0], x[1]),
                _ => return None,
            })
        }
        _ => return None,
    })
}

fn conversion(parts: &[&str], i: &[u32], r: Rounding, relu: bool) -> Option<Vec<u32>> {
    let [to, from] = *parts.last_chunk::<2>()?;
    let satfinite = parts.contains(&"satfinite");
    let whole = ["rni", "rzi", "rmi", "rpi"].contains(&parts[1]);
    let half = |x: u32| Format::F16.decode(x & 0xFFFF);
    Some(match (to, from) {
        ("e4m3x2" | "e5m2x2", "f32") => {
            let code = |x| f32_to(Format::parse(&to[..4]).unwrap(), float(x), r, satfinite, relu);
            vec![code(i[0]) << 8 | code(i[1])]
        }
        ("e4m3x2" | "e5m2x2", "f16x2") => {
            let code = |x| f32_to(Format::parse(&to[..4]).unwrap(), half(x), r, satfinite, relu);
            vec![code(i[0] >> 16) << 8 | code(i[0])]
        }
        ("f16x2", "e4m3x2" | "e5m2x2") => {
            let format = Format::parse(&from[..4]).unwrap();
            let code = |x| f32_to(Format::F16, format.decode(x & 0xFF), r, false, relu);
            vec![code(i[0] >> 8) << 16 | code(i[0])]
        }
        ("f16x2" | "bf16x2", "f32") => {
            let code = |x| f32_to(Format::parse(&to[..to.len() - 2]).unwrap(), float(x), r, false, relu);
            vec![code(i[0]) << 16 | code(i[1])]
        }
        ("tf32" | "f16", "f32") => vec![f32_to(Format::parse(to)?, float(i[0]), r, false, relu)],
        ("f32", "f16") => vec![f16_to_f32(i[0] as u16)],
        ("f32", "bf16") => vec![bf16_to_f32(i[0] as u16)],
        ("f32", "f32") if whole => vec![round_f32_to_whole(float(i[0]), r, false)],
        ("f32", "f32") => vec![saturate_f32(i[0])],
        ("s8", "f32") => vec![i32::from(f32_to_int(float(i[0]), r, 8, true) as i8).cast_unsigned()],
        ("u16", "f32") => vec![f32_to_int(float(i[0]), r, 16, false) as u32],
        ("s32", "f32") => vec![f32_to_int(float(i[0]), r, 32, true) as u32],
        ("u32", "f32") => vec![f32_to_int(float(i[0]), r, 32, false) as u32],
        ("s64", "f32") => words(f32_to_int(float(i[0]), r, 64, true)),
        ("f32", "s32") => vec![int_to_f32(i128::from(i[0].cast_signed()), r)],
        ("f32", "u64") => vec![int_to_f32(i128::from(wide(i[0], i[1])), r)],
        ("f32", "f64") => vec![f64_to_f32(f64::from_bits(wide(i[0], i[1])), r, false)],
        ("f64", "f32") => words(f32_to_f64(i[0])),
        _ => return None,
    })
}

fn lanes(op: &WarpOp) -> impl Iterator<Item = (Vec<u32>, Vec<u32>)> {
    (0..op.cases).flat_map(move |case| {
        (0..LANES).map(move |lane| {
            let column = |registers: &[[u32; LANES]]| registers.iter().map(|r| r[lane]).collect();
            (column(op.input(case)), column(op.output(case)))
        })
    })
}

#[test]
fn h100_arithmetic_is_answered_bit_for_bit() {
    let (mut forms, mut answers) = (0, 0);
    let mut wrong = Vec::new();
    for op in &warp_ops() {
        let mut asked = false;
        for (input, output) in lanes(op) {
            let Some(got) = answer(&op.name, &input) else { break };
            asked = true;
            answers += got.len();
            if got != output {
                wrong.push(format!("{}: {input:x?} gives {got:x?}, not {output:x?}", op.name));
            }
        }
        forms += usize::from(asked);
    }
    assert!(
        wrong.is_empty(),
        "{} wrong, such as {:#?}",
        wrong.len(),
        wrong.iter().step_by(1 + wrong.len() / 40).collect::<Vec<_>>()
    );
    assert_eq!((forms, answers), (150, 41_216), "forms and answers compared");
}

/// A function that approximates.
type Approximation = (&'static str, fn(&[u32]) -> u32);

const APPROXIMATIONS: [Approximation; 23] = [
    ("ex2.approx.f32", |i| ex2_approx_f32(i[0], false)),
    ("ex2.approx.ftz.f32", |i| ex2_approx_f32(i[0], true)),
    ("lg2.approx.f32", |i| lg2_approx_f32(i[0], false)),
    ("lg2.approx.ftz.f32", |i| lg2_approx_f32(i[0], true)),
    ("rcp.approx.f32", |i| rcp_approx_f32(i[0], false)),
    ("rcp.approx.ftz.f32", |i| rcp_approx_f32(i[0], true)),
    ("rsqrt.approx.f32", |i| rsqrt_approx_f32(i[0], false)),
    ("rsqrt.approx.ftz.f32", |i| rsqrt_approx_f32(i[0], true)),
    ("sqrt.approx.f32", |i| sqrt_approx_f32(i[0], false)),
    ("sqrt.approx.ftz.f32", |i| sqrt_approx_f32(i[0], true)),
    ("sin.approx.f32", |i| sin_approx_f32(i[0])),
    ("sin.approx.ftz.f32", |i| sin_approx_f32(i[0])),
    ("cos.approx.f32", |i| cos_approx_f32(i[0])),
    ("cos.approx.ftz.f32", |i| cos_approx_f32(i[0])),
    ("tanh.approx.f32", |i| tanh_approx_f32(i[0])),
    ("div.approx.f32", |i| div_approx_f32(i[0], i[1], false)),
    ("div.approx.ftz.f32", |i| div_approx_f32(i[0], i[1], true)),
    ("div.full.f32", |i| div_full_f32(i[0], i[1], false)),
    ("div.full.ftz.f32", |i| div_full_f32(i[0], i[1], true)),
    ("tanh.approx.f16x2", |i| halves(i, |x| tanh_approx_f16(x[0]))[0]),
    ("tanh.approx.bf16x2", |i| halves(i, |x| tanh_approx_bf16(x[0]))[0]),
    ("ex2.approx.f16x2", |i| halves(i, |x| ex2_approx_f16(x[0]))[0]),
    ("ex2.approx.ftz.bf16x2", |i| halves(i, |x| ex2_approx_bf16(x[0]))[0]),
];

#[test]
fn approximations_are_the_h100s() {
    let ops = warp_ops();
    let mut wrong = Vec::new();
    let mut answers = 0;
    for (name, function) in APPROXIMATIONS {
        let op = ops.iter().find(|op| op.name == name).unwrap();
        for (input, output) in lanes(op) {
            let got = function(&input);
            answers += 1;
            if got != output[0] {
                wrong.push(format!("{name}: {input:x?} gives {got:x}, H100 {:x}", output[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(12)]);
    assert_eq!(answers, 5888, "answers compared");
}
