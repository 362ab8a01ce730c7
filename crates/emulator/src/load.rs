//! A module's text into a program: module variables placed, every entry decoded.

use std::collections::HashMap;

use ptx::arch::Target;
use ptx::{Init, Item, Linkage, Module, Space, Type, Variable};

use super::decode::{self, Registers, Scope, Symbol, alignment, immediate_bits, size_of};
use super::program::{Program, Static};
use super::trap::{Stop, Unsupported};

/// Decodes the module of `text`.
///
/// # Errors
/// [`Stop::Launch`] for text that is no PTX, [`Stop::Unsupported`] for what the emulator lacks.
pub fn load(text: &str) -> Result<Program, Stop> {
    load_with(text, Registers::default())
}

/// [`load`], with a say in where registers are kept.
///
/// # Errors
/// As [`load`].
pub fn load_with(text: &str, registers: Registers) -> Result<Program, Stop> {
    let module = ptx::parse(text).map_err(|error| Stop::Launch(error.to_string()))?;
    let arch = module.targets.first().and_then(|t| Target::written(t)).map(|t| u32::from(t.number));
    let arch = arch.ok_or_else(|| {
        Stop::Launch(format!("`.target {}` is not an sm_ target", module.targets.join(", ")))
    })?;
    if module.address_size == 32 {
        return Err(Stop::Launch("`.address_size 32` is not emulated".to_owned()));
    }
    let mut globals: Vec<Static> = Vec::new();
    let mut constants = Vec::new();
    let mut symbols = HashMap::new();
    let mut functions = HashMap::new();
    let mut files = HashMap::new();
    let mut shared = 0u32;
    let unsupported = |v: &Variable, why: &str| {
        let line = ptx::line_column(text, v.span.start as usize).line;
        Stop::Unsupported(Unsupported { form: v.name.clone(), line, why: why.to_owned() })
    };
    for item in &module.items {
        match item {
            Item::Function(function) => {
                let known = functions.entry(function.name.as_str()).or_insert(function);
                // A definition stands before its declarations.
                if known.body.is_none() {
                    *known = function;
                }
            }
            Item::File { index, name, .. } => {
                files.insert(*index, name.clone());
            }
            Item::Variable(v) => {
                let size = usize::try_from(size_of(v)).unwrap_or(usize::MAX);
                if size > 1 << 32 {
                    return Err(unsupported(v, "larger than 4 GiB"));
                }
                let symbol = match v.space {
                    Space::Global => {
                        globals.push(Static { bytes: vec![0; size], relocations: Vec::new() });
                        Symbol::Global(globals.len() - 1)
                    }
                    Space::Const => {
                        let at = constants.len().next_multiple_of(alignment(v) as usize);
                        constants.resize(at + size, 0);
                        Symbol::Const(at as u64)
                    }
                    Space::Shared if v.linkage == Some(Linkage::Extern) || v.dims.contains(&None) => {
                        Symbol::DynamicShared(alignment(v))
                    }
                    Space::Shared => {
                        let at = shared.next_multiple_of(alignment(v));
                        shared = at + u32::try_from(size).unwrap_or(u32::MAX / 2);
                        Symbol::Shared(super::memory::SHARED_START + at)
                    }
                    _ => return Err(unsupported(v, "a module variable of this state space")),
                };
                symbols.insert(v.name.clone(), symbol);
            }
            Item::Section { .. } | Item::Alias { .. } | Item::Pragma(_) => {}
        }
    }
    initialise(&module, &symbols, &mut globals, &mut constants).map_err(Stop::Launch)?;
    let scope = Scope { symbols, functions };
    let mut kernels = Vec::new();
    for item in &module.items {
        if let Item::Function(function) = item
            && function.entry
            && function.body.is_some()
        {
            let kernel = decode::kernel(&scope, text, function, shared, registers);
            kernels.push(kernel.map_err(Stop::Unsupported)?);
        }
    }
    Ok(Program { text: text.into(), files, kernels, globals, constants, arch })
}

fn initialise(
    module: &Module,
    symbols: &HashMap<String, Symbol>,
    globals: &mut [Static],
    constants: &mut [u8],
) -> Result<(), String> {
    for item in &module.items {
        let Item::Variable(v) = item else { continue };
        let Some(init) = &v.init else { continue };
        let mut bytes = vec![0; usize::try_from(size_of(v)).unwrap_or(0)];
        let mut relocations = Vec::new();
        let mut fill = Fill { symbols, ty: v.ty, bytes: &mut bytes, relocations: &mut relocations };
        let dims: Vec<u64> = v.dims.iter().map(|d| d.unwrap_or(0)).collect();
        fill.put(init, &dims, usize::from(v.vector), 0)?;
        match symbols.get(&v.name) {
            Some(Symbol::Global(index)) => {
                globals[*index].bytes = bytes;
                globals[*index].relocations = relocations;
            }
            Some(Symbol::Const(at)) => {
                if !relocations.is_empty() {
                    return Err(format!("`{}`: addresses in constant memory are not emulated", v.name));
                }
                let at = *at as usize;
                constants[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            _ => return Err(format!("`{}` cannot be initialised", v.name)),
        }
    }
    Ok(())
}

struct Fill<'a> {
    symbols: &'a HashMap<String, Symbol>,
    ty: Type,
    bytes: &'a mut [u8],
    relocations: &'a mut Vec<(usize, usize, i64)>,
}

impl Fill<'_> {
    /// Puts `init`, which has the shape `dims`, at byte `at`.
    fn put(&mut self, init: &Init, dims: &[u64], vector: usize, at: usize) -> Result<(), String> {
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
                let place =
                    self.bytes.get_mut(at..at + n).ok_or("an initialiser longer than its variable")?;
                place.copy_from_slice(&bits[..n]);
                Ok(())
            }
            Init::Field { .. } => Err("a named field in an initialiser is not emulated".to_owned()),
            Init::Address { symbol, offset, mask, .. } => match (self.symbols.get(symbol), mask) {
                (Some(Symbol::Global(index)), None) => {
                    self.relocations.push((at, *index, *offset));
                    Ok(())
                }
                _ => Err(format!("the address of `{symbol}` in an initialiser is not emulated")),
            },
        }
    }
}
