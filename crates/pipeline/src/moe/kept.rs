//! Results that the cache keeps, by everything that they depend on. This build is part of it: another emulator or reference may
//! have other results.

use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toolchain::store::{self, Store};

/// Results kept from run to run; none without a cache.
pub struct Kept<'a> {
    store: Option<&'a Store>,
    build: OnceLock<Option<String>>,
}

impl<'a> Kept<'a> {
    /// Keeps results in `store`.
    #[must_use]
    pub const fn of(store: Option<&'a Store>) -> Self {
        Self { store, build: OnceLock::new() }
    }

    /// Returns the key of a result that depends on `parts`; `None` if nothing is kept.
    pub(super) fn key(&self, parts: &[String]) -> Option<String> {
        self.store?;
        let read = || Some(store::sha256(&std::fs::read(std::env::current_exe().ok()?).ok()?));
        let build = self.build.get_or_init(read).as_ref()?;
        Some(store::sha256(format!("{build}\0{}", parts.join("\0")).as_bytes()))
    }

    /// Returns a kept result.
    pub(super) fn get<T: DeserializeOwned>(&self, kind: &str, key: Option<&String>) -> Option<T> {
        serde_json::from_slice(&self.store?.get(kind, key?)?).ok()
    }

    /// Keeps a result. A cache that cannot be written costs time, not the result.
    pub(super) fn put(&self, kind: &str, key: Option<&String>, result: &impl Serialize) {
        if let (Some(store), Some(key), Ok(bytes)) = (self.store, key, serde_json::to_vec(result)) {
            let _ = store.put(kind, key, &bytes);
        }
    }
}
