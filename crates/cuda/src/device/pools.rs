//! Memory pools, which only store their attributes: memory is released as soon as it is freed.

use std::collections::HashMap;
use std::ffi::c_int;

use crate::status::{Answer, Status};

/// The default pool of the device.
const DEFAULT: u64 = 16;

/// Pools by handle.
#[derive(Debug)]
pub(crate) struct Pools {
    next: u64,
    attributes: HashMap<u64, HashMap<c_int, u64>>,
}

impl Default for Pools {
    fn default() -> Self {
        Self { next: DEFAULT, attributes: HashMap::from([(DEFAULT, HashMap::new())]) }
    }
}

impl Pools {
    pub(crate) fn create(&mut self) -> u64 {
        self.next += 16;
        self.attributes.insert(self.next, HashMap::new());
        self.next
    }

    pub(crate) fn known(&self, pool: u64) -> Answer {
        if self.attributes.contains_key(&pool) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// Destroys a pool; the default pool cannot be destroyed.
    pub(crate) fn destroy(&mut self, pool: u64) -> Answer {
        self.known(pool)?;
        if pool == DEFAULT {
            return Err(Status::INVALID_VALUE);
        }
        self.attributes.remove(&pool);
        Ok(())
    }

    pub(crate) fn set(&mut self, pool: u64, attribute: c_int, value: u64) -> Answer {
        self.attributes.get_mut(&pool).ok_or(Status::INVALID_VALUE)?.insert(attribute, value);
        Ok(())
    }

    /// Returns an attribute; the three kinds of reuse (1 to 3) are enabled by default.
    pub(crate) fn get(&self, pool: u64, attribute: c_int) -> Result<u64, Status> {
        let held = self.attributes.get(&pool).ok_or(Status::INVALID_VALUE)?;
        Ok(held.get(&attribute).copied().unwrap_or(u64::from(attribute <= 3)))
    }
}
