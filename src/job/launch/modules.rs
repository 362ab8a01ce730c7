//! Loads modules from files: PTX directly or out of a fatbin, CUDA C++ through NVRTC; several are linked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use emulator::{Kernel, Parameter};
use ptx::arch::Target;

use super::error::LaunchError;
use super::run::Stopped;
use super::session::Module;
use super::{entry_name, headers};
use crate::event::Event;
use crate::job::{self, Context};
use crate::lint::{self, SourceError};
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
}

/// The files with the kernels of a module.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file: `.ptx`, `.cu`, or any that contains PTX, such as a fatbin.
    pub path: PathBuf,
    /// Further translation units, which are linked to it.
    pub units: Vec<PathBuf>,
    /// Compiler options for `.cu` files.
    pub compile: Compile,
}

impl Source {
    /// The files, in the order in which they are linked.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.path.as_path()).chain(self.units.iter().map(PathBuf::as_path))
    }

    /// The first option of a compiler, if there is no `.cu` file for it.
    pub(super) fn idle_option(&self) -> Option<&'static str> {
        if self.paths().any(is_cuda) { None } else { self.compile.given().first().copied() }
    }
}

/// Whether a file is compiled.
fn is_cuda(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "cu")
}

/// The PTX of a file.
struct Unit {
    /// Its name in messages.
    name: String,
    ptx: String,
    /// Of a `.cu` file: its name in line information, and its text.
    source: Option<(String, String)>,
}

/// The PTX of a file, which is one of several if it is `linked`.
fn unit(path: &Path, compile: &Compile, linked: bool, context: &Context<'_>) -> Result<Unit, LaunchError> {
    let read = |source| LaunchError::Read { path: path.to_owned(), source };
    if is_cuda(path) {
        let text = fs::read_to_string(path).map_err(read)?;
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let (version, ptx) = compile_with(&text, &name, path.parent(), (compile, linked), context)?;
        let shown = format!("PTX of {} by NVRTC {version}", path.display());
        return Ok(Unit { name: shown, ptx, source: Some((name, text)) });
    }
    let name = path.display().to_string();
    let bytes = fs::read(path).map_err(read)?;
    if path.extension().is_some_and(|e| e == "ptx") {
        let text = String::from_utf8(bytes)
            .map_err(|error| read(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        // Editors write a byte order mark; it means nothing.
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        return Ok(Unit { name, ptx: text, source: None });
    }
    let found = lint::Source::from_bytes(&name, &bytes)?;
    // Of several architectures, the newest is what an SM12x GPU is given.
    let newest = found.modules.iter().max_by_key(|module| module.known_target());
    let Some(newest) = newest else { return Err(SourceError::NoPtx { file: name }.into()) };
    if found.modules.len() > 1 {
        let target = newest.target.as_deref().unwrap_or("no target");
        let text = format!("{name} has {} modules of PTX; the one for {target} runs", found.modules.len());
        context.sink.emit(Event::Notice { text });
    }
    Ok(Unit { name: format!("PTX in {name}"), ptx: newest.text.clone(), source: None })
}

/// The PTX of a `.cu` file.
#[derive(Debug, Clone)]
pub struct CompiledFile {
    /// The version of NVRTC.
    pub version: String,
    /// The name of the file in line information.
    pub name: String,
    /// The PTX.
    pub ptx: String,
}

/// Compiles a `.cu` file with this text.
///
/// # Errors
/// As [`compile_cuda`].
pub fn compile_file(
    path: &Path,
    text: &str,
    compile: &Compile,
    context: &Context<'_>,
) -> Result<CompiledFile, LaunchError> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let (version, ptx) = compile_with(text, &name, path.parent(), (compile, false), context)?;
    Ok(CompiledFile { version, name, ptx })
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
    compile_with(text, name, None, (compile, false), context)
}

/// [`compile_cuda`] of a file in `folder`, which is one of several translation units if it is `linked`.
fn compile_with(
    text: &str,
    name: &str,
    folder: Option<&Path>,
    (compile, linked): (&Compile, bool),
    context: &Context<'_>,
) -> Result<(String, String), LaunchError> {
    let target: Target = compile.target.as_deref().unwrap_or(TARGET).parse()?;
    let store = Store::open(None).ok();
    let nvrtc = job::nvrtc(compile.toolkit.as_deref(), store.as_ref(), context.sink)?;
    let mut options = toolkit::options_for(target);
    options.extend(compile.defines.iter().map(|of| format!("--define-macro={of}")));
    options.extend(compile.standard.iter().map(|of| format!("--std={of}")));
    if linked {
        options.push("--relocatable-device-code=true".to_owned());
    }
    let has_headers = text.contains("#include");
    let mut folders: Vec<PathBuf> = Vec::new();
    if has_headers {
        // A header in quotes is beside the file.
        folders.extend(folder.map(Path::to_owned));
        folders.extend(compile.includes.iter().cloned());
        folders.extend(headers::installed(&nvrtc.library));
    }
    // What headers hold is no part of the key under which results are kept.
    let kept = store.as_ref().filter(|_| !has_headers);
    let compiled = loop {
        let paths =
            folders.iter().map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.clone()));
        let includes = paths.map(|folder| format!("--include-path={}", folder.display()));
        let options = options.iter().cloned().chain(includes).collect();
        let source = toolkit::Source { text, name, options, headers: Vec::new() };
        let error = match toolkit::compile(&nvrtc, &source, kept, &context.program, COMPILE_LIMIT) {
            Ok(compiled) => break compiled,
            Err(error) => error,
        };
        let Some((missing, store)) = missing_header(&error).zip(store.as_ref()) else {
            return Err(with_remedy(error));
        };
        let more = match headers::wheels_with(&missing) {
            [] => Vec::new(),
            wheels => headers::fetched(wheels, store, context)?,
        };
        let before = folders.len();
        folders.extend(more.into_iter().filter(|folder| !folders.contains(folder)).collect::<Vec<_>>());
        if folders.len() == before {
            return Err(with_remedy(error));
        }
    };
    if !compiled.log.trim().is_empty() {
        context.sink.emit(Event::Notice { text: compiled.log.trim().to_owned() });
    }
    Ok((nvrtc.version.to_string(), compiled.ptx))
}

/// The header that NVRTC does not find.
fn missing_header(error: &NvrtcError) -> Option<String> {
    let NvrtcError::Rejected { log, .. } = error else { return None };
    // "could not" without any folder to search, else "cannot".
    let rest = log.split(" open source file \"").nth(1)?;
    Some(rest.split('"').next()?.to_owned())
}

/// Names the header that NVRTC does not find.
fn with_remedy(error: NvrtcError) -> LaunchError {
    match missing_header(&error) {
        Some(header) if headers::is_of_host(&header) => {
            LaunchError::HostHeader { header, rejected: Box::new(error) }
        }
        Some(header) => LaunchError::Header { header, rejected: Box::new(error) },
        None => error.into(),
    }
}

/// Loads the module of files and decodes the entries that these names denote.
pub(super) fn load(source: &Source, entries: &[&str], context: &Context<'_>) -> Result<Module, LaunchError> {
    if let Some(option) = source.idle_option() {
        return Err(LaunchError::OnlyCuda(option));
    }
    let linked = !source.units.is_empty();
    let mut units: Vec<Unit> =
        source.paths().map(|path| unit(path, &source.compile, linked, context)).collect::<Result<_, _>>()?;
    let sources: Vec<(String, String)> = units.iter_mut().filter_map(|unit| unit.source.take()).collect();
    let (name, text) = match units.as_mut_slice() {
        [only] => (std::mem::take(&mut only.name), std::mem::take(&mut only.ptx)),
        all => {
            let objects = all.iter().map(|unit| ptx::link::Object { name: &unit.name, text: &unit.ptx });
            let text = ptx::link::link(&objects.collect::<Vec<_>>())?;
            (
                format!(
                    "{} linked",
                    all.iter().map(|unit| unit.name.as_str()).collect::<Vec<_>>().join(" and ")
                ),
                text,
            )
        }
    };
    let mut module = module(name, text, entries)?;
    if let Some(program) = Arc::get_mut(&mut module.program) {
        sources.iter().for_each(|(name, text)| program.know_source(name, text));
    }
    Ok(module)
}

/// Loads the module of a PTX text and decodes the entries that these names denote.
pub(super) fn module(name: String, text: String, entries: &[&str]) -> Result<Module, LaunchError> {
    let stopped = |stop| match ptx::parse(&text) {
        Err(error) => LaunchError::Syntax { name: name.clone(), text: text.clone(), error: Box::new(error) },
        Ok(_) => Stopped { name: name.clone(), text: text.clone(), stop }.into(),
    };
    let mut program = emulator::load_only(&text, entries).map_err(stopped)?;
    let linker: Vec<&str> =
        entries.iter().flat_map(|wanted| entry_name::named(wanted, &program.entries)).collect();
    if linker.iter().any(|name| program.kernel(name).is_none()) {
        let linker: Vec<String> = linker.into_iter().map(str::to_owned).collect();
        let linker: Vec<&str> = linker.iter().map(String::as_str).collect();
        program = emulator::load_only(&text, &linker).map_err(stopped)?;
    }
    Ok(Module { name, text, program: Arc::new(program), variables: None })
}

/// Returns the kernel called `name`, or the module's only entry if `None`.
pub(super) fn entry<'a>(
    module: &'a Module,
    path: &Path,
    name: Option<&str>,
) -> Result<&'a Kernel, LaunchError> {
    let program = &module.program;
    let fitting = name.map_or_else(
        || program.entries.iter().map(String::as_str).collect(),
        |name| entry_name::named(name, &program.entries),
    );
    let found = match fitting.as_slice() {
        [only] => program.kernel(only),
        _ => None,
    };
    found.ok_or_else(|| {
        let several = name.filter(|_| fitting.len() > 1);
        let shown =
            if several.is_some() { fitting } else { program.entries.iter().map(String::as_str).collect() };
        let mut there: Vec<String> = shown.iter().map(|name| entry_name::demangled(name)).collect();
        // Overloads differ only for the linker.
        if there.iter().collect::<std::collections::BTreeSet<_>>().len() < there.len() {
            there = shown.into_iter().map(str::to_owned).collect();
        }
        LaunchError::Entry {
            file: path.display().to_string(),
            wanted: name.map(str::to_owned),
            fits_several: several.is_some(),
            there,
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
    // The compiler's names say nothing but the place.
    let is_own =
        |p: &&Parameter| p.name.rsplit_once("_param_").is_none_or(|(_, n)| n.parse::<u32>().is_err());
    let named = params.iter().filter(is_own).count() == params.len();
    let of = |(n, p): (usize, &Parameter)| {
        let name = if named { p.name.clone() } else { format!("argument {}", n + 1) };
        let pointer = if !named && p.size == 8 { ": a pointer or a number" } else { "" };
        format!("{name} ({}{pointer})", wanted(p))
    };
    let list: Vec<String> = params.iter().enumerate().map(of).collect();
    LaunchError::Count {
        kernel: kernel.name.clone(),
        wanted: params.len(),
        given,
        list: if list.is_empty() { "none".to_owned() } else { list.join(", ") },
    }
}
