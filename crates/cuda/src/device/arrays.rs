//! CUDA arrays: memory whose layout only the device knows. Here it is the plain one: texels in rows, rows in slices, layers and faces one
//! after the other, mipmap levels one after the other.

use std::collections::HashMap;

use emulator::texture::Image;

use crate::device::handles::Handle;
use crate::status::Status;

/// The size of an array in its creation: 0 in dimensions that it lacks.
pub(crate) type Size = [usize; 3];

/// An array, or all levels of a mipmapped one.
#[derive(Debug, Clone)]
pub(crate) struct Array {
    pub(crate) image: Image,
    pub(crate) size: Size,
    pub(crate) flags: u32,
    /// The address of its memory; `None` if it is a level of a mipmapped array, which owns the memory.
    pub(crate) owned: Option<u64>,
    /// The handles of its levels that the program has asked for.
    pub(crate) level_handles: Vec<u64>,
}

/// The arrays of the program.
#[derive(Debug, Default)]
pub(crate) struct Arrays {
    known: HashMap<u64, Array>,
    made: usize,
}

impl Arrays {
    /// The array of a handle.
    pub(crate) fn get(&self, array: u64) -> Result<&Array, Status> {
        self.known.get(&array).ok_or(Status::INVALID_VALUE)
    }

    /// Forgets an array.
    pub(crate) fn remove(&mut self, array: u64) -> Option<Array> {
        self.known.remove(&array)
    }

    /// Notes that the program has a handle of a level.
    pub(crate) fn add_level(&mut self, mipmap: u64, level: u64) {
        if let Some(whole) = self.known.get_mut(&mipmap) {
            whole.level_handles.push(level);
        }
    }

    /// Adds an array; returns its handle.
    pub(crate) fn insert(&mut self, kind: Handle, array: Array) -> u64 {
        let handle = kind.make(self.made);
        self.made += 1;
        self.known.insert(handle, array);
        handle
    }
}
