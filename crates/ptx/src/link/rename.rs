//! Names that are local to a module are kept apart from those of the others.

use std::collections::{HashMap, HashSet};

use crate::ast::{Function, Init, Item, Linkage, Module, Space, Statement, Variable};
use crate::registers::names_mut;

/// Whether a variable is the dynamic shared memory of a CTA, which all modules share whatever they call it.
pub(super) fn is_dynamic_shared(variable: &Variable) -> bool {
    variable.space == Space::Shared
        && (variable.linkage == Some(Linkage::Extern) || variable.dims.contains(&None))
}

/// The name that an item introduces, and whether only its module knows it.
fn introduced(item: &Item, own: &HashSet<String>) -> Option<(String, bool)> {
    match item {
        Item::Variable(v) => Some((v.name.clone(), v.linkage.is_none() && !is_dynamic_shared(v))),
        // A declaration of a local function has no linkage either; one of a function of another module is `.extern`.
        Item::Function(f) => Some((f.name.clone(), f.linkage.is_none() && own.contains(&f.name))),
        Item::Alias { alias, .. } => Some((alias.clone(), false)),
        _ => None,
    }
}

/// The functions that a module defines.
fn defined(module: &Module) -> HashSet<String> {
    let functions = module.items.iter().filter_map(|item| match item {
        Item::Function(f) if f.body.is_some() => Some(f.name.clone()),
        _ => None,
    });
    functions.collect()
}

/// Renames the local symbols of each module whose name another module uses.
pub(super) fn apart(modules: &mut [Module]) {
    let mut users: HashMap<String, HashSet<usize>> = HashMap::new();
    for (n, module) in modules.iter().enumerate() {
        let own = defined(module);
        for item in &module.items {
            if let Some((name, _)) = introduced(item, &own) {
                users.entry(name).or_default().insert(n);
            }
        }
    }
    let mut taken: HashSet<String> = users.keys().cloned().collect();
    for (n, module) in modules.iter_mut().enumerate() {
        let own = defined(module);
        let mut renamed: HashMap<String, String> = HashMap::new();
        for item in &module.items {
            let Some((name, true)) = introduced(item, &own) else { continue };
            let others = users.get(&name).is_some_and(|users| users.iter().any(|user| *user != n));
            if !others || renamed.contains_key(&name) {
                continue;
            }
            let fresh = (n..).map(|suffix| format!("{name}$object{suffix}"));
            let Some(fresh) = fresh.into_iter().find(|fresh| !taken.contains(fresh)) else { continue };
            taken.insert(fresh.clone());
            renamed.insert(name, fresh);
        }
        if !renamed.is_empty() {
            module.items.iter_mut().for_each(|item| rename_in(item, &renamed));
        }
    }
}

fn rename_in(item: &mut Item, renamed: &HashMap<String, String>) {
    match item {
        Item::Variable(variable) => {
            rename(&mut variable.name, renamed);
            variable.init.iter_mut().for_each(|init| rename_init(init, renamed));
        }
        Item::Function(function) => {
            rename(&mut function.name, renamed);
            let hidden = declared(function);
            let visible: HashMap<String, String> = renamed
                .iter()
                .filter(|(name, _)| !hidden.contains(name.as_str()))
                .map(|(name, fresh)| (name.clone(), fresh.clone()))
                .collect();
            rename_body(function.body.as_deref_mut().unwrap_or_default(), &visible);
        }
        Item::Alias { alias, aliasee } => {
            rename(alias, renamed);
            rename(aliasee, renamed);
        }
        Item::File { .. } | Item::Section { .. } | Item::Pragma(_) => {}
    }
}

fn rename(name: &mut String, renamed: &HashMap<String, String>) {
    if let Some(fresh) = renamed.get(name) {
        name.clone_from(fresh);
    }
}

fn rename_init(init: &mut Init, renamed: &HashMap<String, String>) {
    match init {
        Init::List(list) => list.iter_mut().for_each(|init| rename_init(init, renamed)),
        Init::Field { value, .. } => rename_init(value, renamed),
        Init::Address { symbol, .. } => rename(symbol, renamed),
        Init::Number(_) => {}
    }
}

fn rename_body(body: &mut [Statement], renamed: &HashMap<String, String>) {
    for statement in body {
        match statement {
            Statement::Block(inner) => rename_body(inner, renamed),
            Statement::Instruction(i) => {
                i.operands
                    .iter_mut()
                    .for_each(|operand| names_mut(operand, &mut |name| rename(name, renamed)));
            }
            Statement::CallTargets { functions, .. } => {
                functions.iter_mut().for_each(|function| rename(function, renamed));
            }
            Statement::Variable(variable) => {
                variable.init.iter_mut().for_each(|init| rename_init(init, renamed));
            }
            _ => {}
        }
    }
}

/// The names that a function declares, which hide those of its module.
fn declared(function: &Function) -> HashSet<&str> {
    fn add<'a>(body: &'a [Statement], names: &mut HashSet<&'a str>) {
        for statement in body {
            match statement {
                Statement::Block(inner) => add(inner, names),
                Statement::Variable(variable) => {
                    names.insert(&variable.name);
                }
                Statement::Label { name, .. } => {
                    names.insert(name);
                }
                _ => {}
            }
        }
    }
    let mut names: HashSet<&str> =
        function.params.iter().chain(&function.returns).map(|v| v.name.as_str()).collect();
    add(function.body.as_deref().unwrap_or_default(), &mut names);
    names
}

/// Gives source files other numbers in the positions of a module.
pub(super) fn files(module: &mut Module, numbers: &HashMap<u32, u32>) {
    fn renumber(body: &mut [Statement], numbers: &HashMap<u32, u32>) {
        for statement in body {
            match statement {
                Statement::Block(inner) => renumber(inner, numbers),
                Statement::Loc { file, rest, .. } => {
                    *file = numbers.get(file).copied().unwrap_or(*file);
                    // The rest names labels of the debug sections.
                    rest.clear();
                }
                _ => {}
            }
        }
    }
    for item in &mut module.items {
        if let Item::Function(function) = item {
            renumber(function.body.as_deref_mut().unwrap_or_default(), numbers);
        }
    }
}
