//! Results that the cache keeps, by everything that they depend on, the sources of emulator and reference included.

use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toolchain::store::{self, Store};

/// The hash of those sources, of their dependencies and of the compiler; empty outside the workspace (`build.rs`).
const SOURCES: &str = env!("SM121PROBE_SOURCES");

/// Results kept from run to run; none without a cache.
pub struct Kept<'a> {
    store: Option<&'a Store>,
    build: OnceLock<Option<String>>,
}

impl<'a> Kept<'a> {
    /// Keeps results in `store`.
    #[must_use]
    pub const fn in_store(store: Option<&'a Store>) -> Self {
        Self { store, build: OnceLock::new() }
    }

    /// Returns the key of a result that depends on `parts`; `None` if nothing is kept.
    pub(crate) fn key(&self, parts: &[String]) -> Option<String> {
        self.store?;
        let build = self.build.get_or_init(build).as_ref()?;
        Some(store::sha256(format!("{build}\0{}", parts.join("\0")).as_bytes()))
    }

    /// Returns a kept result.
    pub(crate) fn get<T: DeserializeOwned>(&self, kind: &str, key: Option<&String>) -> Option<T> {
        serde_json::from_slice(&self.store?.get(kind, key?)?).ok()
    }

    /// Keeps a result. A cache that cannot be written costs time, not the result.
    pub(crate) fn put(&self, kind: &str, key: Option<&String>, result: &impl Serialize) {
        if let (Some(store), Some(key), Ok(bytes)) = (self.store, key, serde_json::to_vec(result)) {
            let _ = store.put(kind, key, &bytes);
        }
    }
}

/// Identifies the code of this process: other code may have other results, as may one with assertions.
fn build() -> Option<String> {
    if SOURCES.is_empty() {
        return Some(store::sha256(&std::fs::read(std::env::current_exe().ok()?).ok()?));
    }
    Some(format!("{SOURCES} {}", cfg!(debug_assertions)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_the_workspace_are_known_by_their_sources() {
        assert_eq!(SOURCES.len(), 16, "{SOURCES}");
        assert!(Kept::in_store(None).key(&[]).is_none());
    }
}
