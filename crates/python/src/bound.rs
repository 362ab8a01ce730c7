//! The error bound of a GEMM: what `sm121probe.mx.bound` does for every element.

use numerics::tensor_core::{Accumulation, Rows, row_bounds};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rayon::prelude::*;

/// Reads little-endian values (f64), nominal exponents and lowest bits (i64), each [rows, `depth`].
fn rows([values, exponents, units]: &[Vec<u8>; 3], depth: usize, length: usize) -> Rows {
    let integers = |bytes: &[u8]| -> Vec<i64> {
        bytes.as_chunks().0.iter().map(|word| i64::from_le_bytes(*word)).collect()
    };
    let values = values.as_chunks().0.iter().map(|word| f64::from_le_bytes(*word)).collect();
    Rows::new(values, &integers(exponents), &integers(units), depth, length)
}

/// Returns the exact sums and the bounds on a tensor core's errors, [rows of `left`, rows of `right`], as bytes of f64. `accumulation` is the
/// number of products of a step, the bits that it keeps below the largest exponent, and whether steps are those of rising k.
#[pyfunction]
pub(crate) fn step_bounds(
    py: Python<'_>,
    left: [Vec<u8>; 3],
    right: [Vec<u8>; 3],
    depth: usize,
    accumulation: (usize, i64, bool),
) -> (Py<PyBytes>, Py<PyBytes>) {
    let (length, fraction, rising) = accumulation;
    let pairs: Vec<Vec<[f64; 2]>> = py.detach(|| {
        let [left, right] = [&left, &right].map(|of| rows(of, depth, length));
        let each = |row: usize| row_bounds(&left, row, &right, Accumulation { fraction, rising });
        (0..left.count()).into_par_iter().map(each).collect()
    });
    let bytes = |n: usize| {
        let all: Vec<u8> = pairs.iter().flatten().flat_map(|pair| pair[n].to_le_bytes()).collect();
        PyBytes::new(py, &all).unbind()
    };
    (bytes(0), bytes(1))
}
