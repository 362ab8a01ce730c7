//! Links PTX modules to one, as `nvlink` links the objects of separate compilation.
//!
//! Each object is a module. A symbol is local to its module (no linkage directive), or global: declared (`.extern`), defined once
//! (`.visible`), or defined in several modules of which one is kept (`.weak`, `.common`). The rules are those of `nvlink` 13.5:
//!
//! | definitions of a symbol | result |
//! |---|---|
//! | several `.visible` | an error |
//! | one `.visible`, any `.weak` or `.common` | the `.visible` one |
//! | several `.weak` | that of the first module |
//! | several `.common` | the largest |
//! | declarations only | the declaration stays, and whoever uses it is refused by name |
//!
//! A local symbol whose name another module uses is renamed. Numbers of source files become those of one list. Debug sections are left
//! out, and with them what `.loc` says about inlined functions, because it refers to them.

mod rename;
mod resolve;

use std::collections::HashMap;

use crate::arch::{Suffix, Target};
use crate::ast::{Item, Module, Variable};
use crate::error::SyntaxError;
use crate::parser::parse;

/// A module to link.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a> {
    /// How errors name it.
    pub name: &'a str,
    /// The PTX.
    pub text: &'a str,
}

/// Why modules cannot be linked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// There is nothing to link.
    #[error("there is no PTX to link")]
    Nothing,
    /// A text is not PTX.
    #[error("{object}: {error}")]
    Syntax {
        /// The object.
        object: String,
        /// What is wrong with its text.
        error: SyntaxError,
    },
    /// The `.target` of a module is none that a GPU has.
    #[error("{object}: `.target {target}` is not an sm_ target")]
    Target {
        /// The object.
        object: String,
        /// What it says.
        target: String,
    },
    /// Modules have addresses of different sizes.
    #[error("{object} has addresses of {has} bits, {first} of {wanted}")]
    AddressSize {
        /// The object.
        object: String,
        /// Its size of an address.
        has: u32,
        /// The first object.
        first: String,
        /// The size of an address there.
        wanted: u32,
    },
    /// A symbol has two definitions.
    #[error("multiple definition of `{symbol}` in {second}, first defined in {first}")]
    Duplicate {
        /// The symbol.
        symbol: String,
        /// The object that defines it first.
        first: String,
        /// The object that defines it again.
        second: String,
    },
    /// Two modules understand a symbol differently.
    #[error("`{symbol}` is {here} in {second}, and {there} in {first}")]
    Differs {
        /// The symbol.
        symbol: String,
        /// The object with the other definition or declaration.
        first: String,
        /// What it is there.
        there: String,
        /// The object that differs.
        second: String,
        /// What it is there.
        here: String,
    },
}

/// Links modules to one, and prints it.
///
/// # Errors
/// [`LinkError`].
pub fn link(objects: &[Object<'_>]) -> Result<String, LinkError> {
    if let [only] = objects {
        parsed(only)?;
        return Ok(only.text.to_owned());
    }
    let mut modules = objects.iter().map(parsed).collect::<Result<Vec<_>, _>>()?;
    let header = header(objects, &modules)?;
    rename::apart(&mut modules);
    let files = renumber_files(&mut modules);
    let resolved = resolve::resolve(objects, &modules)?;
    let mut items = files;
    items.extend(resolved.into_items(modules));
    Ok(Module { items, ..header }.to_string())
}

fn parsed(object: &Object<'_>) -> Result<Module, LinkError> {
    parse(object.text).map_err(|error| LinkError::Syntax { object: object.name.to_owned(), error })
}

/// The header of the result: the newest version, and a target that has what each of the targets has.
fn header(objects: &[Object<'_>], modules: &[Module]) -> Result<Module, LinkError> {
    let (Some(first), Some(first_object)) = (modules.first(), objects.first()) else {
        return Err(LinkError::Nothing);
    };
    let mut target: Option<Target> = None;
    let mut options: Vec<String> = Vec::new();
    for (object, module) in objects.iter().zip(modules) {
        if module.address_size != first.address_size {
            return Err(LinkError::AddressSize {
                object: object.name.to_owned(),
                has: module.address_size,
                first: first_object.name.to_owned(),
                wanted: first.address_size,
            });
        }
        let own = module.targets.first().and_then(|word| Target::written(word));
        let own = own.ok_or_else(|| LinkError::Target {
            object: object.name.to_owned(),
            target: module.targets.join(", "),
        })?;
        target = Some(target.map_or(own, |known| joined(known, own)));
        // The sections that `debug` announces are left out.
        let more = module.targets.iter().skip(1).filter(|word| *word != "debug");
        for word in more {
            if !options.contains(word) {
                options.push(word.clone());
            }
        }
    }
    let version = modules.iter().map(|module| module.version).max().unwrap_or(first.version);
    let targets = target.map(|target| target.to_string()).into_iter().chain(options).collect();
    Ok(Module { version, targets, address_size: first.address_size, items: Vec::new() })
}

/// The target that has the instructions of both. All run on one GPU, so that a suffix of one holds for the number of the other.
fn joined(a: Target, b: Target) -> Target {
    let strength = |suffix: Suffix| match suffix {
        Suffix::Base => 0,
        Suffix::Family => 1,
        Suffix::Arch => 2,
    };
    let suffix = if strength(a.suffix) >= strength(b.suffix) { a.suffix } else { b.suffix };
    Target { number: a.number.max(b.number), suffix }
}

/// Gives the source files of all modules numbers of one list, which it returns.
fn renumber_files(modules: &mut [Module]) -> Vec<Item> {
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut files = Vec::new();
    for module in modules {
        let mut renumbered: HashMap<u32, u32> = HashMap::new();
        for item in &module.items {
            let Item::File { index, name, stamp } = item else { continue };
            let next = u32::try_from(numbers.len() + 1).unwrap_or(u32::MAX);
            let number = *numbers.entry(name.clone()).or_insert_with(|| {
                files.push(Item::File { index: next, name: name.clone(), stamp: *stamp });
                next
            });
            renumbered.insert(*index, number);
        }
        rename::files(module, &renumbered);
    }
    files
}

/// The size of a variable in bytes; `None` if a dimension is left open.
fn size(variable: &Variable) -> Option<u64> {
    let one = variable.ty.bytes() as u64 * u64::from(variable.vector.max(1));
    variable.dims.iter().try_fold(one, |size, dim| size.checked_mul((*dim)?))
}
