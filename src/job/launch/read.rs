//! Turns a launch file into a [`Session`]: resolves names, reads files, checks arguments against the kernels.

mod buffer;
mod value;

use std::path::{Path, PathBuf};

use emulator::trials::ContractedPrograms;
use emulator::{GlobalMemory, Kernel, Parameter};
use value::scalar;

use super::arguments::{WARP, takes_address, unfit};
use super::content::Files;
use super::error::LaunchError;
use super::file::{LaunchEntry, LaunchFile, ModuleEntry, Three, ValueEntry};
use super::modules::{self, Compile, Source, miscounted, wanted};
use super::place::{Part, line_of};
use super::session::{Buffer, Module, Session, Step, Value, Variable};
use super::triton;
use crate::header::{self, read_text};
use crate::job::Context;

/// An error: at a value of the file, or without a location in it.
enum Fault {
    At(Vec<Part>, String),
    Other(Box<LaunchError>),
}

impl From<LaunchError> for Fault {
    fn from(error: LaunchError) -> Self {
        Self::Other(Box::new(error))
    }
}

/// Appends a key to a path.
fn with(path: &[Part], key: &str) -> Vec<Part> {
    path.iter().cloned().chain([Part::Key(key.to_owned())]).collect()
}

fn item(path: &[Part], n: usize) -> Vec<Part> {
    path.iter().cloned().chain([Part::Item(n)]).collect()
}

fn fault<T>(path: Vec<Part>, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::At(path, message.into()))
}

/// Builds the session of a launch file: loads its modules and creates its buffers.
///
/// # Errors
/// [`LaunchError`], with the line if a value of the file is invalid.
pub fn from_file(path: &Path, context: &Context<'_>) -> Result<Session, LaunchError> {
    let text = read_text(path, "a launch file")?;
    let file: LaunchFile = header::parse_file(path, &text)?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let reader = Reader { folder, names: Vec::new(), buffers: Vec::new(), files: Files::default() };
    reader.session(&file, context).map_err(|fault| match fault {
        Fault::At(parts, message) => {
            LaunchError::Invalid { path: path.to_owned(), line: line_of(&text, &parts), message }
        }
        Fault::Other(error) => *error,
    })
}

struct Reader {
    folder: PathBuf,
    /// Names of all buffers, including those that are not read yet.
    names: Vec<String>,
    buffers: Vec<Buffer>,
    files: Files,
}

impl Reader {
    fn session(mut self, file: &LaunchFile, context: &Context<'_>) -> Result<Session, Fault> {
        let launches = [Part::Key("launches".to_owned())];
        if file.launches.is_empty() {
            return fault(launches.to_vec(), "there is no launch; give at least one");
        }
        let mut used: Vec<Vec<&str>> = vec![Vec::new(); file.modules.len()];
        let mut of_launch = Vec::new();
        for (n, launch) in file.launches.iter().enumerate() {
            let module = self.module_of(file, launch.module.as_deref(), &item(&launches, n))?;
            used[module].extend(launch.entry.as_deref());
            of_launch.push(module);
        }
        let mut modules = Vec::new();
        let mut cached = Vec::new();
        for ((name, entry), entries) in file.modules.iter().zip(&used) {
            let path = [Part::Key("modules".to_owned()), Part::Key(name.clone())];
            let (module, kernel) = self.module(entry, entries, &path, context)?;
            modules.push(module);
            cached.push(kernel);
        }
        self.names = file.buffers.keys().cloned().collect();
        for (name, entry) in &file.buffers {
            let path = [Part::Key("buffers".to_owned()), Part::Key(name.clone())];
            let buffer = self.buffer(name, entry, &path)?;
            self.buffers.push(buffer);
        }
        for ((name, entry), module) in file.modules.iter().zip(&mut modules) {
            let path =
                [Part::Key("modules".to_owned()), Part::Key(name.clone()), Part::Key("variables".to_owned())];
            let find = |(n, name): (usize, &String)| self.index(name, item(&path, n));
            let found = entry.variables.as_ref().map(|names| names.iter().enumerate().map(find).collect());
            module.variables = found.transpose()?;
        }
        // Tensor maps and expectations are checked against the buffers once all buffers are read.
        let mut expectations = Vec::new();
        for (n, (name, entry)) in file.buffers.iter().enumerate() {
            let path = [Part::Key("buffers".to_owned()), Part::Key(name.clone())];
            if let Some(fields) = &entry.fields {
                self.check_maps(fields, &with(&path, "fields"))?;
            }
            if let Some(expect) = &entry.expect {
                expectations.push(self.expectation(n, expect, &with(&path, "expect"))?);
            }
        }
        let mut variables = Vec::new();
        for (n, variable) in file.variables.iter().enumerate() {
            let path = item(&[Part::Key("variables".to_owned())], n);
            let module = self.module_of(file, variable.module.as_deref(), &path)?;
            let value = self.value(&variable.value, &with(&path, "value"))?.value;
            self.check_maps(std::slice::from_ref(&variable.value), &with(&path, "value"))?;
            variables.push(Variable { module, name: variable.name.clone(), at: variable.at, value });
        }
        let mut steps = Vec::new();
        for (n, (launch, module)) in file.launches.iter().zip(of_launch).enumerate() {
            let path = item(&launches, n);
            let step = self.step(launch, (module, &modules[module]), cached[module].as_ref(), &path)?;
            steps.push(step);
        }
        Ok(Session {
            modules,
            base: GlobalMemory::default(),
            buffers: self.buffers,
            variables,
            steps,
            expectations,
            contracted: ContractedPrograms::default(),
        })
    }

    fn module_of(&self, file: &LaunchFile, name: Option<&str>, path: &[Part]) -> Result<usize, Fault> {
        let names = || file.modules.keys().cloned().collect::<Vec<_>>().join(", ");
        match name {
            Some(name) => match file.modules.get_index_of(name) {
                Some(n) => Ok(n),
                None => fault(
                    with(path, "module"),
                    format!("there is no module `{name}`; the modules are: {}", names()),
                ),
            },
            None if file.modules.len() == 1 => Ok(0),
            None => fault(path.to_vec(), format!("give `module`, one of: {}", names())),
        }
    }

    fn module(
        &self,
        entry: &ModuleEntry,
        entries: &[&str],
        path: &[Part],
        context: &Context<'_>,
    ) -> Result<(Module, Option<triton::Cached>), Fault> {
        match (&entry.file, &entry.triton) {
            (Some(file), None) => {
                let compile = Compile {
                    target: entry.target.clone(),
                    toolkit: entry.toolkit.clone(),
                    includes: entry.include.iter().map(|folder| self.folder.join(folder)).collect(),
                    defines: entry.define.clone(),
                    standard: entry.std.clone(),
                };
                let units = entry.units.iter().map(|unit| self.folder.join(unit)).collect();
                let source = Source { path: self.folder.join(file), units, compile };
                if let Some(option) = source.idle_option() {
                    let key = option.trim_start_matches('-');
                    let what = format!("`{key}` is for .cu files; a .ptx file names its own target");
                    return fault(with(path, key), what);
                }
                Ok((modules::load(&source, entries, context)?, None))
            }
            (None, Some(folder)) if entry.has_no_file() => {
                let cached = triton::Cached::find(&self.folder.join(folder), entries.first().copied())?;
                let name = cached.ptx.display().to_string();
                Ok((modules::module(name, cached.text()?, &[&cached.name])?, Some(cached)))
            }
            _ => fault(
                path.to_vec(),
                "a module is a `file` with its `units`, and `target`, `toolkit`, `include`, `define` and `std` for .cu files, or a folder `triton`",
            ),
        }
    }

    fn step(
        &mut self,
        launch: &LaunchEntry,
        (number, module): (usize, &Module),
        cached: Option<&triton::Cached>,
        path: &[Part],
    ) -> Result<Step, Fault> {
        let name = launch.entry.as_deref().or(cached.map(|c| c.name.as_str()));
        let kernel = modules::entry(module, Path::new(&module.name), name).map_err(|error| {
            let place = if launch.entry.is_some() { with(path, "entry") } else { path.to_vec() };
            Fault::At(place, error.to_string().replace("--entry", "`entry`"))
        })?;
        let hidden = cached.map_or(0, |c| c.metadata.hidden());
        let params = &kernel.params[..kernel.params.len().saturating_sub(hidden)];
        if launch.args.len() != params.len() {
            let place = if launch.args.is_empty() { path.to_vec() } else { with(path, "args") };
            return fault(place, miscounted(kernel, params, launch.args.len()).to_string());
        }
        let mut args = Vec::new();
        for (n, (entry, param)) in launch.args.iter().zip(params).enumerate() {
            let place = item(&with(path, "args"), n);
            args.push(self.argument(entry, (n, kernel, param), &place)?);
        }
        self.check_maps(&launch.args, &with(path, "args"))?;
        let dims = |three: &Option<Three>| three.as_ref().map(|t| t.dims());
        let mut step = Step {
            module: number,
            entry: kernel.name.clone(),
            grid: dims(&launch.grid).unwrap_or([1; 3]),
            block: dims(&launch.block).or(kernel.required_threads).unwrap_or([WARP, 1, 1]),
            cluster: dims(&launch.cluster),
            cooperative: launch.cooperative,
            shared_bytes: launch.smem.unwrap_or(0),
            shift_shared: true,
            args: Vec::new(),
        };
        if let Some(cached) = cached {
            let given = triton::Given { block: dims(&launch.block), shared_bytes: launch.smem };
            args.extend(cached.metadata.complete(&mut step, given, &mut self.buffers)?);
        }
        step.args = args;
        Ok(step)
    }

    fn argument(
        &self,
        entry: &ValueEntry,
        (n, kernel, param): (usize, &Kernel, &Parameter),
        path: &[Part],
    ) -> Result<Value, Fault> {
        let field = self.value(entry, path)?;
        if field.at.is_some() {
            return fault(with(path, "at"), "`at` is for the fields of a struct");
        }
        let given = match (&field.value, scalar(entry)) {
            (Value::Bytes(bytes), Some(element)) => unfit(param, element, bytes.len()),
            (Value::Address { .. }, _) => {
                (!takes_address(param)).then(|| "the 8-byte address of a buffer".to_owned())
            }
            (value, _) => (value.size() != param.size).then(|| format!("{} bytes", value.size())),
        };
        match given {
            None => Ok(field.value),
            Some(given) => fault(
                path.to_vec(),
                format!(
                    "argument {} of {} is {given}, but parameter `{}` is {}",
                    n + 1,
                    kernel.name,
                    param.name,
                    wanted(param)
                ),
            ),
        }
    }
}
