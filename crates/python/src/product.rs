//! Products of two matrices: their bounds, and what explains a wrong one. What `sm121probe.mx` checks is judged here.

use numerics::format::Format;
use numerics::tensor_core::Accumulation;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sm121probe::product::{Bounds, Matrix, Product, ResultType, Scaled, Sum, explain};

/// An operand as the package hands it over: codes with scales, or values. Arrays are little-endian bytes, row-major.
#[derive(FromPyObject)]
pub(crate) enum Operand {
    /// The format of elements, K, codes, the format of scales, elements of a scale, scales, the global scale.
    Scaled(String, usize, Vec<u8>, String, usize, Vec<u8>, f64),
    /// K, and f64.
    Plain(usize, Vec<u8>),
}

/// Reads f64.
fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|word| f64::from_le_bytes(*word)).collect()
}

fn matrix(of: Operand) -> Option<Matrix> {
    Some(match of {
        Operand::Plain(depth, values) => Matrix::Plain { depth, values: doubles(&values) },
        Operand::Scaled(element, depth, codes, scale, block, scales, global) => {
            let (element, scale) = (Format::parse(&element)?, Format::parse(&scale)?);
            Matrix::Scaled(Scaled { element, depth, codes, scale, block, scales, global })
        }
    })
}

/// How a kernel sums and what it stores: products of a step (0 for single products in f32), bits kept, whether steps rise, the type.
type How = (usize, i64, bool, String);

fn product(a: Operand, b: Operand, bias: Option<Vec<u8>>, how: &How) -> Option<Product> {
    let (length, fraction, rising, result) = how;
    let sum = match *length {
        0 => Sum::Fma,
        length => Sum::Steps { length, accumulation: Accumulation { fraction: *fraction, rising: *rising } },
    };
    let bias = bias.as_deref().map(doubles);
    Some(Product { a: matrix(a)?, b: matrix(b)?, bias, sum, result: ResultType::parse(result)? })
}

/// Returns the exact values and the bounds on their errors, [rows of `a`, rows of `b`], as bytes of f64; `None` for an unknown format.
#[pyfunction]
pub(crate) fn product_bounds(
    py: Python<'_>,
    a: Operand,
    b: Operand,
    bias: Option<Vec<u8>>,
    how: How,
) -> Option<(Py<PyBytes>, Py<PyBytes>)> {
    let Bounds { elements, .. } = py.detach(|| Some(product(a, b, bias, &how)?.bounds()))?;
    let values: Vec<u8> = elements.iter().flat_map(|of| of.value.to_le_bytes()).collect();
    let errors: Vec<u8> = elements.iter().flat_map(|of| of.error.to_le_bytes()).collect();
    Some((PyBytes::new(py, &values).unbind(), PyBytes::new(py, &errors).unbind()))
}

/// Returns what explains the wrong elements of `stored` (f64), as text; `None` if there are none, or for an unknown format. Of a sample, so many
/// rows and columns are looked at.
#[pyfunction]
#[pyo3(signature = (a, b, bias, how, stored, sample))]
pub(crate) fn explain_product(
    py: Python<'_>,
    a: Operand,
    b: Operand,
    bias: Option<Vec<u8>>,
    how: How,
    stored: Vec<u8>,
    sample: Option<usize>,
) -> Option<String> {
    py.detach(|| {
        let product = product(a, b, bias, &how)?;
        let bounds = sample.map_or_else(|| product.bounds(), |most| product.sampled_bounds(most));
        Some(explain(&product, &bounds, &doubles(&stored))?.text())
    })
}
