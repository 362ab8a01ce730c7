//! Determines which products and sums ptxas contracts in a kernel, proven by its machine code.
//!
//! A guess is PTX in which nothing is left open (`fma.rn`, `mul.rn`, `add.rn`). If ptxas generates byte-identical machine code for
//! the guess and the original, the guess describes its choice. If no guess matches, the result is an error.
//!
//! Guesses start from the text as written and from the forms that ptxas lowers it to first: quotients as products, packed operations
//! as scalar ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use emulator::Contraction;
use ptx::arch::{Target, ToolkitVersion};
use ptx::contraction::{Pair, expected, explicit_where_needed, lowered, may_contract, pairs};
use ptx::folding::{Products, fold};
use ptx::{Function, Item, Module};

use super::cubin::{CubinError, cubin};
use super::discover::Toolkit;
use crate::store::Store;

/// Time limit of ptxas for one module.
const LIMIT: Duration = Duration::from_secs(300);

/// Whether an unqualified product and the sum that uses it are rounded once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FpContract {
    /// Never.
    #[default]
    Off,
    /// Wherever PTX allows it within a basic block.
    On,
    /// Where the newest ptxas of the machine contracts.
    AsPtxas,
}

impl FpContract {
    /// Every option.
    pub const ALL: [Self; 3] = [Self::Off, Self::On, Self::AsPtxas];

    /// The spelling on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::AsPtxas => "as-ptxas",
        }
    }

    /// Parses the spelling on the command line.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|contract| contract.word() == word)
    }
}

/// The contraction to apply to a module.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The contraction that the emulator applies.
    pub contraction: Contraction,
    /// With [`FpContract::AsPtxas`]: the version of ptxas, the number of pairs it contracts, and the number of pairs.
    pub by: Option<(ToolkitVersion, usize, usize)>,
}

/// Returns the reading of the kernels `entries` of `text` under `contract`. `ptxas` is needed for [`FpContract::AsPtxas`] only.
///
/// # Errors
/// [`ContractionError`].
pub fn reading(
    contract: FpContract,
    text: &str,
    entries: &[&str],
    ptxas: Option<&Toolkit>,
    store: Option<&Store>,
) -> Result<Reading, ContractionError> {
    let contraction = match contract {
        FpContract::Off => Contraction::Separate,
        FpContract::On => Contraction::Every,
        FpContract::AsPtxas => {
            let ptxas = ptxas.ok_or(ContractionError::NoPtxas)?;
            let target = ptx::scan::target(text).ok_or(ContractionError::Target)?;
            let found = contracted(ptxas, target, text, entries, store, LIMIT)?;
            let by = Some((ptxas.version, found.chosen, found.pairs));
            return Ok(Reading { contraction: Contraction::Written(Arc::new(found.module)), by });
        }
    };
    Ok(Reading { contraction, by: None })
}

/// Why the contraction by ptxas is unknown.
#[derive(Debug, thiserror::Error)]
pub enum ContractionError {
    /// There is no machine code.
    #[error(transparent)]
    Cubin(#[from] CubinError),
    /// There is no ptxas to compare with.
    #[error("--contract as-ptxas needs a ptxas; `sm121probe toolkit install latest` fetches one")]
    NoPtxas,
    /// The module names no target that is known.
    #[error("the module names no known target")]
    Target,
    /// The text is not valid PTX.
    #[error("{0}")]
    Syntax(#[from] ptx::SyntaxError),
    /// No guess yields the same machine code.
    #[error(
        "it cannot be decided what ptxas {version} contracts in `{function}` for {arch}: no choice among its {pairs} pairs of a \
        product and a sum gives the same machine code; --contract on and off give two readings that PTX allows"
    )]
    Undecided {
        /// The kernel, or a function that several kernels call.
        function: String,
        /// The version of ptxas.
        version: ToolkitVersion,
        /// The target.
        arch: Target,
        /// Number of pairs in the function.
        pairs: usize,
    },
}

/// The contraction by ptxas in some kernels of a module.
#[derive(Debug, Clone, PartialEq)]
pub struct Contracted {
    /// Number of pairs that are rounded once.
    pub chosen: usize,
    /// Number of all pairs in the kernels and in the functions they may call, including pairs of a quotient and a sum.
    pub pairs: usize,
    /// The module with every choice written out.
    pub module: Module,
}

/// A guess: a module with every choice written out, the pairs of each function, and its machine code.
struct Guess {
    module: Module,
    pairs: BTreeMap<String, Pairs>,
    code: BTreeMap<String, Vec<u8>>,
}

/// The number of pairs in a function, and of contracted ones.
#[derive(Debug, Default, Clone, Copy)]
struct Pairs {
    all: usize,
    chosen: usize,
}

impl Guess {
    fn from_module(
        module: &Module,
        all: &[Pair],
        chosen: &[Pair],
        code: impl FnOnce(&str) -> Result<BTreeMap<String, Vec<u8>>, CubinError>,
    ) -> Result<Self, CubinError> {
        let mut pairs: BTreeMap<String, Pairs> = BTreeMap::new();
        for pair in all {
            pairs.entry(pair.function.clone()).or_default().all += 1;
        }
        // Of two pairs with one sum the first is contracted.
        let sums: BTreeSet<(&str, usize)> = chosen.iter().map(|p| (p.function.as_str(), p.sum)).collect();
        for (function, _) in sums {
            pairs.entry(function.to_owned()).or_default().chosen += 1;
        }
        let module = explicit_where_needed(module, chosen);
        let code = code(&module.to_string())?;
        Ok(Self { module, pairs, code })
    }

    fn function(&self, name: &str) -> Option<&Function> {
        functions(&self.module).find(|f| f.name == name && f.body.is_some())
    }
}

fn functions(module: &Module) -> impl Iterator<Item = &Function> {
    module.items.iter().filter_map(|item| match item {
        Item::Function(function) => Some(function),
        _ => None,
    })
}

/// Determines what `toolkit` contracts in the entries of `text` when it assembles it for `arch`. This takes one to seven runs of
/// ptxas, each limited to `limit` and cached in `store`.
///
/// # Errors
/// [`ContractionError`].
pub fn contracted(
    toolkit: &Toolkit,
    arch: Target,
    text: &str,
    entries: &[&str],
    store: Option<&Store>,
    limit: Duration,
) -> Result<Contracted, ContractionError> {
    let parsed = ptx::parse(text)?;
    let entry_names: BTreeSet<&str> =
        functions(&parsed).filter(|f| f.entry).map(|f| f.name.as_str()).collect();
    let is_entry = |name: &str| entry_names.contains(name);
    let code = |ptx: &str| Ok::<_, CubinError>(code_of(&cubin(toolkit, arch, ptx, store, limit)?.image));
    let written = code(text)?;
    let mut folded = parsed.clone();
    fold(&mut folded, Products::Open);
    // A kernel without pairs may contain others that only ptxas sees, so its code is compared as well.
    let mut variants = vec![folded, lowered(&parsed)];
    variants.dedup();
    let mut choices = Vec::new();
    for module in &variants {
        let all = pairs(module);
        choices.extend([expected(&all), all.clone(), Vec::new()].map(|chosen| (module, all.clone(), chosen)));
    }
    let mut guesses: Vec<Guess> = Vec::new();
    // The guess chosen for each function.
    let mut decided: BTreeMap<&str, usize> = BTreeMap::new();
    let shared: Vec<&str> = functions(&parsed).map(|f| f.name.as_str()).filter(|f| !is_entry(f)).collect();
    let open = |entry: &str| variants.iter().chain([&parsed]).any(|module| may_contract(module, entry));
    // A kernel without a product and a sum of one type stays as written.
    for &entry in entries.iter().filter(|entry| open(entry)) {
        let mut found = false;
        for (n, (module, all, chosen)) in choices.iter().enumerate() {
            if guesses.len() == n {
                guesses.push(Guess::from_module(module, all, chosen, code)?);
            }
            let guess = &guesses[n];
            // Compare the kernel and every function that it may call.
            let same = |(name, bytes): (&String, &Vec<u8>)| {
                (is_entry(name) && name != entry) || guess.code.get(name) == Some(bytes)
            };
            if !written.contains_key(entry) || !written.iter().all(same) {
                continue;
            }
            // Kernels must agree on shared functions.
            let agrees = |name: &&str| {
                decided.get(name).is_none_or(|known| guesses[*known].function(name) == guess.function(name))
            };
            found = shared.iter().all(agrees);
            if found {
                decided.insert(entry, n);
                shared.iter().for_each(|name| {
                    decided.entry(name).or_insert(n);
                });
                break;
            }
        }
        if !found {
            return Err(ContractionError::Undecided {
                function: entry.to_owned(),
                version: toolkit.version,
                arch,
                pairs: pairs(&variants[0]).iter().filter(|pair| pair.function == entry).count(),
            });
        }
    }
    let mut found = Contracted { chosen: 0, pairs: 0, module: parsed.clone() };
    for (name, n) in &decided {
        let of = guesses[*n].pairs.get(*name).copied().unwrap_or_default();
        (found.chosen, found.pairs) = (found.chosen + of.chosen, found.pairs + of.all);
    }
    for item in &mut found.module.items {
        if let Item::Function(function) = item
            && function.body.is_some()
            && let Some(n) = decided.get(function.name.as_str())
            && let Some(guess) = guesses[*n].function(&function.name)
        {
            function.clone_from(guess);
        }
    }
    Ok(found)
}

/// The machine code of each kernel and function.
fn code_of(image: &[u8]) -> BTreeMap<String, Vec<u8>> {
    devcode::machine_code::of_kernels(image).into_iter().map(|(name, code)| (name, code.to_vec())).collect()
}
