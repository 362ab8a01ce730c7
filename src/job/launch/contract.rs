//! Contraction of products and sums in a session: selects one of the readings that PTX allows.

use std::sync::Arc;

use emulator::Contraction;

use super::error::LaunchError;
use super::run::Stopped;
use super::session::{Module, Session};
use crate::event::Event;
use crate::job::{self, Context};
use crate::store::Store;
use crate::toolkit::{self, FpContract};

impl Session {
    /// Selects how the products and sums of all modules are contracted.
    ///
    /// # Errors
    /// [`LaunchError::Contraction`] if [`FpContract::AsPtxas`] cannot be determined; [`LaunchError::Stopped`] if a module is unusable.
    pub fn contract(&mut self, contract: FpContract, context: &Context<'_>) -> Result<(), LaunchError> {
        if contract == FpContract::Off {
            return Ok(());
        }
        let store = Store::open(None).ok();
        let ptxas = match contract {
            FpContract::AsPtxas => job::ptxas(None, store.as_ref())?,
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
}

fn read_as(module: &Module, contraction: &Contraction) -> Result<emulator::Program, LaunchError> {
    module.program.contracted(contraction).map_err(|stop| stopped(module, stop))
}

fn stopped(module: &Module, stop: emulator::Stop) -> LaunchError {
    Stopped { name: module.name.clone(), text: module.text.clone(), stop }.into()
}
