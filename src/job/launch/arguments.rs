//! Builds a launch from the command line: one kernel, one argument per parameter.

use std::path::{Path, PathBuf};

use emulator::argument::{self, Argument, Element, MapOf};
use emulator::trials::ContractedPrograms;
use emulator::{GlobalMemory, Kernel, Parameter, TENSOR_MAP_BYTES};
use ptx::Type;

use super::content::{self, Files};
use super::error::LaunchError;
use super::expect::{self, Tolerance};
use super::modules::{self, Compile, Source, miscounted, wanted};
use super::npy;
use super::session::{Buffer, Initial, Session, Step, Value};
use super::triton;
use crate::job::Context;

/// Threads of a CTA if neither the call nor the kernel specifies them.
pub(super) const WARP: u32 = 32;

/// A call as typed on the command line.
#[derive(Debug, Clone, Default)]
pub struct CommandLine {
    /// The file with the kernel, or a folder of Triton's cache.
    pub file: PathBuf,
    /// Further translation units, which are linked to it.
    pub units: Vec<PathBuf>,
    /// Whether `file` is a folder of Triton's cache.
    pub triton: bool,
    /// Compiler options for a `.cu` file.
    pub compile: Compile,
    /// The kernel; may be `None` if the module has only one.
    pub entry: Option<String>,
    /// CTAs of the grid; 1 if `None`.
    pub grid: Option<[u32; 3]>,
    /// Threads of a CTA; if `None`, what the kernel requires, or one warp.
    pub block: Option<[u32; 3]>,
    /// CTAs of a cluster.
    pub cluster: Option<[u32; 3]>,
    /// Whether the launch is cooperative: all CTAs are resident at the same time.
    pub cooperative: bool,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: Option<u32>,
    /// Arguments in the syntax of [`argument::parse`].
    pub args: Vec<String>,
    /// Buffers in the syntax of [`argument::parse_buffer`].
    pub buffers: Vec<String>,
}

/// Builds the session of a call: loads the module and creates the buffers.
///
/// # Errors
/// [`LaunchError`] that describes what is wrong in the call.
pub fn from_command_line(call: &CommandLine, context: &Context<'_>) -> Result<Session, LaunchError> {
    let cached = match call.triton {
        true => Some(triton::Cached::find(&call.file, call.entry.as_deref())?),
        false => None,
    };
    let (module, path) = match &cached {
        Some(cached) => {
            (modules::module(cached.ptx.display().to_string(), cached.text()?, &[&cached.name])?, &cached.ptx)
        }
        None => {
            let (path, units) = (call.file.clone(), call.units.clone());
            let source = Source { path, units, compile: call.compile.clone() };
            let entries: Vec<&str> = call.entry.as_deref().into_iter().collect();
            (modules::load(&source, &entries, context)?, &call.file)
        }
    };
    let name = cached.as_ref().map(|c| c.name.as_str()).or(call.entry.as_deref());
    let kernel = modules::entry(&module, path, name)?;
    let mut buffers = Vec::new();
    let given = kernel.params.len().saturating_sub(cached.as_ref().map_or(0, |c| c.metadata.hidden()));
    let mut args = arguments(call, kernel, &kernel.params[..given], &mut buffers)?;
    let mut step = Step {
        module: 0,
        entry: kernel.name.clone(),
        grid: call.grid.unwrap_or([1; 3]),
        block: call.block.or(kernel.required_threads).unwrap_or([WARP, 1, 1]),
        cluster: call.cluster,
        cooperative: call.cooperative,
        shared_bytes: call.shared_bytes.unwrap_or(0),
        shift_shared: true,
        args: Vec::new(),
    };
    if let Some(cached) = &cached {
        let given = triton::Given { block: call.block, shared_bytes: call.shared_bytes };
        args.extend(cached.metadata.complete(&mut step, given, &mut buffers)?);
    }
    step.args = args;
    Ok(Session {
        modules: vec![module],
        base: GlobalMemory::default(),
        buffers,
        variables: Vec::new(),
        steps: vec![step],
        expectations: Vec::new(),
        contracted: ContractedPrograms::default(),
    })
}

impl Session {
    /// Expects each buffer to equal the tensor of the same name in a safetensors file, within `tolerance`.
    ///
    /// # Errors
    /// [`LaunchError::NothingExpected`] if no buffer is named like a tensor; [`LaunchError::NoBuffer`] if a tensor has no buffer;
    /// [`LaunchError::NoOutput`] if there are outputs (`out:`) and none has a tensor; other errors if the file is unusable.
    pub fn expect_file(&mut self, path: &Path, tolerance: Tolerance) -> Result<(), LaunchError> {
        let mut files = Files::default();
        let tensors = files.tensors(path)?;
        let before = self.expectations.len();
        for (n, buffer) in self.buffers.iter().enumerate().filter(|(_, b)| tensors.contains(&b.name)) {
            let (shape, bytes) = files.tensor(path, &buffer.name)?;
            let expected = expect::expectation(n, buffer, (shape.element, bytes), Vec::new(), tolerance);
            self.expectations
                .push(expected.map_err(|why| LaunchError::Tensor { path: path.to_owned(), why })?);
        }
        let path = path.to_owned();
        let names: Vec<&str> = self.buffers.iter().map(|b| b.name.as_str()).collect();
        if self.expectations.len() == before {
            let (there, buffers) = (tensors.join(", "), names.join(", "));
            return Err(LaunchError::NothingExpected { path, there, buffers });
        }
        if let Some(tensor) = tensors.iter().find(|t| !names.contains(&t.as_str())) {
            let (tensor, buffers) = (tensor.clone(), names.join(", "));
            return Err(LaunchError::NoBuffer { path, tensor, buffers });
        }
        let outputs = self.buffers.iter().filter(|b| b.initial == Initial::Unwritten && !b.scratch);
        let outputs: Vec<&str> = outputs.map(|b| b.name.as_str()).collect();
        if !outputs.is_empty() && !outputs.iter().any(|name| tensors.iter().any(|t| t == name)) {
            return Err(LaunchError::NoOutput { path, outputs: outputs.join(", ") });
        }
        Ok(())
    }
}

impl Session {
    /// Expects a buffer to hold what a file has, within `tolerance`: a .npy file, a tensor of a safetensors file (`FILE#TENSOR`, or
    /// the one that is named like the buffer), or else raw elements of the buffer's type.
    ///
    /// # Errors
    /// [`LaunchError::NoSuchBuffer`], or another error if the file is unusable or has another number of elements.
    pub fn expect_buffer(&mut self, name: &str, file: &str, tolerance: Tolerance) -> Result<(), LaunchError> {
        let Some(n) = self.buffers.iter().position(|buffer| buffer.name == name) else {
            let buffers = self.buffers.iter().map(|b| b.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(LaunchError::NoSuchBuffer { name: name.to_owned(), buffers });
        };
        let buffer = &self.buffers[n];
        let (path, tensor) = match file.rsplit_once('#') {
            Some((path, tensor)) => (Path::new(path), Some(tensor)),
            None => (Path::new(file), None),
        };
        let unusable = |why| LaunchError::Expectation { path: path.to_owned(), why };
        let mut files = Files::default();
        let is = |extension: &str| path.extension().is_some_and(|e| e == extension);
        let (element, bytes) = if tensor.is_some() || is("safetensors") {
            let (shape, bytes) = files.tensor(path, tensor.unwrap_or(name))?;
            (shape.element, bytes)
        } else if is("npy") {
            let (element, _, bytes) = npy::parse(files.bytes(path)?).map_err(unusable)?;
            (element, bytes.to_vec())
        } else {
            (buffer.shape.element, files.bytes(path)?.to_vec())
        };
        let expected = expect::expectation(n, buffer, (element, bytes), Vec::new(), tolerance);
        self.expectations.push(expected.map_err(unusable)?);
        Ok(())
    }
}

/// If a value of `bytes` bytes of `element` does not fit a parameter, describes the value in words.
pub(super) fn unfit(param: &Parameter, element: Element, bytes: usize) -> Option<String> {
    let float = matches!(param.ty, Type::F32 | Type::F64);
    let integer = matches!(param.ty, Type::U32 | Type::S32 | Type::U64 | Type::S64);
    let same_kind = if element.is_float() { !integer } else { !float };
    (bytes != param.size || !same_kind).then(|| format!("{bytes} bytes of {}", element.name()))
}

/// Whether a parameter can hold an address.
pub(super) fn takes_address(param: &Parameter) -> bool {
    param.size == 8 && !matches!(param.ty, Type::F64)
}

/// If a tensor map extends beyond its buffer, describes this in words.
pub(super) fn beyond(map: &MapOf, offset: u64, buffer: &Buffer) -> Option<String> {
    (offset.saturating_add(map.span()) > buffer.shape.bytes as u64).then(|| {
        format!(
            "a tensor map spans {} bytes of buffer `{}`, which has only {}",
            map.span(),
            map.of,
            (buffer.shape.bytes as u64).saturating_sub(offset)
        )
    })
}

fn arguments(
    call: &CommandLine,
    kernel: &Kernel,
    params: &[Parameter],
    buffers: &mut Vec<Buffer>,
) -> Result<Vec<Value>, LaunchError> {
    if call.args.len() != params.len() {
        return Err(miscounted(kernel, params, call.args.len()));
    }
    let mut files = Files::default();
    let mut values = Vec::new();
    let mut maps: Vec<(usize, MapOf)> = Vec::new();
    for (n, (text, param)) in call.args.iter().zip(params).enumerate() {
        let fit = |given: String| {
            LaunchError::Fit(format!(
                "argument {} of {}, `{text}`, is {given}, but parameter `{}` is {}",
                n + 1,
                kernel.name,
                param.name,
                wanted(param)
            ))
        };
        values.push(match argument::parse(text)? {
            Argument::Value { element, bytes } => match unfit(param, element, bytes.len()) {
                Some(given) => return Err(fit(given)),
                None => Value::Bytes(bytes),
            },
            Argument::Buffer { name, content } => {
                if !takes_address(param) {
                    return Err(fit("the 8-byte address of a buffer".to_owned()));
                }
                content::add(buffers, name, content, &mut files)?;
                Value::Address { buffer: buffers.len() - 1, offset: 0 }
            }
            Argument::Map(map) => {
                if param.size != TENSOR_MAP_BYTES {
                    return Err(fit(format!("the {TENSOR_MAP_BYTES} bytes of a tensor map")));
                }
                // Its buffer may be defined later.
                let value = Value::Map { buffer: usize::MAX, offset: 0, map: map.map };
                maps.push((n, map));
                value
            }
        });
    }
    for text in &call.buffers {
        let (name, content) = argument::parse_buffer(text)?;
        content::add(buffers, name, content, &mut files)?;
    }
    for (n, map) in maps {
        let buffer = buffers.iter().position(|b| b.name == map.of).ok_or_else(|| {
            LaunchError::Fit(format!(
                "a tensor map refers to buffer `{}`, which no --arg or --buf defines",
                map.of
            ))
        })?;
        if let Some(why) = beyond(&map, 0, &buffers[buffer]) {
            return Err(LaunchError::Fit(why));
        }
        values[n] = Value::Map { buffer, offset: 0, map: map.map };
    }
    Ok(values)
}
