//! Module variables by name, so that a host can set them before a launch (`cuModuleGetGlobal`).

use crate::front::program::{Program, VariablePlace};
use crate::memory::global::GlobalMemory;
use crate::run::launch::place_globals;

/// The reason why a variable cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// The module has no variable of this name.
    #[error("the module has no variable `{name}`; its variables are: {there}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of the module's variables.
        there: String,
    },
    /// The bytes do not fit in the variable.
    #[error("variable `{name}` has {size} bytes; {wanted} do not fit at byte {at}")]
    Large {
        /// The name of the variable.
        name: String,
        /// Its size in bytes.
        size: usize,
        /// Offset of the first byte to set.
        at: usize,
        /// Number of bytes to set.
        wanted: usize,
    },
}

/// The location of a module variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableOf<'a> {
    /// In global memory: address and size in bytes.
    Global(u64, usize),
    /// In constant memory, shared by all launches of this program: its contents.
    Const(&'a [u8]),
}

impl Program {
    /// Locates a module variable on `memory`, placing the module's variables there if necessary; `None` if the module has no
    /// variable of this name.
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

    /// The PTX text of the module.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Addresses of the module's variables in global memory, in order; empty if they have not been placed.
    #[must_use]
    pub fn variables_on<'m>(&self, memory: &'m GlobalMemory) -> &'m [u64] {
        memory.variables(&self.text).unwrap_or_default()
    }

    /// The module's variables in global memory with their names, addresses and sizes in bytes; none if they have not been placed.
    pub(crate) fn global_variables_on<'a>(
        &'a self,
        memory: &'a GlobalMemory,
    ) -> impl Iterator<Item = (&'a str, u64, usize)> {
        let bases = self.variables_on(memory);
        self.variables.iter().filter_map(move |variable| match variable.place {
            VariablePlace::Global(index) => Some((variable.name.as_str(), *bases.get(index)?, variable.size)),
            VariablePlace::Const(_) => None,
        })
    }

    /// Places the module's variables in global memory, unless they have been placed.
    pub fn place_variables(&self, memory: &mut GlobalMemory) {
        if memory.variables(&self.text).is_none() {
            place_globals(self, memory);
        }
    }

    /// Uses buffers of `memory` as the module's variables in global memory, in order. Returns false if their number differs, or if
    /// the variables have been placed already.
    pub fn adopt_variables(&self, memory: &mut GlobalMemory, addresses: &[u64]) -> bool {
        let fits = addresses.len() == self.globals.len() && memory.variables(&self.text).is_none();
        if fits {
            memory.keep_variables(&self.text, addresses);
        }
        fits
    }

    /// Sets bytes of a module variable, from byte `at` on. In constant memory the change affects all launches of this program; in
    /// global memory it affects launches on `memory`.
    ///
    /// # Errors
    /// [`VariableError`] if there is no such variable, or if it is too small.
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
