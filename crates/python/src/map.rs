//! Tensor maps over arrays and buffers.

use emulator::Im2col;
use emulator::argument::{MapFields, MapOf};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A tensor map over an array or a device buffer.
#[pyclass(frozen, module = "sm121probe._native")]
pub(crate) struct TensorMap {
    /// The array or buffer.
    pub(crate) of: Py<PyAny>,
    /// Byte offset of the first element.
    pub(crate) offset: u64,
    pub(crate) map: MapOf,
}

#[pymethods]
impl TensorMap {
    /// Creates a tensor map; the innermost dimension comes first, as in `cuTensorMapEncodeTiled`. `im2col` has the corners of the bounding
    /// box, in the order of `cuTensorMapEncodeIm2col`, and the pixels of a copy; the box then has the channels of a pixel, and ones.
    #[new]
    #[pyo3(signature = (of, data_type, dims, box_dims, *, strides, element_strides, swizzle, interleave, oob, l2, offset, im2col = None))]
    #[expect(clippy::too_many_arguments, reason = "the fields of a tensor map")]
    fn new(
        of: Py<PyAny>,
        data_type: &str,
        dims: Vec<u64>,
        box_dims: Vec<u32>,
        strides: Option<Vec<u64>>,
        element_strides: Option<Vec<u32>>,
        swizzle: &str,
        interleave: &str,
        oob: &str,
        l2: &str,
        offset: u64,
        im2col: Option<(Vec<i32>, Vec<i32>, u32)>,
    ) -> PyResult<Self> {
        let fields = MapFields {
            of: "",
            data_type,
            dims: &dims,
            box_dims: &box_dims,
            strides: strides.as_deref(),
            element_strides: element_strides.as_deref(),
            swizzle: Some(swizzle),
            interleave: Some(interleave),
            oob: Some(oob),
            l2: Some(l2),
        };
        let mut map = fields.map().map_err(PyValueError::new_err)?;
        if let Some((lower, upper, pixels)) = im2col {
            let corner = |given: &[i32]| corner(given, dims.len());
            map.map.im2col = Some(Im2col { lower: corner(&lower)?, upper: corner(&upper)?, pixels });
            map.map.check().map_err(|error| {
                PyValueError::new_err(format!("this tensor map cannot be encoded: {error}"))
            })?;
        }
        Ok(Self { of, offset, map })
    }

    /// Number of bytes from the first element to the end of the last.
    #[getter]
    fn span(&self) -> u64 {
        self.map.span()
    }
}

/// A corner of the bounding box of an im2col map, with a coordinate for each dimension between the channels and the images.
///
/// # Errors
/// `ValueError` if it has another number of coordinates.
fn corner(given: &[i32], rank: usize) -> PyResult<[i32; 3]> {
    let mut corner = [0; 3];
    match corner.get_mut(..given.len()) {
        Some(coordinates) if given.len() + 2 == rank => coordinates.copy_from_slice(given),
        _ => {
            let what = format!(
                "a corner of {} coordinates; a tensor of rank {rank} has {}",
                given.len(),
                rank.saturating_sub(2)
            );
            return Err(PyValueError::new_err(what));
        }
    }
    Ok(corner)
}
