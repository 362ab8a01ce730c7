//! Arrays whose location the package states itself, such as tensors of PyTorch: what their own protocols refuse (a tensor that requires a
//! gradient, a type that DLPack lacks) or what takes them long.

use emulator::argument::Element;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::{ElementType, Exported, Stated};
use crate::array_interface::of_name;

/// An array in the memory of this process, whose owner keeps it alive.
#[pyclass(frozen, module = "sm121probe._native")]
pub(crate) struct HostArray {
    owner: Py<PyAny>,
    address: usize,
    dims: Vec<usize>,
    /// In elements.
    strides: Vec<isize>,
    element: ElementType,
}

#[pymethods]
impl HostArray {
    /// `address` is that of the first element, `strides` are in elements, `item` is the size of an element in bytes.
    #[new]
    fn new(
        owner: Py<PyAny>,
        address: usize,
        dims: Vec<usize>,
        strides: Vec<isize>,
        dtype: &str,
        item: usize,
    ) -> PyResult<Self> {
        if item == 0 {
            return Err(PyValueError::new_err(format!("elements of {dtype} have no size")));
        }
        Ok(Self { owner, address, dims, strides, element: element(dtype, item) })
    }
}

impl HostArray {
    pub(crate) fn owner(&self) -> &Py<PyAny> {
        &self.owner
    }

    /// Returns what the package says about the array.
    ///
    /// # Errors
    /// `ValueError` if a stride exceeds the address space.
    pub(crate) fn exported(&self) -> PyResult<Exported> {
        let bytes = self.element.bytes.cast_signed();
        let strides: Option<Vec<isize>> = self.strides.iter().map(|n| n.checked_mul(bytes)).collect();
        let large = || PyValueError::new_err("the array is larger than the address space");
        Ok(Exported {
            owners: Vec::new(),
            start: self.address,
            dims: self.dims.clone(),
            strides: Some(strides.ok_or_else(large)?),
            ty: self.element,
            stated: Stated::Writable,
        })
    }
}

/// Returns the type of a name of PyTorch; one that the emulator does not know is an integer, or bytes.
fn element(dtype: &str, item: usize) -> ElementType {
    let known = match dtype {
        "bool" => Element::Bool,
        "int8" => Element::S8,
        "int16" => Element::S16,
        "int32" => Element::S32,
        "int64" => Element::S64,
        "uint16" => Element::U16,
        "uint32" => Element::U32,
        "uint64" => Element::U64,
        "float16" => Element::F16,
        "float32" => Element::F32,
        "float64" => Element::F64,
        _ => Element::U8,
    };
    let ty = of_name(dtype).unwrap_or(ElementType::from(known));
    if ty.bytes == item { ty } else { ElementType { element: Element::U8, bytes: item } }
}
