//! PTX modules whose kernels are decoded on first use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use emulator::trials::ContractedPrograms;
use emulator::{Kernel, Stop};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use sm121probe::job::launch::{Module, TritonMetadata};

use crate::report::stop_json;

/// Name, PTX type, bytes.
type Parameter = (String, String, usize);

/// A PTX module and its decoded kernels.
#[pyclass(frozen, module = "sm121probe._native")]
pub(crate) struct Program {
    /// The name in messages.
    name: String,
    text: String,
    entries: Vec<String>,
    decoded: Mutex<HashMap<String, Arc<emulator::Program>>>,
    /// How many CTAs the last launch had, and what it took.
    last: Mutex<Option<(u64, Duration)>>,
    /// The contracted forms of its kernels, while no launch has them.
    contracted: Mutex<ContractedPrograms>,
    /// Triton's metadata of the last launch: as text, and read.
    metadata: Mutex<Option<(String, Arc<TritonMetadata>)>>,
}

/// A launch that took less may run without another thread.
const SHORT: Duration = Duration::from_millis(5);

#[pymethods]
impl Program {
    /// Reads the names of the entries. On failure, the second value is the error as JSON.
    #[staticmethod]
    fn read(text: String, name: String) -> (Option<Self>, Option<String>) {
        // Entries are not decoded yet, unless there is only one.
        match emulator::load_only(&text, &[]) {
            Ok(program) => {
                let entries = program.entries.clone();
                let program = Self {
                    name,
                    text,
                    entries,
                    decoded: Mutex::default(),
                    last: Mutex::default(),
                    contracted: Mutex::default(),
                    metadata: Mutex::default(),
                };
                (Some(program), None)
            }
            Err(stop) => (None, Some(stop_json(&name, &stop).to_string())),
        }
    }

    #[getter]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    #[getter]
    fn entries(&self) -> Vec<String> {
        self.entries.clone()
    }

    /// Returns the parameters of a kernel as name, PTX type and size in bytes, or the decoding error as JSON.
    fn parameters(&self, entry: &str) -> PyResult<(Vec<Parameter>, Option<String>)> {
        let program = match self.decoded(entry)? {
            Ok(program) => program,
            Err(stop) => return Ok((Vec::new(), Some(stop_json(&self.name, &stop).to_string()))),
        };
        let params = program.kernel(entry).map_or(&[][..], |kernel| &kernel.params[..]);
        let all = params.iter().map(|p| (p.name.clone(), format!("{:?}", p.ty).to_lowercase(), p.size));
        Ok((all.collect(), None))
    }
}

impl Program {
    /// Returns the program with this entry decoded.
    pub(crate) fn decoded(&self, entry: &str) -> PyResult<Result<Arc<emulator::Program>, Stop>> {
        if !self.entries.iter().any(|name| name == entry) {
            let there = self.entries.join(", ");
            return Err(PyKeyError::new_err(format!(
                "{} has no kernel `{entry}`; its kernels: {there}",
                self.name
            )));
        }
        // A panicking thread leaves the map consistent, since entries are only added.
        let known = self.decoded.lock().unwrap_or_else(PoisonError::into_inner).get(entry).cloned();
        if let Some(program) = known {
            return Ok(Ok(program));
        }
        Ok(emulator::load_only(&self.text, &[entry]).map(|program| {
            let mut decoded = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(decoded.entry(entry.to_owned()).or_insert_with(|| Arc::new(program)))
        }))
    }

    /// Whether a launch of so many CTAs is probably short: the last one was, and did not have fewer.
    pub(crate) fn is_short(&self, ctas: u64) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|(before, took)| ctas <= before && took < SHORT)
    }

    /// Notes what a launch took.
    pub(crate) fn took(&self, ctas: u64, took: Duration) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((ctas, took));
    }

    /// Takes the contracted forms for a launch. Another one at the same time loads them again.
    pub(crate) fn take_contracted(&self) -> ContractedPrograms {
        std::mem::take(&mut self.contracted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps the contracted forms for the next launch.
    pub(crate) fn keep_contracted(&self, contracted: ContractedPrograms) {
        *self.contracted.lock().unwrap_or_else(PoisonError::into_inner) = contracted;
    }

    /// Reads Triton's metadata of a kernel, unless the last launch had the same.
    pub(crate) fn metadata(&self, text: &str) -> PyResult<Arc<TritonMetadata>> {
        let mut last = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, read)) = &*last
            && before == text
        {
            return Ok(Arc::clone(read));
        }
        let read: TritonMetadata = serde_json::from_str(text)
            .map_err(|error| PyValueError::new_err(format!("no metadata of a Triton kernel: {error}")))?;
        let read = Arc::new(read);
        *last = Some((text.to_owned(), Arc::clone(&read)));
        Ok(read)
    }

    /// Returns the module for a session.
    pub(crate) fn module(&self, program: Arc<emulator::Program>) -> Module {
        Module { name: self.name.clone(), text: self.text.clone(), program, variables: None }
    }
}

/// Returns the kernel `entry` of a program from [`Program::decoded`].
pub(crate) fn kernel<'a>(program: &'a emulator::Program, entry: &str) -> PyResult<&'a Kernel> {
    program.kernel(entry).ok_or_else(|| PyKeyError::new_err(entry.to_owned()))
}
