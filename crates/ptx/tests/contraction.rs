//! What ptxas makes of quotients, copies and pairs before it contracts products and sums.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use ptx::contraction::{expected, explicit, explicit_where_needed, lowered, pairs};
use ptx::folding::{Products, fold};

fn module(body: &str) -> ptx::Module {
    let text = format!(
        ".version 8.8\n.target sm_121a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .f32 f<16>; .reg .b64 d<8>; .reg .pred q;\n{body}\nret;\n}}\n"
    );
    ptx::parse(&text).unwrap()
}

/// The instructions of a module, but for the last.
fn instructions(module: &ptx::Module) -> Vec<String> {
    let text = module.to_string();
    let lines = text.lines().map(str::trim).filter(|l| l.ends_with(';') && !l.starts_with('.'));
    let mut lines: Vec<String> = lines.map(|line| line.trim_end_matches(';').to_owned()).collect();
    lines.pop();
    lines
}

fn folded(body: &str, products: Products) -> Vec<String> {
    let mut module = module(body);
    fold(&mut module, products);
    instructions(&module)
}

#[test]
fn a_constant_divisor_is_a_factor() {
    let third = "div.full.f32 f1, f0, 0f40400000;";
    assert_eq!(folded(third, Products::Rounded), ["mul.rn.f32 f1, f0, 0f3EAAAAAB"]);
    assert_eq!(folded(third, Products::Open), ["mul.f32 f1, f0, 0f3EAAAAAB"]);
    // Through a register with one definition, not through one with two.
    let through = "mov.b32 f2, 0f40400000; div.approx.ftz.f32 f1, f0, f2;";
    assert_eq!(folded(through, Products::Rounded)[1], "mul.rn.ftz.f32 f1, f0, 0f3EAAAAAB");
    let twice = "mov.b32 f2, 0f40400000; @q mov.b32 f2, 0f40A00000; div.full.f32 f1, f0, f2;";
    assert_eq!(folded(twice, Products::Rounded)[2], "div.full.f32 f1, f0, f2");
    // Nothing but these: a quotient that rounds as IEEE 754 has it, and a divisor that is no number.
    for same in
        ["div.rn.f32 f1, f0, 0f40400000", "div.full.f32 f1, f0, 0f7FC00000", "div.full.f32 f1, f0, f2"]
    {
        assert_eq!(folded(&format!("{same};"), Products::Rounded), [same]);
    }
}

#[test]
fn divisors_at_the_ends_are_scaled_as_ptxas_scales_them() {
    let of = |form: &str, divisor: &str| {
        folded(&format!("div.{form}.f32 f1, f0, 0f{divisor};"), Products::Rounded)
    };
    assert_eq!(of("full", "7F000000"), ["mul.rn.f32 f1, f0, 0f3E800000", "mul.rn.f32 f1, f1, 0f01000000"]);
    assert_eq!(of("approx", "7F000000"), ["mul.rn.f32 f1, f0, 0f00000000"]);
    assert_eq!(of("full", "7E800000"), ["mul.rn.f32 f1, f0, 0f00800000"]);
    assert_eq!(of("full", "00000000"), ["mul.rn.f32 f1, f0, 0f4B800000", "mul.rn.f32 f1, f1, 0f7F800000"]);
    assert_eq!(of("full.ftz", "00000003"), ["mul.rn.ftz.f32 f1, f0, 0f7F800000"]);
    assert_eq!(of("full", "3F800000"), ["mov.f32 f1, f0"]);
}

#[test]
fn a_special_function_of_a_constant_is_a_constant() {
    assert_eq!(folded("rcp.approx.f32 f1, 0f40400000;", Products::Rounded), ["mov.f32 f1, 0f3EAAAAAB"]);
    assert_eq!(folded("rcp.approx.ftz.f32 f1, 0f7F7FFFFF;", Products::Rounded), ["mov.f32 f1, 0f00000000"]);
    // As the machine code of ptxas 13.5 has them, and an H200 computes.
    for (form, operand, result) in [
        ("ex2.approx", "42FF0000", "7F3504F3"),
        ("ex2.approx", "C3024CCD", "00067F7D"),
        ("ex2.approx.ftz", "C3024CCD", "00000000"),
        ("lg2.approx", "7149F2CA", "42C750D1"),
        ("sin.approx", "C0200000", "BF193578"),
        ("cos.approx.ftz", "4E6E6B28", "3F567FC6"),
        ("sqrt.approx", "7149F2CA", "58635FA9"),
        ("rsqrt.approx.ftz", "02081CEA", "5E2F8AAB"),
    ] {
        let found = folded(&format!("{form}.f32 f1, 0f{operand};"), Products::Rounded);
        assert_eq!(found, [format!("mov.f32 f1, 0f{result}")], "{form}");
    }
    for same in
        ["tanh.approx.f32 f1, 0f40400000", "lg2.approx.f32 f1, 0fBF800000", "sqrt.rn.f32 f1, 0f40400000"]
    {
        assert_eq!(folded(&format!("{same};"), Products::Rounded), [same]);
    }
    assert_eq!(folded("rcp.approx.f32 f1, f0;", Products::Rounded), ["rcp.approx.f32 f1, f0"]);
}

/// What is contracted of a body that has been lowered.
fn contracted(body: &str) -> Vec<String> {
    let lowered = lowered(&module(body));
    instructions(&explicit(&lowered, &expected(&pairs(&lowered))))
}

#[test]
fn copies_negatives_and_pairs_hide_no_product() {
    let last = |body: &str| contracted(body).pop().unwrap();
    assert_eq!(last("mul.f32 f3, f0, f1; mov.f32 f4, f3; add.f32 f5, f4, f2;"), "fma.rn.f32 f5, f0, f1, f2");
    let negative = contracted("mul.f32 f3, f0, f1; neg.f32 f4, f3; add.f32 f5, f2, f4;");
    assert!(negative.iter().any(|line| line.starts_with("neg.f32 ")), "{negative:?}");
    assert!(negative.iter().any(|line| line.starts_with("fma.rn.f32 f5, ")), "{negative:?}");
    let pair = contracted(
        "mul.f32 f3, f0, f1; mul.f32 f4, f1, f2; mov.b64 d0, {f3, f4}; add.f32x2 d2, d0, d1; mov.b64 {f5, f6}, d2;",
    );
    assert_eq!(pair.iter().filter(|line| line.starts_with("fma.rn.f32 ")).count(), 2, "{pair:?}");
    let quotient = contracted("div.approx.ftz.f32 f3, f0, f1; add.ftz.f32 f5, f3, f2;");
    assert!(quotient.iter().any(|line| line.starts_with("rcp.approx.ftz.f32 ")), "{quotient:?}");
    assert!(quotient.iter().any(|line| line.starts_with("fma.rn.ftz.f32 f5, ")), "{quotient:?}");
}

#[test]
fn a_register_of_a_block_is_not_read_outside() {
    let text = contracted("{ .reg .f32 t; mul.f32 t, f0, f1; mov.f32 f3, t; }\nadd.f32 f5, f3, f2;");
    assert_eq!(text.last().unwrap(), "add.rn.f32 f5, f3, f2");
}

#[test]
fn a_sum_that_nothing_can_be_contracted_with_may_keep_its_form() {
    let last = |body: &str| instructions(&explicit_where_needed(&module(body), &[])).pop().unwrap();
    for (body, open) in [
        ("ex2.approx.f32 f3, f0; add.f32 f5, f3, 0f3F800000;", true),
        ("min.f32 f3, f0, f1; sub.f32 f5, f3, f2;", true),
        ("mul.f32 f3, f0, f1; add.f32 f5, f3, f2;", false),
        ("mul.f32 f3, f0, f1; mov.f32 f4, f3; add.f32 f5, f4, f2;", false),
        ("mul.f32 f3, f0, f1; mov.b64 d0, {f3, f2}; mov.b64 d1, {f2, f2}; add.f32x2 d2, d0, d1;", false),
        ("rcp.approx.f32 f3, f0; add.f32 f5, f3, f2;", false),
        ("mul.f32 f5, f0, f1;", false),
    ] {
        assert_eq!(!last(body).contains(".rn."), open, "{body}");
    }
}

#[test]
fn modifiers_that_forbid_contraction_do() {
    for body in [
        "mul.rn.f32 f3, f0, f1; add.f32 f5, f3, f2;",
        "mul.f32 f3, f0, f1; add.rn.f32 f5, f3, f2;",
        "mul.sat.f32 f3, f0, f1; add.f32 f5, f3, f2;",
        "mul.ftz.f32 f3, f0, f1; add.f32 f5, f3, f2;",
        "mul.f32 f3, f0, f1; add.ftz.f32 f5, f3, f2;",
        "mul.rz.f32 f3, f0, f1; add.f32 f5, f3, f2;",
        "mul.f64 d3, d0, d1; add.rm.f64 d5, d3, d2;",
        "mul.rn.f32x2 d3, d0, d1; add.f32x2 d5, d3, d2;",
    ] {
        assert_eq!(pairs(&module(body)), [], "{body}");
    }
}

#[test]
fn every_type_that_has_a_product_and_a_sum_is_contracted() {
    for (ty, registers) in [
        ("f32", "f"),
        ("f64", "d"),
        ("f32x2", "d"),
        ("f16", "h"),
        ("bf16", "h"),
        ("f16x2", "f"),
        ("bf16x2", "f"),
    ] {
        for (sum, sources) in [("add", "3 2"), ("add", "2 3"), ("sub", "3 2"), ("sub", "2 3")] {
            let sources: Vec<String> = sources.split(' ').map(|n| format!("{registers}{n}")).collect();
            let r = registers;
            let body = format!(
                ".reg .b16 h<8>; mul.{ty} {r}3, {r}0, {r}1; {sum}.{ty} {r}5, {};",
                sources.join(", ")
            );
            let module = module(&body);
            let last = instructions(&explicit(&module, &pairs(&module))).pop().unwrap();
            assert!(last.starts_with(&format!("fma.rn.{ty} {r}5, ")), "{body}: {last}");
        }
    }
    for modifiers in ["ftz", "ftz.sat", "sat"] {
        let ftz = if modifiers.starts_with("ftz") { ".ftz" } else { "" };
        let module = module(&format!("mul{ftz}.f32 f3, f0, f1; add.{modifiers}.f32 f5, f3, f2;"));
        let last = instructions(&explicit(&module, &pairs(&module))).pop().unwrap();
        assert_eq!(last, format!("fma.rn.{modifiers}.f32 f5, f0, f1, f2"));
    }
}
