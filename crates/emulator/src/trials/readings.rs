//! The programs of the reading in which every open product and sum is contracted.

use std::collections::HashMap;
use std::sync::Arc;

use crate::api::trap::Stop;
use crate::front::contraction::Contraction;
use crate::front::program::Program;

/// Identifies a program: its text, by address, and its kernels. Holding the text keeps its address from being used again.
type Key = (usize, Vec<String>);

/// Contracted programs, each loaded once: a caller that launches a kernel many times keeps them.
#[derive(Default)]
pub struct ContractedPrograms(HashMap<Key, (Arc<str>, Option<Program>)>);

impl ContractedPrograms {
    /// Loads a program with every pair contracted, unless that is known. Returns whether it leaves a pair open.
    ///
    /// # Errors
    /// As [`Program::contracted`].
    pub(super) fn load(&mut self, program: &Program) -> Result<bool, Stop> {
        let key = key(program);
        if !self.0.contains_key(&key) {
            let open = !program.is_contracted() && !program.pairs()?.is_empty();
            let contracted = open.then(|| program.contracted(&Contraction::Every)).transpose()?;
            self.0.insert(key.clone(), (Arc::clone(&program.text), contracted));
        }
        let Some((_, Some(contracted))) = self.0.get_mut(&key) else { return Ok(false) };
        // The host may have set constants since.
        contracted.constants.clone_from(&program.constants);
        Ok(true)
    }

    /// The contracted form of a program; the program itself if it leaves nothing open.
    pub(super) fn get<'a>(&'a self, program: &'a Program) -> &'a Program {
        self.0.get(&key(program)).and_then(|(_, contracted)| contracted.as_ref()).unwrap_or(program)
    }
}

fn key(program: &Program) -> Key {
    let kernels = program.kernels.iter().map(|kernel| kernel.name.clone()).collect();
    (Arc::as_ptr(&program.text).addr(), kernels)
}
