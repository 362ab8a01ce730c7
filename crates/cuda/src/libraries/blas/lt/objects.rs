//! The descriptors of cublasLt: attributes, packed behind a tag. Those that `Create` makes lie on the heap of this library, those of
//! `Init` in memory of the program, which may copy them.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::super::handle::{Answer, Failure, refused};
use crate::program::caller::called_function;
use crate::program::pointers::{Out, host_bytes, put_host_bytes};

/// An attribute: its number in the header, its bytes, and its value at first.
pub(super) struct Attribute {
    number: u32,
    size: usize,
    first: u64,
}

const fn word(number: u32, first: u32) -> Attribute {
    Attribute { number, size: 4, first: first as u64 }
}

const fn long(number: u32, first: u64) -> Attribute {
    Attribute { number, size: 8, first }
}

/// A kind of descriptor.
pub(super) struct Kind {
    tag: u32,
    attributes: &'static [Attribute],
    /// Numbers of attributes that the header has and that are not served.
    unserved: &'static [u32],
}

/// `cublasLtMatrixLayoutOpaque_t`: 8 words in CUDA 12, so that the attributes of grouped matrices have no room.
pub(super) static LAYOUT: Kind = Kind {
    tag: 0xB1A5_0001,
    attributes: &[
        word(layout::TYPE, 0),
        word(layout::ORDER, 0),
        long(layout::ROWS, 0),
        long(layout::COLUMNS, 0),
        long(layout::LEADING, 0),
        word(layout::BATCH_COUNT, 1),
        long(layout::BATCH_STRIDE, 0),
        long(layout::PLANE_OFFSET, 0),
        word(layout::BATCH_MODE, 0),
    ],
    unserved: &[9, 10, 11, 12, 13],
};

/// Numbers of `cublasLtMatrixLayoutAttribute_t`.
pub(super) mod layout {
    pub(in super::super) const TYPE: u32 = 0;
    pub(in super::super) const ORDER: u32 = 1;
    pub(in super::super) const ROWS: u32 = 2;
    pub(in super::super) const COLUMNS: u32 = 3;
    pub(in super::super) const LEADING: u32 = 4;
    pub(in super::super) const BATCH_COUNT: u32 = 5;
    pub(in super::super) const BATCH_STRIDE: u32 = 6;
    pub(in super::super) const PLANE_OFFSET: u32 = 7;
    pub(in super::super) const BATCH_MODE: u32 = 8;
}

/// `cublasLtMatmulDescOpaque_t`: 32 words.
pub(super) static MATMUL: Kind = Kind {
    tag: 0xB1A5_0002,
    attributes: &[
        word(matmul::COMPUTE, 0),
        word(matmul::SCALE, 0),
        word(matmul::POINTER_MODE, 0),
        word(matmul::OPERATIONS[0], 0),
        word(matmul::OPERATIONS[1], 0),
        word(matmul::OPERATION_C, 0),
        word(matmul::FILL, matmul::FULL),
        word(matmul::EPILOGUE, 1),
        long(matmul::BIAS, 0),
        long(matmul::BIAS_STRIDE, 0),
        long(11, 0),
        long(12, 0),
        long(13, 0),
        long(14, 0),
        word(15, 0),
        long(17, 0),
        long(18, 0),
        long(19, 0),
        long(20, 0),
        long(21, 0),
        word(22, u32::MAX),
        long(23, 0),
        long(24, 0),
        Attribute { number: 25, size: 1, first: 0 },
        word(matmul::BIAS_TYPE, u32::MAX),
        word(27, 0),
        word(28, 0),
        long(29, 0),
        long(30, 0),
        word(31, 0),
        word(32, 0),
        word(33, 0),
        word(34, 0),
        word(35, 0),
        long(36, 0),
        word(37, 0),
        long(38, 0),
        long(39, 0),
        long(40, 0),
        word(41, 0x8000),
    ],
    unserved: &[],
};

/// Numbers of `cublasLtMatmulDescAttributes_t`.
pub(super) mod matmul {
    pub(in super::super) const COMPUTE: u32 = 0;
    pub(in super::super) const SCALE: u32 = 1;
    pub(in super::super) const POINTER_MODE: u32 = 2;
    pub(in super::super) const OPERATIONS: [u32; 2] = [3, 4];
    pub(in super::super) const OPERATION_C: u32 = 5;
    pub(in super::super) const FILL: u32 = 6;
    /// `CUBLAS_FILL_MODE_FULL`
    pub(in super::super) const FULL: u32 = 2;
    pub(in super::super) const EPILOGUE: u32 = 7;
    pub(in super::super) const BIAS: u32 = 8;
    pub(in super::super) const BIAS_STRIDE: u32 = 10;
    pub(in super::super) const BIAS_TYPE: u32 = 26;
}

/// `cublasLtMatmulPreferenceOpaque_t`: 8 words in CUDA 12.
pub(super) static PREFERENCE: Kind = Kind {
    tag: 0xB1A5_0003,
    attributes: &[
        word(0, 0),
        long(1, 0),
        word(3, 7),
        word(5, 256),
        word(6, 256),
        word(7, 256),
        word(8, 256),
        word(9, 0),
        long(12, u64::MAX),
        word(13, 0),
        word(14, 0),
        word(15, 0),
    ],
    unserved: &[],
};

/// `cublasLtMatrixTransformDescOpaque_t`: 8 words. Its attributes are the type of factors, the pointer mode and two operations.
pub(super) static TRANSFORM: Kind =
    Kind { tag: 0xB1A5_0004, attributes: &[word(0, 0), word(1, 0), word(2, 0), word(3, 0)], unserved: &[] };

/// `cublasLtMatmulAlgo_t`: 8 words. There is one algorithm, and its configuration is kept without effect.
pub(super) static ALGORITHM: Kind = Kind {
    tag: 0xB1A5_0005,
    attributes: &[
        word(0, 0),
        word(1, 0),
        word(2, 1),
        word(3, 0),
        word(4, 0),
        word(5, 0),
        word(6, 0),
        Attribute { number: 7, size: 2, first: 0 },
        Attribute { number: 8, size: 2, first: 0 },
    ],
    unserved: &[],
};

const TAG: usize = 4;

impl Kind {
    /// The bytes of a descriptor.
    fn len(&self) -> usize {
        TAG + self.attributes.iter().map(|attribute| attribute.size).sum::<usize>()
    }

    /// Where an attribute lies, and its bytes.
    fn place(&self, number: u32) -> Result<(usize, usize), Failure> {
        if self.unserved.contains(&number) {
            return Err(refused(called_function(), "grouped matrices; call cublasLtMatmul for each group"));
        }
        let mut at = TAG;
        for attribute in self.attributes {
            if attribute.number == number {
                return Ok((at, attribute.size));
            }
            at += attribute.size;
        }
        Err(Failure::INVALID_VALUE)
    }

    /// A new descriptor with these values.
    pub(super) fn made(&self, values: &[(u32, u64)]) -> Vec<u8> {
        let mut bytes = self.tag.to_le_bytes().to_vec();
        for Attribute { number, size, first } in self.attributes {
            let given = values.iter().find(|(of, _)| of == number).map_or(*first, |(_, value)| *value);
            bytes.extend_from_slice(&given.to_le_bytes()[..*size]);
        }
        bytes
    }

    /// Makes a descriptor in `len` bytes of the program.
    pub(super) fn init(&self, address: u64, len: usize, values: &[(u32, u64)]) -> Answer {
        if address == 0 {
            return Err(Failure::INVALID_VALUE);
        }
        if len < self.len() {
            return Err(Failure::ALLOC_FAILED);
        }
        // SAFETY: the program has this many bytes there.
        Ok(unsafe { put_host_bytes(address, &self.made(values)) }?)
    }

    /// Makes a descriptor on the heap.
    pub(super) fn create(&self, place: Out<u64>, values: &[(u32, u64)]) -> Answer {
        if place.is_null() {
            return Err(Failure::INVALID_VALUE);
        }
        let address = Box::into_raw(Box::new([0u64; WORDS])) as u64;
        live().insert(address);
        self.init(address, 8 * WORDS, values)?;
        Ok(place.set(address)?)
    }

    /// Destroys a descriptor that [`Kind::create`] made.
    pub(super) fn destroy(&self, address: u64) -> Answer {
        Object::of_kind(self, live().get(&address).copied().unwrap_or(0))?;
        if live().remove(&address) {
            // SAFETY: `create` has made this box, and no descriptor is destroyed twice.
            drop(unsafe { Box::from_raw(address as *mut [u64; WORDS]) });
        }
        Ok(())
    }

    /// Sets an attribute to the `len` bytes in a buffer.
    pub(super) fn set(&self, address: u64, number: u32, buffer: u64, len: usize) -> Answer {
        Object::of_kind(self, address)?;
        let (at, size) = self.place(number)?;
        if buffer == 0 || len != size {
            return Err(Failure::INVALID_VALUE);
        }
        // SAFETY: the header demands a buffer of this many bytes; the descriptor was checked.
        Ok(unsafe { put_host_bytes(address + at as u64, host_bytes(buffer, len)?) }?)
    }

    /// Writes an attribute to a buffer.
    pub(super) fn get(&self, address: u64, number: u32, buffer: (u64, usize), written: Out<usize>) -> Answer {
        let object = Object::of_kind(self, address)?;
        let (at, size) = self.place(number)?;
        if buffer.1 != 0 && buffer.1 != size {
            return Err(Failure::INVALID_VALUE);
        }
        put(&object.bytes[at..at + size], buffer, written)
    }
}

/// Writes a value to a buffer that is at least as long, or says how long it has to be.
pub(super) fn put(value: &[u8], (buffer, len): (u64, usize), written: Out<usize>) -> Answer {
    if len == 0 {
        return Ok(written.set(value.len())?);
    }
    if buffer == 0 || len < value.len() {
        return Err(Failure::INVALID_VALUE);
    }
    // SAFETY: the header demands a buffer of `len` bytes.
    unsafe { put_host_bytes(buffer, value) }?;
    written.set_if(value.len());
    Ok(())
}

/// The words of a descriptor on the heap: the most that any kind has.
const WORDS: usize = 32;

/// The addresses of descriptors on the heap.
static LIVE: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);

fn live() -> MutexGuard<'static, HashSet<u64>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A descriptor, as it is in a call.
pub(super) struct Object<'a> {
    kind: &'a Kind,
    bytes: Vec<u8>,
}

impl<'a> Object<'a> {
    /// The descriptor of a kind at an address of the program.
    pub(super) fn of_kind(kind: &'a Kind, address: u64) -> Result<Self, Failure> {
        // SAFETY: the header demands the address of a descriptor, whose tag says whether it is one.
        let bytes = unsafe { host_bytes(address, TAG) }?;
        if bytes != kind.tag.to_le_bytes() {
            return Err(Failure::INVALID_VALUE);
        }
        // SAFETY: by its tag, it is a descriptor of this kind.
        let bytes = unsafe { host_bytes(address, kind.len()) }?.to_vec();
        Ok(Self { kind, bytes })
    }

    /// An attribute of up to 8 bytes.
    pub(super) fn long(&self, number: u32) -> Result<u64, Failure> {
        let (at, size) = self.kind.place(number)?;
        let mut value = [0; 8];
        value[..size].copy_from_slice(&self.bytes[at..at + size]);
        Ok(u64::from_le_bytes(value))
    }

    /// An attribute of up to 4 bytes.
    pub(super) fn word(&self, number: u32) -> Result<u32, Failure> {
        Ok(self.long(number)? as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_have_room() {
        for (kind, words) in [(&LAYOUT, 8), (&MATMUL, 32), (&PREFERENCE, 8), (&TRANSFORM, 8), (&ALGORITHM, 8)]
        {
            assert!(kind.len() <= 8 * words && kind.len() <= 8 * WORDS, "{:#x}", kind.tag);
        }
    }
}
