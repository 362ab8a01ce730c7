//! Selects the NVRTC for jobs that compile kernels: the named version or the newest, fetched if the machine has none.

use super::error::JobError;
use crate::event::{Event, Sink};
use crate::store::Store;
use crate::toolkit::{self, Environment, InstallOptions, Nvrtc, NvrtcError, Pins};

/// The pin that is fetched if no version is named.
pub(super) const NEWEST: &str = "nvrtc";

/// Returns the NVRTC of version `name`, or the newest if `None`. If the machine has no NVRTC at all, fetches a pinned release.
///
/// # Errors
/// [`JobError::Nvrtc`] if this version is not found; any error of the download.
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
    // A version that is not pinned cannot be fetched; the error below names the missing version.
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
