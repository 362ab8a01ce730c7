//! Selects the ptxas for jobs that compile kernels, and determines its capabilities from the matrix.

use ptx::arch::Target;

use super::error::JobError;
use crate::event::{Event, Sink};
use crate::frame::admission;
use crate::matrix::{self, Capabilities};
use crate::snippet;
use crate::store::Store;
use crate::toolkit::{self, Places, Toolkit};

/// A ptxas and the capabilities of its targets according to the matrix.
pub struct Toolchain {
    /// The ptxas.
    pub toolkit: Toolkit,
    capabilities: Capabilities,
}

impl Toolchain {
    /// Finds the ptxas of version `name`, or the newest if that is `None` or not found, and queries its capabilities for these
    /// targets. If the machine has no ptxas, emits a warning that capabilities are not checked and returns `None`.
    ///
    /// # Errors
    /// [`JobError::Select`] if `name` is a path without a usable ptxas; an error of the capability query.
    pub fn find(
        name: Option<&str>,
        targets: &[Target],
        store: Option<&Store>,
        sink: &dyn Sink,
    ) -> Result<Option<Self>, JobError> {
        let mut places = Places::from_environment(store.map(Store::root));
        places.add_named(&name.map(str::to_owned).into_iter().collect::<Vec<_>>());
        let discovery = toolkit::discover(store, &places);
        let named = name.map(|name| discovery.select(&[name.to_owned()])).transpose();
        let chosen = match named {
            Ok(named) => named.and_then(|list| list.last().copied()),
            Err(error) if name.is_some_and(|n| n.contains('/')) => return Err(error.into()),
            Err(_) => None,
        };
        let Some(chosen) = chosen.or_else(|| discovery.toolkits.last()) else {
            let text = "no ptxas on this machine: capabilities of targets are not checked; `sm121probe toolkit install latest` fetches one";
            sink.emit(Event::Warning { text: text.to_owned() });
            return Ok(None);
        };
        if let Some(name) = name.filter(|n| !n.contains('/') && !chosen.version.is_named(n)) {
            let text = format!(
                "no ptxas {name} on this machine: capabilities are checked with ptxas {}",
                chosen.version
            );
            sink.emit(Event::Warning { text });
        }
        let mut asked = Target::default_set();
        asked.extend(targets);
        asked.sort();
        asked.dedup();
        let library = snippet::Library::embedded();
        let ask = |toolkits: &[&Toolkit]| Capabilities::ask(&library, toolkits, &asked, store, sink);
        let mut capabilities = ask(&[chosen])?;
        let lacks = |target: &Target| {
            let mut names = matrix::granting(&library).into_keys();
            names.any(|name| capabilities.has(&name, chosen.version, *target) == Some(false))
        };
        if targets.iter().any(lacks) {
            // With the other toolkits queried, the message can name one that has the missing capability.
            let mut all: Vec<&Toolkit> =
                discovery.toolkits.iter().filter(|t| t.version != chosen.version).collect();
            all.dedup_by_key(|t| t.version);
            all.push(chosen);
            all.sort_by_key(|t| t.version);
            capabilities = ask(&all)?;
        }
        Ok(Some(Self { toolkit: chosen.clone(), capabilities }))
    }

    /// Returns the toolchain as admission sees it, for one target.
    #[must_use]
    pub fn for_target(&self, target: Target) -> admission::Toolchain<'_> {
        admission::Toolchain { capabilities: &self.capabilities, toolkit: self.toolkit.version, target }
    }
}

/// Returns the ptxas of version `name`, or the newest if `None`; `None` if no version is named and the machine has no ptxas.
///
/// # Errors
/// [`JobError::Select`] if the named toolkit is not found.
pub fn ptxas(name: Option<&str>, store: Option<&Store>) -> Result<Option<Toolkit>, JobError> {
    let names: Vec<String> = name.map(str::to_owned).into_iter().collect();
    let mut places = Places::from_environment(store.map(Store::root));
    places.add_named(&names);
    let discovery = toolkit::discover(store, &places);
    if names.is_empty() {
        return Ok(discovery.toolkits.last().cloned());
    }
    Ok(discovery.select(&names)?.last().map(|toolkit| (*toolkit).clone()))
}
