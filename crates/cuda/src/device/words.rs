//! What a stream does with a word of memory: it writes it, or waits until it has a value. Work runs in the order of the calls, so that a
//! stream cannot wait for what is submitted later.
#![expect(unsafe_code, reason = "memory of the program")]

use crate::device::state::Device;
use crate::device::work::{CopyWork, Memory, Word, WordWork};
use crate::program::caller::called_function;
use crate::status::{Answer, Status};

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
