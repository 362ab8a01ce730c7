//! Reads arrays through DLPack, versioned (1.x) or not (0.8).
//!
//! The capsule of a producer stays alive and unconsumed for as long as the array is in use: when it is destroyed, it frees what its producer
//! made for it, which may be a temporary copy.

use std::os::raw::c_void;
use std::ptr::NonNull;

use emulator::argument::Element;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::array::{ElementType, Exported, Stated};

/// The newest version whose types and flags are known here. Producers export this or an older one.
const VERSION: (u32, u32) = (1, 1);

/// The most dimensions of an array; NumPy has as many.
const DIMS: usize = 64;

/// `kDLCPU` and `kDLCUDAHost`.
const HOST: [i32; 2] = [1, 3];

/// Flags of a versioned tensor.
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
const SUBBYTE_PADDED: u64 = 4;

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    rank: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLManagedTensor`, of capsules called `dltensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`, of capsules called `dltensor_versioned`. Only the first fields have the same place in every major version.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// Exports an array.
///
/// # Errors
/// `TypeError` for an unsupported element type; `ValueError` for an array in other memory, or one that contradicts itself; what the producer
/// raises.
pub(crate) fn exported(object: &Bound<'_, PyAny>) -> PyResult<Exported> {
    let (device, _): (i32, i32) = object
        .call_method0("__dlpack_device__")?
        .extract()
        .map_err(|_| PyTypeError::new_err("its `__dlpack_device__` does not return two integers"))?;
    on_host(device)?;
    let capsule = capsule(object)?;
    let capsule: &Bound<'_, PyCapsule> =
        capsule.cast().map_err(|_| PyTypeError::new_err("its `__dlpack__` does not return a capsule"))?;
    let managed = |name| capsule.pointer_checked(Some(name));
    let (tensor, flags) = if let Ok(versioned) = managed(c"dltensor_versioned") {
        let versioned: NonNull<Versioned> = versioned.cast();
        // SAFETY: a capsule of this name contains a `DLManagedTensorVersioned` (DLPack, "Python Specification"), which lives as long as
        // the capsule; the version is at the same place in every version.
        let (major, minor) = unsafe { ((*versioned.as_ptr()).major, (*versioned.as_ptr()).minor) };
        if major != VERSION.0 {
            let what = format!("it exports DLPack {major}.{minor}; {}.x can be read", VERSION.0);
            return Err(PyBufferError::new_err(what));
        }
        // SAFETY: as above, and the other fields are those of version 1.
        let versioned = unsafe { versioned.as_ref() };
        (&versioned.tensor, Some(versioned.flags))
    } else if let Ok(unversioned) = managed(c"dltensor") {
        // SAFETY: a capsule of this name contains a `DLManagedTensor`, which lives as long as the capsule.
        (unsafe { &unversioned.cast::<Managed>().as_ref().tensor }, None)
    } else {
        return Err(PyBufferError::new_err("its capsule is not one of DLPack, or was consumed before"));
    };
    let stated = match flags {
        None => Stated::Nothing,
        Some(flags) if flags & READ_ONLY != 0 => Stated::ReadOnly("its DLPack flags say so"),
        Some(flags) if flags & IS_COPIED != 0 => {
            Stated::ReadOnly("DLPack exports a copy of it, in which results would be lost")
        }
        Some(_) => Stated::Writable,
    };
    let mut exported = read(tensor, flags.unwrap_or_default())?;
    exported.stated = stated;
    exported.owners.push(capsule.clone().into_any().unbind());
    Ok(exported)
}

fn on_host(device: i32) -> PyResult<()> {
    if HOST.contains(&device) {
        return Ok(());
    }
    Err(PyValueError::new_err("the tensor is not in the memory of the CPU; move it there (`.cpu()`)"))
}

/// Requests the newest version. Producers older than DLPack 1.0 have no parameter for it.
fn capsule<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let options = PyDict::new(py);
    options.set_item("max_version", VERSION)?;
    match object.call_method("__dlpack__", (), Some(&options)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => object.call_method0("__dlpack__"),
        other => other,
    }
}

fn read(tensor: &Tensor, flags: u64) -> PyResult<Exported> {
    on_host(tensor.device_type)?;
    let rank = usize::try_from(tensor.rank).ok().filter(|rank| *rank <= DIMS);
    let rank = rank.ok_or_else(|| {
        PyValueError::new_err(format!("the tensor has {} dimensions; 0 to {DIMS} are possible", tensor.rank))
    })?;
    let list = |at: *const i64| {
        if rank == 0 {
            return Some(&[][..]);
        }
        // SAFETY: DLPack's shape and strides are arrays of `rank` numbers that live as long as the tensor, and not null here.
        (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at, rank) })
    };
    let dims = list(tensor.shape).ok_or_else(|| PyValueError::new_err("the tensor has no shape"))?;
    let negative = |_| PyValueError::new_err("the tensor has a negative size");
    let dims = dims.iter().map(|n| usize::try_from(*n)).collect::<Result<_, _>>().map_err(negative)?;
    let ty = element_type(tensor, flags)?;
    let large = || PyValueError::new_err("the tensor is larger than the address space");
    let in_bytes = |n: &i64| isize::try_from(*n).ok()?.checked_mul(ty.bytes.cast_signed());
    let strides = match list(tensor.strides) {
        Some(strides) => Some(strides.iter().map(in_bytes).collect::<Option<Vec<_>>>().ok_or_else(large)?),
        None => None,
    };
    let offset = usize::try_from(tensor.byte_offset).ok();
    // A null pointer stays one, with whatever offset: an empty tensor may have it.
    let start = match (tensor.data as usize, offset) {
        (0, _) => 0,
        (data, offset) => offset.and_then(|offset| data.checked_add(offset)).ok_or_else(large)?,
    };
    Ok(Exported { owners: Vec::new(), start, dims, strides, ty, stated: Stated::Nothing })
}

fn element_type(tensor: &Tensor, flags: u64) -> PyResult<ElementType> {
    let padded = flags & SUBBYTE_PADDED != 0;
    Ok(ElementType::from(match (tensor.code, tensor.bits, tensor.lanes) {
        (0, 8, 1) => Element::S8,
        (0, 16, 1) => Element::S16,
        (0, 32, 1) => Element::S32,
        (0, 64, 1) => Element::S64,
        (1, 8, 1) => Element::U8,
        (1, 16, 1) => Element::U16,
        (1, 32, 1) => Element::U32,
        (1, 64, 1) => Element::U64,
        (2, 16, 1) => Element::F16,
        (2, 32, 1) => Element::F32,
        (2, 64, 1) => Element::F64,
        (4, 16, 1) => Element::Bf16,
        (6, 8, 1) => Element::Bool,
        (10, 8, 1) => Element::E4m3,
        (12, 8, 1) => Element::E5m2,
        (14, 8, 1) => Element::Ue8m0,
        // Two e2m1 in a byte, or one with padding.
        (17, 4, 2) if !padded => Element::U8,
        (17, 4, 1) if padded => Element::U8,
        (code, bits, lanes) => {
            let what = format!(
                "DLPack type {code} of {bits} bits and {lanes} lanes cannot be an argument; view it as bytes"
            );
            return Err(PyTypeError::new_err(what));
        }
    }))
}
