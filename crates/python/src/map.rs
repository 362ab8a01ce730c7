//! Tensor maps over arrays and buffers.

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
    /// Creates a tensor map; the innermost dimension comes first, as in `cuTensorMapEncodeTiled`.
    #[new]
    #[pyo3(signature = (of, data_type, dims, box_dims, *, strides, element_strides, swizzle, interleave, oob, l2, offset))]
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
        let map = fields.map().map_err(PyValueError::new_err)?;
        Ok(Self { of, offset, map })
    }

    /// Number of bytes from the first element to the end of the last.
    #[getter]
    fn span(&self) -> u64 {
        self.map.span()
    }
}
