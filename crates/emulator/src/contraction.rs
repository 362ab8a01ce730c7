//! Which products and sums round once: PTX leaves it open where neither instruction has a rounding modifier.

use std::sync::Arc;

use ptx::Module;
use ptx::contraction::{Pair, explicit, pairs};
use ptx::folding::{Products, fold};

use super::load::load_contracted;
use super::program::Program;
use super::trap::Stop;

/// How pairs of an unqualified product and an unqualified sum are computed ([`ptx::contraction`]).
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Contraction {
    /// As written: the product and the sum round, each on its own.
    #[default]
    Separate,
    /// Every pair rounds once. Where both sources of a sum are products, it is the first.
    Every,
    /// As this module says, which has the kernels of the text with nothing left open: what an assembler makes of them.
    Written(Arc<Module>),
}

impl Contraction {
    /// The module that computes so. An assembler computes reciprocals of constants itself, in every reading.
    pub(super) fn applied(&self, mut module: Module) -> Module {
        if let Self::Written(written) = self {
            return Module::clone(written);
        }
        fold(&mut module, Products::Rounded);
        match self {
            Self::Every => explicit(&module, &pairs(&module)),
            _ => module,
        }
    }
}

impl Program {
    /// The pairs of its kernels and functions that PTX leaves open.
    ///
    /// # Errors
    /// As [`load`](super::load::load).
    pub fn pairs(&self) -> Result<Vec<Pair>, Stop> {
        let module = ptx::parse(&self.text).map_err(|error| Stop::Launch(error.to_string()))?;
        let elsewhere = |name: &str| self.entries.iter().any(|e| e == name) && self.kernel(name).is_none();
        Ok(pairs(&module).into_iter().filter(|pair| !elsewhere(&pair.function)).collect())
    }

    /// The same kernels with pairs computed as `contraction` says. Places that violations and listings name are those of the text as
    /// written.
    ///
    /// # Errors
    /// As [`load`](super::load::load).
    pub fn contracted(&self, contraction: &Contraction) -> Result<Self, Stop> {
        let names: Vec<&str> = self.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        let mut program = load_contracted(&self.text, &names, contraction)?;
        program.text = Arc::clone(&self.text);
        program.constants.clone_from(&self.constants);
        Ok(program)
    }

    /// Whether pairs are computed as a [`Contraction`] other than [`Contraction::Separate`] says.
    #[must_use]
    pub fn is_contracted(&self) -> bool {
        self.contracted
    }
}
