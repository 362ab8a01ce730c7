//! Contraction of products and sums: PTX leaves it open for instructions without a rounding modifier.

use std::sync::Arc;

use ptx::Module;
use ptx::contraction::{Pair, explicit, pairs};
use ptx::folding::{Products, fold};

use crate::api::trap::Stop;
use crate::front::load::load_contracted;
use crate::front::program::Program;

/// How pairs of an unqualified product and an unqualified sum are computed ([`ptx::contraction`]).
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Contraction {
    /// As written: the product and the sum are rounded separately.
    #[default]
    Separate,
    /// Every pair is fused (rounded once). If both operands of a sum are products, the first is fused.
    Every,
    /// As in this module, which holds the kernels of the text with every contraction decided, such as by an assembler.
    Written(Arc<Module>),
}

impl Contraction {
    /// Returns the module with this contraction. Reciprocals of constants are always folded, as an assembler does.
    pub(crate) fn applied(&self, mut module: Module) -> Module {
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
    /// The pairs in its kernels and functions whose contraction PTX leaves open.
    ///
    /// # Errors
    /// As [`load`](crate::front::load::load).
    pub fn pairs(&self) -> Result<Vec<Pair>, Stop> {
        let module = ptx::parse(&self.text).map_err(|error| Stop::Launch(error.to_string()))?;
        let elsewhere = |name: &str| self.entries.iter().any(|e| e == name) && self.kernel(name).is_none();
        Ok(pairs(&module).into_iter().filter(|pair| !elsewhere(&pair.function)).collect())
    }

    /// Loads the same kernels with the given contraction. Places in violations and listings still refer to the text as written.
    ///
    /// # Errors
    /// As [`load`](crate::front::load::load).
    pub fn contracted(&self, contraction: &Contraction) -> Result<Self, Stop> {
        let names: Vec<&str> = self.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        let mut program = load_contracted(&self.text, &names, contraction)?;
        program.text = Arc::clone(&self.text);
        program.constants.clone_from(&self.constants);
        Ok(program)
    }

    /// Whether pairs are computed with a [`Contraction`] other than [`Contraction::Separate`].
    #[must_use]
    pub fn is_contracted(&self) -> bool {
        self.contracted
    }
}
