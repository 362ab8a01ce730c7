//! Global memory that persists between launches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use emulator::GlobalMemory;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt as _;

use crate::array::{Array, empty_of};

/// The global memory of one device.
#[pyclass(frozen, module = "sm121probe._native")]
pub(crate) struct Memory {
    /// Tells it from every other memory of this process.
    id: u64,
    global: Mutex<GlobalMemory>,
}

impl Memory {
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Locks the memory.
    pub(crate) fn lock(&self, py: Python<'_>) -> MutexGuard<'_, GlobalMemory> {
        // A launch replaces the memory completely or not at all, so a poisoned lock is safe to use.
        self.global.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}

fn freed(address: u64) -> PyErr {
    PyValueError::new_err(format!("there is no buffer at {address:#x}; it was freed"))
}

#[pymethods]
impl Memory {
    #[new]
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self { id: COUNT.fetch_add(1, Ordering::Relaxed), global: Mutex::default() }
    }

    /// Allocates a buffer with the bytes of an array and returns its address and size.
    fn allocate(&self, py: Python<'_>, array: &Bound<'_, PyAny>, name: &str) -> PyResult<(u64, usize)> {
        let array = Array::from_object(array)?;
        if !array.contiguous {
            let what = "the array is not contiguous; pass a copy of it (`numpy.ascontiguousarray`)";
            return Err(PyValueError::new_err(what));
        }
        let bytes = array.copied()?;
        let mut memory = self.lock(py);
        let address = memory.allocate_with(bytes);
        memory.name(address, name);
        Ok((address, array.len))
    }

    /// Allocates an unwritten buffer and returns its address.
    fn allocate_unwritten(&self, py: Python<'_>, bytes: usize, name: &str) -> PyResult<u64> {
        // Frees the room at once: it shows that there is enough.
        drop(empty_of(bytes)?);
        let mut memory = self.lock(py);
        let address = memory.allocate(bytes);
        memory.name(address, name);
        Ok(address)
    }

    /// Copies a buffer to an array of the same size and returns the number of unwritten bytes.
    fn read(&self, py: Python<'_>, address: u64, into: &Bound<'_, PyAny>) -> PyResult<usize> {
        let into = Array::from_object(into)?;
        let memory = self.lock(py);
        into.replace(memory.bytes(address).ok_or_else(|| freed(address))?)?;
        Ok(memory.unwritten(address))
    }

    /// How many bytes of a buffer no store wrote, how many a store left undefined, and the first kernel that did so.
    fn undefined(&self, py: Python<'_>, address: u64) -> (usize, usize, Option<String>) {
        let memory = self.lock(py);
        let untouched: usize = memory.untouched_runs(address).iter().map(ExactSizeIterator::len).sum();
        let computed = memory.unwritten(address).saturating_sub(untouched);
        (untouched, computed, memory.undefined(address).map(|trap| trap.place.kernel.clone()))
    }

    /// Replaces the bytes of a buffer.
    fn write(&self, py: Python<'_>, address: u64, from: &Bound<'_, PyAny>) -> PyResult<()> {
        let from = Array::from_object(from)?;
        let mut memory = self.lock(py);
        let len = memory.bytes(address).ok_or_else(|| freed(address))?.len();
        if !from.contiguous || from.len != len {
            return Err(PyValueError::new_err(format!("a contiguous array of {len} bytes is required")));
        }
        memory.write_at(address, from.bytes());
        Ok(())
    }

    /// Frees a buffer; a kernel that uses it afterwards violates a rule.
    fn free(&self, py: Python<'_>, address: u64) -> PyResult<()> {
        if self.lock(py).free(address) { Ok(()) } else { Err(freed(address)) }
    }
}
