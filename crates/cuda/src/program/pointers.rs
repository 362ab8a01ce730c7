//! Pointers that the program passes, and what is behind them. An entry point receives [`Out`] and [`In`] instead of raw pointers: a null
//! pointer is an error, and every other one is trusted, as its header demands.
#![expect(unsafe_code, reason = "pointers of a C program")]

use std::ffi::{CStr, c_char};

use crate::status::{Answer, Status};

/// A pointer to which the caller wants a result written: null, or the place of a `T` that stays there during the call. The caller of an
/// entry point promises this of its arguments, and who makes one from an address ([`Out::at`]) promises it there.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

// SAFETY: a place is used by the thread that received it, or under a lock.
unsafe impl<T> Send for Out<T> {}

impl<T> Out<T> {
    /// A null pointer.
    pub(crate) const fn none() -> Self {
        Self(std::ptr::null_mut())
    }

    /// A place owned by this library.
    pub(crate) fn from_place(place: &mut T) -> Self {
        Self(place)
    }

    /// The place at an address.
    ///
    /// # Safety
    /// The address is null or that of a place for a `T`.
    pub(crate) unsafe fn at(address: u64) -> Self {
        Self(address as *mut T)
    }

    /// Returns this place for reading.
    pub(crate) const fn input(self) -> In<T> {
        In(self.0)
    }

    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes the result; a null pointer is an error.
    pub(crate) fn set(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the API promises a pointer to a place for a T, which is unaligned in packed structs.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result unless the pointer is null.
    pub(crate) fn set_if(self, value: T) {
        if !self.0.is_null() {
            let _ = self.set(value);
        }
    }

    /// The place of element `n`; null if the list is.
    ///
    /// # Safety
    /// The list has such an element.
    pub(crate) unsafe fn nth(self, n: usize) -> Self {
        if self.0.is_null() { self } else { Self(self.0.wrapping_add(n)) }
    }
}

/// A pointer to an input of the caller: null, or the address of a `T`, with the promise of [`Out`].
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// A value owned by this library.
    pub(crate) fn from_value(value: &T) -> Self {
        Self(value)
    }

    /// The value at an address.
    ///
    /// # Safety
    /// The address is null or that of a `T`.
    pub(crate) unsafe fn at(address: u64) -> Self {
        Self(address as *const T)
    }

    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    /// Reads the input; a null pointer is an error.
    pub(crate) fn get(self) -> Result<T, Status> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the API promises a pointer to a T.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads element `n`.
    ///
    /// # Safety
    /// The list has such an element.
    pub(crate) unsafe fn nth(self, n: usize) -> Result<T, Status> {
        if self.0.is_null() { Err(Status::INVALID_VALUE) } else { Self(self.0.wrapping_add(n)).get() }
    }
}

/// A C string of the caller.
pub(crate) type Text = In<c_char>;

impl Text {
    /// Reads the string.
    pub(crate) fn text(self) -> Result<String, Status> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the API promises a string that ends in NUL.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

/// The bytes of a host buffer, for a copy.
///
/// # Safety
/// The program has this many bytes at the address, which is null or no device memory, and does not free them meanwhile.
pub(crate) unsafe fn host_bytes<'a>(address: u64, len: usize) -> Result<&'a [u8], Status> {
    if len == 0 {
        return Ok(&[]);
    }
    if address == 0 {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: as promised by the caller; if the program is wrong about its own memory, the copy faults as `memcpy` does.
    Ok(unsafe { std::slice::from_raw_parts(address as *const u8, len) })
}

/// Writes bytes to a host buffer.
///
/// # Safety
/// As [`host_bytes`].
pub(crate) unsafe fn put_host_bytes(address: u64, bytes: &[u8]) -> Answer {
    if bytes.is_empty() {
        return Ok(());
    }
    if address == 0 {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: as for `host_bytes`; `copy` allows overlap.
    unsafe { std::ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    Ok(())
}
