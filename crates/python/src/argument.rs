//! Launch arguments: converts Python objects to values, and arrays to buffers.

use std::ops::Range;

use emulator::argument::{Element, Shape};
use emulator::{HostBytes, Kernel, Parameter, TENSOR_MAP_BYTES};
use ptx::Type;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use sm121probe::job::launch::{Buffer, Initial, Outcome, Value};

use crate::array::{Access, Array, Lender, bytes_of, empty_of, is_array};
use crate::host_array::HostArray;
use crate::map::TensorMap;
use crate::memory::Memory;

/// Size of a pointer in bytes.
const ADDRESS: usize = 8;

/// Arrays of at least this many bytes are read in place; smaller ones are copied, which is cheaper.
const LENT: usize = 1 << 20;

/// Overlapping arrays, which share one buffer.
struct Group {
    start: usize,
    end: usize,
    /// Indices into [`Arrays::all`].
    members: Vec<usize>,
    /// Whether its buffer is at its address in this process.
    placed: bool,
}

/// The arrays of a launch.
#[derive(Default)]
pub(crate) struct Arrays {
    all: Vec<Array>,
    /// The argument that each array is, for messages.
    names: Vec<String>,
    /// The first of the arrays that are at their addresses in this process.
    placed_from: usize,
    groups: Vec<Group>,
}

/// An argument before arrays are assigned to buffers.
enum Wanted {
    Bytes(Vec<u8>),
    /// An array, as an index into [`Arrays::all`].
    Array(usize),
    /// A tensor map over an array with an offset, or at a device address.
    Map(Option<usize>, u64, Box<emulator::TensorMap>),
}

/// Converted arguments and the buffers that they refer to.
pub(crate) struct Arguments {
    pub(crate) values: Vec<Value>,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) arrays: Arrays,
}

impl Arrays {
    fn add(&mut self, array: Array, name: &str) -> usize {
        self.all.push(array);
        self.names.push(name.to_owned());
        self.all.len() - 1
    }

    /// Groups arrays that overlap; groups are ordered by their first member.
    fn group(&mut self) {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|n| self.all[*n].start);
        let mut groups: Vec<Group> = Vec::new();
        for n in order {
            let Array { start, len, .. } = self.all[n];
            let placed = n >= self.placed_from;
            match groups.last_mut() {
                Some(group) if len > 0 && start < group.end => {
                    group.end = group.end.max(start + len);
                    group.members.push(n);
                    group.placed |= placed;
                }
                _ if len > 0 => groups.push(Group { start, end: start + len, members: vec![n], placed }),
                _ => {}
            }
        }
        groups.sort_by_key(|group| group.members.iter().min().copied());
        self.groups = groups;
    }

    /// Returns the buffer of an array and the offset of the array in it; `None` for an empty array.
    fn place(&self, n: usize) -> Option<(usize, u64)> {
        let array = &self.all[n];
        let group = self.groups.iter().position(|group| group.members.contains(&n))?;
        Some((group, (array.start - self.groups[group].start) as u64))
    }

    /// Copies the contents of a group's buffer.
    fn bytes(&self, group: &Group) -> PyResult<Vec<u8>> {
        let mut bytes = empty_of(group.end - group.start)?;
        bytes.resize(group.end - group.start, 0);
        for n in &group.members {
            let array = &self.all[*n];
            let at = array.start - group.start;
            bytes[at..at + array.len].copy_from_slice(array.bytes());
        }
        Ok(bytes)
    }

    /// Returns the initial contents of a group's buffer.
    fn initial(&self, group: &Group, py: Python<'_>) -> PyResult<Initial> {
        if group.end - group.start < LENT {
            return Ok(Initial::Bytes(self.bytes(group)?));
        }
        let members: Vec<&Array> = group.members.iter().map(|n| &self.all[*n]).collect();
        Ok(Initial::Lent(HostBytes::new(Lender::from_arrays(py, &members))))
    }

    /// Copies the results of a launch from the buffer of group `n` to its arrays, either the read-only or the writable ones.
    ///
    /// # Errors
    /// `ValueError` if the launch changed a read-only array.
    pub(crate) fn store(
        &self,
        py: Python<'_>,
        n: usize,
        writable: bool,
        initial: &Initial,
        outcome: &Outcome,
    ) -> PyResult<()> {
        let group = &self.groups[n];
        for member in &group.members {
            let array = &self.all[*member];
            if (array.access == Access::Writable) == writable {
                store(array, n, array.start - group.start, initial, outcome)
                    .map_err(|error| of_argument(py, &self.names[*member], &error))?;
            }
        }
        Ok(())
    }

    /// The addresses in this process of each buffer's arrays.
    pub(crate) fn ranges(&self) -> Vec<Range<u64>> {
        self.groups.iter().map(|group| group.start as u64..group.end as u64).collect()
    }

    /// Number of buffers for arrays.
    pub(crate) fn count(&self) -> usize {
        self.groups.len()
    }
}

/// Copies the results of a launch to an array, which begins at byte `at` of buffer `n`.
fn store(array: &Array, n: usize, at: usize, initial: &Initial, outcome: &Outcome) -> PyResult<()> {
    match initial {
        Initial::Bytes(before) => {
            let now = outcome.bytes(n);
            array.store(&before[at..at + array.len], &now[at..at + array.len])
        }
        Initial::Lent(_) => {
            for (start, now) in outcome.memory.written_runs(outcome.addresses[n]) {
                let (from, to) = (start.max(at), (start + now.len()).min(at + array.len));
                if from < to {
                    array.store_from(from - at, &now[from - start..to - start])?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Prefixes an error with the argument that it is about.
fn of_argument(py: Python<'_>, name: &str, error: &PyErr) -> PyErr {
    PyErr::from_type(error.get_type(py), format!("{name}: {}", error.value(py)))
}

/// Converts the arguments of a launch of `kernel` in `memory`, one for each of `params`, and the arrays that their contents point to. If
/// `strided`, arrays may have gaps and are passed with their whole span.
pub(crate) fn arguments(
    py: Python<'_>,
    kernel: &Kernel,
    params: &[Parameter],
    (given, placed): (&[Bound<'_, PyAny>], &[Bound<'_, PyAny>]),
    memory: Option<&Bound<'_, Memory>>,
    strided: bool,
) -> PyResult<Arguments> {
    if given.len() != params.len() {
        let list: Vec<String> =
            params.iter().map(|p| format!("{} ({} bytes, {})", p.name, p.size, p.ty)).collect();
        let list = if list.is_empty() { "none".to_owned() } else { list.join(", ").to_lowercase() };
        return Err(PyTypeError::new_err(format!(
            "{} takes {}, not {}: {list}",
            kernel.name,
            sm121probe::record::counted(params.len(), "argument"),
            given.len()
        )));
    }
    let mut arrays = Arrays::default();
    let mut wanted = Vec::new();
    for (n, (object, param)) in given.iter().zip(params).enumerate() {
        let name = format!("argument {n} of {} (`{}`)", kernel.name, param.name);
        let mut taken = Taken { name: &name, param, memory, strided, arrays: &mut arrays };
        wanted.push(taken.argument(object).map_err(|error| of_argument(py, &name, &error))?);
    }
    arrays.placed_from = arrays.all.len();
    for (n, object) in placed.iter().enumerate() {
        let name = format!("array {n} of those that arguments of {} point to", kernel.name);
        let array = Array::from_object(object).map_err(|error| of_argument(py, &name, &error))?;
        arrays.add(array, &name);
    }
    arrays.group();
    let values = wanted.into_iter().map(|one| match one {
        Wanted::Bytes(bytes) => Value::Bytes(bytes),
        Wanted::Array(n) => match arrays.place(n) {
            Some((buffer, offset)) => Value::Address { buffer, offset },
            // An empty array is passed as a null pointer.
            None => Value::Bytes(vec![0; ADDRESS]),
        },
        Wanted::Map(Some(n), at, map) => match arrays.place(n) {
            Some((buffer, offset)) => Value::Map { buffer, offset: offset + at, map: *map },
            None => Value::Bytes(vec![0; TENSOR_MAP_BYTES]),
        },
        // Without a buffer, the offset is the full address.
        Wanted::Map(None, address, map) => Value::Map { buffer: usize::MAX, offset: address, map: *map },
    });
    let values = values.collect();
    let mut buffers = Vec::new();
    for group in &arrays.groups {
        let first = group.members.iter().min().copied().unwrap_or_default();
        let shape = match group.members.as_slice() {
            [only] => arrays.all[*only].shape.clone(),
            _ => Shape::new(Element::U8, vec![group.end - group.start]).map_err(PyValueError::new_err)?,
        };
        let name = format!("array {first}");
        let initial = arrays.initial(group, py)?;
        let address = group.placed.then_some(group.start as u64);
        buffers.push(Buffer { name, shape, initial, address, unwritten: Vec::new(), scratch: false });
    }
    Ok(Arguments { values, buffers, arrays })
}

/// One argument, while it is converted.
struct Taken<'a, 'py> {
    /// Its name in messages.
    name: &'a str,
    param: &'a Parameter,
    /// The memory of the launch's device, if it has one.
    memory: Option<&'a Bound<'py, Memory>>,
    strided: bool,
    arrays: &'a mut Arrays,
}

impl Taken<'_, '_> {
    fn argument(&mut self, object: &Bound<'_, PyAny>) -> PyResult<Wanted> {
        if let Ok(map) = object.cast::<TensorMap>() {
            return self.map(map.get(), object.py());
        }
        if let Some((address, _)) = self.device_buffer(object)? {
            self.pointer()?;
            return Ok(Wanted::Bytes(address.to_le_bytes().to_vec()));
        }
        if object.is_instance_of::<HostArray>() || is_array(object)? {
            self.pointer()?;
            let array = Array::from_object(object)?;
            if !array.contiguous && !self.strided {
                let what = "the array is not contiguous; pass a copy of it (`numpy.ascontiguousarray`, `.contiguous()`)";
                return Err(PyValueError::new_err(what));
            }
            return Ok(Wanted::Array(self.arrays.add(array, self.name)));
        }
        Ok(Wanted::Bytes(number(object, self.param)?))
    }

    /// Returns address and bytes of a buffer in the memory of the launch's device; `None` for other objects.
    ///
    /// # Errors
    /// `ValueError` for a buffer of another device: its address means something else in this memory, or nothing.
    fn device_buffer(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<(u64, u64)>> {
        let Some(buffer) = object.getattr_opt("__sm121probe_buffer__")? else { return Ok(None) };
        let (owner, address, bytes): (Bound<'_, PyAny>, u64, u64) = buffer.extract()?;
        match self.memory {
            Some(memory) if memory.is(&owner) => Ok(Some((address, bytes))),
            Some(_) => {
                let what = "the buffer is in the memory of another device than that of the launch; copy it there (`device.array(buffer.numpy())`)";
                Err(PyValueError::new_err(what))
            }
            None => {
                let what = "the buffer is in the memory of a device; launch on that device (`buffer.device.launch(…)`, `device=buffer.device`)";
                Err(PyValueError::new_err(what))
            }
        }
    }

    /// Checks that the parameter accepts an address.
    fn pointer(&self) -> PyResult<()> {
        let param = self.param;
        if param.size == ADDRESS && param.ty != Type::F64 {
            return Ok(());
        }
        let what = format!("an array is the address of a buffer, but the parameter has {} bytes", param.size);
        Err(PyTypeError::new_err(what))
    }

    fn map(&mut self, map: &TensorMap, py: Python<'_>) -> PyResult<Wanted> {
        let size = self.param.size;
        if size != TENSOR_MAP_BYTES {
            let what = format!("a tensor map has {TENSOR_MAP_BYTES} bytes, but the parameter has {size}");
            return Err(PyTypeError::new_err(what));
        }
        let of = map.of.bind(py);
        let inner = Box::new(map.map.map);
        let needs = map.map.span().saturating_add(map.offset);
        let fits = |bytes: u64| {
            let what = format!("the tensor map spans {needs} bytes of an array that has {bytes}");
            if needs > bytes { Err(PyValueError::new_err(what)) } else { Ok(()) }
        };
        if let Some((address, bytes)) = self.device_buffer(of)? {
            fits(bytes)?;
            return Ok(Wanted::Map(None, address.saturating_add(map.offset), inner));
        }
        let array = Array::from_object(of)?;
        fits(array.len as u64)?;
        Ok(Wanted::Map(Some(self.arrays.add(array, self.name)), map.offset, inner))
    }
}

/// Converts a number or a struct to bytes.
fn number(object: &Bound<'_, PyAny>, param: &Parameter) -> PyResult<Vec<u8>> {
    let size = param.size;
    let float = matches!(param.ty, Type::F32 | Type::F64);
    if object.is_none() && size == ADDRESS {
        return Ok(vec![0; size]);
    }
    if object.is_instance_of::<PyBool>() && size > 0 {
        let mut bytes = vec![0; size];
        bytes[0] = u8::from(object.extract::<bool>()?);
        return Ok(bytes);
    }
    if object.is_instance_of::<PyInt>() && !float && size > 0 {
        let value: i128 = object.extract()?;
        let bits = 8 * size.min(8) as u32;
        if size > 8 || value >= 1 << bits || value < -(1 << (bits - 1)) {
            return Err(PyOverflowError::new_err(format!("{value} does not fit into {size} bytes")));
        }
        return Ok(value.to_le_bytes()[..size].to_vec());
    }
    if object.is_instance_of::<PyFloat>() && !object.hasattr("dtype")? || object.is_instance_of::<PyInt>() {
        let value: f64 = object.extract()?;
        return match param.ty {
            Type::F32 => Ok((value as f32).to_le_bytes().to_vec()),
            Type::F64 => Ok(value.to_le_bytes().to_vec()),
            _ => {
                let what = format!(
                    "a float does not fit {size} bytes of {}; pass a NumPy scalar, which has an explicit type (`numpy.float16({value})`)",
                    param.ty
                );
                Err(PyTypeError::new_err(what.to_lowercase()))
            }
        };
    }
    // A number of NumPy, a struct of ctypes, bytes.
    let bytes = match object.getattr_opt("tobytes")? {
        Some(tobytes) => tobytes.call0()?.extract::<Vec<u8>>()?,
        None => bytes_of(object).map_err(|_| {
            let ty = object.get_type();
            PyTypeError::new_err(format!(
                "{ty} cannot be an argument; pass an array, a number, bytes or a TensorMap"
            ))
        })?,
    };
    if bytes.len() != size {
        let what = format!("{} bytes for a parameter of {size}", bytes.len());
        return Err(PyValueError::new_err(what));
    }
    Ok(bytes)
}
