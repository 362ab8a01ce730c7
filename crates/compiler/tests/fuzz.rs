//! Random kernels: every one is defined and agrees with itself in every way that needs no GPU; they reach the instruction table, and show
//! faults that are planted in it.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use compiler::fuzz::{Generator, check, outputs, row_of, shrink, without_choice};
use ptx::{Immediate, Instruction, Item, Module, Operand, Span, Statement};

fn generator() -> Generator {
    Generator::new("9.5".parse().unwrap(), "sm_120a".parse().unwrap()).unwrap()
}

/// Rows that need a tensor map, a texture, a surface, a cluster's launch control, or a directive on registers, which random kernels lack.
const NOT_WRITTEN: [&str; 15] = [
    "clusterlaunchcontrol.query_cancel",
    "clusterlaunchcontrol.try_cancel",
    "cp.async.bulk.prefetch.tensor",
    "cp.async.bulk.tensor",
    "cp.reduce.async.bulk.tensor",
    "setmaxnreg",
    "suld",
    "suq",
    "sured",
    "sust",
    "tensormap.cp_fenceproxy",
    "tensormap.replace",
    "tex",
    "tld4",
    "txq",
];

/// What a GPU may compute otherwise is not in its kernels: contraction, and which of two NaNs a result is.
#[test]
fn kernels_for_a_gpu_leave_no_nan_open_and_stay_defined() {
    let body = |line: &str| {
        format!(
            ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k() {{\n.reg .b32 r<4>;\n.reg .b64 d<4>;\n.reg .pred p0, tq;\n\
             {line}\nret;\n}}\n"
        )
    };
    for (line, added) in [
        (
            "@p0 max.f64 d0, d1, d2;",
            "@p0 max.f64 d0, d1, d2;\n{ .reg .pred nan; testp.notanumber.f64 nan, d0; @nan mov.b64 d0, 0x7FF8000000000000; }",
        ),
        (
            "red.global.add.f64 [d1], d2;",
            "{ .reg .pred nan; testp.notanumber.f64 nan, d2; @nan mov.b64 d2, 0; }\nred.global.add.f64 [d1], d2;",
        ),
        (
            "neg.f32 r0, r1;",
            "neg.f32 r0, r1;\n{ .reg .pred nan; testp.notanumber.f32 nan, r0; @nan mov.b32 r0, 0x7FFFFFFF; }",
        ),
        (
            "cvt.f32.f32 r0, r1;",
            "cvt.f32.f32 r0, r1;\n{ .reg .pred nan; testp.notanumber.f32 nan, r0; @nan mov.b32 r0, 0x7FFFFFFF; }",
        ),
        (
            "max.f32 r0, r1, r1;",
            "max.f32 r0, r1, r1;\n{ .reg .pred nan; testp.notanumber.f32 nan, r0; @nan mov.b32 r0, 0x7FFFFFFF; }",
        ),
        ("max.f32 r0, r1, r2;", "max.f32 r0, r1, r2;"),
        ("@p0 max.NaN.f16 h0, h1, h1;", "@p0 mov.b16 h0, h1;"),
        ("min.ftz.f16x2 r0, r1, r1;", "mov.b32 r0, r1;"),
        ("min.xorsign.abs.bf16x2 r0, r1, r1;", "min.xorsign.abs.bf16x2 r0, r1, r1;"),
        (
            "cvt.rna.tf32.f32 r0, r1;",
            "{ .reg .pred nan; testp.notanumber.f32 nan, r1; @nan mov.b32 r1, 0x7FFFFFFF; }\ncvt.rna.tf32.f32 r0, r1;",
        ),
        ("cvt.rn.f32.f64 r0, d1;", "cvt.rn.f32.f64 r0, d1;"),
        ("cvt.rn.f32.f64 r0, 0d7FF0000000000001;", "mov.b32 r0, 0x7FFFFFFF;"),
        ("cvt.rn.f32.f64 r0, 0d7FF0000000000000;", "cvt.rn.f32.f64 r0, 0d7FF0000000000000;"),
        (
            "neg.bf16 h0, h1;",
            "{ .reg .pred nan; setp.nan.bf16 nan, h1, h1; @nan mov.b16 h1, 0; }\nneg.bf16 h0, h1;",
        ),
        (
            "abs.f16x2 r0, r1;",
            "{ .reg .pred nan; .reg .b16 low, high; mov.b32 {low, high}, r1; setp.nan.f16 nan, low, low; \
             @nan mov.b16 low, 0; setp.nan.f16 nan, high, high; @nan mov.b16 high, 0; mov.b32 r1, {low, high}; }\n\
             abs.f16x2 r0, r1;",
        ),
        ("add.u32 r0, r1, r2;", "add.u32 r0, r1, r2;"),
    ] {
        assert_eq!(without_choice(&body(line)), body(added));
    }
    let mut generator = generator();
    let mut changed = 0;
    for seed in 0..100 {
        let kernel = generator.kernel(seed);
        let fixed = without_choice(&kernel.text);
        changed += usize::from(fixed.contains("testp.notanumber.f64 nan, "));
        check(&fixed, seed).unwrap();
    }
    // A fifth of the kernels, as it is drawn.
    assert!(changed > 10, "{changed}");
}

#[test]
fn three_hundred_kernels_agree_with_themselves_and_reach_the_table() {
    let mut generator = generator();
    let mut wrong = Vec::new();
    for seed in 0..300 {
        let kernel = generator.kernel(seed);
        if let Err(difference) = check(&kernel.text, seed) {
            wrong.push(format!("seed {seed}: {difference}"));
        }
    }
    assert!(wrong.is_empty(), "{} of 300: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    assert_eq!(generator.reached().missing().collect::<Vec<_>>(), NOT_WRITTEN);
}

#[test]
fn older_targets_have_kernels_that_agree() {
    for (isa, target) in [("8.0", "sm_80"), ("8.7", "sm_90"), ("8.8", "sm_121f")] {
        let mut generator = Generator::new(isa.parse().unwrap(), target.parse().unwrap()).unwrap();
        for seed in 0..20 {
            let kernel = generator.kernel(seed);
            check(&kernel.text, seed)
                .unwrap_or_else(|d| panic!("{target}, seed {seed}: {d}\n{}", kernel.text));
        }
    }
}

#[test]
fn a_version_that_lacks_the_target_is_refused() {
    let refused = Generator::new("8.0".parse().unwrap(), "sm_120a".parse().unwrap());
    assert_eq!(
        refused.err().unwrap().to_string(),
        "PTX 8.0 does not have sm_120a; it was introduced with PTX 8.7"
    );
}

#[test]
fn a_seed_makes_the_same_kernels_again() {
    let kernels = || {
        let mut generator = generator();
        (0..5).map(|seed| generator.kernel(seed)).collect::<Vec<_>>()
    };
    assert_eq!(kernels(), kernels());
}

/// Rows of every chapter.
const ROWS: [&str; 44] = [
    "add", "sub", "mul", "mad", "fma", "div", "abs", "neg", "min", "max", "mul24", "sad", "rem", "vadd4",
    "vset", "vmad", "cvt", "cvt.pack", "rcp", "sqrt", "ex2", "popc", "bfind", "bfe", "bfi", "szext", "dp4a",
    "addc", "setp", "set", "selp", "slct", "testp", "lop3", "shl", "shf", "prmt", "mov", "ld", "atom",
    "shfl", "vote", "mma", "ldmatrix",
];

#[test]
fn a_fault_in_any_row_changes_results_within_two_thousand_kernels() {
    let mut generator = generator();
    let mut left: Vec<&str> = ROWS.to_vec();
    let mut last = 0;
    for seed in 0..2000 {
        if left.is_empty() {
            break;
        }
        let kernel = generator.kernel(seed);
        let module = ptx::parse(&kernel.text).unwrap();
        let right = outputs(&kernel.text, seed).unwrap();
        left.retain(|row| {
            let planted = plant(&module, row);
            planted == module || outputs(&planted.to_string(), seed).is_ok_and(|wrong| wrong == right)
        });
        last = seed;
    }
    assert!(left.is_empty(), "after {last} kernels: {left:?}");
}

#[test]
fn a_difference_shrinks_to_a_few_lines_that_are_defined() {
    let mut generator = generator();
    let differs = |text: &str, seed: u64| {
        let Ok(module) = ptx::parse(text) else { return false };
        let planted = plant(&module, "prmt");
        let (right, wrong) = (outputs(text, seed), outputs(&planted.to_string(), seed));
        right.is_ok_and(|right| wrong.is_ok_and(|wrong| wrong != right))
    };
    let (seed, kernel) =
        (0..200).map(|seed| (seed, generator.kernel(seed))).find(|(s, k)| differs(&k.text, *s)).unwrap();
    let small = shrink(&kernel.text, |text| differs(text, seed));
    let instructions =
        small.lines().filter(|line| line.trim_end().ends_with(';') && !line.contains(".reg")).count();
    assert!(differs(&small, seed) && instructions < 25, "{small}");
}

/// Adds a fault to a row as a wrong emulator would have it: after every instruction of it, the lowest bit of its first result is flipped where
/// the register is odd, under the instruction's own guard.
fn plant(module: &Module, row: &str) -> Module {
    let mut planted = module.clone();
    for item in &mut planted.items {
        if let Item::Function(function) = item
            && let Some(body) = &mut function.body
        {
            *body = std::mem::take(body).into_iter().flat_map(|s| with_fault(s, row)).collect();
        }
    }
    planted
}

fn with_fault(statement: Statement, row: &str) -> Vec<Statement> {
    let mut out = vec![statement];
    let Some(Statement::Instruction(i)) = out.first() else { return out };
    if row_of(i) != row {
        return out;
    }
    let result = match i.operands.first() {
        Some(Operand::Name(name)) => Some(name.clone()),
        Some(Operand::Pair(first, _)) => match first.as_ref() {
            Operand::Name(name) => Some(name.clone()),
            _ => None,
        },
        Some(Operand::Vector(list)) => list.iter().find_map(|o| match o {
            Operand::Name(name) => Some(name.clone()),
            _ => None,
        }),
        _ => None,
    };
    let Some(name) = result else { return out };
    let name = name.split('.').next().unwrap().to_owned();
    let opcode = if name.starts_with('p') {
        ("not", "pred")
    } else {
        (
            "xor",
            match &name[..1] {
                "h" => "b16",
                "r" | "t" | "f" => "b32",
                "d" | "u" => "b64",
                _ => return out,
            },
        )
    };
    let mut operands = vec![Operand::Name(name.clone()), Operand::Name(name)];
    if opcode.0 == "xor" {
        operands.push(Operand::Immediate(Immediate::Integer { bits: 1, unsigned: false }));
    }
    let fault = Instruction {
        guard: i.guard.clone(),
        opcode: opcode.0.to_owned(),
        modifiers: vec![opcode.1.to_owned()],
        operands,
        span: Span::default(),
    };
    out.push(Statement::Instruction(fault));
    out
}
