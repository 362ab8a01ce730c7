//! What a stream does with a word of memory: it writes it, or waits until it has a value. Work runs in the order of the calls, so that a
//! stream cannot wait for what is submitted later.
#![expect(unsafe_code, reason = "memory of the program")]

use crate::device::state::Device;
use crate::device::work::{CopyWork, Memory};
use crate::program::caller::called_function;
use crate::status::{Answer, Status};

/// A word of 4 or 8 bytes, and a value for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) at: u64,
    pub(crate) value: u64,
    pub(crate) size: usize,
}

/// What a wait compares (`CUstreamWaitValue_flags`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The word has reached the value, in cyclic order.
    Reached,
    Equal,
    /// It has a bit of the value.
    AnyBit,
    /// A bit is neither in it nor in the value.
    NoBit,
}

impl Condition {
    pub(crate) const fn from_number(number: u32) -> Result<Self, Status> {
        match number {
            0 => Ok(Self::Reached),
            1 => Ok(Self::Equal),
            2 => Ok(Self::AnyBit),
            3 => Ok(Self::NoBit),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Whether it holds for the content of a word of `size` bytes.
    const fn holds(self, held: u64, value: u64, size: usize) -> bool {
        match self {
            Self::Reached if size == 4 => (held as u32).wrapping_sub(value as u32).cast_signed() >= 0,
            Self::Reached => held.wrapping_sub(value).cast_signed() >= 0,
            Self::Equal => held == value,
            Self::AnyBit => held & value != 0,
            Self::NoBit if size == 4 => !((held | value) as u32) != 0,
            Self::NoBit => !(held | value) != 0,
        }
    }
}

/// An operation on a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordWork {
    Write(Word),
    Wait(Word, Condition),
}

impl Device {
    /// Runs an operation on a word.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`] if the word is not there; [`Status::NOT_SUPPORTED`] for a wait that would not end before a later call.
    pub(crate) fn perform_on_word(&mut self, work: WordWork) -> Answer {
        match work {
            WordWork::Write(Word { at, value, size }) => {
                let bytes = value.to_le_bytes();
                let copy = CopyWork::plain(at, bytes.as_ptr() as u64, size);
                // SAFETY: the bytes live during the copy; the other side is of the device, or of memory that it shares.
                unsafe { self.copy_box(&copy.between(Memory::Device, Memory::Any)) }
            }
            WordWork::Wait(Word { at, value, size }, condition) => {
                let mut bytes = [0u8; 8];
                let copy = CopyWork::plain(bytes.as_mut_ptr() as u64, at, size);
                // SAFETY: as above.
                unsafe { self.copy_box(&copy.between(Memory::Any, Memory::Device))? };
                if condition.holds(u64::from_le_bytes(bytes), value, size) {
                    return Ok(());
                }
                self.miss(&format!(
                    "{}: the stream waits for a word that is written later, and work runs in the order of the calls; write it before, \
                     or let streams wait for events",
                    called_function()
                ));
                Err(Status::NOT_SUPPORTED)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_the_header() {
        use Condition::{AnyBit, Equal, NoBit, Reached};
        for (condition, held, value, size, holds) in [
            (Reached, 5, 5, 4, true),
            (Reached, 4, 5, 4, false),
            (Reached, 1, 0xFFFF_FFFF, 4, true),
            (Reached, 1, 0xFFFF_FFFF, 8, false),
            (Reached, 0, u64::MAX, 8, true),
            (Equal, 7, 7, 8, true),
            (Equal, 7, 6, 4, false),
            (AnyBit, 6, 2, 4, true),
            (AnyBit, 6, 1, 4, false),
            (NoBit, 0xFFFF_0000, 0xFFFF, 4, false),
            (NoBit, 0xFFFF_0000, 0xFFFF, 8, true),
            (NoBit, 9, 0, 4, true),
        ] {
            assert_eq!(
                condition.holds(held, value, size),
                holds,
                "{condition:?} {held:#x} {value:#x} {size}"
            );
        }
    }
}
