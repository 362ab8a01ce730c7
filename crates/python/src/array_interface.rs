//! Reads NumPy's array interface, version 3 (`__array_interface__`).

use emulator::argument::Element;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::{ElementType, Exported, Stated};

fn fields<'a, 'py>(interface: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyDict>> {
    interface.cast().map_err(|_| PyTypeError::new_err("its `__array_interface__` is not a dictionary"))
}

/// A field that is neither missing nor `None`.
fn optional<'py>(fields: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(fields.get_item(name)?.filter(|value| !value.is_none()))
}

/// Whether the array has no dimension, as NumPy's scalars.
pub(crate) fn has_no_dimension(interface: &Bound<'_, PyAny>) -> PyResult<bool> {
    match optional(fields(interface)?, "shape")? {
        // What is not a tuple is reported when the array is read.
        Some(shape) => Ok(shape.len().is_ok_and(|dimensions| dimensions == 0)),
        None => Ok(false),
    }
}

/// Reads the interface of an array.
///
/// # Errors
/// `TypeError` for a field that is missing or has another type, and for an unsupported element type; `ValueError` for a negative size.
pub(crate) fn exported(object: &Bound<'_, PyAny>, interface: &Bound<'_, PyAny>) -> PyResult<Exported> {
    let fields = fields(interface)?;
    let wrong = |name: &str, wanted: &str| {
        PyTypeError::new_err(format!("`{name}` of its `__array_interface__` is not {wanted}"))
    };
    let field = |name: &str| {
        let missing = || PyTypeError::new_err(format!("its `__array_interface__` has no `{name}`"));
        optional(fields, name)?.ok_or_else(missing)
    };
    if optional(fields, "mask")?.is_some() {
        return Err(PyTypeError::new_err("a masked array cannot be an argument; pass its data"));
    }
    let (start, read_only): (usize, bool) =
        field("data")?.extract().map_err(|_| wrong("data", "an address and whether it is read-only"))?;
    let dims: Vec<i64> = field("shape")?.extract().map_err(|_| wrong("shape", "a tuple of integers"))?;
    let negative = |_| PyValueError::new_err("the array has a negative size");
    let dims = dims.into_iter().map(usize::try_from).collect::<Result<_, _>>().map_err(negative)?;
    let strides = match optional(fields, "strides")? {
        Some(strides) => Some(strides.extract().map_err(|_| wrong("strides", "a tuple of integers"))?),
        None => None,
    };
    let typestr: String = field("typestr")?.extract().map_err(|_| wrong("typestr", "a string"))?;
    let stated =
        if read_only { Stated::ReadOnly("its `__array_interface__` says so") } else { Stated::Writable };
    let owners = vec![interface.clone().unbind()];
    Ok(Exported { owners, start, dims, strides, ty: element_type(object, &typestr)?, stated })
}

/// Returns the type of the elements: the one that `typestr` names, or for types of `ml_dtypes`, which have no letter, the `dtype`.
fn element_type(object: &Bound<'_, PyAny>, typestr: &str) -> PyResult<ElementType> {
    if let Some(element) = of_typestr(typestr) {
        return Ok(element.into());
    }
    let name = match object.getattr_opt("dtype")? {
        Some(dtype) => dtype.str()?.to_string(),
        None => typestr.to_owned(),
    };
    let ty = of_name(&name).filter(|ty| {
        let digits = typestr.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.parse() == Ok(ty.bytes)
    });
    ty.ok_or_else(|| {
        PyTypeError::new_err(format!("arrays of {name} cannot be arguments; view them as bytes"))
    })
}

fn of_typestr(named: &str) -> Option<Element> {
    let (order, rest) = named.split_at_checked(1)?;
    let element = match rest {
        "b1" => Element::Bool,
        "i1" => Element::S8,
        "u1" => Element::U8,
        "i2" => Element::S16,
        "u2" => Element::U16,
        "i4" => Element::S32,
        "u4" => Element::U32,
        "i8" => Element::S64,
        "u8" => Element::U64,
        "f2" => Element::F16,
        "f4" => Element::F32,
        "f8" => Element::F64,
        _ => return None,
    };
    (order != ">").then_some(element)
}

/// Returns the type of the name that `ml_dtypes` and PyTorch give it.
pub(crate) fn of_name(name: &str) -> Option<ElementType> {
    Some(ElementType::from(match name {
        "bfloat16" => Element::Bf16,
        "float8_e4m3fn" => Element::E4m3,
        "float8_e5m2" => Element::E5m2,
        "float8_e8m0fnu" => Element::Ue8m0,
        // One byte per element in `ml_dtypes`.
        "float4_e2m1fn" | "int4" | "uint4" => Element::U8,
        _ => return None,
    }))
}
