//! The directives of entries, functions and variables (PTX ISA 11): each is obeyed, checked, known to have no effect, or refused by name.

use ptx::arch::{PtxIsa, Target};
use ptx::{Directive, Function, Module, Variable};

use crate::run::cluster;

/// How a directive is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handling {
    /// A launch obeys it or is checked against it.
    Obeyed,
    /// It concerns registers, code or performance only.
    NoEffect,
    /// It is known but not emulated.
    Refused,
}

/// Directives that follow the parameters of a function.
const FUNCTION: &[(&str, Handling)] = &[
    ("reqntid", Handling::Obeyed),
    ("maxntid", Handling::Obeyed),
    ("noreturn", Handling::Obeyed),
    ("reqnctapercluster", Handling::Obeyed),
    ("explicitcluster", Handling::Obeyed),
    ("maxclusterrank", Handling::Obeyed),
    ("blocksareclusters", Handling::Refused),
    ("minnctapersm", Handling::NoEffect),
    ("maxnctapersm", Handling::NoEffect),
    ("maxnreg", Handling::NoEffect),
    ("abi_preserve", Handling::NoEffect),
    ("abi_preserve_control", Handling::NoEffect),
    ("attribute", Handling::NoEffect),
];

/// Attributes of variables and functions that have no effect: the emulator has a single memory.
const ATTRIBUTES: &[&str] = &["managed", "unified"];

/// Options of `.target` other than the architecture.
const OPTIONS: &[(&str, Handling)] = &[
    ("debug", Handling::NoEffect),
    ("texmode_unified", Handling::NoEffect),
    ("texmode_independent", Handling::NoEffect),
    ("map_f64_to_f32", Handling::Refused),
];

/// The reason why a directive is refused, if it is.
fn refusal(name: &str, handling: Option<Handling>) -> Option<String> {
    match handling {
        Some(Handling::Obeyed | Handling::NoEffect) => None,
        Some(Handling::Refused) => Some(format!("the directive `{name}` is known but not emulated")),
        None => Some(format!("the directive `{name}` is unknown")),
    }
}

/// The first directive of a function that cannot be obeyed, with the reason.
pub(crate) fn of_function(function: &Function) -> Option<(String, String)> {
    function.directives.iter().find_map(|directive| {
        let why = match directive.name.as_str() {
            // A pragma has no effect on the meaning of PTX (PTX ISA, `.pragma`).
            "pragma" => None,
            "attribute" => directive.words.iter().find_map(|text| of_attribute(text)),
            name => {
                let known = FUNCTION.iter().find(|(known, _)| *known == name);
                refusal(&format!(".{name}"), known.map(|(_, handling)| *handling))
            }
        };
        why.map(|why| (format!(".{}", directive.name), why))
    })
}

/// As [`of_function`], for an entry: its directives must also be consistent with each other and with the target.
pub(crate) fn of_entry(function: &Function, arch: u32) -> Option<(String, String)> {
    let cluster = of_cluster(function);
    let refused = |name: &str, why: &str| Some((name.to_owned(), why.to_owned()));
    if cluster != cluster::Directives::default() && arch < 90 {
        return refused(".reqnctapercluster", "clusters require sm_90 or later");
    }
    for name in ["reqntid", "maxntid", "maxnreg"] {
        let wrong = |d: &Directive| d.values.contains(&0) || d.values.len() > 3;
        if function.directives.iter().any(|d| d.name == name && wrong(d)) {
            return refused(&format!(".{name}"), "ptxas takes one to three numbers from 1 on");
        }
    }
    if find(function, "reqntid").is_some() && find(function, "maxntid").is_some() {
        return refused(".maxntid", "ptxas refuses it together with .reqntid");
    }
    if cluster.required.is_some() && cluster.most.is_some() {
        return refused(".maxclusterrank", "ptxas refuses it together with .reqnctapercluster");
    }
    of_function(function)
}

/// The reason why an attribute such as `attribute(.managed)` or `.unified(1,2)` cannot be ignored.
fn of_attribute(text: &str) -> Option<String> {
    let inner = text.strip_prefix("attribute(").and_then(|t| t.strip_suffix(')')).unwrap_or(text);
    let names = inner.split('.').skip(1).map(|part| part.split(['(', ',', ' ']).next().unwrap_or_default());
    let unknown = names.into_iter().find(|name| !ATTRIBUTES.contains(name));
    unknown.map(|name| format!("the attribute `.{name}` is unknown"))
}

/// The reason why the attributes of a variable cannot be obeyed. Those after `.ptr` belong to parameters.
pub(crate) fn of_variable(variable: &Variable) -> Option<String> {
    variable.attributes.iter().filter(|a| a.starts_with("attribute(")).find_map(|a| of_attribute(a))
}

/// The reason why there is no such version of PTX, no such target, or no such target in this version.
pub(crate) fn of_header(module: &Module) -> Option<String> {
    let (major, minor) = module.version;
    let version = u16::try_from(major).ok().zip(u16::try_from(minor).ok());
    let version = version.map(|(major, minor)| PtxIsa { major, minor }).filter(|version| version.exists());
    let Some(version) = version else {
        return Some(format!("there is no PTX {major}.{minor}; the newest known is {}", PtxIsa::newest()));
    };
    let name = module.targets.first()?;
    match Target::written(name)?.first_isa() {
        None => Some(format!("there is no target `{name}`")),
        Some(first) if version < first => {
            Some(format!("`.version {version}` does not know {name}; it requires `.version {first}`"))
        }
        Some(_) => None,
    }
}

/// The reason why ptxas refuses a pragma of the module.
pub(crate) fn of_pragma(words: &[String]) -> Option<String> {
    let wrong = words.iter().find(|word| *word != "nounroll")?;
    Some(format!("ptxas refuses the pragma `{wrong}` outside of functions"))
}

/// The reason why the options of `.target` cannot be obeyed.
pub(crate) fn of_target(module: &Module, uses_doubles: bool) -> Option<String> {
    module.targets.iter().skip(1).find_map(|option| {
        // Targets without double precision need it only where doubles are (PTX ISA, `.target`).
        if option == "map_f64_to_f32" && !uses_doubles {
            return None;
        }
        let known = OPTIONS.iter().find(|(known, _)| *known == option.as_str());
        refusal(option, known.map(|(_, handling)| *handling))
    })
}

/// The alignment that a parameter declares for the memory it points to (`.ptr .align`).
pub(crate) fn pointer_alignment(variable: &Variable) -> Option<u64> {
    variable.attributes.iter().find_map(|a| a.strip_prefix("align ")?.parse().ok())
}

fn find<'a>(function: &'a Function, name: &str) -> Option<&'a Directive> {
    function.directives.iter().find(|d| d.name == name)
}

fn three(directive: &Directive) -> [u32; 3] {
    let at = |n: usize| directive.values.get(n).and_then(|v| u32::try_from(*v).ok()).unwrap_or(1);
    [at(0), at(1), at(2)]
}

/// `.reqntid`.
pub(crate) fn required_threads(function: &Function) -> Option<[u32; 3]> {
    find(function, "reqntid").map(three)
}

/// `.maxntid` as a product.
pub(crate) fn max_threads(function: &Function) -> Option<u64> {
    find(function, "maxntid").map(|d| d.values.iter().product())
}

/// Whether a function does not return.
pub(crate) fn never_returns(function: &Function) -> bool {
    find(function, "noreturn").is_some()
}

/// The directives of a function about clusters.
pub(crate) fn of_cluster(function: &Function) -> cluster::Directives {
    cluster::Directives {
        required: find(function, "reqnctapercluster").map(three),
        explicit: find(function, "explicitcluster").is_some(),
        most: find(function, "maxclusterrank").and_then(|d| d.values.first().copied()),
    }
}
