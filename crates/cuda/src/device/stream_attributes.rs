//! Attributes of streams. They concern caches, priorities and synchronization and change no result: they are stored and returned.
//! Which ones there are, their defaults and what is refused was measured on an H200 with driver 580.

use crate::status::Status;

/// The most bytes that an attribute has.
const MOST_BYTES: usize = 32;

/// An attribute of streams (`CUstreamAttrID`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StreamAttribute {
    AccessPolicyWindow,
    Synchronization,
    Priority,
    /// Which domain of memory synchronization a launch's logical one is.
    DomainMap,
    Domain,
}

impl StreamAttribute {
    pub(crate) const fn from_number(number: u32) -> Result<Self, Status> {
        match number {
            1 => Ok(Self::AccessPolicyWindow),
            3 => Ok(Self::Synchronization),
            8 => Ok(Self::Priority),
            9 => Ok(Self::DomainMap),
            10 => Ok(Self::Domain),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// How many bytes of the union belong to it.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::AccessPolicyWindow => MOST_BYTES,
            Self::Synchronization | Self::Priority | Self::Domain => 4,
            Self::DomainMap => 2,
        }
    }

    /// Its value in a stream for which nothing was set.
    pub(crate) fn unset(self) -> Vec<u8> {
        match self {
            Self::Synchronization => (-1i32).to_le_bytes().to_vec(),
            Self::DomainMap => vec![0, 1],
            Self::AccessPolicyWindow | Self::Priority | Self::Domain => vec![0; self.size()],
        }
    }

    /// Checks a value that the program sets.
    pub(crate) fn check(self, value: &[u8]) -> Result<(), Status> {
        let number = value.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
        let is_valid = match self {
            // Automatic, spinning, yielding, blocking.
            Self::Synchronization => (1..=4).contains(&number),
            Self::Domain => (0..=1).contains(&number),
            Self::AccessPolicyWindow | Self::Priority | Self::DomainMap => true,
        };
        if is_valid { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }
}
