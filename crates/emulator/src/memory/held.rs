//! A region that has one owner, or that several views of memory share until one of them writes it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::memory::global::Region;

/// A region, owned or shared.
#[derive(Debug, Clone)]
pub(crate) enum Held {
    Own(Region),
    /// Copied on the first write.
    Shared(Arc<Region>),
}

impl Held {
    /// Makes clones share the bytes.
    pub(crate) fn share(&mut self) {
        if let Self::Own(region) = self {
            *self = Self::Shared(Arc::new(std::mem::take(region)));
        }
    }

    /// Restores ownership if no clone shares the region.
    pub(crate) fn unshare(&mut self) {
        if matches!(self, Self::Shared(region) if Arc::strong_count(region) == 1) {
            self.own();
        }
    }

    /// Restores ownership, copying the region only if a clone shares it.
    pub(crate) fn own(&mut self) -> &mut Region {
        if let Self::Shared(region) = self {
            *self = Self::Own(Arc::unwrap_or_clone(std::mem::take(region)));
        }
        match self {
            Self::Own(region) => region,
            // Unreachable: the region is owned by now.
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
