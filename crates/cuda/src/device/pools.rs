//! Memory pools, which only store their attributes: memory is released as soon as it is freed.

use std::collections::{BTreeSet, HashMap};
use std::ffi::c_int;

use emulator::events::MOST_GPUS;

use crate::status::{Answer, Status};

/// The distance between the handles of pools.
const STEP: u64 = 16;

/// `cudaMemPoolAttrReservedMemCurrent`, `ReservedMemHigh`, `UsedMemCurrent` and `UsedMemHigh`.
const RESERVED: c_int = 5;
const MOST_RESERVED: c_int = 6;
const USED: c_int = 7;
const MOST_USED: c_int = 8;

/// The bytes that a pool reserves at a time, as on an H200; what is freed it reserves no longer.
const RESERVED_AT_ONCE: u64 = 32 << 20;

/// The default pool of a GPU.
pub(crate) const fn default_of(gpu: u8) -> u64 {
    STEP * (gpu as u64 + 1)
}

/// A pool.
#[derive(Debug, Default)]
struct Pool {
    gpu: u8,
    attributes: HashMap<c_int, u64>,
    /// Bytes allocated from it now, and the most in use and reserved since the program has reset these.
    used: u64,
    most_used: u64,
    most_reserved: u64,
    /// The other GPUs that have access.
    others: BTreeSet<u8>,
}

/// Pools by handle.
#[derive(Debug)]
pub(crate) struct Pools {
    next: u64,
    held: HashMap<u64, Pool>,
    /// The pools that GPUs use instead of their default ones.
    current: HashMap<u8, u64>,
}

impl Default for Pools {
    fn default() -> Self {
        let pool = |gpu| (default_of(gpu), Pool { gpu, ..Pool::default() });
        Self {
            next: default_of(MOST_GPUS),
            held: (0..MOST_GPUS).map(pool).collect(),
            current: HashMap::new(),
        }
    }
}

impl Pools {
    /// Makes a pool of a GPU; returns its handle.
    pub(crate) fn create(&mut self, gpu: u8) -> u64 {
        self.next += STEP;
        self.held.insert(self.next, Pool { gpu, ..Pool::default() });
        self.next
    }

    fn get(&self, pool: u64) -> Result<&Pool, Status> {
        self.held.get(&pool).ok_or(Status::INVALID_VALUE)
    }

    /// The GPU of a pool.
    pub(crate) fn gpu(&self, pool: u64) -> Result<u8, Status> {
        self.get(pool).map(|pool| pool.gpu)
    }

    pub(crate) fn known(&self, pool: u64) -> Answer {
        self.get(pool).map(drop)
    }

    /// The pool from which a GPU's stream-ordered allocations come.
    pub(crate) fn current(&self, gpu: u8) -> u64 {
        self.current.get(&gpu).copied().unwrap_or(default_of(gpu))
    }

    /// Sets the pool from which a GPU's stream-ordered allocations come.
    pub(crate) fn set_current(&mut self, gpu: u8, pool: u64) -> Answer {
        if self.gpu(pool)? != gpu {
            return Err(Status::INVALID_VALUE);
        }
        self.current.insert(gpu, pool);
        Ok(())
    }

    /// Whether a GPU may access memory of a pool.
    pub(crate) fn is_for(&self, pool: u64, gpu: u8) -> bool {
        self.get(pool).is_ok_and(|pool| pool.gpu == gpu || pool.others.contains(&gpu))
    }

    /// Gives a GPU access to memory of a pool, or ends it; that of its own GPU cannot end.
    pub(crate) fn set_access(&mut self, pool: u64, gpu: u8, allowed: bool) -> Answer {
        let pool = self.held.get_mut(&pool).ok_or(Status::INVALID_VALUE)?;
        match (allowed, pool.gpu == gpu) {
            (true, true) => {}
            (false, true) => return Err(Status::INVALID_VALUE),
            (true, false) => _ = pool.others.insert(gpu),
            (false, false) => _ = pool.others.remove(&gpu),
        }
        Ok(())
    }

    /// Destroys a pool; a default pool cannot be destroyed.
    pub(crate) fn destroy(&mut self, pool: u64) -> Answer {
        self.known(pool)?;
        if pool <= default_of(MOST_GPUS) {
            return Err(Status::INVALID_VALUE);
        }
        self.held.remove(&pool);
        self.current.retain(|_, current| *current != pool);
        Ok(())
    }

    pub(crate) fn set(&mut self, pool: u64, attribute: c_int, value: u64) -> Answer {
        let pool = self.held.get_mut(&pool).ok_or(Status::INVALID_VALUE)?;
        match attribute {
            // The high marks can be reset alone.
            MOST_RESERVED if value == 0 => pool.most_reserved = pool.used,
            MOST_USED if value == 0 => pool.most_used = pool.used,
            RESERVED | USED | MOST_RESERVED | MOST_USED => return Err(Status::INVALID_VALUE),
            _ => _ = pool.attributes.insert(attribute, value),
        }
        Ok(())
    }

    /// Bytes are allocated from a pool.
    pub(crate) fn take(&mut self, pool: u64, bytes: u64) {
        if let Some(pool) = self.held.get_mut(&pool) {
            pool.used += bytes;
            pool.most_used = pool.most_used.max(pool.used);
            pool.most_reserved = pool.most_reserved.max(pool.used);
        }
    }

    /// Bytes that were allocated from a pool are freed.
    pub(crate) fn give_back(&mut self, pool: u64, bytes: u64) {
        if let Some(pool) = self.held.get_mut(&pool) {
            pool.used = pool.used.saturating_sub(bytes);
        }
    }

    /// Returns an attribute; the three kinds of reuse (1 to 3) are enabled by default.
    pub(crate) fn attribute(&self, pool: u64, attribute: c_int) -> Result<u64, Status> {
        let pool = self.get(pool)?;
        Ok(match attribute {
            USED => pool.used,
            RESERVED => pool.used.next_multiple_of(RESERVED_AT_ONCE),
            MOST_RESERVED => pool.most_reserved.next_multiple_of(RESERVED_AT_ONCE),
            MOST_USED => pool.most_used,
            _ => pool.attributes.get(&attribute).copied().unwrap_or(u64::from(attribute <= 3)),
        })
    }
}
