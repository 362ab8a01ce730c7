//! A region that has one owner, or that several views of memory read until one of them writes it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::memory::Region;

/// A region as a view of memory has it.
#[derive(Debug, Clone)]
pub(super) enum Held {
    Own(Region),
    /// Copied by the first write.
    Shared(Arc<Region>),
}

impl Held {
    /// Lets clones read the same bytes.
    pub(super) fn share(&mut self) {
        if let Self::Own(region) = self {
            *self = Self::Shared(Arc::new(std::mem::take(region)));
        }
    }

    /// Makes it the owner again where no clone is left.
    pub(super) fn unshare(&mut self) {
        if matches!(self, Self::Shared(region) if Arc::strong_count(region) == 1) {
            self.own();
        }
    }

    /// Makes it the owner again, without a copy where no clone is left.
    pub(super) fn own(&mut self) -> &mut Region {
        if let Self::Shared(region) = self {
            *self = Self::Own(Arc::unwrap_or_clone(std::mem::take(region)));
        }
        match self {
            Self::Own(region) => region,
            // Not reached: it is the owner by now.
            Self::Shared(region) => Arc::make_mut(region),
        }
    }
}

impl Deref for Held {
    type Target = Region;

    #[inline(always)]
    fn deref(&self) -> &Region {
        match self {
            Self::Own(region) => region,
            Self::Shared(region) => region,
        }
    }
}

impl DerefMut for Held {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Region {
        match self {
            Self::Own(region) => region,
            Self::Shared(_) => self.own(),
        }
    }
}
