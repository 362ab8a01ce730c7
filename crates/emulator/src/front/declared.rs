//! What a module declares: names that clash, and variables of types that PTX does not have, as ptxas 13.5 refuses them.

use std::collections::HashMap;

use ptx::{Function, Immediate, Init, Item, Linkage, Module, Space, Span, Type, Variable};

/// A declaration that ptxas refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}`: {why}")]
pub(crate) struct Refused {
    name: String,
    why: String,
    /// Its position in the text.
    pub(crate) span: Span,
}

/// Vectors have at most 16 bytes (PTX ISA, "Vectors").
const MOST_VECTOR_BYTES: usize = 16;

enum Known<'a> {
    Variable,
    Function(&'a Function),
}

/// Checks the names that a module declares, and the names of parameters.
///
/// # Errors
/// The first declaration that ptxas refuses.
pub(crate) fn check(module: &Module) -> Result<(), Refused> {
    let mut known: HashMap<&str, Known<'_>> = HashMap::new();
    for item in &module.items {
        let (name, span, why) = match item {
            Item::Variable(v) => {
                let twice = match known.insert(&v.name, Known::Variable) {
                    None => None,
                    // A declaration may follow.
                    Some(Known::Variable) if v.linkage == Some(Linkage::Extern) => None,
                    Some(Known::Variable) => Some("the variable is declared twice".to_owned()),
                    Some(Known::Function(_)) => Some("a function has this name, too".to_owned()),
                };
                (&v.name, v.span, twice.or_else(|| of_variable(v)))
            }
            Item::Function(f) => {
                let twice = match known.insert(&f.name, Known::Function(f)) {
                    None => None,
                    Some(Known::Variable) => Some("a variable has this name, too".to_owned()),
                    Some(Known::Function(other)) => of_second(other, f),
                };
                (&f.name, f.span, twice.or_else(|| of_formals(f)))
            }
            Item::File { .. } | Item::Section { .. } | Item::Alias { .. } | Item::Pragma(_) => continue,
        };
        if let Some(why) = why {
            return Err(Refused { name: name.clone(), why, span });
        }
    }
    Ok(())
}

/// Why a function cannot follow another one of its name: only a definition may follow a declaration that is the same.
fn of_second(first: &Function, second: &Function) -> Option<String> {
    if first.entry || second.entry || first.body.is_some() {
        return Some("the function is declared twice".to_owned());
    }
    let shape = |list: &[Variable]| -> Vec<(Type, u8, Vec<Option<u64>>)> {
        list.iter().map(|v| (v.ty, v.vector, v.dims.clone())).collect()
    };
    let same =
        shape(&first.params) == shape(&second.params) && shape(&first.returns) == shape(&second.returns);
    (!same).then(|| "its parameters differ from those of its declaration".to_owned())
}

/// What is wrong with the parameters of a function.
fn of_formals(function: &Function) -> Option<String> {
    let formals: Vec<&Variable> = function.returns.iter().chain(&function.params).collect();
    let named = function.body.is_some();
    formals.iter().enumerate().find_map(|(n, formal)| {
        if named && formals[..n].iter().any(|other| other.name == formal.name) {
            return Some(format!("the parameter `{}` is declared twice", formal.name));
        }
        let why = match formal.space {
            Space::Reg if function.entry => Some("a parameter of an entry is not a register".to_owned()),
            Space::Reg => None,
            _ if function.entry && formal.dims.contains(&None) => Some("an array without a size".to_owned()),
            _ => of_variable(formal),
        };
        why.map(|why| format!("the parameter `{}`: {why}", formal.name))
    })
}

/// Why PTX has no such variable.
pub(crate) fn of_variable(variable: &Variable) -> Option<String> {
    let Variable { ty, vector, dims, .. } = variable;
    let word = format!("{ty:?}").to_lowercase();
    if variable.name == "WARP_SZ" {
        return Some("the name is that of a constant of PTX".to_owned());
    }
    let register = variable.space == Space::Reg;
    match ty {
        Type::Pred if !register => return Some("only registers hold predicates".to_owned()),
        Type::Bf16 | Type::Bf16x2 => return Some(format!("there are no variables of .{word}: use bits")),
        _ => {}
    }
    if register && !dims.is_empty() {
        return Some("registers have no arrays".to_owned());
    }
    if *vector > 1 && usize::from(*vector) * ty.bytes() > MOST_VECTOR_BYTES {
        return Some("a vector of more than 16 bytes".to_owned());
    }
    if dims.contains(&Some(0)) {
        return Some("an array of no elements".to_owned());
    }
    let float = matches!(ty, Type::F16 | Type::F16x2 | Type::F32 | Type::F64);
    let integer = |init: &Init| has_integer(init);
    (float && variable.init.as_ref().is_some_and(integer))
        .then(|| "an integer initialises a float".to_owned())
}

fn has_integer(init: &Init) -> bool {
    match init {
        Init::List(list) => list.iter().any(has_integer),
        Init::Number(number) => matches!(number, Immediate::Integer { .. }),
        Init::Field { .. } | Init::Address { .. } => false,
    }
}
