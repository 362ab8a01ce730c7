//! Which definition of a symbol is kept, and in which order the items of the result stand.

use std::collections::{HashMap, HashSet};

use super::rename::is_dynamic_shared;
use super::{LinkError, Object, size};
use crate::ast::{Function, Init, Item, Linkage, Module, Variable};

/// A definition or declaration: the object, and the item of its module.
type Place = (usize, usize);

/// What is known about a global symbol.
struct Symbol {
    /// The definition that is kept.
    definition: Option<Place>,
    /// The first declaration.
    declaration: Option<Place>,
}

/// The definitions and declarations that are kept.
pub(super) struct Resolved {
    kept: HashSet<Place>,
    /// The alignment of dynamic shared memory, by name.
    dynamic: HashMap<String, Option<u32>>,
}

/// A linkage by which of two definitions is kept.
fn strength(linkage: Option<Linkage>) -> u8 {
    match linkage {
        Some(Linkage::Weak) => 1,
        Some(Linkage::Common) => 0,
        _ => 2,
    }
}

/// Linkage of an item that may be global, and whether it defines its symbol.
fn linkage(item: &Item) -> Option<(&str, Option<Linkage>, bool)> {
    match item {
        Item::Variable(v) => Some((&v.name, v.linkage, v.linkage != Some(Linkage::Extern))),
        Item::Function(f) => Some((&f.name, f.linkage, f.body.is_some())),
        _ => None,
    }
}

/// Decides for all symbols which definition is kept.
pub(super) fn resolve(objects: &[Object<'_>], modules: &[Module]) -> Result<Resolved, LinkError> {
    let item = |(object, n): Place| &modules[object].items[n];
    let mut symbols: HashMap<&str, Symbol> = HashMap::new();
    let mut dynamic: HashMap<String, Option<u32>> = HashMap::new();
    let mut kept = HashSet::new();
    for (object, module) in modules.iter().enumerate() {
        for (n, next) in module.items.iter().enumerate() {
            if let Item::Variable(v) = next
                && is_dynamic_shared(v)
            {
                let align = dynamic.entry(v.name.clone()).or_insert_with(|| {
                    kept.insert((object, n));
                    None
                });
                *align = v.align.max(*align);
                continue;
            }
            let Some((name, link, defines)) = linkage(next) else { continue };
            let known = symbols.entry(name).or_insert(Symbol { definition: None, declaration: None });
            if let Some(other) = known.definition.or(known.declaration) {
                same_kind(objects, name, (other, item(other)), ((object, n), next))?;
            }
            let place = if defines { &mut known.definition } else { &mut known.declaration };
            let Some(before) = *place else {
                *place = Some((object, n));
                continue;
            };
            if !defines {
                continue;
            }
            let before_link = linkage(item(before)).and_then(|(_, link, _)| link);
            match (strength(before_link), strength(link)) {
                (2, 2) => {
                    return Err(LinkError::Duplicate {
                        symbol: name.to_owned(),
                        first: objects[before.0].name.to_owned(),
                        second: objects[object].name.to_owned(),
                    });
                }
                (old, new) if new > old => *place = Some((object, n)),
                (0, 0) if bytes(next) > bytes(item(before)) => *place = Some((object, n)),
                _ => {}
            }
        }
    }
    kept.extend(symbols.values().filter_map(|symbol| symbol.definition.or(symbol.declaration)));
    Ok(Resolved { kept, dynamic })
}

fn bytes(item: &Item) -> Option<u64> {
    match item {
        Item::Variable(v) => size(v),
        _ => None,
    }
}

/// Checks that two items of one name are the same kind of symbol, of the same size.
fn same_kind(
    objects: &[Object<'_>],
    symbol: &str,
    (first, there): (Place, &Item),
    (second, here): (Place, &Item),
) -> Result<(), LinkError> {
    let (a, b) = (kind(there), kind(here));
    let commons = [there, here]
        .iter()
        .all(|item| matches!(item, Item::Variable(v) if v.linkage == Some(Linkage::Common)));
    let open = [there, here].iter().any(|item| matches!(item, Item::Variable(_)) && bytes(item).is_none());
    let equal = match (there, here) {
        (Item::Variable(x), Item::Variable(y)) if open || commons => x.space == y.space,
        _ => a == b,
    };
    if equal {
        return Ok(());
    }
    Err(LinkError::Differs {
        symbol: symbol.to_owned(),
        first: objects[first.0].name.to_owned(),
        there: a,
        second: objects[second.0].name.to_owned(),
        here: b,
    })
}

/// What a symbol is, in words: equal for items that may be linked.
fn kind(item: &Item) -> String {
    let sizes = |list: &[Variable]| {
        let sizes: Vec<String> =
            list.iter().map(|v| size(v).map_or_else(|| "any".to_owned(), |size| size.to_string())).collect();
        if sizes.is_empty() { "no bytes".to_owned() } else { format!("{} bytes", sizes.join(", ")) }
    };
    match item {
        Item::Variable(v) => {
            let size = size(v).map_or_else(|| "an open number of".to_owned(), |size| size.to_string());
            format!("a variable of {size} bytes in {}", v.space)
        }
        Item::Function(f) => {
            let what = if f.entry { "a kernel" } else { "a function" };
            format!("{what} that takes {} and returns {}", sizes(&f.params), sizes(&f.returns))
        }
        _ => String::new(),
    }
}

impl Resolved {
    /// The items of the result: declarations of functions, then variables before those whose initialisers name them, then functions.
    pub(super) fn into_items(self, modules: Vec<Module>) -> Vec<Item> {
        let Self { kept, dynamic } = self;
        let (mut declarations, mut variables, mut functions, mut rest) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (object, module) in modules.into_iter().enumerate() {
            for (n, item) in module.items.into_iter().enumerate() {
                match item {
                    Item::Variable(mut v) if kept.contains(&(object, n)) => {
                        if let Some(align) = dynamic.get(&v.name).copied().flatten() {
                            v.align = Some(align);
                        }
                        variables.push(v);
                    }
                    Item::Function(f) if kept.contains(&(object, n)) => {
                        if f.body.is_none() || !f.entry {
                            declarations.push(Item::Function(Function { body: None, ..f.clone() }));
                        }
                        if f.body.is_some() {
                            functions.push(Item::Function(f));
                        }
                    }
                    Item::Alias { .. } | Item::Pragma(_) if !rest.contains(&item) => rest.push(item),
                    _ => {}
                }
            }
        }
        let variables = in_order(variables).into_iter().map(Item::Variable);
        declarations.into_iter().chain(variables).chain(functions).chain(rest).collect()
    }
}

/// Variables such that each stands behind those that its initialiser names, as far as they do not name each other.
fn in_order(variables: Vec<Variable>) -> Vec<Variable> {
    let index: HashMap<String, usize> =
        variables.iter().enumerate().map(|(n, v)| (v.name.clone(), n)).collect();
    let mut order = Vec::with_capacity(variables.len());
    let mut seen = vec![false; variables.len()];
    for first in 0..variables.len() {
        // Each variable is visited twice: when it is found, and when those that it names are placed.
        let mut open = vec![(first, false)];
        while let Some((n, named_are_placed)) = open.pop() {
            if named_are_placed {
                order.push(n);
                continue;
            }
            if std::mem::replace(&mut seen[n], true) {
                continue;
            }
            open.push((n, true));
            let mut named = Vec::new();
            variables[n].init.iter().for_each(|init| symbols(init, &mut named));
            open.extend(named.into_iter().filter_map(|name| index.get(name)).map(|n| (*n, false)));
        }
    }
    let mut variables: Vec<Option<Variable>> = variables.into_iter().map(Some).collect();
    order.into_iter().filter_map(|n| variables[n].take()).collect()
}

fn symbols<'a>(init: &'a Init, named: &mut Vec<&'a str>) {
    match init {
        Init::List(list) => list.iter().for_each(|init| symbols(init, named)),
        Init::Field { value, .. } => symbols(value, named),
        Init::Address { symbol, .. } => named.push(symbol),
        Init::Number(_) => {}
    }
}
