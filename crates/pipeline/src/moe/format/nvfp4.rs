//! NVFP4: e2m1 with a ue4m3 scale per 16 elements and an f32 scale for each expert's matrix (docs/numerics.md, 9.3).

use super::{BlockScale, Description, Element, four_over_six};
use crate::moe::case::ScaleRule;
use crate::moe::reference::formats::{to_e2m1, to_e4m3, ue4m3};
use crate::moe::reference::interval::Interval;

/// The largest e2m1.
const LARGEST: f64 = 6.0;

/// The format. Libraries divide by approximate reciprocals: seven roundings and two `rcp.approx` err by less than this.
pub(super) const DESCRIPTION: Description = Description {
    element: Element::E2m1,
    scale: Some(BlockScale::Ue4m3),
    quantize: block,
    scales,
    slack: 1.0 / (1 << 20) as f64,
};

/// The scale code of a block: its largest magnitude becomes 6, rounded to nearest and saturated at 448.
fn scale_code(global: f64, amax: f64) -> u8 {
    if amax == 0.0 { 0 } else { to_e4m3(amax / (LARGEST * global)) }
}

fn scales(rule: ScaleRule, global: f64, values: &[Interval], amax: Interval) -> Vec<u8> {
    let slack = DESCRIPTION.slack;
    four_over_six::allowed(rule, global, values, amax, slack).unwrap_or_else(|| {
        let (lo, hi) = (amax.lo * (1.0 - slack), amax.hi * (1.0 + slack));
        (scale_code(global, lo)..=scale_code(global, hi)).collect()
    })
}

fn block(rule: ScaleRule, global: f64, values: &[f64]) -> (u8, Vec<u16>) {
    let nan = values.iter().any(|x| x.is_nan());
    let amax = values.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    let scale = match four_over_six::chosen(rule, global, values) {
        _ if nan => BlockScale::Ue4m3.nan(),
        Some(scale) => scale,
        None => scale_code(global, amax),
    };
    let unit = ue4m3(scale) * global;
    let code = |x: &f64| match unit {
        u if u.is_nan() => 0x7,
        0.0 => 0,
        u => to_e2m1(x / u).into(),
    };
    (scale, values.iter().map(code).collect())
}
