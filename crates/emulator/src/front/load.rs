//! Builds a program from a module's text: places the module variables and decodes the entries.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use ptx::arch::Target;
use ptx::{Function, Init, Item, Linkage, Module, Space, Statement, Type, Variable};

use crate::api::trap::{Lack, Stop, Unsupported};
use crate::front::availability::Arch;
use crate::front::contraction::Contraction;
use crate::front::declared;
use crate::front::decode::{
    self, Code, MOST_SHARED, Registers, Scope, Symbol, TOO_MUCH_SHARED, alignment, immediate_bits, placed,
    size_of,
};
use crate::front::directives;
use crate::front::program::{Kernel, ModuleVariable, Program, Static, VariablePlace};
use crate::isa;
use crate::memory::window::code_address;
use crate::run::device_launch::Launchable;
use crate::work;

/// Constant memory of a module in bytes (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
const MOST_CONSTANT: u32 = 64 << 10;

/// How the names of the functions begin with which kernels launch others.
const DEVICE_RUNTIME: &str = "__cudaCDP2";
/// The number of the first kernel among the functions of a module, behind those that can be called.
const FIRST_ENTRY: u32 = 1 << 19;

/// Decodes a PTX module.
///
/// # Errors
/// [`Stop::Launch`] if the text is not PTX, [`Stop::Unsupported`] if the emulator does not support something in it.
pub fn load(text: &str) -> Result<Program, Stop> {
    load_with(text, Registers::default())
}

/// [`load`] with a choice of register allocation.
///
/// # Errors
/// As [`load`].
pub fn load_with(text: &str, registers: Registers) -> Result<Program, Stop> {
    load_chosen(text, registers, &Contraction::Separate, |_| true)
}

/// [`load`] for the named entries only; unsupported features in other entries do not matter. If the text has a single entry, it is
/// loaded regardless of `names`.
///
/// # Errors
/// As [`load`].
pub fn load_only(text: &str, names: &[&str]) -> Result<Program, Stop> {
    load_contracted(text, names, &Contraction::Separate)
}

/// [`load_only`] for a text that several programs share: they also share the module variables in global memory.
///
/// # Errors
/// As [`load`].
pub fn load_shared(text: &Arc<str>, names: &[&str]) -> Result<Program, Stop> {
    let mut program = load_only(text, names)?;
    program.text = Arc::clone(text);
    Ok(program)
}

/// [`load_only`] with the given contraction of products and sums.
pub(crate) fn load_contracted(
    text: &str,
    names: &[&str],
    contraction: &Contraction,
) -> Result<Program, Stop> {
    load_chosen(text, Registers::default(), contraction, |name| names.contains(&name))
}

fn load_chosen(
    text: &str,
    registers: Registers,
    contraction: &Contraction,
    wanted: impl Fn(&str) -> bool,
) -> Result<Program, Stop> {
    let mut module = ptx::parse(text).map_err(|error| Stop::Launch(error.to_string()))?;
    ptx::legacy::complete(&mut module);
    let module = contraction.applied(module);
    let arch = module.targets.first().and_then(|target| Target::written(target)).map(Arch::from_target);
    let arch = arch.ok_or_else(|| {
        Stop::Launch(format!("`.target {}` is not an sm_ target", module.targets.join(", ")))
    })?;
    check_header(&module, text)?;
    let mut placed = Placed::default();
    let mut functions = HashMap::new();
    let mut files = HashMap::new();
    let mut imports = HashSet::new();
    for item in &module.items {
        match item {
            Item::Function(function) => {
                let known = functions.entry(function.name.as_str()).or_insert(function);
                // A definition takes precedence over declarations.
                if known.body.is_none() {
                    *known = function;
                }
            }
            Item::File { index, name, .. } => {
                files.insert(*index, name.clone());
            }
            Item::Variable(v) if is_import(v) => {
                imports.insert(v.name.as_str());
            }
            Item::Variable(v) => placed.add(v).map_err(|why| {
                let line = ptx::line_column(text, v.span.start as usize).line;
                Stop::Unsupported(Unsupported { form: v.name.clone(), line, why, lack: Lack::Emulator })
            })?,
            // Debug information has no effect on the result; aliases are resolved below, pragmas were checked.
            Item::Section { .. } | Item::Alias { .. } | Item::Pragma(_) => {}
        }
    }
    let Placed { mut globals, mut constants, variables, symbols, shared } = placed;
    for item in &module.items {
        if let Item::Alias { alias, aliasee } = item
            && let Some(function) = functions.get(aliasee.as_str()).copied()
        {
            functions.insert(alias, function);
        }
    }
    let code = code(&module, &functions, text);
    let refused = initialise(&module, &symbols, &code, &mut globals, &mut constants).map_err(Stop::Launch)?;
    let version = module.version;
    let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let scope =
        Scope { symbols, functions, imports, refused, arch, version, lines, table: isa::TABLE, code, shared };
    let Decoded { kernels, names, launchable } = decode_kernels((&module, text), wanted, |function| {
        decode::kernel(&scope, text, function, registers)
    })?;
    let text = text.into();
    Ok(Program {
        text,
        files,
        sources: HashMap::new(),
        kernels,
        entries: names,
        launchable,
        globals,
        constants,
        variables,
        arch: arch.number,
        contracted: *contraction != Contraction::Separate,
        line_ends: OnceLock::new(),
    })
}

/// The kernels of a module.
#[derive(Default)]
struct Decoded {
    kernels: Vec<Kernel>,
    /// The names of all entries.
    names: Vec<String>,
    launchable: HashMap<u64, Launchable>,
}

/// Decodes the wanted kernels, and those that kernels may launch. One of the latter that is not supported is refused when it is launched.
fn decode_kernels(
    (module, text): (&Module, &str),
    wanted: impl Fn(&str) -> bool,
    decode: impl Fn(&Function) -> Result<Kernel, Unsupported>,
) -> Result<Decoded, Stop> {
    let entries = module.items.iter().filter_map(|item| match item {
        Item::Function(function) if function.entry && function.body.is_some() => Some(function),
        _ => None,
    });
    let entries: Vec<&Function> = entries.collect();
    let launched = launched(module, text, &entries);
    let only = entries.len() == 1;
    let mut decoded = Decoded::default();
    for function in entries {
        decoded.names.push(function.name.clone());
        let address = launched.get(function.name.as_str());
        if only || wanted(&function.name) {
            decoded.kernels.push(decode(function).map_err(Stop::Unsupported)?);
        } else if address.is_some() {
            match decode(function) {
                Ok(kernel) => decoded.kernels.push(kernel),
                Err(unsupported) => {
                    decoded.launchable.extend(address.map(|address| (*address, Err(unsupported))));
                    continue;
                }
            }
        }
        decoded.launchable.extend(address.map(|address| (*address, Ok(function.name.clone()))));
    }
    Ok(decoded)
}

/// The kernels that kernels of the module may launch, with their addresses: those whose address is taken, if anything can be launched.
fn launched<'a>(module: &'a Module, text: &str, entries: &[&'a Function]) -> HashMap<&'a str, u64> {
    let launches = |item: &Item| matches!(item, Item::Function(f) if f.body.is_none() && f.name.starts_with(DEVICE_RUNTIME));
    if !module.items.iter().any(launches) {
        return HashMap::new();
    }
    let addresses = entry_addresses(module, text);
    let mut found = HashMap::new();
    let mut take = |name: &str| {
        if let Some((name, address)) = addresses.get_key_value(name) {
            found.insert(*name, *address);
        }
    };
    names_of_module(module, &mut take);
    found.retain(|name, _| entries.iter().any(|entry| entry.name == *name));
    found
}

/// The addresses of the kernels of a module.
fn entry_addresses<'a>(module: &'a Module, text: &str) -> HashMap<&'a str, u64> {
    let number = module_number(text);
    let names = module.items.iter().filter_map(|item| match item {
        Item::Function(function) if function.entry => Some(function.name.as_str()),
        _ => None,
    });
    let mut addresses = HashMap::new();
    for name in names {
        let next = FIRST_ENTRY + u32::try_from(addresses.len()).unwrap_or(u32::MAX - FIRST_ENTRY);
        addresses.entry(name).or_insert(code_address(number, next));
    }
    addresses
}

/// Refuses a module of which the header, a pragma or a declaration is not PTX or not supported.
fn check_header(module: &Module, text: &str) -> Result<(), Stop> {
    let line_of = |is: &dyn Fn(&str) -> bool| text.lines().position(is).map_or(1, |n| n + 1);
    if let Some(why) = directives::of_header(module) {
        let line = line_of(&|l| l.trim_start().starts_with(".target"));
        return Err(Stop::Launch(format!("line {line}: {why}")));
    }
    if module.address_size == 32 {
        return Err(Stop::Launch("`.address_size 32` is not emulated".to_owned()));
    }
    if let Some(why) = directives::of_target(module, text.contains(".f64")) {
        let form = ".target".to_owned();
        return Err(Stop::Unsupported(Unsupported { form, line: 1, why, lack: Lack::Emulator }));
    }
    declared::check(module).map_err(|refused| {
        let line = ptx::line_column(text, refused.span.start as usize).line;
        Stop::Launch(format!("line {line}: {refused}"))
    })?;
    for item in &module.items {
        if let Item::Pragma(words) = item
            && let Some(why) = directives::of_pragma(words)
        {
            // Pragmas of functions may precede it.
            let names = |l: &str| {
                l.trim_start().starts_with(".pragma") && words.iter().all(|word| l.contains(word.as_str()))
            };
            return Err(Stop::Launch(format!("line {}: {why}", line_of(&names))));
        }
    }
    Ok(())
}

/// The variables of a module by state space, and their symbols.
#[derive(Default)]
struct Placed<'a> {
    globals: Vec<Static>,
    constants: Vec<u8>,
    variables: Vec<ModuleVariable>,
    symbols: HashMap<String, Symbol>,
    /// Variables in shared memory. Each kernel places those that it uses.
    shared: Vec<&'a Variable>,
}

impl<'a> Placed<'a> {
    /// Places a variable behind those before it; the error says why it cannot be.
    fn add(&mut self, v: &'a Variable) -> Result<(), String> {
        if let Some(why) = directives::of_variable(v) {
            return Err(why);
        }
        let size = usize::try_from(size_of(v)).unwrap_or(usize::MAX);
        if size > 1 << 32 {
            return Err("larger than 4 GiB".to_owned());
        }
        let symbol = match v.space {
            Space::Global => {
                let place = VariablePlace::Global(self.globals.len());
                self.variables.push(ModuleVariable { name: v.name.clone(), size, place });
                self.globals.push(Static { bytes: vec![0; size], relocations: Vec::new() });
                Symbol::Global(self.globals.len() - 1)
            }
            Space::Const => {
                let at = u32::try_from(self.constants.len()).unwrap_or(u32::MAX);
                let (at, end) = placed(at, v, MOST_CONSTANT).ok_or("more than 64 KiB of constant memory")?;
                let at = at as usize;
                self.constants.resize(end as usize, 0);
                let place = VariablePlace::Const(at);
                self.variables.push(ModuleVariable { name: v.name.clone(), size, place });
                Symbol::Const(at as u64)
            }
            Space::Shared if v.linkage == Some(Linkage::Extern) || v.dims.contains(&None) => {
                Symbol::DynamicShared(alignment(v))
            }
            Space::Shared => {
                placed(0, v, MOST_SHARED).ok_or(TOO_MUCH_SHARED)?;
                self.shared.push(v);
                Symbol::SharedOfModule(self.shared.len() - 1)
            }
            _ => return Err("a module variable of this state space".to_owned()),
        };
        self.symbols.insert(v.name.clone(), symbol);
        Ok(())
    }
}

/// The functions that have an address, and those whose address the module takes.
fn code<'a>(module: &'a Module, functions: &HashMap<&'a str, &'a Function>, text: &str) -> Code<'a> {
    let mut code = Code::default();
    let module_number = module_number(text);
    let mut by_name: HashMap<&str, u64> = HashMap::new();
    for item in &module.items {
        if let Item::Function(function) = item
            && !function.entry
            && function.body.is_some()
        {
            let next = u32::try_from(by_name.len()).unwrap_or(u32::MAX);
            by_name.entry(&function.name).or_insert(code_address(module_number, next));
        }
    }
    // An alias has the address of its function.
    let addresses = functions.iter().filter_map(|(name, f)| Some((*name, *by_name.get(f.name.as_str())?)));
    code.addresses = addresses.collect();
    code.entries = entry_addresses(module, text);
    // Nobody calls through an address otherwise.
    if !text.contains(".callprototype") && !text.contains(".calltargets") {
        return code;
    }
    let mut known: HashSet<u64> = HashSet::new();
    let mut take = |name: &str| {
        if let Some((name, address)) = code.addresses.get_key_value(name)
            && known.insert(*address)
        {
            code.taken.push(*name);
        }
    };
    names_of_module(module, &mut take);
    code
}

/// Calls `take` with every name whose address a module may take: those of initialisers, and those of bodies.
fn names_of_module(module: &Module, take: &mut impl FnMut(&str)) {
    for item in &module.items {
        match item {
            Item::Variable(Variable { init: Some(init), .. }) => {
                pointed_at(init).into_iter().for_each(&mut *take)
            }
            Item::Function(function) => names(function.body.as_deref().unwrap_or_default(), take),
            _ => {}
        }
    }
}

/// Calls `take` with each name that an instruction uses other than to call it, and each target of an indirect call.
fn names(body: &[Statement], take: &mut impl FnMut(&str)) {
    for statement in body {
        match statement {
            Statement::Block(inner) => names(inner, take),
            Statement::Instruction(i) if i.opcode != "call" => i.each_name(&mut *take),
            Statement::CallTargets { functions, .. } => functions.iter().for_each(|f| take(f)),
            _ => {}
        }
    }
}

/// The number of a module, by its text.
fn module_number(text: &str) -> u16 {
    let tag = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    (tag >> 48) as u16
}

/// Whether a variable is defined in another module. `.extern .shared` is dynamic shared memory.
fn is_import(variable: &Variable) -> bool {
    variable.linkage == Some(Linkage::Extern) && variable.space != Space::Shared
}

/// Initialises the variables; returns those that cannot be initialised, with the reason.
fn initialise<'a>(
    module: &'a Module,
    symbols: &HashMap<String, Symbol>,
    code: &Code<'_>,
    globals: &mut [Static],
    constants: &mut [u8],
) -> Result<HashMap<&'a str, String>, String> {
    let mut refused: HashMap<&str, String> = HashMap::new();
    for item in &module.items {
        let Item::Variable(v) = item else { continue };
        if is_import(v) {
            continue;
        }
        let Some(init) = &v.init else { continue };
        let mut bytes = vec![0; usize::try_from(size_of(v)).unwrap_or(0)];
        let mut relocations = Vec::new();
        let mut fill = Fill { symbols, code, ty: v.ty, bytes: &mut bytes, relocations: &mut relocations };
        let dims: Vec<u64> = v.dims.iter().map(|d| d.unwrap_or(0)).collect();
        match fill.put(init, &dims, usize::from(v.vector), 0) {
            Ok(()) => {}
            Err(Flaw::Wrong(why)) => return Err(why),
            Err(Flaw::NotEmulated(why)) => {
                refused.insert(&v.name, format!("`{}` {why}", v.name));
                continue;
            }
        }
        match symbols.get(&v.name) {
            Some(Symbol::Global(index)) => {
                globals[*index].bytes = bytes;
                globals[*index].relocations = relocations;
            }
            Some(Symbol::Const(at)) => {
                if !relocations.is_empty() {
                    let why = "holds addresses in constant memory, which are not emulated";
                    refused.insert(&v.name, format!("`{}` {why}", v.name));
                    continue;
                }
                let at = *at as usize;
                constants[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            _ => return Err(format!("`{}` cannot be initialised", v.name)),
        }
    }
    pointing_at(module, &mut refused);
    Ok(refused)
}

/// Adds the variables that hold the address of a refused one, since it can be reached through them.
fn pointing_at<'a>(module: &'a Module, refused: &mut HashMap<&'a str, String>) {
    let mut holders: HashMap<&str, Vec<&'a str>> = HashMap::new();
    for item in &module.items {
        if let Item::Variable(Variable { name, init: Some(init), .. }) = item {
            pointed_at(init).into_iter().for_each(|symbol| holders.entry(symbol).or_default().push(name));
        }
    }
    let mut next: Vec<(&str, String)> = refused.iter().map(|(name, why)| (*name, why.clone())).collect();
    next.sort_unstable();
    while let Some((name, why)) = next.pop() {
        for holder in holders.remove(name).unwrap_or_default() {
            work::count(1);
            if !refused.contains_key(holder) {
                refused.insert(holder, format!("`{holder}` holds the address of another variable: {why}"));
                // The reason of the first is enough: a chain of addresses does not make it longer.
                next.push((holder, why.clone()));
            }
        }
    }
}

/// The symbols that an initialiser refers to.
fn pointed_at(init: &Init) -> Vec<&str> {
    match init {
        Init::List(list) => list.iter().flat_map(pointed_at).collect(),
        Init::Address { symbol, .. } => vec![symbol],
        Init::Number(_) | Init::Field { .. } => Vec::new(),
    }
}

/// A defect of an initialiser.
enum Flaw {
    Wrong(String),
    /// An initialiser that the emulator does not support.
    NotEmulated(String),
}

struct Fill<'a> {
    symbols: &'a HashMap<String, Symbol>,
    code: &'a Code<'a>,
    ty: Type,
    bytes: &'a mut [u8],
    relocations: &'a mut Vec<(usize, usize, i64)>,
}

impl Fill<'_> {
    /// Writes `init`, which has the shape `dims`, at byte `at`.
    fn put(&mut self, init: &Init, dims: &[u64], vector: usize, at: usize) -> Result<(), Flaw> {
        let element = self.ty.bytes() * vector;
        match init {
            Init::List(list) => {
                let inner = dims.get(1..).unwrap_or_default();
                let stride = if dims.is_empty() {
                    self.ty.bytes()
                } else {
                    element * usize::try_from(inner.iter().product::<u64>()).unwrap_or(0)
                };
                for (n, item) in list.iter().enumerate() {
                    self.put(item, inner, vector, at + n * stride)?;
                }
                Ok(())
            }
            Init::Number(number) => {
                let bits = immediate_bits(*number, self.ty).to_le_bytes();
                let n = self.ty.bytes().min(8);
                let longer = || Flaw::Wrong("an initialiser longer than its variable".to_owned());
                let place = self.bytes.get_mut(at..at + n).ok_or_else(longer)?;
                place.copy_from_slice(&bits[..n]);
                Ok(())
            }
            Init::Field { .. } => Err(Flaw::NotEmulated(
                "has named fields: samplers that a module initialises are not emulated".to_owned(),
            )),
            Init::Address { symbol, offset, mask, .. } => match (self.symbols.get(symbol), mask) {
                (Some(Symbol::Global(index)), None) => {
                    self.relocations.push((at, *index, *offset));
                    Ok(())
                }
                (None, mask) if self.code.address(symbol).is_some() => {
                    let address = self.code.address(symbol).unwrap_or_default().wrapping_add_signed(*offset);
                    // A mask selects a byte.
                    let (bits, bytes) = match mask {
                        Some(mask) => (address >> mask.trailing_zeros().min(56) & 0xFF, 1),
                        None => (address, 8),
                    };
                    let place = self.bytes.get_mut(at..at + bytes).filter(|_| self.ty.bytes() == bytes);
                    let place = place.ok_or_else(|| Flaw::Wrong("an address has 64 bits".to_owned()))?;
                    place.copy_from_slice(&bits.to_le_bytes()[..bytes]);
                    Ok(())
                }
                _ => Err(Flaw::NotEmulated(format!(
                    "holds the address of `{symbol}`, which is not emulated in an initialiser"
                ))),
            },
        }
    }
}
