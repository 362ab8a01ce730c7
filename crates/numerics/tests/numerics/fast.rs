//! The fast path of tensor-core sums against the definition, on inputs made to reach every corner.

use numerics::tensor_core::{MmaForm, MmaShape, Model, mma, mma_exact};
use numerics::{Format, Path};

/// xorshift: the same inputs on every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.next() % limit
    }

    fn chance(&mut self, of: u32) -> bool {
        self.below(of) == 0
    }

    /// A code of `format` in the manner of `regime`.
    fn code(&mut self, format: Format, regime: u32) -> u32 {
        let bits = format.bits();
        let raw = if bits == 32 { self.next() } else { self.below(1 << bits) };
        let sign = 1 << (bits - 1);
        match regime {
            // Anything, NaN and infinity among it.
            0 => raw,
            // Mostly zeros.
            1 if self.chance(2) => raw & sign,
            // Powers of two.
            2 if bits > 16 => raw & 0xFF80_0000,
            2 => raw & !1,
            // The smallest and the largest magnitudes together.
            3 if self.chance(2) => raw & (sign | 3),
            3 => raw | (sign >> 2),
            // Middle magnitudes: no specials, no subnormals.
            4 => match format {
                Format::F16 => (raw & 0x83FF) | (0x3000 + (self.below(8) << 10)),
                Format::Bf16 => (raw & 0x807F) | (0x3E00 + (self.below(8) << 7)),
                Format::F32 | Format::Tf32 => (raw & 0x807F_FFFF) | (0x3E00_0000 + (self.below(16) << 23)),
                _ => raw & !(sign >> 1),
            },
            _ => raw & !(sign >> 1),
        }
    }

    /// An accumulator around `2^exponent`.
    fn float_near(&mut self, exponent: i32) -> u32 {
        let field = (exponent + 127).clamp(0, 254).cast_unsigned();
        let mantissa = match self.below(3) {
            0 => 0,
            1 => self.below(1 << 23),
            _ => self.below(1 << 23) & 0xFFF << self.below(12),
        };
        self.below(2) << 31 | field << 23 | mantissa
    }
}

const NARROW: [Format; 5] = [Format::E4m3, Format::E5m2, Format::E3m2, Format::E2m3, Format::E2m1];

fn forms() -> Vec<MmaForm> {
    let mut out = Vec::new();
    let mut push = |k, a, b, accumulator, scale| {
        out.push(MmaForm { shape: MmaShape { m: 16, n: 8, k }, a, b, accumulator, scale });
    };
    for a in NARROW {
        for b in NARROW {
            push(32, a, b, Format::F32, None);
            push(32, a, b, Format::F32, Some((Format::Ue8m0, 1)));
            push(32, a, b, Format::F16, None);
        }
    }
    for k in [8, 16] {
        push(k, Format::F16, Format::F16, Format::F32, None);
        push(k, Format::F16, Format::F16, Format::F16, None);
        push(k, Format::Bf16, Format::Bf16, Format::F32, None);
        push(k / 2, Format::Tf32, Format::Tf32, Format::F32, None);
    }
    push(64, Format::E2m1, Format::E2m1, Format::F32, Some((Format::Ue8m0, 2)));
    push(64, Format::E2m1, Format::E2m1, Format::F32, Some((Format::Ue8m0, 4)));
    push(64, Format::E2m1, Format::E2m1, Format::F32, Some((Format::Ue4m3, 4)));
    // Other numbers of rows: one of a sparse product, those of `wmma`, and some that are no multiple of 16.
    let others: Vec<MmaForm> = [1, 8, 24, 32]
        .into_iter()
        .flat_map(|m| {
            out.iter().step_by(7).map(move |form| MmaForm { shape: MmaShape { m, ..form.shape }, ..*form })
        })
        .collect();
    out.extend(others);
    out
}

/// One case; `Err` names what differs.
fn compare(model: Model, form: &MmaForm, numbers: &mut Numbers, paths: &[Path]) -> Result<(), String> {
    let MmaShape { m, n, k } = form.shape;
    let (regime_a, regime_b) = (numbers.below(6), numbers.below(6));
    // Whole matrices of raw codes are nearly all NaN: let one in a while stand among others.
    let pick = |numbers: &mut Numbers, regime| if regime == 0 && !numbers.chance(40) { 5 } else { regime };
    let mut matrix = |format, regime, count: usize| -> Vec<u32> {
        (0..count)
            .map(|_| {
                let regime = pick(numbers, regime);
                numbers.code(format, regime)
            })
            .collect()
    };
    let a = matrix(form.a, regime_a, m * k);
    let b = matrix(form.b, regime_b, n * k);
    let spread = [1, 4, 40, 255][numbers.below(4) as usize];
    let centre = if numbers.chance(3) { numbers.below(255) } else { 127 };
    let mut scales = |rows: usize| -> Vec<u32> {
        let Some((format, chunks)) = form.scale else { return Vec::new() };
        (0..rows * chunks as usize)
            .map(|_| match format {
                Format::Ue8m0 => (centre + numbers.below(spread)).min(255),
                _ => numbers.below(256),
            })
            .collect()
    };
    let (sfa, sfb) = (scales(m), scales(n));
    let place = numbers.below(60).cast_signed() - 30
        + if form.scale.is_some() { 2 * (centre.cast_signed() - 127) } else { 0 };
    let regime = numbers.below(4);
    let c: Vec<u32> = (0..m * n)
        .map(|_| match (form.accumulator, regime) {
            (Format::F16, _) => numbers.code(Format::F16, 1 + regime),
            (_, 0) => 0,
            (_, 1) => numbers.next(),
            _ => numbers.float_near(place),
        })
        .collect();
    let mut exact = vec![0; m * n];
    mma_exact(model, form, &a, &b, &c, &sfa, &sfb, &mut exact);
    for path in paths {
        let mut fast = vec![0; m * n];
        path.force(|| mma(model, form, &a, &b, &c, &sfa, &sfb, &mut fast));
        if let Some(at) = (0..m * n).find(|at| fast[*at] != exact[*at]) {
            return Err(format!(
                "{model:?} {form:?} on {} at {at}: fast {:08x}, exact {:08x}; regimes {regime_a} {regime_b} {regime}",
                path.name(),
                fast[at],
                exact[at]
            ));
        }
    }
    Ok(())
}

#[test]
fn the_fast_path_equals_the_definition_with_every_vector_instruction_set() {
    let paths = Path::available();
    assert!(!paths.is_empty(), "no path");
    println!("paths: {}", paths.iter().map(|p| p.name()).collect::<Vec<_>>().join(", "));
    let mut numbers = Numbers(0x5EED_0001);
    for form in forms() {
        for model in Model::ALL {
            let rounds = if model == Model::Sm120 { 150 } else { 20 };
            for _ in 0..rounds {
                compare(model, &form, &mut numbers, &paths).unwrap();
            }
        }
    }
}
