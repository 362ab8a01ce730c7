//! Contraction in a session: which of the readings that PTX allows its modules have, and where they differ.

use std::sync::Arc;
use std::time::Duration;

use emulator::Contraction;

use super::error::LaunchError;
use super::expect::index_of;
use super::run::{Outcome, Stopped};
use super::session::{Module, Session};
use crate::event::Event;
use crate::job::{self, Context};
use crate::store::Store;
use crate::toolkit;

/// How long ptxas may take for one module.
const LIMIT: Duration = Duration::from_secs(300);

/// Whether an unqualified product and the sum that uses it round once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Contract {
    /// Never.
    #[default]
    Off,
    /// Wherever PTX allows it, in one basic block.
    On,
    /// Where the newest ptxas of the machine contracts them.
    AsPtxas,
}

/// Elements of a buffer that contraction changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undetermined {
    /// The buffer.
    pub buffer: String,
    /// How many elements differ.
    pub differing: usize,
    /// Its elements.
    pub elements: usize,
    /// The index of the first that differs, the outermost dimension first.
    pub index: Vec<usize>,
    /// What it is where products and sums round on their own.
    pub separate: String,
    /// What it is where they round once.
    pub contracted: String,
}

impl Session {
    /// Chooses the reading of all modules.
    ///
    /// # Errors
    /// [`LaunchError::NoPtxas`] and [`LaunchError::Contraction`] for [`Contract::AsPtxas`]; [`LaunchError::Stopped`].
    pub fn contract(&mut self, contract: Contract, context: &Context<'_>) -> Result<(), LaunchError> {
        for module in &mut self.modules {
            let contraction = match contract {
                Contract::Off => continue,
                Contract::On => Contraction::Every,
                Contract::AsPtxas => as_ptxas(module, context)?,
            };
            module.program = Arc::new(read_as(module, &contraction)?);
        }
        Ok(())
    }

    /// The modules with every pair contracted; nothing where they have no pairs, or where the reading was chosen before.
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

    /// Where two outcomes of the same trial differ, the second with pairs contracted.
    pub(super) fn undetermined(&self, separate: &Outcome, contracted: &Outcome) -> Vec<Undetermined> {
        let results = self.buffers.iter().enumerate().filter(|(_, buffer)| !buffer.scratch);
        results
            .filter_map(|(n, buffer)| {
                let (element, elements) = (buffer.shape.element, buffer.shape.count());
                let (one, other) = (separate.bytes(n), contracted.bytes(n));
                let pair = |n: usize| Some((element.code_at(one, n)?, element.code_at(other, n)?));
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

/// What the newest ptxas contracts in the kernels of a module.
fn as_ptxas(module: &Module, context: &Context<'_>) -> Result<Contraction, LaunchError> {
    let store = Store::open(None).ok();
    let ptxas = job::ptxas(None, store.as_ref())?.ok_or(LaunchError::NoPtxas)?;
    let target = ptx::scan::target(&module.text)
        .ok_or_else(|| LaunchError::Fit(format!("{} names no known target", module.name)))?;
    let names: Vec<&str> = module.program.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let found = toolkit::contracted(&ptxas, target, &module.text, &names, store.as_ref(), LIMIT)?;
    let (version, chosen) = (ptxas.version, found.chosen.len());
    let text = format!(
        "{}: ptxas {version} contracts {chosen} of {} pairs of a product and a sum for {target}",
        module.name, found.pairs
    );
    context.sink.emit(Event::Notice { text });
    Ok(Contraction::Pairs(found.chosen))
}

fn read_as(module: &Module, contraction: &Contraction) -> Result<emulator::Program, LaunchError> {
    module.program.contracted(contraction).map_err(|stop| stopped(module, stop))
}

fn stopped(module: &Module, stop: emulator::Stop) -> LaunchError {
    Stopped { name: module.name.clone(), text: module.text.clone(), stop }.into()
}
