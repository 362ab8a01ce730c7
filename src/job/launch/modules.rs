//! Modules from their files: PTX as it is, CUDA C++ through NVRTC.

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

/// What a CUDA C++ file is compiled for when nothing is said.
const TARGET: &str = "sm_121a";

/// How long NVRTC may take.
const COMPILE_LIMIT: Duration = Duration::from_secs(120);

/// How a `.cu` file is compiled.
#[derive(Debug, Clone, Default)]
pub struct Compile {
    /// The target; `sm_121a` when left out.
    pub target: Option<String>,
    /// The version of NVRTC; the newest when left out.
    pub toolkit: Option<String>,
}

/// A file with kernels.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file, `.ptx` or `.cu`.
    pub path: PathBuf,
    /// For a `.cu` file.
    pub compile: Compile,
}

/// The PTX of a file, and what messages call it.
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

/// The PTX of CUDA C++ that messages call `name`, and the version of the NVRTC that compiled it.
///
/// # Errors
/// [`LaunchError`] where there is no such NVRTC, or it refuses the text.
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

/// The module of a file, with these entries decoded.
pub(super) fn load(source: &Source, entries: &[&str], context: &Context<'_>) -> Result<Module, LaunchError> {
    let (name, text) = ptx_of(source, context)?;
    module(name, text, entries)
}

/// The module of a text.
pub(super) fn module(name: String, text: String, entries: &[&str]) -> Result<Module, LaunchError> {
    match emulator::load_only(&text, entries) {
        Ok(program) => Ok(Module { name, text, program: Arc::new(program), variables: None }),
        Err(stop) => Err(Stopped { name, text, stop }.into()),
    }
}

/// The kernel of a name; without one, the only entry there is.
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

/// A parameter in words.
pub(super) fn wanted(param: &Parameter) -> String {
    let one = param.ty.bytes();
    let ty = format!("{:?}", param.ty).to_lowercase();
    if param.size == one { format!(".{ty}, {one} bytes") } else { format!("{} bytes of .{ty}", param.size) }
}

/// That there are not as many arguments as parameters.
pub(super) fn miscounted(kernel: &Kernel, params: &[Parameter], given: usize) -> LaunchError {
    let list: Vec<String> = params.iter().map(|p| format!("{} ({})", p.name, wanted(p))).collect();
    LaunchError::Count {
        kernel: kernel.name.clone(),
        wanted: params.len(),
        given,
        list: if list.is_empty() { "none".to_owned() } else { list.join(", ") },
    }
}
