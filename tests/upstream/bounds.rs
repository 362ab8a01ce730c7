//! Comparison of results with references in f64.

/// Relative rounding errors of f32, f16 and bf16, to nearest: half a unit in the last place.
pub(crate) const F32: f64 = 1.0 / (1u64 << 24) as f64;
pub(crate) const F16: f64 = 1.0 / (1u64 << 11) as f64;
pub(crate) const BF16: f64 = 1.0 / (1u64 << 8) as f64;

/// Returns the largest error in units of its bound.
///
/// # Errors
/// The first element whose error exceeds its bound.
pub(crate) fn within(got: &[f64], wanted: &[(f64, f64)]) -> Result<f64, String> {
    if got.len() != wanted.len() || got.is_empty() {
        return Err(format!("{} elements, not {}", got.len(), wanted.len()));
    }
    let mut largest = 0.0f64;
    for (n, (got, (wanted, bound))) in got.iter().zip(wanted).enumerate() {
        let error = if got == wanted { 0.0 } else { (got - wanted).abs() / bound };
        if error.is_nan() || error > 1.0 {
            return Err(format!("element {n} is {got}, not {wanted} within {bound:e}"));
        }
        largest = largest.max(error);
    }
    Ok(largest)
}

/// Compares for equality; the error is 0.
///
/// # Errors
/// The first element that differs.
pub(crate) fn equal(got: &[f64], wanted: &[f64]) -> Result<f64, String> {
    within(got, &wanted.iter().map(|wanted| (*wanted, 0.0)).collect::<Vec<_>>())
}
