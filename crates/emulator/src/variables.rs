//! Module variables by name, for a host that sets them before a launch (`cuModuleGetGlobal`).

use super::memory::GlobalMemory;
use super::program::{Program, VariablePlace};
use super::schedule::place_globals;

/// Why a variable cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// No variable has this name.
    #[error("the module has no variable `{name}`; its variables are: {there}")]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        there: String,
    },
    /// More bytes than the variable has.
    #[error("variable `{name}` has {size} bytes; {wanted} do not fit at byte {at}")]
    Large {
        /// The name.
        name: String,
        /// Its bytes.
        size: usize,
        /// The first byte to set.
        at: usize,
        /// How many were to be set.
        wanted: usize,
    },
}

/// Where a host finds a module variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableOf<'a> {
    /// In global memory: its address and its bytes.
    Global(u64, usize),
    /// In constant memory, which launches of this program read: what it holds.
    Const(&'a [u8]),
}

impl Program {
    /// Where a module variable lies on `memory`; `None` where the module has none of this name.
    pub fn variable(&self, memory: &mut GlobalMemory, name: &str) -> Option<VariableOf<'_>> {
        let found = self.variables.iter().find(|v| v.name == name)?;
        Some(match found.place {
            VariablePlace::Const(at) => VariableOf::Const(self.constants.get(at..at + found.size)?),
            VariablePlace::Global(index) => {
                let bases = match memory.variables(&self.text) {
                    Some(bases) => bases.to_vec(),
                    None => place_globals(self, memory),
                };
                VariableOf::Global(*bases.get(index)?, found.size)
            }
        })
    }

    /// The text that it was made of.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the module's variables in global memory lie, in its order; empty where no launch has placed them.
    #[must_use]
    pub fn variables_on<'m>(&self, memory: &'m GlobalMemory) -> &'m [u64] {
        memory.variables(&self.text).unwrap_or_default()
    }

    /// Gives the module's variables in global memory their places, where they have none.
    pub fn place_variables(&self, memory: &mut GlobalMemory) {
        if memory.variables(&self.text).is_none() {
            place_globals(self, memory);
        }
    }

    /// Takes buffers of `memory` for the module's variables in global memory, in its order. False where they are more or fewer, or where the
    /// variables have places already.
    pub fn adopt_variables(&self, memory: &mut GlobalMemory, addresses: &[u64]) -> bool {
        let fits = addresses.len() == self.globals.len() && memory.variables(&self.text).is_none();
        if fits {
            memory.keep_variables(&self.text, addresses);
        }
        fits
    }

    /// Sets bytes of a module variable, from byte `at` on: one in constant memory for all launches of this program, one in global
    /// memory for those on `memory`.
    ///
    /// # Errors
    /// [`VariableError`] where there is no such variable, or it is smaller.
    pub fn set_variable(
        &mut self,
        memory: &mut GlobalMemory,
        name: &str,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), VariableError> {
        let found = self.variables.iter().find(|v| v.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.variables.iter().map(|v| v.name.as_str()).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            VariableError::Unknown { name: name.to_owned(), there }
        })?;
        if at.checked_add(bytes.len()).is_none_or(|end| end > found.size) {
            let (name, size) = (name.to_owned(), found.size);
            return Err(VariableError::Large { name, size, at, wanted: bytes.len() });
        }
        match found.place {
            VariablePlace::Const(base) => {
                self.constants[base + at..base + at + bytes.len()].copy_from_slice(bytes);
            }
            VariablePlace::Global(index) => {
                let bases = match memory.variables(&self.text) {
                    Some(bases) => bases.to_vec(),
                    None => place_globals(self, memory),
                };
                memory.write_at(bases[index] + at as u64, bytes);
            }
        }
        Ok(())
    }
}
