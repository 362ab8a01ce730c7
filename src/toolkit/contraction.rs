//! Which products and sums a ptxas contracts in a kernel, proven by its machine code.
//!
//! A guess is written out as PTX that leaves nothing open (`fma.rn`, `mul.rn`, `add.rn`). Where ptxas makes the same machine code of
//! both texts, byte for byte, the guess is what it does. Where no guess gives the same code, nothing is said.

use std::collections::BTreeMap;
use std::time::Duration;

use ptx::arch::{Target, ToolkitVersion};
use ptx::contraction::{Pair, expected, explicit, pairs};

use super::cubin::{CubinError, cubin};
use super::discover::Toolkit;
use crate::store::Store;

/// Why it is not known what a ptxas contracts.
#[derive(Debug, thiserror::Error)]
pub enum ContractionError {
    /// No machine code.
    #[error(transparent)]
    Cubin(#[from] CubinError),
    /// The text is no PTX.
    #[error("{0}")]
    Syntax(#[from] ptx::SyntaxError),
    /// No guess gives the same machine code.
    #[error(
        "it cannot be decided what ptxas {version} contracts in `{function}` for {arch}: no choice among its {pairs} pairs of a \
        product and a sum gives the same machine code; --contract on and off give two readings that PTX allows"
    )]
    Undecided {
        /// The kernel, or a function that several kernels call.
        function: String,
        /// The version of ptxas.
        version: ToolkitVersion,
        /// What for.
        arch: Target,
        /// Pairs in the function.
        pairs: usize,
    },
}

/// What a ptxas contracts in some kernels of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contracted {
    /// The pairs that round once.
    pub chosen: Vec<Pair>,
    /// All pairs of the kernels, and of the functions that they may call.
    pub pairs: usize,
}

/// Finds what `toolkit` contracts in the entries of `text` when it assembles it for `arch`. Takes one to four runs of ptxas, each of
/// at most `limit`, kept in `store`.
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
    let module = ptx::parse(text)?;
    let all = pairs(&module);
    let is_entry = |name: &str| {
        module.items.iter().any(|item| matches!(item, ptx::Item::Function(f) if f.entry && f.name == name))
    };
    let code = |ptx: &str| Ok::<_, CubinError>(code_of(&cubin(toolkit, arch, ptx, store, limit)?.image));
    let written = code(text)?;
    // A kernel without pairs may still have others that only ptxas sees: its code is compared as well.
    let guesses = [expected(&all), all.clone(), Vec::new()];
    let mut codes = Vec::new();
    let mut chosen: BTreeMap<&str, Vec<Pair>> = BTreeMap::new();
    for &entry in entries {
        let mut decided = false;
        for (n, guess) in guesses.iter().enumerate() {
            if codes.len() == n {
                codes.push(code(&explicit(&module, guess).to_string())?);
            }
            // The kernel, and every function that it may call.
            let same = |(name, bytes): (&String, &Vec<u8>)| {
                (is_entry(name) && name != entry) || codes[n].get(name) == Some(bytes)
            };
            if !written.contains_key(entry) || !written.iter().all(same) {
                continue;
            }
            let mut own: BTreeMap<&str, Vec<Pair>> = BTreeMap::new();
            for pair in all.iter().filter(|pair| pair.function == entry || !is_entry(&pair.function)) {
                let list = own.entry(&pair.function).or_default();
                list.extend(guess.contains(pair).then(|| pair.clone()));
            }
            // Kernels must agree on the functions that they share.
            decided = own.iter().all(|(name, list)| chosen.get(name).is_none_or(|known| known == list));
            if decided {
                chosen.extend(own);
                break;
            }
        }
        if !decided {
            return Err(ContractionError::Undecided {
                function: entry.to_owned(),
                version: toolkit.version,
                arch,
                pairs: all.iter().filter(|pair| pair.function == entry).count(),
            });
        }
    }
    let concerned = |pair: &&Pair| entries.contains(&pair.function.as_str()) || !is_entry(&pair.function);
    Ok(Contracted {
        pairs: all.iter().filter(concerned).count(),
        chosen: chosen.into_values().flatten().collect(),
    })
}

/// The machine code of each kernel and function.
fn code_of(image: &[u8]) -> BTreeMap<String, Vec<u8>> {
    devcode::machine_code::of_kernels(image).into_iter().map(|(name, code)| (name, code.to_vec())).collect()
}
