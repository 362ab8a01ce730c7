//! Arrays of other libraries: where their bytes are, whether they may be changed, and access to them.

use std::ops::Range;

use emulator::argument::{Element, Shape};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::host_array::HostArray;
use crate::{array_interface, dlpack};

/// An array in the memory of this process, kept alive by its owners.
#[derive(Debug)]
pub(crate) struct Array {
    /// Keep the memory alive: the array, and what its producer returned.
    owners: Vec<Py<PyAny>>,
    /// Address of the first byte.
    pub(crate) start: usize,
    /// Bytes from the first to the last byte, inclusive.
    pub(crate) len: usize,
    pub(crate) access: Access,
    pub(crate) shape: Shape,
    /// Whether the elements are contiguous in row-major order.
    pub(crate) contiguous: bool,
}

/// Whether an array may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Writable,
    /// It is an input only, for this reason: a clause about the array.
    ReadOnly(&'static str),
}

/// What a producer says about an array, unchecked.
pub(crate) struct Exported {
    /// Keep the memory alive, in addition to the array itself.
    pub(crate) owners: Vec<Py<PyAny>>,
    /// Address of the first element.
    pub(crate) start: usize,
    pub(crate) dims: Vec<usize>,
    /// In bytes; `None` if the elements are contiguous in row-major order.
    pub(crate) strides: Option<Vec<isize>>,
    pub(crate) ty: ElementType,
    pub(crate) stated: Stated,
}

/// What a producer says about the right to change an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stated {
    Writable,
    /// It must not be changed, for this reason.
    ReadOnly(&'static str),
    /// The protocol cannot express it.
    Nothing,
}

/// An element type named by the array interface or DLPack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElementType {
    pub(crate) element: Element,
    /// Bytes of one element in memory.
    pub(crate) bytes: usize,
}

impl From<Element> for ElementType {
    fn from(element: Element) -> Self {
        Self { element, bytes: element.bits() / 8 }
    }
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
    pub(crate) fn from_arrays(py: Python<'_>, arrays: &[&Array]) -> Self {
        let start = arrays.iter().map(|array| array.start).min().unwrap_or_default();
        let end = arrays.iter().map(|array| array.start + array.len).max().unwrap_or_default();
        let owners = arrays.iter().flat_map(|array| &array.owners).map(|owner| owner.clone_ref(py)).collect();
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

/// Whether an object is an array and not a number: NumPy scalars also have the array interface.
pub(crate) fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Some(interface) = object.getattr_opt("__array_interface__")? {
        let scalar =
            array_interface::has_no_dimension(&interface)? && is_of(object, "numpy", Some("generic"))?;
        return Ok(!scalar);
    }
    Ok(object.hasattr("__dlpack__")? || object.hasattr("__cuda_array_interface__")?)
}

/// Whether the class of an object, or a class that it inherits from, belongs to a library; with `name`, whether it is that class.
fn is_of(object: &Bound<'_, PyAny>, library: &str, name: Option<&str>) -> PyResult<bool> {
    for class in object.get_type().mro() {
        let module = class.getattr("__module__")?;
        let Ok(module) = module.extract::<String>() else { continue };
        let inside =
            module.strip_prefix(library).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        if inside
            && (name.is_none() || name == class.getattr("__name__")?.extract::<String>().ok().as_deref())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Decides whether an array may be changed. It may be only if that is known: its producer says so and it does not refuse an assignment, or
/// its producer cannot say so and it accepts one.
fn access(object: &Bound<'_, PyAny>, stated: Stated) -> PyResult<Access> {
    if let Stated::ReadOnly(why) = stated {
        return Ok(Access::ReadOnly(why));
    }
    // What NumPy states is true, and PyTorch's tensors can be changed; an assignment would invalidate what autograd has saved.
    if is_of(object, "numpy", None)? || is_of(object, "torch", None)? {
        return Ok(Access::Writable);
    }
    let Some(assign) = object.getattr_opt("__setitem__")? else {
        let states_it = stated == Stated::Writable;
        let why = "it has no `__setitem__`, and nothing else says that it may be changed";
        return Ok(if states_it { Access::Writable } else { Access::ReadOnly(why) });
    };
    // Assigns to no element. An array without a dimension has no slice, and raises `IndexError`.
    let py = object.py();
    let none = py.import("builtins")?.getattr("slice")?.call1((0, 0))?;
    match assign.call1((none, 0)) {
        Err(error) if !error.is_instance_of::<pyo3::exceptions::PyException>(py) => Err(error),
        Err(error) if !error.is_instance_of::<pyo3::exceptions::PyIndexError>(py) => {
            Ok(Access::ReadOnly("it is immutable: its `__setitem__` raises an exception"))
        }
        _ => Ok(Access::Writable),
    }
}

/// The bytes that elements occupy, and whether they are contiguous in row-major order.
struct Layout {
    len: usize,
    contiguous: bool,
}

/// Checks shape and strides.
fn layout(dims: &[usize], strides: Option<&[isize]>, element: usize) -> PyResult<Layout> {
    if let Some(strides) = strides.filter(|strides| strides.len() != dims.len()) {
        let what = format!("the array has {} strides for {} dimensions", strides.len(), dims.len());
        return Err(PyValueError::new_err(what));
    }
    if dims.contains(&0) {
        return Ok(Layout { len: 0, contiguous: true });
    }
    let large = || PyValueError::new_err("the array is larger than the address space");
    let (mut len, mut dense, mut contiguous) = (element, element, true);
    for (n, dim) in dims.iter().enumerate().rev() {
        if *dim > 1 {
            let stride = match strides {
                None => dense,
                Some(strides) => usize::try_from(strides[n]).map_err(|_| {
                    let what =
                        "the array has a negative stride; pass a copy of it (`numpy.ascontiguousarray`)";
                    PyValueError::new_err(what)
                })?,
            };
            contiguous &= stride == dense;
            len = stride.checked_mul(dim - 1).and_then(|more| len.checked_add(more)).ok_or_else(large)?;
        }
        dense = dense.checked_mul(*dim).ok_or_else(large)?;
    }
    if isize::try_from(len).is_err() { Err(large()) } else { Ok(Layout { len, contiguous }) }
}

impl Array {
    /// Locates an array.
    ///
    /// # Errors
    /// `TypeError` for an object that is not an array or has an unsupported element type; `ValueError` for an array that is not in
    /// CPU memory, has a negative stride, or contradicts itself.
    pub(crate) fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(array) = object.cast::<HostArray>() {
            return Self::new(array.get().owner().bind(object.py()), array.get().exported()?);
        }
        let exported = if let Some(interface) = object.getattr_opt("__array_interface__")? {
            array_interface::exported(object, &interface)?
        } else if object.hasattr("__dlpack__")? {
            dlpack::exported(object)?
        } else if object.hasattr("__cuda_array_interface__")? {
            return Err(PyValueError::new_err("the array is in the memory of a GPU; copy it to the CPU"));
        } else {
            let ty = object.get_type();
            let what = format!("pass an array (NumPy, or any with DLPack), not {}", ty.name()?);
            return Err(PyTypeError::new_err(what));
        };
        Self::new(object, exported)
    }

    fn new(object: &Bound<'_, PyAny>, exported: Exported) -> PyResult<Self> {
        let Exported { mut owners, start, dims, strides, ty, stated } = exported;
        let Layout { len, contiguous } = layout(&dims, strides.as_deref(), ty.bytes)?;
        if len > 0 && (start == 0 || start.checked_add(len).is_none()) {
            return Err(PyValueError::new_err(format!("the array has {len} bytes at address {start:#x}")));
        }
        // A shape has at least one element; an empty array has no buffer.
        let typed = contiguous && len > 0 && 8 * ty.bytes == ty.element.bits();
        let shape = if typed { (ty.element, dims) } else { (Element::U8, vec![len.max(1)]) };
        let shape = Shape::new(shape.0, shape.1).map_err(PyValueError::new_err)?;
        let access = access(object, stated)?;
        owners.push(object.clone().unbind());
        Ok(Self { owners, start, len, access, shape, contiguous })
    }

    /// Returns a copy of the bytes.
    ///
    /// # Errors
    /// `MemoryError` if there is not enough memory.
    pub(crate) fn copied(&self) -> PyResult<Vec<u8>> {
        let mut copy = empty_of(self.len)?;
        copy.extend_from_slice(self.bytes());
        Ok(copy)
    }

    /// Returns the bytes in place.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the owners keep these bytes alive and reported their location. They are not written while the slice lives; a thread
        // that writes them races with the code of the caller, as for every extension that reads an array.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.len) }
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
            if let Access::ReadOnly(why) = self.access {
                let what =
                    format!("the kernel wrote to an array that is read-only: {why}; pass a copy of it");
                return Err(PyValueError::new_err(what));
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
        if self.access != Access::Writable || !self.contiguous || now.len() != self.len {
            let what = format!("a writable, contiguous array of {} bytes is required", now.len());
            return Err(PyValueError::new_err(what));
        }
        // SAFETY: as for `store`.
        unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), self.start as *mut u8, self.len) };
        Ok(())
    }
}

/// Returns an empty vector with room for `bytes` bytes.
///
/// # Errors
/// `MemoryError` if there is not enough memory.
pub(crate) fn empty_of(bytes: usize) -> PyResult<Vec<u8>> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes)
        .map_err(|_| PyMemoryError::new_err(format!("there are no {bytes} bytes of memory")))?;
    Ok(room)
}

/// Returns the first run of bytes that differ.
fn next_change(before: &[u8], now: &[u8]) -> Option<Range<usize>> {
    let first = emulator::device::first_difference(before, now)?;
    let run = before[first..].iter().zip(&now[first..]).take_while(|(a, b)| a != b).count();
    Some(first..first + run)
}

/// Returns the bytes of an object: `bytes`, or a struct of `ctypes`.
pub(crate) fn bytes_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = object.extract::<Vec<u8>>() {
        return Ok(bytes);
    }
    let module = object.py().import("builtins")?;
    module.getattr("bytes")?.call1(PyTuple::new(object.py(), [object])?)?.extract()
}
