//! The NVRTC behind a verb that compiles kernels: the one that is named, or the newest; fetched where the machine has none.

use super::error::JobError;
use crate::event::{Event, Sink};
use crate::store::Store;
use crate::toolkit::{self, Environment, InstallOptions, Nvrtc, NvrtcError, Pins};

/// What is fetched where nothing is named.
pub(super) const NEWEST: &str = "nvrtc";

/// The NVRTC of the version `name`, the newest when left out. Where the machine has none at all, a pinned one is fetched.
///
/// # Errors
/// [`JobError::Nvrtc`] where there is none of this version; what fetching meets.
pub fn nvrtc(name: Option<&str>, store: Option<&Store>, sink: &dyn Sink) -> Result<Nvrtc, JobError> {
    let environment = Environment::of_process();
    let found = toolkit::nvrtcs(store, &environment);
    let (Err(NvrtcError::Missing { .. }), true, Some(store)) =
        (toolkit::select_nvrtc(&found, name), found.is_empty(), store)
    else {
        return Ok(toolkit::select_nvrtc(&found, name)?.clone());
    };
    let pins = Pins::built_in()?;
    let names = [name.map_or_else(|| NEWEST.to_owned(), |name| format!("{NEWEST}:{name}"))];
    // A version that is not pinned cannot be fetched: the error says what is missing.
    if let Ok(pinned) = pins.resolve(&names) {
        let what: Vec<String> = pinned.iter().map(|pin| pin.what()).collect();
        let text = format!(
            "This machine has no NVRTC. Fetching {} with pip, checked against pinned SHA-256 sums.",
            what.join(", ")
        );
        sink.emit(Event::Notice { text });
        toolkit::install(store, &pins, &names, &InstallOptions::for_host()?, sink)?;
    }
    Ok(toolkit::select_nvrtc(&toolkit::nvrtcs(Some(store), &environment), name)?.clone())
}
