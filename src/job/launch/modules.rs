//! Loads modules from files: PTX directly, CUDA C++ through NVRTC.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use emulator::{Kernel, Parameter};
use ptx::arch::Target;

use super::error::LaunchError;
use super::run::Stopped;
use super::session::Module;
use crate::event::Event;
use crate::job::{self, Context};
use crate::store::Store;
use crate::toolkit;

/// The default target of a CUDA C++ file.
const TARGET: &str = "sm_121a";

/// The time limit of NVRTC.
const COMPILE_LIMIT: Duration = Duration::from_secs(120);

/// The compiler options of a `.cu` file.
#[derive(Debug, Clone, Default)]
pub struct Compile {
    /// The target; `sm_121a` if `None`.
    pub target: Option<String>,
    /// The version of NVRTC; the newest if `None`.
    pub toolkit: Option<String>,
}

/// A source file with kernels.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file, `.ptx` or `.cu`.
    pub path: PathBuf,
    /// Compiler options for a `.cu` file.
    pub compile: Compile,
}

/// Returns the name of a file's module in messages, and the PTX.
fn ptx_of(source: &Source, context: &Context<'_>) -> Result<(String, String), LaunchError> {
    let Source { path, compile } = source;
    let text = fs::read_to_string(path).map_err(|source| LaunchError::Read { path: path.clone(), source })?;
    match path.extension().and_then(|e| e.to_str()) {
        Some("ptx") => {
            if compile.target.is_some() {
                return Err(LaunchError::OnlyCuda("--target"));
            }
            if compile.toolkit.is_some() {
                return Err(LaunchError::OnlyCuda("--toolkit"));
            }
            Ok((path.display().to_string(), text))
        }
        Some("cu") => {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let (version, ptx) = compile_cuda(&text, &name, compile, context)?;
            Ok((format!("PTX of {} by NVRTC {version}", path.display()), ptx))
        }
        _ => Err(LaunchError::Kind(path.clone())),
    }
}

/// Compiles CUDA C++ that messages call `name`. Returns the version of NVRTC and the PTX.
///
/// # Errors
/// [`LaunchError`] if there is no such NVRTC, or if it rejects the text.
pub fn compile_cuda(
    text: &str,
    name: &str,
    compile: &Compile,
    context: &Context<'_>,
) -> Result<(String, String), LaunchError> {
    let target: Target = compile.target.as_deref().unwrap_or(TARGET).parse()?;
    let store = Store::open(None).ok();
    let nvrtc = job::nvrtc(compile.toolkit.as_deref(), store.as_ref(), context.sink)?;
    let options = toolkit::options_for(target);
    let source = toolkit::Source { text, name, options, headers: Vec::new() };
    let compiled = toolkit::compile(&nvrtc, &source, store.as_ref(), &context.program, COMPILE_LIMIT)?;
    if !compiled.log.trim().is_empty() {
        context.sink.emit(Event::Notice { text: compiled.log.trim().to_owned() });
    }
    Ok((nvrtc.version.to_string(), compiled.ptx))
}

/// Loads the module of a file and decodes these entries.
pub(super) fn load(source: &Source, entries: &[&str], context: &Context<'_>) -> Result<Module, LaunchError> {
    let (name, text) = ptx_of(source, context)?;
    module(name, text, entries)
}

/// Loads the module of a PTX text and decodes these entries.
pub(super) fn module(name: String, text: String, entries: &[&str]) -> Result<Module, LaunchError> {
    match emulator::load_only(&text, entries) {
        Ok(program) => Ok(Module { name, text, program: Arc::new(program), variables: None }),
        Err(stop) => Err(Stopped { name, text, stop }.into()),
    }
}

/// Returns the kernel called `name`, or the module's only entry if `None`.
pub(super) fn entry<'a>(
    module: &'a Module,
    path: &Path,
    name: Option<&str>,
) -> Result<&'a Kernel, LaunchError> {
    let program = &module.program;
    let found = match (name, program.entries.as_slice()) {
        (Some(name), _) => program.kernel(name),
        (None, [only]) => program.kernel(only),
        (None, _) => None,
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = program.entries.iter().map(String::as_str).collect();
        LaunchError::Entry {
            file: path.display().to_string(),
            wanted: name.map_or_else(|| " chosen by --entry".to_owned(), |n| format!(" `{n}`")),
            there: if names.is_empty() { "none".to_owned() } else { names.join(", ") },
        }
    })
}

/// Describes a parameter in words.
pub(super) fn wanted(param: &Parameter) -> String {
    let one = param.ty.bytes();
    let ty = format!("{:?}", param.ty).to_lowercase();
    if param.size == one { format!(".{ty}, {one} bytes") } else { format!("{} bytes of .{ty}", param.size) }
}

/// Returns the error for a wrong number of arguments.
pub(super) fn miscounted(kernel: &Kernel, params: &[Parameter], given: usize) -> LaunchError {
    let list: Vec<String> = params.iter().map(|p| format!("{} ({})", p.name, wanted(p))).collect();
    LaunchError::Count {
        kernel: kernel.name.clone(),
        wanted: params.len(),
        given,
        list: if list.is_empty() { "none".to_owned() } else { list.join(", ") },
    }
}
