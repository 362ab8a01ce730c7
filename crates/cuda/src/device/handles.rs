//! Handles: numbers that the program treats as pointers.

/// A number that the program treats as a pointer; its upper half tells the kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handle {
    Module = 1,
    Function = 2,
    Graph = 3,
    Node = 4,
    Instance = 5,
    Array = 6,
    Mipmap = 7,
    Texture = 8,
    Link = 9,
    Physical = 10,
    UserObject = 11,
}

const HANDLE: u64 = 0x0057_0000_0000_0000;

impl Handle {
    pub(crate) fn make(self, index: usize) -> u64 {
        HANDLE | (self as u64) << 40 | (index as u64 + 1) << 4
    }

    pub(crate) fn index(self, handle: u64) -> Option<usize> {
        let low = handle.checked_sub(HANDLE | (self as u64) << 40)?;
        if low >> 40 != 0 || !low.is_multiple_of(16) { None } else { (low as usize >> 4).checked_sub(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_say_what_they_are_of() {
        for index in [0, 1, 77_000] {
            let handle = Handle::Function.make(index);
            assert_eq!(Handle::Function.index(handle), Some(index));
            assert_eq!(Handle::Module.index(handle), None);
        }
        assert_eq!(Handle::Function.index(0x7fff_0000_1230), None);
    }
}
