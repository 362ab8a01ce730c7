//! Access to arrays of other libraries through NumPy's array interface and DLPack.

use std::ops::Range;
use std::os::raw::c_void;

use emulator::argument::{Element, Shape};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

/// An array in the memory of this process, kept alive by its owner.
#[derive(Debug)]
pub(crate) struct Array {
    /// Keeps the memory alive.
    owner: Py<PyAny>,
    /// Address of the first byte.
    pub(crate) start: usize,
    /// Bytes from the first to the last byte, inclusive.
    pub(crate) len: usize,
    pub(crate) read_only: bool,
    pub(crate) shape: Shape,
    /// Whether the elements are contiguous in row-major order.
    pub(crate) contiguous: bool,
}

/// The bytes of overlapping arrays, read in place.
pub(crate) struct Lender {
    /// Keep the memory alive.
    _owners: Vec<Py<PyAny>>,
    start: usize,
    len: usize,
}

impl Lender {
    /// Covers the bytes from the first to the last of these arrays; every byte in between must belong to one of them.
    pub(crate) fn of(py: Python<'_>, arrays: &[&Array]) -> Self {
        let start = arrays.iter().map(|array| array.start).min().unwrap_or_default();
        let end = arrays.iter().map(|array| array.start + array.len).max().unwrap_or_default();
        let owners = arrays.iter().map(|array| array.owner.clone_ref(py)).collect();
        Self { _owners: owners, start, len: end - start }
    }
}

impl AsRef<[u8]> for Lender {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the owners keep these bytes alive and reported their location. A launch stores its results after dropping all
        // references; `Module.launch` requires its caller not to change the arrays until then.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.len) }
    }
}

/// An element type named by the array interface or DLPack.
struct ElementType {
    element: Element,
    bytes: usize,
}

/// Whether an object is an array and not a number: NumPy scalars also have the array interface.
pub(crate) fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.hasattr("__setitem__")?
        && (object.hasattr("__array_interface__")? || object.hasattr("__dlpack__")?))
}

impl Array {
    /// Locates an array.
    ///
    /// # Errors
    /// `TypeError` for an object that is not an array or has an unsupported element type; `ValueError` for an array that is not in
    /// CPU memory or has a negative stride.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.hasattr("__array_interface__")? {
            Self::of_interface(object)
        } else {
            Self::of_dlpack(object)
        }
    }

    fn of_interface(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let interface = object.getattr("__array_interface__")?;
        let interface: &Bound<'_, PyDict> = interface.cast()?;
        let field = |name: &str| {
            interface.get_item(name)?.ok_or_else(|| PyTypeError::new_err(format!("the array has no {name}")))
        };
        let (start, read_only): (usize, bool) = field("data")?.extract()?;
        let dims: Vec<usize> = field("shape")?.extract()?;
        let named: String = field("typestr")?.extract()?;
        let ty = match of_typestr(&named) {
            Some(ty) => ty,
            // Types of `ml_dtypes` have no distinct type letter.
            None => of_name(&object.getattr("dtype")?.str()?.to_string())?,
        };
        let strides = match interface.get_item("strides")? {
            Some(strides) if !strides.is_none() => Some(strides.extract::<Vec<isize>>()?),
            _ => None,
        };
        Self::new(object, start, dims, strides, ty, read_only)
    }

    fn of_dlpack(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (device, _): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
        if ![dlpack::CPU, dlpack::CUDA_HOST].contains(&device) {
            return Err(PyValueError::new_err(
                "the tensor is not in the memory of the CPU; move it there (`.cpu()`)",
            ));
        }
        let capsule = object.call_method0("__dlpack__")?;
        let capsule: &Bound<'_, PyCapsule> = capsule.cast()?;
        let managed = capsule.pointer_checked(Some(c"dltensor"))?;
        // SAFETY: a capsule of this name contains a `DLManagedTensor` (DLPack, "Python Specification"), which lives as long as
        // the capsule, that is, to the end of this function; the memory it points to lives as long as `object`.
        let tensor = unsafe { &managed.cast::<dlpack::ManagedTensor>().as_ref().tensor };
        let rank = usize::try_from(tensor.rank).unwrap_or_default();
        let list = |at: *const i64| {
            (!at.is_null() && rank > 0).then(|| {
                // SAFETY: DLPack's shape and strides are arrays of `rank` numbers, and not null here.
                unsafe { std::slice::from_raw_parts(at, rank) }.to_vec()
            })
        };
        let dims = list(tensor.shape).unwrap_or_default();
        let dims = dims.iter().map(|n| usize::try_from(*n).unwrap_or_default()).collect();
        let ty = of_dlpack_type(tensor)?;
        let strides = list(tensor.strides)
            .map(|all| all.iter().map(|n| *n as isize * ty.bytes.cast_signed()).collect::<Vec<_>>());
        let start = tensor.data as usize + tensor.byte_offset as usize;
        Self::new(object, start, dims, strides, ty, false)
    }

    fn new(
        owner: &Bound<'_, PyAny>,
        start: usize,
        dims: Vec<usize>,
        strides: Option<Vec<isize>>,
        ty: ElementType,
        read_only: bool,
    ) -> PyResult<Self> {
        let empty = dims.contains(&0);
        let mut contiguous = true;
        let mut span = ty.bytes;
        let mut dense = ty.bytes;
        for (n, dim) in dims.iter().enumerate().rev() {
            let stride = strides.as_ref().map_or(dense.cast_signed(), |s| s[n]);
            if *dim > 1 && !empty {
                let Ok(stride) = usize::try_from(stride) else {
                    let what =
                        "the array has a negative stride; pass a copy of it (`numpy.ascontiguousarray`)";
                    return Err(PyValueError::new_err(what));
                };
                contiguous &= stride == dense;
                span += (dim - 1) * stride;
            }
            dense *= dim;
        }
        let len = if empty { 0 } else { span };
        // A shape has at least one element; an empty array has no buffer.
        let shape = if contiguous && !empty { (ty.element, dims) } else { (Element::U8, vec![len.max(1)]) };
        let shape = Shape::new(shape.0, shape.1).map_err(PyValueError::new_err)?;
        Ok(Self { owner: owner.clone().unbind(), start, len, read_only, shape, contiguous })
    }

    /// Returns a copy of the bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        if self.len == 0 {
            return Vec::new();
        }
        // SAFETY: the owner keeps these bytes alive and reported their location. They are not written here; a thread that writes
        // them races with the code of the caller, as for every extension that reads an array.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.len) }.to_vec()
    }

    /// Stores the bytes of `now` that differ from `before`, both as long as the array, so that gaps of a strided array remain
    /// unchanged.
    ///
    /// # Errors
    /// `ValueError` if bytes differ and the array is read-only.
    pub(crate) fn store(&self, before: &[u8], now: &[u8]) -> PyResult<()> {
        self.replace_runs(0, now, |at| next_change(&before[at..], &now[at..]))
    }

    /// Stores the bytes of `now` that differ from the array; `now` begins at byte `at` and ends within the array.
    ///
    /// # Errors
    /// `ValueError` if bytes differ and the array is read-only.
    pub(crate) fn store_from(&self, at: usize, now: &[u8]) -> PyResult<()> {
        debug_assert!(at + now.len() <= self.len);
        self.replace_runs(at, now, |done| {
            let from = (self.start + at + done) as *const u8;
            // SAFETY: as in `bytes`; the reference ends with this closure, before anything is written.
            next_change(unsafe { std::slice::from_raw_parts(from, now.len() - done) }, &now[done..])
        })
    }

    /// Stores runs of `now`, which begins at byte `at`; `next` returns the first run after an offset, relative to it.
    fn replace_runs(
        &self,
        at: usize,
        now: &[u8],
        next: impl Fn(usize) -> Option<Range<usize>>,
    ) -> PyResult<()> {
        let mut done = 0;
        while let Some(run) = next(done) {
            if self.read_only {
                return Err(PyValueError::new_err("the kernel wrote an array that is read-only"));
            }
            let (from, len) = (done + run.start, run.len());
            debug_assert!(at + from + len <= self.len);
            // SAFETY: as for reading; the owner reports that the memory is writable, and no reference to it is live here.
            unsafe {
                let to = (self.start + at + from) as *mut u8;
                std::ptr::copy_nonoverlapping(now[from..from + len].as_ptr(), to, len);
            }
            done += run.end;
        }
        Ok(())
    }

    /// Replaces all bytes.
    ///
    /// # Errors
    /// `ValueError` unless the array is writable, contiguous and as long as `now`.
    pub(crate) fn replace(&self, now: &[u8]) -> PyResult<()> {
        if self.read_only || !self.contiguous || now.len() != self.len {
            let what = format!("a writable, contiguous array of {} bytes is required", now.len());
            return Err(PyValueError::new_err(what));
        }
        // SAFETY: as for `store`.
        unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), self.start as *mut u8, self.len) };
        Ok(())
    }
}

/// Returns the first run of bytes that differ.
fn next_change(before: &[u8], now: &[u8]) -> Option<Range<usize>> {
    let first = emulator::device::first_difference(before, now)?;
    let run = before[first..].iter().zip(&now[first..]).take_while(|(a, b)| a != b).count();
    Some(first..first + run)
}

fn of_typestr(named: &str) -> Option<ElementType> {
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
    (order != ">").then_some(ElementType { element, bytes: element.bits() / 8 })
}

fn of_name(name: &str) -> PyResult<ElementType> {
    let element = match name {
        "bfloat16" => Element::Bf16,
        "float8_e4m3fn" => Element::E4m3,
        "float8_e5m2" => Element::E5m2,
        "float8_e8m0fnu" => Element::Ue8m0,
        // One byte per element in `ml_dtypes`.
        "float4_e2m1fn" | "int4" | "uint4" => Element::U8,
        _ => {
            return Err(PyTypeError::new_err(format!(
                "arrays of {name} cannot be arguments; view them as bytes"
            )));
        }
    };
    Ok(ElementType { element, bytes: element.bits() / 8 })
}

fn of_dlpack_type(tensor: &dlpack::Tensor) -> PyResult<ElementType> {
    let element = match (tensor.code, tensor.bits, tensor.lanes) {
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
        (17, 4, 2) => return Ok(ElementType { element: Element::U8, bytes: 1 }),
        (code, bits, lanes) => {
            let what = format!(
                "DLPack type {code} of {bits} bits and {lanes} lanes cannot be an argument; view it as bytes"
            );
            return Err(PyTypeError::new_err(what));
        }
    };
    Ok(ElementType { element, bytes: element.bits() / 8 })
}

/// Returns the bytes of an object: `bytes`, or a struct of `ctypes`.
pub(crate) fn bytes_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = object.extract::<Vec<u8>>() {
        return Ok(bytes);
    }
    let module = object.py().import("builtins")?;
    module.getattr("bytes")?.call1(PyTuple::new(object.py(), [object])?)?.extract()
}

/// The structs of DLPack 0.8, which every library exports unless a newer version is requested.
mod dlpack {
    use super::c_void;

    /// `kDLCPU` and `kDLCUDAHost`.
    pub(super) const CPU: i32 = 1;
    pub(super) const CUDA_HOST: i32 = 3;

    #[repr(C)]
    pub(super) struct Tensor {
        pub(super) data: *mut c_void,
        device_type: i32,
        device_id: i32,
        pub(super) rank: i32,
        pub(super) code: u8,
        pub(super) bits: u8,
        pub(super) lanes: u16,
        pub(super) shape: *const i64,
        pub(super) strides: *const i64,
        pub(super) byte_offset: u64,
    }

    #[repr(C)]
    pub(super) struct ManagedTensor {
        pub(super) tensor: Tensor,
        context: *mut c_void,
        deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
    }
}
