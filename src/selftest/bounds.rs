//! The error bounds of approximate functions (PTX ISA 9.4).

/// The largest error of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// In units in the last place.
    Ulp(u64),
    /// Relative to the true value: two to this power.
    Relative(f64),
    /// An absolute error: two to this power.
    Absolute(f64),
    /// The manual states no bound.
    None,
}

/// The bound of a function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// One limit for all operands.
    Everywhere(Limit),
    /// `lg2`: an absolute error between one half and two, a relative error elsewhere.
    Logarithm,
    /// `sin` and `cos`: an absolute error, larger above 2π; no bound above 100π.
    Angle,
    /// `div.approx`: in units in the last place if the divisor's magnitude is 2^-126 to 2^126. For larger or zero divisors,
    /// exactly the values in the manual; for other smaller ones, no bound.
    Quotient,
}

impl Bound {
    /// Returns the limit for these operands.
    #[must_use]
    pub fn limit(self, operands: &[f64]) -> Limit {
        let first = operands.first().copied().unwrap_or(0.0);
        match self {
            Self::Everywhere(limit) => limit,
            Self::Logarithm if first > 0.5 && first < 2.0 => Limit::Absolute(-22.0),
            Self::Logarithm => Limit::Relative(-22.0),
            Self::Angle => match first.abs() {
                x if x <= 2.0 * std::f64::consts::PI => Limit::Absolute(-20.5),
                x if x <= 100.0 * std::f64::consts::PI => Limit::Absolute(-14.7),
                x if x.is_finite() => Limit::None,
                _ => Limit::Ulp(0),
            },
            Self::Quotient => {
                let divisor = operands.get(1).copied().unwrap_or(1.0).abs();
                match divisor {
                    y if y == 0.0 || !y.is_finite() => Limit::Ulp(0),
                    y if y > 2f64.powi(126) => Limit::Ulp(0),
                    y if y < 2f64.powi(-126) => Limit::None,
                    _ => Limit::Ulp(2),
                }
            }
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct BoundRow {
    /// The prefix of the instruction's name.
    pub begins: &'static str,
    /// The types of the instruction.
    pub types: &'static [&'static str],
    /// The section of the manual.
    pub section: &'static str,
    /// A summary of the bound.
    pub words: &'static str,
    /// The bound.
    pub bound: Bound,
}

const fn row(
    begins: &'static str,
    types: &'static [&'static str],
    section: &'static str,
    words: &'static str,
    bound: Bound,
) -> BoundRow {
    BoundRow { begins, types, section, words, bound }
}

/// Every instruction whose answers may differ from the recorded ones, with its bound.
pub const BOUNDS: &[BoundRow] = &[
    row("div.approx", &["f32"], "9.7.3.8 div", "2 ulp for |b| in [2^-126, 2^126]", Bound::Quotient),
    row("div.full", &["f32"], "9.7.3.8 div", "2 ulp", Bound::Everywhere(Limit::Ulp(2))),
    row("rcp.approx", &["f32"], "9.7.3.13 rcp", "1 ulp", Bound::Everywhere(Limit::Ulp(1))),
    row(
        "sqrt.approx",
        &["f32"],
        "9.7.3.15 sqrt",
        "relative 2^-23",
        Bound::Everywhere(Limit::Relative(-23.0)),
    ),
    row(
        "rsqrt.approx",
        &["f32"],
        "9.7.3.16 rsqrt",
        "relative 2^-22.9",
        Bound::Everywhere(Limit::Relative(-22.9)),
    ),
    row("sin.approx", &["f32"], "9.7.3.18 sin", "2^-20.5 to 2pi, 2^-14.7 to 100pi", Bound::Angle),
    row("cos.approx", &["f32"], "9.7.3.19 cos", "2^-20.5 to 2pi, 2^-14.7 to 100pi", Bound::Angle),
    row(
        "lg2.approx",
        &["f32"],
        "9.7.3.20 lg2",
        "absolute 2^-22 in (0.5, 2), relative 2^-22 elsewhere",
        Bound::Logarithm,
    ),
    row("ex2.approx", &["f32"], "9.7.3.21 ex2", "2 ulp", Bound::Everywhere(Limit::Ulp(2))),
    row(
        "tanh.approx",
        &["f32"],
        "9.7.3.22 tanh",
        "relative 2^-11",
        Bound::Everywhere(Limit::Relative(-11.0)),
    ),
    row(
        "tanh.approx",
        &["f16", "f16x2"],
        "9.7.4.9 tanh",
        "absolute 2^-10.987",
        Bound::Everywhere(Limit::Absolute(-10.987)),
    ),
    row(
        "tanh.approx",
        &["bf16", "bf16x2"],
        "9.7.4.9 tanh",
        "absolute 2^-8",
        Bound::Everywhere(Limit::Absolute(-8.0)),
    ),
    row(
        "ex2.approx",
        &["f16", "f16x2"],
        "9.7.4.10 ex2",
        "relative 2^-9.9",
        Bound::Everywhere(Limit::Relative(-9.9)),
    ),
    row(
        "ex2.approx",
        &["bf16", "bf16x2"],
        "9.7.4.10 ex2",
        "relative 2^-7",
        Bound::Everywhere(Limit::Relative(-7.0)),
    ),
    row("rcp.approx", &["f64"], "9.7.3.14 rcp.approx.ftz.f64", "no bound", Bound::Everywhere(Limit::None)),
    row("rsqrt.approx", &["f64"], "9.7.3.16 and 9.7.3.17 rsqrt", "no bound", Bound::Everywhere(Limit::None)),
];

/// Returns the row of an instruction.
pub fn bound_row(name: &str) -> Option<&'static BoundRow> {
    let ty = name.rsplit('.').next().unwrap_or_default();
    BOUNDS.iter().find(|row| name.starts_with(row.begins) && row.types.contains(&ty))
}
