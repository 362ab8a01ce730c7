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
use crate::toolkit::{self, NvrtcError};

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
    /// Folders of headers, in the order of the search.
    pub includes: Vec<PathBuf>,
    /// Macros: `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
    /// The standard of C++, such as `c++20`; NVRTC's default if `None`.
    pub standard: Option<String>,
}

impl Compile {
    /// Returns the options that are given, which are for `.cu` files alone, by their names on the command line.
    #[must_use]
    pub fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--target", self.target.is_some()),
            ("--toolkit", self.toolkit.is_some()),
            ("--include", !self.includes.is_empty()),
            ("--define", !self.defines.is_empty()),
            ("--std", self.standard.is_some()),
        ];
        all.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// The folders in which NVRTC looks for headers: those that are given, and CUDA's own where this machine has them.
    fn folders(&self, library: &Path) -> Vec<PathBuf> {
        let home = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
        let home = home.chain([PathBuf::from("/usr/local/cuda")]).map(|folder| folder.join("include"));
        // A wheel of NVRTC is in `nvidia/<package>/lib`, CUDA's headers in a package beside it.
        let packages = library.ancestors().nth(3).into_iter();
        let wheels = packages.flat_map(|of| [of.join("cu13/include"), of.join("cuda_runtime/include")]);
        let own = home.chain(wheels).filter(|folder| folder.join("cuda_runtime.h").is_file());
        let all = self.includes.iter().cloned().chain(own);
        all.map(|folder| std::path::absolute(&folder).unwrap_or(folder)).collect()
    }
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
            if let Some(option) = compile.given().first() {
                return Err(LaunchError::OnlyCuda(option));
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
    let mut options = toolkit::options_for(target);
    options.extend(compile.defines.iter().map(|of| format!("--define-macro={of}")));
    options.extend(compile.standard.iter().map(|of| format!("--std={of}")));
    let has_headers = text.contains("#include");
    if has_headers {
        let folders = compile.folders(&nvrtc.library);
        options.extend(folders.iter().map(|folder| format!("--include-path={}", folder.display())));
    }
    let source = toolkit::Source { text, name, options, headers: Vec::new() };
    // What headers hold is no part of the key under which results are kept.
    let kept = store.as_ref().filter(|_| !has_headers);
    let compiled = toolkit::compile(&nvrtc, &source, kept, &context.program, COMPILE_LIMIT)
        .map_err(|error| with_remedy(error, text))?;
    if !compiled.log.trim().is_empty() {
        context.sink.emit(Event::Notice { text: compiled.log.trim().to_owned() });
    }
    Ok((nvrtc.version.to_string(), compiled.ptx))
}

/// Names the header that NVRTC does not find.
fn with_remedy(error: NvrtcError, text: &str) -> LaunchError {
    let NvrtcError::Rejected { name, version, log } = error else { return error.into() };
    let missing = log.split("could not open source file \"").nth(1).and_then(|rest| rest.split('"').next());
    match missing.filter(|header| text.contains(*header) || log.contains(*header)) {
        Some(header) => LaunchError::Header {
            header: header.to_owned(),
            rejected: NvrtcError::Rejected { name, version, log },
        },
        None => NvrtcError::Rejected { name, version, log }.into(),
    }
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
            wanted: name.map(str::to_owned),
            there: names.into_iter().map(str::to_owned).collect(),
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
