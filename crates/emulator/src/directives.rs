//! The directives of entries, functions and variables (PTX ISA 11): each is honoured, checked, known to change nothing, or refused by
//! its name.

use ptx::arch::Target;
use ptx::{Directive, Function, Module, Variable};

use super::cluster;

/// What becomes of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handling {
    /// A launch obeys it, or is checked against it.
    Obeyed,
    /// It speaks of registers, code or speed.
    NoEffect,
    /// It is known and not emulated.
    Refused,
}

/// The directives that stand behind the parameters of a function.
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

/// Attributes of variables and functions: memory is one here, whoever may access it.
const ATTRIBUTES: &[&str] = &["managed", "unified"];

/// Options of `.target` beside the architecture.
const OPTIONS: &[(&str, Handling)] = &[
    ("debug", Handling::NoEffect),
    ("texmode_unified", Handling::NoEffect),
    ("texmode_independent", Handling::NoEffect),
    ("map_f64_to_f32", Handling::Refused),
];

/// Why a directive stops a launch.
fn refusal(name: &str, handling: Option<Handling>) -> Option<String> {
    match handling {
        Some(Handling::Obeyed | Handling::NoEffect) => None,
        Some(Handling::Refused) => Some(format!("the directive `{name}` is known but not emulated")),
        None => Some(format!("the directive `{name}` is unknown")),
    }
}

/// The name and the reason of what cannot be obeyed in the directives of a function.
pub(super) fn of_function(function: &Function) -> Option<(String, String)> {
    function.directives.iter().find_map(|directive| {
        let why = match directive.name.as_str() {
            // Whatever it says, it has no impact on the meaning of PTX (PTX ISA, `.pragma`).
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

/// The same for an entry: its directives must go together, and with the target.
pub(super) fn of_entry(function: &Function, arch: u32) -> Option<(String, String)> {
    let cluster = of_cluster(function);
    let refused = |name: &str, why: &str| Some((name.to_owned(), why.to_owned()));
    if cluster != cluster::Directives::default() && arch < 90 {
        return refused(".reqnctapercluster", "clusters require sm_90 or later");
    }
    if find(function, "reqntid").is_some() && find(function, "maxntid").is_some() {
        return refused(".maxntid", "ptxas refuses it beside .reqntid");
    }
    if cluster.required.is_some() && cluster.most.is_some() {
        return refused(".maxclusterrank", "ptxas refuses it beside .reqnctapercluster");
    }
    of_function(function)
}

/// Why an attribute such as `attribute(.managed)` or `.unified(1,2)` cannot be ignored.
fn of_attribute(text: &str) -> Option<String> {
    let inner = text.strip_prefix("attribute(").and_then(|t| t.strip_suffix(')')).unwrap_or(text);
    let names = inner.split('.').skip(1).map(|part| part.split(['(', ',', ' ']).next().unwrap_or_default());
    let unknown = names.into_iter().find(|name| !ATTRIBUTES.contains(name));
    unknown.map(|name| format!("the attribute `.{name}` is unknown"))
}

/// Why the attributes of a variable cannot be obeyed. Those behind `.ptr` belong to parameters.
pub(super) fn of_variable(variable: &Variable) -> Option<String> {
    variable.attributes.iter().filter(|a| a.starts_with("attribute(")).find_map(|a| of_attribute(a))
}

/// Why ptxas has no such target. Those before sm_90 are not told apart.
pub(super) fn of_unknown_target(module: &Module) -> Option<String> {
    let name = module.targets.first()?;
    let target = Target::written(name).filter(|target| target.number >= 90)?;
    (!Target::known_set().contains(&target)).then(|| format!("there is no target `{name}`"))
}

/// Why ptxas refuses a pragma of the module.
pub(super) fn of_pragma(words: &[String]) -> Option<String> {
    let wrong = words.iter().find(|word| *word != "nounroll")?;
    Some(format!("ptxas refuses the pragma `{wrong}` outside of functions"))
}

/// Why the options of `.target` cannot be obeyed.
pub(super) fn of_target(module: &Module) -> Option<String> {
    module.targets.iter().skip(1).find_map(|option| {
        let known = OPTIONS.iter().find(|(known, _)| *known == option.as_str());
        refusal(option, known.map(|(_, handling)| *handling))
    })
}

/// The alignment that a parameter promises of what it points at, `.ptr .align`.
pub(super) fn pointer_alignment(variable: &Variable) -> Option<u64> {
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
pub(super) fn required_threads(function: &Function) -> Option<[u32; 3]> {
    find(function, "reqntid").map(three)
}

/// `.maxntid` as a product.
pub(super) fn max_threads(function: &Function) -> Option<u64> {
    find(function, "maxntid").map(|d| d.values.iter().product())
}

/// Whether a function does not return.
pub(super) fn never_returns(function: &Function) -> bool {
    find(function, "noreturn").is_some()
}

/// What the directives say of clusters.
pub(super) fn of_cluster(function: &Function) -> cluster::Directives {
    cluster::Directives {
        required: find(function, "reqnctapercluster").map(three),
        explicit: find(function, "explicitcluster").is_some(),
        most: find(function, "maxclusterrank").and_then(|d| d.values.first().copied()),
    }
}
