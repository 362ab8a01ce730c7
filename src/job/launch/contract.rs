//! Contraction of products and sums in a session: selects one of the readings that PTX allows, and finds results that differ.

use std::sync::Arc;

use emulator::Contraction;

use super::error::LaunchError;
use super::expect::index_of;
use super::run::{Outcome, Stopped};
use super::session::{Module, Session};
use crate::event::Event;
use crate::job::{self, Context};
use crate::store::Store;
use crate::toolkit::{self, Contract};

/// The elements of a buffer that contraction changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undetermined {
    /// The buffer.
    pub buffer: String,
    /// The number of elements that differ.
    pub differing: usize,
    /// The number of all its elements.
    pub elements: usize,
    /// The index of the first element that differs, the outermost dimension first.
    pub index: Vec<usize>,
    /// Its value if products and sums are rounded separately.
    pub separate: String,
    /// Its value if they are contracted, i.e. rounded once.
    pub contracted: String,
}

impl Session {
    /// Selects how the products and sums of all modules are contracted.
    ///
    /// # Errors
    /// [`LaunchError::Contraction`] if [`Contract::AsPtxas`] cannot be determined; [`LaunchError::Stopped`] if a module is unusable.
    pub fn contract(&mut self, contract: Contract, context: &Context<'_>) -> Result<(), LaunchError> {
        if contract == Contract::Off {
            return Ok(());
        }
        let store = Store::open(None).ok();
        let ptxas = match contract {
            Contract::AsPtxas => job::ptxas(None, store.as_ref())?,
            _ => None,
        };
        for module in &mut self.modules {
            let names: Vec<&str> = module.program.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            let reading = toolkit::reading(contract, &module.text, &names, ptxas.as_ref(), store.as_ref())?;
            if let Some((version, chosen, pairs)) = reading.by {
                let name = &module.name;
                let text = format!(
                    "{name}: ptxas {version} contracts {chosen} of {pairs} pairs of a product and a sum"
                );
                context.sink.emit(Event::Notice { text });
            }
            module.program = Arc::new(read_as(module, &reading.contraction)?);
        }
        Ok(())
    }

    /// Returns the modules with every pair contracted; `None` if they have no pairs, or if contraction was already selected.
    pub(super) fn contracted_modules(&self) -> Result<Option<Vec<Module>>, LaunchError> {
        if self.modules.iter().any(|module| module.program.is_contracted()) {
            return Ok(None);
        }
        let mut open = false;
        for module in &self.modules {
            open |= !module.program.pairs().map_err(|stop| stopped(module, stop))?.is_empty();
        }
        if !open {
            return Ok(None);
        }
        let contracted = |module: &Module| {
            let program = Arc::new(read_as(module, &Contraction::Every)?);
            Ok(Module {
                name: module.name.clone(),
                text: module.text.clone(),
                program,
                variables: module.variables.clone(),
            })
        };
        self.modules.iter().map(contracted).collect::<Result<_, LaunchError>>().map(Some)
    }

    /// Returns the differences between two outcomes of the same trial, the second of which has all pairs contracted.
    pub(super) fn undetermined(&self, separate: &Outcome, contracted: &Outcome) -> Vec<Undetermined> {
        let results = self.buffers.iter().enumerate().filter(|(_, buffer)| !buffer.scratch);
        results
            .filter_map(|(n, buffer)| {
                if separate.agrees(contracted, n) {
                    return None;
                }
                let (element, elements) = (buffer.shape.element, buffer.shape.count());
                let (one, other) = (separate.bytes(n), contracted.bytes(n));
                let pair = |n: usize| Some((element.code_at(&one, n)?, element.code_at(&other, n)?));
                let mut differing =
                    (0..elements).filter_map(|n| Some((n, pair(n)?))).filter(|(_, (a, b))| a != b);
                let (first, (a, b)) = differing.next()?;
                Some(Undetermined {
                    buffer: buffer.name.clone(),
                    differing: 1 + differing.count(),
                    elements,
                    index: index_of(first, &buffer.shape.dims),
                    separate: element.show(a),
                    contracted: element.show(b),
                })
            })
            .collect()
    }
}

fn read_as(module: &Module, contraction: &Contraction) -> Result<emulator::Program, LaunchError> {
    module.program.contracted(contraction).map_err(|stop| stopped(module, stop))
}

fn stopped(module: &Module, stop: emulator::Stop) -> LaunchError {
    Stopped { name: module.name.clone(), text: module.text.clone(), stop }.into()
}
